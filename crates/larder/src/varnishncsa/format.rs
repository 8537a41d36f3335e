//! A format: `%h %{User-agent}i %{VSL:Timestamp:Resp[2]}x`.

use jiff::Timestamp;
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use larder_vsl::{Form, GlobError, Tag, of_beginning};

use crate::vsl::quote::Quoting;

/// The format without `-F`.
pub const USUAL_FORMAT: &str = "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-agent}i\"";
/// The format of `%t`.
const USUAL_TIME: &str = "[%d/%b/%Y:%T %z]";

/// What a line is made of.
#[derive(Debug)]
pub struct Format {
    pub items: Vec<Item>,
    /// What has to be looked for in the records, by the numbers of `Item::Found`.
    pub watches: Vec<Watch>,
    pub quoting: Quoting,
    /// What stands for a text that is missing.
    pub missing: &'static str,
    /// What stands for a number that is missing.
    missing_number: &'static str,
}

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// As written.
    Text(Vec<u8>),
    /// A field, or what stands for it.
    Field(Field, &'static str),
    /// What was found for a watch, or what stands for it.
    Found(usize, &'static str),
    Time(Time),
    /// `%r`
    RequestLine,
    /// `%u`
    User,
    /// `%{Varnish:hitmiss}x`
    HitOrMiss,
    /// `%{Varnish:handling}x`
    Handling,
    /// `%{Varnish:side}x`
    Side,
    /// `%{Varnish:vxid}x`
    Vxid,
}

/// What a transaction is looked through for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    Protocol,
    Url,
    Query,
    BodyBytes,
    Host,
    Method,
    Status,
    BytesReceived,
    BytesSent,
    FirstByte,
    Start,
    End,
    HostHeader,
    Authorization,
}

/// How many fields there are.
pub const FIELDS: usize = Field::Authorization as usize + 1;

/// A time, or how long something took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Time {
    /// In a form of `strftime()`, local time.
    Formatted(String),
    /// Since 1970, in so many parts of a second.
    Since1970(u32),
    /// The fraction of the second in so many parts, and how many digits it has.
    Fraction(u32, usize),
    /// From start to end, in so many parts of a second.
    Taken(u32),
}

/// Something that is looked for in the records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    pub of: Watched,
    /// What the record begins with, with the colon behind it.
    pub prefix: Vec<u8>,
}

/// Which records are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// `%{NAME}i`: headers of the request.
    RequestHeader(Option<Which>),
    /// `%{NAME}o`: headers of the response.
    ResponseHeader(Option<Which>),
    /// `%{VCL_Log:KEY}x`
    VclLog,
    /// `%{VSL:TAG:PREFIX[FIELD]}x`; the field 0 is the whole record.
    Record(Tag, usize),
}

/// Which of several headers is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    First,
    Last,
}

/// Why a text is no format.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// A letter that means nothing.
    #[error("\"{0}\" has no meaning in a format: docs/monitoring.md lists what has; write %% as \\%")]
    Unknown(String),
    /// A bracket that does not end.
    #[error("the bracket of \"{0}\" does not end: write }} and a letter behind it")]
    Open(String),
    /// `%{WORD}x`
    #[error("%{{{0}}}x has no meaning: it is one of Varnish:..., VCL_Log:KEY and VSL:TAG:PREFIX[FIELD]")]
    Extension(String),
    /// `%{UNIT}T`
    #[error("%{{{0}}}T has no meaning: the unit is s, ms or us")]
    Unit(String),
    /// `%{FORMAT}t`
    #[error("%{{{0}}}t cannot be formatted: {1}")]
    Time(String, String),
    /// `%{NAME:WHICH}i`
    #[error("%{{{0}}} has no meaning: :first or :last may stand behind the name of a header")]
    Which(String),
    /// A tag of `%{VSL:TAG}x`
    #[error("%{{VSL:{0}}}x: {1}")]
    Tag(String, GlobError),
    /// A field of it.
    #[error("%{{VSL:{0}}}x: a field is a number from 1 to 255, in brackets at the end")]
    FieldNumber(String),
    /// A tag whose text could be anything.
    #[error("%{{VSL:{0}}}x can have control characters: give -j, which escapes them")]
    Unsafe(&'static str),
}

