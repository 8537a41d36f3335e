//! Five larders and one Redis: after a purge is known, no node may answer with an older page, whatever happens to nodes and to
//! the Redis.

mod asker;
mod behind;
mod fill;
mod gone;
mod node;
mod pages;
mod source;
mod storm;
mod told;
mod versions;
mod wire;

use super::options::Options;
use super::{LoadError, cannot};
use behind::{MISSED, Teller};
use fill::{FETCHES_MAX, Filled};
use gone::{Gone, quantile};
use larder_testkit::Redis;
use node::{Common, Node};
use pages::Purge;
use source::Source;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};
use storm::{Counts, Storm};
use versions::Versions;
use wire::{State, Wire};

/// How many larders there are.
const NODES: usize = 5;
/// The one behind a wire that is cut, the one that is stopped, and the one that is killed.
const CUT: usize = 2;
const STOPPED: usize = 3;
const KILLED: usize = 4;
/// The stopped one stands still for so long: 10 s, but a sixth of the time at most.
const STOP: Duration = Duration::from_secs(10);
/// How long nodes may take until all are together again.
const TOGETHER_LIMIT: Duration = Duration::from_secs(60);
/// No purge may take longer, at the 99th percentile, until all nodes give the new page, in an optimised build.
const GONE_MAX: Duration = Duration::from_millis(20);

/// Measures, prints, and fails if there was a wrong answer or a failed request.
pub fn measure(options: &Options, larder: &Path) -> Result<(), LoadError> {
    let folder = tempfile::Builder::new().prefix("load-").tempdir().map_err(cannot("make a folder"))?;
    // A disk that is waited for at each page would be measured.
    let appendfsync = if options.share { "appendfsync everysec" } else { "appendfsync always" };
    let mut redis = Redis::start(&["appendonly yes", appendfsync]);
    if options.behind {
        return measure_behind(options, larder, folder.path(), redis.port());
    }
    let wire = Wire::lay(redis.port())?;
    let versions = Arc::new(Versions::new(NODES));
    let source = Source::start(&versions)?;
    let away = options.away.word();
    let common = Common { larder, away, share: options.share, origin_port: source.port(), folder: folder.path() };
    let nodes = (0..NODES).map(|number| {
        let port = if number == CUT { wire.port() } else { redis.port() };
        Node::start(&common, number, port)
    });
    let storm = Storm {
        nodes: nodes.collect::<Result<_, _>>()?,
        versions,
        is_strict: away == "bypass",
        stopped: AtomicUsize::new(usize::MAX),
        phase: Mutex::new("start"),
        is_over: AtomicBool::new(false),
        counts: Counts::default(),
    };
    together(&storm)?;
    let mut filled = None;
    if options.share {
        eprintln!("the nodes to be filled");
        filled = Some(fill::measure(&storm.nodes, &source)?);
    }
    eprintln!("purges to be gone");
    let gone = gone::measure(&storm).map_err(cannot("ask the nodes"))?;
    let seconds = Duration::from_secs(options.seconds);
    let began = Instant::now();
    storm.run(|| happen(&storm, &mut redis, &wire, seconds))?;
    let took = began.elapsed();
    storm.enter("all together again");
    together(&storm)?;
    storm.versions.all_is_known();
    storm.look_at_all();
    print(&storm, took, source.requests(), away);
    print_gone(gone);
    filled.map_or(Ok(()), print_filled)?;
    let (wrong, failed) = (storm.counts.wrong.load(Ordering::SeqCst), storm.counts.failed.load(Ordering::SeqCst));
    match wrong + failed {
        0 => Ok(()),
        _ => Err(LoadError::Answer {
            server: "larder",
            fact: format!("{wrong} wrong answers, {failed} failed requests:\n{}", storm.told().join("\n")),
        }),
    }
}

/// What happens to nodes and to the server.
fn happen(storm: &Storm, redis: &mut Redis, wire: &Wire, seconds: Duration) -> Result<(), LoadError> {
    let began = Instant::now();
    let until = |part: f64| sleep((began + seconds.mul_f64(part)).saturating_duration_since(Instant::now()));
    storm.enter("all there");
    until(0.1);
    storm.enter("one killed");
    storm.nodes[KILLED].kill();
    until(0.2);
    storm.enter("started again");
    storm.nodes[KILLED].run()?;
    until(0.3);
    storm.enter("one stopped");
    storm.stopped.store(STOPPED, Ordering::SeqCst);
    storm.nodes[STOPPED].pause(true);
    sleep(STOP.min(seconds.mul_f64(0.17)));
    storm.enter("gone on");
    storm.nodes[STOPPED].pause(false);
    storm.stopped.store(usize::MAX, Ordering::SeqCst);
    until(0.5);
    storm.enter("one without an answer");
    wire.put(State::Silent);
    until(0.55);
    storm.enter("one cut off");
    wire.put(State::Cut);
    until(0.6);
    storm.enter("joined again");
    wire.put(State::Whole);
    until(0.7);
    storm.enter("Redis killed");
    redis.kill();
    until(0.74);
    storm.enter("Redis is back");
    redis.start_again();
    until(0.84);
    storm.enter("Redis killed again");
    redis.kill();
    until(0.88);
    storm.enter("Redis is back, empty");
    let data = redis.folder().join("appendonlydir");
    std::fs::remove_dir_all(data).map_err(cannot("delete what the Redis has written"))?;
    storm.versions.log_is_lost();
    redis.start_again();
    until(1.0);
    Ok(())
}

