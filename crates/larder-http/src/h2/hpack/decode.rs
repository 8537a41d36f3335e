//! Reading field blocks (RFC 7541 §3, §6).

use std::ops::Range;

use crate::scan;

use super::static_table::{self, ENTRIES};
use super::table::{Found, NameKind, Table};
use super::{TABLE_BYTES_MAX, huffman, integer};

/// Decodes the field blocks of one connection, with its dynamic table. Allocates nothing until the client adds to the
/// table.
#[derive(Clone, Debug)]
pub struct Decoder {
    table: Table,
    /// The size of the table that the client last set.
    table_bytes_max: usize,
}

/// What is wrong with a block. The connection cannot go on (RFC 9113 §4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("client sent {}", self.fact())]
#[allow(missing_docs, reason = "the facts say it")]
pub enum HpackError {
    Integer,
    Index,
    String,
    Huffman,
    TableSize,
}

impl HpackError {
    /// What the client did wrong, as text.
    pub fn fact(self) -> &'static str {
        match self {
            HpackError::Integer => "field block with an integer that does not end or is too large",
            HpackError::Index => "field block with an index that is not in the table",
            HpackError::String => "field block with a string that does not end",
            HpackError::Huffman => "field block with wrong Huffman code",
            HpackError::TableSize => "field block with a table size update that is too large or in the wrong place",
        }
    }
}

/// A decoded field: its positions in the text that it was written to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decoded {
    /// Where the name starts.
    pub name_at: usize,
    /// Where the name ends and the value starts.
    pub value_at: usize,
    /// Where the value ends.
    pub end: usize,
    /// What the name is.
    pub kind: NameKind,
    /// Whether the value is free of NUL, CR and LF.
    pub is_value_clean: bool,
}

impl Decoded {
    /// Where the name is.
    pub fn name(&self) -> Range<usize> {
        self.name_at..self.value_at
    }

    /// Where the value is.
    pub fn value(&self) -> Range<usize> {
        self.value_at..self.end
    }
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// A decoder with an empty table of at most [`TABLE_BYTES_MAX`].
    pub fn new() -> Decoder {
        Decoder { table: Table::default(), table_bytes_max: TABLE_BYTES_MAX }
    }

    /// Decodes a whole block. Each field is appended to `text` and passed to `take`, which may remove it again. An
    /// error of `take` ends the decoding; the table cannot be used after that.
    pub fn decode<E: From<HpackError>>(
        &mut self,
        mut block: &[u8],
        text: &mut Vec<u8>,
        mut take: impl FnMut(&mut Vec<u8>, Decoded) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut size_updates = 0;
        while let Some((&first, rest)) = block.split_first() {
            let field = if first & 0x80 != 0 {
                let index = if first == 0xff {
                    integer::read(&mut block, 7).ok_or(HpackError::Integer)?
                } else {
                    block = rest;
                    usize::from(first & 0x7f)
                };
                self.indexed(index, text)?
            } else if first & 0xe0 == 0x20 {
                size_updates += 1;
                self.set_size(&mut block, size_updates)?;
                continue;
            } else {
                self.literal(first, &mut block, text)?
            };
            // After a field, a size update is not allowed (RFC 7541 §4.2).
            size_updates = SIZE_UPDATES_MAX;
            take(text, field)?;
        }
        Ok(())
    }

    /// The memory the table holds.
    pub fn heap_bytes(&self) -> usize {
        self.table.heap_bytes()
    }

    fn set_size(&mut self, block: &mut &[u8], updates: usize) -> Result<(), HpackError> {
        let bytes = integer::read(block, 5).ok_or(HpackError::Integer)?;
        if updates > SIZE_UPDATES_MAX || bytes > TABLE_BYTES_MAX {
            return Err(HpackError::TableSize);
        }
        self.table_bytes_max = bytes;
        self.table.shrink_to(bytes);
        Ok(())
    }

    /// A field that is in a table.
    #[inline(always)]
    fn indexed(&self, index: usize, text: &mut Vec<u8>) -> Result<Decoded, HpackError> {
        let name_at = text.len();
        if let Some(entry) = index.checked_sub(1).and_then(|at| ENTRIES.get(at)) {
            text.extend_from_slice(entry.name);
            text.extend_from_slice(entry.value);
            let value_at = name_at + entry.name.len();
            return Ok(Decoded { name_at, value_at, end: text.len(), kind: entry.kind, is_value_clean: true });
        }
        let Found { text: found, name_len, kind, is_value_clean } = self.found(index)?;
        text.extend_from_slice(found);
        Ok(Decoded { name_at, value_at: name_at + name_len, end: text.len(), kind, is_value_clean })
    }

    /// A field whose value is written out, and perhaps its name.
    fn literal(&mut self, first: u8, block: &mut &[u8], text: &mut Vec<u8>) -> Result<Decoded, HpackError> {
        let is_kept = first & 0x40 != 0;
        let index = integer::read(block, if is_kept { 6 } else { 4 }).ok_or(HpackError::Integer)?;
        let name_at = text.len();
        let kind = if index == 0 {
            string(block, text)?;
            NameKind::of(&text[name_at..])
        } else if let Some(entry) = ENTRIES.get(index - 1) {
            text.extend_from_slice(entry.name);
            entry.kind
        } else {
            let found = self.found(index)?;
            text.extend_from_slice(&found.text[..found.name_len]);
            found.kind
        };
        let value_at = text.len();
        string(block, text)?;
        let is_value_clean = scan::line_end_or_nul(text, value_at).is_none();
        if is_kept {
            let field = Found { text: &text[name_at..], name_len: value_at - name_at, kind, is_value_clean };
            self.table.insert(field, self.table_bytes_max);
        }
        Ok(Decoded { name_at, value_at, end: text.len(), kind, is_value_clean })
    }

    #[inline(always)]
    fn found(&self, index: usize) -> Result<Found<'_>, HpackError> {
        index.checked_sub(static_table::LEN + 1).and_then(|at| self.table.get(at)).ok_or(HpackError::Index)
    }
}

/// How often the size of the table may be set at the start of a block (RFC 7541 §4.2).
const SIZE_UPDATES_MAX: usize = 2;

/// Reads a string to the end of `text` (RFC 7541 §5.2).
#[inline]
fn string(block: &mut &[u8], text: &mut Vec<u8>) -> Result<(), HpackError> {
    let is_huffman = block.first().ok_or(HpackError::String)? & 0x80 != 0;
    let len = integer::read(block, 7).ok_or(HpackError::Integer)?;
    let (string, rest) = block.split_at_checked(len).ok_or(HpackError::String)?;
    *block = rest;
    if is_huffman {
        huffman::decode(string, text).map_err(|_| HpackError::Huffman)
    } else {
        text.extend_from_slice(string);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
