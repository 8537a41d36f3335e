//! The command line of `cargo xtask replay`.

use std::ffi::OsString;
use std::path::PathBuf;

use lexopt::prelude::*;

use super::{Policy, ReplayError};

/// What `--help` prints.
pub const HELP: &str = "\
cargo xtask replay TRACE... [OPTION...]

Replays requests into larder's memory shelf and into models of other policies, and prints what each of them missed:
of the origin's time, of the requests, of the bytes.

A TRACE is a file, packed by xz or not, of lines `time id size` or of 32-bit big-endian keys. What it does not say of
sizes and of the origin's times is drawn from the key, the same for all. Or it is one that is made here:
  made:zipf    pages of a fixed popularity
  made:drift   new pages take the place of old ones
  made:crawl   a crawler asks for everything in turn, half of the time
  made:moved   now and then all pages are new

  --sizes A,B,...     sizes of the cache, in percent of the bytes of all pages (default: 1,2,5,10,20)
  --policies A,B,...  of lru, s3fifo, gdsf, larder (default: lru,s3fifo,larder)
  --markdown          print tables for a document
";

/// What the command line asks for.
#[derive(Debug)]
pub struct Options {
    /// What to replay.
    pub traces: Vec<PathBuf>,
    /// Sizes of the cache, in percent of the footprint.
    pub percents: Vec<f64>,
    /// Into what.
    pub policies: Vec<Policy>,
    /// Whether tables are for a document.
    pub markdown: bool,
}

impl Options {
    /// Reads the command line; `None` means it asks for help.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, ReplayError> {
        let mut options = Options {
            traces: Vec::new(),
            percents: vec![1.0, 2.0, 5.0, 10.0, 20.0],
            policies: vec![Policy::Lru, Policy::S3Fifo, Policy::Larder],
            markdown: false,
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("sizes") => options.percents = list(&mut parser, percent)?,
                Long("policies") => options.policies = list(&mut parser, policy)?,
                Long("markdown") => options.markdown = true,
                Value(trace) => options.traces.push(PathBuf::from(trace)),
                _ => return Err(usage(argument.unexpected())),
            }
        }
        if options.traces.is_empty() {
            return Err(ReplayError::Usage("no trace to replay".into()));
        }
        Ok(Some(options))
    }
}

fn usage(error: lexopt::Error) -> ReplayError {
    ReplayError::Usage(error.to_string())
}

fn list<T>(parser: &mut lexopt::Parser, one: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, ReplayError> {
    let value = parser.value().and_then(|value| value.string()).map_err(usage)?;
    value.split(',').map(|word| one(word.trim()).map_err(ReplayError::Usage)).collect()
}

fn percent(word: &str) -> Result<f64, String> {
    let percent = word.parse().ok().filter(|percent: &f64| *percent > 0.0 && *percent <= 1000.0);
    percent.ok_or_else(|| format!("`{word}` is not a percentage above 0"))
}

fn policy(word: &str) -> Result<Policy, String> {
    let named = Policy::ALL.into_iter().find(|policy| policy.name() == word);
    named.ok_or_else(|| format!("`{word}` is none of {}", Policy::ALL.map(Policy::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_says_what_to_replay() {
        let parse = |line: &str| Options::parse(line.split(' ').map(OsString::from));
        let options = parse("a.xz --sizes 1,0.5 b --policies larder,gdsf --markdown");
        let options = options.expect("it is in order").expect("it is no call for help");
        assert_eq!((options.traces.len(), options.markdown), (2, true));
        assert_eq!(options.percents, [1.0, 0.5]);
        assert_eq!(options.policies, [Policy::Larder, Policy::Gdsf]);
        for line in ["--markdown", "a --sizes 0", "a --sizes x", "a --policies arc", "a --fast"] {
            assert!(parse(line).is_err(), "{line}");
        }
        assert!(parse("a --help").is_ok_and(|options| options.is_none()));
    }
}
