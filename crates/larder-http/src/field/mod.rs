//! Header fields in their original order, and parsers for the values of some of them.

pub mod accept_encoding;
pub mod cache_control;
pub mod cookie;
pub mod dictionary;
pub mod known;
pub mod list;
pub mod names;
pub mod range;
#[cfg(test)]
mod tests;
pub mod vary;

use std::fmt;
use std::ops::Range;

use known::{Known, KnownSet};
use names::Names;

/// The header fields of a message, with their original order, case and duplicates.
///
/// All bytes are in one buffer, so parsing a head into used `Fields` allocates nothing. The bytes of replaced and
/// removed fields stay there until [`Fields::clear`]; a clone only has the bytes in use, and those of lines.
#[derive(Default)]
pub struct Fields {
    bytes: Vec<u8>,
    index: Vec<Field>,
    /// The known names of all that were ever added: most questions are about fields that are not there.
    had: KnownSet,
    /// Those of them that were added when they may have been there already: most names come once.
    twice: KnownSet,
}

/// How a field of one head is added to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// Not at all.
    Not,
    /// As it is.
    AsItIs,
    /// With its name in this spelling.
    Named(&'static str),
}

/// A stretch of fields, as [`Fields::each_run`] has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run<'a> {
    /// Whole lines: `Name: value` and CR LF each, without CR, LF or NUL in a name or a value.
    Lines(&'a [u8]),
    /// Name and value of any other field. The value may hold any byte.
    Field(&'a [u8], &'a [u8]),
}

/// Where a field is in the buffer.
#[derive(Clone, Copy)]
struct Field {
    name: Piece,
    value: Piece,
    known: Known,
    kept: Kept,
}

/// How the buffer has a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// As a line: `Name: value` and CR LF around the two pieces, and no CR, LF or NUL in the value.
    Line,
    /// Without the rest of its line. Nobody has checked the value.
    Unchecked,
}

impl Field {
    /// A field whose value nobody has checked.
    fn bare(known: Known, name: Piece, value: Piece) -> Field {
        Field { name, value, known, kept: Kept::Unchecked }
    }

    /// Where its line is in the buffer.
    fn line(&self) -> Range<usize> {
        self.name.at as usize..self.value.at as usize + self.value.len as usize + LINE_END.len()
    }
}

/// What stands between name and value of a line.
const LINE_MIDDLE: &[u8] = b": ";
/// What ends a line.
const LINE_END: &[u8] = b"\r\n";

/// Why all positions fit.
const FITS: &str = "heads are bounded by configuration, far below 4 GiB";

/// How many fields most heads have at most.
const USUAL_FIELDS: usize = 16;

/// A part of the buffer. It is half the size of a `Range`, because the index is searched on every request.
#[derive(Clone, Copy)]
struct Piece {
    at: u32,
    len: u32,
}

impl Piece {
    /// The stretch of `len` bytes at `at`.
    fn new(at: usize, len: usize) -> Piece {
        Piece { at: u32::try_from(at).expect(FITS), len: u32::try_from(len).expect(FITS) }
    }

    #[inline]
    fn of(self, bytes: &[u8]) -> &[u8] {
        let at = self.at as usize;
        bytes.get(at..at + self.len as usize).unwrap_or_default()
    }
}

impl Fields {
    /// No fields, and nothing allocated.
    pub fn new() -> Fields {
        Fields::default()
    }

