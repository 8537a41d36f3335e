//! varnishstat's options, letter for letter.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::filter::Filter;

/// What a command line of `larder varnishstat` asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Varnishstat {
    /// `-V`: print the version.
    Version,
    /// `-h`: print the options.
    Help,
    /// Show counters.
    Show(Show),
}

/// Which counters are shown, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    /// The form.
    pub form: Form,
    /// `-f`, `-I` and `-X`.
    pub filter: Filter,
    /// `-n`: the folder of the server.
    pub folder: Option<PathBuf>,
    /// `-t`: how long a server that is not there is waited for; `None` for ever.
    pub patience: Option<Duration>,
}

/// How counters are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On a screen that is refreshed.
    Screen,
    /// `-1`
    Once,
    /// `-j`
    Json,
    /// `-x`
    Xml,
    /// `-l`
    List,
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A letter that varnishstat does not have.
    #[error("varnishstat has no option \"{0}\"")]
    Unknown(String),
    /// A word that belongs to no option.
    #[error("\"{0}\" belongs to no option")]
    Word(String),
    /// An option without its value.
    #[error("option \"-{0}\" requires {1}")]
    MissingValue(char, &'static str),
    /// A time that is none.
    #[error("\"-t {0}\": write a number of seconds, or off")]
    Time(String),
}

/// Parses the words behind `varnishstat`.
pub fn parse(args: &[OsString]) -> Result<Varnishstat, OptionsError> {
    use lexopt::prelude::*;

    let mut show = Show { form: Form::Screen, filter: Filter::default(), folder: None, patience: Some(USUAL_PATIENCE) };
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(error.to_string()))? {
        let (letter, what) = match arg {
            Short('V') => return Ok(Varnishstat::Version),
            Short('h' | '?') | Long("help") => return Ok(Varnishstat::Help),
            Short('1') => {
                show.form = Form::Once;
                continue;
            }
            Short('j') => {
                show.form = Form::Json;
                continue;
            }
            Short('x') => {
                show.form = Form::Xml;
                continue;
            }
            Short('l') => {
                show.form = Form::List;
                continue;
            }
            // Gauges of several threads have to be adjusted in varnishstat; ours are one number.
            Short('r') => continue,
            Short(letter @ ('f' | 'I' | 'X')) => (letter, "a glob"),
            Short('n') => ('n', "a folder"),
            Short('t') => ('t', "a number of seconds"),
            Short(letter) => return Err(OptionsError::Unknown(format!("-{letter}"))),
            Long(name) => return Err(OptionsError::Unknown(format!("--{name}"))),
            Value(word) => return Err(OptionsError::Word(word.to_string_lossy().into_owned())),
        };
        let value = parser.value().map_err(|_| OptionsError::MissingValue(letter, what))?;
        let text = value.to_string_lossy();
        match letter {
            'f' => show.filter.field(&text),
            'I' => show.filter.include(&text),
            'X' => show.filter.exclude(&text),
            't' => show.patience = patience(&text)?,
            _ => show.folder = Some(value.into()),
        }
    }
    Ok(Varnishstat::Show(show))
}

fn patience(text: &str) -> Result<Option<Duration>, OptionsError> {
    if text == "off" {
        return Ok(None);
    }
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.map(Some).ok_or_else(|| OptionsError::Time(text.to_owned()))
}

const USUAL_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Varnishstat, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_varnishstat() {
        let show = |change: fn(&mut Show)| {
            let (filter, patience) = (Filter::default(), Some(Duration::from_secs(5)));
            let mut show = Show { form: Form::Screen, filter, folder: None, patience };
            change(&mut show);
            Ok(Varnishstat::Show(show))
        };
        for (line, expected) in [
            ("", show(|_| ())),
            ("-1", show(|show| show.form = Form::Once)),
            ("-j -t 0", show(|show| (show.form, show.patience) = (Form::Json, Some(Duration::ZERO)))),
            ("-x", show(|show| show.form = Form::Xml)),
            ("-l -r", show(|show| show.form = Form::List)),
            ("-n site", show(|show| show.folder = Some("site".into()))),
            ("-n/run/v -t off", show(|show| (show.folder, show.patience) = (Some("/run/v".into()), None))),
            ("-t .5", show(|show| show.patience = Some(Duration::from_millis(500)))),
            (
                "-1f MAIN.* -f ^MGT.* -X a -I b",
                show(|show| {
                    show.form = Form::Once;
                    show.filter.include("MAIN.*");
                    show.filter.exclude("MGT.*");
                    show.filter.exclude("a");
                    show.filter.include("b");
                }),
            ),
            ("-V -Q", Ok(Varnishstat::Version)),
            ("-1 -h", Ok(Varnishstat::Help)),
            ("-Q", Err("varnishstat has no option \"-Q\"".to_owned())),
            ("--once", Err("varnishstat has no option \"--once\"".to_owned())),
            ("MAIN.*", Err("\"MAIN.*\" belongs to no option".to_owned())),
            ("-f", Err("option \"-f\" requires a glob".to_owned())),
            ("-n", Err("option \"-n\" requires a folder".to_owned())),
            ("-t soon", Err("\"-t soon\": write a number of seconds, or off".to_owned())),
            ("-t -1", Err("\"-t -1\": write a number of seconds, or off".to_owned())),
            ("-t inf", Err("\"-t inf\": write a number of seconds, or off".to_owned())),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }
}
