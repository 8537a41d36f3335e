//! `larder top`: what the dashboard of a running server shows, in a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use serde_json::Value;

use crate::amounts::{duration, size};
use crate::ask;
use crate::ask::options::Ask;
use crate::terminal::{self, Key, Terminal};

/// Shows it until somebody types q; once without a terminal, and as JSON with `--json`.
pub fn run(asked: &Ask) -> ExitCode {
    let first = match ask::answer(asked) {
        Ok(first) => first,
        Err(error) => return ask::failure(error),
    };
    let shown = match asked.json {
        true => io::stdout().write_all(format!("{first}\n").as_bytes()).map_err(|error| error.to_string()),
        false if !io::stdout().is_terminal() => {
            let text = lines(&read(&first), usize::MAX).join("\n");
            io::stdout().write_all(format!("{text}\n").as_bytes()).map_err(|error| error.to_string())
        }
        false => watch(asked, &first),
    };
    match shown {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("larder: {error}");
            ExitCode::FAILURE
        }
    }
}

fn watch(asked: &Ask, first: &str) -> Result<(), String> {
    let _terminal = Terminal::take().map_err(|error| format!("the terminal cannot be set: {error}"))?;
    let (mut now, mut from): (Result<Value, String>, usize) = (Ok(read(first)), 0);
    loop {
        let shown = match &now {
            Ok(now) => lines(now, states_of(terminal::rows())),
            Err(why) => vec![why.clone()],
        };
        from = draw(&shown, from).map_err(|error| format!("the terminal cannot be written: {error}"))?;
        let screen = screen();
        match terminal::key().map_err(|error| format!("the terminal cannot be read: {error}"))? {
            Key::End => return Ok(()),
            Key::None => now = ask::answer(asked).map(|told| read(&told)).map_err(|error| error.to_string()),
            Key::Down(lines) => from = from.saturating_add(lines.unwrap_or(screen)),
            Key::Up(lines) => from = from.saturating_sub(lines.unwrap_or(screen)),
            Key::Other => {}
        }
    }
}

/// How many lines fit, above the last row.
fn screen() -> usize {
    terminal::rows().saturating_sub(1)
}

/// How many rows origins, gates and caches may have, so that all are seen on a screen of so many rows, and the first reasons.
fn states_of(rows: usize) -> usize {
    // What is above them, four heads with a line before each, and the last row.
    (rows.saturating_sub(11 + 4 * 2 + 1) / 4).max(2)
}

/// Draws the screen from line `from` on, or from where the end is on it, and returns from where. Lines that are too long for
/// the terminal are cut off by it.
fn draw(lines: &[String], from: usize) -> io::Result<usize> {
    let from = from.min(lines.len().saturating_sub(screen()));
    let mut text = "\x1b[H".to_owned();
    for line in lines.iter().skip(from).take(screen()) {
        // Writing to a string does not fail.
        let _ = write!(text, "{line}\x1b[K\r\n");
    }
    text.push_str("\x1b[Jq: end, j k space b: scroll");
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(from)
}

fn read(told: &str) -> Value {
    // A server of another version: what is not there is not shown.
    serde_json::from_str(told).unwrap_or(Value::Null)
}

