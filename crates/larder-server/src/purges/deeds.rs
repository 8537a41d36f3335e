//! What is done to zones, once it is known what is meant.

use std::fmt::Write;
use std::sync::Arc;

use larder_cache::{Condition, How, Object, Selection, TooLong, UriTest, Zone};
use larder_cluster::{Known, NAMED_MAX};
use larder_http::Time;
use larder_vcl::bans::BanError;
use serde_json::json;

use crate::bans::{self, Refused};
use crate::vsl::Plain;

use super::{Uri, What};

/// Pages of a zone.
#[derive(Clone)]
pub enum Meant {
    /// Selected ones are purged.
    Selected(Selection, How),
    /// Those that it covers are banned.
    Banned(Arc<dyn Condition<Object>>),
}

/// What is done to a zone.
pub struct Deed {
    /// The zone.
    pub zone: Arc<Zone>,
    /// Which pages.
    pub meant: Meant,
}

/// What came of all.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// How many pages were met in memory, and for hard purges of keys on disk.
    pub pages: usize,
    /// Whether pages may be meant as well that are on a disk alone.
    pub is_also_on_disk: bool,
    /// The bans, each once.
    pub banned: Vec<String>,
    /// On which nodes of the cluster it is known, where there is one.
    pub known: Option<Known>,
}

/// Does it: it holds everywhere when this returns. It may look at every page in memory, so call it on a thread that has no
/// requests.
pub fn carry_out(deeds: Vec<Deed>, now: Time) -> Result<Done, TooLong> {
    let mut done = Done::default();
    for Deed { zone, meant } in deeds {
        match meant {
            Meant::Selected(selection, how) => {
                let purged = zone.purge_selected(selection, how, now)?;
                done.pages += purged.pages;
                done.is_also_on_disk |= purged.is_also_on_disk;
            }
            Meant::Banned(condition) => {
                let text = condition.text().to_owned();
                if !done.banned.contains(&text) {
                    done.banned.push(text);
                }
                zone.ban(condition, now);
            }
        }
    }
    Ok(done)
}

/// The zones whose disks note one of these in their lists. Removals of keys are written later, as those of `*_cache_purge`.
pub fn noted(deeds: &[Deed]) -> Vec<Arc<Zone>> {
    let mut zones: Vec<Arc<Zone>> = Vec::new();
    for Deed { zone, meant } in deeds {
        let is_noted = !matches!(meant, Meant::Selected(Selection::Key(_), How::Hard));
        if is_noted && !zones.iter().any(|other| Arc::ptr_eq(other, zone)) {
            zones.push(Arc::clone(zone));
        }
    }
    zones
}

/// What an order means for pages whose key is not asked for; `host` is the one that it means. An error says why it cannot
/// be.
pub fn meant(what: What, how: How, host: &[u8]) -> Result<Vec<Meant>, String> {
    let of_host = |is: bool| is.then(|| Box::from(host));
    let selections = match what {
        What::Page(page) => vec![Selection::Url { host: of_host(true), uri: uri_test(Uri::Is(page))? }],
        What::Uri { of_host: is_of_host, uri } => {
            vec![Selection::Url { host: of_host(is_of_host), uri: uri_test(uri)? }]
        }
        What::Host => vec![Selection::Host(host.into())],
        What::Tags(tags) => in_parts(tags).into_iter().map(Selection::Tags).collect(),
        What::All => vec![Selection::All],
        What::Ban(words) => return Ok(vec![ban(&words)?]),
    };
    Ok(selections.into_iter().map(|selection| Meant::Selected(selection, how)).collect())
}

fn uri_test(uri: Uri) -> Result<UriTest, String> {
    let bytes = match &uri {
        Uri::Is(text) | Uri::Like(text) | Uri::Begins(text) => text.len(),
        Uri::Matches(text) => text.len(),
    };
    if bytes > URI_BYTES_MAX {
        return Err(format!("the URL has more than {URI_BYTES_MAX} bytes"));
    }
    Ok(match uri {
        Uri::Is(text) => UriTest::Is(text.into()),
        Uri::Like(text) => UriTest::Like(text.into()),
        Uri::Begins(text) => UriTest::Begins(text.into()),
        Uri::Matches(text) => UriTest::Matches(bans::pattern(&text).map_err(|refused| refused.to_string())?),
    })
}

