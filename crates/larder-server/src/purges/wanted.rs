//! What an operator wants purged, of all zones or of some: `larder purge`. It is sent in lines:
//!
//! ```text
//! soft
//! everywhere
//! zone pages
//! url http://a.example/page
//! tag news
//! end
//! ```
//! The last line says that it is whole: half a line would mean other pages.

use std::sync::Arc;

use larder_cache::{How, Selection, UriTest, Zone};

use super::TAGS_MAX;
use super::deeds::{self, Deed, Meant};
use super::said;
use crate::bans;
use crate::profile::Profile;
use crate::typed_url::{Escapes, TypedUrl};
use crate::vsl::Shown;

/// Which pages, and how they go.
#[derive(Debug, PartialEq, Eq)]
pub struct Wanted {
    how: How,
    /// Whether it is to be said if a node of the cluster does not know it.
    is_to_be_everywhere: bool,
    /// The names of the zones; none for all.
    zones: Vec<String>,
    parts: Vec<Part>,
}

/// Where pages are, and what their keys may be without.
#[derive(Clone)]
pub struct Pages {
    /// All cache zones.
    pub zones: Vec<Arc<Zone>>,
    /// The profiles of all locations, which leave arguments out.
    pub profiles: Vec<Arc<Profile>>,
}

/// Some of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The page of a URL, or of a path on every host; all that are like that if it ends with `*`.
    Url(String),
    /// The page of a URL, whatever it ends with.
    Page(String),
    /// Those whose URLs begin so.
    Prefix(String),
    /// Those in whose path and query a regular expression is found.
    Match(String),
    /// Those of a host.
    Host(String),
    /// Those with one of these tags.
    Tag(String),
    /// Those that a ban covers.
    Ban(String),
    /// All.
    All,
}

impl Part {
    /// What kind it is, in words for a log, and the text that says which pages.
    fn said(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Url(text) => ("URL", Some(text)),
            Self::Page(text) => ("page", Some(text)),
            Self::Prefix(text) => ("prefix", Some(text)),
            Self::Match(text) => ("URLs ~", Some(text)),
            Self::Host(text) => ("host", Some(text)),
            Self::Tag(text) => ("tags", Some(text)),
            Self::Ban(text) => ("ban", Some(text)),
            Self::All => ("all", None),
        }
    }
}

impl Wanted {
    /// These parts, of all zones or of the one that is named. An error says why they mean no pages.
    pub fn of(how: How, zone: Option<String>, parts: Vec<Part>) -> Result<Self, String> {
        if parts.is_empty() {
            return Err(NOTHING.to_owned());
        }
        let tags_in = |part: &Part| match part {
            Part::Tag(tag) => larder_cache::split_tags(tag.as_bytes()).count().max(1),
            _ => 0,
        };
        let (others, tags) = parts.iter().map(tags_in).fold((0, 0), |(others, tags), count| match count {
            0 => (others + 1, tags),
            count => (others, tags + count),
        });
        if others > PARTS_MAX || tags > TAGS_MAX {
            let most = format!("{TAGS_MAX} tags, and {PARTS_MAX} URLs, hosts, expressions and bans together");
            return Err(format!("a request may name at most {most}: send several"));
        }
        if parts.iter().any(|part| part.said().1.is_some_and(|text| text.trim().is_empty())) {
            return Err("an empty text means no pages".to_owned());
        }
        Ok(Self { how, is_to_be_everywhere: false, zones: zone.into_iter().collect(), parts })
    }

