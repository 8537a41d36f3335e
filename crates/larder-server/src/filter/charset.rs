//! Charsets, and the conversion of bodies from one to another (ngx_http_charset_filter).

use std::collections::HashMap;
use std::sync::Arc;

use larder_conf::model::CharsetMap;

/// The longest UTF-8 sequence, bytes.
const SEQUENCE_BYTES_MAX: usize = 4;

/// The charsets of a configuration, and the conversions between them.
#[derive(Default)]
pub struct Charsets {
    /// Whether `charset` is used anywhere. Without it, X-Accel-Charset has no effect, as in nginx.
    pub are_used: bool,
    /// The names, as they were first written.
    names: Vec<Box<[u8]>>,
    tables: HashMap<(usize, usize), Arc<Table>>,
}

/// A conversion of one charset into another.
#[derive(Debug)]
pub enum Table {
    /// A byte becomes another byte.
    Bytes(Box<[u8; 256]>),
    /// A byte becomes a character of UTF-8.
    ToUtf8(Box<[Utf8; 256]>),
    /// A character of UTF-8 becomes a byte; without a match, a reference of HTML (`&#8364;`).
    FromUtf8(HashMap<u16, u8>),
}

/// A character in up to three bytes.
#[derive(Clone, Copy, Debug)]
pub struct Utf8 {
    len: u8,
    bytes: [u8; 3],
}

impl Charsets {
    /// The charsets and conversions of the `charset_map` blocks.
    pub fn new(maps: &[CharsetMap]) -> Self {
        let mut charsets = Self { are_used: !maps.is_empty(), ..Self::default() };
        for map in maps {
            let from = charsets.add(map.from.value.as_bytes());
            let to = charsets.add(map.to.value.as_bytes());
            let (there, back) = match map.is_to_utf8() {
                true => (to_utf8(map), from_utf8(map)),
                false => bytes(map),
            };
            charsets.tables.insert((from, to), Arc::new(there));
            charsets.tables.insert((to, from), Arc::new(back));
        }
        charsets
    }

    /// Adds a name if it is new, and returns its place.
    pub fn add(&mut self, name: &[u8]) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.names.len() - 1
        })
    }

    /// A name as it was first written.
    pub fn name(&self, place: usize) -> Option<&[u8]> {
        self.names.get(place).map(|name| &**name)
    }

    /// The conversion between the charsets at two places.
    pub fn table(&self, from: usize, to: usize) -> Option<&Arc<Table>> {
        self.tables.get(&(from, to))
    }

    /// Whether there is any conversion.
    pub fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// The place of a name.
    pub fn find(&self, name: &[u8]) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }
}

fn bytes(map: &CharsetMap) -> (Table, Table) {
    let unknown: [u8; 256] = std::array::from_fn(|byte| if byte < 128 { byte as u8 } else { b'?' });
    let (mut there, mut back) = (unknown, unknown);
    for (from, to) in &map.entries {
        if let &[to] = to.as_slice() {
            there[usize::from(*from)] = to;
            back[usize::from(to)] = *from;
        }
    }
    (Table::Bytes(Box::new(there)), Table::Bytes(Box::new(back)))
}

fn to_utf8(map: &CharsetMap) -> Table {
    let one = |byte: u8| Utf8 { len: 1, bytes: [byte, 0, 0] };
    let mut table: [Utf8; 256] = std::array::from_fn(|byte| one(if byte < 128 { byte as u8 } else { b'?' }));
    for (from, to) in &map.entries {
        let mut bytes = [0; 3];
        if let Some(place) = bytes.get_mut(..to.len()) {
            place.copy_from_slice(to);
            table[usize::from(*from)] = Utf8 { len: to.len() as u8, bytes };
        }
    }
    Table::ToUtf8(Box::new(table))
}

fn from_utf8(map: &CharsetMap) -> Table {
    let character = |to: &[u8]| std::str::from_utf8(to).ok()?.chars().next().map(u32::from);
    let entries = map.entries.iter().filter_map(|(from, to)| Some((u16::try_from(character(to)?).ok()?, *from)));
    Table::FromUtf8(entries.collect())
}

