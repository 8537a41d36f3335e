//! The configuration that `larder serve` writes for itself. A profile says which pages are personal; these are neither answered from the cache nor
//! stored. Other pages are cached for a second, or as long as the application says, and served stale while they are
//! refetched.

use std::fmt::Write;
use std::net::SocketAddr;

use super::detect::Application;

/// The parameters of the configuration.
pub struct Facts<'a> {
    /// Where to listen.
    pub listen: SocketAddr,
    /// The document root.
    pub root: &'a str,
    /// The folder for temporary files and the pid file.
    pub scratch: &'a str,
    /// The application in it.
    pub application: Application,
    /// Where PHP is run, as `fastcgi_pass` names it.
    pub pass: Option<String>,
    /// How many requests it works at, at once, where larder has said that.
    pub children: Option<u64>,
}

/// The text of the configuration.
pub fn write(facts: &Facts<'_>) -> String {
    let mut text = String::new();
    let mut line = |depth: usize, words: &str| {
        let _ = writeln!(text, "{:width$}{words}", "", width = 4 * depth);
    };
    line(
        0,
        "# Written by `larder serve`. For `larder -c FILE` change `listen`, the places in the temporary folder and `larder_php`.",
    );
    line(0, "daemon off;");
    line(0, "master_process off;");
    line(0, "worker_processes auto;");
    line(0, &format!("pid {};", quoted(&format!("{}/larder.pid", facts.scratch))));
    line(0, "error_log stderr warn;");
    line(0, "events {}");
    line(0, "http {");
    for row in rows(TYPES) {
        line(1, row);
    }
    line(1, "default_type application/octet-stream;");
    // One line for each request on the terminal.
    line(
        1,
        "log_format larder_serve \"$request_method $request_uri $status $upstream_cache_status ${request_time}s\";",
    );
    line(1, "access_log /dev/stdout larder_serve;");
    line(1, "client_max_body_size 64m;");
    line(1, &format!("client_body_temp_path {};", quoted(&format!("{}/body", facts.scratch))));
    for module in ["gzip", "brotli", "zstd"] {
        line(1, &format!("{module} on;"));
        line(1, &format!("{module}_min_length 256;"));
        line(1, &format!("{module}_types {};", COMPRESSIBLE_TYPES.join(" ")));
    }
    line(1, "gzip_vary on;");
    // So that each answer says what the cache did.
    line(1, "larder_cache_status on;");
    line(1, "larder_cache_mode rfc9111;");
    // So that the length of a page for one visitor gives nothing away.
    line(1, "larder_compress_private off;");
    if facts.root.contains('$') {
        // A dollar cannot be escaped, but a variable can hold one.
        line(1, "geo $larder_dollar { default \"$\"; }");
    }
    if let Some(pass) = &facts.pass {
        let gate = facts.children.map_or_else(String::new, |children| format!(" larder_gate {children};"));
        line(1, &format!("upstream larder_php {{ server {};{gate} }}", quoted(pass)));
        write_cache(facts, &mut line);
    }
    line(1, "server {");
    line(2, &format!("listen {} default_server;", facts.listen));
    if let Application::Php(profiles) = &facts.application {
        line(2, &format!("larder_profile {};", profiles.join(" ")));
    }
    line(2, &format!("root {};", quoted(facts.root).replace('$', "${larder_dollar}")));
    write_locations(facts, &mut line);
    line(1, "}");
    line(0, "}");
    text
}

/// Writes the cache, and the rules for what is personal.
fn write_cache(facts: &Facts<'_>, line: &mut impl FnMut(usize, &str)) {
    line(1, &format!("fastcgi_temp_path {};", quoted(&format!("{}/fastcgi", facts.scratch))));
    let cache = quoted(&format!("{}/cache", facts.scratch));
    line(1, &format!("fastcgi_cache_path {cache} keys_zone=larder_pages:16m inactive=10m larder_disk=off;"));
    line(1, "map $http_accept $larder_other_form {");
    line(2, "default \"\";");
    line(2, "\"~*json|^application/(?!xhtml)\" 1;");
    line(1, "}");
}

