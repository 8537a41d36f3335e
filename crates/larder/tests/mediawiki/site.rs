//! The wiki under test: Debian's MediaWiki, read where it lies, with SQLite, a php-fpm of its own, and larder before it.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use larder_testkit::{Folder, PhpFpm, PhpFpmOptions, ServerUnderTest, free_port};

use crate::visitor::Visitor;

/// Where Debian has it.
const ROOT: &str = "/usr/share/mediawiki";
/// The name of the wiki.
const HOST: &str = "wiki.test";
/// That of its only user, Anna.
pub const PASSWORD: &str = "open sesame 7";
/// What it needs of PHP beyond what is built in, each behind what it stands on.
const EXTENSIONS: [&str; 13] = [
    "mbstring",
    "dom",
    "xml",
    "xmlreader",
    "intl",
    "fileinfo",
    "ctype",
    "iconv",
    "posix",
    "pdo",
    "pdo_sqlite",
    "sqlite3",
    "tokenizer",
];

/// A running wiki. Dropping it stops all of it; the server first.
pub struct Site {
    server: ServerUnderTest,
    address: SocketAddr,
    _php: PhpFpm,
    folder: Folder,
}

impl Site {
    /// The one of this test run.
    pub fn shared() -> Arc<Site> {
        static SITE: Mutex<Weak<Site>> = Mutex::new(Weak::new());
        let mut site = SITE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(running) = site.upgrade() {
            return running;
        }
        let started = Arc::new(Site::start());
        *site = Arc::downgrade(&started);
        started
    }

    fn start() -> Site {
        let has_sqlite = Command::new("php").args(["-r", "exit(extension_loaded('pdo_sqlite') ? 0 : 1);"]).status();
        assert!(
            Path::new(ROOT).join("index.php").exists() && has_sqlite.is_ok_and(|status| status.success()),
            "not installed: mediawiki, php-sqlite3. Run `scripts/setup test`."
        );
        let folder = Folder::new().expect("/tmp takes a folder");
        let address: SocketAddr = ([127, 0, 0, 1], free_port()).into();
        install(&folder, address);
        let mut options = PhpFpmOptions::new(ROOT);
        options.children = 3;
        // php-fpm loads them last first.
        let extensions = EXTENSIONS.iter().rev().map(|name| format!("php_admin_value[extension] = {name}.so\n"));
        options.pool_lines = extensions.collect::<String>()
            + &format!(
                "php_admin_value[error_log] = {}\nphp_admin_value[log_errors] = on\n",
                folder.join("php.log").display()
            );
        let php = PhpFpm::start(&options).expect("php-fpm is installed");
        let text = include_str!("larder.conf")
            .replace("@FOLDER@", &folder.path().display().to_string())
            .replace("@ADDRESS@", &address.to_string())
            .replace("@SOCKET@", &php.socket().display().to_string());
        folder.write("nginx.conf", text).expect("the folder is ours");
        let server =
            ServerUnderTest::start_with(Path::new(env!("CARGO_BIN_EXE_larder")), folder.path(), &["-g", "daemon off;"])
                .unwrap_or_else(|error| panic!("larder does not start: {error}"));
        Site { server, address, _php: php, folder }
    }

    /// Somebody new, without cookies.
    pub fn visitor(&self) -> Visitor {
        Visitor::new(self.address, HOST.to_owned(), None)
    }

    /// What larder and PHP wrote to their logs, for messages.
    pub fn error_log(&self) -> String {
        let php = std::fs::read_to_string(self.folder.join("php.log")).unwrap_or_default();
        self.server.error_log() + &php
    }
}

/// Makes the database and the settings.
fn install(folder: &Folder, address: SocketAddr) {
    let at = |name: &str| folder.join(name).display().to_string();
    let output = Command::new("php")
        .arg(Path::new(ROOT).join("maintenance/install.php"))
        .args(["--confpath", &folder.path().display().to_string(), "--dbtype", "sqlite", "--dbpath", &at("data")])
        .args(["--dbname", "wiki", "--pass", PASSWORD, "--server", &format!("http://{HOST}"), "--scriptpath", ""])
        .args(["Larder Wiki", "Anna"])
        .output()
        .expect("php is installed");
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let settings = std::fs::read_to_string(folder.join("LocalSettings.php"));
    let settings = settings.unwrap_or_else(|error| panic!("MediaWiki is not installed: {error}: {said}"));
    let own = format!(
        "$wgArticlePath = '/wiki/$1';\n$wgUseCdn = true;\n$wgCdnServers = ['{address}'];\n$wgCdnServersNoPurge = [];\n\
         $wgEnableEmail = false;\n$wgCdnReboundPurgeDelay = 0;\n\
         $wgSessionCacheType = CACHE_DB;\n$wgMainCacheType = CACHE_NONE;\n"
    );
    folder.write("LocalSettings.php", settings + &own).expect("the folder is ours");
}
