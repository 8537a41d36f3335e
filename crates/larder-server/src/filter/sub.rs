//! `sub_filter`: replaces texts in a body (ngx_http_sub_filter).
//!
//! Texts are found without regard to case, however the body is cut into pieces. Of two matches at one place the text
//! that was configured first wins. Bytes that may become a match are held back.

use std::sync::Arc;

use super::change::{Fed, MADE_BYTES};
use super::needles::Needles;

/// Replaces texts in a body as it passes.
pub struct Substitution {
    /// `None` when all texts that are replaced once were found.
    needles: Option<Arc<Needles>>,
    /// The replacements, by needle.
    values: Vec<Vec<u8>>,
    once: bool,
    /// The end of the input that may become a match.
    held: Vec<u8>,
}

impl Substitution {
    /// A substitution at the beginning of its body. There is one value for each needle.
    pub fn new(needles: Arc<Needles>, values: Vec<Vec<u8>>, once: bool) -> Self {
        Self { needles: Some(needles), values, once, held: Vec::new() }
    }

    /// Takes bytes from `input`, and appends the changed ones.
    pub fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Fed {
        let held = std::mem::take(&mut self.held);
        if held.is_empty() {
            let (used, fed) = self.replace(input, false, out);
            *input = &input[used..];
            return fed;
        }
        let before = held.len();
        let text = [&held[..], input].concat();
        let (used, fed) = self.replace(&text, false, out);
        if used < before {
            // The held bytes begin with a match whose output is enough for now.
            self.held = held[used..].to_vec();
        } else {
            *input = &input[used - before..];
        }
        fed
    }

    /// Appends the held bytes at the end of the body.
    pub fn finish(mut self, out: &mut Vec<u8>) {
        let held = std::mem::take(&mut self.held);
        let mut rest = &held[..];
        while !rest.is_empty() {
            let (used, _) = self.replace(rest, true, out);
            rest = &rest[used..];
        }
    }

    /// Handles `text`, which was not searched yet; returns how much was used. Held bytes count as used.
    fn replace(&mut self, text: &[u8], is_end: bool, out: &mut Vec<u8>) -> (usize, Fed) {
        let enough = out.len() + MADE_BYTES;
        let mut at = 0;
        // Searched again only when its place was passed or a needle was removed.
        let mut partial = None;
        let mut partial_is_known = false;
        while let Some(needles) = &self.needles {
            if !partial_is_known || partial.is_some_and(|(place, _)| place < at) {
                partial = if is_end { None } else { needles.partial(text, at) };
                partial_is_known = true;
            }
            let found = needles.find(text, at);
            let found = found.filter(|(start, _, index)| partial.is_none_or(|partial| (*start, *index) < partial));
            let Some((start, end, index)) = found else {
                let clear = partial.map_or(text.len(), |(place, _)| place);
                out.extend_from_slice(&text[at..clear]);
                self.held.extend_from_slice(&text[clear..]);
                return (text.len(), Fed::All);
            };
            out.extend_from_slice(&text[at..start]);
            out.extend_from_slice(&self.values[index]);
            at = end;
            if self.once {
                self.values.remove(index);
                self.needles = needles.without(index);
                partial_is_known = false;
            }
            if out.len() >= enough && at < text.len() {
                return (at, Fed::Some);
            }
        }
        out.extend_from_slice(&text[at..]);
        (text.len(), Fed::All)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filtered(pairs: &[(&str, &str)], once: bool, body: &str, piece: usize) -> String {
        let needles = Needles::new(pairs.iter().map(|(word, _)| word.as_bytes().into()).collect()).expect("needles");
        let values = pairs.iter().map(|(_, value)| value.as_bytes().to_vec()).collect();
        let mut sub = Substitution::new(needles, values, once);
        let mut out = Vec::new();
        for mut input in body.as_bytes().chunks(piece) {
            while sub.feed(&mut input, &mut out) == Fed::Some {}
            assert!(input.is_empty());
        }
        sub.finish(&mut out);
        String::from_utf8(out).expect("the cases are text")
    }

    #[test]
    fn texts_are_replaced_wherever_the_body_is_cut() {
        for (pairs, once, body, result) in [
            (&[("foo", "bar")][..], true, "foofoo", "barfoo"),
            (&[("foo", "bar")], false, "foofoo", "barbar"),
            (&[("foo", "bar")], false, "fofoo fo", "fobar fo"),
            (&[("foo", "bar")], false, "FoO fOO", "bar bar"),
            (&[("FOO", "")], false, "a foo b", "a  b"),
            (&[("abac", "-")], false, "abaabac ababac", "aba- ab-"),
            (&[("ababx", "-")], false, "abababX", "ab-"),
            (&[("aab", "-")], false, "aaaab", "aa-"),
            (&[("a", "b"), ("b", "a")], false, "aabb", "bbaa"),
            (&[("aab", "+"), ("yyz", "-")], true, "yyzyyzaabaabyyz", "-yyz+aabyyz"),
            // Of two at one place, the one written first wins.
            (&[("ab", "1"), ("abcd", "2")], false, "abcd ab", "1cd 1"),
            (&[("abcd", "2"), ("ab", "1")], false, "abcd ab", "2 1"),
            // An earlier beginning is waited for; if it becomes nothing, the match that it hid is found.
            (&[("abcdef", "1"), ("cd", "2")], false, "abcdeX", "ab2eX"),
            (&[("abcdef", "1"), ("cd", "2")], false, "abcd", "ab2"),
            (&[("模様", "pattern")], false, "ab模様模", "abpattern模"),
            (&[("x", "longer than before")], false, "xx", "longer than beforelonger than before"),
            (&[("a", "1"), ("b", "2"), ("c", "3")], true, "cbacba", "321cba"),
        ] {
            for piece in [1, 2, 3, 5, 1000] {
                assert_eq!(filtered(pairs, once, body, piece), result, "{pairs:?} in {body:?} by {piece}");
            }
        }
    }

    #[test]
    fn only_what_may_match_is_held_back() {
        for (body, passed) in [("xyz", "xy"), ("xya", "xya"), ("zz", "z"), ("za", "ZA"), ("z", "")] {
            let needles = Needles::new(vec![b"za"[..].into()]).expect("a needle");
            let mut sub = Substitution::new(needles, vec![b"ZA".to_vec()], false);
            let mut out = Vec::new();
            assert_eq!(sub.feed(&mut body.as_bytes(), &mut out), Fed::All);
            assert_eq!(String::from_utf8_lossy(&out), passed, "{body}");
        }
    }

    #[test]
    fn a_long_body_without_a_match_passes_whole() {
        let body = "no such word here, ".repeat(10_000);
        assert_eq!(filtered(&[("needle", "-"), ("another", "-")], false, &body, 4096), body);
    }

    #[test]
    fn nothing_to_look_for_is_no_search() {
        assert!(Needles::new(Vec::new()).is_none());
        assert!(Needles::new(vec![Box::default()]).is_none());
    }
}
