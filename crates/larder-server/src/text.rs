//! Strings with variables, compiled: the variables in `$scheme://$host/a` are looked up in advance.

use larder_conf::model::{Template, TemplatePart};

use crate::variable::Var;

/// A compiled string.
#[derive(Debug, Default, PartialEq)]
pub struct Text {
    parts: Box<[Part]>,
}

/// A piece of a [`Text`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A fixed text.
    Literal(Box<[u8]>),
    /// The value of a variable; empty if it has none.
    Var(Var),
    /// A capture of the last regular expression that matched.
    Capture(u8),
}

impl Part {
    /// The text of one that is fixed.
    pub fn as_literal(&self) -> Option<&[u8]> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Var(_) | Self::Capture(_) => None,
        }
    }
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

    /// The value, if it is the same for every request.
    pub fn constant(&self) -> Option<&[u8]> {
        match &*self.parts {
            [] => Some(b""),
            [Part::Literal(bytes)] => Some(bytes),
            _ => None,
        }
    }
}

/// A text as people write it, without braces around names.
pub fn written(template: &Template) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Literal(text) => text.clone(),
        TemplatePart::Variable(name) => format!("${name}"),
        TemplatePart::Capture(number) => format!("${number}"),
    };
    template.parts.iter().map(part).collect()
}
