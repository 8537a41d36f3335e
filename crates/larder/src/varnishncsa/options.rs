//! varnishncsa's options, letter for letter.

use std::ffi::OsString;
use std::path::PathBuf;

use larder_vsl::Grouping;

use crate::vsl::options::{self, CommandLine, Instead, OptionsError, Reading};

/// What a command line of `larder varnishncsa` asks for.
pub type Varnishncsa = CommandLine<Show>;

/// What is shown, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Show {
    pub reading: Reading,
    /// `-F` or `-f`; `None` for the usual one.
    pub format: Option<FormatPlace>,
    /// `-j`
    pub json: bool,
}

/// A format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatPlace {
    /// `-F`: its text.
    Here(Vec<u8>),
    /// `-f`: its file, whose first line it is.
    File(PathBuf),
}

impl AsRef<Reading> for Show {
    fn as_ref(&self) -> &Reading {
        &self.reading
    }
}

/// Parses the words behind `varnishncsa`.
pub fn parse(args: &[OsString]) -> Result<Varnishncsa, OptionsError> {
    let mut reading = Reading::usual("varnishncsa");
    let (mut format, mut json) = (None, false);
    let instead = options::parse(args, &mut reading, |letter, mut values| {
        match letter {
            'j' => json = true,
            'F' | 'f' if format.is_some() => return Err(OptionsError::FormatTwice),
            'F' => format = Some(FormatPlace::Here(values.bytes("a format")?)),
            'f' => format = Some(FormatPlace::File(values.next("a file")?.into())),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match instead {
        Some(Instead::Version) => return Ok(Varnishncsa::Version),
        Some(Instead::Help) => return Ok(Varnishncsa::Help),
        None => {}
    }
    match reading.grouping {
        Grouping::Vxid | Grouping::Request => {}
        Grouping::Raw | Grouping::Session => {
            return Err(OptionsError::Together("varnishncsa groups by request or vxid: give -g one of them"));
        }
    }
    reading.client |= !reading.backend;
    Ok(Varnishncsa::Show(Box::new(Show { reading, format, json })))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Varnishncsa, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        parse(&words).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_those_of_varnishncsa() {
        let show = |change: &dyn Fn(&mut Show)| {
            let reading = Reading { client: true, ..Reading::usual("varnishncsa") };
            let mut show = Show { reading, format: None, json: false };
            change(&mut show);
            Ok(Varnishncsa::Show(Box::new(show)))
        };
        let twice = Err("the format is set twice: give -F or -f once".to_owned());
        for (line, expected) in [
            ("", show(&|_| ())),
            ("-b", show(&|show| (show.reading.backend, show.reading.client) = (true, false))),
            ("-bc", show(&|show| show.reading.backend = true)),
            ("-E -j", show(&|show| (show.reading.inner, show.json) = (true, true))),
            ("-F %h", show(&|show| show.format = Some(FormatPlace::Here(b"%h".to_vec())))),
            ("-f a", show(&|show| show.format = Some(FormatPlace::File("a".into())))),
            ("-g request", show(&|show| show.reading.grouping = Grouping::Request)),
            ("-V", Ok(Varnishncsa::Version)),
            ("-h", Ok(Varnishncsa::Help)),
            ("-F a -f b", twice.clone()),
            ("-F a -F b", twice),
            ("-g raw", Err("varnishncsa groups by request or vxid: give -g one of them".to_owned())),
            ("-i ReqURL", Err("varnishncsa has no option \"-i\"".to_owned())),
        ] {
            assert_eq!(parsed(line), expected, "{line}");
        }
    }
}
