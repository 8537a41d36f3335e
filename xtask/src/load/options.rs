//! The command line of `cargo xtask load`.

use super::LoadError;
use super::configuration::Source;
use super::generator::tls::Group;
use super::kind::{Kind, Programs};
use super::php::CHILDREN;
use super::scenario::{Front, Scenario};
use lexopt::prelude::*;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// What `--help` prints.
pub const HELP: &str = "\
cargo xtask load [OPTION...]

Measures larder beside nginx and Varnish: one CPU for the servers, one for the generator. Prints the server's CPU time
per request, ratios, requests per second and the 99th percentile of the answer time.

  --scenario NAME       what is measured (default: plain):
                          plain      hits over HTTP/1.1, kept connections
                          tls        the same over TLS 1.3
                          handshake  a connection with a full TLS 1.3 handshake for every hit
                          resumed    a connection resumed by ticket for every hit
                          h2         hits over HTTP/2, without TLS
                          h2-tls     the same with TLS
                          gzip       hits on HTML, compressed
                          stall      the wait of one visitor while 1,000 a second arrive
                          close      a connection for every hit, without TLS
                          pass       the origin answers every request, over kept connections
                          php        php-fpm answers every request, over kept connections
                          php-new    the same, a connection to php-fpm for every request
                          gate       php-fpm with 4 children and 1,000 visitors: what they get, and how
                                     long cached pages take meanwhile
                          file       static files
                          cluster    five larders and a Redis: visitors and 200 purges a second while nodes and the
                                     Redis fail; no answer may be older than what is purged
                          vcl        hits on HTML through the VCL of a shop, compressed
                          esi        hits on HTML with ten includes by ESI
                          esi-gzip   the same, compressed
  --streams N           requests at a time on an HTTP/2 connection (default: 8)
  --group NAME          x25519 (default), or x25519mlkem768 where the server has it
  --syscalls            count system calls per request instead: plain, close, pass, php, php-new, file
  --idle N              open N idle keep-alive connections and print the memory each costs;
                        with --tls, of connections with TLS
  --busy N              send requests over N connections in rounds and count failures
  --nginx PATH          the nginx to measure (default: /usr/sbin/nginx, Debian's)
  --larder PATH         the larder to measure (default: build it)
  --old PATH            another build of larder, as larder-old and larder-old-tuned
  --vcl FILE            the VCL of the scenario vcl, with Magento's marks, such as /* {{ port }} */, for what a site
                        fills in (default: one of ours)
  --servers A,B,...     of nginx, nginx-tuned, varnish, larder, larder-tuned, larder-zones, larder-cluster
                        (larder-tuned as a node), larder-old, larder-old-tuned, and for vcl larder-vcl, larder-vcl-director, larder-vcl-acl,
                        larder-vcl-log (its log is kept), larder-vcl-bans (10,000 stand), larder-old-vcl, for esi and esi-gzip larder-vcl,
                        larder-old-vcl;
                        ratios are to the first. Default: the first four, or without varnish the first five
                        in the scenarios from close on
  --sizes A,B,...       body sizes: bytes, or with k or m (default: by scenario)
  --rounds N            interleaved rounds (default: 9; 2 for gate)
  --slice SECONDS       length of one measurement (default: 2; 30 for gate)
  --connections N       connections of the generator at a time (default: 50; 4 for php and php-new, which take at most
                        8; 64 for close, pass and file; 1,000 for gate)
  --server-cpu N        the CPU of the server that is measured (default: 0)
  --generator-cpu N     the CPU of wrk, the origin and php-fpm (default: 1)
  --seconds N           how long the scenario cluster takes, 40 or more (default: 60)
  --away WORD           its larder_cluster_away: serve (default) or bypass
  --share               its nodes share pages, and it says how often the origin is asked when all are filled
  --behind              measures instead how long a node takes for 100,000 purges that it has missed
  --out FILE            where the numbers go as JSON (default: target/load.json)
";

/// No more connections than this: one source address has about 28,000 ports.
const CONNECTIONS_MAX: usize = 20_000;

/// The scenario `cluster` needs as long, so that a node that is away is named as such: that takes four seconds.
const SECONDS_MIN: u64 = 40;

/// What to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Server CPU per request, side by side.
    Throughput,
    /// System calls per hit.
    Syscalls,
    /// Memory of this many idle connections.
    Idle(usize),
    /// Failures of this many busy connections.
    Busy(usize),
}

