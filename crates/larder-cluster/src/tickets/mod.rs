//! Keys of TLS session tickets that all nodes have, so that a visitor resumes a session at any of them.
//!
//! Each period of the server's time has a key, a string under `tickets:N`. Every node offers a random one for this period and
//! for the next (`SET NX PXAT`), and takes what the server has then: all know a key before it makes the first ticket. A key
//! that nodes know and the server has lost is offered to it again. While the server is away nodes go on with the keys that
//! they know, until the last one is a period older than it should be; then each makes tickets by keys of its own.

mod ring;

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use redis::Value;

use crate::carrier::Level;
use crate::ending::Ending;
use crate::fault::Fault;
use crate::keys::Keys;
use crate::link::{Link, items, time_of};
use crate::settings::Settings;

use ring::Ring;

/// A ticket key: its name of 16 bytes, and 32 that are secret.
pub type TicketSecret = [u8; 48];

/// Who makes tickets with the keys. Called by the thread of [`Tickets`].
pub trait TicketUser: Send + Sync {
    /// A new random key, if the system has random bytes.
    fn make(&self) -> Option<TicketSecret>;

    /// How long a ticket is good.
    fn kept(&self) -> Duration;

    /// Uses these keys from now on.
    fn take(&self, keys: TicketRing<'_>);

    /// Takes a line for the log.
    fn say(&self, level: Level, line: &str);
}

/// The keys of now.
#[derive(Clone, Copy)]
pub struct TicketRing<'k> {
    /// Whether the first of them makes tickets. If not, a key of this node alone does.
    pub is_made_by: bool,
    /// All open tickets.
    pub keys: &'k [TicketSecret],
    /// The server's time, since 1970.
    pub now: Duration,
}

/// What a node begins with.
pub struct TicketStart {
    /// Its server.
    pub settings: Settings,
    /// Who makes tickets.
    pub user: Arc<dyn TicketUser>,
    /// A clock that goes on while the machine sleeps.
    pub clock: fn() -> Duration,
    /// How long a key makes tickets, the same on all nodes: [`TICKET_PERIOD`].
    pub period: Duration,
}

/// A node's end.
pub struct Tickets(Arc<Ending>);

impl Tickets {
    /// Starts the thread that gets the keys.
    pub fn start(start: TicketStart) -> std::io::Result<Self> {
        let ending = Arc::new(Ending::default());
        let period = millis(start.period);
        let node = Node {
            ending: Arc::clone(&ending),
            keys: Keys::of(&start.settings.name),
            ring: Ring::new(period),
            every: Duration::from_millis((period / FETCHES_OF_PERIOD_MIN).max(1)).min(FETCH_EVERY),
            start,
            link: None,
            told: None,
            is_alone: false,
        };
        thread::Builder::new().name("cluster tickets".to_owned()).spawn(move || node.run())?;
        Ok(Self(ending))
    }

    /// Ends the thread. The user gets no more keys.
    pub fn end(&self) {
        self.0.end();
    }
}

impl Drop for Tickets {
    fn drop(&mut self) {
        self.end();
    }
}

struct Node {
    ending: Arc<Ending>,
    start: TicketStart,
    keys: Keys,
    ring: Ring,
    every: Duration,
    link: Option<Link>,
    /// The server's time in milliseconds, and the clock's when it said so.
    told: Option<(u64, Duration)>,
    /// Whether the log was told that this node makes tickets by itself.
    is_alone: bool,
}

impl Node {
    fn run(mut self) {
        loop {
            // Before a server is asked that may not answer: another period may have begun.
            if self.told.is_some() && self.give().is_none() {
                return;
            }
            let fault = self.fetch().err();
            if fault.is_some() {
                self.link = None;
            }
            let Some(is_shared) = self.give() else { return };
            self.say(is_shared, fault);
            if self.rest() {
                return;
            }
        }
    }

