//! The purges that plugins of content systems send, byte by byte, and what is fetched again after each.
//!
//! A VCL here is in our own words and does what the published one of the plugin does: the same methods, headers, ban
//! expressions and answers. Each test names what it follows. varnishd 7.1 passes them, too, but for the one with words in
//! quotes to the CLI: it refuses a second one by mistake.

mod by_directives;
mod cli;
mod context;
mod drupal;
mod fos;
mod litespeed;
mod magento;
mod shopware;
mod wordpress;

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use larder_testkit::{Answer, Origin, OriginSeen, Response, free_port};

use crate::running_varnishd::{Varnishd, response};

/// A page: its host, its path, and the fields of its answer, each `Name: value`.
pub type Page = (&'static str, &'static str, &'static [&'static str]);

/// A site with a VCL, whose pages are in the cache when a purge comes.
pub struct Cached {
    pub origin: Origin,
    pub varnishd: Varnishd,
    /// Where clients come in that a PROXY header tells of.
    proxied: SocketAddr,
    pages: &'static [Page],
}

/// What is found of a page: `hit`, `stale` if its time is over, or `miss`.
const FOUND: &str = "
sub vcl_deliver {
    if (obj.hits == 0) { set resp.http.X-Found = \"miss\"; }
    elsif (obj.ttl <= 0s) { set resp.http.X-Found = \"stale\"; }
    else { set resp.http.X-Found = \"hit\"; }
}
";

impl Cached {
    /// Serves `vcl`, which has neither a version nor a backend.
    pub fn start(vcl: &str, pages: &'static [Page]) -> Cached {
        let origin = Origin::start().unwrap();
        for (_, path, fields) in pages {
            let answer = fields.iter().filter_map(|field| field.split_once(": "));
            let answer = answer.fold(Answer::ok("page"), |answer, (name, value)| answer.field(name, value));
            origin.answer(*path, answer.field("Cache-Control", "max-age=3600"));
        }
        let proxied = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let port = origin.address().port();
        let vcl = format!(
            "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\n\
             acl purgers {{ \"127.0.0.1\"; }}\n{FOUND}{vcl}"
        );
        let varnishd = Varnishd::serve(&vcl, &["-a", &format!("{proxied},PROXY")]);
        Cached { origin, varnishd, proxied, pages }
    }

    /// A purger sends the request: it is answered by this status and reason, and these pages, each host and path, are
    /// fetched again, and no other. A stranger sends the same: `stranger` is the answer, and nothing happens to a page.
    pub fn purges(&self, request: &str, expected: &str, gone: &[&str], stranger: &str) {
        self.is_refused(request, stranger);
        self.fill();
        assert_eq!(reason(&self.varnishd.play(&wire(request))), expected, "{request}");
        assert_eq!(self.missed(), gone.iter().map(|page| (*page).to_owned()).collect(), "{request}");
    }

    /// A stranger sends the request: it is answered by this status and reason, and all pages stay.
    pub fn is_refused(&self, request: &str, expected: &str) {
        self.fill();
        let behind_proxy = format!("PROXY TCP4 192.0.2.7 192.0.2.1 4711 80\r\n{}", wire(request));
        assert_eq!(reason(&response(self.proxied, &behind_proxy)), expected, "a stranger: {request}");
        assert_eq!(self.missed(), BTreeSet::new(), "a stranger: {request}");
    }

    /// Has all pages in the cache, fresh.
    pub fn fill(&self) {
        for (host, path, _) in self.pages {
            self.found(host, path);
            // A stale page is fetched in the background.
            crate::site::eventually("it is in the cache", || self.found(host, path) == "hit");
        }
    }

    /// The pages that are fetched again now. What the response says and what the origin sees agree.
    fn missed(&self) -> BTreeSet<String> {
        let mut missed = BTreeSet::new();
        for (host, path, _) in self.pages {
            let before = self.asked(host, path);
            let found = self.found(host, path);
            // A stale page is fetched in the background.
            let is_asked_for = found != "stale" && self.asked(host, path) > before;
            assert_eq!(is_asked_for, found == "miss", "{host}{path} is a {found}");
            if found != "hit" {
                missed.insert(format!("{host}{path}"));
            }
        }
        missed
    }

    /// How often the origin was asked for a page.
    fn asked(&self, host: &str, path: &str) -> usize {
        let target = format!("GET {path} HTTP/1.1");
        let is_meant = |seen: &&OriginSeen| seen.request_line == target && seen.field("Host") == Some(host);
        self.origin.requests().iter().filter(is_meant).count()
    }

    /// What is found of a page.
    pub fn found(&self, host: &str, path: &str) -> String {
        let response = self.varnishd.play(&wire(&format!("GET {path} HTTP/1.1\nHost: {host}\n")));
        assert_eq!((response.status, response.body.as_slice()), (200, &b"page"[..]), "{host}{path}");
        response.field("X-Found").expect("the VCL says it").to_owned()
    }
}

/// The bytes of a request that is written in lines, one to a connection.
pub fn wire(request: &str) -> String {
    format!("{}\r\nConnection: close\r\n\r\n", request.trim_end().replace('\n', "\r\n"))
}

/// The status and the reason of a response.
pub fn reason(response: &Response) -> String {
    response.status_line.split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap_or_default()
}
