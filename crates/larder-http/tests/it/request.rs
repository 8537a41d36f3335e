//! Request heads.

use larder_http::{
    Framing, HeadError, HeadLimits, HeadStatus, Known, Method, RequestHead, Version, body_framing, check_host,
    keep_alive_wanted, parse_request, status, take_host,
};

use crate::{shown, text};

/// Parses a head that must be complete, and gives it back.
fn parse(input: &str) -> RequestHead {
    let mut head = RequestHead::new();
    let result = parse_request(input.as_bytes(), &mut head, &HeadLimits::default());
    assert_eq!(result, Ok(HeadStatus::Complete { consumed: input.len() }), "{input:?}");
    head
}

fn refusal(input: &[u8], limits: &HeadLimits) -> HeadError {
    let mut head = RequestHead::new();
    match parse_request(input, &mut head, limits) {
        Err(error) => error,
        Ok(status) => panic!("{:?} is {status:?}", text(input)),
    }
}

#[test]
fn the_parts_of_a_head_are_where_they_belong() {
    let head = parse("GET /a/b?c=d HTTP/1.1\r\nHost: a\r\nX-One:  1 2\t\r\ncookie:\r\n\r\n");
    assert_eq!((head.method, head.version), (Method::Get, Version::Http11));
    assert_eq!(text(head.method_name()), "GET");
    assert_eq!(text(head.target()), "/a/b?c=d");
    assert_eq!(head.target_host(), None);
    assert_eq!(text(head.line()), "GET /a/b?c=d HTTP/1.1");
    assert_eq!(shown(&head.fields), "Host: a, X-One: 1 2, cookie: ");
    assert_eq!(head.fields.get_known(Known::Cookie), Some(&b""[..]));
    assert_eq!(head.bytes(), "GET /a/b?c=d HTTP/1.1\r\nHost: a\r\nX-One:  1 2\t\r\ncookie:\r\n\r\n".len());
    assert!(head.ignored().is_empty());
}

#[test]
fn request_lines_have_several_forms() {
    for (line, method, target, host, version) in [
        ("GET / HTTP/1.1", Method::Get, "/", None, Version::Http11),
        ("GET / HTTP/1.0", Method::Get, "/", None, Version::Http10),
        ("GET / HTTP/1.9", Method::Get, "/", None, Version::Http11),
        ("GET / HTTP/1.00", Method::Get, "/", None, Version::Http10),
        ("GET   /   HTTP/1.1  ", Method::Get, "/", None, Version::Http11),
        ("PURGE /x HTTP/1.1", Method::Purge, "/x", None, Version::Http11),
        ("M-SEARCH /x HTTP/1.1", Method::Other, "/x", None, Version::Http11),
        ("MY_METHOD /x HTTP/1.1", Method::Other, "/x", None, Version::Http11),
        ("GET //a/../b#c HTTP/1.1", Method::Get, "//a/../b#c", None, Version::Http11),
        ("GET /é\"<> HTTP/1.1", Method::Get, "/é\"<>", None, Version::Http11),
        ("GET /HTTP/1.0 HTTP/1.1", Method::Get, "/HTTP/1.0", None, Version::Http11),
        ("GET http://a.b:80/c?d HTTP/1.1", Method::Get, "/c?d", Some("a.b:80"), Version::Http11),
        ("GET HTTPS://A/ HTTP/1.1", Method::Get, "/", Some("A"), Version::Http11),
        ("GET http://a HTTP/1.1", Method::Get, "/", Some("a"), Version::Http11),
        ("GET http://a: HTTP/1.1", Method::Get, "/", Some("a:"), Version::Http11),
        ("GET http://a?b HTTP/1.1", Method::Get, "?b", Some("a"), Version::Http11),
        ("GET http://[::1]:80/ HTTP/1.1", Method::Get, "/", Some("[::1]:80"), Version::Http11),
        ("GET http:///a HTTP/1.1", Method::Get, "/a", Some(""), Version::Http11),
        ("CONNECT a.b:443 HTTP/1.1", Method::Connect, "/", Some("a.b:443"), Version::Http11),
        ("CONNECT a.b:443   HTTP/1.1", Method::Connect, "/", Some("a.b:443"), Version::Http11),
    ] {
        let head = parse(&format!("{line}\r\n\r\n"));
        assert_eq!((head.method, head.version), (method, version), "{line}");
        assert_eq!(text(head.target()), target, "{line}");
        assert_eq!(head.target_host().map(text), host.map(str::to_owned), "{line}");
        assert_eq!(text(head.line()), line);
    }
}

