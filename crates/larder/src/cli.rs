//! The command line: nginx's options, letter for letter, and a few words of our own before them.

use std::ffi::{OsStr, OsString};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use crate::ask::options::{self as ask_options, Ask, OptionsError as AskError, Verb};
use crate::doctor::options::{self as doctor_options, Doctor};
use crate::import::options::{self as import_options, Import, OptionsError as ImportError};
use crate::option_words::OptionsError as WordsError;
use crate::requests_log::options::{self as requests_options, Log, OptionsError as RequestsError};
use crate::serve_socket;
use crate::shadow::options::{self as shadow_options, Shadow};
use crate::varnishd::options::{self, OptionsError, Varnishd};
use crate::varnishlog::options::{self as log_options, Varnishlog};
use crate::varnishncsa::options::{self as ncsa_options, Varnishncsa};
use crate::varnishstat::options::{self as stat_options, OptionsError as StatError, Varnishstat};
use crate::vsl::options::OptionsError as LogError;
use larder_source::nearest;

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Print something about larder and exit.
    Show(Show),
    /// Serve what a configuration describes.
    Run(Options),
    /// `-t` and `-T`: check a configuration.
    Test(Test),
    /// `-s`: tell a running larder what to do.
    Signal(Order, Options),
    /// `serve DIR`: serve a folder without a configuration.
    Serve(Serve),
    /// `cache ...`: look at what is on disk, or drop it.
    Cache(Cache),
    /// `why ...`, `explain ...`, `purge ...`, `top ...`, `cluster ...`: ask a running server about itself, or to purge.
    Ask(Ask),
    /// `log ...`: follow the requests of a running server.
    Log(Log),
    /// `doctor`: look at this machine.
    Doctor(Doctor),
    /// `profile [WHAT]`: what is known of applications.
    Profile(Option<PathBuf>),
    /// `import ...`: what of another server's configuration works.
    Import(Import),
    /// `shadow ...`: try larder beside the server that runs.
    Shadow(Box<Shadow>),
    /// `varnishd ...`: varnishd's command line.
    Varnishd(Varnishd),
    /// `varnishstat ...`: varnishstat's command line.
    Varnishstat(Varnishstat),
    /// `varnishlog ...`: varnishlog's command line.
    Varnishlog(Varnishlog),
    /// `varnishncsa ...`: varnishncsa's command line.
    Varnishncsa(Varnishncsa),
}

/// What `-v`, `-V` and `-h` print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// `-v`.
    Version,
    /// `-V`.
    Build,
    /// `-h` and `-?`.
    Help,
    /// `-h` behind one of these words.
    AskHelp(Verb),
    /// `doctor -h`.
    DoctorHelp,
    /// `import -h`.
    ImportHelp,
    /// `shadow -h`.
    ShadowHelp,
}

/// A check of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// What is printed before it.
    pub show: Option<Show>,
    /// `-T`: print every file that was read.
    pub dump: bool,
    /// `--notices`: name each directive that has no effect.
    pub no_effect: NoEffect,
    /// Where the configuration is.
    pub options: Options,
}

/// How directives are reported that have no effect and are not needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEffect {
    /// Their number, in one line.
    Counted,
    /// Each directive with its place.
    Listed,
}

/// The paths that the command line sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `-c`.
    pub conf_file: Option<PathBuf>,
    /// `-p`.
    pub prefix: Option<PathBuf>,
    /// `-e`; `stderr` means standard error.
    pub error_log: Option<PathBuf>,
    /// `-g`.
    pub globals: Option<String>,
    /// `-q`.
    pub quiet: bool,
}

/// The argument of `-s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// End now.
    Stop,
    /// End when the running requests are done.
    Quit,
    /// Read the configuration again.
    Reload,
    /// Open the log files again.
    Reopen,
}

/// The arguments of `larder serve`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serve {
    /// The folder.
    pub folder: PathBuf,
    /// `--listen`.
    pub listen: SocketAddr,
    /// `--print-config`: print the configuration and end.
    pub print_config: bool,
}

/// The arguments of `larder cache`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// The command.
    pub deed: CacheDeed,
    /// A zone of the configuration, or, with a slash in it, a folder. `None` for all zones.
    pub place: Option<String>,
    /// Where the configuration is.
    pub options: Options,
}

