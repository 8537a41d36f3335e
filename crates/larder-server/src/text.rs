//! Strings with variables, compiled: `$scheme://$host/a` as parts that know where their value comes from.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::vars::{self, Var};

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

    /// Appends the value for this request.
    pub fn append(&self, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) {
        for part in &*self.parts {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Var(var) => {
                    vars::append(var, ex, cx, out);
                }
                Part::Capture(n) => out.extend_from_slice(ex.eval.captures.get(usize::from(*n)).unwrap_or(b"")),
            }
        }
    }

    /// The value for this request, as bytes of its own.
    pub fn value(&self, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(ex, cx, &mut out);
        out
    }

    /// Hands the value for this request to `f`, from a buffer that is used again and again.
    pub fn with<R>(&self, ex: &mut Exchange, cx: &Cx, f: impl FnOnce(&mut Exchange, &[u8]) -> R) -> R {
        if let Some(constant) = self.constant() {
            return f(ex, constant);
        }
        let mut buffer = ex.eval.scratch.pop().unwrap_or_default();
        self.append(ex, cx, &mut buffer);
        let result = f(ex, &buffer);
        buffer.clear();
        ex.eval.scratch.push(buffer);
        result
    }

    /// Whether the value counts as true: neither empty nor `0`, as in `if`, `*_cache_bypass` and `access_log if=`.
    pub fn is_true(&self, ex: &mut Exchange, cx: &Cx) -> bool {
        self.with(ex, cx, |_, value| !value.is_empty() && value != b"0")
    }
}
