//! Varnish: the options of its service, and its VCLs.

mod found;
mod stand_in;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use larder_conf::Severity;

use super::report::Report;
use super::service::{self, Command};
use super::{place, to_write, words};
use crate::machine::Machine;
use crate::remark::Remark;
use crate::unit::Unit;
use crate::varnishd::options::{self, OptionsError, Serve, Source as Asked, Varnishd};
use crate::varnishd::vcls::{Source, Surroundings};

/// What of Varnish's service works. `Err` says why there is none.
pub fn report(machine: &Machine, written: Option<&Path>) -> Result<Report, String> {
    let unit = Unit::read(machine, "varnish.service").map_err(|error| error.to_string())?;
    let found = found::find(machine, unit.as_ref())?;
    let mut report = Report { read: format!("varnish: {}", found.shown()), ..Report::default() };
    let (serve, kept) = read_options(&found.command, &mut report);
    // As they are written, with what only systemd knows, if all of them are kept.
    let raw =
        unit.as_ref().and_then(|unit| unit.last("ExecStart")).filter(|_| kept.len() + 1 == found.command.words.len());
    let raw = raw.and_then(|setting| service::with_program(&setting.value, "/varnishd", "/usr/sbin/larder varnishd"));
    let line = raw.unwrap_or_else(|| format!("/usr/sbin/larder varnishd {}", words::joined(&kept)));
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
    plan(machine, unit.as_ref(), &line, written, &mut report);
    Ok(report)
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
                report.refused.push(remark(Severity::Error, error.to_string(), command));
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

fn remark(severity: Severity, message: String, command: &Command) -> Remark {
    Remark { severity, message, place: Some((command.file.clone(), command.line)), label: None, help: None }
}

/// What becomes of the options.
fn tell_options(serve: &Serve, command: &Command, report: &mut Report) {
    let names = |all: Vec<String>| all.join(", ");
    report.works.push(format!("listens: {}", names(serve.endpoints.iter().map(stand_in::shown_place).collect())));
    report.works.push(format!("storages: {}", names(serve.storages.iter().map(stand_in::shown_storage).collect())));
    let set: Vec<String> = serve.settings.all().map(|(name, value)| format!("{name}={value}")).collect();
    if !set.is_empty() {
        report.works.push(format!("parameters: {}", names(set)));
    }
    let without = serve.settings.without_effect();
    if !without.is_empty() {
        let message = format!("these parameters change nothing in larder: {}", without.join(", "));
        report.differs.push(remark(Severity::Notice, message, command));
    }
    for storage in &serve.storages {
        if let crate::varnishd::storages::Kind::Disk { path, .. } = &storage.kind {
            let message = format!(
                "-s file,{}: pages are in the folder {}.larder, and outlast a restart; the old file is left alone",
                path.display(),
                path.display()
            );
            report.differs.push(remark(Severity::Notice, message, command));
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

fn plan(machine: &Machine, unit: Option<&Unit>, line: &str, written: Option<&Path>, report: &mut Report) {
    let Some(unit) = unit else {
        report.switch_over = vec!["/etc/init.d/varnish stop".to_owned(), format!("{line} -P {PID_FILE}")];
        report.way_back = vec![format!("kill $(cat {PID_FILE})"), "/etc/init.d/varnish start".to_owned()];
        return;
    };
    if unit.last("ExecStart").is_some_and(|setting| setting.value.contains("larder")) {
        report.works.push("larder has Varnish's place already".to_owned());
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
    let (there, back) = service::switch("varnish", &place(written, DROP_IN), name);
    report.switch_over.extend(to_write(written, "varnish"));
    report.switch_over.extend(there);
    report
        .switch_over
        .extend(service::own_service(machine).map(|disable| format!("# if it has the same ports: {disable}")));
    report.way_back = back;
    report.files.push((DROP_IN.into(), drop_in));
    for reader in ["varnishncsa", "varnishlog"] {
        plan_reader(machine, reader, written, report);
    }
}

/// A service that reads Varnish's log, if it starts with the machine: larder's log is read by larder.
fn plan_reader(machine: &Machine, reader: &str, written: Option<&Path>, report: &mut Report) {
    let wanted = format!("/etc/systemd/system/multi-user.target.wants/{reader}.service");
    let unit = Unit::read(machine, &format!("{reader}.service")).ok().flatten();
    let Some(unit) = unit.filter(|_| machine.has(Path::new(&wanted))) else { return };
    let Some(setting) = unit.last("ExecStart") else { return };
    let program = format!("/usr/sbin/larder {reader}");
    let Some(line) = service::with_program(&setting.value, &format!("/{reader}"), &program) else { return };
    report.differs.push(Remark {
        severity: Severity::Notice,
        message: format!("{reader} reads Varnish's log, and larder's is read by \"larder {reader}\""),
        place: Some((setting.file.clone(), setting.line)),
        label: None,
        help: None,
    });
    let file = format!("{reader}.service.d/larder.conf");
    let name = service::drop_in_name(&unit, "larder.conf");
    let (there, back) = service::switch(reader, &place(written, &file), name);
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
