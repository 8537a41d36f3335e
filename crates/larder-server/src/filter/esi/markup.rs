//! Where in the markup of a page its bytes are, so that what a visitor sends is escaped for its place.
//!
//! Source: HTML, "Tokenization". Where a browser may see something else than what is seen here, the place counts as a tag from
//! there on, where less goes in as it is.

use super::variable::Place;

/// How far the markup of a page is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Markup {
    state: State,
    /// In `<svg>` or `<math>`, where `<style>` and its kin may have tags in them.
    is_foreign: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// Behind a `<`.
    Less,
    /// Behind `</`.
    LessSlash,
    /// Behind `<!`.
    Bang(Word),
    /// In the name of a tag.
    Name { is_end: bool, word: Word },
    /// In a tag, whose name was this.
    Tag { is_end: bool, word: Word, at: Attribute },
    /// In a comment, behind this many of the bytes that end it.
    Comment(Ending),
    /// In a declaration, or what else ends with a `>`.
    Declaration,
    /// In CDATA, behind this many of the bytes that end it. Where HTML knows none it ends with a `>`, if there was one.
    Cdata { matched: u8, has_ended: bool },
    /// In the text of `<script>` and its kin, which ends with their end.
    Raw { name: Word, found: Option<Word>, has_comment: bool },
    /// Nobody knows.
    Unsure,
}

/// Where in a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    /// Before an attribute.
    Before,
    Name,
    /// Behind a name and a space.
    AfterName,
    /// Behind a `=`.
    BeforeValue,
    /// Behind a `=` and a variable, which may be empty.
    MayHaveValue,
    Quoted(u8),
    Bare,
}

/// What of the end of a comment was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    None,
    /// `-`
    Dash,
    /// `--`
    Dashes,
    /// `<!--`, which a `>` ends, too.
    First,
    /// `<!---`, the same.
    FirstDash,
    /// `--!`
    Bang,
    /// A variable, which may end with any of them.
    Any,
    /// One, and a `-`.
    AnyDash,
}

/// The beginning of a name, in small letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Word {
    bytes: [u8; 10],
    len: u8,
}

