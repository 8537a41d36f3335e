//! Transactions in groups: what belongs together is shown together.
//!
//! Transactions arrive whole, in the order in which they end, so that a child may come before its parent. `Begin` names
//! the parent, `Link` the children; who is named and has not come is waited for, until a limit forces the group out.
//!
//! `link` reads these records, `wait` keeps what is not complete.

mod link;
mod wait;

use std::time::Duration;

use super::record::{Kind, Record, Side, Transaction};
use super::tag::Tag;

pub use link::Reason;
pub use wait::Groups;

/// What belongs together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// Each record stands alone.
    Raw,
    /// Each transaction stands alone.
    Vxid,
    /// A request of a client with all that it led to.
    Request,
    /// A connection of a client with all its requests.
    Session,
}

/// How much is kept of what is not complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Transactions.
    pub transactions: usize,
    /// How long one is waited for.
    pub time: Duration,
    /// Bytes of transactions.
    pub bytes: usize,
}

/// Transactions that are shown together. The first one led to all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// In the order of their levels; never empty.
    pub members: Vec<Member>,
}

/// A transaction in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// How many others led to it, counted from 1. What a restart makes has the level of its request. 0 for a lone record.
    pub level: u32,
    /// Its number.
    pub vxid: u64,
    /// What it is; `None` if nothing of it has come, and nobody said.
    pub kind: Option<Kind>,
    /// Why it began.
    pub reason: Reason,
    /// Whether it is a request inside of another.
    pub is_inner: bool,
    /// Of a lone record, what its transaction is.
    pub lone_of: Option<Kind>,
    transaction: Option<Transaction>,
    notes: Vec<Note>,
}

/// A record that the reader has added.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Note {
    /// How many records of the transaction stand in front of it.
    at: usize,
    tag: Tag,
    side: Side,
    text: Vec<u8>,
}

impl Grouping {
    /// The grouping of this name, or of this beginning of one.
    pub fn of_name(name: &str) -> Option<Self> {
        let begins =
            |own: &str| !name.is_empty() && own.get(..name.len()).is_some_and(|own| own.eq_ignore_ascii_case(name));
        let found: Vec<Self> = GROUPINGS.iter().filter(|(own, _)| begins(own)).map(|(_, grouping)| *grouping).collect();
        if let [one] = found[..] { Some(one) } else { None }
    }
}

const GROUPINGS: [(&str, Grouping); 4] =
    [("raw", Grouping::Raw), ("vxid", Grouping::Vxid), ("request", Grouping::Request), ("session", Grouping::Session)];

impl Default for Limits {
    /// Those of varnishlog, and a fourth of a gigabyte.
    fn default() -> Self {
        Self { transactions: 1000, time: Duration::from_secs(120), bytes: 256 << 20 }
    }
}

impl Member {
    /// A transaction of which nothing has come.
    pub(crate) fn nothing(kind: Option<Kind>, reason: Reason) -> Self {
        Self { level: 0, vxid: 0, kind, reason, is_inner: false, lone_of: None, transaction: None, notes: Vec::new() }
    }

    /// A record that stands alone.
    fn lone(vxid: u64, kind: Kind, record: Record<'_>) -> Self {
        let note = Note { at: 0, tag: record.tag, side: kind.side(), text: record.text.to_vec() };
        Self { vxid, lone_of: Some(kind), notes: vec![note], ..Self::nothing(Some(Kind::Raw), Reason::Unknown) }
    }

    /// Its records and whose they are, with those that the reader has added.
    pub fn records(&self) -> impl Iterator<Item = (Record<'_>, Side)> {
        let side = self.transaction.as_ref().map_or(Side::None, |transaction| transaction.kind().side());
        let mut records = self.transaction.as_ref().map(Transaction::records).into_iter().flatten();
        let mut notes = self.notes.iter().peekable();
        let mut given = 0;
        std::iter::from_fn(move || {
            if let Some(note) = notes.next_if(|note| note.at <= given) {
                return Some((Record { tag: note.tag, text: &note.text }, note.side));
            }
            match records.next() {
                Some(record) => {
                    given += 1;
                    Some((record, side))
                }
                None => notes.next().map(|note| (Record { tag: note.tag, text: &note.text }, note.side)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groupings_have_names_and_beginnings() {
        for (name, expected) in [
            ("raw", Some(Grouping::Raw)),
            ("VXID", Some(Grouping::Vxid)),
            ("r", None),
            ("re", Some(Grouping::Request)),
            ("s", Some(Grouping::Session)),
            ("", None),
            ("requests", None),
            ("é", None),
        ] {
            assert_eq!(Grouping::of_name(name), expected, "{name}");
        }
    }
}