/// How long a part of a URL may be: each byte may be noted as three.
const URI_BYTES_MAX: usize = 16 << 10;

/// Each of these pages in each of these zones.
pub fn in_zones<'z>(meant: &[Meant], zones: impl IntoIterator<Item = &'z Arc<Zone>>) -> Vec<Deed> {
    let of_zone =
        |zone: &'z Arc<Zone>| meant.iter().map(move |meant| Deed { zone: Arc::clone(zone), meant: meant.clone() });
    zones.into_iter().flat_map(of_zone).collect()
}

/// The ban of these words.
pub fn ban<W: AsRef<str>>(words: &[W]) -> Result<Meant, String> {
    bans::of_words(words).map(Meant::Banned).map_err(|refused| match refused {
        // Varnish's words are for who knows its bans.
        Refused::Words(
            BanError::Empty | BanError::NoField | BanError::NoOperator | BanError::NoOperand | BanError::NoAnd(_),
        ) => format!("{refused} Write FIELD OPERATOR VALUE with spaces, as \"obj.age > 1h\""),
        Refused::Words(_) | Refused::Regex(_) => refused.to_string(),
    })
}

/// Tags in lists that a disk can note.
pub fn in_parts(tags: Vec<Box<[u8]>>) -> Vec<Vec<Box<[u8]>>> {
    let (mut parts, mut bytes) = (vec![Vec::new()], 0);
    for tag in tags {
        if bytes + tag.len() > TAG_BYTES_MAX && bytes > 0 {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += tag.len();
        if let Some(part) = parts.last_mut() {
            part.push(tag);
        }
    }
    parts
}

/// How long the tags of one purge may be together: each byte may be noted as three.
const TAG_BYTES_MAX: usize = 16 << 10;

impl Done {
    /// How many pages it has met.
    pub fn counted(&self) -> String {
        format!("{} {}", self.pages, if self.pages == 1 { "page" } else { "pages" })
    }

    /// The same in words, for people and for plugins, which look at the status alone.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a text does not fail.
        for ban in &self.banned {
            let _ = writeln!(text, "Banned: {}", Plain(ban));
        }
        if self.banned.is_empty() || self.pages > 0 {
            let _ = writeln!(text, "Purged: {}", self.counted());
        }
        if self.is_also_on_disk {
            text.push_str("What is on disk alone is purged too, and not counted.\n");
        }
        if let Some(known) = &self.known {
            let _ = writeln!(text, "{}", Plain(&known.text()));
        }
        text
    }

    /// The same for programs, in JSON.
    pub fn json(&self) -> String {
        let banned = serde_json::Value::from(self.banned.clone());
        let cluster =
            self.known.as_ref().map(|known| format!(",\"cluster\":{}", cluster_json(known))).unwrap_or_default();
        let (pages, is_also_on_disk) = (self.pages, self.is_also_on_disk);
        format!("{{\"purged\":{pages},\"also_on_disk\":{is_also_on_disk},\"banned\":{banned}{cluster}}}\n")
    }
}

