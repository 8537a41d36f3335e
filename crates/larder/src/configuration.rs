//! Loading a configuration: files, the parser, the server's own checks, and the built-in places.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use larder_conf::model::{Config, ErrorLog, LogLevel, LogTarget, TlsFilePurpose};
use larder_conf::{Diagnostic, Loader, MemoryLoader, Severity, Sources, Survey, render};

use crate::cli::NoEffect;
use crate::fpm_pools;
use crate::hostname::hostname;
use crate::loader::{DiskLoader, Stamp};
use crate::paths::{DefaultLog, PID_FILE, Paths};
use crate::remark::Remark;
use crate::serving::{self, Material};
use crate::vcls;

/// Everything besides the files that decides what a configuration means. It is passed to the serving process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The main file.
    pub conf_file: PathBuf,
    /// The folder that includes are relative to.
    pub conf_prefix: PathBuf,
    /// The folder that other names are relative to.
    pub prefix: PathBuf,
    /// The text of `-g`.
    pub globals: Option<String>,
    /// Whether larder was started by root.
    pub is_root: bool,
    /// The name of the machine.
    pub hostname: String,
    /// The error log, if the configuration names none.
    pub error_log: DefaultLog,
}

/// A configuration that can be used.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// The parsed configuration, with the built-in paths filled in.
    pub config: Config,
    /// What it was read from.
    pub sources: Sources,
    /// How it was read.
    pub surroundings: Surroundings,
    /// The files of TLS.
    pub material: Material,
    /// Warnings and notices for the operator.
    pub notices: Vec<Diagnostic>,
    /// The groups of origins, and whether each has a gate.
    gates: BTreeMap<String, bool>,
    /// Inode and time of the files, if they were read from disk.
    stamps: HashMap<PathBuf, Stamp>,
}

/// Why a configuration cannot be used, ready to be printed.
#[derive(Debug, thiserror::Error)]
#[error("{rendered}")]
pub struct Rejected {
    /// Every error, with its place.
    pub rendered: String,
    /// The same, one by one.
    pub remarks: Vec<Remark>,
}

impl Rejected {
    /// Rejected for these reasons.
    pub fn of(diagnostics: &[Diagnostic], sources: &Sources) -> Rejected {
        Rejected { rendered: render(diagnostics, sources), remarks: Remark::of(diagnostics, sources) }
    }
}

impl Surroundings {
    /// The surroundings of this process.
    pub fn new(paths: &Paths, globals: Option<String>) -> Surroundings {
        Surroundings {
            conf_file: paths.conf_file.clone(),
            conf_prefix: paths.conf_prefix.clone(),
            prefix: paths.prefix.clone(),
            globals,
            is_root: nix::unistd::geteuid().is_root(),
            hostname: hostname(),
            error_log: paths.error_log.clone(),
        }
    }
}

impl Surroundings {
    fn options(&self) -> larder_conf::Options {
        larder_conf::Options {
            prefix: self.prefix.clone(),
            conf_prefix: self.conf_prefix.clone(),
            globals: self.globals.clone(),
            is_root: self.is_root,
            hostname: self.hostname.clone(),
        }
    }
}

impl Configuration {
    /// Reads the configuration from disk and checks it.
    pub fn read(surroundings: Surroundings) -> Result<Configuration, Rejected> {
        Configuration::from_disk(surroundings, DiskLoader::default())
    }

    /// Reads it again, for a reload. With `ssl_object_cache_inheritable`, unchanged certificates and keys are taken
    /// from the old one.
    pub fn read_anew(&self) -> Result<Configuration, Rejected> {
        let known = match self.config.main.inherits_certificates {
            true => self.inheritable().collect(),
            false => HashMap::new(),
        };
        Configuration::from_disk(self.surroundings.clone(), DiskLoader { known, ..DiskLoader::default() })
    }

    /// Certificates, keys and CRLs, with inode and time of their files.
    fn inheritable(&self) -> impl Iterator<Item = (PathBuf, (Stamp, Vec<u8>))> {
        larder_conf::model::tls_files(&self.config).into_iter().filter_map(|file| {
            match file.purpose {
                TlsFilePurpose::Certificate
                | TlsFilePurpose::Key
                | TlsFilePurpose::ClientCertificate
                | TlsFilePurpose::TrustedCertificate
                | TlsFilePurpose::Crl => {}
                TlsFilePurpose::Passwords | TlsFilePurpose::TicketKey | TlsFilePurpose::StaplingAnswer => return None,
            }
            let known = (*self.stamps.get(&file.path)?, self.material.read(&file.path).ok()?);
            Some((file.path, known))
        })
    }

    fn from_disk(surroundings: Surroundings, mut loader: DiskLoader) -> Result<Configuration, Rejected> {
        let configuration = Configuration::load(surroundings, &mut loader, &mut OwnFiles::new())?;
        Ok(Configuration { stamps: loader.stamps, ..configuration })
    }

