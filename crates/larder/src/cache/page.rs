//! Shows a page on disk to an operator.

use std::io::{self, Write};
use std::path::Path;

use larder_cache::Object;
use larder_store::RecordView;

/// A record with what its head says.
pub struct Page<'a> {
    record: &'a RecordView<'a>,
    head: Option<Object>,
}

impl<'a> Page<'a> {
    /// The page of a record. A head of another version is shown as such.
    pub fn of(record: &'a RecordView<'a>) -> Self {
        Self { record, head: larder_cache::object_of_head(record.head) }
    }

    /// `STATUS BYTES FRESH-UNTIL KEY`.
    pub fn write_line(&self, out: &mut impl Write) -> io::Result<()> {
        let key = printable(self.record.key);
        match &self.head {
            Some(head) => {
                writeln!(out, "{} {:>10} {} {key}", head.status, self.record.body_len, time(head.fresh_until.secs()))
            }
            None => writeln!(out, "??? {:>10} {:<20} {key}", self.record.body_len, "unknown version"),
        }
    }

    /// Everything, over several lines.
    pub fn write_all(&self, folder: &Path, out: &mut impl Write) -> io::Result<()> {
        let record = self.record;
        writeln!(out, "key: {}", printable(record.key))?;
        writeln!(out, "  where: {}, segment {:016x}, at {}", folder.display(), record.segment, record.offset)?;
        writeln!(out, "  body: {} bytes", record.body_len)?;
        let Some(head) = &self.head else { return writeln!(out, "  head: of another version of larder") };
        writeln!(out, "  status: {}", head.status)?;
        writeln!(out, "  stored: {}", time(head.stored_at.secs()))?;
        writeln!(out, "  fresh until: {}", time(head.fresh_until.secs()))?;
        writeln!(out, "  of no use after: {}", time(record.expires_at))?;
        writeln!(out, "  fetched in: {} ms", head.cost_micros / 1000)?;
        for (name, value) in head.vary.values() {
            writeln!(out, "  for requests with {name}: {}", printable(value))?;
        }
        for (name, value) in head.fields.iter() {
            writeln!(out, "  {}: {}", printable(name), printable(value))?;
        }
        Ok(())
    }
}

/// Whether a key matches what the operator wrote: it is the same key, or it ends with the path and query of the URL,
/// and, if it has a host, has the URL's host.
pub fn is_meant(key: &[u8], wanted: &str) -> bool {
    if key == wanted.as_bytes() {
        return true;
    }
    let Some((host, target)) = split(wanted) else { return false };
    let Some(before) = key.strip_suffix(target.as_bytes()) else { return false };
    let before = String::from_utf8_lossy(before);
    let names = before.split_once("://").map_or(&*before, |(_, rest)| rest);
    // Then what is before belongs to the path, so it is another page.
    if names.contains('/') {
        return false;
    }
    // Most keys have the host as sent (`$http_host`) or in lower case (`$host`), with or without the port, or the name
    // of the upstream in its place.
    host.is_none_or(|host| !names.contains('.') || has_host(names, host))
}

/// Whether a key ends with the path and query of what the operator wrote: a URL, perhaps without scheme, or another
/// key.
pub fn is_alike(key: &[u8], wanted: &str) -> bool {
    let rest = wanted.split_once("://").map_or(wanted, |(_, rest)| rest);
    rest.find('/').is_some_and(|at| key.ends_with(&rest.as_bytes()[at..]))
}

/// The host of a URL, if it has one, and its path and query. `None` for a key that is not a URL.
fn split(wanted: &str) -> Option<(Option<&str>, &str)> {
    match wanted.split_once("://") {
        Some((_, rest)) => Some(match rest.find(['/', '?']) {
            Some(at) => (Some(&rest[..at]), &rest[at..]),
            None => (Some(rest), "/"),
        }),
        None => wanted.starts_with('/').then_some((None, wanted)),
    }
}

