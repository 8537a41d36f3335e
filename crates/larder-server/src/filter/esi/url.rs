//! The URL of an include: what it says, what it means beside its page, and the variables in it.

use std::borrow::Cow;
use std::fmt;

use larder_http::uri::reference::{scheme, target_from, without_dots};
use larder_http::{Escape, escape_uri, unescape};

use super::variable::{self, Fault, Place, Value, Variable, Visitor, escape_url};

/// An include.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Include {
    /// The host that it names: `http://HOST/...`.
    pub host: Option<Vec<u8>>,
    /// The path and the query; one without a `/` in front lies beside the page.
    pub path: Vec<u8>,
    /// `onerror="continue"`: the page goes on without it.
    pub goes_on: bool,
    /// `alt`: what is asked for in the place of one that fails.
    pub alt: Option<Box<Include>>,
    /// Where in its page it stands.
    pub place: Place,
    /// Whether it is resolved as RFC 3986 says, and not as Varnish does.
    pub resolves: bool,
    /// What is written where it has variables: then nothing else is known of its URLs.
    pub written: Option<Box<Written>>,
}

/// The URLs of an include with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    src: Template,
    alt: Option<Template>,
}

/// How URLs are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// As Varnish reads them; with `https://` only if it counts as `http://`.
    Varnish {
        /// `esi_ignore_https`
        takes_https: bool,
    },
    /// As RFC 3986 says, and with variables.
    Full,
}

