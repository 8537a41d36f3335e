//! A counter, and the form in which a server tells all of them to `larder varnishstat`:
//!
//! ```text
//! larder-stats 1
//! NAME <TAB> c|g|b <TAB> i|B|d|b <TAB> VALUE <TAB> DESCRIPTION     a line for each
//! .
//! ```

use std::fmt::Write;

/// A counter at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Its name, as Varnish's: `MAIN.cache_hit`.
    pub name: String,
    /// What its value means.
    pub kind: Kind,
    /// How its value is shown.
    pub format: Format,
    /// Its value.
    pub value: u64,
    /// What it counts.
    pub about: String,
}

/// What the value of a counter means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It only grows.
    Counter,
    /// How many there are now.
    Gauge,
    /// Each bit says something.
    Bits,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// As a number.
    Integer,
    /// As bytes.
    Bytes,
    /// As seconds.
    Seconds,
    /// As bits.
    Bits,
}

/// Why a text is not what a server tells.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is of another larder.
    #[error("the server is another version of larder: use the varnishstat of that one")]
    Version,
    /// It ends in the middle.
    #[error("the server did not tell all of its counters")]
    CutOff,
    /// A line that is no counter.
    #[error("\"{0}\" is no counter")]
    Line(String),
}

impl Kind {
    /// Varnish's letter, its `flag` in JSON.
    pub fn letter(self) -> char {
        match self {
            Kind::Counter => 'c',
            Kind::Gauge => 'g',
            Kind::Bits => 'b',
        }
    }

    fn of_letter(letter: &str) -> Option<Kind> {
        [Kind::Counter, Kind::Gauge, Kind::Bits].into_iter().find(|kind| letter == kind.letter().to_string())
    }
}

impl Format {
    /// Varnish's letter.
    pub fn letter(self) -> char {
        match self {
            Format::Integer => 'i',
            Format::Bytes => 'B',
            Format::Seconds => 'd',
            Format::Bits => 'b',
        }
    }

    fn of_letter(letter: &str) -> Option<Format> {
        let all = [Format::Integer, Format::Bytes, Format::Seconds, Format::Bits];
        all.into_iter().find(|format| letter == format.letter().to_string())
    }
}

/// What a server tells.
pub fn write(points: &[Point]) -> String {
    let mut text = format!("{FIRST_LINE}\n");
    for Point { name, kind, format, value, about } in points {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}\t{}\t{}\t{value}\t{about}", kind.letter(), format.letter());
    }
    text.push_str(LAST_LINE);
    text.push('\n');
    text
}

/// Reads what a server tells.
pub fn read(text: &str) -> Result<Vec<Point>, ReadError> {
    let mut lines = text.split_inclusive('\n');
    match lines.next().map(str::trim_end) {
        None => return Err(ReadError::CutOff),
        Some(FIRST_LINE) => {}
        Some(_) => return Err(ReadError::Version),
    }
    let mut points = Vec::new();
    for line in lines {
        match line.strip_suffix('\n') {
            None => return Err(ReadError::CutOff),
            Some(LAST_LINE) => return Ok(points),
            Some(line) => points.push(point(line).ok_or_else(|| ReadError::Line(line.to_owned()))?),
        }
    }
    Err(ReadError::CutOff)
}

fn point(line: &str) -> Option<Point> {
    let mut words = line.splitn(5, '\t');
    let mut word = || words.next();
    Some(Point {
        name: word()?.to_owned(),
        kind: Kind::of_letter(word()?)?,
        format: Format::of_letter(word()?)?,
        value: word()?.parse().ok()?,
        about: word()?.to_owned(),
    })
}

const FIRST_LINE: &str = "larder-stats 1";
const LAST_LINE: &str = ".";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_can_be_read() {
        let point = |name: &str, kind, format, value| Point {
            name: name.to_owned(),
            kind,
            format,
            value,
            about: "Tabs\tand \"quotes\".".to_owned(),
        };
        let points = [
            point("MAIN.cache_hit", Kind::Counter, Format::Integer, 0),
            point("SMA.s0.g_bytes", Kind::Gauge, Format::Bytes, 7),
            point("MAIN.uptime", Kind::Counter, Format::Seconds, 8),
            point("VBE.boot.a.happy", Kind::Bits, Format::Bits, u64::MAX),
        ];
        let text = write(&points);
        assert_eq!(read(&text).unwrap(), points);
        for end in 0..text.len() {
            assert!(read(&text[..end]).is_err(), "{:?}", &text[..end]);
        }
    }

    #[test]
    fn what_no_server_tells_is_an_error() {
        for (text, expected) in [
            ("", ReadError::CutOff),
            ("larder-stats 2\n.\n", ReadError::Version),
            ("larder-stats 1\nMAIN.a\tc\ti\t1\tA", ReadError::CutOff),
            ("larder-stats 1\nMAIN.a\tc\ti\t1\tA\n", ReadError::CutOff),
            ("larder-stats 1\nMAIN.a\tc\ti\n.\n", ReadError::Line("MAIN.a\tc\ti".to_owned())),
            ("larder-stats 1\nMAIN.a\tx\ti\t1\tA\n.\n", ReadError::Line("MAIN.a\tx\ti\t1\tA".to_owned())),
            ("larder-stats 1\nMAIN.a\tc\ti\t-1\tA\n.\n", ReadError::Line("MAIN.a\tc\ti\t-1\tA".to_owned())),
        ] {
            assert_eq!(read(text), Err(expected), "{text:?}");
        }
    }
}
