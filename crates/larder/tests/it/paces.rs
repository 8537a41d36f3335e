//! Where connections to origins begin, how fast answers are taken, who is asked for whom, and who waits for a limit.

use std::time::Instant;

use larder_testkit::{Answer, Http2Client, Origin};

use crate::site::{Setup, Site, eventually, text};

#[test]
fn origins_are_asked_from_the_address_that_is_told() {
    let site = Site::start(
        "server {
            listen 127.0.0.1:{PORT};
            proxy_bind 127.0.0.2;
            location /inherits { proxy_pass http://127.0.0.1:{PORT2}; }
            location /off { proxy_bind off; proxy_pass http://127.0.0.1:{PORT2}; }
            location /varies { proxy_bind $arg_from; proxy_pass http://127.0.0.1:{PORT2}; }
            location /port { proxy_bind 127.0.0.3:$arg_port; proxy_pass http://127.0.0.1:{PORT2}; }
         }
         server { listen 127.0.0.1:{PORT2}; location / { return 200 $remote_addr:$remote_port; } }",
    );
    let port = larder_testkit::free_port();
    for (target, begin) in [
        ("/inherits", "127.0.0.2:".to_owned()),
        ("/off", "127.0.0.1:".to_owned()),
        ("/varies?from=127.0.0.4", "127.0.0.4:".to_owned()),
        ("/varies", "127.0.0.1:".to_owned()),
        ("/varies?from=no-address", "127.0.0.1:".to_owned()),
        (&format!("/port?port={port}"), format!("127.0.0.3:{port}")),
    ] {
        let response = site.get(target);
        assert!(text(&response).starts_with(&begin), "{target}: {} {}", response.status, text(&response));
    }
    site.wait_for_log("invalid local address \"no-address\"");
}

#[test]
fn an_answer_is_taken_at_its_pace() {
    let origin = Origin::start().unwrap();
    let body = "x".repeat(30_000);
    origin.answer("*", Answer::ok(body.as_str()).field("X-Pace", "20000"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "server {
            listen 127.0.0.1:{PORT};
            location /fixed { proxy_limit_rate 20k; proxy_pass http://{ORIGIN}; }
            location /told { proxy_limit_rate $upstream_http_x_pace; proxy_pass http://{ORIGIN}; }
            location /unbuffered { proxy_limit_rate 1; proxy_buffering off; proxy_pass http://{ORIGIN}; }
            location /off { proxy_limit_rate 0; proxy_pass http://{ORIGIN}; }
         }",
    );
    // The first second's worth goes at once: what is left of 30000 bytes takes half a second at least.
    for (target, least_ms) in [("/fixed", 400), ("/told", 400), ("/unbuffered", 0), ("/off", 0)] {
        let began = Instant::now();
        assert_eq!(text(&site.get(target)), body, "{target}");
        assert!(began.elapsed().as_millis() >= least_ms, "{target} took {:?}", began.elapsed());
    }
}

#[test]
fn a_network_of_clients_has_its_origin() {
    let site = Site::start(
        "upstream two { ip_hash; server 127.0.0.1:{PORT2}; server 127.0.0.2:{PORT2}; }
         server {
            listen 127.0.0.1:{PORT};
            set_real_ip_from 127.0.0.1;
            location / { proxy_pass http://two; }
         }
         server { listen 127.0.0.1:{PORT2}; listen 127.0.0.2:{PORT2}; location / { return 200 $server_addr; } }",
    );
    let asked = |ip: &str| text(&site.ask("GET", "/", &format!("X-Real-IP: {ip}\r\n")));
    // Only the first three numbers of an IPv4 address count, all of an IPv6 one.
    for net in 1..20 {
        let first = asked(&format!("10.0.{net}.1"));
        assert_eq!(asked(&format!("10.0.{net}.200")), first, "network {net}");
    }
    let origins = |ips: Vec<String>| ips.iter().map(|ip| asked(ip)).collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(origins((1..20).map(|n| format!("10.0.{n}.1")).collect()), 2);
    assert_eq!(origins((1..20).map(|n| format!("2001:db8::{n:x}")).collect()), 2);
}

#[test]
fn attempts_of_one_fetch_and_of_another_are_told_apart() {
    let origin = Origin::start().unwrap();
    origin.answer("/first", Answer::ok("").field("X-Accel-Redirect", "/second"));
    origin.answer("/second", Answer::ok("done"));
    let site = Setup::new().name("ORIGIN", origin.address()).start(
        "upstream both { server 127.0.0.1:1; server {ORIGIN}; }
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Status $upstream_status;
            add_header X-At $upstream_addr;
            location /first { proxy_pass http://both; }
            location /second { internal; proxy_pass http://{ORIGIN}; }
         }",
    );
    let response = site.get("/first");
    let at = origin.address();
    assert_eq!(response.field("X-Status"), Some("502, 200 : 200"));
    assert_eq!(response.field("X-At"), Some(&*format!("127.0.0.1:1, {at} : {at}")));
    assert_eq!(text(&response), "done");
}

#[test]
fn a_client_that_leaves_while_a_limit_delays_it_is_let_go() {
    let site = Site::start(
        "limit_req_zone $server_port zone=slow:64k rate=1r/m;
         limit_conn_zone $server_port zone=one:64k;
         server {
            listen 127.0.0.1:{PORT};
            location / { limit_conn one 1; proxy_pass http://127.0.0.1:{PORT2}; }
         }
         server {
            listen 127.0.0.1:{PORT2};
            location /slow { limit_conn one 1; limit_req zone=slow burst=5; }
         }",
    );
    assert_eq!(site.get("/slow").status, 404);
    let mut client = site.client();
    client.send(b"GET /slow HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    site.wait_for_log("delaying request");
    // It holds the limit in front, and not the one behind, where it waits.
    assert_eq!(site.get("/one").status, 503);
    drop(client);
    site.get_until("/one", "the limit to be let go", |response| response.status == 404);
    site.wait_for_log("client prematurely closed connection");
}

#[test]
fn a_401_waits_as_long_as_told_and_nothing_else_does() {
    let site = Setup::new().file("users", "plain:{PLAIN}secret\ncrypt:$1$salt$Pl9kINsGyQEDxSgVldOmD0\n").start(
        "log_format short '$uri $status';
         access_log {DIR}/access.log short;
         server {
            listen 127.0.0.1:{PORT};
            http2 on;
            auth_delay 1h;
            location /in { auth_basic closed; auth_basic_user_file {DIR}/users; try_files /in.txt =204; }
            location /asks { auth_request /no; }
            location = /no { internal; return 401; }
            location /denies { auth_request /denied; }
            location = /denied { internal; return 403; }
            location /short/ { auth_delay 1ms; auth_basic closed; auth_basic_user_file {DIR}/users; }
         }",
    );
    let with = |password: &str| format!("Authorization: Basic {password}\r\n");
    let (right, wrong, slow) = (with("cGxhaW46c2VjcmV0"), with("cGxhaW46d3Jvbmc="), with("Y3J5cHQ6d3Jvbmc="));
    for (target, fields) in [("/in/none", &*wrong), ("/in/checked", &slow), ("/asks/somebody", "")] {
        let mut client = site.client();
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n").as_bytes()).unwrap();
        let told = format!("delaying unauthorized request, client: 127.0.0.1, server: , request: \"GET {target} ");
        site.wait_for_text("error.log", &told);
        // Others are answered meanwhile; who leaves waits no longer.
        assert_eq!(site.ask("GET", "/in", &right).status, 204, "{target}");
        drop(client);
        site.wait_for_text("access.log", &format!("{target} 499"));
    }
    assert_eq!(site.get("/denies").status, 403);
    let response = site.ask("GET", "/short/a", &wrong);
    assert_eq!((response.status, response.field("WWW-Authenticate")), (401, Some("Basic realm=\"closed\"")));
    assert_eq!(Http2Client::connect(site.setup().address()).unwrap().get("/short/a").unwrap().status, 401);
}

#[test]
fn a_head_goes_at_the_pace_of_its_response() {
    let site = Setup::new().file("www/a.txt", "file").start(
        "add_header X-Long $arg_long;
         log_format sent '$uri $bytes_sent.';
         access_log sent.log sent;
         server {
            listen 127.0.0.1:{PORT};
            location / { limit_rate 1; return 200 text; }
            location /a.txt { limit_rate 1; }
            location /enough { limit_rate 10k; return 200 text; }
            location /after { limit_rate 1; limit_rate_after 1m; return 200 text; }
         }",
    );
    let target = |path: &str| format!("{path}?long={}", "x".repeat(2000));
    for path in ["/", "/a.txt"] {
        let mut client = site.client();
        client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", target(path)).as_bytes()).unwrap();
        assert_eq!(client.read_bytes(1).unwrap(), b"H", "{path}");
        drop(client);
        let sent = || site.server().text("sent.log");
        eventually("the log line", || sent().contains(&format!("{path} ")));
        // One at once, then one a second.
        let bytes = sent()
            .lines()
            .filter_map(|line| line.strip_prefix(&format!("{path} "))?.strip_suffix('.')?.parse().ok())
            .next();
        assert!(bytes.is_some_and(|bytes: u32| bytes < 1000), "{path}: {}", sent());
    }
    for path in ["/enough", "/after"] {
        assert_eq!(text(&site.get(&target(path))), "text", "{path}");
    }
}
