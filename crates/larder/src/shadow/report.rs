//! What was compared, and what came of it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::compare::Comparison;
use super::options::Old;

/// What was compared so far. Its size is bounded: [`SEEN_MAX`] pages that are counted, [`PAGES_MAX`] of them that differ, and
/// [`KINDS_MAX`] differences of each.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Requests that are not GET or HEAD.
    pub unsafe_requests: u64,
    /// Those that `--skip` names, or that are known to change something.
    pub skipped: u64,
    /// Those that the visitor was refused.
    pub refused: u64,
    /// Our own requests, come back by the log or the mirror.
    pub echoes: u64,
    /// Lines and requests that cannot be read.
    pub unreadable: u64,
    /// Requests that came faster than they may be asked.
    pub dropped: u64,
    /// Requests that were compared.
    pub compared: u64,
    /// Those of which something differs.
    pub differing: u64,
    /// Those that the old server did not answer.
    pub old_silent: u64,
    /// Those that larder's cache answered.
    pub hits: u64,
    /// How long the old server took for these.
    pub saved: Duration,
    /// How long the old server and larder took for all.
    pub took: [Duration; 2],
    /// Redirects where the visitor got a page, by what they lead to.
    redirects: BTreeMap<Leads, Redirects>,
    /// Pages that were compared. Those that differ have kinds.
    pages: BTreeMap<String, Page>,
    differing_pages: usize,
    /// Answers of pages that differ, and have no room in `pages`.
    pages_left_out: u64,
    /// What the old server answers otherwise each time: how often, and an example.
    changing: BTreeMap<String, (u64, String)>,
}

/// Redirects that both servers answered.
#[derive(Clone, Debug)]
struct Redirects {
    count: u64,
    target: String,
    location: String,
}

/// A redirect that says nothing of the page, as the visitor came from elsewhere.
pub struct Elsewhere {
    location: String,
    leads: Leads,
}

/// What a redirect leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Leads {
    /// The same site by the other of http and https.
    Scheme,
    /// Another host.
    Host,
    /// Another page of the site.
    Page,
}

impl Elsewhere {
    /// Where `location` leads, of an answer from this host by https or not.
    pub fn of(location: String, is_secure: bool, host: &str) -> Elsewhere {
        let (scheme, rest) = location.split_once("//").unwrap_or(("", ""));
        let name = |authority: &str| {
            let end = authority.rfind(':').filter(|at| !authority[*at..].contains(']')).unwrap_or(authority.len());
            authority[..end].to_ascii_lowercase()
        };
        let is_url = matches!(&*scheme.to_ascii_lowercase(), "" | "http:" | "https:") && !rest.is_empty();
        let leads = match is_url {
            false => Leads::Page,
            true if !scheme.is_empty() && scheme.eq_ignore_ascii_case("https:") != is_secure => Leads::Scheme,
            true if name(rest.split(['/', '?', '#']).next().unwrap_or_default()) != name(host) => Leads::Host,
            true => Leads::Page,
        };
        Elsewhere { location, leads }
    }

    /// Whether it leads away from the server that was asked.
    pub fn is_another_site(&self) -> bool {
        self.leads != Leads::Page
    }
}

/// A page, and what of it differs.
#[derive(Clone, Debug, Default)]
struct Page {
    compared: u64,
    kinds: BTreeMap<String, Kind>,
}

#[derive(Clone, Debug)]
struct Kind {
    count: u64,
    target: String,
    old: String,
    new: String,
    /// What larder's cache said, if it answered.
    cache: Option<String>,
}

/// A pair of answers.
pub struct Pair<'a> {
    /// Host and path: answers are told by it.
    pub page: String,
    /// With its arguments.
    pub target: String,
    /// What the two came to.
    pub comparison: &'a Comparison,
    /// larder's `Cache-Status`.
    pub cache: Option<String>,
    /// How long the old server and larder took.
    pub took: [Duration; 2],
}