/// What `larder cache` does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheDeed {
    /// `ls`: list the pages.
    List,
    /// `stat PAGE`: show everything about the pages of a URL or key.
    Stat(String),
    /// `bans`: list the bans.
    Bans,
    /// `verify`: check every checksum.
    Verify,
    /// `clear`: drop every page.
    Clear,
}

/// Why a command line is invalid. The texts are nginx's, if it has them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CliError {
    /// An unknown letter, or a word in place of an option.
    #[error("invalid option: \"{0}\"")]
    InvalidOption(String),
    /// A first word that is neither a command nor an option, and what may be meant.
    #[error("unknown command: \"{0}\"{1}")]
    UnknownCommand(String, String),
    /// An option without its value.
    #[error("option \"{option}\" requires {what}")]
    MissingValue {
        /// With its dash.
        option: String,
        /// What was expected.
        what: &'static str,
    },
    /// A value that is not text where text is needed.
    #[error("option \"{0}\" has a value that is not UTF-8")]
    NotText(&'static str),
    /// `--listen` with something else than an address.
    #[error("\"{0}\" is not an address to listen at: write 127.0.0.1:8080, [::1]:8080 or 8080")]
    InvalidListen(String),
    /// Options of `why`, `explain`, `purge`, `top` and `cluster` that cannot be.
    #[error("{1}")]
    Ask(Verb, AskError),
    /// Options of `log` that cannot be.
    #[error("{0}")]
    Log(#[from] RequestsError),
    /// Options of `doctor` that cannot be.
    #[error("{0}")]
    Doctor(WordsError),
    /// Options of `import` that cannot be.
    #[error("{0}")]
    Import(ImportError),
    /// Options of `shadow` that cannot be.
    #[error("{0}")]
    Shadow(WordsError),
    /// Options of varnishd that cannot be.
    #[error("{0}")]
    Varnishd(#[from] OptionsError),
    /// Options of varnishstat that cannot be.
    #[error("{0}")]
    Varnishstat(#[from] StatError),
    /// Options of varnishlog that cannot be.
    #[error("{0}")]
    Varnishlog(LogError),
    /// Options of varnishncsa that cannot be.
    #[error("{0}")]
    Varnishncsa(LogError),
}

/// Parses a command line, without the name of the program.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Command, CliError> {
    let args: Vec<OsString> = args.into_iter().collect();
    let word = args.first().and_then(|word| word.to_str());
    match word {
        Some("serve") => parse_serve(&args[1..]),
        Some("cache") => parse_cache(&args[1..]),
        Some(word) if let Some(verb) = Verb::of(word) => {
            let asked = ask_options::parse(&args[1..], verb).map_err(|error| CliError::Ask(verb, error))?;
            Ok(asked.map_or(Command::Show(Show::AskHelp(verb)), Command::Ask))
        }
        Some("log") => Ok(Command::Log(requests_options::parse(&args[1..])?)),
        Some("doctor") => {
            let asked = doctor_options::parse(&args[1..]).map_err(CliError::Doctor)?;
            Ok(asked.map_or(Command::Show(Show::DoctorHelp), Command::Doctor))
        }
        Some("import") => {
            let asked = import_options::parse(&args[1..]).map_err(CliError::Import)?;
            Ok(asked.map_or(Command::Show(Show::ImportHelp), Command::Import))
        }
        Some("profile") => parse_profile(&args[1..]),
        Some("shadow") => {
            let asked = shadow_options::parse(&args[1..]).map_err(CliError::Shadow)?;
            Ok(asked.map_or(Command::Show(Show::ShadowHelp), |asked| Command::Shadow(Box::new(asked))))
        }
        Some("varnishd") => Ok(Command::Varnishd(options::parse(&args[1..])?)),
        Some("varnishstat") => Ok(Command::Varnishstat(stat_options::parse(&args[1..])?)),
        Some("varnishlog") => log_options::parse(&args[1..]).map(Command::Varnishlog).map_err(CliError::Varnishlog),
        Some("varnishncsa") => ncsa_options::parse(&args[1..]).map(Command::Varnishncsa).map_err(CliError::Varnishncsa),
        Some("help" | "--help") => Ok(Command::Show(Show::Help)),
        Some("--version") => Ok(Command::Show(Show::Version)),
        Some("check") if matches!(&args[1..], [word] if is_help(word)) => Ok(Command::Show(Show::Help)),
        Some("check") => parse_nginx(&args[1..], Asked { test: true, ..Asked::default() }),
        Some(word) if !word.starts_with('-') => Err(unknown_command(word)),
        _ => parse_nginx(&args, Asked::default()),
    }
}

fn is_help(word: &OsStr) -> bool {
    matches!(word.to_str(), Some("-h" | "-?" | "--help"))
}

fn unknown_command(word: &str) -> CliError {
    let meant = ELSEWHERE.iter().find(|(other, _)| *other == word).map(|(_, meant)| *meant);
    let hint = meant.or_else(|| nearest(word, COMMANDS.into_iter()));
    let hint = hint.map(|hint| format!("; did you mean \"{hint}\"?")).unwrap_or_default();
    CliError::UnknownCommand(word.to_owned(), hint)
}

/// What has been asked for so far.
#[derive(Default)]
struct Asked {
    options: Options,
    show: Option<Show>,
    test: bool,
    dump: bool,
    lists_notices: bool,
    order: Option<Order>,
}

impl Asked {
    fn show(&mut self, show: Show) {
        // Help says more than the build, which says more than the version.
        let more = match (self.show, show) {
            (Some(Show::Help), _) | (Some(Show::Build), Show::Version) => return,
            (_, show) => show,
        };
        self.show = Some(more);
    }

    fn command(self) -> Command {
        if self.test {
            let no_effect = if self.lists_notices { NoEffect::Listed } else { NoEffect::Counted };
            return Command::Test(Test { show: self.show, dump: self.dump, no_effect, options: self.options });
        }
        if let Some(show) = self.show {
            return Command::Show(show);
        }
        match self.order {
            Some(order) => Command::Signal(order, self.options),
            None => Command::Run(self.options),
        }
    }
}

/// Parses options as nginx does: letters can be joined (`-tq`), and a value is the rest of the word or the next word.
/// `--notices` is larder's own.
fn parse_nginx(args: &[OsString], mut asked: Asked) -> Result<Command, CliError> {
    let mut words = args.iter();
    while let Some(word) = words.next() {
        if word == "--notices" {
            asked.test = true;
            asked.lists_notices = true;
            continue;
        }
        let Some(mut letters) = word.as_bytes().strip_prefix(b"-") else {
            return Err(CliError::InvalidOption(lossy(word)));
        };
        while let [letter, rest @ ..] = letters {
            letters = rest;
            let mut value = |option: &str, what: &'static str| {
                let rest = std::mem::take(&mut letters);
                if !rest.is_empty() {
                    return Ok(OsString::from_vec(rest.to_vec()));
                }
                words.next().cloned().ok_or_else(|| CliError::MissingValue { option: option.to_owned(), what })
            };
            match letter {
                b'?' | b'h' => asked.show(Show::Help),
                b'v' => asked.show(Show::Version),
                b'V' => asked.show(Show::Build),
                b't' => asked.test = true,
                b'T' => {
                    asked.test = true;
                    asked.dump = true;
                }
                b'q' => asked.options.quiet = true,
                b'p' => {
                    asked.options.prefix = Some(value("-p", "directory name")?.into());
                }
                b'c' => asked.options.conf_file = Some(value("-c", "file name")?.into()),
                b'e' => asked.options.error_log = Some(value("-e", "file name")?.into()),
                b'g' => {
                    let text = value("-g", "parameter")?;
                    let text = text.into_string().map_err(|_| CliError::NotText("-g"))?;
                    asked.options.globals = Some(text);
                }
                b's' => asked.order = Some(order(&value("-s", "parameter")?)?),
                other => {
                    return Err(CliError::InvalidOption(char::from(*other).to_string()));
                }
            }
        }
    }
    Ok(asked.command())
}

fn order(word: &OsStr) -> Result<Order, CliError> {
    match word.as_bytes() {
        b"stop" => Ok(Order::Stop),
        b"quit" => Ok(Order::Quit),
        b"reload" => Ok(Order::Reload),
        b"reopen" => Ok(Order::Reopen),
        _ => Err(CliError::InvalidOption(format!("-s {}", lossy(word)))),
    }
}

fn parse_serve(args: &[OsString]) -> Result<Command, CliError> {
    use lexopt::prelude::*;

    let mut folder = None;
    let mut serve = Serve { folder: PathBuf::from("."), listen: DEFAULT_LISTEN, print_config: false };
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| CliError::InvalidOption(error.to_string()))? {
        match arg {
            Long("listen") | Short('l') => {
                let value = parser
                    .value()
                    .map_err(|_| CliError::MissingValue { option: "--listen".to_owned(), what: "an address" })?;
                let text = lossy(&value);
                serve.listen = serve_socket::address(&text).ok_or(CliError::InvalidListen(text))?;
            }
            Long("print-config") => serve.print_config = true,
            Long("help") | Short('h' | '?') => return Ok(Command::Show(Show::Help)),
            Value(word) if folder.is_none() => folder = Some(PathBuf::from(word)),
            Value(word) => return Err(CliError::InvalidOption(lossy(&word))),
            Long(name) => return Err(CliError::InvalidOption(format!("--{name}"))),
            Short(letter) => return Err(CliError::InvalidOption(letter.to_string())),
        }
    }
    serve.folder =
        folder.ok_or_else(|| CliError::MissingValue { option: "serve".to_owned(), what: "a folder to serve" })?;
    Ok(Command::Serve(serve))
}

