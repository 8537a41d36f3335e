//! HTTP/1 as clients speak it: well, slowly, in pieces, too much at once, and with intent.

use larder_testkit::{Answer, Client, ClientError, FastCgiOrigin, FastCgiReply, Framing, Origin, PATIENCE};

use crate::site::{Setup, Site, eventually, get, get_on, php, text};

/// Answers of larder's own, an echo of what was asked, and limits that a test can reach.
const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        client_max_body_size 1k;
        large_client_header_buffers 2 1k;
        location / { return 200 $request_method:$request_uri; }
        location /x/ { return 204; }
    }";

/// `{ORIGIN}` by HTTP, and `{FCGI}` by FastCGI under `/f/`.
const ORIGINS: &str = "
    server {
        listen 127.0.0.1:{PORT};
        {MORE}
        location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
        location /f/ { fastcgi_pass {FCGI}; {PARAMS} }
    }";

fn origins(more: &str) -> (Origin, FastCgiOrigin, Site) {
    let (origin, fcgi) = (Origin::start().unwrap(), FastCgiOrigin::start_tcp().unwrap());
    origin.answer("*", Answer::ok("ok"));
    fcgi.answer("*", FastCgiReply::html("ok"));
    let setup = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).name("MORE", more);
    let site = setup.start(ORIGINS);
    (origin, fcgi, site)
}

#[test]
fn a_connection_serves_one_request_after_the_other() {
    let site = Site::start(SITE);
    let mut client = site.client();
    for number in 0..100 {
        let response = get_on(&mut client, &format!("/{number}"));
        assert_eq!(text(&response), format!("GET:/{number}"));
        assert!(response.keeps_connection());
    }
}

#[test]
fn requests_in_one_piece_are_answered_in_order() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            location / { return 200 $request_uri; }
            location /o/ { proxy_pass http://{ORIGIN}; }
         }",
    );
    // Every other one has to wait for an origin, and the ones behind it must not overtake.
    let targets: Vec<String> =
        (0..10).map(|number| if number % 2 == 0 { format!("/{number}") } else { format!("/o/{number}") }).collect();
    for target in &targets {
        origin.answer(target.as_str(), Answer::ok(target.clone()));
    }
    let mut client = site.client();
    client.send(targets.iter().map(|target| get(target)).collect::<String>().as_bytes()).unwrap();
    for target in &targets {
        assert_eq!(text(&client.read_response("GET").unwrap()), *target);
    }
}

#[test]
fn requests_with_bodies_can_be_sent_in_one_piece_too() {
    let (origin, fcgi, site) = origins("");
    let mut client = site.client();
    client
        .send(
            b"POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc\
              POST /f/b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n0\r\n\r\n\
              GET /c HTTP/1.1\r\nHost: a\r\n\r\n",
        )
        .unwrap();
    for method in ["POST", "POST", "GET"] {
        assert_eq!(client.read_response(method).unwrap().status, 200);
    }
    assert_eq!(origin.requests()[0].body, b"abc");
    assert_eq!(fcgi.requests()[0].stdin, b"de");
    assert_eq!(origin.requests()[1].request_line, "GET /c HTTP/1.1");
}

#[test]
fn a_request_may_be_split_anywhere() {
    let (origin, _fcgi, site) = origins("");
    let request = b"POST /p?q HTTP/1.1\r\nHost: a\r\nX-A: b\r\nTransfer-Encoding: chunked\r\n\r\n3;e=f\r\nabc\r\n0\r\nT: v\r\n\r\n";
    let mut client = site.client();
    for split in 1..request.len() {
        let (first, second) = request.split_at(split);
        client.send(first).unwrap();
        client.send(second).unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 200, "split at {split}");
        assert_eq!(origin.requests()[split - 1].body, b"abc", "split at {split}");
    }
    for byte in request {
        client.send(&[*byte]).unwrap();
    }
    assert_eq!(client.read_response("POST").unwrap().status, 200, "byte by byte");
}

#[test]
fn a_chunked_body_reaches_fastcgi_with_its_length() {
    let (_origin, fcgi, site) = origins("");
    let mut client = site.client();
    let mut request = b"POST /f/p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    let mut body = Vec::new();
    for size in [1_usize, 15, 16, 4095, 4096, 65_536] {
        let piece = vec![b'a'; size];
        request.extend_from_slice(format!("{size:x}\r\n").as_bytes());
        request.extend_from_slice(&piece);
        request.extend_from_slice(b"\r\n");
        body.extend_from_slice(&piece);
    }
    request.extend_from_slice(b"0\r\n\r\n");
    client.send(&request).unwrap();
    assert_eq!(client.read_response("POST").unwrap().status, 200);
    let seen = &fcgi.requests()[0];
    assert_eq!(seen.param("CONTENT_LENGTH"), Some(body.len().to_string().as_str()));
    assert!(seen.stdin == body, "{} bytes", seen.stdin.len());
}

