//! Runs a compiled sub for a request.
//!
//! ```text
//! Machine::run(program, sub, host) --> Verdict      what the sub says is to be done
//!                   |                `-> Failure    it could not be evaluated: the request fails
//!                   `-> Host: variables, regular expressions, functions of modules
//! ```
//! What cannot be evaluated never lets anyone through: there is no value that stands for an error.

mod arithmetic;
#[cfg(test)]
mod tests;
mod value;

use std::net::IpAddr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use crate::acl::AclVerdict;
use crate::functions::{dates, numbers};
use crate::policy::{Arithmetic, Header, Place, Property, RegexId};
use crate::program::{At, Branch, Callee, Named, Op, Program, Ready, Relation};
use crate::steps::Action;
use crate::types::Type;
use crate::vars::{Headers, Variable};

pub use value::{Full, Text, Texts, Value};

/// What a run needs of the request that it is made for.
pub trait Host {
    /// The value of a variable, or the text of a header.
    fn get(&mut self, place: Place, texts: &mut Texts<'_>) -> Result<Value, Failure>;

    /// The address that a variable is, if it lies somewhere.
    fn held_address(&self, _: Variable) -> Option<IpAddr> {
        None
    }

    /// The text of a variable or a header, if it lies somewhere and need not be made.
    fn held(&self, _: Place) -> Held<'_> {
        Held::Not
    }

