//! `larder shadow` beside a real nginx, which is `apt-get install`ed by `scripts/setup test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use larder_testkit::{Answer, Client, Origin, ServerUnderTest, Signal, signal_to, text_of};

use crate::site::{Ends, Setup, binary, eventually};
use crate::tls;

const NGINX: &str = "/usr/sbin/nginx";

/// A running nginx, and the folder that it shares with the larder that is tried.
struct Beside {
    nginx: Option<ServerUnderTest>,
    setup: Setup,
}

impl Beside {
    /// nginx with this `http` content, and its access log in the folder.
    fn start(setup: Setup, http: &str) -> Beside {
        let user = if nix::unistd::geteuid().is_root() { "user root;" } else { "" };
        let setup = setup.main(&format!("daemon off; worker_processes 1; {user}"));
        setup.configure(&format!(
            "access_log {{DIR}}/access.log; uwsgi_temp_path {{DIR}}/t1; scgi_temp_path {{DIR}}/t2; {http}"
        ));
        let nginx = ServerUnderTest::start(Path::new(NGINX), setup.path("").as_path())
            .unwrap_or_else(|error| panic!("{error}"));
        Beside { nginx: Some(nginx), setup }
    }

    fn command(&self, words: &[&str]) -> Command {
        let prefix = format!("{}/", self.setup.path("").display());
        let mut command = Command::new(binary());
        command.arg("shadow").args(words).args(["-p", &prefix, "-c", "nginx.conf"]).stdin(Stdio::null());
        command
    }

    fn old(&self) -> String {
        format!("http://{}", self.setup.address())
    }

    fn log(&self) -> PathBuf {
        self.setup.path("access.log")
    }

    /// The lines that are in the log, compared.
    fn once(&self, more: &[&str]) -> Output {
        let (old, log) = (self.old(), self.log().display().to_string());
        self.command(&[&["--old", &old, "--log", &log, "--once", "--rate", "1000"], more].concat()).output().unwrap()
    }

    /// A visitor asks, and nginx writes a line.
    fn visit(&self, method: &str, target: &str) {
        let mut client = Client::connect(self.setup.address()).unwrap();
        let lines = self.lines();
        let request = format!(
            "{method} {target} HTTP/1.1\r\nHost: site.test\r\nUser-Agent: visitor\r\nCookie: id=7\r\nContent-Length: 0\r\n\r\n"
        );
        client.send(request.as_bytes()).unwrap();
        client.read_response(method).unwrap();
        eventually("the line in the log", || self.lines() > lines);
    }

    fn lines(&self) -> usize {
        fs::read_to_string(self.log()).unwrap_or_default().lines().count()
    }
}

fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}{}", text_of(&output.stdout), text_of(&output.stderr)))
}

fn text(output: &Output) -> String {
    text_of(&output.stdout) + &text_of(&output.stderr)
}

/// Files, a redirect, an error page, what differs each time, and what depends on where one came in.
const ALIKE: &str = "
    server {
        listen 127.0.0.1:{PORT}; server_name site.test; root {DIR}/www;
        location = /moved { return 301 /page.html; }
        location = /each { add_header X-Id $request_id; return 200 'id $request_id'; }
        location = /where { return 200 '$host $server_port $scheme $remote_addr $http_cookie'; }
    }";

