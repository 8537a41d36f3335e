//! Signals: a new configuration, reopened logs, and the two ways to end.

use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_testkit::{Answer, Framing, HandOrigin, Origin, PATIENCE, RaiseOnDrop, Signal, is_running, text_of};

use crate::site::{Ends, Setup, Site, asked, cached, eventually, get, get_on, text};

fn says(what: &str) -> String {
    format!("server {{ listen 127.0.0.1:{{PORT}}; location / {{ return 200 {what}; }} }}")
}

#[test]
fn an_open_connection_gets_the_answer_of_the_new_configuration() {
    let site = Site::start(&says("old"));
    let mut client = site.client();
    assert_eq!(text(&get_on(&mut client, "/")), "old");
    let process = site.serving_process();
    site.change_to(&says("new"));
    assert_eq!(text(&get_on(&mut client, "/")), "new");
    assert_eq!(text(&site.get("/")), "new");
    assert_eq!(site.serving_process(), process, "the same process serves on");
}

/// One page of `{ORIGIN}`, cached.
fn cache(label: &str) -> String {
    format!(
        "proxy_cache_path {{DIR}}/pages keys_zone=pages:1m;
         server {{
            listen 127.0.0.1:{{PORT}};
            add_header X-Cache $upstream_cache_status;
            add_header X-Label {label};
            location / {{ proxy_pass http://{{ORIGIN}}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_lock on; }}
         }}"
    )
}

#[test]
fn a_reload_loses_no_page() {
    let origin = Origin::start().unwrap();
    origin.answer("/p", Answer::ok("page"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(&cache("old"));
    site.get("/p");
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    site.change_to(&cache("new"));
    let page = site.get("/p");
    assert_eq!((cached(&page), page.field("X-Label")), ("HIT", Some("new")));
    assert_eq!(origin.count(), 1);
}

#[test]
fn a_response_under_way_ends_whole() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(&cache("old"));
    let mut client = site.client();
    client.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let mut response = client.read_head().unwrap();
    site.change_to(&says("new"));
    // Another one meanwhile, under which nothing runs.
    site.change_to(&says("newer"));
    site.wait_for_log("exited with code 0");
    site.change_to(&says("new"));
    let ended = || site.count_in_log("exited with code 0");
    eventually("the end of the one before", || ended() == 2);
    fetch.send("rest").unwrap();
    client.read_body(&mut response).unwrap();
    assert_eq!((text(&response), response.framing), ("halfrest".to_owned(), Framing::Length));
    eventually("the end of the first", || ended() == 3);
    assert_eq!(text(&get_on(&mut client, "/")), "new", "and the connection goes on with the new one");
}

#[test]
fn no_request_fails_while_one_configuration_follows_the_other() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(&cache("0"));
    let is_over = AtomicBool::new(false);
    let answered = std::thread::scope(|scope| {
        let over = RaiseOnDrop(&is_over);
        let visitors: Vec<_> = (0..4)
            .map(|visitor| {
                let (site, is_over) = (&site, &is_over);
                scope.spawn(move || {
                    let mut kept = site.client();
                    let mut answered = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let target = format!("/{}", answered % 7);
                        let response = if visitor % 2 == 0 { get_on(&mut kept, &target) } else { site.get(&target) };
                        assert_eq!((response.status, text(&response)), (200, "page".to_owned()), "{target}");
                        answered += 1;
                        // On a fast machine one comes to the end of `keepalive_requests`.
                        if visitor % 2 == 0 && response.field("Connection") == Some("close") {
                            kept = site.client();
                        }
                    }
                    answered
                })
            })
            .collect();
        for number in 1..=15 {
            site.change_to(&cache(&number.to_string()));
        }
        drop(over);
        visitors.into_iter().map(|visitor| visitor.join().expect("every request is answered")).sum::<usize>()
    });
    assert!(answered > 15, "{answered}");
    assert_eq!(site.get("/0").field("X-Label"), Some("15"));
}

#[test]
fn zones_come_and_go_while_their_pages_are_sent() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(&cache("old"));
    let mut client = site.client();
    client.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let mut response = client.read_head().unwrap();
    site.change_to(&says("nothing"));
    site.change_to(&cache("new").replace("pages:1m", "pages:2m"));
    fetch.send("rest").unwrap();
    client.read_body(&mut response).unwrap();
    assert_eq!(text(&response), "halfrest");
    let mut again = site.client();
    again.send(get("/p").as_bytes()).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap().unwrap();
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(again.read_response("GET").unwrap().body, b"ok", "a zone that was away begins empty");
}

