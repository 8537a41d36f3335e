//! A URL as people type it: its scheme may be left out, and its letters need no escapes.

use std::fmt::Write;

/// A URL as people type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TypedUrl<'a> {
    /// Whether it is https; `None` if it does not say.
    pub tls: Option<bool>,
    /// Host and port, as they were typed; empty if it begins with its path.
    pub authority: &'a str,
    /// The host, without its port.
    pub host: &'a str,
    /// The port, if it is said.
    pub port: Option<u16>,
    /// Path and query; empty if there are none, and without a path if that is left out before a query.
    target: &'a str,
}

/// How what has no place in a URL is escaped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escapes {
    /// `%C3%A9`, as by browsers.
    Upper,
    /// `%c3%a9`, as in the links that WordPress makes.
    Lower,
}

impl<'a> TypedUrl<'a> {
    /// Reads it. An error says why it is none.
    pub fn parse(text: &'a str) -> Result<Self, String> {
        let no_url = |why: &str| format!("\"{text}\" is no URL: {why}");
        let wrong = |why: &str| Err(no_url(why));
        let url = text.split('#').next().unwrap_or_default();
        let (tls, rest) = match (strip(url, "https://"), strip(url, "http://")) {
            (Some(rest), _) => (Some(true), rest),
            (None, Some(rest)) => (Some(false), rest),
            (None, None) => (None, url),
        };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if tls.is_none() && authority.ends_with(':') && target.starts_with("//") {
            return wrong("it is neither http nor https");
        }
        let (host, port) = host_and_port(authority).map_err(|why| no_url(&why))?;
        if tls.is_some() && host.is_empty() {
            return wrong("it has no host");
        }
        match host.chars().find(|char| !is_of_host(*char)) {
            None => Ok(Self { tls, authority, host, port, target }),
            Some('*') => wrong("\"*\" stands at the end of a path alone, as in /* for all pages"),
            Some(char) if !char.is_ascii() => wrong("write its host as browsers send it, with \"xn--\""),
            Some(char) => wrong(&format!("\"{char}\" cannot be in a host")),
        }
    }

    /// Whether it says neither that it is a URL nor a path: one word, which may be a host or anything.
    pub fn is_word(&self) -> bool {
        self.tls.is_none() && self.target.is_empty()
    }

    /// Path and query as they are sent.
    pub fn target(&self, escapes: Escapes) -> String {
        let mut sent = String::with_capacity(self.target.len() + 1);
        if !self.target.starts_with('/') {
            sent.push('/');
        }
        for byte in self.target.bytes() {
            // Writing to a text does not fail.
            let _ = match (byte.is_ascii(), escapes) {
                (true, _) => {
                    sent.push(char::from(byte));
                    Ok(())
                }
                (false, Escapes::Upper) => write!(sent, "%{byte:02X}"),
                (false, Escapes::Lower) => write!(sent, "%{byte:02x}"),
            };
        }
        sent
    }
}

/// Host and port of what a field `Host` says; the colons of an address of IPv6 stand in brackets.
pub fn host_and_port(authority: &str) -> Result<(&str, Option<u16>), String> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => match port.parse() {
            Ok(port) => Ok((host, Some(port))),
            Err(_) => Err(format!("\"{port}\" in \"{authority}\" is no port")),
        },
        _ => Ok((authority, None)),
    }
}

fn is_of_host(char: char) -> bool {
    char.is_ascii_alphanumeric() || matches!(char, '.' | '-' | '_' | '[' | ']' | ':')
}

/// What follows `start`, in upper or lower case.
pub fn strip<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.get(..start.len()).filter(|found| found.eq_ignore_ascii_case(start)).map(|_| &text[start.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_read_with_or_without_its_scheme() {
        for (text, tls, host, port, target) in [
            ("http://a.test/b?c=d#e", Some(false), "a.test", None, "/b?c=d"),
            ("HTTPS://A.test", Some(true), "A.test", None, "/"),
            ("a.test/b/", None, "a.test", None, "/b/"),
            ("a.test:81?x", None, "a.test", Some(81), "/?x"),
            ("http://[::1]:82/", Some(false), "[::1]", Some(82), "/"),
            ("[::1]/", None, "[::1]", None, "/"),
            ("/b", None, "", None, "/b"),
            ("//b", None, "", None, "//b"),
            ("a.test/b?c=http://d/", None, "a.test", None, "/b?c=http://d/"),
            ("a.test/é?ü", None, "a.test", None, "/%C3%A9?%C3%BC"),
        ] {
            let url = TypedUrl::parse(text).unwrap_or_else(|why| panic!("{why}"));
            assert_eq!((url.tls, url.host, url.port), (tls, host, port), "{text}");
            assert_eq!(url.target(Escapes::Upper), target, "{text}");
        }
        let lower = TypedUrl::parse("/%C3/é").map(|url| url.target(Escapes::Lower));
        assert_eq!(lower.as_deref(), Ok("/%C3/%c3%a9"));
    }

    #[test]
    fn a_word_alone_may_be_anything() {
        for (text, is_word) in
            [("hello", true), ("a.test:80", true), ("a.test/", false), ("/", false), ("http://a.test", false)]
        {
            assert_eq!(TypedUrl::parse(text).map(|url| url.is_word()), Ok(is_word), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_is_told() {
        for (text, why) in [
            ("a b/", "\" \" cannot be in a host"),
            ("ftp://a.test/", "it is neither http nor https"),
            ("http:///b", "it has no host"),
            ("http://:80/b", "it has no host"),
            ("http://a:b/", "\"b\" in \"a:b\" is no port"),
            ("a:99999/", "\"99999\" in \"a:99999\" is no port"),
            ("*", "\"*\" stands at the end of a path alone, as in /* for all pages"),
            ("*.test/b", "\"*\" stands at the end of a path alone, as in /* for all pages"),
            ("bücher.test/", "write its host as browsers send it, with \"xn--\""),
            ("http://me@a.test/", "\"@\" cannot be in a host"),
            ("a\"b/", "\"\"\" cannot be in a host"),
        ] {
            assert_eq!(TypedUrl::parse(text), Err(format!("\"{text}\" is no URL: {why}")), "{text}");
        }
    }
}
