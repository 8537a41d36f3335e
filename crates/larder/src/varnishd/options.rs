//! varnishd's options, letter for letter.

use std::ffi::OsString;
use std::path::PathBuf;

use larder_vcl::parameters::{self, Parameters};

/// What a command line of `larder varnishd` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Varnishd {
    /// `-V`: print the version.
    Version,
    /// `-?`: print the options.
    Help,
    /// `-x builtin`: print the builtin VCL.
    Builtin,
    /// `-C`: check a VCL.
    Check(Check),
}

/// A check of a VCL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What is checked.
    pub source: Source,
    /// The folders in which files are looked for: `-p vcl_path=`.
    pub vcl_path: Vec<PathBuf>,
    /// Whether what nothing refers to is a warning only: `-p vcc_feature=-err_unref`.
    pub allows_unused: bool,
    /// The names of the storages: `-s`.
    pub storages: Vec<String>,
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
    /// Options that do not go together, or one that is missing.
    #[error("{0}")]
    Together(&'static str),
    /// What is not built yet.
    #[error(
        "larder does not run a VCL yet, it only checks one: add -C. Meanwhile nginx's directives do the caching \
         (docs/caching.md), or varnishd runs the VCL in front of larder"
    )]
    NotBuilt,
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
    debugs: bool,
    files: Vec<PathBuf>,
    backend: Option<String>,
    vcl_path: Option<Vec<PathBuf>>,
    allows_unused: bool,
    storages: Vec<String>,
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
            Short('d') => {
                asked.debugs = true;
                continue;
            }
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
    /// Takes an option with a value. Those that mean nothing for a check are only read.
    fn take(&mut self, letter: char, value: OsString) -> Result<Option<Varnishd>, OptionsError> {
        let text = value.to_string_lossy().into_owned();
        let refused = |why: String| OptionsError::Value { letter, value: text.clone(), why };
        match letter {
            'f' => self.files.push(value.into()),
            'b' => self.backend = Some(text),
            's' => self.storages.push(storage(&text, self.storages.len())),
            'p' => {
                let (name, set) = text.split_once('=').ok_or_else(|| refused("write -p NAME=VALUE".to_owned()))?;
                self.parameter(name, set).map_err(refused)?;
            }
            'x' if text == "builtin" => return Ok(Some(Varnishd::Builtin)),
            'x' => return Err(refused("larder prints the list \"builtin\" only".to_owned())),
            _ => {}
        }
        Ok(None)
    }

    fn parameter(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "vcl_path" => self.vcl_path = Some(parameters::folders(value)),
            "vcc_feature" => {
                if let Some(is_error) = parameters::flag(value, "err_unref")? {
                    self.allows_unused = !is_error;
                }
            }
            // The same in Varnish 7.
            "vcc_err_unref" => self.allows_unused = !parameters::switch(value)?,
            // A check needs to know only that they can be set so.
            _ => {
                Parameters::default().set(name, value)?;
            }
        }
        Ok(())
    }

    fn end(self) -> Result<Varnishd, OptionsError> {
        let conflict = |why| Err(OptionsError::Together(why));
        if self.debugs && self.in_foreground {
            return conflict("only one of -d and -F can be given");
        }
        let files: Vec<PathBuf> = self.files;
        let source = match (self.backend, files.is_empty()) {
            (Some(_), false) => return conflict("only one of -b and -f can be given"),
            (None, true) => return conflict("one of -f FILE and -b ADDRESS is needed"),
            (Some(backend), true) => Source::Backend(backend),
            (None, false) => Source::Files(files),
        };
        if !self.checks {
            return Err(OptionsError::NotBuilt);
        }
        if matches!(&source, Source::Files(files) if files.iter().any(|file| file.as_os_str().is_empty())) {
            return conflict("-C needs the name of a file behind -f");
        }
        Ok(Varnishd::Check(Check {
            source,
            vcl_path: self.vcl_path.unwrap_or_else(|| parameters::folders(parameters::VCL_PATH)),
            allows_unused: self.allows_unused,
            storages: with_defaults(self.storages),
        }))
    }
}

/// What varnishd adds: a storage for pages unless one is given, and one for what does not last.
fn with_defaults(mut storages: Vec<String>) -> Vec<String> {
    const TRANSIENT: &str = "Transient";
    if storages.iter().all(|name| name == TRANSIENT) {
        storages.push("s0".to_owned());
    }
    if storages.iter().all(|name| name != TRANSIENT) {
        storages.push(TRANSIENT.to_owned());
    }
    storages
}

/// The name of a storage: what stands before `=`, or `s` and its number.
fn storage(text: &str, number: usize) -> String {
    let kind = text.split(',').next().unwrap_or_default();
    kind.split_once('=').map_or_else(|| format!("s{number}"), |(name, _)| name.to_owned())
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
            vcl_path: vec!["/etc/varnish".into(), "/usr/share/varnish/vcl".into()],
            allows_unused: false,
            storages: vec!["s0".to_owned(), "Transient".to_owned()],
        };
        change(&mut check);
        Ok(Varnishd::Check(check))
    }

    #[test]
    fn options_are_those_of_varnishd() {
        for (line, expected) in [
            ("-C -f a.vcl", check(|_| ())),
            ("-Cfa.vcl", check(|_| ())),
            ("-C -F -j unix,user=vcache -f a.vcl", check(|_| ())),
            ("-C -a :80 -T localhost:6082 -n /tmp/v -S secret -t 120 -f a.vcl", check(|_| ())),
            ("-C -f a.vcl -f b.vcl", check(|check| check.source = Source::Files(vec!["a.vcl".into(), "b.vcl".into()]))),
            ("-C -b 127.0.0.1:8080", check(|check| check.source = Source::Backend("127.0.0.1:8080".into()))),
            ("-C -f a.vcl -p vcl_path=/a:/b", check(|check| check.vcl_path = vec!["/a".into(), "/b".into()])),
            ("-C -f a.vcl -p vcc_feature=-err_unref", check(|check| check.allows_unused = true)),
            ("-C -f a.vcl -p vcc_feature=-err_unref -p vcc_feature=+err_unref", check(|_| ())),
            ("-C -f a.vcl -p vcc_err_unref=off", check(|check| check.allows_unused = true)),
            ("-C -f a.vcl -p default_ttl=10", check(|_| ())),
            (
                "-C -f a.vcl -s malloc,1g -s big=file,/tmp/x,1g -s Transient=malloc",
                check(|check| check.storages = ["s0", "big", "Transient"].map(str::to_owned).to_vec()),
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
            ("", "one of -f FILE and -b ADDRESS is needed"),
            ("-C", "one of -f FILE and -b ADDRESS is needed"),
            ("-C -f", "option \"-f\" requires a file"),
            ("-C -f a.vcl -b :80", "only one of -b and -f can be given"),
            ("-d -F -f a.vcl", "only one of -d and -F can be given"),
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
        assert!(parsed("-a :80 -f a.vcl -s malloc,1g").is_err_and(|error| error.contains("add -C")));
    }
}
