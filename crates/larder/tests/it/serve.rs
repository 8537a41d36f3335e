//! `larder serve DIR`: a folder with PHP in it, and nothing else to say.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use larder_testkit::{Client, Folder, PhpFpm, Response, Signal, children_of, free_port, is_running, signal_to};

use crate::site::{binary, eventually, text};

/// A `larder serve` in the foreground, and what it prints.
struct Serve {
    child: Child,
    address: SocketAddr,
    printed: Arc<Mutex<Vec<String>>>,
    folder: Folder,
}

impl Serve {
    /// Serves these files, and waits until it says where.
    fn start(files: &[(&str, &str)]) -> Serve {
        let folder = Folder::new().unwrap();
        for (name, content) in files {
            folder.write(name, content).unwrap();
        }
        let address = (Ipv4Addr::LOCALHOST, free_port()).into();
        let mut child = Command::new(binary())
            .arg("serve")
            .arg(folder.path())
            .args(["--listen", &format!("{address}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("larder can be run");
        let printed = Arc::new(Mutex::new(Vec::new()));
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        thread::spawn({
            let printed = Arc::clone(&printed);
            move || stdout.lines().map_while(Result::ok).for_each(|line| printed.lock().unwrap().push(line))
        });
        let serve = Serve { child, address, printed, folder };
        serve.wait_for(&format!("http://{address}/"));
        serve
    }

    fn printed(&self) -> Vec<String> {
        self.printed.lock().unwrap().clone()
    }

    /// Waits for a line that begins like this.
    fn wait_for(&self, start: &str) {
        eventually(&format!("{start:?} on standard output"), || {
            self.printed().iter().any(|line| line.starts_with(start))
        });
    }

    fn ask(&self, method: &str, target: &str, fields: &str) -> Response {
        let mut client = Client::connect(self.address).unwrap();
        let head = format!("{method} {target} HTTP/1.1\r\nHost: site.test\r\n{fields}Connection: close\r\n\r\n");
        client.send(head.as_bytes()).unwrap();
        client.read_response(method).unwrap()
    }

    fn get(&self, target: &str) -> Response {
        self.ask("GET", target, "")
    }

    /// Gets until a line says that it was a hit, and returns that response.
    fn hit(&self, target: &str) -> Response {
        let mut last = self.get(target);
        eventually(&format!("a hit of {target}"), || {
            last = self.get(target);
            self.has_line(&format!("GET {target} 200 HIT "))
        });
        last
    }

    fn has_line(&self, start: &str) -> bool {
        self.printed().iter().any(|line| line.starts_with(start))
    }
}

impl Drop for Serve {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let children = children_of(self.child.id());
            drop(signal_to(self.child.id(), Signal::Term));
            drop(self.child.wait());
            for child in children.into_iter().filter(|child| is_running(*child)) {
                drop(signal_to(child, Signal::Kill));
            }
        }
    }
}

const PAGE: &str = "<?php echo 'page ', uniqid('', true);";

#[test]
fn a_folder_with_php_is_served_and_cached() {
    let serve = Serve::start(&[("index.php", PAGE), ("style.css", "body {}")]);
    let printed = serve.printed().join("\n");
    assert!(printed.contains("PHP") && printed.contains(&serve.folder.path().display().to_string()), "{printed}");

    let first = serve.get("/");
    assert_eq!(first.status, 200);
    assert!(text(&first).starts_with("page "), "{}", text(&first));
    serve.wait_for("GET / 200 MISS ");
    assert_ne!(text(&serve.hit("/")), "");
    assert_eq!(text(&serve.get("/style.css")), "body {}");
    serve.wait_for("GET /style.css 200 ");
    // A front controller gets what is no file.
    assert!(text(&serve.get("/some/article")).starts_with("page "));
}

#[test]
fn pages_of_a_session_are_never_stored() {
    let serve = Serve::start(&[("index.php", PAGE), ("session.php", "<?php session_start(); echo uniqid('', true);")]);
    serve.hit("/");
    let cookie = "Cookie: PHPSESSID=abc123\r\n";
    let own: Vec<String> = (0..3).map(|_| text(&serve.ask("GET", "/", cookie))).collect();
    assert!(own[0] != own[1] && own[1] != own[2], "{own:?}");
    serve.wait_for("GET / 200 BYPASS ");
    assert!(!own.contains(&text(&serve.get("/"))), "another visitor sees none of it");

    // A page that begins a session is its visitor's alone.
    let (one, two) = (serve.get("/session.php"), serve.get("/session.php"));
    assert!(one.field("Set-Cookie").is_some() && one.field("Set-Cookie") != two.field("Set-Cookie"));
    assert_ne!(text(&one), text(&two));
    assert!(!serve.has_line("GET /session.php 200 HIT"));

    let posts: Vec<String> = (0..2).map(|_| text(&serve.ask("POST", "/", "Content-Length: 0\r\n"))).collect();
    assert_ne!(posts[0], posts[1]);
}

#[test]
fn what_is_hidden_stays_hidden() {
    let serve = Serve::start(&[
        ("index.php", PAGE),
        (".env", "SECRET=1"),
        (".git/config", "x"),
        ("uploads/evil.php", "<?php echo 1;"),
    ]);
    for target in ["/.env", "/.git/config", "/uploads/evil.php", "/../etc/passwd"] {
        let response = serve.get(target);
        assert!(response.status == 404 || response.status == 400, "{target}: {}", response.status);
    }
}

/// Files that people, editors and tools leave in a site.
const PRIVATE: &[&str] = &[
    "a.phtml",
    "a.php5",
    "a.php7",
    "a.phps",
    "a.pht",
    "a.phar",
    "a.PHP",
    "a.Php",
    ".env.local",
    "prod.env",
    ".user.ini",
    ".htaccess",
    "a.htpasswd",
    "wp-config.php.bak",
    "wp-config.php~",
    "wp-config.php.txt",
    "wp-config.php_old",
    "wp-config.txt",
    "wp-config.bak",
    "a.php.save.1",
    "a.php-2019",
    "index.html.orig",
    "old/a.BAK",
    "site.old",
    "a.swp",
    ".a.php.swp",
    "#a.html#",
    "a.html~",
    "dump.sql",
    "dump.SQL.gz",
    "b/site.sqlite3",
    "Thumbs.db",
    "debug.log",
    "error_log",
    "wp-content/php_errorlog",
    "lib/db.inc",
    "php.ini",
    "app.conf",
    "composer.json",
    "composer.lock",
    "package-lock.json",
    "yarn.lock",
    "auth.json",
    "phpunit.xml",
    "phpunit.xml.dist",
    "docker-compose.prod.yml",
    "compose.yaml",
    "Dockerfile",
    "web.config",
    "vendor/composer/installed.json",
    "site.pfx",
    "site.pem",
    "x.sql.tar.gz",
    "x.log.1",
    "x.log-20261101.gz",
    "error_log.1",
    "x.sqlite3-wal",
    "x.db-journal",
    "index.phpold",
    "index.php copy",
    "x.phpt",
    "x.bak22",
    "php.ini-production",
    "b.env.local",
    "config.yml",
    "nohup.out",
    "page.tpl",
    "x.module",
    "backup/id_rsa",
];

/// Files that sites mean to serve.
const PUBLIC: &[&str] = &[
    "package.json",
    "readme.html",
    "README.md",
    "robots.txt",
    "install.sh",
    "logo.psd",
    "openapi.yaml",
    "talk.key",
    "theme.zip",
    "vendor/b/b.css",
    "node_modules/c/c.js",
    "changelog.txt",
    "old/photo.jpg",
    "login.html",
    "data.json",
    "a.php.d/x.txt",
    "catalog",
    "sitemap.xml",
    "blog.html",
    "dist/app.js",
    "d.environment.txt",
    ".well-known/security.txt",
];

#[test]
fn what_is_left_lying_about_is_not_served() {
    let secret = |name: &&'static str| (*name, "<?php # a secret");
    let files = || PRIVATE.iter().chain(PUBLIC).map(secret);
    let page = ("index.php", "<?php echo 'made of ', $_SERVER['REQUEST_URI'];");
    let download = ("get.php", "<?php echo 'got ', $_SERVER['PATH_INFO'];");
    let test = ("vendor/phpunit/eval.php", "<?php echo 'a secret';");
    let with_php: Vec<_> = files().chain([page, download, test]).collect();
    let without: Vec<_> = files().chain([("index.html", "hello")]).collect();
    for (files, has_php) in [(with_php, true), (without, false)] {
        let serve = Serve::start(&files);
        for name in PRIVATE.iter().chain(&["vendor/phpunit/eval.php"]) {
            let response = serve.get(&format!("/{}", name.replace('#', "%23").replace(' ', "%20")));
            assert!(response.status == 404 && !text(&response).contains("secret"), "{name}: {}", response.status);
        }
        for name in PUBLIC {
            let response = serve.get(&format!("/{name}"));
            assert_eq!((response.status, &*text(&response)), (200, "<?php # a secret"), "{name}");
        }
        if has_php {
            // What is no file is the application's.
            for target in ["/export/dump.sql", "/some.old", "/a/b.lock"] {
                assert_eq!(text(&serve.get(target)), format!("made of {target}"));
            }
            assert_eq!(text(&serve.get("/get.php/x/dump.sql")), "got /x/dump.sql");
        }
    }
}

#[test]
fn no_visitor_chooses_the_address_that_others_get_in_their_pages() {
    let echo =
        "<?php foreach ($_SERVER as $name => $value) if (strpos($name, 'HTTP_') === 0) echo \"$name=$value\\n\";";
    let serve = Serve::start(&[("index.php", echo)]);
    let send = |head: &str| {
        let mut client = Client::connect(serve.address).unwrap();
        client.send(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
        text(&client.read_response("GET").unwrap())
    };
    for (n, attack) in [
        "GET http://site.test/{} HTTP/1.1\r\nHost: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test:1337\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-Forwarded-Host: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-Original-URL: /evil.test\r\nX-Rewrite-URL: /evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-HTTP-Method-Override: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nForwarded: host=evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-Forwarded-Proto: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nCF-Visitor: evil.test\r\nX-Original-URI: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-WP-Nonce: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nX-Requested-With: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nOrigin: evil.test\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nAccept: application/evil.test+json\r\n",
        "GET /{} HTTP/1.1\r\nHost: site.test\r\nContent-Type: evil.test\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let target = format!("page{n}");
        send(&attack.replace("{}", &target));
        let next = send(&format!("GET /{target} HTTP/1.1\r\nHost: site.test\r\n"));
        assert!(next.contains("HTTP_HOST=site.test\n"), "{attack}: {next}");
        assert!(!next.contains("evil.test") && !next.contains("1337"), "{attack}: {next}");
    }
}

#[test]
fn a_body_and_a_needless_escape_are_for_one_request_alone() {
    let echo = "<?php echo $_SERVER['CONTENT_TYPE'] ?? '', file_get_contents('php://input'), ' for you';";
    let serve = Serve::start(&[("index.php", echo), ("admin/index.php", echo)]);
    let status = |response: &Response| response.field("Cache-Status").unwrap_or_default().to_owned();
    for (number, attack) in [
        "Content-Length: 4\r\n\r\nevil",
        "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n\r\n",
        "Content-Type: evil\r\n\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let mut client = Client::connect(serve.address).unwrap();
        client.send(format!("GET /page{number} HTTP/1.1\r\nHost: a\r\n{attack}").as_bytes()).unwrap();
        let own = client.read_response("GET").unwrap();
        assert_eq!((text(&own), status(&own).starts_with("larder; fwd=bypass")), ("evil for you".into(), true));
        assert_eq!(text(&serve.get(&format!("/page{number}"))), " for you");
    }
    for target in ["/%61dmin/", "/x?%70review=1", "/admin/", "/x?preview=1"] {
        assert!(status(&serve.get(target)).starts_with("larder; fwd=bypass"), "{target}");
    }
    for target in ["/caf%C3%A9", "/x?a%5B%5D=1", "/x?q=%61"] {
        assert!(status(&serve.get(target)).starts_with("larder; fwd=uri-miss"), "{target}");
    }
}

#[test]
fn an_answer_says_what_the_cache_did() {
    let serve = Serve::start(&[("index.php", PAGE), ("a.txt", "a")]);
    let first = serve.get("/");
    let said = first.field("Cache-Status").unwrap_or_default();
    assert!(said.starts_with("larder; fwd=uri-miss; fwd-status=200"), "{said}");
    let hit = serve.hit("/");
    assert!(hit.field("Cache-Status").is_some_and(|said| said.starts_with("larder; hit; ttl=")), "{hit:?}");
    let own = serve.ask("GET", "/", "Authorization: Basic YTpi\r\n");
    assert!(own.field("Cache-Status").is_some_and(|said| said.starts_with("larder; fwd=bypass")), "{own:?}");
    assert_eq!(serve.get("/a.txt").field("Cache-Status"), None);
}

#[test]
fn a_served_folder_can_be_asked_and_purged() {
    let serve = Serve::start(&[("index.php", PAGE)]);
    serve.hit("/");
    let listen = serve.address.to_string();
    let run = |words: &[&str]| {
        let output = crate::site::run([words, &["--listen", &listen]].concat().iter());
        let [told, said] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), told + &said)
    };
    let url = format!("http://{}/", serve.address);
    let (is_done, why) = run(&["why"]);
    assert!(is_done && why.contains(" % of misses: "), "{why}");
    let explained = || run(&["explain", &url, "-H", "Host: site.test"]);
    let (is_done, told) = explained();
    assert!(is_done && told.starts_with("a hit: stored "), "{told}");
    let (is_done, purged) = run(&["purge", "http://site.test/"]);
    assert!(is_done && purged.starts_with("Purged: 1 page"), "{purged}");
    assert!(explained().1.starts_with("a miss: it was purged; "), "{}", explained().1);
    signal_to(serve.child.id(), Signal::Term).unwrap();
    eventually("it ends", || !is_running(serve.child.id()) || !run(&["why"]).0);
    let (is_done, said) = run(&["why"]);
    assert!(!is_done && said.contains("no server answers at"), "{said}");
}

