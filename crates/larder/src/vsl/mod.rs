//! What `larder varnishlog` and `larder varnishncsa` share: they read the transactions of a server, put them in groups, and
//! show those that a query chooses.
//!
//! `options` reads the letters that both have, `source` is where transactions come from, `output` where texts go, and `run`
//! moves them until it is told to end. `regex` has the expressions of queries and filters.

pub mod options;
pub mod output;
pub mod regex;
mod run;
mod source;

pub use run::{Form, RunError, run};

use std::io::{self, Write};

/// Writes a text to standard output, for those who asked for it.
pub fn print(text: &str) -> Result<(), RunError> {
    let written = io::stdout().write_all(text.as_bytes());
    written.map_err(|source| RunError::Output { name: "standard output".to_owned(), source })
}
