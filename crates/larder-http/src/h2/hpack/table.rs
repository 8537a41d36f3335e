//! The dynamic table of a decoder (RFC 7541 §2.3.2), with the kind of each name in it.

use std::collections::VecDeque;

use crate::field::known::Known;

use super::TABLE_BYTES_MAX;

/// The kind of a field name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NameKind {
    /// Its characters, or which pseudo field it is.
    pub class: Class,
    /// Its known name.
    pub known: Known,
}

/// The class of a field name. It is determined once, when the name is read, and kept in the table with it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// Small letters, digits and hyphens.
    Plain,
    /// Also underscores.
    Underscores,
    /// Also other characters that are allowed in a name but unusual.
    Odd,
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// A pseudo field that no request has.
    OtherPseudo,
    /// It has an upper-case letter, a space, a control character or a colon, or is empty (RFC 9113 §8.2.1).
    Malformed,
}

impl NameKind {
    /// What this name is.
    pub fn of(name: &[u8]) -> NameKind {
        let class = match name {
            [] => Class::Malformed,
            b":method" => Class::Method,
            b":scheme" => Class::Scheme,
            b":authority" => Class::Authority,
            b":path" => Class::Path,
            [b':', ..] => Class::OtherPseudo,
            _ => name.iter().map(|&byte| CLASSES[usize::from(byte)]).max().unwrap_or(Class::Malformed),
        };
        let known = if class == Class::Plain { Known::of(name) } else { Known::Other };
        NameKind { class, known }
    }
}

/// The class that each byte gives a name.
static CLASSES: [Class; 256] = {
    let mut classes = [Class::Odd; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'0'..=b'9' | b'-' => Class::Plain,
            b'_' => Class::Underscores,
            0..=b' ' | b':' | b'A'..=b'Z' | 0x7f => Class::Malformed,
            _ => Class::Odd,
        };
        byte += 1;
    }
    classes
};

/// What RFC 7541 §4.1 adds to the size of an entry.
pub(super) const ENTRY_OVERHEAD: usize = 32;

/// The dynamic table: the newest entry has the lowest index. Holds no memory until something is put in.
#[derive(Clone, Default, Debug)]
pub(super) struct Table {
    /// The oldest first.
    entries: VecDeque<Entry>,
    /// Name and value of every entry, after the bytes of removed entries.
    text: Vec<u8>,
    /// How many bytes were removed from the front of `text` since it was made, modulo 2^32.
    taken: u32,
    /// The size as RFC 7541 counts it.
    bytes: usize,
}

/// An entry. Its position counts from the first byte that ever was in `text`, modulo 2^32.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u32,
    name_len: u16,
    value_len: u16,
    kind: NameKind,
    is_value_clean: bool,
}

/// A field in the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'a> {
    /// The name, directly followed by the value.
    pub text: &'a [u8],
    pub name_len: usize,
    pub kind: NameKind,
    /// Whether the value is free of NUL, CR and LF.
    pub is_value_clean: bool,
}

/// When `text` would grow beyond this and half of it is unused, it is compacted.
const TEXT_BYTES_MIN: usize = 512;

