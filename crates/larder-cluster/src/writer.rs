//! Puts purges into the log, and finds out which nodes have read them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use redis::{Pipeline, Value};

use crate::carrier::Level;
use crate::contact::Writing;
use crate::fault::Fault;
use crate::known::Known;
use crate::link::{Link, items, text};
use crate::nodes::Nodes;
use crate::pace;
use crate::place::EntryId;
use crate::queue::{Unkept, Unsent};
use crate::random::random_word;
use crate::shared::{BEAT_MS, LOG_ENTRIES, Shared, Waiter, Work};

/// Sends until the node leaves, over as many connections as that takes.
pub(crate) fn run(shared: &Shared) {
    let (link, fault, is_kept_said, seen, nodes, next_look) = (None, None, false, Seen::default(), 1, None);
    let mut writer = Writer { shared, link, fault, is_kept_said, seen, nodes, next_look };
    while writer.turn() {}
    writer.leave();
}

struct Writer<'s> {
    shared: &'s Shared,
    link: Option<Link>,
    /// Why the last try failed.
    fault: Option<Fault>,
    /// Whether the log was told that the file cannot be written.
    is_kept_said: bool,
    seen: Seen,
    /// How many nodes there were at the last look.
    nodes: usize,
    /// When it is asked how far the nodes have read, at the latest when a waiter has waited long enough; `None` for as soon as
    /// there is one.
    next_look: Option<Instant>,
}

/// The nodes that were there at the last look.
#[derive(Default)]
struct Seen {
    /// In which log.
    epoch: String,
    names: Vec<String>,
    /// Those that were there before the server lost its data, and are waited for until then.
    missing: Vec<String>,
    until: Option<Instant>,
}

/// The nodes, as this one sees them.
struct Others {
    /// The server's time.
    now: u64,
    /// Name, when it was there last, and how far it has read if it is there.
    others: Vec<(String, u64, Option<EntryId>)>,
}

