//! The VCLs that have been loaded, by their names.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use larder_conf::MemoryLoader;
use larder_server::regex::Regex;
use larder_source::Loader;
use larder_vcl::Options;

use super::settings::Settings;
use super::storages::Storage;
use crate::loader::DiskLoader;

/// The text of a VCL, and the name by which it is read.
#[derive(Clone, Debug)]
pub struct Source {
    /// The file, or a name for a text that is in none.
    pub path: PathBuf,
    /// Its text, if it is in no file.
    pub text: Option<String>,
}

/// A VCL that is right, with everything that it was read from.
#[derive(Clone, Debug)]
pub struct Vcl {
    /// Its name for the CLI.
    pub name: String,
    /// The name by which its text is read.
    pub path: PathBuf,
    /// Its text and what it includes, as they were when it was loaded.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Patterns of includes, and what they matched.
    pub globs: Vec<(String, Vec<PathBuf>)>,
}

/// What a VCL is compiled with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The parameters.
    pub settings: &'a Settings,
    /// The storages, which it may name.
    pub storages: &'a [Storage],
}

impl Source {
    /// A file. A relative name that is not here is looked for in `vcl_path`.
    pub fn file(path: &Path, vcl_path: &[PathBuf]) -> Source {
        let elsewhere = || vcl_path.iter().map(|folder| folder.join(path)).find(|path| path.exists());
        let found = match path.is_absolute() || path.exists() {
            true => path.to_owned(),
            false => elsewhere().unwrap_or_else(|| path.to_owned()),
        };
        Source { path: found, text: None }
    }

    /// A VCL that has this backend and nothing else: `-b`.
    pub fn backend(place: &str) -> Source {
        Source { path: "-b".into(), text: Some(vcl_of_backend(place)) }
    }

    /// A text that came over the CLI.
    pub fn inline(name: &str, text: String) -> Source {
        Source { path: format!("<{name}>").into(), text: Some(text) }
    }

    /// Compiles it. The notices, or all that is wrong with it, are text.
    pub fn compile(&self, name: &str, surroundings: Surroundings<'_>) -> Result<(Vcl, String), String> {
        let options = Options {
            vcl_path: surroundings.settings.vcl_path(),
            storages: surroundings.storages.iter().map(|storage| storage.name.clone()).collect(),
            allows_unused: surroundings.settings.allows_unused,
            ..Options::default()
        };
        let text = self.text.as_deref().map(|text| (&*self.path, text));
        let mut loader = TextOrDisk { text, disk: DiskLoader::default() };
        let is_regex = |pattern: &str| Regex::new(pattern, false).map(drop);
        let loaded = larder_vcl::load(&self.path, &options, &mut loader, &is_regex)
            .map_err(|failed| larder_vcl::render(&failed.diagnostics, &failed.sources))?;
        let notices = larder_vcl::render(&loaded.notices, &loaded.sources);
        larder_vcl::compile(&loaded.policy, &addresses_of)
            .map_err(|errors| format!("{notices}{}", larder_vcl::render(&errors, &loaded.sources)))?;
        let vcl = Vcl {
            name: name.to_owned(),
            path: self.path.clone(),
            files: loaded.sources.files().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect(),
            globs: loaded.sources.globs().map(|(pattern, found)| (pattern.to_owned(), found.to_vec())).collect(),
        };
        Ok((vcl, notices))
    }
}

fn vcl_of_backend(place: &str) -> String {
    if place.starts_with('/') || place.starts_with('@') {
        return format!("vcl 4.1;\nbackend default {{ .path = \"{place}\"; }}\n");
    }
    let (host, port) = larder_vcl::functions::addresses::host_and_port(place).unwrap_or((place, None));
    format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{}\"; }}\n", port.unwrap_or(8080))
}

/// The addresses of a name, as the system knows them.
fn addresses_of(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map_or_else(|_| Vec::new(), |all| all.map(|address| address.ip()).collect())
}

/// Reads files of this machine, and one text.
struct TextOrDisk<'a> {
    text: Option<(&'a Path, &'a str)>,
    disk: DiskLoader,
}

impl Loader for TextOrDisk<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match self.text {
            Some((own, text)) if own == path => Ok(text.as_bytes().to_vec()),
            _ => self.disk.read(path),
        }
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.disk.glob(pattern)
    }
}

impl Vcl {
    /// Its files, for whoever carries it out. Changes on the disk do not matter to a VCL that is loaded.
    pub fn loader(&self) -> MemoryLoader {
        let mut loader = MemoryLoader::new();
        for (path, bytes) in &self.files {
            loader.add(path, bytes.clone());
        }
        for (pattern, found) in &self.globs {
            loader.add_glob(pattern, found.clone());
        }
        loader
    }