impl Report {
    /// Adds a pair.
    pub fn add(&mut self, pair: Pair<'_>) {
        self.compared += 1;
        for (sum, took) in self.took.iter_mut().zip(pair.took) {
            *sum = sum.saturating_add(took);
        }
        let is_hit = pair.cache.as_deref().is_some_and(|status| status.contains("; hit"));
        if is_hit {
            self.hits += 1;
            self.saved = self.saved.saturating_add(pair.took[0]);
        }
        for what in &pair.comparison.changing {
            if self.changing.len() < PAGES_MAX || self.changing.contains_key(&cut(what)) {
                let (count, _) = self.changing.entry(cut(what)).or_insert_with(|| (0, cut(&pair.target)));
                *count += 1;
            }
        }
        let differences = &pair.comparison.differences;
        if !differences.is_empty() {
            self.differing += 1;
        }
        if self.pages.len() >= SEEN_MAX && !self.pages.contains_key(&cut(&pair.page)) {
            self.pages_left_out += u64::from(!differences.is_empty());
            return;
        }
        let page = self.pages.entry(cut(&pair.page)).or_default();
        page.compared += 1;
        if differences.is_empty() {
            return;
        }
        if page.kinds.is_empty() {
            if self.differing_pages >= PAGES_MAX {
                self.pages_left_out += 1;
                return;
            }
            self.differing_pages += 1;
        }
        for difference in differences {
            let what = cut(&difference.what);
            let is_known = page.kinds.contains_key(&what);
            if !is_known && page.kinds.len() >= KINDS_MAX {
                continue;
            }
            let kind = page.kinds.entry(what).or_insert_with(|| Kind {
                count: 0,
                target: cut(&pair.target),
                old: cut(&difference.old),
                new: cut(&difference.new),
                cache: pair.cache.clone().filter(|_| is_hit),
            });
            kind.count += 1;
        }
    }

    /// Adds a redirect that both answered where the visitor got a page.
    pub fn redirected(&mut self, target: &str, to: Elsewhere) {
        let first = || Redirects { count: 0, target: cut(target), location: cut(&to.location) };
        self.redirects.entry(to.leads).or_insert_with(first).count += 1;
    }

    /// How many pages were answered by both.
    pub fn answered(&self) -> u64 {
        self.compared + self.redirect_count()
    }

    fn redirect_count(&self) -> u64 {
        self.redirects.values().map(|redirects| redirects.count).sum()
    }

    /// Why what was compared says little or nothing of the site, and what mends it.
    pub fn gap(&self, old: &Old) -> Option<String> {
        let redirects = self.redirect_count();
        if redirects > self.compared {
            let most = self.redirects.iter().max_by_key(|(_, redirects)| redirects.count);
            let mend = most.map_or_else(String::new, |(leads, redirects)| redirects.mend(*leads, old));
            return Some(format!(
                "{redirects} of {} answers are redirects where visitors got pages, which were not compared: {mend}",
                self.answered()
            ));
        }
        let not_sent = self.unsafe_requests + self.skipped + self.refused + self.dropped + self.echoes;
        let why = match (self.old_silent, not_sent, self.unreadable) {
            _ if self.compared > 0 => return None,
            (1.., _, _) => "the old server has not answered".to_owned(),
            (0, 1.., _) => "of what came, nothing may be sent: the report says why".to_owned(),
            (0, 0, 1..) => {
                "no line could be read: name the log_format that it is written in by --format NAME".to_owned()
            }
            (0, 0, 0) => "no request came: does the log grow, or the old server mirror to this address? --once takes \
                          the lines that are in a log"
                .to_owned(),
        };
        Some(format!("nothing was compared: {why}"))
    }

    fn differing(&self) -> impl Iterator<Item = (&String, &Page)> {
        self.pages.iter().filter(|(_, page)| !page.kinds.is_empty())
    }

    /// One line.
    pub fn line(&self) -> String {
        let share = (self.hits * 100).checked_div(self.compared).unwrap_or(0);
        format!(
            "{} compared, {} alike, {} differ; {} from larder's cache ({share} %)",
            self.compared,
            self.compared - self.differing,
            self.differing,
            self.hits,
        )
    }

    /// The whole of it, for a person.
    pub fn as_text(&self) -> String {
        let mut text = format!("{}\n", self.line());
        let seconds = |time: Duration| format!("{:.2} s", time.as_secs_f64());
        let _ = writeln!(
            text,
            "the old server took {} for all, and {} for what larder's cache answered; larder took {} for all",
            seconds(self.took[0]),
            seconds(self.saved),
            seconds(self.took[1])
        );
        for (count, what) in [
            (self.unsafe_requests, "not sent: neither GET nor HEAD"),
            (self.skipped, "not sent: known to change something, or by --skip"),
            (self.refused, "not sent: their visitors were refused, as by address, which another one may not be"),
            (self.dropped, "not sent: more than --rate"),
            (self.unreadable, "could not be read: neither the log's format nor HTTP"),
            (self.old_silent, "not answered by the old server, and not compared"),
        ] {
            if count > 0 {
                let _ = writeln!(text, "{count} {what}");
            }
        }
        for Redirects { count, target, location } in self.redirects.values() {
            let _ = writeln!(
                text,
                "{count} redirected by both where their visitors got a page, and not compared: first {target} to {location}"
            );
        }
        for (name, page) in self.differing() {
            let most = page.kinds.values().map(|kind| kind.count).max().unwrap_or(0);
            let _ = writeln!(text, "\n{name}: {most} of {} differ", page.compared);
            for (what, kind) in &page.kinds {
                let cache = kind.cache.as_ref().map_or_else(String::new, |status| format!(", {status}"));
                let _ = writeln!(text, "  {what} ({}, first of {}{cache})", kind.count, kind.target);
                let _ = writeln!(text, "    old     {}\n    larder  {}", kind.old, kind.new);
            }
        }
        if self.pages_left_out > 0 {
            let _ = writeln!(text, "\nand {} more answers of other pages", self.pages_left_out);
        }
        if !self.changing.is_empty() {
            let each =
                self.changing.iter().map(|(what, (count, target))| format!("{what} ({count}, first of {target})"));
            let _ = writeln!(
                text,
                "\nthe old server answers otherwise each time, so that this cannot be compared: {}",
                each.collect::<Vec<_>>().join(", ")
            );
        }
        text
    }

