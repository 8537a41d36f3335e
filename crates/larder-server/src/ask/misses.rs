//! How the reasons are shown for which requests were no hits.

use std::fmt::Write as _;

use crate::misses::{MINUTES, Summary};

use super::Form;

pub(super) fn shown(seen: &Summary, form: Form) -> String {
    match form {
        Form::Text => as_text(seen),
        Form::Json => format!("{}\n", seen.to_json()),
    }
}

fn as_text(seen: &Summary) -> String {
    let misses = seen.misses();
    let mut out = format!("{misses} requests of the last {MINUTES} minutes went to an origin; hits: {}\n", seen.hits);
    for row in &seen.rows {
        let (share, count) = (percent(row.count, misses), row.count);
        let (what, detail) = parted(&row.reason);
        // Writing to memory does not fail.
        let _ = writeln!(out, "{share:>3} % of misses: {what} from {}{detail}", row.place);
        let _ = write!(out, "      {}, such as {}", requests(count), row.example.url);
        let _ = match &*row.example.made_by {
            "" => writeln!(out),
            made_by => writeln!(out, ": {made_by}"),
        };
    }
    if seen.others > 0 {
        let share = percent(seen.others, misses);
        let _ = writeln!(out, "{share:>3} % of misses: other reasons, for which there was no room");
        let _ = writeln!(out, "      {}", requests(seen.others));
    }
    out
}

fn requests(count: u64) -> String {
    if count == 1 { "1 request".to_owned() } else { format!("{count} requests") }
}

/// A reason, and what stands in brackets behind it, with the space between them.
fn parted(reason: &str) -> (&str, &str) {
    match reason.rfind(" (") {
        Some(at) if reason.ends_with(')') => reason.split_at(at),
        _ => (reason, ""),
    }
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::misses::{Example, Seen};

    use super::*;

    fn seen() -> Summary {
        let row = |count, reason: &str, made_by: &str| Seen {
            place: "a.test /shop".to_owned(),
            reason: reason.to_owned(),
            count,
            example: Example { url: "/shop/\"1\"".into(), site: "http://a".into(), made_by: made_by.into() },
        };
        let rows = vec![row(2, "Set-Cookie (PHPSESSID)", ""), row(1, "proxy_no_cache $a", "cookie b sets $a=1")];
        Summary { rows, others: 1, hits: 7 }
    }

    #[test]
    fn reasons_are_shown_with_their_share() {
        let expected = "4 requests of the last 10 minutes went to an origin; hits: 7
 50 % of misses: Set-Cookie from a.test /shop (PHPSESSID)
      2 requests, such as /shop/\"1\"
 25 % of misses: proxy_no_cache $a from a.test /shop
      1 request, such as /shop/\"1\": cookie b sets $a=1
 25 % of misses: other reasons, for which there was no room
      1 request
";
        assert_eq!(shown(&seen(), Form::Text), expected);
        let none = "0 requests of the last 10 minutes went to an origin; hits: 0\n";
        assert_eq!(shown(&Summary::default(), Form::Text), none);
    }

    #[test]
    fn the_same_is_told_to_programs() {
        let expected = r#"{"hits":7,"minutes":10,"misses":4,"others":1,"rows":[{"count":2,"example":"/shop/\"1\"","made_by":null,"place":"a.test /shop","reason":"Set-Cookie (PHPSESSID)"},{"count":1,"example":"/shop/\"1\"","made_by":"cookie b sets $a=1","place":"a.test /shop","reason":"proxy_no_cache $a"}]}
"#;
        assert_eq!(shown(&seen(), Form::Json), expected);
    }
}
