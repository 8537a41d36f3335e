//! `geo`: variables from the client's address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;

use super::access::{network, parse_network};
use super::{Action, Args, DirectiveInfo, HTTP, block};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::HttpParts;
use crate::model::{Geo, Template, TemplatePart};
use crate::template;
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[block("geo", HTTP, Args::Between(1, 2), Action::Http(geo))];

fn geo(http: &mut HttpParts, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let source = match d.args.as_slice() {
        [address, _] => {
            let name = template::variable_name(address)?;
            Some(Template { parts: vec![TemplatePart::Variable(name)], span: address.span })
        }
        _ => None,
    };
    let mut geo = Geo {
        span: d.span(),
        source,
        variable: template::variable_name(d.arg(d.args.len() - 1))?,
        default: String::new(),
        proxies: Vec::new(),
        proxy_recursive: false,
        nets: Vec::new(),
        volatile: false,
        ranges: Vec::new(),
    };
    let mut lines = Lines::default();
    for line in d.children() {
        if let Err(diagnostic) = lines.add(&mut geo, cx, line) {
            cx.report(diagnostic);
        }
    }
    http.geos.push(geo);
    Ok(())
}

#[derive(Default)]
struct Lines {
    /// `ranges` has been seen.
    has_ranges: bool,
    /// Where each block is in the list, which may have a hundred thousand.
    known: HashMap<IpNet, usize>,
}

impl Lines {
    fn add(&mut self, geo: &mut Geo, cx: &mut Cx<'_>, line: &Directive) -> Outcome {
        match (line.name.text.as_str(), line.args.as_slice()) {
            ("ranges", []) => match geo.nets.is_empty() {
                true => {
                    self.has_ranges = true;
                    Ok(())
                }
                false => {
                    let message = "the \"ranges\" directive must be the first directive inside \"geo\" block";
                    Err(Diagnostic::error(message).at(line.name.span))
                }
            },
            ("proxy_recursive", []) => {
                geo.proxy_recursive = true;
                Ok(())
            }
            ("volatile", []) => {
                geo.volatile = true;
                Ok(())
            }
            ("proxy", [net]) => {
                geo.proxies.push(network(cx, line, net)?);
                Ok(())
            }
            ("default", [value]) => {
                geo.default = value.text.clone();
                Ok(())
            }
            ("delete", [what]) if self.has_ranges => {
                let (first, last) = range(what)?;
                match delete_range(geo, first, last) {
                    true => {}
                    false => cx.report(
                        Diagnostic::warning(format!("no address range \"{}\" to delete", what.text)).at(what.span),
                    ),
                }
                Ok(())
            }
            ("delete", [what]) => {
                let net = block_of(cx, what)?;
                match self.known.remove(&net) {
                    Some(at) => {
                        geo.nets.remove(at);
                        self.known.values_mut().filter(|known| **known > at).for_each(|known| *known -= 1);
                    }
                    None => {
                        cx.report(Diagnostic::warning(format!("no network \"{}\" to delete", what.text)).at(what.span))
                    }
                }
                Ok(())
            }
            (_, [value]) if line.block.is_none() && self.has_ranges => {
                let (first, last) = range(&line.name)?;
                geo.ranges.push((first.into(), last.into(), value.text.clone()));
                Ok(())
            }
            (_, [value]) if line.block.is_none() => {
                let net = block_of(cx, &line.name)?;
                let known = self.known.get(&net).and_then(|at| geo.nets.get_mut(*at));
                if let Some((_, old)) = known {
                    cx.report(
                        Diagnostic::warning(format!(
                            "duplicate network \"{}\", value: \"{}\", old value: \"{old}\"",
                            line.name.text, value.text
                        ))
                        .at(line.name.span),
                    );
                    *old = value.text.clone();
                } else {
                    self.known.insert(net, geo.nets.len());
                    geo.nets.push((net, value.text.clone()));
                }
                Ok(())
            }
            _ => Err(Diagnostic::error("invalid number of the geo parameters")
                .at(line.span())
                .label("a line in a geo is \"address value;\"")),
        }
    }
}

fn block_of(cx: &mut Cx<'_>, word: &Word) -> Outcome<IpNet> {
    let Some(net) = parse_network(&word.text) else {
        return Err(Diagnostic::error(format!("invalid network \"{}\"", word.text)).at(word.span));
    };
    if net != net.trunc() {
        cx.report(Diagnostic::warning(format!("low address bits of {} are meaningless", word.text)).at(word.span));
    }
    Ok(net.trunc())
}

fn range(word: &Word) -> Outcome<(Ipv4Addr, Ipv4Addr)> {
    let parsed = word.text.split_once('-').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match parsed {
        Some((first, last)) if first <= last => Ok((first, last)),
        _ => Err(Diagnostic::error(format!("invalid range \"{}\"", word.text))
            .at(word.span)
            .label("a range is first-last, such as 192.0.2.1-192.0.2.9")),
    }
}

/// Cuts a range out of those before it. Whether there was something to cut.
fn delete_range(geo: &mut Geo, first: Ipv4Addr, last: Ipv4Addr) -> bool {
    let (from, to) = (u32::from(first), u32::from(last));
    let mut found = false;
    let mut kept = Vec::with_capacity(geo.ranges.len());
    for (start, end, value) in geo.ranges.drain(..) {
        let (IpAddr::V4(start), IpAddr::V4(end)) = (start, end) else {
            continue;
        };
        let (a, b) = (u32::from(start), u32::from(end));
        if b < from || a > to {
            kept.push((start.into(), end.into(), value));
            continue;
        }
        found = true;
        if a < from {
            kept.push((start.into(), Ipv4Addr::from(from - 1).into(), value.clone()));
        }
        if b > to {
            kept.push((Ipv4Addr::from(to + 1).into(), end.into(), value));
        }
    }
    geo.ranges = kept;
    found
}
