//! Warns of `add_header` in an inner level: it discards all those of the outer levels.

use crate::diagnostic::Diagnostic;
use crate::model::{AddHeader, Http, Location, Rewrite, Server};

pub(super) fn lint(http: &Http, server: &Server, found: &mut Vec<Diagnostic>) {
    compare(&http.settings.fields.add_headers, &server.root.settings.fields.add_headers, found);
    within(&server.root, found);
}

fn within(location: &Location, found: &mut Vec<Diagnostic>) {
    let outer = &location.settings.fields.add_headers;
    for inner in &location.locations {
        compare(outer, &inner.settings.fields.add_headers, found);
        within(inner, found);
    }
    for step in &location.script {
        if let Rewrite::If { location: Some(block), .. } = step {
            compare(outer, &block.settings.fields.add_headers, found);
        }
    }
}

/// Reports which headers of `outer` the level with `inner` discards.
fn compare(outer: &[AddHeader], inner: &[AddHeader], found: &mut Vec<Diagnostic>) {
    // A level without headers of its own inherits those around it, and so does one that merges.
    let is_own = |header: &&AddHeader| !outer.iter().any(|other| other.value.span == header.value.span);
    let Some(first) = inner.iter().find(is_own) else { return };
    let mut lost: Vec<&AddHeader> = Vec::new();
    for header in outer {
        let is_there = inner.iter().chain(lost.iter().copied()).any(|it| it.name.eq_ignore_ascii_case(&header.name));
        if !is_there {
            lost.push(header);
        }
    }
    let Some(example) = lost.first() else { return };
    let names: Vec<&str> = lost.iter().map(|header| header.name.as_str()).collect();
    let mut warning = *Diagnostic::warning(format!("\"add_header\" here drops those around it: {}", names.join(", ")))
        .at(first.value.span)
        .label("a level with an \"add_header\" of its own inherits none")
        .help("write them here again, or \"add_header_inherit merge;\"");
    warning.related.push((example.value.span, "this one is not sent".to_owned()));
    found.push(warning);
}
