//! The options of varnishlog and varnishncsa that both have, letter for letter.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use larder_vsl::{Grouping, Limits};

/// What is read, and what of it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The program that was asked for, for its messages.
    pub program: &'static str,
    /// `-n` or `-r`.
    pub place: Place,
    /// `-d`: what is kept, and then end.
    pub kept: bool,
    /// `-t`: how long a server that is not there is waited for; `None` for ever.
    pub patience: Option<Duration>,
    /// `-g`.
    pub grouping: Grouping,
    /// `-L` and `-T`.
    pub limits: Limits,
    /// `-q` and `-Q`.
    pub queries: Vec<QueryPlace>,
    /// `-C`.
    pub caseless: bool,
    /// `-c`.
    pub client: bool,
    /// `-b`.
    pub backend: bool,
    /// `-E`.
    pub inner: bool,
    /// `-k`: how many groups are shown; `None` for all.
    pub groups_max: Option<u64>,
    /// `-R`.
    pub rate: Option<Rate>,
    /// `-D`.
    pub daemon: bool,
    /// `-P`.
    pub pid_file: Option<PathBuf>,
    /// `-w`; `-` is standard output.
    pub write: Option<PathBuf>,
    /// `-a`.
    pub append: bool,
}

/// Where transactions come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A server: its folder or its socket.
    Server(Option<PathBuf>),
    /// What `varnishlog -w` has written; `-` is standard input.
    File(PathBuf),
}

/// A query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryPlace {
    /// `-q`: its text.
    Here(Vec<u8>),
    /// `-Q`: its file.
    File(PathBuf),
}

/// How many groups are shown in what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub groups: u32,
    pub time: Duration,
}

