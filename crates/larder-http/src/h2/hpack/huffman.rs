//! The Huffman code of HPACK (RFC 7541 Appendix B). The code is canonical: sorted by length and then by value, symbols
//! have rising codes. So the lengths determine all codes.

/// The length of each symbol's code in bits; the last symbol is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28,
    28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12,
    10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6,
    5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22,
    22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20,
    22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28,
    27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28,
    27, 27, 27, 27, 27, 26, 30,
];

const EOS: usize = 256;
const LENGTH_MAX: usize = 30;

/// The lengths again, as a static for indexing at run time.
static BITS: [u8; 257] = LENGTHS;

/// Each symbol's code.
static CODES: [u32; 257] = CANONICAL.codes;

struct Canonical {
    codes: [u32; 257],
    /// Symbols by length, then value.
    sorted: [u16; 257],
    /// For each length the first code, and the place of its symbol in `sorted`; behind the last code of the
    /// length lies the first of the next.
    first_code: [u32; LENGTH_MAX + 2],
    first_place: [u16; LENGTH_MAX + 2],
}

const CANONICAL: Canonical = {
    let mut canonical = Canonical {
        codes: [0; 257],
        sorted: [0; 257],
        first_code: [0; LENGTH_MAX + 2],
        first_place: [0; LENGTH_MAX + 2],
    };
    let (mut length, mut code, mut place) = (1, 0u32, 0);
    while length <= LENGTH_MAX {
        canonical.first_code[length] = code;
        canonical.first_place[length] = place as u16;
        let mut symbol = 0;
        while symbol <= EOS {
            if LENGTHS[symbol] as usize == length {
                canonical.codes[symbol] = code;
                canonical.sorted[place] = symbol as u16;
                code += 1;
                place += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    canonical.first_place[length] = place as u16;
    canonical
};

/// The codes longer than [`LOOKUP_BITS`], for searching.
static SORTED: [u16; 257] = CANONICAL.sorted;
static FIRST_CODE: [u32; LENGTH_MAX + 2] = CANONICAL.first_code;
static FIRST_PLACE: [u16; LENGTH_MAX + 2] = CANONICAL.first_place;

/// How many bits are looked up at once: two symbols of the shortest codes.
const LOOKUP_BITS: u32 = 11;

/// The symbols at the start of some bits.
#[derive(Clone, Copy)]
struct Step {
    /// One symbol or two.
    symbols: [u8; 2],
    /// The bits of the first symbol; 0 when its code is longer than the bits.
    first_bits: u8,
    /// The bits of both symbols, or of the first if the second does not end here.
    bits: u8,
}

static STEPS: [Step; 1 << LOOKUP_BITS] = {
    let mut first = [Step { symbols: [0; 2], first_bits: 0, bits: 0 }; 1 << LOOKUP_BITS];
    let mut symbol = 0;
    while symbol < EOS {
        let bits = LENGTHS[symbol] as u32;
        if bits <= LOOKUP_BITS {
            let mut at = (CANONICAL.codes[symbol] as usize) << (LOOKUP_BITS - bits);
            let end = at + (1 << (LOOKUP_BITS - bits));
            while at < end {
                first[at] = Step { symbols: [symbol as u8, 0], first_bits: bits as u8, bits: bits as u8 };
                at += 1;
            }
        }
        symbol += 1;
    }
    let mut both = first;
    let mut at = 0;
    while at < both.len() {
        let bits = first[at].first_bits;
        if bits > 0 {
            let next = first[(at << bits) & ((1 << LOOKUP_BITS) - 1)];
            if next.first_bits > 0 && (bits + next.first_bits) as u32 <= LOOKUP_BITS {
                both[at].symbols[1] = next.symbols[0];
                both[at].bits = bits + next.first_bits;
            }
        }
        at += 1;
    }
    both
};

/// The text is not Huffman code: EOS is in it, or its end is neither a code nor padding (RFC 7541 §5.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NotHuffman;

/// Decodes `text` to the end of `out`; on an error `out` has some of it.
pub(super) fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), NotHuffman> {
    let start = out.len();
    // No code is shorter than five bits. Two bytes more, because two symbols are written at a time.
    out.resize(start + text.len() * 8 / 5 + 2, 0);
    let room = &mut out[start..];
    let mut at = 0;
    // The next bits, the first one highest, and how many there are; below them are zeroes.
    let (mut bits, mut count) = (0u64, 0u32);
    let mut rest = text;
    loop {
        if let Some(chunk) = rest.first_chunk::<8>() {
            let taken = (63 - count) / 8;
            bits |= (u64::from_be_bytes(*chunk) >> (64 - 8 * taken)) << (64 - 8 * taken - count);
            count += 8 * taken;
            rest = &rest[taken as usize..];
        } else {
            while count <= 56
                && let Some((&byte, others)) = rest.split_first()
            {
                bits |= u64::from(byte) << (56 - count);
                count += 8;
                rest = others;
            }
        }
        if count < LOOKUP_BITS {
            break;
        }
        while count >= LOOKUP_BITS {
            let step = STEPS[(bits >> (64 - LOOKUP_BITS)) as usize];
            if step.first_bits == 0 {
                if count < LENGTH_MAX as u32 {
                    break;
                }
                let (symbol, length) = long(bits)?;
                room[at] = symbol;
                at += 1;
                bits <<= length;
                count -= length;
            } else {
                room[at] = step.symbols[0];
                room[at + 1] = step.symbols[1];
                at += 1 + usize::from(step.bits > step.first_bits);
                bits <<= step.bits;
                count -= u32::from(step.bits);
            }
        }
        if rest.is_empty() && count < LENGTH_MAX as u32 {
            break;
        }
    }
    // The rest may be padding: at most eight ones. The standard allows fewer than eight, but nginx accepts a whole
    // byte, and some clients always write padding.
    while count > 0 {
        let padded = bits | (u64::MAX >> count);
        let step = STEPS[(padded >> (64 - LOOKUP_BITS)) as usize];
        let (symbol, length) = match step.first_bits {
            0 if count <= 8 && padded == u64::MAX => break,
            0 => long(padded)?,
            length => (step.symbols[0], u32::from(length)),
        };
        if length > count {
            if count <= 8 && padded == u64::MAX {
                break;
            }
            return Err(NotHuffman);
        }
        room[at] = symbol;
        at += 1;
        bits <<= length;
        count -= length;
    }
    out.truncate(start + at);
    Ok(())
}

/// The symbol at the start of `bits`, with a code longer than [`LOOKUP_BITS`], and the length of the code.
#[cold]
fn long(bits: u64) -> Result<(u8, u32), NotHuffman> {
    for length in LOOKUP_BITS as usize + 1..=LENGTH_MAX {
        let code = (bits >> (64 - length)) as u32;
        let number = code.wrapping_sub(FIRST_CODE[length]);
        if code >= FIRST_CODE[length] && number < u32::from(FIRST_PLACE[length + 1] - FIRST_PLACE[length]) {
            let symbol = SORTED[usize::from(FIRST_PLACE[length]) + number as usize];
            return u8::try_from(symbol).map(|symbol| (symbol, length as u32)).map_err(|_| NotHuffman);
        }
    }
    Err(NotHuffman)
}

/// How many bytes [`encode`] would write.
#[inline]
pub(super) fn encoded_len_of(text: impl Iterator<Item = u8>) -> usize {
    let bits: usize = text.map(|byte| usize::from(BITS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Encodes `text` to the end of `out`.
pub(super) fn encode(text: impl Iterator<Item = u8>, out: &mut Vec<u8>) {
    // The bits still to be written, the last one lowest, and how many there are: fewer than 32 between symbols.
    let (mut bits, mut count) = (0u64, 0u32);
    for byte in text {
        let length = u32::from(BITS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    if count % 8 != 0 {
        let padding = 8 - count % 8;
        bits = bits << padding | ((1 << padding) - 1);
        count += padding;
    }
    while count > 0 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text.iter().copied(), &mut out);
        assert_eq!(out.len(), encoded_len_of(text.iter().copied()));
        out
    }

    fn decoded(text: &[u8]) -> Result<Vec<u8>, NotHuffman> {
        let mut out = b"before".to_vec();
        decode(text, &mut out)?;
        assert_eq!(&out[..6], b"before");
        Ok(out.split_off(6))
    }

    #[test]
    fn every_symbol_in_every_company_survives() {
        for byte in 0..=255u8 {
            for other in 0..=255u8 {
                let text = [byte, other, byte];
                assert_eq!(decoded(&coded(&text)).as_deref(), Ok(&text[..]));
            }
            for times in 0..20 {
                let mut text = vec![b'e'; times];
                text.push(byte);
                text.resize(2 * times + 1, b'~');
                assert_eq!(decoded(&coded(&text)).as_deref(), Ok(&text[..]));
            }
        }
    }

    #[test]
    fn padding_is_ones_and_not_more_than_a_byte() {
        // 'a' is 00011.
        assert_eq!(decoded(&[0b0001_1111]).as_deref(), Ok(&b"a"[..]));
        for text in [
            &[0b0001_1110][..],        // padding with a zero
            &[0b0001_1111, 0xff],      // eleven bits of padding
            &[0xff, 0xff, 0xff, 0xff], // EOS
            &[0xff, 0xff, 0xff, 0xfc], // EOS
            &[0b0001_1111, 0xff, 0xff, 0xff, 0xff, 0xff],
            &[0xff, 0xff],
        ] {
            assert_eq!(decoded(text), Err(NotHuffman), "{text:x?}");
        }
        // "00000" with eight bits of padding, as some write it.
        assert_eq!(decoded(&[0, 0, 0, 0, 0, 0xff]).as_deref(), Ok(&b"00000000"[..]));
        assert_eq!(decoded(&[]).as_deref(), Ok(&b""[..]));
    }
}
