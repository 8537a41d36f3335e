//! `Cache-Control` of requests and responses (RFC 9111 §5.2, RFC 5861, RFC 8246).

use super::Fields;
use super::known::Known;
use super::list::{members, trim};

/// What all `Cache-Control` lines of a message say together.
///
/// - Of a directive with a number the first one counts, wherever it stands (§4.2.1).
/// - A number that cannot be read makes `max-age` and `s-maxage` 0, so that the response is stale (§4.2.1);
///   every other directive with such a number counts as absent. Numbers may stand in quotes; what is too
///   large becomes 2^31 (§1.2.2).
/// - An argument where none is allowed is passed over: `no-store=1` is `no-store`.
/// - `no-cache` and `private` without names beat the forms with names; the names of several lines add up.
/// - Directives that nobody here knows are passed over.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[allow(missing_docs, reason = "the fields are the directives themselves")]
pub struct CacheControl {
    pub no_store: bool,
    pub no_cache: Qualified,
    pub private: Qualified,
    pub public: bool,
    pub must_revalidate: bool,
    pub proxy_revalidate: bool,
    pub must_understand: bool,
    pub no_transform: bool,
    pub immutable: bool,
    pub only_if_cached: bool,
    /// Seconds.
    pub max_age: Option<u64>,
    /// Seconds.
    pub s_maxage: Option<u64>,
    /// Seconds.
    pub stale_while_revalidate: Option<u64>,
    /// Seconds.
    pub stale_if_error: Option<u64>,
    pub max_stale: Option<MaxStale>,
    /// Seconds.
    pub min_fresh: Option<u64>,
}

/// A directive that holds for the whole response or for some of its fields.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Qualified {
    /// The directive is not there.
    #[default]
    Absent,
    /// It holds for the response.
    Whole,
    /// It holds for the fields of these names, in lower case.
    Fields(Vec<Box<str>>),
}

impl Qualified {
    /// Whether the directive is there without names.
    pub fn is_whole(&self) -> bool {
        *self == Qualified::Whole
    }
}

/// How stale a response a client takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MaxStale {
    /// However stale it is.
    Any,
    /// By this many seconds at most.
    Secs(u64),
}

/// What a number of seconds that is too large becomes (RFC 9111 §1.2.2).
const SECS_MAX: u64 = 1 << 31;

impl CacheControl {
    /// What the `Cache-Control` lines of a message say.
    pub fn of(fields: &Fields) -> CacheControl {
        CacheControl::parse(fields.all_known(Known::CacheControl))
    }

    /// Reads all lines of a message; also `CDN-Cache-Control` and the like, which have the same directives.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> CacheControl {
        let mut all = CacheControl::default();
        for directive in lines.into_iter().flat_map(members) {
            all.add(directive);
        }
        all
    }

    fn add(&mut self, directive: &[u8]) {
        let (name, argument) = match memchr::memchr(b'=', directive) {
            Some(equals) => (trim(&directive[..equals]), Some(&directive[equals + 1..])),
            None => (directive, None),
        };
        // White space around the equals sign is not allowed, so such a number cannot be read.
        let is_spaced = argument.is_some() && name.len() + 1 + argument.map_or(0, <[u8]>::len) != directive.len();
        let number = argument.filter(|_| !is_spaced).and_then(seconds);
        let mut folded = [0; LONGEST_NAME];
        let Some(folded) = folded.get_mut(..name.len()) else {
            return;
        };
        folded.copy_from_slice(name);
        folded.make_ascii_lowercase();
        match &*folded {
            b"no-store" => self.no_store = true,
            b"no-cache" => self.no_cache.add(argument),
            b"private" => self.private.add(argument),
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"must-understand" => self.must_understand = true,
            b"no-transform" => self.no_transform = true,
            b"immutable" => self.immutable = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => first(&mut self.max_age, Some(number.unwrap_or(0))),
            b"s-maxage" => first(&mut self.s_maxage, Some(number.unwrap_or(0))),
            b"stale-while-revalidate" => first(&mut self.stale_while_revalidate, number),
            b"stale-if-error" => first(&mut self.stale_if_error, number),
            b"min-fresh" => first(&mut self.min_fresh, number),
            b"max-stale" if argument.is_none() => first(&mut self.max_stale, Some(MaxStale::Any)),
            b"max-stale" => first(&mut self.max_stale, number.map(MaxStale::Secs)),
            _ => {}
        }
    }
}

/// The length of `stale-while-revalidate`, the longest name that is looked for.
const LONGEST_NAME: usize = 22;

fn first<T>(slot: &mut Option<T>, value: Option<T>) {
    if slot.is_none() {
        *slot = value;
    }
}

/// A number of seconds, perhaps in quotes.
fn seconds(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")).unwrap_or(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(crate::decimal(text).unwrap_or(SECS_MAX).min(SECS_MAX))
}

