//! The language of bans: `req.url ~ ^/news && obj.age > 1h`.
//!
//! Source: the section on bans of Varnish's user guide, and what its newest version takes.

use std::fmt;

use crate::functions::numbers;

/// What a ban says of a page: all of its tests have to hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Ban {
    /// Its tests; there is at least one.
    pub tests: Vec<Test>,
}

/// One test of a ban.
#[derive(Clone, Debug, PartialEq)]
pub struct Test {
    /// What it looks at.
    pub field: Field,
    /// How that is compared.
    pub operator: Operator,
    /// With what: seconds for a time, and a text for the rest.
    pub operand: Operand,
}

/// What a test looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// `req.url`
    ReqUrl,
    /// `req.http.NAME`
    ReqHttp(String),
    /// `page.host`, which Varnish does not have: the host that the page is of, as it was stored.
    PageHost,
    /// `page.url`, which Varnish does not have: the path and the query of the page, as it was stored.
    PageUrl,
    /// `obj.status`
    ObjStatus,
    /// `obj.http.NAME`: the first line of the header.
    ObjHttp(String),
    /// `obj.lines.NAME`, which Varnish does not have: each line of the header.
    ObjLines(String),
    /// `obj.ttl`
    ObjTtl,
    /// `obj.age`
    ObjAge,
    /// `obj.grace`
    ObjGrace,
    /// `obj.keep`
    ObjKeep,
    /// `obj.last_hit`
    ObjLastHit,
}

/// How a field is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `~`
    Matches,
    /// `!~`
    MatchesNot,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `<`
    Below,
    /// `<=`
    AtMost,
}

/// What a field is compared with.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A text or a regular expression.
    Text(String),
    /// A time, in seconds.
    Seconds(f64),
}

/// Why a text is no ban, mostly in Varnish's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BanError {
    /// There is nothing.
    #[error("No ban conditions found.")]
    Empty,
    /// Something stops behind `&&`.
    #[error("Expected ban condition.")]
    NoField,
    /// Something stops behind a field.
    #[error("Expected comparison operator.")]
    NoOperator,
    /// Something stops behind an operator.
    #[error("Expected second operand.")]
    NoOperand,
    /// Two conditions without `&&`.
    #[error("Expected && between conditions, found \"{0}\"")]
    NoAnd(String),
    /// A field that cannot be asked for.
    #[error("Unknown or unsupported field \"{0}\"")]
    Field(String),
    /// `req.http.` alone.
    #[error("Missing header name: \"{0}\"")]
    NoName(String),
    /// A name that no header has.
    #[error("Header name has more than {NAME_BYTES_MAX} bytes: \"{0}\"")]
    LongName(String),
    /// An operator that the field does not have.
    #[error("expected conditional ({0}) got \"{1}\"")]
    Operator(&'static str, String),
    /// No time.
    #[error("expected duration <n.nn>[ms|s|m|h|d|w|y] got \"{0}\"")]
    Duration(String),
    /// No line that [`line_of`] makes.
    #[error("Broken escape in \"{0}\"")]
    Escape(String),
    /// It is too long.
    #[error("A ban has {TEXT_BYTES_MAX} bytes at most")]
    Long,
}

/// How long a ban may be: as long as a request line and its headers together.
pub const TEXT_BYTES_MAX: usize = 64 << 10;
/// The longest name of a header in Varnish.
const NAME_BYTES_MAX: usize = 126;

impl Ban {
    /// Reads the text of `ban()`, in which white space separates words.
    pub fn parse(text: &str) -> Result<Ban, BanError> {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        Self::of_words(&words)
    }

