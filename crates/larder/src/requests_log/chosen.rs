//! Which requests are shown: all that was asked for has to be true, of one option that was given several times any.

use std::net::IpAddr;
use std::time::Duration;

use larder_vsl::Pattern;

use super::options::Wanted;
use super::seen::Seen;
use crate::vsl::regex;

/// The requests that are shown.
#[derive(Debug)]
pub struct Chosen {
    wanted: Wanted,
    matches: Vec<Box<dyn Pattern>>,
}

impl Chosen {
    /// Those of a command line. The error says what is wrong with a regular expression.
    pub fn new(wanted: Wanted) -> Result<Self, String> {
        let matches = wanted.matches.iter().map(|source| regex::compile(source, false)).collect::<Result<_, _>>()?;
        Ok(Self { wanted, matches })
    }

    /// Whether this one is shown.
    pub fn takes(&self, seen: &Seen<'_>) -> bool {
        let Wanted { hosts, urls, matches: _, methods, statuses, caches, from, slow, failed } = &self.wanted;
        let host = without_port(seen.host);
        let verdict = seen.verdict();
        let client: Option<IpAddr> = str::from_utf8(seen.client).ok().and_then(|text| text.parse().ok());
        any(hosts, |own| host.eq_ignore_ascii_case(own.as_bytes()))
            && any(urls, |own| seen.url.starts_with(own.as_bytes()))
            && any(&self.matches, |own| own.is_match(seen.url) == Some(true))
            && any(methods, |own| seen.method.eq_ignore_ascii_case(own.as_bytes()))
            && any(statuses, |own| seen.status.is_some_and(|status| own.contains(&status)))
            && any(caches, |own| match own.as_str() {
                "none" => verdict.is_empty(),
                own => verdict.eq_ignore_ascii_case(own.as_bytes()),
            })
            && any(from, |own| client.is_some_and(|client| own.contains(&client)))
            && slow.is_none_or(|slow| seen.seconds.and_then(seconds).is_some_and(|took| took >= slow))
            && (!failed || !seen.errors.is_empty() || seen.status.is_some_and(|status| status >= 500))
    }
}

/// Whether something is true of any, or nothing was asked for.
fn any<T>(all: &[T], is_so: impl Fn(&T) -> bool) -> bool {
    all.is_empty() || all.iter().any(is_so)
}

fn seconds(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok()
}

/// A host without its port; an address of IPv6 stands in brackets.
fn without_port(host: &[u8]) -> &[u8] {
    match host.iter().rposition(|byte| *byte == b':') {
        Some(colon) if host[colon..].iter().all(|byte| *byte != b']') => &host[..colon],
        _ => host,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::options;
    use super::*;
    use crate::vsl::options::CommandLine;

    fn takes(line: &str, seen: &Seen<'_>) -> bool {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let Ok(CommandLine::Show(show)) = options::parse(&words) else { panic!("{line}") };
        Chosen::new(show.wanted).unwrap().takes(seen)
    }

    #[test]
    fn all_options_have_to_be_true_and_any_of_one() {
        let seen = Seen {
            began: Some(1.0),
            seconds: Some(0.5),
            client: b"10.1.2.3",
            method: b"GET",
            host: b"Site.test:8080",
            url: b"/shop/cart?x=1",
            status: Some(503),
            cache: b"MISS",
            ..Seen::default()
        };
        for (line, expected) in [
            ("", true),
            ("--host site.test", true),
            ("--host site.tes", false),
            ("--host a --host site.test", true),
            ("--host site.test --method POST", false),
            ("--url /shop/", true),
            ("--url /cart", false),
            ("--match cart[?]", true),
            ("--match ^cart", false),
            ("--method get", true),
            ("--status 503", true),
            ("--status 5xx", true),
            ("--status 200-302", false),
            ("--status 200 --status 500-503", true),
            ("--cache miss", true),
            ("--cache hit --cache stale", false),
            ("--cache none", false),
            ("--from 10.0.0.0/8", true),
            ("--from 10.1.2.4", false),
            ("--slow 500ms", true),
            ("--slow 0.6s", false),
            ("--failed", true),
        ] {
            assert_eq!(takes(line, &seen), expected, "{line}");
        }
        // What is not known is not what is asked for.
        let nothing = Seen::default();
        for line in ["--host a", "--url /", "--status 200", "--cache hit", "--from ::/0", "--slow 0s", "--failed"] {
            assert!(!takes(line, &nothing), "{line}");
        }
        assert!(takes("--cache none", &nothing) && takes("", &nothing));
    }
}
