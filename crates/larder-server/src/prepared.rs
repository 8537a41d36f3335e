//! The fields of a stored page as bytes: laid out once, sent with every plain hit.

use std::hash::{Hash, Hasher};

use larder_cache::Prepared;
use larder_http::h2::hpack;
use larder_http::{Fields, Known, KnownSet};
use xxhash_rust::xxh3::Xxh3;

/// How a location lays out the fields of stored pages, with a fingerprint of that.
///
/// The location that stores a page lays it out; the result carries the location's fingerprint. Every location with the
/// same fingerprint sends it unchanged: the same location after a reload, and others that share the page, whatever they
/// add for each request (`add_header`, a charset, `expires`).
///
/// Everything in `Rules` goes into the fingerprint by its `Hash`, and [`PreparedRules::prepare`] reads nothing else
/// of a configuration. Whether HTTP/2 is spoken is no rule: a response by HTTP/2 checks whether there is a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedRules {
    rules: Rules,
    fingerprint: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Rules {
    /// The fields that clients do not get: lower case, sorted, each once.
    hidden: Vec<Box<[u8]>>,
    /// Whether cookies are rewritten, which has to be done for each request.
    rewrites_cookies: bool,
    /// Whether pages keep the date of their origin, and are sent with their age: RFC 9111.
    tells_age: bool,
}

impl PreparedRules {
    /// The rules of a location that hides fields with these names.
    pub fn new<'a>(hidden: impl IntoIterator<Item = &'a [u8]>, rewrites_cookies: bool, tells_age: bool) -> Self {
        let mut hidden: Vec<Box<[u8]>> = hidden.into_iter().map(|name| name.to_ascii_lowercase().into()).collect();
        hidden.sort();
        hidden.dedup();
        let rules = Rules { hidden, rewrites_cookies, tells_age };
        let mut hasher = Xxh3::new();
        rules.hash(&mut hasher);
        Self { rules, fingerprint: hasher.finish() }
    }

    /// Whether `prepared` was made under these rules.
    #[inline]
    pub fn made(&self, prepared: &Prepared) -> bool {
        prepared.rules == self.fingerprint
    }

    /// Lays out the fields of a page, with `with_block` also as a field block of HTTP/2. `None` if they are not the
    /// same for every request.
    pub fn prepare(&self, fields: &Fields, with_block: bool) -> Option<Prepared> {
        let mut lines = Vec::with_capacity(512);
        let mut block = Vec::with_capacity(if with_block { 512 } else { 0 });
        // One that was stored under other rules.
        if self.rules.tells_age && !fields.contains_known(Known::Date) {
            return None;
        }
        for (known, name, value) in fields.iter_known() {
            if self.rules.tells_age && known == Known::Age {
                continue;
            }
            // The origin's orders to larder are followed at every delivery.
            if matches!(known, Known::XAccelLimitRate | Known::XAccelCharset) {
                return None;
            }
            if is_own(known) || self.rules.hidden.iter().any(|hidden| hidden.eq_ignore_ascii_case(name)) {
                continue;
            }
            // A redirect may name the host that this client requested; the origin's own `Date` or `Server` replaces
            // ours; a stored cookie may be rewritten.
            if matches!(known, Known::Location | Known::Refresh | Known::Server)
                || (!self.rules.tells_age && known == Known::Date)
                || (self.rules.rewrites_cookies && known == Known::SetCookie)
            {
                return None;
            }
            let name = written_name(known, name);
            lines.extend_from_slice(name);
            lines.extend_from_slice(b": ");
            lines.extend_from_slice(value);
            lines.extend_from_slice(b"\r\n");
            if with_block {
                hpack::encode_field(name, value, &mut block);
            }
        }
        Some(Prepared { rules: self.fingerprint, lines: lines.into(), block: block.into() })
    }
}

/// The name of a field as it is sent; for `Content-Type`, nginx has its own spelling.
pub fn written_name(known: Known, name: &[u8]) -> &[u8] {
    if known == Known::ContentType { CONTENT_TYPE.as_bytes() } else { name }
}

/// The spelling of nginx.
pub const CONTENT_TYPE: &str = "Content-Type";

/// Fields that the delivery writes itself, or that concern only the connection to the origin.
pub fn is_own(known: Known) -> bool {
    OWN.contains(known)
}

