//! A policy as text: one line a statement, and each value with what was made of it.

use std::fmt::Write as _;

use larder_vcl::policy::{
    Acl, Argument, Assign, Backend, Endpoint, Expr, ExprKind, Header, Hosts, Place, Policy, Probe, ProbeRequest,
    Property, Return, Statement, StatementKind,
};
use larder_vcl::steps::STEPS;

/// What the VCL itself declares. Subs that the builtin VCL adds to are cut before its first statement.
pub fn dump(policy: &Policy) -> String {
    let mut out = String::new();
    for backend in &policy.backends {
        self::backend(policy, backend, &mut out);
    }
    for probe in policy.probes.iter() {
        self::probe(probe, &mut out);
    }
    for acl in &policy.acls {
        self::acl(acl, &mut out);
    }
    for sub in policy.subs.iter().filter(|sub| is_included(policy, sub.span.file)) {
        let steps: Vec<_> =
            STEPS.iter().filter(|(step, ..)| sub.steps.contains(*step)).map(|(_, name, _)| &name[4..]).collect();
        let _ = writeln!(out, "sub {} [{}]", sub.name, steps.join(" "));
        let own = sub.body.iter().filter(|statement| is_included(policy, statement.span.file));
        for statement in own {
            self::statement(policy, statement, 1, &mut out);
        }
    }
    if out.is_empty() { "ok\n".to_owned() } else { out }
}

/// Whether a file is not the builtin VCL, which is the last.
fn is_included(policy: &Policy, file: u32) -> bool {
    let builtin = policy.subs.iter().map(|sub| sub.span.file).filter(|file| *file != u32::MAX).max();
    Some(file) != builtin
}

fn backend(policy: &Policy, backend: &Backend, out: &mut String) {
    let _ = write!(out, "backend {}", backend.name);
    match &backend.endpoint {
        None => out.push_str(" none"),
        Some(Endpoint::Tcp { host, port }) => {
            let _ = write!(out, " tcp {host} {port}");
        }
        Some(Endpoint::Upstream(name)) => {
            let _ = write!(out, " upstream {name}");
        }
        Some(Endpoint::Unix(path)) => {
            let _ = write!(out, " unix {path}");
        }
    }
    let _ = write!(out, " host={}", backend.host_header);
    let times = [
        ("connect", backend.connect_timeout),
        ("first_byte", backend.first_byte_timeout),
        ("between_bytes", backend.between_bytes_timeout),
        ("wait", backend.wait_timeout),
    ];
    for (name, time) in times.iter().filter_map(|(name, time)| Some((name, time.as_ref()?))) {
        let _ = write!(out, " {name}={time:?}");
    }
    let counts = [
        ("connections", backend.max_connections),
        ("waiting", backend.wait_limit),
        ("proxy", backend.proxy_header.map(u64::from)),
        ("preamble", backend.preamble.as_ref().map(|preamble| preamble.len() as u64)),
        ("probe", backend.probe.map(|probe| probe.0 as u64)),
    ];
    for (name, count) in counts.iter().filter_map(|(name, count)| Some((name, count.as_ref()?))) {
        let _ = write!(out, " {name}={count}");
    }
    if let Some(via) = backend.via {
        let _ = write!(out, " via={} as {:?}", policy.backends[via.0].name, backend.authority);
    }
    out.push('\n');
}

fn probe(probe: &Probe, out: &mut String) {
    let request = match &probe.request {
        ProbeRequest::Url(url) => format!("GET {}", url.escape_ascii()),
        ProbeRequest::Raw(request) => format!("raw {}", request.escape_ascii()),
    };
    let _ = writeln!(
        out,
        "probe {} {request} {} timeout={:?} interval={:?} {} of {} from {} close={}",
        probe.name.as_deref().unwrap_or("-"),
        probe.expected_response,
        probe.timeout,
        probe.interval,
        probe.threshold,
        probe.window,
        probe.initial,
        probe.expect_close
    );
}

fn acl(acl: &Acl, out: &mut String) {
    let _ = writeln!(out, "acl {}{}", acl.name, if acl.logs { " +log" } else { "" });
    for entry in &acl.entries {
        let not = if entry.negated { "!" } else { "" };
        let _ = match &entry.hosts {
            Hosts::Prefix { address, bits } => writeln!(out, "  {not}{address}/{bits}"),
            Hosts::Name { name, bits, optional } => writeln!(out, "  {not}{name} {bits:?} optional={optional}"),
        };
    }
}

fn block(policy: &Policy, all: &[Statement], depth: usize, out: &mut String) {
    for statement in all {
        self::statement(policy, statement, depth, out);
    }
}

fn statement(policy: &Policy, statement: &Statement, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    let value = |value: &Expr| expr(policy, value);
    let line = match &statement.kind {
        StatementKind::Set { place, assign, value } => {
            let operator = match assign {
                Assign::To => "=",
                Assign::Add => "+=",
                Assign::Subtract => "-=",
                Assign::Multiply => "*=",
                Assign::Divide => "/=",
            };
            format!("set {} {operator} {}", self::place(policy, place), expr(policy, value))
        }
        StatementKind::Unset(place) => format!("unset {}", self::place(policy, place)),
        StatementKind::If { branches, otherwise } => {
            for (condition, body) in branches {
                let _ = writeln!(out, "{indent}if {}", value(condition));
                block(policy, body, depth + 1, out);
            }
            if !otherwise.is_empty() {
                let _ = writeln!(out, "{indent}else");
                block(policy, otherwise, depth + 1, out);
            }
            return;
        }
        StatementKind::Block(inner) => {
            let _ = writeln!(out, "{indent}block");
            return block(policy, inner, depth + 1, out);
        }
        StatementKind::Call(sub) => format!("call {}", policy.subs[sub.0].name),
        StatementKind::Leave => "leave".to_owned(),
        StatementKind::Return(found) => format!("return {}", self::give_back(policy, found)),
        StatementKind::Ban(text) => format!("ban {}", value(text)),
        StatementKind::HashData(text) => format!("hash_data {}", value(text)),
        StatementKind::Synthetic(text) => format!("synthetic {}", value(text)),
        StatementKind::New { object, args } => {
            let object = &policy.objects[object.0 as usize];
            let ty = format!("{}.{}", object.ty.module(), object.ty.object().name);
            format!("new {} = {ty}{}", object.name, arguments(policy, args))
        }
        StatementKind::Do(call) => format!("do {}", value(call)),
    };
    let _ = writeln!(out, "{indent}{line}");
}

