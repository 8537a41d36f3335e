//! Which requests a variant answers: RFC 9111 §4.1.
//!
//! Values are compared in a normal form: the lines of a field joined by commas, the whitespace around
//! commas and empty members left out, quoted strings untouched. A field that is absent and one that is
//! empty are the same, as nginx has it.

use larder_http::list::members;
use larder_http::vary::{Vary, parse};
use larder_http::{Fields, Known};
use xxhash_rust::xxh3::Xxh3Default;

/// How a request tells the lines of one of its fields, one call for each.
///
/// [`selecting`] makes one of the fields of a request.
pub type Selecting<'a> = dyn Fn(&str, EachLine<'_>) + 'a;

/// Takes the lines of a field, one a call.
pub type EachLine<'a> = &'a mut dyn FnMut(&[u8]);

/// The [`Selecting`] of a request's fields.
pub fn selecting(fields: &Fields) -> impl Fn(&str, EachLine<'_>) + '_ {
    |name, line| fields.get_all(name).for_each(line)
}

/// A name, its value in normal form, and as it was sent.
pub(crate) type Part = (Box<str>, Box<[u8]>, Option<Box<[u8]>>);

/// The names in a `Vary`, each with what the request had that filled the variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryKey {
    /// In the order of their names, none twice.
    pairs: Box<[Pair]>,
}

/// A field of the request that filled a variant.
#[derive(Clone, Debug)]
struct Pair {
    /// In lower case.
    name: Box<str>,
    /// In normal form; what counts.
    value: Box<[u8]>,
    /// As it was sent, if in one line: most requests send the very same bytes, which is seen at once.
    sent: Option<Box<[u8]>>,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Pair {}

impl VaryKey {
    /// The key of a response that varies by nothing: it answers every request.
    pub fn none() -> Self {
        Self::default()
    }

    /// The key of a response with these fields to this request; `None` for `Vary: *`, which matches nothing.
    pub fn of(response: &Fields, request: &Selecting<'_>) -> Option<Self> {
        match parse(response.all_known(Known::Vary)) {
            Vary::Any => None,
            Vary::Nothing => Some(Self::none()),
            Vary::Names(names) => {
                let names = names.iter().map(|name| {
                    let mut name = String::from_utf8_lossy(name).into_owned();
                    name.make_ascii_lowercase();
                    name.into_boxed_str()
                });
                Some(Self::with_names(names.collect(), request))
            }
        }
    }

    /// What `request` has under lower-case `names`.
    pub(crate) fn with_names(mut names: Vec<Box<str>>, request: &Selecting<'_>) -> Self {
        names.sort_unstable();
        names.dedup();
        let pairs = names.into_iter().map(|name| {
            let mut value = Vec::new();
            normal(request, &name, &mut |byte| value.push(byte));
            let mut lines = 0;
            let mut sent = None;
            request(&name, &mut |line| {
                lines += 1;
                sent = (lines == 1).then(|| line.into());
            });
            Pair { name, value: value.into_boxed_slice(), sent }
        });
        Self { pairs: pairs.collect() }
    }

    /// Whether it varies by nothing.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The names, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|pair| &*pair.name)
    }

    /// Each name with its value in normal form, and as it was sent.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, &[u8], Option<&[u8]>)> {
        self.pairs.iter().map(|pair| (&*pair.name, &*pair.value, pair.sent.as_deref()))
    }

    /// The key of such parts.
    pub(crate) fn from_parts(parts: Vec<Part>) -> Self {
        let mut pairs: Vec<Pair> = parts.into_iter().map(|(name, value, sent)| Pair { name, value, sent }).collect();
        pairs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        pairs.dedup_by(|a, b| a.name == b.name);
        Self { pairs: pairs.into() }
    }

    /// Eight bits that tell most variants of a page apart, the same in every run; zero for one that varies by nothing.
    pub(crate) fn fingerprint(&self) -> u8 {
        if self.is_empty() {
            return 0;
        }
        let mut hash = Xxh3Default::new();
        for (name, value, _) in self.parts() {
            hash.update(name.as_bytes());
            hash.update(&[0]);
            hash.update(value);
            hash.update(&[0]);
        }
        (hash.digest() as u8).max(1)
    }

    /// Each name, in lower case, with its value in normal form.
    pub fn values(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.parts().map(|(name, value, _)| (name, value))
    }

    /// Whether `request` has the same values. Allocates nothing.
    pub fn matches(&self, request: &Selecting<'_>) -> bool {
        self.pairs.iter().all(|pair| pair.is_as_sent(request) || pair.matches(request))
    }

    /// Whether a request that matches this matches `other` for certain.
    pub(crate) fn covers(&self, other: &VaryKey) -> bool {
        other.pairs.iter().all(|pair| self.pairs.contains(pair))
    }

    /// The memory beside the value itself.
    pub(crate) fn heap_bytes(&self) -> usize {
        let text: usize = self.pairs.iter().map(Pair::text_bytes).sum();
        text + size_of_val(&*self.pairs)
    }
}

