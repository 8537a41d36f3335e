//! Which pages a purge means, in words that a disk keeps: `purge soft tag xkey news shop%2042`.
//!
//! | words                  | the pages                                                               |
//! | ---------------------- | ----------------------------------------------------------------------- |
//! | `all`                  | all                                                                     |
//! | `key KEY`              | of this key                                                             |
//! | `prefix KEY`           | whose keys begin so                                                     |
//! | `host HOST`            | of this host                                                            |
//! | `tag FIELD,... TAG...` | with one of these tags in one of these fields                           |
//! | `url HOST is URI`      | of this URI, on this host, or on all for `*`                            |
//! | `url HOST like URI`    | the same, where `*` stands for any bytes                                |
//! | `url HOST begins URI`  | the same for URIs that begin so                                         |
//! | `url HOST ~ REGEX`     | the same for a regular expression that is found in the URI              |
//!
//! `purge hard` or `purge soft` comes before that. In a word, `%` and two hexadecimal digits are a byte that is not
//! printable ASCII, or is a space or `%`; `%` alone is the empty word.

use std::fmt::Write;
use std::sync::Arc;

use crate::tags::TagFields;
use crate::url::Place;

/// Which pages a purge means.
#[derive(Clone)]
pub enum Selection {
    /// All.
    All,
    /// Those of this key, in all variants.
    Key(Box<[u8]>),
    /// Those whose keys begin with this.
    KeyPrefix(Box<[u8]>),
    /// Those of this host, in whatever case.
    Host(Box<[u8]>),
    /// Those with one of these tags, in the fields that have tags.
    Tags(Vec<Box<[u8]>>),
    /// Those of a URL.
    Url {
        /// The host, in whatever case; `None` for all.
        host: Option<Box<[u8]>>,
        /// Path and query.
        uri: UriTest,
    },
}

/// What is asked of a path with its query.
#[derive(Clone)]
pub enum UriTest {
    /// That it is this.
    Is(Box<[u8]>),
    /// That it is this, where `*` stands for any bytes.
    Like(Box<[u8]>),
    /// That it begins with this.
    Begins(Box<[u8]>),
    /// That this is found in it.
    Matches(Arc<dyn Pattern>),
}

/// A regular expression, of whatever engine.
pub trait Pattern: Send + Sync {
    /// As it was written.
    fn text(&self) -> &str;

    /// Whether it is found in a text; `None` if that cannot be told.
    fn is_in(&self, text: &[u8]) -> Option<bool>;

    /// About how much memory it takes, in bytes.
    fn bytes(&self) -> usize {
        self.text().len()
    }
}

/// What becomes of the pages that a purge means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// They are gone.
    Hard,
    /// They are stale at once: grace goes on, and one request fetches them anew.
    Soft,
}

/// A purge has more than [`WORDS_BYTES_MAX`] bytes of words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purge has {WORDS_BYTES_MAX} bytes at most: name fewer tags at once, or shorter ones")]
pub struct TooLong;

impl Selection {
    /// The words of a purge of this, where `tag_fields` have tags.
    pub(crate) fn words(&self, how: How, tag_fields: &TagFields) -> Result<String, TooLong> {
        let mut words = String::from(match how {
            How::Hard => "purge hard",
            How::Soft => "purge soft",
        });
        match self {
            Self::All => words.push_str(" all"),
            Self::Key(key) => put_all(&mut words, "key", [&**key]),
            Self::KeyPrefix(prefix) => put_all(&mut words, "prefix", [&**prefix]),
            Self::Host(host) => put_all(&mut words, "host", [&**host]),
            Self::Tags(tags) => {
                let names = tag_fields.names().collect::<Vec<_>>().join(",");
                put_all(&mut words, "tag", [names.as_bytes()].into_iter().chain(tags.iter().map(|tag| &**tag)));
            }
            Self::Url { host, uri } => {
                let (relation, text) = match uri {
                    UriTest::Is(text) => ("is", &**text),
                    UriTest::Like(text) => ("like", &**text),
                    UriTest::Begins(text) => ("begins", &**text),
                    UriTest::Matches(pattern) => ("~", pattern.text().as_bytes()),
                };
                put_all(&mut words, "url", [host.as_deref().unwrap_or(b"*"), relation.as_bytes(), text]);
            }
        }
        if words.len() > WORDS_BYTES_MAX { Err(TooLong) } else { Ok(words) }
    }

