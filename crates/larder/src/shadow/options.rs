//! The options of `larder shadow`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use crate::option_words::{self, Known, OptionsError, plain, valued};

use super::wanted::may_be_added;

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
    /// `--field TEXT`, any number: what each request has, with names in lower case.
    pub fields: Vec<(String, Vec<u8>)>,
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

impl Old {
    /// The same host at another port.
    pub fn host_with(&self, port: u16) -> String {
        if self.host.contains(':') { format!("[{}]:{port}", self.host) } else { format!("{}:{port}", self.host) }
    }

    /// Reads `http://host:port` or `https://host:port`, with nothing but a slash behind it. `Err` says what mends it.
    pub fn parse(url: &str) -> Result<Old, String> {
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err(format!("write \"http://{url}\" or \"https://{url}\""));
        };
        let is_secure = scheme.eq_ignore_ascii_case("https");
        if !is_secure && !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("it has to be http or https, and not {scheme}"));
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, page) = rest.split_at(end);
        if !matches!(page, "" | "/") {
            return Err(format!("leave out \"{page}\": which pages are asked for, --log or --listen says"));
        }
        if let Some((user, _)) = authority.rsplit_once('@') {
            return Err(format!("leave out \"{user}@\": requests have what their visitors sent"));
        }
        let (host, port) = match authority.strip_prefix('[').map(|inner| inner.split_once(']')) {
            Some(None) => return Err("a \"]\" is missing behind the IPv6 address".to_owned()),
            Some(Some((host, ""))) => (host, None),
            Some(Some((host, behind))) => match behind.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return Err(format!("a \":\" is missing before \"{behind}\"")),
            },
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        if port.is_some_and(|port| port.contains(':')) {
            return Err("an IPv6 address stands in brackets, as in \"http://[::1]:80\"".to_owned());
        }
        if host.is_empty() || host.contains(['[', ' ']) {
            return Err("a host is missing, as in \"http://127.0.0.1:80\"".to_owned());
        }
        let port = match port {
            Some(port) => port
                .parse()
                .ok()
                .filter(|port| *port > 0)
                .ok_or_else(|| format!("its port is a number from 1 to 65535, and \"{port}\" is none"))?,
            None if is_secure => 443,
            None => 80,
        };
        Ok(Old { is_secure, host: host.to_owned(), port, authority: authority.to_owned() })
    }
}

/// Parses the words behind `shadow`. `None` asks for help.
pub fn parse(args: &[OsString]) -> Result<Option<Shadow>, OptionsError> {
    let Some(given) = option_words::read(args, &OPTIONS)? else { return Ok(None) };
    let mut old = None;
    let mut asked = Shadow {
        old: Old { is_secure: false, host: String::new(), port: 0, authority: String::new() },
        log: None,
        once: false,
        format: None,
        listen: None,
        host: None,
        fields: Vec::new(),
        skip: Vec::new(),
        rate: RATE,
        requests: None,
        lasts: None,
        is_json: false,
        conf_file: None,
        prefix: None,
        globals: None,
    };
    for option in given {
        let (Known { name, value }, word) = &option;
        let path = || PathBuf::from(word);
        match *name {
            "-c" => asked.conf_file = Some(path()),
            "-p" => asked.prefix = Some(path()),
            "--log" => asked.log = Some(path()),
            "--json" => asked.is_json = true,
            "--once" => asked.once = true,
            _ => {
                let text = option_words::text(&option)?;
                let invalid = || OptionsError::Invalid(name, value.unwrap_or_default(), text.clone());
                match *name {
                    "-g" => asked.globals = Some(text),
                    "--format" => asked.format = Some(text),
                    "--skip" => asked.skip.push(text),
                    "--old" => {
                        let read = Old::parse(&text).map_err(|why| OptionsError::Wrong(name, text, why));
                        old = Some(read?);
                    }
                    "--host" => asked.host = Some(Some(text.clone()).filter(|host| is_host(host)).ok_or_else(invalid)?),
                    "--field" => asked.fields.push(field(&text).ok_or_else(invalid)?),
                    "--listen" => asked.listen = Some(listen(&text).ok_or_else(invalid)?),
                    "--rate" => asked.rate = text.parse().map_err(|_| invalid())?,
                    "--requests" => {
                        asked.requests = Some(text.parse().ok().filter(|count| *count > 0).ok_or_else(invalid)?);
                    }
                    _ => asked.lasts = Some(time(&text).ok_or_else(invalid)?),
                }
            }
        }
    }
    asked.old = old.ok_or(OptionsError::Lacks(OLD))?;
    if asked.log.is_none() && asked.listen.is_none() {
        return Err(OptionsError::Lacks("what visitors ask for: --log FILE, --listen ADDRESS, or both"));
    }
    if asked.log.is_none() && (asked.once || asked.format.is_some()) {
        return Err(OptionsError::Needs(if asked.once { "--once" } else { "--format" }, "--log"));
    }
    Ok(Some(asked))
}

