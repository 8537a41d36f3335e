//! `larder_refill` and `larder_warm`: pages that are fetched without a visitor.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{Action, Args, DirectiveInfo, HSL, directive};
use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{Purging, Sitemap, Warm};
use crate::tree::{Directive, Word};
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    directive("larder_refill", HSL, Args::AtLeast(1), Action::Level(refill)),
    directive("larder_warm", HSL, Args::AtLeast(1), Action::Level(warm)),
];

/// More pages in a second are an attack on the origin.
const PER_SECOND_MAX: u32 = 1000;
/// Where `ahead=` begins a life of a page at its half, most of what is fetched was fresh.
const AHEAD_PERCENT_MAX: u64 = 50;
const HITS_MAX: u64 = 1_000_000;
/// Sitemaps are made by the origin, and change seldom.
const EVERY_MIN: Duration = Duration::from_secs(60);

/// `N per second`, or `off`.
fn refill(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let purging = level.purging();
    purging.refill = match &d.args[..] {
        [word] if word.text == "off" => None,
        [number, per, second] if is_per_second(per, second) => Some(per_second(number)?),
        _ => {
            return Err(Diagnostic::error("invalid parameters of \"larder_refill\"")
                .at(d.arg(0).span)
                .label("write how many pages are fetched, such as \"5 per second\", or \"off\""));
        }
    };
    purging.has_refill = true;
    purging.counts_hits = purging.refill.is_some() || purging.warm.is_some();
    Ok(())
}

fn set(purging: &mut Purging, warm: Option<Warm>) {
    if !purging.has_refill {
        purging.refill = warm.as_ref().map(|warm| warm.per_second);
    }
    purging.counts_hits = purging.refill.is_some() || warm.is_some();
    purging.warm = warm;
}

/// `N per second [sitemap=URL]... [every=TIME] [ahead=PERCENT|off] [hits=NUMBER]`, or `off`.
fn warm(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let (number, options) = match &d.args[..] {
        [word] if word.text == "off" => {
            set(level.purging(), None);
            return Ok(());
        }
        [number, per, second, options @ ..] if is_per_second(per, second) => (number, options),
        _ => {
            return Err(Diagnostic::error("invalid parameters of \"larder_warm\"")
                .at(d.arg(0).span)
                .label("write how many pages are fetched, such as \"5 per second sitemap=/sitemap.xml\", or \"off\""));
        }
    };
    let mut warm = Warm {
        per_second: per_second(number)?,
        ahead_percent: Some(10),
        hits: 3,
        sitemaps: Vec::new(),
        every: Duration::from_secs(3600),
    };
    let mut every = None;
    for (at, word) in options.iter().enumerate() {
        let name = |word: &Word| word.text.split('=').next().map(str::to_owned);
        let is_twice =
            options[..at].iter().any(|before| name(before) == name(word) && !word.text.starts_with("sitemap="));
        if is_twice || options[..at].iter().any(|before| before.text == word.text) {
            return Err(Diagnostic::error(format!("\"{}\" of \"larder_warm\" is said twice", word.text)).at(word.span));
        }
        match word.text.split_once('=') {
            Some(("sitemap", _)) if level.context != Contexts::HTTP && level.context != Contexts::SERVER => {
                return Err(Diagnostic::error("\"sitemap=\" of \"larder_warm\" is not allowed here")
                    .at(word.span)
                    .label("a sitemap names pages of a whole server: write it in \"server\" or \"http\""));
            }
            Some(("sitemap", value)) => warm.sitemaps.push(sitemap(level, d, word, value)?),
            Some(("every", value)) => {
                let time = values::time(value).filter(|time| *time >= EVERY_MIN);
                warm.every = time.ok_or_else(|| d.invalid_parameter_value(word, "a time of a minute or more"))?;
                every = Some(word);
            }
            Some(("ahead", "off")) => warm.ahead_percent = None,
            Some(("ahead", value)) => {
                let percent = value.strip_suffix('%').and_then(values::number);
                let percent = percent.filter(|percent| (1..=AHEAD_PERCENT_MAX).contains(percent));
                let percent = percent.and_then(|percent| u8::try_from(percent).ok());
                let wanted = format!("\"off\" or a part of a page's life from 1% to {AHEAD_PERCENT_MAX}%");
                warm.ahead_percent = Some(percent.ok_or_else(|| d.invalid_parameter_value(word, &wanted))?);
            }
            Some(("hits", value)) => {
                let hits = values::number(value).filter(|hits| (1..=HITS_MAX).contains(hits));
                let hits = hits.and_then(|hits| u32::try_from(hits).ok());
                let wanted = format!("a number from 1 to {HITS_MAX}");
                warm.hits = hits.ok_or_else(|| d.invalid_parameter_value(word, &wanted))?;
            }
            Some(_) | None => return Err(d.unknown_parameter(word, &["sitemap", "every", "ahead", "hits"])),
        }
    }
    if let Some(word) = every.filter(|_| warm.sitemaps.is_empty()) {
        return Err(Diagnostic::error("\"every=\" of \"larder_warm\" needs a \"sitemap=\"")
            .at(word.span)
            .label("it says how often sitemaps are read"));
    }
    set(level.purging(), Some(warm));
    Ok(())
}

fn is_per_second(per: &Word, second: &Word) -> bool {
    per.text == "per" && second.text == "second"
}

fn per_second(number: &Word) -> Outcome<NonZeroU32> {
    let pages = number.text.parse().ok().filter(|pages| (1..=PER_SECOND_MAX).contains(pages)).and_then(NonZeroU32::new);
    pages.ok_or_else(|| {
        Diagnostic::error(format!("invalid number of pages \"{}\"", number.text))
            .at(number.span)
            .label(format!("from 1 to {PER_SECOND_MAX} pages are fetched in a second"))
    })
}

/// A path of the server, or a URL.
fn sitemap(level: &Level, d: &Directive, word: &Word, value: &str) -> Outcome<Sitemap> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'$' && byte != b'#');
    let found = match value.split_once("://") {
        None if value.starts_with('/') && !value.starts_with("//") => {
            Some(Sitemap::Path { uri: value.to_owned(), is_for_all: level.context == Contexts::HTTP })
        }
        None => None,
        Some((scheme, rest)) => url(scheme, rest),
    };
    found.filter(|_| is_plain).ok_or_else(|| {
        d.invalid_parameter_value(
            word,
            "a path, such as /sitemap.xml, or a URL such as https://example.com/sitemap.xml",
        )
    })
}

fn url(scheme: &str, rest: &str) -> Option<Sitemap> {
    let is_https = match scheme {
        "https" => true,
        "http" => false,
        _ => return None,
    };
    let (authority, uri) = rest.split_at(rest.find('/')?);
    let (host, port) = match authority.split_once(':') {
        None => (authority, None),
        Some((host, port)) => (host, Some(port.parse().ok().filter(|port| *port > 0)?)),
    };
    let is_host = !host.is_empty() && !host.contains(['@', '?', '[']);
    is_host.then(|| Sitemap::Url { is_https, host: host.to_ascii_lowercase(), port, uri: uri.to_owned() })
}
