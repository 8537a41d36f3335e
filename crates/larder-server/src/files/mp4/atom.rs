//! Reads and writes atoms: a size, a name of four letters, and the content. The size includes the head.

use super::Mp4Error;

/// The head of an atom that lies completely within its parent.
#[derive(Debug)]
pub struct Header {
    /// Its name.
    pub name: [u8; 4],
    /// The length of the head: longer with a size of 64 bits.
    pub head_bytes: u64,
    /// The length of the atom, including the head.
    pub bytes: u64,
}

impl Header {
    /// Parses the head at the beginning of `bytes`, with `left` bytes left in the parent. `None` for a size of 0, which
    /// ends a list.
    pub fn parse(bytes: &[u8], left: u64) -> Result<Option<Self>, Mp4Error> {
        let size = u32_at(bytes, 0).ok_or(Mp4Error::Truncated)?;
        if size == 0 {
            return Ok(None);
        }
        let name = array_at(bytes, 4).ok_or(Mp4Error::Truncated)?;
        let (head_bytes, bytes) = match size {
            1 => (16, u64_at(bytes, 8).ok_or(Mp4Error::Truncated)?),
            size => (8, u64::from(size)),
        };
        if bytes < head_bytes {
            return Err(Mp4Error::AtomTooSmall(bytes));
        }
        if bytes > left {
            return Err(Mp4Error::AtomTooLarge(bytes));
        }
        Ok(Some(Self { name, head_bytes, bytes }))
    }
}

/// Passes name and content of each atom in `list` to `each`, until that returns [`Seen::Enough`].
pub fn each_in<'a>(
    list: &'a [u8],
    mut each: impl FnMut(&[u8; 4], &'a [u8]) -> Result<Seen, Mp4Error>,
) -> Result<Seen, Mp4Error> {
    let mut rest = list;
    while !rest.is_empty() {
        let Some(header) = Header::parse(rest, rest.len() as u64)? else { break };
        // Both are within `rest`, so they fit.
        let (atom, after) = rest.split_at(header.bytes as usize);
        if each(&header.name, &atom[header.head_bytes as usize..])? == Seen::Enough {
            return Ok(Seen::Enough);
        }
        rest = after;
    }
    Ok(Seen::All)
}

/// Whether the rest of a list is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Read on.
    All,
    /// The rest is not needed.
    Enough,
}

/// Writes an atom; `content` writes its content.
pub fn write<T>(name: &[u8; 4], out: &mut Vec<u8>, content: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name);
    let result = content(out);
    // What is written is not much larger than what was read, and that is less than 2^30 bytes.
    let size = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    out[start..start + 4].copy_from_slice(&size.to_be_bytes());
    result
}

/// Writes an atom unchanged.
pub fn copy(name: &[u8; 4], content: Option<&[u8]>, out: &mut Vec<u8>) {
    if let Some(content) = content {
        write(name, out, |out| out.extend_from_slice(content));
    }
}

/// The `N` bytes at `at`.
pub fn array_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// The 32-bit number at `at`.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    array_at(bytes, at).map(u32::from_be_bytes)
}

/// The 64-bit number at `at`.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    array_at(bytes, at).map(u64::from_be_bytes)
}
