//! `cargo xtask cluster`: what a cluster of many nodes costs, computed from what a few cost on this machine.
//!
//! How and why it measures as it does is told in `docs/cluster.md`.

mod gauge;
mod model;
mod nodes;
mod pieces;

use crate::load::options::{number, usage};
use crate::load::{LoadError, end};
use lexopt::prelude::*;
use model::{Load, Pieces};
use std::ffi::OsString;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask cluster [OPTION...]

Computes what a cluster costs its Redis and its nodes, and where it breaks. What each step costs is measured here, with a
real redis-server, and nodes in this process that read and write as larder does, and have no pages.

  --nodes N   how many nodes (default: 200)
  --rate N    how many purges in a second, on all of them together (default: 5000)
";

/// The most nodes and purges that are asked for.
const NODES_MAX: usize = 10_000;
const RATE_MAX: usize = 1_000_000;

/// Measures as `arguments` say, and prints.
pub fn main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("cluster", run(arguments))
}

fn run(arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let (mut nodes, mut rate) = (200, 5000);
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next().map_err(usage)? {
        match argument {
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(());
            }
            Long("nodes") => nodes = number(&mut parser, 1, NODES_MAX)?,
            Long("rate") => rate = number(&mut parser, 1, RATE_MAX)?,
            _ => return Err(usage(argument.unexpected())),
        }
    }
    let measured = pieces::measure(nodes)?;
    print_pieces(&measured, nodes);
    println!(
        "\n{:<34} {:>7} {:>9} {:>7} {:>12} {:>9}",
        "nodes in this process, for 3 s", "Redis", "computed", "a node", "its reads/s", "known"
    );
    for (few, rate) in [(1, 1000), (5, 1000), (20, 1000), (20, 5000), (100, 500)] {
        let seen = pieces::run(few, rate)?;
        println!(
            "{:<34} {:>5.0} % {:>7.0} % {:>5.1} % {:>12.0} {:>6.1} ms",
            format!("{few} nodes, {rate} purges a second"),
            100.0 * seen.redis,
            100.0 * measured.redis_of(&seen.counts, few),
            100.0 * seen.node,
            seen.counts.reads / few as f64,
            seen.known.as_secs_f64() * 1e3,
        );
    }
    println!();
    print_load(&measured, Load { nodes, rate });
    Ok(())
}

fn print_pieces(pieces: &Pieces, nodes: usize) {
    let micros = |seconds: f64| seconds * 1e6;
    println!("Redis, microseconds of its one thread:");
    println!("{:>8.2}  for a purge that is added, of many at once", micros(pieces.add));
    println!("{:>8.2}  for a purge that is sent to a node, of many at once", micros(pieces.deliver));
    println!("{:>8.2}  for each time that a node reads", micros(pieces.read));
    println!("{:>8.2}  for each time that a node asks how far one has read", micros(pieces.poll_of_one));
    println!("{:>8.2}  for each time that it asks how far {nodes} have read", micros(pieces.poll));
    println!("bytes that Redis sends:");
    println!("{:>8.0}  for a purge that is sent to a node", pieces.deliver_bytes);
    println!("{:>8.0}  for each time that a node reads", pieces.read_sent);
    println!("a node, microseconds:");
    println!("{:>8.2}  for a purge that it reads, without what that does to pages", micros(pieces.node_entry));
    println!("{:>8.2}  for each time that it reads", micros(pieces.node_read));
}

fn print_load(pieces: &Pieces, load: Load) {
    let Load { nodes, rate } = load;
    let forecast = pieces.forecast(load);
    println!("{nodes} nodes, {rate} purges a second in all, each waited for:");
    println!(
        "{:>8.0} %  of a thread of Redis: {:.0} % for what is added and sent, {:.0} % for reads, {:.0} % for waiting",
        100.0 * forecast.redis(),
        100.0 * forecast.bulk,
        100.0 * forecast.reads,
        100.0 * forecast.polls,
    );
    println!("{:>8.0}    Mbit/s from Redis", forecast.bits_a_second / 1e6);
    println!("{:>8.1} %  of a thread of each node", 100.0 * forecast.node);
    println!(
        "{:>8.1}    ms between two reads of a node: a purge is seen after half of it, at the median",
        1e3 * forecast.pause
    );
    println!(
        "{:>8.1}    ms between two looks of one who waits until his purge is known everywhere",
        1e3 * forecast.look
    );
    println!("where Redis is busy all the time:");
    println!("{:>8}    purges a second, with {nodes} nodes", pieces.rate_max(nodes));
    println!("{:>8}    nodes, with {rate} purges a second", pieces.nodes_max(rate));
}
