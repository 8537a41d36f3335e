//! `map`: finds the entry of a string in nginx's order: exact, wildcards, regular expressions as they were written.

use std::collections::HashMap;

use larder_conf::model::MapKey;

/// Values up to this length are lower-cased without an allocation.
const STACK_BYTES: usize = 256;

/// The left sides of a `map`. Strings are compared without case.
#[derive(Debug, Default)]
pub struct Map {
    hostnames: bool,
    exact: HashMap<Box<[u8]>, usize>,
    /// `*.example.org` and `.example.org` by `example.org`.
    heads: HashMap<Box<[u8]>, Head>,
    /// `www.*` by `www`.
    tails: HashMap<Box<[u8]>, usize>,
    /// The entries that are regular expressions.
    regexes: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Head {
    entry: usize,
    /// Whether the name itself matches too, as with `.example.org`.
    with_itself: bool,
}

/// Why an entry cannot be used. The words are nginx's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MapError {
    /// With `hostnames`: two dots in a row, or a misplaced star.
    #[error("invalid hostname or wildcard \"{name}\"")]
    Invalid {
        /// The entry, counted from 0.
        entry: usize,
        /// The name as written.
        name: String,
    },
    /// An earlier entry is the same.
    #[error("conflicting parameter \"{name}\"")]
    Conflict {
        /// The entry, counted from 0.
        entry: usize,
        /// The name as written.
        name: String,
    },
}

/// The kind of a name with `hostnames`.
enum Kind<'a> {
    Exact,
    Head { base: &'a [u8], with_itself: bool },
    Tail { base: &'a [u8] },
}

impl Map {
    /// The table of `keys`; their places are the numbers of the entries. The backslash that protects a key (`\default`)
    /// must be removed already.
    pub fn new<'a>(hostnames: bool, keys: impl IntoIterator<Item = &'a MapKey>) -> Result<Self, MapError> {
        let mut map = Self { hostnames, ..Self::default() };
        for (entry, key) in keys.into_iter().enumerate() {
            match key {
                MapKey::Regex(_) => map.regexes.push(entry),
                MapKey::Text(name) => map.add(entry, name)?,
            }
        }
        Ok(map)
    }

    /// The entry of `value`; `None` for the default.
    ///
    /// `matches(n, value)` tells whether the `n`-th regular expression matches. It is called last and in order, and
    /// never with the empty string. The value it gets keeps its case; with `hostnames`, the dot at its end is removed.
    pub fn find(&self, value: &[u8], mut matches: impl FnMut(usize, &[u8]) -> bool) -> Option<usize> {
        let value = if self.hostnames { value.strip_suffix(b".").unwrap_or(value) } else { value };
        if let Some(entry) = self.find_text(value) {
            return Some(entry);
        }
        if value.is_empty() {
            return None;
        }
        let n = (0..self.regexes.len()).find(|&n| matches(n, value))?;
        self.regexes.get(n).copied()
    }

    fn add(&mut self, entry: usize, name: &str) -> Result<(), MapError> {
        let lower = name.to_ascii_lowercase().into_bytes();
        let kind = if self.hostnames { kind_of(&lower) } else { Some(Kind::Exact) };
        let conflict = match kind {
            None => {
                return Err(MapError::Invalid { entry, name: name.to_owned() });
            }
            Some(Kind::Exact) => {
                let dotted = self.heads.get(&*lower).is_some_and(|head| head.with_itself);
                self.exact.insert(lower.into(), entry).is_some() || dotted
            }
            Some(Kind::Head { base, with_itself }) => {
                let exact = with_itself && self.exact.contains_key(base);
                self.heads.insert(base.into(), Head { entry, with_itself }).is_some() || exact
            }
            Some(Kind::Tail { base }) => self.tails.insert(base.into(), entry).is_some(),
        };
        if conflict { Err(MapError::Conflict { entry, name: name.to_owned() }) } else { Ok(()) }
    }

    fn find_text(&self, value: &[u8]) -> Option<usize> {
        let mut stack = [0; STACK_BYTES];
        let heap;
        let lower: &[u8] = match stack.get_mut(..value.len()) {
            Some(lower) => {
                lower.copy_from_slice(value);
                lower.make_ascii_lowercase();
                lower
            }
            None => {
                heap = value.to_ascii_lowercase();
                &heap
            }
        };
        if let Some(&entry) = self.exact.get(lower) {
            return Some(entry);
        }
        self.find_head(lower).or_else(|| self.find_tail(lower))
    }

    /// The longest `*.name` or `.name` that matches.
    fn find_head(&self, value: &[u8]) -> Option<usize> {
        if self.heads.is_empty() {
            return None;
        }
        if let Some(head) = self.heads.get(value)
            && head.with_itself
        {
            return Some(head.entry);
        }
        memchr::memchr_iter(b'.', value).find_map(|dot| self.heads.get(&value[dot + 1..])).map(|head| head.entry)
    }

    /// The longest `name.*` that matches.
    fn find_tail(&self, value: &[u8]) -> Option<usize> {
        if self.tails.is_empty() {
            return None;
        }
        memchr::memrchr_iter(b'.', value).find_map(|dot| self.tails.get(&value[..dot])).copied()
    }
}