#[test]
fn addresses_come_and_go() {
    let site = Site::start("server { listen 127.0.0.1:{PORT}; return 200 one; }");
    let (one, two) = (site.setup().address(), site.setup().other_address());
    assert!(TcpStream::connect(two).is_err());
    site.change_to(
        "server { listen 127.0.0.1:{PORT}; return 200 one; } server { listen 127.0.0.1:{PORT2}; return 200 two; }",
    );
    assert!(TcpStream::connect(one).is_ok() && TcpStream::connect(two).is_ok());
    assert_eq!(text(&site.get("/")), "one");
    site.change_to("server { listen 127.0.0.1:{PORT2}; return 200 two; }");
    assert!(TcpStream::connect(two).is_ok());
    eventually("the removed address to be closed", || TcpStream::connect(one).is_err());
}

#[test]
fn an_address_that_is_taken_refuses_the_reload_and_nothing_else() {
    let site = Site::start(&says("old"));
    let _taken = std::net::TcpListener::bind(site.setup().other_address()).unwrap();
    site.setup().configure("server { listen 127.0.0.1:{PORT}; listen 127.0.0.1:{PORT2}; return 200 new; }");
    site.signal(Signal::Hup);
    site.wait_for_log("the old one goes on");
    assert!(site.count_in_log("(98: Address already in use)") > 0, "{}", site.server().error_log());
    assert_eq!(text(&site.get("/")), "old");
}

#[test]
fn what_needs_a_new_start_is_said_and_the_rest_applies() {
    let site = Setup::new().one_worker().start(&says("old"));
    let text_of_file = fs::read_to_string(site.setup().path("nginx.conf")).unwrap();
    let changed = text_of_file.replace("worker_processes 1;", "worker_processes 2;").replace("old", "new");
    site.setup().write_raw(&changed);
    site.reload();
    assert_eq!(site.count_in_log("a new \"worker_processes\" takes effect when larder is started again"), 1);
    assert_eq!(text(&site.get("/")), "new");
}

#[test]
fn logs_move_where_the_new_configuration_says() {
    let logs_to = |log: &str| {
        format!(
            "log_format uri $request_uri; access_log {log} uri; server {{ listen 127.0.0.1:{{PORT}}; return 200 x; }}"
        )
    };
    let site = Site::start(&logs_to("access.log"));
    site.get("/before");
    site.wait_for_text("access.log", "/before\n");
    site.change_to(&logs_to("other.log"));
    site.get("/after");
    site.wait_for_text("other.log", "/after\n");
    assert!(!site.server().access_log().contains("/after"));
}

#[test]
fn renamed_logs_are_opened_anew() {
    let site = Site::start(
        "log_format uri $request_uri; access_log access.log uri;
         server { listen 127.0.0.1:{PORT}; return 200 x; location /missing { root {DIR}/nowhere; } }",
    );
    let _ = site.get("/before");
    site.wait_for_text("access.log", "/before\n");
    for log in ["access.log", "error.log"] {
        fs::rename(site.setup().path(log), site.setup().path(&format!("{log}.1"))).unwrap();
    }
    site.signal(Signal::Usr1);
    eventually("the logs to be there again", || {
        ["access.log", "error.log"].iter().all(|log| site.setup().path(log).exists())
    });
    // The serving process changes over when it hears of it: until then lines still go to the old file.
    let mut number = 0;
    eventually("a line in the new log", || {
        number += 1;
        site.get(&format!("/after/{number}"));
        site.server().access_log().contains("/after/")
    });
    assert!(site.server().text("access.log.1").contains("/before\n"));
    site.reload();
    assert!(!site.server().text("error.log.1").contains("the new configuration holds"));
}

