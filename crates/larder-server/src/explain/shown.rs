//! How an explanation is written.

use std::fmt::Write as _;

use super::Explanation;

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
            format!("{{\"what\":{},\"text\":{},\"at\":{at}}}", string(&row.what), string(&row.text))
        };
        let rows: Vec<String> = self.rows.iter().map(row).collect();
        format!("{{\"sentence\":{},\"rows\":[{}]}}\n", string(&self.sentence), rows.join(","))
    }
}