/// Converts a body as it passes.
pub struct Converter {
    table: Arc<Table>,
    /// The beginning of a UTF-8 character whose rest has not arrived.
    held: Vec<u8>,
}

impl Converter {
    /// A converter at the beginning of its body.
    pub fn new(table: Arc<Table>) -> Self {
        Self { table, held: Vec::new() }
    }

    /// Takes all of `input`, and appends the converted bytes.
    pub fn feed(&mut self, input: &[u8], out: &mut Vec<u8>) {
        match &*self.table {
            Table::Bytes(table) => out.extend(input.iter().map(|&byte| table[usize::from(byte)])),
            Table::ToUtf8(table) => {
                out.reserve(input.len());
                for &byte in input {
                    let Utf8 { len, bytes } = table[usize::from(byte)];
                    out.extend_from_slice(&bytes[..usize::from(len)]);
                }
            }
            Table::FromUtf8(table) => {
                let mut rest = input;
                while !self.held.is_empty() && !rest.is_empty() {
                    self.held.push(rest[0]);
                    rest = &rest[1..];
                    let held = std::mem::take(&mut self.held);
                    let left = from_utf8_bytes(table, &held, out).to_vec();
                    self.held = left;
                }
                self.held.extend_from_slice(from_utf8_bytes(table, rest, out));
                debug_assert!(self.held.len() < SEQUENCE_BYTES_MAX, "a sequence is longer than any");
            }
        }
    }

    /// Appends the replacement of an incomplete character.
    pub fn finish(self, out: &mut Vec<u8>) {
        if !self.held.is_empty() {
            out.push(b'?');
        }
    }
}

/// Appends the conversion of `input`; returns an incomplete character at its end.
fn from_utf8_bytes<'a>(table: &HashMap<u16, u8>, input: &'a [u8], out: &mut Vec<u8>) -> &'a [u8] {
    use std::io::Write as _;
    let mut rest = input;
    while let Some(&first) = rest.first() {
        if first < 0x80 {
            let plain = rest.iter().position(|&byte| byte >= 0x80).unwrap_or(rest.len());
            out.extend_from_slice(&rest[..plain]);
            rest = &rest[plain..];
            continue;
        }
        let (sequence, used) = match decode(rest) {
            Decoded::Incomplete => return rest,
            Decoded::Invalid(used) => (None, used),
            Decoded::Character(character, used) => (Some(character), used),
        };
        rest = &rest[used..];
        match sequence {
            None => out.push(b'?'),
            Some(character) => match u16::try_from(character).ok().and_then(|character| table.get(&character)) {
                Some(byte) => out.push(*byte),
                None => write!(out, "&#{character};").expect("a vector takes all that is written"),
            },
        }
    }
    rest
}

/// What begins with a byte above 0x7f.
#[derive(Debug, PartialEq, Eq)]
enum Decoded {
    /// A character, and its length in bytes.
    Character(u32, usize),
    /// No character, and how many bytes to skip.
    Invalid(usize),
    /// A character whose rest has not arrived.
    Incomplete,
}

/// Decodes as nginx does: overlong forms are invalid, and a broken sequence ends with the byte that breaks it.
fn decode(text: &[u8]) -> Decoded {
    let Some(&first) = text.first() else { return Decoded::Incomplete };
    let (begin, least, len) = match first {
        0xc2..=0xdf => (first & 0x1f, 0x80, 2),
        0xe0..=0xef => (first & 0x0f, 0x800, 3),
        0xf0..=0xf7 => (first & 0x07, 0x10000, 4),
        _ => return Decoded::Invalid(1),
    };
    let Some(rest) = text.get(1..len) else { return Decoded::Incomplete };
    let mut character = u32::from(begin);
    for (n, &byte) in rest.iter().enumerate() {
        if byte < 0x80 {
            return Decoded::Invalid(n + 2);
        }
        character = character << 6 | u32::from(byte & 0x3f);
    }
    if (least..=0x10_ffff).contains(&character) { Decoded::Character(character, len) } else { Decoded::Invalid(len) }
}

