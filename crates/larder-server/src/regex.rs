//! Regular expressions: PCRE2 as nginx uses it, with a limit on the work of one match.
//!
//! A match that reaches a limit is an error: neither a match nor a mismatch. The caller must not go on as if the text
//! did not match.

mod sieve;

use std::cell::RefCell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use pcre2::bytes::{CaptureLocations, RegexBuilder};

pub use sieve::BytesSeen;
use sieve::Sieve;

/// The most steps of one match, as the default of PCRE2 and therefore of nginx: `^(a+)+$` gives up after a while.
const MATCH_LIMIT: u32 = 10_000_000;
/// The most memory for a match without JIT, KiB.
const HEAP_LIMIT_KIB: u32 = 64 * 1024;
/// `PCRE2_ERROR_JIT_STACKLIMIT`: the 32 KB of stack for compiled code were used up.
const JIT_STACK_LIMIT: i32 = -46;
/// For how many expressions a thread keeps memory for captures.
const LOCATIONS_MAX: u64 = 4096;

/// A compiled expression.
#[derive(Debug)]
pub struct Regex {
    inner: pcre2::bytes::Regex,
    /// The bytes that every text with a match has.
    needs: BytesSeen,
    /// What can be said without it.
    sieve: Option<Box<Sieve>>,
    written: Box<Written>,
    /// The number of the expression in this process, for the thread's memory for captures.
    id: u64,
    groups: usize,
    names: Vec<(usize, String)>,
}

/// The source of an expression, for texts that the compiled one cannot match.
#[derive(Debug)]
struct Written {
    source: Box<str>,
    caseless: bool,
    /// The most steps of one match.
    steps: u32,
    /// The expression without JIT, as nginx matches by default: it uses a heap instead of the small stack of compiled
    /// code.
    patient: OnceLock<Option<pcre2::bytes::Regex>>,
}

/// Where a match and its first nine groups are, from and to. A group that took no part is nowhere.
pub type Groups = [Option<(usize, usize)>; 10];

/// Matching had no result.
#[derive(Debug, thiserror::Error)]
#[error("pcre2_match() failed: {} ({source}) using \"{pattern}\"", source.code())]
pub struct MatchError {
    /// The expression as written.
    pattern: Box<str>,
    /// The limit that was reached.
    source: pcre2::Error,
}

/// The captures of the last match, as positions in a copy of the text.
#[derive(Clone, Debug, Default)]
pub struct Captures {
    subject: Vec<u8>,
    groups: Vec<Option<(usize, usize)>>,
}

impl Captures {
    /// Forgets all captures, and keeps the memory.
    pub fn clear(&mut self) {
        self.subject.clear();
        self.groups.clear();
    }

    /// Keeps the captures of a match in `text`, if there was one; returns whether there was.
    fn take(&mut self, matched: bool, text: &[u8], groups: usize, locations: &CaptureLocations) -> bool {
        if matched {
            self.clear();
            self.subject.extend_from_slice(text);
            self.groups.extend((0..=groups).map(|group| locations.get(group)));
        }
        matched
    }

    /// Capture `n`; `None` if that group took no part in the match or does not exist.
    pub fn get(&self, n: usize) -> Option<&[u8]> {
        let (start, end) = (*self.groups.get(n)?)?;
        self.subject.get(start..end)
    }
}

/// The memory for captures of an expression that the thread has used, at the place of its number.
type Place = Option<(u64, CaptureLocations)>;

thread_local! {
    static LOCATIONS: RefCell<Vec<Place>> = const { RefCell::new(Vec::new()) };
}

/// Lends the thread's memory for the captures of `regex`. Two expressions that share a place take it from each other.
fn with_locations<R>(regex: &Regex, f: impl FnOnce(&mut CaptureLocations) -> R) -> R {
    LOCATIONS.with_borrow_mut(|all| {
        let place = (regex.id % LOCATIONS_MAX) as usize;
        if all.len() <= place {
            all.resize_with(place + 1, || None);
        }
        let kept = all[place].take().filter(|(id, _)| *id == regex.id);
        let (_, locations) = all[place].insert(kept.unwrap_or_else(|| (regex.id, regex.inner.capture_locations())));
        f(locations)
    })
}

