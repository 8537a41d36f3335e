//! Somebody who visits the site with a cookie jar, as a browser does.

use larder_testkit::{Client, ClientError, Http2Client, Http2Error, Http2Request, Response, Tls, text_of, unpacked};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// A visitor with cookies and one kept connection: HTTP/1.1 in the clear, or HTTP/2 over TLS.
pub struct Visitor {
    address: SocketAddr,
    host: String,
    tls: Option<Tls>,
    /// By name and path; a value may stand under two paths.
    cookies: BTreeMap<(String, String), String>,
    connection: Option<Connection>,
    /// The page that was asked for last, which a form names as where it stands.
    standing_on: String,
}

/// A connection to the server.
enum Connection {
    Plain(Client),
    Safe(Http2Client),
}

/// A request before it is put into the bytes of a protocol.
struct Request<'a> {
    method: &'a str,
    path: &'a str,
    fields: Vec<(&'a str, String)>,
    body: &'a str,
}

/// An answer as the visitor sees it.
#[derive(Debug)]
pub struct Page {
    /// The status code.
    pub status: u16,
    /// What `X-Cache` says.
    pub cache: Cache,
    /// The value of `Location`, or nothing.
    pub location: String,
    /// The body as text.
    pub body: String,
}

/// The values of `$upstream_cache_status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cache {
    /// The field is absent: a file, or a method that is never cached.
    Unused,
    /// `MISS`
    Miss,
    /// `BYPASS`
    Bypass,
    /// `EXPIRED`
    Expired,
    /// `STALE`
    Stale,
    /// `UPDATING`
    Updating,
    /// `REVALIDATED`
    Revalidated,
    /// `HIT`
    Hit,
}

impl Visitor {
    /// Somebody without cookies, who asks `address` for `host`, over TLS where `tls` says how.
    pub fn new(address: SocketAddr, host: String, tls: Option<Tls>) -> Visitor {
        Visitor { address, host, tls, cookies: BTreeMap::new(), connection: None, standing_on: String::new() }
    }

    /// Asks for a page.
    pub fn get(&mut self, path: &str) -> Page {
        self.standing_on = format!("{}{path}", self.start());
        self.ask("GET", path, &[], "")
    }

    /// Sends a form.
    pub fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Page {
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", percent_encoded(value))).collect();
        self.ask("POST", path, &[("Content-Type", "application/x-www-form-urlencoded")], &pairs.join("&"))
    }

    /// Sends a document, as the editor in wp-admin does.
    pub fn post_json(&mut self, path: &str, nonce: &str, json: &str) -> Page {
        self.ask("POST", path, &[("Content-Type", "application/json"), ("X-WP-Nonce", nonce)], json)
    }

    /// Asks for where a redirect leads.
    pub fn follow(&mut self, page: &Page) -> Page {
        let start = self.start();
        let path = page.location.strip_prefix(&start).unwrap_or(&page.location);
        assert!(path.starts_with('/'), "a redirect to this site: {page:?}");
        let path = path.split('#').next().unwrap_or(path).to_string();
        self.get(&path)
    }

    /// Takes a cookie that a script in the browser sets.
    pub fn takes_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert((name.to_owned(), "/".to_owned()), value.to_owned());
    }

    /// Whether the jar holds a cookie whose name begins so.
    pub fn has_cookie(&self, name: &str) -> bool {
        self.cookies.keys().any(|(held, _)| held.starts_with(name))
    }

    /// What every address of the site begins with.
    fn start(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://{}", self.host)
    }

    fn ask(&mut self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Page {
        let mut fields: Vec<(&str, String)> =
            fields.iter().map(|(name, value)| (*name, (*value).to_string())).collect();
        fields.push(("Accept-Encoding", "gzip, deflate".to_string()));
        if method == "POST" {
            fields.push(("Content-Length", body.len().to_string()));
            fields.push(("Referer", self.standing_on.clone()));
        }
        if let Some(cookies) = self.cookies_for(path) {
            fields.push(("Cookie", cookies));
        }
        let request = Request { method, path, fields, body };
        let response = self.exchange(&request).unwrap_or_else(|error| panic!("{method} {path}: {error}"));
        self.keep_cookies(&response);
        Page::of(&response)
    }

    /// Sends on the kept connection; once more on a new one if the server has closed it meanwhile.
    fn exchange(&mut self, request: &Request<'_>) -> Result<Response, String> {
        if let Some(kept) = self.connection.take() {
            match self.exchange_on(kept, request) {
                Err(Failure::Closed) => {}
                result => return result.map_err(|failure| failure.to_string()),
            }
        }
        let fresh = match &self.tls {
            None => Client::connect(self.address).map(Connection::Plain),
            Some(tls) => Http2Client::connect_tls(self.address, tls).map(Connection::Safe),
        };
        let fresh = fresh.map_err(|error| error.to_string())?;
        self.exchange_on(fresh, request).map_err(|failure| failure.to_string())
    }

    fn exchange_on(&mut self, mut connection: Connection, request: &Request<'_>) -> Result<Response, Failure> {
        let (response, is_kept) = match &mut connection {
            Connection::Plain(client) => {
                let mut head = format!("{} {} HTTP/1.1\r\nHost: {}\r\n", request.method, request.path, self.host);
                for (name, value) in &request.fields {
                    head.push_str(&format!("{name}: {value}\r\n"));
                }
                client.send(format!("{head}\r\n{}", request.body).as_bytes())?;
                let response = client.read_response(request.method)?;
                let is_kept = response.keeps_connection();
                (response, is_kept)
            }
            Connection::Safe(client) => {
                let mut sent = Http2Request::get(request.path).method(request.method).authority(&self.host);
                for (name, value) in &request.fields {
                    sent = sent.field(&name.to_ascii_lowercase(), value);
                }
                if request.method == "POST" {
                    sent = sent.body(request.body);
                }
                (client.exchange(&sent)?, true)
            }
        };
        if is_kept {
            self.connection = Some(connection);
        }
        Ok(response)
    }

    fn cookies_for(&self, path: &str) -> Option<String> {
        let held = self.cookies.iter().filter(|((_, below), _)| path.starts_with(below.as_str()));
        let pairs: Vec<String> = held.map(|((name, _), value)| format!("{name}={value}")).collect();
        (!pairs.is_empty()).then(|| pairs.join("; "))
    }

    fn keep_cookies(&mut self, response: &Response) {
        for (name, value) in &response.fields {
            if !name.eq_ignore_ascii_case("Set-Cookie") {
                continue;
            }
            let mut parts = value.split(';').map(str::trim);
            let Some((name, value)) = parts.next().and_then(|pair| pair.split_once('=')) else {
                continue;
            };
            let attribute = |wanted: &str| {
                let mut found = parts.clone().filter_map(|part| part.split_once('='));
                found.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value)
            };
            let path = attribute("path").unwrap_or("/").to_string();
            let key = (name.to_string(), path);
            if attribute("max-age") == Some("0") {
                self.cookies.remove(&key);
            } else {
                self.cookies.insert(key, value.to_string());
            }
        }
    }
}

