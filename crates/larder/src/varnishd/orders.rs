//! What the commands of the CLI do.

use larder_server::xid;

use super::cli::commands::Verb;
use super::cli::protocol::{Answer, Status};
use super::listen::Place;
use super::process::Process;
use super::settings::Settings;
use super::storages::Kind;
use super::vcls::{NameError, Source, Surroundings};

/// Carries out a command.
pub async fn carry_out(process: &mut Process, verb: Verb, words: &[String]) -> Answer {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    match verb {
        Verb::Status => Answer::ok(state(process)),
        Verb::Start => start(process).await,
        Verb::Stop => stop(process).await,
        Verb::VclLoad => {
            let source = Source::file(word(2).as_ref(), &process.settings.vcl_path());
            load(process, word(1), &source)
        }
        Verb::VclInline => load(process, word(1), &Source::inline(word(1), word(2).to_owned())),
        Verb::VclUse => use_vcl(process, word(1)).await,
        Verb::VclList => vcl_list(process),
        Verb::VclDiscard => discard(process, &words[1..]),
        Verb::VclShow => show(process, &words[1..]),
        Verb::VclState => named(process.vcls.get(word(1)).map(|_| String::new())),
        Verb::ParamSet => set(process, word(1), |settings| settings.set(word(1), word(2))).await,
        Verb::ParamReset => set(process, word(1), |settings| settings.reset(word(1))).await,
        Verb::ParamShow => param_show(&process.settings, words.get(1).map(String::as_str)),
        Verb::StorageList => storage_list(process),
        Verb::DebugXid => debug_xid(words.get(1).map(String::as_str)),
        Verb::DebugListen => debug_listen(process),
        Verb::PanicShow => Answer::new(Status::Cannot, "Child has not panicked or panic has been cleared"),
        Verb::PanicClear => Answer::new(Status::Cannot, "No panic to clear"),
        Verb::Pid => Answer::ok(format!("Master: {0}\nWorker: {0}\n", std::process::id())),
        // Answered where they are read.
        Verb::Auth | Verb::Banner | Verb::Help | Verb::Ping | Verb::Quit => Answer::ok(""),
    }
}

fn state(process: &Process) -> String {
    format!("Child in state {}", if process.site.is_running() { "running" } else { "stopped" })
}

/// An answer about a VCL that has to be there.
fn named(found: Result<String, NameError>) -> Answer {
    match found {
        Ok(text) => Answer::ok(text),
        Err(error @ NameError::Active) => Answer::new(Status::Cannot, format!("{error}\n")),
        Err(error) => Answer::new(Status::Parameter, format!("{error}\n")),
    }
}

/// Starts to serve.
pub async fn start(process: &mut Process) -> Answer {
    if process.site.is_running() {
        return Answer::new(Status::Cannot, state(process));
    }
    let Some(vcl) = process.vcls.active() else {
        return Answer::new(Status::Cannot, "No VCL available\n");
    };
    match process.site.serve(&process.settings, vcl, &process.log).await {
        Ok(()) => Answer::ok(""),
        Err(failure) => Answer::new(Status::Cannot, failure.rendered()),
    }
}

async fn stop(process: &mut Process) -> Answer {
    if !process.site.is_running() {
        return Answer::new(Status::Cannot, state(process));
    }
    process.site.stop(&process.log).await;
    Answer::ok("")
}

/// Compiles a VCL and keeps it under a name. What runs goes on in any case.
pub fn load(process: &mut Process, name: &str, source: &Source) -> Answer {
    if let Err(error) = process.vcls.is_free(name) {
        return named(Err(error));
    }
    let surroundings = Surroundings { settings: &process.settings, storages: &process.site.fixed().storages };
    let tried = source.compile(name, surroundings).and_then(|(vcl, notices)| {
        process.site.try_out(&process.settings, &vcl).map_err(|failure| failure.rendered())?;
        Ok((vcl, notices))
    });
    match tried {
        Ok((vcl, notices)) => {
            process.vcls.add(vcl);
            // As with varnishd, the first one is active.
            if process.vcls.active().is_none() {
                process.vcls.activate(name);
            }
            Answer::ok(format!("{notices}VCL compiled.\n"))
        }
        Err(errors) => Answer::new(Status::Parameter, format!("{errors}VCL compilation failed\n")),
    }
}

async fn use_vcl(process: &mut Process, name: &str) -> Answer {
    let vcl = match process.vcls.get(name) {
        Ok(vcl) => vcl,
        Err(error) => return named(Err(error)),
    };
    if process.site.is_running()
        && let Err(failure) = process.site.serve(&process.settings, vcl, &process.log).await
    {
        return Answer::new(Status::Parameter, failure.rendered());
    }
    process.vcls.activate(name);
    Answer::ok(format!("VCL '{name}' now active"))
}

