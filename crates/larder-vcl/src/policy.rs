//! A VCL that was checked: what an engine needs to carry it out, with types and without names to look up.
//!
//! Everything that is referred to stands in a list of the [`Policy`], and is named by its place there.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use larder_source::Span;

pub use crate::ast::{Arithmetic, Assign, Compare, Version};
use crate::steps::{Action, Step, Steps};
use crate::types::Type;
use crate::vars::{Headers, Variable};
use crate::vmods;

/// Makes the type of a place in a list of the policy. Those that instructions have are small.
macro_rules! ids {
    ($($(#[$about:meta])* $id:ident($ty:ty);)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub struct $id(pub $ty);
    )*};
}

ids! {
    /// A place in [`Policy::backends`].
    BackendId(usize);
    /// A place in [`Policy::probes`].
    ProbeId(usize);
    /// A place in [`Policy::acls`].
    AclId(usize);
    /// A place in [`Policy::subs`].
    SubId(usize);
    /// A place in [`Policy::objects`].
    ObjectId(u32);
    /// A place in [`Policy::headers`].
    HeaderId(u32);
    /// A place in [`Policy::regexes`].
    RegexId(u32);
    /// A place in [`Policy::storages`].
    StorageId(usize);
    /// A place in [`Policy::labels`].
    LabelId(usize);
}

/// A VCL that can be carried out.
#[derive(Clone, Debug)]
pub struct Policy {
    /// What its first line says.
    pub version: Version,
    /// All backends.
    pub backends: Vec<Backend>,
    /// The one that is asked if no other is named: `default`, or the first. None if the VCL has no backend.
    pub default_backend: Option<BackendId>,
    /// All probes, with and without names.
    pub probes: Vec<Probe>,
    /// The probe of the name `default`.
    pub default_probe: Option<ProbeId>,
    /// All ACLs.
    pub acls: Vec<Acl>,
    /// All subs, with those of the builtin VCL. Calls between them are never in a circle.
    pub subs: Vec<Sub>,
    /// The sub of each step, in the order of [`STEPS`](crate::steps::STEPS).
    pub steps: Vec<SubId>,
    /// All objects, in the order of their `new`.
    pub objects: Vec<Object>,
    /// The names of headers, for each kind of message once, as they were written first there.
    pub headers: Vec<String>,
    /// All regular expressions. They were found to be valid.
    pub regexes: Vec<Regex>,
    /// The places where bodies are stored.
    pub storages: Vec<String>,
    /// The labels of the other VCLs that a request may go to: those that are named, each once.
    pub labels: Vec<String>,
    /// The modules that are imported, each once.
    pub modules: Vec<&'static str>,
}

impl Policy {
    /// The sub of a step.
    pub fn sub_of(&self, step: Step) -> &Sub {
        &self.subs[self.steps[step as usize].0]
    }

    /// The probe of a backend: its own, or the one of the name `default`.
    pub fn probe_of(&self, backend: &Backend) -> Option<&Probe> {
        // The servers of a group are judged by their answers.
        let is_group = matches!(backend.endpoint, Some(Endpoint::Upstream(_)));
        self.probes.get(backend.probe.or(self.default_probe).filter(|_| !is_group)?.0)
    }
}

/// Where requests are sent to.
#[derive(Clone, Debug, PartialEq)]
pub struct Backend {
    /// Its name.
    pub name: String,
    /// Where its name is declared.
    pub span: Span,
    /// Where it listens; `None` if it is `none`, and never healthy.
    pub endpoint: Option<Endpoint>,
    /// Where that is said.
    pub endpoint_span: Span,
    /// `Host` of requests that have none: `.host_header`, else `.host`.
    pub host_header: String,
    /// How long connecting may take, if it says so.
    pub connect_timeout: Option<Duration>,
    /// How long its answer may take to begin, if it says so.
    pub first_byte_timeout: Option<Duration>,
    /// How long its answer may pause, if it says so.
    pub between_bytes_timeout: Option<Duration>,
    /// How it is found to be healthy.
    pub probe: Option<ProbeId>,
    /// How many connections it may have.
    pub max_connections: Option<u64>,
    /// The version of the PROXY header that connections begin with.
    pub proxy_header: Option<u8>,
    /// What connections begin with.
    pub preamble: Option<Vec<u8>>,
    /// The proxy through which it is reached.
    pub via: Option<BackendId>,
    /// The name that the proxy is told for TLS; none if it is told none.
    pub authority: Option<String>,
    /// How long a request may wait for a connection, if it says so.
    pub wait_timeout: Option<Duration>,
    /// How many requests may wait for a connection, if it says so.
    pub wait_limit: Option<u64>,
}

/// Where a backend listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A name or an address, and a port. Names are for the engine to resolve, to one address of each family.
    Tcp {
        /// The name or address.
        host: String,
        /// The port.
        port: u16,
    },
    /// The path of a Unix socket, or its abstract name with `@` before it.
    Unix(String),
    /// A group of servers beside the VCL, by its name.
    Upstream(String),
}