/// What the command line asks for.
#[derive(Debug)]
pub struct Options {
    /// What to measure.
    pub mode: Mode,
    /// What a request is.
    pub scenario: Scenario,
    /// Whether idle connections have TLS.
    pub tls: bool,
    /// Requests at a time on an HTTP/2 connection.
    pub streams: usize,
    /// What is offered in handshakes.
    pub group: Group,
    /// Where the servers' programs are.
    pub programs: Programs,
    /// The VCL of the scenario `vcl`, if not ours.
    pub vcl: Option<PathBuf>,
    /// Who takes part, in the order of measurement.
    pub servers: Vec<Kind>,
    /// Body sizes in bytes.
    pub sizes: Vec<usize>,
    /// How often each server is measured at each size.
    pub rounds: usize,
    /// Whole seconds of one measurement, as wrk takes them.
    pub slice_seconds: u64,
    /// Connections of the generator.
    pub connections: usize,
    /// Where the servers run.
    pub server_cpu: usize,
    /// Where the generator runs.
    pub generator_cpu: usize,
    /// How long the scenario `cluster` takes.
    pub seconds: u64,
    /// What its nodes do while the server is away.
    pub away: Away,
    /// Whether its nodes share pages.
    pub share: bool,
    /// Whether it measures how long a node takes for what it has missed.
    pub behind: bool,
    /// Where the JSON goes.
    pub out: PathBuf,
}

/// What the nodes of a cluster do while its server is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Away {
    /// They use what they have stored.
    Serve,
    /// They use nothing that is stored.
    Bypass,
}

impl Away {
    /// As in the configuration.
    pub fn word(self) -> &'static str {
        match self {
            Away::Serve => "serve",
            Away::Bypass => "bypass",
        }
    }
}

impl FromStr for Away {
    type Err = String;

    fn from_str(word: &str) -> Result<Away, String> {
        let found = [Away::Serve, Away::Bypass].into_iter().find(|away| away.word() == word);
        found.ok_or_else(|| format!("`{word}` is neither serve nor bypass"))
    }
}