#[test]
fn ctrl_c_ends_larder_and_its_php() {
    for signal in [Signal::Int, Signal::Term] {
        let mut serve = Serve::start(&[("index.php", PAGE)]);
        assert_eq!(serve.get("/").status, 200);
        let php = children_of(serve.child.id());
        if !serve.printed().iter().any(|line| line.contains("php-fpm at")) {
            assert!(!php.is_empty(), "one of its own: {:?}", serve.printed());
        }
        signal_to(serve.child.id(), signal).unwrap();
        let mut status = None;
        eventually("larder to end", || {
            status = serve.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(status.is_some_and(|status| status.success()), "{status:?}");
        assert!(php.iter().all(|process| !is_running(*process)), "php-fpm is gone");
    }
}

#[test]
fn a_folder_without_php_needs_none() {
    let serve = Serve::start(&[("index.html", "hello"), ("a/index.html", "in a")]);
    assert_eq!(text(&serve.get("/")), "hello");
    assert_eq!(text(&serve.get("/a/")), "in a");
    assert_eq!(serve.get("/none").status, 404);
    assert_eq!(children_of(serve.child.id()), [0_u32; 0]);
}

#[test]
fn what_cannot_be_served_is_said() {
    let output = Command::new(binary()).args(["serve", "/nowhere/at/all"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = larder_testkit::text_of(&output.stderr);
    assert!(stderr.starts_with("larder: ") && stderr.contains("/nowhere/at/all"), "{stderr}");
    assert!(PhpFpm::find().is_some(), "php-fpm is installed by `scripts/setup test`");
}

#[test]
fn an_address_in_use_is_said_once_with_what_to_do() {
    let folder = Folder::new().unwrap();
    folder.write("index.html", "x").unwrap();
    let other = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = other.local_addr().unwrap();
    let mut larder = Command::new(binary());
    larder.arg("serve").arg(folder.path()).args(["--listen", &address.to_string()]);
    let output = larder.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        larder_testkit::text_of(&output.stderr),
        format!("larder: cannot listen at {address} (98: Address already in use); name another address by --listen\n")
    );
    assert_eq!(larder_testkit::text_of(&output.stdout), "");
}