    /// The whole of it, for programs.
    pub fn as_json(&self) -> Value {
        let pages = self.differing().map(|(name, page)| {
            let differences = page.kinds.iter().map(|(what, kind)| {
                json!({
                    "what": what, "count": kind.count, "target": kind.target,
                    "old": kind.old, "new": kind.new, "cache": kind.cache,
                })
            });
            json!({ "page": name, "compared": page.compared, "differences": differences.collect::<Vec<_>>() })
        });
        json!({
            "compared": self.compared,
            "differing": self.differing,
            "hits": self.hits,
            "seconds": {
                "old": self.took[0].as_secs_f64(),
                "larder": self.took[1].as_secs_f64(),
                "saved": self.saved.as_secs_f64(),
            },
            "not_sent": { "unsafe": self.unsafe_requests, "skipped": self.skipped, "refused": self.refused, "rate": self.dropped },
            "unreadable": self.unreadable,
            "unanswered": self.old_silent,
            "redirected": self.redirects.values().map(|Redirects { count, target, location }| {
                json!({ "count": count, "target": target, "location": location })
            }).collect::<Vec<_>>(),
            "pages": pages.collect::<Vec<_>>(),
            "pages_left_out": self.pages_left_out,
            "changing": self.changing.iter().map(|(what, (count, target))| {
                json!({ "what": what, "count": count, "target": target })
            }).collect::<Vec<_>>(),
        })
    }
}

impl Redirects {
    /// What to do so that pages are compared.
    fn mend(&self, leads: Leads, old: &Old) -> String {
        let Redirects { target, location, .. } = self;
        match leads {
            Leads::Scheme if old.is_secure => {
                format!("the site is at http, as {location} says: write --old http://{}", old.host_with(80))
            }
            Leads::Scheme => format!(
                "the site is at https, as {location} says: write --old https://{}, or, if something in front of that \
                 server speaks TLS, --field \"X-Forwarded-Proto: https\"",
                old.host_with(443)
            ),
            Leads::Host => {
                format!("{target} leads to {location}: name that host by --host, or have the log say it by $host")
            }
            Leads::Page => format!(
                "{target} leads to {location}, perhaps for want of a cookie: a mirror has cookies, write --listen"
            ),
        }
    }
}

/// What a terminal can show of a text: servers and visitors wrote it.
fn cut(text: &str) -> String {
    let mut shown = String::new();
    for (at, letter) in text.chars().enumerate() {
        if at == VALUE_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        match letter.is_control() {
            true => shown.extend(letter.escape_default()),
            false => shown.push(letter),
        }
    }
    shown
}

const SEEN_MAX: usize = 10_000;
const PAGES_MAX: usize = 500;
const KINDS_MAX: usize = 20;
const VALUE_CHARS_MAX: usize = 200;

#[cfg(test)]
mod tests {
    use super::super::compare::Difference;
    use super::*;