/// `[NAME|FILE|DIR]`.
fn parse_profile(args: &[OsString]) -> Result<Command, CliError> {
    match args {
        [] => Ok(Command::Profile(None)),
        [word] if is_help(word) => Ok(Command::Show(Show::Help)),
        [word] if !lossy(word).starts_with('-') => Ok(Command::Profile(Some(word.into()))),
        [word] | [_, word, ..] => Err(CliError::InvalidOption(lossy(word))),
    }
}

/// `ls [PLACE]`, `stat PAGE [PLACE]`, `bans [PLACE]`, `verify [PLACE]`, `clear PLACE`, and the options that say where the
/// configuration is.
fn parse_cache(args: &[OsString]) -> Result<Command, CliError> {
    use lexopt::prelude::*;

    let mut words = Vec::new();
    let mut options = Options::default();
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| CliError::InvalidOption(error.to_string()))? {
        let (option, what) = match arg {
            Short('c') => ("-c", "file name"),
            Short('p') => ("-p", "directory name"),
            Short('e') => ("-e", "file name"),
            Short('g') => ("-g", "parameter"),
            Long("help") | Short('h' | '?') => return Ok(Command::Show(Show::Help)),
            Value(word) => {
                words.push(lossy(&word));
                continue;
            }
            Long(name) => return Err(CliError::InvalidOption(format!("--{name}"))),
            Short(letter) => return Err(CliError::InvalidOption(letter.to_string())),
        };
        let value = parser.value().map_err(|_| CliError::MissingValue { option: option.to_owned(), what })?;
        match option {
            "-c" => options.conf_file = Some(value.into()),
            "-p" => options.prefix = Some(value.into()),
            "-e" => options.error_log = Some(value.into()),
            _ => options.globals = Some(value.into_string().map_err(|_| CliError::NotText("-g"))?),
        }
    }
    let mut words = words.into_iter();
    let missing = |option: &str, what| CliError::MissingValue { option: option.to_owned(), what };
    let deed = match words.next().as_deref() {
        Some("ls") => CacheDeed::List,
        Some("stat") => CacheDeed::Stat(words.next().ok_or_else(|| missing("cache stat", "a URL or a key"))?),
        Some("bans") => CacheDeed::Bans,
        Some("verify") => CacheDeed::Verify,
        Some("clear") => CacheDeed::Clear,
        Some(other) => return Err(CliError::InvalidOption(format!("cache {other}"))),
        None => return Err(missing("cache", "one of ls, stat, bans, verify and clear")),
    };
    let place = words.next();
    if place.is_none() && deed == CacheDeed::Clear {
        return Err(missing("cache clear", "a zone or a folder"));
    }
    match words.next() {
        Some(word) => Err(CliError::InvalidOption(word)),
        None => Ok(Command::Cache(Cache { deed, place, options })),
    }
}

