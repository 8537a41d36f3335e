//! Heads from origins.

use larder_http::h1::response::CGI_FIELDS_MAX;
use larder_http::{
    HeadStatus, Method, ResponseError, ResponseFraming, ResponseHead, Version, keep_alive_offered, parse_cgi,
    parse_response, response_framing,
};

use crate::{shown, text};

fn parse(input: &str) -> ResponseHead {
    let mut head = ResponseHead::new();
    let result = parse_response(input.as_bytes(), &mut head, 100);
    assert_eq!(result, Ok(HeadStatus::Complete { consumed: input.len() }), "{input:?}");
    head
}

#[test]
fn status_lines_are_read_leniently() {
    for (line, status, reason, version) in [
        ("HTTP/1.1 200 OK", 200, "OK", Version::Http11),
        ("HTTP/1.0 404 Not Found", 404, "Not Found", Version::Http10),
        ("HTTP/1.1 200", 200, "", Version::Http11),
        ("HTTP/1.1 200 ", 200, "", Version::Http11),
        ("HTTP/1.1  200 OK", 200, "OK", Version::Http11),
        ("HTTP/1.1 403.1 No", 403, ".1 No", Version::Http11),
        ("HTTP/2.0 200 OK", 200, "OK", Version::Http11),
        ("HTTP/1.1 999 é", 999, "é", Version::Http11),
    ] {
        for end in ["\r\n", "\n"] {
            let head = parse(&format!("{line}{end}A: b{end}{end}"));
            assert_eq!((head.status, text(&head.reason), head.version), (status, reason.into(), version), "{line}");
            assert_eq!(shown(&head.fields), "A: b");
        }
    }
}

#[test]
fn what_is_no_status_line_is_refused_as_soon_as_it_shows() {
    for input in [
        "<html>",
        "X",
        "HTTP/1.1\n",
        "HTTP/1.1 20\n",
        "HTTP/1.1 2000 OK\n",
        "HTTP/1.1 20x OK\n",
        "HTTP/1.1 099 x\n",
        "HTTP/x.1 200 OK\n",
        "HTTP/1 200 OK\n",
        "HTTP/0.9 200 OK\n",
        "HTTP/1.1111 200 OK\n",
        "\n",
        "\r\n",
        "HTTP/1.1 200 O\0K\n",
        "HTTP/1.1 200 O\rK\n",
        "HTTP/1.1\t200 OK\n",
        "HTTP/.1 200 OK\n",
        "HTTP/1. 200 OK\n",
    ] {
        let result = parse_response(input.as_bytes(), &mut ResponseHead::new(), 100);
        assert!(matches!(result, Err(ResponseError::InvalidStatusLine { .. })), "{input:?} is {result:?}");
    }
}

#[test]
fn fields_are_read_as_nginx_reads_them() {
    for (fields, expected) in [
        ("A: b\r\nA_b: c\nA(b: d\n", "A: b, A_b: c, A(b: d"),
        ("Foo\nA: b\n", "Foo: , A: b"),
        ("A: b\r\r\nC: d\n", "A: b, C: d"),
        ("HTTP/1.1 200 OK\nA: b\n", "A: b"),
        ("HTTP: b\n", "HTTP: b"),
        ("A:\n", "A: "),
    ] {
        assert_eq!(shown(&parse(&format!("HTTP/1.1 200 OK\n{fields}\n")).fields), expected, "{fields:?}");
    }
    for (fields, message) in [
        (" A: b\n", "upstream sent invalid header: \"\\x20...\""),
        ("A: b\n c\n", "upstream sent invalid header: \"\\x20...\""),
        ("A : b\n", "upstream sent invalid header: \"A\\x20...\""),
        ("A: b\0c\n", "upstream sent invalid header: \"A: b\\x00...\""),
        ("A: b\rc\n", "upstream sent invalid header: \"A: b\\x0dc...\""),
        (": b\n", "upstream sent invalid header: \"\\x3a...\""),
    ] {
        let input = format!("HTTP/1.1 200 OK\n{fields}\n");
        let error = parse_response(input.as_bytes(), &mut ResponseHead::new(), 100).expect_err(fields);
        let shortened = message.replace("\\x0dc", "\r\\x63");
        assert_eq!(error.to_string(), shortened, "{fields:?}");
    }
    let many = format!("HTTP/1.1 200 OK\n{}\n", "A: b\n".repeat(101));
    let result = parse_response(many.as_bytes(), &mut ResponseHead::new(), 100);
    assert_eq!(result, Err(ResponseError::TooManyFields { limit: 100 }));
}

