//! A VCL that is loaded: its text, and what it was read from.

use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};

use larder_conf::{Diagnostic, MemoryLoader};
use larder_server::regex::Regex;
use larder_server::site::unbuilt_errors;
use larder_source::{Loader, Sources};
use larder_vcl::Options;

use super::care::Care;
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
    /// The same in a configuration, where no other one has it: two may have been read from one file that was changed
    /// between.
    pub place: PathBuf,
    /// Whether it is kept ready.
    pub care: Care,
    /// Its text and what it includes, as they were when it was loaded.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Patterns of includes, and what they matched.
    pub globs: Vec<(String, Vec<PathBuf>)>,
    /// The labels that it names.
    pub labels: Vec<String>,
    /// The modules that it imports.
    pub modules: Vec<&'static str>,
}

/// What a VCL is compiled with.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// The parameters.
    pub settings: &'a Settings,
    /// The storages, which it may name.
    pub storages: &'a [Storage],
    /// The labels, which it may name.
    pub labels: &'a [String],
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

    /// A file, where it is.
    pub fn at(path: &Path) -> Source {
        Source { path: path.to_owned(), text: None }
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
        match self.compile_by(name, surroundings, &mut DiskLoader::default()) {
            Ok((vcl, said)) => Ok((vcl, said.rendered())),
            Err(said) => Err(said.rendered()),
        }
    }

    /// The same where `loader` reads what it includes.
    pub fn compile_by(
        &self,
        name: &str,
        surroundings: Surroundings<'_>,
        loader: &mut dyn Loader,
    ) -> Result<(Vcl, Said), Said> {
        let options = Options {
            vcl_path: surroundings.settings.vcl_path(),
            storages: surroundings.storages.iter().map(|storage| storage.name.clone()).collect(),
            allows_unused: surroundings.settings.allows_unused,
            labels: surroundings.labels.to_vec(),
            upstreams: Vec::new(),
            has_other_backends: false,
        };
        let text = self.text.as_deref().map(|text| (&*self.path, text));
        let mut loader = TextOrFile { text, rest: loader };
        let is_regex = |pattern: &str| Regex::new(pattern, false).map(drop);
        let loaded = larder_vcl::load(&self.path, &options, &mut loader, &is_regex)
            .map_err(|failed| Said { diagnostics: failed.diagnostics, sources: failed.sources })?;
        let notices = &loaded.notices;
        let rejected = |errors: Vec<Diagnostic>| Said {
            diagnostics: notices.iter().cloned().chain(errors).collect(),
            sources: loaded.sources.clone(),
        };
        let program = larder_vcl::compile(&loaded.policy, &addresses_of).map_err(rejected)?;
        let unbuilt = unbuilt_errors(&program);
        if !unbuilt.is_empty() {
            return Err(rejected(unbuilt));
        }
        let vcl = Vcl {
            name: name.to_owned(),
            path: self.path.clone(),
            place: self.path.clone(),
            care: Care::new(),
            files: loaded.sources.files().map(|(path, bytes)| (path.to_owned(), bytes.to_vec())).collect(),
            globs: loaded.sources.globs().map(|(pattern, found)| (pattern.to_owned(), found.to_vec())).collect(),
            labels: loaded.policy.labels.clone(),
            modules: loaded.policy.modules.clone(),
        };
        Ok((vcl, Said { diagnostics: loaded.notices, sources: loaded.sources }))
    }
}

/// What is said about a VCL: notices, or also what is wrong with it.
#[derive(Debug)]
pub struct Said {
    /// One by one.
    pub diagnostics: Vec<Diagnostic>,
    /// Where they point to.
    pub sources: Sources,
}

impl Said {
    fn rendered(&self) -> String {
        larder_vcl::render(&self.diagnostics, &self.sources)
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

/// Reads files by another loader, and one text.
struct TextOrFile<'a> {
    text: Option<(&'a Path, &'a str)>,
    rest: &'a mut dyn Loader,
}

impl Loader for TextOrFile<'_> {
    fn read(&mut self, path: &Path) -> io::Result<Vec<u8>> {
        match self.text {
            Some((own, text)) if own == path => Ok(text.as_bytes().to_vec()),
            _ => self.rest.read(path),
        }
    }

    fn glob(&mut self, pattern: &str) -> io::Result<Vec<PathBuf>> {
        self.rest.glob(pattern)
    }
}

impl Vcl {
    /// Its files, for whoever carries it out under the name `own`. Changes on the disk do not matter to a VCL that is
    /// loaded.
    pub fn loader(&self, own: &Path) -> MemoryLoader {
        let mut loader = MemoryLoader::new();
        if let Some((_, bytes)) = self.files.iter().find(|(path, _)| *path == self.path) {
            loader.add(own, bytes.clone());
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcl_keeps_what_it_was_read_from() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("part.vcl"), "sub vcl_recv { return (pass); }").unwrap();
        let mut settings = Settings::default();
        settings.set("vcl_path", &folder.path().display().to_string()).unwrap();
        let surroundings = Surroundings { settings: &settings, storages: &[], labels: &[] };
        let text = "vcl 4.1; include \"part.vcl\"; backend default none;";
        let (vcl, notices) = Source::inline("a", text.to_owned()).compile("a", surroundings).unwrap();
        assert_eq!((vcl.text().as_str(), notices.as_str()), (text, ""));
        folder.close().unwrap();
        let options = Options { vcl_path: settings.vcl_path(), ..Options::default() };
        assert!(larder_vcl::load(&vcl.path, &options, &mut vcl.loader(&vcl.path), &|_| Ok(())).is_ok());
        let errors = Source::inline("b", "vcl 4.1; backend default none; sub vcl_recv { oops; }".to_owned());
        assert!(errors.compile("b", surroundings).is_err_and(|errors| errors.contains("<b>:1")));
    }
}
