//! Server CPU per request, side by side: the servers take turns, so that what disturbs one disturbs all.

use super::configuration::Source;
use super::contender::Contender;
use super::generator::tally::Tally;
use super::generator::{Generator, Plan};
use super::options::Options;
use super::origin::{Origin, Page};
use super::report::{self, Cell, Row};
use super::scenario::Scenario;
use super::wrk::{self, Count};
use super::{LoadError, cannot};
use std::fs;
use std::time::{Duration, Instant};

/// Warms every page up, measures in interleaved rounds, prints a table and writes the JSON.
pub fn measure(options: &Options, contenders: &[Contender], origin: &Origin) -> Result<(), LoadError> {
    for contender in contenders {
        for bytes in &options.sizes {
            warm_up(contender, options.source(), options.scenario.page(*bytes), origin)?;
        }
    }
    let mut rows = Vec::new();
    for bytes in &options.sizes {
        let before = origin.requests();
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); contenders.len()];
        let mut notes = vec![String::new(); contenders.len()];
        for round in 1..=options.rounds {
            eprintln!("{bytes} bytes, round {round} of {}", options.rounds);
            for ((contender, cells), note) in contenders.iter().zip(&mut cells).zip(&mut notes) {
                let (cell, said) = slice(options, contender, *bytes)?;
                cells.push(cell);
                *note = said;
            }
        }
        let answers = cells.iter().flatten().map(|cell| cell.count.requests).sum();
        check_origin(options.source(), answers, origin.requests() - before)?;
        // What was answered under load is still the page.
        for contender in contenders {
            contender.get(options.scenario.page(*bytes))?;
        }
        let columns = contenders.iter().zip(cells).zip(notes);
        rows.extend(columns.map(|((contender, cells), note)| Row { kind: contender.kind, bytes: *bytes, cells, note }));
    }
    println!("{}: {}", options.scenario.name(), options.scenario.title());
    print!("{}", report::table(&rows));
    let versions: Vec<_> =
        contenders.iter().map(|contender| (contender.kind.name(), contender.version.as_str())).collect();
    if let Some(folder) = options.out.parent() {
        fs::create_dir_all(folder).map_err(cannot("make the folder for the numbers"))?;
    }
    fs::write(&options.out, report::json(options.scenario.name(), &rows, &versions))
        .map_err(cannot("write the numbers"))?;
    println!("\nEvery slice: {}", options.out.display());
    Ok(())
}

/// Sees that answers are right and come from where they have to; a cache is filled before.
pub fn warm_up(contender: &Contender, source: Source<'_>, page: Page, origin: &Origin) -> Result<(), LoadError> {
    let before = origin.requests();
    contender.get(page)?;
    contender.get(page)?;
    let asked = origin.requests() - before;
    contender.get(page)?;
    let asked_again = origin.requests() - before - asked;
    match source {
        Source::Cache if asked == 0 || asked_again != 0 => {
            Err(contender.wrong(format!("{} is not a hit after two requests", page.path())))
        }
        Source::Origin if (asked, asked_again) != (2, 1) => {
            Err(contender.wrong(format!("{} is not passed to the origin every time", page.path())))
        }
        Source::Cache | Source::Origin | Source::Php { .. } | Source::Gate | Source::Files(_) => Ok(()),
    }
}

/// Sees that the origin had the requests that it has to have while the servers gave `answers`.
fn check_origin(source: Source<'_>, answers: u64, asked: u64) -> Result<(), LoadError> {
    let is_right = match source {
        Source::Cache | Source::Php { .. } | Source::Gate | Source::Files(_) => asked == 0,
        // Some answers come too late to count.
        Source::Origin => asked >= answers,
    };
    if is_right {
        return Ok(());
    }
    Err(LoadError::Usage(format!(
        "the origin had {asked} requests while {answers} answers were measured: these numbers are of no use"
    )))
}

/// One measurement, and what its connections agreed on.
pub fn slice(options: &Options, contender: &Contender, bytes: usize) -> Result<(Cell, String), LoadError> {
    let page = options.scenario.page(bytes);
    if !options.scenario.is_by_wrk() {
        return own_slice(options, contender, page);
    }
    let before = contender.process.cpu();
    let count = wrk::run(&contender.url(page), options.connections, options.slice_seconds, options.generator_cpu)
        .map_err(|error| contender.fault(format!("failed under load: {error}")))?;
    let cpu = contender.process.cpu().saturating_sub(before);
    Ok((Cell { cpu, count }, String::new()))
}

/// A measurement with our own generator. Kept connections are there before it begins, and tickets too.
fn own_slice(options: &Options, contender: &Contender, page: Page) -> Result<(Cell, String), LoadError> {
    let failed = |reason: String| contender.fault(format!("failed under load: {reason}"));
    if let Some(client) = &contender.quick {
        client.forget_tickets();
    }
    let path = page.path();
    let plan = Plan {
        protocol: contender.front.protocol(options.streams),
        requests_per_connection: options.scenario.requests_per_connection(),
        ..contender.plan(&path, options.scenario.expect(page), options.connections)
    };
    let mut visitors = Generator::new(plan).map_err(cannot("wait for connections"))?;
    visitors.warm_up().map_err(failed)?;
    let (cpu_before, started) = (contender.process.cpu(), Instant::now());
    visitors.run(Duration::from_secs(options.slice_seconds)).map_err(cannot("wait for connections"))?;
    visitors.drain().map_err(cannot("wait for connections"))?;
    let cpu = contender.process.cpu().saturating_sub(cpu_before);
    let seconds = started.elapsed().as_secs_f64();
    let tally = visitors.take_tally();
    if tally.failures > 0 || tally.answers == 0 {
        return Err(failed(format!("{} requests: {}", tally.failures, tally.reasons.join("; "))));
    }
    let resumed_all = tally.resumed == tally.connections && tally.connections > 0;
    if options.scenario == Scenario::Resumed && !resumed_all {
        return Err(failed(format!("{} of {} connections were resumed", tally.resumed, tally.connections)));
    }
    if options.scenario != Scenario::Resumed && tally.resumed > 0 {
        return Err(failed(format!("{} connections were resumed without a ticket", tally.resumed)));
    }
    let note = note(options.scenario, &tally);
    let [p99] = tally.waits.quantiles([0.99]);
    let count = Count { requests: tally.answers, seconds, p99_seconds: p99.as_secs_f64() };
    Ok((Cell { cpu, count }, note))
}

/// What makes the numbers of one server comparable with another's.
fn note(scenario: Scenario, tally: &Tally) -> String {
    if scenario.is_packed() {
        return format!("{} bytes as sent", tally.body_bytes / tally.answers.max(1));
    }
    tally.agreement.as_ref().map_or_else(String::new, |agreed| format!("{}, {}", agreed.cipher, agreed.group))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_asked_for_every_answer_or_for_none() {
        for (source, answers, asked, is_right) in [
            (Source::Cache, 5, 0, true),
            (Source::Cache, 5, 1, false),
            (Source::Origin, 5, 5, true),
            (Source::Origin, 5, 7, true),
            (Source::Origin, 5, 4, false),
            (Source::Files(&[]), 5, 1, false),
        ] {
            assert_eq!(check_origin(source, answers, asked).is_ok(), is_right, "{source:?} {answers} {asked}");
        }
    }
}
