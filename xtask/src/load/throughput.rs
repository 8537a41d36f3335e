//! Server CPU per request, side by side: the servers take turns, so that what disturbs one disturbs all.

use super::contender::Contender;
use super::options::Options;
use super::origin::Origin;
use super::report::{self, Cell, Row};
use super::wrk;
use super::{LoadError, cannot};
use std::fs;

/// Warms every page up, measures in interleaved rounds, prints a table and writes the JSON.
pub fn measure(options: &Options, contenders: &[Contender], origin: &Origin) -> Result<(), LoadError> {
    for contender in contenders {
        for bytes in &options.sizes {
            warm_up(contender, *bytes, origin)?;
        }
    }
    let mut rows = Vec::new();
    for bytes in &options.sizes {
        let before = origin.requests();
        let mut cells: Vec<Vec<Cell>> = vec![Vec::new(); contenders.len()];
        for round in 1..=options.rounds {
            eprintln!("{bytes} bytes, round {round} of {}", options.rounds);
            for (contender, cells) in contenders.iter().zip(&mut cells) {
                cells.push(slice(options, contender, *bytes)?);
            }
        }
        if origin.requests() != before {
            return Err(LoadError::Usage(format!(
                "the origin had {} requests while hits were measured: these numbers are of no use",
                origin.requests() - before
            )));
        }
        rows.extend(contenders.iter().zip(cells).map(|(contender, cells)| Row {
            kind: contender.kind,
            bytes: *bytes,
            cells,
        }));
    }
    print!("{}", report::table(&rows));
    let versions: Vec<_> =
        contenders.iter().map(|contender| (contender.kind.name(), contender.version.as_str())).collect();
    if let Some(folder) = options.out.parent() {
        fs::create_dir_all(folder).map_err(cannot("make the folder for the numbers"))?;
    }
    fs::write(&options.out, report::json(&rows, &versions)).map_err(cannot("write the numbers"))?;
    println!("\nEvery slice: {}", options.out.display());
    Ok(())
}

/// Fills the cache, sees that the next answer is a hit with the same body, and lets the server run for a second.
pub fn warm_up(contender: &Contender, bytes: usize, origin: &Origin) -> Result<(), LoadError> {
    let before = origin.requests();
    contender.get(bytes)?;
    contender.get(bytes)?;
    let filled = origin.requests();
    contender.get(bytes)?;
    if filled == before || origin.requests() != filled {
        return Err(LoadError::Answer {
            server: contender.kind.name(),
            fact: format!("the page of {bytes} bytes is not a hit after two requests"),
        });
    }
    Ok(())
}

fn slice(options: &Options, contender: &Contender, bytes: usize) -> Result<Cell, LoadError> {
    let before = contender.process.cpu();
    let count = wrk::run(&contender.url(bytes), options.connections, options.slice_seconds, options.generator_cpu)
        .map_err(|error| contender.fault(format!("failed under load: {error}")))?;
    let cpu = contender.process.cpu().saturating_sub(before);
    Ok(Cell { cpu, count })
}