#[test]
fn quit_finishes_what_runs_and_keeps_nobody_else() {
    let mut origin = HandOrigin::start().unwrap();
    let mut site = Setup::new().name("ORIGIN", origin.address()).start(
        "server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } location /now { return 200 now; } }",
    );
    let pid_file = site.setup().path("nginx.pid");
    let mut idle = site.client();
    assert_eq!(text(&get_on(&mut idle, "/now")), "now");
    let (mut slow, mut fetch) = asked(&site, &mut origin, "/slow");
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let mut response = slow.read_head().unwrap();
    let process = site.serving_process();

    site.signal(Signal::Quit);
    assert!(idle.is_closed_within(PATIENCE), "an idle connection is closed");
    let address = site.setup().address();
    eventually("the listening socket to be closed", || TcpStream::connect(address).is_err());
    assert!(is_running(process) && pid_file.exists(), "a response is still under way");
    fetch.send("rest").unwrap();
    slow.read_body(&mut response).unwrap();
    assert_eq!((text(&response), response.framing), ("halfrest".to_owned(), Framing::Length));
    assert!(slow.is_closed_within(PATIENCE));
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(!is_running(process) && !pid_file.exists());
}

#[test]
fn quit_waits_for_nobody_who_has_sent_nothing() {
    let mut site = Setup::new().one_worker().start("server { listen 127.0.0.1:{PORT}; return 200 now; }");
    // As browsers open them in advance. Who is answered came later, so that these are accepted by then.
    let mut silent: Vec<_> = (0..3).map(|_| site.client()).collect();
    assert_eq!(site.get("/").body, b"now");
    let process = site.serving_process();
    site.signal(Signal::Quit);
    for client in &mut silent {
        assert!(client.is_closed_within(PATIENCE));
    }
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(!is_running(process));
}

#[test]
fn term_and_int_end_at_once() {
    for signal in [Signal::Term, Signal::Int] {
        let mut origin = HandOrigin::start().unwrap();
        let mut site = Setup::new()
            .name("ORIGIN", origin.address())
            .start("server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } }");
        let (mut slow, _fetch) = asked(&site, &mut origin, "/slow");
        let process = site.serving_process();
        site.signal(signal);
        // The answer that runs is not waited for: it never comes.
        assert!(site.server_mut().wait().is_some_and(|status| status.success()), "{signal:?}");
        assert!(slow.is_closed_within(PATIENCE), "{signal:?}");
        assert!(!is_running(process) && !site.setup().path("nginx.pid").exists(), "{signal:?}");
    }
}

#[test]
fn a_pid_file_means_that_larder_listens() {
    let site = Site::start(&says("x"));
    let pid = fs::read_to_string(site.setup().path("nginx.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", site.server().pid()));
    assert!(TcpStream::connect(site.setup().address()).is_ok());
}

#[test]
fn orders_reach_the_running_larder() {
    let mut site = Site::start(&says("old"));
    site.setup().configure(&says("new"));
    let order = |site: &Site, word: &str| {
        let output = site.setup().larder(&["-s", word]);
        assert!(output.status.success(), "{word}: {output:?}");
    };
    order(&site, "reload");
    site.get_until("/", "the new configuration", |response| text(response) == "new");
    fs::rename(site.setup().path("error.log"), site.setup().path("old.log")).unwrap();
    order(&site, "reopen");
    eventually("the error log to be there again", || site.setup().path("error.log").exists());
    order(&site, "quit");
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    let output = site.setup().larder(&["-s", "stop"]);
    let stderr = text_of(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr.contains("open() \"") && stderr.contains("nginx.pid\" failed (2: No such file or directory)"),
        "{stderr}"
    );
}

