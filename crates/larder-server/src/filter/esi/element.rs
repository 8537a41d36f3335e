//! An element of ESI: its name and its attributes.

use super::is_space;
use super::url::{Include, Reading, restored};

/// The longest name of an element or attribute that means something.
const NAME_BYTES_MAX: usize = 9;
/// The longest value of an attribute.
const VALUE_BYTES_MAX: usize = 8 * 1024;

/// An element while it is read.
#[derive(Debug, Default)]
pub struct Element {
    /// What it is.
    pub kind: Kind,
    /// Whether it is an end: `</esi:...>`.
    pub is_end: bool,
    /// Whether it ends with a `/`.
    pub is_empty: bool,
    /// What is wrong with it, until somebody takes note.
    pub fault: Option<&'static str>,
    state: State,
    /// The name that is read; one byte longer than any we know, if it is longer.
    name: Vec<u8>,
    value: Vec<u8>,
    src: Option<Vec<u8>>,
    alt: Option<Vec<u8>>,
    test: Option<Vec<u8>>,
    goes_on: bool,
    /// Whether all elements of ESI 1.0 are known.
    is_full: bool,
}

/// The elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// `esi:include`
    Include,
    /// `esi:remove`
    Remove,
    /// `esi:comment`
    Comment,
    /// One that has others in it, and is known where all of ESI 1.0 is read.
    Nest(Nest),
    /// None of them.
    #[default]
    Unknown,
}

/// The elements that have others in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nest {
    /// `esi:choose`
    Choose,
    /// `esi:when`
    When,
    /// `esi:otherwise`
    Otherwise,
    /// `esi:try`
    Try,
    /// `esi:attempt`
    Attempt,
    /// `esi:except`
    Except,
    /// `esi:vars`
    Vars,
    /// `esi:inline`
    Inline,
}

/// What comes behind a byte of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// More of it.
    More,
    /// The same byte.
    Again,
    /// Text; the element counts if it is whole.
    End {
        /// Whether nothing was wrong with it.
        is_whole: bool,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// In its name.
    #[default]
    Name,
    /// Between attributes; after a space one may begin.
    Between { may_begin: bool },
    /// In the name of an attribute.
    Attribute,
    /// Behind its `=`.
    Equal,
    /// In its value, which has this quote or else ends with a space.
    Value(Option<u8>),
    /// After a fault, before the `>`.
    Broken,
}

impl Element {
    /// One whose name comes next.
    pub fn new(is_end: bool, is_full: bool) -> Self {
        Self { is_end, is_full, ..Self::default() }
    }

    /// Takes a byte.
    pub fn take(&mut self, byte: u8) -> Rest {
        match self.state {
            State::Name if byte.is_ascii_alphanumeric() => self.add_to_name(byte),
            State::Name => return self.named(),
            State::Between { may_begin } => return self.between(byte, may_begin),
            State::Attribute if is_of_a_name(byte) => self.add_to_name(byte),
            State::Attribute if byte == b'=' => self.state = State::Equal,
            State::Attribute if is_space(byte) || matches!(byte, b'>' | b'/') => {
                self.state = State::Between { may_begin: true };
                return Rest::Again;
            }
            State::Attribute => return self.broken("a byte that cannot be in the name of an attribute"),
            State::Equal if is_space(byte) => return self.broken("an attribute without its value"),
            State::Equal if matches!(byte, b'"' | b'\'') => self.state = State::Value(Some(byte)),
            State::Equal => {
                self.state = State::Value(None);
                return Rest::Again;
            }
            // A test compares by it.
            State::Value(quote) if byte == b'>' && !(quote.is_some() && self.kind == Kind::Nest(Nest::When)) => {
                return self.broken("the value of an attribute that does not end");
            }
            State::Value(Some(quote)) if byte == quote => self.valued(),
            State::Value(None) if is_space(byte) => self.valued(),
            State::Value(_) if self.value.len() == VALUE_BYTES_MAX => return self.broken("a value that is too long"),
            State::Value(_) => self.value.push(byte),
            State::Broken if byte == b'>' => return Rest::End { is_whole: false },
            State::Broken => {}
        }
        Rest::More
    }

    fn add_to_name(&mut self, byte: u8) {
        if self.name.len() <= NAME_BYTES_MAX {
            self.name.push(byte);
        }
    }

    /// Its name is read.
    fn named(&mut self) -> Rest {
        self.kind = match &self.name[..] {
            b"include" => Kind::Include,
            b"remove" => Kind::Remove,
            b"comment" => Kind::Comment,
            name => match nest(name).filter(|_| self.is_full) {
                Some(nest) => Kind::Nest(nest),
                None => return self.broken("an unknown element"),
            },
        };
        self.state = State::Between { may_begin: false };
        Rest::Again
    }

    fn between(&mut self, byte: u8, may_begin: bool) -> Rest {
        match byte {
            b'>' => return Rest::End { is_whole: true },
            _ if self.is_empty => return self.broken("something between the \"/\" and the \">\" of a tag"),
            b'/' => self.is_empty = true,
            _ if is_space(byte) => self.state = State::Between { may_begin: true },
            _ if may_begin && begins_a_name(byte) => {
                self.name.clear();
                self.name.push(byte);
                self.state = State::Attribute;
            }
            _ => return self.broken("a byte that cannot begin an attribute"),
        }
        Rest::More
    }

    /// An attribute is read.
    fn valued(&mut self) {
        self.state = State::Between { may_begin: true };
        let value = std::mem::take(&mut self.value);
        if self.kind == Kind::Nest(Nest::When) && self.name == b"test" {
            if self.test.replace(value).is_some() {
                self.broken("a test that is there twice");
            }
            return;
        }
        if self.kind != Kind::Include {
            return;
        }
        let fault = match &self.name[..] {
            b"src" if self.src.is_some() => Some("an include with two src"),
            b"src" if value.iter().any(|byte| is_space(*byte)) => Some("an include with a space in its src"),
            b"src" => {
                self.src = Some(value);
                None
            }
            b"alt" => {
                self.alt = Some(value);
                None
            }
            b"onerror" => {
                self.goes_on = value == b"continue";
                None
            }
            _ => None,
        };
        if let Some(fault) = fault {
            self.broken(fault);
        }
    }

    /// What is wrong; the byte at hand may end it.
    fn broken(&mut self, fault: &'static str) -> Rest {
        self.fault = Some(fault);
        self.state = State::Broken;
        Rest::Again
    }

    /// The include that it is. An error says why it is none.
    pub fn include(self, takes_https: bool) -> Result<Include, &'static str> {
        let src = self.src.ok_or("an include without src")?;
        let reading = if self.is_full { Reading::Full } else { Reading::Varnish { takes_https } };
        Include::of(&src, self.alt.as_deref(), self.goes_on, reading)
    }

    /// The attribute `test`.
    pub fn test(&self) -> Option<Vec<u8>> {
        self.test.as_deref().map(restored)
    }
}

/// In any case: what is guarded by a name in capitals is not meant for all either.
fn nest(name: &[u8]) -> Option<Nest> {
    Some(match &name.to_ascii_lowercase()[..] {
        b"choose" => Nest::Choose,
        b"when" => Nest::When,
        b"otherwise" => Nest::Otherwise,
        b"try" => Nest::Try,
        b"attempt" => Nest::Attempt,
        b"except" => Nest::Except,
        b"vars" => Nest::Vars,
        b"inline" => Nest::Inline,
        _ => return None,
    })
}

fn begins_a_name(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b':') || byte >= 0x80
}

fn is_of_a_name(byte: u8) -> bool {
    begins_a_name(byte) || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
}
