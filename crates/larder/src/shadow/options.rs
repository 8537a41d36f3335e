//! The options of `larder shadow`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

/// What a command line of `larder shadow` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shadow {
    /// `--old URL`: the server that runs.
    pub old: Old,
    /// `--log FILE`: its access log.
    pub log: Option<PathBuf>,
    /// `--once`: the lines that are in the log, and no more.
    pub once: bool,
    /// `--format NAME`: a `log_format` of the configuration.
    pub format: Option<String>,
    /// `--listen ADDRESS`: where it mirrors its requests to.
    pub listen: Option<SocketAddr>,
    /// `--host NAME`: the host of requests that name none.
    pub host: Option<String>,
    /// `--skip TEXT`, any number: what stands in targets that are not sent.
    pub skip: Vec<String>,
    /// `--rate N`: requests a second at most.
    pub rate: NonZeroU32,
    /// `--requests N`: how many are compared before it ends.
    pub requests: Option<u64>,
    /// `--for TIME`: how long it takes.
    pub lasts: Option<Duration>,
    /// `--json`.
    pub is_json: bool,
    /// `-c FILE`.
    pub conf_file: Option<PathBuf>,
    /// `-p DIR`.
    pub prefix: Option<PathBuf>,
    /// `-g TEXT`.
    pub globals: Option<String>,
}

/// The server that runs, by its URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Old {
    /// Whether it is `https://`.
    pub is_secure: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// The port, if it is named, or that of the scheme.
    pub port: u16,
    /// Host and port as written.
    pub authority: String,
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No such option.
    #[error("invalid option: \"{0}\"")]
    Unknown(String),
    /// An option without its value.
    #[error("option \"{0}\" requires {1}")]
    MissingValue(&'static str, &'static str),
    /// A value that cannot be.
    #[error("option \"{0}\" requires {1}, not \"{2}\"")]
    Invalid(&'static str, &'static str, String),
    /// Two options that do not go together.
    #[error("\"{0}\" needs \"{1}\"")]
    Needs(&'static str, &'static str),
}

impl Old {
    /// Reads `http://host:port` or `https://host:port`, with nothing but a slash behind it.
    pub fn parse(url: &str) -> Option<Old> {
        let (is_secure, rest) = match (url.strip_prefix("http://"), url.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => return None,
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.is_empty() || authority.contains(['/', '@', '?', '#', ' ']) {
            return None;
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, behind) = inner.split_once(']')?;
                (host, if behind.is_empty() { None } else { Some(behind.strip_prefix(':')?) })
            }
            None => match authority.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        let port = match port {
            Some(port) => port.parse().ok().filter(|port| *port > 0)?,
            None if is_secure => 443,
            None => 80,
        };
        if host.is_empty() || host.contains('[') {
            return None;
        }
        Some(Old { is_secure, host: host.to_owned(), port, authority: authority.to_owned() })
    }
}

/// Parses the words behind `shadow`. `None` asks for help.
pub fn parse(args: &[OsString]) -> Result<Option<Shadow>, OptionsError> {
    use lexopt::prelude::*;

    let mut old = None;
    let mut asked = Shadow {
        old: Old { is_secure: false, host: String::new(), port: 0, authority: String::new() },
        log: None,
        once: false,
        format: None,
        listen: None,
        host: None,
        skip: Vec::new(),
        rate: RATE,
        requests: None,
        lasts: None,
        is_json: false,
        conf_file: None,
        prefix: None,
        globals: None,
    };
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
        let (option, what): (&'static str, &'static str) = match arg {
            Long("json") => {
                asked.is_json = true;
                continue;
            }
            Long("once") => {
                asked.once = true;
                continue;
            }
            Long("help") | Short('h' | '?') => return Ok(None),
            Short('c') => ("-c", "a file name"),
            Short('p') => ("-p", "a folder"),
            Short('g') => ("-g", "directives"),
            Long(name) => match VALUED.iter().find(|(option, _)| option[2..] == *name) {
                Some((option, what)) => (option, what),
                None => return Err(OptionsError::Unknown(format!("--{name}"))),
            },
            Short(letter) => return Err(OptionsError::Unknown(letter.to_string())),
            Value(word) => return Err(OptionsError::Unknown(word.to_string_lossy().into_owned())),
        };
        let value = parser.value().map_err(|_| OptionsError::MissingValue(option, what))?;
        let shown = value.to_string_lossy().into_owned();
        let invalid = || OptionsError::Invalid(option, what, shown.clone());
        match option {
            "-c" => asked.conf_file = Some(value.into()),
            "-p" => asked.prefix = Some(value.into()),
            "--log" => asked.log = Some(value.into()),
            "-g" => asked.globals = Some(value.into_string().map_err(|_| invalid())?),
            "--old" => old = Some(Old::parse(&shown).ok_or_else(invalid)?),
            "--format" => asked.format = Some(shown.clone()),
            "--host" => asked.host = Some(shown.clone()).filter(|host| is_host(host)).ok_or_else(invalid)?.into(),
            "--skip" => asked.skip.push(shown.clone()),
            "--listen" => asked.listen = Some(listen(&shown).ok_or_else(invalid)?),
            "--rate" => asked.rate = shown.parse().map_err(|_| invalid())?,
            "--requests" => asked.requests = Some(shown.parse().ok().filter(|count| *count > 0).ok_or_else(invalid)?),
            _ => asked.lasts = Some(time(&shown).ok_or_else(invalid)?),
        }
    }
    asked.old = old.ok_or(OptionsError::MissingValue("shadow", VALUED[0].1))?;
    if asked.log.is_none() && asked.listen.is_none() {
        return Err(OptionsError::MissingValue("shadow", "--log FILE, --listen ADDRESS, or both"));
    }
    if asked.log.is_none() && (asked.once || asked.format.is_some()) {
        return Err(OptionsError::Needs(if asked.once { "--once" } else { "--format" }, "--log"));
    }
    Ok(Some(asked))
}