#[test]
fn a_new_limit_of_open_files_holds_after_a_reload() {
    for main in ["daemon off;", "daemon off; master_process off;"] {
        let site = Setup::new().main(&format!("{main} worker_rlimit_nofile 512;")).start(&says("x"));
        let serving = site.server().children().first().copied().unwrap_or_else(|| site.server().pid());
        let limit = || {
            let limits = fs::read_to_string(format!("/proc/{serving}/limits")).unwrap();
            let line = limits.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
            line.split_whitespace().next().unwrap().to_owned()
        };
        assert_eq!(limit(), "512");
        let text = fs::read_to_string(site.setup().path("nginx.conf")).unwrap();
        fs::write(site.setup().path("nginx.conf"), text.replace("nofile 512", "nofile 1024")).unwrap();
        site.signal(Signal::Hup);
        eventually("the new limit", || limit() == "1024");
    }
}

#[test]
fn another_program_gets_no_signal() {
    let setup = Setup::new();
    setup.configure(&says("nothing"));
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let _ends = Ends(other.id());
    fs::write(setup.path("nginx.pid"), format!("{}\n", other.id())).unwrap();
    let output = setup.larder(&["-s", "stop"]);
    assert!(!output.status.success());
    let told = text_of(&output.stderr);
    assert!(told.contains("sleep, and no larder: name the configuration of the larder that runs with -c"), "{told}");
    assert!(other.try_wait().unwrap().is_none(), "it was ended");
}

#[test]
fn an_order_to_stop_stops() {
    let mut site = Site::start(&says("x"));
    assert!(site.setup().larder(&["-s", "stop"]).status.success());
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
}

#[test]
fn the_pid_file_and_the_socket_beside_it_move_with_a_reload() {
    for main in ["daemon off; worker_processes 1;", "daemon off; master_process off;"] {
        let site = Setup::new().main(main).start(&says("old"));
        let file = |name: &str| site.setup().path(name);
        let pid = pid_in(&file("nginx.pid"));
        let text_of_file = fs::read_to_string(file("nginx.conf")).unwrap();
        let moved = |name: &str| site.setup().write_raw(&text_of_file.replace("nginx.pid;", &format!("{name}.pid;")));
        moved("other");
        site.signal(Signal::Hup);
        eventually("the pid file moves", || pid_in(&file("other.pid")) == pid);
        eventually("the socket does", || file("other.ask").exists());
        assert!(!file("nginx.pid").exists() && !file("nginx.ask").exists());
        let asked = || site.setup().larder_words(&["why"]).status.success();
        assert!(asked(), "by the new configuration");
        // What is in the way stays, and it is said where the server can be asked.
        fs::write(file("third.ask"), "mine").unwrap();
        moved("third");
        site.signal(Signal::Hup);
        eventually("the pid file moves again", || pid_in(&file("third.pid")) == pid);
        site.wait_for_log("find this server by");
        assert_eq!(fs::read_to_string(file("third.ask")).unwrap(), "mine");
        let by_former = crate::site::run(&["why", "--pid", &file("other.pid").display().to_string()]);
        assert!(by_former.status.success() && !asked());
    }
}