/// What is told, in lines. Origins and caches have `states` rows at most, what is out of order first.
fn lines(now: &Value, states: usize) -> Vec<String> {
    let at = |path: &str| path.split('.').fold(now, |value, name| &value[name]);
    let number = |path: &str| at(path).as_f64();
    let rate = |path: &str| rate(number(path));
    let share = |path: &str| number(path).map_or_else(none, |share| format!("{:.1} %", share * 100.0));
    let time = |path: &str| number(path).map_or_else(none, duration);
    let bytes = |path: &str| number(path).map_or_else(none, |bytes| size(bytes as u64));
    let text = |path: &str| plain(at(path));
    let mut lines = vec![
        format!(
            "{} on {}, process {}, up {} s, configuration {}",
            text("process.version"),
            text("process.host"),
            text("process.pid"),
            number("process.uptime_seconds").map_or_else(none, |seconds| format!("{seconds:.0}")),
            text("process.generation"),
        ),
        String::new(),
        format!(
            "requests/s {:>10}   {}/s, {} connections",
            rate("requests.per_second"),
            bytes("requests.bytes_per_second"),
            text("connections.open"),
        ),
        format!("from cache {:>10}   of {}/s", share("cache.share"), rate("cache.per_second")),
        format!(
            "to origins {:>10}/s {} there now, {} waiting",
            rate("origin.per_second"),
            text("origin.busy"),
            text("origin.waiting"),
        ),
        format!("errors/s   {:>10}   4xx: {}", rate("errors.server_per_second"), rate("errors.client_per_second")),
        format!("cache      {:>10}   99 % within {}", time("times.cache.p50"), time("times.cache.p99")),
        format!("origin     {:>10}   99 % within {}", time("times.origin.p50"), time("times.origin.p99")),
        format!(
            "memory     {:>10}   of {}, {}",
            bytes("memory.bytes"),
            bytes("memory.bytes_max"),
            text("memory.stage")
        ),
        format!("TLS        {:>10}/s {} resumed", rate("tls.handshakes_per_second"), share("tls.resumed_share"),),
    ];
    if let Some(nodes) = at("cluster.nodes").as_array() {
        let there = nodes.iter().filter(|node| node["state"] == "there").count();
        let (of, server) = (nodes.len(), text("cluster.server"));
        let behind = if at("cluster.lag.is_more") == true { "+" } else { "" };
        let behind = format!("{}{behind}", text("cluster.lag.entries"));
        lines.push(format!("cluster    {there:>10}   of {of} nodes there by {server}, {behind} purges behind"));
    }
    let alarms = at("alarms").as_array().map(Vec::as_slice).unwrap_or_default();
    lines.extend(alarms.iter().map(|alarm| format!("ALARM      {}", plain(alarm))));
    let mut table = |head: String, rows: &Value, most: usize, line: &dyn Fn(&Value) -> String| {
        let mut rows: Vec<&Value> = rows.as_array().into_iter().flatten().collect();
        rows.sort_by_key(|row| row["state"].as_str().is_some_and(|state| IN_ORDER.contains(&state)));
        if rows.is_empty() {
            return;
        }
        lines.extend([String::new(), head]);
        // One that is left out would need a line to say so.
        let shown = if rows.len() > most { most - 1 } else { rows.len() };
        lines.extend(rows.iter().take(shown).map(|row| line(row)));
        if shown < rows.len() {
            lines.push(format!("and {} more", rows.len() - shown));
        }
    };
    table(
        format!("{:11} {:>6} {:>6} {:>8}  ORIGIN", "STATE", "BUSY", "MOST", "FAILURES"),
        at("origins"),
        states,
        &|row| {
            let [state, busy, most, fails] = ["state", "busy", "busy_max", "fails"].map(|name| plain(&row[name]));
            let [in_php, children, waiting] = ["busy", "children", "waiting"].map(|name| plain(&row["php"][name]));
            let php = match row["php"].is_null() {
                true => String::new(),
                false => format!(", {in_php} of {children} children busy, {waiting} waiting"),
            };
            format!(
                "{state:11} {busy:>6} {most:>6} {fails:>8}  {} {}{php}",
                plain(&row["group"]),
                plain(&row["server"])
            )
        },
    );
    table(format!("{:11} {:>6} {:>6} {:>8}  GATE", "STATE", "THERE", "OF", "WAITING"), at("gates"), states, &|row| {
        let [state, running, limit, waiting] = ["state", "running", "limit", "waiting"].map(|name| plain(&row[name]));
        let mut line = format!("{state:11} {running:>6} {limit:>6} {waiting:>8}  {}", plain(&row["group"]));
        for (class, count) in row["classes"].as_object().into_iter().flatten() {
            // Writing to a string does not fail.
            let _ = write!(line, ", {} {class}", plain(count));
        }
        let overflows = row["overflows_per_second"].as_f64().filter(|rate| *rate > 0.0);
        if overflows.is_some() {
            let _ = write!(line, ", {} overflows/s", self::rate(overflows));
        }
        line
    });
    table(format!("{:11} {:>6} {:>6} {:>8}  CACHE", "STATE", "USED", "OF", "PAGES"), at("zones"), states, &|row| {
        let [used, most] = ["bytes", "bytes_max"].map(|name| row[name].as_u64().map_or_else(none, size));
        format!("{:11} {used:>6} {most:>6} {:>8}  {}", plain(&row["state"]), plain(&row["pages"]), plain(&row["name"]))
    });
    table(format!("{:>8}  WHY NO HIT, WHERE, SUCH AS", "REQUESTS"), at("costly"), usize::MAX, &|row| {
        let count = plain(&row["count"]);
        format!("{count:>8}  {}, {}, {}", plain(&row["reason"]), plain(&row["place"]), plain(&row["example"]))
    });
    lines
}

