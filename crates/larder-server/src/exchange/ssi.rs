//! `ssi`: what a page shares with all that it includes.

use std::cell::{Cell, RefCell};

use bytes::Bytes;

use crate::regex::Captures;

/// How many failures of includes are logged for one request.
const SAID_MAX: usize = 4;

/// What a page shares with all that it includes.
#[derive(Debug, Default)]
pub struct SsiShared {
    /// Variables of the command `set`: names in lower case, and values.
    variables: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// Blocks by name, in order; of two with the same name the first one counts.
    pub blocks: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    /// The captures of the last regular expression.
    pub captures: RefCell<Captures>,
    /// How many subrequests are running.
    pub inside: Cell<usize>,
    /// How many includes there were, on all levels.
    pub includes: Cell<usize>,
    /// How many includes of ESI were done since another request could run.
    pub in_a_row: Cell<usize>,
    /// Whether an include of ESI had what is for its visitor alone.
    pub is_personal: Cell<bool>,
    /// What was said of includes of ESI that failed before they were asked for.
    said: RefCell<Vec<String>>,
    /// How many bytes were made of variables or kept as blocks.
    made_bytes: Cell<usize>,
}

impl SsiShared {
    /// Appends the value of a variable of `set`, or of a capture; false if there is none.
    pub fn append(&self, name: &[u8], out: &mut Vec<u8>) -> bool {
        if let [digit @ b'0'..=b'9'] = name {
            let captures = self.captures.borrow();
            if let Some(group) = captures.get(usize::from(digit - b'0')) {
                out.extend_from_slice(group);
                return true;
            }
        }
        let variables = self.variables.borrow();
        let Some((_, value)) = variables.iter().find(|(known, _)| known == name) else { return false };
        out.extend_from_slice(value);
        true
    }

    /// Whether a failure is to be logged: each once a request, and a few in all.
    pub fn is_news(&self, why: &str) -> bool {
        let mut said = self.said.borrow_mut();
        let is_news = said.len() < SAID_MAX && said.iter().all(|old| old != why);
        if is_news {
            said.push(why.to_owned());
        }
        is_news
    }

    /// Counts bytes that are made of variables or kept as a block; false beyond what one request may make.
    pub fn may_make(&self, bytes: usize) -> bool {
        self.made_bytes.set(self.made_bytes.get().saturating_add(bytes));
        self.made_bytes.get() <= MADE_BYTES_MAX
    }

    /// Sets a variable.
    pub fn set(&self, name: &[u8], value: Vec<u8>) {
        let name = name.to_ascii_lowercase();
        let mut variables = self.variables.borrow_mut();
        match variables.iter_mut().find(|(known, _)| *known == name) {
            Some((_, old)) => *old = value,
            None => variables.push((name, value)),
        }
    }

    /// The text of a block.
    pub fn block(&self, name: &[u8]) -> Option<Bytes> {
        let blocks = self.blocks.borrow();
        let (_, block) = blocks.iter().find(|(known, _)| known == name)?;
        Some(Bytes::copy_from_slice(block))
    }
}

/// How many bytes a request and its subrequests may make: each command evaluates its texts anew.
const MADE_BYTES_MAX: usize = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regex::Regex;

    #[test]
    fn what_is_set_is_found_in_any_case_and_captures_come_first() {
        let shared = SsiShared::default();
        shared.set(b"Name", b"one".to_vec());
        shared.set(b"NAME", b"two".to_vec());
        shared.set(b"1", b"set".to_vec());
        let value = |name: &[u8]| {
            let mut out = Vec::new();
            shared.append(name, &mut out).then_some(out)
        };
        assert_eq!(value(b"name"), Some(b"two".to_vec()));
        assert_eq!(value(b"1"), Some(b"set".to_vec()));
        assert_eq!(value(b"other"), None);
        let regex = Regex::new("(b+)", false).expect("it compiles");
        assert!(regex.matches(b"abbc", &mut shared.captures.borrow_mut()).expect("the text is short"));
        assert_eq!(value(b"1"), Some(b"bb".to_vec()));
    }
}