/// Their names.
pub const OWN: KnownSet =
    KnownSet::of(&[Known::Connection, Known::KeepAlive, Known::TransferEncoding, Known::ContentLength]);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::site_of;

    /// The rules of a location with these directives.
    fn rules(http: &str, location: &str) -> Option<PreparedRules> {
        let text = format!("events {{}} http {{ {http} server {{ location / {{ {location} }} }} }}");
        let site = site_of(&text);
        let origin = site.locations.iter().find_map(|loc| loc.handler.origin()).expect("one location has an origin");
        origin.backend.prepared_by.clone()
    }

    const PASS: &str = "proxy_pass http://127.0.0.1:1;";

    #[test]
    fn locations_share_what_is_laid_out_by_the_same_rules() {
        let plain = rules("", PASS).expect("nothing is different for each request");
        for (http, location) in [
            ("", ""),
            ("", "add_header X-Site two always;"),
            ("", "add_trailer X-Site two;"),
            ("", "expires 1h;"),
            ("", "more_set_headers 'X-Site: two';"),
            ("http2 on;", ""),
            ("charset_map koi8-r utf-8 { 80 E282AC; }", ""),
            ("", "gzip on; gzip_vary on;"),
            ("", "sub_filter a b;"),
            ("", "proxy_redirect off;"),
            ("", "proxy_intercept_errors on; proxy_ignore_headers X-Accel-Expires X-Accel-Charset;"),
            ("", "proxy_hide_header X-Pad; proxy_hide_header DATE;"),
            ("", "proxy_http_version 1.1; proxy_set_header Host b;"),
            ("proxy_cache_path /tmp/larder-none keys_zone=pages:10m;", "proxy_cache pages; proxy_cache_valid 1h;"),
        ] {
            assert_eq!(rules(http, &format!("{location} {PASS}")), Some(plain.clone()), "{http} {location}");
        }
        let hidden = |names| rules("", &format!("{names} {PASS}")).map(|rules| rules.fingerprint);
        assert_eq!(
            hidden("proxy_hide_header X-A; proxy_hide_header X-B;"),
            hidden("proxy_hide_header x-b; proxy_hide_header x-a; proxy_hide_header X-A;"),
        );
    }

    #[test]
    fn other_rules_have_another_fingerprint() {
        let all = [
            PASS,
            "proxy_hide_header X-Powered-By; proxy_pass http://127.0.0.1:1;",
            "proxy_hide_header X-Powered; proxy_hide_header -By; proxy_pass http://127.0.0.1:1;",
            "proxy_pass_header X-Pad; proxy_pass http://127.0.0.1:1;",
            "proxy_pass_header X-Accel-Expires; proxy_pass http://127.0.0.1:1;",
            "proxy_cookie_path / /b; proxy_pass http://127.0.0.1:1;",
            "fastcgi_pass 127.0.0.1:1;",
        ]
        .map(|location| (location, rules("", location).expect("nothing is different for each request").fingerprint));
        for (at, (location, fingerprint)) in all.iter().enumerate() {
            for (other, its) in &all[..at] {
                assert_ne!(fingerprint, its, "{location} and {other}");
            }
        }
        // All rewriting of cookies is one rule: such pages are laid out for each request.
        let flags = rules("", &format!("proxy_cookie_flags a secure; {PASS}"));
        assert_eq!(flags, rules("", &format!("proxy_cookie_domain a b; {PASS}")));
    }

    #[test]
    fn what_is_different_for_each_request_is_not_laid_out() {
        for location in ["charset utf-8;", "proxy_pass_header Server;", "proxy_pass_header Date;"] {
            assert_eq!(rules("", &format!("{location} {PASS}")), None, "{location}");
        }
        let rewriting = PreparedRules::new([&b"Server"[..]], true, false);
        for (name, rewrites, is_prepared) in [
            ("X-A", true, true),
            ("Set-Cookie", false, true),
            ("Set-Cookie", true, false),
            ("Location", false, false),
            ("Refresh", false, false),
            ("Date", false, false),
            ("Server", false, true),
            ("X-Accel-Limit-Rate", false, false),
            ("X-Accel-Charset", false, false),
        ] {
            let rules = if rewrites { rewriting.clone() } else { PreparedRules::new([&b"server"[..]], false, false) };
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), b"1");
            let prepared = rules.prepare(&fields, false);
            assert_eq!(prepared.is_some(), is_prepared, "{name}");
            assert!(prepared.is_none_or(|prepared| rules.made(&prepared) && prepared.block.is_empty()), "{name}");
        }
    }

    #[test]
    fn what_is_laid_out_leaves_out_hidden_fields_and_those_of_the_connection() {
        let mut fields = Fields::new();
        for (name, value) in [
            ("x-A", "1"),
            ("connection", "close"),
            ("content-type", "text/html"),
            ("X-HIDDEN", "2"),
            ("Content-Length", "3"),
        ] {
            fields.push(name.as_bytes(), value.as_bytes());
        }
        let rules = PreparedRules::new([&b"X-Hidden"[..]], false, false);
        let prepared = rules.prepare(&fields, true).expect("it is the same for all");
        assert_eq!(&*prepared.lines, b"x-A: 1\r\nContent-Type: text/html\r\n");
        let mut block = Vec::new();
        hpack::encode_field(b"x-A", b"1", &mut block);
        hpack::encode_field(b"Content-Type", b"text/html", &mut block);
        assert_eq!(&*prepared.block, block);
        assert!(!PreparedRules::new([], false, false).made(&prepared));
    }
}
