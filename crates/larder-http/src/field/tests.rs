//! Heads, and what is asked of them.

use super::*;

fn some() -> Fields {
    [("Host", "a"), ("X-One", "1"), ("cookie", "a=1"), ("x-one", "2"), ("COOKIE", "b=2")].into_iter().collect()
}

fn shown(fields: &Fields) -> String {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    fields.iter().map(|(name, value)| text(name) + ": " + &text(value)).collect::<Vec<_>>().join(", ")
}

#[test]
fn a_length_is_announced_by_digits_only() {
    for (value, length) in [("12", Some(12)), (" 7 ", Some(7)), ("-1", None), ("1, 1", None), ("", None)] {
        let fields: Fields = [("Content-Length", value)].into_iter().collect();
        assert_eq!(fields.content_length(), length, "{value:?}");
    }
    assert_eq!(Fields::new().content_length(), None);
}

#[test]
fn order_case_and_duplicates_are_kept() {
    let fields = some();
    assert_eq!(shown(&fields), "Host: a, X-One: 1, cookie: a=1, x-one: 2, COOKIE: b=2");
    assert_eq!((fields.len(), fields.is_empty()), (5, false));
    assert_eq!(fields.get("HOST"), Some(&b"a"[..]));
    assert_eq!(fields.get("x-ONE"), Some(&b"1"[..]));
    assert_eq!(fields.get("X-Two"), None);
    assert_eq!(fields.get(""), None);
    assert_eq!(fields.get_known(Known::Cookie), Some(&b"a=1"[..]));
    assert_eq!(fields.all_known(Known::Cookie).collect::<Vec<_>>(), [b"a=1", b"b=2"]);
    assert_eq!(fields.get_all("X-One").collect::<Vec<_>>(), [b"1", b"2"]);
    assert_eq!(
        fields.iter_known().map(|field| field.0).collect::<Vec<_>>()[..3],
        [Known::Host, Known::Other, Known::Cookie]
    );
    assert!(format!("{fields:?}").contains("\"x-one\": \"2\""));
}

#[test]
fn set_puts_one_in_the_place_of_all() {
    for (name, expected) in [
        ("Cookie", "Host: a, X-One: 1, Cookie: new, x-one: 2"),
        ("X-ONE", "Host: a, X-ONE: new, cookie: a=1, COOKIE: b=2"),
        ("host", "host: new, X-One: 1, cookie: a=1, x-one: 2, COOKIE: b=2"),
        ("X-Two", "Host: a, X-One: 1, cookie: a=1, x-one: 2, COOKIE: b=2, X-Two: new"),
    ] {
        let mut fields = some();
        fields.set(name, b"new");
        assert_eq!(shown(&fields), expected);
    }
}

#[test]
fn removed_fields_are_gone_and_a_clone_has_only_the_rest() {
    let mut fields = some();
    assert!(fields.remove("x-one"));
    assert!(!fields.remove("x-one"));
    assert!(fields.remove("Host"));
    assert!(!fields.contains("Host") && !fields.contains_known(Known::Host));
    let clone = fields.clone();
    assert_eq!(shown(&clone), "cookie: a=1, COOKIE: b=2");
    assert_eq!(clone, fields);
    assert_eq!(clone.bytes.len(), "cookiea=1COOKIEb=2".len());
    fields.retain(|known, _, value| known == Known::Cookie && value == b"b=2");
    assert_eq!(shown(&fields), "COOKIE: b=2");
}

#[test]
fn a_set_of_names_is_removed_at_once() {
    for (names, is_one_there, expected) in [
        (&["X-ONE", "Host"][..], true, "cookie: a=1, COOKIE: b=2"),
        (&["Cookie"], true, "Host: a, X-One: 1, x-one: 2"),
        (&["Via", "x-none"], false, "Host: a, X-One: 1, cookie: a=1, x-one: 2, COOKIE: b=2"),
        (&[], false, "Host: a, X-One: 1, cookie: a=1, x-one: 2, COOKIE: b=2"),
    ] {
        let (names, mut fields): (Names, _) = (names.iter().collect(), some());
        assert_eq!(fields.contains_any(&names), is_one_there, "{names:?}");
        fields.remove_all(&names);
        assert_eq!(shown(&fields), expected);
        assert!(!fields.contains_any(&names), "{names:?}");
    }
    assert!(!Fields::new().contains_any(&["Host", "X-One"].iter().collect()));
}

