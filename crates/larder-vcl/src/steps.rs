//! The subs that Varnish calls, each at one step of a request, and what each may lead to.

/// A step of a request, at which the sub of its name is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// A request has come.
    Recv,
    /// Its connection is about to be piped to a backend.
    Pipe,
    /// It is about to be passed.
    Pass,
    /// What names the page is gathered.
    Hash,
    /// All variants of a page were purged.
    Purge,
    /// No page was found.
    Miss,
    /// A page was found.
    Hit,
    /// A response is about to be sent.
    Deliver,
    /// A response that larder writes itself is about to be sent.
    Synth,
    /// A request is about to be sent to a backend.
    BackendFetch,
    /// A backend has answered 304.
    BackendRefresh,
    /// A backend has answered.
    BackendResponse,
    /// No backend has answered.
    BackendError,
    /// The VCL was loaded.
    Init,
    /// The VCL is no longer used.
    Fini,
}

/// Where a `return` leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// End the fetch without an answer.
    Abandon,
    /// Use the 304 as it is.
    Beresp,
    /// Go on with the response.
    Deliver,
    /// Go to vcl_backend_error.
    Error,
    /// End with an error.
    Fail,
    /// Ask the backend.
    Fetch,
    /// Look the page up.
    Hash,
    /// The key is complete.
    Lookup,
    /// Make the 304 and the stale page one.
    Merge,
    /// Use the stale page, with nothing of the 304.
    ObjStale,
    /// Go on.
    Ok,
    /// Fetch it without a look at the cache, or remember to.
    Pass,
    /// Join the client's connection with one to a backend.
    Pipe,
    /// Drop all variants of the page.
    Purge,
    /// Begin with vcl_recv again.
    Restart,
    /// Ask a backend again.
    Retry,
    /// Go to vcl_synth.
    Synth,
    /// Go on with the vcl_recv of another VCL.
    Vcl,
}

use Action as A;

/// Each step: the name of its sub, and what its `return` may name.
pub const STEPS: [(Step, &str, &[Action]); 15] = [
    (Step::Recv, "vcl_recv", &[A::Fail, A::Synth, A::Restart, A::Pass, A::Pipe, A::Hash, A::Purge, A::Vcl]),
    (Step::Pipe, "vcl_pipe", &[A::Fail, A::Synth, A::Pipe]),
    (Step::Pass, "vcl_pass", &[A::Fail, A::Synth, A::Restart, A::Fetch]),
    (Step::Hash, "vcl_hash", &[A::Fail, A::Lookup]),
    (Step::Purge, "vcl_purge", &[A::Fail, A::Synth, A::Restart]),
    (Step::Miss, "vcl_miss", &[A::Fail, A::Synth, A::Restart, A::Pass, A::Fetch]),
    (Step::Hit, "vcl_hit", &[A::Fail, A::Synth, A::Restart, A::Pass, A::Deliver]),
    (Step::Deliver, "vcl_deliver", &[A::Fail, A::Synth, A::Restart, A::Deliver]),
    (Step::Synth, "vcl_synth", &[A::Fail, A::Restart, A::Deliver]),
    (Step::BackendFetch, "vcl_backend_fetch", &[A::Fail, A::Abandon, A::Fetch, A::Error]),
    (
        Step::BackendRefresh,
        "vcl_backend_refresh",
        &[A::Merge, A::ObjStale, A::Beresp, A::Fail, A::Abandon, A::Retry, A::Error],
    ),
    (Step::BackendResponse, "vcl_backend_response", &[A::Fail, A::Abandon, A::Deliver, A::Retry, A::Pass, A::Error]),
    (Step::BackendError, "vcl_backend_error", &[A::Fail, A::Abandon, A::Deliver, A::Retry]),
    (Step::Init, "vcl_init", &[A::Ok, A::Fail]),
    (Step::Fini, "vcl_fini", &[A::Ok]),
];

/// All actions by name.
const ACTIONS: [(Action, &str); 18] = [
    (A::Abandon, "abandon"),
    (A::Beresp, "beresp"),
    (A::Deliver, "deliver"),
    (A::Error, "error"),
    (A::Fail, "fail"),
    (A::Fetch, "fetch"),
    (A::Hash, "hash"),
    (A::Lookup, "lookup"),
    (A::Merge, "merge"),
    (A::ObjStale, "obj_stale"),
    (A::Ok, "ok"),
    (A::Pass, "pass"),
    (A::Pipe, "pipe"),
    (A::Purge, "purge"),
    (A::Restart, "restart"),
    (A::Retry, "retry"),
    (A::Synth, "synth"),
    (A::Vcl, "vcl"),
];