#[test]
fn what_nginx_and_larder_answer_alike_does_not_differ() {
    let beside = Beside::start(Setup::new().file("www/page.html", "<p>page</p>\n"), ALIKE);
    for target in ["/page.html", "/page.html?a=b", "/moved", "/none", "/where", "/each"] {
        beside.visit("GET", target);
    }
    beside.visit("HEAD", "/page.html");
    beside.visit("POST", "/page.html");
    beside.visit("GET", "/wp-cron.php?doing_wp_cron");
    beside.visit("GET", "/private/page");
    let output = beside.once(&["--json", "--skip", "/private/"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = report(&output);
    assert_eq!(said["not_sent"]["skipped"], 2, "{said}");
    assert_eq!(
        (&said["compared"], &said["differing"], &said["not_sent"]["unsafe"]),
        (&7.into(), &0.into(), &1.into()),
        "{said}"
    );
    let changing: Vec<&str> =
        said["changing"].as_array().unwrap().iter().map(|it| it["what"].as_str().unwrap()).collect();
    assert_eq!(changing, ["body", "x-id"]);
    // Our own requests are in the log now, and not asked for again.
    let again = report(&beside.once(&["--json", "--skip", "/private/"]));
    assert_eq!(again["compared"], 7, "{again}");
}

#[test]
fn what_differs_is_named() {
    let beside = Beside::start(
        Setup::new(),
        "server { listen 127.0.0.1:{PORT}; location /a { add_header X-Kind old; return 200 'same\\nold'; } location /b { return 200; } }",
    );
    for target in ["/a?1", "/a?2", "/b"] {
        beside.visit("GET", target);
    }
    // nginx goes on as it was started.
    beside.setup.configure("server { listen 127.0.0.1:{PORT}; location /a { add_header X-Kind new; return 200 'same\\nnew'; } location /b { return 404; } }");
    let output = beside.once(&["--format", "combined"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text_of(&output.stdout);
    for part in [
        "3 compared, 0 alike, 3 differ;",
        "/a: 2 of 2 differ\n  body (2, first of /a?1)\n    old     line 2: old\n    larder  line 2: new\n",
        "  x-kind (2, first of /a?1)\n    old     old\n    larder  new\n",
        "  status (1, first of /b)\n    old     200\n    larder  404\n",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn nothing_but_reads_reaches_the_origin_and_what_larder_writes_is_its_own() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page").field("Cache-Control", "max-age=60"));
    let http = "proxy_cache_path {DIR}/cache keys_zone=p:1m;
        server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://{ORIGIN}; proxy_cache p; proxy_set_header X-Id $http_cookie; } }";
    let beside = Beside::start(Setup::new().name("ORIGIN", origin.address()), http);
    for method in ["POST", "DELETE", "GET", "GET", "GET"] {
        beside.visit(method, "/p");
    }
    let of = |method: &str| origin.requests().iter().filter(|it| it.request_line.starts_with(method)).count();
    assert_eq!((of("POST"), of("DELETE"), of("GET")), (1, 1, 1), "nginx caches");
    let before = files(&beside.setup.path("cache"));
    let error_log = fs::read_to_string(beside.setup.path("error.log")).unwrap();
    let output = beside.once(&["--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = report(&output);
    assert_eq!(
        (&said["compared"], &said["hits"], &said["not_sent"]["unsafe"]),
        (&3.into(), &2.into(), &2.into()),
        "{said}"
    );
    assert_eq!((of("POST"), of("DELETE"), of("GET")), (1, 1, 2), "larder's own cache had to fetch it");
    assert_eq!(files(&beside.setup.path("cache")), before);
    let now = fs::read_to_string(beside.setup.path("error.log")).unwrap();
    assert!(!now[error_log.len()..].contains("larder"), "{now}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
    found.sort();
    found
}

#[test]
fn a_log_is_followed_also_when_it_is_rotated() {
    let beside = Beside::start(Setup::new().file("www/page.html", "page"), ALIKE);
    beside.visit("GET", "/before");
    let (old, log) = (beside.old(), beside.log().display().to_string());
    let mut child =
        Ended::start(beside.command(&["--old", &old, "--log", &log, "--requests", "2", "--json", "--rate", "1000"]));
    child.is_ready();
    beside.visit("GET", "/page.html");
    // The line and what comes of it: ours.
    eventually("the old server to be asked", || beside.lines() >= 3);
    eventually("a report so far", || child.report_so_far().starts_with("1 compared, 1 alike, 0 differ"));
    fs::rename(beside.log(), beside.setup.path("access.log.1")).unwrap();
    beside.nginx.as_ref().unwrap().signal(Signal::Usr1).unwrap();
    eventually("the new log", || beside.log().exists());
    beside.visit("GET", "/page.html?2");
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = report(&output);
    assert_eq!(
        (&said["compared"], &said["pages"]),
        (&2.into(), &serde_json::json!([])),
        "what was there before is not asked for"
    );
}

#[test]
fn mirrored_requests_are_compared_with_their_cookies_and_do_not_come_back() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let http = "server { listen 127.0.0.1:{PORT};
            location / { mirror /shadow; mirror_request_body off; proxy_pass http://{ORIGIN}; }
            location = /shadow { internal; proxy_pass http://127.0.0.1:{PORT2}$request_uri; proxy_set_header Host $host;
                                 proxy_pass_request_body off; proxy_set_header Content-Length ''; } }";
    let beside = Beside::start(Setup::new().name("ORIGIN", origin.address()), http);
    let (old, listen) = (beside.old(), beside.setup.other_address().to_string());
    let mut child = Ended::start(beside.command(&[
        "--old",
        &old,
        "--listen",
        &listen,
        "--json",
        "--rate",
        "1000",
        "--requests",
        "2",
    ]));
    child.is_ready();
    for (method, target) in [("POST", "/a"), ("GET", "/a"), ("GET", "/b")] {
        beside.visit(method, target);
    }
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = report(&output);
    assert_eq!((&said["compared"], &said["not_sent"]["unsafe"]), (&2.into(), &1.into()), "{said}");
    let (posts, gets): (Vec<_>, Vec<_>) =
        origin.requests().into_iter().partition(|it| it.request_line.starts_with("POST"));
    // The visitor's, the old server's again, larder's.
    assert_eq!((posts.len(), gets.len()), (1, 6), "{gets:?}");
    assert!(gets.iter().all(|it| it.field("Cookie") == Some("id=7")), "{gets:?}");
    assert_eq!(gets.iter().filter(|it| it.field("User-Agent") == Some("visitor larder-shadow")).count(), 4);
}

#[test]
fn over_tls_too() {
    let (_, setup) = tls::certified();
    let http = "server { listen 127.0.0.1:{PORT} ssl; server_name site.test; ssl_certificate {DIR}/site.crt; ssl_certificate_key {DIR}/site.key;
                         location / { return 200 '$scheme $host $ssl_server_name'; } }";
    let beside = Beside::start(setup, http);
    fs::write(beside.log(), "1.2.3.4 - - [x] \"GET /a HTTP/1.1\" 200 3 \"-\" \"-\"\n").unwrap();
    let (old, log) = (beside.old().replace("http:", "https:"), beside.log().display().to_string());
    let output = beside.command(&["--old", &old, "--log", &log, "--once", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(report(&output)["compared"], 1);
    let plain = beside.once(&[]);
    assert_eq!(plain.status.code(), Some(2));
    assert!(text(&plain).contains("speaks TLS at") && text(&plain).contains("--old https://"), "{}", text(&plain));
}

#[test]
fn what_cannot_be_tried_is_told_before_anything_is_asked() {
    let beside = Beside::start(Setup::new(), "server { listen 127.0.0.1:{PORT}; return 200; }");
    beside.visit("GET", "/");
    let old = beside.old();
    for (words, said) in [
        (vec!["--old", &*old, "--log", "/no/such", "--once"], "--log /no/such: No such file"),
        (vec!["--old", &*old, "--log", "/dev/null", "--once"], "larder shadow: nothing was compared: no request came"),
        (vec!["--old", &*old, "--log", "/dev/null", "--format", "main"], "no log_format \"main\"; it has combined"),
        (vec!["--old", "http://127.0.0.1:1", "--log", "/dev/null", "--once"], "and at no port 1 of --old"),
        (vec!["--log", "/dev/null"], "it lacks --old with the URL of the server that runs"),
        (vec!["--old", &*old, "--lgo", "/dev/null"], "unknown option \"--lgo\": did you mean \"--log\"?"),
    ] {
        let output = beside.command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output));
        assert!(text_of(&output.stderr).contains(said), "{said}: {}", text(&output));
    }
    beside.setup.configure("server { listen 127.0.0.1:{PORT}; retrun 200; }");
    let output = beside.once(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("unknown directive \"retrun\""), "{}", text(&output));
}

/// One site by https, whose port 80 leads there: what most sites are.
#[test]
fn a_site_that_redirects_to_https_is_not_alike_by_http() {
    let (_, setup) = tls::certified();
    let http = "log_format site '$status $host $request';
        server { listen 127.0.0.1:{PORT}; server_name site.test; return 301 https://$host$request_uri; }
        server { listen 127.0.0.1:{PORT2} ssl; server_name site.test; ssl_certificate {DIR}/site.crt; ssl_certificate_key {DIR}/site.key;
                 location / { return 200 'page'; } }";
    let beside = Beside::start(setup, http);
    let asked = beside.setup.path("asked.log").display().to_string();
    let compared = |old: &str, lines: &str| {
        fs::write(&asked, lines).unwrap();
        let words = ["--old", old, "--log", &asked, "--once", "--format", "site", "--json", "--rate", "1000"];
        beside.command(&words).output().unwrap()
    };
    let lines: String = (0..5).map(|number| format!("200 site.test GET /{number} HTTP/1.1\n")).collect();
    let output = compared(&beside.old(), &lines);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert_eq!(report(&output)["redirected"][0]["count"], 5, "{}", text(&output));
    for part in [
        "5 of 5 answers are redirects where visitors got pages, which were not compared",
        "the site is at https, as https://site.test/0 says: write --old https://127.0.0.1:443",
    ] {
        assert!(text_of(&output.stderr).contains(part), "{part}: {}", text(&output));
    }
    // As it says.
    let output = compared(&format!("https://{}", beside.setup.other_address()), &lines);
    assert_eq!((output.status.code(), &report(&output)["compared"]), (Some(0), &5.into()), "{}", text(&output));
    // What was a redirect for the visitor is compared as one.
    let output = compared(&beside.old(), "301 site.test GET /old HTTP/1.1\n");
    assert_eq!((output.status.code(), &report(&output)["compared"]), (Some(0), &1.into()), "{}", text(&output));
}

#[test]
fn what_an_old_server_has_in_its_cache_may_change_by_itself() {
    let origin = Origin::start().unwrap();
    let page = |nonce: &str, items: &str| {
        Answer::ok(format!("<html><script nonce=\"{nonce}\">go()</script><p>{items} items</p></html>"))
            .field("Cache-Control", "max-age=60")
    };
    let http = "proxy_cache_path {DIR}/cache keys_zone=p:1m; {STATUS}
        server { listen 127.0.0.1:{PORT}; server_name site.test; location / { proxy_pass http://{ORIGIN}; proxy_cache p; } }";
    for status in ["", "add_header X-Proxy-Cache $upstream_cache_status;"] {
        let setup = Setup::new().name("ORIGIN", origin.address()).name("STATUS", status);
        let beside = Beside::start(setup, http);
        for (nonces, items, code, what) in [
            (["a+b/1==", "c2==", "d+3"], ["2", "2", "2"], 0, "body (1, first of /a?1)"),
            (["e4", "f5", "g6"], ["3", "4", "3"], 1, "items"),
        ] {
            // What the old server keeps, what larder gets, what the old server gets past its cache.
            let target = format!("/{}?1", &nonces[0][..1]);
            origin.answer(&*target, page(nonces[0], items[0]));
            origin.answer_then(&*target, page(nonces[1], items[1]));
            origin.answer("*", page(nonces[2], items[2]));
            origin.rewind();
            fs::write(beside.log(), "").unwrap();
            beside.visit("GET", &target);
            let output = beside.once(&[]);
            assert_eq!(output.status.code(), Some(code), "{}", text(&output));
            assert!(text(&output).contains(what), "{what}: {}", text(&output));
        }
    }
}

#[test]
fn the_mirror_of_the_manual_sees_each_request_once_whatever_leads_to_its_page() {
    let manual = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/shadow.md")).unwrap();
    let mirror = manual.split("```nginx\n").skip(1).filter_map(|rest| rest.split("```").next());
    let mirror = mirror.filter(|block| block.contains("mirror /")).collect::<String>();
    assert!(mirror.contains("127.0.0.1:8081"), "the manual has a mirror: {mirror}");
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let http = "server { listen 127.0.0.1:{PORT}; root {DIR}/www; {MIRROR}
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ { proxy_pass http://{ORIGIN}; } }";
    let setup = Setup::new().name("ORIGIN", origin.address()).file("www/page.html", "page");
    let listen = setup.other_address().to_string();
    let setup = setup.name("MIRROR", mirror.replace("127.0.0.1:8081", &listen));
    let beside = Beside::start(setup, http);
    let old = beside.old();
    let words = ["--old", &*old, "--listen", &listen, "--json", "--rate", "1000", "--requests", "4"];
    let mut child = Ended::start(beside.command(&words));
    child.is_ready();
    for target in ["/hello/?a=b", "/page.html", "/x.php?c", "/last"] {
        beside.visit("GET", target);
    }
    let output = child.output();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    // Each by its visitor, by the old server and by larder: a request that is mirrored twice would be in the place of /last.
    let asked = |target: &str| origin.requests().iter().filter(|it| it.request_line.contains(target)).count();
    assert_eq!(
        [asked("/index.php?a=b "), asked("/x.php?c "), asked("/index.php ")],
        [3, 3, 3],
        "{:?}",
        origin.requests()
    );
}

#[test]
fn nobody_is_let_in_by_what_a_visitor_says_of_itself() {
    let http = "log_format all '$status $http_x_forwarded_for $http_accept_language $request';
        server { listen 127.0.0.1:{PORT}; server_name site.test; access_log {DIR}/access.log all;
                 set_real_ip_from 127.0.0.1; real_ip_header X-Forwarded-For;
                 location / { return 200 '$remote_addr $http_x_forwarded_for $http_accept_language $http_x_added'; } }";
    let beside = Beside::start(Setup::new(), http);
    fs::write(beside.log(), "200 10.0.0.1 de GET /a HTTP/1.1\n").unwrap();
    // Both answer as the address that asks, and with what whoever started it adds.
    beside.setup.configure(&http.replace("return 200 '$remote_addr $http_x", "return 200 'new $remote_addr $http_x"));
    let output = beside.once(&["--field", "X-Added: yes"]);
    let said = text(&output);
    assert!(said.contains("old     line 1: 127.0.0.1  de yes\n"), "{said}");
    assert!(said.contains("larder  line 1: new 127.0.0.1  de yes\n"), "{said}");
}

#[test]
fn a_rotated_log_is_read_as_it_was_written() {
    let http = "log_format main '$status $request';
        server { listen 127.0.0.1:{PORT}; server_name other.test; location / { return 200 'other'; } }
        server { listen 127.0.0.1:{PORT}; server_name site.test; access_log {DIR}/shop.log main; location / { return 200 '$host'; } }";
    let beside = Beside::start(Setup::new(), http);
    let rotated = beside.setup.path("shop.log.2");
    fs::write(&rotated, "200 GET /a HTTP/1.1\n200 GET /b HTTP/1.1\n").unwrap();
    let packed = std::process::Command::new("gzip").arg("-k").arg(&rotated).status().unwrap();
    assert!(packed.success());
    let old = beside.old();
    for name in ["shop.log.2", "shop.log.2.gz"] {
        let log = beside.setup.path(name).display().to_string();
        let mut words = vec!["--old", &*old, "--log", &log, "--rate", "1000"];
        // What is compressed does not grow.
        words.extend((!name.ends_with(".gz")).then_some("--once"));
        let output = beside.command(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output));
        assert!(text_of(&output.stdout).starts_with("2 compared, 2 alike"), "{name}: {}", text(&output));
        assert!(!text_of(&output.stderr).contains("all are taken to be for"), "{name}: {}", text(&output));
    }
    // As a page of that site, which its log tells.
    beside.setup.configure(&http.replace("return 200 '$host'", "return 404"));
    let log = beside.setup.path("shop.log.2").display().to_string();
    let output = beside.command(&["--old", &*old, "--log", &log, "--once"]).output().unwrap();
    assert!(text_of(&output.stdout).contains("site.test/a: 1 of 1 differ"), "{}", text(&output));
}

/// A `larder shadow` that ends with the test.
struct Ended {
    child: Child,
    said: std::io::BufReader<std::process::ChildStderr>,
    _end: Ends,
}

impl Ended {
    fn start(mut command: Command) -> Ended {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let said = std::io::BufReader::new(child.stderr.take().unwrap());
        let end = Ends(child.id());
        Ended { child, said, _end: end }
    }

    /// Waits until it follows.
    fn is_ready(&mut self) {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut self.said, &mut line).unwrap();
        assert!(line.contains("which goes on as it is"), "{line}");
    }

    /// The first line of what USR1 prints.
    fn report_so_far(&mut self) -> String {
        signal_to(self.child.id(), Signal::Usr1).unwrap();
        let lines = std::io::BufRead::lines(&mut self.said).map_while(Result::ok);
        let mut lines = lines.filter(|line| line.contains(" compared, "));
        lines.next().unwrap_or_default()
    }

    fn output(self) -> Output {
        let Ended { child, said, _end } = self;
        drop(said);
        child.wait_with_output().unwrap()
    }
}
