//! Parses numbers, sizes and times as nginx writes them. `None` for a malformed value; the caller knows the directive.

use std::time::Duration;

/// What a time may be.
pub const TIME: &str = "a time such as 500ms, 30s, 5m, 1h30m or 7d";
/// What a size may be.
pub const SIZE: &str = "a size such as 512, 8k or 1m";
/// What a size of files may be.
pub const OFFSET: &str = "a size such as 512, 8k, 1m or 2g";
/// What a number may be.
pub const NUMBER: &str = "a whole number";

/// `on` or `off`, in any case.
pub fn flag(text: &str) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case("on") => Some(true),
        _ if text.eq_ignore_ascii_case("off") => Some(false),
        _ => None,
    }
}

/// Digits only.
pub fn number(text: &str) -> Option<u64> {
    match !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        true => text.parse::<u64>().ok().filter(|&n| i64::try_from(n).is_ok()),
        false => None,
    }
}

/// Bytes, with `k` or `m`.
pub fn size(text: &str) -> Option<usize> {
    match text.as_bytes().last() {
        Some(b'g' | b'G') => None,
        _ => usize::try_from(offset(text)?).ok(),
    }
}

/// Bytes, with `k`, `m` or `g`.
pub fn offset(text: &str) -> Option<u64> {
    let (digits, scale) = match text.as_bytes().last()? {
        b'k' | b'K' => (&text[..text.len() - 1], 1 << 10),
        b'm' | b'M' => (&text[..text.len() - 1], 1 << 20),
        b'g' | b'G' => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    number(digits)?.checked_mul(scale).filter(|&n| i64::try_from(n).is_ok())
}

/// A time: numbers with units that grow smaller from left to right (`y`, `M`, `w`, `d`, `h`, `m`, `s`,
/// `ms`), spaces between them or not; a number without a unit is seconds and comes last.
///
/// nginx takes `y` and `M` only where it counts in seconds and `ms` only where it counts in
/// milliseconds; here all are taken everywhere.
pub fn time(text: &str) -> Option<Duration> {
    const DAY: u64 = 24 * 60 * 60 * 1000;
    let bytes = text.as_bytes();
    let mut total: u64 = 0;
    let mut rank = 0;
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        let value = number(&text[at..at + digits])?;
        at += digits;
        let unit = bytes[at..].iter().take_while(|b| b.is_ascii_alphabetic()).count();
        let (unit_rank, milliseconds) = match &text[at..at + unit] {
            "y" => (1, 365 * DAY),
            "M" => (2, 30 * DAY),
            "w" => (3, 7 * DAY),
            "d" => (4, DAY),
            "h" => (5, 60 * 60 * 1000),
            "m" => (6, 60 * 1000),
            "s" => (7, 1000),
            "ms" => (8, 1),
            // Nothing may follow a number without a unit.
            "" => (9, 1000),
            _ => return None,
        };
        if unit_rank <= rank || (rank >= 7 && unit_rank == 9) {
            return None;
        }
        rank = unit_rank;
        at += unit;
        total = total.checked_add(value.checked_mul(milliseconds)?)?;
        at += bytes[at..].iter().take_while(|&&b| b == b' ').count();
    }
    (rank > 0 && i64::try_from(total).is_ok()).then(|| Duration::from_millis(total))
}

/// A decimal number with up to `places` decimals, in units of the last: `percent("12.5", 2)` is 1250.
pub fn fixed_point(text: &str, places: u32) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let decimals = u32::try_from(fraction.len()).ok()?;
    if decimals > places || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() { Some(0) } else { number(text) }
    };
    let whole = digits(whole)?.checked_mul(10u64.pow(places))?;
    whole.checked_add(digits(fraction)?.checked_mul(10u64.pow(places - decimals))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_nginx_reads_them() {
        for (text, milliseconds) in [
            ("0", Some(0)),
            ("10", Some(10_000)),
            ("10s", Some(10_000)),
            ("500ms", Some(500)),
            ("1m", Some(60_000)),
            ("1h30m", Some(5_400_000)),
            ("1h 30m", Some(5_400_000)),
            ("1h 30", Some(3_630_000)),
            ("1d12h", Some(129_600_000)),
            ("1y", Some(31_536_000_000)),
            ("1M", Some(2_592_000_000)),
            ("2w", Some(1_209_600_000)),
            ("1s500ms", Some(1_500)),
            ("10 ", Some(10_000)),
            ("", None),
            ("m", None),
            ("1x", None),
            ("30m1h", None),
            ("1m1m", None),
            ("1s 5", None),
            ("5 5", None),
            ("-1", None),
            ("1.5s", None),
            (" 1", None),
            ("1H", None),
            ("99999999999999999999", None),
            ("9223372036854775807y", None),
            ("1é", None),
        ] {
            assert_eq!(time(text), milliseconds.map(Duration::from_millis), "{text:?}");
        }
    }

    #[test]
    fn sizes_have_units_and_bounds() {
        for (text, bytes) in [
            ("0", Some(0)),
            ("512", Some(512)),
            ("8k", Some(8192)),
            ("8K", Some(8192)),
            ("1m", Some(1 << 20)),
            ("2g", Some(2 << 30)),
            ("k", None),
            ("", None),
            ("1t", None),
            ("1kb", None),
            ("-1", None),
            ("1 k", None),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("9007199254740993k", None),
        ] {
            assert_eq!(offset(text), bytes, "{text:?}");
        }
        assert_eq!(size("1g"), None, "only sizes of files have g");
        assert_eq!(size("1m"), Some(1 << 20));
    }

    #[test]
    fn percents_have_a_fixed_point() {
        for (text, expected) in [
            ("0.5", Some(50)),
            ("12.34", Some(1234)),
            ("100", Some(10_000)),
            (".5", Some(50)),
            ("1.234", None),
            ("", None),
            (".", None),
            ("a", None),
            ("1.-1", None),
        ] {
            assert_eq!(fixed_point(text, 2), expected, "{text:?}");
        }
    }

    #[test]
    fn flags_ignore_case() {
        for (text, expected) in
            [("on", Some(true)), ("ON", Some(true)), ("Off", Some(false)), ("yes", None), ("", None)]
        {
            assert_eq!(flag(text), expected, "{text:?}");
        }
    }
}
