//! Which requests a variant answers: `Vary`, RFC 9111 §4.1.
//!
//! Values are compared in a normal form: the lines of a field are joined by commas, whitespace around commas and empty
//! members are removed, quoted strings stay. As in nginx, an absent field equals an empty one. For example,
//! `Accept-Language: de , en` equals `Accept-Language: de,en`.
//!
//! A variant may also depend on single cookies ([`litespeed`](crate::litespeed)): [`COOKIE`] and the name of one stands in
//! the place of a field's name. Their values are compared as they are.

use std::borrow::Cow;

use larder_http::list::members;
use larder_http::vary::{Vary, parse};
use larder_http::{Fields, Known};
use xxhash_rust::xxh3::Xxh3Default;

/// A request's fields for `Vary`: called with a name, it passes each line of that field to the callback.
///
/// [`selecting`] makes one from the fields of a request.
pub type Selecting<'a> = dyn Fn(&str, EachLine<'_>) + 'a;

/// The callback that gets the lines of a field, one in each call.
pub type EachLine<'a> = &'a mut dyn FnMut(&[u8]);

/// What comes before the name of a cookie in the place of a field's name, which has no colon.
pub const COOKIE: &str = "cookie:";

/// The [`Selecting`] of a request's fields.
pub fn selecting(fields: &Fields) -> impl Fn(&str, EachLine<'_>) + '_ {
    |name, line| match name.strip_prefix(COOKIE) {
        None => fields.get_all(name).for_each(line),
        Some(cookie) => each_value(fields, cookie, line),
    }
}

/// A name for people to read.
pub fn shown(name: &str) -> Cow<'_, str> {
    match name.strip_prefix(COOKIE) {
        None => name.into(),
        Some(cookie) => format!("cookie {cookie}").into(),
    }
}

/// The values of a cookie; the whole pair of one that PHP takes for it.
fn each_value(fields: &Fields, cookie: &str, line: EachLine<'_>) {
    for pair in fields.all_known(Known::Cookie).flat_map(|line| line.split(|byte| *byte == b';')) {
        let pair = trimmed(pair);
        let (name, value) = pair.split_at(pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len()));
        if name == cookie.as_bytes() {
            line(value.get(1..).unwrap_or_default());
        } else if is_cookie(name, cookie) {
            line(pair);
        }
    }
}

/// Whether a cookie that is sent as `sent` is this one in PHP, which makes `_` of some bytes, and lists of names with `[`:
/// `my.lang` is `my_lang`.
pub(crate) fn is_cookie(sent: &[u8], cookie: &str) -> bool {
    let sent = trimmed(sent);
    let made = |byte: u8| if matches!(byte, b'.' | b' ' | b'[') { b'_' } else { byte };
    let is = |sent: &[u8]| sent.iter().map(|byte| made(*byte)).eq(cookie.bytes().map(made));
    is(sent) || sent.iter().position(|byte| *byte == b'[').is_some_and(|at| is(&sent[..at]))
}

/// Without what PHP takes for space around a cookie: `isspace()`, which has one byte more than HTTP knows.
fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let start = text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    &text[start..end]
}

/// A field name, the value in normal form, and the value as it was sent.
pub(crate) type Part = (Box<str>, Box<[u8]>, Option<Box<[u8]>>);

/// The names in a `Vary`, each with the value of the request that filled the variant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VaryKey {
    /// Sorted by name, without duplicates.
    pairs: Box<[Pair]>,
}

/// One field of the request that filled a variant.
#[derive(Clone, Debug)]
struct Pair {
    /// In lower case.
    name: Box<str>,
    /// In normal form; this is what is compared.
    value: Box<[u8]>,
    /// As it was sent, if in one line. Most requests send the same bytes, which is quick to compare.
    sent: Option<Box<[u8]>>,
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.value == other.value
    }
}

impl Eq for Pair {}

impl VaryKey {
    /// The key of a response without `Vary`: it answers every request.
    pub fn none() -> Self {
        Self::default()
    }

    /// The key of a response with these fields to this request. `None` for `Vary: *`, which matches no request.
    pub fn of(response: &Fields, request: &Selecting<'_>) -> Option<Self> {
        Self::of_both(response, Vec::new(), request)
    }

    /// The same for a response that depends on these cookies, too; each with [`COOKIE`] before its name.
    pub fn of_both(response: &Fields, cookies: Vec<Box<str>>, request: &Selecting<'_>) -> Option<Self> {
        match parse(response.all_known(Known::Vary)) {
            Vary::Any => None,
            Vary::Nothing => Some(Self::of_cookies(cookies, request)),
            Vary::Names(names) => {
                let names = names.iter().map(|name| {
                    let mut name = String::from_utf8_lossy(name).into_owned();
                    name.make_ascii_lowercase();
                    name.into_boxed_str()
                });
                Some(Self::with_names(names.chain(cookies).collect(), request))
            }
        }
    }

    /// The key of a response that depends on these cookies alone.
    pub fn of_cookies(cookies: Vec<Box<str>>, request: &Selecting<'_>) -> Self {
        Self::with_names(cookies, request)
    }

