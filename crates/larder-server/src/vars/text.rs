//! Evaluates texts with variables for a request.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::text::{Part, Text};

impl Text {
    /// Appends the value for this request.
    pub fn append(&self, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) {
        for part in self.parts() {
            match part {
                Part::Literal(bytes) => out.extend_from_slice(bytes),
                Part::Var(var) => {
                    super::append(var, ex, cx, out);
                }
                Part::Capture(n) => out.extend_from_slice(ex.eval.captures.get(usize::from(*n)).unwrap_or(b"")),
            }
        }
    }

    /// The value for this request, in a buffer of its own.
    pub fn value(&self, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
        let mut out = Vec::new();
        self.append(ex, cx, &mut out);
        out
    }

    /// Passes the value for this request to `f`, in a buffer that is used again.
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

    /// Whether one of `texts` is true.
    pub fn any_true(texts: &[Self], ex: &mut Exchange, cx: &Cx) -> bool {
        texts.iter().any(|text| text.is_true(ex, cx))
    }
}
