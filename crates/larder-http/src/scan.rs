//! Searches foreign bytes, sixteen at a time. The texts are short, so a call of `memchr` would cost more.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// A word whose lowest set bit is in the first byte of `word` that is below `limit` (at most 128); 0 if there is none.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * u64::from(limit)) & !word & HIGHS
}

/// The position of the first byte at or after `start` for which `is_wanted` is true.
///
/// `may_hold` gets eight bytes, the first one lowest. The lowest set bit of its result must be in the first byte that
/// may be wanted. A wrong candidate only costs time.
#[inline(always)]
fn find(buf: &[u8], start: usize, may_hold: impl Fn(u64) -> u64, is_wanted: impl Fn(u8) -> bool) -> Option<usize> {
    let mut at = start;
    // Two words at a time, because values such as that of User-Agent are long.
    while let Some(bytes) = buf.get(at..).and_then(|rest| rest.first_chunk::<16>()) {
        let word = u128::from_le_bytes(*bytes);
        let (low, high) = (may_hold(word as u64), may_hold((word >> 64) as u64));
        if low | high == 0 {
            at += 16;
            continue;
        }
        let bits = if low != 0 { low.trailing_zeros() } else { 64 + high.trailing_zeros() };
        at += bits as usize / 8;
        if is_wanted(buf[at]) {
            return Some(at);
        }
        at += 1;
    }
    buf.get(at..)?.iter().position(|&byte| is_wanted(byte)).map(|found| at + found)
}

/// Where the first colon is.
#[inline]
pub(crate) fn colon(buf: &[u8]) -> Option<usize> {
    const COLONS: u64 = ONES * b':' as u64;
    find(buf, 0, |word| below(word ^ COLONS, 1), |byte| byte == b':')
}

/// Where the first NUL, CR or LF at or after `start` is.
#[inline]
pub(crate) fn line_end_or_nul(buf: &[u8], start: usize) -> Option<usize> {
    find(buf, start, |word| below(word, b'\r' + 1), |byte| matches!(byte, 0 | b'\r' | b'\n'))
}

/// Where the first space or control character at or after `start` is.
#[inline]
pub(crate) fn space_or_control(buf: &[u8], start: usize) -> Option<usize> {
    const DELETES: u64 = ONES * 0x7f;
    find(buf, start, |word| below(word, b' ' + 1) | below(word ^ DELETES, 1), |byte| byte <= b' ' || byte == 0x7f)
}

/// Where the first control character but a tab at or after `start` is.
#[inline]
pub(crate) fn control(buf: &[u8], start: usize) -> Option<usize> {
    const DELETES: u64 = ONES * 0x7f;
    find(
        buf,
        start,
        |word| below(word, b' ') | below(word ^ DELETES, 1),
        |byte| byte != b'\t' && byte.is_ascii_control(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_found_at_every_place() {
        for len in 0..40 {
            for at in 0..len {
                for byte in 0..=255 {
                    let mut buf = vec![b'\x80'; len];
                    buf[at] = byte;
                    for start in 0..=len {
                        let expected = |is_wanted: bool| (is_wanted && start <= at).then_some(at);
                        let is_end = matches!(byte, 0 | b'\r' | b'\n');
                        assert_eq!(line_end_or_nul(&buf, start), expected(is_end), "{byte} at {at} from {start}");
                        let colon_at = (byte == b':').then_some(at);
                        assert_eq!(colon(&buf), colon_at, "{byte} at {at}");
                        let is_gap = byte <= b' ' || byte == 0x7f;
                        assert_eq!(space_or_control(&buf, start), expected(is_gap), "{byte} at {at} from {start}");
                        let is_control = byte == 0x7f || byte < b' ' && byte != b'\t';
                        assert_eq!(control(&buf, start), expected(is_control), "{byte} at {at} from {start}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_first_of_several_is_found() {
        let text = b"a\tb\x01\x02\t\x0bdefghijkl\t\tm\rn\n\0";
        assert_eq!(line_end_or_nul(text, 0), Some(19));
        assert_eq!(line_end_or_nul(text, 20), Some(21));
        assert_eq!(space_or_control(text, 2), Some(3));
        assert_eq!(control(text, 5), Some(6));
        assert_eq!(line_end_or_nul(text, 24), None);
        assert_eq!(line_end_or_nul(text, 99), None);
    }
}
