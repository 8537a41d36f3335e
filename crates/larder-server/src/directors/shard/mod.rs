//! `directors.shard()`: a key has the same member for as long as that is there and healthy.
//!
//! ```text
//! add, remove, clear --> pending --reconfigure, or the end of the sub--> Ring: points of all members
//! key --> the next point on the ring --walk--> a member whose health fits the question
//! ```

mod parameters;
mod ring;
mod walk;

use std::sync::Arc;

use parking_lot::Mutex;

use super::judge::{Judge, Number};
use super::members::MEMBERS_MAX;

pub use parameters::{Asked, By, Healthy, Question, Set, TaskSets};
use ring::{Instance, Ring};
use walk::Moment;

/// How often a member stands on the ring if the VCL does not say.
pub const REPLICAS: u32 = 67;

/// The director.
#[derive(Debug, Default)]
pub struct Shard {
    /// Guards the current members, and what is to change about them. Not held across an await, nor while others are
    /// asked for their health.
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    ring: Arc<Ring>,
    pending: Vec<Change>,
    warmup: f64,
    rampup: f64,
    param: Option<usize>,
}

/// What is to change about the members.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// None of those before stays.
    Clear,
    /// A member comes, unless one with this `ident` is there.
    Add {
        /// The backend.
        backend: Number,
        /// Its name, or what was given for it.
        ident: String,
        /// How long it gets only a part of its requests, in seconds, if that was given.
        rampup: Option<f64>,
        /// How many times the replicas of others it has; 1 or more.
        weight: f64,
    },
    /// All that are this backend go.
    RemoveBackend(Number),
    /// The one with this `ident` goes.
    RemoveIdent(String),
}

impl Shard {
    /// Notes a change. False if too many wait already.
    pub fn change(&self, change: Change) -> bool {
        let mut state = self.state.lock();
        let has_room = state.pending.len() < 2 * MEMBERS_MAX;
        if has_room {
            state.pending.push(change);
        }
        has_room
    }

    /// Whether changes wait.
    pub fn waits(&self) -> bool {
        !self.state.lock().pending.is_empty()
    }

    /// Makes the changes that wait; nobody else may do so at the same time. A member stands on the ring as often as `replicas` says, times its weight;
    /// `contains` says of a backend whether this director is below it. Returns whether there are members, and what went
    /// wrong.
    pub fn reconfigure(&self, replicas: u32, contains: impl Fn(Number) -> bool) -> (bool, Vec<String>) {
        let (pending, mut members) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.pending), state.ring.members.clone())
        };
        if pending.is_empty() {
            return (true, Vec::new());
        }
        let mut notes = Vec::new();
        for change in pending {
            apply(change, &mut members, replicas, &contains, &mut notes);
        }
        let is_empty = members.is_empty();
        if is_empty {
            notes.push(".reconfigure() no backends".to_owned());
        }
        self.state.lock().ring = Arc::new(Ring::new(members));
        (!is_empty, notes)
    }

    /// The member for a key; `None` if there is none.
    pub fn choose(
        &self,
        key: u32,
        question: &Question,
        judge: &impl Judge,
        now: f64,
        share: &dyn Fn() -> f64,
    ) -> Option<Number> {
        let (ring, warmup, rampup) = {
            let state = self.state.lock();
            (Arc::clone(&state.ring), state.warmup, state.rampup)
        };
        walk::choose(&ring, key, question, &Moment { judge, now, share, warmup, rampup })
    }

    /// The backends that are its members; one may be there several times.
    pub fn backends(&self) -> Vec<Number> {
        self.state.lock().ring.members.iter().map(|member| member.backend).collect()
    }

    /// How often the next member is asked instead of a healthy one, from 0 to 1.
    pub fn set_warmup(&self, share: f64) {
        self.state.lock().warmup = share;
    }

    /// How long members that become healthy get only a part of their requests, in seconds.
    pub fn set_rampup(&self, seconds: f64) {
        self.state.lock().rampup = seconds;
    }

    /// The object that is the set behind all questions.
    pub fn param(&self) -> Option<usize> {
        self.state.lock().param
    }

    /// Puts a set behind all questions.
    pub fn associate(&self, param: Option<usize>) {
        self.state.lock().param = param;
    }
}