fn pid_in(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[test]
fn a_daemon_serves_when_its_front_process_returns() {
    let setup = Setup::new().main("worker_processes 1;");
    setup.configure(&says("x"));
    let output = setup.larder(&[]);
    let pid = pid_in(&setup.path("nginx.pid"));
    let _ends = pid.map(Ends);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((output.stdout.as_slice(), output.stderr.as_slice()), (&b""[..], &b""[..]));
    let pid = pid.expect("the pid file is there");
    assert!(is_running(pid));
    let mut client = larder_testkit::Client::connect(setup.address()).unwrap();
    assert_eq!(text(&get_on(&mut client, "/")), "x");
    assert!(setup.larder(&["-s", "quit"]).status.success());
    eventually("the daemon to end", || !is_running(pid));
    assert!(!setup.path("nginx.pid").exists());
}

#[test]
fn a_daemon_that_cannot_serve_says_so_before_its_front_process_returns() {
    let setup = Setup::new().main("worker_processes 1;");
    setup.configure("server { listen 127.0.0.1:{PORT}; lisen 80; }");
    let output = setup.larder(&[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text_of(&output.stderr);
    assert!(stderr.contains("unknown directive \"lisen\""), "{stderr}");

    let _taken = std::net::TcpListener::bind(setup.address()).unwrap();
    setup.configure(&says("x"));
    let output = setup.larder(&[]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = text_of(&output.stderr);
    assert!(stderr.contains(&format!("bind() to {} failed (98: Address already in use)", setup.address())), "{stderr}");
    assert!(!setup.path("nginx.pid").exists());
}

#[test]
fn one_process_serves_where_none_supervises() {
    let mut site = Setup::new().main("daemon off; master_process off;").start(&says("x"));
    assert_eq!(site.server().children(), [0_u32; 0]);
    assert_eq!(text(&site.get("/")), "x");
    site.signal(Signal::Quit);
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(!site.setup().path("nginx.pid").exists());
}

#[test]
fn worker_shutdown_timeout_ends_what_is_left_of_the_old_configuration() {
    let mut origin = HandOrigin::start().unwrap();
    let site = Setup::new().main("daemon off; worker_shutdown_timeout 50ms;").name("ORIGIN", origin.address()).start(
        "access_log access.log; server { listen 127.0.0.1:{PORT}; location / { return 200 x; }
            location /slow { proxy_pass http://{ORIGIN}; } }",
    );
    // One that is served, one that has never asked, and one that sends nothing for a while.
    let (mut slow, mut fetch) = asked(&site, &mut origin, "/slow");
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf").unwrap();
    let response = slow.read_head().unwrap();
    assert_eq!(response.status, 200);
    let mut silent = site.client();
    let mut kept = site.client();
    assert_eq!(text(&get_on(&mut kept, "/")), "x");
    site.reload();
    for client in [&mut slow, &mut silent, &mut kept] {
        assert!(client.read_bytes(4).is_ok() || client.is_closed_within(PATIENCE));
        assert!(client.is_closed_within(PATIENCE));
    }
    assert_eq!(text(&site.get("/")), "x", "who comes later is served");
    site.wait_for_text("access.log", "/slow");
}

#[test]
fn who_is_leaving_writes_to_the_reopened_log_too() {
    let mut origin = HandOrigin::start().unwrap();
    let mut site = Setup::new()
        .name("ORIGIN", origin.address())
        .start("access_log access.log; server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } }");
    let (mut slow, mut fetch) = asked(&site, &mut origin, "/slow");
    let process = site.serving_process();
    site.signal(Signal::Quit);
    eventually("the address to be closed", || TcpStream::connect(site.setup().address()).is_err());
    fs::rename(site.setup().path("access.log"), site.setup().path("old.log")).unwrap();
    site.signal(Signal::Usr1);
    let (folder, log) = (format!("/proc/{process}/fd"), site.setup().path("access.log"));
    eventually("the process that leaves to have it", || {
        let open = fs::read_dir(&folder).unwrap().filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
        open.into_iter().any(|path| path == log)
    });
    fetch.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").unwrap();
    assert_eq!(text(&slow.read_response("GET").unwrap()), "ok");
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(site.server().access_log().contains("GET /slow"), "{}", site.server().text("old.log"));
}

#[test]
fn worker_shutdown_timeout_ends_a_graceful_stop() {
    let mut origin = HandOrigin::start().unwrap();
    let mut site = Setup::new()
        .main("daemon off; worker_shutdown_timeout 50ms;")
        .name("ORIGIN", origin.address())
        .start("access_log access.log; server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; } }");
    let (mut slow, _fetch) = asked(&site, &mut origin, "/slow");
    site.signal(Signal::Quit);
    assert!(site.server_mut().wait().is_some_and(|status| status.success()));
    assert!(slow.is_closed_within(PATIENCE));
    assert!(site.server().access_log().contains("GET /slow"), "what is cut off is logged all the same");
}
