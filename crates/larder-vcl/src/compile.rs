//! Makes a program of a checked policy: each sub becomes a stretch of instructions.

use std::net::IpAddr;

use larder_source::{Diagnostic, Span};

use crate::acl::{Acl, AclLine, first_contradiction, width_of};
use crate::policy::{
    self, AclEntry, Argument, Arithmetic, Assign, Backend, BackendId, Compare, Endpoint, Expr, ExprKind, Header, Hosts,
    Place, Policy, Return, Statement, StatementKind, SubId,
};
use crate::program::{At, Callee, Named, Op, Program, Relation, TextAt, ready as readied};
use crate::steps::Action;
use crate::types::Type;
use crate::vars::Variable;

/// Compiles a policy. `addresses_of` looks up the names in its ACLs and of its backends, as Varnish does when it loads a
/// VCL; a name that has no address is an error, unless its entry in an ACL is optional.
pub fn compile(policy: &Policy, addresses_of: &dyn Fn(&str) -> Vec<IpAddr>) -> Result<Program, Vec<Diagnostic>> {
    let mut compiler = Compiler { policy, program: Program::default(), calls: Vec::new() };
    for sub in &policy.subs {
        let start = compiler.here();
        compiler.program.subs.push(start);
        compiler.block(&sub.body);
        compiler.emit(Op::Back);
    }
    compiler.link();
    let mut errors = Vec::new();
    for backend in &policy.backends {
        check_host(backend, addresses_of, &mut errors);
    }
    let mut program = compiler.program;
    program.acls = policy.acls.iter().map(|acl| acl_of(acl, addresses_of, &mut errors)).collect();
    if errors.is_empty() { Ok(program) } else { Err(errors) }
}

fn check_host(backend: &Backend, addresses_of: &dyn Fn(&str) -> Vec<IpAddr>, errors: &mut Vec<Diagnostic>) {
    let Some(Endpoint::Tcp { host, .. }) = &backend.endpoint else { return };
    if host.parse::<IpAddr>().is_err() && addresses_of(host).is_empty() {
        let message = format!("the host \"{host}\" of the backend \"{}\" has no address", backend.name);
        errors.push(
            *Diagnostic::error(message)
                .at(backend.endpoint_span)
                .help("is the name right, and does this machine know it?"),
        );
    }
}

/// An ACL with its names looked up.
fn acl_of(acl: &policy::Acl, addresses_of: &dyn Fn(&str) -> Vec<IpAddr>, errors: &mut Vec<Diagnostic>) -> Acl {
    let (mut lines, mut written) = (Vec::new(), Vec::new());
    for AclEntry { negated: is_negated, hosts, written: text, span } in &acl.entries {
        let is_negated = *is_negated;
        match hosts {
            Hosts::Prefix { address, bits } => lines.push(AclLine { address: *address, bits: *bits, is_negated }),
            Hosts::Name { name, bits, optional } => {
                let addresses = addresses_of(name);
                if addresses.is_empty() && !optional {
                    let message = format!("\"{name}\" has no address");
                    let help = "write an address, or put the entry in parentheses to leave it out then";
                    errors.push(*Diagnostic::error(message).at(*span).help(help));
                }
                for address in addresses {
                    let line = AclLine { address, bits: bits.unwrap_or(width_of(address)), is_negated };
                    match fault(&line, acl.is_pedantic) {
                        None => lines.push(line),
                        Some(fault) => {
                            let message = format!("\"{name}\" is {address}, {fault}");
                            errors.push(*Diagnostic::error(message).at(*span).help("write the network by its address"));
                        }
                    }
                }
            }
        }
        written.resize(lines.len(), text.clone());
    }
    if let Some(at) = first_contradiction(&lines) {
        let message = format!("the ACL \"{}\" has {} both in it and not", acl.name, lines[at].address);
        errors.push(*Diagnostic::error(message).at(acl.span).help("a name in it has an address that stands there too"));
    }
    let found = Acl::new(&lines);
    if acl.logs { found.told(acl.name.clone(), written) } else { found }
}