impl Writer<'_> {
    /// Does what there is to do, or waits for it. False when the node leaves.
    fn turn(&mut self) -> bool {
        let (first, is_leaving) = self.wait();
        if is_leaving {
            return false;
        }
        if !first.is_empty() {
            match self.send(&first) {
                Ok(entries) => {
                    self.is_sent(&first, &entries);
                    self.shared.note();
                }
                Err(fault) => self.fail(fault),
            }
        }
        let next_look = self.next_look(&self.shared.work.lock().waiters);
        if is_due(next_look) {
            self.next_look = None;
            self.answer();
        }
        true
    }

    /// When it is asked how far the nodes have read: nobody waits longer than he will. `None` for at once.
    fn next_look(&self, waiters: &[Waiter]) -> Option<Instant> {
        let next = self.next_look?;
        Some(waiters.iter().map(|waiter| waiter.until).fold(next, Instant::min))
    }

    /// Waits until there is something to send that may be tried now, or somebody to answer.
    fn wait(&mut self) -> (Vec<Unsent>, bool) {
        let mut work = self.shared.work.lock();
        loop {
            if work.is_leaving {
                return (Vec::new(), true);
            }
            let is_to_try = !work.queue.is_empty() && Instant::now() >= work.next_try;
            if is_to_try {
                return (work.queue.first(), false);
            }
            if let Some(unkept) = work.queue.unkept() {
                // Nobody is answered before a crash can be survived; and nobody who purges waits for this.
                drop(work);
                self.keep(&unkept);
                work = self.shared.work.lock();
                work.queue.kept(&unkept);
                continue;
            }
            if !work.queue.is_empty() {
                self.refuse(&mut work);
            }
            let next_look = self.next_look(&work.waiters).filter(|_| !work.waiters.is_empty());
            if !work.waiters.is_empty() && is_due(next_look) {
                return (Vec::new(), false);
            }
            let next_try = (!work.queue.is_empty()).then_some(work.next_try);
            match next_try.into_iter().chain(next_look).min() {
                None => self.shared.woken.wait(&mut work),
                Some(until) => drop(self.shared.woken.wait_until(&mut work, until)),
            }
        }
    }

    fn send(&mut self, unsent: &[Unsent]) -> Result<Vec<EntryId>, Fault> {
        let keys = &self.shared.keys;
        let wished_by = format!("{} {}", self.shared.process, self.shared.node.lock());
        let mut commands = redis::pipe();
        commands.cmd("MULTI");
        // So that no entry is in a log that has no name.
        commands.cmd("SET").arg(&keys.epoch).arg(random_word()).arg("NX");
        for unsent in unsent {
            let add = commands.cmd("XADD").arg(&keys.log).arg("MAXLEN").arg("~").arg(LOG_ENTRIES).arg("*");
            add.arg("i").arg(&wished_by).arg("z").arg(&unsent.zone).arg("w").arg(&unsent.words);
        }
        commands.cmd("EXEC");
        let answers = self.ask(&commands)?;
        let entries = answers.last().map(items).unwrap_or_default();
        let entries = entries.get(1..).unwrap_or_default().iter().map(|id| text(id)?.parse().ok());
        let entries = entries.collect::<Option<Vec<EntryId>>>().filter(|entries| entries.len() == unsent.len());
        entries.ok_or_else(|| Fault::Odd("the names of entries".to_owned()))
    }

    /// Asks. A purge that is in the log twice, as a connection broke, does nothing more.
    fn ask(&mut self, commands: &Pipeline) -> Result<Vec<Value>, Fault> {
        Link::ask_over(&mut self.link, &self.shared.settings, |link| link.ask(commands))
    }

    fn is_sent(&mut self, sent: &[Unsent], entries: &[EntryId]) {
        self.shared.sent.fetch_add(sent.len() as u64, Ordering::Relaxed);
        self.fault = None;
        self.shared.wrote(Writing::Purges, None);
        if self.nodes > 1 {
            // They need a moment. A look that is due sooner, for purges before this one, is not put off.
            self.next_look.get_or_insert_with(|| Instant::now() + pace::between_looks(self.nodes) / 2);
        }
        let mut work = self.shared.work.lock();
        let Work { queue, waiters, last_sent, .. } = &mut *work;
        for (unsent, entry) in sent.iter().zip(entries) {
            for waiter in waiters.iter_mut().filter(|waiter| waiter.entry.is_none() && waiter.number <= unsent.number) {
                waiter.entry = Some(*entry);
            }
            *last_sent = Some((unsent.number, *entry));
        }
        let file = last_sent.and_then(|(number, _)| queue.sent(number));
        drop(work);
        if let Some(file) = file {
            // If it stays, what it says is sent once more, which changes nothing.
            let _ = std::fs::remove_file(file);
        }
    }

    fn fail(&mut self, fault: Fault) {
        self.link = None;
        let unsent = {
            let mut work = self.shared.work.lock();
            // A try may take long, and who purges waits for it. When the reader has found the server, it says so.
            let is_away = matches!(fault, Fault::Unreachable(_)) && self.shared.contact.is_away();
            work.next_try = Instant::now() + if is_away { TRY_AWAY_EVERY } else { TRY_EVERY };
            work.queue.len()
        };
        if unsent > 0 {
            self.shared.wrote(Writing::Purges, Some(&fault));
        }
        self.fault = Some(fault);
    }

    fn keep(&mut self, unkept: &Unkept) {
        let Err(error) = unkept.write() else { return };
        if !self.is_kept_said {
            self.is_kept_said = true;
            self.shared.say(Level::Error, format!("is away, and purges for it cannot be kept on disk: {error}"));
        }
    }

    /// Tells those whose purge is not in the log why that is so.
    fn refuse(&self, work: &mut Work) {
        let why = self.why(self.fault.as_ref());
        let sent = work.last_sent.map_or(0, |(number, _)| number);
        for waiter in std::mem::take(&mut work.waiters) {
            if waiter.entry.is_none() && waiter.number > sent {
                // Who has left is not told.
                let _ = waiter.tell.send(Known::here_alone(why.clone(), self.shared.nodes()));
            } else {
                work.waiters.push(waiter);
            }
        }
    }

    fn why(&self, fault: Option<&Fault>) -> String {
        let shown = self.shared.settings.shown();
        fault.map_or_else(|| format!("{shown} is away"), |fault| format!("{shown} {fault}"))
    }

    /// Answers those whose purges are known everywhere, or who have waited long enough.
    fn answer(&mut self) {
        {
            let mut work = self.shared.work.lock();
            let Work { queue, waiters, last_sent, .. } = &mut *work;
            let sent = last_sent.unwrap_or_default();
            for waiter in waiters.iter_mut().filter(|waiter| waiter.entry.is_none()) {
                // Nothing was purged that others have to know, or it was sent before he came.
                if waiter.number <= sent.0 || queue.is_empty() {
                    waiter.entry = Some(sent.1);
                }
            }
            if waiters.iter().all(|waiter| waiter.entry.is_none()) {
                return;
            }
        }
        let others = self.others();
        let mut is_waited_for = false;
        let mut work = self.shared.work.lock();
        for waiter in std::mem::take(&mut work.waiters) {
            match (waiter.entry, &others) {
                (Some(entry), Ok(others)) => {
                    let known = others.knowing(entry);
                    if known.behind.is_empty() || Instant::now() >= waiter.until {
                        let _ = waiter.tell.send(known);
                    } else {
                        is_waited_for = true;
                        work.waiters.push(waiter);
                    }
                }
                (Some(_), Err(fault)) => {
                    drop(waiter.tell.send(Known::here_alone(self.why(Some(fault)), self.shared.nodes())))
                }
                (None, _) => work.waiters.push(waiter),
            }
        }
        drop(work);
        match others {
            Err(fault) => self.fail(fault),
            Ok(nodes) => {
                self.nodes = 1 + nodes.others.len();
                self.next_look = is_waited_for.then(|| Instant::now() + pace::between_looks(self.nodes));
            }
        }
    }

    /// Asks how far the other nodes have read.
    fn others(&mut self) -> Result<Others, Fault> {
        let shared = self.shared;
        let nodes = Nodes::ask(shared, |commands| self.ask(commands))?;
        let own = shared.node.lock().clone();
        let others = nodes.all.into_iter().filter(|seen| seen.name != own);
        let mut others: Vec<_> = others.map(|seen| (seen.name, seen.last, seen.at)).collect();
        let names = others.iter().map(|(name, ..)| name.clone()).collect();
        let missing = self.seen.look(&nodes.epoch, names, Instant::now());
        others.extend(missing.iter().map(|name| (name.clone(), nodes.now, Some(EntryId::default()))));
        Ok(Others { now: nodes.now, others })
    }

    /// Sends what can be sent, and takes the node off the list.
    fn leave(&mut self) {
        let first = self.shared.work.lock().queue.first();
        if !first.is_empty() && self.fault.is_none() {
            match self.send(&first) {
                Ok(entries) => self.is_sent(&first, &entries),
                Err(fault) => self.fail(fault),
            }
        }
        {
            let mut work = self.shared.work.lock();
            work.waiters.clear();
            let unkept = work.queue.unkept();
            drop(work);
            if let Some(unkept) = unkept {
                self.keep(&unkept);
            }
        }
        let node = self.shared.node.lock().clone();
        let mut commands = redis::pipe();
        commands.cmd("HDEL").arg(&self.shared.keys.nodes).arg(&node);
        commands.cmd("DEL").arg(self.shared.keys.at(&node));
        if self.fault.is_none() {
            // If it fails, others see for a day that it is away.
            let _ = self.ask(&commands);
        }
    }
}

