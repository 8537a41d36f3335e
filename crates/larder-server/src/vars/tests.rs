use super::append::{append_ip, named};
use super::arg;
use super::upstream::set_cookie;

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

#[test]
fn an_address_is_written_as_the_standard_library_does() {
    for ip in ["0.0.0.0", "127.0.0.1", "10.20.30.255", "::1", "2001:db8::7", "::ffff:1.2.3.4"] {
        let mut out = b"a=".to_vec();
        assert!(append_ip(ip.parse().expect("it is an address"), &mut out));
        assert_eq!(out, format!("a={ip}").into_bytes());
    }
}
