//! Tables for the terminal and for `docs/measuring.md`.

use std::time::Duration;

/// A table whose first line says what the columns are.
#[derive(Debug, Clone)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(heading: &[&str]) -> Table {
        Table { heading: heading.iter().map(ToString::to_string).collect(), rows: Vec::new() }
    }

    /// Adds a row; what is missing at its end stays empty.
    pub fn push(&mut self, mut row: Vec<String>) {
        row.resize(self.heading.len(), String::new());
        self.rows.push(row);
    }

    /// As text, in Markdown if asked for; otherwise columns are held apart by spaces.
    pub fn text(&self, is_markdown: bool) -> String {
        let mut lines = vec![&self.heading];
        lines.extend(&self.rows);
        let width = |column: usize| {
            let cells = lines.iter().filter_map(|line| line.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.heading.len()).map(width).collect();
        let (left, between, right) = if is_markdown { ("| ", " | ", " |") } else { ("", "  ", "") };
        let mut out = String::new();
        for (number, line) in lines.iter().enumerate() {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
            let text = format!("{left}{}{right}", cells.collect::<Vec<_>>().join(between));
            out.push_str(text.trim_end());
            out.push('\n');
            if number == 0 && is_markdown {
                let rules: Vec<_> = widths.iter().map(|width| "-".repeat(*width)).collect();
                out.push_str(&format!("{left}{}{right}\n", rules.join(between)));
            }
        }
        out
    }
}

/// Bytes as MB, a million each, as disks are sold.
pub fn megabytes(bytes: f64) -> String {
    format!("{:.0}", bytes / 1e6)
}

/// A time of milliseconds or seconds.
pub fn time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new(&["server", "MB/s"]);
        table.push(vec!["nginx".into(), "7".into()]);
        table.push(vec!["larder".into()]);
        assert_eq!(table.text(false), "server  MB/s\nnginx   7\nlarder\n");
        assert_eq!(table.text(true), "| server | MB/s |\n| ------ | ---- |\n| nginx  | 7    |\n| larder |      |\n");
    }

    #[test]
    fn times_have_a_fitting_unit() {
        for (micros, text) in [(1, "0.00 ms"), (1234, "1.23 ms"), (56_789, "57 ms"), (2_345_678, "2.3 s")] {
            assert_eq!(time(Duration::from_micros(micros)), text);
        }
        assert_eq!(megabytes(104_857_600.0), "105");
    }
}