    /// Its text without what it includes.
    pub fn text(&self) -> String {
        let own = self.files.iter().find(|(path, _)| *path == self.path);
        own.map_or(String::new(), |(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// All VCLs that are loaded, the oldest first.
#[derive(Debug, Default)]
pub struct Vcls {
    all: Vec<Vcl>,
    active: Option<String>,
}

/// Why a VCL cannot be named, used or discarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No VCL has this name.
    #[error("No VCL named {0} known.")]
    Unknown(String),
    /// Another VCL has it.
    #[error("Already a VCL named {0}")]
    Taken(String),
    /// It cannot be a name.
    #[error("Illegal VCL name (\"{0}\"): a letter, then letters, digits, _, - and .")]
    Invalid(String),
    /// Requests are answered by it.
    #[error("Cannot discard active VCL program")]
    Active,
    /// There are many.
    #[error("There are {VCLS_MAX} VCLs already: discard some")]
    TooMany,
}

/// How many VCLs are kept.
const VCLS_MAX: usize = 1000;

impl Vcls {
    /// Whether a new VCL may have this name.
    pub fn is_free(&self, name: &str) -> Result<(), NameError> {
        let fits = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        match () {
            () if !fits => Err(NameError::Invalid(name.to_owned())),
            () if self.all.iter().any(|vcl| vcl.name == name) => Err(NameError::Taken(name.to_owned())),
            () if self.all.len() >= VCLS_MAX => Err(NameError::TooMany),
            () => Ok(()),
        }
    }

    /// Adds one whose name is free.
    pub fn add(&mut self, vcl: Vcl) {
        self.all.push(vcl);
    }

    /// The VCL of this name.
    pub fn get(&self, name: &str) -> Result<&Vcl, NameError> {
        self.all.iter().find(|vcl| vcl.name == name).ok_or_else(|| NameError::Unknown(name.to_owned()))
    }

    /// The VCL that answers requests.
    pub fn active(&self) -> Option<&Vcl> {
        self.active.as_deref().and_then(|name| self.get(name).ok())
    }

    /// Answers requests by this VCL from now on.
    pub fn activate(&mut self, name: &str) {
        self.active = Some(name.to_owned());
    }

    /// Forgets a VCL.
    pub fn discard(&mut self, name: &str) -> Result<(), NameError> {
        self.get(name)?;
        if self.active.as_deref() == Some(name) {
            return Err(NameError::Active);
        }
        self.all.retain(|vcl| vcl.name != name);
        Ok(())
    }

    /// All of them, and whether they are active.
    pub fn list(&self) -> impl Iterator<Item = (&Vcl, bool)> {
        self.all.iter().map(|vcl| (vcl, self.active.as_deref() == Some(vcl.name.as_str())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vcls(names: &[&str]) -> Vcls {
        let mut vcls = Vcls::default();
        for name in names {
            vcls.add(Vcl { name: (*name).to_owned(), path: "<a>".into(), files: Vec::new(), globs: Vec::new() });
        }
        vcls
    }

    #[test]
    fn a_name_is_given_once_and_the_active_vcl_stays() {
        let mut vcls = vcls(&["boot", "b"]);
        vcls.activate("boot");
        for (name, expected) in [
            ("c-1.x_", Ok(())),
            ("b", Err("Already a VCL named b")),
            ("1", Err("Illegal VCL name (\"1\"): a letter, then letters, digits, _, - and .")),
            ("", Err("Illegal VCL name (\"\"): a letter, then letters, digits, _, - and .")),
            ("a/b", Err("Illegal VCL name (\"a/b\"): a letter, then letters, digits, _, - and .")),
        ] {
            assert_eq!(
                vcls.is_free(name).map_err(|error| error.to_string()),
                expected.map_err(str::to_owned),
                "{name}"
            );
        }
        assert_eq!(vcls.discard("boot"), Err(NameError::Active));
        assert_eq!(vcls.discard("c"), Err(NameError::Unknown("c".to_owned())));
        assert_eq!(vcls.discard("b"), Ok(()));
        assert_eq!(
            vcls.list().map(|(vcl, is_active)| (vcl.name.as_str(), is_active)).collect::<Vec<_>>(),
            [("boot", true)]
        );
    }

    #[test]
    fn a_vcl_keeps_what_it_was_read_from() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("part.vcl"), "sub vcl_recv { return (pass); }").unwrap();
        let mut settings = Settings::default();
        settings.set("vcl_path", &folder.path().display().to_string()).unwrap();
        let surroundings = Surroundings { settings: &settings, storages: &[] };
        let text = "vcl 4.1; include \"part.vcl\"; backend default none;";
        let (vcl, notices) = Source::inline("a", text.to_owned()).compile("a", surroundings).unwrap();
        assert_eq!((vcl.text().as_str(), notices.as_str()), (text, ""));
        folder.close().unwrap();
        let options = Options { vcl_path: settings.vcl_path(), ..Options::default() };
        assert!(larder_vcl::load(&vcl.path, &options, &mut vcl.loader(), &|_| Ok(())).is_ok());
        let errors = Source::inline("b", "vcl 4.1; backend default none; sub vcl_recv { oops; }".to_owned());
        assert!(errors.compile("b", surroundings).is_err_and(|errors| errors.contains("<b>:1")));
    }
}
