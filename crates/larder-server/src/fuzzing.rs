//! The crate's parsers for `larder-fuzz`, which feeds them any bytes.

use bytes::Bytes;

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

/// The same for ESI: `text BYTES`, `include ...`, and what was found at the end. Any page is read.
pub fn esi(pieces: &[&[u8]]) -> Vec<String> {
    let rules = esi::Rules { reads_any: true, ..esi::Rules::default() };
    let (mut parser, mut events) = (esi::Parser::new(rules), Vec::new());
    for piece in pieces {
        parser.feed(&Bytes::copy_from_slice(piece), &mut events);
    }
    let findings = parser.finish(&mut events);
    let lines = events.into_iter().map(|event| match event {
        esi::Event::Text(text) => format!("text {}", text.escape_ascii()),
        esi::Event::Include(include) => format!("include {include:?}"),
    });
    joined(lines.chain([format!("{findings:?}")]))
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