/// Why a command line is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionsError {
    /// A letter that the program does not have.
    #[error("{0} has no option \"{1}\"")]
    Unknown(&'static str, String),
    /// A word that belongs to no option.
    #[error("\"{0}\" belongs to no option")]
    Word(String),
    /// An option without its value.
    #[error("option \"-{0}\" requires {1}")]
    MissingValue(char, &'static str),
    /// A value that is none of its option's.
    #[error("\"-{0} {1}\": write {2}")]
    Value(char, String, &'static str),
    /// An option that was given before.
    #[error("the format is set twice: give -F or -f once")]
    FormatTwice,
    /// Options that exclude each other.
    #[error("{0}")]
    Together(&'static str),
}

/// What an option asks for that ends the reading of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// `-V`
    Version,
    /// `-h`
    Help,
}

/// What a command line of varnishlog or varnishncsa asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum CommandLine<S> {
    /// `-V`: print the version.
    Version,
    /// `-h`: print the options.
    Help,
    /// Show a log.
    Show(Box<S>),
}

impl Reading {
    /// What a command line without options asks for.
    pub fn usual(program: &'static str) -> Self {
        Self {
            program,
            place: Place::Server(None),
            kept: false,
            patience: Some(USUAL_PATIENCE),
            grouping: Grouping::Vxid,
            limits: Limits::default(),
            queries: Vec::new(),
            caseless: false,
            client: false,
            backend: false,
            inner: false,
            groups_max: None,
            rate: None,
            daemon: false,
            pid_file: None,
            write: None,
            append: false,
        }
    }
}

/// Reads the words behind the name of the program. `own` is given each letter that is not shared, and returns whether the
/// program has it; its argument gives the value.
pub fn parse(
    args: &[OsString],
    reading: &mut Reading,
    mut own: impl FnMut(char, Values<'_>) -> Result<bool, OptionsError>,
) -> Result<Option<Instead>, OptionsError> {
    use lexopt::prelude::*;

    let program = reading.program;
    let mut parser = lexopt::Parser::from_args(args.iter().cloned());
    let (mut names_server, mut names_file) = (false, false);
    while let Some(arg) = parser.next().map_err(|error| OptionsError::Unknown(program, error.to_string()))? {
        let letter = match arg {
            Short('V') => return Ok(Some(Instead::Version)),
            Short('h' | '?') | Long("help") => return Ok(Some(Instead::Help)),
            Short(letter) => letter,
            Long(name) => return Err(OptionsError::Unknown(program, format!("--{name}"))),
            Value(word) => return Err(OptionsError::Word(word.to_string_lossy().into_owned())),
        };
        let mut values = Values { letter, parser: &mut parser };
        match letter {
            'a' => reading.append = true,
            'b' => reading.backend = true,
            'c' => reading.client = true,
            'C' => reading.caseless = true,
            'd' => reading.kept = true,
            'D' => reading.daemon = true,
            'E' => (reading.client, reading.inner) = (true, true),
            'g' => reading.grouping = values.of("session, request, vxid or raw", Grouping::of_name)?,
            'k' => reading.groups_max = Some(values.of("a number above 0", positive)?),
            'L' => {
                let number =
                    values.of("a number from 1 to 2147483647", |text| positive(text).filter(|n| *n <= INT_MAX))?;
                reading.limits.transactions = number as usize;
            }
            'n' => {
                names_server = true;
                reading.place = Place::Server(Some(values.next("a folder or a socket")?.into()));
            }
            'P' => reading.pid_file = Some(values.next("a file")?.into()),
            'q' => reading.queries.push(QueryPlace::Here(values.next("a query")?.into_vec())),
            'Q' => reading.queries.push(QueryPlace::File(values.next("a file")?.into())),
            'r' => {
                names_file = true;
                reading.place = Place::File(values.next("a file")?.into());
            }
            'R' => reading.rate = Some(values.of("a number of groups, as 10, or with a time, as 10/1m", rate)?),
            't' => reading.patience = values.of("a number of seconds, or off", patience)?,
            'w' => reading.write = Some(values.next("a file")?.into()),
            letter if own(letter, values)? => {}
            letter => return Err(OptionsError::Unknown(program, format!("-{letter}"))),
        }
    }
    let is_standard = |path: &PathBuf| path.as_os_str() == "-";
    let wrong = match (reading.daemon, &reading.write, &reading.place) {
        _ if names_server && names_file => "-n and -r exclude each other: a server or a file is read",
        (true, None, _) => "-D needs -w FILE: a daemon has no terminal to write to",
        (true, Some(write), _) if is_standard(write) => "-D cannot write to standard output: give -w a file",
        (true, _, Place::File(read)) if is_standard(read) => "-D cannot read standard input: give -r a file",
        _ => return Ok(None),
    };
    Err(OptionsError::Together(wrong))
}

/// The value of an option.
pub struct Values<'a> {
    letter: char,
    parser: &'a mut lexopt::Parser,
}

impl Values<'_> {
    /// The value, which is `what`.
    pub fn next(&mut self, what: &'static str) -> Result<OsString, OptionsError> {
        self.parser.value().map_err(|_| OptionsError::MissingValue(self.letter, what))
    }

    /// What the value means; `what` says what would mean something.
    pub fn of<T>(&mut self, what: &'static str, read: impl FnOnce(&str) -> Option<T>) -> Result<T, OptionsError> {
        let value = self.next(what)?;
        let meant = value.to_str().and_then(read);
        meant.ok_or_else(|| OptionsError::Value(self.letter, value.to_string_lossy().into_owned(), what))
    }

    /// The bytes of the value.
    pub fn bytes(&mut self, what: &'static str) -> Result<Vec<u8>, OptionsError> {
        Ok(self.next(what)?.as_bytes().to_vec())
    }
}

fn positive(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number| *number > 0)
}

/// Seconds, with a fraction.
pub fn seconds(text: &str) -> Option<Duration> {
    text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
}

fn patience(text: &str) -> Option<Option<Duration>> {
    if text.eq_ignore_ascii_case("off") { Some(None) } else { seconds(text).map(Some) }
}

/// `GROUPS[/TIME]`: a time is a number and a unit, or a unit alone.
fn rate(text: &str) -> Option<Rate> {
    let (groups, time) = text.split_once('/').unwrap_or((text, "1s"));
    let groups = groups.parse().ok().filter(|groups| (1..=INT_MAX as u32).contains(groups))?;
    let digits = time.find(|char: char| char.is_ascii_alphabetic()).unwrap_or(time.len());
    let (number, unit) = time.split_at(digits);
    let unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        "w" => 7.0 * 86400.0,
        "y" => 365.0 * 86400.0,
        _ => return None,
    };
    let number: f64 = if number.is_empty() { 1.0 } else { number.trim().parse().ok()? };
    let time = Duration::try_from_secs_f64(number * unit).ok().filter(|time| !time.is_zero())?;
    Some(Rate { groups, time })
}

