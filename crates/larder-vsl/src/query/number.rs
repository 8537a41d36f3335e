//! Numbers, as C reads them: 0x in front of hexadecimal ones, 0 in front of octal ones.

/// The number with which a text begins, and how many bytes it has. Like `strtoll()` with base 0; `None` if there is none,
/// or if it is too large.
pub fn whole(text: &[u8]) -> Option<(i64, usize)> {
    let spaces = text.iter().take_while(|byte| is_space(**byte)).count();
    let (sign, signs) = match text.get(spaces) {
        Some(b'-') => (-1, 1),
        Some(b'+') => (1, 1),
        _ => (1, 0),
    };
    let digits = &text[spaces + signs..];
    let is_hex = digits.len() > 2 && digits[0] == b'0' && digits[1] | 32 == b'x' && digits[2].is_ascii_hexdigit();
    let (base, skipped) = match digits.first() {
        Some(b'0') if is_hex => (16, 2),
        Some(b'0') => (8, 0),
        _ => (10, 0),
    };
    let mut number = 0i64;
    let mut count = 0;
    for digit in digits[skipped..].iter().map_while(|byte| char::from(*byte).to_digit(base)) {
        number = number.checked_mul(i64::from(base))?.checked_add(sign * i64::from(digit))?;
        count += 1;
    }
    (count > 0).then_some((number, spaces + signs + skipped + count))
}

/// The number that a text is. Like `strtod()`, without hexadecimal ones.
pub fn fraction(text: &[u8]) -> Option<f64> {
    let spaces = text.iter().take_while(|byte| is_space(**byte)).count();
    std::str::from_utf8(&text[spaces..]).ok()?.parse().ok()
}

/// Like `isspace()`.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_by_c() {
        for (text, expected) in [
            ("0", Some((0, 1))),
            ("200", Some((200, 3))),
            (" \t-7x", Some((-7, 4))),
            ("+5", Some((5, 2))),
            ("0x1F", Some((31, 4))),
            ("0xg", Some((0, 1))),
            ("0x", Some((0, 1))),
            ("010", Some((8, 3))),
            ("08", Some((0, 1))),
            ("9223372036854775807", Some((i64::MAX, 19))),
            ("-9223372036854775808", Some((i64::MIN, 20))),
            ("9223372036854775808", None),
            ("99999999999999999999999999", None),
            ("", None),
            ("-", None),
            ("x", None),
        ] {
            assert_eq!(whole(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn fractions_are_the_whole_text() {
        for (text, expected) in [
            ("1.5", Some(1.5)),
            (" .5", Some(0.5)),
            ("1.", Some(1.0)),
            ("1e3", Some(1000.0)),
            ("-0.25", Some(-0.25)),
            ("1.5 ", None),
            ("1.5s", None),
            (".", None),
            ("", None),
        ] {
            assert_eq!(fraction(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(fraction(b"\xff"), None);
    }
}
