//! `larder varnishstat`: the counters of a running `larder varnishd`.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output, Stdio};

use larder_testkit::{Answer, Client, Folder, Origin, Then, free_port, text_of};
use serde_json::Value;

use crate::running_varnishd::{Cli, Varnishd};
use crate::site::{binary, eventually};

/// A server whose counters are asked for.
struct Counted {
    server: Varnishd,
    cli: Cli,
}

impl Counted {
    /// Starts it with a VCL, and waits until it serves.
    fn start(vcl: &str) -> Counted {
        Counted::start_in(Folder::new().unwrap(), vcl)
    }

    fn start_in(folder: Folder, vcl: &str) -> Counted {
        let server = Varnishd::serve_in(folder, vcl, &["-s", "malloc,16m"]);
        let cli = server.open_cli();
        Counted { server, cli }
    }

    fn order(&mut self, order: &str) {
        self.cli.order(order);
    }

    /// The status of the response to a request.
    fn ask(&self, method: &str, url: &str) -> u16 {
        self.server.ask(method, url).status
    }

    /// What varnishstat says.
    fn stat(&self, options: &[&str]) -> Output {
        let folder = self.server.folder.join("run").display().to_string();
        stat(&[&["-n", &folder], options].concat())
    }

    fn counters(&self) -> Counters {
        let output = self.stat(&["-j"]);
        assert!(output.status.success(), "{}", text_of(&output.stderr));
        let all: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let all = all["counters"].as_object().unwrap();
        all.iter().map(|(name, counter)| (name.clone(), counter["value"].as_u64().unwrap())).collect()
    }

    /// Waits until the counters have changed by exactly this much since `before`: a request is counted when its
    /// response is sent. Leaves aside those that depend on time and lengths.
    fn have_changed(&self, before: &Counters, what: &str, expected: &[(&str, i64)]) {
        let expected: BTreeMap<String, i64> = expected.iter().map(|(name, by)| ((*name).to_owned(), *by)).collect();
        let mut found = BTreeMap::new();
        for _ in 0..TRIES {
            found = changes(before, &self.counters());
            if found == expected {
                return;
            }
        }
        assert_eq!(found, expected, "{what}");
    }
}

type Counters = BTreeMap<String, u64>;

/// How often counters are asked for until they are as they should be. Each takes a process.
const TRIES: usize = 200;

fn stat(options: &[&str]) -> Output {
    Command::new(binary()).arg("varnishstat").args(options).stdin(Stdio::null()).output().expect("larder can be run")
}

fn changes(before: &Counters, now: &Counters) -> BTreeMap<String, i64> {
    let is_left_aside = |name: &str| {
        let of_time = ["uptime", "bytes", "g_space", ".conn", "sess_conn", "s_sess", "sess_closed"];
        of_time.iter().any(|end| name.ends_with(end))
    };
    let mut changes = BTreeMap::new();
    for (name, now) in now.iter().filter(|(name, _)| !is_left_aside(name)) {
        let by = i64::try_from(*now).unwrap() - i64::try_from(before.get(name).copied().unwrap_or(0)).unwrap();
        // Which of them it is depends on which worker asks.
        let name = match name.as_str() {
            "MAIN.backend_conn" | "MAIN.backend_reuse" => "conn or reuse",
            name => name,
        };
        *changes.entry(name.to_owned()).or_default() += by;
    }
    changes.retain(|_, by| *by != 0);
    changes
}

/// What a request changes that is passed to the backend or fetched from it, besides what says so.
const FETCHED: [(&str, i64); 6] = [
    ("MAIN.client_req", 1),
    ("MAIN.s_fetch", 1),
    ("MAIN.backend_req", 1),
    ("conn or reuse", 1),
    ("MAIN.backend_recycle", 1),
    ("VBE.boot.default.req", 1),
];

/// The same, and more, where the connection is not kept.
fn without_recycle<'a>(more: &[(&'a str, i64)]) -> Vec<(&'a str, i64)> {
    let fetched = FETCHED.iter().filter(|(name, _)| *name != "MAIN.backend_recycle");
    fetched.chain(more).copied().collect()
}