    /// Reads the words of the command `ban`, in which an operand may have spaces.
    pub fn of_words<W: AsRef<str>>(words: &[W]) -> Result<Ban, BanError> {
        if words.iter().map(|word| word.as_ref().len() + 1).sum::<usize>() > TEXT_BYTES_MAX {
            return Err(BanError::Long);
        }
        let mut words = words.iter().map(AsRef::as_ref);
        let mut tests = Vec::new();
        loop {
            let field = words.next().ok_or(if tests.is_empty() { BanError::Empty } else { BanError::NoField })?;
            let operator = words.next().ok_or(BanError::NoOperator)?;
            let operand = words.next().ok_or(BanError::NoOperand)?;
            tests.push(Test::read(field, operator, operand)?);
            match words.next() {
                None => return Ok(Ban { tests }),
                Some("&&") => {}
                Some(other) => return Err(BanError::NoAnd(other.to_owned())),
            }
        }
    }

    /// Reads the line that [`line_of`] has made of words.
    pub fn of_line(line: &str) -> Result<Ban, BanError> {
        let words = line.split_ascii_whitespace().map(unescaped).collect::<Result<Vec<String>, _>>()?;
        Self::of_words(&words)
    }

    /// Whether it asks about a request, so that only a request can be tested by it.
    pub fn asks_request(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.field, Field::ReqUrl | Field::ReqHttp(_)))
    }

    /// Whether it means other pages tomorrow than today, so that a later one of the same text does not replace it.
    pub fn counts_from_its_time(&self) -> bool {
        self.tests.iter().any(|test| matches!(test.field, Field::ObjTtl | Field::ObjAge | Field::ObjLastHit))
    }
}

/// The words of a ban as one line that is read as the same words, whatever is in them.
pub fn line_of<W: AsRef<str>>(words: &[W]) -> String {
    let mut line = String::new();
    for (at, word) in words.iter().map(AsRef::as_ref).enumerate() {
        line.push_str(if at == 0 { "" } else { " " });
        if word.is_empty() {
            line.push_str("\\e");
        }
        for letter in word.chars() {
            match ESCAPES.iter().find(|(plain, _)| *plain == letter) {
                Some((_, escape)) => line.extend(['\\', *escape]),
                None => line.push(letter),
            }
        }
    }
    line
}

fn unescaped(word: &str) -> Result<String, BanError> {
    let mut plain = String::with_capacity(word.len());
    let mut letters = word.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            plain.push(letter);
            continue;
        }
        let escape = letters.next();
        match ESCAPES.iter().find(|(_, known)| Some(*known) == escape) {
            Some((letter, _)) => plain.push(*letter),
            None if escape == Some('e') && word.len() == 2 => {}
            None => return Err(BanError::Escape(word.to_owned())),
        }
    }
    Ok(plain)
}

/// What would separate words, and what escapes it.
const ESCAPES: [(char, char); 6] = [('\\', '\\'), (' ', 's'), ('\t', 't'), ('\n', 'n'), ('\r', 'r'), ('\x0c', 'f')];

impl Test {
    fn read(field: &str, operator: &str, operand: &str) -> Result<Test, BanError> {
        let field = Field::read(field)?;
        let known = Operator::ALL.into_iter().find(|(_, word)| *word == operator).map(|(known, _)| known);
        let (allowed, expected) = match field.is_time() {
            true => (known.filter(|operator| !operator.is_regex()), "==, !=, >, >=, < or <="),
            false => (known.filter(|operator| !operator.is_order()), "==, !=, ~ or !~"),
        };
        let operator = allowed.ok_or_else(|| BanError::Operator(expected, operator.to_owned()))?;
        let operand = match field.is_time() {
            true => match numbers::duration(operand.as_bytes()).or_else(|| numbers::real(operand.as_bytes())) {
                Some(seconds) if seconds.is_finite() => Operand::Seconds(seconds),
                Some(_) | None => return Err(BanError::Duration(operand.to_owned())),
            },
            false => Operand::Text(operand.to_owned()),
        };
        Ok(Test { field, operator, operand })
    }
}

