//! Writes the parameters of a request to a buffer that is used again.

/// Appends one parameter: lengths, name, value.
pub fn append_param(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.reserve(LENGTHS_BYTES_MAX + name.len() + value.len());
    append_length(name.len(), out);
    append_length(value.len(), out);
    out.extend_from_slice(name);
    out.extend_from_slice(value);
}

/// A parameter up to its value: lengths and name, laid out once.
#[derive(Clone, Debug)]
pub struct ParamStart {
    /// With room for the length of a value below 128 bytes.
    bytes: Box<[u8]>,
    /// Where that is.
    length_at: usize,
}

impl ParamStart {
    /// The start of each parameter of this name.
    pub fn of(name: &[u8]) -> ParamStart {
        let mut bytes = Vec::with_capacity(LENGTHS_BYTES_MAX + name.len());
        append_length(name.len(), &mut bytes);
        let length_at = bytes.len();
        bytes.push(0);
        bytes.extend_from_slice(name);
        ParamStart { bytes: bytes.into(), length_at }
    }

    /// The name.
    pub fn name(&self) -> &[u8] {
        &self.bytes[self.length_at + 1..]
    }

    /// Appends a parameter whose value `write` appends, so that it needs no place of its own before. With
    /// `if_not_empty` nothing is appended for an empty value.
    pub fn append_with(&self, if_not_empty: bool, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let (length_at, value_at) = (start + self.length_at, out.len());
        write(out);
        match out.len() - value_at {
            0 if if_not_empty => out.truncate(start),
            len => match u8::try_from(len).ok().filter(|&len| len < LONG) {
                Some(short) => out[length_at] = short,
                // Most values are shorter than 128 bytes; room for the length of another is made here.
                None => {
                    out.extend_from_slice(&[0; 3]);
                    out.copy_within(length_at + 1..value_at + len, length_at + 4);
                    out[length_at..length_at + 4].copy_from_slice(&long(len));
                }
            },
        }
    }
}

/// The parameters in bytes as [`append_param`] writes them: names and values, up to what is none.
pub fn params(mut bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name_len, value_len) = (take_length(&mut bytes)?, take_length(&mut bytes)?);
        let (name, rest) = bytes.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(value_len)?;
        bytes = rest;
        Some((name, value))
    })
}

fn take_length(bytes: &mut &[u8]) -> Option<usize> {
    let (&first, rest) = bytes.split_first()?;
    if first < LONG {
        *bytes = rest;
        return Some(usize::from(first));
    }
    let (long, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some((u32::from_be_bytes(*long) & !(u32::from(LONG) << 24)) as usize)
}

/// The most bytes of the two lengths.
const LENGTHS_BYTES_MAX: usize = 8;
/// The bit of a length that takes four bytes.
const LONG: u8 = 0x80;

/// A length is one byte below 128, else four with the top bit set.
fn append_length(len: usize, out: &mut Vec<u8>) {
    match u8::try_from(len) {
        Ok(short) if short < LONG => out.push(short),
        _ => out.extend_from_slice(&long(len)),
    }
}

fn long(len: usize) -> [u8; 4] {
    assert!(len <= 0x7fff_ffff, "a parameter is far below 2 GiB, for heads and configurations are");
    (len as u32 | 0x8000_0000).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_the_same_however_it_is_written() {
        for name in ["", "A", &"N".repeat(127), &"N".repeat(128)] {
            for value in [0, 1, 127, 128, 70_000].map(|len| "v".repeat(len)) {
                let (mut at_once, mut in_place) = (b"before".to_vec(), b"before".to_vec());
                append_param(name.as_bytes(), value.as_bytes(), &mut at_once);
                let start = ParamStart::of(name.as_bytes());
                assert_eq!(start.name(), name.as_bytes());
                start.append_with(false, &mut in_place, |out| out.extend_from_slice(value.as_bytes()));
                assert_eq!(in_place, at_once, "{} and {}", name.len(), value.len());
            }
        }
        let mut out = b"before".to_vec();
        ParamStart::of(b"A").append_with(true, &mut out, |_| {});
        assert_eq!(out, b"before");
        ParamStart::of(b"A").append_with(true, &mut out, |out| out.push(b'b'));
        assert_eq!(out, b"before\x01\x01Ab");
    }
}
