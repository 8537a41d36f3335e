//! Where texts go: standard output or a file, in large writes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

/// Where texts go.
#[derive(Debug)]
pub struct Output {
    /// What is to be written.
    pub buffer: Vec<u8>,
    file: File,
    /// `None` for standard output.
    path: Option<PathBuf>,
    head: &'static [u8],
}

impl Output {
    /// Opens a file, or standard output for none and for `-`. What is empty begins with `head`.
    pub fn open(path: Option<&Path>, append: bool, head: &'static [u8]) -> io::Result<Self> {
        let path = path.filter(|path| path.as_os_str() != "-");
        let file = match path {
            Some(path) => opened(path, append)?,
            None => File::from(io::stdout().as_fd().try_clone_to_owned()?),
        };
        let is_empty = path.is_none() || file.metadata()?.len() == 0;
        let buffer = if is_empty { head.to_vec() } else { Vec::new() };
        Ok(Self { buffer, file, path: path.map(Path::to_owned), head })
    }

    /// What it is called.
    pub fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "standard output".to_owned(), |path| path.display().to_string())
    }

    /// Whether it is a file that can be opened again.
    pub fn is_file(&self) -> bool {
        self.path.is_some()
    }

    /// Opens the file again, which may have been moved. If that fails, the old one goes on.
    pub fn reopen(&mut self) -> io::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = opened(path, true)?;
        let is_empty = file.metadata()?.len() == 0;
        self.flush()?;
        self.file = file;
        if is_empty {
            self.buffer.extend_from_slice(self.head);
        }
        Ok(())
    }

    /// Writes what is more than fits.
    pub fn give_way(&mut self) -> io::Result<()> {
        if self.buffer.len() >= BUFFER_BYTES { self.flush() } else { Ok(()) }
    }

    /// Writes everything.
    pub fn flush(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.buffer);
        self.buffer.clear();
        written
    }
}

impl AsFd for Output {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn opened(path: &Path, append: bool) -> io::Result<File> {
    // Whatever opens it between our writes may write, too: each write goes to the end.
    let file = OpenOptions::new().append(true).create(true).open(path)?;
    if !append {
        file.set_len(0)?;
    }
    Ok(file)
}

/// How much is gathered for one write.
const BUFFER_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_begins_with_its_head_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let write = |append, text: &str| {
            let mut output = Output::open(Some(&path), append, b"head\n").unwrap();
            output.buffer.extend_from_slice(text.as_bytes());
            output.flush().unwrap();
            output
        };
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        write(true, "a\n");
        write(true, "b\n");
        assert_eq!(read(&path), "head\na\nb\n");
        let mut output = write(false, "c\n");
        assert_eq!(read(&path), "head\nc\n");
        // Rotated: what was gathered goes into the old one.
        let old = folder.path().join("log.1");
        fs::rename(&path, &old).unwrap();
        output.buffer.extend_from_slice(b"d\n");
        output.reopen().unwrap();
        output.buffer.extend_from_slice(b"e\n");
        output.flush().unwrap();
        assert_eq!((read(&old).as_str(), read(&path).as_str()), ("head\nc\nd\n", "head\ne\n"));
        // Where it cannot be opened, the old one goes on.
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(output.reopen().is_err() && output.flush().is_ok() && output.is_file());
        assert_eq!(output.name(), path.display().to_string());
    }
}