impl Regex {
    /// Compiles a pattern. An error has PCRE2's own words, and as in nginx the rest of the pattern.
    pub fn new(source: &str, caseless: bool) -> Result<Self, String> {
        Self::limited(source, caseless, MATCH_LIMIT)
    }

    /// The same; a match fails that takes more than so many `steps`.
    pub fn limited(source: &str, caseless: bool, steps: u32) -> Result<Self, String> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let inner = compile(source, caseless, steps, true).map_err(|error| why_not(&error, source, steps))?;
        let names: Vec<_> = inner
            .capture_names()
            .iter()
            .enumerate()
            .filter_map(|(group, name)| Some((group, name.clone()?.to_lowercase())))
            .collect();
        let groups = inner.captures_len().saturating_sub(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let written = Box::new(Written { source: source.into(), caseless, steps, patient: OnceLock::new() });
        let sieve = if caseless { None } else { Sieve::of(source).map(Box::new) };
        let needs = sieve.as_deref().map(Sieve::needs).unwrap_or_default();
        Ok(Self { inner, needs, sieve, written, id, groups, names })
    }

    /// The named groups: number and name in lower case.
    pub fn names(&self) -> &[(usize, String)] {
        &self.names
    }

    /// The number of groups.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// Whether `text` matches; then `out` holds the captures.
    pub fn matches(&self, text: &[u8], out: &mut Captures) -> Result<bool, MatchError> {
        if self.groups == 0 {
            let matched = self.is_match(text)?;
            if matched {
                out.clear();
            }
            return Ok(matched);
        }
        with_locations(self, |locations| match self.inner.captures_read(locations, text) {
            Ok(found) => Ok(out.take(found.is_some(), text, self.groups, locations)),
            Err(error) => self.match_patiently(error, text, out),
        })
    }

    /// Whether a text with these bytes may match. Where that is false, it does not.
    #[inline]
    pub fn may_match(&self, seen: BytesSeen) -> bool {
        seen.has(self.needs)
    }

    /// Whether `text` matches, without captures.
    pub fn is_match(&self, text: &[u8]) -> Result<bool, MatchError> {
        if let Some(is_match) = self.sieve.as_ref().and_then(|sieve| sieve.decides(text)) {
            return Ok(is_match);
        }
        // Not by the pool of the library, which other threads take a lock of.
        with_locations(self, |locations| self.inner.captures_read(locations, text))
            .map(|found| found.is_some())
            .or_else(|error| self.match_patiently(error, text, &mut Captures::default()))
    }

    /// The first match at or behind `start`: the bytes of the whole and of the first nine groups.
    pub fn find_at(&self, text: &[u8], start: usize) -> Result<Option<Groups>, MatchError> {
        if start == 0 && self.sieve.as_ref().and_then(|sieve| sieve.decides(text)) == Some(false) {
            return Ok(None);
        }
        let of = |locations: &CaptureLocations| std::array::from_fn(|group| locations.get(group));
        with_locations(self, |locations| match self.inner.captures_read_at(locations, text, start) {
            Ok(found) => Ok(found.map(|_| of(locations))),
            Err(error) => {
                let (patient, mut locations) = self.patient(error)?;
                let found = patient.captures_read_at(&mut locations, text, start);
                Ok(found.map_err(|error| self.failed(error))?.map(|_| of(&locations)))
            }
        })
    }

    /// Matches without JIT if its stack was too small. The memory for that is freed at once.
    fn match_patiently(&self, why: pcre2::Error, text: &[u8], out: &mut Captures) -> Result<bool, MatchError> {
        let (patient, mut locations) = self.patient(why)?;
        let found = patient.captures_read(&mut locations, text).map_err(|error| self.failed(error))?.is_some();
        Ok(out.take(found, text, self.groups, &locations))
    }

    /// The expression without JIT, if the stack of that was too small.
    fn patient(&self, why: pcre2::Error) -> Result<(&pcre2::bytes::Regex, CaptureLocations), MatchError> {
        let Written { source, caseless, steps, patient } = &*self.written;
        if why.code() != JIT_STACK_LIMIT {
            return Err(self.failed(why));
        }
        match patient.get_or_init(|| compile(source, *caseless, *steps, false).ok()) {
            Some(patient) => Ok((patient, patient.capture_locations())),
            None => Err(self.failed(why)),
        }
    }

