//! Goes through sitemaps, on the first worker, and has their pages fetched that are not in the cache: `sitemap=` of
//! `larder_warm`. Each sitemap has a task of its own, so that a slow site delays no other. The next pass begins when `every=` is
//! over and all pages of the last one are through; a reload begins a new one.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_cache::Came;
use larder_conf::model::{self, LogLevel};

use crate::clock;
use crate::refill::{Page, Pass, Reason, Sitemap};
use crate::request::read::{self, Read, Wanted};
use crate::request::refill::{port_of, server_at, usual_port};
use crate::site::{Listener, Site};
use crate::typed_url::{Escapes, TypedUrl};
use crate::vsl::Shown;
use crate::worker::Worker;

/// A URL, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Url {
    is_https: bool,
    /// In lower case.
    host: String,
    port: Option<u16>,
    /// Path and query.
    uri: String,
}

/// A sitemap of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    at: Url,
    /// The server whose sitemap it is, by its place in the site.
    server: usize,
    per_second: u32,
    every: Duration,
    /// Whether it was said for all servers, of which some may have none.
    is_for_all: bool,
}

/// When a sitemap is to be read next, by its URL; `None` while it is. Steady time.
type Due = Rc<RefCell<HashMap<Url, Option<Duration>>>>;

/// Goes through sitemaps for as long as the worker lives.
pub async fn run(worker: Rc<Worker>) {
    let mut generation = None;
    let mut due = Due::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        if worker.seats.is_closing() {
            return;
        }
        let (sources, now) = (sources(worker.cx().site()), worker.cx().site().loaded.generation);
        if generation != Some(now) {
            // Passes of the old configuration end by themselves.
            generation = Some(now);
            due = Due::default();
            let names: HashSet<String> = sources.iter().map(|source| source.at.to_string()).collect();
            worker.shared.refill.passes.lock().retain(|at, _| names.contains(at));
        }
        for source in sources {
            let is_due = |at: &Option<Duration>| at.is_some_and(|at| at <= clock::steady());
            if !due.borrow().get(&source.at).is_none_or(is_due) {
                continue;
            }
            due.borrow_mut().insert(source.at.clone(), None);
            let (due, worker) = (Rc::clone(&due), Rc::clone(&worker));
            tokio::task::spawn_local(async move {
                let (at, began, every) = (source.at.clone(), clock::steady(), source.every);
                let is_read = Walk::new(source, now, &worker).run().await;
                let next = if is_read { began + every } else { clock::steady() + every.min(TRY_AGAIN) };
                due.borrow_mut().insert(at, Some(next));
            });
        }
    }
}

/// The sitemaps of a configuration, each once.
fn sources(site: &Site) -> Vec<Source> {
    let mut found: Vec<Source> = Vec::new();
    for (number, server) in site.servers.iter().enumerate() {
        let Some(warm) = site.locations.get(server.root).and_then(|loc| loc.settings.purging.warm.as_ref()) else {
            continue;
        };
        for sitemap in &warm.sitemaps {
            let (at, is_for_all) = match sitemap {
                model::Sitemap::Url { is_https, host, port, uri } => {
                    (Url { is_https: *is_https, host: host.clone(), port: *port, uri: uri.clone() }, false)
                }
                model::Sitemap::Path { uri, is_for_all } => match usual_way(number, site) {
                    Some((is_https, host)) => (Url { is_https, host, port: None, uri: uri.clone() }, *is_for_all),
                    // `-t` warns of it.
                    None => continue,
                },
            };
            if found.iter().all(|known| known.at != at) {
                let (per_second, every) = (warm.per_second.get(), warm.every);
                found.push(Source { at, server: number, per_second, every, is_for_all });
            }
        }
    }
    found
}

/// By which scheme and host visitors come to a server: by https if it can be, and by its first name that is a host.
fn usual_way(server: usize, site: &Site) -> Option<(bool, String)> {
    let host = site.servers.get(server)?.host.as_deref()?;
    let leads_here =
        |tls: bool| site.listeners.iter().any(|one| one.tls == tls && server_at(one, host.as_bytes()) == server);
    let is_https = [true, false].into_iter().find(|tls| leads_here(*tls))?;
    Some((is_https, host.to_owned()))
}

