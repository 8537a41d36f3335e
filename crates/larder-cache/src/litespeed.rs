//! What an application says to LiteSpeed's cache, as the plugins of LiteSpeed do: `X-LiteSpeed-Cache-Control` and
//! `X-LiteSpeed-Vary`.
//!
//! | field                                                        | says                                          |
//! | ------------------------------------------------------------ | --------------------------------------------- |
//! | `X-LiteSpeed-Cache-Control: public,max-age=604800`           | stored for all, a week                        |
//! | `X-LiteSpeed-Cache-Control: private,...`, `shared`           | for one visitor: not stored                   |
//! | `X-LiteSpeed-Cache-Control: no-cache`, `no-store`            | not stored                                    |
//! | `X-LiteSpeed-Cache-Control: ...,no-vary`                     | the same for all cookies                      |
//! | `X-LiteSpeed-Cache-Control: ...,esi=on`                      | has ESI in it                                 |
//! | `X-LiteSpeed-Vary: cookie=lang,cookie=currency`              | is another with other values of these cookies |
//! | `LSC-Cookie: a=1`                                            | a `Set-Cookie` that is stored with the page   |
//!
//! Source: LiteSpeed's developer guide of LSCache, and the plugins for WordPress and PrestaShop.

use std::time::Duration;

use larder_http::cache_control::delta_seconds;
use larder_http::list;
use larder_http::{Fields, Known};

use crate::vary::{COOKIE, is_cookie};

/// The fields, which are for the cache alone.
pub const FIELDS: [&str; 4] = [CACHE_CONTROL, VARY, "X-LiteSpeed-Tag", SHARED_COOKIE];
const CACHE_CONTROL: &str = "X-LiteSpeed-Cache-Control";
const VARY: &str = "X-LiteSpeed-Vary";
/// A cookie that all get who see the page.
pub const SHARED_COOKIE: &str = "LSC-Cookie";
/// The cookie by which pages always vary; the plugins keep the kind of a visitor in it.
const USUAL_COOKIE: &str = "_lscache_vary";
/// How many cookies a page may vary by.
const COOKIES_MAX: usize = 32;

/// What these fields say of storing a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// Nothing: the usual fields decide.
    Silent,
    /// It is not stored, for this reason.
    Not(&'static str),
    /// It is for all visitors. `None`: for a time that the configuration says.
    ForAll(Option<Duration>),
}

/// Whether a response with these fields is to be stored. What forbids it goes before what allows it, in every line.
pub fn storing(fields: &Fields) -> Storing {
    let (mut is_public, mut ttl, mut shared_ttl) = (false, None, None);
    for word in words(fields) {
        let (name, value) = split(word);
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        if is("no-store") {
            return Storing::Not("X-LiteSpeed-Cache-Control: no-store");
        } else if is("no-cache") {
            return Storing::Not("X-LiteSpeed-Cache-Control: no-cache");
        } else if is("private") || is("shared") {
            return Storing::Not("X-LiteSpeed-Cache-Control: private");
        } else if !name.is_empty() && !list::is_token(name) {
            return Storing::Not("X-LiteSpeed-Cache-Control, which cannot be read");
        } else if is("public") {
            is_public = true;
        } else if is("s-maxage") || is("max-age") {
            match value.and_then(delta_seconds) {
                Some(0) | None => return Storing::Not("X-LiteSpeed-Cache-Control: max-age"),
                seconds if is("s-maxage") => shared_ttl = shared_ttl.or(seconds),
                seconds => ttl = ttl.or(seconds),
            }
        }
    }
    match shared_ttl.or(ttl).map(Duration::from_secs) {
        None if !is_public => Storing::Silent,
        ttl => Storing::ForAll(ttl),
    }
}

/// Whether a response has ESI in it.
pub fn has_esi(fields: &Fields) -> bool {
    words(fields).any(|word| {
        let (name, value) = split(word);
        name.eq_ignore_ascii_case(b"esi") && value.is_some_and(|value| value.eq_ignore_ascii_case(b"on"))
    })
}

