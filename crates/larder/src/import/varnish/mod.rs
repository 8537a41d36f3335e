//! Varnish: the options of its service, and its VCLs.

mod found;
mod stand_in;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use larder_conf::Severity;

use super::report::Report;
use super::service::{self, Command};
use super::{place, shown, to_write, words};
use crate::machine::Machine;
use crate::remark::Remark;
use crate::shell::quoted;
use crate::unit::Unit;
use crate::varnishd::options::{self, OptionsError, Serve, Source as Asked, Varnishd};
use crate::varnishd::vcls::{Source, Surroundings};

/// What of Varnish's service works with the larder `program`. `Err` says why there is none.
pub fn report(machine: &Machine, program: &Path, written: Option<&Path>) -> Result<Report, String> {
    let unit = Unit::read(machine, "varnish.service").map_err(|error| error.to_string())?;
    let found = found::find(machine, unit.as_ref())?;
    let mut report = Report { read: format!("varnish: {}", found.shown()), ..Report::default() };
    let (serve, kept) = read_options(&found.command, &mut report);
    // As they are written, with what only systemd knows, if all of them are kept.
    let raw =
        unit.as_ref().and_then(|unit| unit.last("ExecStart")).filter(|_| kept.len() + 1 == found.command.words.len());
    let larder = words::joined(&[program.display().to_string()]);
    let raw = raw.and_then(|setting| service::with_program(&setting.value, "/varnishd", &format!("{larder} varnishd")));
    let line = raw.unwrap_or_else(|| format!("{larder} varnishd {}", words::joined(&kept)));
    let test = test(program, serve.as_ref(), &kept);
    if let Some(serve) = &serve {
        tell_options(serve, &found.command, &mut report);
        compile(machine, serve, &mut report);
        match stand_in::write(machine, serve) {
            Ok(text) => {
                report.files.push(("larder.conf".into(), text.clone()));
                report.configuration = Some(text);
            }
            Err(why) => report.refused.push(remark(Severity::Error, why, &found.command)),
        }
    }
    plan(machine, unit.as_ref(), program, Start { line: &line, test: &test }, written, &mut report);
    Ok(report)
}

/// How larder is started in Varnish's place.
#[derive(Clone, Copy)]
struct Start<'a> {
    /// The command, as systemd reads it.
    line: &'a str,
    /// What has to succeed before Varnish is stopped, as a shell reads it.
    test: &'a str,
}

/// The command that compiles the VCLs; without one, that shows that the program runs.
fn test(program: &Path, serve: Option<&Serve>, kept: &[String]) -> String {
    let larder = shown(program);
    match serve.is_some_and(|serve| serve.source.is_some()) {
        true => {
            let words: Vec<String> = kept.iter().map(|word| quoted(word)).collect();
            format!("{larder} varnishd -C {}", words.join(" "))
        }
        false => format!("{larder} varnishd -V"),
    }
}

/// The options without those that larder refuses, each of which is told.
fn read_options(command: &Command, report: &mut Report) -> (Option<Serve>, Vec<String>) {
    let mut kept: Vec<String> = command.words.iter().skip(1).cloned().collect();
    for _ in 0..REFUSALS_MAX {
        let args: Vec<OsString> = kept.iter().map(OsString::from).collect();
        match options::parse(&args) {
            Ok(Varnishd::Serve(serve)) => return (Some(*serve), kept),
            Ok(_) => {
                let what = "these options print something, and serve nothing".to_owned();
                report.refused.push(remark(Severity::Error, what, command));
                return (None, kept);
            }
            Err(error) => {
                let place = place_of_error(&error, command);
                report.refused.push(remark_at(Severity::Error, error.to_string(), place));
                match without(&kept, &error) {
                    Some(fewer) => kept = fewer,
                    None => return (None, kept),
                }
            }
        }
    }
    (None, kept)
}

