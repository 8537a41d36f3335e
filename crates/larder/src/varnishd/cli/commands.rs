//! The commands that the CLI has.

use serde_json::json;

use super::protocol::{self, Answer, Status};

/// What a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Show that it knows the secret.
    Auth,
    /// The backends, and how they are.
    BackendList,
    /// Say how a backend is.
    BackendSetHealth,
    /// Make pages unusable that are in the cache.
    Ban,
    /// What was made unusable.
    BanList,
    /// Say hello again.
    Banner,
    /// How much varnishd fetches at once; nothing here depends on it.
    DebugFragfetch,
    /// Go on from this number of a request.
    DebugXid,
    /// Where requests come in.
    DebugListen,
    /// What can be asked for.
    Help,
    /// Forget that serving broke.
    PanicClear,
    /// What happened when serving broke.
    PanicShow,
    /// Give a parameter its default back.
    ParamReset,
    /// Set a parameter.
    ParamSet,
    /// What parameters are set to.
    ParamShow,
    /// The number of this process.
    Pid,
    /// Are you there?
    Ping,
    /// Close the connection.
    Quit,
    /// Serve.
    Start,
    /// Whether it serves.
    Status,
    /// Stop serving.
    Stop,
    /// The storages.
    StorageList,
    /// What VCLs and labels need.
    VclDeps,
    /// Forget a VCL.
    VclDiscard,
    /// Load a VCL that is part of the command.
    VclInline,
    /// Give a VCL a label.
    VclLabel,
    /// The VCLs.
    VclList,
    /// Load a VCL from a file.
    VclLoad,
    /// The text of a VCL.
    VclShow,
    /// Whether a VCL may rest.
    VclState,
    /// Answer requests by a VCL.
    VclUse,
}

/// A command: its name, how many words it takes, and what it asks for.
struct Row {
    name: &'static str,
    least: usize,
    most: usize,
    words: &'static str,
    verb: Verb,
}

impl Row {
    /// The command with the words that it takes.
    fn syntax(&self) -> String {
        format!("{} {}", self.name, self.words).trim_end().to_owned()
    }
}

/// How many words a command has that takes as many as one likes.
const WORDS_MAX: usize = 4096;

const fn row(name: &'static str, least: usize, most: usize, words: &'static str, verb: Verb) -> Row {
    Row { name, least, most, words, verb }
}

const TABLE: [Row; 31] = [
    row("auth", 1, 1, "<response>", Verb::Auth),
    row("backend.list", 0, 4, "[-j] [-p] [<backend_pattern>]", Verb::BackendList),
    row("backend.set_health", 2, 2, "<backend_pattern> auto|healthy|sick", Verb::BackendSetHealth),
    row("ban", 3, WORDS_MAX, "<field> <operator> <arg> [&& <field> <oper> <arg> ...]", Verb::Ban),
    row("ban.list", 0, 1, "[-j]", Verb::BanList),
    row("banner", 0, 0, "", Verb::Banner),
    row("debug.fragfetch", 1, 1, "<bytes>", Verb::DebugFragfetch),
    row("debug.listen_address", 0, 0, "", Verb::DebugListen),
    row("debug.xid", 0, 2, "[<xid>]", Verb::DebugXid),
    row("help", 0, 1, "[-j|<command>]", Verb::Help),
    row("panic.clear", 0, 1, "[-z]", Verb::PanicClear),
    row("panic.show", 0, 1, "", Verb::PanicShow),
    row("param.reset", 1, 1, "<param>", Verb::ParamReset),
    row("param.set", 2, 2, "<param> <value>", Verb::ParamSet),
    row("param.show", 0, 3, "[-l] [-j] [<param>|changed]", Verb::ParamShow),
    row("pid", 0, 1, "[-j]", Verb::Pid),
    row("ping", 0, 1, "[-j] [<timestamp>]", Verb::Ping),
    row("quit", 0, 0, "", Verb::Quit),
    row("start", 0, 0, "", Verb::Start),
    row("status", 0, 1, "[-j]", Verb::Status),
    row("stop", 0, 0, "", Verb::Stop),
    row("storage.list", 0, 1, "[-j]", Verb::StorageList),
    row("vcl.deps", 0, 1, "[-j]", Verb::VclDeps),
    row("vcl.discard", 1, 64, "<name_pattern>...", Verb::VclDiscard),
    row("vcl.inline", 2, 3, "<name> <quoted text> [auto|cold|warm]", Verb::VclInline),
    row("vcl.label", 2, 2, "<label> <configname>", Verb::VclLabel),
    row("vcl.list", 0, 1, "[-j]", Verb::VclList),
    row("vcl.load", 2, 3, "<name> <file> [auto|cold|warm]", Verb::VclLoad),
    row("vcl.show", 0, 2, "[-v] [<name>]", Verb::VclShow),
    row("vcl.state", 2, 2, "<name> auto|cold|warm", Verb::VclState),
    row("vcl.use", 1, 1, "<name>", Verb::VclUse),
];