/// The cookies that a response varies by, as names of a [`VaryKey`](crate::VaryKey). An error says why it may not be
/// stored: it varies by what no request tells, or it changes one of these cookies, so that nobody knows for whom it was made.
pub fn varies_by(fields: &Fields) -> Result<Vec<Box<str>>, &'static str> {
    if words(fields).any(|word| word.eq_ignore_ascii_case(b"no-vary")) {
        return Ok(Vec::new());
    }
    const UNREADABLE: &str = "X-LiteSpeed-Vary, which cannot be read";
    let mut cookies: Vec<Box<str>> = vec![format!("{COOKIE}{USUAL_COOKIE}").into()];
    for word in fields.get_all(VARY).flat_map(|line| line.split(|byte| *byte == b',')).map(<[u8]>::trim_ascii) {
        let name = match split(word) {
            (b"", None) => continue,
            // `cookie=a,b` is of some plugins.
            (name, None) => name,
            (kind, Some(name)) if kind.eq_ignore_ascii_case(b"cookie") => name,
            (kind, Some(_)) if kind.eq_ignore_ascii_case(b"value") => return Err("X-LiteSpeed-Vary: value"),
            (_, Some(_)) => return Err(UNREADABLE),
        };
        let name = std::str::from_utf8(name).ok().filter(|name| !name.is_empty()).ok_or(UNREADABLE)?;
        cookies.push(format!("{COOKIE}{name}").into());
        if cookies.len() > COOKIES_MAX {
            return Err("X-LiteSpeed-Vary with too many cookies");
        }
    }
    let is_set = |line: &[u8]| {
        let name = line.split(|byte| matches!(byte, b'=' | b';')).next().unwrap_or(line);
        cookies.iter().filter_map(|cookie| cookie.strip_prefix(COOKIE)).any(|cookie| is_cookie(name, cookie))
    };
    match fields.all_known(Known::SetCookie).chain(fields.get_all(SHARED_COOKIE)).any(is_set) {
        true => Err("Set-Cookie of a cookie that the page varies by"),
        false => Ok(cookies),
    }
}

/// The words of `X-LiteSpeed-Cache-Control`.
fn words(fields: &Fields) -> impl Iterator<Item = &[u8]> {
    let lines = fields.get_all(CACHE_CONTROL);
    lines.flat_map(|line| line.split(|byte| matches!(byte, b',' | b';'))).map(<[u8]>::trim_ascii)
}

