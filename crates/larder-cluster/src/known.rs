//! On how many nodes a purge is known.

use std::fmt::Write;
use std::time::Duration;

/// On how many nodes a purge is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Known {
    /// How many have carried it out, with this one.
    pub on: usize,
    /// How many there are.
    pub of: usize,
    /// Those that are there, and have not read so far yet.
    pub behind: Vec<String>,
    /// Those that are away, and since when. They read it before they use what they have stored.
    pub away: Vec<(String, Duration)>,
    /// Why it is known on this node alone: it is sent when the server is back.
    pub unsent: Option<String>,
}

impl Known {
    /// On this one alone, as the server is of no use.
    pub(crate) fn unsent(why: String) -> Self {
        Self { on: 1, of: 1, unsent: Some(why), ..Self::default() }
    }

    /// Whether no node is left that does not know it.
    pub fn is_everywhere(&self) -> bool {
        self.unsent.is_none() && self.behind.is_empty() && self.away.is_empty()
    }

    /// That in a sentence, with words of the server.
    pub fn text(&self) -> String {
        if let Some(why) = &self.unsent {
            return format!("Known on this node alone: {why}. The others are told when that is mended.");
        }
        let nodes = if self.of == 1 { "node" } else { "nodes" };
        let mut text = format!("Known on {} of {} {nodes}", self.on, self.of);
        for (at, (node, since)) in self.away.iter().enumerate() {
            let before = if at == 0 { "; away: " } else { ", " };
            // Writing to a text does not fail.
            let _ = write!(text, "{before}{node} since {}", span(*since));
        }
        if !self.behind.is_empty() {
            let _ = write!(text, "; not yet: {}", self.behind.join(", "));
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_says_who_knows_it() {
        let away = |node: &str, secs| (node.to_owned(), Duration::from_secs(secs));
        for (known, text, everywhere) in [
            (Known { on: 1, of: 1, ..Known::default() }, "Known on 1 of 1 node", true),
            (Known { on: 5, of: 5, ..Known::default() }, "Known on 5 of 5 nodes", true),
            (
                Known { on: 4, of: 5, away: vec![away("web3", 12)], ..Known::default() },
                "Known on 4 of 5 nodes; away: web3 since 12 s",
                false,
            ),
            (
                Known {
                    on: 1,
                    of: 4,
                    away: vec![away("a", 120), away("b", 7300)],
                    behind: vec!["c".to_owned()],
                    unsent: None,
                },
                "Known on 1 of 4 nodes; away: a since 2 min, b since 2 h; not yet: c",
                false,
            ),
            (
                Known::unsent("redis://a:1 is full".to_owned()),
                "Known on this node alone: redis://a:1 is full. The others are told when that is mended.",
                false,
            ),
        ] {
            assert_eq!((known.text().as_str(), known.is_everywhere()), (text, everywhere));
        }
    }
}