impl Qualified {
    /// Adds one occurrence. An argument without any name in it counts as none, which is the stricter reading.
    fn add(&mut self, argument: Option<&[u8]>) {
        let list = trim(argument.unwrap_or_default());
        let list = list.strip_prefix(b"\"").map_or(list, |rest| rest.strip_suffix(b"\"").unwrap_or(rest));
        let names: Vec<Box<str>> =
            members(list).map(|name| String::from_utf8_lossy(name).to_ascii_lowercase().into()).collect();
        match self {
            _ if names.is_empty() => *self = Qualified::Whole,
            Qualified::Absent => *self = Qualified::Fields(names),
            Qualified::Fields(before) => before.extend(names),
            Qualified::Whole => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(lines: &[&str]) -> CacheControl {
        CacheControl::parse(lines.iter().map(|line| line.as_bytes()))
    }

    #[test]
    fn the_first_readable_or_not_max_age_decides() {
        for (lines, secs) in [
            (&[][..], None),
            (&["max-age=60"], Some(60)),
            (&["MAX-AGE=60"], Some(60)),
            (&["max-age=\"60\""], Some(60)),
            (&["max-age=007"], Some(7)),
            (&["public, max-age=60"], Some(60)),
            (&["public", "max-age=60"], Some(60)),
            (&["max-age=1, max-age=60"], Some(1)),
            (&["max-age=60", "max-age=1"], Some(60)),
            (&["max-age=-1"], Some(0)),
            (&["max-age=1.5"], Some(0)),
            (&["max-age='60'"], Some(0)),
            (&["max-age= 60"], Some(0)),
            (&["max-age =60"], Some(0)),
            (&["max-age"], Some(0)),
            (&["max-age="], Some(0)),
            (&["max-age=x, max-age=60"], Some(0)),
            (&["max-age=99999999999999999999999"], Some(SECS_MAX)),
            (&["max-age=2147483649"], Some(SECS_MAX)),
            (&["x-max-age=60, foo=\"max-age=60\", max-age-x=1"], None),
            (&["foo=\"a, max-age=60"], None),
            (&["a-directive-with-a-name-that-is-longer-than-any-we-know=1"], None),
        ] {
            assert_eq!(parse(lines).max_age, secs, "{lines:?}");
        }
    }

    #[test]
    fn other_unreadable_numbers_count_as_absent() {
        let all = parse(&["s-maxage=x, stale-while-revalidate=x, stale-if-error=-1, min-fresh, max-stale=x"]);
        assert_eq!(all, CacheControl { s_maxage: Some(0), ..CacheControl::default() });
        let all = parse(&["stale-while-revalidate=x, stale-while-revalidate=5, stale-if-error=6, min-fresh=7"]);
        assert_eq!((all.stale_while_revalidate, all.stale_if_error, all.min_fresh), (Some(5), Some(6), Some(7)));
    }

    #[test]
    fn max_stale_may_have_a_number() {
        for (line, expected) in [
            ("max-stale", Some(MaxStale::Any)),
            ("max-stale=5", Some(MaxStale::Secs(5))),
            ("max-stale=", None),
            ("", None),
        ] {
            assert_eq!(parse(&[line]).max_stale, expected, "{line}");
        }
    }

    #[test]
    fn private_and_no_cache_may_name_fields() {
        let names = |list: &[&str]| Qualified::Fields(list.iter().map(|&name| name.into()).collect());
        for (lines, expected) in [
            (&["public"][..], Qualified::Absent),
            (&["no-cache"], Qualified::Whole),
            (&["No-Cache"], Qualified::Whole),
            (&["no-cache=\"Set-Cookie, x\""], names(&["set-cookie", "x"])),
            (&["no-cache=x"], names(&["x"])),
            (&["no-cache=\"\""], Qualified::Whole),
            (&["no-cache="], Qualified::Whole),
            (&["no-cache=\"x"], names(&["x"])),
            (&["no-cache=x", "no-cache"], Qualified::Whole),
            (&["no-cache", "no-cache=x"], Qualified::Whole),
            (&["no-cache=x", "no-cache=y"], names(&["x", "y"])),
        ] {
            assert_eq!(parse(lines).no_cache, expected, "{lines:?}");
            let lines: Vec<_> =
                lines.iter().map(|line| line.to_ascii_lowercase().replace("no-cache", "private")).collect();
            let lines: Vec<_> = lines.iter().map(String::as_str).collect();
            assert_eq!(parse(&lines).private, expected, "{lines:?}");
        }
    }

    #[test]
    fn flags_are_found_with_or_without_an_argument() {
        let all = parse(&[
            "no-store=1, public, must-revalidate, proxy-revalidate, must-understand, no-transform, immutable",
            "only-if-cached",
        ]);
        let expected = CacheControl {
            no_store: true,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            no_transform: true,
            immutable: true,
            only_if_cached: true,
            ..CacheControl::default()
        };
        assert_eq!(all, expected);
    }
}