/// A word and what stands behind its `=`, without quotes.
fn split(word: &[u8]) -> (&[u8], Option<&[u8]>) {
    let Some(at) = word.iter().position(|byte| *byte == b'=') else { return (word, None) };
    let value = word[at + 1..].trim_ascii();
    let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    (word[..at].trim_ascii(), Some(bare))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> Fields {
        lines.iter().copied().collect()
    }

    #[test]
    fn a_page_is_stored_for_all_if_nothing_forbids_it() {
        let ttl = |seconds| Storing::ForAll(Some(Duration::from_secs(seconds)));
        let not = |why: &'static str| Storing::Not(why);
        let private = not("X-LiteSpeed-Cache-Control: private");
        for (value, expected) in [
            ("public,max-age=604800", ttl(604_800)),
            ("Public, Max-Age=\"60\", esi=on", ttl(60)),
            ("max-age=60", ttl(60)),
            ("max-age=60,s-maxage=30", ttl(30)),
            ("public", Storing::ForAll(None)),
            ("public,max-age=99999999999999999999", ttl(larder_http::cache_control::SECONDS_MAX)),
            ("private,max-age=60", private),
            ("shared,private,max-age=60", private),
            ("public,private,max-age=60", private),
            ("max-age=60;private", private),
            ("no-cache", not("X-LiteSpeed-Cache-Control: no-cache")),
            ("no-cache,esi=on", not("X-LiteSpeed-Cache-Control: no-cache")),
            ("public,no-store,max-age=60", not("X-LiteSpeed-Cache-Control: no-store")),
            ("public,max-age=0", not("X-LiteSpeed-Cache-Control: max-age")),
            ("public,max-age=soon", not("X-LiteSpeed-Cache-Control: max-age")),
            ("public,max-age", not("X-LiteSpeed-Cache-Control: max-age")),
            ("esi=on", Storing::Silent),
            ("no-vary, set-blank", Storing::Silent),
            ("\"private\",max-age=60", not("X-LiteSpeed-Cache-Control, which cannot be read")),
            ("public max-age=600 private", not("X-LiteSpeed-Cache-Control, which cannot be read")),
            ("max-age=60,,", ttl(60)),
            ("", Storing::Silent),
        ] {
            assert_eq!(storing(&fields(&[("x-litespeed-cache-control", value)])), expected, "{value}");
        }
        assert_eq!(storing(&fields(&[("Cache-Control", "public,max-age=60")])), Storing::Silent);
        let two = [("X-LiteSpeed-Cache-Control", "public,max-age=60"), ("X-LiteSpeed-Cache-Control", "private")];
        assert_eq!(storing(&fields(&two)), private);
    }

    #[test]
    fn esi_is_said_by_its_word() {
        for (value, expected) in [("public,esi=on", true), ("ESI=On", true), ("esi=off", false), ("noesi=on", false)] {
            assert_eq!(has_esi(&fields(&[("X-LiteSpeed-Cache-Control", value)])), expected, "{value}");
        }
    }

    #[test]
    fn a_page_varies_by_the_usual_cookie_and_by_those_that_it_names() {
        let usual = "cookie:_lscache_vary";
        let unreadable = Err("X-LiteSpeed-Vary, which cannot be read");
        let is_set = Err("Set-Cookie of a cookie that the page varies by");
        type Lines = &'static [(&'static str, &'static str)];
        let cases: &[(Lines, Result<&[&str], &str>)] = &[
            (&[], Ok(&[usual])),
            (&[("X-LiteSpeed-Vary", "cookie=lang, cookie=Currency")], Ok(&[usual, "cookie:lang", "cookie:Currency"])),
            (&[("X-LiteSpeed-Vary", "cookie=a,b,")], Ok(&[usual, "cookie:a", "cookie:b"])),
            (&[("X-LiteSpeed-Vary", "cookie=a"), ("X-LiteSpeed-Cache-Control", "public,no-vary")], Ok(&[])),
            (&[("X-LiteSpeed-Vary", "value=mobile")], Err("X-LiteSpeed-Vary: value")),
            (&[("X-LiteSpeed-Vary", "header=a")], unreadable),
            (&[("X-LiteSpeed-Vary", "cookie=")], unreadable),
            (&[("Set-Cookie", "session=1"), ("LSC-Cookie", "test=1")], Ok(&[usual])),
            (&[("Set-Cookie", "_lscache_vary=1; path=/")], is_set),
            (&[("LSC-Cookie", "_lscache_vary=1")], is_set),
            (&[("X-LiteSpeed-Vary", "cookie=lang"), ("Set-Cookie", "lang=de")], is_set),
        ];
        for (lines, expected) in cases {
            let names = varies_by(&fields(lines));
            let names = names.as_ref().map(|names| names.iter().map(|name| &**name).collect::<Vec<_>>());
            assert_eq!(names, expected.as_ref().map(|names| names.to_vec()), "{lines:?}");
        }
        let many = (0..COOKIES_MAX).map(|number| format!("cookie=c{number},")).collect::<String>();
        let many = varies_by(&fields(&[("X-LiteSpeed-Vary", &many)]));
        assert_eq!(many, Err("X-LiteSpeed-Vary with too many cookies"));
    }
}
