//! Variables of ESI: `$(NAME{key}|default)`, and what they are for a client.
//!
//! Source: ESI 1.0 (W3C note of 2001), section 4. Their values are a visitor's text: whoever puts one into a page or a URL
//! escapes it for its place.

use std::borrow::Cow;
use std::fmt;

use larder_http::{Escape, Fields, Known, escape_uri, list};

/// The longest reference to a variable.
const BYTES_MAX: usize = 512;

/// What is wrong with what was read, for the log.
pub type Fault = Cow<'static, str>;

/// A reference to a variable. It is shown as it is written, but for its default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    name: Name,
    /// `{key}`: a part of its value.
    key: Option<Box<[u8]>>,
    /// What stands for one that is empty.
    default: Box<[u8]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Name {
    AcceptLanguage,
    Cookie,
    Host,
    Referer,
    UserAgent,
    QueryString,
    /// None that larder knows.
    Unknown(Box<[u8]>),
}

const NAMES: [(&[u8], Name); 6] = [
    (b"HTTP_ACCEPT_LANGUAGE", Name::AcceptLanguage),
    (b"HTTP_COOKIE", Name::Cookie),
    (b"HTTP_HOST", Name::Host),
    (b"HTTP_REFERER", Name::Referer),
    (b"HTTP_USER_AGENT", Name::UserAgent),
    (b"QUERY_STRING", Name::QueryString),
];

/// The request whose page has the variables.
#[derive(Clone, Copy, Debug)]
pub struct Visitor<'a> {
    /// Its fields.
    pub fields: &'a Fields,
    /// The host in front of its path, if it names one there: that counts, and not the field.
    pub named: Option<&'a [u8]>,
    /// Its path and query, as they were asked for.
    pub target: &'a [u8],
    /// Where in the pages around it the page goes in.
    pub around: Place,
}

/// What a variable is for a visitor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text of the visitor's.
    Foreign(Cow<'a, [u8]>),
    /// The default, which the page has written.
    Default(&'a [u8]),
}

impl Value<'_> {
    /// Its bytes, whoever wrote them.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Foreign(bytes) => bytes,
            Self::Default(bytes) => bytes,
        }
    }
}

/// Where in a page a variable or an include stands; the later ones let less in as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In its text.
    #[default]
    Text,
    /// In a tag or a comment.
    Tag,
}

impl Variable {
    /// What it is for `visitor`.
    pub fn value<'a>(&'a self, visitor: &Visitor<'a>) -> Value<'a> {
        match self.of(visitor).filter(|value| !value.is_empty()) {
            Some(value) => Value::Foreign(value),
            None => Value::Default(&self.default),
        }
    }

    fn of<'a>(&'a self, visitor: &Visitor<'a>) -> Option<Cow<'a, [u8]>> {
        let fields = visitor.fields;
        let value: &[u8] = match (&self.name, self.key.as_deref()) {
            (Name::AcceptLanguage, Some(key)) => return Some(Cow::Borrowed(truth(accepts(fields, key)))),
            (Name::AcceptLanguage, None) => return joined(fields.get_all("Accept-Language"), b", "),
            (Name::Cookie, Some(key)) => cookie(fields, key)?,
            (Name::Cookie, None) => return joined(fields.all_known(Known::Cookie), b"; "),
            (Name::UserAgent, Some(key)) => agent(fields.get("User-Agent")?, key)?,
            (Name::UserAgent, None) => fields.get("User-Agent")?,
            (Name::QueryString, Some(key)) => argument(query(visitor.target), key)?,
            (Name::QueryString, None) => query(visitor.target),
            (Name::Host, None) => visitor.named.or_else(|| fields.get_known(Known::Host))?,
            (Name::Referer, None) => fields.get("Referer")?,
            (Name::Host | Name::Referer, Some(_)) | (Name::Unknown(_), _) => return None,
        };
        Some(Cow::Borrowed(value))
    }

    /// Whether it says yes or no by itself, as `$(HTTP_ACCEPT_LANGUAGE{de})`.
    pub fn is_of_a_list(&self) -> bool {
        self.name == Name::AcceptLanguage && self.key.is_some()
    }

