//! Reads the log, and has carried out what other nodes wish.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};

use crate::carrier::Level;
use crate::contact::Writing;
use crate::fault::Fault;
use crate::lag::{COUNTED_MAX, Recent};
use crate::link::{Link, items, text, time_of};
use crate::nodes::{Nodes, note};
use crate::pace;
use crate::place::{EntryId, Place, is_epoch};
use crate::portion::{Portion, bytes_of};
use crate::random::random_word;
use crate::shared::{BEAT_MS, LOG_ENTRIES, Looked, Shared};
use crate::status::NodeStatus;

/// Reads until the node leaves, over as many connections as that takes.
pub(crate) fn run(shared: &Shared) {
    let (mut pause, mut recent) = (PAUSE_MIN, Recent::default());
    while !shared.ending.is_over() {
        let read = Link::open(&shared.settings).and_then(|link| Reader::of(link, shared, &mut recent).run(&mut pause));
        let Err(fault) = read else { return };
        let make_stale = |is_start: bool| {
            shared.carrier.count_as_stale();
            shared.say(Level::Warn, if is_start { STALE_AT_START } else { STALE_BY_TIME });
        };
        if shared.contact.lost(&fault, make_stale) {
            shared.say(Level::Error, &fault);
        }
        let rest = shared.contact.due_in().map_or(pause, |due| due.clamp(PAUSE_MIN, pause));
        shared.ending.rest(rest);
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// A connection on which the log is read.
struct Reader<'s> {
    link: Link,
    shared: &'s Shared,
    /// The last entries.
    recent: &'s mut Recent,
    /// The server's time when it was last asked for the nodes.
    looked: Option<u64>,
    /// How many entries were carried out on it.
    carried: u64,
    /// How many of them no line of the log tells of.
    untold: u64,
    is_caught_up: bool,
    /// Whether the server has this node's word from this connection.
    has_beaten: bool,
    /// As whom the node stands in `nodes`, and the server's time when it wrote that.
    noted: Option<(String, u64)>,
    /// How many nodes there were at the last look.
    nodes: usize,
    /// Whether the last read brought purges, and when one did before.
    has_news: bool,
    news: Option<Instant>,
    /// The server's time.
    now: u64,
    /// Why the server refused what the last read wrote.
    refused: Option<Fault>,
    behind: Behind,
    /// How many entries it reads next.
    portion: Portion,
}

/// What a node that is behind has carried out until it has caught up.
#[derive(Default)]
struct Behind {
    /// How many purges of each zone have come into its list.
    listed: HashMap<String, usize>,
    /// The zones of which all was purged, and the last entry at that time.
    covered: HashMap<String, EntryId>,
}

/// An entry of the log.
struct Entry<'v> {
    id: EntryId,
    process: &'v str,
    zone: Option<&'v str>,
    words: &'v str,
    /// What the node calls itself that wished it; older larders do not say.
    node: Option<&'v str>,
}

/// Why the place where a node had read to is worth nothing.
enum Lost {
    /// It had none.
    Never,
    /// The log is another one.
    Another,
    /// The log does not go back so far.
    Trimmed,
}

impl<'s> Reader<'s> {
    fn of(link: Link, shared: &'s Shared, recent: &'s mut Recent) -> Self {
        Self {
            link,
            shared,
            recent,
            looked: None,
            carried: 0,
            untold: 0,
            is_caught_up: false,
            has_beaten: false,
            noted: None,
            nodes: 1,
            has_news: false,
            news: None,
            now: 0,
            refused: None,
            behind: Behind::default(),
            portion: Portion::default(),
        }
    }