/// The kind of a name, as in nginx's hash of wildcards; `None` for one that nginx refuses.
fn kind_of(name: &[u8]) -> Option<Kind<'_>> {
    let stars = name.iter().filter(|&&byte| byte == b'*').count();
    if stars > 1 || name.windows(2).any(|pair| pair == b"..") || name.contains(&0) {
        return None;
    }
    match name {
        [b'.', base @ ..] if !base.is_empty() => Some(Kind::Head { base, with_itself: true }),
        [b'*', b'.', base @ ..] if !base.is_empty() => Some(Kind::Head { base, with_itself: false }),
        [base @ .., b'.', b'*'] if !base.is_empty() => Some(Kind::Tail { base }),
        _ if stars > 0 => None,
        _ => Some(Kind::Exact),
    }
}

#[cfg(test)]
mod tests {
    use larder_conf::Span;
    use larder_conf::model::Pattern;

    use super::*;

    fn keys(list: &[&str]) -> Vec<MapKey> {
        let span = Span { file: 0, start: 0, end: 0 };
        let key = |text: &&str| match text.strip_prefix('~') {
            Some(source) => MapKey::Regex(Pattern { source: source.to_owned(), caseless: false, span }),
            None => MapKey::Text((*text).to_owned()),
        };
        list.iter().map(key).collect()
    }

    /// The key found for `value`; a "regular expression" here matches what begins with it.
    fn found<'a>(hostnames: bool, list: &'a [&'a str], value: &str) -> &'a str {
        let map = Map::new(hostnames, &keys(list)).expect("the keys are sound");
        let patterns: Vec<&[u8]> = list.iter().filter_map(|key| key.strip_prefix('~')).map(str::as_bytes).collect();
        let entry = map.find(value.as_bytes(), |n, value| value.starts_with(patterns[n]));
        entry.map_or("default", |entry| list[entry])
    }

    /// Each line was compared with nginx 1.22.
    #[test]
    fn names_are_found_in_nginxs_order() {
        let list =
            ["example.com", ".dot.com", "*.star.com", "*.com", "*.a.star.com", "www.*", "www.example.*", "~re", "~ex"];
        for (value, key) in [
            ("example.com", "example.com"),
            ("EXAMPLE.com.", "example.com"),
            ("dot.com", ".dot.com"),
            ("a.dot.com", ".dot.com"),
            (".dot.com", ".dot.com"),
            ("star.com", "*.com"),
            ("x.star.com", "*.star.com"),
            ("a.star.com", "*.star.com"),
            ("b.a.star.com", "*.a.star.com"),
            ("other.com", "*.com"),
            (".com", "*.com"),
            ("com", "default"),
            ("www.foo", "www.*"),
            ("www.example.org", "www.example.*"),
            ("www.example.com", "*.com"),
            ("www.example.", "www.*"),
            ("www.", "default"),
            ("www", "default"),
            ("reX", "~re"),
            ("REX", "default"),
            ("ex", "~ex"),
            ("", "default"),
        ] {
            assert_eq!(found(true, &list, value), key, "{value}");
        }
    }

    #[test]
    fn without_hostnames_names_are_strings() {
        let list = ["a", "B", "", "*.com", ".dot.com", "~x", "a b"];
        for (value, key) in [
            ("a", "a"),
            ("A", "a"),
            ("b", "B"),
            ("B", "B"),
            ("", ""),
            ("*.com", "*.com"),
            ("x.com", "~x"),
            ("y.com", "default"),
            ("dot.com", "default"),
            ("a.", "default"),
            ("A b", "a b"),
        ] {
            assert_eq!(found(false, &list, value), key, "{value}");
        }
        let long = "L".repeat(1000);
        assert_eq!(found(false, &[&long], &long.to_lowercase()), long);
    }

    #[test]
    fn what_nginx_refuses_is_refused() {
        let invalid = |entry, name: &str| Err(MapError::Invalid { entry, name: name.to_owned() });
        let conflict = |entry, name: &str| Err(MapError::Conflict { entry, name: name.to_owned() });
        for (hostnames, list, expected) in [
            (true, &["a..b"][..], invalid(0, "a..b")),
            (true, &["*.*"], invalid(0, "*.*")),
            (true, &["a", "w*w"], invalid(1, "w*w")),
            (true, &["*"], invalid(0, "*")),
            (true, &["*."], invalid(0, "*.")),
            (true, &["."], Ok(())),
            (true, &["a", "A"], conflict(1, "A")),
            (true, &[".a", "*.a"], conflict(1, "*.a")),
            (true, &["a", ".a"], conflict(1, ".a")),
            (true, &[".a", "a"], conflict(1, "a")),
            (true, &["*.a", "a"], Ok(())),
            (true, &["a.*", "*.a", "a"], Ok(())),
            (false, &["a", "A"], conflict(1, "A")),
            (false, &["a..b", "*", "~a", "~a"], Ok(())),
        ] {
            assert_eq!(Map::new(hostnames, &keys(list)).map(|_| ()), expected, "{list:?}");
        }
    }
}
