//! Log lines, given to whoever started the thread.

use std::sync::Arc;

/// How much a log line matters, in nginx's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A matter of course.
    Info,
    /// Worth knowing: a certificate came.
    Notice,
    /// Something failed, and nobody feels it yet.
    Warn,
    /// Something failed, and visitors feel it or will soon.
    Error,
}

/// Where log lines go.
#[derive(Clone)]
pub(crate) struct Log(Arc<OnLog>);

/// Takes a log line, without its end.
pub type OnLog = dyn Fn(Level, &str) + Send + Sync;

impl Log {
    pub(crate) fn new(on_log: Box<OnLog>) -> Self {
        Self(on_log.into())
    }

    /// Writes `acme: SUBJECT: FACT`; the subject is a host, or a file.
    pub(crate) fn say(&self, level: Level, subject: &str, fact: &str) {
        (self.0)(level, &format!("acme: {subject}: {fact}"));
    }
}

#[cfg(test)]
impl Log {
    /// Nobody reads these.
    pub(crate) fn nowhere() -> Self {
        Self::new(Box::new(|_, _| ()))
    }
}
