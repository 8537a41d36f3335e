//! The binary is changed while it serves: USR2, and what an operator does after it.
//!
//! What is asked here nginx does too, but for `daemon off`, under which it changes nothing while its parent lives.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use larder_testkit::{
    Answer, Client, ClientError, HandOrigin, Http2Client, Http2Error, Origin, PATIENCE, RaiseOnDrop, Response,
    ServerUnderTest, Signal, Tls, children_of, is_running, signal_to, text_of,
};

use crate::site::{Ends, Setup, binary, cached, eventually, get, get_on, text};
use crate::tls::certified;

/// What is at the address of a setup, whichever process that is now.
struct Running {
    setup: Setup,
    /// Of a larder in the foreground, which is our child.
    _child: Option<ServerUnderTest>,
    ends: Vec<Ends>,
}

impl Running {
    fn start(setup: Setup, http: &str) -> Running {
        Running::start_program(setup, http, &binary())
    }

    fn start_program(setup: Setup, http: &str, program: &Path) -> Running {
        setup.configure(http);
        let mut running = match fs::read_to_string(setup.path("nginx.conf")).unwrap().contains("daemon off") {
            true => {
                let child = ServerUnderTest::start(program, setup.path("").as_path()).unwrap();
                Running { setup, _child: Some(child), ends: Vec::new() }
            }
            false => {
                let prefix = format!("{}/", setup.path("").display());
                let status = Command::new(program)
                    .args(["-p", &prefix, "-c", "nginx.conf", "-e", "error.log"])
                    .stdin(Stdio::null())
                    .status()
                    .unwrap();
                assert!(status.success(), "{}", log_of(&setup));
                Running { setup, _child: None, ends: Vec::new() }
            }
        };
        running.ends.push(Ends(running.process()));
        running
    }

    fn process(&self) -> u32 {
        pid_in(&self.setup.path("nginx.pid")).expect("the pid file is there")
    }

    /// USR2, until both are there; the old one and the new one.
    fn change(&mut self) -> (u32, u32) {
        let old = self.process();
        signal_to(old, Signal::Usr2).unwrap();
        let (pid, oldbin) = (self.setup.path("nginx.pid"), self.setup.path("nginx.pid.oldbin"));
        eventually("both pid files", || pid_in(&oldbin) == Some(old) && pid_in(&pid).is_some_and(|new| new != old));
        let new = self.process();
        self.ends.push(Ends(new));
        self.ends.extend(children_of(new).into_iter().map(Ends));
        (old, new)
    }

    fn ends(&self, process: u32, signal: Signal) {
        signal_to(process, signal).unwrap();
        eventually(&format!("the end of {process} by {signal:?}"), || !is_running(process));
    }

    fn get(&self, target: &str) -> Response {
        get_on(&mut Client::connect(self.setup.address()).unwrap(), target)
    }

    fn says(&self, target: &str) -> String {
        text(&self.get(target))
    }

    fn log(&self) -> String {
        log_of(&self.setup)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(process) = pid_in(&self.setup.path("nginx.pid")).filter(|process| is_running(*process)) {
            drop(signal_to(process, Signal::Term));
            // Its folder goes next. A test that fails already is not to end here.
            let deadline = Instant::now() + PATIENCE;
            while is_running(process) && Instant::now() < deadline {
                thread::yield_now();
            }
        }
    }
}

fn log_of(setup: &Setup) -> String {
    fs::read(setup.path("error.log")).map(|bytes| text_of(&bytes)).unwrap_or_default()
}

