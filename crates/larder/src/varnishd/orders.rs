//! What the commands of the CLI do.

use larder_conf::model::LogLevel;
use larder_server::xid;
use serde_json::json;

use super::care::Wanted;
use super::cli::commands::Verb;
use super::cli::protocol::{self, Answer, Status};
use super::listen::Place;
use super::loaded::{Entry, NameError};
use super::settings::Settings;
use super::state::State;
use super::storages::{Kind, Storage};
use super::vcls::{Source, Surroundings};
use super::{backends, bans, params, vcl_lists};

/// Carries out a command.
pub async fn carry_out(state: &mut State, verb: Verb, words: &[String]) -> Answer {
    let word = |at: usize| words.get(at).map(String::as_str).unwrap_or_default();
    match verb {
        Verb::Ban => bans::ban(state, &words[1..]).await,
        Verb::BanList => bans::list(state, words),
        Verb::BackendList => backends::list(state, words),
        Verb::BackendSetHealth => backends::set_health(state, word(1), word(2)),
        Verb::Status if word(1) == "-j" => Answer::ok(protocol::json(2, words, vec![json!(running_word(state))])),
        Verb::Status => Answer::ok(standing(state)),
        Verb::Start => start(state).await,
        Verb::Stop => stop(state).await,
        Verb::VclLoad => {
            let source = Source::file(word(2).as_ref(), &state.settings.vcl_path());
            load_as(state, word(1), &source, word(3)).await
        }
        Verb::VclInline => load_as(state, word(1), &Source::inline(word(1), word(2).to_owned()), word(3)).await,
        Verb::VclUse => use_vcl(state, word(1)).await,
        Verb::VclLabel => label(state, word(1), word(2)).await,
        Verb::VclList => match word(1) {
            "-j" => Answer::ok(vcl_lists::list_json(&state.vcls, state.times(), state.site.is_running(), words)),
            _ => Answer::ok(vcl_lists::list(&state.vcls, state.times(), state.site.is_running())),
        },
        Verb::VclDeps => match word(1) {
            "-j" => Answer::ok(vcl_lists::deps_json(&state.vcls, words)),
            _ => Answer::ok(vcl_lists::deps(&state.vcls)),
        },
        Verb::VclSymtab => Answer::ok(vcl_lists::symtab(&state.vcls)),
        Verb::VclDiscard => discard(state, &words[1..]).await,
        Verb::VclShow => show(state, &words[1..]),
        Verb::VclState => vcl_state(state, word(1), word(2)).await,
        Verb::ParamSet => change_parameter(state, words, |settings, name, value| settings.set(name, value)).await,
        Verb::ParamReset => change_parameter(state, words, |settings, name, _| settings.reset(name)).await,
        Verb::ParamShow => params::show(&state.settings, &state.read_only, words),
        Verb::StorageList if word(1) == "-j" => Answer::ok(storage_list_json(state, words)),
        Verb::StorageList => Answer::ok(storage_list(state)),
        Verb::DebugXid => debug_xid(&words[1..]),
        Verb::DebugFragfetch => Answer::ok(""),
        Verb::DebugListen => debug_listen(state),
        Verb::PanicShow => Answer::new(Status::Cannot, "Child has not panicked or panic has been cleared"),
        // Counters of panics are none.
        Verb::PanicClear if word(1) == "-z" => Answer::ok(""),
        Verb::PanicClear => Answer::new(Status::Cannot, "No panic to clear"),
        Verb::Pid if word(1) == "-j" => {
            let own = std::process::id();
            Answer::ok(protocol::json(2, words, vec![json!({ "master": own, "worker": own })]))
        }
        Verb::Pid => Answer::ok(format!("Master: {0:10}\nWorker: {0:10}\n", std::process::id())),
        Verb::Tls => Answer::new(Status::Cannot, NO_TLS),
        // Answered where they are read.
        Verb::Auth | Verb::Banner | Verb::Help | Verb::Ping | Verb::Quit => Answer::ok(""),
    }
}

fn standing(state: &State) -> String {
    format!("Child in state {}", running_word(state))
}

fn running_word(state: &State) -> &'static str {
    if state.site.is_running() { "running" } else { "stopped" }
}

/// An answer about a VCL that has to be there.
fn named(found: Result<String, NameError>) -> Answer {
    match found {
        Ok(text) => Answer::ok(text),
        Err(error) => {
            let status = match error {
                NameError::Active(_)
                | NameError::Labelled(..)
                | NameError::LabelNeeded(..)
                | NameError::Cold(_)
                | NameError::LabelOfLabel => Status::Cannot,
                NameError::Unknown(_)
                | NameError::Taken(_)
                | NameError::Invalid(_)
                | NameError::InvalidLabel(_)
                | NameError::NoMatch(_)
                | NameError::NotLabel(_)
                | NameError::Loop(..)
                | NameError::TooMany => Status::Parameter,
            };
            Answer::new(status, format!("{error}\n"))
        }
    }
}