    fn run(mut self, pause: &mut Duration) -> Result<(), Fault> {
        let mut clock = redis::pipe();
        clock.cmd("TIME");
        let time = self.link.ask(&clock)?;
        self.now = time.first().and_then(time_of).ok_or_else(|| Fault::Odd("its time".to_owned()))?;
        let known = self.shared.place.lock().clone();
        let mut place = match known {
            None => self.adopt(&Lost::Never)?,
            Some(place) => place,
        };
        self.recent.begin_at(place.at);
        while !self.shared.ending.is_over() {
            let asked_at = self.shared.contact.now();
            let lost = self.read(&mut place)?;
            if lost.is_none() {
                self.shared.note();
            }
            match lost {
                Some(lost) => {
                    place = self.adopt(&lost)?;
                    self.recent.begin_at(place.at);
                }
                None if self.is_caught_up => {
                    *pause = PAUSE_MIN;
                    let untold = std::mem::take(&mut self.untold);
                    if let Some((fault, time)) = self.shared.contact.heard(asked_at) {
                        self.shared.try_now();
                        let carried = self.carried;
                        let fact = format!("is back after {} s, and {carried} purges are caught up", time.as_secs());
                        let level = if matches!(fault, Fault::Unreachable(_)) { Level::Notice } else { Level::Warn };
                        self.shared.say(level, fact);
                    } else if untold > 0 {
                        self.shared.say(Level::Info, format!("had {untold} purges, and they are caught up"));
                    }
                    self.rest();
                }
                None => {}
            }
            self.shared.wrote(Writing::Beats, self.refused.as_ref());
            if self.looked.is_none_or(|at| self.now.saturating_sub(at) >= NOTE_EVERY_MS) {
                self.look(place.at)?;
            }
        }
        Ok(())
    }

    /// Looks which nodes there are, and how far each is behind.
    fn look(&mut self, own_place: EntryId) -> Result<(), Fault> {
        if self.is_caught_up {
            self.recent.caught_up();
        } else if self.recent.falls_behind() {
            let (unread, is_more) = self.unread(own_place)?;
            self.recent.counted(unread, is_more);
        }
        let nodes = Nodes::ask(self.shared, |commands| self.link.ask(commands))?;
        self.looked = Some(self.now);
        let own = self.shared.node.lock().clone();
        let lag = |place| self.recent.lag(place, nodes.now);
        let others = nodes.all.iter().filter(|seen| seen.name != own).map(|seen| {
            let place = seen.at.or(seen.noted);
            let away = seen.at.is_none().then(|| Duration::from_millis(nodes.now.saturating_sub(seen.last)));
            NodeStatus { name: seen.name.clone(), is_this: false, away, place, lag: place.map(lag) }
        });
        let this = NodeStatus {
            name: own.clone(),
            is_this: true,
            away: None,
            place: Some(own_place),
            lag: Some(lag(own_place)),
        };
        let mut all: Vec<NodeStatus> = others.chain([this]).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        self.nodes = all.len();
        *self.shared.looked.lock() = Looked { at: Some(self.shared.contact.now()), nodes: all };
        Ok(())
    }

    /// The next entries that are still to be read, as many as are counted, and whether there may be more.
    fn unread(&mut self, mut place: EntryId) -> Result<(VecDeque<EntryId>, bool), Fault> {
        let (mut unread, mut bytes, mut portion) = (VecDeque::new(), 0, self.portion);
        while unread.len() < COUNTED_MAX && bytes < UNREAD_BYTES_MAX {
            let count = portion.count().min(COUNTED_MAX - unread.len());
            let mut commands = redis::pipe();
            let read = commands.cmd("XRANGE").arg(&self.shared.keys.log).arg(format!("({place}")).arg("+");
            read.arg("COUNT").arg(count);
            let answers = self.link.ask(&commands)?;
            let (entries, came) = answers.first().map(|read| (items(read), bytes_of(read))).unwrap_or_default();
            unread.extend(entries.iter().filter_map(|entry| Some(entry_of(entry)?.id)));
            portion.came(entries.len(), came);
            bytes += came;
            match unread.back() {
                Some(last) if entries.len() >= count => place = *last,
                Some(_) | None => return Ok((unread, false)),
            }
        }
        Ok((unread, true))
    }

    /// Tells how far the node has read, and carries out what comes next. Waits a moment for it if there is nothing.
    fn read(&mut self, place: &mut Place) -> Result<Option<Lost>, Fault> {
        let node = self.shared.node.lock().clone();
        let question = self.question(&node, place.at);
        let answers = self.link.ask_each(&question)?;
        let [beat, time, read, there, epoch, noted @ ..] = &answers[..] else {
            return Err(Fault::Odd("too few answers".to_owned()));
        };
        for answer in [time, read, there, epoch] {
            if let Some(fault) = self.link.fault_of(answer) {
                return Err(fault);
            }
        }
        self.now = time_of(time).ok_or_else(|| Fault::Odd("its time".to_owned()))?;
        self.see_written(beat, noted, &node)?;
        self.meet_namesake(beat, &node);
        let entries = entries_of(read)?;
        let is_behind = !self.is_caught_up || entries.len() >= self.portion.count();
        // Also if others are missing: what goes is gone then, and not only stale.
        for entry in &entries {
            self.carry_out(entry, is_behind)?;
        }
        if text(epoch) != Some(&place.epoch) {
            return Ok(Some(Lost::Another));
        }
        if items(there).is_empty() && place.at != START {
            return Ok(Some(Lost::Trimmed));
        }
        self.is_caught_up = entries.len() < self.portion.count();
        self.portion.came(entries.len(), bytes_of(read));
        if self.is_caught_up {
            (self.behind, self.portion) = (Behind::default(), Portion::default());
        }
        entries.iter().for_each(|entry| self.recent.add(entry.id));
        if let Some(last) = entries.last() {
            place.at = last.id;
        }
        self.has_news = !entries.is_empty();
        if self.has_news {
            *self.shared.place.lock() = Some(place.clone());
        }
        Ok(None)
    }