impl Table {
    /// The entry with this index, the newest one 0.
    #[inline(always)]
    pub fn get(&self, index: usize) -> Option<Found<'_>> {
        let entry = *self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let at = entry.at.wrapping_sub(self.taken) as usize;
        let name_len = usize::from(entry.name_len);
        let text = self.text.get(at..at + name_len + usize::from(entry.value_len))?;
        Some(Found { text, name_len, kind: entry.kind, is_value_clean: entry.is_value_clean })
    }

    /// Adds a field, and evicts the oldest until all fit into `bytes_max`. A field that is too large empties the table
    /// (RFC 7541 §4.4).
    pub fn insert(&mut self, field: Found<'_>, bytes_max: usize) {
        let bytes = field.text.len() + ENTRY_OVERHEAD;
        self.shrink_to(bytes_max.saturating_sub(bytes));
        if bytes > bytes_max {
            return;
        }
        self.make_room(field.text.len());
        let at = self.taken.wrapping_add(self.text.len() as u32);
        self.text.extend_from_slice(field.text);
        // Both fit, because the table is smaller than 64 KiB.
        const { assert!(TABLE_BYTES_MAX <= u16::MAX as usize) };
        self.entries.push_back(Entry {
            at,
            name_len: field.name_len as u16,
            value_len: (field.text.len() - field.name_len) as u16,
            kind: field.kind,
            is_value_clean: field.is_value_clean,
        });
        self.bytes += bytes;
    }

    /// Evicts the oldest entries until the rest takes at most `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        while self.bytes > bytes
            && let Some(oldest) = self.entries.pop_front()
        {
            self.bytes -= usize::from(oldest.name_len) + usize::from(oldest.value_len) + ENTRY_OVERHEAD;
        }
        if self.entries.is_empty() {
            self.taken = self.taken.wrapping_add(self.text.len() as u32);
            self.text.clear();
        }
    }

    /// The size as RFC 7541 §4.1 counts it.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory the table holds.
    pub fn heap_bytes(&self) -> usize {
        self.text.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Moves the text in use to the front when that saves memory.
    fn make_room(&mut self, bytes: usize) {
        let needed = self.text.len() + bytes;
        if needed <= self.text.capacity() || needed <= TEXT_BYTES_MIN {
            return;
        }
        let Some(oldest) = self.entries.front() else { return };
        let unused = oldest.at.wrapping_sub(self.taken) as usize;
        if unused * 2 >= self.text.len() {
            self.text.copy_within(unused.., 0);
            self.text.truncate(self.text.len() - unused);
            self.taken = self.taken.wrapping_add(unused as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(table: &mut Table, text: &str, name_len: usize) {
        let kind = NameKind::of(&text.as_bytes()[..name_len]);
        table.insert(Found { text: text.as_bytes(), name_len, kind, is_value_clean: true }, TABLE_BYTES_MAX);
    }

    #[test]
    fn names_are_told_apart() {
        for (name, class) in [
            ("x-a1", Class::Plain),
            ("a_b", Class::Underscores),
            ("a(b_", Class::Odd),
            ("é", Class::Odd),
            ("X", Class::Malformed),
            ("a b", Class::Malformed),
            ("a:b", Class::Malformed),
            ("a\0", Class::Malformed),
            ("", Class::Malformed),
            (":path", Class::Path),
            (":Path", Class::OtherPseudo),
            (":status", Class::OtherPseudo),
            (":", Class::OtherPseudo),
        ] {
            assert_eq!(NameKind::of(name.as_bytes()).class, class, "{name}");
        }
        assert_eq!(NameKind::of(b"cookie").known, Known::Cookie);
    }

    #[test]
    fn memory_stays_bounded_and_entries_right_however_many_pass() {
        let mut table = Table::default();
        assert_eq!(table.heap_bytes(), 0);
        for number in 0..5_000 {
            let value = "v".repeat(number % 700);
            put(&mut table, &format!("x{number:06}{value}"), 7);
            assert!(table.bytes <= TABLE_BYTES_MAX);
            let newest = table.get(0).expect("it was just put in");
            assert_eq!(newest.text.len(), 7 + value.len());
            assert!(newest.text.starts_with(format!("x{number:06}").as_bytes()));
            let mut older = 0;
            while let Some(found) = table.get(older) {
                assert!(found.text.starts_with(format!("x{:06}", number - older).as_bytes()));
                older += 1;
            }
        }
        assert!(table.heap_bytes() < 4 * TABLE_BYTES_MAX, "{}", table.heap_bytes());
    }

    #[test]
    fn an_entry_that_does_not_fit_empties_the_table() {
        let mut table = Table::default();
        put(&mut table, "ab", 1);
        put(&mut table, &"x".repeat(TABLE_BYTES_MAX), 1);
        assert!(table.get(0).is_none());
        assert_eq!(table.bytes, 0);
    }
}