#[test]
fn joined_values_stand_where_the_first_stood() {
    let mut fields = some();
    fields.join(Known::Cookie, b"; ");
    assert_eq!(shown(&fields), "Host: a, X-One: 1, cookie: a=1; b=2, x-one: 2");
    fields.join(Known::Cookie, b"; ");
    fields.join(Known::Via, b", ");
    assert_eq!(shown(&fields), "Host: a, X-One: 1, cookie: a=1; b=2, x-one: 2");
}

#[test]
fn clear_keeps_the_memory() {
    let mut fields = some();
    let held = fields.heap_bytes();
    fields.clear();
    assert!(fields.is_empty());
    for (name, value) in some().iter() {
        fields.push(name, value);
    }
    assert_eq!(fields.heap_bytes(), held);
}

/// Fields of a head with these lines, which has been read from the wire.
fn read(lines: &str) -> Fields {
    let mut head = crate::ResponseHead::new();
    let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
    crate::parse_response(text.as_bytes(), &mut head, 100).expect("the lines are valid");
    (*head.fields).clone_as_read()
}

impl Fields {
    /// A copy that knows which fields are lines.
    fn clone_as_read(&self) -> Fields {
        Fields { bytes: self.bytes.clone(), index: self.index.clone(), had: self.had, twice: self.twice }
    }
}

/// `<lines>` for each run of lines, `name=value` for each other field.
fn runs(fields: &Fields, is_wanted: impl FnMut(Known, &[u8]) -> bool) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace("\r\n", "/");
    let mut shown = Vec::new();
    fields.each_run(is_wanted, |run| match run {
        Run::Lines(lines) => shown.push(format!("<{}>", text(lines))),
        Run::Field(name, value) => shown.push(format!("{}={}", text(name), text(value))),
    });
    shown.join(" ")
}

#[test]
fn lines_that_stand_together_are_one_run() {
    for (lines, expected) in [
        ("", ""),
        ("A: 1\r\n", "<A: 1/>"),
        ("A: 1\r\nB: 2\r\nC: \r\n", "<A: 1/B: 2/C: />"),
        ("A: 1\r\nX: 2\r\nC: 3\r\nX: 4\r\n", "<A: 1/> <C: 3/>"),
        ("A: 1\r\nB:2\r\nC: 3\r\nD: 4\r\n", "<A: 1/> B=2 <C: 3/D: 4/>"),
        ("A: 1\nB: 2 \r\nC\r\n", "A=1 B=2 C="),
        ("A: 1\r\nHTTP/1.1 200 OK\r\nB: 2\r\n", "<A: 1/> <B: 2/>"),
    ] {
        assert_eq!(runs(&read(lines), |_, name| name != b"X"), expected, "{lines:?}");
    }
    assert_eq!(runs(&some(), |known, _| known != Known::Cookie), "Host=a X-One=1 x-one=2");
    let mut fields = read("A: 1\r\nB:2\r\n").clone();
    fields.set_sound(Known::Other, "C", b"3");
    fields.set_sound(Known::Other, "D", b"4");
    fields.set("d", b"5");
    let shown = "<A: 1/> B=2 <C: 3/> d=5";
    assert_eq!((runs(&fields, |_, _| true), runs(&fields.clone(), |_, _| true)), (shown.into(), shown.into()));
}

#[test]
fn what_is_changed_is_no_line_any_more() {
    let lines = "A: 1\r\nCookie: a\r\nB: 2\r\nCookie: b\r\n";
    for (change, expected) in [
        ((|fields| fields.set("A", b"x\r\n")) as fn(&mut Fields), "A=x/ <Cookie: a/B: 2/Cookie: b/>"),
        (|fields| fields.join(Known::Cookie, b"\r\n"), "<A: 1/> Cookie=a/b <B: 2/>"),
        (|fields| fields.push(b"C", b"\r\n"), "<A: 1/Cookie: a/B: 2/Cookie: b/> C=/"),
        (|fields| *fields = fields.clone(), "<A: 1/Cookie: a/B: 2/Cookie: b/>"),
        (|fields| fields.set_sound(Known::Other, "C", b"c"), "<A: 1/Cookie: a/B: 2/Cookie: b/C: c/>"),
        (|fields| fields.push_sound(Known::Other, b"C", b""), "<A: 1/Cookie: a/B: 2/Cookie: b/C: />"),
        (|fields| fields.set_sound(Known::Other, "a", b"c"), "<a: c/> <Cookie: a/B: 2/Cookie: b/>"),
        (|fields| fields.set_line(Known::Other, "a", b"a: c\r\n"), "<a: c/> <Cookie: a/B: 2/Cookie: b/>"),
        (|fields| fields.set_line(Known::Cookie, "Cookie", b"Cookie: \r\n"), "<A: 1/> <Cookie: /> <B: 2/>"),
        (|fields| assert!(fields.remove("b")), "<A: 1/Cookie: a/> <Cookie: b/>"),
    ] {
        let mut fields = read(lines);
        change(&mut fields);
        assert_eq!(runs(&fields, |_, _| true), expected);
    }
}

