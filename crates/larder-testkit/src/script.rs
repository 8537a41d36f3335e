//! What an origin answers to which request: routes, queues of answers, holds, and the record of what was asked.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::PATIENCE;

/// Which requests an answer is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// The path with its query, the path alone, or `*` for any; looked for in this order.
    pub path: String,
    /// Only for requests that carry this field; such a route is looked for first.
    pub when: Option<String>,
}

impl From<&str> for Route {
    fn from(path: &str) -> Route {
        Route { path: path.to_owned(), when: None }
    }
}

/// The script of one origin: `A` is what it answers, `Q` what it records of a request.
#[derive(Debug)]
pub(crate) struct Script<A, Q> {
    state: Mutex<State<A, Q>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<A, Q> {
    answers: HashMap<Route, Answers<A>>,
    held: HashMap<String, usize>,
    seen: Vec<Q>,
    is_stopped: bool,
}

/// The answers of one route, in order; the last one stays.
#[derive(Debug)]
struct Answers<A> {
    queue: Vec<A>,
    next: usize,
}

impl<A: Clone, Q: Clone> Script<A, Q> {
    pub(crate) fn new() -> Arc<Script<A, Q>> {
        let state = State { answers: HashMap::new(), held: HashMap::new(), seen: Vec::new(), is_stopped: false };
        Arc::new(Script { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// A poisoned lock only means that a test has failed already.
    fn lock(&self) -> MutexGuard<'_, State<A, Q>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `route` answers this.
    pub(crate) fn answer(&self, route: Route, answer: A) {
        self.lock().answers.insert(route, Answers { queue: vec![answer], next: 0 });
    }

    /// `route` answers this once what it has been told before is used up.
    pub(crate) fn answer_then(&self, route: Route, answer: A) {
        self.lock().answers.entry(route).or_insert_with(|| Answers { queue: Vec::new(), next: 0 }).queue.push(answer);
    }

    /// Records a request, waits while its path is held, and picks its answer. `None` when nothing is scripted.
    pub(crate) fn exchange(&self, target: &str, has_field: impl Fn(&str) -> bool, seen: Q) -> Option<A> {
        let path = target.split('?').next().unwrap_or(target);
        let mut state = self.lock();
        state.seen.push(seen);
        let answer = state.pick(&[target, path, "*"], has_field);
        self.changed.notify_all();
        let deadline = Instant::now() + PATIENCE;
        while !state.is_stopped && state.is_held(path) && Instant::now() < deadline {
            state = self.changed.wait_timeout(state, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        answer
    }

    pub(crate) fn hold(&self, path: &str) {
        *self.lock().held.entry(path.to_owned()).or_insert(0) += 1;
    }

    pub(crate) fn release(&self, path: &str) {
        let mut state = self.lock();
        if let Some(count) = state.held.get_mut(path) {
            *count = count.saturating_sub(1);
        }
        self.changed.notify_all();
    }

    pub(crate) fn seen(&self) -> Vec<Q> {
        self.lock().seen.clone()
    }

    /// Waits until `count` requests have arrived; `false` when patience ran out.
    pub(crate) fn wait_for(&self, count: usize) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.lock();
        while state.seen.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    /// Forgets what was asked, starts every queue from its first answer, and lets go of every hold.
    pub(crate) fn rewind(&self) {
        let mut state = self.lock();
        state.seen.clear();
        state.held.clear();
        for answers in state.answers.values_mut() {
            answers.next = 0;
        }
        self.changed.notify_all();
    }

    /// Nothing waits any more.
    pub(crate) fn stop(&self) {
        self.lock().is_stopped = true;
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }
}

impl<A: Clone, Q> State<A, Q> {
    fn pick(&mut self, paths: &[&str], has_field: impl Fn(&str) -> bool) -> Option<A> {
        for path in paths {
            let chosen = self
                .answers
                .keys()
                .filter(|route| route.path == *path && route.when.as_deref().is_none_or(&has_field))
                .max_by_key(|route| route.when.is_some())
                .cloned();
            if let Some(answers) = chosen.and_then(|route| self.answers.get_mut(&route)) {
                let index = answers.next.min(answers.queue.len().saturating_sub(1));
                answers.next += 1;
                return answers.queue.get(index).cloned();
            }
        }
        None
    }

    fn is_held(&self, path: &str) -> bool {
        self.held.get(path).or_else(|| self.held.get("*")).is_some_and(|count| *count > 0)
    }
}

/// Requests of a path wait while this lives.
pub struct Hold {
    release: Option<Box<dyn FnOnce() + Send>>,
}

impl Hold {
    pub(crate) fn new(release: impl FnOnce() + Send + 'static) -> Hold {
        Hold { release: Some(Box::new(release)) }
    }

    /// Lets them go on; so does dropping it.
    pub fn release(self) {}
}

impl Drop for Hold {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hold")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_route_answers_and_the_last_answer_stays() {
        let script: Arc<Script<&str, ()>> = Script::new();
        script.answer("*".into(), "any");
        script.answer("/a".into(), "a1");
        script.answer_then("/a".into(), "a2");
        script.answer("/a?x=1".into(), "query");
        script.answer(Route { path: "/a".into(), when: Some("If-None-Match".into()) }, "conditional");
        for (target, field, want) in [
            ("/b", "", "any"),
            ("/a?x=1", "", "query"),
            ("/a", "", "a1"),
            ("/a", "If-None-Match", "conditional"),
            ("/a?y", "", "a2"),
            ("/a", "", "a2"),
        ] {
            assert_eq!(script.exchange(target, |name| name == field, ()), Some(want), "{target} {field}");
        }
        assert_eq!(script.seen().len(), 6);
        script.rewind();
        assert_eq!(script.exchange("/a", |_| false, ()), Some("a1"));
        assert!(script.wait_for(1));
    }

    #[test]
    fn a_held_path_waits_for_its_release_and_no_other_does() {
        let script: Arc<Script<u8, &str>> = Script::new();
        script.answer("*".into(), 1);
        script.hold("/slow");
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| script.exchange("/slow", |_| false, "slow"));
            assert!(script.wait_for(1));
            assert_eq!(script.exchange("/fast", |_| false, "fast"), Some(1));
            assert!(!slow.is_finished());
            script.release("/slow");
            assert_eq!(slow.join().unwrap(), Some(1));
        });
    }
}