fn cluster_json(known: &Known) -> serde_json::Value {
    let away = known.away.iter().take(NAMED_MAX);
    let away = away.map(|(node, since)| json!({ "node": node, "seconds": since.as_secs() }));
    json!({
        "known": known.on,
        "nodes": known.of,
        "away": away.collect::<Vec<_>>(),
        "behind": known.behind.iter().take(NAMED_MAX).collect::<Vec<_>>(),
        "fault": known.fault,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_cache::ZoneLimits;

    use super::*;

    #[test]
    fn many_tags_are_purged_in_parts_that_a_disk_can_note() {
        let tags = |count: usize, len: usize| vec![vec![0xff; len].into_boxed_slice(); count];
        for (all, expected) in [
            (tags(1, 1), &[1][..]),
            (tags(2, TAG_BYTES_MAX / 2), &[2]),
            (tags(5, TAG_BYTES_MAX / 2), &[2, 2, 1]),
            (tags(2, TAG_BYTES_MAX + 1), &[1, 1]),
        ] {
            let parts = in_parts(all);
            assert_eq!(parts.iter().map(Vec::len).collect::<Vec<_>>(), expected);
            let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) });
            for part in parts {
                zone.purge_selected(Selection::Tags(part), How::Hard, Time(1)).expect("it can be noted");
            }
        }
    }

    #[test]
    fn a_ban_without_its_form_is_told_the_form() {
        for (text, why) in [
            ("obj.age>1h", "Expected comparison operator. Write FIELD OPERATOR VALUE with spaces, as \"obj.age > 1h\""),
            ("obj.age >1h", "Expected second operand. Write FIELD OPERATOR VALUE with spaces, as \"obj.age > 1h\""),
            ("obj.size > 1", "Unknown or unsupported field \"obj.size\""),
        ] {
            let words: Vec<&str> = text.split(' ').collect();
            assert_eq!(ban(&words).err().as_deref(), Some(why), "{text}");
        }
    }

    #[test]
    fn what_has_happened_is_told() {
        for (done, expected) in [
            (Done { pages: 3, ..Done::default() }, "Purged: 3 pages\n"),
            (Done { banned: vec!["obj.age > 1h".to_owned()], ..Done::default() }, "Banned: obj.age > 1h\n"),
            (
                Done { banned: vec!["req.url ~ \u{9b}31m".to_owned()], ..Done::default() },
                "Banned: req.url ~ \\u{9b}31m\n",
            ),
            (
                Done { pages: 1, is_also_on_disk: true, banned: vec!["a".to_owned()], known: None },
                "Banned: a\nPurged: 1 page\nWhat is on disk alone is purged too, and not counted.\n",
            ),
        ] {
            assert_eq!(done.text(), expected);
        }
    }

    #[test]
    fn on_which_nodes_it_is_known_is_told() {
        let away = vec![("web3".to_owned(), Duration::from_secs(12))];
        let known = Known { on: 4, of: Some(5), away, ..Known::default() };
        let done = Done { pages: 1, known: Some(known), ..Done::default() };
        assert_eq!(done.text(), "Purged: 1 page\nKnown on 4 of 5 nodes; away: web3 since 12 s\n");
        let expected = "{\"purged\":1,\"also_on_disk\":false,\"banned\":[],\"cluster\":{\"away\":[{\"node\":\"web3\",\
                        \"seconds\":12}],\"behind\":[],\"fault\":null,\"known\":4,\"nodes\":5}}\n";
        assert_eq!(done.json(), expected);
        let fault = Some("redis://a:1 is full (\u{9b}31m)".to_owned());
        let done = Done { known: Some(Known { on: 1, fault, ..Known::default() }), ..done };
        assert!(done.text().contains("is full (\\u{9b}31m)"), "{}", done.text());
        assert!(
            done.json().contains("\"fault\":\"redis://a:1 is full (\u{9b}31m)\",\"known\":1,\"nodes\":null}"),
            "{}",
            done.json()
        );
        let many = (0..5000).map(|number| format!("n{number}")).collect();
        let done = Done { known: Some(Known { on: 1, of: Some(5001), behind: many, ..Known::default() }), ..done };
        assert!(done.json().contains("\"n19\"],\"fault\":null,\"known\":1,\"nodes\":5001}"), "{}", done.json());
    }

    #[test]
    fn programs_are_told_in_json() {
        let done = Done { pages: 2, is_also_on_disk: true, banned: vec!["obj.http.a ~ \"b\"".to_owned()], known: None };
        let expected = "{\"purged\":2,\"also_on_disk\":true,\"banned\":[\"obj.http.a ~ \\\"b\\\"\"]}\n";
        assert_eq!(done.json(), expected);
        assert_eq!(Done::default().json(), "{\"purged\":0,\"also_on_disk\":false,\"banned\":[]}\n");
    }

    #[test]
    fn disks_note_all_but_hard_purges_of_keys() {
        let limits = ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) };
        let zones = [Zone::new("a", limits), Zone::new("b", limits)];
        let deed = |zone: usize, meant| Deed { zone: Arc::clone(&zones[zone]), meant };
        let key = || Selection::Key((*b"k").into());
        let names = |deeds: &[Deed]| noted(deeds).iter().map(|zone| zone.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&[deed(0, Meant::Selected(key(), How::Hard))]), [""; 0]);
        let deeds = [
            deed(0, Meant::Selected(key(), How::Soft)),
            deed(1, ban(&["obj.age", ">", "1h"]).unwrap_or_else(|why| panic!("{why}"))),
            deed(0, Meant::Selected(Selection::All, How::Hard)),
        ];
        assert_eq!(names(&deeds), ["a", "b"]);
    }
}
