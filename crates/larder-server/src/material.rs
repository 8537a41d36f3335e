//! The files that TLS needs, read when the configuration was: keys may be readable by root alone.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

/// Certificates, keys, passwords and the like, by path. Files that could not be read are kept as the reason.
#[derive(Clone, Default)]
pub struct Material(HashMap<PathBuf, Result<Vec<u8>, String>>);

/// Reads one of those files.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

impl Material {
    /// Without any file.
    pub fn new() -> Self {
        Self::default()
    }

    /// Keeps what came of reading a file.
    pub fn add(&mut self, path: PathBuf, read: io::Result<Vec<u8>>) {
        self.0.insert(path, read.map_err(|error| error.to_string()));
    }

    /// Whether a file has been read, or tried to be.
    pub fn has(&self, path: &Path) -> bool {
        self.0.contains_key(path)
    }

    /// The files that could be read.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.0.iter().filter_map(|(path, read)| Some((path.as_path(), read.as_ref().ok()?.as_slice())))
    }

    /// The bytes of a file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.0.get(path) {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The paths; what is in the files is secret.
        f.debug_set().entries(self.0.keys()).finish()
    }
}