#[test]
fn bad_request_lines_are_refused_with_nginxs_status_and_kept_for_the_log() {
    for (line, error, status) in [
        ("get / HTTP/1.1", HeadError::InvalidMethod, 400),
        ("GET", HeadError::InvalidMethod, 400),
        ("G\tET / HTTP/1.1", HeadError::InvalidMethod, 400),
        (" GET / HTTP/1.1", HeadError::InvalidMethod, 400),
        ("\x16\x03\x01", HeadError::InvalidMethod, 400),
        ("GET ", HeadError::InvalidRequest, 400),
        ("GET * HTTP/1.1", HeadError::InvalidRequest, 400),
        ("OPTIONS * HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET\t/ HTTP/1.1", HeadError::InvalidMethod, 400),
        ("GET a HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a\tb HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a\0b HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a\x7f HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a\rb HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a b HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET /a", HeadError::Http09, 400),
        ("GET /a ", HeadError::Http09, 400),
        ("GET / http/1.1", HeadError::InvalidRequest, 400),
        ("GET / HTTP", HeadError::InvalidRequest, 400),
        ("GET / HTTP/", HeadError::InvalidRequest, 400),
        ("GET / HTTP/0.9", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1.", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1.x", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1.1111", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1.1 x", HeadError::InvalidRequest, 400),
        ("GET / HTTP/1.1\t", HeadError::InvalidRequest, 400),
        ("GET / HTTP/2.0", HeadError::InvalidVersion, 505),
        ("GET / HTTP/3", HeadError::InvalidVersion, 505),
        ("GET / HTTP/11.1", HeadError::InvalidVersion, 505),
        ("PRI * HTTP/2.0", HeadError::InvalidRequest, 400),
        ("GET http:/a HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET http://u@a/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET http://a_b/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET http://a:8x/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET http://[::1/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET 1http://a/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("GET http://a#b HTTP/1.1", HeadError::InvalidRequest, 400),
        ("CONNECT a.b:443/ HTTP/1.1", HeadError::InvalidRequest, 400),
        ("CONNECT a.b:443", HeadError::Http09, 400),
    ] {
        let mut head = RequestHead::new();
        let result = parse_request(format!("{line}\nHost: a\n\n").as_bytes(), &mut head, &HeadLimits::default());
        assert_eq!(result, Err(error.clone()), "{line:?}");
        assert_eq!(error.status(), status);
        assert_eq!(text(head.line()), line.trim_end_matches('\r'), "the line is kept");
    }
}

#[test]
fn what_cannot_become_a_request_line_is_refused_before_it_ends() {
    for (input, error) in [
        (&b"\x16\x03\x01\x02\x00"[..], HeadError::InvalidMethod),
        (b"SSH-2.0-OpenSSH", HeadError::InvalidMethod),
        (b"GET /\x01", HeadError::InvalidRequest),
        (b"GET /a\rb", HeadError::InvalidRequest),
    ] {
        assert_eq!(refusal(input, &HeadLimits::default()), error, "{:?}", text(input));
    }
}

#[test]
fn empty_lines_before_a_request_are_skipped_and_bounded() {
    let mut head = RequestHead::new();
    let limits = HeadLimits::default();
    let input = b"\r\n\n\r\nGET / HTTP/1.0\n\nrest";
    assert_eq!(parse_request(input, &mut head, &limits), Ok(HeadStatus::Complete { consumed: input.len() - 4 }));
    assert_eq!(head.bytes(), "GET / HTTP/1.0\n\n".len());
    assert_eq!(parse_request(b"\r\n", &mut head, &limits), Ok(HeadStatus::Partial));
    assert_eq!(parse_request(b"", &mut head, &limits), Ok(HeadStatus::Partial));
    assert_eq!(refusal(&[b'\n'; 1000], &limits), HeadError::InvalidMethod);
    let late = ["\r\n".repeat(100).as_bytes(), b"GET / HTTP/1.0\n\n"].concat();
    assert_eq!(refusal(&late, &limits), HeadError::InvalidMethod);
}

#[test]
fn fields_with_odd_names_are_left_out_or_taken_as_configured() {
    let input = b"GET / HTTP/1.1\r\nHost: a\r\nX_One: 1\r\nX(y: 2\r\nX.Two: 3\r\nX-Ok: 4\r\n\r\n";
    let lenient = HeadLimits::default();
    let underscores = HeadLimits { underscores: true, ..lenient.clone() };
    for (limits, kept, ignored) in [
        (&lenient, "Host: a, X-Ok: 4", "X_One: 1, X(y: 2, X.Two: 3"),
        (&underscores, "Host: a, X_One: 1, X-Ok: 4", "X(y: 2, X.Two: 3"),
    ] {
        let mut head = RequestHead::new();
        parse_request(input, &mut head, limits).expect("the head is valid");
        assert_eq!(shown(&head.fields), kept);
        assert_eq!(shown(head.ignored()), ignored);
    }
    let all = HeadLimits { ignore_invalid: false, ..lenient };
    let mut head = RequestHead::new();
    parse_request(input, &mut head, &all).expect("the head is valid");
    assert_eq!(shown(&head.fields), "Host: a, X_One: 1, X(y: 2, X.Two: 3, X-Ok: 4");
    assert!(head.ignored().is_empty());
}

#[test]
fn where_fields_are_strict_names_are_tokens_and_values_have_no_control_characters() {
    let lenient = HeadLimits { ignore_invalid: false, ..HeadLimits::default() };
    let strict = HeadLimits { strict_fields: true, ..lenient.clone() };
    // The byte that is refused.
    for (line, bad) in [
        (&b"A: b\tc\xe9\x80"[..], None),
        (b"a!#$%&'*+-.^_`|~0: b", None),
        (b"Host: a", None),
        (b"A: b\x01c", Some(1)),
        (b"A: \x0bb", Some(0x0b)),
        (b"A: b\x1f", Some(0x1f)),
        (b"A: b\x7f", Some(0x7f)),
        (b"Host: a\x7fb", Some(0x7f)),
        (b"Host: a\x0cb", Some(0x0c)),
        (b"A(: b", Some(b'(')),
        (b"A/b: c", Some(b'/')),
        (b"A\xc3: b", Some(0xc3)),
    ] {
        let input = [b"GET / HTTP/1.1\r\n", line, b"\r\n\r\n"].concat();
        let mut head = RequestHead::new();
        assert!(parse_request(&input, &mut head, &lenient).is_ok(), "{:?}", text(line));
        let found = match parse_request(&input, &mut head, &strict) {
            Ok(HeadStatus::Complete { .. }) => None,
            Err(HeadError::InvalidField { byte, .. }) => Some(byte),
            other => panic!("{:?}: {other:?}", text(line)),
        };
        assert_eq!(found, bad, "{:?}", text(line));
    }
}

#[test]
fn limits_hold_exactly_whether_lines_are_complete_or_not() {
    let unlimited = HeadLimits { line_bytes: 1000, head_bytes: 1000, field_bytes: 1000, ..HeadLimits::default() };
    let line = "GET /aaaa HTTP/1.0\r\n";
    let field = "X-Long: bbbb\r\n";
    let input = format!("{line}{field}\r\n");
    for (limits, error) in [
        (HeadLimits { line_bytes: line.len(), ..unlimited.clone() }, None),
        (HeadLimits { line_bytes: line.len() - 1, ..unlimited.clone() }, Some((414, "too long URI"))),
        (HeadLimits { field_bytes: field.len(), ..unlimited.clone() }, None),
        (
            HeadLimits { field_bytes: field.len() - 1, ..unlimited.clone() },
            Some((494, "too long header line: \"X-Long")),
        ),
        (HeadLimits { head_bytes: input.len(), ..unlimited.clone() }, None),
        (HeadLimits { head_bytes: input.len() - 1, ..unlimited.clone() }, Some((494, "too large request"))),
        (HeadLimits { max_fields: 1, ..unlimited.clone() }, None),
        (HeadLimits { max_fields: 0, ..unlimited.clone() }, Some((494, "too many header lines"))),
    ] {
        let mut head = RequestHead::new();
        let result = parse_request(input.as_bytes(), &mut head, &limits);
        match error {
            None => assert_eq!(result, Ok(HeadStatus::Complete { consumed: input.len() }), "{limits:?}"),
            Some((status, message)) => {
                let found = result.expect_err(message);
                assert!(found.to_string().contains(message), "{found}");
                assert_eq!(found.status(), status);
            }
        }
    }
    let small = HeadLimits { line_bytes: 100, field_bytes: 100, head_bytes: 300, ..unlimited };
    let endless = |start: &str| [start.as_bytes(), &[b'a'; 400]].concat();
    assert_eq!(refusal(&endless("GET /"), &small), HeadError::LineTooLong);
    assert_eq!(refusal(&endless("GET / HTTP/1.1\nX:"), &small).status(), 494);
    assert_eq!(refusal(&endless("GET / HTTP/1.1\nX"), &small).status(), 494);
    let many = format!("GET / HTTP/1.1\n{}", "X: 1\n".repeat(100));
    assert_eq!(refusal(many.as_bytes(), &small), HeadError::HeadTooLarge);
    assert_eq!(status::sent_status(494), 400);
}

#[test]
fn parsing_into_a_used_head_takes_no_more_memory() {
    let input = b"GET /a HTTP/1.1\r\nHost: a\r\nX-A: 1\r\nX_B: 2\r\nAccept: */*\r\n\r\n";
    let mut head = RequestHead::new();
    parse_request(input, &mut head, &HeadLimits::default()).expect("the head is valid");
    let held = (head.fields.heap_bytes(), head.ignored().heap_bytes());
    for _ in 0..10 {
        parse_request(input, &mut head, &HeadLimits::default()).expect("the head is valid");
    }
    assert_eq!((head.fields.heap_bytes(), head.ignored().heap_bytes()), held);
    assert_eq!(head.fields.len(), 3);
}

#[test]
fn bodies_end_as_the_fields_say() {
    for (version, fields, expected) in [
        ("1.1", "", Framing::None),
        ("1.1", "Content-Length: 0\n", Framing::Length(0)),
        ("1.1", "content-length:  42 \n", Framing::Length(42)),
        ("1.0", "Content-Length: 007\n", Framing::Length(7)),
        ("1.1", "Content-Length: 9223372036854775807\n", Framing::Length(i64::MAX as u64)),
        ("1.1", "Transfer-Encoding: chunked\n", Framing::Chunked),
        ("1.1", "Transfer-Encoding: CHUNKED \n", Framing::Chunked),
    ] {
        let head = parse(&format!("POST / HTTP/{version}\nHost: a\n{fields}\n"));
        assert_eq!(body_framing(&head), Ok(expected), "{fields}");
    }
}

#[test]
fn a_request_must_name_one_valid_host() {
    for (head, expected) in [
        ("GET / HTTP/1.1\nHost: a\n\n", Ok(())),
        ("GET / HTTP/1.1\nHost: A.b:80\n\n", Ok(())),
        ("GET / HTTP/1.0\n\n", Ok(())),
        ("GET / HTTP/1.1\n\n", Err(HeadError::MissingHost)),
        ("GET http://a/ HTTP/1.1\n\n", Err(HeadError::MissingHost)),
        ("GET http://a/ HTTP/1.1\nHost: b\n\n", Ok(())),
        ("GET http://a/ HTTP/1.1\nHost: b/c\n\n", Err(HeadError::InvalidHost)),
        ("GET http://a..b/ HTTP/1.1\nHost: b\n\n", Err(HeadError::InvalidTargetHost)),
        ("GET http:///a HTTP/1.1\nHost: b\n\n", Err(HeadError::InvalidTargetHost)),
        ("GET / HTTP/1.1\nHost:\n\n", Err(HeadError::InvalidHost)),
        ("GET / HTTP/1.0\nHost: a b\n\n", Err(HeadError::InvalidHost)),
        ("GET / HTTP/1.1\nHost: a:b\n\n", Err(HeadError::InvalidHost)),
    ] {
        assert_eq!(check_host(&parse(head)), expected, "{head:?}");
        assert_eq!(take_host(&mut parse(head), &mut Vec::new()), expected, "{head:?}");
        assert!(expected.is_ok() || expected.is_err_and(|error| error.status() == 400));
    }
}

#[test]
fn the_host_of_the_target_is_taken_before_that_of_the_field() {
    for (head, host, field) in [
        ("GET / HTTP/1.1\nHost: A.b.:80\n\n", "a.b", Some("A.b.:80")),
        ("GET http://C:1/ HTTP/1.1\nHost: b\n\n", "c", Some("C:1")),
        ("GET http://c/ HTTP/1.0\n\n", "c", Some("c")),
        ("GET / HTTP/1.0\n\n", "", None),
    ] {
        let (mut head, mut taken) = (parse(head), Vec::new());
        assert_eq!(take_host(&mut head, &mut taken), Ok(()));
        assert_eq!(String::from_utf8_lossy(&taken), host);
        assert_eq!(head.fields.get_known(Known::Host), field.map(str::as_bytes));
    }
}

#[test]
fn connections_are_kept_when_both_sides_may() {
    for (version, fields, expected) in [
        ("1.1", "", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\n", true),
        ("1.1", "Connection: close\n", false),
        ("1.1", "Connection: upgrade, Close\n", false),
        ("1.1", "Connection: keep-alive\nConnection: close\n", false),
        ("1.0", "Connection: keep-alive, close\n", false),
        ("1.1", "Connection: closed\n", true),
    ] {
        let head = parse(&format!("GET / HTTP/{version}\nHost: a\n{fields}\n"));
        assert_eq!(keep_alive_wanted(&head), expected, "{version} {fields}");
    }
}