/// What is wrong with the mask of a name's address.
fn fault(line: &AclLine, is_pedantic: bool) -> Option<String> {
    if line.bits > width_of(line.address) {
        return Some(format!("which has less than {} bits", line.bits));
    }
    let has_more = is_pedantic && !line.is_whole();
    has_more.then(|| format!("of which bits behind the first {} are not zero", line.bits))
}

struct Compiler<'a> {
    policy: &'a Policy,
    program: Program,
    /// Where subs are called: the instruction, and the number of the sub, which may be compiled later.
    calls: Vec<(At, usize)>,
}

/// A jump whose goal is not known yet.
struct Hole(At);

impl Compiler<'_> {
    fn here(&self) -> At {
        self.program.code.len() as At
    }

    fn emit(&mut self, op: Op) {
        self.program.code.push(op);
    }

    /// Notes where in the files what comes next stands.
    fn stands_at(&mut self, span: Span) {
        let here = self.here();
        self.program.places.push((here, span));
    }

    /// Emits a jump, whose goal [`Compiler::land`] gives.
    fn jump(&mut self, op: fn(At) -> Op) -> Hole {
        let hole = Hole(self.here());
        self.emit(op(0));
        hole
    }

    /// Makes a jump lead to what comes next.
    fn land(&mut self, hole: Hole) {
        let here = self.here();
        let op = &mut self.program.code[hole.0 as usize];
        match op {
            Op::Jump(at) | Op::JumpUnless(at) | Op::JumpIf(at) | Op::And(at) | Op::Or(at) => *at = here,
            _ => unreachable!("only jumps have holes"),
        }
    }

    fn call_sub(&mut self, sub: SubId) {
        let here = self.here();
        self.calls.push((here, sub.0));
        self.emit(Op::Sub(0));
    }

    /// Makes all calls lead to their subs, and notes where those of the steps begin.
    fn link(&mut self) {
        let Program { code, ready, subs, steps, .. } = &mut self.program;
        for (at, sub) in self.calls.drain(..) {
            code[at as usize] = Op::Sub(subs[sub]);
        }
        steps.extend(self.policy.steps.iter().map(|sub| subs[sub.0]));
        shorten(code);
        *ready = readied(code);
    }

    fn text(&mut self, bytes: &[u8]) -> TextAt {
        let texts = &mut self.program.texts;
        let text = TextAt { at: texts.len() as u32, len: bytes.len() as u32 };
        texts.extend_from_slice(bytes);
        text
    }

    /// The line of a header with this value.
    fn line(&mut self, header: Header, value: &[u8]) -> TextAt {
        let name = self.policy.headers[header.name.0 as usize].as_bytes();
        self.text(&[name, b": ", value, b"\r\n"].concat())
    }

    fn block(&mut self, statements: &[Statement]) {
        let mut rest = statements;
        while let Some(statement) = rest.first() {
            self.stands_at(statement.span);
            let unset = unset_together(rest);
            if unset.len() > 1 {
                rest = &rest[unset.len()..];
                self.emit(Op::UnsetAll(self.program.header_lists.len() as u32));
                self.program.header_lists.push(unset);
            } else {
                rest = &rest[1..];
                self.statement(&statement.kind);
            }
        }
    }

    fn statement(&mut self, statement: &StatementKind) {
        match statement {
            StatementKind::Set { place, assign, value } => self.set(*place, *assign, value),
            StatementKind::Unset(place) => self.emit(Op::Unset(*place)),
            StatementKind::If { branches, otherwise } => self.branches(branches, otherwise),
            StatementKind::Call(sub) => {
                self.call_sub(*sub);
            }
            StatementKind::Leave => self.emit(Op::Back),
            StatementKind::Return(how) => self.returns(how),
            StatementKind::Ban(expression) => {
                self.value(expression);
                self.emit(Op::Ban);
            }
            StatementKind::HashData(text) => match place_of(text) {
                Some(place) => self.emit(Op::HashPlace(place)),
                None => {
                    self.value(text);
                    self.emit(Op::HashData);
                }
            },
            StatementKind::Synthetic(body) => {
                self.value(body);
                self.emit(Op::Synthetic);
            }
            StatementKind::New { object, args } => self.call(Callee::New(*object), args, true),
            StatementKind::Do(expression) => {
                self.value(expression);
                self.emit(Op::Drop);
            }
            StatementKind::Block(statements) => self.block(statements),
        }
    }

    fn set(&mut self, place: Place, assign: Assign, value: &Expr) {
        let by = match assign {
            Assign::To => {
                if let (Place::Header(header), ExprKind::Text(bytes)) = (place, &value.kind)
                    && is_sound(bytes)
                {
                    let line = self.line(header, bytes);
                    return self.emit(Op::SetLine(header, line));
                }
                let unchanged = self.unchanged(place, value);
                self.value(value);
                self.emit(Op::Set(place));
                if let Some(unchanged) = unchanged {
                    self.land(unchanged);
                }
                return;
            }
            Assign::Add => Arithmetic::Add,
            Assign::Subtract => Arithmetic::Subtract,
            Assign::Multiply => Arithmetic::Multiply,
            Assign::Divide => Arithmetic::Divide,
        };
        let ty = match place {
            Place::Variable(variable) => variable.rule().ty,
            Place::Header(_) => Type::String,
        };
        if let (Type::Body, Place::Variable(body)) = (ty, place) {
            self.value(value);
            return self.emit(Op::Append(body));
        }
        self.emit(Op::Get(place));
        self.value(value);
        self.emit(if ty == Type::String { Op::Join(2) } else { computed(by, ty) });
        self.emit(Op::Set(place));
    }

    /// Leads past `set req.url = regsub(req.url, ...)` where nothing matches. A header would become one line, and one that
    /// is not there an empty one.
    fn unchanged(&mut self, place: Place, value: &Expr) -> Option<Hole> {
        let ExprKind::Regsub { text, regex, .. } = &value.kind else { return None };
        let ExprKind::Regex(regex) = regex.kind else { return None };
        let is_url = matches!(place, Place::Variable(Variable::ReqUrl | Variable::BereqUrl));
        if !is_url || place_of(text) != Some(place) {
            return None;
        }
        self.emit(Op::TextMatches(place, regex));
        Some(self.jump(Op::JumpUnless))
    }

    fn branches(&mut self, branches: &[(Expr, Vec<Statement>)], otherwise: &[Statement]) {
        let mut ends = Vec::new();
        for (at, (condition, block)) in branches.iter().enumerate() {
            self.stands_at(condition.span);
            let unless = match &condition.kind {
                ExprKind::Not(of) => {
                    self.value(of);
                    self.jump(Op::JumpIf)
                }
                _ => {
                    self.value(condition);
                    self.jump(Op::JumpUnless)
                }
            };
            self.block(block);
            if at + 1 < branches.len() || !otherwise.is_empty() {
                ends.push(self.jump(Op::Jump));
            }
            self.land(unless);
        }
        self.block(otherwise);
        for end in ends {
            self.land(end);
        }
    }

    fn returns(&mut self, how: &Return) {
        let (action, args) = match how {
            Return::Plain(action) => (*action, 0),
            Return::Synth(status, reason) => (Action::Synth, self.status(status, reason.as_ref())),
            Return::Error(status, reason) => (Action::Error, self.status(status, reason.as_ref())),
            Return::Pass(duration) => {
                self.value(duration);
                (Action::Pass, 1)
            }
            Return::Fail(reason) => {
                self.value(reason);
                (Action::Fail, 1)
            }
            Return::Vcl(label) => {
                self.emit(Op::Id(u32::try_from(label.0).ok()));
                (Action::Vcl, 1)
            }
        };
        self.emit(Op::Return(action, args));
    }

    /// A status and its reason, or no text; returns how many values that are.
    fn status(&mut self, status: &Expr, reason: Option<&Expr>) -> u8 {
        self.value(status);
        match reason {
            Some(reason) => self.value(reason),
            None => self.emit(Op::NoText),
        }
        2
    }

    fn value(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Bool(value) => self.emit(Op::Bool(*value)),
            ExprKind::Int(number) => self.emit(Op::Int(*number)),
            ExprKind::Real(number) | ExprKind::Duration(number) => self.emit(Op::Real(*number)),
            ExprKind::Bytes(number) => self.emit(Op::Bytes(*number)),
            ExprKind::Text(bytes) => {
                let text = self.text(bytes);
                self.emit(Op::Text(text));
            }
            ExprKind::Blob(bytes) => {
                let blob = self.text(bytes);
                self.emit(Op::Blob(blob));
            }
            ExprKind::Ip(address) => {
                let number = self.program.addresses.len() as u32;
                self.program.addresses.push(*address);
                self.emit(Op::Ip(number));
            }
            ExprKind::Regex(regex) => self.emit(Op::Regex(*regex)),
            ExprKind::Backend(backend) => self.backend(Some(*backend)),
            ExprKind::DefaultBackend => self.backend(self.policy.default_backend),
            ExprKind::Probe(probe) => self.id(Some(probe.0)),
            ExprKind::Acl(acl) => self.id(Some(acl.0)),
            ExprKind::Sub(sub) => self.id(Some(sub.0)),
            ExprKind::Storage(storage) => self.id(Some(storage.0)),
            ExprKind::Variable(message) if expr.ty == Type::Http => self.emit(Op::Message(*message)),
            ExprKind::Variable(variable) if expr.ty == Type::Bool => self.emit(Op::Holds(*variable)),
            ExprKind::Variable(variable) => self.emit(Op::Get(Place::Variable(*variable))),
            ExprKind::Header(header) => self.emit(Op::Header(*header)),
            ExprKind::Concat(parts) => self.join(parts),
            ExprKind::ToText(of) => self.as_text(of),
            ExprKind::ToBool(of) => self.as_bool(of),
            ExprKind::ToBody(of) => self.value(of),
            ExprKind::Not(of) => {
                self.value(of);
                self.emit(Op::Not);
            }
            ExprKind::And(parts) => self.short(Op::And, parts, Self::value),
            ExprKind::Or(parts) => self.short(Op::Or, parts, Self::value),
            ExprKind::Negate(of) => {
                self.value(of);
                self.emit(Op::Negate);
            }
            ExprKind::Arithmetic(by, left, right) => {
                self.value(left);
                self.value(right);
                self.emit(computed(*by, expr.ty));
            }
            ExprKind::Compare(compare, left, right) => self.compare(*compare, left, right),
            ExprKind::Match { text, regex } => {
                if let (Some(place), ExprKind::Regex(regex)) = (place_of(text), &regex.kind) {
                    return self.emit(Op::TextMatches(place, *regex));
                }
                self.value(text);
                self.value(regex);
                self.emit(Op::Matches);
            }
            ExprKind::InAcl { ip, acl } => {
                if let (ExprKind::Variable(variable), ExprKind::Acl(acl)) = (&ip.kind, &acl.kind)
                    && let Ok(acl) = u32::try_from(acl.0)
                {
                    return self.emit(Op::AddressInAcl(*variable, acl));
                }
                self.value(ip);
                self.value(acl);
                self.emit(Op::IsInAcl);
            }
            ExprKind::Regsub { all, text, regex, with } => {
                self.value(text);
                self.value(regex);
                self.value(with);
                self.emit(Op::Substitute { all: *all });
            }
            ExprKind::Property(property, of) => {
                self.value(of);
                self.emit(Op::Property(*property));
            }
            ExprKind::Call { function, args } => match args.first() {
                Some(Argument::Value(Expr { kind: ExprKind::Sub(sub), .. })) => {
                    self.timed_call(Callee::Function(*function), *sub);
                }
                Some(_) | None => self.call(Callee::Function(*function), args, false),
            },
            ExprKind::Method { object, method, args } => self.call(Callee::Method(*object, *method), args, false),
        }
    }

    /// A backend that is declared to be `none` is no backend.
    fn backend(&mut self, backend: Option<BackendId>) {
        let is_none = |backend: &BackendId| self.policy.backends[backend.0].endpoint.is_none();
        self.id(backend.filter(|backend| !is_none(backend)).map(|backend| backend.0));
    }

    fn id(&mut self, number: Option<usize>) {
        self.emit(Op::Id(number.and_then(|number| u32::try_from(number).ok())));
    }

    fn join(&mut self, parts: &[Expr]) {
        for part in parts {
            self.value(part);
        }
        self.emit(Op::Join(parts.len() as u32));
    }

    fn as_text(&mut self, of: &Expr) {
        if let ExprKind::Header(header) = &of.kind {
            return self.emit(Op::Get(Place::Header(*header)));
        }
        self.value(of);
        self.emit(match of.ty {
            Type::Time => Op::TimeToText,
            Type::Acl => Op::NameOf(Named::Acl),
            Type::Backend => Op::NameOf(Named::Backend),
            Type::Probe => Op::NameOf(Named::Probe),
            Type::Stevedore => Op::NameOf(Named::Storage),
            Type::Blob
            | Type::Body
            | Type::Bool
            | Type::Bytes
            | Type::Duration
            | Type::Enum
            | Type::Header
            | Type::Http
            | Type::Int
            | Type::Ip
            | Type::Object
            | Type::Real
            | Type::Regex
            | Type::String
            | Type::Sub
            | Type::Void => Op::ToText,
        });
    }

    /// Of several texts in a row, one that is there is enough.
    fn as_bool(&mut self, of: &Expr) {
        let is_there = |compiler: &mut Self, part: &Expr| {
            compiler.value(part);
            compiler.emit(Op::IsThere);
        };
        if let Some(place) = place_of(of) {
            return self.emit(Op::HasText(place));
        }
        match &of.kind {
            ExprKind::Variable(variable) => self.emit(Op::Holds(*variable)),
            ExprKind::Concat(parts) => self.short(Op::Or, parts, is_there),
            _ => is_there(self, of),
        }
    }

    /// `&&` or `||` of all parts.
    fn short(&mut self, op: fn(At) -> Op, parts: &[Expr], each: impl Fn(&mut Self, &Expr)) {
        let mut holes = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            if at > 0 {
                holes.push(self.jump(op));
            }
            each(self, part);
        }
        for hole in holes {
            self.land(hole);
        }
    }

    /// A text that is not there differs from an empty one only where both sides are single texts, as in Varnish.
    fn compare(&mut self, compare: Compare, left: &Expr, right: &Expr) {
        if let (Some(place), ExprKind::Text(bytes), Some(is_equal)) = (place_of(left), &right.kind, equality(compare)) {
            let text = self.text(bytes);
            return self.emit(Op::TextIs { place, text, is_equal });
        }
        let relation = relation(compare);
        if let ExprKind::Variable(variable) = left.kind {
            match right.kind {
                ExprKind::Int(number) => return self.emit(Op::CompareInt(variable, relation, number)),
                ExprKind::Real(number) | ExprKind::Duration(number) => {
                    return self.emit(Op::CompareReal(variable, relation, number));
                }
                _ => {}
            }
        }
        let is_joined = |side: &Expr| matches!(side.kind, ExprKind::Concat(_));
        let are_joined = is_joined(left) || is_joined(right);
        for side in [left, right] {
            self.value(side);
            if are_joined && !is_joined(side) {
                self.emit(Op::Join(1));
            }
        }
        self.emit(Op::Compare(relation));
    }

    /// `std.timed_call()`, the only function that takes a sub: it is called before the sub, and behind it with what it
    /// returned.
    fn timed_call(&mut self, callee: Callee, sub: SubId) {
        self.emit(Op::Call(callee, 0));
        self.call_sub(sub);
        self.emit(Op::Call(callee, 1));
    }

    fn call(&mut self, callee: Callee, args: &[Argument], drops: bool) {
        for arg in args {
            match arg {
                Argument::Value(value) => self.value(value),
                Argument::Word(place) => self.emit(Op::Word(*place as u32)),
                Argument::None => self.emit(Op::NoArgument),
            }
        }
        self.emit(Op::Call(callee, args.len() as u16));
        if drops {
            self.emit(Op::Drop);
        }
    }
}

