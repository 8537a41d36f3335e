//! What is compared, and what is not. For a varnishd, [`vcl_compare`] says what is made equal.
//!
//! Compared are: the status line; the fields of a response, names with their case, values, and the order of fields of
//! one name (that of different names does not matter); the body after its transfer coding; how the body's end was
//! told; `Connection`, and whether a connection closes that was said to close; what each origin saw, in the same manner (for
//! FastCGI the params sorted by name); and the log files that the case names.
//!
//! Made equal beforehand for nginx are:
//! - `Date`: only its presence counts, and that it is a date.
//! - A date in another field within four hundred days of `Date`: only its distance from `Date` counts.
//! - `Server`, and the server's signature in its own pages: the product and its version are the server's own. A
//!   Content-Length follows the body so changed.
//! - The boundary of multipart/byteranges, which is random.
//! - `REMOTE_PORT`, which the kernel chooses, and the version in `SERVER_SOFTWARE`.
//! - A body whose length we know and nginx does not: we send Content-Length where it sends chunks, or nothing for a
//!   HEAD. Never the other way round.
//! - What origins see of the version and of `Connection: close`: nginx 1.22 asks by HTTP/1.0 and closes, later ones by
//!   HTTP/1.1 and do not say.
//! - What the case's own rules say.

use std::fmt::Write;

use larder_testkit::{OriginSeen, Response, text_of, unpacked};

use crate::case::Rules;
use crate::date;
use crate::transcript::{Exchange, Transcript};
use crate::vcl_compare;

/// A date this near to `Date` was made for this answer.
const NEAR_SECS: i64 = 400 * 86_400;
/// Longer bodies are shown by their beginning and their hash.
const SHOWN_BYTES_MAX: usize = 3_000;

/// A part of a transcript, as lines that are compared.
struct Scene {
    title: String,
    lines: Vec<String>,
}

/// The whole transcript in the form in which it is compared.
pub fn show(transcript: &Transcript, rules: &Rules) -> String {
    scenes(transcript, rules).iter().fold(String::new(), |mut text, scene| {
        // Writing to a String cannot fail.
        let _ = write!(text, "-- {}\n   {}\n", scene.title, scene.lines.join("\n   "));
        text
    })
}

/// What differs, for people to read; `None` when nothing does.
pub fn differences(theirs: &Transcript, ours: &Transcript, rules: &Rules) -> Option<String> {
    match (&theirs.refusal, &ours.refusal) {
        (None, Some(reason)) => return Some(format!("ours refused to start:\n{reason}\n")),
        (Some(reason), None) => return Some(format!("only theirs refused to start:\n{reason}\n")),
        (Some(_), Some(_)) | (None, None) => {}
    }
    let (theirs, mut our) = (scenes(theirs, rules), scenes(ours, rules));
    if rules.is_vcl {
        for (left, right) in theirs.iter().zip(&mut our) {
            vcl_compare::level_times(&left.lines, &mut right.lines);
        }
    }
    let counts_as_measured = !rules.is_vcl || rules.is_measured;
    let empty = Scene { title: String::new(), lines: Vec::new() };
    let mut text = String::new();
    for index in 0..theirs.len().max(our.len()) {
        let left = theirs.get(index).unwrap_or(&empty);
        let right = our.get(index).unwrap_or(&empty);
        if left.lines != right.lines && !(counts_as_measured && is_only_measured(left, right)) {
            let title = if left.title.is_empty() { &right.title } else { &left.title };
            // Writing to a String cannot fail.
            let _ = write!(text, "-- {title}\n{}", line_difference(&left.lines, &right.lines));
        }
    }
    (!text.is_empty()).then_some(text)
}

/// Whether all that differs is that ours says the length of a body which nginx sends in chunks: stored pages and
/// pages of our own are whole before they are sent.
fn is_only_measured(theirs: &Scene, ours: &Scene) -> bool {
    let has = |scene: &Scene, line: &str| scene.lines.iter().any(|have| have == line);
    let is_head = theirs.title.starts_with("HEAD ");
    let measured = ours.lines.iter().any(|line| line.starts_with("Content-Length: "));
    let in_chunks =
        has(theirs, "Transfer-Encoding: chunked") && has(theirs, "framing Chunked") && has(ours, "framing Length");
    let unmeasured = !theirs.lines.iter().any(|line| line.starts_with("Content-Length: "));
    if !measured || !unmeasured || !(in_chunks || is_head) {
        return false;
    }
    let rest = |scene: &Scene| -> Vec<String> {
        let is_framing = |line: &String| {
            line.starts_with("Content-Length: ")
                || line == "Transfer-Encoding: chunked"
                || line == "framing Chunked"
                || line == "framing Length"
        };
        scene.lines.iter().filter(|line| !is_framing(line)).cloned().collect()
    };
    rest(theirs) == rest(ours)
}

