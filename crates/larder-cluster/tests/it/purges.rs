//! Purges reach other nodes, whatever happens.

use larder_cluster::{Away, Heard, Place, Settings, UNSENT_FILE};
use larder_testkit::Redis;
use std::time::Duration;

use crate::node::{Node, clock, files, settings, until};

const LOG: &str = "larder:{shop}:log";

#[test]
fn a_purge_is_known_everywhere_and_not_carried_out_by_who_wished_it() {
    let redis = Redis::start(&[]);
    let nodes = ["a", "b", "c"].map(|name| Node::start(&redis, name).settled());
    let known = nodes[0].purge("purge hard key /");
    assert_eq!(known.text(), "Known on 3 of 3 nodes");
    assert_eq!(nodes[1].seen().purges, ["pages: purge hard key /"]);
    assert_eq!(nodes[2].seen().purges, ["pages: purge hard key /"]);
    assert!(nodes[0].seen().purges.is_empty());
    assert!(nodes[2].purge("obj.age > 1h").is_everywhere());
    assert_eq!(nodes[0].seen().purges, ["pages: obj.age > 1h"]);
    assert!(nodes.iter().all(|node| node.seen().stale == 1 && node.cluster.is_trusted()), "each joins once");
    let keys = redis.ask(&["KEYS", "*"]);
    assert!(!keys.is_empty() && keys.iter().all(|key| key.starts_with("larder:{shop}:")), "{keys:?}");
}

#[test]
fn people_are_told_who_purged_but_for_very_many_that_were_missed_only_how_many() {
    let redis = Redis::start(&[]);
    let [here, other] = ["here", "other"].map(|name| Node::start(&redis, name).settled());
    assert!(here.purge("purge hard key /").is_everywhere());
    assert_eq!(other.seen().told, ["here: pages: purge hard key /"]);
    assert!(here.seen().told.is_empty(), "a purge of its own");
    // One of an older larder.
    redis.ask(&["XADD", LOG, "*", "i", "old", "z", "pages", "w", "purge hard all"]);
    other.until(|seen| seen.told.get(1).is_some_and(|told| told == "-: pages: purge hard all"));
    let place = other.cluster.place();
    drop(other);
    for number in 0..2500 {
        here.cluster.push("pages", &format!("purge hard key /{number}"));
    }
    here.until_known("purge hard all");
    let back = Node::start_with(settings(&redis, "other"), place, None).settled();
    let line = back.until_said("they are caught up");
    assert!(line.starts_with("Info cluster: redis://") && line.contains(" had 2501 purges, and they "), "{line}");
    let seen = back.seen();
    assert_eq!((seen.purges.len(), seen.told.len()), (2501, 0));
    assert!(here.purge("purge hard key /last").is_everywhere());
    assert_eq!(back.seen().told, ["here: pages: purge hard key /last"]);
}

#[test]
fn a_node_that_leaves_is_not_named_any_more() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    drop(Node::start(&redis, "gone").settled());
    assert_eq!(here.purge("purge hard all").text(), "Known on 1 of 1 node");
}

#[test]
fn a_node_that_was_off_catches_up_before_it_is_trusted() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    let other = Node::start(&redis, "other").settled();
    here.purge("purge hard key /0");
    let place = other.cluster.place();
    drop(other);
    for number in 1..=2500 {
        here.cluster.push("pages", &format!("purge hard key /{number}"));
    }
    here.purge("purge hard all");
    let back = Node::start_with(settings(&redis, "other"), place.clone(), None);
    back.until_trusted(true);
    let seen = back.seen();
    assert_eq!((seen.purges.len(), seen.stale), (2501, 0), "{:?}", seen.purges.get(..3));
    assert_eq!(
        (seen.purges[0].as_str(), seen.purges[2500].as_str()),
        ("pages: purge hard key /1", "pages: purge hard all")
    );
    // The same place again: the same purges again.
    drop(back);
    let again = Node::start_with(settings(&redis, "other"), place, None).settled();
    assert_eq!(again.seen().purges, seen.purges);
    let read = again.cluster.place();
    again.until(|seen| seen.place == read);
}

#[test]
fn a_node_that_missed_many_megabytes_of_purges_carries_them_out_in_order() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    let place = here.cluster.place();
    let long = |number: usize| format!("purge hard key /{number}{}", "x".repeat(100_000));
    for number in 0..150 {
        here.cluster.push("pages", &long(number));
    }
    here.purge("purge hard all");
    let back = Node::start_with(settings(&redis, "other"), place, None);
    back.until_trusted(true);
    let seen = back.seen();
    assert_eq!((seen.purges.len(), seen.stale), (151, 0));
    assert!((0..150).all(|number| seen.purges[number] == format!("pages: {}", long(number))));
}