/// The variable or header whose text an expression is, if it is nothing more.
fn place_of(expr: &Expr) -> Option<Place> {
    match &expr.kind {
        ExprKind::Variable(variable) if variable.rule().ty == Type::String => Some(Place::Variable(*variable)),
        ExprKind::ToText(of) => match &of.kind {
            ExprKind::Header(header) => Some(Place::Header(*header)),
            _ => None,
        },
        _ => None,
    }
}

/// The headers of one message that the first statements unset.
fn unset_together(statements: &[Statement]) -> Vec<Header> {
    let unset = statements.iter().map_while(|statement| match statement.kind {
        StatementKind::Unset(Place::Header(header)) => Some(header),
        _ => None,
    });
    let mut of = None;
    unset.take_while(|header| *of.get_or_insert(header.of) == header.of).collect()
}

/// Whether a text has no control characters, and no spaces around it.
fn is_sound(text: &[u8]) -> bool {
    text.trim_ascii() == text && !text.iter().any(u8::is_ascii_control)
}

fn relation(compare: Compare) -> Relation {
    match compare {
        Compare::Equal | Compare::Matches => Relation::Equal,
        Compare::NotEqual | Compare::MatchesNot => Relation::NotEqual,
        Compare::Less => Relation::Less,
        Compare::LessOrEqual => Relation::LessOrEqual,
        Compare::Greater => Relation::Greater,
        Compare::GreaterOrEqual => Relation::GreaterOrEqual,
    }
}