fn pid_in(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

const FOREGROUND: &str = "daemon off; worker_processes 2;";
const DAEMON: &str = "daemon on; worker_processes 2;";
/// Who answers is told by the process' number.
const SITE: &str = "server { listen 127.0.0.1:{PORT}; listen unix:{DIR}/site.sock; return 200 $pid; }";

#[test]
fn the_new_binary_takes_the_place_of_the_old_one() {
    for main in [DAEMON, FOREGROUND] {
        let mut site = Running::start(Setup::new().main(main), SITE);
        let socket = site.setup.path("site.sock");
        // More than once: who was new is who is replaced.
        for _ in 0..2 {
            let (old, new) = site.change();
            site.ends(old, Signal::Quit);
            assert!(!site.setup.path("nginx.pid.oldbin").exists(), "{main}");
            assert_eq!(site.process(), new, "{main}");
            let serving = children_of(new)[0];
            assert_eq!(site.says("/"), serving.to_string(), "{main}");
            assert!(UnixStream::connect(&socket).is_ok(), "{main}: who leaves takes no socket along");
        }
        let last = site.process();
        site.ends(last, Signal::Quit);
        assert!(!socket.exists() && !site.setup.path("nginx.pid").exists(), "{main}: the last one tidies up");
    }
}

#[test]
fn the_old_binary_comes_back_when_the_new_one_ends() {
    for main in [DAEMON, FOREGROUND] {
        for (signal, oldbin_serves) in [(Signal::Term, true), (Signal::Quit, false), (Signal::Kill, false)] {
            let mut site = Running::start(Setup::new().main(main), SITE);
            let (old, new) = site.change();
            if !oldbin_serves {
                let serving = children_of(old).into_iter().find(|child| *child != new).unwrap();
                signal_to(old, Signal::Winch).unwrap();
                eventually("the old one's serving process to end", || !is_running(serving));
                assert_eq!(site.says("/"), children_of(new)[0].to_string());
            }
            let of_new = children_of(new);
            site.ends(new, signal);
            // A killed supervisor leaves a process behind that serves on.
            of_new.into_iter().for_each(|process| drop(signal_to(process, Signal::Kill)));
            eventually("the pid file to be the old one's again", || {
                pid_in(&site.setup.path("nginx.pid")) == Some(old) && !site.setup.path("nginx.pid.oldbin").exists()
            });
            // A child that is only just made is not yet the process that serves, and one that was killed may be there still.
            eventually("the old one to serve", || {
                let children = children_of(old);
                !children.is_empty() && children.iter().any(|child| site.says("/") == child.to_string())
            });
            assert!(UnixStream::connect(site.setup.path("site.sock")).is_ok(), "{main} {signal:?}");
        }
    }
}

#[test]
fn hup_brings_the_workers_of_the_old_binary_back_with_the_old_configuration() {
    let mut site = Running::start(Setup::new().main(DAEMON), "server { listen 127.0.0.1:{PORT}; return 200 old; }");
    site.setup.configure("server { listen 127.0.0.1:{PORT}; return 200 new; }");
    let (old, new) = site.change();
    signal_to(old, Signal::Winch).unwrap();
    eventually("the old one to have none", || children_of(old) == [new]);
    assert_eq!(site.says("/"), "new");
    signal_to(old, Signal::Hup).unwrap();
    eventually("the old one to serve again", || children_of(old).len() == 2);
    site.ends(new, Signal::Term);
    eventually("the old one alone to answer", || children_of(old).len() == 1);
    assert_eq!(site.says("/"), "old");
}

#[test]
fn a_second_order_and_a_binary_that_cannot_start_change_nothing() {
    let mut site = Running::start(Setup::new().main(DAEMON), SITE);
    let (old, new) = site.change();
    for process in [old, new] {
        signal_to(process, Signal::Usr2).unwrap();
    }
    eventually("both to have refused", || site.log().matches("the binary is being changed already").count() == 2);
    site.ends(old, Signal::Quit);
    assert_eq!(site.process(), new);

    site.setup.configure("server { listen 127.0.0.1:{PORT}; lisen 80; }");
    signal_to(new, Signal::Usr2).unwrap();
    eventually("the new one's end", || site.log().matches("exited with code 1").count() == 1);
    eventually("the place to be taken back", || pid_in(&site.setup.path("nginx.pid")) == Some(new));
    assert!(site.log().contains("unknown directive \"lisen\""), "{}", site.log());
    assert!(!site.setup.path("nginx.pid.oldbin").exists());
    assert_eq!(site.says("/"), children_of(new)[0].to_string());
}

#[test]
fn a_request_under_way_ends_in_the_old_binary() {
    let mut origin = HandOrigin::start().unwrap();
    let mut site = Running::start(
        Setup::new().main(DAEMON).name("ORIGIN", origin.address()),
        "server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } location = /pid { return 200 $pid; } }",
    );
    let mut client = Client::connect(site.setup.address()).unwrap();
    client.send(get("/").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let mut response = client.read_head().unwrap();
    let (old, new) = site.change();
    signal_to(old, Signal::Quit).unwrap();
    eventually("the new one alone to accept", || site.says("/pid") == children_of(new)[0].to_string());
    fetch.send("rest").unwrap();
    client.read_body(&mut response).unwrap();
    assert_eq!(text(&response), "halfrest");
    eventually("the old one to end", || !is_running(old));
}

/// Asks until told to end, on one connection for as long as that lives; how often it was answered.
///
/// A client that has sent a request on a kept connection and is told nothing but its end asks again on another one, as
/// every browser does (RFC 9112 §9.3.1). On a new connection there is no excuse.
fn visit(connect: &dyn Fn() -> Client, keeps: bool, is_over: &AtomicBool) -> usize {
    let mut client = connect();
    let mut is_kept = false;
    let mut answered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let number = answered % 7;
        let sent = client.send(get(&format!("/{number}")).as_bytes());
        match sent.and_then(|()| client.read_response("GET")) {
            Ok(response) => {
                assert_eq!((response.status, text(&response)), (200, format!("page {number}")));
                is_kept = keeps && response.keeps_connection();
                answered += 1;
            }
            Err(ClientError::Closed | ClientError::Io(_)) if is_kept => is_kept = false,
            Err(error) => panic!("/{number}, kept: {is_kept}: {error}"),
        }
        if !is_kept {
            client = connect();
        }
    }
    answered
}

/// The same by HTTP/2, whose GOAWAY says which requests nobody has looked at.
fn visit_by_http2(connect: &dyn Fn() -> Http2Client, is_over: &AtomicBool) -> usize {
    let mut client = connect();
    let mut is_kept = false;
    let mut answered = 0;
    while !is_over.load(Ordering::Relaxed) {
        let number = answered % 7;
        match client.get(&format!("/{number}")) {
            Ok(response) => {
                assert_eq!((response.status, text(&response)), (200, format!("page {number}")));
                is_kept = true;
                answered += 1;
            }
            Err(Http2Error::GoAway(0) | Http2Error::Other(_)) if is_kept => {
                is_kept = false;
                client = connect();
            }
            Err(error) => panic!("/{number}, kept: {is_kept}: {error}"),
        }
    }
    answered
}

#[test]
fn no_request_is_lost_while_one_binary_follows_the_other() {
    let origin = Origin::start().unwrap();
    for number in 0..7 {
        origin.answer(format!("/{number}").as_str(), Answer::ok(format!("page {number}")));
    }
    let (authority, setup) = certified();
    let http = "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT}; listen 127.0.0.1:{PORT2} ssl; http2 on; {ONE} server_name site.test;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1s; }
         }";
    let mut site = Running::start(setup.main(DAEMON).name("ORIGIN", origin.address()), http);
    let (plain, secure): (SocketAddr, SocketAddr) = (site.setup.address(), site.setup.other_address());
    let tls = Tls::new("site.test", &authority);
    let in_clear = || Client::connect(plain).unwrap();
    let in_tls = || Client::connect_tls(secure, &tls).unwrap();
    let by_http2 = || Http2Client::connect_tls(secure, &tls).unwrap();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = RaiseOnDrop(&is_over);
        let by_http2 = scope.spawn(|| visit_by_http2(&by_http2, &is_over));
        let visitors: Vec<_> = (0..4)
            .map(|number| {
                let is_over = &is_over;
                let connect: &(dyn Fn() -> Client + Sync) = if number < 2 { &in_clear } else { &in_tls };
                scope.spawn(move || visit(connect, number % 2 == 0, is_over))
            })
            .collect();
        for round in 0..4 {
            let (old, new) = site.change();
            if round == 2 {
                // Once there and back.
                signal_to(old, Signal::Winch).unwrap();
                eventually("the old one to have none", || children_of(old) == [new]);
                signal_to(old, Signal::Hup).unwrap();
                eventually("the old one to serve again", || children_of(old).len() == 2);
                site.ends(new, Signal::Quit);
                eventually("the pid file", || pid_in(&site.setup.path("nginx.pid")) == Some(old));
                continue;
            }
            site.ends(old, Signal::Quit);
        }
        drop(over);
        for visitor in visitors.into_iter().chain([by_http2]) {
            assert!(visitor.join().expect("every request is answered") > 4);
        }
    });
    assert!(!site.log().contains("[alert]"), "{}", site.log());
}