impl Format {
    /// Reads a format. Times are tried in a zone, so that what cannot be formatted is known at once.
    pub fn read(text: &[u8], json: bool, zone: &TimeZone) -> Result<Self, FormatError> {
        let quoting = if json { Quoting::Json } else { Quoting::Hexadecimal };
        let (missing, missing_number) = if json { ("", "0") } else { ("-", "-") };
        let mut format = Self { items: Vec::new(), watches: Vec::new(), quoting, missing, missing_number };
        format.append(text, zone)?;
        Ok(format)
    }

    fn append(&mut self, text: &[u8], zone: &TimeZone) -> Result<(), FormatError> {
        let mut rest = text;
        while let Some((&byte, behind)) = rest.split_first() {
            rest = match (byte, behind) {
                (b'\\', [escaped, behind @ ..]) => {
                    self.push_text(match escaped {
                        b't' => b'\t',
                        b'n' => b'\n',
                        other => *other,
                    });
                    behind
                }
                (b'%', [b'{', inside @ ..]) => {
                    let end = closing(inside).ok_or_else(|| FormatError::Open(shown(rest)))?;
                    let (word, behind) = (&inside[..end], &inside[end + 1..]);
                    let (letter, behind) = behind.split_first().ok_or_else(|| FormatError::Unknown(shown(rest)))?;
                    self.push_word(word, *letter, zone).map_err(|error| match error {
                        FormatError::Unknown(_) => FormatError::Unknown(shown(rest)),
                        error => error,
                    })?;
                    behind
                }
                (b'%', [letter, behind @ ..]) => {
                    if !self.push_letter(*letter) {
                        return Err(FormatError::Unknown(shown(rest)));
                    }
                    behind
                }
                (b'%', []) => return Err(FormatError::Unknown("%".to_owned())),
                (byte, behind) => {
                    self.push_text(byte);
                    behind
                }
            };
        }
        Ok(())
    }

    fn push_text(&mut self, byte: u8) {
        match self.items.last_mut() {
            Some(Item::Text(text)) => text.push(byte),
            _ => self.items.push(Item::Text(vec![byte])),
        }
    }

    /// `%LETTER`. Returns whether it has a meaning.
    fn push_letter(&mut self, letter: u8) -> bool {
        let (missing, missing_number) = (self.missing, self.missing_number);
        self.items.push(match letter {
            b'b' => Item::Field(Field::BodyBytes, missing_number),
            b'D' => Item::Time(Time::Taken(1_000_000)),
            b'h' => Item::Field(Field::Host, missing),
            b'H' => Item::Field(Field::Protocol, "HTTP/1.0"),
            b'I' => Item::Field(Field::BytesReceived, missing_number),
            b'l' => {
                self.push_text(b'-');
                return true;
            }
            b'm' => Item::Field(Field::Method, missing),
            b'O' => Item::Field(Field::BytesSent, missing_number),
            b'q' => Item::Field(Field::Query, ""),
            b'r' => Item::RequestLine,
            b's' => Item::Field(Field::Status, missing_number),
            b't' => Item::Time(Time::Formatted(USUAL_TIME.to_owned())),
            b'T' => Item::Time(Time::Taken(1)),
            b'u' => Item::User,
            b'U' => Item::Field(Field::Url, missing),
            _ => return false,
        });
        true
    }

    /// `%{WORD}LETTER`
    fn push_word(&mut self, word: &[u8], letter: u8, zone: &TimeZone) -> Result<(), FormatError> {
        match letter {
            b'i' | b'o' => self.push_header(word, letter),
            b't' => {
                let time = time(word, zone)?;
                self.items.push(Item::Time(time));
                Ok(())
            }
            b'T' => {
                let parts = match word {
                    b"s" => 1,
                    b"ms" => 1000,
                    b"us" => 1_000_000,
                    _ => return Err(FormatError::Unit(shown(word))),
                };
                self.items.push(Item::Time(Time::Taken(parts)));
                Ok(())
            }
            b'x' => self.push_extension(word, zone),
            _ => Err(FormatError::Unknown(String::new())),
        }
    }

    fn push_header(&mut self, word: &[u8], letter: u8) -> Result<(), FormatError> {
        let (name, which) = match word.iter().position(|byte| *byte == b':') {
            None => (word, None),
            Some(colon) if word[colon..].starts_with(b":first") => (&word[..colon], Some(Which::First)),
            Some(colon) if word[colon..].starts_with(b":last") => (&word[..colon], Some(Which::Last)),
            Some(_) => return Err(FormatError::Which(shown(word))),
        };
        let of = if letter == b'i' { Watched::RequestHeader(which) } else { Watched::ResponseHeader(which) };
        self.watch(of, name, self.missing);
        Ok(())
    }

