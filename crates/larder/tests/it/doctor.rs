//! `larder doctor`: what it tells of a machine, and by which exit status.

use std::fs;
use std::path::Path;

use larder_testkit::{PhpFpm, PhpFpmOptions, text_of};

use crate::site;

/// A machine with these files; all that is not there is not known.
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    root
}

/// Its exit status, and what it says.
fn doctor(root: &Path, words: &[&str]) -> (Option<i32>, String, String) {
    let root = root.display().to_string();
    let output = site::run([&["doctor", "--root", &root], words].concat().iter());
    (output.status.code(), text_of(&output.stdout), text_of(&output.stderr))
}

const CONFIGURATION: (&str, &str) = (
    "etc/larder/larder.conf",
    "events {} http { proxy_cache_path /var/cache/pages keys_zone=p:1m; server { listen 80; } }",
);

#[test]
fn the_exit_status_is_how_bad_it_is() {
    let cookies = "proc/sys/net/ipv4/tcp_syncookies";
    let recycle = ("proc/sys/net/ipv4/tcp_tw_recycle", "1\n");
    for (files, status, said) in [
        (&[CONFIGURATION, (cookies, "1\n")][..], 0, "0 errors, 0 warnings"),
        (&[CONFIGURATION, (cookies, "0\n")], 1, "[warning] syn-cookies: net.ipv4.tcp_syncookies is 0\n    why:  "),
        (&[CONFIGURATION, (cookies, "0\n"), recycle], 2, "[error] tw-recycle: "),
        (&[], 2, "[error] configuration: "),
    ] {
        let (code, out, err) = doctor(machine(files).path(), &[]);
        assert_eq!(code, Some(status), "{files:?}: {out}{err}");
        assert!(out.contains(said), "{files:?}: {out}");
    }
    for words in [&["--all"][..], &["-c"], &["--root", "/no/such/folder"]] {
        let (code, out, err) = doctor(machine(&[CONFIGURATION]).path(), words);
        assert_eq!((code, out.as_str()), (Some(3), ""), "{words:?}: {err}");
        assert!(!err.is_empty());
    }
    let (code, out, err) = doctor(Path::new("/"), &["-h"]);
    assert_eq!((code, out.as_str()), (Some(0), ""));
    assert!(err.contains("--no-disk-test"), "{err}");
}

#[test]
fn programs_get_json() {
    let root = machine(&[CONFIGURATION, ("proc/sys/net/ipv4/tcp_syncookies", "0\n")]);
    let (code, out, _) = doctor(root.path(), &["--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, json["status"].as_i64()), (Some(1), Some(1)));
    assert_eq!(json["configuration"], "/etc/larder/larder.conf");
    let finding = json["findings"].as_array().unwrap().iter().find(|one| one["check"] == "syn-cookies").unwrap();
    assert_eq!(finding["severity"], "warning");
    assert!(finding["mend"][0].as_str().unwrap().contains("net.ipv4.tcp_syncookies = 1"), "{finding}");
    assert!(json["unknown"].as_array().unwrap().iter().any(|one| one["check"] == "backlog"), "{json}");
}

#[test]
fn a_disk_is_measured_and_left_as_it_was() {
    let mounts = ("proc/self/mountinfo", "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n");
    let root = machine(&[CONFIGURATION, mounts, ("var/cache/pages/kept", "kept")]);
    for (words, said) in [(&[][..], "a write of 4 KB to /var/cache/pages takes"), (&["--no-disk-test"], "not measured")]
    {
        let (_, out, _) = doctor(root.path(), words);
        assert!(out.contains(said), "{words:?}: {out}");
        let left: Vec<_> = fs::read_dir(root.path().join("var/cache/pages")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
}

#[test]
fn a_php_fpm_that_runs_is_found_by_its_process_and_asked_for_its_status() {
    let options = PhpFpmOptions { pool_lines: "pm.status_path = /fpm-status\n".to_owned(), ..PhpFpmOptions::new("/") };
    let php = PhpFpm::start(&options).expect("php-fpm is installed by `scripts/setup test`");
    let setup = site::Setup::new().name("SOCKET", php.socket().display());
    setup.configure("server { listen 127.0.0.1:{PORT}; location / { fastcgi_pass unix:{SOCKET}; } }");
    let output = setup.larder_words(&["doctor", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let said = |list: &str, check: &str, key: &str| {
        let all = json[list].as_array().unwrap().iter().filter(|one| one["check"] == check);
        all.map(|one| one[key].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("\n")
    };
    let file = php.socket().with_file_name("php-fpm.conf").display().to_string();
    let status = said("fine", "php-status", "what");
    assert!(status.contains(&file) && status.contains("of 2 children busy, nobody waited"), "{json:#}");
    // It is started with no php.ini, so that nobody knows what is in one.
    let opcache = said("unknown", "php-opcache", "why") + &said("findings", "php-opcache", "what");
    assert!(!opcache.is_empty(), "{json:#}");
    assert!(said("findings", "php-timeouts", "what").contains("never ends a script that hangs"), "{json:#}");
    drop(php);
    let output = setup.larder_words(&["doctor"]);
    assert_eq!(output.status.code(), Some(2));
    let said = text_of(&output.stdout);
    assert!(said.contains("[error] php-socket: there is no socket"), "{said}");
}

#[test]
fn this_machine_is_looked_at() {
    let setup = site::Setup::new();
    setup.configure("server { listen 127.0.0.1:{PORT}; location / { return 200 x; } }");
    let prefix = format!("{}/", setup.path("").display());
    let output = site::run(["doctor", "-p", &prefix, "-c", "nginx.conf"].iter());
    let said = text_of(&output.stdout);
    assert!(said.contains("can be used") && said.contains("kernel: "), "{said}{}", text_of(&output.stderr));
    assert!(output.status.code().is_some_and(|code| code < 3), "{said}");
}
