//! The options of `larder why` and `larder explain`.

use std::ffi::OsString;
use std::path::PathBuf;

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
    /// A value that would end a line.
    #[error("option \"{0}\" has a value of several lines")]
    Lines(&'static str),
    /// `explain` without a URL.
    #[error("\"explain\" requires a URL")]
    NoUrl,
    /// Two servers.
    #[error("-c, --pid and -n exclude each other: one server is asked")]
    Places,
}

/// Reads the words behind `why`, or behind `explain` if `explains`; `None` for `-h`.
pub fn parse(args: &[OsString], explains: bool) -> Result<Option<Ask>, OptionsError> {
    use lexopt::prelude::*;

    let mut options = ConfigurationPlace::default();
    let (mut pid_file, mut folder, mut json) = (None, None, false);
    let (mut url, mut method, mut from, mut fields) = (None, "GET".to_owned(), String::new(), Vec::new());
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
            Short('X') if explains => method = line(value(&mut parser, "-X", "a method")?, "-X")?,
            Short('H') if explains => fields.push(line(value(&mut parser, "-H", "a field")?, "-H")?),
            Long("from") if explains => from = line(value(&mut parser, "--from", "an address")?, "--from")?,
            Value(word) if explains && url.is_none() => url = Some(line(word, "URL")?),
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
    let what = match explains {
        true => What::Explain { url: url.ok_or(OptionsError::NoUrl)?, method, from, fields },
        false => What::Why,
    };
    Ok(Some(Ask { what, place, json }))
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
        parse(&words, false).map_err(|error| error.to_string())
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
            parse(&words, true).map(|asked| asked.map(|asked| asked.what)).map_err(|error| error.to_string())
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
