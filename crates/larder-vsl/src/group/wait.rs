//! What has come, and what it waits for.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::link::{self, Link, Reason};
use super::{Group, Grouping, Limits, Member, Note};
use crate::record::{Kind, Side, Transaction};
use crate::tag::Tag;

/// Makes groups of transactions.
#[derive(Debug)]
pub struct Groups {
    grouping: Grouping,
    limits: Limits,
    kept: HashMap<u64, Kept>,
    /// Those that are named and have not come, the oldest first: their places and their numbers.
    awaited: BTreeMap<u64, u64>,
    next_place: u64,
    /// Bytes of the transactions that are kept.
    bytes: usize,
    ready: VecDeque<Group>,
}

/// A transaction that has come or is named.
#[derive(Debug)]
struct Kept {
    kind: Option<Kind>,
    reason: Reason,
    is_inner: bool,
    state: State,
    transaction: Option<Transaction>,
    notes: Vec<Note>,
    parent: Option<u64>,
    /// In the order of the links, as far as there are some.
    children: Vec<u64>,
    /// How many of these are complete, with all below them.
    complete_children: usize,
}

/// ```text
/// Awaited --add--> Arriving --its records are read--> Here
///     `------------------- a limit -------------------^
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Its place among those that are waited for, and since when.
    Awaited(u64, Duration),
    /// Its records are being read: it may be tied to others.
    Arriving,
    /// Who names it now comes too late.
    Here,
}

impl Groups {
    /// Nothing yet.
    pub fn new(grouping: Grouping, limits: Limits) -> Self {
        Self {
            grouping,
            limits,
            kept: HashMap::new(),
            awaited: BTreeMap::new(),
            next_place: 0,
            bytes: 0,
            ready: VecDeque::new(),
        }
    }

    /// Takes a transaction that has ended at `now`, by a clock that nobody sets.
    pub fn add(&mut self, transaction: Transaction, now: Duration) {
        let (kind, vxid) = (transaction.kind(), transaction.vxid());
        match self.grouping {
            Grouping::Raw => {
                let lone = |record| Group { members: vec![Member::lone(vxid, kind, record)] };
                self.ready.extend(transaction.records().map(lone));
            }
            // What belongs to no transaction cannot be in a group.
            Grouping::Vxid | Grouping::Request | Grouping::Session if vxid == 0 || kind == Kind::Raw => {}
            Grouping::Request if kind == Kind::Session => {}
            Grouping::Vxid | Grouping::Request | Grouping::Session => self.keep(transaction, now),
        }
        self.force_what_is_too_much();
    }

