//! What is wrong with a server is said, with the mend.

use larder_cluster::{Away, Settings};
use larder_testkit::Redis;

use crate::node::{Node, settings, until};

#[test]
fn a_login_that_is_wrong_is_said() {
    let redis = Redis::start(&["requirepass secret"]);
    let with = |password: Option<&str>, user: Option<&str>| Settings {
        password: password.map(str::to_owned),
        user: user.map(str::to_owned),
        ..settings(&redis, "a")
    };
    for (settings, line) in [
        (with(None, None), "demands a password: write it as"),
        (with(Some("guess"), None), "refuses the password: mend \"USER:PASSWORD@\" in \"larder_cluster\""),
        (
            with(Some("secret"), Some("nobody")),
            "if the server has forgotten the user, add it again and keep it, by ACL SAVE or in its redis.conf (WRONGPASS",
        ),
    ] {
        let node = Node::start_with(settings, None, None).settled();
        let line = node.until_said(line);
        assert!(line.starts_with("Error cluster: redis://127.0.0.1:") && !line.contains("guess"), "{line}");
        let known = node.purge("purge hard all");
        assert!(known.text().contains("password"), "{}", known.text());
    }
    let node = Node::start_with(with(Some("secret"), None), None, None).settled();
    assert!(node.purge("purge hard all").is_everywhere());
}

#[test]
fn the_database_is_shown_with_the_server() {
    let redis = Redis::start(&["databases 4"]);
    let with = |database: u32| Settings { database, ..settings(&redis, "a") };
    let shown = |database: &str| format!("redis://127.0.0.1:{}{database}", redis.port());
    let node = Node::start_with(with(3), None, None).settled();
    assert_eq!(node.cluster.status().server, shown("/3"));
    assert!(node.purge("purge hard all").is_everywhere());
    assert_eq!(Node::start_with(with(0), None, None).cluster.status().server, shown(""));
    let node = Node::start_with(with(4), None, None).settled();
    let line = node.until_said("has no such database: mend the number behind \"/\" in \"larder_cluster\"");
    assert!(line.starts_with(&format!("Error cluster: {} ", shown("/4"))), "{line}");
}

#[test]
fn a_user_needs_only_our_keys_and_the_commands_that_the_message_names() {
    let redis = Redis::start(&[
        "user shop on >secret ~larder:{shop}:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous",
        "user poor on >secret ~larder:{shop}:* resetchannels -@all +@read +@connection",
        "user other on >secret ~other:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous",
    ]);
    let with = |user: &str| Settings {
        user: Some(user.to_owned()),
        password: Some("secret".to_owned()),
        ..settings(&redis, user)
    };
    let shop = Node::start_with(with("shop"), None, None).settled();
    assert!(shop.purge("purge hard all").is_everywhere(), "{:?}", shop.seen().lines);
    for user in ["poor", "other"] {
        let node = Node::start_with(with(user), None, None).settled();
        let line = node.until_said("forbids the user what larder does");
        assert!(
            line.contains("give it \"~larder:{shop}:* +@read +@write +@connection +@transaction +time -@dangerous\""),
            "{line}"
        );
    }
}

#[test]
fn a_replica_is_said_to_be_one() {
    let primary = Redis::start(&[]);
    let replica = Redis::start(&[&format!("replicaof 127.0.0.1 {}", primary.port())]);
    let node = Node::start(&replica, "a").settled();
    node.until_said("is a read-only replica: name its primary in \"larder_cluster\"");
    assert!(node.purge("purge hard all").fault.is_some());
}

#[test]
fn a_full_server_is_said_and_still_read() {
    let redis = Redis::start(&[]);
    let reads = Node::start(&redis, "reads").settled();
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    reads.until_said("is full: raise its \"maxmemory\"");
    let known = reads.purge("purge hard key /");
    assert!(known.text().contains("is full: raise its \"maxmemory\""), "{}", known.text());
    assert!(reads.cluster.is_trusted());
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    let other = Node::start(&redis, "other").settled();
    other.until(|seen| seen.purges == ["pages: purge hard key /"]);
    assert!(reads.purge("purge hard all").is_everywhere());
    assert_eq!(other.seen().purges.last().map(String::as_str), Some("pages: purge hard all"));
}

#[test]
fn a_server_that_takes_no_purges_is_a_fault_before_one_is_sent_until_it_takes_them_again() {
    const USER: &str = "user shop on >secret ~larder:{shop}:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous";
    for (breaks, mends, words) in [
        (&["CONFIG", "SET", "maxmemory", "1"][..], &["CONFIG", "SET", "maxmemory", "0"][..], "is full: raise"),
        (
            &["ACL", "SETUSER", "shop", "-xadd"],
            &["ACL", "SETUSER", "shop", "+xadd"],
            "forbids the user what larder does",
        ),
        (&["ACL", "SETUSER", "shop", "-set"], &["ACL", "SETUSER", "shop", "+set"], "forbids the user what larder does"),
    ] {
        let redis = Redis::start(&[USER]);
        let with = |node: &str| Settings {
            user: Some("shop".to_owned()),
            password: Some("secret".to_owned()),
            away: Away::Bypass,
            ..settings(&redis, node)
        };
        let node = Node::start_with(with("a"), None, None).settled();
        until(&node, |status| status.lag().is_some());
        redis.ask(breaks);
        let status = until(&node, |status| status.fault.is_some());
        let fault = status.fault.as_deref().unwrap_or_default();
        assert!(fault.starts_with(words), "{fault}");
        // What others purge is read.
        redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        redis.ask(&["XADD", "larder:{shop}:log", "*", "i", "b", "z", "pages", "w", "purge hard key /other"]);
        redis.ask(breaks);
        let seen = node.until(|seen| !seen.purges.is_empty());
        assert_eq!(seen.purges, ["pages: purge hard key /other"]);
        assert!(status.is_read && status.is_trusted && status.lag().is_some(), "{status:?}");
        let refused = node.purge("purge hard key /");
        assert!(refused.text().contains(words), "{}", refused.text());
        assert!(node.cluster.is_trusted() && node.cluster.status().fault.is_some());
        redis.ask(mends);
        until(&node, |status| status.fault.is_none() && status.sent == 1);
        assert!(node.purge("purge hard all").is_everywhere());
        node.until_said(" takes purges again after ");
        let seen = node.seen();
        // A full server was one for two times, as the purge of another came in between.
        let times = if words.starts_with("is full") { 1..=2 } else { 1..=1 };
        for words in [words, "takes purges again"] {
            let said = seen.lines.iter().filter(|line| line.contains(words)).count();
            assert!(times.contains(&said), "{words}: {:?}", seen.lines);
        }
        assert_eq!(seen.stale, 1, "{:?}", seen.lines);
    }
}

