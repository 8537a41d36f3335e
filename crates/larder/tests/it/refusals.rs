//! Refusals, and clients that are still sending when they come.

use larder_testkit::{PATIENCE, text_of};

use crate::site::Site;

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        client_max_body_size 1k;
        large_client_header_buffers 2 1k;
        location / { proxy_pass http://127.0.0.1:1; }
    }";

/// More than the sockets on the way hold.
const BYTES: usize = 5_000_000;

#[test]
fn a_client_that_is_still_sending_gets_to_read_why_it_is_refused() {
    let site = Site::start(SITE);
    let counted = format!("Content-Length: {BYTES}\r\n\r\n");
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{BYTES:x}\r\n");
    let long = "x".repeat(3000);
    for (what, head, status) in [
        ("a bad host", format!("POST / HTTP/1.1\r\nHost: a/b\r\n{counted}"), 400),
        ("a bad host, chunked", format!("POST / HTTP/1.1\r\nHost: a/b\r\n{chunked}"), 400),
        ("no host", format!("POST / HTTP/1.1\r\n{counted}"), 400),
        ("a bad line", format!("POST / HTTP/1.1\r\nHost: a\r\nX Y: z\r\n{counted}"), 400),
        ("two lengths", format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n{counted}"), 400),
        ("a long target", format!("POST /{long} HTTP/1.1\r\nHost: a\r\n{counted}"), 414),
        ("a long field", format!("POST / HTTP/1.1\r\nHost: a\r\nX-Long: {long}\r\n{counted}"), 400),
        ("a body that says it is too large", format!("POST / HTTP/1.1\r\nHost: a\r\n{counted}"), 413),
        ("a body that turns out too large", format!("POST / HTTP/1.1\r\nHost: a\r\n{chunked}"), 413),
    ] {
        let mut client = site.client();
        client.send(head.as_bytes()).unwrap_or_else(|error| panic!("{what}: {error}"));
        client.send(&vec![b'x'; BYTES]).unwrap_or_else(|error| panic!("{what}: {error}"));
        let response = client.read_response("POST").unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!((response.status, response.keeps_connection()), (status, false), "{what}");
        assert!(text_of(&response.body).contains(&status.to_string()), "{what}");
        client.finish().unwrap();
        assert!(client.is_closed_within(PATIENCE), "{what}: nothing of the body is taken for a request");
    }
}
