//! What of two answers differs for a visitor.

use super::answer::Answer;
use super::body::{self, Body};

/// A difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What: `status`, the name of a field, or `body`.
    pub what: String,
    /// At the server that runs.
    pub old: String,
    /// At larder.
    pub new: String,
}

/// What two answers came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// What differs.
    pub differences: Vec<Difference>,
    /// What the old server answers otherwise each time, so that nothing can be said.
    pub changing: Vec<String>,
}

/// What the old server answered to the same at other times.
#[derive(Clone, Copy, Debug, Default)]
pub struct Others<'a> {
    /// Asked once more.
    pub again: Option<&'a Answer>,
    /// Asked past its cache. Only what it has in common with the first answer is looked at.
    pub fresh: Option<&'a Answer>,
}

/// Compares.
pub fn compare(old: &Answer, others: Others<'_>, new: &Answer) -> Comparison {
    let fresh = others.fresh.filter(|fresh| fresh.status == old.status);
    let mut found = Comparison::default();
    let mut differs = |what: &str, old: String, others: &[String], new: String| {
        if old == new || others.contains(&new) {
            return;
        }
        match others.iter().all(|other| *other == old) {
            true => found.differences.push(Difference { what: what.to_owned(), old, new }),
            false => found.changing.push(what.to_owned()),
        }
    };
    let status = |answer: &Answer| answer.status.to_string();
    differs("status", status(old), &others.again.map(status).into_iter().collect::<Vec<_>>(), status(new));
    let mut names: Vec<&str> = old.fields.iter().chain(&new.fields).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| matters(name)) {
        let value = |answer: &Answer| meaning(name, answer).unwrap_or_else(|| ABSENT.to_owned());
        let fresh = fresh.filter(|fresh| old.has(name) && fresh.has(name));
        let others: Vec<String> = others.again.into_iter().chain(fresh).map(value).collect();
        differs(name, value(old), &others, value(new));
    }
    let others: Vec<&[u8]> = others.again.into_iter().chain(fresh).map(|answer| &*answer.body).collect();
    match body::compare(&old.body, &others, &new.body) {
        Body::Alike => {}
        Body::Changing => found.changing.push("body".to_owned()),
        Body::Differs { old, new } => found.differences.push(Difference { what: "body".to_owned(), old, new }),
    }
    found
}

/// Whether an answer says that a cache had it; `None` if it says nothing of caches.
pub fn is_cached(answer: &Answer) -> Option<bool> {
    let mut said =
        answer.field("age").and_then(|age| age.trim().parse::<u64>().ok()).filter(|age| *age > 0).map(|_| true);
    for (_, value) in answer.fields.iter().filter(|(name, _)| name != "via" && tells_of_cache(name)) {
        for word in value.split(|letter: char| !letter.is_ascii_alphabetic()) {
            let is = |words: &[&str]| words.iter().any(|other| word.eq_ignore_ascii_case(other));
            if is(&["hit", "stale", "updating", "revalidated"]) {
                said = Some(true);
            } else if is(&["miss", "bypass", "expired", "dynamic", "pass"]) {
                said = said.or(Some(false));
            }
        }
    }
    said
}

const ABSENT: &str = "(none)";

/// Whether a field says something to a visitor, and not of the connection, the moment or a cache.
fn matters(name: &str) -> bool {
    !UNTOLD.contains(&name) && !tells_of_cache(name)
}

fn tells_of_cache(name: &str) -> bool {
    name == "cache-status" || name.starts_with("x-cache") || name.ends_with("-cache") || name.ends_with("-cache-status")
}

/// What differs between any two servers or moments.
const UNTOLD: [&str; 13] = [
    "accept-ranges",
    "age",
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "larder-cache",
    "server",
    "transfer-encoding",
    "via",
    "x-larder-explain",
    "x-served-by",
    "x-varnish",
];

/// A field as it is compared.
fn meaning(name: &str, answer: &Answer) -> Option<String> {
    let value = answer.field(name)?;
    Some(match name {
        // Without the values, which are each visitor's own.
        "set-cookie" => {
            let values = answer.fields.iter().filter(|(it, _)| it == name);
            let mut cookies: Vec<String> = values.map(|(_, value)| cookie(value)).collect();
            cookies.sort();
            cookies.join(", ")
        }
        // A moment, which goes on with the clock.
        "expires" => "(a date)".to_owned(),
        "vary" => {
            let mut members: Vec<String> = value.split(',').map(|member| member.trim().to_ascii_lowercase()).collect();
            members.sort();
            members.dedup();
            members.join(", ")
        }
        _ => value,
    })
}