/// Starts to serve.
pub async fn start(state: &mut State) -> Answer {
    if state.site.is_running() {
        return Answer::new(Status::Cannot, standing(state));
    }
    let Some(vcl) = state.vcls.active() else {
        return Answer::new(Status::Cannot, "No VCL available\n");
    };
    match state.site.serve(&state.settings, &state.vcls.served(vcl, state.times()), &state.log).await {
        Ok(()) => Answer::ok(""),
        Err(failure) => Answer::new(Status::Cannot, failure.rendered()),
    }
}

async fn stop(state: &mut State) -> Answer {
    if !state.site.is_running() {
        return Answer::new(Status::Cannot, standing(state));
    }
    state.site.stop(&state.log).await;
    Answer::ok("")
}

/// Loads a VCL that is to be kept in this state, and makes it ready to answer requests.
async fn load_as(state: &mut State, name: &str, source: &Source, wanted: &str) -> Answer {
    let Some(wanted) = wanted_of(wanted) else { return no_such_state() };
    let answer = load(state, name, source);
    if answer.status != Status::Ok {
        return answer;
    }
    state.vcls.care_for(name, wanted, state.times().now);
    match serve_again(state).await {
        Ok(()) => answer,
        Err(failure) => {
            state.vcls.take_back();
            Answer::new(Status::Parameter, failure)
        }
    }
}

/// Serves what is active once more, as what is kept ready beside it has changed. Does nothing while nothing is served.
pub async fn serve_again(state: &mut State) -> Result<(), String> {
    let times = state.times();
    match state.vcls.active() {
        Some(vcl) if state.site.is_running() => {
            let served = state.vcls.served(vcl, times);
            state.site.serve(&state.settings, &served, &state.log).await.map_err(|failure| failure.rendered())
        }
        _ => Ok(()),
    }
}

/// The state of a VCL that a word names; `auto` where there is none.
fn wanted_of(word: &str) -> Option<Wanted> {
    if word.is_empty() { Some(Wanted::Auto) } else { word.parse().ok() }
}

fn no_such_state() -> Answer {
    Answer::new(Status::Parameter, "State must be one of auto, cold or warm.")
}

/// Compiles a VCL and keeps it under a name. What runs goes on in any case.
pub fn load(state: &mut State, name: &str, source: &Source) -> Answer {
    if let Err(error) = state.vcls.is_free(name) {
        return named(Err(error));
    }
    let labels = state.vcls.labels();
    let surroundings =
        Surroundings { settings: &state.settings, storages: &state.site.fixed().storages, labels: &labels };
    let (vcl, notices) = match source.compile(name, surroundings) {
        Ok(compiled) => compiled,
        Err(errors) => return Answer::new(Status::Parameter, format!("{errors}VCL compilation failed\n")),
    };
    let is_first = state.vcls.active().is_none();
    state.vcls.add(vcl);
    let times = state.times();
    let tried = state.vcls.get(name).map(|vcl| state.site.try_out(&state.settings, &state.vcls.served(vcl, times)));
    if let Ok(Err(failure)) = tried {
        state.vcls.take_back();
        return Answer::new(Status::Parameter, format!("{}VCL compilation failed\n", failure.rendered()));
    }
    if is_first {
        // As with varnishd, the first one is active.
        state.vcls.activate(name, times.now);
    }
    Answer::ok(format!("{notices}VCL compiled.\n"))
}

async fn use_vcl(state: &mut State, name: &str) -> Answer {
    let vcl = match state.vcls.get(name) {
        Ok(vcl) if vcl.care.wanted == Wanted::Cold => return named(Err(NameError::Cold(name.to_owned()))),
        Ok(vcl) => vcl,
        Err(error) => return named(Err(error)),
    };
    let times = state.times();
    let served = state.vcls.served(vcl, times);
    if state.site.is_running()
        && let Err(failure) = state.site.serve(&state.settings, &served, &state.log).await
    {
        return Answer::new(Status::Parameter, failure.rendered());
    }
    state.vcls.activate(name, times.now);
    Answer::ok(format!("VCL '{name}' now active"))
}

/// Makes or moves a label. New requests follow it at once.
async fn label(state: &mut State, label: &str, vcl: &str) -> Answer {
    let before = match state.vcls.label(label, vcl) {
        Ok(before) => before,
        Err(error) => return named(Err(error)),
    };
    // What has a label is ready.
    match serve_again(state).await {
        Ok(()) => Answer::ok(""),
        Err(failure) => {
            state.vcls.restore_label(label, before);
            Answer::new(Status::Parameter, failure)
        }
    }
}