#[test]
fn a_server_that_cannot_save_is_read() {
    let folder = tempfile::tempdir().expect("there is room");
    let redis = Redis::start(&["save 3600 1", &format!("dir {}", folder.path().display())]);
    let node = Node::start(&redis, "a").settled();
    folder.close().expect("it can be removed");
    redis.ask(&["BGSAVE"]);
    let status = until(&node, |status| status.fault.is_some());
    let fault = status.fault.as_deref().unwrap_or_default();
    assert!(fault.starts_with("takes nothing, as it cannot save its data: mend its disk"), "{fault}");
    assert!(status.is_read && status.is_trusted, "{status:?}");
    redis.ask(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"]);
    until(&node, |status| status.fault.is_none());
    assert!(node.purge("purge hard all").is_everywhere());
}

#[test]
fn a_server_that_goes_is_said_once_and_that_it_is_back_once() {
    let mut redis = Redis::start(&["appendonly yes", "appendfsync always"]);
    let node = Node::start(&redis, "a").settled();
    redis.kill();
    node.purge("purge hard key /");
    until(&node, |status| !status.is_read);
    node.purge("purge hard key /");
    redis.start_again();
    until(&node, |status| status.fault.is_none() && status.unsent == 0);
    let lines = node.seen().lines;
    for words in [" cannot be reached: ", " is back after "] {
        assert_eq!(lines.iter().filter(|line| line.contains(words)).count(), 1, "{words}: {lines:?}");
    }
    assert!(!lines.iter().any(|line| line.contains("takes purges again")), "{lines:?}");
}

#[test]
fn a_key_of_another_kind_is_said() {
    let redis = Redis::start(&[]);
    redis.ask(&["SET", "larder:{shop}:log", "mine"]);
    let node = Node::start(&redis, "a").settled();
    node.until_said("under one of its keys \"larder:{shop}:*\": \"larder:{shop}:log\" has to be a stream");
    assert_eq!(redis.ask(&["GET", "larder:{shop}:log"]), ["mine"]);
    redis.ask(&["DEL", "larder:{shop}:log"]);
    node.until_said("is back after");
    assert!(node.purge("purge hard all").is_everywhere());
}

#[test]
fn a_log_that_somebody_has_ended_is_said_and_mended() {
    let redis = Redis::start(&[]);
    let node = Node::start(&redis, "a").settled();
    let last = format!("{0}-{0}", u64::MAX);
    redis.ask(&["XADD", "larder:{shop}:log", &last, "colour", "red"]);
    let known = node.purge("purge hard key /");
    let (said, mend) = (known.text(), "delete \"larder:{shop}:log\" and \"larder:{shop}:epoch\", both with one DEL");
    assert!(said.contains("can add nothing to the log") && said.contains(mend), "{said}");
    redis.ask(&["DEL", "larder:{shop}:log", "larder:{shop}:epoch"]);
    node.until(|seen| seen.stale == 2);
    // It tries again after a moment, and says until then what it knows.
    let is_known = || {
        std::thread::sleep(std::time::Duration::from_millis(20));
        node.purge("purge hard all").is_everywhere()
    };
    assert!((0..500).any(|_| is_known()), "{:?}", node.seen().lines);
}

#[test]
fn entries_of_others_purge_nothing_and_stop_nothing() {
    let redis = Redis::start(&[]);
    let node = Node::start(&redis, "a").settled();
    redis.ask(&["XADD", "larder:{shop}:log", "*", "colour", "red"]);
    redis.ask(&["XADD", "larder:{shop}:log", "*", "z", "pages", "w", "purge hard all"]);
    node.until(|seen| seen.purges == ["pages: purge hard all"]);
    // No larder writes one that long: words that nobody can read mean all pages, see `Zone::carry_out`.
    let long = format!("purge hard key /{}", "x".repeat(300_000));
    redis.ask(&["XADD", "larder:{shop}:log", "*", "z", "pages", "w", &long]);
    node.until(|seen| seen.purges.len() == 2);
    assert_eq!(node.seen().purges[1], "pages: an entry of the log that is too long: all pages before it");
}

#[test]
fn what_is_no_redis_is_said() {
    let origin = larder_testkit::Origin::start().expect("it starts");
    let mut settings = settings(&Redis::start(&[]), "a");
    settings.servers[0].port = origin.address().port();
    let node = Node::start_with(settings, None, None).settled();
    node.until(|seen| seen.lines.iter().any(|line| line.starts_with("Error cluster: redis://127.0.0.1:")));
}
