//! The options of `larder log`.

use std::ffi::OsString;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use larder_source::nearest;
use larder_vsl::Grouping;
use lexopt::Parser;

use crate::ask::options::ConfigurationPlace;
use crate::vsl::options::{CommandLine, Place, QueryPlace, Reading};

/// What a command line of `larder log` asks for.
pub type Log = CommandLine<Show>;

/// What is shown, and of which server.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// Its place is that of `-n` or `-r`, if one was given.
    pub reading: Reading,
    /// The server, unless `-n` or `-r` names it.
    pub server: Option<Server>,
    pub wanted: Wanted,
    /// `--json`.
    pub json: bool,
}

/// A server, by what it was started with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Server {
    /// `-c`, `-p`, `-g`.
    Configuration(ConfigurationPlace),
    /// `--pid`.
    PidFile(PathBuf),
}

/// Which requests are shown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// `--host`.
    pub hosts: Vec<String>,
    /// `--url`: the beginnings of path and query.
    pub urls: Vec<String>,
    /// `--match`: regular expressions for path and query.
    pub matches: Vec<String>,
    /// `--method`.
    pub methods: Vec<String>,
    /// `--status`.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// `--cache`, in lower case.
    pub caches: Vec<String>,
    /// `--from`.
    pub from: Vec<IpNet>,
    /// `--slow`: how long a request has to take at least.
    pub slow: Option<Duration>,
    /// `--failed`.
    pub failed: bool,
}

impl AsRef<Reading> for Show {
    fn as_ref(&self) -> &Reading {
        &self.reading
    }
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// An unknown option, or a word that belongs to none, and what may be meant.
    #[error("invalid option: \"{0}\"{1}")]
    Unknown(String, String),
    /// An option without its value.
    #[error("option \"{0}\" requires {1}")]
    MissingValue(&'static str, &'static str),
    /// A value that is none of its option's.
    #[error("\"{0} {1}\": write {2}")]
    Value(&'static str, String, &'static str),
    /// Two servers.
    #[error("-c, --pid, -n and -r exclude each other: one log is shown")]
    Places,
}

/// Reads the words behind `log`.
pub fn parse(args: &[OsString]) -> Result<Log, OptionsError> {
    use lexopt::prelude::*;

    let mut reading = Reading { grouping: Grouping::Request, ..Reading::usual("log") };
    let (mut wanted, mut options, mut pid_file, mut json) =
        (Wanted::default(), ConfigurationPlace::default(), None, false);
    let mut places = Vec::new();
    let mut parser = Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string(), String::new()))? {
        match arg {
            Short('h' | '?') | Long("help") => return Ok(CommandLine::Help),
            Short('c') => options.conf_file = Some(next(&mut parser, "-c", "file name")?.into()),
            Short('p') => options.prefix = Some(next(&mut parser, "-p", "directory name")?.into()),
            Short('g') => options.globals = Some(text(&mut parser, "-g", "directives")?),
            Short('n') => places.push(Place::Server(Some(next(&mut parser, "-n", "a folder or a socket")?.into()))),
            Short('r') => places.push(Place::File(next(&mut parser, "-r", "a file")?.into())),
            Long("pid") => pid_file = Some(PathBuf::from(next(&mut parser, "--pid", "file name")?)),
            Short('q') => {
                reading.queries.push(QueryPlace::Here(text(&mut parser, "-q", "a query of varnishlog")?.into_bytes()));
            }
            Short('k') => {
                let count = |text: &str| text.parse().ok().filter(|count| *count > 0);
                reading.groups_max = Some(of(&mut parser, "-k", "a number above 0", count)?);
            }
            Short('d') | Long("kept") => reading.kept = true,
            Long("json") => json = true,
            Long("host") => wanted.hosts.push(text(&mut parser, "--host", "a host")?),
            Long("url") => wanted.urls.push(text(&mut parser, "--url", "the beginning of a path")?),
            Long("match") => wanted.matches.push(text(&mut parser, "--match", "a regular expression")?),
            Long("method") => wanted.methods.push(text(&mut parser, "--method", "a method")?),
            Long("status") => {
                wanted.statuses.push(of(&mut parser, "--status", "a status, such as 404, 5xx or 500-503", statuses)?);
            }
            Long("cache") => wanted.caches.push(of(&mut parser, "--cache", CACHE_WORDS_TEXT, cache_word)?),
            Long("from") => wanted.from.push(of(&mut parser, "--from", "an address or a network", network)?),
            Long("slow") => wanted.slow = Some(of(&mut parser, "--slow", "a time, such as 500ms, 2s or 1.5", time)?),
            Long("failed") => wanted.failed = true,
            Value(word) => return Err(unknown(word.to_string_lossy().into_owned())),
            Short(letter) => return Err(unknown(format!("-{letter}"))),
            Long(name) => return Err(unknown(format!("--{name}"))),
        }
    }
    let is_by_configuration = options != ConfigurationPlace::default();
    let server = match (pid_file, places.len()) {
        (None, 0) => Some(Server::Configuration(options)),
        (Some(path), 0) if !is_by_configuration => Some(Server::PidFile(path)),
        (None, 1) if !is_by_configuration => None,
        _ => return Err(OptionsError::Places),
    };
    if let Some(place) = places.pop() {
        reading.place = place;
    }
    Ok(CommandLine::Show(Box::new(Show { reading, server, wanted, json })))
}

