//! Reads the words behind a command by a table of its options, and says what is wrong with them and what mends it.

use std::ffi::OsString;

use larder_source::nearest;

/// An option of a command.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// As it is written: `-c` or `--log`.
    pub name: &'static str,
    /// What its value is, if it has one.
    pub value: Option<&'static str>,
}

/// An option that has a value.
pub const fn valued(name: &'static str, value: &'static str) -> Known {
    Known { name, value: Some(value) }
}

/// An option that has none.
pub const fn plain(name: &'static str) -> Known {
    Known { name, value: None }
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// No such option, and what may be meant.
    #[error("unknown option \"{0}\": {1}")]
    Unknown(String, String),
    /// A word that is no value of an option.
    #[error("\"{0}\" stands behind no option: write {1} before it, or leave it out")]
    Word(String, String),
    /// An option without its value.
    #[error("option \"{0}\" requires {1}")]
    MissingValue(&'static str, &'static str),
    /// An option with a value that it does not have.
    #[error("option \"{0}\" has no value: leave out \"={1}\"")]
    NeedlessValue(&'static str, String),
    /// A value that cannot be.
    #[error("option \"{0}\" requires {1}, not \"{2}\"")]
    Invalid(&'static str, &'static str, String),
    /// The same, and what is wrong with it.
    #[error("option \"{0}\" cannot be \"{1}\": {2}")]
    Wrong(&'static str, String, String),
    /// What has to be there.
    #[error("it lacks {0}")]
    Lacks(&'static str),
    /// Two options that do not go together.
    #[error("option \"{0}\" needs \"{1}\" beside it")]
    Needs(&'static str, &'static str),
}

/// An option with its value, which is empty if it has none.
pub type Given = (Known, OsString);

/// Reads the words; `None` asks for help, whatever else is there.
pub fn read(args: &[OsString], known: &[Known]) -> Result<Option<Vec<Given>>, OptionsError> {
    use lexopt::prelude::*;

    let mut given = Vec::new();
    let mut wrong = None;
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    loop {
        let found = match parser.next() {
            Ok(None) => break,
            Ok(Some(Long("help") | Short('h' | '?'))) => return Ok(None),
            Ok(Some(Long(name))) => find(&format!("--{name}"), known),
            Ok(Some(Short(letter))) => find(&format!("-{letter}"), known),
            Ok(Some(Value(word))) => {
                let options = known.iter().filter(|known| known.value.is_some()).map(|known| known.name);
                Err(OptionsError::Word(word.to_string_lossy().into_owned(), listed(options, "or")))
            }
            Err(lexopt::Error::UnexpectedValue { option, value }) => match find(&option, known) {
                Ok(known) => Err(OptionsError::NeedlessValue(known.name, value.to_string_lossy().into_owned())),
                Err(unknown) => Err(unknown),
            },
            Err(error) => Err(OptionsError::Unknown(error.to_string(), there_are(known))),
        };
        let taken = found.and_then(|option| match option.value {
            None => Ok((option, OsString::new())),
            Some(what) => {
                let value = parser.value().ok().filter(|value| !value.is_empty() && !is_option(value, known));
                value.map(|value| (option, value)).ok_or(OptionsError::MissingValue(option.name, what))
            }
        });
        match taken {
            Ok(option) => given.push(option),
            // The first is told; a word that asks for help may follow.
            Err(error) => wrong = wrong.or(Some(error)),
        }
    }
    wrong.map_or(Ok(Some(given)), Err)
}

fn find(word: &str, known: &[Known]) -> Result<Known, OptionsError> {
    known.iter().find(|known| known.name == word).copied().ok_or_else(|| {
        let near = nearest(word, known.iter().map(|known| known.name)).filter(|_| word.starts_with("--"));
        let mend = near.map_or_else(|| there_are(known), |near| format!("did you mean \"{near}\"?"));
        OptionsError::Unknown(word.to_owned(), mend)
    })
}

fn there_are(known: &[Known]) -> String {
    format!("there are {}", listed(known.iter().map(|known| known.name), "and"))
}

fn listed(names: impl Iterator<Item = &'static str>, last: &str) -> String {
    let names: Vec<&str> = names.collect();
    match names.split_last() {
        Some((end, [])) => (*end).to_owned(),
        Some((end, before)) => format!("{} {last} {end}", before.join(", ")),
        None => String::new(),
    }
}

/// Whether a word is an option that somebody has forgotten to write a value before.
fn is_option(word: &OsString, known: &[Known]) -> bool {
    known.iter().any(|known| known.name.starts_with("--") && word == known.name)
}

/// The value as text.
pub fn text((option, value): &Given) -> Result<String, OptionsError> {
    let said = || OptionsError::Wrong(option.name, value.to_string_lossy().into_owned(), "it is not UTF-8".to_owned());
    value.to_str().map(str::to_owned).ok_or_else(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Known; 4] =
        [valued("-c", "a file name"), valued("--log", "a file name"), plain("--once"), plain("--json")];

    fn told(words: &[&str]) -> Result<Option<Vec<String>>, String> {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let shown = |(option, value): Given| format!("{}={}", option.name, value.display());
        let given = read(&words, &KNOWN).map_err(|error| error.to_string())?;
        Ok(given.map(|given| given.into_iter().map(shown).collect()))
    }

    #[test]
    fn options_are_read_in_order_and_help_is_given_whatever_else_is_there() {
        let all = ["-c=/c", "--once=", "--log=-", "--log=b=c"].map(str::to_owned).to_vec();
        assert_eq!(told(&["-c", "/c", "--once", "--log", "-", "--log=b=c"]), Ok(Some(all)));
        assert_eq!(told(&[]), Ok(Some(Vec::new())));
        for words in [&["-h"][..], &["--help"], &["--nothing", "-?"], &["word", "--log", "a", "-h"]] {
            assert_eq!(told(words), Ok(None), "{words:?}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_with_what_mends_it() {
        for (words, said) in [
            (&["--lgo", "x"][..], "unknown option \"--lgo\": did you mean \"--log\"?"),
            (&["--speedily"], "unknown option \"--speedily\": there are -c, --log, --once and --json"),
            (&["-x"], "unknown option \"-x\": there are -c, --log, --once and --json"),
            (&["access.log"], "\"access.log\" stands behind no option: write -c or --log before it, or leave it out"),
            (&["--log"], "option \"--log\" requires a file name"),
            (&["--log", ""], "option \"--log\" requires a file name"),
            (&["--log", "--once"], "option \"--log\" requires a file name"),
            (&["-c"], "option \"-c\" requires a file name"),
            (&["--once=yes"], "option \"--once\" has no value: leave out \"=yes\""),
            (&["--twice=yes"], "unknown option \"--twice\": there are -c, --log, --once and --json"),
        ] {
            assert_eq!(told(words), Err(said.to_owned()), "{words:?}");
        }
    }
}
