//! What `larder cluster status`, the API, the metrics and the dashboard say of the nodes of a cluster.

use std::process::Output;

use larder_testkit::{Browser, Redis, Signal, signal_to, text_of};
use serde_json::Value;

use crate::site::{Setup, Site, eventually, text};

const HTTP: &str = "
    larder_cluster redis://127.0.0.1:{REDIS} name=shop node={NODE} timeout=100ms;
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    larder_purge_from 127.0.0.1;
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        proxy_cache pages;
        location / { proxy_pass http://127.0.0.1:1; }
        location /status { larder_status; }
        location = /metrics { larder_metrics; }
    }";

fn start(redis: &Redis, node: &str) -> Site {
    Setup::new().name("REDIS", redis.port()).name("NODE", node).start(HTTP)
}

fn command(site: &Site, options: &[&str]) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = site.setup().larder_words(&[&["cluster", "status"], options].concat());
    (status.code(), text_of(&stdout) + &text_of(&stderr))
}

fn told(site: &Site) -> Value {
    serde_json::from_str(&text(&site.get("/status/api/larder/1/cluster"))).unwrap()
}

fn states(status: &Value) -> Vec<(&str, &str)> {
    let nodes = status["nodes"].as_array().expect("it has nodes");
    nodes.iter().map(|node| (node["name"].as_str().unwrap(), node["state"].as_str().unwrap())).collect()
}

#[test]
fn all_nodes_are_told_with_their_places_and_an_exit_code_says_whether_all_is_well() {
    let mut redis = Redis::start(&[]);
    let [here, other, third] = ["web1", "web2", "web3"].map(|node| start(&redis, node));
    let all = [("web1", "there"), ("web2", "there"), ("web3", "there")];
    for site in [&here, &other, &third] {
        eventually("all nodes", || states(&told(site)) == all);
    }
    assert_eq!(other.ask("PURGE", "/a", "").status, 200);
    let newest = redis.ask(&["XREVRANGE", "larder:{shop}:log", "+", "-", "COUNT", "1"])[0].clone();
    eventually("all to have read it", || {
        let status = told(&here);
        let nodes = status["nodes"].as_array().unwrap();
        nodes.iter().all(|node| node["place"] == *newest && node["lag"]["entries"] == 0)
    });
    let (code, shown) = command(&here, &[]);
    assert_eq!(code, Some(0), "{shown}");
    let server = format!("redis://127.0.0.1:{}", redis.port());
    assert!(shown.starts_with(&format!("Cluster shop, node web1, by {server}: up\nStored pages are used.")), "{shown}");
    assert!(shown.contains("\nNODE  STATE     BEHIND  FOR  PLACE\nweb1  this one       0    -  "), "{shown}");
    assert!(shown.contains("\nweb3  there          0    -  "), "{shown}");
    let (code, json) = command(&other, &["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, states(&json), &json["node"], &json["sent"]), (Some(0), all.to_vec(), &"web2".into(), &1.into()));
    let metrics = text(&here.get("/metrics"));
    for line in [
        "larder_cluster_lag_entries{cluster=\"shop\",node=\"web1\"} 0\n",
        "larder_cluster_lag_milliseconds{cluster=\"shop\",node=\"web1\"} 0\n",
        "larder_cluster_nodes{cluster=\"shop\",node=\"web1\",state=\"there\"} 3\n",
        "larder_cluster_nodes{cluster=\"shop\",node=\"web1\",state=\"away\"} 0\n",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
    // One that stands still is away, and then behind.
    let stopped = third.serving_process();
    signal_to(stopped, Signal::Stop).unwrap();
    eventually("one to be away", || states(&told(&here))[2] == ("web3", "away"));
    assert_eq!(here.ask("PURGE", "/b", "").status, 200);
    eventually("one to be behind", || told(&here)["nodes"][2]["lag"]["entries"] == 1);
    let (code, shown) = command(&here, &[]);
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("\nweb3  away "), "{shown}");
    assert!(text(&here.get("/metrics")).contains(",state=\"away\"} 1\n"));
    let top = text_of(&here.setup().larder_words(&["top"]).stdout);
    assert!(
        top.contains(&format!("\ncluster             2   of 3 nodes there by {server}, 0 purges behind\n")),
        "{top}"
    );
    signal_to(stopped, Signal::Continue).unwrap();
    eventually("all to be well again", || command(&here, &[]).0 == Some(0));
    // Without the server.
    redis.kill();
    eventually("the fault", || told(&here)["fault"].is_string());
    let (code, shown) = command(&here, &[]);
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains(": of no use since ") && shown.contains("as it cannot be reached: "), "{shown}");
    assert!(shown.contains("\nThe nodes, as they were ") && told(&here)["lag"].is_null(), "{shown}");
    assert!(!text(&here.get("/metrics")).contains("larder_cluster_lag"));
}

#[test]
fn a_server_that_takes_no_purges_is_told_before_there_is_one() {
    let redis = Redis::start(&[]);
    let site = start(&redis, "web1");
    eventually("all to be well", || command(&site, &[]).0 == Some(0));
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("the fault", || told(&site)["fault"].is_string());
    let (code, shown) = command(&site, &[]);
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains(": takes no purges, as it is full: raise its \"maxmemory\""), "{shown}");
    assert!(shown.contains("\nStored pages are used. Purges: 0 sent, 0 that wait"), "{shown}");
    assert_eq!((&told(&site)["reads_purges"], &told(&site)["lag"]["entries"]), (&true.into(), &0.into()));
    let metrics = text(&site.get("/metrics"));
    assert!(metrics.contains("larder_cluster_up{cluster=\"shop\",node=\"web1\"} 0\n"), "{metrics}");
    let top = text_of(&site.setup().larder_words(&["top"]).stdout);
    assert!(top.contains("ALARM      larder_cluster: redis://127.0.0.1:") && top.contains(" is full: "), "{top}");
    // What waits is sent when there is room.
    assert_eq!(site.ask("PURGE", "/a", "").status, 200);
    assert_eq!(told(&site)["unsent"], 1);
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("all to be well again", || command(&site, &[]).0 == Some(0) && told(&site)["unsent"] == 0);
    site.wait_for_log("takes purges again after ");
    for words in [" is full: ", "takes purges again"] {
        assert_eq!(site.count_in_log(words), 1, "{}", site.server().error_log());
    }
}