/// Where requests for a URL come in to its server: by its scheme, at its port or the usual one. Where nothing listens
/// for that scheme, at any address: then TLS ends before larder, or `http:` is an old habit.
fn way_to<'s>(url: &Url, server: usize, site: &'s Site) -> Option<&'s Listener> {
    let leads_here = |listener: &&Listener| server_at(listener, url.host.as_bytes()) == server;
    let rank = |listener: &&Listener| {
        let port = port_of(listener);
        (listener.tls != url.is_https, url.port.is_none() || port != url.port, port != Some(usual_port(listener)))
    };
    site.listeners.iter().filter(leads_here).min_by_key(rank)
}

/// A pass through a sitemap.
struct Walk<'a> {
    source: Source,
    /// Of the configuration.
    generation: u64,
    worker: &'a Rc<Worker>,
    pass: Pass,
    /// Whether TLS ends before larder, as the sitemap itself was asked for.
    is_secured_before: bool,
}

impl<'a> Walk<'a> {
    fn new(source: Source, generation: u64, worker: &'a Rc<Worker>) -> Self {
        let (began, tally) = (clock::now(), Arc::default());
        let pass = Pass { began, ended: None, maps: 0, pages: 0, foreign: 0, tally, trouble: None, is_alarm: false };
        Self { source, generation, worker, pass, is_secured_before: false }
    }

    /// Whether the pass is to end: the process ends, or has another configuration.
    fn is_over(&self) -> bool {
        self.worker.seats.is_closing() || self.worker.cx().site().loaded.generation != self.generation
    }

    /// Goes through it. Returns whether it could be read.
    async fn run(mut self) -> bool {
        let began = clock::steady();
        let first = self.source.at.clone();
        let mut next = VecDeque::from([first.clone()]);
        let mut known: HashSet<Url> = next.iter().cloned().collect();
        while let Some(at) = next.pop_front() {
            self.tell();
            let before = clock::steady();
            let read = self.read(at.clone()).await;
            if self.is_over() {
                return true;
            }
            let mut beyond = 0;
            match read {
                Ok((found, is_secured_before)) => {
                    self.is_secured_before |= is_secured_before;
                    self.pass.maps += 1;
                    if found.beyond > 0 {
                        self.trouble(
                            &at,
                            &format!("{} URLs are left out: it has too many, or they are too long", found.beyond),
                        );
                    }
                    for (count, map) in found.maps.iter().enumerate() {
                        self.give_way(count).await;
                        match self.ours(map) {
                            Some(map) if known.contains(&map) => {}
                            Some(map) if known.len() < MAPS_MAX => {
                                known.insert(map.clone());
                                next.push_back(map);
                            }
                            Some(_) => beyond += 1,
                            None => self.pass.foreign += 1,
                        }
                    }
                    if beyond > 0 {
                        self.trouble(&at, &format!("{beyond} sitemaps are left out: there are more than {MAPS_MAX}"));
                    }
                    self.pages(found.pages).await;
                }
                Err(why) if at == first && self.source.is_for_all => {
                    // A server that only redirects has no sitemap.
                    self.log(LogLevel::Info, format_args!("larder_warm finds no sitemap at {at}: {}", cut(&why)));
                    self.pass.trouble = Some(cut(&why));
                    self.tell();
                    return true;
                }
                Err(why) => self.trouble(&at, &why),
            }
            // As with pages: as long as it took, and no more than so many in a second.
            let took = clock::steady().saturating_sub(before);
            let between = Duration::from_secs(1) / self.source.per_second.max(1);
            tokio::time::sleep(took.min(PAUSE_MAX).max(between)).await;
        }
        self.at_most_waiting(0).await;
        if self.is_over() {
            return true;
        }
        self.pass.ended = Some(clock::now());
        self.tell();
        let took = clock::steady().saturating_sub(began);
        let told = in_words(&self.source.at.to_string(), &self.pass);
        self.log(LogLevel::Notice, format_args!("{told} in {:.1} s", took.as_secs_f64()));
        self.pass.maps > 0
    }

    /// Lets visitors have their turn now and then.
    async fn give_way(&self, count: usize) {
        if count.is_multiple_of(TURN) {
            tokio::task::yield_now().await;
        }
    }

