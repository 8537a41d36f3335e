//! `resolver`, in every block that may have it.

use std::sync::Arc;

use super::address::check_address_of;
use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{At, Resolver};
use crate::tree::Directive;
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "resolver",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, _, d| http::set(&mut l.settings.resolving.resolver, resolver(d).map(Some))),
    ),
    directive(
        "resolver_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.resolving.timeout, d.time(0))),
    ),
];

/// What the parameters are.
const VALID: &str = "a time such as 30s or 5m";

/// Reads the name servers and their parameters.
pub fn resolver(d: &Directive) -> Outcome<Arc<Resolver>> {
    let mut resolver = Resolver { servers: Vec::new(), valid: None, ipv4: true, ipv6: true, status_zone: None };
    for word in &d.args {
        let switch =
            |value: &str| values::flag(value).ok_or_else(|| d.invalid_parameter_value(word, "\"on\" or \"off\""));
        match word.text.split_once('=') {
            Some(("valid", value)) => {
                let valid = values::time(value).ok_or_else(|| d.invalid_parameter_value(word, VALID))?;
                resolver.valid = Some(valid).filter(|valid| !valid.is_zero());
            }
            Some(("ipv4", value)) => resolver.ipv4 = switch(value)?,
            Some(("ipv6", value)) => resolver.ipv6 = switch(value)?,
            Some(("status_zone", value)) if !value.is_empty() => resolver.status_zone = Some(value.to_owned()),
            Some(_) => return Err(d.invalid_parameter(word)),
            None => {
                if word.text.starts_with("unix:") {
                    return Err(Diagnostic::error(format!("invalid host in resolver \"{}\"", word.text)).at(word.span));
                }
                check_address_of("resolver", word)?;
                resolver.servers.push(At { value: word.text.clone(), span: word.span });
            }
        }
    }
    if !resolver.ipv4 && !resolver.ipv6 {
        return Err(Diagnostic::error("\"ipv4\" and \"ipv6\" cannot both be \"off\"").at(d.span()));
    }
    if resolver.servers.is_empty() {
        return Err(Diagnostic::error("no name servers defined").at(d.span()));
    }
    Ok(Arc::new(resolver))
}
