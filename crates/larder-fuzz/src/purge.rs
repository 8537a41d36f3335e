//! What is to be purged, in the words of plugins, operators and origins.

use larder_http::Fields;
use larder_server::purges::dialects::{Asked, is_purge_method, orders};
use larder_server::purges::wanted::Wanted;
use larder_server::purges::{What, by_origin};

/// `METHOD TARGET`, then fields in lines: a purge means something, its tags are tags, and all means that it said so.
pub fn purge(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (method, target) = first.split_at(first.iter().position(|byte| *byte == b' ').unwrap_or(first.len()));
    let mut fields = Fields::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if !name.is_empty() && name.len() < 1000 {
            fields.push(name, value);
        }
    }
    let own = [Box::from("X-Tags")];
    let target = target.trim_ascii();
    if let Some(found) = orders(Asked { method, target, fields: &fields, tag_fields: &own }) {
        assert!(is_purge_method(method) || method == b"GET" && target.starts_with(b"/purge/"));
        let found = found.unwrap_or_default();
        let says = |words: &[&[u8]]| words.iter().any(|word| data.windows(word.len()).any(|bytes| bytes == *word));
        for order in &found {
            match &order.what {
                What::Tags(tags) => {
                    let is_tag = |tag: &[u8]| !tag.is_empty() && !tag.iter().any(|byte| b" \t".contains(byte));
                    assert!(!tags.is_empty() && tags.iter().all(|tag| is_tag(tag)), "{tags:?}");
                }
                What::All => {
                    let is_plain_ban = method == b"BAN" && matches!(target, b"/" | b"*");
                    assert!(
                        is_plain_ban || says(&[b"All", b"ALL", b"all", b"aLL", b"flush", b".*"]) || said_all(&fields)
                    );
                }
                What::Page(_) | What::Uri { .. } | What::Host | What::Ban(_) => {}
            }
        }
    }
    drop(by_origin::orders(&fields));
    if let Ok(text) = str::from_utf8(data)
        && let Ok(wanted) = Wanted::parse(text)
    {
        assert!(text.trim_end_matches('\n').ends_with("\nend"));
        drop(wanted.planned(&[]));
    }
}

fn said_all(fields: &Fields) -> bool {
    fields.get("X-Purge-Method").is_some_and(|value| value.eq_ignore_ascii_case(b"all"))
        || fields.contains("Varnish-Ban-All")
}