    /// Has pages fetched, a few at a time, so that others find room on the list.
    async fn pages(&mut self, pages: Vec<String>) {
        for (count, page) in pages.into_iter().enumerate() {
            self.give_way(count).await;
            let Some(url) = self.ours(&page) else {
                self.pass.foreign += 1;
                continue;
            };
            self.at_most_waiting(PAGES_AHEAD - 1).await;
            if self.is_over() {
                return;
            }
            let cx = self.worker.cx();
            let Some(listener) = way_to(&url, self.source.server, cx.site()) else { continue };
            self.pass.pages += 1;
            let is_secured_before = !listener.tls && (url.is_https || self.is_secured_before);
            self.worker.shared.refill.add([Page {
                is_https: listener.tls,
                host: url.host.into_bytes().into(),
                uri: url.uri.into_bytes().into(),
                hits: 0,
                fields: Vec::new(),
                per_second: self.source.per_second,
                reason: Reason::Named,
                pass: Some(Arc::clone(&self.pass.tally)),
                tries: 0,
                since: clock::now(),
                origin: None,
                came: Some(Came {
                    port: port_of(listener).unwrap_or_default(),
                    host_port: url.port.unwrap_or_default(),
                    is_secured_before,
                }),
            }]);
        }
    }

    /// Waits until no more of its pages than these wait.
    async fn at_most_waiting(&self, most: usize) {
        // One is the pass' own, and one that of the status.
        while Arc::strong_count(&self.pass.tally) > most + 2 && !self.is_over() {
            self.tell();
            tokio::time::sleep(POLL).await;
        }
    }

    /// A URL of the sitemap's own host, or of another name of its server; `None` if it is none.
    fn ours(&self, text: &str) -> Option<Url> {
        let url = TypedUrl::parse(text).ok()?;
        let (is_https, host, uri) = (url.tls?, url.host.to_ascii_lowercase(), url.target(Escapes::Upper));
        let cx = self.worker.cx();
        let url = Url { is_https, host, port: url.port, uri };
        let listener = way_to(&url, self.source.server, cx.site())?;
        // Patterns would have any number of hosts.
        let is_named = url.host == self.source.at.host
            || listener.names.exact.get(url.host.as_bytes()) == Some(&self.source.server);
        let is_plain = url.uri.bytes().all(|byte| byte.is_ascii_graphic());
        (is_named && is_plain).then_some(url)
    }

    /// Reads a sitemap, wherever it is by now. Says, too, whether a proxy in front of larder takes TLS off.
    async fn read(&self, mut at: Url) -> Result<(Sitemap, bool), String> {
        for _ in 0..=MOVES_MAX {
            let (read, is_secured_before) = self.read_at(&at).await?;
            match read {
                Read::Body(bytes) => {
                    // It may have 50 MB, and visitors are served on this thread.
                    let read = tokio::task::spawn_blocking(move || Sitemap::read(&bytes)).await;
                    let read = read.unwrap_or_else(|_| Err("it cannot be read".to_owned()));
                    return read.map(|found| (found, is_secured_before));
                }
                Read::Moved(to) => {
                    let to = String::from_utf8_lossy(&to).into_owned();
                    let whole = match to.starts_with('/') && !to.starts_with("//") {
                        true => Url { uri: String::new(), ..at.clone() }.to_string() + &to,
                        false => to.clone(),
                    };
                    let moved = self.ours(&whole);
                    at = moved.filter(|moved| *moved != at).ok_or_else(|| {
                        format!("it has moved to {}, which is no other URL of its server", Shown(to.as_bytes()))
                    })?;
                }
                Read::Busy => {}
            }
        }
        Err(format!("it has moved more than {MOVES_MAX} times"))
    }

    async fn read_at(&self, at: &Url) -> Result<(Read, bool), String> {
        loop {
            let cx = self.worker.cx();
            let Some(listener) = way_to(at, self.source.server, cx.site()) else {
                return Err(format!("\"{}\" is no name of the server in which it is written", at.host));
            };
            let is_secured_before = !listener.tls && (at.is_https || self.is_secured_before);
            let wanted = Wanted { uri: &at.uri, host: &at.host, port: at.port, is_secured_before };
            match read::read(&wanted, listener, self.worker).await? {
                Read::Busy if !self.is_over() => tokio::time::sleep(POLL).await,
                read => return Ok((read, is_secured_before)),
            }
        }
    }

    fn trouble(&mut self, at: &Url, why: &str) {
        let why = cut(why);
        self.log(LogLevel::Error, format_args!("the sitemap {at} cannot be read: {why}"));
        self.pass.trouble.get_or_insert_with(|| cut(&format!("{at}: {why}")));
        self.pass.is_alarm = true;
    }

    fn log(&self, level: LogLevel, line: fmt::Arguments<'_>) {
        self.worker.cx().local.logs.main(level, line);
    }

    /// Has the status tell how far it is.
    fn tell(&self) {
        self.worker.shared.refill.passes.lock().insert(self.source.at.to_string(), self.pass.clone());
    }
}

