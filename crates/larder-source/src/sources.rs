//! The files of a configuration, and how they are loaded.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::span::Span;

/// Opens files for the parser; the crate itself opens nothing.
pub trait Loader {
    /// The bytes of a file.
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>>;
    /// The paths that match a pattern, sorted as `glob(3)` sorts them. None is not an error.
    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>>;
}

/// All files that a configuration was read from, in order of reading.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    files: Vec<SourceFile>,
    globs: Vec<(String, Vec<PathBuf>)>,
}

#[derive(Clone, Debug)]
struct SourceFile {
    name: Name,
    bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
enum Name {
    File(PathBuf),
    /// Text that stands in no file, such as that of `-g`.
    Text(String),
}

impl Name {
    fn path(&self) -> PathBuf {
        match self {
            Self::File(path) => path.clone(),
            Self::Text(name) => PathBuf::from(name),
        }
    }
}

/// A place as people count it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The file, or `command line`.
    pub path: PathBuf,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Sources {
    /// Without any file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file and returns its number, for [`Span::file`].
    pub fn add_file(&mut self, path: PathBuf, bytes: Vec<u8>) -> u32 {
        self.add(SourceFile { name: Name::File(path), bytes })
    }

    /// Adds text that stands in no file, under a name for messages.
    pub fn add_text(&mut self, name: &str, text: &str) -> u32 {
        self.add(SourceFile { name: Name::Text(name.to_owned()), bytes: text.as_bytes().to_vec() })
    }

    /// Adds all files of other sources behind its own. Returns by how much their numbers grow, for
    /// [`Diagnostic::renumber`](crate::Diagnostic::renumber).
    pub fn absorb(&mut self, other: Self) -> u32 {
        let first = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.extend(other.files);
        for (pattern, matches) in other.globs {
            self.add_glob(&pattern, matches);
        }
        first
    }

    /// Remembers what a pattern matched.
    pub fn add_glob(&mut self, pattern: &str, matches: Vec<PathBuf>) {
        if self.globs.iter().all(|(known, _)| known != pattern) {
            self.globs.push((pattern.to_owned(), matches));
        }
    }

    /// The files in order of reading, each once. Text of the command line is not among them.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().filter_map(|file| match &file.name {
            Name::File(path) => Some((path.as_path(), file.bytes.as_slice())),
            Name::Text(_) => None,
        })
    }

    /// All texts with their names, in the order of [`Span::file`].
    pub(crate) fn numbered(&self) -> impl Iterator<Item = (PathBuf, &[u8])> {
        self.files.iter().map(|file| (file.name.path(), file.bytes.as_slice()))
    }

    /// The patterns of includes and what they matched.
    pub fn globs(&self) -> impl Iterator<Item = (&str, &[PathBuf])> {
        self.globs.iter().map(|(pattern, matches)| (pattern.as_str(), matches.as_slice()))
    }

    /// Where a span begins; `None` when it is not of these sources.
    pub fn position(&self, span: Span) -> Option<Position> {
        let file = self.files.get(span.file as usize)?;
        let before = file.bytes.get(..span.start as usize)?;
        let line_start = before.iter().rposition(|&b| b == b'\n').map_or(0, |at| at + 1);
        Some(Position {
            path: file.name.path(),
            line: 1 + before.iter().filter(|&&b| b == b'\n').count(),
            column: 1 + text(&before[line_start..]).chars().count(),
        })
    }

    /// The number of a file that was read already.
    pub fn find(&self, path: &Path) -> Option<u32> {
        let at = self.files.iter().position(|file| matches!(&file.name, Name::File(known) if known == path))?;
        u32::try_from(at).ok()
    }

    /// The bytes of a file; empty when there is no such file.
    pub fn bytes(&self, file: u32) -> &[u8] {
        self.files.get(file as usize).map_or(&[], |file| &file.bytes)
    }

    fn add(&mut self, file: SourceFile) -> u32 {
        let number = u32::try_from(self.files.len()).unwrap_or(u32::MAX);
        self.files.push(file);
        number
    }
}

/// Bytes as text in which every byte of a broken character is one `?`, so that places stay right.
pub fn text(mut bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    loop {
        match std::str::from_utf8(bytes) {
            Ok(rest) => {
                out.push_str(rest);
                return out;
            }
            Err(error) => {
                let (good, bad) = bytes.split_at(error.valid_up_to());
                out.push_str(&String::from_utf8_lossy(good));
                let broken = error.error_len().unwrap_or(bad.len()).min(bad.len());
                out.extend(std::iter::repeat_n('?', broken));
                bytes = &bad[broken..];
            }
        }
    }
}

/// A loader that answers from memory: from a map, or from what another loader read.
#[derive(Clone, Debug, Default)]
pub struct MemoryLoader {
    files: BTreeMap<PathBuf, Vec<u8>>,
    globs: BTreeMap<String, Vec<PathBuf>>,
}

impl MemoryLoader {
    /// Without any file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file.
    pub fn add(&mut self, path: impl Into<PathBuf>, bytes: impl Into<Vec<u8>>) -> &mut Self {
        self.files.insert(path.into(), bytes.into());
        self
    }

    /// Says what a pattern matches. Others match nothing.
    pub fn add_glob(&mut self, pattern: impl Into<String>, matches: Vec<PathBuf>) -> &mut Self {
        self.globs.insert(pattern.into(), matches);
        self
    }
}

impl From<&Sources> for MemoryLoader {
    fn from(sources: &Sources) -> Self {
        Self {
            files: sources.files().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect(),
            globs: sources.globs().map(|(pattern, matches)| (pattern.to_owned(), matches.to_vec())).collect(),
        }
    }
}

impl Loader for MemoryLoader {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        const NO_SUCH_FILE: i32 = 2;
        self.files.get(path).cloned().ok_or_else(|| io::Error::from_raw_os_error(NO_SUCH_FILE))
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        Ok(self.globs.get(pattern).cloned().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_characters_keep_their_width() {
        for (bytes, expected) in [
            (&b"abc"[..], "abc"),
            (b"a\xffb", "a?b"),
            (b"a\xc3", "a?"),
            (b"\xf0\x9f\x98", "???"),
            ("é".as_bytes(), "é"),
        ] {
            assert_eq!(text(bytes), expected);
            assert_eq!(text(bytes).len(), bytes.len());
        }
    }

    #[test]
    fn positions_count_lines_and_characters_from_one() {
        let mut sources = Sources::new();
        let file = sources.add_file("/a".into(), "é b\nc d\n".as_bytes().to_vec());
        for (start, line, column) in [(0, 1, 1), (3, 1, 3), (5, 2, 1), (7, 2, 3)] {
            let position = sources.position(Span { file, start, end: start + 1 }).expect("inside the file");
            assert_eq!((position.line, position.column), (line, column), "{start}");
        }
        assert_eq!(sources.position(Span { file, start: 99, end: 100 }), None);
    }

    #[test]
    fn sources_answer_again_from_memory() {
        let mut sources = Sources::new();
        sources.add_text("command line", "user www;");
        sources.add_file("/etc/a".into(), b"x".to_vec());
        sources.add_glob("/etc/*", vec!["/etc/a".into()]);
        let mut loader = MemoryLoader::from(&sources);
        assert_eq!(loader.read(Path::new("/etc/a")).expect("it was read before"), b"x");
        assert_eq!(loader.glob("/etc/*").expect("globs do not fail"), [PathBuf::from("/etc/a")]);
        assert_eq!(loader.read(Path::new("/etc/b")).expect_err("not there").kind(), io::ErrorKind::NotFound);
    }
}