    /// Reads and checks a configuration by a loader.
    pub fn by_loader(surroundings: Surroundings, loader: &mut dyn Loader) -> Result<Configuration, Rejected> {
        Configuration::load(surroundings, loader, &mut OwnFiles::new())
    }

    /// Reads and checks a configuration out of memory.
    pub fn from_memory(surroundings: Surroundings, mut files: MemoryLoader) -> Result<Configuration, Rejected> {
        Configuration::load(surroundings, &mut files, &mut OwnFiles::new())
    }

    /// The same where VCLs have files of their own.
    pub fn with_vcls(
        surroundings: Surroundings,
        mut files: MemoryLoader,
        mut own: OwnFiles,
    ) -> Result<Configuration, Rejected> {
        Configuration::load(surroundings, &mut files, &mut own)
    }

    /// A configuration as it is written, for those who look for its server: what a start needs is not checked.
    pub fn glance(surroundings: &Surroundings) -> Result<Config, Rejected> {
        parse(surroundings, &mut DiskLoader::default()).map(|loaded| loaded.config)
    }

    /// The configuration of files that can be read, whether or not it can be used: nobody looks at certificates and VCLs.
    pub fn parsed(surroundings: &Surroundings, loader: &mut dyn Loader) -> Option<Config> {
        parse(surroundings, loader).ok().map(|loaded| loaded.config)
    }

    /// What is written, whether or not it can be used.
    pub fn survey(surroundings: &Surroundings, loader: &mut dyn Loader) -> Survey {
        larder_conf::survey(&surroundings.conf_file, &surroundings.options(), loader)
    }

    /// Reads a configuration for `-s`, which needs only to know where the pid file is.
    pub fn pid_file(surroundings: &Surroundings) -> Result<PathBuf, Rejected> {
        Self::glance(surroundings).map(|config| pid_file(&config))
    }

    /// The path of the pid file.
    pub fn pid_path(&self) -> PathBuf {
        pid_file(&self.config)
    }

    /// Diagnostics about this configuration as text.
    pub fn render(&self, diagnostics: &[Diagnostic]) -> String {
        render(diagnostics, &self.sources)
    }

    /// The refusal of this configuration for the reasons in `diagnostics`.
    pub fn reject(&self, diagnostics: &[Diagnostic]) -> Rejected {
        Rejected::of(diagnostics, &self.sources)
    }

    /// Warnings and notices as text, in the order of the files.
    pub fn rendered_notices(&self, no_effect: NoEffect) -> String {
        let is_said = |notice: &&Diagnostic| notice.severity != Severity::NoEffect || no_effect == NoEffect::Listed;
        let said: Vec<_> = self.notices.iter().filter(is_said).cloned().collect();
        let mut text = self.render(&said);
        match self.notices.len() - said.len() {
            0 => {}
            1 => text
                .push_str(&format!("larder: [notice] one directive has no effect, and is not needed: {HOW_TO_SEE}\n")),
            count => {
                text.push_str(&format!(
                    "larder: [notice] {count} directives have no effect, and are not needed: {HOW_TO_SEE}\n"
                ));
            }
        }
        text
    }

    /// The same, and what is no more as it was `before`.
    pub fn rendered_changes(&self, before: &Configuration) -> String {
        let mut text = self.rendered_notices(NoEffect::Counted);
        for (name, _) in self.gates.iter().filter(|(name, has)| !**has && before.gates.get(*name) == Some(&true)) {
            text.push_str(&format!(
                "larder: [notice] \"{name}\" has no gate any more: all requests go to it at once\n"
            ));
        }
        text
    }

    fn load(
        surroundings: Surroundings,
        loader: &mut dyn Loader,
        own: &mut OwnFiles,
    ) -> Result<Configuration, Rejected> {
        let loaded = parse(&surroundings, loader)?;
        let (mut config, mut sources, mut notices) = (loaded.config, loaded.sources, loaded.notices);
        let mut material = Material::new();
        for file in larder_conf::model::tls_files(&config) {
            // Each file only once, because it may be a pipe that can be read only once.
            if !material.has(&file.path) {
                let read = loader.read(&file.path);
                material.add(file.path, read);
            }
        }
        for used in larder_conf::model::vcls(&config) {
            let loader = match own.get_mut(&used.file.value) {
                Some(own) => own,
                None => &mut *loader,
            };
            let (vcl, said) =
                vcls::read(&used, &config, loader, &mut sources).map_err(|errors| Rejected::of(&errors, &sources))?;
            material.add_vcl(used.file.value, vcl);
            notices.extend(said);
        }
        fpm_pools::read(&config, loader, &mut sources, &mut material);
        let checked = serving::check(&config, &material);
        if !checked.errors.is_empty() {
            return Err(Rejected::of(&checked.errors, &sources));
        }
        notices.extend(checked.notices);
        notices.extend(notices_about(&config, surroundings.is_root));
        fill_in(&mut config, &surroundings);
        let gates = checked.gates;
        Ok(Configuration { config, sources, surroundings, material, notices, gates, stamps: HashMap::new() })
    }
}

