//! The command lines of `cargo xtask place` and `cargo xtask restart`.

use crate::load::LoadError;
use crate::load::kind::Kind;
use crate::load::options::{bytes, list, number, usage};
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// What `cargo xtask place --help` prints.
pub const PLACE_HELP: &str = "\
cargo xtask place [OPTION...]

Fills the cache of nginx and of larder with pages that are asked for once, on one disk and on two of known speed, and
looks at the disks, at the space that is taken, and at somebody who asks for a hit meanwhile. Needs root; the disks are
files, made for the run and taken away after it.

  --size N              bytes of pages of a fill (default: 1g)
  --page N              bytes of a page (default: 1m)
  --rate N              bytes a second that each disk reads and writes; 0 does not slow it down (default: 100m)
  --dirty N             bytes of the page cache that may wait for each disk; 0 leaves it to the kernel (default: 128m)
  --rounds N            interleaved rounds (default: 2)
  --rows A,B,...        of none, single, mirror, stripe, hash, split, evict (default: all)
  --servers A,B,...     of nginx, nginx-tuned, larder (default: nginx and larder)
  --larder PATH         the larder to measure (default: build it)
  --connections N       connections that fill (default: 8)
  --dir PATH            where the files go that are the disks (default: the target folder)
  --server-cpu N        (default: 0)
  --generator-cpu N     (default: 1)
  --markdown            print a table for docs/measuring.md
";

/// What `cargo xtask restart --help` prints.
pub const RESTART_HELP: &str = "\
cargo xtask restart [OPTION...]

Fills the cache of nginx and of larder with many small pages, stops the server, starts it again, and says when the pages
are hits; then once more with `kill -9` instead of a stop.

  --objects N           how many pages (default: 1000000)
  --page N              bytes of a page (default: 1k)
  --sample N            pages that are asked for after a start (default: 2000)
  --rounds N            stops and kills after the fill (default: 1)
  --cold                empty the kernel's caches before each start, as after a reboot; needs root
  --wait SECONDS        how long a server may take until all of the sample are hits, and until it says
                        that it knows its pages again (default: 900)
  --servers A,B,...     of nginx, nginx-tuned, larder (default: nginx and larder)
  --larder PATH         the larder to measure (default: build it)
  --connections N       connections that fill (default: 32)
  --dir PATH            where the caches go, for root on a file system of their own, made for the run
                        (default: the target folder)
  --server-cpu N        (default: 0)
  --generator-cpu N     (default: 1)
  --markdown            print a table for docs/measuring.md
";

/// What both have.
#[derive(Debug)]
pub struct Shared {
    /// The larder binary; `None` means it is to be built.
    pub larder: Option<PathBuf>,
    /// Who takes part, in the order of measurement.
    pub servers: Vec<Kind>,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// How often everything is measured.
    pub rounds: usize,
    /// Connections that fill.
    pub connections: usize,
    /// Where big files go.
    pub dir: PathBuf,
    /// Where the servers run.
    pub server_cpu: usize,
    /// Where the generator and the origin run.
    pub generator_cpu: usize,
    /// Whether the table is Markdown.
    pub is_markdown: bool,
}

/// What is asked of `place`.
#[derive(Debug)]
pub struct Place {
    /// What both have.
    pub shared: Shared,
    /// Bytes of pages of a fill.
    pub bytes: u64,
    /// Bytes a second of a disk; 0 is as fast as it goes.
    pub rate: u64,
    /// Bytes that may wait for a disk; 0 leaves it to the kernel.
    pub dirty: u64,
    /// What is measured.
    pub rows: Vec<Row>,
}

/// What is asked of `restart`.
#[derive(Debug)]
pub struct Restart {
    /// What both have.
    pub shared: Shared,
    /// How many pages.
    pub objects: u64,
    /// How many are asked for after a start.
    pub sample: usize,
    /// Whether the kernel's caches are emptied before each start.
    pub is_cold: bool,
    /// How long a server may take.
    pub wait: Duration,
}

/// Where pages go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Row {
    /// Nowhere: they pass.
    Uncached,
    /// One disk.
    Single,
    /// Two disks, each page on both.
    Mirror,
    /// Two disks below one file system, each page in parts on both.
    Stripe,
    /// Two disks, each page on one: by `split_clients` for nginx, by `larder_placement` for larder.
    Hash,
    /// The same, by `split_clients` for larder too.
    Split,
    /// One disk, on which the cache may keep a sixth of what is asked for.
    Evict,
}

impl Row {
    const ALL: [Row; 7] = [Row::Uncached, Row::Single, Row::Mirror, Row::Stripe, Row::Hash, Row::Split, Row::Evict];

    /// As on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Row::Uncached => "none",
            Row::Single => "single",
            Row::Mirror => "mirror",
            Row::Stripe => "stripe",
            Row::Hash => "hash",
            Row::Split => "split",
            Row::Evict => "evict",
        }
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(name: &str) -> Result<Row, String> {
        let names = Row::ALL.map(Row::name);
        let found = Row::ALL.into_iter().find(|row| row.name() == name);
        found.ok_or_else(|| format!("`{name}` is none of {}", names.join(", ")))
    }
}

impl Shared {
    fn new(root: &Path) -> Shared {
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        Shared {
            larder: None,
            servers: vec![Kind::Nginx, Kind::Larder],
            page_bytes: 0,
            rounds: 1,
            connections: 8,
            dir: root.join(target),
            server_cpu: 0,
            generator_cpu: 1,
            is_markdown: false,
        }
    }

