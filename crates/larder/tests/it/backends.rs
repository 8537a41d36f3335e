//! Backends of a VCL: directors choose among them, and probes say who is healthy.

use std::sync::mpsc;
use std::thread;

use larder_testkit::{Answer, Origin, Then};

use crate::site::{Setup, Site, get_on, text};

/// Two origins that answer with their names, and say to a probe that they are well.
fn origins() -> [Origin; 2] {
    ["a", "b"].map(|name| {
        let origin = Origin::start().expect("a port is free");
        origin.answer("*", Answer::ok(name));
        origin.answer("/well", well());
        origin
    })
}

fn well() -> Answer {
    Answer::status("200 OK").then(Then::Close)
}

fn ill() -> Answer {
    Answer::status("500 Oh no").then(Then::Close)
}

/// A site with the backends a and b, a probe for them, and this VCL.
fn setup([a, b]: &[Origin; 2], vcl: &str) -> Setup {
    let backend = |name: &str, origin: &Origin| {
        let port = origin.address().port();
        format!("backend {name} {{ .host = \"127.0.0.1\"; .port = \"{port}\"; .probe = well; }}\n")
    };
    let probe = "probe well { .url = \"/well\"; .interval = 10ms; .window = 2; .threshold = 2; .initial = 0; }\n";
    let text = format!("vcl 4.1;\nimport directors;\nimport std;\n{probe}{}{}{vcl}", backend("a", a), backend("b", b));
    Setup::new().without_root().file("site.vcl", text)
}

const HTTP: &str = "server { listen {PORT}; location / { vcl {DIR}/site.vcl; } }";