#[test]
fn a_chunked_body_reaches_an_http_origin_whole() {
    for more in ["", "proxy_request_buffering off;"] {
        let (origin, _fcgi, site) = origins(more);
        let mut client = site.client();
        client
            .send(b"POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n")
            .unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 200, "{more}");
        assert_eq!(origin.requests()[0].body, b"abcde", "{more}");
    }
}

#[test]
fn a_client_that_expects_to_be_told_is_told_to_go_on() {
    let (origin, fcgi, site) = origins("client_max_body_size 10;");
    for path in ["/p", "/f/p"] {
        let mut client = site.client();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        assert_eq!(client.read_response("POST").unwrap().status_line, "HTTP/1.1 100 Continue", "{path}");
        client.send(b"abc").unwrap();
        assert_eq!(client.read_response("POST").unwrap().status, 200, "{path}");
    }
    assert_eq!((&origin.requests()[0].body[..], &fcgi.requests()[0].stdin[..]), (&b"abc"[..], &b"abc"[..]));
    // What is refused anyway is not asked for.
    let refused =
        site.exchange("POST", "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(refused.status, 413);
}

#[test]
fn an_answer_before_the_body_that_was_not_asked_for_ends_the_connection() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::status("403 Forbidden"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            client_max_body_size 60;
            location / { return 200 at-once; }
            location /asks { auth_request /who; proxy_pass http://{ORIGIN}; }
            location /who { internal; proxy_pass http://{ORIGIN}; proxy_pass_request_body off; }
            location /large { proxy_pass http://{ORIGIN}; }
         }",
    );
    let next = "GET /hidden HTTP/1.1\r\nHost: a\r\n\r\n";
    let length = format!("Content-Length: {}", next.len());
    let long = "Content-Length: 61";
    let chunked = "Transfer-Encoding: chunked";
    // The client has its answer, so what it sends now may be a request: it must not pass for the body.
    for (path, framing, status) in [
        ("/", &*length, 200),
        ("/", chunked, 200),
        ("/asks", &*length, 403),
        ("/asks", chunked, 403),
        ("/large", long, 413),
    ] {
        let mut client = site.client();
        let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\n{framing}\r\nExpect: 100-continue\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        let response = client.read_response("POST").unwrap();
        assert_eq!((response.status, response.field("Connection")), (status, Some("close")), "{path} {framing}");
        let _ = client.send(next.as_bytes());
        assert!(client.read_to_end().unwrap().is_empty(), "{path} {framing}");
    }
    // Who has begun to send goes on, as does who speaks a version that knows no such field.
    let expect = "Expect: 100-continue";
    for (version, fields, first, rest) in [
        ("1.1", format!("Content-Length: 6\r\n{expect}"), "abc", "def"),
        ("1.1", format!("{chunked}\r\n{expect}"), "3\r\nab", "c\r\n0\r\n\r\n"),
        ("1.1", format!("Content-Length: 0\r\n{expect}"), "", ""),
        ("1.1", "Content-Length: 6".to_owned(), "", "abcdef"),
        ("1.0", format!("Content-Length: 6\r\n{expect}\r\nConnection: keep-alive"), "", "abcdef"),
    ] {
        let mut client = site.client();
        client.send(format!("POST / HTTP/{version}\r\nHost: a\r\n{fields}\r\n\r\n{first}").as_bytes()).unwrap();
        let response = client.read_response("POST").unwrap();
        assert_eq!((response.status, response.keeps_connection()), (200, true), "{version} {fields}");
        client.send(format!("{rest}{next}").as_bytes()).unwrap();
        assert_eq!(text(&client.read_response("GET").unwrap()), "at-once", "{version} {fields}");
    }
}

#[test]
fn what_is_too_large_is_refused() {
    let site = Site::start(SITE);
    let long = "a".repeat(2000);
    let many: String = (0..60).map(|number| format!("X-{number}: {}\r\n", "b".repeat(60))).collect();
    let enough: String = (0..40).map(|number| format!("X-{number}: {}\r\n", "b".repeat(60))).collect();
    for (request, status) in [
        (format!("GET /{long} HTTP/1.1\r\nHost: a\r\n\r\n"), 414),
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX-A: {long}\r\n\r\n"), 400),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1025\r\n\r\n".to_owned(), 413),
        (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "a".repeat(900)), 200),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{enough}\r\n"), 200),
    ] {
        let response = site.exchange("GET", &request);
        assert_eq!(response.status, status, "{}", &request[..60.min(request.len())]);
    }
}

#[test]
fn a_chunked_body_that_grows_too_large_is_refused() {
    let (origin, _fcgi, site) = origins("client_max_body_size 10;");
    let request =
        "POST /p HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n01234567\r\n8\r\n01234567\r\n0\r\n\r\n";
    assert_eq!(site.exchange("POST", request).status, 413);
    assert_eq!(origin.count(), 0);
}

