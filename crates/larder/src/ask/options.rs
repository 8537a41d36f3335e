//! The options of `larder why`, `larder explain`, `larder purge`, `larder top` and `larder cluster`.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::serve_socket;
use larder_source::nearest;

/// A question to a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What is asked.
    pub what: What,
    /// Which server.
    pub place: Place,
    /// `--json`: the answer is for programs.
    pub json: bool,
}

/// What a server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Why requests of the last minutes were no hits.
    Why,
    /// What it would do with a request: `larder explain URL`.
    Explain {
        /// The URL.
        url: String,
        /// `-X`.
        method: String,
        /// `--from`: whose request it is; the machine's own if it is empty.
        from: String,
        /// `-H`, each `Name: value`.
        fields: Vec<String>,
    },
    /// What it does now: `larder top`.
    Now,
    /// How its cluster is: `larder cluster status`.
    Cluster,
    /// That its cluster forgets a node: `larder cluster forget NODE`.
    Forget {
        /// What it is called.
        node: String,
    },
    /// That it purges pages: `larder purge`.
    Purge {
        /// Which, and how: each an option and its value, as the server reads them.
        lines: Vec<String>,
    },
}

/// The word before the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// `why`
    Why,
    /// `explain`
    Explain,
    /// `purge`
    Purge,
    /// `top`
    Top,
    /// `cluster`
    Cluster,
}

impl Verb {
    /// The word of a verb.
    pub fn name(self) -> &'static str {
        match self {
            Self::Why => "why",
            Self::Explain => "explain",
            Self::Purge => "purge",
            Self::Top => "top",
            Self::Cluster => "cluster",
        }
    }

    /// The verb of a word.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "why" => Some(Self::Why),
            "explain" => Some(Self::Explain),
            "purge" => Some(Self::Purge),
            "top" => Some(Self::Top),
            "cluster" => Some(Self::Cluster),
            _ => None,
        }
    }
}

/// Which server is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The one of a configuration: `-c`, `-p`, `-g`.
    Configuration(ConfigurationPlace),
    /// The one with this pid file: `--pid`.
    PidFile(PathBuf),
    /// The `larder varnishd` of this folder: `-n`.
    Folder(PathBuf),
    /// The `larder serve` that listens at this address: `--listen`.
    Serve(SocketAddr),
}