/// The words without those that an error is about.
fn without(words: &[String], error: &OptionsError) -> Option<Vec<String>> {
    let (at, count) = match error {
        OptionsError::Unknown(option) => {
            let at = words.iter().position(|word| word.starts_with(option.as_str()))?;
            let has_value = words.get(at + 1).is_some_and(|next| !next.starts_with('-'));
            (at, if has_value && words.get(at)? == option { 2 } else { 1 })
        }
        OptionsError::Word(word) => (words.iter().position(|own| own == word)?, 1),
        OptionsError::Value { letter, value, .. } => {
            let joined = format!("-{letter}{value}");
            match words.iter().position(|word| *word == joined) {
                Some(at) => (at, 1),
                None => {
                    let option = format!("-{letter}");
                    (words.windows(2).position(|pair| pair[0] == option && pair[1] == *value)?, 2)
                }
            }
        }
        OptionsError::MissingValue { .. } | OptionsError::Twice { .. } | OptionsError::Together(_) => return None,
    };
    let mut fewer = words.to_vec();
    fewer.drain(at..at + count);
    Some(fewer)
}

/// Where the option stands that an error is about.
fn place_of_error(error: &OptionsError, command: &Command) -> (PathBuf, usize) {
    command.place_of(|word| match error {
        OptionsError::Unknown(option) => word.starts_with(option.as_str()),
        OptionsError::Word(own) => word == own,
        OptionsError::Value { letter, value, .. } => word == value || *word == format!("-{letter}{value}"),
        OptionsError::MissingValue { letter, .. } => *word == format!("-{letter}"),
        OptionsError::Twice { .. } | OptionsError::Together(_) => false,
    })
}

fn remark(severity: Severity, message: String, command: &Command) -> Remark {
    remark_at(severity, message, (command.file.clone(), command.line))
}

fn remark_at(severity: Severity, message: String, place: (PathBuf, usize)) -> Remark {
    Remark { severity, place: Some(place), ..Remark::notice(&message) }
}

/// What becomes of the options.
fn tell_options(serve: &Serve, command: &Command, report: &mut Report) {
    let names = |all: Vec<String>| all.join(", ");
    report.works.push(format!("listens: {}", names(serve.endpoints.iter().map(stand_in::shown_place).collect())));
    report.works.push(format!("storages: {}", names(serve.storages.iter().map(stand_in::shown_storage).collect())));
    let without = serve.settings.without_effect();
    let set = serve.settings.all().filter(|(name, _)| !without.contains(name));
    let set: Vec<String> = set.map(|(name, value)| format!("{name}={value}")).collect();
    if !set.is_empty() {
        report.works.push(format!("parameters: {}", names(set)));
    }
    let mut lines: BTreeMap<(PathBuf, usize), Vec<&str>> = BTreeMap::new();
    for name in without {
        let is_set =
            |word: &str| word.strip_prefix("-p").unwrap_or(word).split_once('=').is_some_and(|(own, _)| own == name);
        lines.entry(command.place_of(is_set)).or_default().push(name);
    }
    for (place, names) in lines {
        let message = format!("these parameters change nothing in larder: {}", names.join(", "));
        report.differs.push(remark_at(Severity::Notice, message, place));
    }
    for storage in &serve.storages {
        if let crate::varnishd::storages::Kind::Disk { path, .. } = &storage.kind {
            let message = format!(
                "-s file,{}: pages are in the folder {}.larder, and outlast a restart; the old file is left alone",
                path.display(),
                path.display()
            );
            let shown = path.display().to_string();
            let place = command.place_of(|word| word.contains(&shown));
            report.differs.push(remark_at(Severity::Notice, message, place));
        }
    }
}

/// Compiles each VCL.
fn compile(machine: &Machine, serve: &Serve, report: &mut Report) {
    let sources = match &serve.source {
        Some(Asked::Files(paths)) => paths.iter().map(|path| Source::at(&vcl(machine, path, serve))).collect(),
        Some(Asked::Backend(place)) => vec![Source::backend(place)],
        None => Vec::new(),
    };
    let surroundings = Surroundings { settings: &serve.settings, storages: &serve.storages, labels: &[] };
    for source in sources {
        let said = match source.compile_by("boot", surroundings, &mut machine.clone()) {
            Ok((vcl, said)) => {
                let modules = match vcl.modules.is_empty() {
                    true => String::new(),
                    false => format!(", with {}", vcl.modules.join(", ")),
                };
                report.works.push(format!("the VCL {} compiles{modules}", source.path.display()));
                said
            }
            Err(said) => said,
        };
        for remark in Remark::of(&said.diagnostics, &said.sources) {
            match remark.severity {
                Severity::Error => report.refuse([remark]),
                Severity::Warning | Severity::Notice => report.differs.push(remark),
                Severity::NoEffect => {}
            }
        }
    }
}