#[test]
fn each_socket_is_served_whatever_the_number_of_workers() {
    let mut site = Running::start(Setup::new().main("worker_processes 3;"), SITE);
    for workers in [1, 4, 2] {
        let setup = std::mem::replace(&mut site.setup, Setup::new());
        site.setup = setup.main(&format!("worker_processes {workers};"));
        site.setup.configure(SITE);
        let (old, new) = site.change();
        site.ends(old, Signal::Quit);
        let serving = children_of(new)[0].to_string();
        // With one socket left to nobody, one in three would wait in vain.
        for _ in 0..40 {
            let mut client = Client::connect(site.setup.address()).unwrap();
            client.set_patience(PATIENCE);
            assert_eq!(text(&get_on(&mut client, "/")), serving, "{workers} workers");
        }
    }
}

#[test]
fn pages_on_disk_go_over_to_the_new_binary() {
    let mut slow = HandOrigin::start().unwrap();
    let origin = Origin::start().unwrap();
    origin.answer("/page", Answer::ok("page"));
    origin.answer("/fresh", Answer::ok("first"));
    let http = "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / {
                proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_bypass $arg_anew;
                proxy_cache_key $uri;
            }
            location /slow { proxy_pass http://{SLOW}; }
         }";
    let setup = Setup::new().main(DAEMON).name("ORIGIN", origin.address()).name("SLOW", slow.address());
    let mut site = Running::start(setup, http);
    for target in ["/page", "/fresh"] {
        assert_eq!(cached(&site.get(target)), "MISS");
    }
    // One that goes on for longer than the old binary keeps the disk.
    let mut client = Client::connect(site.setup.address()).unwrap();
    client.send(get("/slow").as_bytes()).unwrap();
    let mut fetch = slow.accept().unwrap();
    fetch.request().unwrap().unwrap();

    let (old, _) = site.change();
    eventually("the new one to wait for the disk", || site.log().contains("is in use by another process"));
    let of_old = children_of(old);
    signal_to(old, Signal::Winch).unwrap();
    // What is refreshed while the old one has the disk is not to come back from it.
    origin.answer("/fresh", Answer::ok("second"));
    eventually("the new one alone to serve", || {
        let refreshed = site.get("/fresh?anew=1");
        cached(&refreshed) == "BYPASS" && text(&refreshed) == "second" && site.says("/fresh") == "second"
    });
    eventually("the disk to be the new one's", || site.log().matches("is open with").count() == 2);
    let asked = origin.count();
    assert_eq!((cached(&site.get("/page")), origin.count()), ("HIT", asked));
    assert_eq!(site.says("/fresh"), "second");
    assert!(of_old.into_iter().any(is_running), "the long one goes on");
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlong").unwrap();
    assert_eq!(text(&client.read_response("GET").unwrap()), "long");
    site.ends(old, Signal::Quit);
}