/// A director that takes turns, and what its fetches say.
const TURNS: &str = "sub vcl_init { new turns = directors.round_robin(); turns.add_backend(a); turns.add_backend(b); }
sub vcl_recv {
    set req.backend_hint = turns.backend();
    set req.http.Any = std.healthy(req.backend_hint);
    return (pass);
}
sub vcl_backend_response { set beresp.http.From = bereq.backend + \"/\" + beresp.backend.name; }
sub vcl_backend_error { set beresp.http.From = bereq.backend + \"/\" + beresp.backend.name; }
sub vcl_deliver { set resp.http.Any = req.http.Any; }
";

fn wait_for(site: &Site, backend: &str, health: &str) {
    site.wait_for_log(&format!("the backend \"{backend}\" went {health}"));
}

#[test]
fn a_director_asks_the_backends_whose_probes_are_well() {
    let origins = origins();
    let [a, b] = &origins;
    b.answer("/well", ill());
    let site = setup(&origins, TURNS).start(HTTP);
    wait_for(&site, "a", "healthy");
    for _ in 0..3 {
        let response = site.get("/");
        assert_eq!((text(&response).as_str(), response.field("From")), ("a", Some("turns/a")));
    }
    b.answer("/well", well());
    wait_for(&site, "b", "healthy");
    let mut bodies = [(); 4].map(|()| text(&site.get("/")));
    bodies.sort();
    assert_eq!(bodies, ["a", "a", "b", "b"]);
    a.answer("/well", ill());
    b.answer("/well", ill());
    wait_for(&site, "a", "sick");
    wait_for(&site, "b", "sick");
    let response = site.get("/");
    assert_eq!((response.status, response.field("From"), response.field("Any")), (503, Some("turns/"), Some("false")));
    site.wait_for_log("no healthy backend: the director \"turns\" returned none");
}

#[test]
fn a_sick_backend_is_not_asked() {
    let origins = origins();
    origins[0].answer("/well", ill());
    let vcl = "sub vcl_recv { set req.backend_hint = a; if (req.url == \"/b\") { set req.backend_hint = b; } \
               return (pass); }";
    let site = setup(&origins, vcl).start(HTTP);
    wait_for(&site, "b", "healthy");
    assert_eq!(text(&site.get("/b")), "b");
    assert_eq!(site.get("/a").status, 503);
    site.wait_for_log("no healthy backend: \"a\" is sick");
    assert!(origins[0].requests().iter().all(|seen| seen.request_line == "GET /well HTTP/1.1"));
}

#[test]
fn the_status_has_each_backend_once_and_knows_who_is_sick() {
    let origins = origins();
    origins[1].answer("/well", ill());
    let site = setup(&origins, TURNS).start(
        "server { listen 127.0.0.1:{PORT}; server_name site.test; location / { vcl {DIR}/site.vcl; }
            location /more { vcl {DIR}/site.vcl; } location /api { larder_status; } }",
    );
    wait_for(&site, "a", "healthy");
    let states = |path: &str| {
        let told: serde_json::Value = serde_json::from_str(&text(&site.get(path))).unwrap();
        let groups = told.as_array().or(told["origins"].as_array()).unwrap().clone();
        let mut states: Vec<String> = Vec::new();
        for group in groups {
            let (name, state) = match group["servers"].as_array() {
                Some(servers) => (&group["name"], servers[0]["state"].clone()),
                None => (&group["group"], group["state"].clone()),
            };
            states.push(format!("{} {}", name.as_str().unwrap(), state.as_str().unwrap()));
        }
        states.sort();
        states
    };
    for path in ["/api/larder/1/origins", "/api/larder/1/now"] {
        assert_eq!(states(path), ["a up", "b sick"], "{path}");
    }
}

#[test]
fn a_reload_keeps_what_probes_have_found() {
    let origins = origins();
    let site = setup(&origins, TURNS).start(HTTP);
    wait_for(&site, "a", "healthy");
    wait_for(&site, "b", "healthy");
    // A probe that began now would have nothing but bad answers.
    let holds = [origins[0].hold("/well"), origins[1].hold("/well")];
    site.reload();
    assert_eq!(site.get("/").status, 200);
    drop(holds);
}

#[test]
fn a_reload_keeps_the_connections_to_a_backend() {
    let origins = origins();
    let site = setup(&origins, "unused b; sub vcl_recv { return (pass); }").start(HTTP);
    wait_for(&site, "a", "healthy");
    assert_eq!(text(&site.get("/before")), "a");
    site.reload();
    assert_eq!(text(&site.get("/after")), "a");
    let connection = |path: &str| {
        let requests = origins[0].requests();
        let request = requests.iter().find(|seen| seen.request_line.contains(path));
        request.expect("it was asked").connection
    };
    assert_eq!(connection("/before"), connection("/after"));
}

#[test]
fn a_body_goes_once_to_a_backend_that_closes_a_kept_connection() {
    let origin = Origin::start().expect("a port is free");
    origin.answer("*", Answer::ok("ok"));
    origin.answer("/last", Answer::raw("").then(Then::Close));
    let port = origin.address().port();
    let vcl = format!(
        "vcl 4.1;\nbackend a {{ .host = \"127.0.0.1\"; .port = \"{port}\"; }}\nsub vcl_recv {{ return (pass); }}\n"
    );
    let site = Setup::new().without_root().one_worker().file("site.vcl", vcl).start(HTTP);
    for (request, tries) in
        [("DELETE /last HTTP/1.1\r\nHost: a\r\n", 2), ("PUT /last HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n", 1)]
    {
        let body = if request.contains("Content-Length") { "a=b" } else { "" };
        let mut client = site.client();
        assert_eq!(get_on(&mut client, "/first").status, 200);
        let before = origin.requests();
        client.send(format!("{request}\r\n{body}").as_bytes()).expect("the connection is open");
        assert_eq!(client.read_response("PUT").expect("an answer").status, 503);
        let asked = origin.requests().split_off(before.len());
        let connections: Vec<_> = asked.iter().map(|seen| seen.connection).collect();
        assert_eq!((connections.len(), connections[0]), (tries, before[before.len() - 1].connection), "{request}");
    }
}

#[test]
fn a_vcl_whose_vcl_init_fails_is_refused_with_the_place() {
    let origins = origins();
    let vcl = "unused a; unused b;\nsub vcl_init {\n  return (fail(\"no such day\"));\n}";
    let setup = setup(&origins, vcl);
    setup.configure(HTTP);
    let output = setup.larder(&["-t"]);
    let said = larder_testkit::text_of(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for part in ["vcl_init failed: no such day", "site.vcl:9"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn requests_wait_for_a_backend_that_has_all_its_connections() {
    // How many may wait and how long; what two further requests get while the first is at the backend, and after it.
    for (waits, at_once, after) in [
        (".wait_limit = 1; .wait_timeout = 1h;", &[503][..], &[200][..]),
        (".wait_limit = 2; .wait_timeout = 1h;", &[], &[200, 200]),
        (".wait_limit = 2; .wait_timeout = 10ms;", &[503, 503], &[]),
        ("", &[503, 503], &[]),
    ] {
        let origin = Origin::start().expect("a port is free");
        origin.answer("*", Answer::ok("page"));
        let held = origin.hold("/first");
        let port = origin.address().port();
        let backend =
            format!("backend a {{ .host = \"127.0.0.1\"; .port = \"{port}\"; .max_connections = 1; {waits} }}");
        let vcl = format!("vcl 4.1;\n{backend}\nsub vcl_recv {{ return (pass); }}");
        let site = Setup::new().without_root().one_worker().file("site.vcl", vcl).start(HTTP);
        let (sender, answered) = mpsc::channel();
        let ask = |path| site.ask("GET", path, "").status;
        thread::scope(|scope| {
            let first = scope.spawn(|| ask("/first"));
            assert!(origin.wait_for(1), "the first request is at the backend");
            for sender in [sender.clone(), sender] {
                let ask = &ask;
                scope.spawn(move || sender.send(ask("/more")).expect("somebody listens"));
            }
            let statuses = |count: usize| answered.iter().take(count).collect::<Vec<u16>>();
            assert_eq!(statuses(at_once.len()), at_once, "{waits}");
            drop(held);
            assert_eq!(first.join().expect("it is answered"), 200, "{waits}");
            assert_eq!(statuses(after.len()), after, "{waits}");
        });
    }
}

#[test]
fn a_proxy_is_told_where_a_backend_is_and_what_it_is_called() {
    let proxy = "vcl 4.1;
import proxy;
import std;
backend default none;
sub vcl_recv {
    return (synth(200, client.ip + \" \" + server.ip + \":\" + std.port(server.ip) + \" \" + proxy.authority()));
}
";
    let own = "vcl 4.1;
probe asks { .url = \"/probe\"; .interval = 10ms; .window = 2; .threshold = 2; .initial = 0; }
backend proxy { .host = \"127.0.0.1\"; .port = \"{PORT2}\"; }
backend one { .via = proxy; .host = \"192.0.2.1\"; .port = \"81\"; .host_header = \"one.example:81\"; .probe = asks; }
backend two { .via = proxy; .host = \"192.0.2.2\"; .authority = \"two.example\"; }
backend same { .via = proxy; .host = \"192.0.2.2\"; .authority = \"same.example\"; }
backend six { .via = proxy; .host = \"2001:db8::1\"; .authority = \"\"; }
sub vcl_recv {
    if (req.url == \"/one\") { set req.backend_hint = one; }
    if (req.url == \"/two\") { set req.backend_hint = two; }
    if (req.url == \"/same\") { set req.backend_hint = same; }
    if (req.url == \"/six\") { set req.backend_hint = six; }
    return (pass);
}
sub vcl_backend_response { set beresp.http.Told = beresp.reason; }
";
    let setup = Setup::new();
    let own = own.replace("{PORT2}", &setup.other_address().port().to_string());
    let site = setup.file("proxy.vcl", proxy).file("site.vcl", own).start(
        "server { listen {PORT}; location / { vcl {DIR}/site.vcl; } }
         server { listen 127.0.0.1:{PORT2} proxy_protocol; location / { vcl {DIR}/proxy.vcl; } }",
    );
    // The probe goes through the proxy too.
    wait_for(&site, "one", "healthy");
    let cases = [
        ("/one", "0.0.0.0 192.0.2.1:81 one.example"),
        ("/two", "0.0.0.0 192.0.2.2:80 two.example"),
        ("/same", "0.0.0.0 192.0.2.2:80 same.example"),
        ("/six", ":: 2001:db8::1:80 "),
    ];
    // Twice, so that the second round has the choice of all connections that were kept.
    for (url, expected) in cases.iter().chain(&cases) {
        let response = site.ask("GET", url, "");
        assert_eq!(response.field("Told").map(str::trim_end), Some(expected.trim_end()), "{url}");
    }
}
