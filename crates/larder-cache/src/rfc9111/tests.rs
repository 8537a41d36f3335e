use super::*;

/// A quarter to nine on a Sunday in 1994.
const NOW: u64 = 784_111_777;

fn fields(lines: &str) -> Fields {
    let mut fields = Fields::new();
    for line in lines.lines() {
        let (name, value) = line.split_once(": ").unwrap_or((line, ""));
        fields.push(name.trim().as_bytes(), value.as_bytes());
    }
    fields
}

/// What is asked of a response: its status, its lines, and what came before it.
#[derive(Clone, Copy, Default)]
struct Case {
    status: Option<u16>,
    is_authorised: bool,
    delay: u64,
    configured: Option<u64>,
    may_have_cookies: bool,
    is_slice: bool,
}

fn stored(lines: &str, case: Case) -> Result<Storable, &'static str> {
    let fields = fields(lines);
    let said = Said::by(&fields, &["cdn-cache-control".into()]);
    storable(
        &said,
        &Response {
            status: case.status.unwrap_or(200),
            fields: &fields,
            is_authorised: case.is_authorised,
            delay: Duration::from_secs(case.delay),
            now: Time::from_secs(NOW),
            configured: case.configured.map(Duration::from_secs),
            may_have_cookies: case.may_have_cookies,
            is_slice: case.is_slice,
        },
    )
}

/// How long it is fresh from now, seconds.
fn fresh_for(lines: &str) -> Result<u64, &'static str> {
    stored(lines, Case::default()).map(|storable| storable.fresh_until.secs() - NOW)
}

