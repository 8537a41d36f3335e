//! The options of `larder doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

/// What a command line of `larder doctor` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Doctor {
    /// `-c`: the configuration.
    pub conf_file: Option<PathBuf>,
    /// `-p`: the folder that relative names in it begin from.
    pub prefix: Option<PathBuf>,
    /// `-g`: directives before it.
    pub globals: Option<String>,
    /// `--json`.
    pub is_json: bool,
    /// `--no-disk-test`: disks are not written to.
    pub spares_disks: bool,
    /// `--root DIR`: another machine.
    pub root: Option<PathBuf>,
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
    /// A value that is not text.
    #[error("option \"-g\" has a value that is not UTF-8")]
    NotText,
}

/// Parses the words behind `doctor`. `None` asks for help.
pub fn parse(args: &[OsString]) -> Result<Option<Doctor>, OptionsError> {
    use lexopt::prelude::*;

    let mut asked = Doctor::default();
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
        let (option, what) = match arg {
            Long("json") => {
                asked.is_json = true;
                continue;
            }
            Long("no-disk-test") => {
                asked.spares_disks = true;
                continue;
            }
            Long("help") | Short('h' | '?') => return Ok(None),
            Short('c') => ("-c", "file name"),
            Short('p') => ("-p", "directory name"),
            Short('g') => ("-g", "parameter"),
            Long("root") => ("--root", "a folder"),
            Long(name) => return Err(OptionsError::Unknown(format!("--{name}"))),
            Short(letter) => return Err(OptionsError::Unknown(letter.to_string())),
            Value(word) => return Err(OptionsError::Unknown(word.to_string_lossy().into_owned())),
        };
        let value = parser.value().map_err(|_| OptionsError::MissingValue(option, what))?;
        match option {
            "-c" => asked.conf_file = Some(value.into()),
            "-p" => asked.prefix = Some(value.into()),
            "-g" => asked.globals = Some(value.into_string().map_err(|_| OptionsError::NotText)?),
            _ => asked.root = Some(value.into()),
        }
    }
    Ok(Some(asked))
}

/// What `larder doctor -h` prints.
pub const HELP: &str = "\
Usage: larder doctor [options]
Looks at this machine and says what will hurt, why, and what mends it.

  -c, -p, -g        : the configuration, as for \"larder -h\"; by default that of the server that runs
  --json            : the answer for programs
  --no-disk-test    : write nothing to the folders of cached pages; otherwise each disk is measured for two seconds
  --root DIR        : look at the machine whose / is DIR

Exit status: 0 in order, 1 warnings, 2 errors, 3 could not look.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        let expected = Doctor {
            conf_file: Some("a".into()),
            prefix: Some("p".into()),
            globals: None,
            is_json: true,
            spares_disks: true,
            root: Some("/r".into()),
        };
        assert_eq!(parsed("-c a -p p --json --no-disk-test --root=/r"), Ok(Some(expected)));
        assert_eq!(parsed(""), Ok(Some(Doctor::default())));
        assert_eq!(parsed("-h"), Ok(None));
        for (line, error) in [
            ("--all", "invalid option: \"--all\""),
            ("-x", "invalid option: \"x\""),
            ("now", "invalid option: \"now\""),
            ("--root", "option \"--root\" requires a folder"),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error);
        }
    }
}