fn lossy(word: &OsStr) -> String {
    word.to_string_lossy().into_owned()
}

const COMMANDS: [&str; 15] = [
    "serve",
    "check",
    "cache",
    "why",
    "explain",
    "purge",
    "cluster",
    "log",
    "profile",
    "shadow",
    "varnishd",
    "varnishstat",
    "varnishlog",
    "varnishncsa",
    "help",
];
/// What other programs call it.
const ELSEWHERE: [(&str, &str); 8] = [
    ("lint", "check"),
    ("test", "check"),
    ("configtest", "check"),
    ("validate", "check"),
    ("stop", "-s stop"),
    ("quit", "-s quit"),
    ("reload", "-s reload"),
    ("reopen", "-s reopen"),
];
const DEFAULT_LISTEN: SocketAddr = SocketAddr::V4(std::net::SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080));

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Command, String> {
        parse(line.split_whitespace().map(OsString::from)).map_err(|error| error.to_string())
    }

    fn options(change: impl FnOnce(&mut Options)) -> Options {
        let mut options = Options::default();
        change(&mut options);
        options
    }

    #[test]
    fn options_are_read_as_nginx_reads_them() {
        let test = |show, dump, change: fn(&mut Options)| {
            Command::Test(Test { show, dump, no_effect: NoEffect::Counted, options: options(change) })
        };
        for (line, expected) in [
            ("", Command::Run(Options::default())),
            ("-", Command::Run(Options::default())),
            ("-c a.conf", Command::Run(options(|o| o.conf_file = Some("a.conf".into())))),
            ("-ca.conf", Command::Run(options(|o| o.conf_file = Some("a.conf".into())))),
            (
                "-p dir/ -c a.conf -e error.log",
                Command::Run(options(|o| {
                    o.prefix = Some("dir/".into());
                    o.conf_file = Some("a.conf".into());
                    o.error_log = Some("error.log".into());
                })),
            ),
            ("-g pid;", Command::Run(options(|o| o.globals = Some("pid;".into())))),
            ("-t", test(None, false, |_| ())),
            ("-tq", test(None, false, |o| o.quiet = true)),
            (
                "-qtc a.conf",
                test(None, false, |o| {
                    o.quiet = true;
                    o.conf_file = Some("a.conf".into());
                }),
            ),
            ("-T", test(None, true, |_| ())),
            ("-vt", test(Some(Show::Version), false, |_| ())),
            ("check -c a.conf", test(None, false, |o| o.conf_file = Some("a.conf".into()))),
            ("-v", Command::Show(Show::Version)),
            ("-V", Command::Show(Show::Build)),
            ("-vV", Command::Show(Show::Build)),
            ("-Vv", Command::Show(Show::Build)),
            ("-h", Command::Show(Show::Help)),
            ("-?", Command::Show(Show::Help)),
            ("-hV", Command::Show(Show::Help)),
            ("help", Command::Show(Show::Help)),
            ("-s stop", Command::Signal(Order::Stop, Options::default())),
            ("-sreload", Command::Signal(Order::Reload, Options::default())),
            (
                "-qs quit -c a",
                Command::Signal(
                    Order::Quit,
                    options(|o| {
                        o.quiet = true;
                        o.conf_file = Some("a".into());
                    }),
                ),
            ),
            ("-s reopen -v", Command::Show(Show::Version)),
        ] {
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn notices_are_listed_where_it_is_asked_for() {
        for (line, dump, is_quiet) in [
            ("--notices", false, false),
            ("-t --notices", false, false),
            ("check --notices", false, false),
            ("--notices -T", true, false),
            ("-qt --notices", false, true),
        ] {
            let options = options(|o| o.quiet = is_quiet);
            let expected = Command::Test(Test { show: None, dump, no_effect: NoEffect::Listed, options });
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
        assert_eq!(parsed("--notice"), Err("invalid option: \"-\"".to_owned()));
    }

    #[test]
    fn what_nginx_refuses_is_refused_in_its_words() {
        for (line, expected) in [
            ("-q start", "invalid option: \"start\""),
            ("-x", "invalid option: \"x\""),
            ("-tx", "invalid option: \"x\""),
            ("-s", "option \"-s\" requires parameter"),
            ("-s start", "invalid option: \"-s start\""),
            ("-c", "option \"-c\" requires file name"),
            ("-tc", "option \"-c\" requires file name"),
            ("-p", "option \"-p\" requires directory name"),
            ("-e", "option \"-e\" requires file name"),
            ("-g", "option \"-g\" requires parameter"),
            ("serve", "option \"serve\" requires a folder to serve"),
            ("serve a b", "invalid option: \"b\""),
            ("profile a b", "invalid option: \"b\""),
            ("profile --json", "invalid option: \"--json\""),
            ("serve a --loud", "invalid option: \"--loud\""),
            ("serve a --listen", "option \"--listen\" requires an address"),
            ("cache", "option \"cache\" requires one of ls, stat, bans, verify and clear"),
            ("cache list", "invalid option: \"cache list\""),
            ("cache stat", "option \"cache stat\" requires a URL or a key"),
            ("cache clear", "option \"cache clear\" requires a zone or a folder"),
            ("cache clear a b", "invalid option: \"b\""),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }

    #[test]
    fn a_first_word_is_a_command() {
        for (line, hint) in [
            ("start", ""),
            ("lint", "; did you mean \"check\"?"),
            ("lint a.conf", "; did you mean \"check\"?"),
            ("reload", "; did you mean \"-s reload\"?"),
            ("chekc", "; did you mean \"check\"?"),
            ("explian http://a/", "; did you mean \"explain\"?"),
            ("logs", "; did you mean \"log\"?"),
        ] {
            let word = line.split(' ').next().unwrap();
            assert_eq!(parsed(line), Err(format!("unknown command: \"{word}\"{hint}")), "{line}");
        }
        for command in COMMANDS {
            let known = parse([OsString::from(command)]);
            assert!(!matches!(known, Err(CliError::UnknownCommand(..))), "{command}: {known:?}");
        }
    }

    #[test]
    fn cache_takes_a_deed_and_a_place() {
        let cache = |deed, place: Option<&str>, change: fn(&mut Options)| {
            Command::Cache(Cache { deed, place: place.map(str::to_owned), options: options(change) })
        };
        for (line, expected) in [
            ("cache ls", cache(CacheDeed::List, None, |_| ())),
            (
                "cache ls pages -c a.conf",
                cache(CacheDeed::List, Some("pages"), |o| o.conf_file = Some("a.conf".into())),
            ),
            ("cache -p /srv/ verify", cache(CacheDeed::Verify, None, |o| o.prefix = Some("/srv/".into()))),
            (
                "cache stat http://a/b /var/cache",
                cache(CacheDeed::Stat("http://a/b".into()), Some("/var/cache"), |_| ()),
            ),
            ("cache bans pages", cache(CacheDeed::Bans, Some("pages"), |_| ())),
            ("cache clear pages", cache(CacheDeed::Clear, Some("pages"), |_| ())),
        ] {
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn serve_listens_where_it_is_told() {
        for (line, listen, print_config) in [
            ("serve .", "127.0.0.1:8080", false),
            ("serve . --listen 127.0.0.2:81", "127.0.0.2:81", false),
            ("serve --listen=[::1]:81 .", "[::1]:81", false),
            ("serve . --listen 8000 --print-config", "127.0.0.1:8000", true),
            ("serve . -l *:80", "0.0.0.0:80", false),
            ("serve . -l :80", "0.0.0.0:80", false),
            ("serve . -l localhost:80", "127.0.0.1:80", false),
        ] {
            let expected = Command::Serve(Serve { folder: ".".into(), listen: listen.parse().unwrap(), print_config });
            assert_eq!(parsed(line), Ok(expected), "{line}");
        }
        for listen in ["example", "", "0", "127.0.0.1:0", "127.0.0.1", "70000", "::1"] {
            assert!(parsed(&format!("serve . --listen={listen}")).is_err(), "{listen}");
        }
    }
}
