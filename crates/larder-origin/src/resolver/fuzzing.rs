//! The DNS parser, for `larder-fuzz`.

use super::wire;

/// Reads an answer of a name server: its id, name, kind of question, and all else as text.
pub fn dns_reply(message: &[u8], by_tcp: bool) -> Result<(u16, String, usize, String), String> {
    let reply = wire::read(message, by_tcp).map_err(|error| error.to_string())?;
    let kind = KINDS.iter().position(|kind| *kind == reply.kind).unwrap_or(KINDS.len());
    let all = format!("{reply:?}");
    Ok((reply.id, reply.name, kind, all))
}

/// A question for a name server, of the first, second or third kind.
pub fn dns_question(id: u16, name: &str, kind: usize) -> Option<Vec<u8>> {
    wire::question(id, name, *KINDS.get(kind)?)
}

const KINDS: [wire::Kind; 3] = [wire::Kind::A, wire::Kind::Aaaa, wire::Kind::Srv];
