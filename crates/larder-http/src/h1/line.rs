//! One line of a head: a field, or the empty line that ends it.

use std::ops::Range;

use crate::field::known::Known;
use crate::field::list::trim;
use crate::scan;

/// The line at some place of a head. All positions count from the start of the buffer.
#[derive(Debug)]
pub(super) enum Line {
    /// The line is incomplete, and valid so far.
    Partial,
    /// The empty line; the body starts at `next`.
    End { next: usize },
    /// A field.
    Field(FieldLine),
    /// A second status line among the fields, which IIS sends.
    SecondStatus { next: usize },
}

/// A field line.
#[derive(Debug)]
pub(super) struct FieldLine {
    pub name: Range<usize>,
    pub value: Range<usize>,
    /// Where the next line starts.
    pub next: usize,
    pub known: Known,
    pub letters: Letters,
    /// Whether it is written as `Name: value` and CR LF, without another space.
    pub is_plain: bool,
}

/// The characters of a field name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Letters {
    /// Letters, digits and hyphens.
    Plain,
    /// Also underscores.
    Underscores,
    /// Also others that are neither control characters nor spaces.
    Odd,
}

/// Who sent the head; origins get more leniency.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sender {
    /// Lines must have a colon, and a CR only before the LF that ends the line.
    Client,
    /// As in nginx: a line without a colon is a name with an empty value, and there may be several CRs before the LF.
    Origin,
}

/// The position of an invalid byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadByte(pub usize);

/// Reads the line that starts at `start`. LF alone ends a line as CR LF does. Continued lines (obs-fold), white space
/// before the colon, and NUL are always refused.
#[inline]
pub(super) fn read(buf: &[u8], start: usize, sender: Sender) -> Result<Line, BadByte> {
    let (colon, known, letters) = match name(buf, start, sender)? {
        Name::Partial => return Ok(Line::Partial),
        Name::End { next } => return Ok(Line::End { next }),
        Name::SecondStatus { next } => return Ok(Line::SecondStatus { next }),
        Name::Field { colon, known, letters } => (colon, known, letters),
    };
    let mut value_start = if buf[colon] == b':' { colon + 1 } else { colon };
    while let Some(b' ' | b'\t') = buf.get(value_start) {
        value_start += 1;
    }
    let Some(value_end) = scan::line_end_or_nul(buf, value_start) else {
        return Ok(Line::Partial);
    };
    let next = match end_of_line(buf, value_end, sender)? {
        Some(next) => next,
        None => return Ok(Line::Partial),
    };
    let value_len = match buf[value_start..value_end].last() {
        Some(b' ' | b'\t') => trim(&buf[value_start..value_end]).len(),
        _ => value_end - value_start,
    };
    let value = value_start..value_start + value_len;
    // What is between the value and the next line is CR LF if it is two bytes and the value was not trimmed.
    let is_plain =
        value_start == colon + 2 && buf[colon + 1] == b' ' && value.end == value_end && next == value_end + 2;
    Ok(Line::Field(FieldLine { name: start..colon, value, next, known, letters, is_plain }))
}

/// The beginning of a line.
enum Name {
    Partial,
    End {
        next: usize,
    },
    SecondStatus {
        next: usize,
    },
    /// A name that ends before `colon`, which may be the end of the line if an origin sent it.
    Field {
        colon: usize,
        known: Known,
        letters: Letters,
    },
}

/// Reads the line up to its colon.
#[inline]
fn name(buf: &[u8], start: usize, sender: Sender) -> Result<Name, BadByte> {
    if let Some([b'\r', b'\n']) = buf.get(start..start + 2) {
        return Ok(Name::End { next: start + 2 });
    }
    // Nearly all names are known ones, which have no odd characters.
    let near = &buf[start..buf.len().min(start + Known::NAME_BYTES_MAX + 1)];
    if let Some(len) = scan::colon(near) {
        let known = Known::of(&near[..len]);
        if known != Known::Other {
            return Ok(Name::Field { colon: start + len, known, letters: Letters::Plain });
        }
    }
    name_by_letters(buf, start, sender)
}

fn name_by_letters(buf: &[u8], start: usize, sender: Sender) -> Result<Name, BadByte> {
    let mut letters = Letters::Plain;
    let mut at = start;
    loop {
        while buf.get(at).is_some_and(|&byte| IS_PLAIN[usize::from(byte)]) {
            at += 1;
        }
        let Some(&byte) = buf.get(at) else {
            return Ok(Name::Partial);
        };
        match CLASSES[usize::from(byte)] {
            Class::Plain => {}
            Class::Underscore => letters = letters.max(Letters::Underscores),
            Class::Odd if is_second_status(buf, start, at, sender) => {
                return Ok(skip_line(buf, at));
            }
            Class::Odd => letters = Letters::Odd,
            Class::End if at == start => return end_of_head(buf, at),
            Class::Colon if at == start => return Err(BadByte(at)),
            Class::End if sender == Sender::Client => return Err(BadByte(at)),
            Class::Colon | Class::End => {
                return Ok(Name::Field { colon: at, known: Known::of(&buf[start..at]), letters });
            }
            Class::Bad => return Err(BadByte(at)),
        }
        at += 1;
    }
}

/// Where the next line starts, if the line ends at `at`. `None` if too little has arrived to tell.
#[inline]
fn end_of_line(buf: &[u8], at: usize, sender: Sender) -> Result<Option<usize>, BadByte> {
    let mut lf = at;
    while buf.get(lf) == Some(&b'\r') && (lf == at || sender == Sender::Origin) {
        lf += 1;
    }
    match buf.get(lf) {
        Some(b'\n') => Ok(Some(lf + 1)),
        Some(_) => Err(BadByte(lf)),
        None => Ok(None),
    }
}