const USUAL_PATIENCE: Duration = Duration::from_secs(5);
/// What Varnish's options can hold.
const INT_MAX: u64 = i32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Reading, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        let mut reading = Reading::usual("varnishx");
        match parse(&words, &mut reading, |letter, _| Ok(letter == 'z')) {
            Ok(None) => Ok(reading),
            Ok(Some(instead)) => Err(format!("{instead:?}")),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_are_those_of_varnish() {
        let reading = |change: &dyn Fn(&mut Reading)| {
            let mut reading = Reading::usual("varnishx");
            change(&mut reading);
            Ok(reading)
        };
        let file = |name: &str| Some(PathBuf::from(name));
        for (line, expected) in [
            ("", reading(&|_| ())),
            ("-z", reading(&|_| ())),
            (
                "-bcCda",
                reading(&|r| (r.backend, r.client, r.caseless, r.kept, r.append) = (true, true, true, true, true)),
            ),
            ("-E", reading(&|r| (r.client, r.inner) = (true, true))),
            ("-g request", reading(&|r| r.grouping = Grouping::Request)),
            ("-gsess", reading(&|r| r.grouping = Grouping::Session)),
            ("-k 10", reading(&|r| r.groups_max = Some(10))),
            ("-L 5", reading(&|r| r.limits.transactions = 5)),
            ("-n /run/v", reading(&|r| r.place = Place::Server(file("/run/v")))),
            ("-r -", reading(&|r| r.place = Place::File("-".into()))),
            ("-t off", reading(&|r| r.patience = None)),
            ("-t 0.5", reading(&|r| r.patience = Some(Duration::from_millis(500)))),
            (
                "-q -a -Q b -q c",
                reading(&|r| {
                    let here = |text: &str| QueryPlace::Here(text.as_bytes().to_vec());
                    r.queries = vec![here("-a"), QueryPlace::File("b".into()), here("c")];
                }),
            ),
            ("-R 5", reading(&|r| r.rate = Some(Rate { groups: 5, time: Duration::from_secs(1) }))),
            ("-R 5/m", reading(&|r| r.rate = Some(Rate { groups: 5, time: Duration::from_secs(60) }))),
            ("-R 5/2.5h", reading(&|r| r.rate = Some(Rate { groups: 5, time: Duration::from_secs(9000) }))),
            ("-D -w out -P pid", reading(&|r| (r.daemon, r.write, r.pid_file) = (true, file("out"), file("pid")))),
            ("-b -V -x", Err("Version".to_owned())),
            ("-h", Err("Help".to_owned())),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        for (line, expected) in [
            ("-x", "varnishx has no option \"-x\""),
            ("--once", "varnishx has no option \"--once\""),
            ("a", "\"a\" belongs to no option"),
            ("-q", "option \"-q\" requires a query"),
            ("-g all", "\"-g all\": write session, request, vxid or raw"),
            ("-k 0", "\"-k 0\": write a number above 0"),
            ("-k x", "\"-k x\": write a number above 0"),
            ("-k 99999999999999999999", "\"-k 99999999999999999999\": write a number above 0"),
            ("-L 2147483648", "\"-L 2147483648\": write a number from 1 to 2147483647"),
            ("-t -1", "\"-t -1\": write a number of seconds, or off"),
            ("-t inf", "\"-t inf\": write a number of seconds, or off"),
            ("-R 0", "\"-R 0\": write a number of groups, as 10, or with a time, as 10/1m"),
            ("-R 5/", "\"-R 5/\": write a number of groups, as 10, or with a time, as 10/1m"),
            ("-R 5/3", "\"-R 5/3\": write a number of groups, as 10, or with a time, as 10/1m"),
            ("-R 5/0s", "\"-R 5/0s\": write a number of groups, as 10, or with a time, as 10/1m"),
            ("-R 5/1fortnight", "\"-R 5/1fortnight\": write a number of groups, as 10, or with a time, as 10/1m"),
            ("-n a -r b", "-n and -r exclude each other: a server or a file is read"),
            ("-D", "-D needs -w FILE: a daemon has no terminal to write to"),
            ("-D -w -", "-D cannot write to standard output: give -w a file"),
            ("-D -w a -r -", "-D cannot read standard input: give -r a file"),
        ] {
            assert_eq!(parsed(line), Err(expected.to_owned()), "{line}");
        }
    }
}
