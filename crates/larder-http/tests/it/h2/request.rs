//! From field blocks to request heads.

use larder_http::{Framing, HeadLimits, Known, Method, Version, body_framing, check_host};

use super::*;
use crate::text;

/// The events of one request with these fields behind those of [`GET`].
fn events(more: &[(&str, &str)], config: &Config) -> (Vec<String>, Option<RequestHead>) {
    let fields: Vec<(&str, &str)> = GET.iter().chain(more).copied().collect();
    all_events(&fields, config)
}

fn all_events(fields: &[(&str, &str)], config: &Config) -> (Vec<String>, Option<RequestHead>) {
    let mut server = Server::with(config);
    let events = server.take(&headers(1, END_STREAM, fields));
    (events, server.heads.pop())
}

#[test]
fn a_head_looks_like_one_of_http_1() {
    let (events, head) = all_events(
        &[
            (":authority", "www.example.org:8443"),
            (":scheme", "https"),
            (":method", "GET"),
            (":path", "/a?b"),
            ("user-agent", "x"),
            ("cookie", "a=1"),
            ("x-other", " \t spaced out\t"),
            ("cookie", "b=2"),
            ("cookie", "c=3"),
        ],
        &Config::default(),
    );
    assert_eq!(events, ["head 1 ends"]);
    let head = head.expect("there is one");
    assert_eq!((head.method, head.method_name(), head.version), (Method::Get, &b"GET"[..], Version::Http2));
    assert_eq!(text(head.line()), "GET /a?b HTTP/2.0");
    assert_eq!(text(head.target()), "/a?b");
    assert_eq!(head.target_host(), Some(&b"www.example.org:8443"[..]));
    assert_eq!(head.scheme(), Some(&b"https"[..]));
    assert_eq!(
        crate::shown(&head.fields),
        "user-agent: x, cookie: a=1; b=2; c=3, x-other: spaced out, host: www.example.org:8443"
    );
    assert_eq!(head.fields.get_known(Known::Host), Some(&b"www.example.org:8443"[..]));
    assert_eq!(check_host(&head), Ok(()));
    assert!(larder_http::keep_alive_wanted(&head));
    assert!(head.bytes() > 100);
    assert_eq!(head.version.name(), "HTTP/2.0");
}

#[test]
fn a_host_field_does_when_there_is_no_authority() {
    let fields = [(":method", "POST"), (":scheme", "http"), (":path", "/"), ("host", "a.b")];
    let (events, head) = all_events(&fields, &Config::default());
    assert_eq!(events, ["head 1 ends"]);
    let head = head.expect("there is one");
    assert_eq!((head.target_host(), head.fields.len()), (None, 1));
    assert_eq!(check_host(&head), Ok(()));
}

#[test]
fn heads_that_are_answered_with_an_error() {
    let long = "x".repeat(9000);
    let half = "x".repeat(7000);
    let path = |path| [(":method", "GET"), (":scheme", "https"), (":path", path), (":authority", "a.b")].to_vec();
    let and = |more: &[(&'static str, &'static str)]| [path("/"), more.to_vec()].concat();
    let long_path = format!("/{long}");
    let many: Vec<(&str, &str)> = GET.iter().copied().chain((0..1001).map(|_| ("x", ""))).collect();
    for (name, fields, status, line) in [
        ("another host", and(&[("host", "b.a")]), 400, "GET / HTTP/2.0"),
        ("two hosts", and(&[("host", "a.b"), ("host", "a.b")]), 400, "GET / HTTP/2.0"),
        ("no host", path("/")[..3].to_vec(), 400, "GET / HTTP/2.0"),
        ("a line end", and(&[("x", "a\nb")]), 400, "GET / HTTP/2.0"),
        ("a NUL", and(&[("x", "a\0")]), 400, "GET / HTTP/2.0"),
        ("a length that is none", and(&[("content-length", "+1")]), 400, "GET / HTTP/2.0"),
        ("two lengths", and(&[("content-length", "0"), ("content-length", "0")]), 400, "GET / HTTP/2.0"),
        ("two If-Range", and(&[("if-range", "0"), ("if-range", "0")]), 400, "GET / HTTP/2.0"),
        ("a path without a slash", path("a"), 400, "GET a HTTP/2.0"),
        ("a path that is a star", path("*"), 400, "GET * HTTP/2.0"),
        ("a space in the path", path("/a b"), 400, "GET /a b HTTP/2.0"),
        ("a DEL in the path", path("/a\x7f"), 400, "GET /a\x7f HTTP/2.0"),
        ("a small method", [vec![(":method", "get")], path("/")[1..].to_vec()].concat(), 400, "get / HTTP/2.0"),
        (
            "a scheme that is none",
            [vec![(":scheme", "a b"), (":method", "GET")], path("/")[2..].to_vec()].concat(),
            400,
            "GET / HTTP/2.0",
        ),
        ("a long path", path(&long_path), 414, &format!("GET {long_path} HTTP/2.0")),
        ("a long field", [path("/"), vec![("x", &long)]].concat(), 494, "GET / HTTP/2.0"),
        ("a long head", [path("/"), vec![("x", &half); 5]].concat(), 494, "GET / HTTP/2.0"),
        ("many fields", many.clone(), 494, "GET / HTTP/2.0"),
    ] {
        // Large heads need more than one frame.
        let block = block(&fields);
        let mut bytes = frame(HEADERS, END_STREAM, 1, &[]);
        for part in block.chunks(16_384) {
            bytes.extend(frame(CONTINUATION, 0, 1, part));
        }
        bytes.extend(frame(CONTINUATION, END_HEADERS, 1, &[]));
        let mut server = Server::new();
        assert_eq!(server.take(&bytes), [format!("head 1 ends refused {status}")], "{name}");
        let head = &server.heads[0];
        assert_eq!((text(head.line()), head.fields.len()), (line.to_owned(), 0), "{name}");
        assert_eq!(server.take(&get(3)), ["head 3 ends"], "{name}: the connection goes on");
        assert_eq!(server.heads[1].fields.len(), 1);
    }
}