/// Why there is no answer.
#[derive(Debug)]
enum Failure {
    /// The server had closed the connection, as it may between requests.
    Closed,
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Closed => f.write_str("the server closed the connection"),
            Failure::Other(reason) => f.write_str(reason),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(error: ClientError) -> Failure {
        match error {
            ClientError::Closed => Failure::Closed,
            other => Failure::Other(other.to_string()),
        }
    }
}

impl From<Http2Error> for Failure {
    fn from(error: Http2Error) -> Failure {
        match error {
            Http2Error::GoAway(0) => Failure::Closed,
            other => Failure::Other(other.to_string()),
        }
    }
}

impl Page {
    fn of(response: &Response) -> Page {
        let cache = match response.field("X-Cache") {
            None => Cache::Unused,
            Some("MISS") => Cache::Miss,
            Some("BYPASS") => Cache::Bypass,
            Some("EXPIRED") => Cache::Expired,
            Some("STALE") => Cache::Stale,
            Some("UPDATING") => Cache::Updating,
            Some("REVALIDATED") => Cache::Revalidated,
            Some("HIT") => Cache::Hit,
            Some(other) => panic!("an X-Cache of {other:?}"),
        };
        Page {
            status: response.status,
            cache,
            location: response.field("Location").unwrap_or_default().to_string(),
            body: text_of(&unpacked(response.field("Content-Encoding").unwrap_or_default(), &response.body)),
        }
    }

    /// The words of the page, for messages.
    fn text(&self) -> String {
        text_between_tags(&self.body)
    }

    /// Panics unless it is a page from the cache, or not, as `cache` says.
    #[track_caller]
    pub fn is(self, cache: Cache) -> Page {
        assert_eq!((self.status, self.cache), (200, cache), "{}", self.text());
        self
    }

    /// Panics unless the cache answered like this, whatever the status is.
    #[track_caller]
    pub fn went(self, cache: Cache) -> Page {
        assert_eq!(self.cache, cache, "{}", self.text());
        self
    }

    /// Panics unless the page shows `text`.
    #[track_caller]
    pub fn shows(self, text: &str) -> Page {
        assert!(self.body.contains(text), "{text:?} is missing in: {}", self.body);
        self
    }

    /// Panics if the page shows `text`.
    #[track_caller]
    pub fn hides(self, text: &str) -> Page {
        assert!(!self.body.contains(text), "{text:?} is in: {}", self.text());
        self
    }
}

/// What stands between tags in `html`, without styles and scripts: what a message can hold of a page.
fn text_between_tags(html: &str) -> String {
    let mut words = String::new();
    let mut rest = html;
    while let Some((text, tag)) = rest.split_once('<') {
        words.push_str(text);
        words.push(' ');
        let end = ["style", "script"]
            .into_iter()
            .find(|name| tag.starts_with(name))
            .map_or(">".into(), |name| format!("</{name}>"));
        rest = tag.split_once(&end).map_or("", |(_, behind)| behind);
    }
    words.push_str(rest);
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn percent_encoded(value: &str) -> String {
    let bytes = value.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    });
    bytes.collect()
}