/// The name of a cookie and its attributes, but for those that are moments.
fn cookie(value: &str) -> String {
    let mut parts = value.split(';').map(str::trim);
    let name = parts.next().unwrap_or_default().split('=').next().unwrap_or_default();
    let attributes = parts.filter(|part| !part.to_ascii_lowercase().starts_with("expires="));
    let mut all = vec![format!("{name}=...")];
    all.extend(attributes.map(str::to_owned));
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> Answer {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Answer { status, fields, body: body.as_bytes().to_vec(), ..Answer::default() }
    }

    fn told(found: &Comparison) -> (Vec<String>, Vec<String>) {
        let differences = found.differences.iter().map(|it| format!("{}: {} / {}", it.what, it.old, it.new));
        (differences.collect(), found.changing.clone())
    }

    #[test]
    fn what_a_visitor_would_notice_differs() {
        let old = answer(200, &[("content-type", "text/html"), ("cache-control", "no-store")], "a\nb");
        for (new, expected) in [
            (answer(404, &[("content-type", "text/html"), ("cache-control", "no-store")], "a\nb"), "status: 200 / 404"),
            (answer(200, &[("content-type", "text/html")], "a\nb"), "cache-control: no-store / (none)"),
            (
                answer(200, &[("content-type", "text/html"), ("cache-control", "no-store")], "a\nc"),
                "body: line 2: b / line 2: c",
            ),
            (
                answer(200, &[("content-type", "text/html"), ("cache-control", "no-store")], "a"),
                "body: line 2: b / line 2: (the end)",
            ),
        ] {
            for again in [None, Some(&old)] {
                let others = Others { again, fresh: again };
                assert_eq!(told(&compare(&old, others, &new)), (vec![expected.to_owned()], vec![]));
            }
        }
    }

    #[test]
    fn the_connection_the_moment_and_the_cache_say_nothing() {
        let old = [
            ("date", "1"),
            ("server", "nginx"),
            ("x-cache", "MISS"),
            ("expires", "a"),
            ("vary", "A, b"),
            ("set-cookie", "id=1; Path=/; expires=x"),
        ];
        let new = [
            ("date", "2"),
            ("cache-status", "larder; hit"),
            ("age", "4"),
            ("expires", "b"),
            ("vary", "B,a"),
            ("set-cookie", "id=2; Path=/; expires=y"),
        ];
        assert_eq!(compare(&answer(200, &old, ""), Others::default(), &answer(200, &new, "")), Comparison::default());
        let other = answer(200, &[("set-cookie", "id=1; Path=/; HttpOnly")], "");
        let found = compare(&answer(200, &old[5..], ""), Others::default(), &other);
        assert_eq!(told(&found).0, ["set-cookie: id=...; Path=/ / id=...; Path=/; HttpOnly"]);
    }

    #[test]
    fn what_changes_each_time_is_told_apart() {
        let asked = |again| Others { again: Some(again), fresh: None };
        let old = answer(200, &[("x-request-id", "1")], "head\nnonce 1\nfoot");
        let again = answer(200, &[("x-request-id", "2")], "head\nnonce 2\nfoot");
        let changing = (vec![], vec!["x-request-id".to_owned(), "body".to_owned()]);
        let new = answer(200, &[("x-request-id", "3")], "head\nnonce 3\nfoot");
        assert_eq!(told(&compare(&old, asked(&again), &new)), changing);
        let wrong = answer(200, &[("x-request-id", "3")], "head\nnonce 3\nfeet");
        let found = told(&compare(&old, asked(&again), &wrong));
        assert_eq!(found.0, ["body: line 3: foot / line 3: feet"], "the lines that stay are compared");
        let once = answer(200, &[], "");
        assert_eq!(told(&compare(&once, asked(&old), &new)).0, Vec::<String>::new(), "absent once is a change too");
    }

    #[test]
    fn a_page_from_a_cache_is_compared_with_what_comes_past_it() {
        let page = |nonce: &str, more: &[(&str, &str)]| {
            let policy = format!("script-src 'nonce-{nonce}'");
            let fields = [&[("content-security-policy", &*policy)][..], more].concat();
            answer(200, &fields, &format!("<script nonce={nonce}>go()</script><p>2 items</p>"))
        };
        let old = page("a1", &[]);
        let past = page("b2", &[("set-cookie", "id=1")]);
        let seen = |fresh, new| told(&compare(&old, Others { again: Some(&old), fresh }, &new));
        let changing = (vec![], vec!["content-security-policy".to_owned(), "body".to_owned()]);
        assert_eq!(seen(Some(&past), page("c3", &[])), changing);
        assert_eq!(seen(None, page("c3", &[])).0.len(), 2, "nothing shows that it changes");
        // What only one of the two has, the cache may have taken away.
        assert_eq!(seen(Some(&past), page("c3", &[("set-cookie", "id=1")])).0, ["set-cookie: (none) / id=..."]);
        let refused = answer(403, &[], "no");
        assert_eq!(seen(Some(&refused), page("c3", &[])).0.len(), 2, "another page says nothing of this one");
    }

    #[test]
    fn whether_a_cache_had_a_page_is_what_it_says() {
        for (field, expected) in [
            (("age", "0"), None),
            (("age", "7"), Some(true)),
            (("x-cache", "MISS from a, HIT from b"), Some(true)),
            (("x-fastcgi-cache", "hit"), Some(true)),
            (("x-cache-status", "STALE"), Some(true)),
            (("x-proxy-cache", "BYPASS"), Some(false)),
            (("cf-cache-status", "DYNAMIC"), Some(false)),
            (("cache-status", "a; fwd=miss; stored"), Some(false)),
            (("cache-status", "a; hit; ttl=3"), Some(true)),
            (("x-cache-hits", "3"), None),
            (("cache-control", "max-age=hit"), None),
        ] {
            assert_eq!(is_cached(&answer(200, &[field], "")), expected, "{field:?}");
        }
    }
}