    /// What a read asks: the beat, the time, what comes next, whether the place is still there, the log, and once a second what
    /// notes the node.
    fn question(&self, node: &str, at: EntryId) -> Pipeline {
        let (keys, place) = (&self.shared.keys, at.to_string());
        let mut commands = redis::pipe();
        let beat = format!("{} {place}", self.shared.process);
        commands.cmd("SET").arg(keys.at(node)).arg(beat).arg("PX").arg(BEAT_MS).arg("GET");
        commands.cmd("TIME");
        let read = commands.cmd("XREAD").arg("COUNT").arg(self.portion.count());
        if self.is_caught_up {
            read.arg("BLOCK").arg(BLOCK_MS);
        }
        read.arg("STREAMS").arg(&keys.log).arg(&place);
        // After the read: if the entry of the place is still there, no entry behind it was trimmed before.
        commands.cmd("XRANGE").arg(&keys.log).arg(&place).arg(&place);
        commands.cmd("GET").arg(&keys.epoch);
        // Before it is trusted, so that a purge that is known everywhere is known to it.
        let is_noted = |(name, at): &(String, u64)| *name == node && self.now.saturating_sub(*at) < NOTE_EVERY_MS;
        if !self.noted.as_ref().is_some_and(is_noted) {
            commands.cmd("HSET").arg(&keys.nodes).arg(node).arg(note(self.now, at));
            // Nothing is added. Whether the server would take a purge, it says when it is told of it.
            commands.cmd("MULTI");
            commands.cmd("XADD").arg(&keys.log).arg("*").arg("i").arg(&self.shared.process);
            commands.cmd("DISCARD");
        }
        commands
    }

    /// Looks whether the server took the beat, and what notes the node, if that was sent. What others purge is read also if it
    /// takes nothing.
    fn see_written(&mut self, beat: &Value, noted: &[Value], node: &str) -> Result<(), Fault> {
        let refused = noted.iter().chain([beat]).find_map(|answer| self.link.fault_of(answer));
        // Who may not end a transaction can ask nothing more.
        let end = noted.last().and_then(|answer| self.link.fault_of(answer)).filter(Fault::is_of_writing);
        if let Some(fault) = end.or_else(|| refused.clone().filter(|fault| !fault.is_of_writing())) {
            return Err(fault);
        }
        match (noted.is_empty(), &refused) {
            (false, None) => self.noted = Some((node.to_owned(), self.now)),
            // The next read tries again.
            (_, Some(_)) => self.noted = None,
            (true, None) => {}
        }
        self.refused = refused;
        Ok(())
    }

    /// Leaves the server alone for a while, if purges come faster than all nodes may read them one by one. One that comes alone
    /// is read, and told as read, at once.
    fn rest(&mut self) {
        if !self.has_news {
            return;
        }
        let least = pace::between_reads(self.nodes);
        if let Some(news) = self.news.map(|news| news.elapsed()).filter(|news| *news < least) {
            self.shared.ending.rest(least - news);
        }
        self.news = Some(Instant::now());
    }

