//! `larder varnishd`: varnishd's command line. It checks a VCL.

mod options;

use std::io::{self, Write as _};
use std::net::{IpAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use larder_server::regex::Regex;
use larder_source::Loader;
use larder_vcl::{BUILTIN, Options};

use crate::loader::DiskLoader;

pub use options::{Check, OptionsError, Source, Varnishd, parse};

/// Does what the command line asks for.
pub fn run(asked: &Varnishd) -> ExitCode {
    match asked {
        Varnishd::Version => {
            say(&format!("varnishd (larder-{})\n", env!("CARGO_PKG_VERSION")));
            ExitCode::SUCCESS
        }
        Varnishd::Help => {
            say(HELP);
            ExitCode::SUCCESS
        }
        Varnishd::Builtin => match io::stdout().write_all(BUILTIN.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                say(&format!("larder: cannot write the builtin VCL: {error}\n"));
                ExitCode::FAILURE
            }
        },
        Varnishd::Check(check) => match files(check).iter().all(|file| is_right(file, check)) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        },
    }
}

/// Writes to standard error. Whoever closed it is told by the exit code all the same.
fn say(text: &str) {
    let _ = io::stderr().write_all(text.as_bytes());
}

const HELP: &str = "\
Usage: larder varnishd -C (-f FILE... | -b ADDRESS) [options]

Checks a VCL as varnishd does, and says what is wrong with it. varnishd's other options are read, and mean nothing for
a check.

  -C              : check, and exit
  -f FILE         : a VCL; several are checked one by one
  -b ADDRESS      : the builtin VCL before a backend: HOST[:PORT], or the path of a Unix socket
  -p NAME=VALUE   : a parameter: vcl_path=FOLDER:FOLDER, where includes are looked for,
                    and vcc_feature=-err_unref, to allow what nothing refers to
  -s [NAME=]KIND  : a storage, whose name a VCL may use
  -V              : show the version
  -x builtin      : show the builtin VCL
";

/// A VCL, and the name by which it is read.
struct File {
    path: PathBuf,
    /// Its text, if it is in no file.
    text: Option<String>,
}

fn files(check: &Check) -> Vec<File> {
    match &check.source {
        Source::Files(paths) => {
            paths.iter().map(|path| File { path: found(path, &check.vcl_path), text: None }).collect()
        }
        Source::Backend(place) => vec![File { path: "-b".into(), text: Some(vcl_of_backend(place)) }],
    }
}

/// A relative name that is not here is looked for in `vcl_path`.
fn found(path: &Path, vcl_path: &[PathBuf]) -> PathBuf {
    let elsewhere = || vcl_path.iter().map(|folder| folder.join(path)).find(|path| path.exists());
    match path.is_absolute() || path.exists() {
        true => path.to_owned(),
        false => elsewhere().unwrap_or_else(|| path.to_owned()),
    }
}

/// A VCL that has this backend and nothing else.
fn vcl_of_backend(place: &str) -> String {
    if place.starts_with('/') || place.starts_with('@') {
        return format!("vcl 4.1;\nbackend default {{ .path = \"{place}\"; }}\n");
    }
    let (host, port) = larder_vcl::functions::addresses::host_and_port(place).unwrap_or((place, None));
    format!("vcl 4.1;\nbackend default {{ .host = \"{host}\"; .port = \"{}\"; }}\n", port.unwrap_or(8080))
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

/// Checks one VCL, and prints what there is to say about it.
fn is_right(file: &File, check: &Check) -> bool {
    let options = Options {
        vcl_path: check.vcl_path.clone(),
        storages: check.storages.clone(),
        allows_unused: check.allows_unused,
        ..Options::default()
    };
    let text = file.text.as_deref().map(|text| (&*file.path, text));
    let mut loader = TextOrDisk { text, disk: DiskLoader::default() };
    let is_regex = |pattern: &str| Regex::new(pattern, false).map(drop);
    let loaded = larder_vcl::load(&file.path, &options, &mut loader, &is_regex);
    let found = loaded.map_err(|failed| (failed.diagnostics, failed.sources)).and_then(|loaded| {
        say(&larder_vcl::render(&loaded.notices, &loaded.sources));
        larder_vcl::compile(&loaded.policy, &addresses_of).map_err(|errors| (errors, loaded.sources))
    });
    match found {
        Ok(_) => {
            say(&format!("larder: the VCL {} is right\n", file.path.display()));
            true
        }
        Err((errors, sources)) => {
            say(&larder_vcl::render(&errors, &sources));
            say(&format!("larder: the VCL {} cannot be used\n", file.path.display()));
            false
        }
    }
}

/// The addresses of a name, as the system knows them.
fn addresses_of(name: &str) -> Vec<IpAddr> {
    (name, 0).to_socket_addrs().map_or_else(|_| Vec::new(), |all| all.map(|address| address.ip()).collect())
}
