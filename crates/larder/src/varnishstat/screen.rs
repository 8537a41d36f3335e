//! The screen: the counters that are not 0, refreshed each second, until somebody types q or Ctrl-C, or the input ends.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;

use crate::terminal::{self, Key, Terminal};

use super::ask::{self, AskError};
use super::filter::Filter;
use super::forms::per_second;
use super::point::{Format, Kind, Point};

/// Shows the counters of the server with this socket, which has told `first`.
pub fn run(socket: &Path, filter: &Filter, first: Vec<Point>) -> Result<(), String> {
    let failed = |what: &str, error: &dyn std::fmt::Display| format!("{what}: {error}");
    let _terminal = Terminal::take().map_err(|error| failed("the terminal cannot be set", &error))?;
    let mut told = Ok(first);
    let mut before = HashMap::new();
    let mut from = 0;
    loop {
        let rows = terminal::rows().max(ROWS_MIN);
        let (lines, meant) = lines(&told, filter, &before);
        let room = rows - HEAD_ROWS;
        from = from.min(lines.len().saturating_sub(room));
        draw(&told, &lines[from..], room).map_err(|error| failed("the terminal cannot be written", &error))?;
        match terminal::key().map_err(|error| failed("the terminal cannot be read", &error))? {
            Key::End => return Ok(()),
            Key::Down(count) => {
                from += count.unwrap_or(room);
                continue;
            }
            Key::Up(count) => {
                from = from.saturating_sub(count.unwrap_or(room));
                continue;
            }
            Key::Other => continue,
            Key::None => {}
        }
        before = meant;
        told = ask::once(socket);
    }
}

/// The lines of the counters that are meant and not 0, and the values of all that are meant.
fn lines(
    told: &Result<Vec<Point>, AskError>,
    filter: &Filter,
    before: &HashMap<String, u64>,
) -> (Vec<String>, HashMap<String, u64>) {
    let Ok(points) = told else { return (Vec::new(), before.clone()) };
    let uptime = super::uptime(points);
    let meant = || points.iter().filter(|point| filter.takes(&point.name));
    let shown = meant().filter(|point| point.value != 0);
    let lines = shown.map(|point| line(point, before.get(&point.name).copied(), uptime)).collect();
    (lines, meant().map(|point| (point.name.clone(), point.value)).collect())
}

/// A line: name, value, by how much that changed in the last second, and by how much each second so far.
fn line(point: &Point, before: Option<u64>, uptime: u64) -> String {
    let value = match point.format {
        Format::Seconds => days(point.value),
        Format::Bytes => size(point.value),
        Format::Bits => format!("{:016x}", point.value),
        Format::Integer => point.value.to_string(),
    };
    let (change, average) = match (point.kind, before) {
        (Kind::Counter, Some(before)) => {
            (point.value.wrapping_sub(before).to_string(), format!("{:.2}", per_second(point.value, uptime)))
        }
        (Kind::Counter, None) => (".".to_owned(), format!("{:.2}", per_second(point.value, uptime))),
        (Kind::Gauge | Kind::Bits, _) => (".".to_owned(), ".".to_owned()),
    };
    format!("{:34} {value:>16} {change:>10} {average:>12}", point.name)
}

/// `3+04:05:06`: days, hours, minutes, seconds.
fn days(seconds: u64) -> String {
    format!("{}+{:02}:{:02}:{:02}", seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60)
}

/// `1.50M`
fn size(bytes: u64) -> String {
    let units = [(1_u64 << 40, 'T'), (1 << 30, 'G'), (1 << 20, 'M'), (1 << 10, 'K')];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, letter)) => format!("{:.2}{letter}", bytes as f64 / unit as f64),
        None => bytes.to_string(),
    }
}

/// Draws the screen from its first row. Lines that are too long for the terminal are cut off by it.
fn draw(told: &Result<Vec<Point>, AskError>, lines: &[String], room: usize) -> io::Result<()> {
    let mut text = "\x1b[H".to_owned();
    let mut row = |line: &str| {
        // Writing to a string does not fail.
        let _ = write!(text, "{line}\x1b[K\r\n");
    };
    match told {
        Ok(points) => row(&summary(points)),
        Err(error) => row(&error.to_string()),
    }
    row("");
    row(&format!("\x1b[7m{:34} {:>16} {:>10} {:>12}\x1b[0m", "NAME", "CURRENT", "CHANGE", "AVERAGE"));
    lines.iter().take(room).for_each(|line| row(line));
    text.push_str("\x1b[Jj, k, space, b: scroll   q: end");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// How long the server has been running and serving, and how many of the lookups were hits.
fn summary(points: &[Point]) -> String {
    let value = |name: &str| points.iter().find(|point| point.name == name).map(|point| point.value);
    let mut text = format!("Uptime {}", days(value("MGT.uptime").unwrap_or_default()));
    if let (Some(uptime), Some(hits), Some(misses)) =
        (value("MAIN.uptime"), value("MAIN.cache_hit"), value("MAIN.cache_miss"))
    {
        let _ = write!(text, "   serving {}", days(uptime));
        if hits + misses > 0 {
            let _ = write!(text, "   hits {:.1} %", 100.0 * hits as f64 / (hits + misses) as f64);
        }
    } else {
        text.push_str("   not serving");
    }
    text
}

/// The rows that are no counters.
const HEAD_ROWS: usize = 4;
/// The least rows that are drawn.
const ROWS_MIN: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_what_they_are() {
        let average = "        1.00";
        for (kind, format, value, before, expected) in [
            (Kind::Counter, Format::Integer, 60, Some(50), format!("              60         10 {average}")),
            (Kind::Counter, Format::Integer, 60, None, format!("              60          . {average}")),
            (Kind::Gauge, Format::Integer, 7, Some(5), "               7          .            .".to_owned()),
            (Kind::Gauge, Format::Bytes, 1 << 20, None, "           1.00M          .            .".to_owned()),
            (Kind::Gauge, Format::Bytes, 1023, None, "            1023          .            .".to_owned()),
            (Kind::Bits, Format::Bits, 255, None, "00000000000000ff          .            .".to_owned()),
        ] {
            let name = "MAIN.x".to_owned();
            let point = Point { name, kind, format, value, about: String::new() };
            assert_eq!(line(&point, before, 60), format!("{:34} {expected}", "MAIN.x"), "{format:?}");
        }
        assert_eq!([days(59), days(93_784)], ["0+00:00:59", "1+02:03:04"]);
    }

    #[test]
    fn what_is_0_or_not_meant_has_no_line() {
        let point = |name: &str, value| Point {
            name: name.to_owned(),
            kind: Kind::Counter,
            format: Format::Integer,
            value,
            about: String::new(),
        };
        let told = Ok(vec![point("MAIN.a", 1), point("MAIN.b", 0), point("MGT.c", 1)]);
        let mut filter = Filter::default();
        filter.include("MAIN.*");
        let (lines, meant) = lines(&told, &filter, &HashMap::new());
        assert!(lines.len() == 1 && lines[0].starts_with("MAIN.a "), "{lines:?}");
        assert_eq!(meant.len(), 2);
    }
}
