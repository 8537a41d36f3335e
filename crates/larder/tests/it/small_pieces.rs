//! Bodies in pieces of a byte, which cost whoever takes each of them as it is.

use std::thread;

use larder_testkit::{Client, FastCgiOrigin, FastCgiReply, HandOrigin};

use crate::site::{Setup, Site, text};

/// How long the bodies are.
const BYTES: usize = 200_000;

const SITE: &str = "
    proxy_http_version 1.1;
    client_max_body_size 0;
    client_body_buffer_size 4k;
    server {
        listen 127.0.0.1:{PORT};
        location / { proxy_pass http://{ORIGIN}; }
        location /unbuffered { proxy_pass http://{ORIGIN}; proxy_request_buffering off; }
        location /php { fastcgi_pass {FCGI}; {PARAMS} }
    }";

fn in_chunks() -> Vec<u8> {
    [&b"1\r\nx\r\n".repeat(BYTES)[..], b"0\r\n\r\n"].concat()
}

/// How often the serving process has called write(2) and its like; what goes to sockets by send(2) does not count.
fn writes(site: &Site) -> usize {
    let io = std::fs::read_to_string(format!("/proc/{}/io", site.serving_process())).expect("it is our process");
    let count = io.lines().find_map(|line| line.strip_prefix("syscw: "));
    count.and_then(|count| count.parse().ok()).expect("Linux counts them")
}

#[test]
fn a_body_in_chunks_of_a_byte_is_gathered() {
    let mut origin = HandOrigin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).start(SITE);
    for target in ["/", "/unbuffered"] {
        let before = writes(&site);
        let mut client = site.client();
        let sends = thread::spawn(move || {
            let head = format!("POST {target} HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
            client.send(&[head.as_bytes(), &in_chunks()].concat()).unwrap();
            client
        });
        let mut asked = origin.accept().unwrap();
        let seen = asked.request().unwrap().unwrap();
        assert!(seen.body.len() == BYTES && seen.body.iter().all(|&byte| byte == b'x'), "{target}");
        asked.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
        let mut client: Client = sends.join().unwrap();
        assert_eq!(text(&client.read_response("POST").unwrap()), "ok", "{target}");
        let made = writes(&site) - before;
        assert!(made < BYTES / 100, "{target}: {made} writes");
    }
}

#[test]
fn an_answer_in_chunks_or_records_of_a_byte_goes_out_in_larger_ones() {
    let mut origin = HandOrigin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    let page = format!("Content-Type: text/plain\r\n\r\n{}", "x".repeat(BYTES));
    fcgi.answer("*", FastCgiReply::new(page).split(1));
    let site = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address()).start(SITE);
    for target in ["/", "/php"] {
        let mut client = site.client();
        let head = format!("GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        if target == "/" {
            let mut asked = origin.accept().unwrap();
            asked.request().unwrap().unwrap();
            thread::spawn(move || {
                asked.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
                asked.send(in_chunks()).unwrap();
            });
        }
        let head = client.read_head().unwrap();
        assert_eq!(head.field("Transfer-Encoding"), Some("chunked"), "{target}");
        let sent = client.read_to_end().unwrap();
        assert_eq!(sent.iter().filter(|&&byte| byte == b'x').count(), BYTES, "{target}");
        // Each chunk takes five bytes at least beside what is in it.
        assert!(sent.len() < BYTES + BYTES / 10, "{target}: {} bytes", sent.len());
    }
}