    /// The key of `request` for these names, which are in lower case but for those of cookies.
    pub fn with_names(mut names: Vec<Box<str>>, request: &Selecting<'_>) -> Self {
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

    /// Whether the response had no `Vary`.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The names, in lower case.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|pair| &*pair.name)
    }

    /// The names for people to read, those of cookies as `cookie NAME`.
    pub fn shown(&self) -> String {
        self.names().map(shown).collect::<Vec<_>>().join(", ")
    }

    /// Each name with its value in normal form, and as it was sent.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&str, &[u8], Option<&[u8]>)> {
        self.pairs.iter().map(|pair| (&*pair.name, &*pair.value, pair.sent.as_deref()))
    }

    /// The key with these parts.
    pub(crate) fn from_parts(parts: Vec<Part>) -> Self {
        let mut pairs: Vec<Pair> = parts.into_iter().map(|(name, value, sent)| Pair { name, value, sent }).collect();
        pairs.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        pairs.dedup_by(|a, b| a.name == b.name);
        Self { pairs: pairs.into() }
    }

    /// Eight bits that tell most variants of a page apart, the same in every run; zero for a key without names.
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

    /// Whether every request that matches this key also matches `other`.
    pub(crate) fn covers(&self, other: &VaryKey) -> bool {
        other.pairs.iter().all(|pair| self.pairs.contains(pair))
    }

    /// The bytes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        let text: usize = self.pairs.iter().map(Pair::text_bytes).sum();
        text + size_of_val(&*self.pairs)
    }
}

impl Pair {
    /// Whether the request has the field in one line with the same bytes.
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

/// Passes the normal form of a field to `out`, byte by byte: the members of its list, in lower case where case means
/// nothing (RFC 9110 §12.5, RFC 9111 §4.1).
fn normal(request: &Selecting<'_>, name: &str, out: &mut dyn FnMut(u8)) {
    let mut first = true;
    if name.starts_with(COOKIE) {
        // An application may tell `de,` from `de`.
        return request(name, &mut |value| {
            if !first {
                out(b';');
            }
            first = false;
            value.iter().for_each(|byte| out(*byte));
        });
    }
    let ignores_case = matches!(name, "accept-charset" | "accept-encoding" | "accept-language");
    request(name, &mut |line| {
        for member in members(line) {
            if !first {
                out(b',');
            }
            first = false;
            member.iter().for_each(|byte| out(if ignores_case { byte.to_ascii_lowercase() } else { *byte }));
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
            ("Accept-Language", &[("Accept-Language", "en, de")], &[("Accept-Language", "eN,De")], true),
            ("Accept-Language", &[("Accept-Language", "en, de")], &[("Accept-Language", "de, en")], false),
            ("Cookie", &[("Cookie", "a")], &[("Cookie", "A")], false),
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
    fn a_variant_of_a_cookie_answers_the_requests_with_its_value() {
        for (filled_by, asked_by, same) in [
            ("", "", true),
            ("", "b=1", true),
            ("a=1", "", false),
            ("", "a=1", false),
            ("", "a=", true),
            ("", "a", true),
            ("a=1", "b=2; a=1", true),
            ("a=1; b=2", "c=3;a=1", true),
            ("a=1", "a=2", false),
            ("a=1", "A=1", false),
            ("a=1", "aa=1", false),
            ("a=1", "a=1,", false),
            ("a=1,2", "a=1, 2", false),
            ("a=x=y", "a=x=y", true),
            ("a=1", "a=1; a=2", false),
            ("a=1", "a=2; a=1", false),
            ("a=1; a=2", "a=1;2", false),
            // PHP takes them for the cookie.
            ("", "a[x]=1", false),
            ("a=1", "a[x]=1", false),
        ] {
            let (filled_by, asked_by) = (fields(&[("Cookie", filled_by)]), fields(&[("Cookie", asked_by)]));
            let of = |request| VaryKey::of_cookies(vec!["cookie:a".into()], &selecting(request));
            assert_eq!(of(&filled_by).matches(&selecting(&asked_by)), same, "{filled_by:?} {asked_by:?}");
            assert_eq!(of(&filled_by) == of(&asked_by), same, "{filled_by:?} {asked_by:?}");
        }
        for (sent, same) in [
            ("my_lang", true),
            ("my.lang", true),
            (" my lang", true),
            ("\x0bmy_lang\x0c", true),
            ("my[lang", true),
            ("mylang", false),
        ] {
            assert_eq!(is_cookie(sent.as_bytes(), "my_lang"), same, "{sent}");
        }
        let both = fields(&[("Vary", "Accept")]);
        let request = fields(&[("Cookie", "a=1"), ("Accept", "x")]);
        let key = VaryKey::of_both(&both, vec!["cookie:a".into()], &selecting(&request)).expect("no asterisk");
        assert_eq!(key.values().collect::<Vec<_>>(), [("accept", &b"x"[..]), ("cookie:a", b"1")]);
        assert_eq!(key.shown(), "accept, cookie a");
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
