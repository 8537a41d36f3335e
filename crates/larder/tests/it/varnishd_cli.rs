//! `larder varnishd` as a process: its CLI, what is served, and its end.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;

use larder_testkit::{Answer, Client, Folder, Origin, Signal, end_of, free_port, signal_to};

use crate::running_varnishd::{Cli, GOOD, SECRET, Varnishd};
use crate::site::{binary, eventually};

const BAD: &str = "vcl 4.1;\nbackend default none;\nsub vcl_recv { oops; }\n";

#[test]
fn who_does_not_know_the_secret_may_ask_for_nothing() {
    let varnishd = Varnishd::start(&["-f", "", "-S", "secret"]);
    let mut cli = varnishd.connect();
    let (status, text) = cli.answer();
    assert!(status == 107 && text.ends_with("\n\nAuthentication required.\n"), "{status} {text}");
    cli.says("status", 107, "Authentication required");
    cli.says("no-such-thing", 107, "Authentication required");
    cli.says("ping", 200, "PONG ");
    cli.says("auth 00", 500, "");
    assert!(cli.is_closed());
    let mut cli = varnishd.connect();
    cli.answer();
    cli.0.write_all(&[b'x'; 5000]).unwrap();
    assert!(cli.is_closed(), "a stranger cannot fill the memory");
    varnishd.cli(SECRET).says("banner", 200, "Varnish Cache CLI 1.0");
}

#[test]
fn a_manager_is_called_and_called_again_when_it_has_gone() {
    let manager = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let place = manager.local_addr().unwrap().to_string();
    let varnishd = Varnishd::start(&["-S", "secret", "-f", "", "-M", &place]);
    for word in ["stopped", "running"] {
        let mut cli = Cli::of(manager.accept().unwrap().0).proven(SECRET);
        assert_eq!(cli.ask("status"), (200, format!("Child in state {word}")));
        if word == "stopped" {
            for order in [format!("vcl.load a {}", varnishd.folder.join("good.vcl").display()), "vcl.use a".into()] {
                assert_eq!(cli.ask(&order).0, 200, "{order}");
            }
            assert_eq!(cli.ask("start").0, 200);
        }
    }
    assert!(varnishd.answers());
    let mut cli = Cli::of(manager.accept().unwrap().0);
    assert_eq!(cli.answer().0, 107);
    assert_eq!(cli.ask("status").0, 107, "a manager has to know the secret");
}

