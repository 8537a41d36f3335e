//! Goes through sitemaps, on the first worker, and has their pages fetched that are not in the cache: `sitemap=` of
//! `larder_warm`. The next pass through one begins when `every=` is over, or when all pages of the last one are through.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use larder_conf::model::{self, LogLevel};
use larder_http::Time;

use crate::clock;
use crate::refill::{Page, Pass, Sitemap, Why};
use crate::request::read::{self, Read};
use crate::request::refill::{NOT_ONE_SERVER, is_named, server_at, way_to};
use crate::site::Site;
use crate::typed_url::{Escapes, TypedUrl};
use crate::worker::Worker;

/// A URL that a request can be made of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Url {
    is_https: bool,
    /// In lower case, without a port.
    host: String,
    /// Path and query.
    uri: String,
}

/// A sitemap of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Source {
    at: Url,
    per_second: u32,
    every: Duration,
}

/// Goes through sitemaps for as long as the worker lives.
pub async fn run(worker: Rc<Worker>) {
    let mut began: HashMap<Url, Time> = HashMap::new();
    let mut told: HashSet<String> = HashSet::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let (sources, nameless) = sources(worker.cx().site());
        for name in nameless {
            if told.insert(name.clone()) {
                log(
                    &worker,
                    LogLevel::Warn,
                    format_args!(
                        "larder_warm reads no sitemap of the server \"{name}\": its first \
                    server_name is no host; write the sitemap with its host, as in sitemap=https://example.com/sitemap.xml"
                    ),
                );
            }
        }
        began.retain(|at, _| sources.iter().any(|source| source.at == *at));
        worker.shared.refill.passes.lock().retain(|at, _| sources.iter().any(|source| source.at.to_string() == *at));
        for source in sources {
            let now = clock::now();
            if worker.seats.is_closing() {
                return;
            }
            if began.get(&source.at).is_some_and(|began| now < began.plus(source.every)) {
                continue;
            }
            began.insert(source.at.clone(), now);
            Walk::new(source, &worker).run().await;
        }
    }
}

/// The sitemaps of a configuration, each once, and the names of servers whose sitemaps have no host.
fn sources(site: &Site) -> (Vec<Source>, Vec<String>) {
    let (mut found, mut nameless): (Vec<Source>, Vec<String>) = (Vec::new(), Vec::new());
    for (number, server) in site.servers.iter().enumerate() {
        let Some(warm) = site.locations.get(server.root).and_then(|loc| loc.settings.purging.warm.as_ref()) else {
            continue;
        };
        for sitemap in &warm.sitemaps {
            let at = match sitemap {
                model::Sitemap::Url { is_https, host, uri } => {
                    Url { is_https: *is_https, host: host.clone(), uri: uri.clone() }
                }
                model::Sitemap::Path(uri) => match usual_way(number, site) {
                    Some((is_https, host)) => Url { is_https, host, uri: uri.clone() },
                    None => {
                        nameless.push(String::from_utf8_lossy(&server.name).into_owned());
                        continue;
                    }
                },
            };
            if found.iter().all(|known| known.at != at) {
                found.push(Source { at, per_second: warm.per_second.get(), every: warm.every });
            }
        }
    }
    (found, nameless)
}

/// By which scheme and host visitors come to a server: by https if it can be, and by its first name.
fn usual_way(server: usize, site: &Site) -> Option<(bool, String)> {
    // `_` and the like are no hosts.
    let name = Some(&site.servers.get(server)?.name).filter(|name| name.contains(&b'.') || ***name == *b"localhost")?;
    let leads_here = |tls: bool| {
        site.listeners.iter().any(|listener| listener.tls == tls && listener.names.exact.get(&**name) == Some(&server))
    };
    let is_https = [true, false].into_iter().find(|tls| leads_here(*tls))?;
    Some((is_https, String::from_utf8(name.to_vec()).ok()?))
}

/// A pass through a sitemap.
struct Walk<'a> {
    source: Source,
    /// The server whose sitemap it is.
    server: Option<usize>,
    worker: &'a Rc<Worker>,
    pass: Pass,
}