    /// What these words say. `None` if they are not the words of a purge, or cannot be read.
    pub(crate) fn read(
        words: &str,
        compile: impl FnOnce(&str) -> Option<Arc<dyn Pattern>>,
    ) -> Option<(Selection, How, TagFields)> {
        let mut tag_fields = TagFields::default();
        let mut words = words.strip_prefix(START)?.split(' ');
        let how = match words.next()? {
            "hard" => How::Hard,
            "soft" => How::Soft,
            _ => return None,
        };
        let mut rest = words;
        let kind = rest.next()?;
        let operands = rest.map(unescaped).collect::<Option<Vec<_>>>()?;
        let selection = match (kind, &operands[..]) {
            ("all", []) => Self::All,
            ("key", [key]) => Self::Key(key.clone()),
            ("prefix", [prefix]) => Self::KeyPrefix(prefix.clone()),
            ("host", [host]) => Self::Host(host.clone()),
            ("tag", [names, tags @ ..]) => {
                let names = str::from_utf8(names).ok()?.split(',').filter(|name| !name.is_empty());
                tag_fields = TagFields::of(&names.collect::<Vec<_>>());
                Self::Tags(tags.to_vec())
            }
            ("url", [host, relation, text]) => Self::Url {
                host: Some(host.clone()).filter(|host| **host != *b"*"),
                uri: match &**relation {
                    b"is" => UriTest::Is(text.clone()),
                    b"like" => UriTest::Like(text.clone()),
                    b"begins" => UriTest::Begins(text.clone()),
                    b"~" => UriTest::Matches(compile(str::from_utf8(text).ok()?)?),
                    _ => return None,
                },
            },
            _ => return None,
        };
        Some((selection, how, tag_fields))
    }
}

/// Whether these are words of a purge, and no other ban's.
pub(crate) fn are_of_purge(words: &str) -> bool {
    words.starts_with(START)
}

impl UriTest {
    /// Whether it holds. What cannot be told holds, so that no page stays that may be meant.
    pub(crate) fn holds(&self, place: &Place<'_>) -> bool {
        match self {
            Self::Is(text) => place.is_at(text),
            Self::Like(pattern) => place.any_uri(|uri| is_like(uri, pattern)),
            Self::Begins(start) => place.any_uri(|uri| uri.starts_with(start)),
            Self::Matches(pattern) => place.any_uri(|uri| pattern.is_in(uri).unwrap_or(true)),
        }
    }
}

