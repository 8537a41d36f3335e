//! varnishd's options, letter for letter.

use std::ffi::OsString;
use std::path::PathBuf;

use larder_vcl::parameters;

use super::jail::{self, Jail};
use super::listen::{self, Endpoint};
use super::settings::Settings;
use super::storages::{self, Storage};

/// What a command line of `larder varnishd` asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Varnishd {
    /// `-V`: print the version.
    Version,
    /// `-?`: print the options.
    Help,
    /// `-x builtin`: print the builtin VCL.
    Builtin,
    /// `-C`: check a VCL.
    Check(Box<Check>),
    /// Serve.
    Serve(Box<Serve>),
}

/// A check of a VCL.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// What is checked.
    pub source: Source,
    /// `-p`.
    pub settings: Settings,
    /// `-s`.
    pub storages: Vec<Storage>,
}

/// Everything that decides how requests are served.
#[derive(Clone, Debug, PartialEq)]
pub struct Serve {
    /// The first VCL, unless it comes over the CLI: `-f ''`.
    pub source: Option<Source>,
    /// `-p` and `-t`.
    pub settings: Settings,
    /// `-r`: the parameters that the CLI may not set.
    pub read_only: Vec<String>,
    /// `-s`.
    pub storages: Vec<Storage>,
    /// `-a`.
    pub endpoints: Vec<Endpoint>,
    /// `-T`: where the CLI is.
    pub cli: CliPlace,
    /// `-M`: the address of a manager, to which the CLI connects.
    pub manager: Option<String>,
    /// `-S`: what a client of the CLI has to know.
    pub secret: SecretPlace,
    /// `-I`: commands of the CLI that are carried out first.
    pub commands: Option<PathBuf>,
    /// `-n`: the folder of this server.
    pub folder: Option<PathBuf>,
    /// `-i`: what it calls itself.
    pub identity: Option<String>,
    /// `-P`.
    pub pid_file: Option<PathBuf>,
    /// `-j`.
    pub jail: Jail,
    /// `-F`.
    pub in_foreground: bool,
}

/// Where the CLI listens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CliPlace {
    /// At any port of this machine.
    #[default]
    Anywhere,
    /// Nowhere.
    Nowhere,
    /// At these addresses.
    At(Vec<String>),
}

/// Where the secret of the CLI is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecretPlace {
    /// A new one, in a file of the folder of this server.
    #[default]
    Own,
    /// Nobody has to know one.
    None,
    /// In this file.
    File(PathBuf),
}

/// Where a VCL comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// `-f`: each of these files is one.
    Files(Vec<PathBuf>),
    /// `-b`: it is the builtin one, before the backend at this place.
    Backend(String),
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A letter that varnishd does not have.
    #[error("varnishd has no option \"{0}\"")]
    Unknown(String),
    /// A word that belongs to no option.
    #[error("\"{0}\" belongs to no option: a VCL is given by -f {0}")]
    Word(String),
    /// An option without its value.
    #[error("option \"-{letter}\" requires {what}")]
    MissingValue {
        /// The option.
        letter: char,
        /// What was expected.
        what: &'static str,
    },
    /// A value that cannot be.
    #[error("\"-{letter} {value}\": {why}")]
    Value {
        /// The option.
        letter: char,
        /// What was given.
        value: String,
        /// What is wrong.
        why: String,
    },
    /// A name that is given twice.
    #[error("-{letter}: the name \"{name}\" is given twice")]
    Twice {
        /// The option.
        letter: char,
        /// The name.
        name: String,
    },
    /// Options that do not go together, or one that is missing.
    #[error("{0}")]
    Together(&'static str),
}

/// The options that have a value, and what that is.
const WITH_VALUE: [(char, &str); 21] = [
    ('a', "an address to listen at"),
    ('b', "the address of a backend"),
    ('E', "the name of an extension"),
    ('f', "a file"),
    ('h', "the name of a hash"),
    ('I', "a file"),
    ('i', "a name"),
    ('j', "the name of a jail"),
    ('l', "a size"),
    ('M', "an address"),
    ('n', "a folder"),
    ('P', "a file"),
    ('p', "NAME=VALUE"),
    ('r', "names of parameters"),
    ('S', "a file"),
    ('s', "a storage"),
    ('T', "an address"),
    ('t', "a number of seconds"),
    ('W', "the name of a waiter"),
    ('x', "the name of a list"),
    ('k', "a number"),
];