fn is_host(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'/' | b'@' | b'\\'))
}

/// An address of this machine alone: what is mirrored there has visitors' cookies.
fn listen(text: &str) -> Option<SocketAddr> {
    let address = match text.parse::<u16>() {
        Ok(port) => SocketAddr::from(([127, 0, 0, 1], port)),
        Err(_) => text.parse().ok()?,
    };
    address.ip().is_loopback().then_some(address)
}

/// `90`, `90s`, `10m` or `1h`.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = match text.as_bytes().last()? {
        b's' => (&text[..text.len() - 1], 1),
        b'm' => (&text[..text.len() - 1], 60),
        b'h' => (&text[..text.len() - 1], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok()?.checked_mul(unit)?;
    (1..=SECONDS_MAX).contains(&seconds).then(|| Duration::from_secs(seconds))
}

/// Options with a value, and what that is.
const VALUED: [(&str, &str); 9] = [
    ("--old", "--old with the URL of the server that runs, such as http://127.0.0.1:80"),
    ("--log", "a file name"),
    ("--format", "the name of a log_format"),
    ("--listen", "an address of this machine, such as 127.0.0.1:8081"),
    ("--host", "a host name"),
    ("--skip", "a part of a path or of its arguments"),
    ("--rate", "requests a second, at least 1"),
    ("--requests", "a number of requests, at least 1"),
    ("--for", "a time such as 90s, 10m or 1h"),
];
const RATE: NonZeroU32 = NonZeroU32::new(10).expect("it is not zero");
/// A year.
const SECONDS_MAX: u64 = 366 * 24 * 3600;

/// What `larder shadow -h` prints.
pub const HELP: &str = "\
Usage: larder shadow --old URL (--log FILE | --listen ADDRESS) [options]
Tries larder beside the server that runs: asks both for what visitors ask for, and says what differs. Visitors are
answered by the old server alone; nothing but GET and HEAD is sent, and none of its files is written.

  --old URL         : the server that runs, such as http://127.0.0.1:80 or https://127.0.0.1:443
  --log FILE        : take what visitors ask for from its access log, as it grows
  --once            : take the lines that are in the log, and end
  --format NAME     : the log_format of that log (default: that of its access_log in the configuration, or combined)
  --listen ADDRESS  : take it from requests that the old server mirrors to this address of this machine
  --host NAME       : the host of log lines that name none (default: the first server_name)
  -c, -p, -g        : the configuration that larder is tried with, as of larder itself
  --skip TEXT       : do not send what has TEXT in its path or arguments; may be given again. Never sent is what is known
                      to change something: logout, wp-cron.php, add-to-cart= and their kin
  --rate N          : ask for at most N pages a second (default: 10)
  --requests N      : end after N pages
  --for TIME        : end after 90s, 10m, 1h
  --json            : the report for programs

A report is printed at the end (^C), and on USR1; a line of progress every minute.
Exit status: 0 all answers are alike, 1 some differ, 2 nothing was compared.
";

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Shadow>, OptionsError> {
        parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let line = "--old https://[::1]:8443/ --log /l --once --format main --listen 8081 --host a.test --skip /x --skip y= --rate 5 \
                    --requests 7 --for 2m --json -c /c -p /p -g x;";
        let asked = parsed(line).unwrap().unwrap();
        let old = Old { is_secure: true, host: "::1".into(), port: 8443, authority: "[::1]:8443".into() };
        assert_eq!(asked.old, old);
        assert_eq!(asked.listen, Some("127.0.0.1:8081".parse().unwrap()));
        assert_eq!((asked.rate.get(), asked.requests, asked.lasts), (5, Some(7), Some(Duration::from_secs(120))));
        assert!(asked.once && asked.is_json);
        assert_eq!(asked.skip, ["/x", "y="]);
        let plain = parsed("--old http://127.0.0.1 --log l").unwrap().unwrap();
        assert_eq!((plain.old.port, plain.rate.get(), plain.once), (80, 10, false));
        assert_eq!(parsed("--old x -h"), Err(OptionsError::Invalid("--old", VALUED[0].1, "x".into())));
        assert_eq!(parsed("-h"), Ok(None));
        for (line, error) in [
            (
                "--log l",
                "option \"shadow\" requires --old with the URL of the server that runs, such as http://127.0.0.1:80",
            ),
            ("--old http://a", "option \"shadow\" requires --log FILE, --listen ADDRESS, or both"),
            ("--old http://a --listen 1 --once", "\"--once\" needs \"--log\""),
            ("--old http://a --log", "option \"--log\" requires a file name"),
            ("--old http://a --force", "invalid option: \"--force\""),
            ("--old http://a l", "invalid option: \"l\""),
            ("--rate 0", "option \"--rate\" requires requests a second, at least 1, not \"0\""),
            (
                "--listen 0.0.0.0:80",
                "option \"--listen\" requires an address of this machine, such as 127.0.0.1:8081, not \"0.0.0.0:80\"",
            ),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error, "{line}");
        }
    }

    #[test]
    fn a_url_is_a_server_and_nothing_more() {
        for url in
            ["127.0.0.1", "ftp://a", "http://", "http://a/b", "http://u@a", "http://a:0", "http://a:x", "http://[::1"]
        {
            assert_eq!(Old::parse(url), None, "{url}");
        }
        assert_eq!(Old::parse("https://shop.test").unwrap().port, 443);
    }
}
