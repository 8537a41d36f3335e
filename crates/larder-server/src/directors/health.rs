//! Whether a backend or a director is healthy: what an operator says, or else its probe.

use std::str::FromStr;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use larder_vcl::policy::Probe;
use parking_lot::Mutex;

use super::window::{Answer, Window};

/// What an operator says about the health of a backend: `backend.set_health` of Varnish's CLI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admin {
    /// Its probe decides, or its members; without either it is healthy.
    #[default]
    Auto,
    /// It is not to be asked.
    Sick,
    /// It is to be asked, whatever its probe says.
    Healthy,
}

impl FromStr for Admin {
    type Err = ();

    /// Varnish's words, in either case.
    fn from_str(word: &str) -> Result<Self, ()> {
        let all = [("auto", Self::Auto), ("sick", Self::Sick), ("healthy", Self::Healthy)];
        all.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(word)).map(|(_, admin)| admin).ok_or(())
    }
}

/// The health of a backend; of a director, only what an operator says.
#[derive(Debug)]
pub struct Health {
    /// Guards what is known. Not held across an await.
    known: Mutex<Known>,
    /// What follows from that, for requests: [`UNSAID`], [`ILL`] or [`WELL`].
    said: AtomicU8,
    /// When it changed, as the bits of seconds since 1970; 0.0 if it never has.
    changed: AtomicU64,
}

const UNSAID: u8 = 0;
const ILL: u8 = 1;
const WELL: u8 = 2;

#[derive(Debug)]
struct Known {
    admin: Admin,
    /// What its probe has found, if it has one.
    window: Option<Window>,
}

impl Known {
    fn said(&self) -> u8 {
        match (self.admin, &self.window) {
            (Admin::Sick, _) => ILL,
            (Admin::Healthy, _) => WELL,
            (Admin::Auto, None) => UNSAID,
            (Admin::Auto, Some(window)) => {
                if window.is_healthy() {
                    WELL
                } else {
                    ILL
                }
            }
        }
    }
}

impl Health {
    /// That of a backend with this probe, or of a director.
    pub fn new(probe: Option<&Probe>, now: f64) -> Self {
        let window = probe.map(Window::new);
        // As in Varnish, what a probe takes for healthy at first has not changed.
        let has_changed = window.as_ref().is_none_or(|window| !window.is_healthy());
        let changed = if has_changed { now } else { 0.0 };
        let known = Known { admin: Admin::Auto, window };
        let (said, changed) = (AtomicU8::new(known.said()), AtomicU64::new(changed.to_bits()));
        Self { known: Mutex::new(known), said, changed }
    }

    /// What is said by an operator, or a probe; `None` if neither says anything.
    pub fn said(&self) -> Option<bool> {
        match self.said.load(Ordering::Relaxed) {
            UNSAID => None,
            said => Some(said == WELL),
        }
    }

    /// Changes what is known, and what follows.
    fn change<R>(&self, change: impl FnOnce(&mut Known) -> R) -> R {
        let mut known = self.known.lock();
        let result = change(&mut known);
        self.said.store(known.said(), Ordering::Relaxed);
        result
    }

    /// What an operator says.
    pub fn admin(&self) -> Admin {
        self.known.lock().admin
    }

    /// Lets an operator say it.
    pub fn set_admin(&self, admin: Admin, now: f64) {
        self.change(|known| {
            if known.admin != admin {
                known.admin = admin;
                self.changed.store(now.to_bits(), Ordering::Relaxed);
            }
        });
    }

    /// When it changed, in seconds since 1970; 0 if it never has.
    pub fn changed(&self) -> f64 {
        f64::from_bits(self.changed.load(Ordering::Relaxed))
    }

    /// What its probe has found, if it has one.
    pub fn window(&self) -> Option<Window> {
        self.known.lock().window.clone()
    }

    /// Adds what came of a probe. Returns what that says now if it says something else than before.
    pub fn add(&self, answer: Answer, now: f64) -> Option<Window> {
        self.change(|known| {
            let window = known.window.as_mut()?;
            let before = window.is_healthy();
            window.add(answer);
            if window.is_healthy() == before {
                return None;
            }
            self.changed.store(now.to_bits(), Ordering::Relaxed);
            Some(window.clone())
        })
    }

    /// Goes on with what another knew of the same backend; of its probe only if that is the same too.
    pub fn take_over(&self, old: &Health, has_same_probe: bool) {
        let admin = old.admin();
        self.change(|known| known.admin = admin);
        if has_same_probe {
            self.learn_from(old);
        }
    }

    /// Goes on with what the same probe has found out for another VCL.
    pub fn learn_from(&self, other: &Health) {
        let window = other.known.lock().window.clone();
        self.change(|known| known.window = window);
        self.changed.store(other.changed.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::super::window::tests::{answer, probe};
    use super::*;

    #[test]
    fn an_operator_outweighs_a_probe() {
        for (admin, with_probe, without) in
            [("auto", Some(false), None), ("SICK", Some(false), Some(false)), ("healthy", Some(true), Some(true))]
        {
            let admin = admin.parse().expect("it is one of the words");
            for (probe, expected) in [(Some(probe(8, 3, 2)), with_probe), (None, without)] {
                let health = Health::new(probe.as_ref(), 1.0);
                health.set_admin(admin, 2.0);
                assert_eq!(health.said(), expected, "{admin:?}");
                assert_eq!(health.changed(), if admin == Admin::Auto { 1.0 } else { 2.0 }, "{admin:?}");
            }
        }
        assert_eq!("ill".parse::<Admin>(), Err(()));
    }

    #[test]
    fn a_change_is_told_once() {
        let health = Health::new(Some(&probe(4, 2, 2)), 1.0);
        assert_eq!(health.changed(), 0.0);
        for (now, good, expected) in [
            (2.0, Some(1), None),
            (3.0, None, None),
            (4.0, None, None),
            (5.0, None, Some(false)),
            (6.0, None, None),
            (7.0, Some(1), None),
            (8.0, Some(1), Some(true)),
        ] {
            let told = health.add(answer(good), now);
            assert_eq!(told.map(|window| window.is_healthy()), expected, "at {now}");
        }
        assert_eq!(health.changed(), 8.0);
        assert_eq!(Health::new(None, 1.0).add(answer(None), 2.0), None, "without a probe");
    }

    #[test]
    fn a_new_vcl_goes_on_with_what_the_old_one_knew() {
        let old = Health::new(Some(&probe(4, 2, 0)), 1.0);
        old.set_admin(Admin::Healthy, 2.0);
        old.add(answer(Some(1)), 3.0);
        for (has_same_probe, good, changed) in [(true, 1, 2.0), (false, 0, 9.0)] {
            let new = Health::new(Some(&probe(4, 2, 0)), 9.0);
            new.take_over(&old, has_same_probe);
            let window = new.window().expect("it has a probe");
            assert_eq!((new.admin(), window.good, new.changed()), (Admin::Healthy, good, changed), "{has_same_probe}");
        }
    }
}
