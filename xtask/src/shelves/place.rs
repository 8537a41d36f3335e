//! `cargo xtask place`: how fast caches are filled on one disk and on two, and what it costs those who ask for hits.

use super::disks::{Disks, Layout, Sizes};
use super::fill::{self, Outcome};
use super::options::{PLACE_HELP, Place, Row};
use super::server::{Server, Site};
use super::table::{Table, megabytes, time};
use crate::load::kind::{Kind, Programs, version_of};
use crate::load::origin::{Origin, Work};
use crate::load::report::median;
use crate::load::{LoadError, build, cannot, end, stay_on};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Where a cache has to evict, the fill is so many times as long: nginx looks every ten seconds what it has to remove.
const EVICT_FILL: u64 = 2;

/// And the cache may keep so much of a usual fill: a sixth of the long one.
const EVICT_KEEPS: u64 = 3;

/// What a disk has room for besides the longest fill.
const DISK_SPARE: u64 = 256 << 20;

/// Files a disk has room for: nginx has one for each page, and folders.
const DISK_FILES: u64 = 1 << 16;

const HEADING: [&str; 13] = [
    "pages go to",
    "server",
    "clients MB/s",
    "CPU ms/page",
    "disks' own MB/s",
    "written MB/s",
    "of their own",
    "at most MB",
    "`max_size` MB",
    "over by",
    "at the end MB",
    "hit, half within: idle, filling",
    "hit, 99 % within: idle, filling",
];

/// Measures as `arguments` say, and prints.
pub fn main(root: &Path, arguments: impl Iterator<Item = OsString>) -> ExitCode {
    end("place", run(root, arguments))
}

fn run(root: &Path, arguments: impl Iterator<Item = OsString>) -> Result<(), LoadError> {
    let Some(mut options) = Place::parse(root, arguments)? else {
        print!("{PLACE_HELP}");
        return Ok(());
    };
    if options.shared.servers.contains(&Kind::Larder) && options.shared.larder.is_none() {
        options.shared.larder = Some(build(root)?);
    }
    let sizes = Sizes {
        count: 2,
        bytes: options.bytes * EVICT_FILL + DISK_SPARE,
        files: DISK_FILES,
        rate: options.rate,
        dirty: options.dirty,
    };
    let disks = Disks::make(&options.shared.dir, sizes)?;
    stay_on(options.shared.generator_cpu)?;
    let bench = Bench { options: &options, disks: &disks, origin: Origin::start(Work::NONE)? };

    let mut lines = lines(&options);
    for round in 1..=options.shared.rounds {
        let mut own = (None, 0.0);
        for line in &mut lines {
            if line.is_out.is_some() {
                continue;
            }
            eprintln!("round {round} of {}: {}, {}", options.shared.rounds, line.row.name(), line.kind.name());
            if own.0 != Some(line.row) && line.row != Row::Uncached {
                own = (Some(line.row), disks.own_speed(layout(line.row, line.kind).unwrap_or(Layout::One))?);
            }
            match bench.cell(line.row, line.kind, own.1) {
                Ok(outcome) => line.cells.push((own.1, outcome)),
                Err(error) => {
                    eprintln!("{}, {}: {error}", line.row.name(), line.kind.name());
                    line.is_out = Some(reason(&error));
                }
            }
        }
    }
    let mut table = Table::new(&HEADING);
    lines.iter().for_each(|line| table.push(line.text(&options)));
    print!("{}", table.text(options.shared.is_markdown));
    for line in &lines {
        if let Some(reason) = &line.is_out {
            println!("{}, {}: {reason}", title(line.row), line.kind.name());
        }
    }
    print_conditions(&options)?;
    for line in lines.iter().filter(|line| line.kind.is_larder()) {
        if let Some(over) = line.over(&options).filter(|over| *over > 0) {
            return Err(LoadError::Usage(format!("larder took {over} bytes more than max_size: {}", line.row.name())));
        }
    }
    Ok(())
}

/// One row of one server, round after round.
struct Line {
    row: Row,
    kind: Kind,
    /// What the disks could do, and what came of it.
    cells: Vec<(f64, Outcome)>,
    /// Why it is not measured, or no longer.
    is_out: Option<String>,
}

/// What everyone who is measured has in common.
struct Bench<'a> {
    options: &'a Place,
    disks: &'a Disks,
    origin: Origin,
}