fn vcl(origin: &Origin) -> String {
    let port = origin.address().port();
    let nobody = free_port();
    format!(
        r#"vcl 4.1;
import purge;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
backend dead {{ .host = "127.0.0.1"; .port = "{nobody}"; }}
sub vcl_recv {{
    if (req.url ~ "^/synth") {{ return (synth(404)); }}
    if (req.url ~ "^/fail") {{ return (fail); }}
    if (req.url ~ "^/pass") {{ return (pass); }}
    if (req.url ~ "^/pipe") {{ return (pipe); }}
    if (req.url ~ "^/dead") {{ set req.backend_hint = dead; return (pass); }}
    if (req.method == "SOFT") {{ return (hash); }}
}}
sub vcl_hit {{
    if (req.method == "SOFT") {{ purge.soft(0s, 1h, 1h); return (synth(200)); }}
}}
sub vcl_backend_response {{
    if (bereq.url ~ "^/hfp") {{ return (pass(1h)); }}
    if (bereq.url ~ "^/hfm") {{ set beresp.uncacheable = true; set beresp.ttl = 1h; return (deliver); }}
    if (bereq.url ~ "^/esi") {{ set beresp.do_esi = true; }}
    set beresp.ttl = 1h;
}}
"#
    )
}

#[test]
fn each_way_of_a_request_is_counted_and_nothing_else() {
    let origin = Origin::start().unwrap();
    for url in ["/a", "/pass", "/pipe", "/hfp", "/hfm"] {
        origin.answer(url, Answer::ok("body"));
    }
    origin.answer("/esi", Answer::ok("<p><esi:include src=\"/synth/esi\"/></p>"));
    let mut varnishd = Counted::start(&vcl(&origin));
    let fetched = |more: &[(&'static str, i64)]| [&FETCHED[..], &[("MAIN.fetch_length", 1)], more].concat();
    let stored = [("MAIN.n_object", 1), ("MAIN.n_objecthead", 1), ("MAIN.cache_miss", 1)];
    let marked = [&stored[..], &[("MAIN.beresp_uncacheable", 1)]].concat();
    for (what, method, url, status, expected) in [
        ("a miss", "GET", "/a", 200, fetched(&stored)),
        ("a hit", "GET", "/a", 200, vec![("MAIN.client_req", 1), ("MAIN.cache_hit", 1)]),
        ("a pass", "GET", "/pass", 200, fetched(&[("MAIN.s_pass", 1), ("MAIN.beresp_uncacheable", 1)])),
        ("a synth", "GET", "/synth", 404, vec![("MAIN.client_req", 1), ("MAIN.s_synth", 1)]),
        ("a failure", "GET", "/fail", 503, vec![("MAIN.client_req", 1), ("MAIN.s_synth", 1), ("MAIN.vcl_fail", 1)]),
        (
            "a pipe",
            "GET",
            "/pipe",
            200,
            vec![
                ("MAIN.client_req", 1),
                ("MAIN.s_pipe", 1),
                ("MAIN.backend_req", 1),
                ("conn or reuse", 1),
                ("MAIN.backend_recycle", 1),
                ("VBE.boot.default.req", 1),
            ],
        ),
        (
            "a dead backend",
            "GET",
            "/dead",
            503,
            vec![
                ("MAIN.client_req", 1),
                ("MAIN.s_pass", 1),
                ("MAIN.s_fetch", 1),
                ("MAIN.backend_fail", 1),
                ("MAIN.fetch_failed", 1),
                ("MAIN.beresp_uncacheable", 1),
                ("VBE.boot.dead.fail", 1),
            ],
        ),
        ("what becomes a hit-for-pass", "GET", "/hfp", 200, fetched(&marked)),
        (
            "a hit-for-pass",
            "GET",
            "/hfp",
            200,
            fetched(&[("MAIN.cache_hitpass", 1), ("MAIN.s_pass", 1), ("MAIN.beresp_uncacheable", 1)]),
        ),
        ("what becomes a hit-for-miss", "GET", "/hfm", 200, fetched(&marked)),
        (
            "a hit-for-miss",
            "GET",
            "/hfm",
            200,
            fetched(&[("MAIN.cache_hitmiss", 1), ("MAIN.cache_miss", 1), ("MAIN.beresp_uncacheable", 1)]),
        ),
        (
            "a HEAD",
            "HEAD",
            "/pass",
            200,
            without_recycle(&[("MAIN.fetch_head", 1), ("MAIN.s_pass", 1), ("MAIN.beresp_uncacheable", 1)]),
        ),
        (
            "a page past its ttl from now on",
            "SOFT",
            "/a",
            200,
            vec![("MAIN.client_req", 1), ("MAIN.s_synth", 1), ("MAIN.n_purges", 1), ("MAIN.n_obj_purged", 1)],
        ),
        (
            "a hit in grace",
            "GET",
            "/a",
            200,
            fetched(&[("MAIN.cache_hit", 1), ("MAIN.cache_hit_grace", 1), ("MAIN.s_bgfetch", 1)]),
        ),
        (
            "a page with an include",
            "GET",
            "/esi",
            200,
            fetched(&[&stored[..], &[("MAIN.esi_req", 1), ("MAIN.s_synth", 1)]].concat()),
        ),
        ("what is no request", "GET", "/a b", 400, vec![("MAIN.client_req_400", 1)]),
    ] {
        let before = varnishd.counters();
        assert_eq!(varnishd.ask(method, url), status, "{what}");
        varnishd.have_changed(&before, what, &expected);
    }
    let before = varnishd.counters();
    assert_eq!(before["VBE.boot.dead.beresp_bodybytes"], 0, "what a VCL answers for it is not its own");
    varnishd.order("backend.set_health default sick");
    assert_eq!(varnishd.ask("GET", "/pass"), 503);
    let expected = [
        ("MAIN.client_req", 1),
        ("MAIN.s_pass", 1),
        ("MAIN.s_fetch", 1),
        ("MAIN.backend_unhealthy", 1),
        ("MAIN.fetch_failed", 1),
        ("MAIN.beresp_uncacheable", 1),
        ("VBE.boot.default.unhealthy", 1),
    ];
    varnishd.have_changed(&before, "a sick backend", &expected);
}

#[test]
fn answers_are_told_apart_by_how_their_bodies_come() {
    let origin = Origin::start().unwrap();
    let raw = |text: &str| Answer::raw(text.replace('\n', "\r\n"));
    for (url, answer) in [
        ("/pass/chunked", raw("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\nx\n0\n\n")),
        ("/pass/length", raw("HTTP/1.1 200 OK\nContent-Length: 1\n\nx")),
        ("/pass/none", raw("HTTP/1.1 200 OK\nContent-Length: 0\n\n")),
        ("/pass/204", raw("HTTP/1.1 204 No Content\n\n")),
        ("/pass/304", raw("HTTP/1.1 304 Not Modified\n\n")),
        ("/pass/eof", raw("HTTP/1.1 200 OK\n\nx")),
    ] {
        origin.answer(url, answer);
    }
    let varnishd = Counted::start(&vcl(&origin));
    for way in ["chunked", "length", "none", "204", "304", "eof"] {
        let before = varnishd.counters();
        varnishd.ask("GET", &format!("/pass/{way}"));
        let counter = format!("MAIN.fetch_{way}");
        let more = [(counter.as_str(), 1), ("MAIN.s_pass", 1), ("MAIN.beresp_uncacheable", 1)];
        let expected = if way == "eof" { without_recycle(&more) } else { [&FETCHED[..], &more].concat() };
        varnishd.have_changed(&before, way, &expected);
    }
    // Less than it says: the head of an answer came, and its body is broken.
    origin.answer("/pass/short", raw("HTTP/1.1 200 OK\nContent-Length: 9\n\nx"));
    let before = varnishd.counters();
    let mut client = Client::connect(varnishd.server.listen).unwrap();
    client.send(b"GET /pass/short HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    client.read_to_end().unwrap();
    let more = [("MAIN.fetch_length", 1), ("MAIN.fetch_failed", 1), ("MAIN.s_pass", 1), ("MAIN.beresp_uncacheable", 1)];
    varnishd.have_changed(&before, "a broken body", &without_recycle(&more));
}

#[test]
fn packing_purges_waits_and_bytes_of_a_backend_are_counted() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("body ".repeat(100)));
    let port = origin.address().port();
    let varnishd = Counted::start(&format!(
        r#"vcl 4.1;
import std;
backend default {{ .host = "127.0.0.1"; .port = "{port}"; }}
sub vcl_recv {{
    if (req.method == "PURGE") {{ return (purge); }}
    if (req.method == "POST") {{ return (pass); }}
}}
sub vcl_backend_response {{
    if (bereq.url == "/packed") {{ set beresp.do_gzip = true; }}
    set beresp.ttl = 1h;
}}
"#
    ));
    let before = varnishd.counters();
    assert_eq!((before["MAIN.vmods"], before["MAIN.n_purges"]), (1, 0));
    assert!(before["MAIN.threads"] > 0);
    let fetched = [&FETCHED[..], &[("MAIN.fetch_length", 1), ("MAIN.cache_miss", 1)]].concat();
    let stored = [&fetched[..], &[("MAIN.n_object", 1), ("MAIN.n_objecthead", 1)]].concat();
    // Who takes no gzip gets what was packed for the cache, unpacked.
    varnishd.ask("GET", "/packed");
    varnishd.have_changed(
        &before,
        "a page that is packed, and unpacked",
        &[&stored[..], &[("MAIN.n_gzip", 1), ("MAIN.n_gunzip", 1)]].concat(),
    );
    let before = varnishd.counters();
    varnishd.ask("PURGE", "/packed");
    let purged = [
        ("MAIN.client_req", 1),
        ("MAIN.s_synth", 1),
        ("MAIN.n_purges", 1),
        ("MAIN.n_obj_purged", 1),
        ("MAIN.n_object", -1),
        ("MAIN.n_objecthead", -1),
    ];
    varnishd.have_changed(&before, "a purge", &purged);
    let before = varnishd.counters();
    let held = origin.hold("/shared");
    let ask = || {
        let mut client = Client::connect(varnishd.server.listen).unwrap();
        client.send(b"GET /shared HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        client
    };
    let mut clients = vec![ask()];
    eventually("it is fetched", || origin.requests().iter().any(|request| request.request_line.contains("/shared")));
    clients.push(ask());
    eventually("it waits", || varnishd.counters()["MAIN.busy_sleep"] == before["MAIN.busy_sleep"] + 1);
    assert_eq!(varnishd.counters()["MAIN.busy_wakeup"], before["MAIN.busy_wakeup"]);
    drop(held);
    for client in &mut clients {
        assert_eq!(client.read_response("GET").unwrap().status, 200);
    }
    let shared = [("MAIN.client_req", 1), ("MAIN.cache_hit", 1), ("MAIN.busy_sleep", 1), ("MAIN.busy_wakeup", 1)];
    let mut expected = [&stored[..], &shared].concat();
    expected.retain(|counter| *counter != ("MAIN.client_req", 1));
    expected.push(("MAIN.client_req", 2));
    varnishd.have_changed(&before, "one who waits", &expected);
    let before = varnishd.counters();
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody";
    assert_eq!(varnishd.server.play(post).status, 200);
    let more = |name: &str| varnishd.counters()[name] - before[name];
    eventually("it is counted", || more("VBE.boot.default.beresp_bodybytes") == 500);
    assert_eq!(more("VBE.boot.default.bereq_bodybytes"), 4);
    assert!((20..500).contains(&more("VBE.boot.default.beresp_hdrbytes")));
}

#[test]
fn bans_are_counted_with_what_they_do() {
    let origin = Origin::start().unwrap();
    origin.answer("/a", Answer::ok("body"));
    let mut varnishd = Counted::start(&vcl(&origin));
    assert_eq!(varnishd.ask("GET", "/a"), 200);
    for (order, expected) in [
        ("ban req.url == /a", vec![("MAIN.bans", 1), ("MAIN.bans_added", 1), ("MAIN.bans_req", 1)]),
        (
            "ban req.url == /a",
            vec![
                ("MAIN.bans", 1),
                ("MAIN.bans_added", 1),
                ("MAIN.bans_completed", 1),
                ("MAIN.bans_dups", 1),
                ("MAIN.bans_req", 1),
            ],
        ),
        ("ban obj.status == 299", vec![("MAIN.bans", 1), ("MAIN.bans_added", 1), ("MAIN.bans_obj", 1)]),
    ] {
        let before = varnishd.counters();
        varnishd.order(order);
        varnishd.have_changed(&before, order, &expected);
    }
    let before = varnishd.counters();
    assert_eq!(varnishd.ask("GET", "/a"), 200);
    // By the newest first, and not by the one that is done.
    let more = [("MAIN.fetch_length", 1), ("MAIN.cache_miss", 1), ("MAIN.bans_tested", 2), ("MAIN.bans_obj_killed", 1)];
    varnishd.have_changed(&before, "a page that is banned", &[&FETCHED[..], &more].concat());
}

#[test]
fn what_was_counted_outlives_a_reload_and_ends_with_the_workers() {
    let origin = Origin::start().unwrap();
    origin.answer("/a", Answer::ok("body"));
    let mut varnishd = Counted::start(&vcl(&origin));
    let before = varnishd.counters();
    for _ in 0..3 {
        assert_eq!(varnishd.ask("GET", "/a"), 200);
    }
    let counted = [
        &FETCHED[1..],
        &[("MAIN.fetch_length", 1), ("MAIN.n_object", 1), ("MAIN.n_objecthead", 1), ("MAIN.cache_miss", 1)],
        &[("MAIN.client_req", 3), ("MAIN.cache_hit", 2)],
    ]
    .concat();
    varnishd.have_changed(&before, "three requests", &counted);
    varnishd.order("param.set default_ttl 9");
    varnishd.order("vcl.load more site.vcl");
    // Both VCLs are warm.
    let more = [("MAIN.n_vcl", 1), ("MAIN.n_vcl_avail", 1), ("MAIN.n_backend", 2)];
    varnishd.have_changed(&before, "reloads", &[&counted[..], &more].concat());
    let bytes = varnishd.counters();
    for (name, least) in [
        ("MAIN.s_req_hdrbytes", 3 * 40),
        ("MAIN.s_resp_hdrbytes", 3 * 40),
        ("MAIN.s_resp_bodybytes", 3 * 4),
        ("VBE.boot.default.bereq_hdrbytes", 40),
        ("VBE.boot.default.beresp_bodybytes", 4),
        ("SMA.s0.g_bytes", 4),
        ("SMA.s0.g_space", 1 << 20),
    ] {
        assert!(bytes[name] >= least, "{name}: {bytes:?}");
    }
    assert_eq!((bytes["MAIN.s_resp_bodybytes"], bytes["VBE.boot.default.beresp_bodybytes"]), (12, 4));
    assert_eq!(bytes["SMA.s0.g_bytes"] + bytes["SMA.s0.g_space"], 16 << 20);
    varnishd.order("stop");
    assert_eq!(varnishd.counters().keys().collect::<Vec<_>>(), ["MGT.uptime"]);
    varnishd.order("start");
    assert_eq!(varnishd.counters()["MAIN.cache_hit"], 0);
}

#[test]
fn a_probe_says_how_a_backend_is() {
    let origin = Origin::start().unwrap();
    // A probe waits for the end of the connection.
    origin.answer("/", Answer::ok("body").then(Then::Close));
    let port = origin.address().port();
    let varnishd = Counted::start(&format!(
        "vcl 4.1;\nbackend probed {{ .host = \"127.0.0.1\"; .port = \"{port}\"; .probe = {{ .interval = 50ms; }} }}\n\
         backend other {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\n\
         sub vcl_recv {{ set req.backend_hint = other; }}\n"
    ));
    eventually("three answers were good", || varnishd.counters()["VBE.boot.probed.happy"] & 0b111 == 0b111);
    let counters = varnishd.counters();
    assert_eq!(counters["VBE.boot.other.happy"], 0, "it has no probe");
    assert_eq!(counters["VBE.boot.probed.req"], 0, "a probe is no request");
    let output = varnishd.stat(&["-j", "-f", "*.happy"]);
    let all: Value = serde_json::from_slice(&output.stdout).unwrap();
    let happy = &all["counters"]["VBE.boot.probed.happy"];
    assert_eq!((&happy["flag"], &happy["format"]), (&Value::from("b"), &Value::from("b")));
}

#[test]
fn a_backend_that_has_all_its_connections_is_busy() {
    let origin = Origin::start().unwrap();
    origin.answer("/held", Answer::ok("body"));
    let hold = origin.hold("/held");
    let port = origin.address().port();
    let varnishd = Counted::start(&format!(
        "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{port}\"; .max_connections = 1; }}\n\
         sub vcl_recv {{ return (pass); }}\n"
    ));
    let mut client = Client::connect(varnishd.server.listen).unwrap();
    client.send(b"GET /held HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    assert!(origin.wait_for(1));
    let before = varnishd.counters();
    assert_eq!(before["VBE.boot.default.conn"], 1);
    assert_eq!(varnishd.ask("GET", "/other"), 503);
    let expected = [
        ("MAIN.client_req", 1),
        ("MAIN.s_pass", 1),
        ("MAIN.s_fetch", 1),
        ("MAIN.backend_busy", 1),
        ("MAIN.fetch_failed", 1),
        ("MAIN.beresp_uncacheable", 1),
        ("VBE.boot.default.busy", 1),
    ];
    varnishd.have_changed(&before, "a busy backend", &expected);
    hold.release();
    assert_eq!(client.read_response("GET").unwrap().status, 200);
    eventually("the backend is free", || varnishd.counters()["VBE.boot.default.conn"] == 0);
}

const SYNTH: &str = "vcl 4.1;\nbackend default none;\nsub vcl_recv { return (synth(200)); }\n";

#[test]
fn counters_are_printed_in_the_forms_of_varnishstat() {
    let varnishd = Counted::start(SYNTH);
    let before = varnishd.counters();
    assert_eq!(varnishd.ask("GET", "/"), 200);
    varnishd.have_changed(&before, "a synth", &[("MAIN.client_req", 1), ("MAIN.s_synth", 1)]);
    let said = |options: &[&str]| {
        let output = varnishd.stat(options);
        assert!(output.status.success(), "{options:?}: {}", text_of(&output.stderr));
        text_of(&output.stdout)
    };
    let once = said(&["-1"]);
    assert!(once.starts_with("MGT.uptime "), "{once}");
    for line in once.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        assert!(words.len() > 3 && words[0].contains('.') && words[1].parse::<u64>().is_ok(), "{line}");
        assert!(words[2] == "." || words[2].parse::<f64>().is_ok(), "{line}");
    }
    let names = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
    };
    for (globs, expected) in [
        (&["-f", "MAIN.s_synth"][..], &["MAIN.s_synth"][..]),
        (&["-f", "MAIN.n_vcl*", "-f", "MGT.*"], &["MGT.uptime", "MAIN.n_vcl", "MAIN.n_vcl_avail"]),
        (&["-f", "^MAIN.n_vcl_*", "-f", "MAIN.n_vcl*"], &["MAIN.n_vcl"]),
        (&["-X", "MAIN.*", "-X", "SMA.*"], &["MGT.uptime"]),
        (&["-I", "synth"], &[]),
    ] {
        assert_eq!(names(&said(&[&["-1"], globs].concat())), expected, "{globs:?}");
    }
    let line = said(&["-1", "-f", "MAIN.s_synth"]);
    assert!(
        line.starts_with("MAIN.s_synth                 1 ") && line.ends_with(" Responses made by vcl_synth\n"),
        "{line}"
    );
    let all: Value = serde_json::from_str(&said(&["-j", "-f", "MAIN.s_synth", "-t", "0"])).unwrap();
    assert_eq!((&all["version"], all["timestamp"].as_str().map(str::len)), (&Value::from(1), Some(19)));
    assert_eq!(
        all["counters"],
        serde_json::json!({ "MAIN.s_synth": {
            "description": "Responses made by vcl_synth", "flag": "c", "format": "i", "value": 1
        } })
    );
    assert!(said(&["-x", "-f", "MAIN.s_synth"]).contains("\t\t<name>MAIN.s_synth</name>\n\t\t<value>1</value>\n"));
    let list = said(&["-l", "-f", "MAIN.s_synth"]);
    assert!(list.ends_with("\nMAIN.s_synth                   Responses made by vcl_synth\n"), "{list}");
    // Without a terminal there is no screen.
    let output = varnishd.stat(&["-f", "MAIN.s_synth"]);
    assert_eq!(text_of(&output.stdout), line);
    assert!(text_of(&output.stderr).contains("as with -1"), "{}", text_of(&output.stderr));
}

#[test]
fn without_a_server_the_folder_is_named() {
    let folder = Folder::new().unwrap();
    let run = folder.join("run").display().to_string();
    for form in ["-1", "-j", "-x", "-l"] {
        let output = stat(&["-n", &run, form, "-t", "0"]);
        let said = text_of(&output.stderr);
        assert_eq!((output.status.code(), text_of(&output.stdout).as_str()), (Some(1), ""), "{form}");
        assert!(said.contains(&run) && said.contains("-n"), "{said}");
    }
    // One that was killed has left its socket.
    let mut varnishd = Counted::start_in(folder, SYNTH);
    varnishd.server.child.kill().unwrap();
    varnishd.server.child.wait().unwrap();
    let output = varnishd.stat(&["-1", "-t", "0"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text_of(&output.stderr).contains("no server tells its counters"), "{}", text_of(&output.stderr));
    for (options, part) in [(&["-Q"][..], "no option \"-Q\""), (&["-t", "soon"], "soon"), (&["MAIN.*"], "MAIN.*")] {
        let output = stat(options);
        let said = text_of(&output.stderr);
        assert!(output.status.code() == Some(1) && said.contains(part), "{options:?}: {said}");
    }
    let output = stat(&["-V"]);
    assert!(output.status.success() && text_of(&output.stderr).starts_with("varnishstat ("));
}

#[test]
fn a_server_that_is_to_come_is_waited_for() {
    let folder = Folder::new().unwrap();
    let waiting = Command::new(binary())
        .args(["varnishstat", "-1", "-t", "off", "-f", "MAIN.client_req", "-n"])
        .arg(folder.join("run"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let _varnishd = Counted::start_in(folder, SYNTH);
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success());
    // The server may have told its counters before it served.
    let said = text_of(&output.stdout);
    assert!(said.is_empty() || said.starts_with("MAIN.client_req "), "{said}");
}

#[test]
fn clients_that_say_nonsense_or_take_nothing_harm_nobody() {
    let mut varnishd = Counted::start(SYNTH);
    let socket = varnishd.server.folder.join("run/_.stats");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    let mut held = Vec::new();
    for number in 0..50 {
        let mut stream = UnixStream::connect(&socket).unwrap();
        if number % 2 == 0 {
            // It may have been told everything and closed by then.
            let _ = stream.write_all(&[b'\xff'; 100_000]);
        }
        held.push(stream);
    }
    assert_eq!(varnishd.ask("GET", "/"), 200);
    varnishd.order("ping");
    assert!(varnishd.counters().contains_key("MAIN.client_req"));
    drop(held);
    let mut told = String::new();
    UnixStream::connect(&socket).unwrap().read_to_string(&mut told).unwrap();
    assert!(told.starts_with("larder-stats 1\nMGT.uptime\tc\td\t") && told.ends_with("\n.\n"), "{told}");
}
