//! `ban` and `ban.list`: pages that operators make unusable.

use larder_server::bans::{BanFault, Listed};
use serde_json::{Value, json};

use super::cli::protocol::{self, Answer, Status};
use super::state::State;

/// `ban FIELD OPERATOR ARG [&& FIELD OPERATOR ARG ...]`
pub async fn ban(state: &State, words: &[String]) -> Answer {
    let Some(server) = state.site.server() else { return not_running() };
    match server.ban(words).await {
        Ok(()) => Answer::ok(""),
        Err(BanFault::Refused(why)) => Answer::new(Status::Parameter, format!("{why}\n")),
        Err(BanFault::NotKept(why)) => Answer::new(Status::Cannot, format!("{why}\n")),
    }
}

/// `ban.list [-j]`
pub fn list(state: &State, words: &[String]) -> Answer {
    let Some(server) = state.site.server() else { return not_running() };
    match words.get(1).map(String::as_str) {
        None => Answer::ok(as_lines(&server.bans())),
        Some("-j") => Answer::ok(protocol::json(2, words, as_json(&server.bans()))),
        Some(other) => Answer::new(Status::Parameter, format!("Invalid flag {other}\n")),
    }
}

fn not_running() -> Answer {
    Answer::new(Status::Cannot, "Child in state stopped; there are no pages\n")
}

fn as_lines(bans: &[Listed]) -> String {
    let line = |ban: &Listed| {
        let mark = if ban.is_done { 'C' } else { '-' };
        format!("{:10.6} {:5} {mark}  {}\n", ban.made_at.secs_f64(), ban.pages, ban.text)
    };
    format!("Present bans:\n{}", bans.iter().map(line).collect::<String>())
}

fn as_json(bans: &[Listed]) -> Vec<Value> {
    let shown = |ban: &Listed| json!({ "time": ban.made_at.secs_f64(), "refs": ban.pages, "completed": ban.is_done, "spec": ban.text });
    bans.iter().map(shown).collect()
}
