//! Strings with variables, compiled: `$scheme://$host/a` as parts that know where their value comes from.

use crate::variable::Var;

/// A compiled string.
#[derive(Debug, Default)]
pub struct Text {
    parts: Box<[Part]>,
}

/// A piece of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text as it is.
    Literal(Box<[u8]>),
    /// The value of a variable; nothing where it has none.
    Var(Var),
    /// A capture of the last regular expression that matched.
    Capture(u8),
}

impl Text {
    /// From its parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts: parts.into() }
    }

    /// From bytes without variables.
    pub fn literal(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self::new(vec![Part::Literal(bytes.into())]) }
    }

    /// The parts.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The parts, owned.
    pub fn into_parts(self) -> Vec<Part> {
        self.parts.into_vec()
    }

    /// The value, when it is the same for every request.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }
}
