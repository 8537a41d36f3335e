//! The options of `larder doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::option_words::{self, Known, OptionsError, plain, valued};

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

/// Parses the words behind `doctor`. `None` asks for help.
pub fn parse(args: &[OsString]) -> Result<Option<Doctor>, OptionsError> {
    let Some(given) = option_words::read(args, &OPTIONS)? else { return Ok(None) };
    let mut asked = Doctor::default();
    for option in given {
        let value = || PathBuf::from(&option.1);
        match option.0.name {
            "-c" => asked.conf_file = Some(value()),
            "-p" => asked.prefix = Some(value()),
            "-g" => asked.globals = Some(option_words::text(&option)?),
            "--root" => asked.root = Some(value()),
            "--json" => asked.is_json = true,
            _ => asked.spares_disks = true,
        }
    }
    Ok(Some(asked))
}

const OPTIONS: [Known; 6] = [
    plain("--json"),
    plain("--no-disk-test"),
    valued("--root", "a folder"),
    valued("-c", "a file name"),
    valued("-p", "a folder"),
    valued("-g", "directives"),
];

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
            ("--all", "unknown option \"--all\": there are --json, --no-disk-test, --root, -c, -p and -g"),
            ("--no-disk-tests", "unknown option \"--no-disk-tests\": did you mean \"--no-disk-test\"?"),
            ("now", "\"now\" stands behind no option: write --root, -c, -p or -g before it, or leave it out"),
            ("--root", "option \"--root\" requires a folder"),
        ] {
            assert_eq!(parsed(line).unwrap_err().to_string(), error);
        }
    }
}
