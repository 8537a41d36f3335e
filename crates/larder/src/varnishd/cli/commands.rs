//! The commands that the CLI has.

use serde_json::{Value, json};

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
    /// Something about certificates.
    Tls,
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
    /// What VCLs and labels import, and from whom.
    VclSymtab,
    /// Whether a VCL may rest.
    VclState,
    /// Answer requests by a VCL.
    VclUse,
}

/// A command.
struct Row {
    name: &'static str,
    /// How many words it takes, `-j` aside.
    least: usize,
    most: usize,
    words: &'static str,
    verb: Verb,
    /// What it does.
    help: &'static str,
}

impl Row {
    /// The command with the words that it takes.
    fn syntax(&self) -> String {
        format!("{} {}", self.name, self.words).trim_end().to_owned()
    }

    /// Whether it answers in JSON where its first word is `-j`.
    fn has_json(&self) -> bool {
        self.words.contains("-j")
    }

    /// Whether it is for those who work on Varnish, and not listed unless that is asked for.
    fn is_debugging(&self) -> bool {
        self.name.starts_with("debug.") || self.verb == Verb::VclSymtab
    }
}

/// How many words a command has that takes as many as one likes.
const WORDS_MAX: usize = 4096;

const fn row(
    name: &'static str,
    least: usize,
    most: usize,
    words: &'static str,
    verb: Verb,
    help: &'static str,
) -> Row {
    Row { name, least, most, words, verb, help }
}

const TABLE: [Row; 38] = [
    row("auth", 1, 1, "<response>", Verb::Auth, "Shows that the client knows the secret."),
    row(
        "backend.list",
        0,
        2,
        "[-j] [-p] [<backend_pattern>]",
        Verb::BackendList,
        "Lists backends, with -p what probes found.",
    ),
    row(
        "backend.set_health",
        2,
        2,
        "<backend_pattern> auto|healthy|sick",
        Verb::BackendSetHealth,
        "Says how backends are, or has their probes say it.",
    ),
    row(
        "ban",
        3,
        WORDS_MAX,
        "<field> <operator> <arg> [&& <field> <oper> <arg> ...]",
        Verb::Ban,
        "Makes the pages unusable that all conditions mean.",
    ),
    row(
        "ban.list",
        0,
        0,
        "[-j]",
        Verb::BanList,
        "Lists the bans: when, pages that are at it, C if it is done, conditions.",
    ),
    row("banner", 0, 0, "", Verb::Banner, "Says hello once more."),
    row("debug.fragfetch", 1, 1, "<bytes>", Verb::DebugFragfetch, "Is taken, and changes nothing here."),
    row("debug.listen_address", 0, 0, "", Verb::DebugListen, "Lists the addresses that requests come to."),
    row("debug.xid", 0, 2, "[<xid> [<cachesize>]]", Verb::DebugXid, "Shows or sets the number of the next request."),
    row("help", 0, 1, "[-j|<command>]", Verb::Help, "Lists the commands; with -a all, with -d those for debugging."),
    row("panic.clear", 0, 1, "[-z]", Verb::PanicClear, "Forgets the last panic."),
    row("panic.show", 0, 0, "[-j]", Verb::PanicShow, "Shows the last panic."),
    row("param.reset", 1, 1, "[-j] <param>", Verb::ParamReset, "Gives a parameter its default back."),
    row("param.set", 2, 2, "[-j] <param> <value>", Verb::ParamSet, "Sets a parameter."),
    row("param.show", 0, 2, "[-l|-j] [<param>|changed]", Verb::ParamShow, "Shows parameters, with -l what they mean."),
    row("pid", 0, 0, "[-j]", Verb::Pid, "Shows the number of the process."),
    row("ping", 0, 1, "[-j] [<timestamp>]", Verb::Ping, "Is answered."),
    row("quit", 0, 0, "", Verb::Quit, "Closes the connection."),
    row("start", 0, 0, "", Verb::Start, "Begins to serve."),
    row("status", 0, 0, "[-j]", Verb::Status, "Says whether it serves."),
    row("stop", 0, 0, "", Verb::Stop, "Stops serving."),
    row("storage.list", 0, 0, "[-j]", Verb::StorageList, "Lists storages."),
    row("tls.cert.commit", 0, 0, "", Verb::Tls, TLS),
    row("tls.cert.discard", 1, 1, "<cert-id>", Verb::Tls, TLS),
    row("tls.cert.list", 0, 1, "[-j] [-s]", Verb::Tls, TLS),
    row("tls.cert.load", 1, WORDS_MAX, "[<cert-id>] <cert-file> [-k key-file] [...]", Verb::Tls, TLS),
    row("tls.cert.reload", 0, 0, "", Verb::Tls, TLS),
    row("tls.cert.rollback", 0, 0, "", Verb::Tls, TLS),
    row("vcl.deps", 0, 0, "[-j]", Verb::VclDeps, "Lists VCLs and labels with those that they need."),
    row("vcl.discard", 1, WORDS_MAX, "<name_pattern>...", Verb::VclDiscard, "Forgets VCLs and labels."),
    row(
        "vcl.inline",
        2,
        3,
        "<configname> <quoted_VCLstring> [auto|cold|warm]",
        Verb::VclInline,
        "Loads a VCL that is written here.",
    ),
    row("vcl.label", 2, 2, "<label> <configname>", Verb::VclLabel, "Gives a VCL a label."),
    row("vcl.list", 0, 0, "[-j]", Verb::VclList, "Lists VCLs and labels."),
    row("vcl.load", 2, 3, "<configname> <filename> [auto|cold|warm]", Verb::VclLoad, "Loads a VCL from a file."),
    row("vcl.show", 0, 2, "[-v] [<configname>]", Verb::VclShow, "Shows the text of a VCL, with -v of all its files."),
    row("vcl.state", 2, 2, "<configname> auto|cold|warm", Verb::VclState, "Has a VCL rest, or keeps it ready."),
    row("vcl.symtab", 0, 0, "", Verb::VclSymtab, "Shows what VCLs and labels import, and from whom."),
    row("vcl.use", 1, 1, "<configname|label>", Verb::VclUse, "Answers requests by a VCL from now on."),
];

