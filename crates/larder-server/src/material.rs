//! What is read together with the configuration: the files for TLS, as keys may be readable by root alone, VCLs, and the
//! pools of php-fpm.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder_origin::Address;

use crate::site::Vcl;

/// Certificates, keys, passwords and the like, by path, VCLs, and pools of php-fpm. A file that could not be read is kept as its error.
#[derive(Clone, Default)]
pub struct Material {
    files: HashMap<PathBuf, Result<Vec<u8>, String>>,
    vcls: HashMap<PathBuf, Arc<Vcl>>,
    pools: Vec<FpmPool>,
}

/// A pool of a php-fpm on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FpmPool {
    /// Where it listens.
    pub listen: Address,
    /// Links to it that are made when it is started.
    pub links: Vec<PathBuf>,
    /// `pm.max_children`.
    pub children: u32,
    /// Its name and file.
    pub shown: String,
}

/// Reads one such file.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> io::Result<Vec<u8>>;

impl Material {
    /// No files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the result of reading a file.
    pub fn add(&mut self, path: PathBuf, read: io::Result<Vec<u8>>) {
        self.files.insert(path, read.map_err(|error| error.to_string()));
    }

    /// Whether a file was read, or was tried.
    pub fn has(&self, path: &Path) -> bool {
        self.files.contains_key(path)
    }

    /// The files that could be read.
    pub fn files(&self) -> impl Iterator<Item = (&Path, &[u8])> {
        self.files.iter().filter_map(|(path, read)| Some((path.as_path(), read.as_ref().ok()?.as_slice())))
    }

    /// Adds a VCL that was compiled.
    pub fn add_vcl(&mut self, path: PathBuf, vcl: Vcl) {
        self.vcls.insert(path, Arc::new(vcl));
    }

    /// Sets the pools of php-fpm.
    pub fn set_pools(&mut self, pools: Vec<FpmPool>) {
        self.pools = pools;
    }

    /// The pools of php-fpm.
    pub fn pools(&self) -> &[FpmPool] {
        &self.pools
    }

    /// The VCL of a file.
    pub fn vcl(&self, path: &Path) -> Option<&Arc<Vcl>> {
        self.vcls.get(path)
    }

    /// The bytes of a file.
    pub fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        match self.files.get(path) {
            Some(Ok(bytes)) => Ok(bytes.clone()),
            Some(Err(why)) => Err(io::Error::other(why.clone())),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl std::fmt::Debug for Material {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Shows the paths only; the contents are secret.
        f.debug_set().entries(self.files.keys()).finish()
    }
}
