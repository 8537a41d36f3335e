//! A VCL, compiled: typed instructions for a machine with a stack, and what they refer to.
//!
//! [`compile`](crate::compile) makes it of a checked policy, so an instruction finds the kinds of values that it needs.
//! One that does not says so by a failure, which ends the request that it was run for, and nothing else.

use std::net::SocketAddr;

use larder_source::Span;

use crate::acl::Acl;
use crate::policy::{Arithmetic, Header, ObjectId, Place, Property, RegexId};
use crate::steps::{Action, Step};
use crate::vars::Variable;
use crate::vmods;

/// A place in the code.
pub type At = u32;

/// A text of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextAt {
    /// Where it begins.
    pub at: u32,
    /// How many bytes it has.
    pub len: u32,
}

/// What is known by a number and has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// An ACL.
    Acl,
    /// A backend or a director.
    Backend,
    /// A probe.
    Probe,
    /// A storage.
    Storage,
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// What is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A function of a module.
    Function(vmods::FunctionId),
    /// A method of an object.
    Method(ObjectId, vmods::MethodId),
    /// The making of an object.
    New(ObjectId),
}

/// An instruction. Those that take values take them from the top of the stack, the last one first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    /// Pushes a text.
    Text(TextAt),
    /// Pushes the text that is not there, such as that of a header that is not there.
    NoText,
    /// Pushes an argument that was not given.
    NoArgument,
    /// Pushes a BLOB.
    Blob(TextAt),
    /// Pushes an INT.
    Int(i64),
    /// Pushes a REAL, a DURATION in seconds, or a TIME in seconds since 1970.
    Real(f64),
    /// Pushes BYTES.
    Bytes(i64),
    /// Pushes a BOOL.
    Bool(bool),
    /// Pushes an address, by its place in the program.
    Ip(u32),
    /// Pushes what is known by its number: a backend, a probe, an ACL, a sub, a storage or a label, or none of them.
    Id(Option<u32>),
    /// Pushes a word of an ENUM, by its place among the words.
    Word(u32),
    /// Pushes a regular expression.
    Regex(RegexId),
    /// Pushes a header itself, for a function.
    Header(Header),
    /// Pushes all headers of a message, for a function; the variable that is the message.
    Message(Variable),
    /// Pushes the value of a variable, or the text of a header.
    Get(Place),
    /// Takes a value and sets a variable or a header to it.
    Set(Place),
    /// Takes a text or a BLOB and adds it to the end of a body.
    Append(Variable),
    /// Sets a header to a line of the program: `Name: value` and CR LF, where the value has no control characters and no
    /// spaces around it.
    SetLine(Header, TextAt),
    /// Unsets a variable or a header.
    Unset(Place),
    /// Unsets several headers of one message, by their place in [`Program::header_lists`].
    UnsetAll(u32),
    /// Writes the value on top as a text.
    ToText,
    /// Writes the TIME on top as a text, in HTTP's form.
    TimeToText,
    /// Writes the name of what is known by its number, on top, as a text.
    NameOf(Named),
    /// Whether the value on top is there, or more than zero: what `if (req.http.cookie)` asks.
    IsThere,
    /// Pushes whether the text of a variable or a header is there.
    HasText(Place),
    /// Pushes whether a variable is there, or more than zero, or true.
    Holds(Variable),
    /// Pushes how an INT that a variable is compares to this one.
    CompareInt(Variable, Relation, i64),
    /// Pushes how a number that is no INT, and that a variable is, compares to this one.
    CompareReal(Variable, Relation, f64),
    /// Pushes whether the text of a variable or a header is a text of the program, or is not.
    TextIs {
        /// The variable or header.
        place: Place,
        /// The text of the program.
        text: TextAt,
        /// `==`, and not `!=`.
        is_equal: bool,
    },
    /// Pushes whether a regular expression matches the text of a variable or a header.
    TextMatches(Place, RegexId),
    /// Makes one text of this many.
    Join(u32),
    /// Takes two INT and pushes one.
    IntBy(Arithmetic),
    /// Takes two numbers, of which one may be an INT, and pushes a REAL, a DURATION or a TIME.
    RealBy(Arithmetic),
    /// Takes BYTES and another number, and pushes BYTES.
    BytesBy(Arithmetic),
    /// Negates the number on top.
    Negate,
    /// Takes two values of one type and pushes a BOOL.
    Compare(Relation),
    /// Negates the BOOL on top.
    Not,
    /// Takes a regular expression and a text, and pushes whether that matches.
    Matches,
    /// Takes an ACL and an address, and pushes whether that is in it.
    IsInAcl,
    /// Pushes whether the address that a variable is, is in an ACL, by its number.
    AddressInAcl(Variable, u32),
    /// Takes a replacement, a regular expression and a text, and pushes the text with the first match replaced, or all.
    Substitute {
        /// `regsuball`
        all: bool,
    },
    /// Takes a value and pushes what belongs to it.
    Property(Property),
    /// Goes to a place.
    Jump(At),
    /// Takes a BOOL, and goes to a place if it is false.
    JumpUnless(At),
    /// Takes a BOOL, and goes to a place if it is true.
    JumpIf(At),
    /// Goes to a place if the BOOL on top is false; else takes it: `&&`.
    And(At),
    /// Goes to a place if the BOOL on top is true; else takes it: `||`.
    Or(At),
    /// Runs a sub, which comes back behind this instruction.
    Sub(At),
    /// Goes back to where the sub was called, or ends the run if it was not called.
    Back,
    /// Ends the run; how many values on the stack belong to the action.
    Return(Action, u8),
    /// Takes this many arguments, calls, and pushes what comes back.
    Call(Callee, u16),
    /// Drops the value on top.
    Drop,
    /// Takes a text and adds it to the key: `hash_data()`.
    HashData,
    /// Adds the text of a variable or a header to the key.
    HashPlace(Place),
    /// Takes a text or a BLOB and adds it to the body of the response: `synthetic()`.
    Synthetic,
    /// Takes a text and bans what it says: `ban()`.
    Ban,
}

