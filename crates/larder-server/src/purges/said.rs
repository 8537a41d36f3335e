//! What is purged, in words for a log.

use std::fmt::{self, Display};

use larder_cache::How;

use super::deeds::Done;
use super::{Order, Uri, What};
use crate::vsl::Shown;

/// These orders in words, escaped and shortened.
pub fn of_orders(orders: &[Order]) -> String {
    shortened(orders.iter().map(Words))
}

/// These words one after the other, escaped and shortened.
pub fn shortened(words: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&word.to_string());
        if text.len() > SAID_BYTES_MAX {
            // Escapes are ASCII.
            text.truncate(text.floor_char_boundary(SAID_BYTES_MAX));
            text.push_str("...");
            break;
        }
    }
    text
}

/// How long the words of a line may be.
const SAID_BYTES_MAX: usize = 300;

/// The line of the log about what has been done.
pub fn line(said: &str, done: &Done) -> String {
    line_by("", said, done)
}

/// The same of what was done by an answer of an origin.
pub fn line_by_origin(said: &str, done: &Done) -> String {
    line_by(" by the origin", said, done)
}

fn line_by(by: &str, said: &str, done: &Done) -> String {
    match done.banned.is_empty() {
        true => format!("purged{by}: {said}: {}", done.counted()),
        false => format!("banned{by}: {said}"),
    }
}

/// The line about what another node of the cluster has purged or banned, by the words that are shared. Everything but the zone
/// may have been written by anybody who can write to the server.
pub fn line_by_node(zone: &str, words: &str, node: Option<&str>) -> String {
    let by = node.map_or_else(
        || "another node".to_owned(),
        |node| format!("the node {}", Shown(node.as_bytes()).cut(NODE_BYTES_MAX)),
    );
    let start = words.get(..words.floor_char_boundary(SAID_BYTES_MAX)).unwrap_or_default();
    let (deed, what) = of_shared(start);
    let mut said = shortened([Shown(what.as_bytes())]);
    if start.len() < words.len() && !said.ends_with("...") {
        said.push_str("...");
    }
    format!("{deed} by {by}, zone {zone}: {said}")
}

/// What words that are shared mean, and whether that is a purge or a ban.
fn of_shared(words: &str) -> (&'static str, String) {
    let Some((how, what)) = words.strip_prefix("purge ").and_then(|words| words.split_once(' ')) else {
        return ("banned", words.to_owned());
    };
    let (kind, operands) = what.split_once(' ').unwrap_or((what, ""));
    let operands: Vec<&str> = operands.split(' ').collect();
    let text = match (kind, &operands[..]) {
        ("host", [host]) => format!("the host {host}"),
        ("prefix", [start]) => format!("keys that begin with {start}"),
        // First the fields that have them.
        ("tag", [_, tags @ ..]) => format!("tags {}", tags.join(" ")),
        ("url", [host, relation, uri]) => {
            let host = if *host == "*" { "any host".to_owned() } else { format!("the host {host}") };
            let urls = match *relation {
                "is" => "URL",
                "begins" => "URLs that begin with",
                "like" => "URLs like",
                _ => "URLs ~",
            };
            format!("on {host} {urls} {uri}")
        }
        // "all" and keys, and what cannot be read.
        _ => what.to_owned(),
    };
    ("purged", if how == "soft" { format!("{text}, softly") } else { text })
}

/// How long the name of a node may be in a line: larder's own are shorter.
const NODE_BYTES_MAX: usize = 100;

struct Words<'a>(&'a Order);

impl Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Page(page) => write!(f, "page {}", Shown(page))?,
            What::Uri { of_host, uri } => {
                f.write_str(if *of_host { "" } else { "on any host " })?;
                match uri {
                    Uri::Is(uri) => write!(f, "URL {}", Shown(uri))?,
                    Uri::Like(uri) => write!(f, "URLs like {}", Shown(uri))?,
                    Uri::Begins(uri) => write!(f, "URLs that begin with {}", Shown(uri))?,
                    Uri::Matches(regex) => write!(f, "URLs ~ {}", Shown(regex.as_bytes()))?,
                }
            }
            What::Host => f.write_str("the host")?,
            What::Tags(tags) => {
                f.write_str("tags")?;
                tags.iter().try_for_each(|tag| write!(f, " {}", Shown(tag)))?;
            }
            What::Ban(words) => write!(f, "{}", Shown(words.join(" ").as_bytes()))?,
            What::All => f.write_str("all")?,
        }
        if self.0.how == How::Soft { f.write_str(", softly") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_what_was_meant() {
        let order = |what| Order { what, how: How::Hard };
        let tags = |tags: &[&[u8]]| What::Tags(tags.iter().map(|tag| Box::from(*tag)).collect());
        for (orders, expected) in [
            (vec![order(What::Page(b"/a".to_vec()))], "page /a".to_owned()),
            (
                vec![order(What::Uri { of_host: false, uri: Uri::Matches("^/\u{e9}\n".to_owned()) })],
                r"on any host URLs ~ ^/\xc3\xa9\n".to_owned(),
            ),
            (
                vec![order(tags(&[b"a", b"b\x1b"])), Order { what: tags(&[b"c"]), how: How::Soft }],
                r"tags a b\x1b, tags c, softly".to_owned(),
            ),
            (vec![order(What::Ban(vec!["obj.age".into(), ">".into(), "1h".into()]))], "obj.age > 1h".to_owned()),
            (vec![order(tags(&[&[b'x'; 1000]]))], format!("tags {}...", "x".repeat(SAID_BYTES_MAX - 5))),
        ] {
            assert_eq!(of_orders(&orders), expected);
        }
        for (words, node, expected) in [
            ("purge hard all", Some("web1"), "purged by the node web1, zone pages: all"),
            ("purge hard key a%20b", None, "purged by another node, zone pages: key a%20b"),
            ("purge soft tag xkey,Tags news a", Some("b"), "purged by the node b, zone pages: tags news a, softly"),
            ("purge hard prefix a", Some("b"), "purged by the node b, zone pages: keys that begin with a"),
            ("purge hard host a.b", Some("b"), "purged by the node b, zone pages: the host a.b"),
            ("purge hard url * ~ ^/a", Some("b"), "purged by the node b, zone pages: on any host URLs ~ ^/a"),
            ("purge hard url a.b is /a", Some("b"), "purged by the node b, zone pages: on the host a.b URL /a"),
            ("purge hard url a.b", Some("b"), "purged by the node b, zone pages: url a.b"),
            ("purge", Some("b"), "banned by the node b, zone pages: purge"),
            (
                "obj.age > 1h\n[alert] \u{9b}31m",
                Some("a\r\n\u{1b}c"),
                r"banned by the node a\r\n\x1bc, zone pages: obj.age > 1h\n[alert] \xc2\x9b31m",
            ),
        ] {
            assert_eq!(line_by_node("pages", words, node), expected);
        }
        let long = "\u{e9}".repeat(100_000);
        let cut = line_by_node("pages", &long, Some(&long));
        assert!(cut.len() < 900 && cut.ends_with("..."), "{cut}");
        let tags = line_by_node("pages", &format!("purge hard tag x {}", "a ".repeat(1000)), None);
        assert!(tags.starts_with("purged by another node, zone pages: tags a a ") && tags.ends_with(" a..."), "{tags}");
        let done = Done { pages: 1, ..Done::default() };
        assert_eq!(line("page /a", &done), "purged: page /a: 1 page");
        assert_eq!(line("a", &Done { banned: vec!["a".to_owned()], ..done }), "banned: a");
    }
}