const TLS: &str = "Is refused: larder varnishd listens without TLS.";

/// Commands of varnishd that larder does not have.
const NOT_BUILT: [&str; 7] = [
    "debug.panic.master",
    "debug.panic.worker",
    "debug.persistent",
    "debug.reqpool.fail",
    "debug.shutdown.delay",
    "debug.srandom",
    "debug.vmod",
];

/// What the words of a command ask for, or why nothing.
pub fn verb(words: &[String]) -> Result<Verb, Answer> {
    let Some((name, rest)) = words.split_first() else {
        return Err(Answer::new(Status::Syntax, "No command\n"));
    };
    let Some(row) = TABLE.iter().find(|row| row.name == name) else {
        return Err(match NOT_BUILT.contains(&name.as_str()) {
            true => Answer::new(Status::NotBuilt, format!("larder has no {name}.\n")),
            false => unknown(),
        });
    };
    let is_json = rest.first().is_some_and(|word| word == "-j");
    if is_json && !row.has_json() {
        return Err(Answer::new(Status::NotBuilt, "JSON unimplemented\n"));
    }
    match rest.len() - usize::from(is_json) {
        count if count < row.least => Err(Answer::new(Status::TooFew, "Too few parameters\n")),
        count if count > row.most => Err(Answer::new(Status::TooMany, "Too many parameters\n")),
        _ => Ok(row.verb),
    }
}

fn unknown() -> Answer {
    Answer::new(Status::Unknown, "Unknown request.\nType 'help' for more info.\n")
}

/// What can be asked for, or the words of one command; with `-j` as JSON.
pub fn help(words: &[String]) -> Answer {
    let syntaxes = |is_meant: fn(&Row) -> bool| {
        let rows = TABLE.iter().filter(|row| is_meant(row));
        Answer::ok(rows.map(|row| row.syntax() + "\n").collect::<String>())
    };
    match words.get(1).map(String::as_str) {
        None => syntaxes(|row| !row.is_debugging()),
        Some("-a") => syntaxes(|_| true),
        Some("-d") => syntaxes(Row::is_debugging),
        Some("-j") => Answer::ok(protocol::json(2, words, TABLE.iter().map(as_json).collect())),
        Some(name) => match TABLE.iter().find(|row| row.name == name) {
            Some(row) => Answer::ok(format!("{}\n{}\n", row.syntax(), row.help)),
            None => unknown(),
        },
    }
}

fn as_json(row: &Row) -> Value {
    json!({
        "request": row.name,
        "syntax": row.syntax(),
        "help": row.help,
        "minarg": row.least,
        "maxarg": if row.most == WORDS_MAX { -1 } else { i64::try_from(row.most).unwrap_or(-1) },
        "flags": if row.is_debugging() { "d" } else { "" },
        "json": row.has_json(),
    })
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
            ("vcl.symtab", Ok(Verb::VclSymtab)),
            ("debug.vmod", Err(Status::NotBuilt)),
            ("ban.list -j", Ok(Verb::BanList)),
            ("ban.list -x", Err(Status::TooMany)),
            ("param.set -j a", Err(Status::TooFew)),
            ("param.set -j a 1", Ok(Verb::ParamSet)),
            ("vcl.use -j", Err(Status::NotBuilt)),
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
        let lines = |words: &str| help(words).text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines("help -a").len(), TABLE.len());
        assert_eq!(lines("help -d").len() + lines("help").len(), TABLE.len());
        assert!(lines("help -d").iter().all(|line| line.starts_with("debug.") || line == "vcl.symtab"));
        assert_eq!(lines("help vcl.use"), ["vcl.use <configname|label>", "Answers requests by a VCL from now on."]);
        assert_eq!(help("help x").status, Status::Unknown);
        let all: serde_json::Value = serde_json::from_str(&help("help -j").text).unwrap();
        assert_eq!((&all[3]["request"], &all[4]["json"]), (&json!("auth"), &json!(true)));
        assert_eq!((&all[9]["flags"], &all[9]["request"]), (&json!("d"), &json!("debug.fragfetch")));
        assert!(TABLE.is_sorted_by(|one, next| one.name < next.name));
    }
}