impl<'a> Walk<'a> {
    fn new(source: Source, worker: &'a Rc<Worker>) -> Self {
        let (began, tally) = (clock::now(), Arc::default());
        let pass = Pass { began, ended: None, maps: 0, pages: 0, foreign: 0, tally, trouble: None };
        let cx = worker.cx();
        let way = way_to(source.at.is_https, source.at.host.as_bytes(), cx.site());
        let server = way.map(|(listener, host)| server_at(listener, host));
        Self { source, server, worker, pass }
    }

    async fn run(mut self) {
        let began = clock::steady();
        let mut next = VecDeque::from([self.source.at.clone()]);
        let mut known: HashSet<Url> = next.iter().cloned().collect();
        while let Some(at) = next.pop_front() {
            match self.read(at.clone()).await {
                Ok(Sitemap { pages, maps, beyond }) => {
                    self.pass.maps += 1;
                    if beyond > 0 {
                        self.trouble(&at, &format!("it names {beyond} more pages than the 50,000 that one may have"));
                    }
                    for map in maps {
                        match self.ours(&map) {
                            Some(map) if known.len() < MAPS_MAX => {
                                if known.insert(map.clone()) {
                                    next.push_back(map);
                                }
                            }
                            Some(_) => self.trouble(&at, &format!("there are more than {MAPS_MAX} sitemaps below it")),
                            None => self.pass.foreign += 1,
                        }
                    }
                    self.pages(pages).await;
                }
                Err(why) => self.trouble(&at, &why),
            }
            self.tell();
            if self.worker.seats.is_closing() {
                return;
            }
        }
        self.at_most_waiting(0).await;
        self.pass.ended = Some(clock::now());
        self.tell();
        let took = clock::steady().saturating_sub(began);
        let level = if self.pass.trouble.is_some() { LogLevel::Warn } else { LogLevel::Notice };
        log(
            self.worker,
            level,
            format_args!("{} in {:.1} s", in_words(&self.source.at.to_string(), &self.pass), took.as_secs_f64()),
        );
    }

    /// Has pages fetched, a few at a time, so that purged ones find room on the list.
    async fn pages(&mut self, pages: Vec<String>) {
        for page in pages {
            let Some(Url { is_https, host, uri }) = self.ours(&page) else {
                self.pass.foreign += 1;
                continue;
            };
            self.at_most_waiting(PAGES_AHEAD - 1).await;
            if self.worker.seats.is_closing() {
                return;
            }
            self.pass.pages += 1;
            // Where TLS ends before larder, as a proxy there says it.
            let is_secured_before = page.starts_with("https:") && !is_https;
            let fields =
                if is_secured_before { vec![("x-forwarded-proto".into(), (*b"https").into())] } else { Vec::new() };
            self.worker.shared.refill.add([Page {
                is_https,
                host: host.into_bytes().into(),
                uri: uri.into_bytes().into(),
                hits: 0,
                fields,
                per_second: self.source.per_second,
                why: Why::Named(Arc::clone(&self.pass.tally)),
                tries: 0,
                since: clock::now(),
                origin: None,
            }]);
        }
    }

    /// Waits until no more of its pages than these wait.
    async fn at_most_waiting(&self, most: usize) {
        // One is the pass' own, and one that of the status.
        while Arc::strong_count(&self.pass.tally) > most + 2 && !self.worker.seats.is_closing() {
            self.tell();
            tokio::time::sleep(POLL).await;
        }
    }

    /// A URL of the sitemap's server and a name of it, as it is asked for; `None` if it is none. What has another scheme than larder listens
    /// for is asked for as the sitemap is.
    fn ours(&self, text: &str) -> Option<Url> {
        let url = TypedUrl::parse(text).ok()?;
        let uri = url.target(Escapes::Upper);
        let said = url.tls?;
        if !uri.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let (cx, host) = (self.worker.cx(), url.host.to_ascii_lowercase());
        let site = cx.site();
        let listens = site.listeners.iter().any(|listener| listener.tls == said);
        let is_https = if listens { said } else { self.source.at.is_https };
        let (listener, _) = way_to(is_https, host.as_bytes(), site)?;
        // What leads to it for want of another has none of its names.
        let is_named = host == self.source.at.host || is_named(host.as_bytes(), listener);
        let is_ours = is_named && self.server == Some(server_at(listener, host.as_bytes()));
        is_ours.then_some(Url { is_https, host, uri })
    }