    /// Whether what is escaped in its value is so for a URL.
    pub fn is_escaped(&self) -> bool {
        matches!(self.name, Name::Cookie | Name::QueryString)
    }

    /// Whether its value is in the form of a URL as it comes.
    pub fn is_of_the_query(&self) -> bool {
        self.name == Name::QueryString
    }

    /// Whether `&` and `=` in its value belong to the form of that.
    pub fn is_whole_query(&self) -> bool {
        self.name == Name::QueryString && self.key.is_none()
    }

    /// Whether it is none of ESI 1.0: then it is empty.
    pub fn is_unknown(&self) -> bool {
        matches!(self.name, Name::Unknown(_))
    }

    /// What goes into a page for it, which has it in `place`.
    pub fn shown(&self, place: Place, visitor: &Visitor<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        match (self.value(visitor), place.max(visitor.around)) {
            (Value::Default(own), _) => out.extend_from_slice(own),
            (Value::Foreign(value), Place::Text) => escape_text(&value, &mut out),
            (Value::Foreign(value), Place::Tag) if self.is_escaped() => escape_url(&value, b"", &mut out),
            (Value::Foreign(value), Place::Tag) => escape_uri(&value, Escape::UriComponent, &mut out),
        }
        out
    }

    /// What stands for one that is empty.
    pub fn default(&self) -> &[u8] {
        &self.default
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let name = if let Name::Unknown(name) = &self.name { name.len() } else { 0 };
        self.default.len() + self.key.as_ref().map_or(0, |key| key.len()) + name
    }
}

impl fmt::Display for Variable {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match &self.name {
            Name::Unknown(name) => name,
            known => NAMES.iter().find(|(_, name)| name == known).map_or(&b""[..], |(written, _)| written),
        };
        write!(out, "$({}", name.escape_ascii())?;
        if let Some(key) = &self.key {
            write!(out, "{{{}}}", key.escape_ascii())?;
        }
        out.write_str(")")
    }
}

/// Adds `text` for a page: beside letters, digits and a few harmless bytes all is written by its number, so that it is a text
/// in a quoted or a bare attribute and in a string of a script, too. Control characters are left out.
fn escape_text(text: &[u8], out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            b' ' | b'-' | b'.' | b'_' | 0x80.. => out.push(byte),
            _ if byte.is_ascii_alphanumeric() => out.push(byte),
            0..=b' ' | 0x7f => {}
            _ => out.extend_from_slice(format!("&#{byte};").as_bytes()),
        }
    }
}

/// Adds `text` for a URL: beside `-._~`, letters, digits, what is in `kept` and what is escaped already, all bytes as `%XX`.
pub fn escape_url(text: &[u8], kept: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let [byte, after @ ..] = rest {
        match rest {
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.extend_from_slice(&rest[..3]);
                rest = &rest[3..];
                continue;
            }
            _ if kept.contains(byte) => out.push(*byte),
            _ => escape_uri(&[*byte], Escape::UriComponent, out),
        }
        rest = after;
    }
}

fn truth(is_so: bool) -> &'static [u8] {
    if is_so { b"true" } else { b"false" }
}

/// All lines of a field as one.
fn joined<'a>(lines: impl Iterator<Item = &'a [u8]>, between: &[u8]) -> Option<Cow<'a, [u8]>> {
    lines.map(Cow::Borrowed).reduce(|all, line| Cow::Owned([&all[..], between, &line].concat()))
}

/// Whether `Accept-Language` names a language, at any weight but 0.
fn accepts(fields: &Fields, language: &[u8]) -> bool {
    fields.get_all("Accept-Language").flat_map(list::members).any(|member| {
        let mut words = member.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
        let is_it = words.next().is_some_and(|named| named.eq_ignore_ascii_case(language));
        let is_refused = |word: &[u8]| {
            let weight = word.strip_prefix(b"q=").or(word.strip_prefix(b"Q="));
            weight.is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
        };
        is_it && !words.any(is_refused)
    })
}

