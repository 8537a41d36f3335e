//! Scripts that PHP may read and the server may not.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;

use crate::site::{Setup, text};
use crate::tls::is_nginx;

#[test]
fn a_script_that_only_php_may_read_is_found() {
    for cache in ["", "open_file_cache max=10;"] {
        // nginx opens what it caches.
        if is_nginx() && !cache.is_empty() {
            return;
        }
        let setup = Setup::new().name("CACHE", cache);
        let setup = setup.file("www/index.php", "").file("www/a.php", "").file("www/a.html", "").file("www/x/a", "");
        for (name, mode) in [("www/index.php", 0), ("www/a.php", 0), ("www/a.html", 0), ("www/x", 0)] {
            set_permissions(setup.path(name), Permissions::from_mode(mode)).unwrap();
        }
        let site = setup.start(
            "{CACHE} server {
                listen 127.0.0.1:{PORT}; root {DIR}/www; index index.php;
                location / { try_files $uri $uri/ =404; }
                location /x/ { index a; }
                location = /index.php { return 200 'a script'; }
                location ~ [.]php$ { try_files $uri =404; } }",
        );
        for (target, status, says) in [
            ("/", 200, "a script"),
            ("/a.php", 403, ""),
            ("/b.php", 404, ""),
            ("/a.html", 403, ""),
            ("/x/", 403, ""),
            ("/x/b.php", 404, ""),
        ] {
            for _ in 0..2 {
                let answer = site.get(target);
                assert_eq!(answer.status, status, "{target} {cache}");
                assert!(text(&answer).contains(says), "{target} {cache}");
            }
        }
    }
}