/// What has been asked for so far.
#[derive(Default)]
struct Asked {
    checks: bool,
    in_foreground: bool,
    files: Vec<PathBuf>,
    backend: Option<String>,
    settings: Settings,
    read_only: Vec<String>,
    storages: Vec<Storage>,
    endpoints: Vec<Endpoint>,
    cli: CliPlace,
    manager: Option<String>,
    secret: SecretPlace,
    commands: Option<PathBuf>,
    folder: Option<PathBuf>,
    identity: Option<String>,
    pid_file: Option<PathBuf>,
    jail: Jail,
}

/// Parses the words behind `varnishd`.
pub fn parse(args: &[OsString]) -> Result<Varnishd, OptionsError> {
    use lexopt::prelude::*;

    let mut asked = Asked::default();
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
        let letter = match arg {
            Short('V') => return Ok(Varnishd::Version),
            Short('?') | Long("help") => return Ok(Varnishd::Help),
            Short('C') => {
                asked.checks = true;
                continue;
            }
            Short('F') => {
                asked.in_foreground = true;
                continue;
            }
            Short('d') => return Err(OptionsError::Together(NO_DEBUGGING)),
            Short(letter) => letter,
            Long(name) => return Err(OptionsError::Unknown(format!("--{name}"))),
            Value(word) => return Err(OptionsError::Word(word.to_string_lossy().into_owned())),
        };
        let Some((_, what)) = WITH_VALUE.iter().find(|(own, _)| *own == letter) else {
            return Err(OptionsError::Unknown(format!("-{letter}")));
        };
        let value = parser.value().map_err(|_| OptionsError::MissingValue { letter, what })?;
        if let Some(done) = asked.take(letter, value)? {
            return Ok(done);
        }
    }
    asked.end()
}

impl Asked {
    /// Takes an option with a value.
    fn take(&mut self, letter: char, value: OsString) -> Result<Option<Varnishd>, OptionsError> {
        let text = value.to_string_lossy().into_owned();
        let refused = |why: String| OptionsError::Value { letter, value: text.clone(), why };
        match letter {
            'f' => self.files.push(value.into()),
            'b' => self.backend = Some(text),
            's' => self.storages.push(storages::parse(&text, self.storages.len()).map_err(refused)?),
            'a' => self.endpoints.push(listen::parse(&text, self.endpoints.len()).map_err(refused)?),
            'p' => {
                let (name, set) = text.split_once('=').ok_or_else(|| refused("write -p NAME=VALUE".to_owned()))?;
                self.settings.set(name, set).map_err(refused)?;
            }
            // The second size is that of counters.
            'l' => {
                let space = text.split(',').next().unwrap_or_default();
                self.settings.set("vsl_space", space).map_err(refused)?;
            }
            't' => self.settings.set("default_ttl", &text).map_err(refused)?,
            'r' => {
                for name in text.split(',').map(str::trim) {
                    parameters::check_name(name).map_err(refused)?;
                    self.read_only.push(name.to_owned());
                }
            }
            'T' => self.cli = cli_place(std::mem::take(&mut self.cli), text),
            'S' if text == "none" => self.secret = SecretPlace::None,
            'S' => self.secret = SecretPlace::File(value.into()),
            'I' => self.commands = Some(value.into()),
            'n' => self.folder = Some(value.into()),
            'i' => self.identity = Some(identity(&text).map_err(refused)?),
            'P' => self.pid_file = Some(value.into()),
            'j' => self.jail = jail::parse(&text).map_err(refused)?,
            'M' if text.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err()) => {
                return Err(refused("write an address and a port: HOST:PORT".to_owned()));
            }
            'M' => match self.manager.replace(text) {
                None => {}
                Some(_) => return Err(OptionsError::Together("only one -M can be given")),
            },
            'x' if text == "builtin" => return Ok(Some(Varnishd::Builtin)),
            'x' => return Err(refused("larder prints the list \"builtin\" only".to_owned())),
            // How varnishd keeps its pages, log and threads, which larder does in its own way.
            'E' | 'h' | 'k' | 'W' => {}
            _ => {}
        }
        Ok(None)
    }

    fn end(self) -> Result<Varnishd, OptionsError> {
        let conflict = |why| Err(OptionsError::Together(why));
        let has_none = self.files.iter().any(|file| file.as_os_str().is_empty());
        let source = match (self.backend, self.files.is_empty()) {
            (Some(_), false) => return conflict("only one of -b and -f can be given"),
            (None, true) => return conflict("one of -f FILE and -b ADDRESS is needed; -f '' begins without a VCL"),
            (Some(backend), true) => Some(Source::Backend(backend)),
            (None, false) if has_none && self.files.len() > 1 => return conflict("-f '' goes with no other -f"),
            (None, false) if has_none => None,
            (None, false) => Some(Source::Files(self.files)),
        };
        let storages = storages::with_defaults(self.storages);
        if let Some(name) = storages::twice(&storages) {
            return Err(OptionsError::Twice { letter: 's', name: name.to_owned() });
        }
        match (self.checks, source) {
            (true, None) => conflict("-C needs the name of a file behind -f"),
            (true, Some(source)) => Ok(Varnishd::Check(Box::new(Check { source, settings: self.settings, storages }))),
            (false, source) => Ok(Varnishd::Serve(Box::new(Serve {
                source,
                settings: self.settings,
                read_only: self.read_only,
                storages,
                endpoints: match self.endpoints.is_empty() {
                    true => vec![Endpoint::of_all_addresses()],
                    false => self.endpoints,
                },
                cli: self.cli,
                manager: self.manager,
                secret: self.secret,
                commands: self.commands,
                folder: self.folder,
                identity: self.identity,
                pid_file: self.pid_file,
                jail: self.jail,
                in_foreground: self.in_foreground,
            }))),
        }
    }
}