/// How a backend is found to be healthy. What the VCL does not say has Varnish's default.
#[derive(Clone, Debug, PartialEq)]
pub struct Probe {
    /// Its name, unless it stands in a backend.
    pub name: Option<String>,
    /// Where it is declared.
    pub span: Span,
    /// What is asked.
    pub request: ProbeRequest,
    /// The status of a good answer: 200.
    pub expected_response: u16,
    /// How long an answer may take: 2 s.
    pub timeout: Duration,
    /// How often it is asked: every 5 s.
    pub interval: Duration,
    /// How many of the last answers count: 8.
    pub window: u32,
    /// How many of them have to be good: 3.
    pub threshold: u32,
    /// How many are taken to be good at first: one less than the threshold.
    pub initial: u32,
    /// Whether a backend has to close the connection: true.
    pub expect_close: bool,
}

/// What a probe asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeRequest {
    /// A `GET` of this path: `/`.
    Url(Vec<u8>),
    /// This request, with all its line breaks.
    Raw(Vec<u8>),
}

/// A list of addresses. Of the entries that match an address the one with the most bits decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acl {
    /// Its name.
    pub name: String,
    /// Where its name is declared.
    pub span: Span,
    /// Whether matches are logged.
    pub logs: bool,
    /// Whether bits behind a mask have to be zero, those of names too.
    pub is_pedantic: bool,
    /// Its entries.
    pub entries: Vec<AclEntry>,
}

/// An entry of an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AclEntry {
    /// Whether who matches is not in the ACL.
    pub negated: bool,
    /// Whom it matches.
    pub hosts: Hosts,
    /// As a log shows it: `"10.1.2.3"/16 fixed: 10.1.0.0/16`, the second half where bits behind the mask were not zero.
    pub written: String,
    /// Where its text is.
    pub span: Span,
}

/// Whom an entry of an ACL matches.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hosts {
    /// All addresses that begin with these bits; the others are zero.
    Prefix {
        /// The address.
        address: IpAddr,
        /// How many of its bits count.
        bits: u8,
    },
    /// All addresses that this name has when the VCL is loaded.
    Name {
        /// The name.
        name: String,
        /// How many bits of each address count; all, if it does not say.
        bits: Option<u8>,
        /// Whether the entry is left out if the name has no address.
        optional: bool,
    },
}

/// A sub.
#[derive(Clone, Debug, PartialEq)]
pub struct Sub {
    /// Its name.
    pub name: String,
    /// Where its name is declared first.
    pub span: Span,
    /// What it does: all its parts, in order.
    pub body: Vec<Statement>,
    /// The steps that reach it by `call`.
    pub steps: Steps,
}

/// An object of a module.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Where its name is declared.
    pub span: Span,
    /// Its type.
    pub ty: vmods::ObjectId,
}

/// A regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regex {
    /// Its text.
    pub pattern: String,
    /// Where it is.
    pub span: Span,
}

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Where it is.
    pub span: Span,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StatementKind {
    /// Sets a variable or a header.
    Set {
        /// Which.
        place: Place,
        /// How. `+=` of text, a header or a body adds to its end.
        assign: Assign,
        /// To what.
        value: Expr,
    },
    /// Unsets a variable or a header.
    Unset(Place),
    /// Carries out the first block whose condition is true, else the last.
    If {
        /// Conditions with their blocks.
        branches: Vec<(Expr, Vec<Statement>)>,
        /// The block if none is true.
        otherwise: Vec<Statement>,
    },
    /// Carries out a sub. If it returns an action, so does this one.
    Call(SubId),
    /// Goes back to where the sub was called.
    Leave,
    /// Ends the step.
    Return(Return),
    /// Adds a ban.
    Ban(Expr),
    /// Adds to the key.
    HashData(Expr),
    /// Adds to the body of the response that is made here.
    Synthetic(Expr),
    /// Makes an object.
    New {
        /// Which.
        object: ObjectId,
        /// What it is made with, in the order of the parameters.
        args: Vec<Argument>,
    },
    /// Calls a function or a method for what it does.
    Do(Expr),
    /// A block of its own.
    Block(Vec<Statement>),
}

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A variable.
    Variable(Variable),
    /// A header.
    Header(Header),
}