#[test]
fn a_node_that_missed_more_than_a_list_holds_purges_all_of_the_zone() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    let place = here.cluster.place();
    for number in 0..12_000 {
        here.cluster.push("pages", &format!("purge hard url * is /{number}"));
    }
    here.cluster.push("others", "purge hard url * is /");
    here.purge("purge hard key /");
    let back = Node::start_with(settings(&redis, "other"), place, None).settled();
    let seen = back.seen();
    assert_eq!(seen.purges[10_000..], ["pages: purge hard all", "others: purge hard url * is /"]);
    here.purge("purge hard url * is /");
    assert_eq!(back.seen().purges[10_002..], ["pages: purge hard url * is /"]);
}

#[test]
fn a_node_carries_out_again_what_it_wished_before_it_was_killed() {
    let redis = Redis::start(&[]);
    let first = Node::start(&redis, "a").settled();
    let place = first.cluster.place();
    first.purge("purge hard all");
    drop(first);
    let second = Node::start_with(settings(&redis, "a"), place, None).settled();
    assert_eq!(second.seen().purges, ["pages: purge hard all"]);
}

#[test]
fn without_its_place_everything_is_stale() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    let other = Node::start(&redis, "other").settled();
    let place = other.cluster.place().expect("it has one");
    drop(other);
    here.purge("purge hard all");
    redis.ask(&["XTRIM", LOG, "MAXLEN", "1"]);
    let another = Place { epoch: "another".to_owned(), at: place.at };
    for (place, why) in
        [(place, "keeps no purges from so long ago"), (another, "has lost its data, or is another server")]
    {
        let back = Node::start_with(settings(&redis, "other"), Some(place), None).settled();
        let seen = back.seen();
        // What is still there is carried out all the same.
        assert_eq!((seen.purges[0].as_str(), seen.stale), ("pages: purge hard all", 1));
        assert!(seen.lines[0].starts_with("Warn cluster: redis://127.0.0.1:"), "{:?}", seen.lines);
        assert!(seen.lines[0].ends_with(&format!("{why}: what was stored until now is stale")), "{:?}", seen.lines);
        here.purge("purge hard key /after");
        assert_eq!(back.seen().purges[seen.purges.len()..], ["pages: purge hard key /after"]);
    }
}

#[test]
fn a_log_that_is_trimmed_or_flushed_under_a_running_node_is_noticed() {
    for (command, why) in [(&["FLUSHALL"][..], "has lost its data"), (&["XTRIM", LOG, "MAXLEN", "0"], "so long ago")] {
        let redis = Redis::start(&[]);
        let nodes = ["a", "b"].map(|name| Node::start(&redis, name).settled());
        redis.ask(command);
        for node in &nodes {
            node.until_said(why);
            node.until(|seen| seen.stale == 2);
        }
        assert!(nodes[0].purge("purge hard all").is_everywhere());
        assert!(nodes[1].seen().purges.contains(&"pages: purge hard all".to_owned()));
    }
}

#[test]
fn purges_without_the_server_are_kept_and_sent_when_it_is_back() {
    let folder = tempfile::tempdir().expect("there is room");
    for keeps_data in [true, false] {
        let lines = if keeps_data { &["appendonly yes", "appendfsync always"][..] } else { &[] };
        let mut redis = Redis::start(lines);
        let unsent = || Some(folder.path().to_owned());
        let here = Node::start_with(settings(&redis, "here"), None, unsent()).settled();
        let other = Node::start(&redis, "other").settled();
        until(&here, |status| status.nodes.len() == 2);
        redis.kill();
        let known = here.purge("purge hard key /1");
        assert_eq!((known.on, known.of), (1, Some(2)), "as many as there were");
        assert!(known.text().starts_with("Known on this node alone: redis://127.0.0.1:"), "{}", known.text());
        assert!(known.text().contains(" cannot be reached: "), "{}", known.text());
        assert_eq!(files(folder.path()), [UNSENT_FILE]);
        assert!(here.cluster.is_trusted() && other.cluster.is_trusted(), "they serve on");
        // A node that is killed then has it after its start.
        let place = here.cluster.place();
        drop(here);
        let here = Node::start_with(settings(&redis, "here"), place, unsent()).settled();
        assert_eq!(here.purge("purge hard key /2").of, None, "it has seen none");
        redis.start_again();
        let seen = other.until(|seen| seen.purges.len() == 2);
        assert_eq!(seen.purges, ["pages: purge hard key /1", "pages: purge hard key /2"]);
        other.until_said("is back after");
        assert!(here.purge("purge hard all").is_everywhere());
        assert_eq!(other.seen().stale, if keeps_data { 1 } else { 2 });
        assert!(files(folder.path()).is_empty());
    }
}

