//! On how many nodes a purge is known.

use std::fmt::Write;
use std::time::Duration;

/// On how many nodes a purge is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// How many have carried it out, with this one.
    pub on: usize,
    /// How many there are, or were when that was known last; `None` if it never was.
    pub of: Option<usize>,
    /// Those that are there, and have not read so far yet, by name.
    pub behind: Vec<String>,
    /// Those that are away, and since when: who was there last is the first. They read it before they use what they have stored.
    pub away: Vec<(String, Duration)>,
    /// Why nobody knows of other nodes that have it: it is sent when that is mended.
    pub fault: Option<String>,
}

impl Known {
    /// On this one alone of so many, as the server is of no use.
    pub(crate) fn here_alone(why: String, of: Option<usize>) -> Self {
        Self { on: 1, of, fault: Some(why), ..Self::default() }
    }

    /// Whether no node is left that does not know it.
    pub fn is_everywhere(&self) -> bool {
        self.fault.is_none() && self.behind.is_empty() && self.away.is_empty()
    }

    /// Whether all that are there know it. Those that are away read it before they use what they have stored, after a start or
    /// if they are told to of a server that is away.
    pub fn is_where_nodes_are(&self) -> bool {
        self.fault.is_none() && self.behind.is_empty()
    }

    /// That in a sentence, with words of the server.
    pub fn text(&self) -> String {
        if let Some(why) = &self.fault {
            return format!("Known on this node alone: {why}. The others are told when that is mended.");
        }
        let of = self.of.unwrap_or_default();
        let nodes = if of == 1 { "node" } else { "nodes" };
        let missing = self.missing();
        let gap = if missing.is_empty() { "" } else { "; " };
        format!("Known on {} of {of} {nodes}{gap}{missing}", self.on)
    }

    /// Who does not know it, or why nobody else does; empty if all do.
    pub fn missing(&self) -> String {
        if let Some(why) = &self.fault {
            return why.clone();
        }
        let mut text = String::new();
        let mut list = |head: &str, names: &mut dyn Iterator<Item = String>, count: usize| {
            for (at, name) in names.take(NAMED_MAX).enumerate() {
                let before = match (at, text.is_empty()) {
                    (0, true) => head.to_owned(),
                    (0, false) => format!("; {head}"),
                    _ => ", ".to_owned(),
                };
                // Writing to a text does not fail.
                let _ = write!(text, "{before}{name}");
            }
            if count > NAMED_MAX {
                let _ = write!(text, " and {} more", count - NAMED_MAX);
            }
        };
        let mut away = self.away.iter().map(|(node, since)| format!("{node} since {}", span(*since)));
        list("away: ", &mut away, self.away.len());
        list("not yet: ", &mut self.behind.iter().cloned(), self.behind.len());
        text
    }
}

fn span(time: Duration) -> String {
    match time.as_secs() {
        secs @ 0..120 => format!("{secs} s"),
        secs @ 120..7200 => format!("{} min", secs / 60),
        secs => format!("{} h", secs / 3600),
    }
}

/// How many nodes an answer names of each list. There may be thousands, as anybody who writes to the server can add some.
pub const NAMED_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn away(node: &str, secs: u64) -> (String, Duration) {
        (node.to_owned(), Duration::from_secs(secs))
    }

    #[test]
    fn a_purge_says_who_knows_it() {
        for (known, text, everywhere) in [
            (Known { on: 1, of: Some(1), ..Known::default() }, "Known on 1 of 1 node", true),
            (Known { on: 5, of: Some(5), ..Known::default() }, "Known on 5 of 5 nodes", true),
            (
                Known { on: 4, of: Some(5), away: vec![away("web3", 12)], ..Known::default() },
                "Known on 4 of 5 nodes; away: web3 since 12 s",
                false,
            ),
            (
                Known {
                    on: 1,
                    of: Some(4),
                    away: vec![away("a", 120), away("b", 7300)],
                    behind: vec!["c".to_owned()],
                    fault: None,
                },
                "Known on 1 of 4 nodes; away: a since 2 min, b since 2 h; not yet: c",
                false,
            ),
            (
                Known::here_alone("redis://a:1 is full".to_owned(), Some(5)),
                "Known on this node alone: redis://a:1 is full. The others are told when that is mended.",
                false,
            ),
        ] {
            assert_eq!((known.text().as_str(), known.is_everywhere()), (text, everywhere));
            let is_where_nodes_are = !text.contains("not yet: ") && !text.contains("alone");
            assert_eq!(known.is_where_nodes_are(), is_where_nodes_are, "{text}");
        }
    }

    #[test]
    fn of_many_nodes_some_are_named() {
        let nodes = |count: usize| (0..count).map(|number| format!("n{number}")).collect::<Vec<_>>();
        let known = |count: usize| Known {
            on: 1,
            of: Some(1 + 2 * count),
            behind: nodes(count),
            away: nodes(count).iter().map(|node| away(node, 9)).collect(),
            fault: None,
        };
        let text = known(NAMED_MAX).text();
        assert!(text.ends_with(", n18, n19") && text.contains("n19 since 9 s; not yet: n0, "), "{text}");
        let text = known(5000).text();
        assert!(text.starts_with("Known on 1 of 10001 nodes; away: n0 since 9 s, "), "{text}");
        assert!(text.contains(", n19 since 9 s and 4980 more; not yet: n0, n1,"), "{text}");
        assert!(text.ends_with(", n19 and 4980 more"), "{text}");
    }
}
