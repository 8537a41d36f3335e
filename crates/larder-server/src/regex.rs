//! Regular expressions: PCRE2 as nginx uses it, with a bound on the work one match may do.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use pcre2::bytes::{CaptureLocations, RegexBuilder};

/// How many steps one match may take: a pattern such as `^(a+)+$` gives up after some milliseconds.
const MATCH_LIMIT: u32 = 1_000_000;
/// How many expressions a thread keeps room for captures of, before it starts anew.
const LOCATIONS_MAX: usize = 4096;

/// A compiled expression.
#[derive(Debug)]
pub struct Regex {
    inner: pcre2::bytes::Regex,
    /// Tells the expressions of a process apart, for the thread's own room for captures.
    id: u64,
    groups: usize,
    names: Vec<(usize, String)>,
}

/// What the groups of the last match took, as positions in a copy of the text.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<(usize, usize)>>,
}

impl Captures {
    /// Forgets everything, and keeps the room.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.groups.clear();
    }

    /// What group `n` took; `None` when it took no part in the match, or there is no such group.
    pub fn get(&self, n: usize) -> Option<&[u8]> {
        let (start, end) = (*self.groups.get(n)?)?;
        self.subject.get(start..end)
    }
}

thread_local! {
    static LOCATIONS: RefCell<HashMap<u64, CaptureLocations>> = RefCell::new(HashMap::new());
}

impl Regex {
    /// Compiles a pattern. The error is PCRE2's own words.
    pub fn new(source: &str, caseless: bool) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let inner = RegexBuilder::new()
            .caseless(caseless)
            .jit_if_available(true)
            .build(&format!("(*LIMIT_MATCH={MATCH_LIMIT}){source}"))
            .map_err(|error| error.to_string())?;
        let names: Vec<_> = inner
            .capture_names()
            .iter()
            .enumerate()
            .filter_map(|(group, name)| Some((group, name.clone()?.to_lowercase())))
            .collect();
        let groups = inner.captures_len().saturating_sub(1);
        Ok(Self { inner, id: NEXT.fetch_add(1, Ordering::Relaxed), groups, names })
    }

    /// The named groups: number and name in lower case.
    pub fn names(&self) -> &[(usize, String)] {
        &self.names
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Whether `text` matches; `out` then holds what the groups took. A match that takes too many steps is none.
    pub fn matches(&self, text: &[u8], out: &mut Captures) -> bool {
        if self.groups == 0 {
            let matched = self.is_match(text);
            if matched {
                out.clear();
            }
            return matched;
        }
        LOCATIONS.with_borrow_mut(|all| {
            if all.len() > LOCATIONS_MAX {
                all.clear();
            }
            let locations = all.entry(self.id).or_insert_with(|| self.inner.capture_locations());
            if !matches!(self.inner.captures_read(locations, text), Ok(Some(_))) {
                return false;
            }
            out.clear();
            out.subject.extend_from_slice(text);
            out.groups.extend((0..=self.groups).map(|group| locations.get(group)));
            true
        })
    }

    /// Whether `text` matches, when nobody asks for the captures.
    pub fn is_match(&self, text: &[u8]) -> bool {
        self.inner.is_match(text).unwrap_or(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_by_number() {
        let regex = Regex::new("^/(?<year>[0-9]+)/(x)?(.*)$", false).expect("the pattern is sound");
        let mut captures = Captures::default();
        assert!(regex.matches(b"/2026/page", &mut captures));
        assert_eq!(captures.get(1), Some(&b"2026"[..]));
        assert_eq!(captures.get(2), None, "a group that took no part");
        assert_eq!(captures.get(3), Some(&b"page"[..]));
        assert_eq!(captures.get(4), None, "a group that is not there");
        assert_eq!(regex.names(), [(1, "year".to_owned())]);
    }

    #[test]
    fn a_match_that_explodes_is_none() {
        let regex = Regex::new("^(a+)+$", false).expect("the pattern is sound");
        let text = [vec![b'a'; 5000], vec![b'!']].concat();
        assert!(!regex.matches(&text, &mut Captures::default()));
    }

    #[test]
    fn a_bad_pattern_says_why() {
        let error = Regex::new("(a", false).expect_err("the group is not closed");
        assert!(error.contains("parenthes"), "{error}");
    }
}