/// A header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The message.
    pub of: Headers,
    /// Its name.
    pub name: HeaderId,
}

/// How a step ends.
#[derive(Clone, Debug, PartialEq)]
pub enum Return {
    /// An action of which there is nothing more to say. It is none of those below that have to say more.
    Plain(Action),
    /// `synth(STATUS, REASON)`
    Synth(Expr, Option<Expr>),
    /// `error(STATUS, REASON)`
    Error(Expr, Option<Expr>),
    /// `pass(DURATION)`
    Pass(Expr),
    /// `fail(MESSAGE)`
    Fail(Expr),
    /// `vcl(LABEL)`
    Vcl(LabelId),
}

/// A value with its type.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// The type of its value.
    pub ty: Type,
    /// Where it is.
    pub span: Span,
}

/// What an expression is. How deep it nests is bounded, and so is what walks it.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A BOOL.
    Bool(bool),
    /// An INT.
    Int(i64),
    /// A REAL.
    Real(f64),
    /// A DURATION, in seconds.
    Duration(f64),
    /// A number of BYTES.
    Bytes(i64),
    /// Text. It may be of any charset.
    Text(Vec<u8>),
    /// A BLOB.
    Blob(Vec<u8>),
    /// An IP.
    Ip(SocketAddr),
    /// A REGEX.
    Regex(RegexId),
    /// A BACKEND.
    Backend(BackendId),
    /// The BACKEND that is asked if no other is named.
    DefaultBackend,
    /// A PROBE.
    Probe(ProbeId),
    /// An ACL.
    Acl(AclId),
    /// A SUB.
    Sub(SubId),
    /// A STEVEDORE.
    Storage(StorageId),
    /// The value of a variable.
    Variable(Variable),
    /// A header, as a HEADER; its text is a [`ToText`](Self::ToText) of it.
    Header(Header),
    /// The text of all parts in a row.
    Concat(Vec<Expr>),
    /// What is no text, as text.
    ToText(Box<Expr>),
    /// Whether something is not zero, or there.
    ToBool(Box<Expr>),
    /// Text or a blob, as a BODY.
    ToBody(Box<Expr>),
    /// Whether something is not so.
    Not(Box<Expr>),
    /// Whether all are true; those behind the first that is not are not looked at.
    And(Vec<Expr>),
    /// Whether one is true; those behind it are not looked at.
    Or(Vec<Expr>),
    /// A number below zero.
    Negate(Box<Expr>),
    /// Two numbers, durations or times as one.
    Arithmetic(Arithmetic, Box<Expr>, Box<Expr>),
    /// Whether two values of one type are in this relation; never a match.
    Compare(Compare, Box<Expr>, Box<Expr>),
    /// Whether a text matches a REGEX.
    Match {
        /// The text.
        text: Box<Expr>,
        /// The REGEX.
        regex: Box<Expr>,
    },
    /// Whether an address is in an ACL.
    InAcl {
        /// The address.
        ip: Box<Expr>,
        /// The ACL.
        acl: Box<Expr>,
    },
    /// `regsub` and `regsuball`.
    Regsub {
        /// Whether all matches are replaced, or the first.
        all: bool,
        /// In what.
        text: Box<Expr>,
        /// What is replaced.
        regex: Box<Expr>,
        /// With what; `\0` to `\9` are what has matched.
        with: Box<Expr>,
    },
    /// What belongs to a value.
    Property(Property, Box<Expr>),
    /// A call of a function of a module.
    Call {
        /// Which.
        function: vmods::FunctionId,
        /// The arguments, in the order of the parameters.
        args: Vec<Argument>,
    },
    /// A call of a method of an object.
    Method {
        /// The object.
        object: ObjectId,
        /// The method.
        method: vmods::MethodId,
        /// The arguments, in the order of the parameters.
        args: Vec<Argument>,
    },
}

/// What belongs to a value of any VCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// `.upper()` of text.
    Upper,
    /// `.lower()` of text.
    Lower,
    /// `.resolve()` of a backend: which one its director chooses.
    Resolve,
    /// `.free_space` of a storage.
    FreeSpace,
    /// `.used_space` of a storage.
    UsedSpace,
    /// `.happy` of a storage.
    Happy,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// A value, given or the default of its parameter.
    Value(Expr),
    /// One of the words of its parameter, by its place among them.
    Word(usize),
    /// Nothing: the parameter is optional, or its default is nothing.
    None,
}
