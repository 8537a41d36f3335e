//! Bodies of requests in files: `client_body_in_file_only`, `client_body_temp_path`, `$request_body_file`.

use std::path::{Path, PathBuf};

use larder_testkit::{Client, FastCgiOrigin, FastCgiReply, HandOrigin, Http2Client, Http2Request};

use crate::site::{Setup, Site, eventually, text};

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        http2 on;
        proxy_set_header X-File $request_body_file;
        proxy_set_header X-Body $request_body;
        client_body_buffer_size 4k;
        location / { proxy_pass http://{ORIGIN}; }
        location /on { client_body_in_file_only on; proxy_pass http://{ORIGIN}; }
        location /clean { client_body_in_file_only clean; proxy_pass http://{ORIGIN}; }
        location /levels {
            client_body_temp_path {DIR}/levels 1 2;
            client_body_in_file_only clean;
            proxy_pass http://{ORIGIN};
        }
        location /alone { client_body_in_file_only clean; proxy_pass_request_body off; proxy_pass http://{ORIGIN}; }
        location /nowhere { client_body_temp_path {DIR}/gone; client_body_in_file_only on; proxy_pass http://{ORIGIN}; }
        location /php {
            client_body_in_file_only clean;
            include fastcgi.inc;
            fastcgi_param REQUEST_BODY_FILE $request_body_file;
            fastcgi_param CONTENT_LENGTH \"\";
            fastcgi_pass_request_body off;
            fastcgi_pass {FCGI};
        }
    }";

fn site(origin: &HandOrigin) -> Site {
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    fcgi.answer("*", FastCgiReply::html("ok"));
    let setup = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address());
    let params = setup.fill("{PARAMS}").replace("fastcgi_param CONTENT_LENGTH $content_length;", "");
    setup.file("fastcgi.inc", params).start(SITE)
}

fn post(target: &str, framing: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: site.test\r\n{framing}\r\n\r\n{body}")
}

fn chunked(body: &str) -> String {
    match body.len() {
        0 => "0\r\n\r\n".to_owned(),
        len => format!("{len:x}\r\n{body}\r\n0\r\n\r\n"),
    }
}

#[test]
fn a_body_is_in_the_file_that_the_origin_is_told_of() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let large = "0123456789".repeat(1000);
    for (target, body, has_file, stays) in [
        ("/", "small", false, false),
        ("/", &*large, true, false),
        ("/on", "small", true, true),
        ("/on", "", true, true),
        ("/on", &large, true, true),
        ("/clean", "small", true, false),
        ("/clean", &large, true, false),
        ("/levels", "small", true, false),
    ] {
        for in_chunks in [false, true] {
            let case = format!("{target} {} bytes, in chunks: {in_chunks}", body.len());
            let request = match in_chunks {
                true => post(target, "Transfer-Encoding: chunked", &chunked(body)),
                false => post(target, &format!("Content-Length: {}", body.len()), body),
            };
            let mut client = site.client();
            client.send(request.as_bytes()).unwrap();
            let mut asked = origin.accept().unwrap();
            let seen = asked.request().unwrap().unwrap();
            assert_eq!(larder_testkit::text_of(&seen.body), body, "{case}");
            assert_eq!(seen.field("Content-Length"), Some(&*body.len().to_string()), "{case}");
            let file = seen.field("X-File").map(PathBuf::from);
            assert_eq!(file.is_some(), has_file, "{case}");
            assert_eq!(seen.field("X-Body").is_some(), !has_file, "a body is in memory or in a file: {case}");
            if let Some(file) = &file {
                assert_eq!(std::fs::read_to_string(file).unwrap(), body, "{case}");
            }
            asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
            assert_eq!(text(&client.read_response("POST").unwrap()), "ok", "{case}");
            // The next request on the connection is answered when this one is over.
            let mut asked = next(&mut client, &mut origin);
            if let Some(file) = &file {
                assert_eq!(file.exists(), stays, "{case}");
            }
            asked.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        }
    }
}

fn next(client: &mut Client, origin: &mut HandOrigin) -> larder_testkit::HandConnection {
    client.send(b"GET / HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    let mut asked = origin.accept().unwrap();
    assert_eq!(asked.request().unwrap().unwrap().field("X-File"), None, "there is no body");
    asked
}

#[test]
fn levels_are_folders_that_are_made_when_they_are_needed() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let mut client = site.client();
    client.send(post("/levels", "Content-Length: 1", "x").as_bytes()).unwrap();
    let seen = origin.accept().unwrap().request().unwrap().unwrap();
    let file = seen.field("X-File").unwrap();
    let name = Path::new(file).file_name().unwrap().to_str().unwrap();
    let below = format!("levels/{}/{}/{name}", &name[9..], &name[7..9]);
    assert_eq!(Path::new(file), site.setup().path(&below));
}

#[test]
fn the_file_may_be_all_that_the_application_gets() {
    let mut origin = HandOrigin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    fcgi.answer("*", FastCgiReply::html("ok"));
    let setup = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address());
    let params = setup.fill("{PARAMS}").replace("fastcgi_param CONTENT_LENGTH $content_length;", "");
    let site = setup.file("fastcgi.inc", params).start(SITE);

    let mut client = site.client();
    client.send(post("/alone", "Content-Length: 4", "body").as_bytes()).unwrap();
    let mut asked = origin.accept().unwrap();
    let seen = asked.request_head().unwrap().unwrap();
    assert_eq!(seen.field("Content-Length"), None);
    assert_eq!(std::fs::read(seen.field("X-File").unwrap()).unwrap(), b"body");
    asked.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
    assert_eq!(client.read_response("POST").unwrap().status, 204);

    let hold = fcgi.hold("/php");
    client.send(post("/php", "Content-Length: 4", "body").as_bytes()).unwrap();
    assert!(fcgi.wait_for(1));
    let seen = fcgi.requests().pop().unwrap();
    assert_eq!((seen.stdin.as_slice(), seen.param("CONTENT_LENGTH")), (&b""[..], Some("")));
    assert_eq!(std::fs::read(seen.param("REQUEST_BODY_FILE").unwrap()).unwrap(), b"body");
    hold.release();
    assert_eq!(text(&client.read_response("POST").unwrap()), "ok");
}

#[test]
fn a_body_that_came_by_http2_is_in_a_file_too() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    for body in ["small", ""] {
        let exchange = client.start(&Http2Request::get("/clean").method("POST").body(body)).unwrap();
        let mut asked = origin.accept().unwrap();
        let seen = asked.request().unwrap().unwrap();
        let file = PathBuf::from(seen.field("X-File").unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), body);
        asked.send("HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        assert_eq!(exchange.finish().unwrap().status, 204);
        eventually("the file to go", || !file.exists());
    }
}

#[test]
fn a_folder_that_is_not_there_is_an_error_where_the_file_is_wanted() {
    let origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    std::fs::remove_dir(site.setup().path("gone")).unwrap();
    assert_eq!(site.exchange("POST", post("/nowhere", "Content-Length: 1", "x")).status, 500);
    site.wait_for_log("cannot make a file for the request body");
}