impl Word {
    fn add(mut self, byte: u8) -> Self {
        // One that is longer is none that is known.
        if let Some(place) = self.bytes.get_mut(usize::from(self.len)) {
            *place = byte.to_ascii_lowercase();
            self.len += 1;
        } else {
            self.bytes[0] = 0;
        }
        self
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl Markup {
    /// Reads what goes out as it is.
    pub fn pass(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some((byte, _)) = rest.split_first() {
            // What cannot change anything.
            let next = match self.state {
                State::Text | State::Raw { found: None, .. } => memchr::memchr(b'<', rest),
                State::Tag { at: Attribute::Quoted(quote), .. } => memchr::memchr(quote, rest),
                State::Comment(Ending::None) => memchr::memchr(b'-', rest),
                State::Declaration => memchr::memchr(b'>', rest),
                State::Unsure => None,
                _ => {
                    self.take(*byte);
                    rest = &rest[1..];
                    continue;
                }
            };
            let Some(next) = next else { return };
            self.take(rest[next]);
            rest = &rest[next + 1..];
        }
    }

    /// Reads a byte that goes out as it is.
    pub fn take(&mut self, byte: u8) {
        self.state = match self.state {
            State::Text if byte == b'<' => State::Less,
            State::Text => State::Text,
            State::Less => match byte {
                b'<' => State::Less,
                b'!' => State::Bang(Word::default()),
                b'?' => State::Declaration,
                b'/' => State::LessSlash,
                _ if byte.is_ascii_alphabetic() => State::Name { is_end: false, word: Word::default().add(byte) },
                _ => State::Text,
            },
            State::LessSlash => match byte {
                b'>' => State::Text,
                _ if byte.is_ascii_alphabetic() => State::Name { is_end: true, word: Word::default().add(byte) },
                _ => State::Declaration,
            },
            State::Bang(_) if byte == b'>' => State::Text,
            State::Bang(word) => match word.add(byte) {
                word if word.get() == b"--" => State::Comment(Ending::First),
                word if word.get() == b"[cdata[" => State::Cdata { matched: 0, has_ended: false },
                word if b"--".starts_with(word.get()) || b"[cdata[".starts_with(word.get()) => State::Bang(word),
                _ => State::Declaration,
            },
            State::Name { is_end, word } => match byte {
                b'>' => self.ended(is_end, word),
                b'/' => State::Tag { is_end, word, at: Attribute::Before },
                _ if is_space(byte) => State::Tag { is_end, word, at: Attribute::Before },
                _ => State::Name { is_end, word: word.add(byte) },
            },
            State::Tag { is_end, word, at } => match at.behind(byte) {
                Some(Some(at)) => State::Tag { is_end, word, at },
                Some(None) => self.ended(is_end, word),
                None => State::Unsure,
            },
            State::Comment(ending) => match (ending, byte) {
                (Ending::Any | Ending::AnyDash, b'>' | b'!') => State::Unsure,
                (Ending::Any, b'-') => State::Comment(Ending::AnyDash),
                (Ending::AnyDash, b'-') => State::Comment(Ending::Dashes),
                (Ending::First | Ending::FirstDash | Ending::Dashes | Ending::Bang, b'>') => State::Text,
                (Ending::Dash | Ending::Dashes | Ending::FirstDash, b'-') => State::Comment(Ending::Dashes),
                (Ending::First, b'-') => State::Comment(Ending::FirstDash),
                (Ending::Dashes, b'!') => State::Comment(Ending::Bang),
                (_, b'-') => State::Comment(Ending::Dash),
                _ => State::Comment(Ending::None),
            },
            State::Declaration if byte == b'>' => State::Text,
            State::Declaration => State::Declaration,
            State::Cdata { matched: 2, .. } if byte == b'>' => State::Text,
            State::Cdata { has_ended: true, .. } if byte == b'<' => State::Unsure,
            State::Cdata { matched, has_ended } => State::Cdata {
                matched: if byte == b']' { (matched + 1).min(2) } else { 0 },
                has_ended: has_ended || byte == b'>',
            },
            State::Raw { name, found, has_comment } => self.raw(name, found, has_comment, byte),
            State::Unsure => State::Unsure,
        };
    }

    /// Behind the `>` of a tag.
    fn ended(&mut self, is_end: bool, word: Word) -> State {
        match word.get() {
            b"svg" | b"math" => self.is_foreign = !is_end,
            b"plaintext" => return State::Unsure,
            b"script" | b"style" | b"textarea" | b"title" | b"xmp" | b"iframe" | b"noembed" | b"noframes"
            | b"noscript"
                if !is_end =>
            {
                return State::Raw { name: word, found: None, has_comment: false };
            }
            _ => {}
        }
        State::Text
    }

    /// A byte of a text in which only its own end counts; `found` is what stands behind a `<`.
    fn raw(&self, name: Word, found: Option<Word>, has_comment: bool, byte: u8) -> State {
        let raw = |found| State::Raw { name, found, has_comment };
        let Some(found) = found else {
            return raw((byte == b'<').then(Word::default));
        };
        let is_over = is_space(byte) || matches!(byte, b'/' | b'>');
        let is_own_end = found.get().strip_prefix(b"/").is_some_and(|end| end == name.get());
        if is_over && is_own_end {
            return match byte {
                b'>' => State::Text,
                _ => State::Tag { is_end: true, word: name, at: Attribute::Before },
            };
        }
        // Then its next end may be none.
        if is_over && has_comment && name.get() == b"script" && found.get() == name.get() {
            return State::Unsure;
        }
        let next = found.add(byte);
        if next.get() == b"!--" {
            return match self.is_foreign {
                true => State::Unsure,
                false => State::Raw { name, found: None, has_comment: true },
            };
        }
        let own_end = [b"/", name.get()].concat();
        if own_end.starts_with(next.get()) || b"!--".starts_with(next.get()) || name.get().starts_with(next.get()) {
            return raw(Some(next));
        }
        // In <svg> this may be a tag.
        if self.is_foreign {
            return State::Unsure;
        }
        raw((byte == b'<').then(Word::default))
    }

    /// Where a variable is that stands here.
    pub fn place(&self) -> Place {
        match self.state {
            State::Text => Place::Text,
            // Nothing in these is a tag, and what is escaped is restored.
            State::Raw { name, found: None, .. }
                if matches!(name.get(), b"title" | b"textarea") && !self.is_foreign =>
            {
                Place::Text
            }
            _ => Place::Tag,
        }
    }

    /// Where an include is that stands here. Its page is read from the beginning, as if nothing were around it.
    pub fn place_of_include(&self) -> Place {
        if self.is_foreign { Place::Tag } else { self.place() }
    }

    /// Passes a variable, which may be empty. What goes in for it is escaped for its place, but for its default.
    pub fn pass_variable(&mut self, default: &[u8]) {
        let mut with_default = *self;
        with_default.pass(default);
        let is_same = with_default == *self || default.is_empty();
        self.state = match self.state {
            State::Comment(Ending::None | Ending::Any) if is_same => State::Comment(Ending::Any),
            State::Tag { is_end, word, at: Attribute::AfterName } if is_word(default) => {
                State::Tag { is_end, word, at: Attribute::Name }
            }
            State::Tag { is_end, word, at: Attribute::BeforeValue | Attribute::MayHaveValue } if is_word(default) => {
                State::Tag { is_end, word, at: Attribute::MayHaveValue }
            }
            state @ (State::Text
            | State::Declaration
            | State::Cdata { matched: 0, .. }
            | State::Raw { found: None, .. }
            | State::Tag { at: Attribute::Name | Attribute::Quoted(_) | Attribute::Bare, .. })
                if is_same =>
            {
                state
            }
            _ => State::Unsure,
        };
    }

    /// Passes something of which nobody knows what it is: a whole of its own in a text, and anything elsewhere.
    pub fn pass_unknown(&mut self) {
        if self.state != State::Text {
            self.state = State::Unsure;
        }
    }

    /// Goes on behind what only some see, which began at `before`.
    pub fn join(&mut self, before: Self) {
        if *self != before {
            self.state = State::Unsure;
        }
    }
}

impl Attribute {
    /// What comes behind a byte: `Some(None)` is the end of the tag, `None` nobody knows.
    fn behind(self, byte: u8) -> Option<Option<Self>> {
        let next = match (self, byte) {
            (Self::Quoted(quote), _) if byte == quote => Self::Before,
            (Self::Quoted(_), _) => self,
            (_, b'>') => return Some(None),
            (Self::BeforeValue, b'"' | b'\'') => Self::Quoted(byte),
            (Self::BeforeValue, _) if is_space(byte) => self,
            (Self::MayHaveValue, b'"' | b'\'') => return None,
            (Self::MayHaveValue, _) if is_space(byte) => return None,
            (Self::BeforeValue | Self::MayHaveValue, _) => Self::Bare,
            (Self::Bare, _) if is_space(byte) => Self::Before,
            (Self::Bare, _) => self,
            (_, b'/') => Self::Before,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::Name | Self::AfterName, _) if is_space(byte) => Self::AfterName,
            (Self::Before, _) if is_space(byte) => self,
            (Self::Before | Self::Name | Self::AfterName, _) => Self::Name,
        };
        Some(Some(next))
    }
}

fn is_word(text: &[u8]) -> bool {
    text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}