fn give_back(policy: &Policy, found: &Return) -> String {
    let with_reason = |name: &str, status: &Expr, reason: &Option<Expr>| {
        let reason = reason.as_ref().map(|reason| format!(", {}", expr(policy, reason))).unwrap_or_default();
        format!("{name}({}{reason})", expr(policy, status))
    };
    match found {
        Return::Plain(action) => action.name().to_owned(),
        Return::Synth(status, reason) => with_reason("synth", status, reason),
        Return::Error(status, reason) => with_reason("error", status, reason),
        Return::Pass(ttl) => format!("pass({})", expr(policy, ttl)),
        Return::Fail(message) => format!("fail({})", expr(policy, message)),
        Return::Vcl(label) => format!("vcl({})", policy.labels[label.0]),
    }
}

fn place(policy: &Policy, place: &Place) -> String {
    match place {
        Place::Variable(variable) => variable.rule().name.to_owned(),
        Place::Header(header) => self::header(policy, header),
    }
}

fn header(policy: &Policy, header: &Header) -> String {
    format!("{}.{}", header.of.rule().name, policy.headers[header.name.0 as usize])
}

fn arguments(policy: &Policy, args: &[Argument]) -> String {
    let args: Vec<_> = args
        .iter()
        .map(|arg| match arg {
            Argument::Value(value) => expr(policy, value),
            Argument::Word(at) => format!("#{at}"),
            Argument::None => "-".to_owned(),
        })
        .collect();
    format!("({})", args.join(", "))
}

fn expr(policy: &Policy, found: &Expr) -> String {
    let one = |inner: &Expr| expr(policy, inner);
    let list = |parts: &[Expr], between: &str| parts.iter().map(one).collect::<Vec<_>>().join(between);
    match &found.kind {
        ExprKind::Bool(value) => value.to_string(),
        ExprKind::Int(value) => value.to_string(),
        ExprKind::Real(value) => format!("{value:?}"),
        ExprKind::Duration(value) => format!("{value}s"),
        ExprKind::Bytes(value) => format!("{value}B"),
        ExprKind::Text(text) => format!("\"{}\"", text.escape_ascii()),
        ExprKind::Blob(bytes) => format!(":{}:", bytes.escape_ascii()),
        ExprKind::Ip(address) => address.to_string(),
        ExprKind::Regex(regex) => format!("/{}/", policy.regexes[regex.0 as usize].pattern),
        ExprKind::Backend(backend) => policy.backends[backend.0].name.clone(),
        ExprKind::DefaultBackend => "<default>".to_owned(),
        ExprKind::Probe(probe) => format!("probe {}", probe.0),
        ExprKind::Acl(acl) => policy.acls[acl.0].name.clone(),
        ExprKind::Sub(sub) => policy.subs[sub.0].name.clone(),
        ExprKind::Storage(storage) => format!("storage {}", policy.storages[storage.0]),
        ExprKind::Variable(variable) => variable.rule().name.to_owned(),
        ExprKind::Header(header) => self::header(policy, header),
        ExprKind::Concat(parts) => format!("concat({})", list(parts, ", ")),
        ExprKind::ToText(inner) => format!("text({})", one(inner)),
        ExprKind::ToBool(inner) => format!("bool({})", one(inner)),
        ExprKind::ToBody(inner) => format!("body({})", one(inner)),
        ExprKind::Not(inner) => format!("!({})", one(inner)),
        ExprKind::And(parts) => format!("({})", list(parts, " && ")),
        ExprKind::Or(parts) => format!("({})", list(parts, " || ")),
        ExprKind::Negate(inner) => format!("-({})", one(inner)),
        ExprKind::Arithmetic(operator, left, right) => {
            format!("({} {} {}):{}", one(left), operator.symbol(), one(right), found.ty.name())
        }
        ExprKind::Compare(operator, left, right) => format!("({} {} {})", one(left), operator.symbol(), one(right)),
        ExprKind::Match { text, regex } => format!("({} ~ {})", one(text), one(regex)),
        ExprKind::InAcl { ip, acl } => format!("({} in {})", one(ip), one(acl)),
        ExprKind::Regsub { all, text, regex, with } => {
            let name = if *all { "regsuball" } else { "regsub" };
            format!("{name}({}, {}, {})", one(text), one(regex), one(with))
        }
        ExprKind::Property(property, of) => format!("{}.{}", one(of), self::property(*property)),
        ExprKind::Call { function, args } => {
            format!("{}.{}{}", function.module(), function.function().name, arguments(policy, args))
        }
        ExprKind::Method { object, method, args } => {
            format!("{}.{}{}", policy.objects[object.0 as usize].name, method.method().name, arguments(policy, args))
        }
    }
}

fn property(property: Property) -> &'static str {
    match property {
        Property::Upper => "upper",
        Property::Lower => "lower",
        Property::Resolve => "resolve",
        Property::FreeSpace => "free_space",
        Property::UsedSpace => "used_space",
        Property::Happy => "happy",
    }
}