/// The value of an option.
fn next(parser: &mut Parser, option: &'static str, what: &'static str) -> Result<OsString, OptionsError> {
    parser.value().map_err(|_| OptionsError::MissingValue(option, what))
}

/// What the value means; `what` says what would mean something.
fn of<T>(
    parser: &mut Parser,
    option: &'static str,
    what: &'static str,
    read: impl FnOnce(&str) -> Option<T>,
) -> Result<T, OptionsError> {
    let value = next(parser, option, what)?;
    let meant = value.to_str().and_then(read);
    meant.ok_or_else(|| OptionsError::Value(option, value.to_string_lossy().into_owned(), what))
}

fn text(parser: &mut Parser, option: &'static str, what: &'static str) -> Result<String, OptionsError> {
    // An empty one, as of a variable of a shell that is not set, would mean other requests.
    of(parser, option, what, |text| (!text.is_empty()).then(|| text.to_owned()))
}

/// `404`, `5xx`, `500-503`.
fn statuses(text: &str) -> Option<RangeInclusive<u16>> {
    let status = |text: &str| text.parse::<u16>().ok().filter(|status| (100..1000).contains(status));
    if let Some(class) = text.strip_suffix("xx") {
        let class = class.parse::<u16>().ok().filter(|class| (1..=9).contains(class))?;
        return Some(class * 100..=class * 100 + 99);
    }
    match text.split_once('-') {
        Some((first, last)) => Some(status(first)?..=status(last)?).filter(|range| !range.is_empty()),
        None => status(text).map(|one| one..=one),
    }
}

fn cache_word(text: &str) -> Option<String> {
    let word = text.to_ascii_lowercase();
    CACHE_WORDS.contains(&word.as_str()).then_some(word)
}

fn network(text: &str) -> Option<IpNet> {
    text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(IpNet::from))
}

/// `500ms`, `2s`, `1.5`.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 0.001),
        (None, Some(number)) => (number, 1.0),
        (None, None) => (text, 1.0),
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * unit).ok()
}

fn unknown(word: String) -> OptionsError {
    let near = nearest(&word, LONG.iter().copied()).filter(|_| word.starts_with("--"));
    let help = near.map(|near| format!(": did you mean \"{near}\"?")).unwrap_or_default();
    OptionsError::Unknown(word, help)
}

const LONG: [&str; 13] = [
    "--host", "--url", "--match", "--method", "--status", "--cache", "--from", "--slow", "--failed", "--json",
    "--kept", "--pid", "--help",
];
/// What the cache says, of an nginx.conf or of a VCL.
const CACHE_WORDS: [&str; 13] = [
    "hit",
    "miss",
    "expired",
    "stale",
    "updating",
    "revalidated",
    "bypass",
    "pass",
    "hitmiss",
    "hitpass",
    "pipe",
    "synth",
    "none",
];
const CACHE_WORDS_TEXT: &str =
    "hit, miss, expired, stale, updating, revalidated, bypass, pass, hitmiss, hitpass, pipe, synth or none";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Show, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        match parse(&words) {
            Ok(CommandLine::Show(show)) => Ok(*show),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_server_is_named_in_one_way() {
        let place = |line: &str| parsed(line).map(|show| (show.server, show.reading.place));
        let of_conf = |change: fn(&mut ConfigurationPlace)| {
            let mut options = ConfigurationPlace::default();
            change(&mut options);
            (Some(Server::Configuration(options)), Place::Server(None))
        };
        let socket = || (None, Place::Server(Some("/run/l.vsl".into())));
        assert_eq!(place(""), Ok(of_conf(|_| ())));
        assert_eq!(place("-c a.conf"), Ok(of_conf(|options| options.conf_file = Some("a.conf".into()))));
        assert_eq!(place("--pid /run/l.pid"), Ok((Some(Server::PidFile("/run/l.pid".into())), Place::Server(None))));
        assert_eq!(place("-n /run/l.vsl"), Ok(socket()));
        assert_eq!(place("-r -"), Ok((None, Place::File("-".into()))));
        for line in ["-c a -n b", "-n a -r b", "--pid a -c b", "--pid a -r b", "-n a -n b"] {
            assert_eq!(place(line).unwrap_err(), OptionsError::Places.to_string(), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (line, expected) in [
            ("-h", "Help"),
            ("--hosts a", "invalid option: \"--hosts\": did you mean \"--host\"?"),
            ("-x", "invalid option: \"-x\""),
            ("all", "invalid option: \"all\""),
            ("--host", "option \"--host\" requires a host"),
            ("--host=", "\"--host \": write a host"),
            ("--status 9", "\"--status 9\": write a status, such as 404, 5xx or 500-503"),
            ("--status 503-500", "\"--status 503-500\": write a status, such as 404, 5xx or 500-503"),
            ("--cache hot", &format!("\"--cache hot\": write {CACHE_WORDS_TEXT}")),
            ("--from a.test", "\"--from a.test\": write an address or a network"),
            ("--slow fast", "\"--slow fast\": write a time, such as 500ms, 2s or 1.5"),
            ("--slow -1s", "\"--slow -1s\": write a time, such as 500ms, 2s or 1.5"),
            ("-k 0", "\"-k 0\": write a number above 0"),
        ] {
            assert_eq!(parsed(line).unwrap_err(), expected, "{line}");
        }
    }
}
