//! varnishlog's options, letter for letter.

use std::ffi::OsString;

use crate::vsl::options::{self, CommandLine, Instead, OptionsError, Reading, seconds};

/// What a command line of `larder varnishlog` asks for.
pub type Varnishlog = CommandLine<Show>;

/// What is shown, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    pub reading: Reading,
    /// `-i`, `-x`, `-I` and `-X`, in their order.
    pub rules: Vec<Rule>,
    pub written_as: WrittenAs,
    /// `-v`
    pub verbose: bool,
    /// `-u`
    pub unbuffered: bool,
}

/// Which records are shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub letter: char,
    pub value: Vec<u8>,
}

/// How groups are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrittenAs {
    Text,
    /// For `-r`.
    Frames,
}

impl AsRef<Reading> for Show {
    fn as_ref(&self) -> &Reading {
        &self.reading
    }
}

/// Parses the words behind `varnishlog`.
pub fn parse(args: &[OsString]) -> Result<Varnishlog, OptionsError> {
    let mut reading = Reading::usual("varnishlog");
    let (mut rules, mut is_text, mut verbose, mut unbuffered) = (Vec::new(), false, false, false);
    let mut time = None;
    let instead = options::parse(args, &mut reading, |letter, mut values| {
        match letter {
            'A' => is_text = true,
            'u' => unbuffered = true,
            'v' => verbose = true,
            'T' => time = Some(values.of("a number of seconds", seconds)?),
            'i' | 'x' => rules.push(Rule { letter, value: values.bytes("tags, such as ReqURL,Resp*")? }),
            'I' | 'X' => rules.push(Rule { letter, value: values.bytes("a regular expression")? }),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if let Some(time) = time {
        reading.limits.time = time;
    }
    let written_as = if reading.write.is_none() || is_text { WrittenAs::Text } else { WrittenAs::Frames };
    Ok(match instead {
        Some(Instead::Version) => Varnishlog::Version,
        Some(Instead::Help) => Varnishlog::Help,
        None => Varnishlog::Show(Box::new(Show { reading, rules, written_as, verbose, unbuffered })),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn parsed(line: &str) -> Result<Varnishlog, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_varnishlog() {
        let show = |change: &dyn Fn(&mut Show)| {
            let reading = Reading::usual("varnishlog");
            let mut show =
                Show { reading, rules: Vec::new(), written_as: WrittenAs::Text, verbose: false, unbuffered: false };
            change(&mut show);
            Ok(Varnishlog::Show(Box::new(show)))
        };
        let rule = |letter, value: &str| Rule { letter, value: value.into() };
        for (line, expected) in [
            ("", show(&|_| ())),
            ("-v -u", show(&|show| (show.verbose, show.unbuffered) = (true, true))),
            (
                "-cx ReqURL -I a:b -Xc -i End",
                show(&|show| {
                    show.reading.client = true;
                    show.rules = vec![rule('x', "ReqURL"), rule('I', "a:b"), rule('X', "c"), rule('i', "End")];
                }),
            ),
            ("-T 1.5", show(&|show| show.reading.limits.time = Duration::from_millis(1500))),
            ("-w a", show(&|show| (show.reading.write, show.written_as) = (Some("a".into()), WrittenAs::Frames))),
            ("-w a -A", show(&|show| show.reading.write = Some("a".into()))),
            ("-V -j", Ok(Varnishlog::Version)),
            ("-v -h", Ok(Varnishlog::Help)),
            ("-j", Err("varnishlog has no option \"-j\"".to_owned())),
            ("-T x", Err("\"-T x\": write a number of seconds".to_owned())),
            ("-i", Err("option \"-i\" requires tags, such as ReqURL,Resp*".to_owned())),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }
}
