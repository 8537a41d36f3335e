//! The crate's parsers for `larder-fuzz`, which feeds them any bytes.

use bytes::Bytes;
use larder_http::Fields;

use crate::filter::esi;
use crate::request::ssi::parse::{Event, Parser};

/// The longest value of SSI, as the default of `ssi_value_length`.
const VALUE_BYTES_MAX: usize = 256;

/// The contents of a page that arrives in these pieces: `text BYTES`, `command ...`, `broken WHY`.
pub fn ssi(pieces: &[&[u8]]) -> Vec<String> {
    let (mut parser, mut events) = (Parser::new(VALUE_BYTES_MAX), Vec::new());
    for piece in pieces {
        parser.feed(&Bytes::copy_from_slice(piece), &mut events);
    }
    events.extend(parser.finish().map(Event::Text));
    let lines = events.into_iter().map(|event| match event {
        Event::Text(text) => format!("text {}", text.escape_ascii()),
        Event::Command(command) => format!("command {command:?}"),
        Event::Broken(why) => format!("broken {why}"),
    });
    joined(lines)
}

/// The same for ESI: `text BYTES`, `include ...`, and what was found at the end. Any page is read, as for a VCL or, if `is_full`
/// says so, with all of ESI 1.0; then a visitor's part of it follows.
pub fn esi(pieces: &[&[u8]], is_full: bool) -> Vec<String> {
    let rules = esi::Rules { reads_any: true, is_full, ..esi::Rules::default() };
    let (mut parser, mut events) = (esi::Parser::new(rules), Vec::new());
    for piece in pieces {
        parser.feed(&Bytes::copy_from_slice(piece), &mut events);
    }
    let findings = parser.finish(&mut events);
    let seen = if is_full { seen(&events) } else { Vec::new() };
    let lines = events.into_iter().map(|event| match event {
        esi::Event::Text(text) => format!("text {}", text.escape_ascii()),
        event => format!("{event:?}"),
    });
    joined(lines.chain([format!("{findings:?}")]).chain(seen))
}

/// What one visitor sees of a page with ESI.
fn seen(events: &[esi::Event]) -> Vec<String> {
    let fields: Fields =
        [("Host", "a.test"), ("Cookie", "a=1; b=<>&'\"/.."), ("Accept-Language", "de")].into_iter().collect();
    let visitor = esi::Visitor { fields: &fields, named: None, target: b"/x/y?a=2&b=%2e%2e", around: esi::Place::Text };
    let mut flow = esi::Flow::default();
    let mut lines = Vec::new();
    for event in events {
        match event {
            esi::Event::Mark(mark) => match flow.pass(mark, &visitor) {
                esi::Turn::None => {}
                turn => lines.push(format!("{turn:?}")),
            },
            _ if !flow.shows() => {}
            esi::Event::Text(text) => lines.push(format!("text {}", text.escape_ascii())),
            esi::Event::Variable(variable, place) => {
                let shown = variable.shown(*place, &visitor);
                lines.push(format!("text {}", shown.escape_ascii()));
            }
            esi::Event::Include(include) => match include.seen_by(&visitor) {
                Ok(include) => lines.push(format!("asks {}", include.target(visitor.target).escape_ascii())),
                Err(why) => lines.push(why.into_owned()),
            },
        }
    }
    assert!(flow.is_outside(), "each mark has its end");
    lines
}

/// Lines, where texts that follow each other are one.
fn joined(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    for now in lines {
        if now == "text " {
            continue;
        }
        match (told.last_mut(), now.strip_prefix("text ")) {
            (Some(last), Some(more)) if last.starts_with("text ") => last.push_str(more),
            _ => told.push(now),
        }
    }
    told
}