    fn pair<'a>(page: &str, comparison: &'a Comparison, cache: Option<&str>) -> Pair<'a> {
        Pair {
            page: page.to_owned(),
            target: format!("{page}?a"),
            comparison,
            cache: cache.map(str::to_owned),
            took: [Duration::from_millis(500), Duration::from_millis(1)],
        }
    }

    #[test]
    fn what_differs_is_told_page_by_page() {
        let difference = Difference { what: "status".into(), old: "200".into(), new: "404".into() };
        let alike = Comparison { differences: vec![], changing: vec!["x-id".into()] };
        let differs = Comparison { differences: vec![difference], changing: vec![] };
        let mut report = Report { unsafe_requests: 2, ..Report::default() };
        report.add(pair("a.test/", &alike, Some("larder; hit; ttl=3")));
        report.add(pair("a.test/x", &alike, None));
        report.add(pair("a.test/x", &differs, None));
        let text = report.as_text();
        assert!(text.starts_with("3 compared, 2 alike, 1 differ; 1 from larder's cache (33 %)\n"), "{text}");
        for part in [
            "the old server took 1.50 s for all, and 0.50 s for what larder's cache answered",
            "2 not sent: neither GET nor HEAD\n",
            "\na.test/x: 1 of 2 differ\n  status (1, first of a.test/x?a)\n    old     200\n    larder  404\n",
            "cannot be compared: x-id (2, first of a.test/?a)\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let json = report.as_json();
        assert_eq!(json["pages"][0]["differences"][0]["new"], "404");
        assert_eq!(json["hits"], 1);
    }

    #[test]
    fn its_size_is_bounded() {
        let value = "x".repeat(10_000);
        let of = |what: usize| Difference { what: what.to_string(), old: value.clone(), new: String::new() };
        let differs = Comparison { differences: (0..100).map(of).collect(), changing: vec![] };
        let mut report = Report::default();
        for page in 0..2 * PAGES_MAX {
            report.add(pair(&page.to_string(), &differs, None));
        }
        for page in 0..2 * SEEN_MAX {
            report.add(pair(&page.to_string(), &Comparison::default(), None));
        }
        assert_eq!(report.pages.len(), SEEN_MAX);
        assert!(report.as_text().len() < PAGES_MAX * KINDS_MAX * 2 * VALUE_CHARS_MAX);
        assert_eq!(report.as_json()["pages_left_out"], PAGES_MAX);
    }

    #[test]
    fn a_terminal_obeys_nobody() {
        let difference = Difference { what: "x-a".into(), old: "\u{1b}[2J\r".into(), new: "\u{9b}".into() };
        let differs = Comparison { differences: vec![difference], changing: vec!["\u{1b}".into()] };
        let mut report = Report::default();
        report.add(pair("/\u{9b}2J", &differs, None));
        let text = report.as_text();
        assert!(!text.contains(|letter: char| letter.is_control() && letter != '\n'), "{text:?}");
    }

    fn old(url: &str) -> Old {
        Old::parse(url).unwrap()
    }

    #[test]
    fn why_nothing_was_compared_is_told() {
        let report = Report::default();
        for (report, said) in [
            (report.clone(), "nothing was compared: no request came: does the log grow"),
            (Report { unreadable: 3, ..report.clone() }, "nothing was compared: no line could be read"),
            (
                Report { refused: 3, unreadable: 1, ..report.clone() },
                "nothing was compared: of what came, nothing may be sent",
            ),
            (
                Report { old_silent: 1, skipped: 3, ..report.clone() },
                "nothing was compared: the old server has not answered",
            ),
        ] {
            let told = report.gap(&old("http://a.test")).unwrap();
            assert!(told.starts_with(said), "{told}");
        }
        assert_eq!(Report { compared: 1, skipped: 9, ..report }.gap(&old("http://a.test")), None);
    }

    #[test]
    fn redirects_in_the_place_of_pages_are_not_alike() {
        for (location, host, url, said) in [
            ("https://a.test/x", "a.test", "http://127.0.0.1:8080", "write --old https://127.0.0.1:443, or"),
            ("https://www.a.test/x", "a.test", "http://[::1]", "write --old https://[::1]:443, or"),
            ("http://a.test/x", "a.test", "https://127.0.0.1", "write --old http://127.0.0.1:80"),
            ("//www.a.test/x", "a.test:80", "http://127.0.0.1", "name that host by --host"),
            ("http://A.test:8080/login", "a.test", "http://127.0.0.1", "a mirror has cookies"),
            ("/login?from=http://b.test", "a.test", "http://127.0.0.1", "a mirror has cookies"),
            ("http://", "a.test", "http://127.0.0.1", "a mirror has cookies"),
        ] {
            let old = old(url);
            let mut report = Report { compared: 1, ..Report::default() };
            report.redirected("a.test/x", Elsewhere::of(location.to_owned(), old.is_secure, host));
            assert_eq!(report.gap(&old), None, "half of it was compared");
            report.redirected("a.test/y", Elsewhere::of(location.to_owned(), old.is_secure, host));
            let told = report.gap(&old).unwrap();
            assert!(told.starts_with("2 of 3 answers are redirects") && told.contains(said), "{location}: {told}");
            let line = format!(
                "2 redirected by both where their visitors got a page, and not compared: first a.test/x to {location}\n"
            );
            assert!(report.as_text().contains(&line), "{}", report.as_text());
            assert_eq!(report.as_json()["redirected"][0]["count"], 2);
        }
    }
}