#[test]
fn a_command_says_whether_all_nodes_know_its_purge_and_a_dead_one_can_be_forgotten() {
    let mut redis = Redis::start(&[]);
    let [here, other] = ["web1", "web2"].map(|node| start(&redis, node));
    let larder = |words: &[&str]| {
        let Output { status, stdout, stderr } = here.setup().larder_words(words);
        (status.code(), text_of(&stdout), text_of(&stderr))
    };
    let purge = |options: &[&str]| larder(&[&["purge", "--all", "--everywhere"], options].concat());
    eventually("both nodes to know", || purge(&[]).0 == Some(0));
    assert!(purge(&[]).1.ends_with("\nKnown on 2 of 2 nodes\n"), "{}", purge(&[]).1);
    let process = other.serving_process();
    let mut server = other;
    for process in [server.server().pid(), process] {
        signal_to(process, Signal::Kill).unwrap();
    }
    server.server_mut().wait();
    eventually("one to be missing", || purge(&[]).1.contains("; away: web2 since "));
    let (code, out, error) = purge(&[]);
    assert_eq!(code, Some(3), "{out}");
    assert!(out.starts_with("Purged: ") && out.contains("\nKnown on 1 of 2 nodes; away: web2 since "), "{out}");
    assert!(error.starts_with("larder: not all nodes know it: away: web2 since "), "{error}");
    let (code, out, _) = purge(&["--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["cluster"]["known"], &told["cluster"]["nodes"]), (Some(3), &1.into(), &2.into()));
    assert_eq!(larder(&["purge", "--all"]).0, Some(0), "that was not asked for");
    // Its day is not over.
    eventually("the list to be looked at", || command(&here, &[]).0 == Some(2));
    for (node, why) in [("web1", "is the one that was asked"), ("web9", "no node is called \"web9\"")] {
        let (code, out, error) = larder(&["cluster", "forget", node]);
        assert!(code == Some(1) && out.is_empty() && error.contains(why), "{error}");
    }
    assert_eq!(larder(&["cluster", "forget", "web2"]), (Some(0), "Forgotten: web2\n".to_owned(), String::new()));
    here.wait_for_log("\"larder cluster forget\": web2");
    eventually("all to be well", || command(&here, &[]).0 == Some(0));
    assert_eq!(purge(&[]).0, Some(0));
    assert_eq!(larder(&["cluster", "forget", "--json", "web2"]).0, Some(1), "it is forgotten");
    redis.kill();
    let (code, _, error) = purge(&[]);
    assert_eq!(code, Some(2));
    assert!(error.starts_with("larder: not all nodes know it: redis://127.0.0.1:"), "{error}");
    let (code, _, error) = larder(&["cluster", "forget", "web2"]);
    assert!(code == Some(1) && error.contains(" cannot be reached: "), "{error}");
}

#[test]
fn two_nodes_of_one_name_are_told_by_each() {
    let redis = Redis::start(&[]);
    let (first, second) = (start(&redis, "web1"), start(&redis, "web1"));
    for site in [&first, &second] {
        let says = |shown: &str| {
            shown.lines().any(|line| {
                line.starts_with("web1~") && line.ends_with(": two nodes are called web1: give each its own \"node=\"")
            })
        };
        eventually("the two names", || says(&command(site, &[]).1));
        assert_eq!(command(site, &[]).0, Some(2));
    }
    let renamed = told(&first)["node"].as_str().unwrap_or_default().to_owned();
    assert!(renamed.starts_with("web1~") && told(&second)["node"] == "web1", "{renamed}");
    // The first needs its restart, as the documentation says.
    second.change_to(&HTTP.replace("{NODE}", "web2"));
    eventually("the other name", || states(&told(&first)) == [(&*renamed, "there"), ("web2", "there")]);
    let first = first.restart();
    eventually("all to be well", || command(&first, &[]).0 == Some(0));
    assert_eq!(states(&told(&first)), [("web1", "there"), ("web2", "there")]);
}

#[test]
fn where_there_is_no_cluster_that_is_said() {
    let site = Setup::new().start("server { listen 127.0.0.1:{PORT}; return 200; }");
    let output = site.setup().larder_words(&["purge", "--all", "--everywhere"]);
    let said = text_of(&output.stderr);
    assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{output:?}");
    assert!(
        said.starts_with("larder: nothing is purged: \"--everywhere\" is about a cluster, and the server is in none"),
        "{said}"
    );
    let output = site.setup().larder_words(&["cluster", "forget", "web1"]);
    assert!(text_of(&output.stderr).starts_with("larder: the server is in no cluster: "), "{output:?}");
    for options in [&[][..], &["--json"]] {
        let (code, shown) = command(&site, options);
        assert_eq!(code, Some(1));
        assert!(
            shown.starts_with("larder: the server is in no cluster: \"larder_cluster\" in its configuration "),
            "{shown}"
        );
    }
    let setup = site.stop();
    let output = setup.larder_words(&["cluster", "status"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output.stderr).starts_with("larder: no server answers at "), "{output:?}");
    let output = setup.larder_words(&["cluster"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output.stderr).contains("\"larder cluster -h\" shows what can be asked for"), "{output:?}");
}

#[test]
fn the_dashboard_has_a_part_for_the_cluster() {
    let mut redis = Redis::start(&[]);
    let (here, other) = (start(&redis, "web1"), start(&redis, "web2"));
    let long = "a-node-with-a-name-as-long-as-may-be.eu-central-1.example.test01";
    let third = start(&redis, long);
    let browser = Browser::start();
    browser.resize(390, 844);
    browser.open(&format!("http://{}/status", here.setup().address()));
    let says = |text: &str| browser.says(&format!("document.querySelector('{text}').innerText"));
    let rows = || says("#nodes tbody");
    eventually("the nodes", || rows().contains("web1\tthis one\t0\t–\t") && rows().contains("web2\tthere\t"));
    assert!(rows().contains(&format!("{long}\tthere\t")), "{}", rows());
    assert!(says("#cluster-part").starts_with("Cluster shop, node web1\n"), "{}", says("#cluster-part"));
    assert_eq!(says("#cluster-state"), "Up.");
    for key in ["cluster.lag.entries", "cluster.unsent"] {
        assert_eq!(says(&format!("[data-key=\"{key}\"]")), "0", "{key}");
    }
    let fits = "document.documentElement.scrollWidth <= innerWidth && innerWidth < 600";
    assert_eq!(
        browser.says(fits),
        "true",
        "{}",
        browser.says("document.documentElement.scrollWidth + ' ' + innerWidth")
    );
    let stopped = other.serving_process();
    signal_to(stopped, Signal::Stop).unwrap();
    eventually("one to be away", || rows().contains("web2\taway "));
    signal_to(stopped, Signal::Continue).unwrap();
    drop(third);
    eventually("one to have left", || !rows().contains(long));
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    eventually("the full server", || says("#cluster-state") == "Takes no purges; stored pages are used.");
    let server = says("#cluster-server");
    assert!(
        server.contains(" is full: ") && server.ends_with("; nodes that cannot write there seem to be away:"),
        "{server}"
    );
    assert!(says("#cluster-part").contains("purges behind\n0\n"), "{}", says("#cluster-part"));
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    eventually("room again", || says("#cluster-state") == "Up.");
    redis.kill();
    eventually("the fault", || says("#cluster-state") == "Of no use; stored pages are used.");
    let server = says("#cluster-server");
    assert!(server.contains(" cannot be reached: ") && server.contains("; the nodes, as they were "), "{server}");
    assert_eq!((says("[data-key=\"cluster.lag.entries\"]"), browser.says(fits)), ("–".to_owned(), "true".to_owned()));
    here.change_to(&HTTP.replace("larder_cluster redis", "# larder_cluster redis"));
    eventually("no cluster", || browser.says("document.getElementById('cluster-part').hidden") == "true");
    assert_eq!(browser.console(), [""; 0]);
}