impl Seen {
    /// Notes which nodes are there, and returns those that are waited for: a server that has lost its data names a node again
    /// when that has noticed.
    fn look(&mut self, epoch: &str, names: Vec<String>, now: Instant) -> &[String] {
        if self.epoch != epoch {
            self.missing.append(&mut self.names);
            self.until = Some(now + Duration::from_millis(BEAT_MS.into()));
            self.epoch = epoch.to_owned();
        }
        self.missing.retain(|name| !names.contains(name));
        self.names = names;
        if self.until.is_some_and(|until| now >= until) {
            self.missing.clear();
        }
        &self.missing
    }
}

impl Others {
    /// Which nodes have read this entry.
    fn knowing(&self, entry: EntryId) -> Known {
        let mut known = Known { on: 1, of: Some(1 + self.others.len()), ..Known::default() };
        for (name, last, place) in &self.others {
            match place {
                Some(place) if *place >= entry => known.on += 1,
                Some(_) => known.behind.push(name.clone()),
                None => known.away.push((name.clone(), Duration::from_millis(self.now.saturating_sub(*last)))),
            }
        }
        known.behind.sort_unstable();
        known.away.sort_unstable_by(|(one, since), (other, since_other)| (since, one).cmp(&(since_other, other)));
        known
    }
}

fn is_due(next: Option<Instant>) -> bool {
    next.is_none_or(|next| Instant::now() >= next)
}

impl Waiter {
    /// One who waits for this long.
    pub fn new(number: u64, time: Duration, tell: tokio::sync::oneshot::Sender<Known>) -> Self {
        Self { number, entry: None, until: Instant::now() + time, tell }
    }
}

/// The same while the reader tries, too.
const TRY_AWAY_EVERY: Duration = Duration::from_secs(10);
/// How long after a fault the server is tried again.
const TRY_EVERY: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_waited_for_that_the_server_has_forgotten() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (mut seen, now) = (Seen::default(), Instant::now());
        for (secs, epoch, there, missing) in [
            (0, "a", &["x", "y"][..], &[][..]),
            // One that has left.
            (1, "a", &["x", "y", "z"], &[]),
            (2, "a", &["x", "y"], &[]),
            (3, "b", &[], &["x", "y"]),
            (4, "b", &["y"], &["x"]),
            (6, "b", &["y"], &["x"]),
            (8, "b", &["y"], &[]),
            (9, "b", &[], &[]),
        ] {
            let now = now + Duration::from_secs(secs);
            assert_eq!(seen.look(epoch, names(there), now), names(missing), "{secs}");
        }
    }

    #[test]
    fn a_node_that_has_no_word_is_away_and_one_that_has_read_less_is_behind() {
        let entry = |ms| EntryId { ms, number: 0 };
        let others = Others {
            now: 20_000,
            others: vec![
                ("a".to_owned(), 19_000, Some(entry(10))),
                ("b".to_owned(), 19_000, Some(entry(9))),
                ("c".to_owned(), 8_000, None),
            ],
        };
        let known = others.knowing(entry(10));
        assert_eq!(known.text(), "Known on 2 of 4 nodes; away: c since 12 s; not yet: b");
    }
}