#[test]
fn explicit_freshness_is_that_of_the_strongest_field() {
    for (lines, expected) in [
        ("Cache-Control: max-age=60", Ok(60)),
        ("Cache-Control: MaX-aGe=60", Ok(60)),
        ("Cache-Control: max-age=60, s-maxage=7", Ok(7)),
        ("Cache-Control: s-maxage=7\nCache-Control: max-age=60", Ok(7)),
        ("Cache-Control: max-age=60, max-age=1", Ok(60)),
        ("Cache-Control: max-age=\"60\"", Ok(60)),
        ("Cache-Control: max-age=0060", Ok(60)),
        ("Cache-Control: max-age=99999999999", Ok(1 << 31)),
        ("Cache-Control: x=\"max-age=1\", max-age=60", Ok(60)),
        ("Cache-Control: unknown, max-age=60", Ok(60)),
        ("Cache-Control: max-age='60'", Err(OVER)),
        ("Cache-Control: max-age=60.0", Err(OVER)),
        ("Cache-Control: max-age =60", Err(OVER)),
        ("Cache-Control: max-age= 60", Err(OVER)),
        ("Cache-Control: max-age=60;s-maxage=7", Err(OVER)),
        ("Cache-Control: max-age=0\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Err(OVER)),
        ("Expires: Sun, 06 Nov 1994 08:50:37 GMT", Ok(60)),
        ("Expires: Sun, 06 Nov 1994 08:50:37 GMT\nDate: foo", Ok(60)),
        ("Expires: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:49:47 GMT", Ok(50)),
        ("Expires: Sun, 06 Nov 1994 08:50:37 GMT\nDate: Sun, 06 Nov 1994 08:49:27 GMT", Ok(60)),
        ("Expires: Sun, 06 Nov 1994 08:50:37 UTC", Err(OVER)),
        ("Expires: 0", Err(OVER)),
        ("Cache-Control: max-age=60\nExpires: 0", Ok(60)),
        ("CDN-Cache-Control: max-age=7\nCache-Control: max-age=60", Ok(7)),
        ("CDN-Cache-Control: max-age=60\nCache-Control: no-store", Ok(60)),
        ("CDN-Cache-Control: max-age=60, &&&\nCache-Control: max-age=7", Ok(7)),
        ("CDN-Cache-Control: \nCache-Control: max-age=7", Ok(7)),
        ("CDN-Cache-Control: max-age=\"60\"\nCache-Control: max-age=7", Err("no lifetime")),
        ("CDN-Cache-Control: public\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Err("no lifetime")),
        ("CDN-Cache-Control: no-store\nCache-Control: max-age=7", Err("Cache-Control: no-store")),
        ("CDN-Cache-Control: no-store=?0, max-age=60", Ok(60)),
    ] {
        assert_eq!(fresh_for(lines), expected, "{lines}");
    }
}

#[test]
fn what_belongs_to_one_visitor_is_not_stored() {
    for (lines, expected) in [
        ("Cache-Control: no-store, max-age=60", Err("Cache-Control: no-store")),
        ("Cache-Control: max-age=60\nCache-Control: No-StOrE", Err("Cache-Control: no-store")),
        ("Cache-Control: x=\"y, no-store, max-age=60", Err("Cache-Control: no-store")),
        ("Cache-Control: private, max-age=60", Err("Cache-Control: private")),
        ("Cache-Control: private; max-age=60\nExpires: Sun, 06 Nov 1994 08:50:37 GMT", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, no-store;", Err("Cache-Control: no-store")),
        ("Cache-Control: private =1, max-age=60", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, private=\"X-A", Err("Cache-Control: private")),
        ("Cache-Control: private=\"X-A\nCache-Control: X-B\", max-age=60", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, private=true", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, private=\"X-A X-B\"", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, private=\"Vary\"", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, private=\"CDN-Cache-Control\"", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, \"private\"", Err("Cache-Control: private")),
        ("Cache-Control: max-age=60, a=\"b, private, c=\"d", Err("Cache-Control: private")),
        ("Cache-Control: private=\"X-A\", max-age=60", Ok(60)),
        ("Cache-Control: no-cache, max-age=60", Err("Cache-Control: no-cache")),
        ("Cache-Control: no-cache, max-age=60\nETag: \"a\"", Ok(0)),
        ("Cache-Control: no-cache=\"X-A\", max-age=60", Ok(60)),
        ("Cache-Control: max-age=60\nSet-Cookie: a=1", Err("Set-Cookie")),
        ("Cache-Control: max-age=60, no-cache=\"Set-Cookie\"\nSet-Cookie: a=1", Ok(60)),
        ("Cache-Control: max-age=60, private=\"set-cookie, x-a\"\nSet-Cookie: a=1", Ok(60)),
        ("Cache-Control: no-store, must-understand, max-age=60", Ok(60)),
    ] {
        assert_eq!(fresh_for(lines), expected, "{lines}");
    }
    let cookies = Case { may_have_cookies: true, ..Case::default() };
    assert!(stored("Cache-Control: max-age=60\nSet-Cookie: a=1", cookies).is_ok());
    let unknown = Case { status: Some(599), ..Case::default() };
    assert!(stored("Cache-Control: max-age=60", unknown).is_ok());
    let refused = stored("Cache-Control: no-store, must-understand, max-age=60", unknown);
    assert_eq!(refused, Err("Cache-Control: must-understand"));
}

#[test]
fn an_answer_to_a_request_with_authorization_is_stored_if_it_says_so() {
    let authorised = Case { is_authorised: true, ..Case::default() };
    for (control, is_stored) in [
        ("max-age=60", false),
        ("max-age=60, public", true),
        ("max-age=60, must-revalidate", true),
        ("s-maxage=60", true),
        ("s-maxage=60, private", false),
        ("s-maxage=abc, max-age=60", false),
    ] {
        assert_eq!(stored(&format!("Cache-Control: {control}"), authorised).is_ok(), is_stored, "{control}");
    }
}

#[test]
fn the_age_is_the_greater_of_what_age_and_date_say() {
    for (lines, delay, expected) in [
        ("Age: 5", 0, 5),
        ("Age: 5", 3, 8),
        ("Age: 7, 0", 0, 7),
        ("Age: 0, 7", 0, 0),
        ("Age: 7\nAge: 0", 0, 7),
        ("Age: abc", 3, 0),
        ("Age: -7", 0, 0),
        ("Age: 7.0", 0, 0),
        ("Age: 2147483649", 0, 1 << 31),
        ("Date: Sun, 06 Nov 1994 08:49:27 GMT", 3, 10),
        ("Date: Sun, 06 Nov 1994 08:49:27 GMT\nAge: 25", 0, 25),
        ("Date: Sun, 06 Nov 1994 08:49:47 GMT\nAge: 5", 0, 5),
        ("Date: tomorrow", 0, 0),
        ("", 3, 0),
    ] {
        assert_eq!(age(&fields(lines), Duration::from_secs(delay), Time::from_secs(NOW)), expected, "{lines}");
    }
    let aged = stored("Cache-Control: max-age=60\nAge: 25", Case::default()).expect("it may be stored");
    assert_eq!((aged.age, aged.fresh_until.secs() - NOW), (25, 35));
    assert_eq!(fresh_for("Cache-Control: max-age=60\nAge: 90"), Err(OVER));
    assert_eq!(fresh_for("Cache-Control: max-age=60\nAge: 90\nETag: \"a\""), Ok(0));
}

#[test]
fn without_explicit_freshness_the_configuration_and_then_the_age_of_the_page_decide() {
    let modified = "Last-Modified: Sun, 06 Nov 1994 08:39:37 GMT";
    let long_ago = "Last-Modified: Sun, 06 Nov 1970 08:39:37 GMT";
    assert_eq!(fresh_for(modified), Ok(60));
    assert_eq!(fresh_for(long_ago), Ok(24 * 60 * 60));
    assert_eq!(fresh_for(&format!("{modified}\nExpires: 0")), Ok(0));
    assert_eq!(fresh_for(""), Err("no lifetime"));
    assert_eq!(fresh_for("Cache-Control: public"), Err("no lifetime"));
    for (status, lines, expected) in [
        (404, modified, Ok(60)),
        (502, modified, Err("its status")),
        (404, "Cache-Control: no-cache\nETag: \"a\"", Err("Cache-Control: no-cache")),
        (599, modified, Err("its status")),
        (599, "Cache-Control: public\nLast-Modified: Sun, 06 Nov 1994 08:39:37 GMT", Ok(60)),
        (502, "Cache-Control: max-age=60", Ok(60)),
        (206, "Cache-Control: max-age=60", Err("a part of a page")),
        (304, "Cache-Control: max-age=60", Err("a part of a page")),
    ] {
        let found = stored(lines, Case { status: Some(status), ..Case::default() });
        assert_eq!(found.map(|storable| storable.fresh_until.secs() - NOW), expected, "{status} {lines}");
    }
    let slice = Case { status: Some(206), is_slice: true, ..Case::default() };
    assert!(stored("Cache-Control: max-age=60", slice).is_ok());
    let configured = Case { configured: Some(5), ..Case::default() };
    let not = Case { configured: Some(0), ..Case::default() };
    assert_eq!(stored(modified, not).err(), Some("no lifetime"));
    let found = stored("", Case { status: Some(302), ..configured });
    assert_eq!(found.map(|storable| storable.fresh_until.secs() - NOW), Ok(5));
    for (lines, seconds) in [("", 5), (modified, 5), ("Cache-Control: max-age=60", 60)] {
        let found = stored(lines, configured).expect("it may be stored");
        assert_eq!(found.fresh_until.secs() - NOW, seconds, "{lines}");
    }
}

#[test]
fn stale_pages_are_used_where_nothing_forbids_it() {
    for (control, expected) in [
        ("max-age=60, stale-while-revalidate=5, stale-if-error=9", (5, 9, false)),
        ("s-maxage=60, stale-while-revalidate=5", (5, 0, false)),
        ("s-maxage=60", (0, 0, true)),
        ("max-age=60, stale-if-error=9, must-revalidate", (0, 0, true)),
        ("max-age=60, stale-if-error=9, proxy-revalidate", (0, 0, true)),
        ("max-age=60, stale-if-error=x", (0, 0, false)),
        ("max-age=60", (0, 0, false)),
    ] {
        let lines = format!("Cache-Control: {control}");
        let storable = stored(&lines, Case::default()).expect("it may be stored");
        let seconds = (storable.stale_while_revalidate.as_secs(), storable.stale_if_error.as_secs());
        let said = Said::by(&fields(&lines), &[]);
        assert_eq!((seconds.0, seconds.1, said.forbids_stale()), expected, "{control}");
    }
}

#[test]
fn a_request_may_want_a_page_younger_or_take_it_older() {
    let of = |control: &str| Asked::by(&fields(&format!("Cache-Control: {control}")));
    let left = Duration::from_secs(50);
    for (control, refuses) in [
        ("no-cache", true),
        ("No-Cache", true),
        ("max-age=0", true),
        ("max-age=9", true),
        ("max-age=10", false),
        ("max-age=x", false),
        ("min-fresh=50", false),
        ("min-fresh=51", true),
        ("no-store", false),
        ("x=\"no-cache\"", false),
        ("", false),
    ] {
        assert_eq!(of(control).refuses(10, left, false), refuses, "{control}");
    }
    assert!(!of("max-age=0").refuses(10, left, true), "a reload leaves an immutable page alone");
    assert!(of("no-cache").refuses(10, left, true));
    for (control, takes) in [("max-stale", true), ("max-stale=50", true), ("max-stale=49", false), ("max-age=9", false)]
    {
        assert_eq!(of(control).takes_stale(left), takes, "{control}");
    }
}

#[test]
fn a_confirmation_changes_what_it_says_but_for_what_describes_the_body() {
    let stored = "Date: d1\nAge: 5\nContent-Length: 10\nContent-Encoding: gzip\nX-A: 1\nx-b: 1\nX-B: 2\nVary: X";
    let confirmation = "Date: d2\nContent-Length: 0\nContent-Encoding: br\nx-a: 2\nX-C: 3\nSet-Cookie: a=1\nX-B: 4";
    let updated = updated(&fields(stored), &fields(confirmation));
    let lines: Vec<String> = updated
        .iter()
        .map(|(name, value)| format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
        .collect();
    assert_eq!(
        lines,
        ["Content-Length: 10", "Content-Encoding: gzip", "Vary: X", "Date: d2", "x-a: 2", "X-C: 3", "X-B: 4",]
    );
}
