//! How an explanation is written.

use std::fmt::Write as _;

use super::Explanation;
use crate::vsl::Fact;

impl Explanation {
    /// For people: the sentence, then a line for each step.
    pub fn as_text(&self) -> String {
        let mut out = format!("{}\n\n", self.sentence);
        let width = self.rows.iter().map(|row| row.what.len()).max().unwrap_or_default();
        for row in &self.rows {
            let at = row.at.as_ref().map_or_else(String::new, |at| format!("  [{at}]"));
            // Writing to memory does not fail.
            let _ = writeln!(out, "{:<width$}  {}{at}", row.what, row.text);
        }
        out
    }

    /// For programs; `string` writes a text as one of JSON.
    pub fn as_json(&self, string: fn(&str) -> String) -> String {
        let row = |row: &super::Row| {
            let at = row.at.as_ref().map_or_else(|| "null".to_owned(), |at| string(at));
            let facts: String =
                row.facts.iter().map(|(name, fact)| format!(",{}:{}", string(name), value(fact, string))).collect();
            format!("{{\"what\":{},\"text\":{},\"at\":{at}{facts}}}", string(&row.what), string(&row.text))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{{\"sentence\":{},\"rows\":[{}]}}\n", string(&self.sentence), rows.join(","))
    }
}

/// A fact as a value of JSON.
fn value(fact: &Fact, string: fn(&str) -> String) -> String {
    match fact {
        Fact::Text(text) => string(text),
        Fact::Number(number) => number.to_string(),
        Fact::Flag(is_so) => is_so.to_string(),
        Fact::List(all) => {
            let all: Vec<String> = all.iter().map(|fact| value(fact, string)).collect();
            format!("[{}]", all.join(","))
        }
        Fact::Group(facts) => {
            let pair = |(name, fact): &(&'static str, Fact)| format!("{}:{}", string(name), value(fact, string));
            let pairs: Vec<String> = facts.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(","))
        }
        Fact::Unknown => "null".to_owned(),
    }
}