#[test]
fn ambiguous_requests_are_refused_and_nothing_behind_them_is_read() {
    let site = Site::start(SITE);
    for head in [
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x3\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n",
        "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A : b\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\rc\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\0A: b\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n",
        "GET / HTTP/1.1\r\n",
        "GET / HTTP/1.1 \r\nHost: a\r\nX: \0\r\n",
        "G\x01T / HTTP/1.1\r\nHost: a\r\n",
    ] {
        let mut client = site.client();
        let smuggled = get("/smuggled");
        client.send(format!("{head}\r\n{smuggled}").as_bytes()).unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!(response.status, 400, "{head:?}");
        assert!(!response.keeps_connection(), "{head:?}");
        let rest = client.read_to_end().unwrap_or_default();
        assert_eq!(larder_testkit::text_of(&rest), "", "{head:?}");
    }
    let coding =
        site.exchange("POST", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
    assert_eq!((coding.status, coding.keeps_connection()), (501, false));
}

#[test]
fn a_broken_chunked_body_never_reaches_an_origin() {
    let (origin, fcgi, site) = origins("");
    for path in ["/p", "/f/p"] {
        for body in [
            "x\r\n",
            "3\r\nabcd\r\n0\r\n\r\n",
            "3\nabc\r\n0\r\n\r\nz",
            "-1\r\n",
            "fffffffffffffffff\r\n",
            "3\r\nabc0\r\n\r\n",
        ] {
            let mut client = site.client();
            let head = format!("POST {path} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(format!("{head}{body}").as_bytes()).unwrap();
            drop(client.finish());
            match client.read_response("POST") {
                Ok(response) => {
                    assert_eq!((response.status, response.keeps_connection()), (400, false), "{path} {body:?}")
                }
                Err(error) => assert!(matches!(error, ClientError::Closed), "{path} {body:?}: {error}"),
            }
        }
    }
    assert_eq!((origin.count(), fcgi.count()), (0, 0));
}

#[test]
fn http_1_0_gets_one_answer_unless_it_asks_for_more() {
    let (_origin, _fcgi, site) = origins("");
    for path in ["/p", "/f/p"] {
        let mut client = site.client();
        client.send(format!("GET {path} HTTP/1.0\r\n\r\n").as_bytes()).unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!((response.status, text(&response)), (200, "ok".to_owned()), "{path}");
        assert_ne!(response.framing, Framing::Chunked, "{path}");
        assert!(!response.keeps_connection(), "{path}");
        assert!(client.is_closed_within(PATIENCE), "{path}");
    }
    let mut client = site.client();
    for _ in 0..3 {
        client.send(b"GET /p HTTP/1.0\r\nConnection: keep-alive\r\n\r\n").unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!((response.field("Connection"), text(&response)), (Some("keep-alive"), "ok".to_owned()));
    }
}

#[test]
fn silence_ends_a_connection_when_its_time_is_up() {
    let site = Site::start(
        "server {
            listen 127.0.0.1:{PORT};
            client_header_timeout 300ms; client_body_timeout 300ms; keepalive_timeout 300ms; lingering_close off;
            location / { return 200 x; }
            location /p { proxy_pass http://127.0.0.1:1; }
         }",
    );
    let partial_head = "GET / HTTP/1.1\r\nHo";
    for (what, bytes, answers) in
        [("nothing", "", 0), ("a part of a head", partial_head, 0), ("a request", &get("/"), 1)]
    {
        let mut client = site.client();
        client.send(bytes.as_bytes()).unwrap();
        for _ in 0..answers {
            assert_eq!(client.read_response("GET").unwrap().status, 200, "{what}");
        }
        assert!(client.is_closed_within(PATIENCE), "{what}");
    }
    let mut client = site.client();
    client.send(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").unwrap();
    match client.read_response("POST") {
        Ok(response) => assert_eq!((response.status, response.keeps_connection()), (408, false)),
        Err(error) => assert!(matches!(error, ClientError::Closed), "{error}"),
    }
}

#[test]
fn a_connection_ends_after_its_last_request() {
    let site = Site::start(
        "server { listen 127.0.0.1:{PORT}; keepalive_requests 3; location / { return 200 $connection_requests; } }",
    );
    let mut client = site.client();
    for (number, stays) in [("1", true), ("2", true), ("3", false)] {
        let response = get_on(&mut client, "/");
        assert_eq!((text(&response).as_str(), response.keeps_connection()), (number, stays));
    }
    assert!(client.is_closed_within(PATIENCE));
}

/// Asks for a path and for the connection to be closed.
fn get_last(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
}

#[test]
fn a_last_answer_is_whole_however_many_connect_at_once() {
    let site = Site::start(SITE);
    let mut kept = site.client();
    // More than are accepted in one turn; half of them say later what they want.
    let mut clients: Vec<Client> = (0..200).map(|_| site.client()).collect();
    for half in 0..2 {
        let mut half: Vec<_> = clients.iter_mut().enumerate().filter(|(number, _)| number % 2 == half).collect();
        for (number, client) in &mut half {
            client.send(get_last(&format!("/{number}")).as_bytes()).unwrap();
        }
        assert_eq!(text(&get_on(&mut kept, "/kept")), "GET:/kept");
        for (number, client) in half {
            let response = client.read_response("GET").unwrap();
            assert_eq!((text(&response), response.keeps_connection()), (format!("GET:/{number}"), false));
            assert!(client.is_closed_within(PATIENCE), "{number}");
        }
    }
}

#[test]
fn a_client_of_a_closed_connection_is_read_on_if_it_always_is() {
    let site = Site::start(
        "server { listen 127.0.0.1:{PORT}; lingering_close always; location / { return 200 $request_uri; } }",
    );
    let mut client = site.client();
    client.send(get_last("/").as_bytes()).unwrap();
    assert_eq!(client.read_to_end().map(|bytes| bytes.ends_with(b"/")).ok(), Some(true));
    for _ in 0..100 {
        client.send(b"more").unwrap();
    }
}

#[test]
fn an_unread_body_does_not_become_the_next_request() {
    let site = Site::start(SITE);
    let mut client = site.client();
    let body = get("/smuggled");
    client
        .send(
            format!("POST /x/ HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}{}", body.len(), get("/next"))
                .as_bytes(),
        )
        .unwrap();
    assert_eq!(client.read_response("POST").unwrap().status, 204);
    assert_eq!(text(&client.read_response("GET").unwrap()), "GET:/next");
}

/// Echoes the body, or sends as many megabytes as it is asked for.
const PHP_ECHO: &str = "<?php
    if (isset($_GET['mb'])) { for ($i = 0; $i < $_GET['mb'] * 16; $i++) echo str_repeat(chr(97 + $i % 26), 65536); exit; }
    header('X-Length: ' . $_SERVER['CONTENT_LENGTH']);
    echo file_get_contents('php://input');";

fn php_site(more: &str) -> (larder_testkit::PhpFpm, Site) {
    let setup = Setup::new().file("www/echo.php", PHP_ECHO).file("www/small.php", "<?php echo 'small';");
    let php = php(&setup, 1);
    let site = setup.name("PHP", format!("unix:{}", php.socket().display())).name("MORE", more).start(
        "server {
            listen 127.0.0.1:{PORT};
            client_max_body_size 16m;
            {MORE}
            location ~ \\.php$ { fastcgi_pass {PHP}; {PARAMS} }
         }",
    );
    (php, site)
}

#[test]
fn a_large_body_goes_through_a_file_to_php_and_back_intact() {
    let (_php, site) = php_site("client_body_buffer_size 8k;");
    let body: Vec<u8> = (0..5_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let length = body.len();
    let mut counted = format!("POST /echo.php HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n").into_bytes();
    counted.extend_from_slice(&body);
    let mut chunked = b"POST /echo.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(100_000) {
        chunked.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        chunked.extend_from_slice(piece);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    for (name, request) in [("counted", counted), ("chunked", chunked)] {
        let response = site.exchange("POST", request);
        assert_eq!((response.status, response.field("X-Length")), (200, Some(length.to_string().as_str())), "{name}");
        assert!(response.body == body, "{name}: {} bytes", response.body.len());
    }
    site.wait_for_log("a client request body is buffered to a temporary file");
}

#[test]
fn a_slow_reader_holds_no_php_child() {
    let (_php, site) = php_site("");
    let mut slow: Client = site.client();
    slow.send(get("/echo.php?mb=20").as_bytes()).unwrap();
    let mut response = slow.read_head().unwrap();
    // The only child can run this when it is done with the other, of which most is still unread.
    for _ in 0..3 {
        assert_eq!(site.get("/small.php").body, b"small");
    }
    slow.read_body(&mut response).unwrap();
    assert_eq!((response.framing, response.body.len()), (Framing::Chunked, 20 << 20));
    let is_intact = response
        .body
        .chunks(65_536)
        .enumerate()
        .all(|(number, piece)| piece.iter().all(|byte| usize::from(*byte) == 97 + number % 26));
    assert!(is_intact);
}

#[test]
fn a_reader_who_leaves_frees_the_php_child() {
    let (_php, site) = php_site("fastcgi_buffering off;");
    let mut leaving = site.client();
    leaving.send(get("/echo.php?mb=200").as_bytes()).unwrap();
    leaving.read_head().unwrap();
    drop(leaving);
    eventually("the child to be free", || site.get("/small.php").body == b"small");
}