    /// Takes an option that both have; otherwise gives it back as an error.
    fn take(&mut self, option: &str, parser: &mut lexopt::Parser) -> Result<(), LoadError> {
        match option {
            "page" => self.page_bytes = usize::try_from(size(parser, 1, 1 << 30)?).unwrap_or(usize::MAX),
            "rounds" => self.rounds = number(parser, 1, 1000)?,
            "servers" => self.servers = list(parser, server)?,
            "larder" => self.larder = Some(PathBuf::from(parser.value().map_err(usage)?)),
            "connections" => self.connections = number(parser, 1, 512)?,
            "dir" => self.dir = PathBuf::from(parser.value().map_err(usage)?),
            "server-cpu" => self.server_cpu = number(parser, 0, 4095)?,
            "generator-cpu" => self.generator_cpu = number(parser, 0, 4095)?,
            "markdown" => self.is_markdown = true,
            _ => return Err(usage(Long(option).unexpected())),
        }
        Ok(())
    }

    fn checked(self) -> Result<Shared, LoadError> {
        if self.server_cpu == self.generator_cpu {
            return Err(LoadError::Usage("the generator and the servers need a CPU each".into()));
        }
        Ok(self)
    }
}

impl Place {
    /// Reads the command line; `None` means it asks for help.
    pub fn parse(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<Option<Place>, LoadError> {
        let mut shared = Shared { page_bytes: 1 << 20, rounds: 2, ..Shared::new(root) };
        let (mut whole, mut rate, mut dirty, mut rows) = (1 << 30, 100 << 20, 128 << 20, Row::ALL.to_vec());
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(option) = next(&mut parser)? {
            match option.as_str() {
                "help" => return Ok(None),
                "size" => whole = size(&mut parser, 1 << 20, 1 << 40)?,
                "rate" => rate = size(&mut parser, 0, 1 << 40)?,
                "dirty" => dirty = size(&mut parser, 0, 1 << 40)?,
                "rows" => rows = list(&mut parser, Row::from_str)?,
                other => shared.take(other, &mut parser)?,
            }
        }
        Ok(Some(Place { shared: shared.checked()?, bytes: whole, rate, dirty, rows }))
    }
}

impl Restart {
    /// Reads the command line; `None` means it asks for help.
    pub fn parse(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<Option<Restart>, LoadError> {
        let mut shared = Shared { page_bytes: 1 << 10, connections: 32, ..Shared::new(root) };
        let (mut objects, mut sample, mut is_cold, mut wait) = (1_000_000, 2000, false, 900);
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(option) = next(&mut parser)? {
            match option.as_str() {
                "help" => return Ok(None),
                "objects" => objects = number(&mut parser, 1, 1_000_000_000)?,
                "sample" => sample = number(&mut parser, 1, 1_000_000)?,
                "cold" => is_cold = true,
                "wait" => wait = number(&mut parser, 1, 86_400)?,
                other => shared.take(other, &mut parser)?,
            }
        }
        Ok(Some(Restart { shared: shared.checked()?, objects, sample, is_cold, wait: Duration::from_secs(wait) }))
    }
}

/// The next option without its dashes.
fn next(parser: &mut lexopt::Parser) -> Result<Option<String>, LoadError> {
    match parser.next().map_err(usage)? {
        None => Ok(None),
        Some(Short('h')) => Ok(Some("help".into())),
        Some(Long(name)) => Ok(Some(name.into())),
        Some(other) => Err(usage(other.unexpected())),
    }
}

/// A number of bytes from `least` to `most`.
fn size(parser: &mut lexopt::Parser, least: u64, most: u64) -> Result<u64, LoadError> {
    let value = parser.value().map_err(usage)?.string().map_err(usage)?;
    let found = bytes(&value).filter(|bytes| (least..=most).contains(bytes));
    found.ok_or_else(|| LoadError::Usage(format!("`{value}` is not a size from {least} to {most}")))
}

fn server(name: &str) -> Result<Kind, String> {
    match Kind::from_str(name) {
        Ok(kind @ (Kind::Nginx | Kind::NginxTuned | Kind::Larder)) => Ok(kind),
        Ok(_) | Err(_) => Err(format!("`{name}` is none of nginx, nginx-tuned, larder")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> impl Iterator<Item = OsString> {
        line.split_whitespace().map(OsString::from)
    }

    #[test]
    fn options_are_read() {
        let root = Path::new("/repo");
        let place =
            Place::parse(root, words("--size 2g --page 64k --rate 0 --rows hash,evict --markdown --servers nginx"));
        let place = place.ok().flatten().expect("they are valid");
        assert_eq!((place.bytes, place.shared.page_bytes, place.rate), (2 << 30, 64 << 10, 0));
        assert_eq!((place.rows, place.shared.is_markdown), (vec![Row::Hash, Row::Evict], true));
        assert_eq!(place.shared.servers, [Kind::Nginx]);
        let restart = Restart::parse(root, words("--objects 10000 --cold --wait 5 --larder /bin/larder"));
        let restart = restart.ok().flatten().expect("they are valid");
        assert_eq!((restart.objects, restart.is_cold, restart.wait), (10_000, true, Duration::from_secs(5)));
        assert_eq!(restart.shared.larder.as_deref(), Some(Path::new("/bin/larder")));
        assert!(matches!(Place::parse(root, words("--help")), Ok(None)));
        assert!(matches!(Restart::parse(root, words("-h")), Ok(None)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "--size 1",
            "--size 1x",
            "--rows all",
            "--servers varnish",
            "--server-cpu 1",
            "--objects 5",
            "--rounds 0",
            "-x",
            "word",
        ] {
            assert!(Place::parse(Path::new("/repo"), words(line)).is_err(), "{line}");
        }
    }
}