/// What VCLs are read from, by the paths that the configuration has for them. One that has nothing here is read as the
/// configuration is.
pub type OwnFiles = HashMap<PathBuf, MemoryLoader>;

fn parse(surroundings: &Surroundings, loader: &mut dyn Loader) -> Result<larder_conf::Loaded, Rejected> {
    larder_conf::load(&surroundings.conf_file, &surroundings.options(), loader).map_err(|mut failed| {
        // With errors to fix, directives without effect are not worth mentioning.
        failed.diagnostics.retain(|one| one.severity != Severity::NoEffect);
        Rejected::of(&failed.diagnostics, &failed.sources)
    })
}

/// How to list each of them.
const HOW_TO_SEE: &str = "see \"larder --notices\"";

/// Notices about settings that have no effect here.
fn notices_about(config: &Config, is_root: bool) -> Vec<Diagnostic> {
    let mut notices = Vec::new();
    if let (Some(user), false) = (&config.main.user, is_root) {
        let text = "the \"user\" directive makes sense only if larder is started by root, ignored";
        notices.push(*Diagnostic::warning(text).at(user.span));
    }
    for listen in config.http.servers.iter().flat_map(|server| &server.listens) {
        let options = [("deferred", listen.deferred), ("fastopen", listen.fastopen.is_some())];
        for (option, _) in options.into_iter().filter(|(_, is_set)| *is_set) {
            let why = "connections are accepted when they are made";
            notices.push(*Diagnostic::no_effect(option, why).at(listen.span));
        }
    }
    notices
}

/// Adds the built-in error log if the configuration names none.
fn fill_in(config: &mut Config, surroundings: &Surroundings) {
    if config.main.error_log.is_empty() {
        let target = match &surroundings.error_log {
            DefaultLog::File(path) => LogTarget::File(path.clone()),
            DefaultLog::Stderr => LogTarget::Stderr,
        };
        let level = LogLevel::Error;
        config.main.error_log.push(ErrorLog { target, level });
    }
}

/// The path of the pid file of a configuration.
pub fn pid_file(config: &Config) -> PathBuf {
    config.main.pid.clone().unwrap_or_else(|| Path::new(PID_FILE).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str, is_root: bool) -> Configuration {
        let surroundings = Surroundings {
            conf_file: "/c".into(),
            conf_prefix: "/".into(),
            prefix: "/p".into(),
            globals: None,
            is_root,
            hostname: "h".to_owned(),
            error_log: DefaultLog::File("/e".into()),
        };
        let mut files = MemoryLoader::new();
        files.add("/c", format!("events {{}} {text}"));
        Configuration::from_memory(surroundings, files).expect("it is well-formed")
    }

    #[test]
    fn what_has_no_effect_is_said() {
        for (text, is_root, expected) in [
            ("user www;", true, vec![]),
            ("user www;", false, vec!["the \"user\" directive makes sense only"]),
            ("http { server { listen 80; } }", true, vec![]),
            ("http { server { listen 80 deferred fastopen=9; } }", true, vec!["\"deferred\"", "\"fastopen\""]),
        ] {
            let configuration = load(text, is_root);
            assert_eq!(configuration.notices.len(), expected.len(), "{text}");
            for (notice, expected) in configuration.notices.iter().zip(expected) {
                assert!(notice.message.starts_with(expected), "{}", notice.message);
            }
        }
    }

    #[test]
    fn what_is_not_needed_is_one_line_and_what_is_lost_is_not_in_it() {
        for (text, expected) in [
            ("", vec![]),
            ("pcre_jit on;", vec!["[notice] one directive has no effect, and is not needed: see \"larder --notices\""]),
            (
                "pcre_jit on; load_module a.so; http { tcp_nopush on; http3 on; server { tcp_nopush on; listen 80 deferred; } }",
                vec![
                    "[notice] \"http3\" is read and has no effect: HTTP/3 is not spoken yet in /c:1",
                    "[notice] 4 directives have no effect, and are not needed: see \"larder --notices\"",
                ],
            ),
        ] {
            let configuration = load(text, true);
            let said = configuration.rendered_notices(NoEffect::Counted);
            let said: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("larder: ")).collect();
            assert_eq!(said, expected, "{text}");
            let listed = configuration.rendered_notices(NoEffect::Listed);
            assert_eq!(listed.matches("larder: [").count(), configuration.notices.len(), "{text}: {listed}");
        }
    }

    #[test]
    fn the_built_in_places_are_filled_in() {
        for (text, pid, log) in [("", PID_FILE, "/e"), ("pid a; error_log b;", "/p/a", "/p/b")] {
            let configuration = load(text, true);
            assert_eq!(configuration.pid_path(), Path::new(pid));
            let target = &configuration.config.main.error_log[0].target;
            assert_eq!(*target, LogTarget::File(log.into()));
        }
    }
}
