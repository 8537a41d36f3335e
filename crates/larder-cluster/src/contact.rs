//! Whether stored pages may be used, by when the server was heard last.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::fault::Fault;
use crate::settings::{Away, LEASE};

/// Until when stored pages may be used: without a cluster, always. It outlives the nodes that a process is one after the other.
pub struct Trust {
    /// In milliseconds of the clock; `u64::MAX` for always. Read at each lookup.
    until: AtomicU64,
    clock: fn() -> Duration,
}

impl Trust {
    /// Always, until a node has it. The clock goes on while the process is stopped or the machine sleeps.
    pub fn always(clock: fn() -> Duration) -> Self {
        Self { until: AtomicU64::new(u64::MAX), clock }
    }

    /// Always again, as this process is no node any more.
    pub fn give(&self) {
        self.until.store(u64::MAX, Ordering::Relaxed);
    }

    /// Whether stored pages may be used now. Costs one load where they always may.
    #[inline]
    pub fn is_given(&self) -> bool {
        let until = self.until.load(Ordering::Relaxed);
        until == u64::MAX || millis((self.clock)()) < until
    }
}

/// When the server was heard last, until when stored pages may be used, and what is wrong with the server.
///
/// The clock goes on while the process is stopped or the machine sleeps, so a worker that wakes up knows at once.
pub(crate) struct Contact {
    away: Away,
    trust: Arc<Trust>,
    state: Mutex<State>,
    changed: Condvar,
}

/// Up to when what is stored is accounted for: what a node knows that goes on where another of this process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// When the last question was sent whose answer showed that everything is carried out.
    at: Option<Duration>,
    /// When everything became stale since then, as the server was away.
    stale_at: Option<Duration>,
}

struct State {
    began: Duration,
    heard: Heard,
    is_settled: bool,
    is_ended: bool,
    /// Why the log is not read.
    fault: Option<Fault>,
    refusals: Refusals,
    /// The last fault that the log was told, until it is over.
    said: Option<Fault>,
}

/// Why the server takes nothing, while it is read.
#[derive(Default)]
struct Refusals {
    of_beats: Option<Fault>,
    of_purges: Option<Fault>,
    /// Since when there is one.
    since: Option<Duration>,
}

/// What is written to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Writing {
    /// That the node is there.
    Beats,
    /// Its purges.
    Purges,
}

/// What the log is to be told of writing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It is refused from now on.
    Refused(Fault),
    /// It works again after this time.
    Works(Duration),
}

impl Contact {
    /// Nothing is known but what a node before it knew, and no stored page may be used.
    pub fn new(away: Away, trust: Arc<Trust>, heard: Heard) -> Self {
        trust.until.store(0, Ordering::Relaxed);
        let began = (trust.clock)();
        let refusals = Refusals::default();
        let state = State { began, heard, is_settled: false, is_ended: false, fault: None, refusals, said: None };
        Self { away, trust, state: Mutex::new(state), changed: Condvar::new() }
    }

    /// For the node that goes on in this one's place.
    pub fn known(&self) -> Heard {
        self.state.lock().heard
    }

    /// Now.
    pub fn now(&self) -> Duration {
        (self.trust.clock)()
    }

    /// Whether stored pages may be used.
    pub fn is_trusted(&self) -> bool {
        self.trust.is_given()
    }

    /// Everything is carried out that was in the log when a question was sent at `asked_at`. Returns the fault that was there
    /// before, and how long ago the server was heard, or this node began.
    pub fn heard(&self, asked_at: Duration) -> Option<(Fault, Duration)> {
        let mut state = self.state.lock();
        let before = std::mem::replace(&mut state.heard, Heard { at: Some(asked_at), stale_at: None });
        let until = match self.away {
            Away::Serve => u64::MAX,
            Away::Stale(time) => millis(asked_at + time.max(LEASE)),
            Away::Bypass => millis(asked_at + LEASE),
        };
        self.trust(&state, until);
        self.settle(&mut state);
        let fault = state.fault.take()?;
        state.said = None;
        Some((fault, asked_at.saturating_sub(before.at.unwrap_or(state.began))))
    }

    /// The log cannot be read now. `make_stale` is called if everything becomes stale by that; it is told whether that is so as
    /// nobody knows what was purged before this process began. True if the log is to be told of the fault.
    pub fn lost(&self, fault: &Fault, make_stale: impl FnOnce(bool)) -> bool {
        let mut state = self.state.lock();
        let now = self.now();
        let is_due = match self.away {
            Away::Serve => state.heard == Heard::default(),
            Away::Bypass => false,
            Away::Stale(time) => state.heard.due(time).is_none_or(|due| due <= now),
        };
        if is_due {
            make_stale(state.heard == Heard::default());
            state.heard.stale_at = Some(now);
        }
        match self.away {
            Away::Serve => self.trust(&state, u64::MAX),
            Away::Bypass => {}
            Away::Stale(time) => self.trust(&state, state.heard.due(time).map_or(0, millis)),
        }
        self.settle(&mut state);
        let is_new = match &state.fault {
            Some(before) => before != fault,
            None => !state.said.as_ref().is_some_and(|said| said.is_like(fault)),
        };
        state.said = Some(fault.clone());
        state.fault = Some(fault.clone());
        state.refusals = Refusals::default();
        is_new
    }