/// Waits until a purge of each node is known everywhere: then so are all before it.
fn together(storm: &Storm) -> Result<(), LoadError> {
    for number in 0..NODES {
        let mut askers = askers(&storm.nodes[number]);
        let began = Instant::now();
        while !storm.purge(&mut askers, number, Purge::Page(0)).is_some_and(|told| told.is_everywhere(NODES)) {
            if began.elapsed() > TOGETHER_LIMIT {
                return Err(storm.nodes[number].fault(format!("is not with the others after {TOGETHER_LIMIT:?}")));
            }
            sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

fn askers(node: &Node) -> [asker::Asker; 2] {
    [node.address(), node.admin_address()].map(asker::Asker::new)
}

fn print(storm: &Storm, took: Duration, fetches: u64, away: &str) {
    let Counts { answers, hits, wrong, failed, purges, late, everywhere, alone, phases, .. } = &storm.counts;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::SeqCst);
    let mut everywhere: Vec<Duration> = everywhere
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .iter()
        .map(|micros| Duration::from_micros(*micros))
        .collect();
    println!("cluster: {NODES} nodes, {} pages, larder_cluster_away {away}, {:.0} s", pages::PAGES, took.as_secs_f64());
    println!("{:<24} {:>9} {:>7}", "meanwhile", "answers", "wrong");
    for (phase, answers, wrong) in phases.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        println!("{phase:<24} {answers:>9} {wrong:>7}");
    }
    println!("{:<24} {:>9} {:>7}", "all", count(answers), count(wrong));
    println!(
        "failed requests {}; fresh from caches {:.0} %, fetches {fetches}",
        count(failed),
        100.0 * count(hits) as f64 / count(answers).max(1) as f64,
    );
    let told = everywhere.len();
    println!(
        "purges {} ({:.0} a second): known everywhere {told}, after {:.1} ms (p50) and {:.1} ms (p99); on one node alone {}; late on disk {}",
        count(purges),
        count(purges) as f64 / took.as_secs_f64(),
        quantile(&mut everywhere, 0.5).as_secs_f64() * 1e3,
        quantile(&mut everywhere, 0.99).as_secs_f64() * 1e3,
        count(alone),
        count(late),
    );
}

fn print_gone(mut gone: Gone) {
    let millis = |times: &mut [Duration], part| quantile(times, part).as_secs_f64() * 1e3;
    println!(
        "without other load, from the purge until all nodes give the new page: {:.1} ms (p50), {:.1} ms (p99), {:.1} ms (longest); until the answer: {:.1}, {:.1}, {:.1} ms",
        millis(&mut gone.everywhere, 0.5),
        millis(&mut gone.everywhere, 0.99),
        millis(&mut gone.everywhere, 1.0),
        millis(&mut gone.answered, 0.5),
        millis(&mut gone.answered, 0.99),
        millis(&mut gone.answered, 1.0),
    );
    if quantile(&mut gone.everywhere, 0.99) > GONE_MAX {
        println!("that is more than {GONE_MAX:?}");
    }
}

/// Says how often the origin was asked; too often is a failure.
fn print_filled(filled: Filled) -> Result<(), LoadError> {
    let Filled { pages, fetches } = filled;
    let each = fetches as f64 / pages as f64;
    println!("{pages} pages asked of each of {NODES} nodes: {fetches} fetches, {each:.3} for each page");
    match each <= FETCHES_MAX {
        true => Ok(()),
        false => Err(LoadError::Answer { server: "larder", fact: format!("fetches a page {each:.3} times") }),
    }
}

/// Measures how long a node takes for what it has missed.
fn measure_behind(options: &Options, larder: &Path, folder: &Path, server_port: u16) -> Result<(), LoadError> {
    let source = Source::start(&Arc::new(Versions::new(1)))?;
    let (away, share) = (options.away.word(), options.share);
    let common = Common { larder, away, share, origin_port: source.port(), folder };
    let node = Node::start(&common, 0, server_port)?;
    let teller = Teller::join(server_port)?;
    println!(
        "{MISSED} purges that a node with {} pages has missed, in seconds until all are carried out",
        pages::PAGES
    );
    println!("{:<20} {:>15} {:>15} {:>15}", "each of", "after SIGSTOP", "after a start", "a start alone");
    for (kind, name) in behind::KINDS.into_iter().enumerate() {
        let took = behind::measure(&node, &teller, kind)?;
        println!(
            "{name:<20} {:>15.2} {:>15.2} {:>15.2}",
            took.paused.as_secs_f64(),
            took.off.as_secs_f64(),
            took.off_in_vain.as_secs_f64()
        );
    }
    Ok(())
}
