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

/// When the server was heard last, and until when stored pages may be used.
///
/// The clock goes on while the process is stopped or the machine sleeps, so a worker that wakes up knows at once.
pub(crate) struct Contact {
    away: Away,
    trust: Arc<Trust>,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// When the last question was sent whose answer showed that everything is carried out.
    heard: Option<Duration>,
    /// When everything is made stale next, while the server is away.
    stale_due: Option<Duration>,
    is_settled: bool,
    is_ended: bool,
    fault: Option<Fault>,
}

impl Contact {
    /// Nothing is known yet, and no stored page may be used.
    pub fn new(away: Away, trust: Arc<Trust>) -> Self {
        trust.until.store(0, Ordering::Relaxed);
        let state = State { heard: None, stale_due: None, is_settled: false, is_ended: false, fault: None };
        Self { away, trust, state: Mutex::new(state), changed: Condvar::new() }
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
    /// before, and how long.
    pub fn heard(&self, asked_at: Duration) -> Option<(Fault, Duration)> {
        let mut state = self.state.lock();
        let before = state.heard.replace(asked_at);
        state.stale_due = None;
        let until = match self.away {
            Away::Serve => u64::MAX,
            Away::Stale(time) => millis(asked_at + time.max(LEASE)),
            Away::Bypass => millis(asked_at + LEASE),
        };
        self.trust(&state, until);
        self.settle(&mut state);
        let fault = state.fault.take()?;
        Some((fault, asked_at.saturating_sub(before.unwrap_or_default())))
    }

    /// The server is of no use now. `make_stale` is called if everything becomes stale by that. True if the fault is a new one.
    pub fn lost(&self, fault: &Fault, make_stale: impl FnOnce()) -> bool {
        let mut state = self.state.lock();
        match self.away {
            Away::Serve => self.trust(&state, u64::MAX),
            Away::Bypass => {}
            Away::Stale(time) => {
                let (now, time) = (self.now(), time.max(LEASE));
                let due = state.stale_due.or_else(|| Some(state.heard? + time));
                if due.is_none_or(|due| due <= now) {
                    make_stale();
                    state.stale_due = Some(now + time);
                    self.trust(&state, millis(now + time));
                }
            }
        }
        self.settle(&mut state);
        let is_new = state.fault.as_ref() != Some(fault);
        state.fault = Some(fault.clone());
        is_new
    }

    /// How long until everything becomes stale, if the server stays away.
    pub fn due_in(&self) -> Option<Duration> {
        let state = self.state.lock();
        let Away::Stale(time) = self.away else { return None };
        let due = state.stale_due.or_else(|| Some(state.heard? + time.max(LEASE)))?;
        Some(due.saturating_sub(self.now()))
    }

    /// Why the server is of no use, if it is not.
    pub fn fault(&self) -> Option<Fault> {
        self.state.lock().fault.clone()
    }

    /// How long ago it was last known that everything is carried out.
    pub fn heard_ago(&self) -> Option<Duration> {
        let heard = self.state.lock().heard?;
        Some(self.now().saturating_sub(heard))
    }

    /// Whether the server is of no use now.
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
        Contact::new(away, Arc::new(Trust::always(|| Duration::from_secs(NOW.get()))))
    }

    fn fault() -> Fault {
        Fault::Unreachable("it is off".to_owned())
    }

    /// Loses the server, and says whether everything becomes stale.
    fn loses(contact: &Contact) -> bool {
        let mut stale = false;
        contact.lost(&fault(), || stale = true);
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
    fn a_node_that_never_heard_the_server_does_what_it_is_told_of_away() {
        for (away, stale, trusted) in [
            (Away::Serve, false, true),
            (Away::Stale(Duration::from_secs(30)), true, true),
            (Away::Bypass, false, false),
        ] {
            let contact = contact(away);
            at(100);
            assert_eq!((loses(&contact), contact.is_trusted()), (stale, trusted), "{away:?}");
            assert!(contact.wait(Duration::ZERO));
        }
    }

    #[test]
    fn a_node_that_has_ended_takes_nothing_from_the_next() {
        let trust = Arc::new(Trust::always(|| Duration::from_secs(NOW.get())));
        assert!(trust.is_given());
        let first = Contact::new(Away::Serve, Arc::clone(&trust));
        assert!(!trust.is_given());
        first.heard(at(100));
        assert!(trust.is_given());
        first.end();
        assert!(!trust.is_given());
        let second = Contact::new(Away::Bypass, Arc::clone(&trust));
        first.heard(at(101));
        assert!(!trust.is_given());
        second.heard(at(101));
        first.lost(&fault(), || ());
        at(103);
        assert!(!trust.is_given(), "it is the second one's");
        second.end();
        trust.give();
        assert!(trust.is_given());
    }

    #[test]
    fn a_fault_is_new_once() {
        let contact = contact(Away::Serve);
        contact.heard(at(100));
        at(103);
        assert!(contact.lost(&fault(), || ()) && !contact.lost(&fault(), || ()));
        assert!(contact.lost(&Fault::Replica, || ()));
        assert_eq!(contact.heard(at(110)), Some((Fault::Replica, Duration::from_secs(10))));
        assert_eq!(contact.heard(at(111)), None);
        contact.end();
        contact.heard(at(112));
        assert!(!contact.is_trusted());
    }
}
