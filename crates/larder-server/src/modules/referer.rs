//! `valid_referers` and `$invalid_referer` (ngx_http_referer_module).

use std::collections::HashMap;

use larder_conf::model::ServerName;

use crate::regex::{MatchError, Regex};

/// A longer host is invalid, as in nginx.
const HOST_BYTES_MAX: usize = 256;
/// A shorter field cannot be a URL: `http://i.ru`.
const URL_BYTES_MIN: usize = 11;

/// The sites that may link here.
#[derive(Debug, Default)]
pub struct Referers {
    /// `none`.
    pub none: bool,
    /// `blocked`.
    pub blocked: bool,
    exact: HashMap<Box<[u8]>, Path>,
    /// `.example.org`, the longest first.
    suffixes: Vec<(Box<[u8]>, Path)>,
    /// `www.`, likewise.
    prefixes: Vec<(Box<[u8]>, Path)>,
    /// Regular expressions among the server's names, matched against the host.
    pub host_patterns: Vec<Regex>,
    /// Regular expressions, matched against all that follows the scheme.
    pub patterns: Vec<Regex>,
}

/// The beginning that the path must have, if any.
type Path = Option<Box<[u8]>>;

impl Referers {
    /// Adds a server name; ignores regular expressions and `$hostname`.
    pub fn add(&mut self, name: &ServerName, path: Option<&str>) {
        let path = path.map(|path| Box::from(path.as_bytes()));
        match name {
            ServerName::Exact(name) => {
                self.exact.insert(name.as_bytes().into(), path);
            }
            ServerName::Dotted(name) => {
                self.exact.insert(name.as_bytes().into(), path.clone());
                self.suffixes.push((format!(".{name}").into_bytes().into(), path));
            }
            ServerName::Suffix(suffix) => self.suffixes.push((suffix.as_bytes().into(), path)),
            ServerName::Prefix(prefix) => self.prefixes.push((prefix.as_bytes().into(), path)),
            ServerName::Regex(_) | ServerName::Hostname => {}
        }
        for names in [&mut self.suffixes, &mut self.prefixes] {
            names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        }
    }

    /// Whether a request with this field, or without it, is valid. An error if a regular expression has no result.
    pub fn are_valid(&self, referer: Option<&[u8]>) -> Result<bool, MatchError> {
        let lists_none = self.exact.is_empty() && self.suffixes.is_empty() && self.prefixes.is_empty();
        if lists_none && self.host_patterns.is_empty() && self.patterns.is_empty() {
            return Ok(true);
        }
        let Some(referer) = referer else { return Ok(self.none) };
        let Some(rest) = after_scheme(referer) else { return Ok(self.blocked) };
        let host_len = rest.iter().position(|byte| matches!(byte, b'/' | b':')).unwrap_or(rest.len());
        if host_len > HOST_BYTES_MAX {
            return Ok(false);
        }
        let host = rest[..host_len].to_ascii_lowercase();
        if let Some(path) = self.find(&host) {
            let at = rest[host_len..].iter().position(|&byte| byte == b'/');
            let given = at.map_or(&b""[..], |at| &rest[host_len + at..]);
            return Ok(path.as_ref().is_none_or(|path| given.starts_with(path)));
        }
        Ok(any_matches(&self.host_patterns, &host)? || any_matches(&self.patterns, rest)?)
    }

    fn find(&self, host: &[u8]) -> Option<&Path> {
        let suffix = |(suffix, _): &&(Box<[u8]>, Path)| host.len() > suffix.len() && host.ends_with(suffix);
        let prefix = |(prefix, _): &&(Box<[u8]>, Path)| host.len() > prefix.len() && host.starts_with(prefix);
        let found = self.exact.get(host);
        let found = found.or_else(|| self.suffixes.iter().find(suffix).map(|(_, path)| path));
        found.or_else(|| self.prefixes.iter().find(prefix).map(|(_, path)| path))
    }
}

fn any_matches(patterns: &[Regex], text: &[u8]) -> Result<bool, MatchError> {
    for pattern in patterns {
        if pattern.is_match(text)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What follows `http://` or `https://`.
fn after_scheme(referer: &[u8]) -> Option<&[u8]> {
    if referer.len() < URL_BYTES_MIN {
        return None;
    }
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = referer.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn referers(names: &[(ServerName, Option<&str>)]) -> Referers {
        let mut referers = Referers::default();
        for (name, path) in names {
            referers.add(name, *path);
        }
        referers
    }

    fn is_valid(listed: &Referers, referer: Option<&str>) -> bool {
        listed.are_valid(referer.map(str::as_bytes)).expect("the texts are short")
    }

    #[test]
    fn hosts_are_found_by_name_wildcard_and_path() {
        let listed = referers(&[
            (ServerName::Exact("www.example.org".into()), None),
            (ServerName::Exact("path.example.org".into()), Some("/a")),
            (ServerName::Suffix(".example.com".into()), None),
            (ServerName::Prefix("images.".into()), Some("/b")),
            (ServerName::Dotted("example.net".into()), None),
        ]);
        for (referer, valid) in [
            ("http://www.example.org", true),
            ("HTTPS://WWW.Example.org/page", true),
            ("http://www.example.org:8080/page", true),
            ("www.example.org", false),
            ("ftp://www.example.org", false),
            ("http://example.org", false),
            ("http://path.example.org/abc", true),
            ("http://path.example.org:80/abc", true),
            ("http://path.example.org/A", false),
            ("http://path.example.org", false),
            ("http://a.b.example.com", true),
            ("http://example.com", false),
            ("http://images.example.de/b", true),
            ("http://images.example.de/c", false),
            ("http://example.net", true),
            ("http://a.example.net", true),
            ("http://su", false),
        ] {
            assert_eq!(is_valid(&listed, Some(referer)), valid, "{referer}");
        }
    }

    #[test]
    fn none_and_blocked_are_what_no_url_is() {
        for (none, blocked, referer, valid) in [
            (false, false, None, false),
            (true, false, None, true),
            (true, false, Some(""), false),
            (false, true, Some(""), true),
            (false, true, Some("gone"), true),
            (false, true, Some("http://su"), true),
            (false, true, Some("http://other.example"), false),
        ] {
            let mut listed = referers(&[(ServerName::Exact("www.example.org".into()), None)]);
            (listed.none, listed.blocked) = (none, blocked);
            assert_eq!(is_valid(&listed, referer), valid, "{none} {blocked} {referer:?}");
        }
        assert!(is_valid(&Referers::default(), None), "nothing is listed");
    }

    #[test]
    fn expressions_see_all_that_follows_the_scheme() {
        let mut listed = Referers::default();
        listed.patterns.push(Regex::new("example.org/a$", true).expect("it compiles"));
        listed.host_patterns.push(Regex::new("^bar$", false).expect("it compiles"));
        for (referer, valid) in [
            ("http://www.example.org/a", true),
            ("http://www.EXAMPLE.org/A", true),
            ("http://www.example.org/ab", false),
            ("http://BAR/whatever", true),
            ("http://bar.example", false),
        ] {
            assert_eq!(is_valid(&listed, Some(referer)), valid, "{referer}");
        }
        let long = |len: usize| ["http://".to_owned(), "a".repeat(len)].concat();
        listed.patterns.push(Regex::new(".*", true).expect("it compiles"));
        assert!(is_valid(&listed, Some(&long(256))));
        assert!(!is_valid(&listed, Some(&long(257))));
    }
}
