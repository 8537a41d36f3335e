//! What becomes of a header on the ways through the subs of a step.

use std::collections::{HashMap, HashSet};

use crate::policy::{Header, Place};
use crate::program::{At, Op, Program};
use crate::steps::{Action, Step};

/// What becomes of a header that is there when a step begins. What is not certain is taken for true.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// It may be read before it is set or unset, or given to a function.
    pub is_read: bool,
    /// It may be there as it was where the step ends with `return (deliver)`.
    pub stays: bool,
}

impl Fate {
    /// Whether it makes a difference that the header is there.
    pub fn matters(self) -> bool {
        self.is_read || self.stays
    }
}

impl Program {
    /// The fate of a header of a response, which `is_it` recognises, in a step.
    pub fn fate(&self, step: Step, is_it: impl Fn(Header) -> bool) -> Fate {
        let Some(start) = self.of_step(step) else { return Fate { is_read: true, stays: true } };
        let mut ways = Ways { program: self, is_it, fate: Fate::default(), subs: HashMap::new() };
        ways.follow(start);
        ways.fate
    }
}

/// The ways on which the header is still as it was.
struct Ways<'a, F> {
    program: &'a Program,
    is_it: F,
    fate: Fate,
    /// The subs that were followed, and whether the header may be as it was where they lead back.
    subs: HashMap<At, bool>,
}

impl<F: Fn(Header) -> bool> Ways<'_, F> {
    /// Follows all ways through a sub. Calls are never in a circle.
    fn follow(&mut self, start: At) -> bool {
        if let Some(leads_back) = self.subs.get(&start) {
            return *leads_back;
        }
        let mut leads_back = false;
        let mut seen = HashSet::new();
        let mut open = vec![start];
        while let Some(at) = open.pop() {
            let Some(op) = self.program.code.get(at as usize).filter(|_| seen.insert(at)) else { continue };
            match fate_at(op, self.program, &self.is_it) {
                Here::Read => self.fate.is_read = true,
                Here::Replaced => continue,
                Here::Nothing => {}
            }
            match *op {
                // All others drop the response.
                Op::Return(action, _) => self.fate.stays |= action == Action::Deliver,
                Op::Back => leads_back = true,
                Op::Jump(to) => open.push(to),
                Op::JumpUnless(to) | Op::JumpIf(to) | Op::And(to) | Op::Or(to) => open.extend([to, at + 1]),
                Op::Sub(to) if !self.follow(to) => {}
                _ => open.push(at + 1),
            }
        }
        self.subs.insert(start, leads_back);
        leads_back
    }
}

/// What an instruction does with the header.
enum Here {
    Read,
    Replaced,
    Nothing,
}

fn fate_at(op: &Op, program: &Program, is_it: &impl Fn(Header) -> bool) -> Here {
    let is_place = |place: Place| matches!(place, Place::Header(header) if is_it(header));
    match *op {
        Op::Get(place) | Op::HasText(place) | Op::TextMatches(place, _) | Op::HashPlace(place) if is_place(place) => {
            Here::Read
        }
        Op::TextIs { place, .. } if is_place(place) => Here::Read,
        Op::Header(header) if is_it(header) => Here::Read,
        // A function may look for any.
        Op::Message(_) => Here::Read,
        Op::Set(place) | Op::Unset(place) if is_place(place) => Here::Replaced,
        Op::UnsetAll(number)
            if program.header_lists.get(number as usize).into_iter().flatten().any(|header| is_it(*header)) =>
        {
            Here::Replaced
        }
        Op::SetLine(header, _) if is_it(header) => Here::Replaced,
        _ => Here::Nothing,
    }
}
