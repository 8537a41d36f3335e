//! What the transaction log tells of requests, read by `larder varnishlog` and `larder varnishncsa`.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Folder, Http2Client, Origin, free_port, text_of};

use crate::running_varnishd::{GOOD, Varnishd};
use crate::site::{Setup, Site, binary, eventually};

/// What a reader with `-d` shows of the server whose folder or socket is `place`.
fn told(program: &str, place: &Path, options: &[&str]) -> String {
    let output = Command::new(binary())
        .args([program, "-d", "-n"])
        .arg(place)
        .args(options)
        .stdin(Stdio::null())
        .output()
        .expect("larder can be run");
    assert!(output.status.success(), "{}", text_of(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same until it is as expected: a request is told when it is over, a moment after its response.
fn will_tell(program: &str, place: &Path, options: &[&str], expected: &str) {
    let mut found = String::new();
    for _ in 0..TRIES {
        found = told(program, place, options);
        if found == expected {
            return;
        }
    }
    assert_eq!(found, expected, "{program} {options:?}");
}

/// Each takes a process.
const TRIES: usize = 100;

const SITE: &str = "vcl 4.1;
import std;
backend default { .host = \"{HOST}\"; .port = \"{PORT}\"; }
backend gone { .host = \"127.0.0.1\"; .port = \"{GONE}\"; }
sub vcl_recv {
    if (req.url ~ \"^/pass\") { return (pass); }
    if (req.url ~ \"^/piped\") { return (pipe); }
    if (req.url ~ \"^/made\") { return (synth(299, \"Made\")); }
    if (req.url ~ \"^/again\" && req.restarts == 0) { set req.http.x = \"1\"; return (restart); }
    if (req.url ~ \"^/gone\") { set req.backend_hint = gone; }
    if (req.url ~ \"^/fail\") { std.log(\"key: failing\"); return (fail); }
    set req.http.cookie = \"none\";
    unset req.http.cookie;
}
sub vcl_backend_response {
    if (bereq.url == \"/page\") { set beresp.do_esi = true; }
    if (bereq.url == \"/no\") { set beresp.ttl = 5s; set beresp.uncacheable = true; }
}
sub vcl_deliver { unset resp.http.x-from; set resp.http.x-hits = obj.hits; }
";

const LOGGED: &str = "vcl 4.1;
import std;
backend b { .host = \"{HOST}\"; .port = \"{PORT}\"; .first_byte_timeout = 0.2s; }
acl own +log { \"127.0.0.1\"; }
acl others +log -pedantic { \"10.1.2.3\"/16; ! \"127.0.0.1\"; }
acl silent { \"127.0.0.1\"; }
sub vcl_recv {
    if (req.url == \"/other\") { return (vcl(other)); }
    if (client.ip ~ silent && client.ip ~ own && client.ip !~ others && std.ip(\"10.1.9.9\", \"::\") ~ others) {
        if (std.ip(\"::1\", \"::\") ~ own) { return (fail); }
    }
    if (req.method == \"POST\") { return (pass); }
}
sub vcl_backend_response {
    if (bereq.url == \"/packed\") { set beresp.do_gzip = true; }
    if (bereq.url == \"/refused\") { return (error(500)); }
}
";

#[test]
fn acls_filters_packing_and_connections_are_told_as_varnish_tells_them() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("body").field("Cache-Control", "max-age=100"));
    origin.answer("/last", Answer::ok("body").field("Connection", "close"));
    origin.answer("/packed", Answer::ok("body ".repeat(100)).field("Cache-Control", "max-age=100"));
    let address = origin.address();
    let vcl =
        |text: &str| text.replace("{HOST}", &address.ip().to_string()).replace("{PORT}", &address.port().to_string());
    let folder = Folder::new().unwrap();
    folder.write("logged.vcl", vcl(LOGGED)).unwrap();
    let other = "vcl 4.1; backend b { .host = \"{HOST}\"; .port = \"{PORT}\"; } sub vcl_recv { return (pass); }";
    folder.write("other.vcl", vcl(other)).unwrap();
    let varnishd = Varnishd::serve_in(folder, GOOD, &["-p", "vsl_space=8M"]);
    let mut cli = varnishd.open_cli();
    for (line, file) in [("vcl.load two", Some("other.vcl")), ("vcl.label other two", None)] {
        let file = file.map(|file| varnishd.folder.join(file).display().to_string()).unwrap_or_default();
        cli.order(&format!("{line} {file}"));
    }
    cli.order(&format!("vcl.load one {}", varnishd.folder.join("logged.vcl").display()));
    cli.order("vcl.use one");
    let place = varnishd.folder.join("run");
    let of = |url: &str, tags: &str, expected: &str| {
        let query = format!("ReqURL eq \"{url}\"");
        let mut found = String::new();
        for _ in 0..TRIES {
            found = told("varnishlog", &place, &["-g", "request", "-q", &query, "-i", tags]);
            found = found.lines().filter(|line| line.starts_with('-')).map(|line| line.to_owned() + "\n").collect();
            found = found.replace(&format!("{} {}", address.ip(), address.port()), "ADDRESS");
            if found == expected {
                return;
            }
        }
        assert_eq!(found, expected, "{url}");
    };
    varnishd.ask("GET", "/a");
    of(
        "/a",
        "VCL_acl,VCL_use,BackendOpen,BackendClose,Filters",
        "\
-   VCL_use        one
-   VCL_acl        MATCH own \"127.0.0.1\"
-   VCL_acl        NEG_MATCH others \"127.0.0.1\"
-   VCL_acl        MATCH others \"10.1.2.3\"/16 fixed: 10.1.0.0/16
-   VCL_acl        NO_MATCH own
-   Filters        
--  VCL_use        one
--  BackendOpen    - b ADDRESS - - connect
--  Filters        
--  BackendClose   - b recycle
",
    );
    varnishd.play("GET /part HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nConnection: close\r\n\r\n");
    of("/part", "Filters", "-   Filters         range\n--  Filters        \n");
    varnishd.ask("GET", "/last");
    of("/last", "BackendClose", "--  BackendClose   - b close Backend/VCL requested close\n");
    varnishd.ask("GET", "/refused");
    of(
        "/refused",
        "BackendClose,BerespStatus",
        "\
--  BerespStatus   200
--  BerespStatus   500
--  BackendClose   - b recycle
",
    );
    let held = origin.hold("/late");
    varnishd.ask("GET", "/late");
    of(
        "/late",
        "BackendClose,BerespStatus",
        "\
--  BackendClose   - b close Receive timeout
--  BerespStatus   503
",
    );
    drop(held);
    varnishd.ask("GET", "/other");
    of("/other", "VCL_use", "-   VCL_use        one\n-   VCL_use        two via other\n--  VCL_use        two\n");
    varnishd.play("GET /packed HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n");
    let gzip = |url: &str| {
        let query = format!("ReqURL eq \"{url}\"");
        told("varnishlog", &place, &["-g", "request", "-q", &query, "-i", "Gzip,Filters"])
    };
    eventually("it is told", || gzip("/packed").contains("Gzip           G F - 500 "));
    assert!(gzip("/packed").contains("Filters         gzip\n"), "{}", gzip("/packed"));
    // Who takes no gzip gets it unpacked.
    varnishd.ask("GET", "/packed");
    eventually("it is told", || {
        gzip("/packed").contains(" 500\n") && gzip("/packed").contains("Filters         gunzip\n")
    });
    varnishd.play("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbody");
    let account = told("varnishlog", &place, &["-g", "request", "-q", "BereqMethod eq POST", "-i", "BereqAcct"]);
    let account = account.lines().find_map(|line| line.strip_prefix("--  BereqAcct      "));
    let numbers: Vec<u64> = account.unwrap_or_default().split(' ').map(|word| word.parse().unwrap()).collect();
    assert_eq!((numbers[1], numbers[2], numbers[4]), (4, numbers[0] + 4, 4), "{numbers:?}");
}

/// A server with that VCL, and the address of the backend that is gone.
fn served(origin: &Origin, options: &[&str]) -> (Varnishd, String) {
    let gone = free_port().to_string();
    let address = origin.address();
    let vcl = SITE.replace("{HOST}", &address.ip().to_string()).replace("{PORT}", &address.port().to_string());
    (Varnishd::serve(&vcl.replace("{GONE}", &gone), options), format!("127.0.0.1:{gone}"))
}

#[test]
fn a_request_is_told_in_the_records_of_varnish() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("body").field("X-From", "origin").field("Cache-Control", "max-age=100"));
    origin.answer("/page", Answer::ok("<esi:include src=\"/part\"/>").field("Cache-Control", "max-age=100"));
    let (varnishd, gone) = served(&origin, &["-p", "vsl_space=8M"]);
    let place = varnishd.folder.join("run");
    // What is told first depends on the workers.
    varnishd.ask("GET", "/a");
    will_tell("varnishncsa", &place, &["-F", "%U"], "/a\n");
    for url in ["/a", "/pass", "/made", "/again", "/gone", "/fail", "/no", "/no", "/page", "/piped"] {
        varnishd.ask("GET", url);
    }
    let of = |url: &str, tags: &str, expected: &str| {
        let query = format!("{{1}}ReqURL eq \"{url}\"");
        // Numbers depend on how many connections there were.
        let mut found = String::new();
        for _ in 0..TRIES {
            found = told("varnishlog", &place, &["-g", "request", "-q", &query, "-i", tags]);
            found = found.lines().filter(|line| !line.starts_with('*')).map(|line| line.to_owned() + "\n").collect();
            if found == expected {
                return;
            }
        }
        assert_eq!(found, expected, "{url}");
    };
    const WAY: &str = "VCL_call,VCL_return,RespStatus,BerespStatus";
    of(
        "/a",
        &format!("{WAY},ReqUnset,RespUnset,RespReason"),
        "\
-   VCL_call       RECV
-   ReqUnset       cookie: none
-   VCL_return     hash
-   VCL_call       HASH
-   VCL_return     lookup
-   VCL_call       MISS
-   VCL_return     fetch
-   RespStatus     200
-   RespReason     OK
-   VCL_call       DELIVER
-   RespUnset      X-From: origin
-   VCL_return     deliver
--  VCL_call       BACKEND_FETCH
--  VCL_return     fetch
--  BerespStatus   200
--  VCL_call       BACKEND_RESPONSE
--  VCL_return     deliver

-   VCL_call       RECV
-   ReqUnset       cookie: none
-   VCL_return     hash
-   VCL_call       HASH
-   VCL_return     lookup
-   VCL_call       HIT
-   VCL_return     deliver
-   RespStatus     200
-   RespReason     OK
-   VCL_call       DELIVER
-   RespUnset      X-From: origin
-   VCL_return     deliver

",
    );
    of(
        "/made",
        "RespStatus,RespReason,VCL_call",
        "\
-   VCL_call       RECV
-   VCL_call       HASH
-   RespStatus     299
-   RespReason     Made
-   VCL_call       SYNTH

",
    );
    of(
        "/fail",
        "VCL_Log,VCL_Error,VCL_return,RespStatus,RespReason",
        "\
-   VCL_Log        key: failing
-   VCL_return     fail
-   VCL_Error      Failed from VCL
-   RespStatus     503
-   RespReason     VCL failed
-   VCL_return     deliver

",
    );
    of(
        "/gone",
        "VCL_call,FetchError,BerespStatus,BerespReason,RespStatus",
        &"\
-   VCL_call       RECV
-   VCL_call       HASH
-   VCL_call       MISS
-   RespStatus     503
-   VCL_call       DELIVER
--  VCL_call       BACKEND_FETCH
--  FetchError     connect() failed (111: Connection refused) while connecting to upstream, upstream: {GONE}
--  BerespStatus   503
--  BerespReason   Backend fetch failed
--  VCL_call       BACKEND_ERROR

"
        .replace("{GONE}", &gone),
    );
    // A restart is on the level of its request.
    of(
        "/again",
        "ReqURL,VCL_return",
        "\
-   ReqURL         /again
-   VCL_return     restart
-   VCL_return     lookup
-   ReqURL         /again
-   VCL_return     hash
-   VCL_return     lookup
-   VCL_return     fetch
-   VCL_return     deliver
--  VCL_return     fetch
--  VCL_return     deliver

",
    );
    of(
        "/piped",
        "VCL_call,BereqURL,BerespStatus",
        "\
-   VCL_call       RECV
-   VCL_call       HASH
-   VCL_call       PIPE
--  BereqURL       /piped
--  BerespStatus   200

",
    );
    of(
        "/page",
        "ReqURL,BereqURL",
        "\
-   ReqURL         /page
--  BereqURL       /page
--  ReqURL         /part
--- BereqURL       /part

",
    );
    // Once with what was fetched, and once with what is there.
    varnishd.ask("GET", "/page");
    will_tell("varnishncsa", &place, &["-q", "ReqURL eq \"/page\"", "-F", "%s %b"], "200 4\n200 4\n");
    let calls = told("varnishlog", &place, &["-q", "HitMiss", "-i", "ReqURL,VCL_call"]);
    assert!(calls.contains("ReqURL         /no") && calls.contains("VCL_call       MISS"), "{calls}");
    // A connection has ended when it is told so, and not when the next one comes.
    for tag in ["SessOpen", "SessClose"] {
        let mut count = 0;
        for _ in 0..TRIES {
            count = told("varnishlog", &place, &["-g", "raw", "-i", tag]).lines().count();
            if count == 12 {
                break;
            }
        }
        assert_eq!(count, 12, "{tag}");
    }
    // What times and bytes are depends on the machine, how many words they have does not.
    for (tag, words) in [
        ("SessOpen", 7),
        ("SessClose", 2),
        ("ReqStart", 3),
        ("ReqAcct", 6),
        ("BereqAcct", 6),
        ("Hit", 4),
        ("HitMiss", 2),
        ("BackendOpen", 7),
        ("Fetch_Body", 3),
        ("Storage", 2),
        ("Timestamp", 4),
    ] {
        let all = told("varnishlog", &place, &["-g", "raw", "-i", tag]);
        assert!(!all.is_empty(), "{tag}");
        for line in all.lines() {
            // The number, the tag and the side are in front.
            assert_eq!(line.split_whitespace().count(), 3 + words, "{line}");
        }
    }
    will_tell(
        "varnishncsa",
        &place,
        &["-q", "ReqURL eq \"/a\"", "-F", "%m %U %s %b %{Varnish:hitmiss}x %{x-hits}o"],
        "\
GET /a 200 4 miss 0
GET /a 200 4 hit 1
",
    );
    will_tell(
        "varnishncsa",
        &place,
        &["-b", "-q", "BereqURL eq \"/pass\"", "-F", "%h %m %U %s"],
        "\
127.0.0.1 GET /pass 200
",
    );
}

#[test]
fn a_head_that_is_refused_is_told_with_the_line_that_is_wrong() {
    let origin = Origin::start().unwrap();
    let (varnishd, _) = served(&origin, &["-p", "vsl_space=1M"]);
    let place = varnishd.folder.join("run");
    let mut expected = String::new();
    for (line, said) in [
        ("A: b\x01c", "Header has ctrl char 0x01"),
        ("A: b\rc", "Header has ctrl char 0x0d"),
        ("A(: b", "Illegal char 0x28 in header name"),
        ("A\x7f: b", "Illegal char 0x7f in header name"),
        ("Abc", "Header without ':' Abc"),
        (": a", "Missing header name: "),
    ] {
        assert_eq!(varnishd.play(&format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n\r\n")).status, 400, "{line:?}");
        expected += &format!("    BogoHeader     {said}\n");
        let mut found = String::new();
        for _ in 0..TRIES {
            found = told("varnishlog", &place, &["-g", "vxid", "-i", "BogoHeader"]);
            found =
                found.lines().filter_map(|line| line.strip_prefix('-')).map(|line| line.to_owned() + "\n").collect();
            found = found.replace("   BogoHeader", "    BogoHeader");
            if found == expected {
                break;
            }
        }
        assert_eq!(found, expected);
    }
}

#[test]
fn who_listens_hears_what_comes_and_masked_tags_are_left_out() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("body"));
    let (varnishd, _) = served(&origin, &[]);
    let place = varnishd.folder.join("run");
    assert_eq!(told("varnishlog", &place, &[]), "", "nothing is kept unless that is asked for");
    let listen = |tags: &str| {
        let mut child = Command::new(binary())
            .args(["varnishlog", "-c", "-k", "1", "-q", "ReqURL eq \"/heard\"", "-i", tags, "-n"])
            .arg(&place)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("larder can be run");
        let lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let read = std::thread::spawn(move || lines.map(|line| line.unwrap()).collect::<Vec<_>>());
        // Nobody can see from here when it listens.
        eventually("it has heard enough", || {
            varnishd.ask("GET", "/heard");
            child.try_wait().unwrap().is_some()
        });
        let heard = read.join().unwrap();
        heard.into_iter().filter(|line| line.starts_with('-')).collect::<Vec<_>>()
    };
    assert_eq!(listen("ReqMethod,ReqURL"), ["-   ReqMethod      GET", "-   ReqURL         /heard"]);
    let mut cli = varnishd.open_cli();
    cli.says("param.set vsl_mask -ReqMethod", 200, "");
    assert_eq!(listen("ReqMethod,ReqURL"), ["-   ReqURL         /heard"]);
    cli.says("param.set vsl_reclen 16", 200, "");
    cli.says("param.set vsl_mask +RecURL", 106, "did you mean \"ReqURL\"?");
    cli.says("param.set vsl_space 1M", 200, "");
    let url = format!("/{}", "a".repeat(100));
    varnishd.ask("GET", &url);
    will_tell("varnishncsa", &place, &["-F", "%U", "-q", "ReqURL ~ aaaa"], &format!("{}\n", &url[..16]));
    cli.says("status", 200, "running");
    let told = told("varnishlog", &place, &["-g", "raw", "-i", "CLI"]);
    assert!(told.contains("- Rd status\n") && told.contains("- Wr 200 22 Child "), "{told}");
}

fn socket_of(site: &Site) -> std::path::PathBuf {
    site.setup().path("nginx.vsl")
}

#[test]
fn a_server_with_an_nginx_conf_tells_its_locations_and_its_cache() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("page"));
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    fcgi.answer("*", FastCgiReply::html("page"));
    let setup = Setup::new().name("ORIGIN", origin.address()).name("FCGI", fcgi.address());
    let setup = setup.main("daemon off; worker_processes 2; larder_transaction_log on keep=1m;");
    let vcl = "vcl 4.1; backend default none; sub vcl_recv { return (synth(204)); }";
    let site = setup.file("www/file.txt", "file").file("site.vcl", vcl).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            http2 on;
            server_name shop;
            rewrite ^/old/(.*) /new/$1;
            location / { try_files $uri @back; }
            location = /no { return 404; }
            location ^~ /new/ { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid any 1h; }
            location ~ \\.php$ { fastcgi_param QUERY_STRING $query_string; fastcgi_pass {FCGI}; }
            location @back { proxy_pass http://{ORIGIN}; }
            location /denied { deny all; }
            location /asked { auth_request /auth; proxy_pass http://{ORIGIN}; }
            location = /auth { internal; proxy_pass http://{ORIGIN}; }
            location /by-vcl { vcl {DIR}/site.vcl; }
         }",
    );
    let place = socket_of(&site);
    let there = std::fs::symlink_metadata(&place).unwrap();
    assert!(there.file_type().is_socket() && there.permissions().mode() & 0o777 == 0o660);
    for url in ["/file.txt", "/old/a", "/new/a", "/none", "/no", "/denied", "/x.php?a=b", "/asked", "/by-vcl"] {
        site.get(url);
    }
    let of = |url: &str, tags: &str, expected: &str| {
        let query = format!("ReqURL eq \"{url}\"");
        let mut found = String::new();
        for _ in 0..TRIES {
            found = told("varnishlog", &place, &["-g", "request", "-q", &query, "-i", tags]);
            found = found.lines().filter(|line| line.starts_with('-')).map(|line| line.to_owned() + "\n").collect();
            if found == expected {
                return;
            }
        }
        assert_eq!(found, expected, "{url}");
    };
    const WHERE: &str = "Server,Location,Rewrite,Cache,RespStatus,Error,BereqURL,BerespStatus";
    of(
        "/file.txt",
        WHERE,
        "\
-   Server         shop
-   Location       /
-   RespStatus     200
",
    );
    let origin_is = origin.address();
    of(
        "/old/a",
        WHERE,
        &format!(
            "\
-   Rewrite        rewrite /new/a
-   Server         shop
-   Location       ^~ /new/
-   RespStatus     200
-   Cache          MISS http://{origin_is}/new/a - not stored yet
--  BereqURL       /new/a
--  BerespStatus   200
"
        ),
    );
    of(
        "/new/a",
        WHERE,
        &format!(
            "\
-   Server         shop
-   Location       ^~ /new/
-   RespStatus     200
-   Cache          HIT http://{origin_is}/new/a
"
        ),
    );
    of(
        "/none",
        WHERE,
        "\
-   Server         shop
-   Location       /
-   Rewrite        to @back
-   Server         shop
-   Location       @back
-   RespStatus     200
--  BereqURL       /none
--  BerespStatus   200
",
    );
    of(
        "/no",
        WHERE,
        "\
-   Server         shop
-   Location       = /no
-   Rewrite        return 404
-   RespStatus     404
",
    );
    of(
        "/denied",
        WHERE,
        "\
-   Server         shop
-   Location       /denied
-   Error          access forbidden by rule
-   RespStatus     403
",
    );
    of(
        "/x.php?a=b",
        "Location,BereqHeader,RespStatus",
        "\
-   Location       ~ \\.php$
-   RespStatus     200
--  BereqHeader    QUERY_STRING: a=b
--  BereqHeader    HTTP_HOST: site.test
--  BereqHeader    HTTP_CONNECTION: close
",
    );
    will_tell("varnishncsa", &place, &["-q", "ReqURL eq \"/new/a\"", "-F", "%s %{Varnish:hitmiss}x"], "200 hit\n");
    of(
        "/asked",
        "Location,BereqURL,RespStatus",
        "\
-   Location       /asked
-   RespStatus     200
--  Location       = /auth
--  RespStatus     200
--  BereqURL       /asked
--- BereqURL       /auth
",
    );
    of(
        "/by-vcl",
        "Location,VCL_call",
        "\
-   Location       /by-vcl
-   VCL_call       RECV
-   VCL_call       HASH
-   VCL_call       SYNTH
",
    );
    // HTTP/2 is told alike.
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    assert_eq!(client.get("/new/h2").unwrap().status, 200);
    of(
        "/new/h2",
        "ReqProtocol,RespProtocol,BereqURL",
        "\
-   ReqProtocol    HTTP/2.0
-   RespProtocol   HTTP/2.0
--  BereqURL       /new/h2
",
    );
}

#[test]
fn what_is_kept_follows_the_configuration_and_off_is_off() {
    let setup = Setup::new().main("daemon off; worker_processes 1; larder_transaction_log {DIR}/log.sock keep=1m;");
    let site = setup.file("www/a.txt", "a").start("server { listen 127.0.0.1:{PORT}; }");
    let place = site.setup().path("log.sock");
    assert!(!socket_of(&site).exists());
    site.get("/a.txt");
    will_tell("varnishncsa", &place, &["-F", "%U"], "/a.txt\n");
    drop(site);
    assert!(!place.exists(), "it goes with the server");
    let site =
        Setup::new().main("daemon off; larder_transaction_log off;").start("server { listen 127.0.0.1:{PORT}; }");
    assert!(!socket_of(&site).exists());
}

#[test]
fn another_place_of_the_log_waits_for_a_start_and_off_holds_at_once() {
    for processes in ["worker_processes 1;", "master_process off;"] {
        let setup =
            Setup::new().main(&format!("daemon off; {processes} larder_transaction_log {{DIR}}/a.sock keep=1m;"));
        let site = setup.file("www/a.txt", "a").start("server { listen 127.0.0.1:{PORT}; }");
        let (place, other) = (site.setup().path("a.sock"), site.setup().path("b.sock"));
        let change = |from: &str, to: &str, said: &str| {
            let text = std::fs::read_to_string(site.setup().path("nginx.conf")).unwrap();
            assert!(text.contains(from), "{text}");
            site.setup().write_raw(&text.replace(from, to));
            site.signal(larder_testkit::Signal::Hup);
            site.wait_for_log(said);
        };
        change("a.sock", "b.sock", &format!("until then the log is told at {}", place.display()));
        assert!(place.exists() && !other.exists());
        site.get("/a.txt");
        will_tell("varnishncsa", &place, &["-F", "%U"], "/a.txt\n");
        let place_and_keep = format!("{} keep=1m", other.display());
        change(&place_and_keep, "off", "\"larder_transaction_log\" is off now");
        assert!(!place.exists() && !other.exists());
        change("_log off", "_log on", "until then the log is told nowhere");
        assert!(!place.exists() && !socket_of(&site).exists());
    }
}