#[test]
fn a_node_that_is_away_is_named_and_may_not_use_what_it_has() {
    let redis = Redis::start(&[]);
    let here = Node::start(&redis, "here").settled();
    // A node that was killed: its word is there for four seconds.
    redis.ask(&["HSET", "larder:{shop}:nodes", "web3", &(millis() - 12_500).to_string()]);
    redis.ask(&["HSET", "larder:{shop}:nodes", "long-ago", "1000"]);
    assert_eq!(here.purge("purge hard all").text(), "Known on 1 of 2 nodes; away: web3 since 12 s");
    assert_eq!(redis.ask(&["HEXISTS", "larder:{shop}:nodes", "long-ago"]), ["0"]);
    // One that is there and has not read yet.
    redis.ask(&["SET", "larder:{shop}:at:web3", "abc 1-0"]);
    let quick = Settings { timeout: Duration::from_millis(20), ..settings(&redis, "quick") };
    let quick = Node::start_with(quick, None, None).settled();
    let known = quick.purge("purge hard all");
    assert_eq!((known.on, known.of, &known.behind[..]), (2, Some(3), &["web3".to_owned()][..]));
}

#[test]
fn what_pages_may_do_without_the_server_is_as_told() {
    let mut redis = Redis::start(&[]);
    let start = |away, name| Node::start_with(Settings { away, ..settings(&redis, name) }, None, None).settled();
    let serves = start(Away::Serve, "serve");
    let stales = start(Away::Stale(Duration::from_secs(2)), "stale");
    let bypasses = start(Away::Bypass, "bypass");
    redis.kill();
    bypasses.until_trusted(false);
    stales.until(|seen| seen.stale == 2);
    stales.until_trusted(true);
    assert!(serves.cluster.is_trusted());
    assert_eq!((serves.seen().stale, bypasses.seen().stale), (1, 1));
    redis.start_again();
    bypasses.until_trusted(true);
    bypasses.until_said("is back after");
}

#[test]
fn a_node_that_starts_without_the_server_has_everything_stale_once() {
    let began = clock();
    let mut redis = Redis::start(&["appendonly yes", "appendfsync always"]);
    let here = Node::start(&redis, "here").settled();
    let place = here.cluster.place();
    let heard = here.cluster.heard();
    drop(here);
    redis.kill();
    let start = |place, heard| Node::start_heard(settings(&redis, "here"), place, None, heard).settled();
    let goes_on = start(place.clone(), heard);
    goes_on.until_said("cannot be reached");
    assert_eq!(goes_on.seen().stale, 0, "the process knows what was purged");
    drop(goes_on);
    let node = start(place, Heard::default());
    node.until_said("is of no use since the start of this node, and what was purged before is not known");
    assert!(node.cluster.is_trusted() && node.seen().stale == 1, "{:?}", node.seen().lines);
    redis.start_again();
    let line = node.until_said("is back after ");
    let secs: u64 =
        line.split_once("after ").and_then(|(_, rest)| rest.split_once(" s,")?.0.parse().ok()).expect(&line);
    assert!(Duration::from_secs(secs) <= clock() - began, "the time is that since the start: {line}");
    assert_eq!(node.seen().stale, 1, "{:?}", node.seen().lines);
}

#[test]
fn two_nodes_of_one_name_get_two_names() {
    let redis = Redis::start(&[]);
    let first = Node::start(&redis, "web").settled();
    let second = Node::start(&redis, "web").settled();
    let line = first.until_said("has two nodes called web, and this one is web~");
    assert!(line.ends_with("now: give each its own \"node=\""), "{line}");
    let third = Node::start(&redis, "third").settled();
    third.until_known("purge hard all");
    assert_eq!(third.purge("purge hard all").text(), "Known on 3 of 3 nodes");
    assert!(second.seen().purges.contains(&"pages: purge hard all".to_owned()));
}

#[test]
fn how_long_ago_a_purge_was_said_is_by_the_clock_of_the_server() {
    let redis = Redis::start(&[]);
    let node = Node::start(&redis, "a").settled();
    let place = node.cluster.place();
    drop(node);
    // Said an hour in the server's future: it is not negative.
    let ahead = (millis() + 3_600_000).to_string();
    redis.ask(&[
        "XADD",
        LOG,
        &format!("{}-1", place.as_ref().expect("it has one").at.ms),
        "z",
        "pages",
        "w",
        "purge hard all",
    ]);
    redis.ask(&["XADD", LOG, &ahead, "z", "pages", "w", "purge soft all"]);
    let node = Node::start_with(settings(&redis, "a"), place, None).settled();
    let seen = node.until(|seen| seen.purges.len() == 2);
    assert!(seen.ages[0] < Duration::from_secs(60) && seen.ages[1] == Duration::ZERO, "{:?}", seen.ages);
}

fn millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("it is after 1970");
    since.as_millis().try_into().expect("it is before the end of time")
}