    /// Sets a variable or a header. A text that is not there sets a header that is empty.
    fn set(&mut self, place: Place, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure>;

    /// Sets a header to a line: its name, `: `, a value that any header may have, and CR LF.
    fn set_line(&mut self, header: Header, line: &[u8]) -> Result<(), Failure>;

    /// Adds a text or a BLOB to the end of a body.
    fn append(&mut self, body: Variable, value: Value, texts: &mut Texts<'_>) -> Result<(), Failure>;

    /// Unsets a variable or a header.
    fn unset(&mut self, place: Place) -> Result<(), Failure>;

    /// Unsets headers of one message, which stand at that place in [`Program::header_lists`].
    fn unset_all(&mut self, _: u32, headers: &[Header]) -> Result<(), Failure> {
        headers.iter().try_for_each(|header| self.unset(Place::Header(*header)))
    }

    /// An ACL that a log is told of has said this.
    fn asked_acl(&mut self, _: &AclVerdict<'_>) {}

    /// Whether a regular expression matches.
    fn matches(&self, regex: RegexId, subject: &[u8]) -> Result<bool, Failure>;

    /// Whether it is known without a search that a regular expression does not match the text of a variable or a header.
    fn rules_out(&self, _: Place, _: RegexId) -> bool {
        false
    }

    /// Whether a regular expression matches the text of a variable or a header, if that lies somewhere.
    fn held_matches(&self, place: Place, regex: RegexId) -> Result<Option<bool>, Failure> {
        match self.held(place) {
            Held::Text(text) => self.matches(regex, text.unwrap_or_default()).map(Some),
            Held::Not => Ok(None),
        }
    }

    /// Replaces the first match of a regular expression in a text, or all, as [`replace`](crate::functions::replace)
    /// does. `None` if nothing matches.
    fn substitute(
        &mut self,
        regex: RegexId,
        all: bool,
        subject: Option<Text>,
        with: Option<Text>,
        texts: &mut Texts<'_>,
    ) -> Result<Option<Text>, Failure>;

    /// The name of what is known by its number.
    fn name(&mut self, kind: Named, number: u32, texts: &mut Texts<'_>) -> Result<Option<Text>, Failure>;

    /// The text of a header whose name the VCL has made up.
    fn named_header(&mut self, _: Headers, _: Option<Text>, _: &mut Texts<'_>) -> Result<Value, Failure> {
        Err(Failure::host("there are no headers by other names"))
    }

    /// What belongs to a value, but for texts.
    fn property(&mut self, property: Property, of: Value, texts: &mut Texts<'_>) -> Result<Value, Failure>;

    /// Calls a function or a method, or makes an object.
    fn call(&mut self, callee: Callee, args: &[Value], texts: &mut Texts<'_>) -> Result<Value, Failure>;

    /// Adds a text to the key.
    fn hash_data(&mut self, text: &[u8]) -> Result<(), Failure>;

    /// Adds to the key the text of a variable or a header, if it lies somewhere; false if it does not.
    fn hash_held(&mut self, _: Place) -> Result<bool, Failure> {
        Ok(false)
    }

    /// Adds a text or a BLOB to the body of the response.
    fn synthetic(&mut self, body: Value, texts: &mut Texts<'_>) -> Result<(), Failure>;

    /// Bans what an expression says.
    fn ban(&mut self, expression: &[u8]) -> Result<(), Failure>;
}

/// What a host has of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held<'a> {
    /// The text, or that it is not there.
    Text(Option<&'a [u8]>),
    /// Nothing: [`Host::get`] makes it.
    Not,
}

/// Why a run has failed. The request ends with a 503, and the log has the reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// A division by zero.
    #[error("division by zero")]
    DivisionByZero,
    /// A number became too large.
    #[error("{} overflow", .0.name())]
    Overflow(Type),
    /// A number is too large to be written.
    #[error("number overflow")]
    NoDigits,
    /// The texts of one run became too long.
    #[error(transparent)]
    Full(#[from] Full),
    /// The run took too many steps.
    #[error("a sub took more than {STEPS_MAX} steps")]
    TooLong,
    /// Subs called each other too deep.
    #[error("subs call each other more than {CALLS_MAX} deep")]
    TooDeep,
    /// A time that has no date.
    #[error("a TIME that has no date")]
    NoDate,
    /// Something that only the host knows about.
    #[error("{0}")]
    Host(Box<String>),
    /// The program is not what the checks promise. That is our mistake.
    #[error("instruction {0} does not fit its values")]
    Broken(usize),
}

impl Failure {
    /// One that only the host knows about.
    #[cold]
    pub fn host(why: impl Into<String>) -> Self {
        Failure::Host(Box::new(why.into()))
    }
}

/// A result comes back in two registers.
const _: () = assert!(size_of::<Result<bool, Failure>>() <= 16);

/// What a sub says is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What. `None` if the sub came to its end without saying so, as only a user's own may.
    pub action: Option<Action>,
    /// How many values belong to it: [`Machine::values`].
    args: u8,
}

/// How many instructions a run may carry out.
const STEPS_MAX: usize = 1_000_000;
/// How deep subs may call each other.
const CALLS_MAX: usize = 100;

/// What a run works with. It may be used again, and then allocates nothing.
#[derive(Debug, Default)]
pub struct Machine {
    stack: Vec<Value>,
    calls: Vec<At>,
    made: Vec<u8>,
    ended_at: usize,
}

impl Machine {
    /// Runs the sub that begins at `start`. The texts that it makes take `bytes_max` at most.
    pub fn run(
        &mut self,
        program: &Program,
        start: At,
        bytes_max: usize,
        host: &mut impl Host,
    ) -> Result<Verdict, Failure> {
        self.stack.clear();
        self.calls.clear();
        self.made.clear();
        let texts = Texts::new(program, &mut self.made, bytes_max);
        let mut run =
            Run { program, stack: &mut self.stack, calls: &mut self.calls, texts, host, at: 0, failure: None };
        let verdict = run.steps(start as usize);
        self.ended_at = run.at;
        verdict
    }

    /// The instruction with which the last run ended, or failed.
    pub fn ended_at(&self) -> At {
        At::try_from(self.ended_at).unwrap_or(At::MAX)
    }

    /// Lets memory go beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        self.made.clear();
        self.made.shrink_to(bytes);
    }

    /// The values that belong to a verdict of the last run, such as status and reason.
    pub fn values(&self, verdict: Verdict) -> &[Value] {
        let start = self.stack.len().saturating_sub(usize::from(verdict.args));
        &self.stack[start..]
    }

    /// The bytes of a text of the last run.
    pub fn bytes<'a>(&'a self, program: &'a Program, text: Option<Text>) -> &'a [u8] {
        value::bytes_of(text, program, &self.made)
    }
}

/// A run that is going on.
struct Run<'a, H> {
    program: &'a Program,
    stack: &'a mut Vec<Value>,
    calls: &'a mut Vec<At>,
    texts: Texts<'a>,
    host: &'a mut H,
    /// The instruction that is carried out.
    at: usize,
    /// Why the run cannot go on.
    failure: Option<Failure>,
}

impl<H: Host> Run<'_, H> {
    /// Carries out instructions until a sub says what is to be done.
    fn steps(&mut self, start: usize) -> Result<Verdict, Failure> {
        self.goes_on(start).ok_or_else(|| self.failure.take().unwrap_or(Failure::Broken(self.at)))
    }

    /// Carries out instructions: those of which most runs are made here, the others by [`Run::asks`] and [`Run::simple`].
    ///
    /// `None` for a failure, which is left behind; if there is none, an instruction does not fit. A [`Result`] in its place
    /// costs a third more.
    fn goes_on(&mut self, start: usize) -> Option<Verdict> {
        let code = &self.program.ready[..];
        let mut at = start;
        for _ in 0..STEPS_MAX {
            self.at = at;
            let Ready { op, branch } = code.get(at)?;
            let next = at + 1;
            at = match *op {
                Op::Jump(to) => to as usize,
                Op::JumpUnless(to) => {
                    if self.popped()? {
                        next
                    } else {
                        to as usize
                    }
                }
                Op::JumpIf(to) => {
                    if self.popped()? {
                        to as usize
                    } else {
                        next
                    }
                }
                Op::And(to) => self.short(false, to)?,
                Op::Or(to) => self.short(true, to)?,
                Op::Sub(to) => {
                    if self.calls.len() == CALLS_MAX {
                        return self.fails(Failure::TooDeep);
                    }
                    self.calls.push(u32::try_from(next).ok()?);
                    to as usize
                }
                Op::Back => match self.calls.pop() {
                    Some(to) => to as usize,
                    None => return Some(Verdict { action: None, args: 0 }),
                },
                Op::Return(action, args) => return Some(Verdict { action: Some(action), args }),
                Op::HasText(place) => {
                    let is_there = match self.host.held(place) {
                        Held::Text(text) => text.is_some(),
                        Held::Not => is_there(self.got(place)?),
                    };
                    self.decided(is_there, branch)
                }
                Op::Holds(variable) => {
                    let holds = is_there(self.got(Place::Variable(variable))?);
                    self.decided(holds, branch)
                }
                Op::CompareInt(variable, relation, number) => {
                    let value = self.got(Place::Variable(variable))?;
                    self.decided(arithmetic::compare(relation, value, Value::Int(number))?, branch)
                }
                Op::CompareReal(variable, relation, number) => {
                    let value = self.got(Place::Variable(variable))?;
                    self.decided(arithmetic::compare(relation, value, Value::Real(number))?, branch)
                }
                Op::TextIs { place, text, is_equal } => {
                    let text = self.program.text(text);
                    let is_same = match self.host.held(place) {
                        Held::Text(held) => held == Some(text),
                        Held::Not => match self.got(place)? {
                            Value::Text(held) => held.is_some() && self.texts.bytes(held) == text,
                            _ => return None,
                        },
                    };
                    self.decided(is_same == is_equal, branch)
                }
                Op::TextMatches(place, regex) => {
                    let matches = !self.host.rules_out(place, regex) && self.text_matches(place, regex)?;
                    self.decided(matches, branch)
                }
                Op::IsThere | Op::Compare(_) | Op::Not | Op::Matches | Op::IsInAcl | Op::AddressInAcl(..) => {
                    match self.asks(op, at) {
                        Ok(value) => self.decided(value, branch),
                        Err(failure) => return self.fails(failure),
                    }
                }
                Op::SetLine(header, line) => match self.host.set_line(header, self.program.text(line)) {
                    Ok(()) => next,
                    Err(failure) => return self.fails(failure),
                },
                _ => match self.simple(op, at) {
                    Ok(()) => next,
                    Err(failure) => return self.fails(failure),
                },
            };
        }
        self.fails(Failure::TooLong)
    }

    /// Leaves a failure behind.
    #[cold]
    fn fails<T>(&mut self, failure: Failure) -> Option<T> {
        self.failure = Some(failure);
        None
    }

    /// The value of a variable or a header.
    fn got(&mut self, place: Place) -> Option<Value> {
        match self.host.get(place, &mut self.texts) {
            Ok(value) => Some(value),
            Err(failure) => self.fails(failure),
        }
    }

    /// The BOOL on top, which is taken.
    fn popped(&mut self) -> Option<bool> {
        match self.stack.pop()? {
            Value::Bool(value) => Some(value),
            _ => None,
        }
    }

    /// Where the run goes on with the BOOL that an instruction has made.
    #[inline]
    fn decided(&mut self, value: bool, branch: &Branch) -> usize {
        match branch[usize::from(value)] {
            Some(to) => to.get() as usize,
            None => {
                self.stack.push(Value::Bool(value));
                self.at + 1
            }
        }
    }

    /// `&&` and `||`: with `decisive` on top, the rest is not evaluated.
    fn short(&mut self, decisive: bool, to: At) -> Option<usize> {
        let value = self.popped()?;
        if value == decisive {
            self.stack.push(Value::Bool(value));
            return Some(to as usize);
        }
        Some(self.at + 1)
    }

    /// The BOOL that an instruction makes.
    #[inline(never)]
    fn asks(&mut self, op: &Op, at: usize) -> Result<bool, Failure> {
        match *op {
            Op::IsThere => self.pop(at).map(is_there),
            Op::Compare(relation) => self.compare(relation, at),
            Op::Not => Ok(!self.bool(at)?),
            Op::Matches => self.matches(at),
            Op::IsInAcl => self.is_in_acl(at),
            Op::AddressInAcl(variable, acl) => {
                let address = match self.host.held_address(variable) {
                    Some(address) => address,
                    None => match self.host.get(Place::Variable(variable), &mut self.texts)? {
                        Value::Ip(address) => address.ip(),
                        _ => return Err(Failure::Broken(at)),
                    },
                };
                self.is_in(acl, address, at)
            }
            _ => Err(Failure::Broken(at)),
        }
    }

    /// An instruction that the next one follows.
    #[inline(never)]
    fn simple(&mut self, op: &Op, at: usize) -> Result<(), Failure> {
        let value = match *op {
            Op::Get(place) => {
                let value = self.host.get(place, &mut self.texts)?;
                self.stack.push(value);
                return Ok(());
            }
            Op::Text(text) => Value::Text(Some(Text::Fixed(text))),
            Op::NoText => Value::Text(None),
            Op::NoArgument => Value::Nothing,
            Op::Int(number) => Value::Int(number),
            Op::Real(number) => Value::Real(number),
            Op::Bytes(number) => Value::Bytes(number),
            Op::Bool(value) => Value::Bool(value),
            Op::Ip(number) => Value::Ip(*self.program.addresses.get(number as usize).ok_or(Failure::Broken(at))?),
            Op::Id(number) => Value::Id(number),
            Op::Blob(text) => Value::Blob(Text::Fixed(text)),
            Op::Word(place) => Value::Word(place),
            Op::Regex(regex) => Value::Regex(regex),
            Op::Header(header) => Value::Header(header),
            Op::Message(message) => Value::Message(message),
            Op::ToText => self.write(at)?,
            Op::TimeToText => self.write_time(at)?,
            Op::NameOf(kind) => match self.pop(at)? {
                Value::Id(None) => Value::Text(None),
                Value::Id(Some(number)) => Value::Text(self.host.name(kind, number, &mut self.texts)?),
                _ => return Err(Failure::Broken(at)),
            },
            Op::Join(count) => self.join(count, at)?,
            Op::IntBy(by) => self.by(by, at, arithmetic::int)?,
            Op::RealBy(by) => self.by(by, at, arithmetic::real)?,
            Op::BytesBy(by) => self.by(by, at, arithmetic::bytes)?,
            Op::Negate => match self.pop(at)? {
                Value::Int(number) => Value::Int(number.checked_neg().ok_or(Failure::Overflow(Type::Int))?),
                Value::Bytes(number) => Value::Bytes(number.checked_neg().ok_or(Failure::Overflow(Type::Bytes))?),
                Value::Real(number) => Value::Real(-number),
                _ => return Err(Failure::Broken(at)),
            },
            Op::Substitute { all } => self.substitute(all, at)?,
            Op::Property(property) => self.property(property, at)?,
            Op::Call(callee, args) => self.call(callee, args, at)?,
            Op::Unset(place) => return self.host.unset(place),
            Op::UnsetAll(number) => {
                let headers = self.program.header_lists.get(number as usize).ok_or(Failure::Broken(at))?;
                return self.host.unset_all(number, headers);
            }
            Op::Set(place) => {
                let value = self.pop(at)?;
                return self.host.set(place, value, &mut self.texts);
            }
            Op::Append(body) => {
                let value = self.pop(at)?;
                return self.host.append(body, value, &mut self.texts);
            }
            Op::Drop => return self.pop(at).map(drop),
            Op::HashData => {
                let text = self.text(at)?;
                return self.host.hash_data(self.texts.bytes(text));
            }
            Op::HashPlace(place) => {
                if self.host.hash_held(place)? {
                    return Ok(());
                }
                let Value::Text(text) = self.host.get(place, &mut self.texts)? else { return Err(Failure::Broken(at)) };
                return self.host.hash_data(self.texts.bytes(text));
            }
            Op::Synthetic => {
                let body = self.pop(at)?;
                return self.host.synthetic(body, &mut self.texts);
            }
            Op::Ban => {
                let text = self.text(at)?;
                return self.host.ban(self.texts.bytes(text));
            }
            Op::Jump(_)
            | Op::JumpUnless(_)
            | Op::JumpIf(_)
            | Op::And(_)
            | Op::Or(_)
            | Op::Sub(_)
            | Op::Back
            | Op::Return(..)
            | Op::HasText(_)
            | Op::Holds(_)
            | Op::CompareInt(..)
            | Op::CompareReal(..)
            | Op::TextIs { .. }
            | Op::TextMatches(..)
            | Op::SetLine(..)
            | Op::IsThere
            | Op::Compare(_)
            | Op::Not
            | Op::Matches
            | Op::IsInAcl
            | Op::AddressInAcl(..) => return Err(Failure::Broken(at)),
        };
        self.stack.push(value);
        Ok(())
    }

    fn pop(&mut self, at: usize) -> Result<Value, Failure> {
        self.stack.pop().ok_or(Failure::Broken(at))
    }

    fn bool(&mut self, at: usize) -> Result<bool, Failure> {
        match self.pop(at)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Failure::Broken(at)),
        }
    }

    fn text(&mut self, at: usize) -> Result<Option<Text>, Failure> {
        match self.pop(at)? {
            Value::Text(text) => Ok(text),
            _ => Err(Failure::Broken(at)),
        }
    }

    fn regex(&mut self, at: usize) -> Result<RegexId, Failure> {
        match self.pop(at)? {
            Value::Regex(regex) => Ok(regex),
            _ => Err(Failure::Broken(at)),
        }
    }

    /// A number or an address as Varnish writes it.
    fn write(&mut self, at: usize) -> Result<Value, Failure> {
        let value = self.pop(at)?;
        if let Value::Text(_) = value {
            return Ok(value);
        }
        if let Value::NamedHeader(of, name) = value {
            return self.host.named_header(of, name, &mut self.texts);
        }
        let blob = match value {
            Value::Blob(blob) => BASE64_STANDARD.encode(self.texts.bytes(Some(blob))),
            _ => String::new(),
        };
        let mut written = Ok(());
        let made = self.texts.make(|out| match value {
            Value::Int(number) => written = in_range(numbers::append_int(number, out)),
            Value::Real(number) => written = in_range(numbers::append_real(number, out)),
            Value::Bytes(number) => written = in_range(numbers::append_int(number, out)),
            Value::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            Value::Ip(address) => numbers::append(out, format_args!("{}", address.ip().to_canonical())),
            Value::Blob(_) => out.extend_from_slice(format!(":{blob}:").as_bytes()),
            Value::Text(_)
            | Value::Id(_)
            | Value::Word(_)
            | Value::Regex(_)
            | Value::Header(_)
            | Value::NamedHeader(..)
            | Value::Message(_)
            | Value::Nothing => written = Err(Failure::Broken(at)),
        });
        written?;
        Ok(Value::Text(Some(made?)))
    }

    fn write_time(&mut self, at: usize) -> Result<Value, Failure> {
        let Value::Real(seconds) = self.pop(at)? else { return Err(Failure::Broken(at)) };
        let text = dates::http(seconds).ok_or(Failure::NoDate)?;
        Ok(Value::Text(Some(self.texts.keep(text.as_bytes())?)))
    }

    fn join(&mut self, count: u32, at: usize) -> Result<Value, Failure> {
        let start = self.stack.len().checked_sub(count as usize).ok_or(Failure::Broken(at))?;
        let parts = &self.stack[start..];
        if !parts.iter().all(|part| matches!(part, Value::Text(_))) {
            return Err(Failure::Broken(at));
        }
        let texts = parts.iter().map(|part| match part {
            Value::Text(text) => *text,
            _ => None,
        });
        let joined = self.texts.join(texts);
        self.stack.truncate(start);
        Ok(Value::Text(Some(joined?)))
    }

    fn by(
        &mut self,
        by: Arithmetic,
        at: usize,
        compute: fn(Arithmetic, Value, Value) -> Option<Result<Value, Failure>>,
    ) -> Result<Value, Failure> {
        let right = self.pop(at)?;
        let left = self.pop(at)?;
        compute(by, left, right).ok_or(Failure::Broken(at))?
    }

    fn compare(&mut self, relation: Relation, at: usize) -> Result<bool, Failure> {
        let right = self.pop(at)?;
        let left = self.pop(at)?;
        Ok(match (left, right) {
            (Value::Text(left), Value::Text(right)) => self.compare_texts(relation, left, right),
            _ => arithmetic::compare(relation, left, right).ok_or(Failure::Broken(at))?,
        })
    }

    /// A text that is not there equals none, not even another such one, and counts as greater on either side, as in
    /// Varnish.
    fn compare_texts(&self, relation: Relation, left: Option<Text>, right: Option<Text>) -> bool {
        match (left, right) {
            (None, _) | (_, None) => {
                matches!(relation, Relation::NotEqual | Relation::Greater | Relation::GreaterOrEqual)
            }
            (left, right) => arithmetic::holds(relation, self.texts.bytes(left), self.texts.bytes(right)),
        }
    }

    fn matches(&mut self, at: usize) -> Result<bool, Failure> {
        let regex = self.regex(at)?;
        let subject = self.text(at)?;
        self.host.matches(regex, self.texts.bytes(subject))
    }

    /// Whether an expression matches the text of a place. One that is not there is empty.
    fn text_matches(&mut self, place: Place, regex: RegexId) -> Option<bool> {
        let matches = match self.host.held_matches(place, regex) {
            Ok(Some(matches)) => Ok(matches),
            Ok(None) => match self.got(place)? {
                Value::Text(subject) => self.host.matches(regex, self.texts.bytes(subject)),
                _ => return None,
            },
            Err(failure) => Err(failure),
        };
        match matches {
            Ok(matches) => Some(matches),
            Err(failure) => self.fails(failure),
        }
    }

    fn is_in_acl(&mut self, at: usize) -> Result<bool, Failure> {
        let (acl, address) = (self.pop(at)?, self.pop(at)?);
        let (Value::Id(Some(acl)), Value::Ip(address)) = (acl, address) else { return Err(Failure::Broken(at)) };
        self.is_in(acl, address.ip(), at)
    }

    fn is_in(&mut self, acl: u32, address: IpAddr, at: usize) -> Result<bool, Failure> {
        let acl = self.program.acls.get(acl as usize).ok_or(Failure::Broken(at))?;
        let said = acl.says_of(address);
        if let Some(verdict) = acl.verdict(said) {
            self.host.asked_acl(&verdict);
        }
        Ok(said.is_in)
    }

    fn substitute(&mut self, all: bool, at: usize) -> Result<Value, Failure> {
        let with = self.text(at)?;
        let regex = self.regex(at)?;
        let subject = self.text(at)?;
        let replaced = self.host.substitute(regex, all, subject, with, &mut self.texts)?;
        // What is not there is empty afterwards.
        let unchanged = subject.or_else(|| self.texts.join(std::iter::empty()).ok());
        Ok(Value::Text(replaced.or(unchanged)))
    }

    fn property(&mut self, property: Property, at: usize) -> Result<Value, Failure> {
        let of = self.pop(at)?;
        let Value::Text(text) = of else { return self.host.property(property, of, &mut self.texts) };
        // A text without bytes becomes one that is not there, as in Varnish.
        if self.texts.bytes(text).is_empty() && matches!(property, Property::Upper | Property::Lower) {
            return Ok(Value::Text(None));
        }
        let changed = match property {
            Property::Upper => self.texts.changed(text, <[u8]>::make_ascii_uppercase),
            Property::Lower => self.texts.changed(text, <[u8]>::make_ascii_lowercase),
            Property::Resolve | Property::FreeSpace | Property::UsedSpace | Property::Happy => {
                return Err(Failure::Broken(at));
            }
        };
        Ok(Value::Text(Some(changed?)))
    }

    fn call(&mut self, callee: Callee, args: u16, at: usize) -> Result<Value, Failure> {
        let start = self.stack.len().checked_sub(usize::from(args)).ok_or(Failure::Broken(at))?;
        let value = self.host.call(callee, &self.stack[start..], &mut self.texts)?;
        self.stack.truncate(start);
        Ok(value)
    }
}

/// What a condition makes of a value that is no BOOL.
fn is_there(value: Value) -> bool {
    match value {
        Value::Text(text) => text.is_some(),
        Value::Int(number) => number != 0,
        Value::Real(number) => number > 0.0,
        Value::Bytes(number) => number != 0,
        Value::Bool(value) => value,
        Value::Id(number) => number.is_some(),
        Value::Ip(_) | Value::Blob(_) | Value::Word(_) | Value::Regex(_) => true,
        Value::Header(_) | Value::NamedHeader(..) | Value::Message(_) => true,
        Value::Nothing => false,
    }
}

fn in_range(is_in_range: bool) -> Result<(), Failure> {
    if is_in_range { Ok(()) } else { Err(Failure::NoDigits) }
}
