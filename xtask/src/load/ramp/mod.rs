//! `cargo xtask ramp`: more and more people on an https site, up to a thousand, and what each of them notices.

mod chart;
mod options;
mod report;

use super::certificate::Certificate;
use super::configuration::{Setup, Source};
use super::contender::Contender;
use super::generator::tls::Group;
use super::generator::{Expect, Generator, Plan, Start};
use super::idle::allow_descriptors;
use super::kind::Programs;
use super::origin::{Origin, Page, Work};
use super::scenario::Front;
use super::{LoadError, build, cannot, end, stay_on};
use options::Options;
use report::Step;
use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a step's people take to arrive; this is not counted.
const ARRIVAL: Duration = Duration::from_secs(1);

/// A cache as sites have it whose pages change: the old page while the new one is made, and one fetch at a time.
const LOCATION: &str = "proxy_cache_use_stale updating error timeout;
            proxy_cache_background_update on;
            proxy_cache_lock on;";

/// Measures as `arguments` say, and writes the table and the graph.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("ramp", run(root, arguments))
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let Some(mut options) = Options::parse(arguments)? else {
        print!("{}", options::HELP);
        return Ok(());
    };
    if options.servers().any(|kind| kind.is_larder()) && options.larder.is_none() {
        options.larder = Some(build(root)?);
    }
    let most = options.steps.iter().copied().max().unwrap_or(1);
    allow_descriptors(most)?;
    stay_on(options.generator_cpu)?;
    let origin = Origin::start(Work { delay: options.delay, fresh_seconds: options.fresh_seconds })?;
    let certificate = Certificate::make()?;
    let setup = Setup {
        programs: Programs::with_larder(options.larder.clone()),
        source: Source::Cache,
        server_cpu: options.server_cpu,
        connections: most * 2,
        origin_port: origin.port(),
        front: if options.is_h2 { Front::TlsH2 } else { Front::Tls },
        compresses: false,
        vcl: None,
        location: LOCATION,
        certificate: &certificate,
        group: Group::X25519,
        resumes: false,
    };
    let contenders =
        options.servers().map(|kind| Contender::start(kind, &setup)).collect::<Result<Vec<_>, LoadError>>()?;
    let page = Page::Plain(options.bytes);
    for contender in &contenders {
        contender.get(page)?;
    }

    let mut steps = Vec::new();
    println!("{}", report::HEADING);
    for users in &options.steps {
        for contender in &contenders {
            let step = climb(&options, contender, page, *users)?;
            println!("{}", step.line());
            steps.push(step);
        }
    }
    for contender in &contenders {
        contender.get(page)?;
    }
    for (file, text) in [(&options.csv, report::csv(&steps)), (&options.svg, report::svg(&steps, &options.caption()))] {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(cannot("make a folder for the results"))?;
        }
        fs::write(file, text).map_err(cannot("write the results"))?;
        println!("{}", file.display());
    }
    let failures: u64 = steps.iter().filter(|step| step.server.is_larder()).map(|step| step.failures).sum();
    if failures > 0 {
        return Err(LoadError::Usage(format!("larder failed {failures} requests")));
    }
    Ok(())
}

/// One step on one server.
fn climb(options: &Options, contender: &Contender, page: Page, users: usize) -> Result<Step, LoadError> {
    let path = page.path();
    let plan = Plan {
        requests_per_connection: options.requests_per_connection,
        pause: Some(options.think),
        start: Start::Evenly(u32::try_from(users).unwrap_or(u32::MAX)),
        ..contender.plan(&path, Expect::Bytes(page.bytes()), users)
    };
    let waiting = || cannot("wait for connections");
    let mut people = Generator::new(plan).map_err(waiting())?;
    people.start().map_err(waiting())?;
    people.run(ARRIVAL).map_err(waiting())?;
    let arrived = people.take_tally();
    let (cpu_before, started) = (contender.process.cpu(), Instant::now());
    people.run(Duration::from_secs(options.seconds)).map_err(waiting())?;
    let cpu = contender.process.cpu().saturating_sub(cpu_before);
    let time = started.elapsed();
    let counted = people.take_tally();
    people.drain().map_err(waiting())?;
    let rest = people.take_tally();
    // What was asked and not yet answered waited longest; without it a server that lets people wait would look fast.
    let mut waits = counted.waits;
    waits.extend(rest.waits);
    for reason in [arrived.reasons, counted.reasons, rest.reasons].concat() {
        eprintln!("{} failed with {users} users: {reason}", contender.kind.name());
    }
    Ok(Step {
        server: contender.kind,
        users,
        time,
        cpu,
        answers: counted.answers,
        connections: counted.connections,
        // Nobody is left out: one who failed at the door or at the end has failed too.
        failures: arrived.failures + counted.failures + rest.failures,
        waits: waits.quantiles([0.5, 0.95, 0.99, 1.0]),
    })
}