impl Options {
    /// Reads the command line; `None` means it asks for help.
    pub fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, LoadError> {
        let mut options = Options {
            mode: Mode::Throughput,
            scenario: Scenario::Plain,
            tls: false,
            streams: 8,
            group: Group::X25519,
            programs: Programs::with_larder(None),
            vcl: None,
            servers: Vec::new(),
            sizes: Vec::new(),
            rounds: 0,
            slice_seconds: 0,
            connections: 0,
            server_cpu: 0,
            generator_cpu: 1,
            seconds: 60,
            away: Away::Serve,
            share: false,
            behind: false,
            out: PathBuf::from("target/load.json"),
        };
        let mut parser = lexopt::Parser::from_args(arguments);
        while let Some(argument) = parser.next().map_err(usage)? {
            match argument {
                Short('h') | Long("help") => return Ok(None),
                Long("syscalls") => options.mode = Mode::Syscalls,
                Long("idle") => options.mode = Mode::Idle(number(&mut parser, 1, CONNECTIONS_MAX)?),
                Long("busy") => options.mode = Mode::Busy(number(&mut parser, 1, CONNECTIONS_MAX)?),
                Long("scenario") => options.scenario = one(&mut parser)?,
                Long("streams") => options.streams = number(&mut parser, 1, 100)?,
                Long("group") => options.group = one(&mut parser)?,
                Long("tls") => options.tls = true,
                Long("nginx") => options.programs.nginx = Some(PathBuf::from(parser.value().map_err(usage)?)),
                Long("larder") => options.programs.larder = Some(PathBuf::from(parser.value().map_err(usage)?)),
                Long("old") => options.programs.old = Some(PathBuf::from(parser.value().map_err(usage)?)),
                Long("vcl") => options.vcl = Some(PathBuf::from(parser.value().map_err(usage)?)),
                Long("servers") => options.servers = list(&mut parser, Kind::from_str)?,
                Long("sizes") => options.sizes = list(&mut parser, size)?,
                Long("rounds") => options.rounds = number(&mut parser, 1, 1000)?,
                Long("slice") => options.slice_seconds = number(&mut parser, 1, 600)?,
                Long("connections") => options.connections = number(&mut parser, 1, CONNECTIONS_MAX)?,
                Long("server-cpu") => options.server_cpu = cpu(&mut parser)?,
                Long("generator-cpu") => options.generator_cpu = cpu(&mut parser)?,
                Long("seconds") => options.seconds = number(&mut parser, SECONDS_MIN, 86_400)?,
                Long("away") => options.away = one(&mut parser)?,
                Long("share") => options.share = true,
                Long("behind") => options.behind = true,
                Long("out") => options.out = PathBuf::from(parser.value().map_err(usage)?),
                _ => return Err(usage(argument.unexpected())),
            }
        }
        if options.scenario.is_by_php() && !options.sizes.is_empty() {
            return Err(LoadError::Usage("PHP says the same every time: --sizes is not for php and php-new".into()));
        }
        // Nobody can ask for none of these.
        if options.sizes.is_empty() {
            options.sizes = options.scenario.sizes().to_vec();
        }
        if options.servers.is_empty() {
            options.servers = options.scenario.servers().to_vec();
        }
        let (rounds, seconds) = options.scenario.rounds();
        if options.rounds == 0 {
            options.rounds = rounds;
        }
        if options.slice_seconds == 0 {
            options.slice_seconds = seconds;
        }
        if options.connections == 0 {
            options.connections = options.scenario.connections();
        }
        match options.contradiction() {
            Some(contradiction) => Err(LoadError::Usage(contradiction.into())),
            None => Ok(Some(options)),
        }
    }

    fn contradiction(&self) -> Option<&'static str> {
        if self.server_cpu == self.generator_cpu {
            return Some("the generator and the servers need a CPU each");
        }
        match self.mode {
            Mode::Throughput => {}
            Mode::Syscalls if !self.scenario.has_countable_calls() => {
                return Some("--syscalls is for the scenarios plain, close, pass, php, php-new and file");
            }
            Mode::Idle(_) | Mode::Busy(_) if self.scenario != Scenario::Plain => {
                return Some("--idle and --busy are of the plain scenario");
            }
            Mode::Syscalls | Mode::Idle(_) | Mode::Busy(_) => {}
        }
        if self.servers.iter().any(|kind| kind.is_old()) && self.programs.old.is_none() {
            return Some("larder-old, larder-old-tuned and larder-old-vcl need --old PATH");
        }
        if self.scenario.is_by_php() && self.connections > CHILDREN {
            return Some("php-fpm has 8 children: use at most 8 connections, as more would wait for each other");
        }
        if self.vcl.is_some() && self.scenario != Scenario::Vcl {
            return Some("--vcl goes with --scenario vcl");
        }
        if self.tls && !matches!(self.mode, Mode::Idle(_)) {
            return Some("--tls goes with --idle; hits over TLS are --scenario tls");
        }
        None
    }

    /// How visitors reach the servers.
    pub fn front(&self) -> Front {
        if self.tls { Front::Tls } else { self.scenario.front() }
    }

    /// What the servers answer from.
    pub fn source(&self) -> Source<'_> {
        match self.scenario {
            Scenario::Plain
            | Scenario::Tls
            | Scenario::Handshake
            | Scenario::Resumed
            | Scenario::H2
            | Scenario::H2Tls
            | Scenario::Gzip
            | Scenario::Stall
            | Scenario::Close
            | Scenario::Vcl
            | Scenario::Esi
            | Scenario::EsiGzip
            | Scenario::Cluster => Source::Cache,
            Scenario::Pass => Source::Origin,
            Scenario::Php => Source::Php { keeps: true },
            Scenario::PhpNew => Source::Php { keeps: false },
            Scenario::Gate => Source::Gate,
            Scenario::File => Source::Files(&self.sizes),
        }
    }

    /// Connections that the servers have to bear at a time.
    pub fn connections_at_a_time(&self) -> usize {
        match (self.mode, self.scenario) {
            (Mode::Idle(connections) | Mode::Busy(connections), _) => connections,
            (_, Scenario::Stall) => 2000,
            (Mode::Throughput | Mode::Syscalls, _) => self.connections,
        }
    }
}

