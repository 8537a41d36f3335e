//! Numbers in texts: what `std.integer()`, `std.real()`, `std.duration()` and `std.bytes()` read, and how INT, REAL and
//! DURATION are written where a text is wanted (Varnish's `vnum.c` and `VRT_REAL_string`).

/// The largest INT, with 15 digits; the smallest is its negative (RFC 8941 §3.3.1).
pub const INT_MAX: i64 = 999_999_999_999_999;

/// The largest REAL that has a text: 12 digits, a point and three more (RFC 8941 §3.3.2).
pub const REAL_MAX: f64 = 999_999_999_999.999;

/// The most digits before the point.
const DIGITS_MAX: usize = 15;

/// The largest BYTES that a text may give: above, not every whole number is a REAL.
const BYTES_MAX: f64 = 9_007_199_254_740_991.0;

/// A number as `std.integer("...")` takes it: what has a fraction is none.
pub fn integer(text: &[u8]) -> Option<i64> {
    let number = whole(number(text)?)?;
    (number.fract() == 0.0).then_some(number as i64)
}

/// A number as `std.real("...")` takes it.
pub fn real(text: &[u8]) -> Option<f64> {
    whole(number(text)?).filter(|number| number.abs() <= REAL_MAX)
}

/// Seconds, of a number and one of the units `ms`, `s`, `m`, `h`, `d`, `w`, `y`. Without a unit it is none.
pub fn duration(text: &[u8]) -> Option<f64> {
    let (number, unit) = number(text)?;
    Some(number * seconds_of(unit.trim_ascii())?)
}

/// The seconds of a unit of time.
pub fn seconds_of(unit: &[u8]) -> Option<f64> {
    Some(match unit {
        b"ms" => 1e-3,
        b"s" => 1.0,
        b"m" => 60.0,
        b"h" => 3600.0,
        b"d" => 86_400.0,
        b"w" => 7.0 * 86_400.0,
        b"y" => 365.0 * 86_400.0,
        _ => return None,
    })
}

/// Bytes, of a number and perhaps one of the units `B`, `K`, `M`, `G`, `T`, `P` in either case, with or without a `B`
/// behind it. Parts of a byte are cut off behind a unit, and no number without one.
pub fn bytes(text: &[u8]) -> Option<i64> {
    let (number, unit) = number(text)?;
    // Here a number ends with the third digit behind its point, and there is at least one.
    if has_odd_fraction(text) {
        return None;
    }
    let factor = match unit.trim_ascii() {
        b"" => 1.0,
        unit => bytes_of(unit)?,
    };
    if factor == 1.0 && number.fract() != 0.0 {
        return None;
    }
    whole_bytes(number * factor)
}

/// The bytes of a unit, in either case.
pub fn bytes_of(unit: &[u8]) -> Option<f64> {
    let power = match unit.to_ascii_lowercase().as_slice() {
        b"b" | b"bb" => 0,
        b"k" | b"kb" => 1,
        b"m" | b"mb" => 2,
        b"g" | b"gb" => 3,
        b"t" | b"tb" => 4,
        b"p" | b"pb" => 5,
        _ => return None,
    };
    Some(1024f64.powi(power))
}

/// A number without its fraction, as an INT.
pub fn whole_int(number: f64) -> Option<i64> {
    let whole = number.trunc() as i64;
    (!number.is_nan() && whole.unsigned_abs() <= INT_MAX.unsigned_abs()).then_some(whole)
}

/// A number without its fraction, as BYTES.
pub fn whole_bytes(number: f64) -> Option<i64> {
    let whole = number.trunc();
    (0.0..=BYTES_MAX).contains(&whole).then_some(whole as i64)
}

/// Appends an INT; false if it has more digits than one may have.
pub fn append_int(number: i64, out: &mut Vec<u8>) -> bool {
    append(out, format_args!("{number}"));
    number.unsigned_abs() <= INT_MAX.unsigned_abs()
}

/// Appends a REAL or the seconds of a DURATION, with three digits behind the point; false if it is too large or none.
pub fn append_real(number: f64, out: &mut Vec<u8>) -> bool {
    append(out, format_args!("{number:.3}"));
    number.abs() <= REAL_MAX
}

/// Appends what is formatted.
pub fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    // A vector takes everything.
    let _ = out.write_fmt(text);
}

/// The number if nothing stands behind it.
fn whole((number, rest): (f64, &[u8])) -> Option<f64> {
    rest.is_empty().then_some(number)
}

