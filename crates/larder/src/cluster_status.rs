//! `larder cluster status`: the cluster of a running server, as a table, and in the exit code whether all is well.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde_json::Value;

use crate::amounts::duration;
use crate::ask;
use crate::ask::options::Ask;
use crate::top::plain;

/// Shows it; as JSON with `--json`.
pub fn run(asked: &Ask) -> ExitCode {
    let told = match ask::answer(asked) {
        Ok(told) => told,
        Err(error) => return ask::failure(error),
    };
    // A server of another version: what is not there is not shown.
    let status: Value = serde_json::from_str(&told).unwrap_or_default();
    let shown = if asked.json { format!("{told}\n") } else { text(&status) };
    match io::stdout().write_all(shown.as_bytes()) {
        Ok(()) if is_well(&status) => ExitCode::SUCCESS,
        Ok(()) => ExitCode::from(NOT_WELL),
        Err(_) => ExitCode::FAILURE,
    }
}

/// Whether nothing is wrong with the server, all nodes are there under names of their own, and this one uses what it has
/// stored.
fn is_well(status: &Value) -> bool {
    let is_sound = status["fault"].is_null() && status["uses_stored_pages"] == true;
    is_sound && nodes(status).iter().all(|node| node["state"] != "away" && namesake(node).is_none())
}