fn scenes(transcript: &Transcript, rules: &Rules) -> Vec<Scene> {
    let mut scenes = Vec::new();
    let started = if transcript.refusal.is_some() { "refused" } else { "started" };
    scenes.push(Scene { title: "start".into(), lines: vec![started.into()] });
    scenes.extend(transcript.exchanges.iter().map(|exchange| exchange_scene(exchange, rules)));
    for (number, requests) in transcript.origins.iter().enumerate() {
        let is_ignored = |seen: &&OriginSeen| {
            let path = seen.request_line.split(' ').nth(1);
            rules.ignored_requests.iter().any(|ignored| Some(ignored.as_str()) == path)
        };
        let mut lines: Vec<Vec<String>> = requests
            .iter()
            .filter(|seen| !is_ignored(seen))
            .map(|seen| {
                if rules.is_vcl {
                    return seen_behind_vcl(seen, rules);
                }
                let line = seen.request_line.replace(" HTTP/1.0", " HTTP/1.x").replace(" HTTP/1.1", " HTTP/1.x");
                let is_told = |field: &&(String, String)| **field != ("Connection".to_owned(), "close".to_owned());
                let fields: Vec<_> = seen.fields.iter().filter(is_told).cloned().collect();
                message(&line, &fields, &seen.body, &rules.ignored_at_origin, rules)
            })
            .collect();
        if rules.is_origin_unordered {
            lines.sort();
        }
        scenes.push(Scene { title: format!("origin {} saw", number + 1), lines: lines.concat() });
    }
    for requests in &transcript.fastcgi {
        let mut lines: Vec<Vec<String>> = requests
            .iter()
            .map(|seen| {
                let params: Vec<_> =
                    seen.params.iter().map(|(name, value)| (name.clone(), param_value(name, value))).collect();
                let keep = if seen.keeps_connection { "FastCGI request, kept" } else { "FastCGI request" };
                message(keep, &params, &seen.stdin, &rules.ignored_at_origin, rules)
            })
            .collect();
        if rules.is_origin_unordered {
            lines.sort();
        }
        scenes.push(Scene { title: "FastCGI origin saw".into(), lines: lines.concat() });
    }
    for (name, text) in &transcript.logs {
        let mut lines: Vec<String> = text.lines().map(|line| masked(line, rules)).collect();
        if rules.is_log_unordered {
            lines.sort();
        }
        scenes.push(Scene { title: name.clone(), lines });
    }
    for text in &rules.error_log {
        let has = if transcript.error_log.contains(text) { "has it" } else { "has it not" };
        scenes.push(Scene { title: format!("error log: {text}"), lines: vec![has.into()] });
    }
    scenes
}

fn seen_behind_vcl(seen: &OriginSeen, rules: &Rules) -> Vec<String> {
    let fields = seen.fields.iter();
    let fields = fields.filter_map(|(name, value)| Some((name.clone(), vcl_compare::request_field(name, value)?)));
    message(&seen.request_line, &fields.collect::<Vec<_>>(), &seen.body, &rules.ignored_at_origin, rules)
}

fn exchange_scene(exchange: &Exchange, rules: &Rules) -> Scene {
    let mut lines = match &exchange.outcome {
        Ok(response) => response_lines(response, rules),
        Err(error) => vec![error.clone()],
    };
    if let Some(closed) = exchange.closed {
        lines.push(if closed { "then closed".into() } else { "then left open".into() });
    }
    Scene { title: exchange.label.clone(), lines }
}

fn response_lines(response: &Response, rules: &Rules) -> Vec<String> {
    let date = response.field("Date").and_then(date::parse);
    let boundary = response.field("Content-Type").and_then(|value| Some(value.split_once("byteranges; boundary=")?.1));
    let unbound = |text: String| match boundary {
        Some(boundary) => text.replace(boundary, "BOUNDARY"),
        None => text,
    };
    // Two compressors need not find the same bytes for one text. What gzip cannot read is compared as it is.
    let plain = match response.field("Content-Encoding") {
        Some("gzip") => Some(unpacked("gzip", &response.body)).filter(|plain| !plain.is_empty()),
        _ => None,
    };
    let is_packed = plain.is_some();
    let plain = plain.unwrap_or_else(|| response.body.clone());
    let body = unbound(text_of(&plain));
    let body = if rules.is_vcl { vcl_compare::page(&body) } else { unsigned(body) };
    let body_length = response.body.len().to_string();
    let is_signed = is_packed || body.len() != text_of(&response.body).len();
    let fields: Vec<(String, String)> = response
        .fields
        .iter()
        .map(|(name, value)| {
            let value = match name.to_ascii_lowercase().as_str() {
                "content-length" if is_signed && *value == body_length => "the body's".to_owned(),
                _ if rules.is_vcl => vcl_compare::response_field(name, &unbound(value.clone())),
                "date" => {
                    if date.is_some() {
                        "a date".to_owned()
                    } else {
                        value.clone()
                    }
                }
                "server" => {
                    unsigned(format!("<center>{value}</center>")).replace("<center>", "").replace("</center>", "")
                }
                _ => relative(&unbound(value.clone()), date),
            };
            (name.clone(), value)
        })
        .collect();
    let mut lines = message(&response.status_line, &fields, body.as_bytes(), &rules.ignored_fields, rules);
    lines.push(format!("framing {:?}", response.framing));
    lines.extend(response.trailers.iter().map(|(name, value)| format!("trailer {name}: {value}")));
    lines
}