    fn push_extension(&mut self, word: &[u8], zone: &TimeZone) -> Result<(), FormatError> {
        match word {
            b"Varnish:time_firstbyte" => self.items.push(Item::Field(Field::FirstByte, self.missing_number)),
            b"Varnish:hitmiss" => self.items.push(Item::HitOrMiss),
            b"Varnish:handling" => self.items.push(Item::Handling),
            b"Varnish:side" => self.items.push(Item::Side),
            b"Varnish:vxid" => self.items.push(Item::Vxid),
            b"Varnish:default_format" => return self.append(USUAL_FORMAT.as_bytes(), zone),
            _ => {
                if let Some(key) = word.strip_prefix(b"VCL_Log:") {
                    self.watch(Watched::VclLog, key, "");
                } else if let Some(what) = word.strip_prefix(b"VSL:") {
                    self.push_record(what)?;
                } else {
                    return Err(FormatError::Extension(shown(word)));
                }
            }
        }
        Ok(())
    }

    /// `TAG[:PREFIX]['['FIELD']']`
    fn push_record(&mut self, what: &[u8]) -> Result<(), FormatError> {
        let mut name = what;
        let mut field = 0;
        if let Some(inside) = what.strip_suffix(b"]") {
            let wrong = || FormatError::FieldNumber(shown(what));
            let open = inside.iter().rposition(|byte| *byte == b'[').ok_or_else(wrong)?;
            let number = str::from_utf8(&inside[open + 1..]).ok().and_then(|number| number.parse::<u8>().ok());
            field = number.filter(|number| *number > 0).ok_or_else(wrong)?.into();
            name = &inside[..open];
        }
        let colon = name.iter().position(|byte| *byte == b':');
        let (name, prefix) = colon.map_or((name, None), |colon| (&name[..colon], Some(&name[colon + 1..])));
        let tag = of_beginning(name).map_err(|error| FormatError::Tag(shown(what), error))?;
        if tag.form() != Form::Plain && self.quoting != Quoting::Json {
            return Err(FormatError::Unsafe(tag.name()));
        }
        match prefix {
            Some(prefix) => self.watch(Watched::Record(tag, field), prefix, self.missing),
            None => self.watch_for(Watch { of: Watched::Record(tag, field), prefix: Vec::new() }, self.missing),
        }
        Ok(())
    }

    fn watch(&mut self, of: Watched, name: &[u8], missing: &'static str) {
        self.watch_for(Watch { of, prefix: [name, b":"].concat() }, missing);
    }

    fn watch_for(&mut self, watch: Watch, missing: &'static str) {
        self.items.push(Item::Found(self.watches.len(), missing));
        self.watches.push(watch);
    }
}

/// Where the bracket ends that is open in front of this.
fn closing(inside: &[u8]) -> Option<usize> {
    let mut depth = 1;
    inside.iter().position(|byte| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    })
}

fn time(word: &[u8], zone: &TimeZone) -> Result<Time, FormatError> {
    Ok(match word {
        b"sec" => Time::Since1970(1),
        b"msec" => Time::Since1970(1000),
        b"usec" => Time::Since1970(1_000_000),
        b"msec_frac" => Time::Fraction(1000, 3),
        b"usec_frac" => Time::Fraction(1_000_000, 6),
        _ => {
            let wrong = |why: String| FormatError::Time(shown(word), why);
            let form = str::from_utf8(word).map_err(|_| wrong("it is not UTF-8".to_owned()))?;
            let some_time = Timestamp::UNIX_EPOCH.to_zoned(zone.clone());
            strtime::format(form, &some_time).map_err(|error| wrong(error.to_string()))?;
            Time::Formatted(form.to_owned())
        }
    })
}

fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_BYTES)]);
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}