impl Bench<'_> {
    /// One server on new file systems.
    fn cell(&self, row: Row, kind: Kind, own_speed: f64) -> Result<Outcome, LoadError> {
        let Bench { options, disks, origin } = self;
        let mounted = layout(row, kind).map(|layout| disks.mount(layout)).transpose()?;
        let folders: Vec<PathBuf> =
            mounted.iter().flat_map(|mounted| &mounted.paths).map(|path| path.join("cache")).collect();
        let folder = disks.folder().join("server");
        // A run that failed has left its own.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).map_err(cannot("make a folder"))?;
        let (http, location) = caches(row, kind, &folders, max_size(row, options.bytes));
        let mut server = Server::new(&Site {
            kind,
            larder: options.shared.larder.as_deref(),
            cpu: options.shared.server_cpu,
            origin_port: origin.port(),
            folder: &folder,
            http: &http,
            location: &location,
        })?;
        server.start()?;
        let plan = fill::Plan {
            pages: pages(row, options),
            page_bytes: options.shared.page_bytes,
            connections: options.shared.connections,
            mounted: mounted.as_ref(),
            bytes_max: max_size(row, options.bytes) * folders.len() as u64,
            folders,
            own_speed,
        };
        let outcome = fill::run(&server, &plan);
        // Before its disks are taken away.
        server.stop()?;
        outcome
    }
}

/// What the disks have to be for a server's pages to go where the row says.
fn layout(row: Row, kind: Kind) -> Option<Layout> {
    match row {
        Row::Uncached => None,
        Row::Single | Row::Evict => Some(Layout::One),
        Row::Stripe => Some(Layout::Striped),
        Row::Hash | Row::Split => Some(Layout::Each),
        // larder keeps pages on two disks by itself.
        Row::Mirror => Some(if kind.is_larder() { Layout::Each } else { Layout::Mirrored }),
    }
}

/// What each cache may take.
fn max_size(row: Row, bytes: u64) -> u64 {
    if row == Row::Evict { bytes / EVICT_KEEPS } else { bytes * 3 / 2 }
}

/// How many pages are asked for.
fn pages(row: Row, options: &Place) -> u64 {
    let times = if row == Row::Evict { EVICT_FILL } else { 1 };
    (options.bytes * times / options.shared.page_bytes as u64).max(1)
}

/// The caches in `folders`, and which of them the location uses.
fn caches(row: Row, kind: Kind, folders: &[PathBuf], bytes_max: u64) -> (String, String) {
    let mut http = String::new();
    for (folder, zone) in folders.iter().zip(["one", "two"]) {
        http.push_str(&format!(
            "proxy_cache_path {} levels=1:2 keys_zone={zone}:10m max_size={bytes_max} inactive=1d use_temp_path=off;\n    ",
            folder.display()
        ));
    }
    let zone = match (row, kind.is_larder()) {
        (Row::Uncached, _) => return (http, String::new()),
        (Row::Mirror, true) => {
            http.push_str("larder_placement pages mirror one two;");
            "pages"
        }
        (Row::Hash, true) => {
            http.push_str("larder_placement pages hash one two;");
            "pages"
        }
        (Row::Hash, false) | (Row::Split, _) => {
            http.push_str("split_clients $request_uri $disk { 50% one; * two; }");
            "$disk"
        }
        (Row::Single | Row::Stripe | Row::Evict | Row::Mirror, _) => "one",
    };
    (http, format!("proxy_cache {zone};"))
}

fn lines(options: &Place) -> Vec<Line> {
    let mut lines = Vec::new();
    for row in &options.rows {
        for kind in &options.shared.servers {
            // nginx has no other way than `split_clients`: that is its row `hash`.
            if *row == Row::Split && !kind.is_larder() && options.rows.contains(&Row::Hash) {
                continue;
            }
            let is_out = layout(*row, *kind).and_then(Disks::lacks).map(String::from);
            lines.push(Line { row: *row, kind: *kind, cells: Vec::new(), is_out });
        }
    }
    lines
}

/// One line on why a server was not measured: the first error that it has logged, or the last that it has said.
fn reason(error: &LoadError) -> String {
    let LoadError::Server { fact, log, .. } = error else {
        return error.to_string().lines().next().unwrap_or_default().to_string();
    };
    let said = log.lines().find(|line| line.contains("[emerg]"));
    let said = said.or_else(|| log.lines().rev().find(|line| !line.trim().is_empty()));
    said.map_or_else(|| fact.clone(), |said| format!("{fact}: {}", said.trim()))
}

