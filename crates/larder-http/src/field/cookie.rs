//! Cookies that a client sends.

use super::list::trim;

/// The value of the first cookie with this name, as in nginx's `$cookie_name`.
///
/// Names are compared without case, and spaces around `=` are ignored. The value ends at the next `;`; quotes and white
/// space belong to it. A cookie without `=` is skipped.
pub fn cookie<'a>(header_values: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> Option<&'a [u8]> {
    for line in header_values {
        for pair in line.split(|&byte| byte == b';') {
            let Some(equals) = memchr::memchr(b'=', pair) else {
                continue;
            };
            if trim(&pair[..equals]).eq_ignore_ascii_case(name) {
                return Some(trim_spaces_before(&pair[equals + 1..]));
            }
        }
    }
    None
}

fn trim_spaces_before(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cookie_of_the_name_is_found() {
        for (lines, name, expected) in [
            (&["a=1; b=2"][..], "b", Some("2")),
            (&["a=1;b=2"], "B", Some("2")),
            (&["a=1", "b=2"], "b", Some("2")),
            (&["a=1; a=2"], "a", Some("1")),
            (&["aa=1; a=2"], "a", Some("2")),
            (&["a =  1 ; b=2"], "a", Some("1 ")),
            (&["a=x=y"], "a", Some("x=y")),
            (&["a=\"q\""], "a", Some("\"q\"")),
            (&["a; a=3"], "a", Some("3")),
            (&["a="], "a", Some("")),
            (&["a"], "a", None),
            (&[""], "a", None),
            (&[], "a", None),
            (&["=1"], "a", None),
        ] {
            let found = cookie(lines.iter().map(|line| line.as_bytes()), name.as_bytes());
            assert_eq!(found, expected.map(str::as_bytes), "{lines:?} {name}");
        }
    }
}
