//! Appends values of variables, and tells whether there is one.

use std::net::IpAddr;

/// Appends a value, if there is one.
pub fn append_some(value: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let Some(value) = value else { return false };
    out.extend_from_slice(value);
    true
}

/// Appends a text.
pub fn append_text(value: &str, out: &mut Vec<u8>) -> bool {
    append_some(Some(value.as_bytes()), out)
}

/// Appends a value's `Display` form.
pub fn append_display(value: impl std::fmt::Display, out: &mut Vec<u8>) -> bool {
    use std::io::Write as _;
    write!(out, "{value}").is_ok()
}

/// Appends a number.
pub fn append_number(number: impl Into<u64>, out: &mut Vec<u8>) -> bool {
    larder_http::append_decimal(number.into(), out);
    true
}

/// Appends an address. As [`append_display`], but without the machinery of `write!` for most.
pub fn append_ip(ip: IpAddr, out: &mut Vec<u8>) -> bool {
    let IpAddr::V4(ip) = ip else { return append_display(ip, out) };
    const BYTES_MAX: usize = b"255.255.255.255".len();
    let (mut text, mut len) = ([b'.'; BYTES_MAX + 1], 0);
    for octet in ip.octets() {
        let digits = if octet > 99 {
            3
        } else if octet > 9 {
            2
        } else {
            1
        };
        let mut rest = octet;
        for digit in text[len..len + digits].iter_mut().rev() {
            *digit = b'0' + rest % 10;
            rest /= 10;
        }
        len += digits + 1;
    }
    // The last dot is one too many.
    out.extend_from_slice(&text[..len - 1]);
    true
}

/// Joins the values of several fields: with `; ` for cookies, with `, ` for others.
pub fn append_joined<'a>(values: impl Iterator<Item = &'a [u8]>, name: &str, out: &mut Vec<u8>) -> bool {
    let separator: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    let mut found = false;
    for value in values {
        if found {
            out.extend_from_slice(separator);
        }
        out.extend_from_slice(value);
        found = true;
    }
    found
}

/// The values of the fields that match a variable's name. `name` has hyphens; underscores in a field's name match them
/// too, as nginx makes underscores of both.
pub fn named<'a>(fields: &'a larder_http::Fields, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    let same = |a: u8, b: u8| a.eq_ignore_ascii_case(&b) || (matches!(a, b'-' | b'_') && matches!(b, b'-' | b'_'));
    fields
        .iter()
        .filter(move |(field, _)| field.len() == name.len() && field.iter().zip(name.bytes()).all(|(&a, b)| same(a, b)))
        .map(|(_, value)| value)
}

/// Seconds with three digits after the dot.
pub fn append_millis(millis: u128, out: &mut Vec<u8>) -> bool {
    append_display(format_args!("{}.{:03}", millis / 1000, millis % 1000), out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_display_does() {
        for ip in ["0.0.0.0", "127.0.0.1", "255.255.255.255", "9.10.99.100", "::1", "2001:db8::ffff"] {
            let mut out = b"ip=".to_vec();
            append_ip(ip.parse().expect("it is an address"), &mut out);
            assert_eq!(out, format!("ip={ip}").into_bytes());
        }
    }
}