/// Commands of varnishd that larder does not have.
const NOT_BUILT: [&str; 4] = ["debug.vmod", "pid.file", "tls.cert.list", "vcl.symtab"];

/// What the words of a command ask for, or why nothing.
pub fn verb(words: &[String]) -> Result<Verb, Answer> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Answer::new(Status::Syntax, "No command\n"));
    };
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(match NOT_BUILT.contains(&name.as_str()) {
            true => Answer::new(Status::NotBuilt, format!("{name} is not built yet.\n")),
            false => Answer::new(Status::Unknown, "Unknown request.\nType 'help' for more info.\n"),
        });
    };
    match rest.len() {
        count if count < row.least => Err(Answer::new(Status::TooFew, "Too few parameters\n")),
        count if count > row.most => Err(Answer::new(Status::TooMany, "Too many parameters\n")),
        _ => Ok(row.verb),
    }
}

/// What can be asked for, or the words of one command; with `-j` as JSON.
pub fn help(words: &[String]) -> Answer {
    let asked = words.get(1).map(String::as_str);
    if asked == Some("-j") {
        let one = |row: &Row| {
            json!({
                "request": row.name,
                "syntax": row.syntax(),
                "help": "",
                "minarg": row.least,
                "maxarg": if row.most == WORDS_MAX { -1 } else { i64::try_from(row.most).unwrap_or(-1) },
                "flags": "",
                "json": row.words.contains("-j"),
            })
        };
        return Answer::ok(protocol::json(2, words, TABLE.iter().map(one).collect()));
    }
    let rows: Vec<&Row> = TABLE.iter().filter(|row| asked.is_none_or(|name| row.name == name)).collect();
    if rows.is_empty() {
        return Answer::new(Status::Unknown, "Unknown request.\nType 'help' for more info.\n");
    }
    let lines = rows.iter().map(|row| row.syntax() + "\n");
    Answer::ok(lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_known_with_as_many_words_as_it_takes() {
        for (line, expected) in [
            ("ping", Ok(Verb::Ping)),
            ("vcl.load a b", Ok(Verb::VclLoad)),
            ("vcl.load a b cold", Ok(Verb::VclLoad)),
            ("vcl.load a", Err(Status::TooFew)),
            ("quit now", Err(Status::TooMany)),
            ("PING", Err(Status::Unknown)),
            ("ban req.url ~ x", Ok(Verb::Ban)),
            ("ban req.url", Err(Status::TooFew)),
            ("vcl.symtab", Err(Status::NotBuilt)),
            ("vcl.label a b", Ok(Verb::VclLabel)),
            ("", Err(Status::Syntax)),
        ] {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            assert_eq!(verb(&words).map_err(|answer| answer.status), expected, "{line}");
        }
    }

    #[test]
    fn help_has_every_command() {
        let help = |words: &str| help(&words.split(' ').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(help("help").text.lines().count(), TABLE.len());
        assert_eq!(help("help vcl.use").text, "vcl.use <name>\n");
        assert_eq!(help("help x").status, Status::Unknown);
        let all: serde_json::Value = serde_json::from_str(&help("help -j").text).unwrap();
        assert_eq!((&all[3]["request"], &all[4]["json"]), (&json!("auth"), &json!(true)));
        assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
    }
}
