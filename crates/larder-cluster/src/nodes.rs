//! The nodes, as the server knows them.

use redis::{Pipeline, Value};

use crate::fault::Fault;
use crate::link::{items, text, time_of};
use crate::place::EntryId;
use crate::shared::{FORGOTTEN_MS, Shared};

/// The nodes, as the server knows them.
pub(crate) struct Nodes {
    /// The server's time.
    pub now: u64,
    /// The name of the log.
    pub epoch: String,
    pub all: Vec<Seen>,
}

/// A node.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub name: String,
    /// When it noted last that it is there.
    pub last: u64,
    /// How far it had read then.
    pub noted: Option<EntryId>,
    /// How far it has read, if it is there.
    pub at: Option<EntryId>,
}

impl Nodes {
    /// Asks for them in two questions, and has in a third the server forget those that were away for too long.
    pub fn ask(shared: &Shared, mut ask: impl FnMut(&Pipeline) -> Result<Vec<Value>, Fault>) -> Result<Self, Fault> {
        let own = shared.node.lock().clone();
        let mut commands = redis::pipe();
        commands.cmd("TIME");
        commands.cmd("HGETALL").arg(&shared.keys.nodes);
        commands.cmd("GET").arg(&shared.keys.epoch);
        let answers = ask(&commands)?;
        let odd = || Fault::Odd("its nodes".to_owned());
        let [time, nodes, epoch] = &answers[..] else { return Err(odd()) };
        let now = time_of(time).ok_or_else(odd)?;
        let is_forgotten = |seen: &Seen| seen.name != own && now.saturating_sub(seen.last) > FORGOTTEN_MS;
        let (forgotten, mut all): (Vec<Seen>, Vec<Seen>) = noted(nodes).partition(is_forgotten);
        let mut commands = redis::pipe();
        if !all.is_empty() {
            let places = commands.cmd("MGET");
            all.iter().for_each(|seen| {
                places.arg(shared.keys.at(&seen.name));
            });
        }
        let answers = if commands.is_empty() { Vec::new() } else { ask(&commands)? };
        let places = answers.first().filter(|_| !all.is_empty()).map(items).unwrap_or_default();
        for (seen, place) in all.iter_mut().zip(places) {
            seen.at = place_of(place);
        }
        if !forgotten.is_empty() {
            let mut commands = redis::pipe();
            let forget = commands.cmd("HDEL").arg(&shared.keys.nodes);
            forgotten.iter().for_each(|seen| {
                forget.arg(&seen.name);
            });
            // One that may not write has others do that.
            if let Err(fault) = ask(&commands)
                && !fault.is_of_writing()
            {
                return Err(fault);
            }
        }
        Ok(Self { now, epoch: text(epoch).unwrap_or_default().to_owned(), all })
    }
}

/// What a node notes of itself once a second: the server's time, and how far it has read.
pub(crate) fn note(now: u64, at: EntryId) -> String {
    format!("{now} {at}")
}

/// The nodes by their notes; what no node writes is left out.
fn noted(value: &Value) -> impl Iterator<Item = Seen> {
    items(value).chunks_exact(2).filter_map(|pair| {
        let [name, note] = pair else { return None };
        let name = text(name).filter(|name| is_name(name))?.to_owned();
        let note = text(note)?;
        let (last, place) = note.split_once(' ').unwrap_or((note, ""));
        Some(Seen { name, last: last.parse().ok()?, noted: place.parse().ok(), at: None })
    })
}

/// Whether a node can be called so, as far as a message is concerned.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 255 && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"')
}

/// How far a node has read, by its word.
fn place_of(word: &Value) -> Option<EntryId> {
    text(word)?.split_once(' ')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &[u8]) -> Value {
        Value::BulkString(text.to_vec())
    }

    #[test]
    fn what_no_node_has_written_is_no_node() {
        let all = [&b"web1"[..], b"17 3-4", b"we\nb2", b"18", b"", b"19", b"web3", b"soon", b"\xff", b"20", b"web4"];
        let all = Value::Array(all.iter().map(|text| word(text)).collect());
        let at = EntryId { ms: 3, number: 4 };
        let expected = Seen { name: "web1".to_owned(), last: 17, noted: Some(at), at: None };
        assert_eq!(noted(&all).collect::<Vec<_>>(), [expected]);
        assert_eq!(noted(&Value::Nil).count(), 0);
        assert_eq!(place_of(&word(b"abc 5-6")), Some(EntryId { ms: 5, number: 6 }));
        for text in [&b""[..], b"5-6", b"abc ", b"abc five"] {
            assert_eq!(place_of(&word(text)), None);
        }
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let at = EntryId { ms: 3, number: 4 };
        for (written, noted_at) in [(note(17, at), Some(at)), ("17".to_owned(), None), ("17 soon".to_owned(), None)] {
            let all = Value::Array(vec![word(b"web1"), word(written.as_bytes())]);
            let seen: Vec<_> = noted(&all).map(|seen| (seen.last, seen.noted)).collect();
            assert_eq!(seen, [(17, noted_at)], "{written}");
        }
    }
}
