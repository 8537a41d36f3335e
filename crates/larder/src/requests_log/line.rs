//! A request as a line: for people, or as JSON.

use std::io::Write;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use larder_conf::{Plain, PlainJson};
use serde_json::json;

use super::seen::Seen;
use crate::amounts::{duration, size};
use crate::vsl::quote::{self, Quoting};

/// How lines look.
#[derive(Clone, Debug)]
pub enum Look {
    /// For people, in their time zone; with colours on a terminal.
    Text { zone: TimeZone, has_colours: bool },
    /// A JSON object on each line.
    Json,
}

/// Appends the line of a request.
pub fn append(seen: &Seen<'_>, look: &Look, out: &mut Vec<u8>) {
    match look {
        Look::Json => append_json(seen, out),
        Look::Text { zone, has_colours } => append_text(seen, zone, *has_colours, out),
    }
    out.push(b'\n');
}

fn append_json(seen: &Seen<'_>, out: &mut Vec<u8>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let known = |bytes: &[u8]| (!bytes.is_empty()).then(|| text(bytes));
    let (origin, origin_seconds) = seen.origin.map_or((None, None), |(place, took)| (Some(text(place)), took));
    let value = json!({
        "time": seen.began.and_then(at).map(|at| format!("{at:.6}")),
        "client": known(seen.client),
        "method": known(seen.method),
        "host": known(seen.host),
        "url": known(seen.url),
        "status": seen.status,
        "bytes": seen.bytes,
        "seconds": seen.seconds,
        "cache": known(&seen.verdict()),
        "reason": known(seen.reason),
        "origin": origin,
        "origin_seconds": origin_seconds,
        "errors": seen.errors.iter().map(|error| text(error)).collect::<Vec<_>>(),
    });
    // Nobody reads it if this fails: a vector takes all.
    let _ = write!(out, "{}", PlainJson(&value.to_string()));
}

fn append_text(seen: &Seen<'_>, zone: &TimeZone, has_colours: bool, out: &mut Vec<u8>) {
    let time = seen.began.and_then(at).map(|at| at.to_zoned(zone.clone()).strftime("%H:%M:%S.%3f").to_string());
    let status = seen.status.map_or_else(|| "-".to_owned(), |status| status.to_string());
    let verdict = seen.verdict();
    let verdict = if verdict.is_empty() { "-".into() } else { Plain(&String::from_utf8_lossy(&verdict)).to_string() };
    let mut put = |text: &str, width: usize, colour: Option<&str>| {
        let colour = colour.filter(|_| has_colours);
        let end = if colour.is_some() { "\x1b[0m" } else { "" };
        // Nobody reads it if this fails: a vector takes all.
        let _ = write!(
            out,
            "{}{text}{end}{:pad$} ",
            colour.unwrap_or_default(),
            "",
            pad = width.saturating_sub(text.len())
        );
    };
    put(time.as_deref().unwrap_or("-"), 12, None);
    put(&status, 3, seen.status.map(colour_of_status));
    put(&verdict, 11, colour_of_verdict(&verdict));
    put(&seen.seconds.map_or_else(|| "-".to_owned(), duration), 6, None);
    put(&seen.bytes.map_or_else(|| "-".to_owned(), size), 6, None);
    for (text, space) in [(seen.client, b" ".as_slice()), (seen.method, b" "), (seen.host, b""), (seen.url, b"")] {
        let shown: &[u8] = if text.is_empty() && !space.is_empty() { b"-" } else { text };
        quote::append(shown, Quoting::Unquoted, out);
        out.extend_from_slice(space);
    }
    if !seen.reason.is_empty() {
        out.extend_from_slice(b"  (");
        quote::append(seen.reason, Quoting::Unquoted, out);
        out.push(b')');
    }
    if let Some((origin, took)) = seen.origin {
        out.extend_from_slice(b"  origin ");
        quote::append(origin, Quoting::Unquoted, out);
        if let Some(took) = took {
            out.push(b' ');
            out.extend_from_slice(duration(took).as_bytes());
        }
    }
    for error in &seen.errors {
        out.extend_from_slice(b"  error: ");
        quote::append(error, Quoting::Unquoted, out);
    }
}

fn at(seconds: f64) -> Option<Timestamp> {
    // What is beyond the times that can be shown is not the time of a request.
    Timestamp::from_microsecond((seconds * 1e6).round() as i64).ok()
}

fn colour_of_status(status: u16) -> &'static str {
    match status {
        500.. => RED,
        400.. => YELLOW,
        _ => "",
    }
}

fn colour_of_verdict(verdict: &str) -> Option<&'static str> {
    match verdict {
        "HIT" | "REVALIDATED" => Some(GREEN),
        "STALE" | "UPDATING" => Some(BLUE),
        "-" => None,
        _ => Some(YELLOW),
    }
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const BLUE: &str = "\x1b[34m";

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen<'static> {
        Seen {
            began: Some(1_795_695_440.983_67),
            seconds: Some(0.045),
            client: b"10.1.2.3",
            method: b"GET",
            host: b"site.test",
            url: b"/a\n\x1b[1m",
            status: Some(502),
            bytes: Some(12_595),
            cache: b"MISS",
            reason: b"not stored yet",
            origin: Some((b"10.0.0.1:9000", Some(0.0441))),
            errors: vec![b"it broke"],
            ..Seen::default()
        }
    }

    fn line(seen: &Seen<'_>, look: &Look) -> String {
        let mut out = Vec::new();
        append(seen, look, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_request_is_a_line() {
        let plain = Look::Text { zone: TimeZone::UTC, has_colours: false };
        let text = line(&seen(), &plain);
        let expected = "12:17:20.983 502 MISS        45ms   12k    10.1.2.3 GET site.test/a\\n\\x1b[1m  (not stored yet)  \
                        origin 10.0.0.1:9000 44ms  error: it broke\n";
        assert_eq!(text, expected);
        assert_eq!(line(&Seen::default(), &plain), "-            -   -           -      -      - - \n");
        let coloured = line(&seen(), &Look::Text { zone: TimeZone::UTC, has_colours: true });
        let odd = Seen { cache: b"\x1b[5m", ..seen() };
        assert!(!line(&odd, &plain).contains('\x1b'));
        assert!(coloured.contains("\x1b[31m502\x1b[0m \x1b[33mMISS\x1b[0m        45ms"), "{coloured:?}");
    }

    #[test]
    fn a_request_is_an_object() {
        let found: serde_json::Value = serde_json::from_str(&line(&seen(), &Look::Json)).unwrap();
        let expected = json!({
            "time": "2026-11-26T12:17:20.983670Z", "client": "10.1.2.3", "method": "GET", "host": "site.test",
            "url": "/a\n\u{1b}[1m", "status": 502, "bytes": 12595, "seconds": 0.045, "cache": "MISS",
            "reason": "not stored yet", "origin": "10.0.0.1:9000", "origin_seconds": 0.0441, "errors": ["it broke"],
        });
        assert_eq!(found, expected);
        let odd = Seen { url: "/\u{9b}31m\u{202e}".as_bytes(), ..seen() };
        assert!(line(&odd, &Look::Json).contains("\"url\":\"/\\u009b31m\\u202e\""));
    }
}