#[test]
fn heads_that_are_none() {
    let without = |name: &str| GET.iter().copied().filter(|field| field.0 != name).collect::<Vec<_>>();
    let and = |name, value| GET.iter().copied().chain([(name, value)]).collect::<Vec<_>>();
    let instead = |name, value| GET.iter().map(|field| if field.0 == name { (name, value) } else { *field }).collect();
    let cases: Vec<(&str, Vec<(&str, &str)>)> = vec![
        ("nothing", Vec::new()),
        ("no method", without(":method")),
        ("no scheme", without(":scheme")),
        ("no path", without(":path")),
        ("two methods", and(":method", "GET")),
        ("two schemes", and(":scheme", "http")),
        ("two paths", and(":path", "/")),
        ("two authorities", and(":authority", "a.b")),
        ("an empty path", instead(":path", "")),
        ("an empty method", instead(":method", "")),
        ("an empty scheme", instead(":scheme", "")),
        ("an empty authority", instead(":authority", "")),
        ("a line end in the path", instead(":path", "/\r\n")),
        ("a line end in the method", instead(":method", "GET\n")),
        ("a status", and(":status", "200")),
        ("a pseudo field that nobody knows", and(":foo", "bar")),
        ("a pseudo field after a field", [vec![("x", "y")], GET.to_vec()].concat()),
        ("a capital letter", and("X", "y")),
        ("a name with a space", and("a b", "y")),
        ("a name with a colon", and("a:b", "y")),
        ("no name", and("", "y")),
        ("connection", and("connection", "close")),
        ("keep-alive", and("keep-alive", "1")),
        ("proxy-connection", and("proxy-connection", "close")),
        ("transfer-encoding", and("transfer-encoding", "chunked")),
        ("upgrade", and("upgrade", "h2c")),
        ("te", and("te", "gzip")),
        ("a body that does not come", and("content-length", "1")),
    ];
    for (name, fields) in cases {
        let mut server = Server::new();
        assert_eq!(server.take(&headers(1, END_STREAM, &fields)), ["head 1 ends refused 400"], "{name}");
        server.replies();
        server.connection.send_head(StreamId(1), &[0x8c], false, &mut server.out);
        server.connection.send_data(StreamId(1), b"bad", true, &mut server.out);
        assert_eq!(
            server.replies(),
            ["HEADERS 1 1", "DATA 1 3 ends", "RST_STREAM 1 1"],
            "{name}: it is told, then reset"
        );
        assert_eq!(server.connection.open_streams(), 0);
        assert_eq!(server.take(&get(3)), ["head 3 ends"], "{name}: the connection goes on");
    }
    assert_eq!(events(&[("te", "trailers")], &Config::default()).0, ["head 1 ends"]);
    assert_eq!(events(&[("content-length", "0")], &Config::default()).0, ["head 1 ends"]);
}

#[test]
fn odd_names_are_ignored_as_configured() {
    for (ignore_invalid, underscores, kept, ignored) in [
        (true, false, "host: a.b", "a_b: 1, c(d: 2"),
        (true, true, "a_b: 1, host: a.b", "c(d: 2"),
        (false, false, "a_b: 1, c(d: 2, host: a.b", ""),
    ] {
        let head = HeadLimits { ignore_invalid, underscores, ..HeadLimits::default() };
        let config = Config { head, ..Config::default() };
        let (events, head) = events(&[("a_b", "1"), ("c(d", "2")], &config);
        assert_eq!(events, ["head 1 ends"]);
        let head = head.expect("there is one");
        assert_eq!((crate::shown(&head.fields), crate::shown(head.ignored())), (kept.into(), ignored.into()));
    }
}