/// What lexopt has to say.
pub fn usage(error: lexopt::Error) -> LoadError {
    LoadError::Usage(error.to_string())
}

/// A number from `least` to `most`.
pub fn number<N: FromStr + PartialOrd + std::fmt::Display>(
    parser: &mut lexopt::Parser,
    least: N,
    most: N,
) -> Result<N, LoadError> {
    let value = parser.value().map_err(usage)?.string().map_err(usage)?;
    match value.parse::<N>() {
        Ok(number) if number >= least && number <= most => Ok(number),
        _ => Err(LoadError::Usage(format!("`{value}` is not a number from {least} to {most}"))),
    }
}

/// The number of a CPU.
pub fn cpu(parser: &mut lexopt::Parser) -> Result<usize, LoadError> {
    let number = number(parser, 0, CpuSet::MAX_CPU - 1)?;
    let ours = sched_getaffinity(None).map_err(|error| LoadError::Usage(format!("no CPU is known: {error}")))?;
    if ours.is_set(number) {
        return Ok(number);
    }
    let ours: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| ours.is_set(cpu)).map(|cpu| cpu.to_string()).collect();
    Err(LoadError::Usage(format!("there is no CPU {number} here: use one of {}", ours.join(", "))))
}

/// One word.
pub fn one<T: FromStr<Err = String>>(parser: &mut lexopt::Parser) -> Result<T, LoadError> {
    let value = parser.value().map_err(usage)?.string().map_err(usage)?;
    value.parse().map_err(LoadError::Usage)
}

/// Words with commas between.
pub fn list<T>(parser: &mut lexopt::Parser, read: impl Fn(&str) -> Result<T, String>) -> Result<Vec<T>, LoadError> {
    let value = parser.value().map_err(usage)?.string().map_err(usage)?;
    value.split(',').map(|item| read(item.trim()).map_err(LoadError::Usage)).collect()
}

/// A body size: digits, then nothing, `k` or `m`.
pub fn size(text: &str) -> Result<usize, String> {
    let bytes = bytes(text).filter(|bytes| (1..=64 * 1024 * 1024).contains(bytes));
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.ok_or_else(|| format!("`{text}` is not a size from 1 to 64m"))
}

