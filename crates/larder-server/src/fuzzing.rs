//! The crate's parsers for `larder-fuzz`, which feeds them any bytes.

use bytes::Bytes;

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
    let mut told: Vec<String> = Vec::new();
    for event in events {
        let now = match event {
            Event::Text(text) if text.is_empty() => continue,
            Event::Text(text) => format!("text {}", text.escape_ascii()),
            Event::Command(command) => format!("command {command:?}"),
            Event::Broken(why) => format!("broken {why}"),
        };
        match (told.last_mut(), now.strip_prefix("text ")) {
            (Some(last), Some(more)) if last.starts_with("text ") => last.push_str(more),
            _ => told.push(now),
        }
    }
    told
}
