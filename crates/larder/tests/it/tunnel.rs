//! After `101 Switching Protocols`: bytes both ways, whoever reads when.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use larder_testkit::PATIENCE;

use crate::site::{Setup, Site};

/// More than the sockets on the way hold.
const BYTES: usize = 5_000_000;

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        location / {
            proxy_pass http://{ORIGIN};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
        }
    }";

const REQUEST: &str = "GET /ws HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";
const ANSWER: &str = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n";

/// Both ends of a tunnel. The client sends `early` with its request, the origin `first` with its answer.
fn tunnel(early: &str, first: &str) -> (Site, TcpStream, TcpStream) {
    tunnel_of(SITE, early, first)
}

/// The same through another site.
fn tunnel_of(http: &str, early: &str, first: &str) -> (Site, TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", listener.local_addr().unwrap()).start(http);
    let mut client = TcpStream::connect(site.setup().address()).unwrap();
    client.write_all(format!("{REQUEST}{early}").as_bytes()).unwrap();
    let mut origin = listener.accept().unwrap().0;
    for stream in [&client, &origin] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    assert!(head(&mut origin).starts_with("GET /ws "));
    origin.write_all(format!("{ANSWER}{first}").as_bytes()).unwrap();
    assert!(head(&mut client).starts_with("HTTP/1.1 101 "));
    (site, client, origin)
}

/// Reads through the empty line, and no further.
fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend_from_slice(&bytes(stream, 1));
    }
    larder_testkit::text_of(&head)
}

fn bytes(stream: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn pattern(seed: usize) -> Vec<u8> {
    (seed..seed + BYTES).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn a_side_that_writes_all_before_it_reads_gets_rid_of_it() {
    for is_client_first in [true, false] {
        let (_site, client, origin) = tunnel("", "");
        let (mut writes_first, mut does_both) = if is_client_first { (client, origin) } else { (origin, client) };
        let (one, other) = (pattern(1), pattern(2));
        thread::scope(|scope| {
            let mut reading = does_both.try_clone().unwrap();
            let got = scope.spawn(move || bytes(&mut reading, BYTES));
            scope.spawn(|| does_both.write_all(&other).unwrap());
            // Nobody takes what comes this way until this way's bytes are out.
            writes_first.write_all(&one).unwrap();
            assert!(got.join().unwrap() == one, "{is_client_first}");
            assert!(bytes(&mut writes_first, BYTES) == other, "{is_client_first}");
        });
    }
}

#[test]
fn what_is_sent_with_the_request_and_with_the_answer_is_passed_on() {
    let (_site, mut client, mut origin) = tunnel("early", "first");
    assert_eq!(bytes(&mut origin, 5), b"early");
    assert_eq!(bytes(&mut client, 5), b"first");
    client.write_all(b"then").unwrap();
    assert_eq!(bytes(&mut origin, 4), b"then");
    drop(origin);
    assert_eq!(client.read(&mut [0]).unwrap(), 0, "the end of one side is that of the other");
}

/// A tunnel that ends when it is silent for a second, and its log lines.
const TIMED: &str = "
    log_format said '$status $bytes_sent $body_bytes_sent $sent_http_connection $upstream_bytes_received';
    server {
        listen 127.0.0.1:{PORT};
        access_log {DIR}/log.txt said;
        location / {
            proxy_pass http://{ORIGIN};
            proxy_http_version 1.1;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            proxy_read_timeout 1s;
        }
    }";

#[test]
fn a_tunnel_in_which_nothing_moves_ends() {
    let (site, mut client, mut origin) = tunnel_of(TIMED, "", "");
    for _ in 0..3 {
        // Either side's bytes keep it open.
        thread::sleep(std::time::Duration::from_millis(600));
        client.write_all(b"x").unwrap();
        assert_eq!(bytes(&mut origin, 1), b"x");
    }
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    assert_eq!(origin.read(&mut [0]).unwrap(), 0);
    site.wait_for_log("upstream timed out (110: Connection timed out) while proxying upgraded connection");
}

#[test]
fn the_log_line_of_a_tunnel_is_written_at_its_end_and_counts_what_passed() {
    let (site, mut client, mut origin) = tunnel_of(TIMED, "early", "first");
    assert_eq!(bytes(&mut client, 5), b"first");
    assert_eq!(bytes(&mut origin, 5), b"early");
    origin.write_all(b"and more").unwrap();
    assert_eq!(bytes(&mut client, 8), b"and more");
    drop(client);
    let sent = SENT_HEAD.len() + 13;
    site.wait_for_text("log.txt", "upgrade");
    let line = site.server().text("log.txt");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[0], words[2], words[3]), ("101", "13", "upgrade"), "{line}");
    assert!(words[1].parse::<usize>().unwrap() > sent, "{line}");
    assert_eq!(words[4], (ANSWER.len() + 13).to_string(), "{line}");
}

/// What of the answer's head is sure to be sent.
const SENT_HEAD: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n";

#[test]
fn an_origin_that_does_not_switch_is_an_origin_like_others() {
    let mut origin = larder_testkit::HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut client = site.client();
    for (answer, status) in [("200 OK", 200), ("426 Upgrade Required", 426)] {
        client.send(REQUEST.as_bytes()).unwrap();
        let mut asked = origin.accept().unwrap();
        asked.request().unwrap().unwrap();
        asked.send(format!("HTTP/1.1 {answer}\r\nContent-Length: 2\r\n\r\nok")).unwrap();
        let response = client.read_response("GET").unwrap();
        assert_eq!((response.status, response.keeps_connection()), (status, true), "{answer}");
    }
}

#[test]
fn a_101_that_nobody_asked_for_is_no_answer() {
    let mut origin = larder_testkit::HandOrigin::start().unwrap();
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(SITE);
    let mut client = site.client();
    client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut asked = origin.accept().unwrap();
    asked.request().unwrap().unwrap();
    asked.send(format!("{ANSWER}first")).unwrap();
    let response = client.read_response("GET").unwrap();
    assert_eq!((response.status, response.field("Upgrade")), (502, None));
    site.wait_for_log("upstream switched protocols unasked");
}