const SHOWN_BYTES: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, json: bool) -> Result<Format, String> {
        Format::read(text.as_bytes(), json, &TimeZone::UTC).map_err(|error| error.to_string())
    }

    #[test]
    fn formats_are_read() {
        let text = |text: &str| Item::Text(text.as_bytes().to_vec());
        for (format, expected) in [
            ("", vec![]),
            ("a\\tb\\n\\%\\\\\\", vec![text("a\tb\n%\\\\")]),
            ("%h-%l-%s", vec![Item::Field(Field::Host, "-"), text("---"), Item::Field(Field::Status, "-")]),
            ("%D%T%{ms}T", [1_000_000, 1, 1000].map(|parts| Item::Time(Time::Taken(parts))).to_vec()),
            ("%{sec}t%{usec}t", vec![Item::Time(Time::Since1970(1)), Item::Time(Time::Since1970(1_000_000))]),
            ("%{msec_frac}t", vec![Item::Time(Time::Fraction(1000, 3))]),
            (
                "%t%{%H:%M}t",
                vec![
                    Item::Time(Time::Formatted("[%d/%b/%Y:%T %z]".to_owned())),
                    Item::Time(Time::Formatted("%H:%M".to_owned())),
                ],
            ),
            ("%{A}i%{VCL_Log:k}x", vec![Item::Found(0, "-"), Item::Found(1, "")]),
            ("%{Varnish:hitmiss}x%{Varnish:side}x", vec![Item::HitOrMiss, Item::Side]),
        ] {
            assert_eq!(read(format, false).map(|format| format.items), Ok(expected), "{format}");
        }
        assert_eq!(read("%{Varnish:default_format}x", false).unwrap().items, read(USUAL_FORMAT, false).unwrap().items);
        let json = read("%s%h", true).unwrap();
        assert_eq!(json.items, [Item::Field(Field::Status, "0"), Item::Field(Field::Host, "")]);
    }

    #[test]
    fn what_is_looked_for_has_a_prefix_and_a_field() {
        let format = "%{Host}i%{A:first}i%{B:last}o%{VCL_Log:k}x%{VSL:timest:Resp[2]}x%{VSL:End}x%{VSL:ReqAcct[5]}x";
        let found = read(format, false).unwrap().watches;
        let expected = [
            (Watched::RequestHeader(None), "Host:"),
            (Watched::RequestHeader(Some(Which::First)), "A:"),
            (Watched::ResponseHeader(Some(Which::Last)), "B:"),
            (Watched::VclLog, "k:"),
            (Watched::Record(Tag::Timestamp, 2), "Resp:"),
            (Watched::Record(Tag::End, 0), ""),
            (Watched::Record(Tag::ReqAcct, 5), ""),
        ];
        assert_eq!(found, expected.map(|(of, prefix)| Watch { of, prefix: prefix.into() }));
        assert_eq!(read("%{VSL:Hash}x", true).unwrap().watches[0].of, Watched::Record(Tag::Hash, 0));
    }

    #[test]
    fn what_is_no_format_is_told() {
        for (format, expected) in [
            ("%Z", "\"%Z\" has no meaning in a format"),
            ("a%", "\"%\" has no meaning in a format"),
            ("%{x", "the bracket of \"%{x\" does not end"),
            ("%{a{b}", "the bracket of \"%{a{b}\" does not end"),
            ("%{x}", "\"%{x}\" has no meaning in a format"),
            ("%{x}z more", "\"%{x}z more\" has no meaning in a format"),
            ("%{x}x", "%{x}x has no meaning"),
            ("%{Varnish:what}x", "%{Varnish:what}x has no meaning"),
            ("%{h}T", "%{h}T has no meaning: the unit is s, ms or us"),
            ("%{%!}t", "%{%!}t cannot be formatted"),
            ("%{a:middle}i", "%{a:middle} has no meaning"),
            ("%{VSL:}x", "%{VSL:}x: no tag is called \"\""),
            ("%{VSL:Bogus}x", "%{VSL:Bogus}x: no tag is called \"Bogus\""),
            ("%{VSL:Req}x", "%{VSL:Req}x: \"Req\" may be"),
            ("%{VSL:End[0]}x", "%{VSL:End[0]}x: a field is a number from 1 to 255"),
            ("%{VSL:End[256]}x", "%{VSL:End[256]}x: a field is"),
            ("%{VSL:End[]}x", "%{VSL:End[]}x: a field is"),
            ("%{VSL:End]}x", "%{VSL:End]}x: a field is"),
            ("%{VSL:Hash}x", "%{VSL:Hash}x can have control characters: give -j"),
        ] {
            let error = read(format, false).unwrap_err();
            assert!(error.starts_with(expected), "{format}: {error}");
        }
        assert!(Format::read(b"%{\xff}t", false, &TimeZone::UTC).is_err());
    }
}
