//! Where the lines of files begin: what is kept of them to name a place while a configuration is used.

use std::path::{Path, PathBuf};

use crate::sources::Sources;
use crate::span::Span;

/// The lines of [`Sources`], without their texts: four bytes a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(Vec<FileLines>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct FileLines {
    path: PathBuf,
    /// How long the file is.
    bytes: u32,
    /// Where each line but the first begins.
    begins: Box<[u32]>,
}

impl Lines {
    /// The file of a place, and its line, from 1; `None` when it is not of these sources.
    pub fn of(&self, span: Span) -> Option<(&Path, usize)> {
        let file = self.0.get(span.file as usize).filter(|file| span.start <= file.bytes)?;
        Some((&file.path, 1 + file.begins.partition_point(|begin| *begin <= span.start)))
    }
}

impl Sources {
    /// Where its lines begin.
    pub fn lines(&self) -> Lines {
        let lines = |(path, bytes): (PathBuf, &[u8])| {
            let behind = |(at, byte): (usize, &u8)| (*byte == b'\n').then(|| u32::try_from(at + 1).ok()).flatten();
            let begins = bytes.iter().enumerate().filter_map(behind).collect();
            FileLines { path, bytes: u32::try_from(bytes.len()).unwrap_or(u32::MAX), begins }
        };
        Lines(self.numbered().map(lines).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_sources() {
        let mut sources = Sources::new();
        sources.add_text("command line", "pid x;");
        sources.add_file("/a.conf".into(), b"one\ntwo\n\nfour".to_vec());
        let lines = sources.lines();
        for file in 0..3 {
            for start in 0..20 {
                let span = Span { file, start, end: start };
                let expected = sources.position(span).map(|position| (position.path, position.line));
                let found = lines.of(span).map(|(path, line)| (path.to_owned(), line));
                assert_eq!(found, expected, "{span:?}");
            }
        }
        assert_eq!(lines.of(Span::NOWHERE), None);
    }
}
