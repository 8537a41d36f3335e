//! Searches for several texts at once, for `sub_filter`.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, Input, MatchKind};

/// The texts of one search.
#[derive(Debug)]
pub struct Needles {
    /// In lower case, as they were written.
    words: Vec<Box<[u8]>>,
    search: AhoCorasick,
    longest: usize,
    /// The bytes with which a text begins.
    begins: [bool; 256],
}

impl Needles {
    /// A search for `words`; `None` if there are none, or none that can be searched for.
    pub fn new(mut words: Vec<Box<[u8]>>) -> Option<Arc<Self>> {
        let mut begins = [false; 256];
        for word in &mut words {
            word.make_ascii_lowercase();
            let first = *word.first()?;
            begins[usize::from(first)] = true;
            begins[usize::from(first.to_ascii_uppercase())] = true;
        }
        let longest = words.iter().map(|word| word.len()).max()?;
        let search = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostFirst)
            .build(&words)
            .ok()?;
        Some(Arc::new(Self { words, search, longest, begins }))
    }

    /// The first match in `text` from `from` on: where it begins, where it ends, and which text it is.
    pub fn find(&self, text: &[u8], from: usize) -> Option<(usize, usize, usize)> {
        let found = self.search.find(Input::new(text).range(from..));
        found.map(|found| (found.start(), found.end(), found.pattern().as_usize()))
    }

    /// The first place from `from` on where the end of `text` is the beginning of a searched text, and the first such
    /// text.
    pub fn partial(&self, text: &[u8], from: usize) -> Option<(usize, usize)> {
        let first = from.max(text.len().saturating_sub(self.longest - 1));
        (first..text.len()).filter(|&at| self.begins[usize::from(text[at])]).find_map(|at| {
            let end = &text[at..];
            let begins = |word: &[u8]| word.len() > end.len() && word[..end.len()].eq_ignore_ascii_case(end);
            Some((at, self.words.iter().position(|word| begins(word))?))
        })
    }

    /// The search without one text; `None` if that was the last.
    pub fn without(&self, index: usize) -> Option<Arc<Self>> {
        let mut words = self.words.clone();
        words.remove(index);
        Self::new(words)
    }
}