/// A number of bytes: digits, then nothing, `k`, `m` or `g`.
pub fn bytes(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    let units = [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30)];
    let with_unit = units.into_iter().find_map(|(letter, unit)| Some((lower.strip_suffix(letter)?, unit)));
    let (digits, unit) = with_unit.unwrap_or((&lower, 1));
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>, LoadError> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_read() {
        let options = parse("--servers nginx,varnish --sizes 1k,1m,7 --rounds 3 --slice 1 --idle 100")
            .ok()
            .flatten()
            .expect("they are valid");
        assert_eq!(options.servers, [Kind::Nginx, Kind::Varnish]);
        assert_eq!(options.sizes, [1024, 1024 * 1024, 7]);
        assert_eq!((options.rounds, options.slice_seconds, options.mode), (3, 1, Mode::Idle(100)));
        assert!(matches!(parse("--help"), Ok(None)));
    }

    #[test]
    fn a_scenario_brings_its_sizes_unless_told_otherwise() {
        for (line, sizes, front) in [
            ("", vec![1024, 10_240, 102_400, 1_048_576], Front::Clear),
            ("--scenario tls", vec![10_240], Front::Tls),
            ("--scenario h2-tls", vec![1024, 10_240], Front::TlsH2),
            ("--scenario gzip", vec![40_960], Front::Clear),
            ("--sizes 7 --scenario resumed --group X25519MLKEM768", vec![7], Front::Tls),
            ("--idle 3 --tls", vec![1024, 10_240, 102_400, 1_048_576], Front::Tls),
        ] {
            let options = parse(line).ok().flatten().expect("they are valid");
            assert_eq!((options.front(), options.sizes), (front, sizes), "{line}");
        }
    }

    #[test]
    fn a_scenario_brings_its_connections_and_servers_unless_told_otherwise() {
        let caches = &[Kind::Nginx, Kind::NginxTuned, Kind::Varnish, Kind::Larder][..];
        let pairs = &[Kind::Nginx, Kind::NginxTuned, Kind::Larder, Kind::LarderTuned][..];
        for (line, connections, servers, source, sizes) in [
            ("--scenario handshake", 50, caches, Source::Cache, &[1024][..]),
            ("--scenario close", 64, pairs, Source::Cache, &[1024]),
            ("--scenario pass", 64, pairs, Source::Origin, &[1024, 102_400]),
            ("--scenario php", 4, pairs, Source::Php { keeps: true }, &[12]),
            ("--scenario php-new --syscalls", 4, pairs, Source::Php { keeps: false }, &[12]),
            ("--scenario gate", 1000, &[Kind::Nginx, Kind::Larder], Source::Gate, &[12]),
            ("--scenario file", 64, pairs, Source::Files(&[10_240, 1_048_576]), &[10_240, 1_048_576]),
            ("--scenario pass --connections 1 --servers larder --sizes 7", 1, &[Kind::Larder], Source::Origin, &[7]),
        ] {
            let options = parse(line).ok().flatten().expect("they are valid");
            let found = (options.connections, &options.servers[..], options.source(), &options.sizes[..]);
            assert_eq!(found, (connections, servers, source, sizes), "{line}");
        }
    }

    #[test]
    fn programs_are_named() {
        let options = parse("--nginx /n --larder /l --old /o --servers nginx,larder,larder-old,larder-old-tuned");
        let programs = options.ok().flatten().expect("they are valid").programs;
        let named = [programs.nginx, programs.larder, programs.old].map(|path| path.expect("it is named"));
        assert_eq!(named, ["/n", "/l", "/o"].map(PathBuf::from));
        let unnamed = parse("").ok().flatten().expect("they are valid").programs;
        assert_eq!(unnamed.nginx.as_deref().and_then(|path| path.to_str()), Some("/usr/sbin/nginx"));
    }

    #[test]
    fn the_help_names_every_scenario() {
        for scenario in Scenario::ALL {
            let word = format!(" {} ", scenario.name());
            assert!(HELP.contains(&word), "{word}");
        }
    }

    #[test]
    fn what_cannot_be_measured_is_refused() {
        for line in [
            "--rounds 0",
            "--sizes 1g",
            "--sizes 0",
            "--servers apache",
            "--idle 999999",
            "--server-cpu 1",
            "--server-cpu 1023",
            "--rounds",
            "extra",
            "--scenario quic",
            "--scenario",
            "--group p256",
            "--streams 0",
            "--tls",
            "--scenario tls --tls",
            "--scenario h2 --syscalls",
            "--scenario gzip --idle 5",
            "--scenario pass --busy 5",
            "--scenario handshake --syscalls",
            "--scenario php --sizes 1k",
            "--scenario php --connections 9",
            "--servers larder,larder-old",
            "--old",
            "--nginx",
            "--vcl shop.vcl",
        ] {
            assert!(matches!(parse(line), Err(LoadError::Usage(_))), "{line}");
        }
    }
}
