//! The options of `larder import`.

use std::ffi::OsString;
use std::path::PathBuf;

/// What a command line of `larder import` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// Whose configuration.
    pub of: Other,
    /// `-c FILE`: nginx's main file, if it is elsewhere.
    pub conf_file: Option<PathBuf>,
    /// `--root DIR`: another machine.
    pub root: Option<PathBuf>,
    /// `--json`.
    pub is_json: bool,
    /// `--write DIR`: where the files go that a switch-over needs.
    pub write: Option<PathBuf>,
}

/// The server whose place larder is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Other {
    /// nginx.
    Nginx,
    /// Varnish.
    Varnish,
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
}

/// Parses the words behind `import`. `None` asks for help.
pub fn parse(args: &[OsString]) -> Result<Option<Import>, OptionsError> {
    use lexopt::prelude::*;

    let (mut of, mut conf_file, mut root, mut is_json, mut write) = (None, None, None, false, None);
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
        let (slot, option, what) = match arg {
            Long("json") => {
                is_json = true;
                continue;
            }
            Long("help") | Short('h' | '?') => return Ok(None),
            Value(word) if of.is_none() => {
                of = Some(match word.to_str() {
                    Some("nginx") => Other::Nginx,
                    Some("varnish") => Other::Varnish,
                    _ => return Err(OptionsError::Unknown(word.to_string_lossy().into_owned())),
                });
                continue;
            }
            Short('c') => (&mut conf_file, "-c", "file name"),
            Long("root") => (&mut root, "--root", "a folder"),
            Long("write") => (&mut write, "--write", "a folder"),
            Long(name) => return Err(OptionsError::Unknown(format!("--{name}"))),
            Short(letter) => return Err(OptionsError::Unknown(letter.to_string())),
            Value(word) => return Err(OptionsError::Unknown(word.to_string_lossy().into_owned())),
        };
        let value = parser.value().map_err(|_| OptionsError::MissingValue(option, what))?;
        *slot = Some(PathBuf::from(value));
    }
    let of = of.ok_or(OptionsError::MissingValue("import", "nginx or varnish"))?;
    Ok(Some(Import { of, conf_file, root, is_json, write }))
}

/// What `larder import -h` prints.
pub const HELP: &str = "\
Usage: larder import nginx|varnish [options]
Says what of the nginx or Varnish of this machine works with larder, what differs, and how to switch over and back.
It changes nothing.

  -c FILE           : nginx's main file, if its unit does not name it and it is not /etc/nginx/nginx.conf
  --json            : the answer for programs
  --root DIR        : look at the machine whose / is DIR
  --write DIR       : write the files that a switch-over needs into DIR, which is made; none that is there is changed

Exit status: 0 all of it works, 1 something does not, 2 there is nothing to import, or it cannot be written.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let parsed = |line: &str| parse(&line.split_whitespace().map(OsString::from).collect::<Vec<_>>());
        let all = Import {
            of: Other::Nginx,
            conf_file: Some("/a".into()),
            root: Some("/r".into()),
            is_json: true,
            write: Some("w".into()),
        };
        assert_eq!(parsed("nginx -c /a --root /r --json --write=w"), Ok(Some(all)));
        let plain = Import { of: Other::Varnish, conf_file: None, root: None, is_json: false, write: None };
        assert_eq!(parsed("varnish"), Ok(Some(plain)));
        assert_eq!(parsed("nginx -h"), Ok(None));
        for (line, error) in [
            ("", "option \"import\" requires nginx or varnish"),
            ("apache", "invalid option: \"apache\""),
            ("nginx varnish", "invalid option: \"varnish\""),
            ("nginx --write", "option \"--write\" requires a folder"),
            ("nginx --force", "invalid option: \"--force\""),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error, "{line}");
        }
    }
}