/// Whether it asks for equality, or for the opposite; `None` if for anything else.
fn equality(compare: Compare) -> Option<bool> {
    match compare {
        Compare::Equal => Some(true),
        Compare::NotEqual => Some(false),
        Compare::Matches
        | Compare::MatchesNot
        | Compare::Less
        | Compare::LessOrEqual
        | Compare::Greater
        | Compare::GreaterOrEqual => None,
    }
}

/// Has jumps go where the instruction that they lead to would go.
fn shorten(code: &mut [Op]) {
    // From behind, so that what a jump leads to is short already.
    for at in (0..code.len()).rev() {
        let behind = |to: At| code.get(to as usize).copied();
        let short = match code[at] {
            Op::And(to) => match behind(to) {
                Some(Op::And(further)) => Op::And(further),
                Some(Op::JumpUnless(further)) => Op::JumpUnless(further),
                Some(Op::Or(_) | Op::JumpIf(_)) => Op::JumpUnless(to + 1),
                _ => continue,
            },
            Op::Or(to) => match behind(to) {
                Some(Op::Or(further)) => Op::Or(further),
                Some(Op::JumpIf(further)) => Op::JumpIf(further),
                Some(Op::And(_) | Op::JumpUnless(_)) => Op::JumpIf(to + 1),
                _ => continue,
            },
            Op::Jump(to) => match behind(to) {
                Some(goes @ (Op::Jump(_) | Op::Back | Op::Return(..))) => goes,
                _ => continue,
            },
            // Most subs of the builtin VCL are empty, and called at the end of another one.
            Op::Sub(to) if behind(to) == Some(Op::Back) => match code.get(at + 1) {
                Some(goes @ (Op::Jump(_) | Op::Back | Op::Return(..))) => *goes,
                _ => Op::Jump(at as At + 1),
            },
            Op::JumpUnless(to) => match behind(to) {
                Some(Op::Jump(further)) => Op::JumpUnless(further),
                _ => continue,
            },
            Op::JumpIf(to) => match behind(to) {
                Some(Op::Jump(further)) => Op::JumpIf(further),
                _ => continue,
            },
            _ => continue,
        };
        code[at] = short;
    }
}

/// The instruction that computes a value of this type.
fn computed(by: Arithmetic, ty: Type) -> Op {
    match ty {
        Type::Int => Op::IntBy(by),
        Type::Bytes => Op::BytesBy(by),
        _ => Op::RealBy(by),
    }
}