/// A number at the start of `text`, and what stands behind it and its blanks. Of the digits behind a point, the first
/// three count.
fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    let text = skip(text, is_blank);
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let digits = digits_at_start(text);
    if digits.len() > DIGITS_MAX {
        return None;
    }
    let mut number = digits.iter().fold(0.0, |number, digit| number * 10.0 + f64::from(digit - b'0'));
    let mut rest = skip(&text[digits.len()..], is_blank);
    if let [b'.', behind @ ..] = rest {
        let fraction = digits_at_start(behind);
        if digits.is_empty() && fraction.is_empty() || number > REAL_MAX {
            return None;
        }
        for (digit, scale) in fraction.iter().zip([0.1, 0.01, 0.001]) {
            number += f64::from(digit - b'0') * scale;
        }
        rest = skip(&behind[fraction.len()..], is_blank);
    } else if digits.is_empty() {
        return None;
    }
    Some((if is_negative { -number } else { number }, rest))
}

/// Whether a point has no digit behind it, or more than three, or none before it.
fn has_odd_fraction(text: &[u8]) -> bool {
    let Some(point) = text.iter().position(|byte| *byte == b'.') else { return false };
    let digits = digits_at_start(&text[point + 1..]).len();
    digits == 0 || digits > 3 || !text[..point].iter().any(u8::is_ascii_digit)
}

fn digits_at_start(text: &[u8]) -> &[u8] {
    let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    &text[..len]
}

fn skip(text: &[u8], what: fn(u8) -> bool) -> &[u8] {
    let len = text.iter().take_while(|byte| what(**byte)).count();
    &text[len..]
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_number_depends_on_what_is_wanted() {
        for (text, as_integer, as_real) in [
            ("0", Some(0), Some(0.0)),
            (" 12 ", Some(12), Some(12.0)),
            ("-7", Some(-7), Some(-7.0)),
            ("1.0", Some(1), Some(1.0)),
            ("1.", Some(1), Some(1.0)),
            (".5", None, Some(0.5)),
            ("1.5", None, Some(1.5)),
            ("1.2349", None, Some(1.234)),
            ("999999999999999", Some(INT_MAX), None),
            ("1000000000000000", None, None),
            ("", None, None),
            ("-", None, None),
            (".", None, None),
            ("1x", None, None),
            ("+1", None, None),
            ("0x10", None, None),
            ("1e3", None, None),
            ("1 2", None, None),
        ] {
            assert_eq!(integer(text.as_bytes()), as_integer, "{text:?}");
            let close = |got: f64, wanted: f64| (got - wanted).abs() < 1e-9;
            assert!(
                match (real(text.as_bytes()), as_real) {
                    (Some(got), Some(wanted)) => close(got, wanted),
                    (got, wanted) => got == wanted,
                },
                "{text:?}"
            );
        }
    }

    #[test]
    fn durations_have_a_unit() {
        for (text, seconds) in [
            ("10s", Some(10.0)),
            ("1.5 m", Some(90.0)),
            ("250ms", Some(0.25)),
            ("2h", Some(7200.0)),
            ("1d", Some(86_400.0)),
            ("1w ", Some(604_800.0)),
            ("1y", Some(31_536_000.0)),
            ("-1s", Some(-1.0)),
            ("10", None),
            ("10S", None),
            ("10 sec", None),
            ("s", None),
            ("", None),
        ] {
            assert_eq!(duration(text.as_bytes()), seconds, "{text:?}");
        }
    }

    #[test]
    fn bytes_may_have_a_unit() {
        for (text, expected) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("10B", Some(10)),
            ("2k", Some(2048)),
            ("2KB", Some(2048)),
            ("1.5 m", Some(1_572_864)),
            ("1G", Some(1 << 30)),
            ("1T", Some(1 << 40)),
            ("8p", None),
            ("1.5", None),
            ("1.5B", None),
            ("1.", None),
            (".5k", None),
            ("1.2345k", None),
            ("-1k", None),
            ("1kk", None),
            ("1q", None),
            ("", None),
        ] {
            assert_eq!(bytes(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_written_with_three_digits_behind_the_point() {
        for (number, text, is_valid) in [
            (0.0, "0.000", true),
            (1.5, "1.500", true),
            (-2.25, "-2.250", true),
            (999_999_999_999.999, "999999999999.999", true),
            (1e13, "10000000000000.000", false),
            (f64::NAN, "NaN", false),
        ] {
            let mut out = Vec::new();
            assert_eq!(append_real(number, &mut out), is_valid, "{number}");
            assert_eq!(String::from_utf8_lossy(&out), text);
        }
        let mut out = Vec::new();
        assert!(append_int(-INT_MAX, &mut out) && !append_int(INT_MAX + 1, &mut out));
        assert!(!append_int(i64::MIN, &mut out));
        assert_eq!(out, b"-9999999999999991000000000000000-9223372036854775808");
    }
}
