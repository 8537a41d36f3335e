//! FastCGI 1.0 records and name-value pairs.

use std::io::{self, Read};

use crate::wire::text_of;

/// What a record is, as its second byte says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    BeginRequest = 1,
    AbortRequest = 2,
    EndRequest = 3,
    Params = 4,
    Stdin = 5,
    Stdout = 6,
    Stderr = 7,
}

/// One record; `kind` is `None` for a number without a meaning here.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) kind: Option<Kind>,
    pub(crate) id: u16,
    pub(crate) content: Vec<u8>,
}

/// Reads one record; `None` when the stream ends before it begins.
pub(crate) fn read_record(stream: &mut impl Read) -> io::Result<Option<Record>> {
    let mut head = [0; 8];
    if stream.read(&mut head[..1])? == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[1..])?;
    let [version, kind, id_high, id_low, length_high, length_low, padding, _] = head;
    if version != 1 {
        return Err(io::Error::other(format!("FastCGI version {version}")));
    }
    let mut content = vec![0; usize::from(u16::from_be_bytes([length_high, length_low]))];
    stream.read_exact(&mut content)?;
    stream.read_exact(&mut vec![0; usize::from(padding)])?;
    Ok(Some(Record { kind: kind_of(kind), id: u16::from_be_bytes([id_high, id_low]), content }))
}

fn kind_of(number: u8) -> Option<Kind> {
    use Kind::{AbortRequest, BeginRequest, EndRequest, Params, Stderr, Stdin, Stdout};
    [BeginRequest, AbortRequest, EndRequest, Params, Stdin, Stdout, Stderr]
        .into_iter()
        .find(|kind| *kind as u8 == number)
}

/// Appends one record, padded to eight bytes.
pub(crate) fn write_record(bytes: &mut Vec<u8>, kind: Kind, id: u16, content: &[u8]) {
    let length = u16::try_from(content.len()).expect("callers cut their content to 65535 bytes");
    let padding = (8 - content.len() % 8) % 8;
    let [id_high, id_low] = id.to_be_bytes();
    let [length_high, length_low] = length.to_be_bytes();
    let padding_byte = u8::try_from(padding).expect("a padding is less than eight");
    bytes.extend_from_slice(&[1, kind as u8, id_high, id_low, length_high, length_low, padding_byte, 0]);
    bytes.extend_from_slice(content);
    bytes.resize(bytes.len() + padding, 0);
}

/// Decodes the name-value pairs of all PARAMS records joined.
pub(crate) fn params(mut bytes: &[u8]) -> io::Result<Vec<(String, String)>> {
    let mut pairs = Vec::new();
    while !bytes.is_empty() {
        let name = take_length(&mut bytes)?;
        let value = take_length(&mut bytes)?;
        pairs.push((text_of(take(&mut bytes, name)?), text_of(take(&mut bytes, value)?)));
    }
    Ok(pairs)
}

/// One byte up to 127, else four with the top bit set.
fn take_length(bytes: &mut &[u8]) -> io::Result<usize> {
    let first = take(bytes, 1)?;
    if let [short @ 0..=127] = first {
        return Ok(usize::from(*short));
    }
    let rest = take(bytes, 3)?;
    Ok(first.iter().chain(rest).fold(0, |sum, byte| sum << 8 | usize::from(*byte)) & 0x7fff_ffff)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> io::Result<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count).ok_or_else(|| io::Error::other("a cut name-value pair"))?;
    *bytes = rest;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_short_and_long_lengths_and_are_never_cut() {
        let long = "x".repeat(200);
        let mut wire = b"\x01\x02Abc\x01\x80\x00\x00\xc8B".to_vec();
        wire.extend_from_slice(long.as_bytes());
        assert_eq!(params(&wire).unwrap(), [("A".into(), "bc".into()), ("B".into(), long)]);
        for cut in 1..wire.len() {
            if cut != 5 {
                assert!(params(&wire[..cut]).is_err(), "{cut}");
            }
        }
    }

    #[test]
    fn a_record_reads_back_as_written() {
        for content in [&b""[..], b"1234567", b"12345678", &[7; 65_535]] {
            let mut wire = Vec::new();
            write_record(&mut wire, Kind::Stdout, 258, content);
            assert_eq!(wire.len() % 8, 0);
            let record = read_record(&mut &wire[..]).unwrap().unwrap();
            assert_eq!((record.kind, record.id, &record.content[..]), (Some(Kind::Stdout), 258, content));
        }
    }
}