    /// Forces out what has been waited for too long at `now`.
    pub fn pass_time(&mut self, now: Duration) {
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.force_oldest("timeout");
        }
    }

    /// When something will have been waited for too long.
    pub fn deadline(&self) -> Option<Duration> {
        let (_, vxid) = self.awaited.first_key_value()?;
        match self.kept.get(vxid)?.state {
            State::Awaited(_, since) => Some(since.saturating_add(self.limits.time)),
            State::Arriving | State::Here => None,
        }
    }

    /// Forces out everything.
    pub fn flush(&mut self) {
        while !self.awaited.is_empty() {
            self.force_oldest("flush");
        }
    }

    /// The next group that is complete.
    pub fn next_ready(&mut self) -> Option<Group> {
        self.ready.pop_front()
    }

    fn keep(&mut self, transaction: Transaction, now: Duration) {
        let vxid = transaction.vxid();
        let here = self.kept.entry(vxid).or_insert_with(Kept::nothing);
        match here.state {
            State::Awaited(place, _) => {
                self.awaited.remove(&place);
            }
            State::Arriving => {}
            // Two of one number: only one can have the children, and the first one waits for them.
            State::Here => return,
        }
        here.state = State::Arriving;
        self.bytes += transaction.bytes().len();
        let (said, kind) = (here.kind, transaction.kind());
        here.kind = said.or(Some(kind));
        let links = self.scan(&transaction, now);
        let Some(here) = self.kept.get_mut(&vxid) else { return };
        // Those that are not linked came by themselves, and stay behind those that are.
        let (mut linked, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut here.children).into_iter().partition(|child| links.contains_key(child));
        linked.sort_by_key(|child| links.get(child));
        linked.extend(others);
        here.children = linked;
        here.kind = Some(kind);
        here.transaction = Some(transaction);
        here.state = State::Here;
        self.complete(vxid);
    }

    /// Ties a transaction to its parent and its children. Returns the places of its links.
    fn scan(&mut self, transaction: &Transaction, now: Duration) -> HashMap<u64, usize> {
        let (vxid, side) = (transaction.vxid(), transaction.kind().side());
        let (mut links, mut begun) = (HashMap::new(), false);
        for (at, record) in transaction.records().enumerate() {
            let wrong = match record.tag {
                Tag::Begin if begun => Some("duplicate begin"),
                Tag::Begin => {
                    begun = true;
                    self.begin(vxid, record.text, now)
                }
                Tag::Link => self.link(vxid, record.text, &mut links, now),
                _ => None,
            };
            if let Some(wrong) = wrong {
                let name = record.tag.name();
                let mut text = format!("{wrong} ({vxid}:{name} \"").into_bytes();
                text.extend_from_slice(record.text);
                text.extend_from_slice(b"\")");
                text.truncate(NOTE_BYTES_MAX);
                if let Some(here) = self.kept.get_mut(&vxid).filter(|here| here.notes.len() < NOTES_MAX) {
                    here.notes.push(Note { at: at + 1, tag: Tag::Vsl, side, text });
                }
            }
        }
        links
    }

    /// A transaction says who led to it. Returns what is wrong with that.
    fn begin(&mut self, vxid: u64, text: &[u8], now: Duration) -> Option<&'static str> {
        let Some(link) = Link::read(text) else { return Some("parse error") };
        let here = self.kept.get_mut(&vxid)?;
        let mismatch = link.kind.is_none() || here.kind != link.kind;
        here.reason = link.reason;
        here.is_inner = link.reason == Reason::Esi || link.level > 0;
        let wrong = if link.kind.is_none() { Some("unknown vxid type") } else { mismatch.then_some("type mismatch") };
        let stands_alone = match self.grouping {
            Grouping::Raw | Grouping::Vxid => true,
            Grouping::Request => link.kind == Some(Kind::Request) && link.reason == Reason::RxReq,
            Grouping::Session => false,
        };
        match link.vxid {
            0 => return wrong,
            own if own == vxid => return Some("link to self"),
            _ if stands_alone => return wrong,
            _ => {}
        }
        match here.parent {
            Some(parent) if parent != link.vxid => return Some("link mismatch"),
            Some(_) => return wrong,
            None => {}
        }
        match self.kept.get(&link.vxid) {
            Some(parent) if parent.state == State::Here => return Some("link too late"),
            Some(_) if self.is_above(vxid, link.vxid) => return Some("link mismatch"),
            Some(_) => {}
            // The one that a request came over is a session: it may end long after its time is over, and is shown then.
            None => {
                let kind = (link.reason == Reason::RxReq).then_some(Kind::Session);
                self.await_one(link.vxid, kind, Reason::Unknown, now);
            }
        }
        self.tie(link.vxid, vxid);
        wrong
    }

    /// A transaction says what it led to. Returns what is wrong with that.
    fn link(&mut self, vxid: u64, text: &[u8], links: &mut HashMap<u64, usize>, now: Duration) -> Option<&'static str> {
        let Some(link) = Link::read(text) else { return Some("parse error") };
        let mut wrong = link.kind.is_none().then_some("unknown vxid type");
        match self.grouping {
            Grouping::Raw | Grouping::Vxid => return wrong,
            Grouping::Request | Grouping::Session => {}
        }
        match link.vxid {
            0 => return Some("illegal link vxid"),
            own if own == vxid => return Some("link to self"),
            _ => {}
        }
        let place = links.len();
        if !self.kept.contains_key(&link.vxid) {
            self.await_one(link.vxid, link.kind, link.reason, now);
        } else if self.is_above(link.vxid, vxid) {
            return Some("link mismatch");
        } else if let Some(child) = self.kept.get_mut(&link.vxid) {
            match child.parent {
                Some(parent) if parent == vxid => {
                    links.entry(link.vxid).or_insert(place);
                    return wrong;
                }
                Some(_) => return Some("duplicate link"),
                None if child.state == State::Here => return Some("link too late"),
                None => {}
            }
            if child.kind.is_some() && child.kind != link.kind {
                wrong = Some("type mismatch");
            }
            (child.kind, child.reason) = (link.kind, link.reason);
        }
        links.entry(link.vxid).or_insert(place);
        self.tie(vxid, link.vxid);
        wrong
    }

    fn await_one(&mut self, vxid: u64, kind: Option<Kind>, reason: Reason, now: Duration) {
        let place = self.next_place;
        self.next_place += 1;
        self.awaited.insert(place, vxid);
        self.kept.insert(vxid, Kept { kind, reason, state: State::Awaited(place, now), ..Kept::nothing() });
    }

    fn tie(&mut self, parent: u64, child: u64) {
        if let Some(kept) = self.kept.get_mut(&child) {
            kept.parent = Some(parent);
        }
        if let Some(kept) = self.kept.get_mut(&parent) {
            kept.children.push(child);
        }
    }

    /// Whether one stands above another, or is the same. No circle begins, as this is asked in front of each tie.
    fn is_above(&self, above: u64, below: u64) -> bool {
        let mut one = Some(below);
        while let Some(vxid) = one {
            if vxid == above {
                return true;
            }
            one = self.kept.get(&vxid).and_then(|kept| kept.parent);
        }
        false
    }

    /// A transaction is here: it may have been the last one that its group waited for.
    fn complete(&mut self, vxid: u64) {
        let mut vxid = vxid;
        loop {
            let Some(here) = self.kept.get(&vxid) else { return };
            if here.state != State::Here || here.complete_children < here.children.len() {
                return;
            }
            let Some(parent) = here.parent else { break };
            if let Some(parent) = self.kept.get_mut(&parent) {
                parent.complete_children += 1;
            }
            vxid = parent;
        }
        let group = self.take_group(vxid);
        let is_shown = match self.grouping {
            Grouping::Raw | Grouping::Vxid => true,
            Grouping::Request => group.members[0].kind == Some(Kind::Request),
            Grouping::Session => group.members[0].kind == Some(Kind::Session),
        };
        if is_shown {
            self.ready.push_back(group);
        }
    }

    /// Takes out a transaction with all below it, level by level.
    fn take_group(&mut self, top: u64) -> Group {
        let mut members: Vec<Member> = Vec::new();
        let mut next = VecDeque::from([(top, 0)]);
        while let Some((vxid, above)) = next.pop_front() {
            let Some(kept) = self.kept.remove(&vxid) else { continue };
            let level = match kept.reason {
                Reason::Restart if above > 0 => above,
                _ => above + 1,
            };
            self.bytes -= kept.transaction.as_ref().map_or(0, |transaction| transaction.bytes().len());
            next.extend(kept.children.iter().map(|child| (*child, level)));
            let Kept { kind, reason, is_inner, transaction, notes, .. } = kept;
            members.push(Member { level, vxid, kind, reason, is_inner, lone_of: None, transaction, notes });
        }
        Group { members }
    }

    fn force_what_is_too_much(&mut self) {
        while self.kept.len() > self.limits.transactions || self.bytes > self.limits.bytes {
            if !self.force_oldest("store overflow") {
                return;
            }
        }
    }

    /// Goes on without the one that is waited for longest, as if it had come. Returns whether there was one.
    fn force_oldest(&mut self, why: &'static str) -> bool {
        let Some((_, vxid)) = self.awaited.pop_first() else { return false };
        if let Some(here) = self.kept.get_mut(&vxid) {
            let side = here.kind.filter(|kind| *kind != Kind::Session).map_or(Side::None, Kind::side);
            let begin = format!("{} 0 synth", link::word(here.kind)).into_bytes();
            let all = [(Tag::Begin, begin), (Tag::Vsl, why.into()), (Tag::End, b"synth".to_vec())];
            here.notes.extend(all.map(|(tag, text)| Note { at: 0, tag, side, text }));
            here.state = State::Here;
            here.reason = Reason::Unknown;
        }
        self.complete(vxid);
        true
    }
}