/// The first cookie of that name, in this case.
fn cookie<'a>(fields: &'a Fields, name: &[u8]) -> Option<&'a [u8]> {
    let pairs = fields.all_known(Known::Cookie).flat_map(|line| line.split(|byte| *byte == b';'));
    pairs.filter_map(pair).find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn argument<'a>(query: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    query.split(|byte| *byte == b'&').filter_map(pair).find(|(key, _)| *key == name).map(|(_, value)| value)
}

fn pair(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let equals = memchr::memchr(b'=', text)?;
    Some((text[..equals].trim_ascii(), text[equals + 1..].trim_ascii()))
}

/// What is behind the `?`.
fn query(target: &[u8]) -> &[u8] {
    memchr::memchr(b'?', target).map_or(b"", |at| &target[at + 1..])
}

/// What is known of a browser by its `User-Agent`: `browser`, `version` or `os`.
fn agent<'a>(agent: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    let at = |word: &[u8]| memchr::memmem::find(agent, word).map(|at| at + word.len());
    let has = |words: &[&[u8]]| words.iter().any(|word| at(word).is_some());
    match key {
        b"browser" if has(&[b"MSIE"]) => Some(b"MSIE"),
        b"browser" if has(&[b"Mozilla"]) => Some(b"MOZILLA"),
        b"os" if has(&[b"Windows"]) => Some(b"WIN"),
        b"os" if has(&[b"Mac"]) => Some(b"MAC"),
        b"os" if has(&[b"Linux", b"X11", b"BSD"]) => Some(b"UNIX"),
        b"browser" | b"os" => Some(b"OTHER"),
        b"version" => {
            let start = at(b"MSIE ").or(at(b"Mozilla/")).or(at(b"/"))?;
            let is_of_it = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'.';
            Some(&agent[start..start + agent[start..].iter().take_while(is_of_it).count()])
        }
        _ => None,
    }
}

/// A reference while it is read, a byte at a time. Its first byte is a `$`.
#[derive(Debug, Default)]
pub struct Reference {
    state: State,
    bytes: usize,
    name: Vec<u8>,
    key: Option<Vec<u8>>,
    default: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    /// Before the `$`.
    #[default]
    Start,
    /// Behind it.
    Dollar,
    Name,
    /// In `{key}`, with this quote around it.
    Key(Option<u8>),
    /// Behind the quote of a key.
    KeyEnds,
    /// Behind a key.
    Behind,
    /// Behind a `|`.
    Bar,
    /// In a default, with this quote around it.
    Default(Option<u8>),
    /// Behind the quote of a default.
    DefaultEnds,
}

/// What a byte makes of a reference.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// It goes on.
    More,
    /// It is whole.
    Whole(Variable),
    /// It is none.
    No,
}

impl Reference {
    /// Takes a byte.
    pub fn take(&mut self, byte: u8) -> Taken {
        self.bytes += 1;
        if self.bytes > BYTES_MAX {
            return Taken::No;
        }
        let is_quote = matches!(byte, b'\'' | b'"');
        self.state = match (self.state, byte) {
            (State::Start, b'$') => State::Dollar,
            (State::Dollar, b'(') => State::Name,
            (State::Name, b'A'..=b'Z' | b'_') => self.named(byte),
            (State::Name, b'0'..=b'9') if !self.name.is_empty() => self.named(byte),
            (State::Name, b'{') if !self.name.is_empty() => {
                self.key = Some(Vec::new());
                State::Key(None)
            }
            (State::Key(None), _) if is_quote && self.key.as_ref().is_some_and(Vec::is_empty) => State::Key(Some(byte)),
            (State::Key(None), b'}') => State::Behind,
            (State::Key(Some(quote)), _) if byte == quote => State::KeyEnds,
            // Not a part of a page: one that does not end.
            (State::Key(_) | State::Default(_), b'\r' | b'\n') | (State::Key(_), b'<') => return Taken::No,
            (State::Key(quote), _) => {
                self.key.get_or_insert_default().push(byte);
                State::Key(quote)
            }
            (State::KeyEnds, b'}') => State::Behind,
            (State::Name, b'|') if !self.name.is_empty() => State::Bar,
            (State::Behind, b'|') => State::Bar,
            (State::Bar, _) if is_quote => State::Default(Some(byte)),
            (State::Name, b')') if !self.name.is_empty() => return self.whole(),
            (State::Behind | State::Bar | State::Default(None) | State::DefaultEnds, b')') => return self.whole(),
            (State::Default(Some(quote)), _) if byte == quote => State::DefaultEnds,
            (State::Bar | State::Default(None), b' ' | b'\t' | b'\r' | b'\n' | b'<') => return Taken::No,
            (State::Bar, _) => self.defaulted(byte, None),
            (State::Default(quote), _) => self.defaulted(byte, quote),
            _ => return Taken::No,
        };
        Taken::More
    }