    /// Reads a sitemap, wherever it is by now.
    async fn read(&self, mut at: Url) -> Result<Sitemap, String> {
        for _ in 0..=MOVES_MAX {
            match self.read_at(&at).await? {
                Read::Body(bytes) => {
                    // It may have 50 MB, and visitors are served on this thread.
                    let read = tokio::task::spawn_blocking(move || Sitemap::read(&bytes)).await;
                    return read.unwrap_or_else(|_| Err("it cannot be read".to_owned()));
                }
                Read::Moved(to) => {
                    let to = String::from_utf8_lossy(&to).into_owned();
                    let moved = if to.starts_with('/') && !to.starts_with("//") {
                        Some(Url { uri: to.clone(), ..at })
                    } else {
                        self.ours(&to)
                    };
                    at = moved.ok_or_else(|| format!("it is at {to}, which is no page of its server"))?;
                }
                Read::Busy => tokio::time::sleep(POLL).await,
            }
        }
        Err(format!("it is moved more than {MOVES_MAX} times"))
    }

    async fn read_at(&self, at: &Url) -> Result<Read, String> {
        loop {
            let cx = self.worker.cx();
            let (listener, host) = way_to(at.is_https, at.host.as_bytes(), cx.site()).ok_or(NOT_ONE_SERVER)?;
            match read::read(at.uri.as_bytes(), host, listener, self.worker).await? {
                Read::Busy if !self.worker.seats.is_closing() => tokio::time::sleep(POLL).await,
                read => return Ok(read),
            }
        }
    }

    fn trouble(&mut self, at: &Url, why: &str) {
        log(self.worker, LogLevel::Warn, format_args!("the sitemap {at} is not read whole: {why}"));
        self.pass.trouble.get_or_insert_with(|| format!("{at}: {why}"));
    }

    /// Has the status tell how far it is.
    fn tell(&self) {
        self.worker.shared.refill.passes.lock().insert(self.source.at.to_string(), self.pass.clone());
    }
}

/// What a pass through the sitemap at this URL has brought.
fn in_words(at: &str, pass: &Pass) -> String {
    let sums = pass.tally.sums();
    let mut told =
        format!("warmed {at}: {} pages of {} sitemaps, {} fetched{}", pass.pages, pass.maps, sums.stored, sums.rest());
    let left = pass.pages.saturating_sub(sums.all());
    for (count, what) in [(left, "not tried"), (pass.foreign, "of other servers left out")] {
        if count > 0 {
            told.push_str(&format!(", {count} {what}"));
        }
    }
    told
}

fn log(worker: &Rc<Worker>, level: LogLevel, line: fmt::Arguments<'_>) {
    worker.cx().local.logs.main(level, line);
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.is_https { "https" } else { "http" }, self.host, self.uri)
    }
}

/// How often it looks whether a pass is due.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it looks whether a page is through.
const POLL: Duration = Duration::from_millis(100);
/// How many pages of a sitemap are on the list at once.
const PAGES_AHEAD: usize = 32;
/// How many sitemaps a pass reads.
const MAPS_MAX: usize = 1000;
/// How often a sitemap may have moved.
const MOVES_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use crate::assemble::site_of;
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
        let (found, nameless) = sources(&site);
        let told: Vec<_> =
            found.iter().map(|source| (source.at.to_string(), source.per_second, source.every.as_secs())).collect();
        let expected =
            [("http://a.test/sitemap.xml".to_owned(), 5, 7200), ("https://www.b.test/map.xml".to_owned(), 2, 3600)];
        assert_eq!(told, expected);
        assert_eq!(nameless, ["_"]);
    }

    #[test]
    fn a_pass_is_told_in_words() {
        let mut pass =
            Pass { began: Time(0), ended: None, maps: 2, pages: 7, foreign: 0, tally: Arc::default(), trouble: None };
        (0..3).for_each(|_| pass.tally.add(End::Stored));
        assert_eq!(in_words("http://a/", &pass), "warmed http://a/: 7 pages of 2 sitemaps, 3 fetched, 4 not tried");
        (0..4).for_each(|_| pass.tally.add(End::There));
        pass.foreign = 1;
        let expected =
            "warmed http://a/: 7 pages of 2 sitemaps, 3 fetched, 4 already there, 1 of other servers left out";
        assert_eq!(in_words("http://a/", &pass), expected);
    }
}