const NO_DEBUGGING: &str =
    "larder has no -d, a CLI on standard input: use -F, and varnishadm with the addresses of -T and the secret of -S";

fn cli_place(before: CliPlace, text: String) -> CliPlace {
    match (before, text.as_str()) {
        (_, "none") => CliPlace::Nowhere,
        (CliPlace::At(mut all), _) => {
            all.push(text);
            CliPlace::At(all)
        }
        (CliPlace::Anywhere | CliPlace::Nowhere, _) => CliPlace::At(vec![text]),
    }
}

/// The name of a server, which stands in fields of answers.
fn identity(text: &str) -> Result<String, String> {
    match !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("write a name without spaces".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Varnishd, String> {
        let words: Vec<OsString> = line.split_whitespace().map(|word| word.trim_matches('\'').into()).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    fn check(change: impl FnOnce(&mut Check)) -> Result<Varnishd, String> {
        let mut check = Check {
            source: Source::Files(vec!["a.vcl".into()]),
            settings: Settings::default(),
            storages: storages::with_defaults(Vec::new()),
        };
        change(&mut check);
        Ok(Varnishd::Check(Box::new(check)))
    }

    fn named(names: &[&str]) -> Vec<Storage> {
        let storages = names.iter().map(|name| storages::parse(&format!("{name}=malloc"), 0).unwrap()).collect();
        storages::with_defaults(storages)
    }

    fn set(pairs: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        pairs.iter().for_each(|(name, value)| settings.set(name, value).unwrap());
        settings
    }

    #[test]
    fn options_are_those_of_varnishd() {
        for (line, expected) in [
            ("-C -f a.vcl", check(|_| ())),
            ("-Cfa.vcl", check(|_| ())),
            ("-C -F -j unix,user=vcache -f a.vcl", check(|_| ())),
            ("-C -a :80 -T localhost:6082 -n /tmp/v -S secret -f a.vcl", check(|_| ())),
            ("-C -f a.vcl -f b.vcl", check(|check| check.source = Source::Files(vec!["a.vcl".into(), "b.vcl".into()]))),
            ("-C -b 127.0.0.1:8080", check(|check| check.source = Source::Backend("127.0.0.1:8080".into()))),
            ("-C -f a.vcl -p vcl_path=/a:/b", check(|check| check.settings = set(&[("vcl_path", "/a:/b")]))),
            (
                "-C -f a.vcl -p vcc_feature=-err_unref",
                check(|check| check.settings = set(&[("vcc_feature", "-err_unref")])),
            ),
            ("-C -f a.vcl -p default_ttl=10", check(|check| check.settings = set(&[("default_ttl", "10")]))),
            ("-C -f a.vcl -t 10", check(|check| check.settings = set(&[("default_ttl", "10")]))),
            (
                "-C -f a.vcl -s s0=malloc -s big=malloc -s Transient=malloc",
                check(|check| check.storages = named(&["s0", "big", "Transient"])),
            ),
            ("-V", Ok(Varnishd::Version)),
            ("-?", Ok(Varnishd::Help)),
            ("-x builtin", Ok(Varnishd::Builtin)),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_said() {
        for (line, expected) in [
            ("", "one of -f FILE and -b ADDRESS is needed; -f '' begins without a VCL"),
            ("-C", "one of -f FILE and -b ADDRESS is needed; -f '' begins without a VCL"),
            ("-C -f", "option \"-f\" requires a file"),
            ("-C -f a.vcl -b :80", "only one of -b and -f can be given"),
            ("-d -f a.vcl", NO_DEBUGGING),
            ("-f a.vcl -f ''", "-f '' goes with no other -f"),
            ("-f a.vcl -M localhost:1 -M localhost:2", "only one -M can be given"),
            ("-f a.vcl -M localhost", "\"-M localhost\": write an address and a port: HOST:PORT"),
            ("-f a.vcl -l much", "\"-l much\": write a size such as 64k in place of \"much\""),
            ("-f a.vcl -s a=malloc -s a=malloc", "-s: the name \"a\" is given twice"),
            ("-f a.vcl -a :x", "\"-a :x\": \":x\" is no address: write :80, host:80, [address]:80 or /path"),
            (
                "-f a.vcl -r default_tll",
                "\"-r default_tll\": varnishd has no parameter \"default_tll\"; did you mean \"default_ttl\"?",
            ),
            ("-C -f ''", "-C needs the name of a file behind -f"),
            ("-C -Z -f a.vcl", "varnishd has no option \"-Z\""),
            ("-C --check", "varnishd has no option \"--check\""),
            ("-C a.vcl", "\"a.vcl\" belongs to no option: a VCL is given by -f a.vcl"),
            ("-C -p a", "\"-p a\": write -p NAME=VALUE"),
            (
                "-C -p default_tll=1",
                "\"-p default_tll=1\": varnishd has no parameter \"default_tll\"; did you mean \"default_ttl\"?",
            ),
            (
                "-C -p vcc_feature=+fast",
                "\"-p vcc_feature=+fast\": \"fast\" is none of allow_inline_c, err_unref, unsafe_path",
            ),
            ("-x vsl", "\"-x vsl\": larder prints the list \"builtin\" only"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }
    #[test]
    fn the_command_line_of_a_unit_file_serves() {
        let line = "-j unix,user=vcache -F -a :6081 -a p=[::1]:81,PROXY -T localhost:6082 -T :6083 -f /etc/varnish/default.vcl \
                    -S /etc/varnish/secret -s malloc,256m -t 20 -n v1 -i me -P pid -r vcl_path,thread_pools -I start.cli";
        let Ok(Varnishd::Serve(serve)) = parsed(line) else { panic!("{:?}", parsed(line)) };
        assert_eq!(serve.source, Some(Source::Files(vec!["/etc/varnish/default.vcl".into()])));
        assert_eq!(serve.jail, Jail::User("vcache".to_owned()));
        assert_eq!(serve.endpoints.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["a0", "p"]);
        assert_eq!(serve.cli, CliPlace::At(vec!["localhost:6082".to_owned(), ":6083".to_owned()]));
        assert_eq!(serve.secret, SecretPlace::File("/etc/varnish/secret".into()));
        assert_eq!(serve.settings, set(&[("default_ttl", "20")]));
        assert_eq!(
            serve.storages,
            named(&["s0"])
                .into_iter()
                .map(|one| match one.name.as_str() {
                    "s0" => storages::parse("malloc,256m", 0).unwrap(),
                    _ => one,
                })
                .collect::<Vec<_>>()
        );
        assert_eq!((serve.folder, serve.pid_file), (Some("v1".into()), Some("pid".into())));
        assert_eq!((serve.identity.as_deref(), serve.in_foreground), (Some("me"), true));
        assert_eq!(serve.read_only, ["vcl_path", "thread_pools"]);
        assert_eq!(serve.commands, Some("start.cli".into()));
    }

    #[test]
    fn without_options_varnishd_has_its_own() {
        let Ok(Varnishd::Serve(serve)) = parsed("-f '' -T none -S none") else { panic!() };
        assert_eq!((serve.source, serve.in_foreground), (None, false));
        assert_eq!(serve.endpoints, [Endpoint::of_all_addresses()]);
        assert_eq!((serve.cli, serve.secret), (CliPlace::Nowhere, SecretPlace::None));
    }
}