#[test]
fn cgi_heads_say_their_status_in_a_field() {
    for (input, status, reason) in [
        ("Content-Type: text/html\r\n\r\n", 200, "OK"),
        ("\n", 200, "OK"),
        ("Status: 404 Not Found\r\nA: b\r\n\r\n", 404, "Not Found"),
        ("A: b\nstatus: 500\n\n", 500, ""),
        ("Status: 200\nLocation: /a\n\n", 200, ""),
        ("Location: /a\n\n", 302, "Moved Temporarily"),
        ("Status: 301 Moved\nLocation: /a\n\n", 301, "Moved"),
    ] {
        let mut head = ResponseHead::new();
        let result = parse_cgi(input.as_bytes(), &mut head);
        assert_eq!(result, Ok(HeadStatus::Complete { consumed: input.len() }), "{input:?}");
        assert_eq!((head.status, text(&head.reason)), (status, reason.into()), "{input:?}");
        assert_eq!(head.version, Version::Http11);
    }
    for input in ["Status: x\n\n", "Status: 20\n\n", "Status:\n\n", "Status: 000\n\n", "Status: -20\n\n"] {
        let result = parse_cgi(input.as_bytes(), &mut ResponseHead::new());
        assert!(matches!(result, Err(ResponseError::InvalidStatus { .. })), "{input:?}");
    }
    for input in [" A: b\n\n", "A: b\n c\n\n", "A: \0\n\n", "PHP Warning: x\n\n", "<br />\n<b>Warning</b>\n\n"] {
        let result = parse_cgi(input.as_bytes(), &mut ResponseHead::new());
        assert!(matches!(result, Err(ResponseError::InvalidHeader { .. })), "{input:?} is {result:?}");
    }
    let many = "A: b\n".repeat(CGI_FIELDS_MAX + 1);
    let result = parse_cgi(many.as_bytes(), &mut ResponseHead::new());
    assert_eq!(result, Err(ResponseError::TooManyFields { limit: CGI_FIELDS_MAX }));
}

#[test]
fn bodies_end_as_status_method_and_fields_say() {
    use ResponseFraming::{Chunked, Length, None, UntilClose};
    for (status, method, fields, expected) in [
        (200, Method::Get, "", UntilClose),
        (200, Method::Get, "Content-Length: 5\n", Length(5)),
        (200, Method::Get, "Content-Length: 0\n", Length(0)),
        (200, Method::Get, "Transfer-Encoding: Chunked\n", Chunked),
        (200, Method::Head, "Content-Length: 5\n", None),
        (200, Method::Head, "Transfer-Encoding: chunked\n", None),
        (204, Method::Get, "Content-Length: 5\n", None),
        (304, Method::Get, "Content-Length: 5\n", None),
        (100, Method::Get, "", None),
        (101, Method::Get, "", None),
        (404, Method::Post, "", UntilClose),
    ] {
        let head = parse(&format!("HTTP/1.1 {status} x\n{fields}\n"));
        assert_eq!(response_framing(&head, method), Ok(expected), "{status} {method:?} {fields}");
    }
}

#[test]
fn bodies_whose_end_is_in_doubt_are_refused() {
    for (fields, message) in [
        ("Content-Length: 5\nTransfer-Encoding: chunked\n", "at the same time"),
        ("Transfer-Encoding: chunked\nContent-Length: 5\n", "at the same time"),
        ("Content-Length: 5\nContent-Length: 5\n", "duplicate header line: \"Content-Length: 5\", previous value: "),
        ("Content-Length: 5\nContent-Length: 6\n", "duplicate header line: \"Content-Length: 6\", previous value: "),
        ("Content-Length: 5, 5\n", "invalid \"Content-Length\" header: \"5, 5\""),
        ("Content-Length: -5\n", "invalid \"Content-Length\""),
        ("Content-Length:\n", "invalid \"Content-Length\""),
        ("Transfer-Encoding: gzip, chunked\n", "unknown \"Transfer-Encoding\": \"gzip, chunked\""),
        ("Transfer-Encoding: chunked\nTransfer-Encoding: chunked\n", "duplicate header line"),
    ] {
        for method in [Method::Get, Method::Head] {
            let head = parse(&format!("HTTP/1.1 200 OK\n{fields}\n"));
            let error = response_framing(&head, method).expect_err(fields);
            assert!(error.to_string().contains(message), "{error}");
        }
    }
}

#[test]
fn origins_say_whether_they_keep_the_connection() {
    for (head, expected) in [
        ("HTTP/1.1 200 OK\n\n", true),
        ("HTTP/1.0 200 OK\n\n", false),
        ("HTTP/1.0 200 OK\nConnection: keep-alive\n\n", true),
        ("HTTP/1.1 200 OK\nConnection: Close\n\n", false),
    ] {
        assert_eq!(keep_alive_offered(&parse(head)), expected, "{head:?}");
    }
}