    /// Reads the lines.
    pub fn parse(lines: &str) -> Result<Self, String> {
        let mut wanted = Self { how: How::Hard, is_to_be_everywhere: false, zones: Vec::new(), parts: Vec::new() };
        let lines = lines.trim_end_matches('\n').strip_suffix("\nend").ok_or(NOT_WHOLE)?;
        for line in lines.lines() {
            let (word, value) = line.split_once(' ').unwrap_or((line, ""));
            if value.is_empty() != matches!(word, "soft" | "all" | "everywhere") {
                return Err(format!("\"{line}\" cannot be understood"));
            }
            let value = value.to_owned();
            match word {
                "soft" => wanted.how = How::Soft,
                "everywhere" => wanted.is_to_be_everywhere = true,
                "zone" => wanted.zones.push(value),
                "url" => wanted.parts.push(Part::Url(value)),
                "prefix" => wanted.parts.push(Part::Prefix(value)),
                "match" => wanted.parts.push(Part::Match(value)),
                "host" => wanted.parts.push(Part::Host(value)),
                "tag" => wanted.parts.push(Part::Tag(value)),
                "ban" => wanted.parts.push(Part::Ban(value)),
                "all" => wanted.parts.push(Part::All),
                _ => return Err(format!("\"{word}\" is unknown: is the server an older one?")),
            }
        }
        if wanted.parts.is_empty() { Err(NOTHING.to_owned()) } else { Ok(wanted) }
    }

    /// The tags that are named, as they were said.
    pub fn tags(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| if let Part::Tag(tag) = part { Some(tag.as_str()) } else { None })
    }

    /// Whether it is to be said if a node of the cluster does not know it.
    pub fn is_to_be_everywhere(&self) -> bool {
        self.is_to_be_everywhere
    }

    /// The same in words, for a log.
    pub fn said(&self) -> String {
        let parts = self.parts.iter().map(Part::said);
        let zones = self.zones.iter().map(|zone| ("in zone", Some(zone.as_str())));
        let soft = (self.how == How::Soft).then_some(("softly", None));
        said::shortened(parts.chain(zones).chain(soft).map(|(word, text)| match text {
            Some(text) => format!("{word} {}", Shown(text.as_bytes())),
            None => word.to_owned(),
        }))
    }

    /// What has to be done to these zones, whose keys may be without the arguments that these profiles leave out. An error says
    /// why a part cannot be, and then nothing is.
    pub fn planned(&self, zones: &[Arc<Zone>], profiles: &[Arc<Profile>]) -> Result<Vec<Deed>, String> {
        let named = |name: &String| {
            zones.iter().find(|zone| zone.name() == name).ok_or_else(|| {
                let names: Vec<&str> = zones.iter().map(|zone| zone.name()).collect();
                format!("there is no zone \"{name}\"; there are: {}", names.join(", "))
            })
        };
        let zones: Vec<&Arc<Zone>> = match &self.zones[..] {
            [] => zones.iter().collect(),
            names => names.iter().map(named).collect::<Result<_, _>>()?,
        };
        let mut tags = Vec::new();
        let mut all = Vec::new();
        let selected = |selection| Meant::Selected(selection, self.how);
        for part in &self.parts {
            match part {
                Part::Url(url) | Part::Page(url) | Part::Prefix(url) => {
                    let is_one = match part {
                        Part::Prefix(_) => false,
                        Part::Url(_) => !url.ends_with('*'),
                        _ => true,
                    };
                    for Place { host, uri } in Place::of(url, if is_one { profiles } else { &[] })? {
                        let test = match part {
                            Part::Prefix(_) => UriTest::Begins,
                            Part::Url(_) if uri.ends_with('*') => UriTest::Like,
                            _ => UriTest::Is,
                        };
                        all.push(selected(Selection::Url { host, uri: test(bytes(&uri)) }));
                    }
                }
                Part::Match(regex) => {
                    let regex = bans::pattern(regex).map_err(|refused| refused.to_string())?;
                    all.push(selected(Selection::Url { host: None, uri: UriTest::Matches(regex) }));
                }
                Part::Host(host) => all.push(selected(Selection::Host(host_of(host)?))),
                Part::Tag(tag) => {
                    let before = tags.len();
                    tags.extend(larder_cache::split_tags(tag.as_bytes()).map(Box::from));
                    if tags.len() == before {
                        return Err(format!("\"{tag}\" is no tag"));
                    }
                }
                Part::Ban(_) if self.how == How::Soft => return Err("a ban is hard: leave soft out".to_owned()),
                Part::Ban(text) => all.push(deeds::ban(&text.split_ascii_whitespace().collect::<Vec<_>>())?),
                Part::All => all.push(selected(Selection::All)),
            }
        }
        if !tags.is_empty() {
            if !zones.iter().any(|zone| zone.has_tags()) {
                return Err(NO_TAGS.to_owned());
            }
            all.extend(deeds::in_parts(tags).into_iter().map(|tags| selected(Selection::Tags(tags))));
        }
        let deeds = deeds::in_zones(&all, zones);
        for deed in &deeds {
            if let Meant::Selected(selection, how) = &deed.meant {
                deed.zone.can_purge(selection, *how).map_err(|too_long| too_long.to_string())?;
            }
        }
        Ok(deeds)
    }
}