    fn failed(&self, source: pcre2::Error) -> MatchError {
        MatchError { pattern: self.written.source.clone(), source }
    }
}

fn compile(source: &str, caseless: bool, steps: u32, jit: bool) -> Result<pcre2::bytes::Regex, pcre2::Error> {
    RegexBuilder::new().caseless(caseless).jit_if_available(jit).build(&(limits(steps) + source))
}

/// What stands before each pattern.
fn limits(steps: u32) -> String {
    format!("(*LIMIT_MATCH={steps})(*LIMIT_HEAP={HEAP_LIMIT_KIB})")
}

fn why_not(error: &pcre2::Error, source: &str, steps: u32) -> String {
    let text = error.to_string();
    let Some(offset) = error.offset() else { return text };
    let reason = text.split_once(&format!(" at offset {offset}: ")).map_or(&*text, |(_, reason)| reason);
    match offset.checked_sub(limits(steps).len()).and_then(|at| source.get(at..)).unwrap_or_default() {
        "" => format!("{reason} at its end"),
        rest => format!("{reason} at \"{rest}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_by_number() {
        let regex = Regex::new("^/(?<year>[0-9]+)/(x)?(.*)$", false).expect("the pattern is sound");
        let mut captures = Captures::default();
        assert!(regex.matches(b"/2026/page", &mut captures).expect("it is a short text"));
        assert_eq!(captures.get(1), Some(&b"2026"[..]));
        assert_eq!(captures.get(2), None, "a group that took no part");
        assert_eq!(captures.get(3), Some(&b"page"[..]));
        assert_eq!(captures.get(4), None, "a group that is not there");
        assert_eq!(regex.names(), [(1, "year".to_owned())]);
    }

    #[test]
    fn a_match_that_explodes_is_an_error() {
        let regex = Regex::new("^(a+)+$", false).expect("the pattern is sound");
        let text = [vec![b'a'; 5000], vec![b'!']].concat();
        let error = regex.matches(&text, &mut Captures::default()).expect_err("it cannot be found out");
        assert_eq!(
            error.to_string(),
            "pcre2_match() failed: -47 (PCRE2: error matching: match limit exceeded) using \"^(a+)+$\""
        );
        assert!(regex.is_match(&text).is_err());
    }

    #[test]
    fn a_match_takes_no_more_steps_than_it_may() {
        let text = [vec![b'a'; 200], vec![b'!']].concat();
        for (pattern, steps, is_found_out) in [
            ("^(a+)+$", 10_000, false),
            ("^[a-z]+$", 10_000, true),
            ("^a*a*a*$", 10_000_000, true),
            ("^a*a*a*$", 100, false),
        ] {
            let regex = Regex::limited(pattern, false, steps).expect("the pattern is sound");
            assert_eq!(regex.is_match(&text).ok(), is_found_out.then_some(false), "{pattern} {steps}");
        }
        assert_eq!(
            Regex::limited("(a", false, 100).err().unwrap_or_default(),
            "missing closing parenthesis at its end"
        );
    }

    #[test]
    fn a_match_deeper_than_the_stack_of_jit_is_found_as_nginx_finds_it() {
        for (pattern, text) in [
            ("^/capture/([^/]+/)*private/", ["/capture/", &"a/".repeat(1500), "private/"].concat()),
            ("(<|%3C).*script.*(>|%3E)", ["q=<script>", &"script".repeat(600)].concat()),
            ("^/dots/(?:.*/)*\\.ht", ["/dots/.ht", &"/a".repeat(20)].concat()),
        ] {
            let regex = Regex::new(pattern, false).expect("the pattern is sound");
            let mut captures = Captures::default();
            assert!(regex.matches(text.as_bytes(), &mut captures).expect("there is room"), "{pattern}");
            assert!(regex.is_match(text.as_bytes()).expect("there is room"), "{pattern}");
            if regex.groups() > 0 {
                assert!(captures.get(1).is_some(), "{pattern}");
            }
        }
    }

    #[test]
    fn a_bad_pattern_says_why() {
        for (pattern, expected) in [
            ("(a", "missing closing parenthesis at its end"),
            ("a{2,1}b", "numbers out of order in {} quantifier at \"}b\""),
            ("", ""),
        ] {
            assert_eq!(Regex::new(pattern, false).err().unwrap_or_default(), expected);
        }
    }
}