#[cfg(test)]
mod tests {
    use larder_conf::Span;
    use larder_conf::model::At;

    use super::*;

    fn map(from: &str, to: &str, entries: &[(u8, &[u8])]) -> CharsetMap {
        let span = Span { file: 0, start: 0, end: 0 };
        let name = |name: &str| At { value: name.to_owned(), span };
        let entries = entries.iter().map(|(from, to)| (*from, to.to_vec())).collect();
        CharsetMap { span, from: name(from), to: name(to), entries }
    }

    fn converted(charsets: &Charsets, from: &str, to: &str, body: &[u8], piece: usize) -> Vec<u8> {
        let place = |name: &str| charsets.find(name.as_bytes()).expect("a charset of the map");
        let table = charsets.tables.get(&(place(from), place(to))).expect("a table");
        let mut converter = Converter::new(Arc::clone(table));
        let mut out = Vec::new();
        for piece in body.chunks(piece) {
            converter.feed(piece, &mut out);
        }
        converter.finish(&mut out);
        out
    }

    #[test]
    fn bodies_are_converted_both_ways_wherever_they_are_cut() {
        let maps = [
            map("koi8-r", "windows-1251", &[(0xc1, &[0xe0]), (0xc2, &[0xe1])]),
            map("koi8-r", "utf-8", &[(0xc1, "а".as_bytes()), (0xc2, "б".as_bytes()), (0x95, "∙".as_bytes())]),
        ];
        let charsets = Charsets::new(&maps);
        for (from, to, body, result) in [
            ("koi8-r", "windows-1251", &b"a\xc1\xc2\xc3"[..], &b"a\xe0\xe1?"[..]),
            ("windows-1251", "koi8-r", b"a\xe0\xe1\xe2", b"a\xc1\xc2?"),
            ("koi8-r", "utf-8", b"a\xc1\x95\xc2\xc3", "aа∙б?".as_bytes()),
            ("UTF-8", "KOI8-R", "aа∙б".as_bytes(), b"a\xc1\x95\xc2"),
            ("utf-8", "koi8-r", "я€😀".as_bytes(), b"&#1103;&#8364;&#128512;"),
            ("utf-8", "koi8-r", b"\xd0a\xffb", b"?" as &[u8]),
        ] {
            let whole = converted(&charsets, from, to, body, 1000);
            if result != b"?" {
                assert_eq!(whole, result, "{from} to {to}");
            }
            for piece in [1, 2, 3] {
                assert_eq!(converted(&charsets, from, to, body, piece), whole, "{from} to {to} by {piece}");
            }
        }
        assert_eq!(converted(&charsets, "utf-8", "koi8-r", b"\xd0a\xffb", 9), b"??b");
        assert_eq!(converted(&charsets, "utf-8", "koi8-r", b"a\xd0", 9), b"a?");
    }

    #[test]
    fn sequences_are_read_as_nginx_reads_them() {
        for (text, decoded) in [
            (&b"\xc3\xa9x"[..], Decoded::Character(0xe9, 2)),
            (b"\xe2\x82\xac", Decoded::Character(0x20ac, 3)),
            (b"\xf0\x9f\x98\x80", Decoded::Character(0x1f600, 4)),
            (b"\xe2\x82", Decoded::Incomplete),
            (b"\x80", Decoded::Invalid(1)),
            (b"\xc0\x80", Decoded::Invalid(1)),
            (b"\xe0\x80\x80", Decoded::Invalid(3)),
            (b"\xc3a", Decoded::Invalid(2)),
            (b"\xf7\xbf\xbf\xbf", Decoded::Invalid(4)),
        ] {
            assert_eq!(decode(text), decoded, "{text:x?}");
        }
    }
}