/// Where a URL leads.
struct Place {
    /// `None` for all.
    host: Option<Box<[u8]>>,
    /// Path and query.
    uri: String,
}

impl Place {
    /// The places of a URL: one for each way in which its letters may be escaped, and where keys leave some of its arguments
    /// out.
    fn of(url: &str, profiles: &[Arc<Profile>]) -> Result<Vec<Self>, String> {
        // No browser sends a blank: it may be two URLs.
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(format!("\"{url}\" is no URL: it has a blank in it"));
        }
        let typed = TypedUrl::parse(url)?;
        if typed.is_word() {
            return Err(format!(
                "\"{url}\" says no path: write {url}/ for the first page of a host, /{url} for a page of all hosts"
            ));
        }
        let host = Some(typed.authority).filter(|host| !host.is_empty()).map(host_of).transpose()?;
        let mut uris = [Escapes::Upper, Escapes::Lower].map(|escapes| typed.target(escapes)).to_vec();
        for profile in profiles {
            let kept =
                uris.iter().map(|uri| String::from_utf8_lossy(&profile.kept_target(uri.as_bytes())).into_owned());
            let kept: Vec<String> = kept.filter(|kept| !uris.contains(kept)).collect();
            uris.extend(kept);
        }
        uris.dedup();
        if uris.iter().any(|uri| uri.len() > URL_BYTES_MAX) {
            return Err(format!("a URL has more than {URL_BYTES_MAX} bytes"));
        }
        Ok(uris.into_iter().map(|uri| Self { host: host.clone(), uri }).collect())
    }
}

/// A host as pages know it: as that of a request is.
fn host_of(text: &str) -> Result<Box<[u8]>, String> {
    let mut host = Vec::new();
    let parts = larder_http::normalise_host(text.as_bytes(), &mut host).ok();
    // A star may be in the field of a request, and here would mean many hosts.
    let parts = parts.filter(|parts| !parts.host.is_empty() && !text.contains('*'));
    let parts = parts.ok_or_else(|| format!("\"{text}\" is no host: write it as in www.example.org"))?;
    Ok(host.get(parts.host).unwrap_or_default().into())
}

fn bytes(text: &str) -> Box<[u8]> {
    text.as_bytes().into()
}

