//! The main error log of the current configuration, for messages that belong to no worker.

use std::fmt;
use std::sync::Arc;

use larder_conf::model::LogLevel;
use parking_lot::Mutex;

use super::error::{Circumstances, ErrorLog};
use crate::clock;

/// The main error log. It can be held before it is open; messages until then are lost.
#[derive(Clone, Default)]
pub struct MainLog(Arc<Mutex<Option<ErrorLog>>>);

impl MainLog {
    /// Writes to `log` from now on.
    pub fn follow(&self, log: Option<ErrorLog>) {
        *self.0.lock() = log;
    }

    /// Whether lines of this level are written. Ask before making an expensive message.
    pub fn wants(&self, level: LogLevel) -> bool {
        self.0.lock().as_ref().is_some_and(|log| log.wants(level))
    }

    /// Writes a line.
    pub fn write(&self, level: LogLevel, message: impl fmt::Display) {
        if let Some(log) = &*self.0.lock() {
            log.write(level, clock::now(), &Circumstances::default(), message);
        }
    }
}