    /// The server, which is read, takes what this node writes, or refuses it. Returns what the log is to be told of that.
    pub fn wrote(&self, what: Writing, refused: Option<&Fault>) -> Option<Turn> {
        let mut state = self.state.lock();
        let State { fault: None, refusals, said, .. } = &mut *state else {
            // Nothing is read: that is what is wrong.
            return None;
        };
        match what {
            Writing::Beats => refusals.of_beats = refused.cloned(),
            Writing::Purges => refusals.of_purges = refused.cloned(),
        }
        match refusals.fault().cloned() {
            Some(fault) => {
                refusals.since.get_or_insert_with(|| self.now());
                let is_new = !said.as_ref().is_some_and(|said| said.is_like(&fault));
                is_new.then(|| Turn::Refused(said.insert(fault).clone()))
            }
            None => {
                let since = refusals.since.take()?;
                *said = None;
                Some(Turn::Works(self.now().saturating_sub(since)))
            }
        }
    }

    /// How long until everything becomes stale, if the server stays away.
    pub fn due_in(&self) -> Option<Duration> {
        let Away::Stale(time) = self.away else { return None };
        let due = self.state.lock().heard.due(time)?;
        Some(due.saturating_sub(self.now()))
    }

    /// What is wrong with the server: it cannot be read, or takes nothing.
    pub fn fault(&self) -> Option<Fault> {
        let state = self.state.lock();
        state.fault.as_ref().or(state.refusals.fault()).cloned()
    }

    /// How long ago it was last known that everything is carried out.
    pub fn heard_ago(&self) -> Option<Duration> {
        let heard = self.state.lock().heard.at?;
        Some(self.now().saturating_sub(heard))
    }

    /// Whether the log cannot be read now.
    pub fn is_away(&self) -> bool {
        self.state.lock().fault.is_some()
    }

    /// No stored page may be used any more, as nobody reads what others purge.
    pub fn end(&self) {
        let mut state = self.state.lock();
        self.trust(&state, 0);
        state.is_ended = true;
    }

    /// Waits until everything is carried out, or the server is known to be away. False if neither is so in time.
    pub fn wait(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        self.changed.wait_while_for(&mut state, |state| !state.is_settled, time);
        state.is_settled
    }

    fn trust(&self, state: &State, until: u64) {
        // Another node may have it by now.
        if !state.is_ended {
            self.trust.until.store(until, Ordering::Relaxed);
        }
    }

    fn settle(&self, state: &mut State) {
        if !state.is_settled {
            state.is_settled = true;
            self.changed.notify_all();
        }
    }
}

impl Heard {
    /// When everything becomes stale next, if the server stays away, which may be so for this time. `None` for at once.
    fn due(&self, time: Duration) -> Option<Duration> {
        Some(self.at.max(self.stale_at)? + time.max(LEASE))
    }
}

impl Refusals {
    fn fault(&self) -> Option<&Fault> {
        self.of_purges.as_ref().or(self.of_beats.as_ref())
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static NOW: Cell<u64> = const { Cell::new(0) };
    }

    fn at(secs: u64) -> Duration {
        NOW.set(secs);
        Duration::from_secs(secs)
    }

    fn contact(away: Away) -> Contact {
        Contact::new(away, Arc::new(Trust::always(|| Duration::from_secs(NOW.get()))), Heard::default())
    }

    fn fault() -> Fault {
        Fault::Unreachable("it is off".to_owned())
    }

    /// Loses the server, and says whether everything becomes stale.
    fn loses(contact: &Contact) -> bool {
        let mut stale = false;
        contact.lost(&fault(), |_| stale = true);
        stale
    }

    #[test]
    fn nothing_is_trusted_before_the_first_word() {
        at(100);
        for away in [Away::Serve, Away::Stale(Duration::from_secs(9)), Away::Bypass] {
            let contact = contact(away);
            assert!(!contact.is_trusted() && !contact.wait(Duration::ZERO), "{away:?}");
            contact.heard(at(100));
            assert!(contact.is_trusted() && contact.wait(Duration::ZERO), "{away:?}");
        }
    }

    #[test]
    fn who_wakes_up_late_trusts_nothing_unless_told_to_serve() {
        for (away, trusted_secs) in
            [(Away::Serve, 1_000_000), (Away::Stale(Duration::from_secs(30)), 30), (Away::Bypass, 2)]
        {
            let contact = contact(away);
            contact.heard(at(100));
            at(100 + trusted_secs - 1);
            assert!(contact.is_trusted(), "{away:?}");
            at(100 + trusted_secs);
            assert_eq!(contact.is_trusted(), away == Away::Serve, "{away:?}");
        }
    }

