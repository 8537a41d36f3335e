//! The options of `larder why`.

use std::ffi::OsString;
use std::path::PathBuf;

/// A question to a running server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Which server.
    pub place: Place,
    /// `--json`: the answer is for programs.
    pub json: bool,
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
    /// An unknown option, or a word that belongs to none.
    #[error("invalid option: \"{0}\"")]
    Unknown(String),
    /// An option without its value.
    #[error("option \"{0}\" requires {1}")]
    MissingValue(&'static str, &'static str),
    /// A value that is not text where text is needed.
    #[error("option \"{0}\" has a value that is not UTF-8")]
    NotText(&'static str),
    /// Two servers.
    #[error("-c, --pid and -n exclude each other: one server is asked")]
    Places,
}

/// Reads the words behind the command; `None` for `-h`.
pub fn parse(args: &[OsString]) -> Result<Option<Ask>, OptionsError> {
    use lexopt::prelude::*;

    let mut options = ConfigurationPlace::default();
    let (mut pid_file, mut folder, mut json) = (None, None, false);
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
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
            Long("json") => json = true,
            Value(word) => return Err(OptionsError::Unknown(word.to_string_lossy().into_owned())),
            Short(letter) => return Err(OptionsError::Unknown(format!("-{letter}"))),
            Long(name) => return Err(OptionsError::Unknown(format!("--{name}"))),
        }
    }
    let place = match (pid_file, folder) {
        (None, None) => Place::Configuration(options),
        (Some(path), None) if options == ConfigurationPlace::default() => Place::PidFile(path),
        (None, Some(path)) if options == ConfigurationPlace::default() => Place::Folder(path),
        _ => return Err(OptionsError::Places),
    };
    Ok(Some(Ask { place, json }))
}

fn value(parser: &mut lexopt::Parser, option: &'static str, what: &'static str) -> Result<OsString, OptionsError> {
    parser.value().map_err(|_| OptionsError::MissingValue(option, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Option<Ask>, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words).map_err(|error| error.to_string())
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
            assert_eq!(parsed(line), Ok(Some(Ask { place, json })), "{line}");
        }
        assert_eq!(parsed("-c a -h"), Ok(None));
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (line, expected) in [
            ("a", "invalid option: \"a\""),
            ("-x", "invalid option: \"-x\""),
            ("--all", "invalid option: \"--all\""),
            ("-c", "option \"-c\" requires file name"),
            ("--pid", "option \"--pid\" requires file name"),
            ("--pid a -c b", "-c, --pid and -n exclude each other: one server is asked"),
            ("--pid a -n b", "-c, --pid and -n exclude each other: one server is asked"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }
}