impl Step {
    /// The name of its sub.
    pub fn name(self) -> &'static str {
        STEPS[self as usize].1
    }

    /// What a `return` of its sub may name.
    pub fn actions(self) -> &'static [Action] {
        STEPS[self as usize].2
    }

    /// The step whose sub has this name.
    pub fn named(name: &str) -> Option<Self> {
        STEPS.iter().find(|(_, own, _)| own.eq_ignore_ascii_case(name)).map(|(step, ..)| *step)
    }
}

impl Action {
    /// Its name.
    pub fn name(self) -> &'static str {
        ACTIONS[self as usize].1
    }

    /// The action of this name.
    pub fn named(name: &str) -> Option<Self> {
        ACTIONS.iter().find(|(_, own)| *own == name).map(|(action, _)| *action)
    }

    /// All names.
    pub fn names() -> impl Iterator<Item = &'static str> {
        ACTIONS.iter().map(|(_, name)| *name)
    }

    /// The steps that may return it.
    pub fn steps(self) -> Steps {
        let all = STEPS.iter().filter(|(.., actions)| actions.contains(&self));
        all.fold(Steps::NONE, |steps, (step, ..)| steps.or(Steps::of(*step)))
    }
}

/// A set of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steps(u16);

impl Steps {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self((1 << STEPS.len()) - 1);
    /// Those of the client's request.
    pub const CLIENT: Self = Self(bit(Step::Synth) * 2 - 1);
    /// Those of the request to a backend.
    pub const BACKEND: Self = Self((bit(Step::BackendError) * 2 - 1) & !Self::CLIENT.0);
    /// Those of the VCL itself.
    pub const HOUSEKEEPING: Self = Self(bit(Step::Init) | bit(Step::Fini));

    /// One.
    pub const fn of(step: Step) -> Self {
        Self(bit(step))
    }

    /// Those of both.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a step is among them.
    pub const fn contains(self, step: Step) -> bool {
        self.0 & bit(step) != 0
    }

    /// The names of their subs, or of all of a side.
    pub fn describe(self) -> String {
        let sides = [
            (Self::ALL, "everywhere"),
            (Self::CLIENT.or(Self::BACKEND), "in all subs but vcl_init and vcl_fini"),
            (Self::CLIENT, "in the subs of the client's side"),
            (Self::BACKEND, "in the subs of the backend's side"),
            (Self::of(Step::Pipe).or(Self::BACKEND), "in vcl_pipe and the subs of the backend's side"),
            (Self::CLIENT.or(Self::HOUSEKEEPING), "in all subs but those of the backend's side"),
        ];
        if let Some((_, text)) = sides.iter().find(|(steps, _)| *steps == self) {
            return (*text).to_owned();
        }
        let names: Vec<_> = STEPS.iter().filter(|(step, ..)| self.contains(*step)).map(|(_, name, _)| *name).collect();
        match names.split_last() {
            None => "nowhere".to_owned(),
            Some((last, [])) => format!("in {last}"),
            Some((last, others)) => format!("in {} and {last}", others.join(", ")),
        }
    }
}

const fn bit(step: Step) -> u16 {
    1 << step as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_the_order_of_their_values() {
        for (at, (step, name, _)) in STEPS.iter().enumerate() {
            assert_eq!((*step as usize, Step::named(name)), (at, Some(*step)), "{name}");
        }
        for (at, (action, name)) in ACTIONS.iter().enumerate() {
            assert_eq!((*action as usize, Action::named(name)), (at, Some(*action)), "{name}");
        }
    }

    #[test]
    fn sides_have_their_steps() {
        let is_of_backend = |step: Step| step.name().starts_with("vcl_backend_");
        for (step, name, _) in STEPS {
            assert_eq!(Steps::BACKEND.contains(step), is_of_backend(step), "{name}");
            let is_housekeeping = matches!(step, Step::Init | Step::Fini);
            assert_eq!(Steps::HOUSEKEEPING.contains(step), is_housekeeping, "{name}");
            assert_eq!(Steps::CLIENT.contains(step), !is_of_backend(step) && !is_housekeeping, "{name}");
        }
    }
}