fn vcl_list(process: &Process) -> Answer {
    let line = |(vcl, is_active): (&super::vcls::Vcl, bool)| {
        let (state, temperature) = match (is_active, process.site.is_running()) {
            (true, true) => ("active", "warm"),
            (true, false) => ("active", "cold"),
            (false, _) => ("available", "cold"),
        };
        format!("{state:<11} auto    {temperature:<4}         0    {}\n", vcl.name)
    };
    Answer::ok(process.vcls.list().map(line).collect::<String>())
}

fn discard(process: &mut Process, names: &[String]) -> Answer {
    for name in names {
        if let Err(error) = process.vcls.discard(name) {
            return named(Err(error));
        }
    }
    Answer::ok("")
}

fn show(process: &Process, words: &[String]) -> Answer {
    let names: Vec<&String> = words.iter().filter(|word| *word != "-v").collect();
    let found = match names[..] {
        [] => process.vcls.active().ok_or(NameError::Unknown("active".to_owned())),
        [name, ..] => process.vcls.get(name),
    };
    named(found.map(|vcl| match names.len() == words.len() {
        true => vcl.text(),
        false => vcl.files.iter().fold(String::new(), |mut text, (path, bytes)| {
            text.push_str(&format!("// VCL.SHOW {} {}\n", bytes.len(), path.display()));
            text.push_str(&String::from_utf8_lossy(bytes));
            text.push('\n');
            text
        }),
    }))
}

/// Changes parameters, and what is served with them. After an error, everything is as it was.
async fn set(process: &mut Process, name: &str, change: impl FnOnce(&mut Settings) -> Result<(), String>) -> Answer {
    if process.read_only.iter().any(|protected| protected == name) {
        return Answer::new(Status::Auth, format!("parameter \"{name}\" is protected."));
    }
    let mut settings = process.settings.clone();
    if let Err(why) = change(&mut settings) {
        return Answer::new(Status::Parameter, format!("{why}\n\n(attempting to set param '{name}')\n"));
    }
    if let (true, Some(vcl)) = (process.site.is_running(), process.vcls.active())
        && let Err(failure) = process.site.serve(&settings, vcl, &process.log).await
    {
        return Answer::new(Status::Parameter, failure.rendered());
    }
    process.settings = settings;
    Answer::ok("")
}

fn param_show(settings: &Settings, asked: Option<&str>) -> Answer {
    let line = |name: &str| match settings.get(name) {
        Some(value) => format!("{name:<30} {value}\n"),
        None => format!("{name:<30} (default)\n"),
    };
    let names = larder_vcl::parameters::NAMES;
    match asked {
        None | Some("-l") => Answer::ok(names.into_iter().map(line).collect::<String>()),
        Some("changed") => Answer::ok(settings.all().map(|(name, _)| line(name)).collect::<String>()),
        Some(name) => match larder_vcl::parameters::check_name(name) {
            Ok(()) => Answer::ok(line(name)),
            Err(why) => Answer::new(Status::Parameter, format!("{why}\n")),
        },
    }
}

fn storage_list(process: &Process) -> Answer {
    let line = |storage: &super::storages::Storage| {
        let kind = match storage.kind {
            Kind::Memory { .. } => "malloc",
            Kind::Disk { .. } => "file",
        };
        format!("\tstorage.{} = {kind}\n", storage.name)
    };
    let lines: String = process.site.fixed().storages.iter().map(line).collect();
    Answer::ok(format!("Storage devices:\n{lines}"))
}

fn debug_xid(number: Option<&str>) -> Answer {
    match number.map(str::parse) {
        Some(Ok(number)) => {
            xid::go_on_from(number);
            Answer::ok(format!("XID is {number} chunk 1"))
        }
        Some(Err(_)) => Answer::new(Status::Parameter, "write a number\n"),
        None => Answer::new(Status::TooFew, "Too few parameters\n"),
    }
}

fn debug_listen(process: &Process) -> Answer {
    let endpoints = process.site.fixed().endpoints.iter();
    let lines = endpoints.flat_map(|found| match &found.endpoint.place {
        Place::Unix { path, .. } => vec![format!("{} {} -\n", found.endpoint.name, path.display())],
        Place::Tcp { .. } => {
            let line = |address: &std::net::SocketAddr| {
                format!("{} {} {}\n", found.endpoint.name, address.ip(), address.port())
            };
            found.addresses.iter().map(line).collect()
        }
    });
    Answer::ok(lines.collect::<String>())
}