/// Has a VCL rest, or keeps it ready.
async fn vcl_state(state: &mut State, name: &str, wanted: &str) -> Answer {
    let is_active = state.vcls.active().is_some_and(|vcl| vcl.name == name);
    let wanted = match (state.vcls.entry(name), wanted.parse()) {
        (None, _) => return named(Err(NameError::Unknown(name.to_owned()))),
        (Some(Entry::Label { .. }), _) => return Answer::new(Status::Parameter, "Labels are always warm"),
        (Some(Entry::Vcl(_)), Err(())) => return no_such_state(),
        (Some(Entry::Vcl(_)), Ok(Wanted::Cold)) if !state.vcls.users_of(name).is_empty() => {
            return Answer::new(Status::Cannot, "A labeled VCL cannot be set cold");
        }
        (Some(Entry::Vcl(_)), Ok(Wanted::Cold)) if is_active => {
            return Answer::new(Status::Cannot, "Cannot set the active VCL cold.");
        }
        (Some(Entry::Vcl(_)), Ok(wanted)) => wanted,
    };
    state.vcls.care_for(name, wanted, state.times().now);
    match serve_again(state).await {
        Ok(()) => Answer::ok(""),
        Err(failure) => Answer::new(Status::Parameter, failure),
    }
}

async fn discard(state: &mut State, patterns: &[String]) -> Answer {
    let discarded = named(state.vcls.discard(patterns).map(|()| String::new()));
    // What goes is probed no longer.
    if discarded.status == Status::Ok
        && let Err(failure) = serve_again(state).await
    {
        state.log.write(LogLevel::Error, failure.trim_end());
    }
    discarded
}

fn show(state: &State, words: &[String]) -> Answer {
    let names: Vec<&String> = words.iter().filter(|word| *word != "-v").collect();
    let found = match names[..] {
        [] => state.vcls.active().ok_or(NameError::Unknown("active".to_owned())),
        [name, ..] => state.vcls.get(name),
    };
    named(found.map(|vcl| match names.len() == words.len() {
        true => vcl.text(),
        false => vcl.files.iter().enumerate().fold(String::new(), |mut text, (number, (path, bytes))| {
            text.push_str(&format!("// VCL.SHOW {number} {} {}\n", bytes.len(), path.display()));
            text.push_str(&String::from_utf8_lossy(bytes));
            text.push('\n');
            text
        }),
    }))
}

/// Changes a parameter that the words name, behind `-j` perhaps, and what is served with it. After an error, everything
/// is as it was.
async fn change_parameter(
    state: &mut State,
    words: &[String],
    change: impl FnOnce(&mut Settings, &str, &str) -> Result<(), String>,
) -> Answer {
    let is_json = words.get(1).is_some_and(|word| word == "-j");
    let word = |at: usize| words.get(at + usize::from(is_json)).map(String::as_str).unwrap_or_default();
    let name = word(1);
    if state.read_only.iter().any(|protected| protected == name) {
        return Answer::new(Status::Auth, format!("parameter \"{name}\" is protected."));
    }
    let mut settings = state.settings.clone();
    if let Err(why) = change(&mut settings, name, word(2)) {
        let to = if word(2).is_empty() { String::new() } else { format!(" to '{}'", word(2)) };
        return Answer::new(Status::Parameter, format!("{why}\n\n(attempting to set param '{name}'{to})\n"));
    }
    let is_served = state.site.is_running() && settings.differ_from(&state.settings);
    if let (true, Some(vcl)) = (is_served, state.vcls.active())
        && let Err(failure) = state.site.serve(&settings, &state.vcls.served(vcl, state.times()), &state.log).await
    {
        return Answer::new(Status::Parameter, failure.rendered());
    }
    state.site.fixed().transactions.set(settings.log());
    state.settings = settings;
    match is_json {
        true => params::show(&state.settings, &state.read_only, &words[..words.len().min(3)]),
        false => Answer::ok(""),
    }
}

fn storage_list(state: &State) -> String {
    let line = |storage: &Storage| format!("\tstorage.{} = {}\n", storage.name, kind_word(storage));
    let lines: String = state.site.fixed().storages.iter().map(line).collect();
    format!("Storage devices:\n{lines}")
}

fn storage_list_json(state: &State, words: &[String]) -> String {
    let one = |storage: &Storage| json!({ "name": storage.name, "storage": kind_word(storage) });
    protocol::json(2, words, state.site.fixed().storages.iter().map(one).collect())
}

fn kind_word(storage: &Storage) -> &'static str {
    match storage.kind {
        Kind::Memory { .. } => "malloc",
        Kind::Disk { .. } => "file",
    }
}

/// Workers get numbers one by one, so that a chunk of them is one, whatever is asked for.
fn debug_xid(words: &[String]) -> Answer {
    let numbers: Result<Vec<u64>, _> = words.iter().map(|word| word.parse()).collect();
    match numbers.as_deref() {
        Ok([]) => Answer::ok(format!("XID is {} chunk 1", xid::coming())),
        Ok([number, ..]) => {
            xid::go_on_from(*number);
            Answer::ok(format!("XID is {number} chunk 1"))
        }
        Err(_) => Answer::new(Status::Parameter, "write a number\n"),
    }
}

fn debug_listen(state: &State) -> Answer {
    let endpoints = state.site.fixed().endpoints.iter();
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

/// Begins as varnishd says it where no address has TLS.
const NO_TLS: &str = "TLS has not been configured: larder varnishd listens without it.\n\
    Serve the VCL from nginx.conf, with \"listen 443 ssl;\" and \"vcl FILE;\"; or let what is in front take TLS, and \
    listen with -a ADDRESS,PROXY.\n";