    /// Removes all fields but keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.index.clear();
        self.had = KnownSet::default();
        self.twice = KnownSet::default();
    }

    /// Adds a field whose bytes are in the buffer, or will be.
    #[inline]
    fn add(&mut self, field: Field) {
        if !self.had.insert(field.known) {
            self.twice.insert(field.known);
        }
        self.index.push(field);
    }

    /// The fields among which there may be one of this name.
    #[inline]
    fn among(&self, known: Known) -> &[Field] {
        if self.had.contains(known) { &self.index } else { &[] }
    }

    /// Adds a field at the end. The caller checks that name and value are valid.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        self.push_known(Known::of(name), name, value);
    }

    /// As [`Fields::push`], for a name whose known name the caller has.
    pub fn push_known(&mut self, known: Known, name: &[u8], value: &[u8]) {
        debug_assert_eq!(known, Known::of(name), "{}", name.escape_ascii());
        let field = self.keep_field(known, name, value, Kept::Unchecked);
        self.add(field);
    }

    /// As [`Fields::push_known`], for a value that has no CR, LF or NUL: it is not looked through again when it is
    /// written.
    pub fn push_sound(&mut self, known: Known, name: &[u8], value: &[u8]) {
        debug_assert_eq!(known, Known::of(name), "{}", name.escape_ascii());
        let field = self.keep_field(known, name, value, Kept::Line);
        self.add(field);
    }

    /// Copies a field to the end of the buffer.
    #[inline]
    fn keep_field(&mut self, known: Known, name: &[u8], value: &[u8], kept: Kept) -> Field {
        match kept {
            Kept::Line => self.keep_line(known, name, value),
            Kept::Unchecked => {
                let (name, value) = (self.keep(name), self.keep(value));
                Field { name, value, known, kept }
            }
        }
    }

    /// Copies a field to the end of the buffer, as a line.
    fn keep_line(&mut self, known: Known, name: &[u8], value: &[u8]) -> Field {
        debug_assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)), "{}", value.escape_ascii());
        let name_at = self.bytes.len();
        let value_at = name_at + name.len() + LINE_MIDDLE.len();
        // Room is made once, not for each of the four.
        self.bytes.reserve(name.len() + value.len() + LINE_MIDDLE.len() + LINE_END.len());
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(LINE_MIDDLE);
        self.bytes.extend_from_slice(value);
        self.bytes.extend_from_slice(LINE_END);
        assert!(u32::try_from(self.bytes.len()).is_ok(), "{FITS}");
        let name = Piece { at: name_at as u32, len: name.len() as u32 };
        let value = Piece { at: value_at as u32, len: value.len() as u32 };
        Field { name, value, known, kept: Kept::Line }
    }

    /// Becomes a copy of another head, with its lines.
    pub fn copy_from(&mut self, other: &Fields) {
        self.bytes.clear();
        self.bytes.extend_from_slice(&other.bytes);
        self.index.clear();
        self.index.extend_from_slice(&other.index);
        (self.had, self.twice) = (other.had, other.twice);
    }

    /// Adds the fields of another head, as `how` says of each. Those that came as lines stay lines
    /// ([`Fields::each_run`]).
    pub fn extend_from(&mut self, other: &Fields, mut how: impl FnMut(Known, &[u8]) -> Written) {
        let start = self.keep(&other.bytes).at;
        self.index.reserve(other.index.len());
        for field in &other.index {
            let moved = |piece: Piece| Piece { at: start + piece.at, ..piece };
            let field = Field { name: moved(field.name), value: moved(field.value), ..*field };
            match how(field.known, field.name.of(&self.bytes)) {
                Written::Not => {}
                Written::AsItIs => self.add(field),
                Written::Named(name) => {
                    let name = self.keep(name.as_bytes());
                    self.add(Field::bare(field.known, name, field.value));
                }
            }
        }
    }

    /// Hands the fields for which `is_wanted` is true to `each`, in order: those that came as lines one behind the other
    /// are one run.
    pub fn each_run(&self, mut is_wanted: impl FnMut(Known, &[u8]) -> bool, mut each: impl FnMut(Run<'_>)) {
        let text = |range: Range<usize>| self.bytes.get(range).unwrap_or_default();
        let mut lines = 0..0;
        for field in &self.index {
            if !is_wanted(field.known, field.name.of(&self.bytes)) {
                continue;
            }
            if !lines.is_empty() && field.kept == Kept::Line && field.name.at as usize == lines.end {
                lines.end = field.line().end;
                continue;
            }
            if !lines.is_empty() {
                each(Run::Lines(text(std::mem::take(&mut lines))));
            }
            match field.kept {
                Kept::Line => lines = field.line(),
                Kept::Unchecked => each(Run::Field(field.name.of(&self.bytes), field.value.of(&self.bytes))),
            }
        }
        if !lines.is_empty() {
            each(Run::Lines(text(lines)));
        }
    }

    /// The value of the first field with this name, ignoring case.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.get_as(Known::of(name.as_bytes()), name)
    }

    /// As [`Fields::get`], for a name whose known name the caller has.
    pub fn get_as(&self, known: Known, name: &str) -> Option<&[u8]> {
        if known != Known::Other {
            return self.get_known(known);
        }
        let wanted = Wanted { known, name };
        let found = self.among(known).iter().find(|field| wanted.is(field, &self.bytes))?;
        Some(found.value.of(&self.bytes))
    }

    /// The value of the first field of this known name.
    #[inline]
    pub fn get_known(&self, known: Known) -> Option<&[u8]> {
        let found = self.among(known).iter().find(|field| field.known == known)?;
        Some(found.value.of(&self.bytes))
    }

    /// The number of bytes that `Content-Length` announces; `None` without one, or where it is no number.
    pub fn content_length(&self) -> Option<u64> {
        std::str::from_utf8(self.get_known(Known::ContentLength)?).ok()?.trim().parse().ok()
    }

    /// The values of all fields of this name, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        self.all_as(Known::of(name.as_bytes()), name)
    }

    /// As [`Fields::get_all`], for a name whose known name the caller has.
    pub fn all_as<'a>(&'a self, known: Known, name: &'a str) -> impl Iterator<Item = &'a [u8]> + Clone {
        let wanted = Wanted { known, name };
        self.among(known)
            .iter()
            .filter(move |field| wanted.is(field, &self.bytes))
            .map(|field| field.value.of(&self.bytes))
    }

    /// The values of all fields of this known name, in order.
    #[inline]
    pub fn all_known(&self, known: Known) -> impl Iterator<Item = &[u8]> + Clone {
        self.among(known).iter().filter(move |field| field.known == known).map(|field| field.value.of(&self.bytes))
    }

    /// Names and values, in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> + Clone {
        self.index.iter().map(|field| (field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// The known name, the name, and the value of each field, in order.
    pub fn iter_known(&self) -> impl DoubleEndedIterator<Item = (Known, &[u8], &[u8])> + Clone {
        self.index.iter().map(|field| (field.known, field.name.of(&self.bytes), field.value.of(&self.bytes)))
    }

    /// Removes all fields with this name. True if there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.remove_as(Known::of(name.as_bytes()), name)
    }

    /// As [`Fields::remove`], for a name whose known name the caller has.
    pub fn remove_as(&mut self, known: Known, name: &str) -> bool {
        let wanted = Wanted { known, name };
        if !self.had.contains(known) {
            return false;
        }
        let Some(first) = self.position(wanted) else { return false };
        self.index.remove(first);
        self.remove_behind(first, wanted);
        if known != Known::Other {
            self.had.remove(known);
        }
        true
    }

    /// Removes all fields whose known names are in a set, which has not [`Known::Other`].
    pub fn remove_known(&mut self, names: KnownSet) {
        debug_assert!(!names.contains(Known::Other), "others are not all of one name");
        if names.meets(self.had) {
            self.index.retain(|field| !names.contains(field.known));
            (self.had, self.twice) = (self.had.without(names), self.twice.without(names));
        }
    }

    /// Removes all fields whose names are in a set.
    pub fn remove_all(&mut self, names: &Names) {
        if self.contains_any(names) {
            let bytes = &self.bytes;
            self.index.retain(|field| !names.contains(field.known, field.name.of(bytes)));
        }
    }

    /// Whether there is a field whose name is in a set.
    pub fn contains_any(&self, names: &Names) -> bool {
        names.meet(self.had) && self.index.iter().any(|field| names.contains(field.known, field.name.of(&self.bytes)))
    }

    /// Keeps the fields for which `keep` is true.
    pub fn retain(&mut self, mut keep: impl FnMut(Known, &[u8], &[u8]) -> bool) {
        let bytes = &self.bytes;
        self.index.retain(|field| keep(field.known, field.name.of(bytes), field.value.of(bytes)));
    }

    /// Replaces the first field with this name and removes the others. Adds the field if there is none.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.set_as(Known::of(name.as_bytes()), name, value);
    }

    /// As [`Fields::set`], for a name whose known name the caller has.
    pub fn set_as(&mut self, known: Known, name: &str, value: &[u8]) {
        self.set_kept(known, name, value, Kept::Unchecked);
    }

    /// As [`Fields::set_as`], for a value that has no CR, LF or NUL: it is not looked through again when it is written.
    pub fn set_sound(&mut self, known: Known, name: &str, value: &[u8]) {
        self.set_kept(known, name, value, Kept::Line);
    }

    /// As [`Fields::set_sound`], for a whole line: `Name: value` and CR LF.
    pub fn set_line(&mut self, known: Known, name: &str, line: &[u8]) {
        let value = line.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(LINE_MIDDLE));
        debug_assert!(value.is_some_and(|value| value.ends_with(LINE_END)), "{name}: {}", line.escape_ascii());
        let Piece { at, len } = self.keep(line);
        let (start, end) = ((name.len() + LINE_MIDDLE.len()) as u32, LINE_END.len() as u32);
        let value = Piece { at: at + start, len: len.saturating_sub(start + end) };
        let field = Field { name: Piece { at, len: name.len() as u32 }, value, known, kept: Kept::Line };
        self.place(Wanted { known, name }, field);
    }

    fn set_kept(&mut self, known: Known, name: &str, value: &[u8], kept: Kept) {
        let field = self.keep_field(known, name.as_bytes(), value, kept);
        self.place(Wanted { known, name }, field);
    }

    /// Where the first field of a name is.
    #[inline]
    fn position(&self, wanted: Wanted<'_>) -> Option<usize> {
        match wanted.known {
            Known::Other => self.position_of_other(wanted),
            // All that it takes is to look at one byte of each.
            known => self.index.iter().position(|field| field.known == known),
        }
    }

    #[inline(never)]
    fn position_of_other(&self, wanted: Wanted<'_>) -> Option<usize> {
        self.index.iter().position(|field| wanted.is(field, &self.bytes))
    }

    /// Puts a field in the place of all of its name.
    fn place(&mut self, wanted: Wanted<'_>, field: Field) {
        if self.had.contains(wanted.known)
            && let Some(first) = self.position(wanted)
        {
            self.index[first] = field;
            return self.remove_behind(first + 1, wanted);
        }
        self.add(field);
    }

    /// Removes the fields of this name from a place on.
    #[inline]
    fn remove_behind(&mut self, from: usize, wanted: Wanted<'_>) {
        if self.twice.contains(wanted.known) {
            self.remove_all_behind(from, wanted);
        }
    }

    fn remove_all_behind(&mut self, from: usize, wanted: Wanted<'_>) {
        if !self.index.iter().skip(from).any(|field| wanted.is(field, &self.bytes)) {
            return;
        }
        let mut at = 0;
        self.index.retain(|field| {
            at += 1;
            at <= from || !wanted.is(field, &self.bytes)
        });
    }

    /// Whether there is a field of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Whether there is a field of this known name.
    #[inline]
    pub fn contains_known(&self, known: Known) -> bool {
        self.among(known).iter().any(|field| field.known == known)
    }

    /// False if no name of this set is there; it need not be if this is true.
    #[inline]
    pub fn may_have(&self, names: KnownSet) -> bool {
        self.had.meets(names)
    }

    /// Whether a name of this set comes more than once.
    pub fn repeats(&self, set: KnownSet) -> bool {
        let mut seen = KnownSet::default();
        self.index.iter().any(|field| set.contains(field.known) && !seen.insert(field.known))
    }

    /// How many fields there are.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Whether there are no fields.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.bytes.capacity() + self.index.capacity() * size_of::<Field>()
    }

    /// Copies `text` to the end of the buffer.
    fn keep(&mut self, text: &[u8]) -> Piece {
        let piece = Piece::new(self.bytes.len(), text.len());
        self.bytes.extend_from_slice(text);
        piece
    }

    /// Notes a field of a block of bytes that [`Fields::fill`] will add later. Positions count from the start of that
    /// block. `is_line` says that the block has it as `Name: value` and CR LF, and that the value has no CR, LF or NUL.
    #[inline]
    pub(crate) fn note(&mut self, known: Known, name: Range<usize>, value: Range<usize>, is_line: bool) {
        // `fill` refuses a block in which these do not fit.
        let piece = |range: Range<usize>| Piece { at: range.start as u32, len: range.len() as u32 };
        let kept = if is_line { Kept::Line } else { Kept::Unchecked };
        self.add(Field { name: piece(name), value: piece(value), known, kept });
    }

    /// Makes room for the fields of a usual head, so that noting them allocates once.
    pub(crate) fn expect_head(&mut self) {
        self.index.reserve(USUAL_FIELDS);
    }

    /// Takes the buffer out, so that names and values can be written to its end. Return it with
    /// [`Fields::return_text`]; in between there are no fields.
    pub(crate) fn take_text(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Returns the buffer. Positions that were noted in between count from its start.
    pub(crate) fn return_text(&mut self, text: Vec<u8>) {
        assert!(u32::try_from(text.len()).is_ok(), "{FITS}");
        self.bytes = text;
    }

    /// Joins all fields with this known name into the first, with `separator` between their values.
    pub(crate) fn join(&mut self, known: Known, separator: &[u8]) {
        let Some(first) = self.index.iter().position(|field| field.known == known) else { return };
        let start = self.bytes.len();
        for at in first..self.index.len() {
            let field = self.index[at];
            if field.known == known {
                if at > first {
                    self.bytes.extend_from_slice(separator);
                }
                let value = field.value.at as usize;
                self.bytes.extend_from_within(value..value + field.value.len as usize);
            }
        }
        let value = Piece::new(start, self.bytes.len() - start);
        self.index[first] = Field::bare(known, self.index[first].name, value);
        let mut at = 0;
        self.index.retain(|field| {
            at += 1;
            at <= first + 1 || field.known != known
        });
    }

    /// Adds the block of the noted fields. There must be no other fields.
    pub(crate) fn fill(&mut self, block: &[u8]) {
        debug_assert!(self.bytes.is_empty(), "noted fields count from the start of the buffer");
        self.keep(block);
    }
}

