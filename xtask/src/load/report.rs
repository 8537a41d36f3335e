//! Slices into medians, ratios, a table and JSON.

use super::kind::Kind;
use super::wrk::Count;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

/// One slice of one server.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    /// CPU time the server used.
    pub cpu: Duration,
    /// What the generator counted.
    pub count: Count,
}

impl Cell {
    /// Server CPU per request in microseconds: the primary number.
    fn cpu_us(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.count.requests as f64
    }

    fn rate(&self) -> f64 {
        self.count.requests as f64 / self.count.seconds
    }
}

/// All slices of one server at one size, in the order of the rounds.
pub struct Row {
    /// Which server.
    pub kind: Kind,
    /// Which size.
    pub bytes: usize,
    /// A slice a round.
    pub cells: Vec<Cell>,
    /// What its connections agreed on; may be empty.
    pub note: String,
}

impl Row {
    /// This row's CPU per request over `base`'s of the same round: what slows a round down slows both.
    fn ratio(&self, base: &Row) -> f64 {
        median(self.cells.iter().zip(&base.cells).map(|(cell, base)| cell.cpu_us() / base.cpu_us()))
    }

    /// The time that 99 of 100 answers did not exceed, in milliseconds.
    fn p99_ms(&self) -> f64 {
        median(self.cells.iter().map(|cell| cell.count.p99_seconds * 1e3))
    }
}

/// The table that is printed. Ratios are to the first server, which by default is stock nginx.
pub fn table(rows: &[Row]) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{:<20} {:>8} {:>12} {:>17} {:>7} {:>11} {:>9}",
        "server", "bytes", "CPU us/req", "least-most", "ratio", "req/s", "p99 ms"
    );
    for row in rows {
        let cpu = row.cells.iter().map(Cell::cpu_us);
        let least = cpu.clone().fold(f64::INFINITY, f64::min);
        let most = cpu.clone().fold(0.0, f64::max);
        let range = format!("{least:.2}-{most:.2}");
        let rate = median(row.cells.iter().map(Cell::rate));
        let p99 = row.p99_ms();
        let ratio = base_of(rows, row).map_or(f64::NAN, |base| row.ratio(base));
        let _ = writeln!(
            out,
            "{:<20} {:>8} {:>12.2} {range:>17} {ratio:>7.3} {rate:>11.0} {p99:>9.2}{}{}",
            row.kind.name(),
            row.bytes,
            median(cpu),
            if row.note.is_empty() { "" } else { "  " },
            row.note
        );
    }
    if let Some(first) = rows.first() {
        let _ = writeln!(
            out,
            "ratio: CPU per request over {}'s of the same round, median of the rounds; below 1 is better\n\
             p99: 99 of 100 answers of a round took no longer, median of the rounds",
            first.kind.name()
        );
    }
    out
}

/// The row of the first server at the size of `row`.
fn base_of<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    rows.iter().find(|base| base.bytes == row.bytes)
}

/// Every slice, with the machine and the versions.
pub fn json(scenario: &str, rows: &[Row], versions: &[(&str, &str)]) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let mut out = String::from("{\n");
    let _ = writeln!(out, "  \"command\": {},", quoted(&format!("cargo xtask {}", command.join(" "))));
    let _ = writeln!(out, "  \"scenario\": {},", quoted(scenario));
    let _ = writeln!(
        out,
        "  \"kernel\": {},",
        quoted(fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim())
    );
    let _ = writeln!(out, "  \"cpu\": {},", quoted(&cpu_model()));
    let list: Vec<_> =
        versions.iter().map(|(name, version)| format!("{}: {}", quoted(name), quoted(version))).collect();
    let _ = writeln!(out, "  \"versions\": {{{}}},", list.join(", "));
    let rows: Vec<_> = rows.iter().map(|row| json_row(row, base_of(rows, row))).collect();
    let _ = writeln!(out, "  \"rows\": [\n{}\n  ]\n}}", rows.join(",\n"));
    out
}

fn json_row(row: &Row, base: Option<&Row>) -> String {
    let cells = row.cells.iter().map(|cell| {
        format!(
            "{{\"requests\": {}, \"seconds\": {}, \"cpu_seconds\": {:.6}, \"p99_ms\": {:.3}}}",
            cell.count.requests,
            cell.count.seconds,
            cell.cpu.as_secs_f64(),
            cell.count.p99_seconds * 1e3
        )
    });
    format!(
        "    {{\"server\": {}, \"bytes\": {}, \"cpu_us_per_request\": {:.3}, \"requests_per_second\": {:.0}, \"p99_ms\": {:.3}, \"ratio\": {:.4}, \"note\": {}, \"slices\": [{}]}}",
        quoted(row.kind.name()),
        row.bytes,
        median(row.cells.iter().map(Cell::cpu_us)),
        median(row.cells.iter().map(Cell::rate)),
        row.p99_ms(),
        base.map_or(1.0, |base| row.ratio(base)),
        quoted(&row.note),
        cells.collect::<Vec<_>>().join(", ")
    )
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(String::new, |(_, name)| name.trim().to_string())
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        match char {
            '"' | '\\' => out.extend(['\\', char]),
            char if char.is_control() => {
                let _ = write!(out, "\\u{:04x}", u32::from(char));
            }
            char => out.push(char),
        }
    }
    out.push('"');
    out
}

/// The middle value; of an even number, the mean of the two. Not a number if there are none.
pub fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle.wrapping_sub(1)), values.get(middle)) {
        (Some(below), Some(above)) if values.len().is_multiple_of(2) => (below + above) / 2.0,
        (_, Some(value)) => *value,
        (_, None) => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: Kind, cpu_ms: &[u64]) -> Row {
        let count = Count { requests: 1000, seconds: 1.0, p99_seconds: 0.00125 };
        Row {
            kind,
            bytes: 1024,
            note: String::new(),
            cells: cpu_ms.iter().map(|ms| Cell { cpu: Duration::from_millis(*ms), count }).collect(),
        }
    }

    #[test]
    fn the_median_is_the_middle() {
        for (values, middle) in [(&[3.0, 1.0, 2.0][..], 2.0), (&[4.0, 1.0, 2.0, 3.0], 2.5), (&[7.0], 7.0)] {
            assert_eq!(median(values.iter().copied()), middle, "{values:?}");
        }
        assert!(median([].into_iter()).is_nan());
    }

    #[test]
    fn a_ratio_compares_within_a_round() {
        // The second round was twice as slow for both: a ratio of medians would not see that they are equal.
        let base = row(Kind::Nginx, &[10, 20, 10]);
        assert_eq!(row(Kind::Larder, &[5, 10, 5]).ratio(&base), 0.5);
        let table = table(&[row(Kind::Nginx, &[10, 20, 10]), row(Kind::Larder, &[5, 10, 5])]);
        let line = table.lines().nth(2).expect("a line a row");
        let words: Vec<_> = line.split_whitespace().collect();
        assert_eq!(words, ["larder", "1024", "5.00", "5.00-10.00", "0.500", "1000", "1.25"]);
    }

    #[test]
    fn json_strings_are_quoted() {
        for (text, json) in [("a", "\"a\""), ("a\"\\b", "\"a\\\"\\\\b\""), ("\n", "\"\\u000a\"")] {
            assert_eq!(quoted(text), json);
        }
    }
}