#[test]
fn larder_follows_nginx_and_nginx_larder() {
    let nginx = PathBuf::from("/usr/sbin/nginx");
    let setup = Setup::new().main("worker_processes 2;");
    let link = setup.path("nginx");
    let point_to = |program: &Path| {
        drop(fs::remove_file(&link));
        std::os::unix::fs::symlink(program, &link).unwrap();
    };
    point_to(&nginx);
    let http = "server { listen 127.0.0.1:{PORT}; listen unix:{DIR}/site.sock; return 200 $nginx_version; }";
    let mut site = Running::start_program(setup, http, &link);
    let program = |pid: u32| fs::read_link(format!("/proc/{pid}/exe")).unwrap();
    for next in [binary(), nginx.clone(), binary()] {
        // nginx hears a signal that comes before it waits for signals only with the next.
        assert_eq!(site.get("/").status, 200);
        point_to(&next);
        let (old, new) = site.change();
        site.ends(old, Signal::Quit);
        assert_eq!(program(new), fs::canonicalize(&next).unwrap());
        assert_eq!(site.get("/").status, 200);
        assert!(UnixStream::connect(site.setup.path("site.sock")).is_ok());
        // What start-stop-daemon looks for.
        assert_eq!(fs::read_to_string(format!("/proc/{new}/comm")).unwrap(), "nginx\n");
    }
}
