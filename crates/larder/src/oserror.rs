//! System errors in nginx's format.

use std::fmt;
use std::io;

/// Shows an error as nginx does: `(98: Address already in use)`.
pub struct Reason<'a>(pub &'a io::Error);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(code) = self.0.raw_os_error() else {
            return write!(f, "({})", self.0);
        };
        // The standard library says "text (os error 98)".
        let text = self.0.to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        write!(f, "({code}: {text})")
    }
}

/// A system call that failed, as nginx reports it: `open() "/a" failed (2: No such file or directory)`.
#[derive(Debug, thiserror::Error)]
#[error("{call}() {on}failed {}", Reason(source))]
pub struct CallFailed {
    call: &'static str,
    on: String,
    /// What the system said.
    pub source: io::Error,
}

impl CallFailed {
    /// `call` failed; shown without a name.
    pub fn new(call: &'static str, source: impl Into<io::Error>) -> CallFailed {
        CallFailed { call, on: String::new(), source: source.into() }
    }

    /// `call` failed on something with a name, which is shown in quotes.
    pub fn on(call: &'static str, name: impl fmt::Display, source: impl Into<io::Error>) -> CallFailed {
        CallFailed { call, on: format!("\"{name}\" "), source: source.into() }
    }

    /// `call` failed for an address, which is shown as `to 0.0.0.0:80`.
    pub fn to(call: &'static str, address: impl fmt::Display, source: impl Into<io::Error>) -> CallFailed {
        CallFailed { call, on: format!("to {address} "), source: source.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_those_of_nginx() {
        let in_use = || io::Error::from_raw_os_error(98);
        for (error, expected) in [
            (
                CallFailed::to("bind", "0.0.0.0:80", in_use()),
                "bind() to 0.0.0.0:80 failed (98: Address already in use)",
            ),
            (
                CallFailed::on("open", "/a", io::Error::from_raw_os_error(2)),
                "open() \"/a\" failed (2: No such file or directory)",
            ),
            (
                CallFailed::new("setsid", io::Error::from_raw_os_error(1)),
                "setsid() failed (1: Operation not permitted)",
            ),
            (CallFailed::new("write", io::Error::other("it broke")), "write() failed (it broke)"),
        ] {
            assert_eq!(error.to_string(), expected);
        }
    }
}