/// Where a configuration is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigurationPlace {
    /// `-c`.
    pub conf_file: Option<PathBuf>,
    /// `-p`.
    pub prefix: Option<PathBuf>,
    /// `-g`.
    pub globals: Option<String>,
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
    /// A value that is not text where text is needed.
    #[error("option \"{0}\" has a value that is not UTF-8")]
    NotText(&'static str),
    /// A value that would end a line.
    #[error("option \"{0}\" has a value of several lines")]
    Lines(&'static str),
    /// A URL without a letter, as of a variable of a shell that is not set.
    #[error("a URL is empty")]
    EmptyUrl,
    /// `explain` without a URL.
    #[error("\"explain\" requires a URL")]
    NoUrl,
    /// `cluster` without a word.
    #[error("\"cluster\" requires what is asked for: \"larder cluster status\" or \"larder cluster forget NODE\"")]
    NoDeed,
    /// `cluster forget` without a node.
    #[error("\"cluster forget\" requires the name of a node, as \"larder cluster status\" shows it")]
    NoNode,
    /// `purge` of nothing.
    #[error("\"purge\" requires a URL, --tag, --prefix, --match, --host, --ban or --all")]
    NoPages,
    /// Everything, and something beside it.
    #[error("--all means all pages: leave out the others, or --all")]
    AllAndMore,
    /// Two servers.
    #[error("-c, --pid, -n and --listen exclude each other: one server is asked")]
    Places,
    /// `--listen` with something else than an address.
    #[error("\"{0}\" is not an address of a larder serve: write 127.0.0.1:8080, [::1]:8080 or 8080")]
    Listen(String),
}

/// Reads the words behind a verb; `None` for `-h`.
pub fn parse(args: &[OsString], verb: Verb) -> Result<Option<Ask>, OptionsError> {
    use lexopt::prelude::*;

    let (explains, purges) = (verb == Verb::Explain, verb == Verb::Purge);
    let mut lines = Vec::new();
    let mut options = ConfigurationPlace::default();
    let (mut pid_file, mut folder, mut listen, mut json) = (None, None, None, false);
    let mut deed = Vec::new();
    let (mut url, mut method, mut from, mut fields) = (None, "GET".to_owned(), String::new(), Vec::new());
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string(), String::new()))? {
        match arg {
            Short('h' | '?') | Long("help") => return Ok(None),
            Short('c') => options.conf_file = Some(value(&mut parser, "-c", "file name")?.into()),
            Short('p') => options.prefix = Some(value(&mut parser, "-p", "directory name")?.into()),
            Short('g') => {
                let text = value(&mut parser, "-g", "parameter")?.into_string();
                options.globals = Some(text.map_err(|_| OptionsError::NotText("-g"))?);
            }
            Short('n') => folder = Some(PathBuf::from(value(&mut parser, "-n", "directory name")?)),
            Long("pid") => pid_file = Some(PathBuf::from(value(&mut parser, "--pid", "file name")?)),
            Short('l') | Long("listen") => {
                let text = value(&mut parser, "--listen", "an address")?.to_string_lossy().into_owned();
                listen = Some(serve_socket::address(&text).ok_or(OptionsError::Listen(text))?);
            }
            Long("json") => json = true,
            Short('X') if explains => method = line(value(&mut parser, "-X", "a method")?, "-X")?,
            Short('H') if explains => fields.push(line(value(&mut parser, "-H", "a field")?, "-H")?),
            Long("from") if explains => from = line(value(&mut parser, "--from", "an address")?, "--from")?,
            Long(name) if purges && OF_PURGES.iter().any(|(option, ..)| option[2..] == *name) => {
                let of_name = OF_PURGES.iter().find(|(option, ..)| option[2..] == *name);
                let &(option, word, what) = of_name.expect("it was found above");
                lines.push(match what {
                    Some(what) => {
                        format!("{word} {}", some(line(value(&mut parser, option, what)?, option)?, option, what)?)
                    }
                    None => word.to_owned(),
                });
            }
            Value(word) if purges => lines.push(format!("url {}", some_url(word)?)),
            Value(word) if explains && url.is_none() => url = Some(some_url(word)?),
            Value(word) if verb == Verb::Cluster => deed.push(word),
            Value(word) => return Err(unknown(word.to_string_lossy().into_owned(), verb)),
            Short(letter) => return Err(unknown(format!("-{letter}"), verb)),
            Long(name) => return Err(unknown(format!("--{name}"), verb)),
        }
    }
    let is_by_configuration = options != ConfigurationPlace::default();
    let place = match (pid_file, folder, listen) {
        (None, None, None) => Place::Configuration(options),
        (Some(path), None, None) if !is_by_configuration => Place::PidFile(path),
        (None, Some(path), None) if !is_by_configuration => Place::Folder(path),
        (None, None, Some(address)) if !is_by_configuration => Place::Serve(address),
        _ => return Err(OptionsError::Places),
    };
    let what = match verb {
        Verb::Explain => What::Explain { url: url.ok_or(OptionsError::NoUrl)?, method, from, fields },
        Verb::Purge => What::Purge { lines: whole(lines)? },
        Verb::Why => What::Why,
        Verb::Top => What::Now,
        Verb::Cluster => of_cluster(deed)?,
    };
    Ok(Some(Ask { what, place, json }))
}

/// What is asked of a cluster.
fn of_cluster(words: Vec<OsString>) -> Result<What, OptionsError> {
    let mut words = words.into_iter();
    let what = match words.next() {
        None => return Err(OptionsError::NoDeed),
        Some(word) if word == "status" => What::Cluster,
        Some(word) if word == "forget" => {
            let node = words.next().ok_or(OptionsError::NoNode)?;
            let node = line(node, "forget")?;
            if node.trim().is_empty() {
                return Err(OptionsError::NoNode);
            }
            What::Forget { node }
        }
        Some(word) => return Err(unknown(word.to_string_lossy().into_owned(), Verb::Cluster)),
    };
    match words.next() {
        None => Ok(what),
        Some(word) => Err(unknown(word.to_string_lossy().into_owned(), Verb::Cluster)),
    }
}

/// The options of `purge`, the words that the server has for them, and what their values are.
const OF_PURGES: [(&str, &str, Option<&str>); 9] = [
    ("--tag", "tag", Some("a tag")),
    ("--prefix", "prefix", Some("the beginning of a URL")),
    ("--match", "match", Some("a regular expression")),
    ("--host", "host", Some("a host")),
    ("--ban", "ban", Some("a ban")),
    ("--all", "all", None),
    ("--soft", "soft", None),
    ("--everywhere", "everywhere", None),
    ("--zone", "zone", Some("a zone")),
];