    /// The server's time now, in milliseconds, as far as it is known.
    fn now(&self) -> Option<u64> {
        let (now, at) = self.told?;
        Some(now.saturating_add(millis((self.start.clock)().saturating_sub(at))))
    }

    /// Has the user take the keys of now. Whether one that is shared makes tickets; `None` at the end.
    fn give(&mut self) -> Option<bool> {
        let now = self.now().unwrap_or_default();
        self.ring.forget(now, millis(self.start.user.kept()));
        let (is_made_by, keys) = self.ring.at(now);
        self.ending.unless_over(|| {
            if self.told.is_some() {
                self.start.user.take(TicketRing { is_made_by, keys: &keys, now: Duration::from_millis(now) });
            }
            is_made_by
        })
    }

    /// Learns the server's time and its keys, and offers those that it lacks.
    fn fetch(&mut self) -> Result<(), Fault> {
        let settings = &self.start.settings;
        let mut ask_time = redis::pipe();
        ask_time.cmd("TIME");
        let answers = Link::ask_over(&mut self.link, settings, |link| link.ask(&ask_time))?;
        let now = answers.first().and_then(time_of).ok_or_else(|| Fault::Odd("its time".to_owned()))?;
        self.told = Some((now, (self.start.clock)()));
        let kept = millis(self.start.user.kept());
        let (first, number) = (self.ring.first(now, kept), self.ring.period(now));
        let mut ask = redis::pipe();
        for number in [number, number + 1] {
            if let Some(secret) = self.ring.of(number).or_else(|| self.start.user.make()) {
                let until = self.ring.end(number, kept);
                ask.cmd("SET").arg(self.keys.ticket(number)).arg(&secret[..]).arg("NX").arg("PXAT").arg(until);
            }
        }
        let numbers = first..=number + 1;
        ask.cmd("MGET").arg(numbers.clone().map(|number| self.keys.ticket(number)).collect::<Vec<_>>());
        let answers = Link::ask_over(&mut self.link, settings, |link| link.ask_each(&ask))?;
        let found = answers.last().map(items).unwrap_or_default();
        let mut is_found = false;
        for (found, at) in numbers.zip(found) {
            if let Value::BulkString(bytes) = at
                && let Ok(secret) = TicketSecret::try_from(&bytes[..])
            {
                self.ring.learn(found, secret);
                is_found |= found == number;
            }
        }
        if is_found {
            return Ok(());
        }
        // A server that is full or only reads has refused ours.
        let refusal = answers.iter().find_map(|answer| self.link.as_ref()?.fault_of(answer));
        Err(refusal.unwrap_or_else(|| Fault::NoTicketKey(self.keys.ticket(number))))
    }

    /// Tells the log when this node begins to make tickets by itself, and when it ends to.
    fn say(&mut self, is_shared: bool, fault: Option<Fault>) {
        let server = self.start.settings.shown();
        match (is_shared, fault) {
            (false, Some(fault)) if !self.is_alone => {
                self.is_alone = true;
                let line =
                    format!("cluster: {server} {fault}; until then sessions of TLS are resumed at this node alone");
                self.start.user.say(Level::Warn, &line);
            }
            (true, _) if self.is_alone => {
                self.is_alone = false;
                let line =
                    format!("cluster: {server} has keys of session tickets again: sessions are resumed at any node");
                self.start.user.say(Level::Notice, &line);
            }
            _ => {}
        }
    }

    /// Waits until there is something to do. True at the end.
    fn rest(&self) -> bool {
        let left = self.now().map_or(self.every, |now| Duration::from_millis(self.ring.left(now)));
        self.ending.rest(self.every.min(left))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// How long a key makes tickets.
pub const TICKET_PERIOD: Duration = Duration::from_secs(3600);
/// How often the server is asked: so long two nodes may differ after it has lost its data.
const FETCH_EVERY: Duration = Duration::from_secs(5);
/// How often it is asked in a period at least.
const FETCHES_OF_PERIOD_MIN: u64 = 4;
