//! `upstream`: groups of origins.

use super::address::{check_address, literal_address};
use super::{Action, Args, BlockKind, DirectiveInfo, HTTP, NONE, ONE, UPSTREAM, block, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{At, Balance, Upstream, UpstreamServer};
use crate::tree::Directive;
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    block("upstream", HTTP, ONE, Action::Block(BlockKind::Upstream)),
    repeated("server", UPSTREAM, Args::AtLeast(1), Action::Group(server)),
    directive("least_conn", UPSTREAM, NONE, Action::Group(|u, cx, d| balance(u, cx, d, Balance::LeastConn))),
    directive(
        "least_time",
        UPSTREAM,
        Args::Between(1, 2),
        Action::Group(|u, cx, d| {
            let last_byte = http::choose(d, &[("header", false), ("last_byte", true)])?;
            let inflight = match d.args.get(1) {
                None => false,
                Some(word) if word.text == "inflight" => true,
                Some(word) => return Err(d.invalid_parameter(word)),
            };
            balance(u, cx, d, Balance::LeastTime { last_byte, inflight })
        }),
    ),
    directive("ip_hash", UPSTREAM, NONE, Action::Group(|u, cx, d| balance(u, cx, d, Balance::IpHash))),
    directive(
        "hash",
        UPSTREAM,
        Args::Between(1, 2),
        Action::Group(|u, cx, d| {
            let consistent = match d.args.get(1) {
                None => false,
                Some(word) if word.text == "consistent" => true,
                Some(word) => return Err(d.invalid_parameter(word)),
            };
            balance(u, cx, d, Balance::Hash(d.template(0)?, consistent))
        }),
    ),
    directive(
        "random",
        UPSTREAM,
        Args::Between(0, 2),
        Action::Group(|u, cx, d| {
            let two = match d.args.as_slice() {
                [] => false,
                [two] | [two, _] if two.text != "two" => return Err(d.invalid_parameter(two)),
                [_] => true,
                [_, how, ..] if how.text == "least_conn" => true,
                [_, how, ..] => return Err(d.invalid_parameter(how)),
            };
            balance(u, cx, d, Balance::Random { two })
        }),
    ),
    directive(
        "keepalive",
        UPSTREAM,
        Args::Between(1, 2),
        Action::Group(|u, _, d| {
            if let Some(word) = d.args.get(1).filter(|word| word.text != "local") {
                return Err(d.invalid_parameter(word));
            }
            u.keepalive = d.number32(0)? as usize;
            Ok(())
        }),
    ),
    directive(
        "keepalive_requests",
        UPSTREAM,
        ONE,
        Action::Group(|u, _, d| {
            u.keepalive_requests = d.number(0)?;
            Ok(())
        }),
    ),
    directive(
        "keepalive_timeout",
        UPSTREAM,
        ONE,
        Action::Group(|u, _, d| {
            u.keepalive_timeout = d.time(0)?;
            Ok(())
        }),
    ),
    directive(
        "keepalive_time",
        UPSTREAM,
        ONE,
        Action::Group(|u, _, d| {
            u.keepalive_time = d.time(0)?;
            Ok(())
        }),
    ),
    directive(
        "resolver",
        UPSTREAM,
        Args::AtLeast(1),
        Action::Group(|u, _, d| {
            u.resolver = Some(super::resolver::resolver(d)?);
            Ok(())
        }),
    ),
    directive(
        "resolver_timeout",
        UPSTREAM,
        ONE,
        Action::Group(|u, _, d| {
            u.resolver_timeout = Some(d.time(0)?);
            Ok(())
        }),
    ),
    // All workers share a group anyway.
    directive(
        "zone",
        UPSTREAM,
        Args::Between(1, 2),
        Action::Group(|_, _, d| match d.args.get(1) {
            Some(size) if values::size(&size.text).is_none() => Err(d.invalid(size, values::SIZE)),
            _ => Ok(()),
        }),
    ),
];

/// The last one wins, as in nginx, which warns too.
fn balance(upstream: &mut Upstream, cx: &mut Cx<'_>, d: &Directive, balance: Balance) -> Outcome {
    match upstream.balance {
        Balance::RoundRobin => {}
        Balance::LeastConn
        | Balance::LeastTime { .. }
        | Balance::IpHash
        | Balance::Hash(..)
        | Balance::Random { .. } => {
            cx.report(
                Diagnostic::warning("load balancing method redefined")
                    .at(d.span())
                    .label("a group has one method; this one holds"),
            );
        }
    }
    upstream.balance = balance;
    Ok(())
}

/// The parameters of a `server`.
const PARAMETERS: &[&str] =
    &["weight", "max_fails", "fail_timeout", "max_conns", "backup", "down", "resolve", "service"];

fn server(upstream: &mut Upstream, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let address = d.arg(0);
    check_address(address)?;
    let mut server = UpstreamServer {
        address: At { value: address.text.clone(), span: address.span },
        weight: 1,
        max_fails: 1,
        fail_timeout: std::time::Duration::from_secs(10),
        max_conns: 0,
        backup: false,
        down: false,
        resolve: false,
        service: None,
    };
    for word in &d.args[1..] {
        let number = |value: &str| {
            values::number(value)
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| d.invalid_parameter_value(word, values::NUMBER))
        };
        match (word.text.as_str(), word.text.split_once('=')) {
            ("backup", _) => server.backup = true,
            ("down", _) => server.down = true,
            // An address is its own, and a path is none.
            ("resolve", _) => {
                server.resolve = !address.text.starts_with("unix:") && literal_address(&address.text, 80).is_none();
            }
            (_, Some(("service", ""))) => return Err(d.invalid_parameter_value(word, "the name of a service")),
            (_, Some(("service", name))) => server.service = Some(name.to_owned()),
            (_, Some(("weight", value))) => match number(value)? {
                0 => return Err(d.invalid_parameter_value(word, "a number above zero")),
                weight => server.weight = weight,
            },
            (_, Some(("max_fails", value))) => server.max_fails = number(value)?,
            (_, Some(("max_conns", value))) => server.max_conns = number(value)?,
            (_, Some(("fail_timeout", value))) => {
                server.fail_timeout =
                    values::time(value).ok_or_else(|| d.invalid_parameter_value(word, values::TIME))?;
            }
            ("drain", _) | (_, Some(("slow_start" | "route" | "id", _))) => {
                return Err(Diagnostic::error(format!("\"{}\" is not available in this version of larder", word.text))
                    .at(word.span)
                    .label("it belongs to sticky sessions and NGINX Plus")
                    .help("remove it"));
            }
            _ => return Err(d.unknown_parameter(word, PARAMETERS)),
        }
    }
    if server.service.is_some() {
        let word = address;
        if !d.args.iter().any(|word| word.text == "resolve") {
            return Err(Diagnostic::error(format!(
                "service upstream \"{}\" requires \"resolve\" parameter",
                word.text
            ))
            .at(word.span));
        }
        if word.text.contains(':') {
            return Err(
                Diagnostic::error(format!("service upstream \"{}\" may not have port", word.text)).at(word.span)
            );
        }
        if !server.resolve {
            return Err(
                Diagnostic::error(format!("service upstream \"{}\" requires domain name", word.text)).at(word.span)
            );
        }
    }
    upstream.servers.push(server);
    Ok(())
}