/// As much of a text as a line needs.
fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).map(|char| if char.is_control() { '?' } else { char }).collect()
}

/// What a pass through the sitemap at this URL has brought.
fn in_words(at: &str, pass: &Pass) -> String {
    let (sums, Pass { pages, maps, .. }) = (pass.tally.sums(), pass);
    let plural = if *maps == 1 { "" } else { "s" };
    let mut told =
        format!("warmed {at}: {pages} pages of {maps} sitemap{plural}, {} fetched{}", sums.stored, sums.rest());
    for (count, what) in [(pass.left(), "not tried"), (pass.foreign, "of other servers left out")] {
        if count > 0 {
            told.push_str(&format!(", {count} {what}"));
        }
    }
    told
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { is_https, host, port, uri } = self;
        write!(f, "{}://{host}", if *is_https { "https" } else { "http" })?;
        port.map_or(Ok(()), |port| write!(f, ":{port}"))?;
        f.write_str(uri)
    }
}

/// How often it looks whether a pass is due.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long after a sitemap could not be read it is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(60);
/// How often it looks whether a page is through.
const POLL: Duration = Duration::from_millis(50);
/// How long a pause after a sitemap is at most.
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// How many pages of a sitemap are on the list at once.
const PAGES_AHEAD: usize = 128;
/// After how many URLs visitors have their turn.
const TURN: usize = 64;
/// How many sitemaps a pass reads.
const MAPS_MAX: usize = 1000;
/// How often a sitemap may have moved.
const MOVES_MAX: usize = 5;
/// How much of what is wrong is told.
const TEXT_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use crate::assemble::site_of;
    use larder_http::Time;

    use crate::refill::End;

    use super::*;

    #[test]
    fn each_server_has_its_sitemap_and_each_url_one_pass() {
        let site = site_of(
            "events {} http { larder_warm 5 per second sitemap=/sitemap.xml every=2h; \
             server { server_name a.test www.a.test; } \
             server { server_name b.test; larder_warm 2 per second sitemap=https://www.b.test/map.xml; } \
             server { server_name c.test; larder_warm off; } \
             server { server_name _ d.test; listen 81; } }",
        );
        let told: Vec<_> = sources(&site)
            .iter()
            .map(|source| {
                (source.at.to_string(), source.server, source.per_second, source.every.as_secs(), source.is_for_all)
            })
            .collect();
        let expected = [
            ("http://a.test/sitemap.xml".to_owned(), 0, 5, 7200, true),
            ("https://www.b.test/map.xml".to_owned(), 1, 2, 3600, false),
            ("http://d.test/sitemap.xml".to_owned(), 3, 5, 7200, true),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn a_url_comes_in_where_its_server_listens_for_it() {
        let site = site_of(
            "events {} http { server { listen 8080; listen 81; server_name a.test; } \
             server { listen 81; server_name b.test; } server { listen 82; server_name _; } }",
        );
        let way = |is_https: bool, host: &str, port: Option<u16>, server: usize| {
            let url = Url { is_https, host: host.to_owned(), port, uri: "/".to_owned() };
            way_to(&url, server, &site).and_then(port_of)
        };
        for (is_https, host, port, server, expected) in [
            (false, "a.test", None, 0, Some(8080)),
            (false, "a.test", Some(81), 0, Some(81)),
            // As TLS ends before larder.
            (true, "a.test", None, 0, Some(8080)),
            (false, "b.test", None, 1, Some(81)),
            (false, "b.test", None, 0, Some(8080)),
            (false, "a.test", None, 1, None),
            (false, "a.test", None, 2, Some(82)),
        ] {
            assert_eq!(way(is_https, host, port, server), expected, "{is_https} {host} {port:?} of {server}");
        }
    }

    #[test]
    fn a_pass_is_told_in_words() {
        let mut pass = Pass {
            began: Time(0),
            ended: None,
            maps: 2,
            pages: 7,
            foreign: 0,
            tally: Arc::default(),
            trouble: None,
            is_alarm: false,
        };
        (0..3).for_each(|_| pass.tally.add(End::Stored));
        assert_eq!(in_words("http://a/", &pass), "warmed http://a/: 7 pages of 2 sitemaps, 3 fetched, 4 not tried");
        (0..4).for_each(|_| pass.tally.add(End::There));
        pass.foreign = 1;
        let expected =
            "warmed http://a/: 7 pages of 2 sitemaps, 3 fetched, 4 already there, 1 of other servers left out";
        assert_eq!(in_words("http://a/", &pass), expected);
    }
}
