//! The list of cases that are known to differ.

use std::fs;
use std::io;
use std::path::Path;

/// `differences.list`: a line `area/name reason`, `#` begins a comment.
pub struct Differences {
    lines: Vec<(String, String)>,
}

impl Differences {
    /// Reads it. A line without a reason is an error.
    pub fn read(path: &Path) -> io::Result<Differences> {
        Differences::parse(&fs::read_to_string(path)?).map_err(io::Error::other)
    }

    fn parse(text: &str) -> Result<Differences, String> {
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let lines: Result<_, String> = lines
            .map(|line| {
                let (name, reason) = line.split_once(' ').ok_or_else(|| format!("{line} has no reason"))?;
                Ok((name.to_owned(), reason.trim().to_owned()))
            })
            .collect();
        Ok(Differences { lines: lines? })
    }

    /// Why this case differs, if it is on the list.
    pub fn reason(&self, name: &str) -> Option<&str> {
        self.lines.iter().find(|(have, _)| have == name).map(|(_, reason)| reason.as_str())
    }

    /// All names on the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().map(|(name, _)| name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_name_and_a_reason() {
        let list = Differences::parse("# why\n\na/b because of x\n").unwrap();
        assert_eq!(list.reason("a/b"), Some("because of x"));
        assert_eq!(list.reason("a/c"), None);
        assert!(Differences::parse("a/b\n").is_err());
    }
}