/// Lines that say which pages.
fn whole(lines: Vec<String>) -> Result<Vec<String>, OptionsError> {
    let pages =
        lines.iter().filter(|line| !matches!(&***line, "soft" | "everywhere") && !line.starts_with("zone ")).count();
    match (pages, lines.iter().any(|line| line == "all")) {
        (0, _) => Err(OptionsError::NoPages),
        (1, _) | (_, false) => Ok(lines),
        (_, true) => Err(OptionsError::AllAndMore),
    }
}

/// The error about a word that is no option of the verb.
fn unknown(word: String, verb: Verb) -> OptionsError {
    let of_verb: &[&str] = match verb {
        Verb::Why | Verb::Top | Verb::Cluster => &[],
        Verb::Explain => &["--from"],
        Verb::Purge => &OF_PURGES.map(|(option, ..)| option),
    };
    let options = ["--pid", "--json", "--help"].iter().chain(of_verb).copied();
    let near = nearest(&word, options).filter(|_| word.starts_with("--"));
    let help = near.map(|near| format!(": did you mean \"{near}\"?")).unwrap_or_default();
    OptionsError::Unknown(word, help)
}

fn some_url(word: OsString) -> Result<String, OptionsError> {
    let url = line(word, "URL")?;
    if url.trim().is_empty() { Err(OptionsError::EmptyUrl) } else { Ok(url) }
}

fn some(value: String, option: &'static str, what: &'static str) -> Result<String, OptionsError> {
    // An empty one, as of a variable of a shell that is not set, would mean other pages.
    if value.trim().is_empty() { Err(OptionsError::MissingValue(option, what)) } else { Ok(value) }
}

/// A value that is one line of text.
fn line(value: OsString, option: &'static str) -> Result<String, OptionsError> {
    let text = value.into_string().map_err(|_| OptionsError::NotText(option))?;
    if text.contains(['\n', '\r']) { Err(OptionsError::Lines(option)) } else { Ok(text) }
}

