//! A larder in front of two recording origins, innocent clients, and what must hold after each case.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use larder_testkit::{Client, ClientError, Response, is_running};

use super::case::Case;
use super::ledger::{Ledger, Plan, ids_in, innocent_page, new_id};
use super::origin::{Origin, Speaks};
use crate::site::{Setup, Site};

/// How long a client waits that is told by `HOSTILE_UPDATE` to find out whether anything comes.
const CURIOSITY: Duration = Duration::from_millis(250);

/// Folders of the site: pages that are stored, bodies that are passed on as they come, and PHP.
pub const PLACES: [&str; 3] = ["cached", "stream", "php"];

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:8m;
    fastcgi_cache_path {DIR}/php keys_zone=php:8m;
    upstream web { server {WEB}; keepalive 4; }
    upstream php { server {PHP}; keepalive 4; }
    proxy_http_version 1.1;
    proxy_set_header Host $host;
    proxy_set_header Connection '';
    proxy_set_header X-Forwarded-Host '';
    proxy_set_header X-Original-URL '';
    proxy_set_header X-Rewrite-URL '';
    proxy_set_header X-HTTP-Method-Override '';
    proxy_set_header Forwarded '';
    proxy_set_header Proxy '';
    proxy_cache_key $scheme$host$request_uri;
    proxy_cache_valid 200 1h;
    fastcgi_cache_key $scheme$host$request_uri;
    fastcgi_cache_valid 200 1h;
    server {
        listen 127.0.0.1:{PORT};
        listen 127.0.0.1:{PORT2} http2;
        server_name site.test;
        location / { proxy_pass http://web; proxy_cache pages; }
        location /own/ { return 204; }
        location /stream/ { proxy_pass http://web; proxy_request_buffering off; proxy_buffering off; }
        location /php/ {
            fastcgi_pass php; fastcgi_keep_conn on; fastcgi_cache php;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param REQUEST_URI $request_uri;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_param HTTP_X_FORWARDED_HOST '';
            fastcgi_param HTTP_X_ORIGINAL_URL '';
            fastcgi_param HTTP_X_REWRITE_URL '';
            fastcgi_param HTTP_X_HTTP_METHOD_OVERRIDE '';
            fastcgi_param HTTP_FORWARDED '';
            fastcgi_param HTTP_PROXY '';
        }
    }";

/// Everything that takes part.
pub struct World {
    pub site: Site,
    pub ledger: Arc<Ledger>,
    web: Origin,
    php: Origin,
    serving_process: u32,
}

/// The targets of one playing of a case, by the names that they have in it.
pub struct Pages {
    pub targets: Vec<(&'static str, String)>,
    evil: String,
}

impl Pages {
    /// Targets for the pages that the text has, below this place.
    pub fn of(text: &str, place: &str) -> Pages {
        let names = ["page", "page2", "page3", "page4"];
        let used = names.into_iter().filter(|name| *name == "page" || text.contains(&format!("{{{name}}}")));
        let target = || format!("/{place}/{}", new_id());
        Pages { targets: used.map(|name| (name, target())).collect(), evil: target() }
    }

    /// What stands in a case for this word.
    pub fn word(&self, word: &str) -> Option<Vec<u8>> {
        let first = &self.targets[0].1;
        let found = self.targets.iter().find(|(name, _)| *name == word).map(|(_, target)| target.as_str());
        let other = match word {
            "id" => ids_in(first.as_bytes()).into_iter().next(),
            "place" => first.rsplit_once('/').map(|(place, _)| place.to_owned()),
            "evil" => Some(self.evil.clone()),
            _ => None,
        };
        found.map(str::to_owned).or(other).map(String::into_bytes)
    }

    pub fn ids(&self) -> Vec<String> {
        self.targets.iter().flat_map(|(_, target)| ids_in(target.as_bytes())).collect()
    }
}

impl World {
    pub fn new() -> World {
        let ledger = Arc::new(Ledger::default());
        let (web, php) = (Origin::start(Speaks::Http, &ledger), Origin::start(Speaks::FastCgi, &ledger));
        let site = Setup::new().name("WEB", web.address()).name("PHP", php.address()).start(SITE);
        let serving_process = site.serving_process();
        World { site, ledger, web, php, serving_process }
    }

    /// Connects to the site.
    pub fn client(&self) -> Client {
        let mut client = self.site.client();
        client.set_patience(if is_update() { CURIOSITY } else { larder_testkit::PATIENCE });
        client
    }

    /// An origin by the place whose requests it gets.
    pub fn origin(&self, place: &str) -> &Origin {
        if place == "php" { &self.php } else { &self.web }
    }

    /// Asks for a page as an innocent client does, and wants it whole and clean.
    pub fn visit(&self, client: &mut Client, target: &str, last: bool) -> Result<Response, String> {
        let id = ids_in(target.as_bytes()).concat();
        self.ledger.expect(&id, Plan::Page);
        let close = if last { "Connection: close\r\n" } else { "" };
        let request = format!("GET {target} HTTP/1.1\r\nHost: site.test\r\n{close}\r\n");
        client.send(request.as_bytes()).map_err(|error| format!("an innocent request of {target}: {error}"))?;
        let response =
            client.read_response("GET").map_err(|error| format!("an innocent request of {target}: {error}"))?;
        let wanted = innocent_page(&id, target);
        if response.status != 200 || response.body != wanted {
            let body = response.body.escape_ascii();
            return Err(format!("an innocent client asked for {target} and got {} {body}", response.status));
        }
        Ok(response)
    }

    /// What must hold when a case is over.
    pub fn stands(&self, place: &str, pages: &Pages) -> Result<(), String> {
        for (_, target) in &pages.targets {
            self.visit(&mut self.client(), target, true)?;
        }
        self.serves(place)
    }

    /// Innocent clients get their own, on the connections that the origin kept; and nothing broke.
    pub fn serves(&self, place: &str) -> Result<(), String> {
        let mut client = self.client();
        self.visit(&mut client, &format!("/{place}/{}", new_id()), false)?;
        self.visit(&mut client, &format!("/{place}/{}", new_id()), true)?;
        let faults = self.ledger.settle();
        match is_running(self.serving_process) {
            _ if !faults.is_empty() => Err(faults.join("; ")),
            true => Ok(()),
            false => Err("the serving process died".to_owned()),
        }
    }

    /// After a case that failed, none of its bytes may reach the next.
    fn recover(&self) {
        self.web.hang_up();
        self.php.hang_up();
        self.ledger.settle();
    }

    /// Plays cases at places, and judges what came of them.
    ///
    /// `play` gives what larder answered, to be compared with what is behind `---`, or what must not be.
    pub fn play(
        &self,
        cases: &[Case],
        places: &[&'static str],
        play: impl Fn(&Case, &'static str) -> Result<String, String>,
    ) {
        let only = std::env::var("HOSTILE_CASE").unwrap_or_default();
        let mut known = Known::read();
        let mut failures = Vec::new();
        for case in cases.iter().filter(|case| case.name.contains(&only)) {
            let mut found = Vec::new();
            for place in places {
                let result = play(case, place);
                if result.is_err() {
                    self.recover();
                }
                let name = format!("{} @{place}", case.name);
                match (result, known.take(&name)) {
                    (Err(what), None) => failures.push(format!("{name}: {what}")),
                    (Ok(_), Some(why)) => failures.push(format!("{name}: holds now, and must leave known.list: {why}")),
                    (Err(_), Some(_)) => {}
                    (Ok(answer), None) => {
                        let wanted = case.expected_at(place);
                        if !is_update() && answer != wanted {
                            failures.push(format!("{name}: {answer:?} where {wanted:?} was expected"));
                        }
                        found.push((*place, answer));
                    }
                }
            }
            if is_update() && !found.is_empty() {
                case.rewrite(&found);
            }
        }
        let log = self.site.server().error_log();
        let bad = log.lines().filter(|line| line.contains("panicked") || line.contains("[alert]"));
        failures.extend(bad.map(str::to_owned));
        if self.site.serving_process() != self.serving_process {
            failures.push("another process serves".to_owned());
        }
        assert!(failures.is_empty(), "{} of {} cases:\n{}", failures.len(), cases.len(), failures.join("\n"));
    }
}

/// Whether expectations are written rather than judged.
pub fn is_update() -> bool {
    std::env::var_os("HOSTILE_UPDATE").is_some()
}

/// Why no answer was read.
pub fn is_silent(error: &ClientError) -> bool {
    matches!(error, ClientError::Silent)
}

/// Cases that do not hold, with the reason.
struct Known(HashMap<String, String>);

impl Known {
    fn read() -> Known {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hostile/known.list");
        let text = fs::read_to_string(path).expect("the list is there");
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with("# "));
        let pair = |line: &str| line.split_once(" :: ").map(|(name, why)| (name.to_owned(), why.to_owned()));
        Known(lines.map(|line| pair(line).unwrap_or_else(|| panic!("{line:?} says no reason"))).collect())
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }
}
