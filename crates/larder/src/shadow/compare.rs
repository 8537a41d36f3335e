//! What of two answers differs for a visitor.

use super::answer::{Answer, BODY_BYTES_MAX};

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

/// Compares. `again` is what the old server answers to the same once more, if it was asked.
pub fn compare(old: &Answer, again: Option<&Answer>, new: &Answer) -> Comparison {
    let mut found = Comparison::default();
    let mut differs = |what: &str, seen: [Option<String>; 3]| {
        let [old, again, new] = seen;
        if old == new || (again.is_some() && again == new) {
            return;
        }
        if again.is_some() && again != old {
            found.changing.push(what.to_owned());
            return;
        }
        let shown = |value: Option<String>| value.unwrap_or_else(|| ABSENT.to_owned());
        found.differences.push(Difference { what: what.to_owned(), old: shown(old), new: shown(new) });
    };
    differs("status", [Some(old), again, Some(new)].map(|it| it.map(|answer| answer.status.to_string())));
    let mut names: Vec<&str> = old.fields.iter().chain(&new.fields).map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| matters(name)) {
        let value = |answer: &Answer| meaning(name, answer);
        let again = again.map(|again| Some(value(again).unwrap_or_else(|| ABSENT.to_owned())));
        let (old, new) = (value(old), value(new));
        // Without a second answer, nothing is known of it: absent is a value where there is one.
        match again {
            Some(again) => {
                let shown = |value: Option<String>| Some(value.unwrap_or_else(|| ABSENT.to_owned()));
                differs(name, [shown(old), again, shown(new)]);
            }
            None => differs(name, [old, None, new]),
        }
    }
    match body(&old.body, again.map(|again| again.body.as_slice()), &new.body) {
        Body::Alike => {}
        Body::Changing => found.changing.push("body".to_owned()),
        Body::Differs(difference) => found.differences.push(difference),
    }
    found
}

const ABSENT: &str = "(none)";

/// Whether a field says something to a visitor, and not of the connection, the moment or a cache.
fn matters(name: &str) -> bool {
    !UNTOLD.contains(&name)
        && !name.starts_with("x-cache")
        && !name.ends_with("-cache")
        && !name.ends_with("-cache-status")
}

/// What differs between any two servers or moments.
const UNTOLD: [&str; 14] = [
    "accept-ranges",
    "age",
    "cache-status",
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

enum Body {
    Alike,
    Changing,
    Differs(Difference),
}

/// Whether a line is the last of an error page that a server makes itself: `<hr><center>nginx/1.22.1</center>`.
fn is_signature(line: &[u8]) -> bool {
    let name = line.trim_ascii_end().strip_prefix(b"<hr><center>").and_then(|rest| rest.strip_suffix(b"</center>"));
    name.is_some_and(|name| name.starts_with(b"nginx") || name.starts_with(b"larder"))
}

/// Compares bodies. Lines that change each time at the old server are left out where the lines can be told apart.
fn body(old: &[u8], again: Option<&[u8]>, new: &[u8]) -> Body {
    if old == new || again == Some(new) || (old.len() >= BODY_BYTES_MAX && new.starts_with(old)) {
        return Body::Alike;
    }
    let lines = |body: &[u8]| {
        let lines = body.split(|byte| *byte == b'\n');
        lines.map(|line| if is_signature(line) { Vec::new() } else { line.to_vec() }).collect::<Vec<_>>()
    };
    let (old_lines, new_lines) = (lines(old), lines(new));
    if old_lines == new_lines {
        return Body::Alike;
    }
    let again = again.map(lines);
    if let Some(again) = &again {
        if again.len() != old_lines.len() {
            return Body::Changing;
        }
        let has_changed = *again != old_lines;
        if has_changed && new_lines.len() == old_lines.len() {
            let steady =
                old_lines.iter().zip(again).zip(&new_lines).enumerate().filter(|(_, ((old, again), _))| old == again);
            let mut wrong = steady.filter(|(_, ((old, _), new))| old != new);
            return match wrong.next() {
                None => Body::Changing,
                Some((at, ((old, _), new))) => Body::Differs(at_line(at, old, new)),
            };
        }
    }
    let at = old_lines.iter().zip(&new_lines).position(|(old, new)| old != new);
    let at = at.unwrap_or(old_lines.len().min(new_lines.len()));
    let line = |lines: &[Vec<u8>]| lines.get(at).cloned().unwrap_or_else(|| b"(the end)".to_vec());
    Body::Differs(at_line(at, &line(&old_lines), &line(&new_lines)))
}

fn at_line(at: usize, old: &[u8], new: &[u8]) -> Difference {
    let alike = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let shown = |line: &[u8]| {
        let begin = alike.saturating_sub(BEFORE_BYTES);
        let text = line.get(begin..).unwrap_or_default();
        let text = text.get(..EXCERPT_BYTES).unwrap_or(text);
        let text: String = text.iter().flat_map(|byte| byte.escape_ascii()).map(char::from).collect();
        if begin > 0 { format!("...{text}") } else { text }
    };
    Difference {
        what: "body".to_owned(),
        old: format!("line {}: {}", at + 1, shown(old)),
        new: format!("line {}: {}", at + 1, shown(new)),
    }
}

/// How much of a line is shown before the place, and in all.
const BEFORE_BYTES: usize = 16;
const EXCERPT_BYTES: usize = 72;

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
                assert_eq!(told(&compare(&old, again, &new)), (vec![expected.to_owned()], vec![]));
            }
        }
        let page = |name: &str| answer(404, &[], &format!("<h1>404</h1>\r\n<hr><center>{name}</center>\r\n"));
        assert_eq!(compare(&page("nginx/1.22.1"), None, &page("larder/0.1.0")), Comparison::default());
        // What a terminal would obey is not passed on.
        let new = answer(200, &[("content-type", "text/html"), ("cache-control", "no-store")], "a\n\x1b[2J");
        assert_eq!(told(&compare(&old, None, &new)).0, ["body: line 2: b / line 2: \\x1b[2J"]);
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
        assert_eq!(compare(&answer(200, &old, ""), None, &answer(200, &new, "")), Comparison::default());
        let other = answer(200, &[("set-cookie", "id=1; Path=/; HttpOnly")], "");
        let found = compare(&answer(200, &old[5..], ""), None, &other);
        assert_eq!(told(&found).0, ["set-cookie: id=...; Path=/ / id=...; Path=/; HttpOnly"]);
    }

    #[test]
    fn what_changes_each_time_is_told_apart() {
        let old = answer(200, &[("x-request-id", "1")], "head\nnonce 1\nfoot");
        let again = answer(200, &[("x-request-id", "2")], "head\nnonce 2\nfoot");
        let changing = (vec![], vec!["x-request-id".to_owned(), "body".to_owned()]);
        let new = answer(200, &[("x-request-id", "3")], "head\nnonce 3\nfoot");
        assert_eq!(told(&compare(&old, Some(&again), &new)), changing);
        let wrong = answer(200, &[("x-request-id", "3")], "head\nnonce 3\nfeet");
        let found = told(&compare(&old, Some(&again), &wrong));
        assert_eq!(found.0, ["body: line 3: foot / line 3: feet"], "the lines that stay are compared");
        let once = answer(200, &[], "");
        assert_eq!(told(&compare(&once, Some(&old), &new)).0, Vec::<String>::new(), "absent once is a change too");
    }
}