fn value(parser: &mut lexopt::Parser, option: &'static str, what: &'static str) -> Result<OsString, OptionsError> {
    parser.value().map_err(|_| OptionsError::MissingValue(option, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Ask>, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words, Verb::Why).map_err(|error| error.to_string())
    }

    #[test]
    fn a_server_is_named_in_one_way() {
        let of = |change: fn(&mut ConfigurationPlace)| {
            let mut options = ConfigurationPlace::default();
            change(&mut options);
            Place::Configuration(options)
        };
        for (line, place, json) in [
            ("", of(|_| ()), false),
            ("--json", of(|_| ()), true),
            (
                "-c a.conf -p /srv/",
                of(|o| (o.conf_file, o.prefix) = (Some("a.conf".into()), Some("/srv/".into()))),
                false,
            ),
            ("-g pid;", of(|o| o.globals = Some("pid;".into())), false),
            ("--pid=/run/a.pid", Place::PidFile("/run/a.pid".into()), false),
            ("-n /var/lib/varnish/a --json", Place::Folder("/var/lib/varnish/a".into()), true),
        ] {
            assert_eq!(parsed(line), Ok(Some(Ask { what: What::Why, place, json })), "{line}");
        }
        assert_eq!(parsed("-c a -h"), Ok(None));
    }

    #[test]
    fn a_request_is_written_as_for_curl() {
        let parsed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            parse(&words, Verb::Explain).map(|asked| asked.map(|asked| asked.what)).map_err(|error| error.to_string())
        };
        let words = ["-X", "POST", "http://a/b", "-H", "Cookie: a=b", "-HX: y", "--from", "::1", "--json", "-c", "f"];
        let expected = What::Explain {
            url: "http://a/b".to_owned(),
            method: "POST".to_owned(),
            from: "::1".to_owned(),
            fields: vec!["Cookie: a=b".to_owned(), "X: y".to_owned()],
        };
        assert_eq!(parsed(&words), Ok(Some(expected)));
        assert_eq!(parsed(&[]), Err("\"explain\" requires a URL".to_owned()));
        assert_eq!(parsed(&["a", "b"]), Err("invalid option: \"b\"".to_owned()));
        assert_eq!(parsed(&["a", "-H", "X: y\nZ: a"]), Err("option \"-H\" has a value of several lines".to_owned()));
    }

    #[test]
    fn pages_to_purge_are_written_as_the_server_reads_them() {
        let parsed = |words: &[&str]| {
            let words: Vec<OsString> = words.iter().map(OsString::from).collect();
            let asked = parse(&words, Verb::Purge).map_err(|error| error.to_string())?;
            match asked.map(|asked| asked.what) {
                Some(What::Purge { lines }) => Ok(lines.join("\n")),
                other => panic!("{other:?}"),
            }
        };
        for (words, expected) in [
            (&["http://a/b", "http://a/c"][..], "url http://a/b\nurl http://a/c"),
            (&["--tag", "a b", "--tag=c", "--soft"], "tag a b\ntag c\nsoft"),
            (&["--everywhere", "--tag", "a"], "everywhere\ntag a"),
            (&["--zone", "pages", "--all", "--zone", "others"], "zone pages\nall\nzone others"),
            (&["--prefix", "a/b", "--match", "^/x", "--host", "a"], "prefix a/b\nmatch ^/x\nhost a"),
            (&["--ban", "obj.age > 1h", "--json", "-c", "f"], "ban obj.age > 1h"),
        ] {
            assert_eq!(parsed(words), Ok(expected.to_owned()), "{words:?}");
        }
        let nothing = "\"purge\" requires a URL, --tag, --prefix, --match, --host, --ban or --all";
        for (words, expected) in [
            (&[][..], nothing),
            (&["--soft", "--zone", "a"], nothing),
            (&["--everywhere"], nothing),
            (&["--all", "a"], "--all means all pages: leave out the others, or --all"),
            (&["--tag"], "option \"--tag\" requires a tag"),
            (&["--tag", ""], "option \"--tag\" requires a tag"),
            (&[""], "a URL is empty"),
            (&["--al"], "invalid option: \"--al\": did you mean \"--all\"?"),
            (&["--tags", "a"], "invalid option: \"--tags\": did you mean \"--tag\"?"),
            (&["--nothing"], "invalid option: \"--nothing\""),
            (&["--tag", "a\nall"], "option \"--tag\" has a value of several lines"),
            (&["-X", "GET", "a"], "invalid option: \"-X\""),
        ] {
            assert_eq!(parsed(words), Err(expected.to_owned()), "{words:?}");
        }
    }

    #[test]
    fn a_cluster_is_asked_for_its_status() {
        let parsed = |line: &str| {
            let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
            let asked = parse(&words, Verb::Cluster).map_err(|error| error.to_string())?;
            Ok(asked.map(|asked| (asked.what, asked.place, asked.json)))
        };
        let pid = || Place::PidFile("a.pid".into());
        assert_eq!(parsed("status --pid a.pid"), Ok(Some((What::Cluster, pid(), false))));
        assert_eq!(parsed("--json --pid a.pid status"), Ok(Some((What::Cluster, pid(), true))));
        assert_eq!(parsed("-h"), Ok(None));
        let forgets = Ok(Some((What::Forget { node: "web3".to_owned() }, pid(), true)));
        assert_eq!(parsed("forget web3 --json --pid a.pid"), forgets);
        let no_deed =
            "\"cluster\" requires what is asked for: \"larder cluster status\" or \"larder cluster forget NODE\"";
        let no_node = "\"cluster forget\" requires the name of a node, as \"larder cluster status\" shows it";
        for (line, expected) in [
            ("", no_deed),
            ("--json", no_deed),
            ("nodes", "invalid option: \"nodes\""),
            ("forget", no_node),
            ("forget a b", "invalid option: \"b\""),
            ("status status", "invalid option: \"status\""),
            ("status --jsn", "invalid option: \"--jsn\": did you mean \"--json\"?"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (line, expected) in [
            ("a", "invalid option: \"a\""),
            ("-x", "invalid option: \"-x\""),
            ("--all", "invalid option: \"--all\""),
            ("-c", "option \"-c\" requires file name"),
            ("--pid", "option \"--pid\" requires file name"),
            ("--pid a -c b", "-c, --pid, -n and --listen exclude each other: one server is asked"),
            ("--pid a -n b", "-c, --pid, -n and --listen exclude each other: one server is asked"),
            ("-l 81 -n b", "-c, --pid, -n and --listen exclude each other: one server is asked"),
            ("-l", "option \"--listen\" requires an address"),
            ("-l a", "\"a\" is not an address of a larder serve: write 127.0.0.1:8080, [::1]:8080 or 8080"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }
}