#[test]
fn a_vcl_is_loaded_used_and_discarded_while_requests_are_answered() {
    let varnishd = Varnishd::start(&["-f", "", "-S", "secret"]);
    let mut cli = varnishd.cli(SECRET);
    cli.says("status", 200, "Child in state stopped");
    cli.says("start", 300, "No VCL available");
    cli.says(&format!("vcl.inline a << END\n{BAD}END"), 106, "<a>:3");
    cli.says(&format!("vcl.inline a << END\n{GOOD}END"), 200, "VCL compiled.");
    cli.says("vcl.use a", 200, "VCL 'a' now active");
    cli.says("start", 200, "");
    cli.says("start", 300, "Child in state running");
    cli.says("status", 200, "Child in state running");
    assert!(varnishd.answers());
    cli.says(&format!("vcl.inline a << END\n{GOOD}END"), 106, "Already a VCL named a");
    cli.says(&format!("vcl.inline b << END\n{BAD}END"), 106, "\"oops\" is no statement");
    cli.says("vcl.use b", 106, "No VCL named b known.");
    cli.says("vcl.load b good.vcl", 200, "VCL compiled.");
    cli.says("vcl.use b", 200, "VCL 'b' now active");
    cli.says("vcl.discard b", 300, "Cannot discard active VCL program");
    cli.says("vcl.discard a", 200, "");
    cli.says("vcl.list", 200, "active   auto    warm         0    b\n");
    cli.says("vcl.show b", 200, GOOD);
    assert!(varnishd.answers());
    cli.says("stop", 200, "");
    cli.says("status", 200, "Child in state stopped");
    cli.says("start", 200, "");
    assert!(varnishd.answers());
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

/// What a request is answered by: the reason of a response that a VCL makes.
fn reason(varnishd: &Varnishd, path: &str) -> String {
    let mut client = Client::connect(varnishd.listen).unwrap();
    client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
    client.read_response("GET").unwrap().status_line.splitn(3, ' ').last().unwrap().to_owned()
}

/// The order that loads a VCL which answers with its name, unless these statements lead elsewhere.
fn named(name: &str, statements: &str) -> String {
    format!(
        "vcl.inline {name} << END\nvcl 4.1;\nbackend default none;\n\
         sub vcl_recv {{ {statements} return (synth(200, \"{name}\")); }}\nEND"
    )
}

#[test]
fn a_label_gives_requests_to_another_vcl_and_is_moved_while_they_are_answered() {
    let varnishd = Varnishd::start(&["-f", "", "-S", "secret"]);
    let mut cli = varnishd.cli(SECRET);
    cli.says(&named("one", ""), 200, "");
    cli.says(&named("two", ""), 200, "");
    let main = named("main", "if (req.url == \"/label\") { return (vcl(l1)); }");
    cli.says(&main, 106, "no VCL has the label \"l1\"");
    cli.says("vcl.label l1 none", 106, "No VCL named none known");
    cli.says("vcl.label l.1 one", 106, "Illegal label name");
    cli.says("vcl.label two one", 106, "two is not a label");
    cli.says("vcl.label l1 one", 200, "");
    cli.says("vcl.label l2 l1", 300, "VCL labels cannot point to labels");
    cli.says(&main, 200, "");
    cli.says("vcl.use main", 200, "VCL 'main' now active");
    cli.says("start", 200, "");
    assert_eq!((reason(&varnishd, "/"), reason(&varnishd, "/label")), ("main".to_owned(), "one".to_owned()));
    cli.says("vcl.label l1 two", 200, "");
    assert_eq!(reason(&varnishd, "/label"), "two");
    cli.says("vcl.label l1 main", 106, "would create a loop");
    cli.says("vcl.list", 200, "available   label    warm         0    l1      ->    two (1 return(vcl))\n");
    cli.says("vcl.list", 200, "available   auto     warm         0    two     <-    (1 label)\n");
    cli.says("vcl.list -j", 200, "\"refs\": 1");
    cli.says("vcl.deps", 200, "one\ntwo\nl1     two\nmain   l1\n");
    cli.says("vcl.deps -j", 200, "\"deps\"");
    cli.says("vcl.state l1 cold", 106, "Labels are always warm");
    cli.says("vcl.state two cold", 300, "A labeled VCL cannot be set cold");
    cli.says("vcl.discard two", 300, "Cannot discard labeled VCL program two:\n\tl1");
    cli.says("vcl.discard l1", 300, "Cannot discard VCL label l1, other VCLs depend on it:\n\tmain");
    cli.says("vcl.show l1", 200, "\"two\"");
    cli.says("vcl.use l1", 200, "VCL 'l1' now active");
    assert_eq!(reason(&varnishd, "/"), "two");
    cli.says("vcl.label l1 one", 200, "");
    assert_eq!(reason(&varnishd, "/"), "one");
    cli.says("vcl.discard l1", 300, "Cannot discard active VCL program l1");
    cli.says("vcl.use two", 200, "");
    cli.says("vcl.discard l* main one", 200, "");
    cli.says("vcl.list", 200, "active   auto    warm         0    two\n");
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

#[test]
fn a_vcl_of_a_label_keeps_the_text_it_was_loaded_with_and_has_its_own_backends() {
    let varnishd = Varnishd::start(&["-f", "", "-S", "secret"]);
    let mut cli = varnishd.cli(SECRET);
    let text = |say: &str, more: &str| {
        format!(
            "vcl 4.1;\nbackend {say} {{ .host = \"127.0.0.1\"; .port = \"1\"; }}\n\
             sub vcl_recv {{ {more} return (synth(200, \"{say}\")); }}\n"
        )
    };
    // One file, loaded twice.
    varnishd.folder.write("site.vcl", text("old", "")).unwrap();
    cli.says("vcl.load a site.vcl", 200, "");
    cli.says("vcl.label l a", 200, "");
    let more = "if (req.url == \"/label\") { return (vcl(l)); }";
    varnishd.folder.write("site.vcl", text("later", more)).unwrap();
    cli.says("vcl.load b site.vcl", 200, "");
    cli.says("vcl.use b", 200, "");
    cli.says("start", 200, "");
    assert_eq!((reason(&varnishd, "/"), reason(&varnishd, "/label")), ("later".to_owned(), "old".to_owned()));
    for (pattern, shown) in [("", &["b.later"][..]), ("a.*", &["a.old"]), ("*.*", &["b.later", "a.old"])] {
        let (status, text) = cli.ask(format!("backend.list {pattern}").trim_end());
        let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        assert_eq!((status, names.as_slice()), (200, shown), "{pattern}");
    }
    cli.says("backend.set_health a.old sick", 200, "");
    cli.says("backend.list a.*", 200, "sick");
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

#[test]
fn an_operator_says_how_a_backend_is_and_requests_follow() {
    let origin = Origin::start().unwrap();
    origin.answer("/1", Answer::ok("one"));
    origin.answer("/2", Answer::ok("two"));
    let varnishd = Varnishd::start(&["-f", "", "-S", "secret"]);
    let mut cli = varnishd.cli(SECRET);
    cli.says("backend.list", 300, "after \"start\"");
    let backend =
        |name: &str| format!("backend {name} {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n", origin.address().port());
    let vcl =
        ["vcl 4.1;\n", &backend("one"), &backend("two"), "sub vcl_recv { set req.backend_hint = two; return (pass); }"];
    let vcl =
        [&vcl.concat(), "\nsub vcl_backend_fetch { if (bereq.url == \"/1\") { set bereq.backend = one; } }\n"].concat();
    cli.says(&format!("vcl.inline v << END\n{vcl}END"), 200, "VCL compiled.");
    cli.says("vcl.use v", 200, "");
    cli.says("start", 200, "");
    let answers = |url: &str, status: u16| {
        let mut client = Client::connect(varnishd.listen).unwrap();
        client.send(format!("GET {url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, status, "{url}");
    };
    for (line, status, part, one, two) in [
        ("backend.list", 200, "v.one          probe   0/0     healthy   ", 200, 200),
        ("backend.set_health one sick", 200, "", 503, 200),
        ("backend.list", 200, "v.one          sick    0/0     healthy   ", 503, 200),
        ("backend.set_health * sick", 200, "", 503, 503),
        ("backend.set_health v.o* healthy", 200, "", 200, 503),
        ("backend.list -j t*", 200, "\"admin_health\": \"sick\"", 200, 503),
        ("backend.set_health three sick", 106, "No Backends matches", 200, 503),
        ("backend.set_health two ill", 106, "Invalid state ill", 200, 503),
        ("backend.list -x", 106, "Invalid flag x", 200, 503),
        ("backend.set_health two auto", 200, "", 200, 200),
    ] {
        cli.says(line, status, part);
        answers("/1", one);
        answers("/2", two);
    }
}

#[test]
fn parameters_are_set_while_requests_are_answered() {
    let varnishd = Varnishd::start(&["-f", "good.vcl", "-S", "secret", "-r", "max_retries", "-t", "7"]);
    let mut cli = varnishd.cli(SECRET);
    for (line, status, part) in [
        ("param.show default_ttl", 200, "7"),
        ("param.set default_ttl 9", 200, ""),
        ("param.set default_ttl soon", 106, "write a time such as 10 or 2m"),
        ("param.set default_tll 9", 106, "did you mean \"default_ttl\"?"),
        ("param.set max_retries 9", 107, "is protected"),
        ("param.show changed", 200, "default_ttl                   9.000 [seconds]\n"),
        ("param.reset default_ttl", 200, ""),
        ("param.show default_ttl", 200, "(default)"),
        ("param.set default_ttl", 104, "Too few"),
        ("param.set -j default_ttl 8", 200, "\"value\": 8.0"),
        ("param.show default_ttl", 200, "Value is: 8.000 [seconds]\n        Default is: 120.000\n"),
        ("param.reset -j default_ttl", 200, "\"value\": 120.0"),
        ("param.set -j max_retries 9", 107, "is protected"),
        ("param.show max_retries", 200, "NB: The CLI may not set it (-r)."),
        ("param.set feature +http2", 200, ""),
        ("param.show feature", 200, "Value is: none,+http2,+validate_headers,+vcl_req_reset\n"),
        ("param.reset feature", 200, ""),
        ("debug.xid 1000", 200, "XID is 1000 chunk 1"),
        ("debug.xid 2000 10", 200, "XID is 2000 chunk 1"),
        ("debug.xid many", 106, "write a number"),
        ("debug.xid", 200, "XID is 2000 chunk 1"),
        ("debug.listen_address -j", 102, "JSON unimplemented"),
        ("pid", 200, "Master: "),
        ("panic.show -j", 300, "has not panicked"),
        ("panic.clear", 300, "No panic to clear"),
        ("panic.clear -z", 200, ""),
        ("tls.cert.list", 300, "TLS has not been configured"),
        ("tls.cert.load site /etc/ssl/site.pem", 300, "listen with -a ADDRESS,PROXY"),
        ("tls.cert.load", 104, "Too few"),
        ("panic.show", 300, "has not panicked"),
        ("ban req.url ~ .", 200, ""),
        ("ban obj.http.x == \"a b\" && obj.age > 60s", 200, ""),
        ("ban.list", 200, "0 -  obj.http.x == a b && obj.age > 1m\n"),
        ("ban req.url ~ .", 200, ""),
        ("ban.list", 200, "0 C  req.url ~ .\n"),
        ("ban.list -j", 200, "\"spec\": \"req.url ~ .\""),
        ("ban req.url ~", 104, "Too few"),
        ("ban req.method == GET", 106, "Unknown or unsupported field \"req.method\""),
        ("ban req.url ~ (", 106, "Regex compile error"),
        ("debug.vmod", 102, "larder has no debug.vmod"),
        ("nonsense", 101, "Unknown request"),
        ("a \"b", 100, "Missing"),
        ("quit", 500, "Closing"),
    ] {
        cli.says(line, status, part);
    }
    assert!(cli.is_closed());
    assert!(varnishd.answers());
    assert_eq!(varnishd.end(Signal::Int), Some(0));
}

#[test]
fn files_of_the_command_line_are_loaded_and_those_of_the_process_go() {
    let options = ["-f", "good.vcl", "-f", "good.vcl", "-P", "pid", "-a", "u=./v.sock"];
    let refused = Command::new(binary()).arg("varnishd").args(options).output().unwrap();
    assert!(!refused.status.success(), "the path of a socket is absolute");
    let sockets = Folder::new().unwrap();
    let socket = sockets.join("v.sock").display().to_string();
    let varnishd = Varnishd::start(&[&options[..6], &["-a", &format!("u={socket},mode=600")]].concat());
    let pid = varnishd.folder.join("pid");
    let own = varnishd.folder.join("run/_.secret");
    let mut cli = varnishd.cli(&fs::read(&own).unwrap());
    let mode = |path: &str| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(own.to_str().unwrap()), mode(&socket)), (0o600, 0o600));
    cli.says(
        "vcl.list",
        200,
        "available   auto    warm         0    boot0\nactive      auto    warm         0    boot\n",
    );
    cli.says("debug.listen_address", 200, &format!("u {socket} -\n"));
    assert_eq!(fs::read_to_string(&pid).unwrap().trim(), varnishd.child.id().to_string());
    let folder = varnishd.folder.path().to_owned();
    let mut varnishd = varnishd;
    signal_to(varnishd.child.id(), Signal::Term).unwrap();
    assert!(end_of(&mut varnishd.child).is_some_and(|status| status.success()));
    assert!(!folder.join("pid").exists() && !sockets.join("v.sock").exists());
}

#[test]
fn a_vcl_that_is_wrong_does_not_start() {
    let folder = Folder::new().unwrap();
    folder.write("bad.vcl", BAD).unwrap();
    let listen = format!("127.0.0.1:{}", free_port());
    for options in [&["-F"][..], &[]] {
        let output = Command::new(binary())
            .args(["varnishd", "-f", "bad.vcl", "-T", "none", "-j", "none", "-n"])
            .arg(folder.join("run"))
            .args(["-a", &listen])
            .args(options)
            .current_dir(folder.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("bad.vcl:3"), "{options:?}: {said}");
    }
}

#[test]
fn a_daemon_serves_when_its_command_returns() {
    let folder = Folder::new().unwrap();
    folder.write("good.vcl", GOOD).unwrap();
    let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let status = Command::new(binary())
        .args(["varnishd", "-f", "good.vcl", "-T", "none", "-j", "none", "-P", "pid", "-a", &listen.to_string(), "-n"])
        .arg(folder.join("run"))
        .current_dir(folder.path())
        .status()
        .unwrap();
    assert!(status.success());
    let pid = fs::read_to_string(folder.join("pid")).unwrap().trim().parse().unwrap();
    let answered = TcpStream::connect(listen).is_ok();
    signal_to(pid, Signal::Term).unwrap();
    assert!(answered);
    eventually("the pid file is gone", || !folder.join("pid").exists());
}

#[test]
fn a_vcl_judges_requests_that_have_no_host_or_no_path_in_normal_form_and_none_with_odd_fields() {
    let origin = Origin::start().unwrap();
    let backend = format!("backend default {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}", origin.address().port());
    let own = Folder::new().unwrap();
    own.write(
        "own.vcl",
        format!(
            "vcl 4.1; {backend} sub vcl_recv {{ if (req.url ~ \"%zz\") {{ return (synth(410)); }} return (pass); }}"
        ),
    )
    .unwrap();
    own.write("builtin.vcl", format!("vcl 4.1; {backend}")).unwrap();
    // Longer than a field may be.
    let long = format!("GET /{} HTTP/1.1", "x".repeat(20_000));
    for (vcl, request, status, asked) in [
        ("own.vcl", "GET /%zz HTTP/1.1\r\nHost: a\r\n", 410, None),
        ("own.vcl", "GET /../b?c=%zz&d HTTP/1.1\r\nHost: a\r\n", 410, None),
        ("own.vcl", "GET /../b%0?c=1 HTTP/1.1\r\nHost: a\r\n", 404, Some("GET /../b%0?c=1 HTTP/1.1")),
        ("own.vcl", "GET /a HTTP/1.1\r\n", 404, Some("GET /a HTTP/1.1")),
        ("own.vcl", "GET /a b HTTP/1.1\r\nHost: a\r\n", 400, None),
        ("own.vcl", &format!("{long}\r\nHost: a\r\n"), 404, Some(&long)),
        ("own.vcl", "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: pigeon\r\n", 400, None),
        ("builtin.vcl", "GET /a%00 HTTP/1.1\r\nHost: a\r\n", 404, Some("GET /a%00 HTTP/1.1")),
        ("builtin.vcl", "GET /a HTTP/1.1\r\n", 400, None),
        ("own.vcl", "GET /a HTTP/1.1\r\nHost: a\r\nA!: b\tc\r\n", 404, Some("GET /a HTTP/1.1")),
        ("own.vcl", "GET /a HTTP/1.1\r\nHost: a\r\nA: b\x01c\r\n", 400, None),
        ("own.vcl", "GET /a HTTP/1.1\r\nHost: a\r\nA: b\r\n c\x7f\r\n", 400, None),
        ("own.vcl", "GET /a HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n", 400, None),
        ("own.vcl", "GET /a HTTP/1.1\r\nHost: a\r\nA(: b\r\n", 400, None),
    ] {
        let varnishd = Varnishd::start(&["-f", &own.join(vcl).display().to_string()]);
        eventually("it serves", || TcpStream::connect(varnishd.listen).is_ok());
        let mut client = Client::connect(varnishd.listen).unwrap();
        client.send(format!("{request}Connection: close\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, status, "{request}");
        let last = origin.requests().pop().map(|request| request.request_line);
        origin.rewind();
        assert_eq!(last.as_deref(), asked, "{request}");
    }
}

#[test]
fn a_vcl_is_ready_before_it_is_used_and_rests_after_a_while() {
    let origin = Origin::start().unwrap();
    let well = Answer::ok("well").then(larder_testkit::Then::Close);
    origin.answer("/well", well);
    origin.answer("*", Answer::ok("page"));
    let varnishd = Varnishd::start(&["-f", "good.vcl", "-S", "secret", "-p", "vcl_cooldown=3600"]);
    let mut cli = varnishd.cli(SECRET);
    let text = format!(
        "vcl 4.1; probe well {{ .url = \"/well\"; .interval = 10ms; .window = 2; .threshold = 2; .initial = 0; }}
        backend own {{ .host = \"127.0.0.1\"; .port = \"{}\"; .probe = well; }}",
        origin.address().port()
    );
    varnishd.folder.write("own.vcl", &text).unwrap();
    for (word, status, part) in [("bogus", 106, "State must be one of auto, cold or warm."), ("cold", 200, "compiled")]
    {
        cli.says(&format!("vcl.load own own.vcl {word}"), status, part);
    }
    cli.says("vcl.use own", 300, "VCL 'own' is cold - set to auto or warm first");
    cli.says("vcl.label l own", 300, "VCL 'own' is cold - set to auto or warm first");
    cli.says("vcl.label ready--1 boot", 106, "Illegal label name");
    cli.says("vcl.list", 200, "available   cold    cold         0    own\n");
    assert_eq!(origin.count(), 0);
    cli.says("vcl.state own auto", 200, "");
    cli.says("vcl.list", 200, "available   auto    warm         0    own\n");
    eventually("it is found well", || cli.ask("backend.list own.*").1.contains("2/2"));
    cli.says("vcl.use own", 200, "VCL 'own' now active");
    assert!(varnishd.answers());
    assert!(origin.requests().iter().any(|request| request.request_line.starts_with("GET / ")));
    // Another VCL from the same file knows what this one has found out, and nothing of what an operator has said.
    origin.answer("/well", Answer::status("500 Ill").then(larder_testkit::Then::Close));
    cli.says("backend.set_health own.own healthy", 200, "");
    eventually("it is found ill", || cli.ask("backend.list own.*").1.contains("0/2"));
    cli.says("vcl.load again own.vcl", 200, "");
    cli.says("backend.list again.*", 200, "again.own      probe   0/2     sick");
    // What is of no use is asked no longer when its time is over.
    cli.says("vcl.use boot", 200, "");
    cli.says("param.set vcl_cooldown 1", 200, "");
    eventually("they rest", || !cli.ask("vcl.list").1.contains("auto    warm         0    own"));
    cli.says("vcl.discard own again", 200, "");
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

#[test]
fn bans_that_look_at_pages_alone_are_worked_through() {
    let origin = Origin::start().unwrap();
    origin.answer("/one", Answer::ok("one").field("X-Tag", "one").field("Cache-Control", "max-age=600"));
    origin.answer("/two", Answer::ok("two").field("X-Tag", "two").field("Cache-Control", "max-age=600"));
    let varnishd = Varnishd::start(&["-b", &origin.address().to_string(), "-S", "secret", "-p", "ban_lurker_age=0"]);
    let mut cli = varnishd.cli(SECRET);
    let get = |path: &str| {
        let mut client = Client::connect(varnishd.listen).unwrap();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, 200, "{path}");
    };
    ["/one", "/two"].into_iter().for_each(get);
    for tag in ["none", "one", "nobody"] {
        cli.says(&format!("ban obj.http.x-tag == {tag}"), 200, "");
    }
    // The newest stays to be seen.
    eventually("the bans are done", || cli.ask("ban.list").1.lines().count() == 2);
    cli.says("ban.list", 200, "obj.http.x-tag == nobody");
    ["/one", "/two"].into_iter().for_each(get);
    let asked: Vec<_> = origin.requests().iter().map(|request| request.request_line.clone()).collect();
    assert_eq!(asked.iter().filter(|line| line.starts_with("GET /one ")).count(), 2, "{asked:?}");
    assert_eq!(asked.len(), 3, "{asked:?}");
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

#[test]
fn a_ban_that_the_disk_cannot_note_is_told_and_holds() {
    let varnishd = Varnishd::start(&["-b", "127.0.0.1:1", "-S", "secret", "-s", "file,pages,64M"]);
    let mut cli = varnishd.cli(SECRET);
    // When that is answered, the disk is there.
    cli.says("ban req.url == /first", 200, "");
    let in_the_way = varnishd.folder.join("run/pages.larder/larder.bans.new");
    fs::create_dir(&in_the_way).unwrap();
    cli.says("ban req.url == /second", 300, "The ban holds, but is not on disk yet: ");
    cli.says("ban.list", 200, "req.url == /second");
    fs::remove_dir(in_the_way).unwrap();
    cli.says("ban req.url == /third", 200, "");
    assert_eq!(varnishd.end(Signal::Term), Some(0));
}

#[test]
fn bans_outlive_a_stop_and_a_kill_with_their_times() {
    for is_killed in [false, true] {
        let origin = Origin::start().unwrap();
        let backend = origin.address().to_string();
        for (path, tag) in [("/a", "red"), ("/b", "blue")] {
            origin.answer(path, Answer::ok("page").field("X-Tag", tag).field("Cache-Control", "max-age=3600"));
        }
        let options = ["-b", &backend, "-S", "secret", "-s", "file,pages,64M"];
        let varnishd = Varnishd::start(&options);
        let ask = |varnishd: &Varnishd, path: &str| {
            // It listens a moment after its CLI is there.
            let mut client = Err(std::io::ErrorKind::NotConnected.into());
            eventually("it listens", || {
                client = Client::connect(varnishd.listen);
                client.is_ok()
            });
            let mut client = client.unwrap();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").as_bytes()).unwrap();
            assert_eq!(client.read_response("GET").unwrap().status, 200, "{path}");
        };
        ask(&varnishd, "/a");
        ask(&varnishd, "/b");
        let mut cli = varnishd.cli(SECRET);
        cli.says("ban obj.http.x-tag == red && obj.http.none != \"two words\"", 200, "");
        cli.says("ban req.http.host == nobody", 200, "");
        let listed = |cli: &mut Cli| {
            let (_, text) = cli.ask("ban.list");
            let column = |line: &str| line.split_whitespace().next().unwrap_or_default().to_owned();
            text.lines().map(|line| (column(line), line.rsplit("  ").next().unwrap_or_default().to_owned())).collect()
        };
        let before: Vec<(String, String)> = listed(&mut cli);
        assert_eq!(before[2].1, "obj.http.x-tag == red && obj.http.none != two words");
        let folder = Arc::clone(&varnishd.folder);
        if is_killed {
            varnishd.end(Signal::Kill);
        } else {
            assert_eq!(varnishd.end(Signal::Term), Some(0));
        }
        // A process that was killed has left its notes.
        let _ = fs::remove_dir_all(folder.join("run/_.vsm_mgt"));
        let varnishd = Varnishd::start_in(folder, &options);
        let mut cli = varnishd.cli(SECRET);
        eventually("the bans are there again", || listed(&mut cli).len() == 3);
        assert_eq!(listed(&mut cli), before, "{is_killed}");
        // When that is answered, the disk knows its pages.
        cli.says("ban req.http.host == nobody-else", 200, "");
        let fetched = origin.count();
        ask(&varnishd, "/a");
        assert_eq!(origin.count(), fetched + 1, "{is_killed}: it is banned");
        ask(&varnishd, "/a");
        assert_eq!(origin.count(), fetched + 1, "{is_killed}: it is newer");
        if !is_killed {
            ask(&varnishd, "/b");
            assert_eq!(origin.count(), fetched + 1, "it is not banned");
        }
    }
}