fn write_locations(facts: &Facts<'_>, line: &mut impl FnMut(usize, &str)) {
    let has_php = facts.pass.is_some();
    let private = PRIVATE_FILES.join("|");
    line(2, if has_php { "index index.php index.html index.htm;" } else { "index index.html index.htm;" });
    line(2, "location ~ /\\.(?!well-known(?:/|$)) {");
    line(3, "return 404;");
    line(2, "}");
    if !has_php {
        // Without PHP, its source must not be sent.
        line(2, &format!("location ~* \\.(?:{PHP_NAMES})(?:/|$) {{"));
        line(3, "return 404;");
        line(2, "}");
        line(2, &format!("location ~* (?:{private})$ {{"));
        line(3, "return 404;");
        line(2, "}");
        line(2, "location / {");
        line(3, "try_files $uri $uri/ =404;");
        line(2, "}");
        return;
    }
    line(2, &format!("location ~* /(?:{})/.*\\.(?:{PHP_NAMES})(?:/|$) {{", UNRUN_FOLDERS.join("|")));
    line(3, "return 404;");
    line(2, "}");
    line(2, "location / {");
    line(3, "try_files $uri $uri/ /index.php?$args;");
    line(2, "}");
    line(2, "location ~ [^/]\\.php(?:/|$) {");
    for row in rows(FASTCGI) {
        line(3, row);
    }
    line(3, "fastcgi_pass larder_php;");
    line(3, "fastcgi_cache larder_pages;");
    // The key has everything that PHP learns about the address of the request.
    line(
        3,
        "fastcgi_cache_key \"$scheme $request_method $host$is_request_port$request_port$request_uri $http_x_forwarded_proto\";",
    );
    line(3, "fastcgi_cache_methods GET HEAD;");
    line(3, "fastcgi_cache_valid 200 301 302 404 1s;");
    line(3, "fastcgi_cache_use_stale updating error timeout invalid_header http_500 http_503;");
    line(3, "fastcgi_cache_background_update on;");
    line(3, "fastcgi_cache_lock on;");
    let own = OF_THIS_REQUEST.join(" ");
    line(3, &format!("fastcgi_cache_bypass {own};"));
    line(3, &format!("fastcgi_no_cache {own};"));
    line(2, "}");
    // After the location of PHP, because a script may make a file of any name: `/download.php/dump.sql`. php-fpm does
    // not run PHP with other endings or in capitals, and its source must not be sent.
    line(2, &format!("location ~ \\.(?!php(?:/|$))(?i:{PHP_NAMES})(?:/|$) {{"));
    line(3, "return 404;");
    line(2, "}");
    line(2, &format!("location ~* (?:{private})$ {{"));
    line(3, "if (-f $request_filename) {");
    line(4, "return 404;");
    line(3, "}");
    // The application may make a page of that name.
    line(3, "try_files $uri/ /index.php?$args;");
    line(2, "}");
}

/// Variables that a page may depend on besides its address. If one of them has a value, the page is for this request
/// only.
const OF_THIS_REQUEST: &[&str] = &[
    "$larder_other_form",
    "$http_authorization",
    "$http_x_authorization",
    "$http_proxy_authorization",
    "$http_x_wp_nonce",
    "$http_x_requested_with",
    "$http_hx_request",
    "$http_x_pjax",
    "$http_origin",
    // A body, or fields of one, in a request that should have none.
    "$content_type",
    "$content_length",
    "$http_transfer_encoding",
];

/// The types to compress, besides text/html.
const COMPRESSIBLE_TYPES: &[&str] = &[
    "text/css",
    "text/plain",
    "text/xml",
    "text/javascript",
    "application/javascript",
    "application/json",
    "application/ld+json",
    "application/manifest+json",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "image/svg+xml",
];

/// Endings of files that some servers run as PHP, or show as its source (`.phps`).
const PHP_NAMES: &str = "php[0-9]*|phps|pht(?:ml?)?|phar";

/// Folders in which no PHP is run: uploads of visitors, and libraries, whose tests and tools attackers have used.
const UNRUN_FOLDERS: &[&str] = &["uploads", "files", "upgrade", "vendor", "node_modules"];