    fn named(&mut self, byte: u8) -> State {
        self.name.push(byte);
        State::Name
    }

    fn defaulted(&mut self, byte: u8, quote: Option<u8>) -> State {
        self.default.push(byte);
        State::Default(quote)
    }

    fn whole(&mut self) -> Taken {
        let known = NAMES.iter().find(|(name, _)| *name == self.name).map(|(_, name)| name.clone());
        let name = known.unwrap_or_else(|| Name::Unknown(std::mem::take(&mut self.name).into()));
        let key = self.key.take().map(Vec::into_boxed_slice);
        Taken::Whole(Variable { name, key, default: std::mem::take(&mut self.default).into() })
    }
}

/// The reference at the beginning of a text, and how long it is.
pub fn at_start(text: &[u8]) -> Option<(Variable, usize)> {
    let mut reference = Reference::default();
    for (at, byte) in text.iter().enumerate() {
        match reference.take(*byte) {
            Taken::More => {}
            Taken::Whole(variable) => return Some((variable, at + 1)),
            Taken::No => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, fields: &[(&str, &str)], target: &str) -> String {
        let fields: Fields = fields.iter().copied().collect();
        let visitor =
            Visitor { fields: &fields, named: Some(b"a.test:81"), target: target.as_bytes(), around: Place::Text };
        let (variable, len) = at_start(text.as_bytes()).expect("a variable");
        assert_eq!(len, text.len(), "{text}");
        String::from_utf8_lossy(variable.value(&visitor).bytes()).into_owned()
    }

    #[test]
    fn a_variable_is_what_the_request_says() {
        let msie = "Mozilla/4.0 (compatible; MSIE 5.5b; Windows NT)";
        let linux = "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101";
        for (text, field, expected) in [
            ("$(HTTP_HOST)", ("X", ""), "a.test:81"),
            ("$(HTTP_HOST{x})", ("X", ""), ""),
            ("$(HTTP_COOKIE{name})", ("Cookie", "b=1; name= two ;name=3"), "two"),
            ("$(HTTP_COOKIE{'name'})", ("Cookie", "name=a=b"), "a=b"),
            ("$(HTTP_COOKIE{Name})", ("Cookie", "name=1"), ""),
            ("$(HTTP_COOKIE{Name}|none)", ("Cookie", "name=1"), "none"),
            ("$(HTTP_COOKIE{n}|'new user')", ("Cookie", "n="), "new user"),
            ("$(HTTP_COOKIE{n}|\"a)b\")", ("X", ""), "a)b"),
            ("$(HTTP_COOKIE|x)", ("Cookie", "a=b; c"), "a=b; c"),
            ("$(HTTP_COOKIE|)", ("X", ""), ""),
            ("$(HTTP_REFERER)", ("Referer", "http://b/"), "http://b/"),
            ("$(HTTP_ACCEPT_LANGUAGE{en-gb})", ("Accept-Language", "da, EN-GB;q=0.5, en"), "true"),
            ("$(HTTP_ACCEPT_LANGUAGE{de})", ("Accept-Language", "da, de;q=0.0"), "false"),
            ("$(HTTP_ACCEPT_LANGUAGE{d})", ("Accept-Language", "da, de"), "false"),
            ("$(HTTP_ACCEPT_LANGUAGE)", ("Accept-Language", "da, de"), "da, de"),
            ("$(HTTP_USER_AGENT{browser})", ("User-Agent", msie), "MSIE"),
            ("$(HTTP_USER_AGENT{version})", ("User-Agent", msie), "5.5b"),
            ("$(HTTP_USER_AGENT{os})", ("User-Agent", msie), "WIN"),
            ("$(HTTP_USER_AGENT{browser})", ("User-Agent", linux), "MOZILLA"),
            ("$(HTTP_USER_AGENT{version})", ("User-Agent", linux), "5.0"),
            ("$(HTTP_USER_AGENT{os})", ("User-Agent", linux), "UNIX"),
            ("$(HTTP_USER_AGENT{os})", ("User-Agent", "Mozilla/5.0 (Macintosh)"), "MAC"),
            ("$(HTTP_USER_AGENT{os})", ("User-Agent", "curl/8.1"), "OTHER"),
            ("$(HTTP_USER_AGENT{version})", ("User-Agent", "curl/8.1 x"), "8.1"),
            ("$(HTTP_USER_AGENT{name})", ("User-Agent", "curl/8.1 x"), ""),
            ("$(QUERY_STRING)", ("X", ""), "a=1&b=%20&a=2"),
            ("$(QUERY_STRING{a})", ("X", ""), "1"),
            ("$(QUERY_STRING{b})", ("X", ""), "%20"),
            ("$(OTHER_1|own)", ("X", ""), "own"),
            ("$(OTHER{x})", ("X", ""), ""),
        ] {
            assert_eq!(shown(text, &[field], "/p?a=1&b=%20&a=2"), expected, "{text} {field:?}");
        }
        let two = [("Cookie", "a=1"), ("Cookie", "b=2")];
        assert_eq!(shown("$(HTTP_COOKIE)", &two, "/"), "a=1; b=2");
        assert_eq!(shown("$(HTTP_COOKIE{b})", &two, "/"), "2");
        assert_eq!(shown("$(QUERY_STRING|none)", &[], "/"), "none");
    }

    #[test]
    fn what_is_no_reference_is_none() {
        let long = format!("$(HTTP_COOKIE{{{}}})", "x".repeat(600));
        for text in [
            "",
            "$",
            "$(",
            "$()",
            "$('#id')",
            "$(document)",
            "$(A",
            "$(A{",
            "$(A{b}",
            "$(A{b}x)",
            "$(A|b c)",
            "$(A|'b'c)",
            "$(1A)",
            "$ (A)",
            "$({a})",
            "$(A{'b)",
            "$(A{b\n})",
            "$(A|<)",
            "A",
            &long,
        ] {
            assert_eq!(at_start(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_text_of_a_visitor_is_text_wherever_it_stands() {
        let fields: Fields =
            [("Cookie", "a=<script>x('y\\\"`=&/)</script>; b=caf\u{e9} 1.0-_~\t!; c=a%20b%zz%")].into_iter().collect();
        let visitor = Visitor { fields: &fields, named: None, target: b"/", around: Place::Text };
        for (text, in_text, in_tag) in [
            (
                "$(HTTP_COOKIE{a})",
                "&lt;script&gt;x&#40;&#39;y&#92;&#34;&#96;&#61;&amp;&#47;&#41;&lt;&#47;script&gt;",
                "%3Cscript%3Ex%28%27y%5C%22%60%3D%26%2F%29%3C%2Fscript%3E",
            ),
            ("$(HTTP_COOKIE{b})", "caf\u{e9} 1.0-_&#126;&#33;", "caf%C3%A9%201.0-_~%09%21"),
            ("$(HTTP_COOKIE{c})", "a&#37;20b&#37;zz&#37;", "a%20b%25zz%25"),
            ("$(HTTP_COOKIE{d}|'<b>')", "<b>", "<b>"),
        ] {
            let (variable, _) = at_start(text.as_bytes()).expect("a variable");
            let made = [Place::Text, Place::Tag]
                .map(|place| String::from_utf8_lossy(&variable.shown(place, &visitor)).into_owned());
            assert_eq!(made, [in_text, in_tag], "{text}");
        }
    }
}