/// Where a VCL is: a relative name is looked for in `vcl_path`.
fn vcl(machine: &Machine, path: &Path, serve: &Serve) -> PathBuf {
    let folders = serve.settings.vcl_path();
    let mut places = folders.iter().map(|folder| folder.join(path));
    places.find(|path| machine.has(path)).unwrap_or_else(|| path.to_owned())
}

fn plan(
    machine: &Machine,
    unit: Option<&Unit>,
    program: &Path,
    start: Start<'_>,
    written: Option<&Path>,
    report: &mut Report,
) {
    let Start { line, test } = start;
    let unusable = service::unusable(machine, unit, "varnish.service", program);
    let Some(unit) = unit else {
        report.switch_over = match unusable {
            Some(why) => vec![why],
            None => vec![format!("{test} && /etc/init.d/varnish stop"), format!("{line} -P {PID_FILE}")],
        };
        report.way_back = vec![format!("kill $(cat {PID_FILE})"), "/etc/init.d/varnish start".to_owned()];
        return;
    };
    if unit.last("ExecStart").is_some_and(|setting| setting.value.contains("larder")) {
        report.works.push("larder has Varnish's place already".to_owned());
        return;
    }
    if let Some(why) = unusable {
        report.switch_over.push(why);
        return;
    }
    let mut drop_in = format!(
        "# The unit varnish.service runs larder, by Varnish's options. Remove this to have Varnish back.\n[Service]\n\
         ExecStart=\nExecStart={line}\n"
    );
    if unit.is_on("MemoryDenyWriteExecute") {
        drop_in.push_str("# Regular expressions are compiled to machine code.\nMemoryDenyWriteExecute=no\n");
    }
    let name = service::drop_in_name(unit, "larder.conf");
    let (there, back) = service::switch("varnish", test, &place(written, DROP_IN), name);
    report.switch_over.extend(to_write(program, written, "varnish"));
    report.switch_over.extend(there);
    report
        .switch_over
        .extend(service::own_service(machine).map(|disable| format!("# if it has the same ports: {disable}")));
    report.way_back = back;
    report.files.push((DROP_IN.into(), drop_in));
    for reader in ["varnishncsa", "varnishlog"] {
        plan_reader(machine, reader, program, written, report);
    }
}

/// A service that reads Varnish's log, if it starts with the machine: larder's log is read by larder.
fn plan_reader(machine: &Machine, reader: &str, program: &Path, written: Option<&Path>, report: &mut Report) {
    let wanted = format!("/etc/systemd/system/multi-user.target.wants/{reader}.service");
    let unit = Unit::read(machine, &format!("{reader}.service")).ok().flatten();
    let Some(unit) = unit.filter(|_| machine.has(Path::new(&wanted))) else { return };
    let Some(setting) = unit.last("ExecStart") else { return };
    if let Some(why) = service::unusable(machine, Some(&unit), &format!("{reader}.service"), program) {
        return report.switch_over.push(why);
    }
    let runs = format!("{} {reader}", words::joined(&[program.display().to_string()]));
    let Some(line) = service::with_program(&setting.value, &format!("/{reader}"), &runs) else { return };
    let message = format!("{reader} reads Varnish's log, and larder's is read by \"larder {reader}\"");
    report.differs.push(remark_at(Severity::Notice, message, (setting.file.clone(), setting.line)));
    let file = format!("{reader}.service.d/larder.conf");
    let name = service::drop_in_name(&unit, "larder.conf");
    let (there, back) =
        service::switch(reader, &format!("{} {reader} -V", shown(program)), &place(written, &file), name);
    report.switch_over.extend(there);
    report.way_back.extend(back);
    report.files.push((file.into(), format!("[Service]\nExecStart=\nExecStart={line}\n")));
}

const PID_FILE: &str = "/run/larder-varnishd.pid";
const DROP_IN: &str = "varnish.service.d/larder.conf";
/// How many options are told of.
const REFUSALS_MAX: usize = 20;

#[cfg(test)]
mod tests;