    /// A node that is behind is told of very many at once: the log gets their number.
    fn carry_out(&mut self, entry: &Entry<'_>, is_behind: bool) -> Result<(), Fault> {
        // What this process wished, it has carried out before; what one before it wished may have been lost with a crash.
        let Some(zone) = entry.zone.filter(|_| entry.process != self.shared.process) else { return Ok(()) };
        self.carried += 1;
        self.untold += u64::from(is_behind);
        self.shared.carried.fetch_add(1, Ordering::Relaxed);
        if self.behind.covered.get(zone).is_some_and(|last| entry.id <= *last) {
            return Ok(());
        }
        let ago = Duration::from_millis(self.now.saturating_sub(entry.id.ms));
        let words = if entry.words.len() <= WORDS_BYTES_MAX { entry.words } else { TOO_LONG };
        let is_listed = self.shared.carrier.carry_out(zone, words, ago);
        if !is_behind {
            self.shared.carrier.tell(zone, words, entry.node);
        }
        if !is_listed {
            return Ok(());
        }
        let listed = self.behind.listed.entry(zone.to_owned()).or_default();
        *listed += 1;
        if *listed < LISTED_MAX {
            return Ok(());
        }
        // The list drops what was stored before its oldest; and each purge that comes into a long one takes longer.
        *listed = 0;
        let last = self.last_entry()?;
        self.shared.carrier.carry_out(zone, "purge hard all", Duration::ZERO);
        self.behind.covered.insert(zone.to_owned(), last);
        self.shared.say(
            Level::Warn,
            format!("has more than {LISTED_MAX} purges that the zone {zone} missed: all of it is purged"),
        );
        Ok(())
    }

    /// The last entry that is in the log now.
    fn last_entry(&mut self) -> Result<EntryId, Fault> {
        let mut commands = redis::pipe();
        commands.cmd("XREVRANGE").arg(&self.shared.keys.log).arg("+").arg("-").arg("COUNT").arg(1);
        let answers = self.link.ask(&commands)?;
        match answers.first().map(items) {
            Some([entry]) => {
                entry_of(entry).map(|entry| entry.id).ok_or_else(|| Fault::Odd("its last entry".to_owned()))
            }
            // It was trimmed just now.
            Some(_) | None => Ok(EntryId::default()),
        }
    }

    /// Takes a place in the log as it is now, and has stale what was stored before.
    fn adopt(&mut self, why: &Lost) -> Result<Place, Fault> {
        let keys = &self.shared.keys;
        let mut commands = redis::pipe();
        commands.cmd("MULTI");
        commands.cmd("SET").arg(&keys.epoch).arg(random_word()).arg("NX");
        commands.cmd("GET").arg(&keys.epoch);
        // An entry that means nothing: a place is that of an entry.
        let add = commands.cmd("XADD").arg(&keys.log).arg("MAXLEN").arg("~").arg(LOG_ENTRIES).arg("*");
        add.arg("i").arg(&self.shared.process);
        commands.cmd("EXEC");
        let answers = self.link.ask(&commands)?;
        let odd = || Fault::Odd("the beginning of a log".to_owned());
        let [_, epoch, at] = answers.last().map(items).unwrap_or_default() else { return Err(odd()) };
        let epoch = text(epoch).filter(|epoch| is_epoch(epoch)).ok_or_else(odd)?.to_owned();
        let at = text(at).and_then(|at| at.parse().ok()).ok_or_else(odd)?;
        self.shared.carrier.count_as_stale();
        let stale = "what was stored until now is stale";
        match why {
            Lost::Never => self.shared.say(Level::Notice, format!("has this node from now on: {stale}")),
            Lost::Another => self.shared.say(Level::Warn, format!("has lost its data, or is another server: {stale}")),
            Lost::Trimmed => self.shared.say(Level::Warn, format!("keeps no purges from so long ago: {stale}")),
        }
        self.is_caught_up = false;
        self.noted = None;
        Ok(match why {
            Lost::Never | Lost::Trimmed => {
                let place = Place { epoch, at };
                *self.shared.place.lock() = Some(place.clone());
                place
            }
            // What is in a log that began just now was wished after the loss, and goes. It has an entry, which is read next.
            Lost::Another => Place { epoch, at: START },
        })
    }

    /// Takes another name if a younger node of the same name has written over this one's word, as the process does that takes
    /// over from this one. `beat` is the word before.
    fn meet_namesake(&mut self, beat: &Value, node: &str) {
        let process = text(beat).and_then(|beat| Some(beat.split_once(' ')?.0));
        let is_younger = process.is_some_and(|process| process > &*self.shared.process);
        if is_younger && self.has_beaten {
            let end = self.shared.process.len().saturating_sub(8);
            let own = format!("{}~{}", self.shared.settings.node, self.shared.process.get(end..).unwrap_or_default());
            let fact = format!("has two nodes called {node}, and this one is {own} now: give each its own \"node=\"");
            self.shared.say(Level::Warn, fact);
            *self.shared.node.lock() = own;
        }
        self.has_beaten = true;
    }
}

