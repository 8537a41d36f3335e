//! The command line of `cargo xtask ramp`.

use super::super::kind::Kind;
use super::super::options::{cpu, list, number, one, size, usage};
use super::LoadError;
use lexopt::prelude::*;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` prints.
pub const HELP: &str = "\
cargo xtask ramp [OPTION...]

More and more people on an https site whose page is cached, on larder and on nginx in turn. Everyone asks, reads,
thinks and asks again, over a connection of their own and sometimes a new one.

  --larder PATH         the larder to measure (default: build it)
  --without-larder      measure the peer alone
  --peer NAME           nginx (default), nginx-tuned, or none
  --steps A,B,...       how many people (default: 1,2,5,10,20,50,100,200,500,1000)
  --seconds N           length of a step on each server (default: 5)
  --protocol h2|h1      what they speak (default: h2)
  --think MS            pause between answer and request, give or take a half (default: 50)
  --per-connection N    requests until a new connection with a full handshake (default: 20)
  --size N              the page: bytes, or with k or m (default: 10k)
  --delay MS            what the origin takes to make it (default: 50)
  --fresh SECONDS       how long it is fresh (default: 2)
  --server-cpu N        (default: 0)
  --generator-cpu N     (default: 1)
  --csv FILE            (default: docs/img/ramp-https.csv)
  --svg FILE            (default: docs/img/ramp-https.svg)
";

/// No more people than this: one source address has about 28,000 ports.
const USERS_MAX: usize = 10_000;

/// What the command line asks for.
#[derive(Debug)]
pub struct Options {
    /// The larder binary; `None` means it is to be built.
    pub larder: Option<PathBuf>,
    /// Whether larder takes part.
    pub with_larder: bool,
    /// Who else.
    pub peer: Option<Kind>,
    /// How many people, step by step.
    pub steps: Vec<usize>,
    /// Whole seconds of a step.
    pub seconds: u64,
    /// Whether they speak HTTP/2.
    pub is_h2: bool,
    /// The pause between an answer and the next request.
    pub think: Duration,
    /// Requests on a connection.
    pub requests_per_connection: u64,
    /// The size of the page.
    pub bytes: usize,
    /// What the origin takes to make it.
    pub delay: Duration,
    /// How long it is fresh.
    pub fresh_seconds: u32,
    /// Where the servers run.
    pub server_cpu: usize,
    /// Where the generator runs.
    pub generator_cpu: usize,
    /// Where the table goes.
    pub csv: PathBuf,
    /// Where the graph goes.
    pub svg: PathBuf,
}

impl Options {
    /// Reads the command line; `None` means it asks for help.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, LoadError> {
        let mut options = Options {
            larder: None,
            with_larder: true,
            peer: Some(Kind::Nginx),
            steps: vec![1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
            seconds: 5,
            is_h2: true,
            think: Duration::from_millis(50),
            requests_per_connection: 20,
            bytes: 10 * 1024,
            delay: Duration::from_millis(50),
            fresh_seconds: 2,
            server_cpu: 0,
            generator_cpu: 1,
            csv: PathBuf::from("docs/img/ramp-https.csv"),
            svg: PathBuf::from("docs/img/ramp-https.svg"),
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("larder") => options.larder = Some(PathBuf::from(parser.value().map_err(usage)?)),
                Long("without-larder") => options.with_larder = false,
                Long("peer") => options.peer = one::<Peer>(&mut parser)?.0,
                Long("steps") => options.steps = list(&mut parser, users)?,
                Long("seconds") => options.seconds = number(&mut parser, 1, 600)?,
                Long("protocol") => options.is_h2 = one::<Protocol>(&mut parser)? == Protocol::H2,
                Long("think") => options.think = Duration::from_millis(number(&mut parser, 1, 60_000)?),
                Long("per-connection") => options.requests_per_connection = number(&mut parser, 1, 1_000_000)?,
                Long("size") => options.bytes = one::<Size>(&mut parser)?.0,
                Long("delay") => options.delay = Duration::from_millis(number(&mut parser, 0, 10_000)?),
                Long("fresh") => options.fresh_seconds = number(&mut parser, 1, 86_400)?,
                Long("server-cpu") => options.server_cpu = cpu(&mut parser)?,
                Long("generator-cpu") => options.generator_cpu = cpu(&mut parser)?,
                Long("csv") => options.csv = PathBuf::from(parser.value().map_err(usage)?),
                Long("svg") => options.svg = PathBuf::from(parser.value().map_err(usage)?),
                _ => return Err(usage(argument.unexpected())),
            }
        }
        if options.server_cpu == options.generator_cpu {
            return Err(LoadError::Usage("the generator and the servers need a CPU each".into()));
        }
        if options.servers().next().is_none() {
            return Err(LoadError::Usage("nobody is left to be measured".into()));
        }
        if !options.steps.is_sorted_by(|a, b| a < b) {
            return Err(LoadError::Usage("the steps have to go up".into()));
        }
        Ok(Some(options))
    }

    /// Who takes part.
    pub fn servers(&self) -> impl Iterator<Item = Kind> {
        self.with_larder.then_some(Kind::Larder).into_iter().chain(self.peer)
    }

    /// What the graph is of, in two lines.
    pub fn caption(&self) -> [String; 2] {
        [
            format!(
                "{} over TLS 1.3, a cached page of {} KB, one core for the server",
                if self.is_h2 { "HTTP/2" } else { "HTTP/1.1" },
                self.bytes.div_ceil(1024),
            ),
            format!(
                "Everyone asks again {} ms after an answer, and over a new connection after {} requests",
                self.think.as_millis(),
                self.requests_per_connection
            ),
        ]
    }
}

/// The value of `--peer`.
struct Peer(Option<Kind>);

impl std::str::FromStr for Peer {
    type Err = String;

    fn from_str(name: &str) -> Result<Peer, String> {
        match name {
            "none" => Ok(Peer(None)),
            "nginx" => Ok(Peer(Some(Kind::Nginx))),
            "nginx-tuned" => Ok(Peer(Some(Kind::NginxTuned))),
            _ => Err(format!("`{name}` is none of nginx, nginx-tuned, none")),
        }
    }
}

/// The value of `--protocol`.
#[derive(PartialEq, Eq)]
enum Protocol {
    H1,
    H2,
}

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Protocol, String> {
        match name {
            "h1" => Ok(Protocol::H1),
            "h2" => Ok(Protocol::H2),
            _ => Err(format!("`{name}` is none of h2, h1")),
        }
    }
}

/// The value of `--size`.
struct Size(usize);

impl std::str::FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        size(text).map(Size)
    }
}

fn users(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(users) if (1..=USERS_MAX).contains(&users) => Ok(users),
        _ => Err(format!("`{text}` is not a number of people from 1 to {USERS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, LoadError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        for (line, servers, steps, is_h2) in [
            ("--steps 1,10,100", vec![Kind::Larder, Kind::Nginx], vec![1, 10, 100], true),
            ("--steps 5 --peer none --protocol h1", vec![Kind::Larder], vec![5], false),
            ("--steps 5 --peer nginx-tuned --without-larder", vec![Kind::NginxTuned], vec![5], true),
        ] {
            let options = parse(line).ok().flatten().expect("they are valid");
            assert_eq!(options.servers().collect::<Vec<_>>(), servers, "{line}");
            assert_eq!((options.steps, options.is_h2), (steps, is_h2), "{line}");
        }
        assert!(matches!(parse("-h"), Ok(None)));
    }

    #[test]
    fn what_cannot_be_climbed_is_refused() {
        for line in [
            "--steps 0",
            "--steps 1,2,2",
            "--steps 10,5",
            "--steps x",
            "--steps 99999",
            "--peer varnish",
            "--peer none --without-larder",
            "--protocol h3",
            "--size 1g",
            "--think 0",
            "--per-connection 0",
            "--generator-cpu 0",
            "--seconds",
            "more",
        ] {
            assert!(matches!(parse(line), Err(LoadError::Usage(_))), "{line}");
        }
    }
}
