//! Access: `allow`, `deny`, `auth_basic`, `auth_delay`, `satisfy`.

use ipnet::IpNet;

use super::{Action, DirectiveInfo, HSL, LIMIT_EXCEPT, ONE, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{AccessRule, AccessWho};
use crate::template;
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[
    repeated("allow", HSL.or(LIMIT_EXCEPT), ONE, Action::Level(|l, cx, d| rule(l, cx, d, true))),
    repeated("deny", HSL.or(LIMIT_EXCEPT), ONE, Action::Level(|l, cx, d| rule(l, cx, d, false))),
    directive(
        "auth_basic",
        HSL.or(LIMIT_EXCEPT),
        ONE,
        Action::Level(|l, _, d| {
            l.settings.access.auth_basic = match d.text(0) {
                "off" => None,
                _ => Some(d.template(0)?),
            };
            Ok(())
        }),
    ),
    directive(
        "auth_basic_user_file",
        HSL.or(LIMIT_EXCEPT),
        ONE,
        Action::Level(|l, cx, d| {
            let text = d.text(0);
            let path = match text.starts_with('$') {
                true => text.to_owned(),
                false => cx.options.conf_prefix.join(text).to_string_lossy().into_owned(),
            };
            l.settings.access.auth_basic_user_file = Some(template::parse_template(&path, d.arg(0).span)?);
            Ok(())
        }),
    ),
    directive("auth_delay", HSL, ONE, Action::Level(|l, _, d| http::set(&mut l.settings.access.auth_delay, d.time(0)))),
    directive(
        "satisfy",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            http::set(&mut l.settings.access.satisfy_any, http::choose(d, &[("all", false), ("any", true)]))
        }),
    ),
];

/// `allow` and `deny` are one list, so either of them ends what is inherited.
fn rule(level: &mut Level, cx: &mut Cx<'_>, d: &Directive, allow: bool) -> Outcome {
    let who = match d.text(0) {
        "all" => AccessWho::All,
        "unix:" => AccessWho::Unix,
        _ => AccessWho::Net(network(cx, d, d.arg(0))?),
    };
    let other = if allow { "deny" } else { "allow" };
    if level.is_first && !level.seen.has(other) {
        level.settings.access.rules.clear();
    }
    level.settings.access.rules.push(AccessRule { allow, who });
    Ok(())
}

/// An address or a block of them.
pub fn network(cx: &mut Cx<'_>, d: &Directive, word: &Word) -> Outcome<IpNet> {
    let Some(net) = parse_network(&word.text) else {
        let diagnostic = Diagnostic::error(format!("invalid parameter \"{}\"", word.text))
            .at(word.span)
            .label(format!("\"{}\" takes an address, such as 192.0.2.1 or 2001:db8::/32", d.name.text));
        return Err(diagnostic);
    };
    if net != net.trunc() {
        cx.report(Diagnostic::warning(format!("low address bits of {} are meaningless", word.text)).at(word.span));
    }
    Ok(net.trunc())
}

/// The same without a word about its low bits.
pub fn parse_network(text: &str) -> Option<IpNet> {
    if let Ok(address) = text.parse::<std::net::IpAddr>() {
        return Some(IpNet::from(address));
    }
    // A block may also be written with a mask: 10.0.0.0/255.0.0.0.
    let (address, mask) = text.split_once('/')?;
    match mask.parse::<std::net::IpAddr>() {
        Ok(mask) => IpNet::with_netmask(address.parse().ok()?, mask).ok(),
        Err(_) => text.parse::<IpNet>().ok(),
    }
}