impl Field {
    fn read(word: &str) -> Result<Field, BanError> {
        let header = |prefix: &str, name: &str| match name.len() {
            0 => Err(BanError::NoName(prefix.to_owned())),
            1..=NAME_BYTES_MAX => Ok(name.to_owned()),
            _ => Err(BanError::LongName(name.to_owned())),
        };
        Ok(match word {
            "req.url" => Self::ReqUrl,
            "page.host" => Self::PageHost,
            "page.url" => Self::PageUrl,
            "obj.status" => Self::ObjStatus,
            "obj.ttl" => Self::ObjTtl,
            "obj.age" => Self::ObjAge,
            "obj.grace" => Self::ObjGrace,
            "obj.keep" => Self::ObjKeep,
            "obj.last_hit" => Self::ObjLastHit,
            other => {
                if let Some(name) = other.strip_prefix("req.http.") {
                    Self::ReqHttp(header("req.http.", name)?)
                } else if let Some(name) = other.strip_prefix("obj.http.") {
                    Self::ObjHttp(header("obj.http.", name)?)
                } else if let Some(name) = other.strip_prefix("obj.lines.") {
                    Self::ObjLines(header("obj.lines.", name)?)
                } else {
                    return Err(BanError::Field(other.to_owned()));
                }
            }
        })
    }

    fn is_time(&self) -> bool {
        match self {
            Self::ObjTtl | Self::ObjAge | Self::ObjGrace | Self::ObjKeep | Self::ObjLastHit => true,
            Self::ReqUrl
            | Self::ReqHttp(_)
            | Self::PageHost
            | Self::PageUrl
            | Self::ObjStatus
            | Self::ObjHttp(_)
            | Self::ObjLines(_) => false,
        }
    }
}

impl Operator {
    const ALL: [(Operator, &'static str); 8] = [
        (Self::Equal, "=="),
        (Self::NotEqual, "!="),
        (Self::Matches, "~"),
        (Self::MatchesNot, "!~"),
        (Self::Above, ">"),
        (Self::AtLeast, ">="),
        (Self::Below, "<"),
        (Self::AtMost, "<="),
    ];

    /// Whether the operand is a regular expression.
    pub fn is_regex(self) -> bool {
        matches!(self, Self::Matches | Self::MatchesNot)
    }

    fn is_order(self) -> bool {
        matches!(self, Self::Above | Self::AtLeast | Self::Below | Self::AtMost)
    }
}

impl fmt::Display for Ban {
    /// In the words of `ban.list`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, test) in self.tests.iter().enumerate() {
            let and = if at == 0 { "" } else { " && " };
            let operator = Operator::ALL.iter().find(|(known, _)| *known == test.operator).map_or("", |(_, word)| word);
            write!(f, "{and}{} {operator} {}", test.field, test.operand)?;
        }
        Ok(())
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReqUrl => f.write_str("req.url"),
            Self::ReqHttp(name) => write!(f, "req.http.{name}"),
            Self::PageHost => f.write_str("page.host"),
            Self::PageUrl => f.write_str("page.url"),
            Self::ObjStatus => f.write_str("obj.status"),
            Self::ObjHttp(name) => write!(f, "obj.http.{name}"),
            Self::ObjLines(name) => write!(f, "obj.lines.{name}"),
            Self::ObjTtl => f.write_str("obj.ttl"),
            Self::ObjAge => f.write_str("obj.age"),
            Self::ObjGrace => f.write_str("obj.grace"),
            Self::ObjKeep => f.write_str("obj.keep"),
            Self::ObjLastHit => f.write_str("obj.last_hit"),
        }
    }
}

impl fmt::Display for Operand {
    /// A time in the largest unit of which it has a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = match self {
            Self::Text(text) => return f.write_str(text),
            Self::Seconds(seconds) => *seconds,
        };
        let (whole, millis) = (seconds.floor(), (seconds * 1000.0).floor().rem_euclid(1000.0));
        if seconds == 0.0 {
            return f.write_str("0s");
        }
        if whole == 0.0 {
            return write!(f, "{millis}ms");
        }
        if millis != 0.0 {
            return write!(f, "{whole}.{millis:03}s");
        }
        let unit = UNITS.into_iter().find(|(_, length)| whole % length == 0.0).unwrap_or(("s", 1.0));
        write!(f, "{}{}", whole / unit.1, unit.0)
    }
}