    #[test]
    fn pages_are_stale_when_the_server_is_away_for_the_time_and_again_after_it() {
        let contact = contact(Away::Stale(Duration::from_secs(30)));
        contact.heard(at(100));
        for (now, stale) in [(101, false), (129, false), (130, true), (131, false), (159, false), (160, true)] {
            at(now);
            assert_eq!((loses(&contact), contact.is_trusted()), (stale, true), "{now}");
        }
        contact.heard(at(170));
        at(199);
        assert!(!loses(&contact));
        assert_eq!(contact.due_in(), Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_node_that_never_heard_the_server_has_everything_stale_or_uses_nothing() {
        for (away, stale, trusted) in [
            (Away::Serve, true, true),
            (Away::Stale(Duration::from_secs(30)), true, true),
            (Away::Bypass, false, false),
        ] {
            at(90);
            let contact = contact(away);
            at(100);
            assert_eq!((loses(&contact), contact.is_trusted()), (stale, trusted), "{away:?}");
            assert!(contact.wait(Duration::ZERO));
            at(101);
            assert!(!loses(&contact), "{away:?}: once");
            // How long the server was away before the process began is not known.
            assert_eq!(contact.heard(at(102)), Some((fault(), Duration::from_secs(12))));
        }
    }

    #[test]
    fn a_node_that_goes_on_for_another_has_nothing_stale_for_that() {
        let trust = Arc::new(Trust::always(|| Duration::from_secs(NOW.get())));
        let after = |first: &Contact, away| Contact::new(away, Arc::clone(&trust), first.known());
        let first = Contact::new(Away::Serve, Arc::clone(&trust), Heard::default());
        at(100);
        assert!(loses(&first), "nothing is known at the start");
        let second = after(&first, Away::Serve);
        assert!(!loses(&second) && second.is_trusted());
        second.heard(at(101));
        at(110);
        let third = after(&second, Away::Stale(Duration::from_secs(30)));
        for (now, stale) in [(110, false), (130, false), (131, true), (132, false)] {
            at(now);
            assert_eq!((loses(&third), third.is_trusted()), (stale, true), "{now}");
        }
        assert!(!loses(&after(&third, Away::Serve)));
        assert_eq!(third.heard(at(140)), Some((fault(), Duration::from_secs(39))));
    }

    #[test]
    fn a_node_that_has_ended_takes_nothing_from_the_next() {
        let trust = Arc::new(Trust::always(|| Duration::from_secs(NOW.get())));
        assert!(trust.is_given());
        let first = Contact::new(Away::Serve, Arc::clone(&trust), Heard::default());
        assert!(!trust.is_given());
        first.heard(at(100));
        assert!(trust.is_given());
        first.end();
        assert!(!trust.is_given());
        let second = Contact::new(Away::Bypass, Arc::clone(&trust), first.known());
        first.heard(at(101));
        assert!(!trust.is_given());
        second.heard(at(101));
        first.lost(&fault(), |_| ());
        at(103);
        assert!(!trust.is_given(), "it is the second one's");
        second.end();
        trust.give();
        assert!(trust.is_given());
    }

    #[test]
    fn what_refuses_writing_is_a_fault_until_all_is_written() {
        use Writing::{Beats, Purges};

        let contact = contact(Away::Bypass);
        contact.heard(at(100));
        let full = || Fault::Full("OOM".to_owned());
        let forbidden = |why: &str| Fault::Forbidden { keys: "k*".to_owned(), why: why.to_owned() };
        assert_eq!(contact.wrote(Beats, None), None);
        assert_eq!(contact.wrote(Beats, Some(&forbidden("set"))), Some(Turn::Refused(forbidden("set"))));
        assert_eq!(contact.wrote(Purges, Some(&forbidden("xadd"))), None, "it is said");
        assert_eq!((contact.fault(), contact.is_away()), (Some(forbidden("xadd")), false));
        contact.heard(at(101));
        assert!(contact.fault().is_some() && contact.is_trusted(), "the log is read");
        assert_eq!(contact.wrote(Beats, None), None);
        assert_eq!(contact.wrote(Purges, Some(&full())), Some(Turn::Refused(full())), "another one");
        at(110);
        assert_eq!(contact.wrote(Purges, None), Some(Turn::Works(Duration::from_secs(10))));
        assert_eq!((contact.wrote(Purges, None), contact.fault()), (None, None));
        // What cannot be read is written to the log once, by whoever finds it.
        assert_eq!(contact.wrote(Purges, Some(&fault())), Some(Turn::Refused(fault())));
        assert!(!contact.lost(&Fault::Unreachable("it is silent".to_owned()), |_| ()));
        assert_eq!(contact.wrote(Purges, Some(&full())), None);
        assert!(contact.heard(at(120)).is_some() && contact.fault().is_none());
        assert_eq!(contact.wrote(Purges, None), None, "that it is back is said");
    }

    #[test]
    fn a_fault_is_new_once() {
        let contact = contact(Away::Serve);
        contact.heard(at(100));
        at(103);
        assert!(contact.lost(&fault(), |_| ()) && !contact.lost(&fault(), |_| ()));
        assert!(contact.lost(&Fault::Replica, |_| ()));
        assert_eq!(contact.heard(at(110)), Some((Fault::Replica, Duration::from_secs(10))));
        assert_eq!(contact.heard(at(111)), None);
        contact.end();
        contact.heard(at(112));
        assert!(!contact.is_trusted());
    }
}