/// States in which nobody need look.
const IN_ORDER: [&str; 4] = ["up", "open", "memory", "serving"];

fn none() -> String {
    "-".to_owned()
}

/// How often a second.
fn rate(number: Option<f64>) -> String {
    match number {
        None => none(),
        Some(few) if few < 9.95 => format!("{few:.1}"),
        Some(many) => format!("{many:.0}"),
    }
}

/// A value without what a terminal obeys.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Null => none(),
        Value::String(text) => text.chars().map(|char| if char.is_control() { '?' } else { char }).collect(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_told_is_shown_and_what_is_not_is_a_dash() {
        let now = json!({
            "process": { "version": "larder/1", "host": "a", "pid": 7, "uptime_seconds": 12.6, "generation": 2 },
            "requests": { "per_second": 257.2, "bytes_per_second": 46_080.0 },
            "connections": { "open": 3 },
            "cache": { "share": 0.8, "per_second": 9.04 },
            "times": { "cache": { "p50": 0.000_088, "p99": null } },
            "cluster": { "server": "redis://a:1", "lag": { "entries": 7, "is_more": false },
                "nodes": [{ "state": "there" }, { "state": "away" }] },
            "alarms": ["pages: memory is too small"],
            "gates": [{ "group": "php", "state": "queue", "running": 4, "limit": 4, "waiting": 3, "classes": { "high": 1, "low": 2 },
                "overflows_per_second": 2.5 }],
            "costly": [{ "count": 12, "reason": "Set-Cookie", "place": "a /", "example": "/x\u{1b}[1m" }],
            "zones": [{ "name": "pages", "state": "memory", "bytes": 3379, "bytes_max": 1_048_576, "pages": 2 }],
        });
        let shown = lines(&now, usize::MAX);
        for (line, expected) in [
            (0, "larder/1 on a, process 7, up 13 s, configuration 2"),
            (2, "requests/s        257   45k/s, 3 connections"),
            (3, "from cache     80.0 %   of 9.0/s"),
            (4, "to origins          -/s - there now, - waiting"),
            (6, "cache            88us   99 % within -"),
            (10, "cluster             1   of 2 nodes there by redis://a:1, 7 purges behind"),
            (11, "ALARM      pages: memory is too small"),
            (13, "STATE        THERE     OF  WAITING  GATE"),
            (14, "queue            4      4        3  php, 1 high, 2 low, 2.5 overflows/s"),
            (16, "STATE         USED     OF    PAGES  CACHE"),
            (17, "memory        3.3k   1.0M        2  pages"),
            (19, "REQUESTS  WHY NO HIT, WHERE, SUCH AS"),
            (20, "      12  Set-Cookie, a /, /x?[1m"),
        ] {
            assert_eq!(shown[line], expected);
        }
        assert_eq!((shown.len(), lines(&Value::Null, 2).len()), (21, 10));
    }

    #[test]
    fn a_small_screen_shows_what_is_down() {
        let origin = |number: usize, state: &str| json!({ "state": state, "group": "php", "server": number });
        let origins: Vec<Value> =
            (0..9).map(|number| origin(number, if number == 7 { "down" } else { "up" })).collect();
        let costly = vec![json!({ "count": 1 }); 20];
        let now = json!({ "origins": origins, "zones": [{ "name": "pages", "state": "serving" }], "costly": costly });
        let shown = lines(&now, states_of(24));
        assert!(shown[12].starts_with("down ") && shown[12].ends_with("php 7"), "{shown:#?}");
        assert_eq!(shown[13], "and 8 more");
        let cache = shown.iter().position(|line| line.ends_with("  pages"));
        let reasons = shown.iter().position(|line| line.contains("WHY NO HIT"));
        assert!(cache < reasons && reasons.is_some_and(|line| line < 23), "{shown:#?}");
        assert_eq!((states_of(0), states_of(80)), (2, 15));
    }
}
