//! ACLs: their flags, and their entries as prefixes.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use larder_source::{Diagnostic, Span};

use super::cx::Cx;
use crate::acl::{network, width_of};
use crate::ast;
use crate::functions::addresses::is_host_name;
use crate::policy::{Acl, AclEntry, Hosts};

/// Reads an ACL.
pub fn acl(cx: &mut Cx, declared: &ast::Acl) -> Acl {
    let mut acl = empty(&declared.name);
    for (is_on, flag) in &declared.flags {
        match flag.text.as_str() {
            "log" => acl.logs = *is_on,
            "pedantic" => acl.is_pedantic = *is_on,
            // How Varnish lays out the entries; what matches is the same.
            "fold" | "table" => {}
            _ => {
                let message = format!("an ACL has no flag \"{}\"", flag.text);
                cx.report(Diagnostic::error(message).at(flag.span).help("the flags are log, fold, pedantic and table"));
            }
        }
    }
    for entry in &declared.entries {
        if let Some(hosts) = hosts(cx, entry, acl.is_pedantic) {
            let written = written(entry, &hosts);
            acl.entries.push(AclEntry { negated: entry.negated, hosts, written, span: entry.span });
        }
    }
    report_conflicts(cx, &acl);
    acl
}

/// An entry as a log shows it.
fn written(entry: &ast::AclEntry, hosts: &Hosts) -> String {
    let text = String::from_utf8_lossy(&entry.text);
    let mask = entry.mask.map(|(bits, _)| format!("/{bits}")).unwrap_or_default();
    let fixed = match hosts {
        Hosts::Prefix { address: masked, bits } => {
            let host = text.split_once('/').map_or(&*text, |(host, _)| host);
            let is_fixed = address(host).is_some_and(|(address, _)| address != *masked);
            if is_fixed { format!(" fixed: {masked}/{bits}") } else { String::new() }
        }
        Hosts::Name { .. } => String::new(),
    };
    format!("\"{text}\"{mask}{fixed}")
}

/// An ACL that nobody is in.
pub fn empty(name: &ast::Word) -> Acl {
    Acl { name: name.text.clone(), span: name.span, logs: false, is_pedantic: true, entries: Vec::new() }
}

/// Reports addresses that are both in the ACL and not.
fn report_conflicts(cx: &mut Cx, acl: &Acl) {
    let mut seen: HashMap<&Hosts, &AclEntry> = HashMap::new();
    for entry in &acl.entries {
        let first = *seen.entry(&entry.hosts).or_insert(entry);
        if first.negated != entry.negated {
            cx.report(
                Diagnostic::error("an entry of the ACL contradicts another")
                    .at(entry.span)
                    .related(first.span, "it says the contrary"),
            );
        }
    }
}

fn hosts(cx: &mut Cx, entry: &ast::AclEntry, is_pedantic: bool) -> Option<Hosts> {
    let Ok(text) = std::str::from_utf8(&entry.text) else {
        return cx.fail(Diagnostic::error("an address is not valid UTF-8").at(entry.span));
    };
    let (host, mask) = match (text.split_once('/'), entry.mask) {
        (None, mask) => (text, mask),
        (Some((host, bits)), None) => match bits.parse() {
            Ok(bits) => (host, Some((bits, entry.span))),
            Err(_) => return cx.fail(Diagnostic::error("a mask is a number of bits").at(entry.span)),
        },
        (Some(_), Some((_, span))) => return cx.fail(Diagnostic::error("the mask is given twice").at(span)),
    };
    if let Some((address, own_bits)) = address(host) {
        let bits = match mask {
            Some((bits, span)) => width(cx, bits, address, span)?,
            None => own_bits,
        };
        return prefix(cx, address, bits, entry.span, is_pedantic);
    }
    if !is_host_name(host) {
        if entry.optional {
            // A name that no host can have has no address.
            return None;
        }
        return cx.fail(Diagnostic::error(format!("\"{host}\" is no address and no name of a host")).at(entry.span));
    }
    let bits = match mask {
        None => None,
        // Whether IPv4 has so many bits is seen when its addresses are there.
        Some((bits, span)) => Some(width(cx, bits, IpAddr::V6(Ipv6Addr::UNSPECIFIED), span)?),
    };
    Some(Hosts::Name { name: host.to_owned(), bits, optional: entry.optional })
}

/// An address, and how many of its bits are written: `192.168` is a network of 16 bits.
fn address(text: &str) -> Option<(IpAddr, u8)> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some((IpAddr::V6(address), 128));
    }
    let mut bytes = [0; 4];
    let mut count = 0;
    for part in text.split('.') {
        let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        *bytes.get_mut(count)? = part.parse().ok().filter(|_| is_number)?;
        count += 1;
    }
    Some((IpAddr::V4(Ipv4Addr::from(bytes)), 8 * u8::try_from(count).ok()?))
}

/// The bits of a mask, if an address has so many.
fn width(cx: &mut Cx, bits: i64, address: IpAddr, span: Span) -> Option<u8> {
    let bits_max = width_of(address);
    match u8::try_from(bits) {
        Ok(bits) if bits <= bits_max => Some(bits),
        _ => cx.fail(Diagnostic::error(format!("the mask has at most {bits_max} bits")).at(span)),
    }
}

/// A prefix, whose other bits are zero or become it.
fn prefix(cx: &mut Cx, address: IpAddr, bits: u8, span: Span, is_pedantic: bool) -> Option<Hosts> {
    let masked = network(address, bits);
    if masked != address && is_pedantic {
        let help = format!("write \"{masked}\"/{bits}, or acl NAME -pedantic");
        return cx.fail(Diagnostic::error("bits behind the mask are not zero").at(span).help(help));
    }
    Some(Hosts::Prefix { address: masked, bits })
}