impl Include {
    /// That of the attributes of its element. An error says why it is none.
    pub fn of(src: &[u8], alt: Option<&[u8]>, goes_on: bool, reading: Reading) -> Result<Self, &'static str> {
        if reading == Reading::Full && (has_variable(src) || alt.is_some_and(has_variable)) {
            let template = |url: &[u8]| Template::of(&restored(url));
            let written = Written { src: template(src), alt: alt.map(template) };
            return Ok(Self { goes_on, resolves: true, written: Some(written.into()), ..Self::default() });
        }
        // One that is no URL is as good as none.
        let alt = alt.and_then(|alt| Self::of(alt, None, false, reading).ok()).map(Box::new);
        let include = match reading {
            Reading::Varnish { takes_https } => Self::as_varnish(src, takes_https)?,
            Reading::Full => Self::resolved(&restored(src))?,
        };
        Ok(Self { goes_on, alt, ..include.checked()? })
    }

    /// The same, where it stands in `place`.
    pub fn at(mut self, place: Place) -> Self {
        self.place = place;
        if let Some(alt) = &mut self.alt {
            alt.place = place;
        }
        self
    }

    /// The include that it is for `visitor`. An error says why it is none.
    pub fn seen_by(&self, visitor: &Visitor<'_>) -> Result<Cow<'_, Self>, Fault> {
        let Some(written) = &self.written else { return Ok(Cow::Borrowed(self)) };
        let filled = |template: &Template| {
            let url = template.filled(visitor)?;
            Self::resolved(&url).and_then(Self::checked).map_err(|why| Fault::from(format!("{why}: {template}")))
        };
        let alt = written.alt.as_ref().map(filled).and_then(Result::ok);
        let include = match (filled(&written.src), alt) {
            (Ok(src), alt) => Self { goes_on: self.goes_on, alt: alt.map(Box::new), ..src },
            (Err(_), Some(alt)) => Self { goes_on: self.goes_on, ..alt },
            (Err(why), None) => return Err(why),
        };
        Ok(Cow::Owned(include.at(self.place)))
    }

    /// The same, if its URL is one.
    fn checked(self) -> Result<Self, &'static str> {
        let is_control = |byte: &u8| *byte <= b' ' || *byte == 0x7f;
        if self.path.is_empty() || self.path.iter().chain(self.host.iter().flatten()).any(is_control) {
            return Err("an include whose src is no URL");
        }
        Ok(self)
    }

    fn as_varnish(url: &[u8], takes_https: bool) -> Result<Self, &'static str> {
        let rest = match (url.strip_prefix(b"http://"), url.strip_prefix(b"https://")) {
            (Some(rest), _) => rest,
            (None, Some(rest)) if takes_https => rest,
            (None, Some(_)) => return Err("an include with https:// (esi_ignore_https)"),
            (None, None) => return Ok(Self { path: restored(url), ..Self::default() }),
        };
        let slash = memchr::memchr(b'/', rest).ok_or("an include of a host without a path")?;
        Ok(Self { host: Some(rest[..slash].to_vec()), path: restored(&rest[slash..]), ..Self::default() })
    }

    /// RFC 3986 §5.2.2, as far as that goes without the URL of the page.
    fn resolved(url: &[u8]) -> Result<Self, &'static str> {
        let url = &url[..memchr::memchr(b'#', url).unwrap_or(url.len())];
        let rest = match scheme(url) {
            None => url,
            Some(scheme) if scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https") => {
                let rest = &url[scheme.len() + 1..];
                if !rest.starts_with(b"//") {
                    return Err("an include of a scheme without a host");
                }
                rest
            }
            Some(_) => return Err("an include with a scheme other than http and https"),
        };
        let (host, path) = match rest.strip_prefix(b"//") {
            None => (None, rest),
            Some(rest) => {
                let end = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
                (Some(rest[..end].to_vec()), &rest[end..])
            }
        };
        let path = match (&host, path) {
            (None, [b'/', ..]) | (Some(_), _) => without_dots(b"", path),
            (None, _) => path.to_vec(),
        };
        Ok(Self { host, path, resolves: true, ..Self::default() })
    }

    /// The path and the query that are asked for, where the page has this URL.
    pub fn target(&self, page: &[u8]) -> Vec<u8> {
        if self.path.starts_with(b"/") {
            return self.path.clone();
        }
        if self.resolves {
            return target_from(page, &self.path);
        }
        let path = page.split(|byte| *byte == b'?').next().unwrap_or_default();
        let folder = path.iter().rposition(|byte| *byte == b'/').map_or(path, |slash| &path[..slash]);
        [folder, b"/", &self.path].concat()
    }

    /// The bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        let host = self.host.as_ref().map_or(0, Vec::len);
        let alt = self.alt.as_ref().map_or(0, |alt| size_of::<Self>() + alt.heap_bytes());
        let written = self.written.as_ref().map_or(0, |written| {
            let alt = written.alt.as_ref().map_or(0, Template::heap_bytes);
            size_of::<Written>() + written.src.heap_bytes() + alt
        });
        self.path.len() + host + alt + written
    }
}

/// A URL with variables.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Variable(Variable),
}

/// Where in a URL a variable stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Component {
    Host,
    Path,
    Query,
}

impl Template {
    fn of(text: &[u8]) -> Self {
        let mut pieces = Vec::new();
        let (mut start, mut at) = (0, 0);
        while let Some(found) = memchr::memchr(b'$', &text[at..]) {
            at += found;
            let Some((variable, len)) = variable::at_start(&text[at..]) else {
                at += 1;
                continue;
            };
            pieces.push(Piece::Text(text[start..at].to_vec()));
            pieces.push(Piece::Variable(variable));
            at += len;
            start = at;
        }
        pieces.push(Piece::Text(text[start..].to_vec()));
        Self { pieces }
    }