fn nodes(status: &Value) -> &[Value] {
    status["nodes"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The name that a node shares with another one, if it had to take a name of its own: a configured one has no `~`.
fn namesake(node: &Value) -> Option<&str> {
    let (name, _) = node["name"].as_str()?.split_once('~')?;
    // Nobody knows whether one that is away still runs.
    (node["state"] != "away").then_some(name)
}

fn text(status: &Value) -> String {
    let at = |name: &str| plain(&status[name]);
    let mut text = format!("Cluster {}, node {}, by {}: ", at("name"), at("node"), at("server"));
    let ago = |name: &str| status[name].as_f64().map(duration);
    text.push_str(&match (&status["fault"], ago("heard_ago")) {
        (Value::Null, Some(_)) => "up\n".to_owned(),
        (Value::Null, None) => "nothing was heard of it yet\n".to_owned(),
        (_, Some(_)) if status["reads_purges"] == true => format!("takes no purges, as it {}\n", at("fault")),
        (_, None) => format!("of no use, as it {}\n", at("fault")),
        (_, Some(ago)) => format!("of no use since {ago}, as it {}\n", at("fault")),
    });
    let uses = if status["uses_stored_pages"] == true { "are used" } else { "are not used now" };
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "Stored pages {uses}. Purges: {} sent, {} that wait to be sent, {} of others carried out.",
        at("sent"),
        at("unsent"),
        at("carried_out"),
    );
    text.push('\n');
    let nodes = nodes(status);
    if nodes.is_empty() {
        text.push_str("Which nodes there are is not known yet.\n");
        return text;
    }
    match (status["fault"].is_null(), status["reads_purges"] == true, ago("looked_ago")) {
        (false, true, _) => text.push_str("Nodes that cannot write there seem to be away:\n"),
        (false, false, Some(ago)) => drop(writeln!(text, "The nodes, as they were {ago} ago:")),
        (true, ..) | (false, false, None) => {}
    }
    let rows: Vec<[String; 5]> = nodes.iter().map(row).collect();
    text.push_str(&table(&HEAD.map(str::to_owned), &rows));
    for (node, name) in nodes.iter().filter_map(|node| Some((node, namesake(node)?))) {
        let (node, name) = (plain(&node["name"]), plain(&name.into()));
        let _ = writeln!(text, "{node}: two nodes are called {name}: give each its own \"node=\"");
    }
    text
}

/// What is behind: purges that are not carried out, and how long the oldest has waited.
const HEAD: [&str; 5] = ["NODE", "STATE", "BEHIND", "FOR", "PLACE"];

fn row(node: &Value) -> [String; 5] {
    let state = match (node["away_seconds"].as_f64(), node["is_this"] == true) {
        (Some(seconds), _) => format!("away {}", duration(seconds)),
        (None, true) => "this one".to_owned(),
        (None, false) => plain(&node["state"]),
    };
    let lag = &node["lag"];
    let more = if lag["is_more"] == true { "+" } else { "" };
    let time = match (lag["milliseconds"].as_f64(), lag["entries"].as_u64()) {
        (Some(millis), Some(1..)) => format!("{}{more}", duration(millis / 1000.0)),
        _ => "-".to_owned(),
    };
    [plain(&node["name"]), state, format!("{}{more}", plain(&lag["entries"])), time, plain(&node["place"])]
}

/// Columns as wide as what is in them; the third and fourth are numbers.
fn table(head: &[String; 5], rows: &[[String; 5]]) -> String {
    let all = || std::iter::once(head).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let [name, state, behind, time, _] = std::array::from_fn(width);
    let mut text = String::new();
    for row in all() {
        let _ =
            writeln!(text, "{:name$}  {:state$}  {:>behind$}  {:>time$}  {}", row[0], row[1], row[2], row[3], row[4]);
    }
    text
}

/// The exit code if something is not well; 1 says that there is nothing to see.
const NOT_WELL: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn status() -> Value {
        json!({
            "server": "redis://a:6379", "name": "shop", "node": "web1", "fault": null, "uses_stored_pages": true,
            "heard_ago": 0.1, "looked_ago": 0.5, "sent": 12, "unsent": 0, "carried_out": 30,
            "nodes": [
                { "name": "web1", "is_this": true, "state": "there", "away_seconds": null, "place": "17-0",
                  "lag": { "entries": 0, "milliseconds": 0, "is_more": false } },
                { "name": "web\u{1b}2", "is_this": false, "state": "there", "away_seconds": null, "place": "16-0",
                  "lag": { "entries": 3, "milliseconds": 2, "is_more": false } },
            ],
        })
    }

    #[test]
    fn nodes_are_a_table() {
        let expected = "Cluster shop, node web1, by redis://a:6379: up
Stored pages are used. Purges: 12 sent, 0 that wait to be sent, 30 of others carried out.

NODE   STATE     BEHIND    FOR  PLACE
web1   this one       0      -  17-0
web?2  there          3  2.0ms  16-0
";
        assert_eq!(text(&status()), expected);
        assert!(is_well(&status()));
    }

    #[test]
    fn what_is_not_well_is_seen() {
        let mut away = status();
        away["nodes"][1] = json!({ "name": "web2", "is_this": false, "state": "away", "away_seconds": 12, "place": "5-0",
            "lag": { "entries": 10_000, "milliseconds": 90_000, "is_more": true } });
        assert!(text(&away).ends_with("web2  away 12s  10000+  90s+  5-0\n"), "{}", text(&away));
        let mut namesake = status();
        namesake["nodes"][1]["name"] = "web\u{1b}1~3537af86".into();
        let shown = text(&namesake);
        let expected = "  16-0\nweb?1~3537af86: two nodes are called web?1: give each its own \"node=\"\n";
        assert!(shown.ends_with(expected), "{shown}");
        let mut gone = namesake.clone();
        (gone["nodes"][1]["state"], gone["nodes"][1]["away_seconds"]) = ("away".into(), 12.into());
        assert!(text(&gone).ends_with("  16-0\n"), "nobody knows whether it still runs: {}", text(&gone));
        let mut of_no_use = status();
        (of_no_use["fault"], of_no_use["heard_ago"]) = ("is full".into(), 20.into());
        let shown = text(&of_no_use);
        assert!(shown.contains(": of no use since 20s, as it is full\n"), "{shown}");
        assert!(shown.contains("The nodes, as they were 500ms ago:\nNODE "), "{shown}");
        let mut full = status();
        (full["fault"], full["reads_purges"]) = ("is full: raise it".into(), true.into());
        let shown = text(&full);
        assert!(shown.contains(": takes no purges, as it is full: raise it\nStored pages are used."), "{shown}");
        assert!(shown.contains("\nNodes that cannot write there seem to be away:\nNODE "), "{shown}");
        let mut unused = status();
        unused["uses_stored_pages"] = false.into();
        assert!(text(&unused).contains("Stored pages are not used now."));
        let mut new = status();
        (new["nodes"], new["heard_ago"], new["uses_stored_pages"]) = (json!([]), Value::Null, false.into());
        let shown = text(&new);
        assert!(shown.contains(": nothing was heard of it yet\n"), "{shown}");
        assert!(shown.ends_with("Which nodes there are is not known yet.\n"), "{shown}");
        for status in [away, namesake, gone, of_no_use, full, unused, new, Value::Null] {
            assert!(!is_well(&status), "{status}");
        }
    }
}