fn apply(
    change: Change,
    members: &mut Vec<Instance>,
    replicas: u32,
    contains: &impl Fn(Number) -> bool,
    notes: &mut Vec<String>,
) {
    match change {
        Change::Clear => members.clear(),
        Change::RemoveBackend(backend) => members.retain(|member| member.backend != backend),
        Change::RemoveIdent(ident) => members.retain(|member| member.ident != ident),
        Change::Add { ident, .. } if members.iter().any(|member| member.ident == ident) => {
            notes.push(format!("backend {ident} already exists - skipping"));
        }
        Change::Add { ident, .. } if members.len() >= MEMBERS_MAX => {
            notes.push(format!("backend {ident} is one too many - skipping"));
        }
        Change::Add { backend, ident, .. } if contains(backend) => {
            notes.push(format!("backend {ident} has this director among its own - skipping"));
        }
        Change::Add { backend, ident, rampup, weight } => {
            // What is too much is `u32::MAX`.
            let replicas = (f64::from(replicas) * weight) as u32;
            members.push(Instance { backend, ident, rampup, replicas });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::judge::Sick;
    use super::*;

    fn add(name: &str, backend: Number) -> Change {
        Change::Add { backend, ident: name.to_owned(), rampup: None, weight: 1.0 }
    }

    #[test]
    fn changes_wait_until_they_are_made_together() {
        use Change::{Clear, RemoveBackend, RemoveIdent};
        for (changes, members, notes) in [
            (vec![add("a", 1), add("b", 2)], vec![1, 2], vec![]),
            (vec![add("a", 1), add("a", 1)], vec![1], vec!["backend a already exists - skipping"]),
            (vec![add("a", 1), add("again", 1), RemoveBackend(1), add("b", 2)], vec![2], vec![]),
            (vec![add("a", 1), add("again", 1), RemoveIdent("again".to_owned())], vec![1], vec![]),
            (vec![add("a", 1), Clear, add("b", 2)], vec![2], vec![]),
            (vec![add("a", 1), Clear], vec![], vec![".reconfigure() no backends"]),
            (
                vec![add("a", 1), add("above", 9)],
                vec![1],
                vec!["backend above has this director among its own - skipping"],
            ),
        ] {
            let shard = Shard::default();
            changes.iter().for_each(|change| assert!(shard.change(change.clone())));
            assert!(shard.backends().is_empty(), "nothing has changed yet");
            let is_there = !members.is_empty();
            let notes: Vec<String> = notes.into_iter().map(str::to_owned).collect();
            assert_eq!(shard.reconfigure(REPLICAS, |backend| backend == 9), (is_there, notes), "{changes:?}");
            assert_eq!(shard.backends(), members, "{changes:?}");
            assert_eq!(shard.reconfigure(REPLICAS, |_| false), (true, vec![]), "nothing waits");
        }
    }

    #[test]
    fn a_member_of_twice_the_weight_gets_about_twice_the_keys() {
        let shard = Shard::default();
        shard.change(add("a", 0));
        shard.change(Change::Add { backend: 1, ident: "b".to_owned(), rampup: None, weight: 2.0 });
        assert!(shard.reconfigure(200, |_| false).0);
        let question = Set::default().question();
        let keys = (0..3000_u32).map(|step| step.wrapping_mul(0x9e37_79b9));
        let chosen = keys.filter(|key| shard.choose(*key, &question, &Sick(&[]), 0.0, &|| 0.0) == Some(1)).count();
        assert!((1800..2200).contains(&chosen), "{chosen}");
    }
}