    /// The URL for `visitor`. An error if a value would lead elsewhere than the page says.
    ///
    /// An include may go where its reader may not. So a value stays in its place: as a host, in one segment of the path,
    /// or in the query.
    fn filled(&self, visitor: &Visitor<'_>) -> Result<Vec<u8>, Fault> {
        let mut out = Vec::new();
        // What the page itself has written, by which a place in its URL is known.
        let mut own: Vec<u8> = Vec::new();
        for piece in &self.pieces {
            let variable = match piece {
                Piece::Text(text) => {
                    own.extend_from_slice(text);
                    out.extend_from_slice(text);
                    continue;
                }
                Piece::Variable(variable) => variable,
            };
            let value = match variable.value(visitor) {
                Value::Default(text) => {
                    own.extend_from_slice(text);
                    out.extend_from_slice(text);
                    continue;
                }
                Value::Foreign(value) => value,
            };
            // So that nobody takes the place of an empty one for another.
            own.push(b'x');
            match component(&own) {
                Component::Host if is_host(&value) => out.extend_from_slice(&value),
                Component::Host => return Err(format!("an include whose {variable} is no host").into()),
                Component::Path if add_to_path(&value, &mut out) => {}
                Component::Path => {
                    return Err(format!("an include whose {variable} is more than a segment of a path").into());
                }
                Component::Query if variable.is_whole_query() => escape_url(&value, b"&=+;/?:@!$'()*,", &mut out),
                Component::Query if variable.is_of_the_query() => escape_url(&value, b"=+/?:@!$'()*,", &mut out),
                Component::Query if variable.is_escaped() => escape_url(&value, b"", &mut out),
                Component::Query => escape_uri(&value, Escape::UriComponent, &mut out),
            }
        }
        if dots(&out) > dots(&own) {
            return Err(format!("an include of which a variable makes a segment of dots: {self}").into());
        }
        Ok(out)
    }

    fn heap_bytes(&self) -> usize {
        let of = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Variable(variable) => variable.heap_bytes(),
        };
        self.pieces.capacity() * size_of::<Piece>() + self.pieces.iter().map(of).sum::<usize>()
    }
}

/// As the page has it, but for defaults.
impl fmt::Display for Template {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pieces.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => write!(out, "{}", text.escape_ascii()),
            Piece::Variable(variable) => write!(out, "{variable}"),
        })
    }
}

/// In which component a URL ends that begins like this.
fn component(url: &[u8]) -> Component {
    if memchr::memchr2(b'?', b'#', url).is_some() {
        return Component::Query;
    }
    let rest = scheme(url).map_or(url, |scheme| &url[scheme.len() + 1..]);
    match rest.strip_prefix(b"//") {
        Some(rest) if memchr::memchr(b'/', rest).is_none() => Component::Host,
        _ => Component::Path,
    }
}

/// Whether a value is a host, or a part of one.
fn is_host(value: &[u8]) -> bool {
    let is_of_one = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b':' | b'[' | b']');
    value.iter().all(is_of_one)
}

/// Adds a value to a segment of a path, whatever of it is escaped. False if it is more than that.
fn add_to_path(value: &[u8], out: &mut Vec<u8>) -> bool {
    let mut plain = Vec::with_capacity(value.len());
    unescape(value, &mut plain);
    if plain.iter().any(|byte| matches!(byte, b'/' | b'\\' | 0..b' ' | 0x7f)) {
        return false;
    }
    escape_uri(&plain, Escape::UriComponent, out);
    true
}

/// How many segments of dots a path has, escaped or not.
fn dots(url: &[u8]) -> usize {
    let mut path = Vec::new();
    unescape(url.split(|byte| matches!(byte, b'?' | b'#')).next().unwrap_or_default(), &mut path);
    path.split(|byte| *byte == b'/').filter(|segment| matches!(*segment, b"." | b"..")).count()
}

fn has_variable(text: &[u8]) -> bool {
    memchr::memmem::find(text, b"$(").is_some()
}

/// A text with the five entities that XML itself has replaced.
pub fn restored(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'&', rest) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let entity = ENTITIES.iter().find(|(name, _)| rest.starts_with(name));
        let (taken, byte) = entity.map_or((1, b'&'), |(name, byte)| (name.len(), *byte));
        out.push(byte);
        rest = &rest[taken..];
    }
    out.extend_from_slice(rest);
    out
}

const ENTITIES: [(&[u8], u8); 5] =
    [(b"&apos;", b'\''), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];

#[cfg(test)]
mod tests {
    use larder_http::Fields;

    use super::*;

