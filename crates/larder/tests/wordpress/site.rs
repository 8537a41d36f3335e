//! The site under test: Debian's WordPress, a database and php-fpm of its own, and the server before them.

use crate::database::Database;
use crate::visitor::Visitor;
use larder_testkit::{Certificates, Folder, PhpFpm, PhpFpmOptions, ServerUnderTest, Tls, free_port};
use std::collections::HashMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// The names under which pages live an hour: the first in the clear by HTTP/1.1, the second by HTTP/2 over TLS.
pub const NAMES: [&str; 2] = ["blog.test", SAFE];
/// The name under which larder knows by itself what is personal.
pub const KNOWN: &str = "known.test";
/// The same, whose pages are fetched before anybody asks.
pub const WARM: &str = "warm.test";
/// The name that is asked for over TLS.
const SAFE: &str = "safe.test";

/// How long PHP works on `/slow/`, besides what WordPress takes.
pub const SLOW: Duration = Duration::from_secs(1);

/// What has to be installed, and by which package of Debian.
const NEEDED: [(&str, &str); 8] = [
    ("/usr/share/wordpress/wp-load.php", "wordpress"),
    ("/usr/share/wordpress/wp-content/themes/twentytwentyone", "wordpress-theme-twentytwentyone"),
    ("/usr/bin/mariadb-install-db", "mariadb-server"),
    ("/usr/sbin/mariadbd", "mariadb-server"),
    ("/usr/bin/php", "php-cli"),
    ("/etc/nginx/fastcgi_params", "nginx-light"),
    ("/usr/bin/chromium", "chromium"),
    ("/usr/bin/chromedriver", "chromium-driver"),
];

/// What WordPress needs of PHP beyond what is built in. php-fpm loads them last first: mysqli stands on mysqlnd.
const POOL_LINES: &str = "\
php_admin_value[extension] = mysqli.so
php_admin_value[extension] = mysqlnd.so
php_admin_value[extension] = simplexml.so
php_admin_value[extension] = ctype.so
php_admin_value[extension] = tokenizer.so
php_admin_value[sendmail_path] = /bin/true
php_admin_value[display_errors] = off
php_admin_value[log_errors] = on
";

/// A running site. Dropping it stops all of it; the server first.
pub struct Site {
    server: ServerUnderTest,
    port: u16,
    tls_port: u16,
    tls: Tls,
    posts: HashMap<String, String>,
    _php: PhpFpm,
    _database: Database,
    folder: Folder,
}

/// One run of PHP behind the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// When it began, in seconds of the epoch.
    pub began: f64,
    /// `GET news.test /slow/`.
    pub request: String,
}

impl Site {
    /// The one site of this test run: tests that run at the same time share it.
    pub fn shared() -> Arc<Site> {
        static SITE: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        // A test that failed while it set the site up has left nothing behind.
        let mut site = SITE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(running) = site.upgrade() {
            return running;
        }
        let started = Arc::new(Site::start());
        *site = Arc::downgrade(&started);
        started
    }

    fn start() -> Site {
        require_what_is_needed();
        let folder = Folder::new().expect("/tmp takes a folder");
        let database = Database::start(folder.path());
        let (port, tls_port) = (free_port(), free_port());
        let authority = Certificates::new("Larder Test Authority");
        let certificate = authority.server(&[SAFE]);
        folder.write("site.crt", &certificate.pem).expect("the folder is ours");
        folder.write("site.key", &certificate.key_pem).expect("the folder is ours");
        let docroot = folder.join("wordpress");
        let posts = install(&folder, &docroot, database.socket(), port);

        let mut options = PhpFpmOptions::new(&docroot);
        options.children = 4;
        options.pool_lines = format!("{POOL_LINES}php_admin_value[error_log] = {}\n", folder.join("php.log").display());
        let php = PhpFpm::start(&options).expect("php-fpm is installed");

        let socket = php.socket();
        let profiled = if is_nginx() { "" } else { include_str!("profiled.conf") };
        let text = fill(
            include_str!("nginx.conf"),
            &[
                ("PROFILED", Path::new(profiled)),
                ("FOLDER", folder.path()),
                ("PORT", Path::new(&port.to_string())),
                ("TLS_PORT", Path::new(&tls_port.to_string())),
                ("DOCROOT", &docroot),
                ("SOCKET", &socket),
            ],
        );
        folder.write("nginx.conf", text).expect("the folder is ours");
        let server = ServerUnderTest::start_with(&binary(), folder.path(), &["-g", "daemon off;"])
            .unwrap_or_else(|error| panic!("{} does not start: {error}", binary().display()));
        let tls = Tls::new(SAFE, &authority).resuming();
        Site { server, port, tls_port, tls, posts, _php: php, _database: database, folder }
    }

    /// `blog.test` and `safe.test`, where pages live an hour, or `news.test`, where they live two seconds.
    pub fn url(&self, name: &str, path: &str) -> String {
        let (scheme, address) = self.place(name);
        format!("{scheme}://{name}:{}{path}", address.port())
    }