/// A message as lines: fields sorted by name only, so that fields of one name keep their order.
fn message(first: &str, fields: &[(String, String)], body: &[u8], ignored: &[String], rules: &Rules) -> Vec<String> {
    let mut sorted: Vec<&(String, String)> =
        fields.iter().filter(|(name, _)| !ignored.contains(&name.to_ascii_lowercase())).collect();
    sorted.sort_by_key(|(name, _)| name.to_ascii_lowercase());
    let mut lines = vec![masked(first, rules)];
    lines.extend(sorted.iter().map(|(name, value)| masked(&format!("{name}: {value}"), rules)));
    if !body.is_empty() {
        lines.push(String::new());
        lines.extend(body_lines(&masked(&text_of(body), rules)));
    }
    lines
}

fn body_lines(body: &str) -> Vec<String> {
    if body.len() <= SHOWN_BYTES_MAX {
        return body.split('\n').map(|line| line.escape_debug().to_string()).collect();
    }
    let beginning: String = body.chars().take(200).collect();
    let hash = body
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    vec![format!("{} bytes, FNV {hash:016x}: {}...", body.len(), beginning.escape_debug())]
}

/// `<center>nginx/1.22.1</center>` without the product and its version.
fn unsigned(text: String) -> String {
    let mut result = text;
    for product in ["nginx", "larder"] {
        let start = format!("<center>{product}");
        while let Some(at) = result.find(&start) {
            let rest = result.get(at + start.len()..).unwrap_or_default();
            let Some(end) = rest.find("</center>") else {
                break;
            };
            let version = if end == 0 { "" } else { "/version" };
            result.replace_range(at..at + start.len() + end, &format!("<center>a server{version}"));
        }
    }
    result
}

/// A date near `now` as its distance.
fn relative(value: &str, now: Option<i64>) -> String {
    match (date::parse(value), now) {
        (Some(then), Some(now)) if (then - now).abs() < NEAR_SECS => {
            format!("Date {:+} s", then - now)
        }
        _ => value.to_owned(),
    }
}

fn param_value(name: &str, value: &str) -> String {
    match name {
        "REMOTE_PORT" => "a port".to_owned(),
        "SERVER_SOFTWARE" => "a server".to_owned(),
        _ => value.to_owned(),
    }
}

fn masked(text: &str, rules: &Rules) -> String {
    rules.masks.iter().fold(text.to_owned(), |text, (start, end)| mask(&text, start, end))
}

/// Replaces what stands between each `start` and the next `end`.
fn mask(text: &str, start: &str, end: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(start) {
        result = result + before + start;
        let (kept, is_found) = after.split_once(end).map_or((after, false), |(_, tail)| (tail, true));
        if !is_found {
            return result + kept;
        }
        result = result + "MASKED" + end;
        rest = kept;
    }
    result + rest
}

/// Lines of both sides by their longest common subsequence.
fn line_difference(left: &[String], right: &[String]) -> String {
    let width = right.len() + 1;
    let mut lengths = vec![0_usize; (left.len() + 1) * width];
    for (i, from_left) in left.iter().enumerate().rev() {
        for (j, from_right) in right.iter().enumerate().rev() {
            lengths[i * width + j] = if from_left == from_right {
                lengths[(i + 1) * width + j + 1] + 1
            } else {
                lengths[(i + 1) * width + j].max(lengths[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut text) = (0, 0, String::new());
    while i < left.len() || j < right.len() {
        let (sign, line) = if i < left.len() && j < right.len() && left[i] == right[j] {
            (i, j) = (i + 1, j + 1);
            (' ', &left[i - 1])
        } else if j == right.len() || (i < left.len() && lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
            i += 1;
            ('-', &left[i - 1])
        } else {
            j += 1;
            ('+', &right[j - 1])
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {sign} {line}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_servers_must_tell_apart_is_made_equal() {
        for (value, now, want) in [
            ("Thu, 01 Jan 1970 00:01:00 GMT", Some(0), "Date +60 s"),
            ("Thu, 31 Dec 2037 23:55:55 GMT", Some(0), "Thu, 31 Dec 2037 23:55:55 GMT"),
            ("other", Some(0), "other"),
        ] {
            assert_eq!(relative(value, now), want);
        }
        assert_eq!(unsigned("<hr><center>nginx/1.22.1</center>".into()), "<hr><center>a server/version</center>");
        assert_eq!(unsigned("<center>larder</center>".into()), "<center>a server</center>");
        assert_eq!(mask("a=1; a=2; b", "a=", ";"), "a=MASKED; a=MASKED; b");
    }

    #[test]
    fn a_difference_shows_both_sides() {
        let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(line_difference(&lines("a b c"), &lines("a x c")), "    a\n  - b\n  + x\n    c\n");
    }
}
