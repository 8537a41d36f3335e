use super::*;

#[test]
fn names_are_understood() {
    for (name, var) in [
        ("uri", Some(Var::Fixed(Fixed::Uri))),
        ("http_x_forwarded_for", Some(Var::Http("x-forwarded-for".into()))),
        ("sent_http_etag", Some(Var::SentHttp("etag".into()))),
        ("upstream_http_x_a", Some(Var::UpstreamHttp("x-a".into()))),
        ("upstream_cookie_sid", Some(Var::UpstreamCookie("sid".into()))),
        ("cookie_wp_x", Some(Var::Cookie("wp_x".into()))),
        ("arg_page", Some(Var::Arg("page".into()))),
        ("http_", None),
        ("arg_", Some(Var::Arg("".into()))),
        ("sent_trailer_x_a", Some(Var::SentTrailer("x-a".into()))),
        ("nonsense", None),
    ] {
        assert_eq!(built_in(name), var, "{name}");
    }
    for name in NAMES {
        assert!(built_in(name).is_some(), "{name}");
    }
}

#[test]
fn what_is_only_named_like_a_field_may_be_set() {
    for (name, may_be) in [
        ("mine", true),
        ("http_host_with_default", true),
        ("cookie_kind", true),
        ("arg_page_number", true),
        ("upstream_http_x", true),
        ("http_host", false),
        ("sent_http_location", false),
        ("uri", false),
        ("ssl_protocol", false),
        ("proxy_protocol_addr", false),
    ] {
        assert_eq!(may_be_set(name), may_be, "{name}");
    }
}

#[test]
fn an_argument_is_the_first_of_its_name() {
    for (args, name, value) in [
        ("a=1&b=2", "b", Some("2")),
        ("A=1", "a", Some("1")),
        ("a=1&a=2", "a", Some("1")),
        ("ab=1", "a", None),
        ("a", "a", None),
        ("a=", "a", Some("")),
        ("x=a=b", "x", Some("a=b")),
    ] {
        assert_eq!(arg(args.as_bytes(), name.as_bytes()), value.map(str::as_bytes), "{args}");
    }
}

#[test]
fn a_set_cookie_is_read_up_to_its_attributes() {
    let lines = ["sid=abc; Path=/", "Other = x ; Secure", "broken", "tab\t=x"];
    for (name, value) in [("sid", Some("abc")), ("OTHER", Some("x ")), ("path", None), ("broken", None), ("tab", None)]
    {
        assert_eq!(set_cookie(lines.iter().map(|line| line.as_bytes()), name), value.map(str::as_bytes), "{name}");
    }
}

#[test]
fn a_field_matches_with_hyphens_or_underscores() {
    let mut fields = larder_http::Fields::new();
    for (name, value) in [("X-A", "1"), ("x_a", "2"), ("X-AB", "3")] {
        fields.push(name.as_bytes(), value.as_bytes());
    }
    assert_eq!(named(&fields, "x-a").collect::<Vec<_>>(), [b"1", b"2"]);
}
