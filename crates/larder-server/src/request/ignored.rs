//! Whether an argument that is in no key has got into the request to an origin: by a copy of the URL that a `set` or
//! `try_files` has made before arguments were left out, or by `$arg_...` and `$request`. The page would be made with what its
//! first visitor has written there, and all would get it.

use std::borrow::Cow;

use larder_http::{Escape, escape_uri, unescape};
use larder_origin::{Protocol, fastcgi};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::records;
use crate::vars;

/// Whether one is in what is sent and not in the key.
pub fn is_sent(request: &Protocol, ex: &Exchange, cx: &Cx) -> bool {
    let Some(profile) = cx.loc(ex).profile.as_deref() else { return false };
    let queries = [vars::query_of(ex.asked.head.target()), &ex.request.args];
    if !queries.into_iter().any(|query| profile.has_ignored(query)) {
        return false;
    }
    if ex.eval.reads_ignored && !ex.upstream.key_reads_ignored {
        return true;
    }
    let pairs = queries.into_iter().flat_map(|query| query.split(|byte| *byte == b'&'));
    let traces: Vec<Trace<'_>> = pairs.filter(|pair| profile.is_ignored(pair)).flat_map(Trace::of).collect();
    let key = &ex.upstream.cache_key;
    let is_new = |text: &[u8]| traces.iter().any(|trace| trace.is_in(text) && !trace.is_in(key));
    match request {
        Protocol::Http { head, .. } => {
            let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
            let value = |line: &'_ [u8]| memchr::memchr(b':', line).map_or(0, |at| at + 1);
            let mut values = records::header_lines(head).map(|line| line[value(line)..].trim_ascii());
            is_new(line) || values.any(|value| !is_of_client(value, ex) && is_new(value))
        }
        Protocol::FastCgi { params, .. } => {
            fastcgi::params(params).any(|(_, value)| !is_of_client(value, ex) && is_new(value))
        }
    }
}

/// Whether a value is that of a field as the client has sent it, such as a `Referer`.
fn is_of_client(value: &[u8], ex: &Exchange) -> bool {
    ex.asked.head.fields.iter().any(|(_, own)| own == value)
}

/// What an argument leaves behind.
struct Trace<'a> {
    text: Cow<'a, [u8]>,
    /// The shortest text that may have it among others; a shorter one is there by chance.
    among_min: usize,
}

impl<'a> Trace<'a> {
    /// Those of an argument: with its name, and its value alone, as written, without escapes and escaped once more.
    fn of(pair: &'a [u8]) -> Vec<Trace<'a>> {
        let value = memchr::memchr(b'=', pair).map_or(&b""[..], |at| &pair[at + 1..]);
        let mut traces = Vec::new();
        for (text, among_min) in [(pair, 0), (value, VALUE_BYTES_MIN)] {
            if text.len() < TEXT_BYTES_MIN {
                continue;
            }
            let (mut plain, mut escaped) = (Vec::new(), Vec::new());
            unescape(text, &mut plain);
            escape_uri(text, Escape::Uri, &mut escaped);
            let others = [plain, escaped].into_iter().filter(|other| other != text).map(Cow::Owned);
            traces.extend(others.chain([Cow::Borrowed(text)]).map(|text| Trace { text, among_min }));
        }
        traces
    }

    fn is_in(&self, text: &[u8]) -> bool {
        text == &*self.text || (self.text.len() >= self.among_min && memchr::memmem::find(text, &self.text).is_some())
    }
}

/// A value that is as short as that is in many texts.
const VALUE_BYTES_MIN: usize = 8;
const TEXT_BYTES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_known_by_what_it_leaves_behind() {
        let is_in =
            |pair: &str, text: &str| Trace::of(pair.as_bytes()).iter().any(|trace| trace.is_in(text.as_bytes()));
        for (pair, text, expected) in [
            ("utm_source=x", "/index.php?url=/a?utm_source=x", true),
            ("utm_source=x", "x", false),
            ("utm_source=x", "/a?utm_source=y", false),
            ("utm_source=news", "news", true),
            ("utm_source=news", "/news/of/today", false),
            ("utm_source=%3Cscript%3E", "from %3Cscript%3E", true),
            ("utm_source=%3Cscript%3E", "from <script>", true),
            ("utm_source=%3Cscript%3E", "/x/%253Cscript%253E", true),
            ("gclid", "/a?gclid", true),
            ("gclid=", "/a?b=c", false),
            ("_gl=", "/a?_gl=", true),
        ] {
            assert_eq!(is_in(pair, text), expected, "{pair} in {text}");
        }
    }
}
