//! The types of values.

/// A type, by its name in Varnish's manual.
///
/// `STRANDS`, a list of strings that are not yet joined, is not told from `STRING`: what has several parts is a
/// [`Concat`](crate::policy::ExprKind::Concat).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// A list of addresses.
    Acl,
    /// A backend or a director.
    Backend,
    /// Bytes that are no text.
    Blob,
    /// The body of a message: text or a blob.
    Body,
    /// True or false.
    Bool,
    /// A number of bytes.
    Bytes,
    /// A length of time, in seconds.
    Duration,
    /// One of a few words; only as an argument.
    Enum,
    /// A header of a message, which is not text: it may be there several times, or not at all.
    Header,
    /// All headers of a message.
    Http,
    /// A whole number of 64 bits.
    Int,
    /// An address with a port.
    Ip,
    /// An object of a module.
    Object,
    /// A health check.
    Probe,
    /// A number with a fraction.
    Real,
    /// A regular expression.
    Regex,
    /// A place where bodies are stored.
    Stevedore,
    /// Text, or no text at all.
    String,
    /// A sub.
    Sub,
    /// A point in time.
    Time,
    /// Nothing.
    Void,
}

impl Type {
    /// Its name, as VCL writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acl => "ACL",
            Self::Backend => "BACKEND",
            Self::Blob => "BLOB",
            Self::Body => "BODY",
            Self::Bool => "BOOL",
            Self::Bytes => "BYTES",
            Self::Duration => "DURATION",
            Self::Enum => "ENUM",
            Self::Header => "HEADER",
            Self::Http => "HTTP",
            Self::Int => "INT",
            Self::Ip => "IP",
            Self::Object => "OBJECT",
            Self::Probe => "PROBE",
            Self::Real => "REAL",
            Self::Regex => "REGEX",
            Self::Stevedore => "STEVEDORE",
            Self::String => "STRING",
            Self::Sub => "SUB",
            Self::Time => "TIME",
            Self::Void => "VOID",
        }
    }

    /// Its name with the article.
    pub fn described(self) -> String {
        with_article(self.name())
    }

    /// The type of this name in the signature of a function.
    pub fn of_signature(name: &str) -> Option<Self> {
        const ALL: [Type; 19] = [
            Type::Acl,
            Type::Backend,
            Type::Blob,
            Type::Body,
            Type::Bool,
            Type::Bytes,
            Type::Duration,
            Type::Enum,
            Type::Header,
            Type::Http,
            Type::Int,
            Type::Ip,
            Type::Probe,
            Type::Real,
            Type::Regex,
            Type::Stevedore,
            Type::Sub,
            Type::Time,
            Type::Void,
        ];
        match name {
            "STRING" | "STRANDS" => Some(Self::String),
            _ => ALL.into_iter().find(|own| own.name() == name),
        }
    }

    /// Whether a value of it becomes text where text is wanted.
    pub fn has_text(self) -> bool {
        match self {
            Self::Acl
            | Self::Backend
            | Self::Blob
            | Self::Bool
            | Self::Bytes
            | Self::Duration
            | Self::Header
            | Self::Int
            | Self::Ip
            | Self::Probe
            | Self::Real
            | Self::Stevedore
            | Self::String
            | Self::Time => true,
            Self::Body | Self::Enum | Self::Http | Self::Object | Self::Regex | Self::Sub | Self::Void => false,
        }
    }

    /// Whether a value of it becomes true or false in a condition.
    ///
    /// REAL is not among them: a number with a fraction is seldom exactly zero.
    pub fn has_truth(self) -> bool {
        match self {
            Self::Backend | Self::Bool | Self::Duration | Self::Int | Self::String => true,
            Self::Acl
            | Self::Blob
            | Self::Body
            | Self::Bytes
            | Self::Enum
            | Self::Header
            | Self::Http
            | Self::Ip
            | Self::Object
            | Self::Probe
            | Self::Real
            | Self::Regex
            | Self::Stevedore
            | Self::Sub
            | Self::Time
            | Self::Void => false,
        }
    }

    /// What it may be multiplied with and divided by, besides an INT.
    pub fn factor(self) -> Option<Self> {
        match self {
            Self::Int => Some(Self::Int),
            Self::Bytes | Self::Duration | Self::Real => Some(Self::Real),
            Self::Acl
            | Self::Backend
            | Self::Blob
            | Self::Body
            | Self::Bool
            | Self::Enum
            | Self::Header
            | Self::Http
            | Self::Ip
            | Self::Object
            | Self::Probe
            | Self::Regex
            | Self::Stevedore
            | Self::String
            | Self::Sub
            | Self::Time
            | Self::Void => None,
        }
    }
}

/// A word with "a" or "an" before it.
pub fn with_article(word: &str) -> String {
    match word.as_bytes() {
        [b'A' | b'E' | b'I' | b'O' | b'a' | b'e' | b'i' | b'o', ..] | [b'H', b'T', ..] => format!("an {word}"),
        _ => format!("a {word}"),
    }
}