    fn full(src: &str) -> Result<Include, &'static str> {
        Include::of(src.as_bytes(), None, false, Reading::Full)
    }

    /// The host and the target that an include asks for.
    fn asked(include: &Include, page: &str) -> String {
        let host = include.host.as_deref().map_or(String::new(), |host| format!("{}|", host.escape_ascii()));
        format!("{host}{}", include.target(page.as_bytes()).escape_ascii())
    }

    #[test]
    fn urls_are_resolved_as_rfc_3986_says_or_as_varnish_does() {
        for (src, page, rfc, varnish) in [
            ("/a?b", "/x/y", "/a?b", "/a?b"),
            ("a", "/x/y", "/x/a", "/x/a"),
            ("a", "/x/y?z=/1/2", "/x/a", "/x/a"),
            ("a", "/x/", "/x/a", "/x/a"),
            ("a", "/", "/a", "/a"),
            ("a", "x", "/x/a", "x/a"),
            ("a", "", "/a", "/a"),
            ("?a", "/x/y?b", "/x/y?a", "/x/?a"),
            ("../a", "/x/y", "/a", "/x/../a"),
            ("./a/./b", "/x/y", "/x/a/b", "/x/./a/./b"),
            ("../../../a", "/x/y/z", "/a", "/x/y/../../../a"),
            ("..", "/x/y/z", "/x/", "/x/y/.."),
            (".", "/x/y/z", "/x/y/", "/x/y/."),
            ("a/..", "/x/y", "/x/", "/x/a/.."),
            ("/a/../b/./c?d=../e", "/", "/b/c?d=../e", "/a/../b/./c?d=../e"),
            ("/a//../b", "/", "/a/b", "/a//../b"),
            ("/..a/b../...", "/", "/..a/b../...", "/..a/b../..."),
            ("/a#b?c", "/", "/a", "/a#b?c"),
            ("a?b#c", "/", "/a?b", "/a?b#c"),
            ("//h/a", "/x", "h|/a", "//h/a"),
            ("//h:8/a/../b", "/x", "h:8|/b", "//h:8/a/../b"),
            ("http://h/a", "/x", "h|/a", "h|/a"),
            ("HTTP://h/../a", "/x", "h|/a", "/HTTP://h/../a"),
            ("hTTps://h/a", "/x", "h|/a", "/hTTps://h/a"),
            ("a:b/c", "/x", "", "/a:b/c"),
            ("./a:b", "/x", "/a:b", "/./a:b"),
            ("http:a", "/x", "", "/http:a"),
            ("http://h", "/x", "h|/", ""),
            ("http://h?a#b", "/x", "h|/?a", ""),
            ("javascript:a", "/x", "", "/javascript:a"),
            ("#a", "/x", "", "/#a"),
            ("/%2e%2e/a", "/x", "/%2e%2e/a", "/%2e%2e/a"),
        ] {
            let varnish_reading = Reading::Varnish { takes_https: true };
            let made = [Reading::Full, varnish_reading].map(|reading| {
                let include = Include::of(src.as_bytes(), None, false, reading);
                include.map_or(String::new(), |include| asked(&include, page))
            });
            assert_eq!(made, [rfc, varnish], "{src} in {page}");
        }
    }

    #[test]
    fn a_value_keeps_its_place_in_a_url() {
        let fields: Fields = [
            ("Cookie", "id=571; name=a b&c=/d#e; up=..; dot=%2e; deep=..%2F..%2Fx; slash=a/b; back=a\\b; nul=a%00; city=S%C3%A3o%252f"),
            ("Referer", "http://b/?c=%26"),
        ]
        .into_iter()
        .collect();
        let visitor = Visitor {
            fields: &fields,
            named: Some(b"a.test:81"),
            target: b"/p?q=a+b%20c=d&to=http://evil/&x='<",
            around: Place::Text,
        };
        for (src, expected) in [
            ("/x/$(HTTP_COOKIE{id}).html", "/x/571.html"),
            ("/x/$(HTTP_COOKIE{none}|default).html", "/x/default.html"),
            ("/x/$(HTTP_COOKIE{none}|'../y')", "/y"),
            ("/x/$(HTTP_COOKIE{none})/y", "/x//y"),
            ("/x/$(HTTP_COOKIE{city})", "/x/S%C3%A3o%252f"),
            ("/x/$(HTTP_COOKIE{up})/y", "dots"),
            ("/x/$(HTTP_COOKIE{dot})$(HTTP_COOKIE{dot})/y", "dots"),
            ("/x/%2E$(HTTP_COOKIE{dot})/y", "dots"),
            ("../$(HTTP_COOKIE{up})", "dots"),
            ("/x/v$(HTTP_COOKIE{up})/y", "/x/v../y"),
            ("../a/$(HTTP_COOKIE{id})", "/a/571"),
            ("/x/$(HTTP_COOKIE{deep})/y", "segment"),
            ("/x/$(HTTP_COOKIE{slash})", "segment"),
            ("/x/$(HTTP_COOKIE{back})", "segment"),
            ("/x/$(HTTP_COOKIE{nul})", "segment"),
            ("$(QUERY_STRING{to})", "segment"),
            ("$(HTTP_COOKIE{id})://h/$(HTTP_COOKIE{id})", "/p/571://h/571"),
            ("/x?n=$(HTTP_COOKIE{name})&m=1", "/x?n=a%20b%26c%3D%2Fd%23e&m=1"),
            ("/x?n=$(QUERY_STRING{q})&m=1", "/x?n=a+b%20c=d&m=1"),
            ("/x?$(QUERY_STRING)#a", "/x?q=a+b%20c=d&to=http://evil/&x=\\'%3C"),
            ("/x?b=$(HTTP_REFERER)", "/x?b=http%3A%2F%2Fb%2F%3Fc%3D%2526"),
            ("http://$(HTTP_HOST)/x", "a.test:81|/x"),
            ("//www.$(HTTP_HOST)?$(HTTP_COOKIE{id})", "www.a.test:81|/?571"),
            ("http://$(HTTP_COOKIE{slash})/x", "host"),
            ("http://$(HTTP_COOKIE{name}).h/x", "host"),
            ("$(HTTP_COOKIE{none})", "no URL: $(HTTP_COOKIE{none})"),
            ("/x/$(HTTP_COOKIE{id", "/x/$(HTTP_COOKIE{id"),
            ("/x/$(document)", "/x/$(document)"),
            ("/x?a&amp;b=$(HTTP_COOKIE{id})", "/x?a&b=571"),
        ] {
            let include = full(src).unwrap();
            let made = match include.seen_by(&visitor) {
                Ok(include) => asked(&include, "/p/q?r"),
                Err(why) => why.into_owned(),
            };
            let is_named = made.starts_with("an include") && made.contains("$(") && made.contains(expected);
            assert!(made == expected || is_named, "{src}: {made}, not {expected}");
        }
    }

    #[test]
    fn the_other_url_stands_in_for_one_that_a_value_breaks() {
        let fields: Fields = [("Cookie", "bad=a/b; id=1")].into_iter().collect();
        let visitor = Visitor { fields: &fields, named: None, target: b"/", around: Place::Text };
        let seen = |src: &str, alt: &str| {
            let include = Include::of(src.as_bytes(), Some(alt.as_bytes()), true, Reading::Full).unwrap();
            let seen = include.seen_by(&visitor).unwrap().into_owned();
            assert!(seen.goes_on);
            (asked(&seen, "/"), seen.alt.map(|alt| asked(&alt, "/")))
        };
        assert_eq!(seen("/$(HTTP_COOKIE{bad})", "/$(HTTP_COOKIE{id})"), ("/1".to_owned(), None));
        assert_eq!(seen("/a", "/$(HTTP_COOKIE{id})"), ("/a".to_owned(), Some("/1".to_owned())));
        assert_eq!(seen("/$(HTTP_COOKIE{id})", "/$(HTTP_COOKIE{bad})"), ("/1".to_owned(), None));
    }
}