    /// Somebody new, without cookies.
    pub fn visitor(&self, name: &str) -> Visitor {
        let (scheme, address) = self.place(name);
        let host = format!("{name}:{}", address.port());
        Visitor::new(address, host, (scheme == "https").then(|| self.tls.clone()))
    }

    /// How a name is asked, and where.
    fn place(&self, name: &str) -> (&'static str, SocketAddr) {
        let (scheme, port) = if name == SAFE { ("https", self.tls_port) } else { ("http", self.port) };
        (scheme, ([127, 0, 0, 1], port).into())
    }

    /// The author, logged in.
    pub fn author(&self, name: &str) -> Visitor {
        let mut author = self.visitor(name);
        author.get("/wp-login.php");
        let page = author.post(
            "/wp-login.php",
            &[("log", "anna"), ("pwd", "open sesame"), ("wp-submit", "Log In"), ("testcookie", "1")],
        );
        assert_eq!(page.status, 302, "the login is accepted: {}", page.body);
        author
    }

    /// The number of the post that the installation made under this name.
    pub fn post(&self, slug: &str) -> &str {
        &self.posts[slug]
    }

    /// Every run of PHP so far that answered `request`, such as `GET news.test /slow/`.
    pub fn runs(&self, request: &str) -> Vec<Run> {
        let log = fs::read_to_string(self.folder.join("runs.log")).unwrap_or_default();
        let runs = log.lines().filter_map(|line| {
            let (began, request) = line.split_once(' ')?;
            Some(Run { began: began.parse().ok()?, request: request.into() })
        });
        runs.filter(|run| run.request == request).collect()
    }

    /// From now on PHP answers `/fragile/` with a 500.
    pub fn break_php(&self) {
        self.folder.write("broken", "").expect("the folder is ours");
    }

    /// Takes `break_php` back.
    pub fn mend_php(&self) {
        fs::remove_file(self.folder.join("broken")).expect("it was broken");
    }

    /// Waits until the server's error log says this.
    pub fn wait_for_log(&self, text: &str) {
        let patience = Instant::now() + Duration::from_secs(60);
        while !self.server.error_log().contains(text) {
            assert!(Instant::now() < patience, "waited in vain for \"{text}\":\n{}", self.error_logs());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// What the server and PHP wrote to their error logs, for messages.
    pub fn error_logs(&self) -> String {
        self.server.error_log() + &self.server.text("php.log")
    }
}

/// The server under test: larder, or the one named by `LARDER_TEST_BINARY`.
pub fn binary() -> PathBuf {
    std::env::var_os("LARDER_TEST_BINARY").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_larder")), PathBuf::from)
}

/// Whether the server under test is nginx, of which less is expected.
pub fn is_nginx() -> bool {
    binary().file_name().is_some_and(|name| name == "nginx")
}

fn require_what_is_needed() {
    let missing = NEEDED.iter().filter(|(path, _)| !Path::new(path).exists());
    let mut packages: Vec<&str> = missing.map(|(_, package)| *package).collect();
    if PhpFpm::find().is_none() {
        packages.push("php-fpm");
    }
    packages.dedup();
    assert!(packages.is_empty(), "not installed: {}. Run `scripts/setup test`.", packages.join(", "));
}

/// Copies WordPress to `docroot` and installs it; the numbers of its posts by name.
fn install(folder: &Folder, docroot: &Path, database: &Path, port: u16) -> HashMap<String, String> {
    // Copied and not linked: PHP resolves links, and would find Debian's own configuration beside Debian's files.
    run(Command::new("cp").args(["-rL", "/usr/share/wordpress"]).arg(docroot));
    let config = fill(
        include_str!("wp-config.php"),
        &[
            ("DATABASE", database),
            ("FOLDER", folder.path()),
            ("PORT", Path::new(&port.to_string())),
            ("SLOW_US", Path::new(&SLOW.as_micros().to_string())),
        ],
    );
    for (name, text) in [
        ("wordpress/wp-config.php", config.as_str()),
        ("wordpress/wp-content/mu-plugins/runs.php", include_str!("runs.php")),
        ("wordpress/install.php", include_str!("install.php")),
        // Written by whoever runs PHP.
        ("runs.log", ""),
    ] {
        folder.write(name, text).expect("the folder is ours");
    }
    let script = docroot.join("install.php");
    let said = run(Command::new("php")
        .args(["-d", "sendmail_path=/bin/true", "-d", "display_errors=off"])
        .arg(&script)
        .arg(database)
        .arg("blog.test"));
    fs::remove_file(script).expect("it was written above");
    let posts = said.lines().filter_map(|line| line.split_once(' '));
    posts.map(|(slug, number)| (slug.into(), number.into())).collect()
}

/// Runs a command to its end; what it said.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

/// Replaces each `@NAME@`.
fn fill(text: &str, names: &[(&str, &Path)]) -> String {
    names
        .iter()
        .fold(text.to_string(), |text, (name, value)| text.replace(&format!("@{name}@"), &value.display().to_string()))
}
