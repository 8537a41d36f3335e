//! `cargo xtask dist`: larder as packages that people install.
//!
//! What is in them is in `packaging/` and `docs/`; here it is laid out and wrapped. The tools that wrap are those of the
//! systems: dpkg-deb, rpmbuild, tar.

mod deb;
mod error;
mod kind;
mod man;
mod oci;
mod program;
mod rpm;
mod tarball;
mod tree;
mod trial;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::prelude::*;

use error::{DistError, io_at};
use kind::{Kind, Tried};
use program::{Linking, Program};

const HELP: &str = "\
cargo xtask dist [OPTION...] [KIND...]

Makes packages of larder, all kinds or those that are named:

  deb        for Debian and Ubuntu: `apt install ./larder_*.deb`
  rpm        for Fedora, RHEL and their kin (needs `apt-get install rpm`)
  tarball    one static program with its files, for any Linux
  oci        an image from scratch with the static program: `docker load < larder-*-oci.tar`

  --out DIR         where they go (default: target/dist)
  --larder PATH     the program for deb and rpm (default: build it)
  --static PATH     the program for tarball and oci (default: build it)
  --test [SUITE...] makes the kinds that are named before it (default: deb), then installs, starts, reloads, upgrades
                    under load and removes each in a chroot of each suite (default: bookworm), in a network of its own;
                    an image serves beside a php-fpm, in a root of its own. Needs root and `apt-get install mmdebstrap`;
                    for an image also `skopeo umoci php-fpm curl`; for a suite of Ubuntu its keyring
";

/// The version of the packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

struct Options {
    kinds: Vec<Kind>,
    out: PathBuf,
    larder: Option<PathBuf>,
    fixed: Option<PathBuf>,
    tests: Option<Vec<String>>,
}

/// Runs the command.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    match run(root, arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dist: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), DistError> {
    let Some(options) = Options::parse(root, arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    fs::create_dir_all(&options.out).map_err(io_at(&options.out))?;
    let mut tried = Vec::new();
    for (linking, kinds) in [(Linking::Dynamic, [Kind::Deb, Kind::Rpm]), (Linking::Static, [Kind::Tarball, Kind::Oci])]
    {
        let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| options.kinds.contains(kind)).collect();
        if kinds.is_empty() {
            continue;
        }
        let given = match linking {
            Linking::Dynamic => options.larder.as_deref(),
            Linking::Static => options.fixed.as_deref(),
        };
        let program = Program::get(root, given, linking)?;
        for kind in kinds {
            let made = kind.make(root, &options.out, &program, "1")?;
            let bytes = fs::metadata(&made).map_err(io_at(&made))?.len();
            println!("{}: {:.1} MB, the program in it {:.1} MB", made.display(), mb(bytes), mb(program.bytes()));
            if options.tests.is_some() {
                let old =
                    if kind.has_revisions() { kind.make(root, &options.out, &program, "0")? } else { made.clone() };
                tried.push(Tried { kind, old, new: made });
            }
        }
    }
    options.tests.map_or(Ok(()), |suites| trial::run_in(root, &options.out, &tried, &suites))
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

impl Options {
    fn parse(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<Option<Self>, DistError> {
        let mut options =
            Self { kinds: Vec::new(), out: root.join("target/dist"), larder: None, fixed: None, tests: None };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next()? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("out") => options.out = parser.value()?.into(),
                Long("larder") => options.larder = Some(parser.value()?.into()),
                Long("static") => options.fixed = Some(parser.value()?.into()),
                Long("test") => {
                    let suites = parser.optional_value().into_iter().chain(parser.raw_args()?);
                    let suites: Vec<String> = suites.map(|suite| suite.to_string_lossy().into_owned()).collect();
                    options.tests = Some(if suites.is_empty() { vec!["bookworm".to_owned()] } else { suites });
                }
                Value(word) => {
                    let found = Kind::ALL.into_iter().find(|(name, _)| word == *name);
                    options.kinds.push(found.ok_or_else(|| DistError::NoKind(word.to_string_lossy().into_owned()))?.1);
                }
                other => return Err(other.unexpected().into()),
            }
        }
        if options.kinds.is_empty() {
            match options.tests {
                Some(_) => options.kinds.push(Kind::Deb),
                None => options.kinds.extend(Kind::ALL.map(|(_, kind)| kind)),
            }
        }
        Ok(Some(options))
    }
}
