//! Origins that restart, answer early, fail for a while, or take a body as it comes.

use larder_testkit::{
    Answer, ClientError, FastCgiOrigin, FastCgiReply, HandOrigin, Origin, PhpFpm, PhpFpmOptions, Then,
};

use crate::site::{Setup, cached, eventually, get, get_on, php, text};

#[test]
fn a_kept_connection_that_the_origin_closed_costs_no_request() {
    let origin = Origin::start().unwrap();
    // Says that it keeps the connection, and closes it behind every answer.
    origin.answer("*", Answer::ok("ok").then(Then::Close));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "upstream kept { server {ORIGIN}; keepalive 8; }
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection \"\"; }
         }",
    );
    let mut client = site.client();
    for number in 0..50 {
        assert_eq!(get_on(&mut client, &format!("/{number}")).status, 200, "{number}\n{}", site.server().error_log());
    }
}

#[test]
fn a_kept_connection_is_used_again() {
    let origin = Origin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    origin.answer("*", Answer::ok("ok"));
    fcgi.answer("*", FastCgiReply::new("Content-Type: text/plain\r\nContent-Length: 2\r\n\r\nok"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).start(
        "upstream kept { server {ORIGIN}; keepalive 8; }
         upstream fkept { server {FCGI}; keepalive 8; }
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection \"\"; }
            location /f/ { fastcgi_pass fkept; fastcgi_keep_conn on; {PARAMS} }
         }",
    );
    for target in ["/p", "/f/p"] {
        let mut client = site.client();
        for _ in 0..20 {
            assert_eq!(get_on(&mut client, target).body, b"ok");
        }
    }
    let last = |connections: Vec<usize>| connections.into_iter().max().unwrap_or(0);
    assert_eq!(last(origin.requests().iter().map(|seen| seen.connection).collect()), 0, "one connection");
    assert_eq!(last(fcgi.requests().iter().map(|seen| seen.connection).collect()), 0, "one connection");
}

#[test]
fn a_php_that_is_started_anew_is_found_again() {
    let setup = Setup::new().file("www/p.php", "<?php echo 'page';");
    let mut options = PhpFpmOptions::new(setup.path("www"));
    options.requests_max = 3;
    let php = PhpFpm::start(&options).expect("php-fpm is installed by `scripts/setup test`");
    let site = setup.name("PHP", format!("unix:{}", php.socket().display())).start(
        "upstream php { server {PHP}; keepalive 4; }
         server {
            listen 127.0.0.1:{PORT};
            location ~ \\.php$ { fastcgi_pass php; fastcgi_keep_conn on; {PARAMS} }
         }",
    );
    // Every child ends after three requests, and takes its kept connection with it.
    let mut client = site.client();
    for number in 0..60 {
        let response = get_on(&mut client, "/p.php");
        assert_eq!(
            (response.status, text(&response)),
            (200, "page".to_owned()),
            "{number}\n{}",
            site.server().error_log()
        );
    }
}

#[test]
fn an_origin_that_answers_before_it_has_read_the_body_is_heard() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            client_max_body_size 100m;
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
         }",
    );
    let body = vec![b'x'; 20 << 20];
    let mut client = site.client();
    client.send(format!("POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes()).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut fetch = origin.accept().unwrap();
            fetch.request_head().unwrap().unwrap();
            fetch.send("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").unwrap();
            // It reads on for as long as larder sends: a close now would be a reset.
            while !fetch.read_bytes(1 << 16).unwrap_or_default().is_empty() {}
        });
        client.send(&body).unwrap();
        let response = client.read_response("POST").unwrap();
        assert_eq!((response.status, text(&response)), (403, "no".to_owned()));
    });
}

#[test]
fn a_body_is_read_whole_before_the_origin_is_asked() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://{ORIGIN}; proxy_http_version 1.1; }
            location /here { return 200 here; }
         }",
    );
    let mut client = site.client();
    client.send(b"POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    assert_eq!(site.get("/here").body, b"here");
    assert!(origin.try_accept().unwrap().is_none());
    client.send(b"rest").unwrap();
    let mut fetch = origin.accept().unwrap();
    assert_eq!(fetch.request().unwrap().unwrap().body, b"halfrest");
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    assert_eq!(client.read_response("POST").unwrap().status, 200);
}

#[test]
fn a_refetch_that_fails_leaves_the_stale_page_until_one_succeeds() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / {
                proxy_pass http://{ORIGIN};
                proxy_cache pages;
                proxy_cache_valid 200 1s;
                proxy_cache_lock on;
                proxy_cache_background_update on;
                proxy_cache_use_stale updating error timeout invalid_header http_500;
            }
         }",
    );
    origin.answer("/p", Answer::ok("old"));
    site.get("/p");
    for broken in [
        Answer::status("500 Internal Server Error").body("broken"),
        Answer::raw(""),
        Answer::raw("this is not HTTP\r\n\r\n"),
    ] {
        let asked = origin.count();
        origin.answer("/p", broken);
        eventually("three more failed refetches", || {
            let response = site.get("/p");
            assert_eq!((response.status, text(&response)), (200, "old".to_owned()));
            origin.count() >= asked + 3
        });
    }
    origin.answer("/p", Answer::ok("new"));
    let new = site.get_until("/p", "the new page", |response| text(response) == "new");
    assert_eq!(new.status, 200);
    assert!(matches!(cached(&new), "HIT" | "STALE" | "UPDATING"));
}

#[test]
fn one_dead_origin_of_two_costs_nobody_an_answer() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "upstream two { server 127.0.0.1:1; server {ORIGIN}; }
         server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://two; } }",
    );
    for _ in 0..20 {
        assert_eq!(site.get("/p").body, b"ok");
    }
    assert_eq!(origin.count(), 20);
}

#[test]
fn a_visitor_who_leaves_frees_the_origin_of_a_page_that_is_not_stored() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new()
        .name("ORIGIN", origin.address())
        .start("server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } }");
    let mut client = site.client();
    client.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    drop(client);
    assert!(matches!(fetch.request(), Ok(None) | Err(_)), "larder closes, rather than sending more");
    site.wait_for_log("client prematurely closed connection");
}

#[test]
fn php_that_dies_in_the_middle_is_told_to_the_visitor() {
    let setup = Setup::new().file(
        "www/dies.php",
        "<?php header('Content-Length: 100000'); echo str_repeat('x', 50000); flush(); posix_kill(getmypid(), 9);",
    );
    let php = php(&setup, 1);
    let site = setup
        .name("PHP", format!("unix:{}", php.socket().display()))
        .start("server { listen 127.0.0.1:{PORT}; location ~ \\.php$ { fastcgi_pass {PHP}; {PARAMS} } }");
    let mut client = site.client();
    client.send(get("/dies.php").as_bytes()).unwrap();
    match client.read_response("GET") {
        Ok(response) if response.status == 502 => {}
        Ok(response) => assert!(!response.keeps_connection() && response.body.len() < 100_000),
        Err(error) => assert!(matches!(error, ClientError::Closed), "{error}"),
    }
    // The child is replaced, and the next one is asked.
    let after = site.get("/none.php");
    assert_eq!((after.status, text(&after).trim()), (404, "File not found."));
}