/// An instruction as it is run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ready {
    /// What it does.
    pub op: Op,
    /// Where it leads if it makes a BOOL.
    pub branch: Branch,
}

/// Where an instruction leads with a BOOL that it has made, if that is false and if it is true. `None` if the BOOL is
/// pushed.
pub(crate) type Branch = [Option<NonZeroAt>; 2];

/// A place in the code that is not its first.
pub(crate) type NonZeroAt = std::num::NonZeroU32;

/// The instructions with their branches. Most BOOL are taken by a jump right behind, which is carried out at once, as is a
/// `!` in front of one.
pub(crate) fn ready(code: &[Op]) -> Vec<Ready> {
    let ready = |(at, op): (usize, &Op)| {
        let (jump_at, is_negated) = match code.get(at + 1) {
            Some(Op::Not) => (at + 2, true),
            _ => (at + 1, false),
        };
        let to = |at: At| NonZeroAt::new(at);
        let next = At::try_from(jump_at + 1).ok().and_then(to);
        let [if_false, if_true] = match code.get(jump_at) {
            Some(Op::JumpUnless(at)) => [to(*at), next],
            Some(Op::JumpIf(at)) => [next, to(*at)],
            // Of these, the one that keeps the BOOL needs it pushed.
            Some(Op::And(_)) => [None, next],
            Some(Op::Or(_)) => [next, None],
            _ => [None, None],
        };
        let branch = if is_negated { [if_true, if_false] } else { [if_false, if_true] };
        Ready { op: *op, branch }
    };
    code.iter().enumerate().map(ready).collect()
}

/// A run goes through some sixty of them for each request.
const _: () = assert!(size_of::<Ready>() <= 32);

/// A compiled VCL.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// The instructions of all subs.
    pub(crate) code: Vec<Op>,
    /// The same as they are run, by [`ready`].
    pub(crate) ready: Vec<Ready>,
    /// Where each sub begins.
    pub(crate) subs: Vec<At>,
    /// Where the sub of each step begins, in the order of [`STEPS`](crate::steps::STEPS).
    pub(crate) steps: Vec<At>,
    /// All texts, one after the other.
    pub(crate) texts: Vec<u8>,
    /// All addresses.
    pub(crate) addresses: Vec<SocketAddr>,
    /// The ACLs of the policy.
    pub(crate) acls: Vec<Acl>,
    /// The headers of one message that are unset together.
    pub(crate) header_lists: Vec<Vec<Header>>,
    /// Where statements and conditions begin in the code, in its order, and where they stand in the files.
    pub(crate) places: Vec<(At, Span)>,
}

impl Program {
    /// A text of the program.
    pub fn text(&self, text: TextAt) -> &[u8] {
        let start = text.at as usize;
        self.texts.get(start..start + text.len as usize).unwrap_or_default()
    }

    /// All instructions.
    pub fn code(&self) -> &[Op] {
        &self.code
    }

    /// The headers that are unset together: one message each time, and at least one header.
    pub fn header_lists(&self) -> &[Vec<Header>] {
        &self.header_lists
    }

    /// Where the statement stands that an instruction belongs to.
    pub fn place_of(&self, at: At) -> Option<Span> {
        let behind = self.places.partition_point(|(start, _)| *start <= at);
        self.places.get(behind.checked_sub(1)?).map(|(_, span)| *span)
    }

    /// Whether a function of a module is called anywhere.
    pub fn calls(&self, module: &str, function: &str) -> bool {
        self.code.iter().any(|op| match op {
            Op::Call(Callee::Function(callee), _) => callee.module() == module && callee.function().name == function,
            _ => false,
        })
    }

    /// Where the sub of a step begins.
    pub fn of_step(&self, step: Step) -> Option<At> {
        self.steps.get(step as usize).copied()
    }

    /// Where a sub begins that is a value of type SUB.
    pub fn of_sub(&self, sub: u32) -> Option<At> {
        self.subs.get(sub as usize).copied()
    }
}