#[test]
fn where_fields_are_strict_a_name_that_is_no_token_and_a_control_character_are_refused() {
    let lenient = HeadLimits { ignore_invalid: false, ..HeadLimits::default() };
    let strict = HeadLimits { strict_fields: true, ..lenient.clone() };
    for (field, is_refused) in [
        (("a", "b\tc\u{e9}"), false),
        (("a!", "b"), false),
        (("a_b", "c"), false),
        (("a", "b\u{1}"), true),
        (("a!", "\u{7f}"), true),
        (("accept", "b\u{1f}c"), true),
        (("a(", "b"), true),
    ] {
        for (head, expected) in [(&lenient, "head 1 ends"), (&strict, "head 1 ends refused 400")] {
            let config = Config { head: head.clone(), ..Config::default() };
            let expected = if is_refused { expected } else { "head 1 ends" };
            assert_eq!(events(&[field], &config).0, [expected], "{field:?}");
        }
    }
}

#[test]
fn connect_names_a_host_only() {
    let (events, head) = all_events(&[(":method", "CONNECT"), (":authority", "a.b:443")], &Config::default());
    assert_eq!(events, ["head 1 ends"]);
    let head = head.expect("there is one");
    assert_eq!((text(head.line()), text(head.target())), ("CONNECT a.b:443 HTTP/2.0".into(), "/".into()));
    assert_eq!(head.target_host(), Some(&b"a.b:443"[..]));
    assert_eq!(head.scheme(), None);
    let mut server = Server::new();
    assert_eq!(server.take(&headers(1, 0, &[(":method", "CONNECT")])), ["head 1 refused 400"]);
}

#[test]
fn a_body_is_as_long_as_it_was_said_to_be() {
    let five: Vec<(&str, &str)> = POST.iter().copied().chain([("content-length", "5")]).collect();
    for (name, bytes, events) in [
        ("exactly", [data(1, 2), last_data(1, 3)].concat(), &["data 1 2", "data 1 3 ends"][..]),
        ("exactly, the end alone", [data(1, 5), last_data(1, 0)].concat(), &["data 1 5", "data 1 0 ends"]),
        ("too short", [data(1, 2), last_data(1, 2)].concat(), &["data 1 2", "wrong length 1"]),
        ("too long", [data(1, 2), data(1, 4)].concat(), &["data 1 2", "wrong length 1"]),
        ("empty", last_data(1, 0), &["wrong length 1"]),
        ("too long by far", [data(1, 6), data(1, 1)].concat(), &["wrong length 1", "wrong length 1"]),
    ] {
        let mut server = Server::new();
        server.take(&headers(1, 0, &five));
        assert_eq!(body_framing(&server.heads[0]), Ok(Framing::Length(5)), "{name}");
        assert_eq!(server.take(&bytes), events, "{name}");
        assert!(server.connection.is_open(StreamId(1)), "{name}");
    }
}

#[test]
fn a_block_may_be_in_many_frames() {
    let block = block(GET);
    let mut bytes = frame(HEADERS, END_STREAM | PADDED, 1, &[&[2][..], &block[..3], &[0, 0]].concat());
    bytes.extend(frame(CONTINUATION, 0, 1, &block[3..10]));
    bytes.extend(frame(CONTINUATION, 0, 1, &[]));
    bytes.extend(frame(CONTINUATION, END_HEADERS, 1, &block[10..]));
    let mut server = Server::new();
    assert_eq!(server.take(&bytes), ["head 1 ends"]);
    assert_eq!(text(server.heads[0].line()), "GET / HTTP/2.0");
    assert!(server.connection.heap_bytes() < 2000, "{}", server.connection.heap_bytes());
}

#[test]
fn a_head_without_end_is_given_up() {
    let whole = headers(1, END_STREAM, GET);
    let block = [frame(HEADERS, END_STREAM, 1, &whole[9..12]), frame(CONTINUATION, END_HEADERS, 1, &whole[12..])];
    for (name, first, rest) in [
        ("part of a frame", &whole[..12], &whole[12..]),
        ("a head of a frame", &whole[..9], &whole[9..]),
        ("a frame of several", &block[0][..], &block[1][..]),
    ] {
        let mut server = Server::new();
        assert_eq!(server.take(first), [""; 0], "{name}");
        let left = server.left.clone();
        assert!(server.connection.is_within_head(&left), "{name}");
        server.connection.expire_head(&left, &mut server.out, server.now).expect("once is not too often");
        assert_eq!(server.replies(), ["RST_STREAM 1 1"], "{name}");
        assert_eq!(server.take(rest), [""; 0], "{name}: nobody answers the rest");
        assert_eq!(server.take(&get(3)), ["head 3 ends"], "{name}: the connection goes on");
    }
    let mut server = Server::new();
    server.take(&get(1)[..8]);
    assert!(!server.connection.is_within_head(&server.left), "nobody knows yet what it is");
}
