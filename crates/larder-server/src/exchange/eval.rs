//! What evaluating texts and variables needs and leaves behind: values, captures, buffers, failures.

use std::cell::RefCell;
use std::rc::Rc;

use crate::regex::Captures;

use super::KEPT_BYTES_MAX;

/// Values of variables, captures, and buffers to work with.
#[derive(Default)]
pub struct Eval {
    /// Values of variables, shared with the subrequests.
    pub values: Rc<RefCell<Values>>,
    /// The captures of the last regular expression.
    pub captures: Captures,
    /// How deeply variables are being evaluated within each other now.
    pub depth: u8,
    /// Whether every pattern and variable so far could be evaluated.
    pub evaluation: Evaluation,
    /// Whether the arguments are left out that change no page: they are in no key, and not in a request whose answer may be
    /// stored.
    pub leaves_out: bool,
    /// Whether one of them was read all the same, by `$arg_...` or `$request`, since this was last set to false.
    pub reads_ignored: bool,
    /// Whether something of the answer was read, which may not be there yet, since this was last set to false.
    pub reads_answer: bool,
    /// Buffers to borrow.
    pub scratch: Vec<Vec<u8>>,
}

impl Eval {
    /// Forgets the request. Buffers keep their memory, unless they have grown large.
    pub(super) fn reset(&mut self) {
        let Self { values, captures, depth, evaluation, leaves_out, reads_ignored, reads_answer, scratch } = self;
        match Rc::get_mut(values) {
            Some(values) => values.get_mut().clear(),
            // A subrequest of the last request still runs.
            None => *values = Rc::default(),
        }
        captures.clear();
        *depth = 0;
        *evaluation = Evaluation::default();
        *leaves_out = false;
        *reads_ignored = false;
        *reads_answer = false;
        scratch.retain(|buffer| buffer.capacity() <= KEPT_BYTES_MAX);
    }

    /// A copy of the values, for a request that may change them for itself.
    pub(super) fn again(&self) -> Self {
        Self { values: Rc::new(self.values.as_ref().clone()), captures: self.captures.clone(), ..Self::default() }
    }

    /// Lends an empty buffer, to be given back by [`Eval::take_back`].
    pub fn lend(&mut self) -> Vec<u8> {
        self.scratch.pop().unwrap_or_default()
    }

    /// Takes a buffer back.
    pub fn take_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.scratch.push(buffer);
    }

    /// Stores a value and returns its place.
    pub fn keep(&mut self, value: &[u8]) -> Slot {
        let mut values = self.values.borrow_mut();
        let start = values.arena.len();
        values.arena.extend_from_slice(value);
        match (u32::try_from(start), u32::try_from(values.arena.len())) {
            (Ok(start), Ok(end)) => Slot::Value(start, end),
            _ => Slot::Absent,
        }
    }

    /// Sets the variable in `slot`.
    pub fn set_slot(&mut self, slot: usize, value: Slot) {
        let mut values = self.values.borrow_mut();
        if values.slots.len() <= slot {
            values.slots.resize(slot + 1, Slot::Unset);
        }
        values.slots[slot] = value;
    }

    /// What is known by now, to be put back after a look ahead: values that are asked for before there is an answer may be
    /// others when there is one.
    pub fn known(&self) -> Looked {
        let slots = self.values.borrow().slots.clone();
        Looked { slots, captures: self.captures.clone(), evaluation: self.evaluation }
    }

    /// Forgets what has been evaluated since then.
    pub fn put_back(&mut self, looked: Looked) {
        let Looked { slots, captures, evaluation } = looked;
        self.values.borrow_mut().slots = slots;
        (self.captures, self.evaluation) = (captures, evaluation);
    }

    /// The variable in `slot`.
    pub fn slot(&self, slot: usize) -> Slot {
        self.values.borrow().slots.get(slot).copied().unwrap_or_default()
    }
}

/// What was known before a look ahead.
pub struct Looked {
    slots: Vec<Slot>,
    captures: Captures,
    evaluation: Evaluation,
}

/// Values of variables with a slot, and of those that are computed once a request.
#[derive(Clone, Debug, Default)]
pub struct Values {
    slots: Vec<Slot>,
    /// The bytes of the values.
    arena: Vec<u8>,
    /// `$request_id`, once it has been used.
    pub request_id: Option<[u8; 32]>,
}

impl Values {
    /// Forgets the values, and keeps the memory.
    fn clear(&mut self) {
        self.slots.clear();
        self.arena.clear();
        self.arena.shrink_to(KEPT_BYTES_MAX);
        self.request_id = None;
    }

    /// The bytes of a value.
    pub fn bytes(&self, slot: Slot) -> Option<&[u8]> {
        match slot {
            Slot::Value(start, end) => self.arena.get(start as usize..end as usize),
            Slot::Unset | Slot::Absent => None,
        }
    }
}

/// The value of a variable with a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Slot {
    /// Not evaluated yet.
    #[default]
    Unset,
    /// The variable has no value.
    Absent,
    /// Bytes `start` to `end` of the arena.
    Value(u32, u32),
}

/// Whether everything that decides about a request could be evaluated. A pattern that reaches its limit, or a variable
/// that depends on itself, has no result; a request that it should have judged is refused, not let through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Evaluation {
    /// All could be evaluated.
    #[default]
    Sound,
    /// Something could not, and the request has not been refused yet.
    Failed,
    /// The request has been refused; an `error_page` may be on its way.
    Refused,
    /// Something could not be evaluated on the way to the `error_page`.
    FailedAgain,
    /// The request has been refused for good; only fields of the error page can still fail.
    Over,
}

/// The answer to a request of which something could not be evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A 500 that an `error_page` may replace.
    First,
    /// A 500 for good: the `error_page` could not be evaluated either.
    Final,
}

impl Evaluation {
    /// Notes that something could not be evaluated.
    pub fn fail(&mut self) {
        *self = match *self {
            Self::Sound | Self::Failed => Self::Failed,
            Self::Refused | Self::FailedAgain => Self::FailedAgain,
            Self::Over => Self::Over,
        };
    }

    /// Whether the request still has to be refused.
    pub fn has_failed(self) -> bool {
        matches!(self, Self::Failed | Self::FailedAgain)
    }

    /// The answer to a request that still has to be refused; an `error_page` is used once.
    pub fn refuse(&mut self) -> Option<Refusal> {
        let (next, answer) = match *self {
            Self::Failed => (Self::Refused, Refusal::First),
            Self::FailedAgain => (Self::Over, Refusal::Final),
            Self::Sound | Self::Refused | Self::Over => return None,
        };
        *self = next;
        Some(answer)
    }
}