/// `Name: value` of a request, unless it is one that [`seen`](super::wanted::seen) leaves out for the connection's sake.
fn field(text: &str) -> Option<(String, Vec<u8>)> {
    let (name, value) = text.split_once(':')?;
    let name = name.trim().to_ascii_lowercase();
    let is_line = value.bytes().all(|byte| byte == b'\t' || (byte >= b' ' && byte != 0x7f));
    (is_line && may_be_added(&name)).then(|| (name, value.trim().as_bytes().to_vec()))
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

const OPTIONS: [Known; 15] = [
    valued("--old", OLD_URL),
    valued("--log", "a file name"),
    plain("--once"),
    valued("--format", "the name of a log_format"),
    valued("--listen", "an address of this machine, such as 127.0.0.1:8081"),
    valued("--host", "a host name"),
    valued("--field", "a field of a request, such as \"X-Forwarded-Proto: https\""),
    valued("--skip", "a part of a path or of its arguments"),
    valued("--rate", "requests a second, at least 1"),
    valued("--requests", "a number of requests, at least 1"),
    valued("--for", "a time such as 90s, 10m or 1h"),
    plain("--json"),
    valued("-c", "a file name"),
    valued("-p", "a folder"),
    valued("-g", "directives"),
];
const OLD_URL: &str = "the URL of the server that runs, such as http://127.0.0.1:80";
const OLD: &str = "--old with the URL of the server that runs, such as http://127.0.0.1:80";
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
  --field TEXT      : a field that each request has, such as X-Forwarded-Proto: https; may be given again
  -c, -p, -g        : the configuration that larder is tried with, as of larder itself
  --skip TEXT       : do not send what has TEXT in its path or arguments; may be given again. Never sent is what is known
                      to change something or to work once: logout, add-to-cart, action=, key=, token= and their kin
  --rate N          : ask for at most N pages a second (default: 10)
  --requests N      : end after N pages
  --for TIME        : end after 90s, 10m, 1h
  --json            : the report for programs

A report is printed at the end (^C), and on USR1; a line of progress every minute.
Exit status: 0 all answers are alike, 1 some differ, 2 nothing was compared, or less than was redirected.
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
        assert_eq!(parsed("--old x -h"), Ok(None));
        for (line, error) in [
            ("--log l", "it lacks --old with the URL of the server that runs, such as http://127.0.0.1:80"),
            ("--old http://a", "it lacks what visitors ask for: --log FILE, --listen ADDRESS, or both"),
            ("--old http://a --listen 1 --once", "option \"--once\" needs \"--log\" beside it"),
            ("--old http://a --rates 5", "unknown option \"--rates\": did you mean \"--rate\"?"),
            ("--rate 0", "option \"--rate\" requires requests a second, at least 1, not \"0\""),
            (
                "--old a.test --log l",
                "option \"--old\" cannot be \"a.test\": write \"http://a.test\" or \"https://a.test\"",
            ),
            (
                "--listen 0.0.0.0:80",
                "option \"--listen\" requires an address of this machine, such as 127.0.0.1:8081, not \"0.0.0.0:80\"",
            ),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error, "{line}");
        }
    }

    #[test]
    fn a_field_is_one_that_requests_may_have() {
        assert_eq!(field("X-Forwarded-Proto: https"), Some(("x-forwarded-proto".to_owned(), b"https".to_vec())));
        for text in ["X-A", ": b", "x a: b", "X-A: b\r\nX-B: c", "Host: b", "Content-Length: 3", "X-Larder-Shadow: 1"] {
            assert_eq!(field(text), None, "{text}");
        }
    }

    #[test]
    fn a_url_is_a_server_and_nothing_more() {
        for (url, said) in [
            ("127.0.0.1", "write \"http://127.0.0.1\" or \"https://127.0.0.1\""),
            ("ftp://a", "it has to be http or https, and not ftp"),
            ("http://", "a host is missing"),
            ("http://:80", "a host is missing"),
            ("http://a/b?c", "leave out \"/b?c\""),
            ("http://u:p@a", "leave out \"u:p@\""),
            ("http://a:0", "\"0\" is none"),
            ("http://a:x", "\"x\" is none"),
            ("http://a:99999", "\"99999\" is none"),
            ("http://[::1", "a \"]\" is missing"),
            ("http://[::1]80", "a \":\" is missing before \"80\""),
            ("http://::1", "an IPv6 address stands in brackets"),
        ] {
            let why = Old::parse(url).unwrap_err();
            assert!(why.contains(said), "{url}: {why}");
        }
        assert_eq!(Old::parse("https://shop.test").unwrap().port, 443);
        assert_eq!(Old::parse("HTTP://shop.test/").unwrap().authority, "shop.test");
    }
}
