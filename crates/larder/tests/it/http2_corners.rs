//! Corners of HTTP/2 where a site notices what server it has: sizes of frames, slow clients, servers that differ.

use larder_testkit::{Answer, Frame, FrameKind, Http2Client, Http2Request, Origin, RawHttp2, Tls, request_block};

use crate::site::{Setup, Site, text};
use crate::tls::{certified, is_nginx};

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PROTOCOL_ERROR: &[u8] = &[0, 0, 0, 1];

fn raw(site: &Site) -> RawHttp2 {
    let mut raw = RawHttp2::open(site.setup().address(), &[]).unwrap();
    raw.acknowledge().unwrap();
    raw
}

/// The next frame on a stream.
fn next_on(raw: &mut RawHttp2, stream: u32) -> Frame {
    loop {
        let frame = raw.read_frame().unwrap().expect("the connection goes on");
        if frame.stream == stream && frame.kind != FrameKind::WindowUpdate {
            return frame;
        }
    }
}

/// A page that is asked for now is answered, so that the connection is sound.
fn goes_on(raw: &mut RawHttp2, stream: u32, what: &str) {
    raw.send_frame(&Frame::get(stream, "/here")).unwrap();
    assert_eq!(raw.answer(stream).unwrap().body, b"here", "{what}");
}

#[test]
fn bodies_come_in_frames_of_http2_chunk_size_and_the_last_one_says_so() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok(vec![b'a'; 20_000]));
    let site = Setup::new().name("ORIGIN", origin.address()).file("www/page", vec![b'a'; 20_000]).start(
        "server { listen 127.0.0.1:{PORT} http2;
            location / { }
            location /o/ { proxy_pass http://{ORIGIN}; }
            location /small { http2_chunk_size 5; return 200 'twelve bytes'; }
            location /large { http2_chunk_size 64k; alias {DIR}/www/page; } }",
    );
    for (path, lengths) in [
        ("/page", &[8192, 8192, 3616][..]),
        ("/o/page", &[8192, 8192, 3616]),
        ("/small", &[5, 5, 2]),
        ("/large", &[16384, 3616]),
    ] {
        let mut raw = raw(&site);
        raw.send_frame(&Frame::get(1, path)).unwrap();
        assert_eq!(next_on(&mut raw, 1).kind, FrameKind::Headers, "{path}");
        let mut came = Vec::new();
        loop {
            let frame = next_on(&mut raw, 1);
            came.push(frame.payload.len());
            if frame.ends_stream() {
                break;
            }
        }
        // An origin's answer comes in pieces of its own.
        match path {
            "/o/page" => {
                assert!(came.iter().sum::<usize>() == 20_000 && came.iter().all(|len| *len <= 8192), "{came:?}")
            }
            _ => assert_eq!(came, lengths, "{path}"),
        }
    }
}

#[test]
fn a_request_that_comes_too_slowly_is_reset_and_the_connection_goes_on() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server { listen 127.0.0.1:{PORT} http2; client_header_timeout 200ms; client_body_timeout 200ms;
            location /here { return 200 here; }
            location /o/ { proxy_pass http://{ORIGIN}; } }",
    );
    let get = Frame::get(1, "/here").to_bytes();
    let post = request_block(&[(":method", "POST"), (":scheme", "http"), (":authority", "a.b"), (":path", "/o/")]);
    let post = Frame::new(FrameKind::Headers, END_HEADERS, 1, post).to_bytes();
    let body = Frame::new(FrameKind::Data, END_STREAM, 1, b"body".to_vec()).to_bytes();
    for (what, first, rest) in [
        ("a head of a frame", &get[..9], &get[9..]),
        ("half a frame", &get[..20], &get[20..]),
        ("a body", &[&post[..], &body[..11]].concat(), &body[11..]),
    ] {
        let mut raw = raw(&site);
        raw.send(first).unwrap();
        let reset = next_on(&mut raw, 1);
        assert_eq!((reset.kind, &reset.payload[..]), (FrameKind::Reset, PROTOCOL_ERROR), "{what}");
        raw.send(rest).unwrap();
        goes_on(&mut raw, 3, what);
    }
}

#[test]
fn what_is_no_request_is_told_so_and_reset() {
    let site = Site::start("server { listen 127.0.0.1:{PORT} http2; location /here { return 200 here; } }");
    for (what, fields) in [
        ("no scheme", vec![(":method", "GET"), (":authority", "a.b"), (":path", "/here")]),
        ("an empty authority", vec![(":method", "GET"), (":scheme", "http"), (":authority", ""), (":path", "/here")]),
        (
            "a colon in a name",
            vec![(":method", "GET"), (":scheme", "http"), (":authority", "a.b"), (":path", "/here"), ("a:b", "c")],
        ),
    ] {
        let mut raw = raw(&site);
        raw.send_frame(&Frame::new(FrameKind::Headers, END_HEADERS | END_STREAM, 1, request_block(&fields))).unwrap();
        let answer = raw.answer(1).unwrap();
        assert_eq!(answer.status, Some(400), "{what}");
        if !is_nginx() {
            let reset = next_on(&mut raw, 1);
            assert_eq!((reset.kind, &reset.payload[..]), (FrameKind::Reset, PROTOCOL_ERROR), "{what}");
        }
        goes_on(&mut raw, 3, what);
    }
}

#[test]
fn a_server_without_http_2_is_misdirected_to_by_a_connection_that_speaks_it() {
    let (authority, setup) = certified();
    let site = setup.start(
        "{ONE}
         server { listen 127.0.0.1:{PORT} ssl; server_name site.test; http2 on; return 200 here; }
         server { listen 127.0.0.1:{PORT} ssl; server_name other.test; http2 on; return 200 other; }
         server { listen 127.0.0.1:{PORT} ssl; server_name old.test; return 200 old; }",
    );
    let mut client = Http2Client::connect_tls(site.setup().address(), &Tls::new("site.test", &authority)).unwrap();
    for (authority, status) in [("site.test", 200), ("other.test", 200), ("old.test", 421), ("site.test", 200)] {
        let response = client.exchange(&Http2Request::get("/").authority(authority)).unwrap();
        assert_eq!(response.status, status, "{authority}: {}", text(&response));
    }
}
