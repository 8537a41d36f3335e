//! Values, and the texts that a run makes.

use std::net::SocketAddr;

use crate::policy::{Header, RegexId};
use crate::program::{Program, TextAt};
use crate::vars::{Headers, Variable};

/// A value of one of the language's types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A STRING; `None` for one that is not there.
    Text(Option<Text>),
    /// An INT.
    Int(i64),
    /// A REAL, a DURATION in seconds, or a TIME in seconds since 1970.
    Real(f64),
    /// BYTES.
    Bytes(i64),
    /// A BOOL.
    Bool(bool),
    /// An IP with its port.
    Ip(SocketAddr),
    /// A BLOB.
    Blob(Text),
    /// What is known by its number, or none of it: a backend, a probe, an ACL, a sub, a storage or a label.
    Id(Option<u32>),
    /// A word of an ENUM, by its place among the words.
    Word(u32),
    /// A regular expression.
    Regex(RegexId),
    /// A header.
    Header(Header),
    /// A header whose name the VCL has made up: of which message, and the name.
    NamedHeader(Headers, Option<Text>),
    /// All headers of a message: the variable that is the message.
    Message(Variable),
    /// What has no value: the result of a function of type VOID, or an argument that was not given.
    Nothing,
}

/// Where a text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text {
    /// In the program.
    Fixed(TextAt),
    /// Among those that the run has made.
    Made(TextAt),
}

/// All texts of a run: those of the program, and those that it makes.
pub struct Texts<'a> {
    program: &'a Program,
    made: &'a mut Vec<u8>,
    bytes_max: usize,
}

/// The run has made more bytes of text than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the texts made for one request take more than {bytes_max} bytes")]
pub struct Full {
    /// How many it may make.
    pub bytes_max: usize,
}

impl<'a> Texts<'a> {
    /// The texts of `program`, and `made`, which may grow to `bytes_max`.
    pub fn new(program: &'a Program, made: &'a mut Vec<u8>, bytes_max: usize) -> Texts<'a> {
        Texts { program, made, bytes_max: bytes_max.min(u32::MAX as usize) }
    }

    /// The bytes of a text; none for one that is not there.
    pub fn bytes(&self, text: Option<Text>) -> &[u8] {
        bytes_of(text, self.program, self.made)
    }

    /// How many more bytes may be made.
    pub fn room(&self) -> usize {
        self.bytes_max.saturating_sub(self.made.len())
    }

    /// Lets the run make so many bytes less.
    pub fn take(&mut self, bytes: usize) {
        self.bytes_max = self.bytes_max.saturating_sub(bytes);
    }

    /// Makes a text of these bytes.
    pub fn keep(&mut self, bytes: &[u8]) -> Result<Text, Full> {
        self.make(|made| made.extend_from_slice(bytes))
    }

    /// Makes a text of bytes that are there without the run, such as those of a file: they leave it as much room as it
    /// had.
    pub fn keep_uncounted(&mut self, bytes: &[u8]) -> Result<Text, Full> {
        self.bytes_max = self.bytes_max.saturating_add(bytes.len()).min(u32::MAX as usize);
        self.keep(bytes)
    }

    /// Makes a text of what `write` appends.
    pub fn make(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<Text, Full> {
        let at = self.made.len();
        write(self.made);
        if self.made.len() > self.bytes_max {
            self.made.truncate(at);
            return Err(Full { bytes_max: self.bytes_max });
        }
        Ok(Text::Made(TextAt { at: at as u32, len: (self.made.len() - at) as u32 }))
    }

    /// The bytes `at..at + len` of a text, which stay where they are; `None` if it is shorter.
    pub fn part(&self, text: Text, at: usize, len: usize) -> Option<Text> {
        let end = at.checked_add(len)?;
        let (at, len) = (u32::try_from(at).ok()?, u32::try_from(len).ok()?);
        let moved = |whole: TextAt| TextAt { at: whole.at + at, len };
        (end <= self.bytes(Some(text)).len()).then(|| match text {
            Text::Fixed(whole) => Text::Fixed(moved(whole)),
            Text::Made(whole) => Text::Made(moved(whole)),
        })
    }

    /// Makes a text of another one, whose bytes `change` changes in place.
    pub fn changed(&mut self, text: Option<Text>, change: impl FnOnce(&mut [u8])) -> Result<Text, Full> {
        let program = self.program;
        self.make(|made| {
            let start = made.len();
            append(program, text, made);
            change(&mut made[start..]);
        })
    }

    /// Makes one text of several. If only one of them has bytes, that is it.
    pub fn join(&mut self, texts: impl Iterator<Item = Option<Text>> + Clone) -> Result<Text, Full> {
        let mut with_bytes = texts.clone().flatten().filter(|text| !self.bytes(Some(*text)).is_empty());
        match (with_bytes.next(), with_bytes.next()) {
            (None, _) => return Ok(Text::Fixed(TextAt { at: 0, len: 0 })),
            (Some(only), None) => return Ok(only),
            (Some(_), Some(_)) => {}
        }
        drop(with_bytes);
        let program = self.program;
        self.make(|made| {
            for text in texts {
                append(program, text, made);
            }
        })
    }
}

/// The bytes of a text of `program`, or of `made`; none for one that is not there.
pub fn bytes_of<'a>(text: Option<Text>, program: &'a Program, made: &'a [u8]) -> &'a [u8] {
    match text {
        None => &[],
        Some(Text::Fixed(text)) => program.text(text),
        Some(Text::Made(TextAt { at, len })) => made.get(at as usize..at as usize + len as usize).unwrap_or_default(),
    }
}

/// Appends a text to those that were made.
fn append(program: &Program, text: Option<Text>, made: &mut Vec<u8>) {
    match text {
        None => {}
        Some(Text::Fixed(text)) => made.extend_from_slice(program.text(text)),
        Some(Text::Made(TextAt { at, len })) => {
            let range = at as usize..at as usize + len as usize;
            if range.end <= made.len() {
                made.extend_from_within(range);
            }
        }
    }
}