impl Pair {
    /// Whether the request has the field in one line with the very same bytes.
    fn is_as_sent(&self, request: &Selecting<'_>) -> bool {
        let Some(sent) = &self.sent else { return false };
        let mut lines = 0;
        let mut same = false;
        request(&self.name, &mut |line| {
            lines += 1;
            same = *line == **sent;
        });
        lines == 1 && same
    }

    /// Whether the request has the same value in normal form.
    fn matches(&self, request: &Selecting<'_>) -> bool {
        let mut rest: &[u8] = &self.value;
        let mut same = true;
        normal(request, &self.name, &mut |byte| match rest.split_first() {
            Some((&first, later)) if first == byte => rest = later,
            Some(_) | None => same = false,
        });
        same && rest.is_empty()
    }

    fn text_bytes(&self) -> usize {
        let sent = self.sent.as_ref().map_or(0, |sent| sent.len());
        self.name.len() + self.value.len() + sent
    }
}

/// Gives `out` the bytes of the normal form of a field.
fn normal(request: &Selecting<'_>, name: &str, out: &mut dyn FnMut(u8)) {
    let mut first = true;
    request(name, &mut |line| {
        for member in members(line) {
            if !first {
                out(b',');
            }
            first = false;
            member.iter().for_each(|&byte| out(byte));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        let mut fields = Fields::new();
        for (name, value) in lines {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        fields
    }

    #[test]
    fn a_variant_answers_the_requests_that_say_the_same() {
        type Lines = &'static [(&'static str, &'static str)];
        let cases: &[(&str, Lines, Lines, bool)] = &[
            ("", &[("Accept", "a")], &[("Accept", "b")], true),
            ("Accept", &[("Accept", "a")], &[("accept", "a")], true),
            ("accept", &[("Accept", "a")], &[("Accept", "b")], false),
            ("Accept", &[("Accept", "a, b")], &[("Accept", "a ,\tb,")], true),
            ("Accept", &[("Accept", "a,b")], &[("Accept", "a"), ("Accept", "b")], true),
            ("Accept", &[("Accept", "a,b")], &[("Accept", "a")], false),
            ("Accept", &[("Accept", "a")], &[("Accept", "a,b")], false),
            ("Accept", &[("Accept", "a,b")], &[("Accept", "b,a")], false),
            ("Accept", &[("Accept", "a b")], &[("Accept", "a  b")], false),
            ("Cookie", &[], &[("Cookie", "")], true),
            ("Cookie", &[], &[("Cookie", "a=1")], false),
            ("Cookie", &[("Cookie", "a=1")], &[], false),
            ("X", &[("X", "\"a, b\"")], &[("X", "\"a,b\"")], false),
            ("X", &[("X", "\"a\\\", b\"")], &[("X", "\"a\\\", b\"")], true),
            ("A, B", &[("A", "1"), ("B", "2")], &[("B", "2"), ("A", "1")], true),
            ("A, B", &[("A", "1"), ("B", "2")], &[("A", "1")], false),
        ];
        for (vary, filled_by, asked_by, same) in cases {
            let filled_by = fields(filled_by);
            let asked_by = fields(asked_by);
            let response = fields(&[("Vary", vary)]);
            let key = VaryKey::of(&response, &selecting(&filled_by)).expect("no asterisk");
            assert_eq!(key.matches(&selecting(&asked_by)), *same, "{vary}: {filled_by:?} {asked_by:?}");
            let other = VaryKey::of(&response, &selecting(&asked_by)).expect("no asterisk");
            assert_eq!(key == other, *same, "{vary}: keys are equal where requests match");
        }
    }

    #[test]
    fn names_are_one_set_and_an_asterisk_matches_nothing() {
        let request = fields(&[]);
        let response = fields(&[("Vary", "B, a"), ("vary", "A")]);
        let key = VaryKey::of(&response, &selecting(&request)).expect("no asterisk");
        assert_eq!(key.names().collect::<Vec<_>>(), ["a", "b"]);
        let any = fields(&[("Vary", "Accept, *")]);
        assert_eq!(VaryKey::of(&any, &selecting(&request)), None);
    }

    #[test]
    fn a_wider_key_covers_a_narrower_one() {
        let request = fields(&[("A", "1"), ("B", "2")]);
        let select = selecting(&request);
        let wide = VaryKey::with_names(vec!["a".into(), "b".into()], &select);
        let narrow = VaryKey::with_names(vec!["a".into()], &select);
        assert!(wide.covers(&narrow) && wide.covers(&VaryKey::none()));
        assert!(!narrow.covers(&wide));
    }
}
