//! How long one visitor waits for a hit while new ones make handshakes on the same core.

use super::contender::Contender;
use super::generator::tally::Waits;
use super::generator::{Generator, Plan, Start};
use super::options::Options;
use super::origin::{Origin, Page};
use super::throughput::warm_up;
use super::{LoadError, cannot};
use rustix::process::setpriority_process;
use std::io;
use std::thread;
use std::time::Duration;

/// New visitors in a second, each with a full handshake and one request.
const ARRIVALS_A_SECOND: u32 = 1000;
/// How often the one visitor asks.
const INTERVAL: Duration = Duration::from_millis(1);
/// Priority of the thread that plays the new visitors: the one who is measured goes first on the CPU both share.
const ARRIVALS_NICENESS: i32 = 15;

/// What goes on beside the one visitor.
#[derive(Debug, Clone, Copy)]
enum Beside {
    Nothing,
    Evenly,
    AtOnce,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Nothing, Beside::Evenly, Beside::AtOnce];

    fn name(self) -> &'static str {
        match self {
            Beside::Nothing => "nobody",
            Beside::Evenly => "1,000/s evenly",
            Beside::AtOnce => "1,000 at once",
        }
    }

    fn start(self) -> Option<Start> {
        match self {
            Beside::Nothing => None,
            Beside::Evenly => Some(Start::Evenly(ARRIVALS_A_SECOND)),
            Beside::AtOnce => Some(Start::Bursts(ARRIVALS_A_SECOND)),
        }
    }
}

/// Measures each server in turn, round after round, and prints the waits of all rounds together.
pub fn measure(options: &Options, contenders: &[Contender], origin: &Origin) -> Result<(), LoadError> {
    println!("stall: {}", options.scenario.title());
    println!(
        "{:<13} {:<15} {:>8} {:>9} {:>9} {:>9} {:>9}",
        "server", "beside", "answers", "p50", "p99", "p99.9", "longest"
    );
    for bytes in &options.sizes {
        let page = options.scenario.page(*bytes);
        for contender in contenders {
            warm_up(contender, options.source(), page, origin)?;
        }
        let mut waits: Vec<Vec<Waits>> = Vec::new();
        waits.resize_with(contenders.len(), || Beside::ALL.map(|_| Waits::default()).into());
        for round in 1..=options.rounds {
            eprintln!("{bytes} bytes, round {round} of {}", options.rounds);
            for (contender, waits) in contenders.iter().zip(&mut waits) {
                for (beside, waits) in Beside::ALL.into_iter().zip(waits) {
                    waits.extend(slice(options, contender, page, beside)?);
                }
            }
        }
        for (contender, waits) in contenders.iter().zip(waits) {
            for (beside, waits) in Beside::ALL.into_iter().zip(waits) {
                print_row(contender, beside, waits);
            }
        }
    }
    println!(
        "a wait longer than {INTERVAL:?} counts for everyone who would have asked meanwhile, one every {INTERVAL:?}"
    );
    Ok(())
}

fn print_row(contender: &Contender, beside: Beside, waits: Waits) {
    let answers = waits.len();
    let [p50, p99, p999, longest] =
        waits.with_those_not_asked(INTERVAL).quantiles([0.5, 0.99, 0.999, 1.0]).map(|wait| wait.as_secs_f64() * 1e3);
    println!(
        "{:<13} {:<15} {answers:>8} {p50:>7.2}ms {p99:>7.2}ms {p999:>7.2}ms {longest:>7.2}ms",
        contender.kind.name(),
        beside.name()
    );
}

/// The one visitor's waits in one slice.
fn slice(options: &Options, contender: &Contender, page: Page, beside: Beside) -> Result<Waits, LoadError> {
    let time = Duration::from_secs(options.slice_seconds);
    let path = page.path();
    let kept = Plan { pause: Some(INTERVAL), ..contender.plan(&path, options.scenario.expect(page), 1) };
    let mut one = Generator::new(kept.clone()).map_err(cannot("wait for a connection"))?;
    one.warm_up().map_err(|reason| contender.fault(format!("failed: {reason}")))?;
    let arrivals = beside.start().map(|start| Plan {
        start,
        visitors: ARRIVALS_A_SECOND as usize * options.slice_seconds as usize,
        requests_each: 1,
        requests_per_connection: 1,
        pause: None,
        ..kept
    });
    let (asked, arrived) = thread::scope(|scope| {
        let others = arrivals.map(|plan| scope.spawn(|| arrive(plan, time)));
        let asked = one.run(time).and_then(|()| one.drain());
        (asked, others.map(thread::ScopedJoinHandle::join))
    });
    asked.map_err(cannot("wait for a connection"))?;
    let tally = one.take_tally();
    let mut failures = tally.reasons;
    match arrived {
        None => {}
        Some(Ok(arrived)) => failures.extend(arrived.map_err(cannot("wait for connections"))?),
        Some(Err(_)) => failures.push("the thread of the new visitors ended".into()),
    }
    if !failures.is_empty() {
        return Err(contender.fault(format!("failed under load: {}", failures.join("; "))));
    }
    Ok(tally.waits)
}

/// Plays the new visitors and says what failed.
fn arrive(plan: Plan<'_>, time: Duration) -> io::Result<Vec<String>> {
    setpriority_process(None, ARRIVALS_NICENESS)?;
    let mut visitors = Generator::new(plan)?;
    visitors.start()?;
    visitors.run(time)?;
    visitors.drain()?;
    Ok(visitors.take_tally().reasons)
}
