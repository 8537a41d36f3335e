//! The table of a replay.

use super::options::Options;
use super::trace::Trace;
use super::{Misses, Policy};

/// What each policy missed at one size.
pub struct Row {
    /// The size of the cache, in percent of the footprint.
    pub percent: f64,
    /// One for each policy, in their order.
    pub misses: Vec<Misses>,
}

/// A kind of misses: its name, and where it stands.
type Kind = (&'static str, fn(&Misses) -> f64);

/// The kinds of misses, in the order of their weight.
const KINDS: [Kind; 3] =
    [("time", |misses| misses.time), ("objects", |misses| misses.objects), ("bytes", |misses| misses.bytes)];

/// The misses in percent: a row for each size, a column for each kind and policy.
pub fn table(trace: &Trace, options: &Options, rows: &[Row]) -> String {
    let firsts = trace.firsts();
    let mut text = format!(
        "{}: {} requests for {} things of {:.1} MB; a cache for all of them misses {:.1} % of the time, {:.1} % of the \
         objects, {:.1} % of the bytes.\n",
        trace.name,
        trace.len(),
        trace.things_len(),
        trace.footprint() as f64 / 1e6,
        firsts.time * 100.0,
        firsts.objects * 100.0,
        firsts.bytes * 100.0,
    );
    let heads = KINDS.iter().flat_map(|(kind, _)| options.policies.iter().map(|policy| head(kind, *policy)));
    let mut lines: Vec<Vec<String>> = vec![std::iter::once("cache".to_owned()).chain(heads).collect()];
    for row in rows {
        let cells =
            KINDS.iter().flat_map(|(_, of)| row.misses.iter().map(|misses| format!("{:.1}", of(misses) * 100.0)));
        lines.push(std::iter::once(format!("{} %", row.percent)).chain(cells).collect());
    }
    text.push('\n');
    for (index, line) in lines.iter().enumerate() {
        let cells =
            line.iter().enumerate().map(|(column, cell)| format!("{cell:>width$}", width = width(&lines, column)));
        let cells: Vec<String> = cells.collect();
        if !options.markdown {
            text.push_str(&format!("{}\n", cells.join("  ")));
            continue;
        }
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
        if index == 0 {
            let rules = (0..line.len()).map(|column| format!("{:->width$}:", "", width = width(&lines, column) - 1));
            text.push_str(&format!("| {} |\n", rules.collect::<Vec<_>>().join(" | ")));
        }
    }
    text.push('\n');
    text
}

fn head(kind: &str, policy: Policy) -> String {
    format!("{kind} {}", policy.name())
}

fn width(lines: &[Vec<String>], column: usize) -> usize {
    lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(1).max(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_size() {
        let trace = Trace::of("two", [(1, Some(100)), (2, Some(300)), (1, Some(100))].into_iter());
        let misses = Misses { time: 0.5, objects: 2.0 / 3.0, bytes: 0.8 };
        let rows = [Row { percent: 2.0, misses: vec![misses] }];
        let mut options =
            Options { traces: Vec::new(), percents: vec![2.0], policies: vec![Policy::Larder], markdown: true };
        let text = table(&trace, &options, &rows);
        let lines: Vec<&str> = text.lines().skip(2).filter(|line| !line.is_empty()).collect();
        assert_eq!(
            lines,
            [
                "| cache | time larder | objects larder | bytes larder |",
                "| ----: | ----------: | -------------: | -----------: |",
                "|   2 % |        50.0 |           66.7 |         80.0 |",
            ]
        );
        options.markdown = false;
        assert!(table(&trace, &options, &rows).ends_with("  2 %         50.0            66.7          80.0\n\n"));
    }
}
