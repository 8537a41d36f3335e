//! How the reasons are shown for which requests were no hits.

use std::fmt::Write as _;

use crate::misses::{MINUTES, Summary};

use super::{Form, json};

pub(super) fn shown(seen: &Summary, form: Form) -> String {
    match form {
        Form::Text => as_text(seen),
        Form::Json => as_json(seen),
    }
}

fn as_text(seen: &Summary) -> String {
    let misses = seen.misses();
    let mut out = format!("{misses} requests of the last {MINUTES} minutes went to an origin; hits: {}\n", seen.hits);
    for row in &seen.rows {
        let (share, count) = (percent(row.count, misses), row.count);
        // Writing to memory does not fail.
        let _ = write!(
            out,
            "{share:>4} % {count:>8}  {}\n{:>17}from {}, such as {}\n",
            row.reason, "", row.place, row.example
        );
    }
    if seen.others > 0 {
        let _ = writeln!(
            out,
            "{:>4} % {:>8}  other reasons, for which there was no room",
            percent(seen.others, misses),
            seen.others
        );
    }
    out
}

fn as_json(seen: &Summary) -> String {
    let rows: Vec<String> = seen
        .rows
        .iter()
        .map(|row| {
            let [reason, place, example] = [&row.reason, &row.place, &row.example].map(|text| json(text));
            format!("{{\"count\":{},\"reason\":{reason},\"place\":{place},\"example\":{example}}}", row.count)
        })
        .collect();
    let (hits, misses, others) = (seen.hits, seen.misses(), seen.others);
    let rows = rows.join(",");
    format!("{{\"minutes\":{MINUTES},\"hits\":{hits},\"misses\":{misses},\"others\":{others},\"rows\":[{rows}]}}\n")
}

fn percent(part: u64, whole: u64) -> u64 {
    (part * 100 + whole / 2).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use crate::misses::Seen;

    use super::*;

    fn seen() -> Summary {
        let row = |count, reason: &str| Seen {
            place: "a.test /shop".to_owned(),
            reason: reason.to_owned(),
            count,
            example: "/shop/\"1\"".to_owned(),
        };
        Summary { rows: vec![row(2, "Set-Cookie (PHPSESSID)"), row(1, "expired")], others: 1, hits: 7 }
    }

    #[test]
    fn reasons_are_shown_with_their_share() {
        let expected = "4 requests of the last 10 minutes went to an origin; hits: 7
  50 %        2  Set-Cookie (PHPSESSID)
                 from a.test /shop, such as /shop/\"1\"
  25 %        1  expired
                 from a.test /shop, such as /shop/\"1\"
  25 %        1  other reasons, for which there was no room
";
        assert_eq!(shown(&seen(), Form::Text), expected);
        let none = "0 requests of the last 10 minutes went to an origin; hits: 0\n";
        assert_eq!(shown(&Summary::default(), Form::Text), none);
    }

    #[test]
    fn the_same_is_told_to_programs() {
        let expected = r#"{"minutes":10,"hits":7,"misses":4,"others":1,"rows":[{"count":2,"reason":"Set-Cookie (PHPSESSID)","place":"a.test /shop","example":"/shop/\"1\""},{"count":1,"reason":"expired","place":"a.test /shop","example":"/shop/\"1\""}]}
"#;
        assert_eq!(shown(&seen(), Form::Json), expected);
    }
}