impl Kept {
    fn nothing() -> Self {
        Self {
            kind: None,
            reason: Reason::Unknown,
            is_inner: false,
            state: State::Arriving,
            transaction: None,
            notes: Vec::new(),
            parent: None,
            children: Vec::new(),
            complete_children: 0,
        }
    }
}

/// How long a note is, as in Varnish.
const NOTE_BYTES_MAX: usize = 255;
/// How many notes a transaction gets.
const NOTES_MAX: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;

    const NOW: Duration = Duration::from_secs(1000);

    fn transaction(kind: Kind, vxid: u64, records: &[(Tag, &str)]) -> Transaction {
        let mut writer = Writer::new(kind, vxid);
        for (tag, text) in records {
            writer.record(*tag, usize::MAX, |out| out.extend_from_slice(text.as_bytes()));
        }
        writer.finish()
    }

    /// A transaction of `KIND VXID < BEGIN > LINK > LINK`.
    fn written(line: &str) -> Transaction {
        let mut parts = line.split(" > ");
        let (head, begin) = parts.next().unwrap().split_once(" < ").unwrap();
        let (kind, vxid) = head.split_once(' ').unwrap();
        let kind = Link::read(format!("{kind} 0 -").as_bytes()).unwrap().kind.unwrap();
        let mut records = vec![(Tag::Begin, begin)];
        records.extend(parts.map(|link| (Tag::Link, link)));
        records.push((Tag::End, ""));
        transaction(kind, vxid.parse().unwrap(), &records)
    }

    /// `LEVEL KIND VXID`, and what the reader has added.
    fn shown(group: &Group) -> String {
        let one = |member: &Member| {
            let added: String = member
                .notes
                .iter()
                .filter(|note| note.tag == Tag::Vsl)
                .map(|note| format!(" [{}]", String::from_utf8_lossy(&note.text)))
                .collect();
            format!("{} {} {}{added}", member.level, link::word(member.kind), member.vxid)
        };
        group.members.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    fn ready(groups: &mut Groups) -> Vec<String> {
        std::iter::from_fn(|| groups.next_ready()).map(|group| shown(&group)).collect()
    }

    fn grouped(grouping: Grouping, lines: &[&str]) -> Vec<String> {
        let mut groups = Groups::new(grouping, Limits::default());
        for line in lines {
            groups.add(written(line), NOW);
        }
        let mut all = ready(&mut groups);
        if groups.kept.is_empty() {
            assert_eq!((groups.bytes, groups.awaited.len()), (0, 0));
            return all;
        }
        all.push("---".to_owned());
        groups.flush();
        all.extend(ready(&mut groups));
        assert_eq!((groups.bytes, groups.awaited.len(), groups.kept.len()), (0, 0, 0));
        all
    }

    /// A page with an include, each fetched, in the order in which these end.
    const PAGE: [&str; 5] = [
        "bereq 3 < bereq 2 fetch",
        "bereq 5 < bereq 4 fetch",
        "req 4 < req 2 esi 1 > bereq 5 fetch",
        "req 2 < req 1 rxreq > bereq 3 fetch > req 4 esi 1",
        "sess 1 < sess 0 HTTP/1 > req 2 rxreq",
    ];

    #[test]
    fn what_belongs_together_is_a_group_whoever_comes_first() {
        let page = ["1 req 2, 2 bereq 3, 2 req 4, 3 bereq 5"];
        let mut lines = PAGE;
        assert_eq!(grouped(Grouping::Request, &lines), page);
        assert_eq!(grouped(Grouping::Session, &lines), ["1 sess 1, 2 req 2, 3 bereq 3, 3 req 4, 4 bereq 5"]);
        let alone = ["1 bereq 3", "1 bereq 5", "1 req 4", "1 req 2", "1 sess 1"];
        assert_eq!(grouped(Grouping::Vxid, &lines), alone);
        let lone = ["0 raw 3", "0 raw 3", "0 raw 5", "0 raw 5"];
        assert_eq!(grouped(Grouping::Raw, &lines[..2]), lone);
        // Every other order: parents first, children first, and what lies between.
        for turn in 0..5 {
            lines.rotate_left(1);
            assert_eq!(grouped(Grouping::Request, &lines), page, "turned by {turn}");
            let reversed: Vec<_> = lines.iter().rev().copied().collect();
            assert_eq!(grouped(Grouping::Request, &reversed), page, "turned by {turn} and reversed");
            assert_eq!(grouped(Grouping::Session, &reversed).len(), 1, "turned by {turn} and reversed");
        }
    }

    #[test]
    fn levels_are_those_of_varnish() {
        for (what, lines, expected) in [
            (
                "a restart stays on the level of its request",
                &[
                    "bereq 3 < bereq 2 fetch",
                    "req 2 < req 1 rxreq > bereq 3 fetch > req 4 restart",
                    "req 4 < req 2 restart",
                ][..],
                "1 req 2, 2 bereq 3, 1 req 4",
            ),
            (
                "a retry is below the fetch",
                &[
                    "bereq 4 < bereq 3 retry",
                    "bereq 3 < bereq 2 fetch > bereq 4 retry",
                    "req 2 < req 1 rxreq > bereq 3 fetch",
                ],
                "1 req 2, 2 bereq 3, 3 bereq 4",
            ),
            (
                "children are in the order of the links",
                &["req 4 < req 2 esi 1", "req 3 < req 2 esi 1", "req 2 < req 1 rxreq > req 3 esi 1 > req 4 esi 1"],
                "1 req 2, 2 req 3, 2 req 4",
            ),
            (
                "what is not linked is behind them",
                &["req 4 < req 2 esi 1", "req 3 < req 2 esi 1", "req 2 < req 1 rxreq > req 3 esi 1"],
                "1 req 2, 2 req 3, 2 req 4",
            ),
            (
                "a fetch in the background is waited for",
                &["req 2 < req 1 rxreq > bereq 3 bgfetch", "bereq 3 < bereq 2 bgfetch"],
                "1 req 2, 2 bereq 3",
            ),
        ] {
            assert_eq!(grouped(Grouping::Request, lines), [expected], "{what}");
        }
    }

    #[test]
    fn what_does_not_come_is_forced_out() {
        let lines = ["req 2 < req 1 rxreq > bereq 3 fetch", "req 9 < req 1 rxreq > bereq 8 fetch"];
        let limits = |transactions, bytes| Limits { transactions, bytes, ..Limits::default() };
        for (what, limits, expected) in [
            ("all have room", limits(4, 1 << 20), &[][..]),
            ("the oldest goes", limits(3, 1 << 20), &["1 req 2, 2 bereq 3 [store overflow]"]),
            ("bytes count, too", limits(4, 90), &["1 req 2, 2 bereq 3 [store overflow]"]),
            (
                "nothing has room",
                limits(0, 1 << 20),
                &["1 req 2, 2 bereq 3 [store overflow]", "1 req 9, 2 bereq 8 [store overflow]"],
            ),
        ] {
            let mut groups = Groups::new(Grouping::Request, limits);
            for line in lines {
                groups.add(written(line), NOW);
            }
            assert_eq!(ready(&mut groups), expected, "{what}");
        }
        let mut groups = Groups::new(Grouping::Request, Limits::default());
        assert_eq!(groups.deadline(), None);
        groups.add(written(lines[0]), NOW);
        let deadline = NOW + Duration::from_secs(120);
        assert_eq!(groups.deadline(), Some(deadline));
        groups.pass_time(deadline - Duration::from_millis(1));
        assert_eq!(ready(&mut groups), [""; 0]);
        groups.pass_time(deadline);
        let group = groups.next_ready().unwrap();
        assert_eq!(shown(&group), "1 req 2, 2 bereq 3 [timeout]");
        let records: Vec<_> =
            group.members[1].records().map(|(record, side)| (record.tag, record.text, side)).collect();
        let side = Side::Backend;
        let expected =
            [(Tag::Begin, &b"bereq 0 synth"[..], side), (Tag::Vsl, b"timeout", side), (Tag::End, b"synth", side)];
        assert_eq!(records, expected);
        assert_eq!((groups.next_ready(), groups.deadline()), (None, None));
        // A connection that lasts is shown with the requests that it had.
        let lasting = grouped(Grouping::Session, &["req 2 < req 1 rxreq"]);
        assert_eq!(lasting, ["---", "1 sess 1 [flush], 2 req 2"]);
        // Whoever is not known to be a request is not shown as one.
        assert_eq!(grouped(Grouping::Request, &["bereq 3 < bereq 2 bgfetch"]), ["---"]);
    }

    #[test]
    fn links_that_cannot_be_are_noted() {
        for (what, lines, expected) in [
            (
                "itself",
                &["req 2 < req 2 esi > req 2 esi"][..],
                &["1 req 2 [link to self (2:Begin \"req 2 esi\")] \
                [link to self (2:Link \"req 2 esi\")]"][..],
            ),
            (
                "nobody",
                &["req 2 < req 1 rxreq > req 0 esi > what"],
                &["1 req 2 [illegal link vxid (2:Link \"req 0 esi\")] \
                [parse error (2:Link \"what\")]"],
            ),
            (
                "a parent that has come already, without it",
                &["req 2 < req 1 rxreq > bereq 3 fetch", "req 4 < req 2 esi", "bereq 3 < bereq 2 fetch"],
                &["1 req 4 [link too late (4:Begin \"req 2 esi\")]", "1 req 2, 2 bereq 3"],
            ),
            (
                "a child of another",
                &["req 4 < req 3 esi", "req 2 < req 1 rxreq > req 4 esi", "req 3 < req 1 rxreq > req 4 esi"],
                &["1 req 2 [duplicate link (2:Link \"req 4 esi\")]", "1 req 3, 2 req 4"],
            ),
            (
                "another kind",
                &["req 2 < req 1 rxreq > bereq 3 fetch", "req 3 < req 2 esi"],
                &["1 req 2, 2 req 3 [type mismatch (3:Begin \"req 2 esi\")]"],
            ),
            (
                "its own parent",
                &["req 2 < req 5 esi > req 5 esi", "req 5 < req 1 rxreq"],
                &["1 req 5, 2 req 2 [link mismatch (2:Link \"req 5 esi\")]"],
            ),
            (
                "a circle over others",
                &["req 2 < req 3 esi", "req 3 < req 4 esi", "req 4 < req 2 esi > req 2 esi"],
                &[
                    "1 req 4 [link too late (4:Begin \"req 2 esi\")] [duplicate link (4:Link \"req 2 esi\")], 2 req 3, 3 req 2",
                ],
            ),
        ] {
            assert_eq!(grouped(Grouping::Request, lines), expected, "{what}");
        }
        let mut groups = Groups::new(Grouping::Request, Limits::default());
        let begins = [(Tag::ReqUrl, "/"), (Tag::Begin, "req 1 rxreq"), (Tag::Begin, "req 1 rxreq"), (Tag::End, "")];
        groups.add(transaction(Kind::Request, 2, &begins), NOW);
        let group = groups.next_ready().unwrap();
        let tags: Vec<_> = group.members[0].records().map(|(record, _)| record.tag).collect();
        assert_eq!(tags, [Tag::ReqUrl, Tag::Begin, Tag::Begin, Tag::Vsl, Tag::End], "behind what is wrong");
    }

    #[test]
    fn hostile_transactions_take_no_more_than_the_limits() {
        let links: Vec<String> = (0..20_000).map(|vxid| format!("req {} esi", vxid + 10)).collect();
        let mut records = vec![(Tag::Begin, "req 1 rxreq")];
        records.extend(links.iter().map(|link| (Tag::Link, link.as_str())));
        let mut groups = Groups::new(Grouping::Request, Limits::default());
        groups.add(transaction(Kind::Request, 2, &records), NOW);
        assert!(groups.awaited.is_empty(), "{}", groups.awaited.len());
        groups.flush();
        assert_eq!(groups.next_ready().unwrap().members.len(), 20_001);
        // A line of parents, each of which names the next.
        for vxid in 2..5000 {
            groups.add(written(&format!("req {vxid} < req {} esi", vxid + 1)), NOW);
        }
        groups.flush();
        assert!(groups.kept.is_empty() && groups.bytes == 0);
        // As many notes as are useful.
        records.truncate(1);
        records.extend([(Tag::Link, "nothing"); 1000]);
        groups.add(transaction(Kind::Request, 2, &records), NOW);
        assert_eq!(groups.next_ready().unwrap().members[0].notes.len(), NOTES_MAX);
        // Two of one number.
        groups.add(written("req 2 < req 1 rxreq > bereq 3 fetch"), NOW);
        groups.add(written("req 2 < req 1 rxreq"), NOW);
        groups.add(written("bereq 3 < bereq 2 fetch"), NOW);
        assert_eq!(ready(&mut groups), ["1 req 2, 2 bereq 3"]);
        assert!(groups.kept.is_empty());
    }
}