/// Endings of paths that are not served: files that editors, dumps and tools leave behind, and files that tell an
/// attacker which versions run. From the lists of h5bp and lists for WordPress, without files that sites offer on
/// purpose, such as `package.json`, `readme.html`, `.sh` or `.psd`.
const PRIVATE_FILES: &[&str] = &[
    // Copies that editors and people make.
    "~",
    "/#[^/]*#",
    "\\.(?:bak|bkp|backup|old|orig|save|sav|rej|dist|sw[nop]|sample)[0-9]*",
    "\\.(?:php|phtml)[^/]+",
    "/wp-config\\.(?!php)[^/]*",
    // Parts of programs, and their settings.
    "\\.(?:inc|conf|cnf|htaccess|htpasswd|tpl|twig|module|install|theme|engine|profile)",
    "\\.(?:env|ini)(?:[._-][^/]*)?",
    "/config\\.ya?ml",
    "/(?:composer\\.json|package-lock\\.json|npm-shrinkwrap\\.json|pnpm-lock\\.ya?ml|auth\\.json)",
    "/(?:(?:docker-)?compose[^/]*\\.ya?ml|dockerfile|vagrantfile|gemfile|phpunit\\.xml|web\\.config|wp-cli\\.ya?ml)",
    "/vendor/composer/installed\\.json",
    "\\.lock",
    // Their logs.
    "(?:\\.log|/(?:php_?)?error_?log)(?:[.-][0-9]+)*(?:\\.(?:gz|zip|bz2|xz|zst|7z))?",
    "/nohup\\.out",
    "\\.(?:sql|sqlite[0-9]?|db[0-9]?|mdb|dump|rdb)(?:-(?:wal|shm|journal))?(?:\\.tar)?(?:\\.(?:gz|zip|bz2|xz|zst|7z))?",
    "\\.(?:p12|pfx|jks|kdbx|pem|ppk)",
    "/id_(?:rsa|dsa|ecdsa|ed25519)",
];

/// The lines of a file of the packages, without its comments.
fn rows(file: &str) -> impl Iterator<Item = &str> {
    file.lines().filter(|row| !row.is_empty() && !row.starts_with('#'))
}

/// Quotes a word, which may have any character but a dollar: nginx has no escape for that.
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

/// What PHP is told.
const FASTCGI: &str = include_str!("../../../../packaging/etc/larder/fastcgi.conf");

/// Media types.
const TYPES: &str = include_str!("../../../../packaging/etc/larder/mime.types");

#[cfg(test)]
mod tests {
    use super::*;

    fn written(application: Application, pass: Option<&str>) -> String {
        write(&Facts {
            listen: "127.0.0.1:8080".parse().unwrap(),
            root: "/srv/www",
            scratch: "/tmp/x",
            application,
            pass: pass.map(str::to_owned),
            children: None,
        })
    }

    #[test]
    fn a_php_of_our_own_has_a_gate_as_wide_as_it_has_children() {
        let facts = |children| Facts {
            listen: "127.0.0.1:8080".parse().unwrap(),
            root: "/srv/www",
            scratch: "/tmp/x",
            application: Application::Php(vec!["php"]),
            pass: Some("unix:/tmp/x/php.sock".to_owned()),
            children,
        };
        assert!(write(&facts(Some(7))).contains("larder_php { server \"unix:/tmp/x/php.sock\"; larder_gate 7; }"));
        assert!(!write(&facts(None)).contains("larder_gate"));
    }

    #[test]
    fn what_is_personal_is_said_by_the_profiles_of_the_application() {
        for (profiles, expected) in [
            (vec!["php"], "        larder_profile php;\n"),
            (vec!["wordpress", "woocommerce"], "        larder_profile wordpress woocommerce;\n"),
        ] {
            let text = written(Application::Php(profiles), Some("127.0.0.1:9000"));
            assert!(text.contains(expected), "{text}");
            for directive in ["fastcgi_cache_bypass", "fastcgi_no_cache"] {
                let line = text.lines().find(|line| line.trim_start().starts_with(directive)).unwrap();
                for one in ["$larder_other_form", "$http_authorization", "$content_length"] {
                    assert!(line.contains(one), "{line}");
                }
            }
        }
        assert!(!written(Application::Files, None).contains("larder_profile"));
    }

    #[test]
    fn the_source_of_php_is_never_served() {
        let text = written(Application::Files, None);
        assert!(
            text.contains("location ~* \\.(?:php[0-9]*|phps|pht(?:ml?)?|phar)(?:/|$) {\n            return 404;"),
            "{text}"
        );
        assert!(!text.contains("fastcgi"));
    }

    #[test]
    fn words_are_quoted() {
        for (word, expected) in [("/a b", "\"/a b\""), ("/a\"b\\c", "\"/a\\\"b\\\\c\"")] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn an_extension_has_one_type() {
        let of = |row: &'static str| row.trim().trim_end_matches(';').split(' ').skip(1);
        let mut all: Vec<_> = rows(TYPES).filter(|row| row.starts_with(' ')).flat_map(of).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }
}