/// Whether `names` has the host, ignoring case, and not with another port.
fn has_host(names: &str, host: &str) -> bool {
    let (name, port) = split_port(host);
    let (names, name) = (names.to_ascii_lowercase(), name.to_ascii_lowercase());
    names.match_indices(&name).any(|(at, _)| {
        let behind = names[at + name.len()..].strip_prefix(':').unwrap_or_default();
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        port.is_empty() || digits == 0 || &behind[..digits] == port
    })
}

/// A host's name, and its port, which may be empty.
fn split_port(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
        _ => (host, ""),
    }
}

/// The text, escaped so that it does no harm to a terminal.
pub fn printable(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b' '..=b'~' => text.push(char::from(byte)),
            _ => text.push_str(&format!("\\x{byte:02x}")),
        }
    }
    text
}

/// A second since 1970 as a date.
pub fn time(secs: u64) -> String {
    let time = i64::try_from(secs).ok().and_then(|secs| jiff::Timestamp::from_second(secs).ok());
    time.map_or_else(|| "never".to_owned(), |time| time.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_means_the_keys_that_sites_make_of_it() {
        for (key, wanted, meant) in [
            ("httpsGETexample.org/a?b=1", "https://example.org/a?b=1", true),
            ("httpsGETexample.org/a?b=1", "https://example.org/a", false),
            ("httpsGETexample.org/a", "https://example.com/a", false),
            ("httpsGETexample.org/x/a", "https://example.org/a", false),
            ("http://php/a", "https://example.org/a", true),
            ("/a", "https://example.org/a", true),
            ("/a", "/a", true),
            ("/x/a", "/a", false),
            ("httpsGETexample.org/", "https://example.org", true),
            ("http://127.0.0.1/a", "http://127.0.0.1:8080/a", true),
            ("http://127.0.0.1:8080/a", "http://127.0.0.1:8080/a", true),
            ("http://127.0.0.1:8081/a", "http://127.0.0.1:8080/a", false),
            ("http://127.0.0.1/a", "http://127.0.0.2:8080/a", false),
            ("httpsGETexample.org/a", "https://Example.ORG:8443/a", true),
            ("httpshop.test:8080/p2", "http://shop.test:8080/p2", true),
            ("httpshop.test:8080/p2", "http://Shop.Test:8080/p2", true),
            ("httpshop.test:8080/p2", "http://SHOP.test/p2", true),
            ("httpshop.test:8080/p2", "http://SHOP.test:8081/p2", false),
            ("httpshop.test:8080/p2", "http://shop.test:80/p2", false),
            ("httpshop.test:8080/p2", "http://other.test:8080/p2", false),
            ("httpShop.Test:8080/p2", "http://shop.test:8080/p2", true),
            ("shop.test:GET/p2", "http://shop.test:8080/p2", true),
            ("http://[::1]/a", "http://[::1]:8080/a", true),
            ("http://[::1]:8080/a", "http://[::1]:8080/a", true),
            ("http://[::1.2.3.4]:8081/a", "http://[::1.2.3.4]:8080/a", false),
            ("any key", "any key", true),
            ("any key", "key", false),
        ] {
            assert_eq!(is_meant(key.as_bytes(), wanted), meant, "{key} {wanted}");
        }
    }

    #[test]
    fn a_key_is_alike_that_ends_in_the_same_path() {
        for (key, wanted, alike) in [
            ("http://10.0.0.1/a?b=1", "https://shop.test/a?b=1", true),
            ("http://10.0.0.1/a?b=1", "shop.test/a?b=1", true),
            ("http://10.0.0.1/a?b=1", "GET|shop.test/a", false),
            ("http://10.0.0.1/", "https://shop.test/", true),
            ("http://10.0.0.1/", "shop.test", false),
        ] {
            assert_eq!(is_alike(key.as_bytes(), wanted), alike, "{key} {wanted}");
        }
    }

    #[test]
    fn what_could_harm_a_terminal_is_spelled_out() {
        assert_eq!(printable(b"/a\x1b[2J\xff"), "/a\\x1b[2J\\xff");
        assert_eq!((time(0), time(u64::MAX)), ("1970-01-01T00:00:00Z".to_owned(), "never".to_owned()));
    }
}