const UNITS: [(&str, f64); 5] = [("y", 31_536_000.0), ("w", 604_800.0), ("d", 86_400.0), ("h", 3600.0), ("m", 60.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_is_read_and_said_as_in_varnish() {
        for (text, expected) in [
            ("req.url ~ ^/news", Ok("req.url ~ ^/news")),
            ("  req.url   !~\tx ", Ok("req.url !~ x")),
            (
                "req.http.host == a && obj.http.x-tags ~ (^|,)a(,|$)",
                Ok("req.http.host == a && obj.http.x-tags ~ (^|,)a(,|$)"),
            ),
            ("obj.lines.xkey ~ a", Ok("obj.lines.xkey ~ a")),
            ("page.host == a && page.url ~ ^/b", Ok("page.host == a && page.url ~ ^/b")),
            ("page.url > a", Err("expected conditional (==, !=, ~ or !~) got \">\"")),
            ("page.status ~ a", Err("Unknown or unsupported field \"page.status\"")),
            ("obj.lines. ~ a", Err("Missing header name: \"obj.lines.\"")),
            ("obj.status != 200", Ok("obj.status != 200")),
            ("obj.age >= 3600s && obj.ttl < 90s", Ok("obj.age >= 1h && obj.ttl < 90s")),
            ("obj.grace == 1500ms", Ok("obj.grace == 1.500s")),
            ("obj.keep > 0.25s", Ok("obj.keep > 250ms")),
            ("obj.keep > 2y", Ok("obj.keep > 2y")),
            ("obj.last_hit > 0s", Ok("obj.last_hit > 0s")),
            ("", Err("No ban conditions found.")),
            ("req.url", Err("Expected comparison operator.")),
            ("req.url ~", Err("Expected second operand.")),
            ("req.url ~ a &&", Err("Expected ban condition.")),
            ("req.url ~ a b", Err("Expected && between conditions, found \"b\"")),
            ("req.method == GET", Err("Unknown or unsupported field \"req.method\"")),
            ("req.http. == a", Err("Missing header name: \"req.http.\"")),
            ("req.url > a", Err("expected conditional (==, !=, ~ or !~) got \">\"")),
            ("obj.ttl ~ 1s", Err("expected conditional (==, !=, >, >=, < or <=) got \"~\"")),
            ("obj.ttl > soon", Err("expected duration <n.nn>[ms|s|m|h|d|w|y] got \"soon\"")),
        ] {
            let said = Ban::parse(text).map(|ban| ban.to_string()).map_err(|error| error.to_string());
            assert_eq!(said.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn a_line_is_read_as_the_words_that_it_was_made_of() {
        for (operand, line) in [
            ("a", "obj.http.x ~ a"),
            ("a b && obj.status == 200", r"obj.http.x ~ a\sb\s&&\sobj.status\s==\s200"),
            ("\\.\\s\t\n\r\x0c", r"obj.http.x ~ \\.\\s\t\n\r\f"),
            ("", r"obj.http.x ~ \e"),
            ("\\e", r"obj.http.x ~ \\e"),
            ("ü", "obj.http.x ~ ü"),
        ] {
            let words = ["obj.http.x", "~", operand];
            assert_eq!(line_of(&words), line);
            assert_eq!(Ban::of_line(line), Ban::of_words(&words), "{line}");
        }
        for broken in [r"obj.http.x ~ \", r"obj.http.x ~ a\e", r"obj.http.x ~ \q"] {
            assert!(matches!(Ban::of_line(broken), Err(BanError::Escape(_))), "{broken}");
        }
    }

    #[test]
    fn the_words_of_a_command_may_have_spaces() {
        let ban = Ban::of_words(&["obj.http.x", "==", "a b", "&&", "req.url", "~", "c d"]).unwrap();
        assert_eq!(ban.tests[0].operand, Operand::Text("a b".to_owned()));
        assert!(ban.asks_request() && !ban.counts_from_its_time());
        assert_eq!(Ban::of_words(&["x".repeat(TEXT_BYTES_MAX).as_str()]), Err(BanError::Long));
        let name = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(Ban::parse(&format!("obj.http.{name} ~ a")), Err(BanError::LongName(name)));
    }
}
