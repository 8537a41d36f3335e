//! The regular expressions of queries and filters: those of the server, with a limit on the work of one match.

use std::cell::Cell;

use larder_server::regex::Regex;
use larder_vsl::Pattern;

/// Compiles an expression; `true` if case does not count.
pub fn compile(source: &str, caseless: bool) -> Result<Box<dyn Pattern>, String> {
    Ok(Box::new(Expression { regex: Regex::new(source, caseless)?, has_failed: Cell::new(false) }))
}

#[derive(Debug)]
struct Expression {
    regex: Regex,
    /// Whether it was said that it takes too much work.
    has_failed: Cell<bool>,
}

impl Pattern for Expression {
    fn is_match(&self, text: &[u8]) -> Option<bool> {
        match self.regex.is_match(text) {
            Ok(is_match) => Some(is_match),
            Err(error) => {
                if !self.has_failed.replace(true) {
                    eprintln!("larder: {error}: counted as no match, and not reported again");
                }
                None
            }
        }
    }
}