/// Why nothing is purged by tag where no page has any.
pub const NO_TAGS: &str = "pages have no tags here: larder_cache_tags says which fields have them";
const NOTHING: &str = "it does not say which pages";
/// How many parts that are no tags a request may have: each is tested on every page in memory, and takes a place in the
/// lists on disk.
const PARTS_MAX: usize = 500;
const NOT_WHOLE: &str = "it has no end, and may mean more or less than it says";
/// How long a URL may be: each byte may be noted as three.
const URL_BYTES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use larder_cache::ZoneLimits;

    use super::*;

    fn zones() -> Vec<Arc<Zone>> {
        let limits = ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) };
        let zones = vec![Zone::new("pages", limits), Zone::new("others", limits)];
        zones[0].set_tag_fields(&["xkey"]);
        zones
    }

    fn profiles() -> Vec<Arc<Profile>> {
        let common = larder_conf::profiles::find("common").expect("it is one of ours");
        vec![Arc::new(Profile::new(&larder_conf::profiles::known(common)))]
    }

    /// What is done, as zone and the words of the purge.
    fn shown(lines: &str) -> Result<Vec<String>, String> {
        let shown = |deed: &Deed| {
            let what = match &deed.meant {
                Meant::Banned(condition) => format!("ban {}", condition.text()),
                Meant::Selected(selection, how) => {
                    let zone = Zone::new("", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(9) });
                    zone.set_tag_fields(&["xkey"]);
                    zone.purge_selected(selection.clone(), *how, larder_http::Time(1)).expect("it is short");
                    match (selection, how) {
                        // It is no ban.
                        (Selection::All, How::Hard) => "all".to_owned(),
                        _ => zone.bans()[0].text.clone(),
                    }
                }
            };
            format!("{}: {what}", deed.zone.name())
        };
        Ok(Wanted::parse(lines)?.planned(&zones(), &profiles())?.iter().map(shown).collect())
    }

    #[test]
    fn parts_mean_pages_of_all_zones_or_of_one() {
        for (lines, expected) in [
            ("url http://a.example/b?c=d\n", "purge hard url a.example is /b?c=d"),
            ("url HTTPS://a.example:8443/b#c\n", "purge hard url a.example is /b"),
            ("url a.example/\n", "purge hard url a.example is /"),
            ("url A.example/b\n", "purge hard url a.example is /b"),
            ("url http://a.example?b\n", "purge hard url a.example is /?b"),
            ("url /*\n", "purge hard url * like /*"),
            ("url /b\n", "purge hard url * is /b"),
            ("url a.example/b/*\n", "purge hard url a.example like /b/*"),
            ("url http://[::1]:80/\n", "purge hard url [::1] is /"),
            ("soft\nprefix a.example/b\n", "purge soft url a.example begins /b"),
            ("prefix /\n", "purge hard url * begins /"),
            ("prefix /a*b\n", "purge hard url * begins /a*b"),
            ("match ^/b.c$\n", "purge hard url * ~ ^/b.c$"),
            ("url http://A.example.:80/b\n", "purge hard url a.example is /b"),
            ("prefix a.example./b\n", "purge hard url a.example begins /b"),
            ("host a.example:80\n", "purge hard host a.example"),
            ("host A.EXAMPLE.\n", "purge hard host a.example"),
            ("host [::1]:80\n", "purge hard host [::1]"),
            ("tag a b\ntag c\n", "purge hard tag xkey a b c"),
            ("ban obj.status == 200\n", "ban obj.status == 200"),
            ("all\n", "all"),
        ] {
            let expected = ["pages", "others"].map(|zone| format!("{zone}: {expected}"));
            assert_eq!(shown(&format!("{lines}end\n")), Ok(expected.to_vec()), "{lines}");
            assert_eq!(shown(&format!("zone pages\n{lines}end")), Ok(expected[..1].to_vec()), "{lines}");
        }
    }

    #[test]
    fn a_page_is_meant_with_and_without_arguments_that_are_in_no_key() {
        for (lines, expected) in [
            ("url /a?utm_source=x&b=1\n", &["* is /a?utm_source=x&b=1", "* is /a?b=1"][..]),
            ("url a.example/?gclid=1\n", &["a.example is /?gclid=1", "a.example is /"]),
            ("url /a?b=1\n", &["* is /a?b=1"]),
            ("url /a?utm_source=*\n", &["* like /a?utm_source=*"]),
            ("prefix /a?utm_source=x\n", &["* begins /a?utm_source=x"]),
        ] {
            let expected: Vec<String> = expected.iter().map(|url| format!("pages: purge hard url {url}")).collect();
            let mut found = shown(&format!("zone pages\n{lines}end")).unwrap();
            found.dedup();
            assert_eq!(found.len(), expected.len(), "{lines}: {found:?}");
            assert!(found.iter().any(|one| expected.contains(one)), "{lines}: {found:?}");
        }
    }

    #[test]
    fn what_a_disk_could_not_note_is_refused_whole() {
        let refused = shown(&format!("all\ntag {}\nend", "b".repeat(70_000)));
        assert_eq!(
            refused,
            Err("a purge has 65536 bytes at most: name fewer tags at once, or shorter ones".to_owned())
        );
    }

    #[test]
    fn a_request_has_a_bound() {
        let tag = |text: String| vec![Part::Tag(text)];
        let urls = |count: usize| (0..count).map(|number| Part::Url(format!("/{number}"))).collect::<Vec<_>>();
        for (parts, is_taken) in [
            (urls(PARTS_MAX), true),
            (urls(PARTS_MAX + 1), false),
            (tag("a ".repeat(TAGS_MAX)), true),
            (tag("a ".repeat(TAGS_MAX + 1)), false),
            ([urls(PARTS_MAX), tag("a,b".to_owned())].concat(), true),
        ] {
            assert_eq!(Wanted::of(How::Hard, None, parts).is_ok(), is_taken);
        }
    }

    #[test]
    fn several_zones_may_be_named() {
        let all = vec!["others: all".to_owned(), "pages: all".to_owned()];
        assert_eq!(shown("zone others\nzone pages\nall\nend\n"), Ok(all));
    }

    #[test]
    fn a_log_is_told_what_was_wanted() {
        let lines = "soft\nzone pages\nurl http://a/\u{e9}\ntag a b\nall\nend\n";
        let said = Wanted::parse(lines).map(|wanted| wanted.said());
        assert_eq!(said.as_deref(), Ok(r"URL http://a/\xc3\xa9, tags a b, all, in zone pages, softly"));
    }

    /// As browsers escape it, and as WordPress does.
    #[test]
    fn letters_of_a_url_go_with_both_of_their_escapes() {
        let both = ["%25C3%25A9", "%25c3%25a9"].map(|letter| format!("pages: purge hard url a is /{letter}/"));
        assert_eq!(shown("zone pages\nurl http://a/\u{e9}/\nend\n"), Ok(both.to_vec()));
    }

    #[test]
    fn what_is_not_whole_or_wrong_does_nothing() {
        for (lines, expected) in [
            ("", NOT_WHOLE),
            ("all", NOT_WHOLE),
            ("all\nend\nall\n", NOT_WHOLE),
            ("end\n", NOT_WHOLE),
            ("soft\nend\n", "it does not say which pages"),
            ("all\nurl http://a/the-end", NOT_WHOLE),
            ("all\nurl http://a/end", NOT_WHOLE),
            ("url\nend\n", "\"url\" cannot be understood"),
            ("all of it\nend\n", "\"all of it\" cannot be understood"),
            ("everything a\nend\n", "\"everything\" is unknown: is the server an older one?"),
            ("url ftp://a/b\nend\n", "\"ftp://a/b\" is no URL: it is neither http nor https"),
            (
                "url hello\nend\n",
                "\"hello\" says no path: write hello/ for the first page of a host, /hello for a page of all hosts",
            ),
            ("url a/b c\nend\n", "\"a/b c\" is no URL: it has a blank in it"),
            ("url *\nend\n", "\"*\" is no URL: \"*\" stands at the end of a path alone, as in /* for all pages"),
            ("host u:p@a.example\nend\n", "\"u:p@a.example\" is no host: write it as in www.example.org"),
            ("host http://a.example/\nend\n", "\"http://a.example/\" is no host: write it as in www.example.org"),
            ("zone pages\nzone none\nall\nend\n", "there is no zone \"none\"; there are: pages, others"),
            ("soft\nban obj.status == 200\nend\n", "a ban is hard: leave soft out"),
            ("tag ,\nend\n", "\",\" is no tag"),
            ("host *\nend\n", "\"*\" is no host: write it as in www.example.org"),
            ("zone others\ntag a\nend\n", "pages have no tags here: larder_cache_tags says which fields have them"),
            ("all\nend\nall\nend\n", "\"end\" cannot be understood"),
        ] {
            assert_eq!(shown(lines), Err(expected.to_owned()), "{lines}");
        }
        assert!(shown("all\nmatch (\nend\n").is_err_and(|why| why.starts_with("Regex compile error")));
    }
}