#[test]
fn a_head_is_added_to_another_as_is_said_of_each_field() {
    let mut fields = some();
    fields.extend_from(&read("A: 1\r\ncontent-type: t\r\nB: 2\r\nD:4\r\nC: 3\r\n"), |known, name| match known {
        Known::ContentType => Written::Named("Content-Type"),
        _ if name == b"C" => Written::Not,
        _ => Written::AsItIs,
    });
    let expected = "Host=a X-One=1 cookie=a=1 x-one=2 COOKIE=b=2 <A: 1/> Content-Type=t <B: 2/> D=4";
    assert_eq!(runs(&fields, |_, _| true), expected);
    assert_eq!(fields.get("content-type"), Some(&b"t"[..]));
    assert_eq!(fields.get("C"), None);
    let mut twice = read("A: 1\r\n");
    twice.extend_from(&read("B: 2\r\n"), |_, _| Written::AsItIs);
    assert_eq!(runs(&twice, |_, _| true), "<A: 1/B: 2/>");
}

#[test]
fn a_copy_is_the_head_and_nothing_else() {
    let mut fields = some();
    let other = read("A: 1\r\nVia: a\r\nB:2\r\nVia: b\r\n");
    fields.copy_from(&other);
    assert_eq!(runs(&fields, |_, _| true), runs(&other, |_, _| true));
    assert!(!fields.contains_known(Known::Cookie) && fields.contains_known(Known::Via));
    fields.set("Via", b"c");
    assert_eq!(shown(&fields), "A: 1, Via: c, B: 2");
}

#[test]
fn a_name_repeats_if_it_comes_twice() {
    let cookie = KnownSet::of(&[Known::Cookie, Known::Via]);
    assert!(some().repeats(cookie) && !some().repeats(KnownSet::of(&[Known::Host, Known::Via])));
    let mut fields = some();
    fields.join(Known::Cookie, b"; ");
    assert!(!fields.repeats(cookie));
}

#[test]
fn known_names_are_removed_at_once() {
    let lines = "Via: a\r\nA: 1\r\nAge: 1\r\nVia: b\r\nHost: h\r\n";
    for (names, expected) in [
        (&[Known::Via, Known::Age][..], "A: 1, Host: h"),
        (&[Known::Date, Known::Host], "Via: a, A: 1, Age: 1, Via: b"),
        (&[Known::Date], "Via: a, A: 1, Age: 1, Via: b, Host: h"),
        (&[], "Via: a, A: 1, Age: 1, Via: b, Host: h"),
    ] {
        let (names, mut fields) = (KnownSet::of(names), read(lines));
        fields.remove_known(names);
        assert_eq!(shown(&fields), expected);
        assert!(!fields.may_have(names));
        assert_eq!(fields.get_known(Known::Via), expected.starts_with("Via").then_some(&b"a"[..]));
        fields.push(b"Via", b"c");
        fields.set("Via", b"d");
        assert_eq!(fields.all_known(Known::Via).collect::<Vec<_>>(), [b"d"]);
    }
}

#[test]
fn a_name_that_was_removed_can_come_again() {
    let mut fields = some();
    assert!(fields.remove("cookie") && !fields.contains_known(Known::Cookie));
    fields.push(b"Cookie", b"c");
    fields.push(b"Cookie", b"d");
    assert_eq!(fields.get_known(Known::Cookie), Some(&b"c"[..]));
    fields.set("Cookie", b"e");
    assert_eq!(shown(&fields), "Host: a, X-One: 1, x-one: 2, Cookie: e");
}