impl Clone for Fields {
    fn clone(&self) -> Fields {
        let used = |field: &Field| match field.kept {
            Kept::Line => field.line().len(),
            Kept::Unchecked => field.name.len as usize + field.value.len as usize,
        };
        let mut clone = Fields {
            bytes: Vec::with_capacity(self.index.iter().map(used).sum()),
            index: Vec::with_capacity(self.index.len()),
            ..Fields::default()
        };
        for field in &self.index {
            let (name, value) = (field.name.of(&self.bytes), field.value.of(&self.bytes));
            let field = clone.keep_field(field.known, name, value, field.kept);
            clone.add(field);
        }
        clone
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes| String::from_utf8_lossy(bytes);
        out.debug_map().entries(self.iter().map(|(name, value)| (text(name), text(value)))).finish()
    }
}

/// Equal when names, compared without case, and values are equal in order.
impl PartialEq for Fields {
    fn eq(&self, other: &Fields) -> bool {
        self.len() == other.len()
            && self.iter().zip(other.iter()).all(|(a, b)| a.0.eq_ignore_ascii_case(b.0) && a.1 == b.1)
    }
}

impl Eq for Fields {}

impl<N: AsRef<[u8]>, V: AsRef<[u8]>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in pairs {
            fields.push(name.as_ref(), value.as_ref());
        }
        fields
    }
}

/// A name to search for, with its known name.
#[derive(Clone, Copy)]
struct Wanted<'a> {
    known: Known,
    name: &'a str,
}

impl Wanted<'_> {
    fn is(self, field: &Field, bytes: &[u8]) -> bool {
        // Most other names differ in their lengths already.
        field.known == self.known
            && (self.known != Known::Other
                || field.name.len as usize == self.name.len()
                    && field.name.of(bytes).eq_ignore_ascii_case(self.name.as_bytes()))
    }
}