impl Line {
    fn text(&self, options: &Place) -> Vec<String> {
        let mut text = vec![title(self.row).to_string(), self.kind.name().to_string()];
        if self.cells.is_empty() {
            text.push("n/a".into());
            return text;
        }
        let of = |take: &dyn Fn(&Outcome) -> f64| median(self.cells.iter().map(|(_, cell)| take(cell)));
        text.push(megabytes(of(&|cell| cell.client_rate)));
        text.push(format!("{:.2}", of(&|cell| cell.cpu_each.as_secs_f64() * 1e3)));
        let disks: Vec<_> = self.cells.iter().filter_map(|(_, cell)| cell.disks).collect();
        if disks.is_empty() {
            text.extend(std::iter::repeat_n(String::new(), 7));
        } else {
            let zones = if matches!(layout(self.row, self.kind), Some(Layout::Each)) { 2 } else { 1 };
            text.push(megabytes(median(self.cells.iter().map(|(own, _)| *own))));
            text.push(megabytes(median(disks.iter().map(|disks| disks.rate))));
            text.push(format!("{:.0} %", median(disks.iter().map(|disks| disks.share)) * 100.0));
            text.push(megabytes(self.used_most() as f64));
            text.push(megabytes((max_size(self.row, options.bytes) * zones) as f64));
            text.push(match self.over(options) {
                Some(over) if over > 0 => format!("{:.1} MB", over as f64 / 1e6),
                Some(_) | None => "0".into(),
            });
            text.push(megabytes(median(disks.iter().map(|disks| disks.used_last as f64))));
        }
        let waits = |part: usize| {
            let wait = |of: &dyn Fn(&Outcome) -> Duration| {
                time(Duration::from_secs_f64(median(self.cells.iter().map(|(_, cell)| of(cell).as_secs_f64()))))
            };
            let [idle, during] = [wait(&|cell| cell.idle[part]), wait(&|cell| cell.during[part])];
            format!("{idle}, {during}")
        };
        text.push(waits(0));
        let no_hits: u64 = self.cells.iter().map(|(_, cell)| cell.no_hits).sum();
        let note = match (self.row, no_hits) {
            (Row::Uncached, _) | (_, 0) => String::new(),
            (_, no_hits) => format!(" ({no_hits} were no hits)"),
        };
        text.push(format!("{}{note}", waits(1)));
        text
    }

    /// The most that was taken at any time in any round.
    fn used_most(&self) -> u64 {
        let all = self.cells.iter().filter_map(|(_, cell)| Some(cell.disks?.used_most));
        all.max().unwrap_or(0)
    }

    /// By how much that is more than allowed; `None` if nothing is stored.
    fn over(&self, options: &Place) -> Option<u64> {
        let zones = if layout(self.row, self.kind)? == Layout::Each { 2 } else { 1 };
        Some(self.used_most().saturating_sub(max_size(self.row, options.bytes) * zones))
    }
}

fn title(row: Row) -> &'static str {
    match row {
        Row::Uncached => "nowhere (proxied only)",
        Row::Single => "one disk",
        Row::Mirror => "two, mirrored",
        Row::Stripe => "two, striped (btrfs raid0)",
        Row::Hash => "two, by hash",
        Row::Split => "two, by `split_clients`",
        Row::Evict => "one, a sixth of it kept",
    }
}

/// What has to be known about the numbers.
fn print_conditions(options: &Place) -> Result<(), LoadError> {
    let Place { shared, rate, dirty, .. } = options;
    let speed = match rate {
        0 => "as fast as they are".into(),
        rate => format!("held to {:.0} MB/s", *rate as f64 / 1e6),
    };
    let waiting = match dirty {
        0 => "what the kernel lets".into(),
        dirty => format!("{:.0} MB", *dirty as f64 / 1e6),
    };
    println!(
        "\n{} pages of {} bytes ({} where a sixth is kept) over {} connections; disks {speed}, at most {waiting} of page cache waiting for each; \
         medians of {} rounds, of the space the most",
        pages(Row::Single, options),
        shared.page_bytes,
        pages(Row::Evict, options),
        shared.connections,
        shared.rounds
    );
    for kind in &shared.servers {
        println!(
            "{}: {}",
            kind.name(),
            version_of(*kind, &kind.program(&Programs::with_larder(shared.larder.clone()))?)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_has_its_own_way_to_place_pages() {
        let two = [PathBuf::from("/d0/cache"), PathBuf::from("/d1/cache")];
        for (row, kind, folders, http, location) in [
            (Row::Uncached, Kind::Nginx, &two[..0], "", ""),
            (Row::Single, Kind::Larder, &two[..1], "keys_zone=one:10m max_size=7 ", "proxy_cache one;"),
            (Row::Mirror, Kind::Nginx, &two[..1], "/d0/cache", "proxy_cache one;"),
            (Row::Mirror, Kind::Larder, &two, "larder_placement pages mirror one two;", "proxy_cache pages;"),
            (Row::Hash, Kind::Nginx, &two, "50% one; * two;", "proxy_cache $disk;"),
            (Row::Hash, Kind::Larder, &two, "larder_placement pages hash one two;", "proxy_cache pages;"),
            (Row::Split, Kind::Larder, &two, "50% one; * two;", "proxy_cache $disk;"),
        ] {
            let (found, used) = caches(row, kind, folders, 7);
            assert!(found.contains(http), "{row:?} {kind:?}: {found}");
            assert_eq!(used, location, "{row:?} {kind:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_start_says_why_in_one_line() {
        for (log, said) in [
            ("first\nunknown directive\n\n", "ended at once: unknown directive"),
            ("[warn] a\n[emerg] b\n[emerg] c\n", "ended at once: [emerg] b"),
            ("", "ended at once"),
        ] {
            let error = LoadError::Server { server: "larder", fact: "ended at once".into(), log: log.into() };
            assert_eq!(reason(&error), said);
        }
    }
}