/// The entries that `XREAD` found.
fn entries_of(value: &Value) -> Result<Vec<Entry<'_>>, Fault> {
    let odd = || Fault::Odd("the entries of the log".to_owned());
    let [stream] = items(value) else {
        return if *value == Value::Nil { Ok(Vec::new()) } else { Err(odd()) };
    };
    let [_, entries] = items(stream) else { return Err(odd()) };
    items(entries).iter().map(|entry| entry_of(entry).ok_or_else(odd)).collect()
}

/// An entry; one that is not ours purges nothing, as it names no zone.
fn entry_of(value: &Value) -> Option<Entry<'_>> {
    let [id, fields] = items(value) else { return None };
    let mut entry = Entry { id: text(id)?.parse().ok()?, process: "", zone: None, words: "", node: None };
    for pair in items(fields).chunks_exact(2) {
        let [name, value] = pair else { continue };
        let Some(value) = text(value) else { continue };
        match text(name) {
            Some("i") => {
                let (process, node) =
                    value.split_once(' ').map_or((value, None), |(process, node)| (process, Some(node)));
                (entry.process, entry.node) = (process, node);
            }
            Some("z") => entry.zone = Some(value),
            Some("w") => entry.words = value,
            Some(_) | None => {}
        }
    }
    Some(entry)
}

/// The place before the first entry.
const START: EntryId = EntryId { ms: 0, number: 0 };
/// Why everything is stale while the server is away.
const STALE_AT_START: &str = "is of no use since the start of this node, and what was purged before is not known: what was stored until now is stale";
const STALE_BY_TIME: &str = "is away for the time of \"larder_cluster_away\": what is stored is stale";
/// How long a read waits at the server: as long as the end of the process may wait for it.
const BLOCK_MS: u32 = 250;
/// How long words may be: larder writes 64 KB, and what quotes in them add.
const WORDS_BYTES_MAX: usize = 256 << 10;
/// Words that nobody can read, which mean all pages.
const TOO_LONG: &str = "an entry of the log that is too long: all pages before it";
/// Of how many bytes entries that are unread are counted.
const UNREAD_BYTES_MAX: usize = 16 << 20;
/// How many purges a node that is behind puts into the list of a zone: as many as a disk keeps.
const LISTED_MAX: usize = 10_000;
/// How often a node writes that it is there where others see it when it is away, and looks who is.
const NOTE_EVERY_MS: u64 = 1000;
/// How long after a fault the server is tried again.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn word(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn list(items: &[Value]) -> Value {
        Value::Array(items.to_vec())
    }

    #[test]
    fn entries_are_read_and_foreign_ones_mean_nothing() {
        let fields = |words: &[&str]| list(&words.iter().map(|text| word(text)).collect::<Vec<_>>());
        let entry = |id: &str, words: &[&str]| list(&[word(id), fields(words)]);
        let entries = list(&[
            entry("1-0", &["i", "p web1", "z", "pages", "w", "purge hard all"]),
            entry("1-1", &["i", "p"]),
            entry("2-0", &["colour", "red", "odd"]),
            list(&[word("3-0"), list(&[word("z"), Value::BulkString(vec![0xff]), Value::Int(1), Value::Nil])]),
        ]);
        let read = list(&[list(&[word("log"), entries])]);
        let entries = entries_of(&read).expect("they are entries");
        let seen: Vec<_> = entries.iter().map(|entry| (entry.id.ms, entry.process, entry.zone, entry.words)).collect();
        assert_eq!(
            seen,
            [(1, "p", Some("pages"), "purge hard all"), (1, "p", None, ""), (2, "", None, ""), (3, "", None, "")]
        );
        assert_eq!(entries.iter().map(|entry| entry.node).collect::<Vec<_>>(), [Some("web1"), None, None, None]);
        assert!(entries_of(&Value::Nil).is_ok_and(|entries| entries.is_empty()));
        for odd in [
            Value::Int(1),
            list(&[]),
            list(&[word("log")]),
            list(&[list(&[word("log"), list(&[word("x")])])]),
            list(&[list(&[word("log"), list(&[entry("one", &[])])])]),
        ] {
            assert!(entries_of(&odd).is_err(), "{odd:?}");
        }
    }
}
