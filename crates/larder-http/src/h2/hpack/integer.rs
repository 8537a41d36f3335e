//! Integers with a prefix of some bits (RFC 7541 §5.1).

/// The most octets that may follow the prefix: five hold every number of 32 bits.
const MORE_OCTETS_MAX: usize = 5;

/// Reads the integer at the start of `text`, and moves `text` past it. Its prefix is the lowest `prefix_bits`, at most
/// 7, of the first octet. `None` if it does not end, or does not fit into 32 bits.
#[inline]
pub(super) fn read(text: &mut &[u8], prefix_bits: u32) -> Option<usize> {
    let (&first, rest) = text.split_first()?;
    let mask = (1u8 << prefix_bits) - 1;
    let prefix = first & mask;
    if prefix < mask {
        *text = rest;
        return Some(usize::from(prefix));
    }
    let mut value = u64::from(mask);
    for (at, &octet) in rest.iter().enumerate().take(MORE_OCTETS_MAX) {
        value += u64::from(octet & 0x7f) << (7 * at);
        if octet & 0x80 == 0 {
            *text = &rest[at + 1..];
            return u32::try_from(value).ok().map(|value| value as usize);
        }
    }
    None
}

/// Writes `value` with a prefix of `prefix_bits`, and `pattern` in the bits above the prefix.
#[inline]
pub(super) fn write(value: usize, prefix_bits: u32, pattern: u8, out: &mut Vec<u8>) {
    let mask = (1usize << prefix_bits) - 1;
    if value < mask {
        return out.push(pattern | value as u8);
    }
    out.push(pattern | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_read_as_written() {
        // RFC 7541 §C.1, and the ends of what fits.
        for (value, prefix_bits, octets) in [
            (10, 5, &[10][..]),
            (1337, 5, &[31, 154, 10]),
            (0, 4, &[0]),
            (14, 4, &[14]),
            (15, 4, &[15, 0]),
            (127 + 128, 7, &[127, 128, 1]),
            (u32::MAX as usize, 7, &[127, 128, 255, 255, 255, 15]),
        ] {
            let mut out = Vec::new();
            write(value, prefix_bits, 0, &mut out);
            assert_eq!(out, octets, "{value}");
            let mut text = octets;
            assert_eq!(read(&mut text, prefix_bits), Some(value));
            assert!(text.is_empty());
        }
    }

    #[test]
    fn what_does_not_end_or_fit_is_no_integer() {
        for octets in [
            &[][..],
            &[127],
            &[127, 128],
            &[127, 128, 255, 255, 255, 16],
            &[127, 128, 128, 128, 128, 128, 0],
            &[127, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255],
        ] {
            assert_eq!(read(&mut &octets[..], 7), None, "{octets:?}");
        }
    }
}