/// Whether `text` is `pattern`, where `*` stands for any bytes. As each part is looked for once, it takes no more time than
/// the product of both lengths.
fn is_like(text: &[u8], pattern: &[u8]) -> bool {
    let mut parts = pattern.split(|byte| *byte == b'*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = parts.next_back() else { return rest.is_empty() };
    for part in parts.filter(|part| !part.is_empty()) {
        let Some(at) = rest.windows(part.len()).position(|window| window == part) else { return false };
        rest = rest.get(at + part.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

fn put_all<'a>(words: &mut String, kind: &str, operands: impl IntoIterator<Item = &'a [u8]>) {
    words.push(' ');
    words.push_str(kind);
    for operand in operands {
        words.push_str(if operand.is_empty() { " %" } else { " " });
        for &byte in operand {
            match byte {
                b'!'..=b'~' if byte != b'%' => words.push(char::from(byte)),
                // Writing to a text does not fail.
                byte => drop(write!(words, "%{byte:02x}")),
            }
        }
    }
}

fn unescaped(word: &str) -> Option<Box<[u8]>> {
    if word == "%" {
        return Some(Box::default());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(word.len()), word.as_bytes());
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = str::from_utf8(rest.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = rest.get(2..)?;
    }
    // Two spaces in a row are not ours.
    (!bytes.is_empty()).then(|| bytes.into())
}

/// How the words of a purge begin.
const START: &str = "purge ";
/// How long the words of a purge may be.
pub const WORDS_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::{Located, Url};

    /// Finds itself.
    struct Word(String);

    impl Pattern for Word {
        fn text(&self) -> &str {
            &self.0
        }

        fn is_in(&self, text: &[u8]) -> Option<bool> {
            (self.0 != "endless").then(|| text.windows(self.0.len()).any(|window| window == self.0.as_bytes()))
        }
    }

    fn compile(text: &str) -> Option<Arc<dyn Pattern>> {
        (text != "(").then(|| Arc::new(Word(text.to_owned())) as Arc<dyn Pattern>)
    }

    #[test]
    fn a_purge_is_read_as_it_was_written() {
        let bytes = |text: &str| Box::<[u8]>::from(text.as_bytes());
        let url = |host: Option<&str>, uri| Selection::Url { host: host.map(bytes), uri };
        for (selection, how, words) in [
            (Selection::All, How::Hard, "purge hard all"),
            (Selection::Key(bytes("https GET/a?b=%")), How::Soft, "purge soft key https%20GET/a?b=%25"),
            (Selection::KeyPrefix(bytes("")), How::Hard, "purge hard prefix %"),
            (Selection::Host(bytes("a.example")), How::Hard, "purge hard host a.example"),
            (
                Selection::Tags(vec![bytes("news"), bytes("ü\n")]),
                How::Soft,
                "purge soft tag xkey,Surrogate-Key news %c3%bc%0a",
            ),
            (url(None, UriTest::Is(bytes("/a"))), How::Hard, "purge hard url * is /a"),
            (url(Some("a"), UriTest::Like(bytes("/*x"))), How::Hard, "purge hard url a like /*x"),
            (url(None, UriTest::Begins(bytes("/*"))), How::Hard, "purge hard url * begins /*"),
            (
                url(Some("a"), UriTest::Matches(compile("^/ü").expect("it is one"))),
                How::Soft,
                "purge soft url a ~ ^/%c3%bc",
            ),
        ] {
            let fields = TagFields::of(&["xkey", "Surrogate-Key"]);
            assert_eq!(selection.words(how, &fields).as_deref(), Ok(words));
            let read = Selection::read(words, compile);
            let (read, read_how, fields) = read.unwrap_or_else(|| panic!("{words} is not read"));
            assert_eq!((read.words(read_how, &fields).as_deref(), read_how), (Ok(words), how));
        }
    }

    #[test]
    fn what_no_purge_writes_is_not_read() {
        for words in [
            "",
            "purge",
            "purge hard",
            "purge both all",
            "purge hard all a",
            "purge hard key",
            "purge hard key a b",
            "purge hard key a%2",
            "purge hard key %zz",
            "purge hard tag",
            "purge hard tag x  a",
            "purge hard tag x \u{e9}%\u{e9}",
            "purge hard tag %ff a",
            "purge hard url a /b",
            "purge hard url a has /b",
            "purge hard url a ~ (",
            "purge hard url a ~ %ff",
            "req.url ~ .",
        ] {
            assert!(Selection::read(words, compile).is_none(), "{words}");
        }
        let long = Selection::Key(vec![b'a'; WORDS_BYTES_MAX].into());
        assert_eq!(long.words(How::Hard, &TagFields::default()), Err(TooLong));
        let none = Selection::Tags(vec![(*b"a").into()]).words(How::Hard, &TagFields::default());
        assert_eq!(none.as_deref(), Ok("purge hard tag % a"));
    }

    #[test]
    fn a_star_stands_for_any_bytes() {
        let holds = |test: &UriTest, uri: &str| {
            let located = Located::copied(Url { is_https: false, host: b"a", uri: uri.as_bytes() });
            test.holds(&located.place(None).expect("it has a URL"))
        };
        for (pattern, text, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("", "", true),
            ("*", "", true),
            ("/a*", "/a", true),
            ("/a*", "/b/a", false),
            ("*.css", "/x/a.css", true),
            ("*.css", "/a.css?1", false),
            ("*.css*", "/a.css?1", true),
            ("/a*a", "/a", false),
            ("/a*a", "/aa", true),
            ("/*b*c", "/abbc", true),
            ("/*b*b", "/ab", false),
            ("/**b", "/b", true),
        ] {
            let test = UriTest::Like(pattern.as_bytes().into());
            assert_eq!(holds(&test, text), expected, "{pattern} {text}");
        }
        for (text, expected) in [("/a*", true), ("/a*b", true), ("/ab", false), ("/a", false)] {
            assert_eq!(holds(&UriTest::Begins(Box::from(*b"/a*")), text), expected, "{text}");
        }
        assert!(holds(&UriTest::Matches(Arc::new(Word("endless".to_owned()))), "/"), "what cannot be told holds");
    }
}