/// The empty line at `at`, where a CR or LF is.
fn end_of_head(buf: &[u8], at: usize) -> Result<Name, BadByte> {
    Ok(match end_of_line(buf, at, Sender::Client)? {
        Some(next) => Name::End { next },
        None => Name::Partial,
    })
}

/// Whether the name before the slash at `at` is the start of a status line.
fn is_second_status(buf: &[u8], start: usize, at: usize, sender: Sender) -> bool {
    sender == Sender::Origin && buf[at] == b'/' && buf.get(start..at) == Some(b"HTTP")
}

fn skip_line(buf: &[u8], at: usize) -> Name {
    match memchr::memchr(b'\n', &buf[at..]) {
        Some(lf) => Name::SecondStatus { next: at + lf + 1 },
        None => Name::Partial,
    }
}

/// The class of a byte in a field name.
#[derive(Clone, Copy)]
enum Class {
    Plain,
    Underscore,
    Odd,
    Colon,
    /// CR or LF.
    End,
    /// Spaces and control characters.
    Bad,
}

/// Whether the class is [`Class::Plain`], for a tight loop.
static IS_PLAIN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(CLASSES[byte], Class::Plain);
        byte += 1;
    }
    table
};

const CLASSES: [Class; 256] = {
    let mut classes = [Class::Odd; 256];
    let mut byte = 0;
    while byte < 256 {
        classes[byte] = match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => Class::Plain,
            b'_' => Class::Underscore,
            b':' => Class::Colon,
            b'\r' | b'\n' => Class::End,
            0..=b' ' | 0x7f => Class::Bad,
            _ => Class::Odd,
        };
        byte += 1;
    }
    classes
};

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, sender: Sender) -> String {
        match read(text.as_bytes(), 0, sender) {
            Ok(Line::Partial) => "partial".into(),
            Ok(Line::End { next }) => format!("end {next}"),
            Ok(Line::SecondStatus { next }) => format!("status line {next}"),
            Ok(Line::Field(field)) => {
                format!("{}={} {:?} {}", &text[field.name], &text[field.value], field.letters, field.next)
            }
            Err(BadByte(at)) => format!("bad {at}"),
        }
    }

    #[test]
    fn lines_are_read_by_who_sent_them() {
        for (text, from_client, from_origin) in [
            ("A: b\r\n", "A=b Plain 6", "A=b Plain 6"),
            ("A: b\n", "A=b Plain 5", "A=b Plain 5"),
            ("A:b\r\n", "A=b Plain 5", "A=b Plain 5"),
            ("A: \t b c \t\r\n", "A=b c Plain 12", "A=b c Plain 12"),
            ("A:\r\n", "A= Plain 4", "A= Plain 4"),
            ("A:   \r\n", "A= Plain 7", "A= Plain 7"),
            ("A_b: c\n", "A_b=c Underscores 7", "A_b=c Underscores 7"),
            ("A_(b: c\n", "A_(b=c Odd 8", "A_(b=c Odd 8"),
            ("\r\n", "end 2", "end 2"),
            ("\n", "end 1", "end 1"),
            ("\r", "partial", "partial"),
            ("\rA", "bad 1", "bad 1"),
            ("A: b\rc\r\n", "bad 5", "bad 5"),
            ("A: b\r\r\n", "bad 5", "A=b Plain 7"),
            ("A: b\0\r\n", "bad 4", "bad 4"),
            ("A\0: b\r\n", "bad 1", "bad 1"),
            ("A : b\r\n", "bad 1", "bad 1"),
            ("A\t: b\r\n", "bad 1", "bad 1"),
            (" A: b\r\n", "bad 0", "bad 0"),
            ("\tb\r\n", "bad 0", "bad 0"),
            (": b\r\n", "bad 0", "bad 0"),
            ("A\r\n", "bad 1", "A= Plain 3"),
            ("A\n", "bad 1", "A= Plain 2"),
            ("HTTP/1.1 200 OK\r\n", "bad 8", "status line 17"),
            ("A", "partial", "partial"),
            ("", "partial", "partial"),
        ] {
            assert_eq!(shown(text, Sender::Client), from_client, "{text:?} from a client");
            assert_eq!(shown(text, Sender::Origin), from_origin, "{text:?} from an origin");
        }
    }

    #[test]
    fn a_line_is_plain_if_it_is_as_we_would_write_it() {
        for (text, is_plain) in [
            ("A: b\r\n", true),
            ("A: b c\r\n", true),
            ("A: \r\n", true),
            ("A:\r\n", false),
            ("A:b\r\n", false),
            ("A:\tb\r\n", false),
            ("A:  b\r\n", false),
            ("A: b \r\n", false),
            ("A: b\t\n", false),
            ("A: b\n", false),
            ("A: b\r\r\n", false),
            ("A:  \n", false),
            ("A\r\n", false),
            ("A\r\r\r\n", false),
        ] {
            let Ok(Line::Field(field)) = read(text.as_bytes(), 0, Sender::Origin) else {
                panic!("{text:?} is a field")
            };
            assert_eq!(field.is_plain, is_plain, "{text:?}");
            let ours = format!("{}: {}\r\n", &text[field.name], &text[field.value]);
            assert!(!is_plain || ours == text, "{text:?}");
        }
    }
}
