//! `larder_status`: JSON in the shape of NGINX Plus' API, and what larder has beside it.

use larder_testkit::{Answer, Certificates, Client, NameServer, Origin, Response, Signal, Tls, signal_to};
use serde_json::{Value, json};

use crate::site::{Setup, Site, eventually, get, get_on, text};
use crate::tls::{body, client, site as tls_site};

const SITE: &str = "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=64m;
    limit_req_zone $arg_key zone=slow:1m rate=1r/m;
    limit_conn_zone $arg_key zone=few:1m;
    resolver {DNS} ipv6=off status_zone=names;
    upstream app { server {ORIGIN} weight=3 max_conns=9; server 127.0.0.1:1 backup; server 127.0.0.2:1 down; }
    server {
        listen 127.0.0.1:{PORT};
        server_name site.test;
        status_zone shop;
        location / { proxy_pass http://app; proxy_cache pages; proxy_cache_valid 200 1h; status_zone pages; }
        location /direct { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_no_cache 1; }
        location /limited { limit_req zone=slow; limit_conn few 9; }
        location /named { proxy_pass http://$arg_host:{AT}; }
        location /api { larder_status; }
        location /elsewhere/ { api write=off; }
    }
    server { listen 127.0.0.1:{PORT2} larder_admin; }";

fn start() -> (Origin, Site) {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("a page"));
    let names = NameServer::start().unwrap();
    names.knows("site.test", &[[127, 0, 0, 1]]);
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).name("DNS", names.address());
    let site = setup.name("AT", origin.address().port()).start(SITE);
    assert_eq!(site.get("/named?host=site.test").status, 200);
    assert_eq!(site.get("/named?host=nowhere.test").status, 502);
    for path in ["/page", "/page", "/other", "/direct", "/limited?key=a", "/limited?key=a"] {
        site.get(path);
    }
    (origin, site)
}

fn json_of(response: &Response) -> Value {
    assert_eq!(response.field("Content-Type"), Some("application/json"));
    serde_json::from_str(&text(response)).unwrap()
}

fn told(site: &Site, path: &str) -> Value {
    let response = site.get(path);
    assert_eq!(response.status, 200, "{path}: {}", text(&response));
    json_of(&response)
}

/// Panics unless `value` has the form of `form`: the same names and kinds of values. `*` is any name, and a name with a `?`
/// need not be there.
fn has_form(value: &Value, form: &Value, place: &str) {
    match (value, form) {
        (Value::Object(value), Value::Object(form)) => {
            for (name, inner) in value {
                let known = form.get(name).or_else(|| form.get(&format!("{name}?"))).or_else(|| form.get("*"));
                let known = known.unwrap_or_else(|| panic!("{place} has {name}: {value:?}"));
                has_form(inner, known, &format!("{place}.{name}"));
            }
            for name in form.keys().filter(|name| *name != "*" && !name.ends_with('?')) {
                assert!(value.contains_key(name), "{place} lacks {name}: {value:?}");
            }
        }
        (Value::Array(value), Value::Array(form)) => {
            value.iter().for_each(|item| has_form(item, &form[0], &format!("{place}[]")));
        }
        // Counters are whole, and never negative.
        (Value::Number(value), Value::Number(_)) => assert!(value.is_u64(), "{place} is {value}"),
        (Value::String(_), Value::String(_)) | (Value::Bool(_), Value::Bool(_)) => {}
        _ => panic!("{place} is {value}, and not like {form}"),
    }
}

/// The forms of the published schema of the API, version 9, each with a path that has it.
fn forms() -> Vec<(&'static str, Value)> {
    let ssl = json!({
        "handshakes": 0, "handshakes_failed": 0, "session_reuses": 0, "no_common_protocol": 0, "no_common_cipher": 0,
        "handshake_timeout": 0, "peer_rejected_cert": 0,
        "verify_failures": { "no_cert": 0, "expired_cert": 0, "revoked_cert": 0, "hostname_mismatch": 0, "other": 0 },
    });
    let responses = json!({ "1xx": 0, "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0, "codes": { "*": 0 }, "total": 0 });
    let location_zone = json!({ "requests": 0, "responses": responses, "discarded": 0, "received": 0, "sent": 0 });
    let mut server_zone = location_zone.clone();
    (server_zone["processing"], server_zone["ssl"]) = (json!(0), ssl.clone());
    let read = json!({ "responses": 0, "bytes": 0 });
    let written = json!({ "responses": 0, "bytes": 0, "responses_written": 0, "bytes_written": 0 });
    let cache = json!({
        "size": 0, "max_size?": 0, "cold": false, "hit": read, "stale": read, "updating": read, "revalidated": read,
        "miss": written, "expired": written, "bypass": written,
    });
    let hist = json!({ "count": 0, "sum": 0, "buckets": {
        "5": 0, "10": 0, "25": 0, "50": 0, "75": 0, "100": 0, "250": 0, "500": 0, "750": 0, "1000": 0, "2500": 0, "5000": 0,
        "7500": 0, "10000": 0, "inf": 0,
    } });
    let peer = json!({
        "id": 0, "server": "", "name": "", "backup": false, "weight": 0, "state": "", "active": 0, "max_conns?": 0,
        "requests": 0, "header_time?": 0, "response_time?": 0, "response_time_hist": hist, "responses": responses, "sent": 0,
        "received": 0, "fails": 0, "unavail": 0, "health_checks": { "checks": 0, "fails": 0, "unhealthy": 0 }, "downtime": 0,
        "downstart?": "", "selected?": "",
    });
    let queue = json!({ "size": 0, "max_size": 0, "overflows": 0 });
    let upstream = json!({ "peers": [peer], "keepalive": 0, "zombies": 0, "zone": "", "queue?": queue });
    let configured = json!({
        "id": 0, "server": "", "weight": 0, "max_conns": 0, "max_fails": 0, "fail_timeout": "", "slow_start": "", "route": "",
        "backup": false, "down": false,
    });
    let connections = json!({ "accepted": 0, "dropped": 0, "active": 0, "idle": 0 });
    let requests = json!({ "total": 0, "current": 0 });
    let worker = json!({ "id": 0, "pid": 0, "connections": connections, "http": { "requests": requests } });
    let limit_req = json!({ "passed": 0, "delayed": 0, "rejected": 0, "delayed_dry_run": 0, "rejected_dry_run": 0 });
    let limit_conn = json!({ "passed": 0, "rejected": 0, "rejected_dry_run": 0 });
    let nginx = json!({
        "version": "", "build": "", "address": "", "generation": 0, "load_timestamp": "", "timestamp": "", "pid": 0, "ppid": 0,
    });
    let resolver = json!({
        "requests": { "name": 0, "srv": 0, "addr": 0 },
        "responses": {
            "noerror": 0, "formerr": 0, "servfail": 0, "nxdomain": 0, "notimp": 0, "refused": 0, "timedout": 0, "unknown": 0,
        },
    });
    vec![
        ("/", json!([""])),
        ("/nginx", nginx),
        ("/processes", json!({ "respawned": 0 })),
        ("/connections", connections),
        ("/slabs", json!({})),
        ("/ssl", ssl),
        ("/resolvers", json!({ "*": resolver })),
        ("/resolvers/names", resolver),
        ("/workers", json!([worker])),
        ("/workers/0", worker),
        ("/http/", json!([""])),
        ("/http/requests", requests),
        ("/http/server_zones", json!({ "*": server_zone })),
        ("/http/server_zones/shop", server_zone),
        ("/http/location_zones", json!({ "*": location_zone })),
        ("/http/location_zones/pages", location_zone),
        ("/http/caches", json!({ "*": cache })),
        ("/http/caches/pages", cache),
        ("/http/limit_conns", json!({ "*": limit_conn })),
        ("/http/limit_conns/few", limit_conn),
        ("/http/limit_reqs", json!({ "*": limit_req })),
        ("/http/limit_reqs/slow", limit_req),
        ("/http/keyvals", json!({})),
        ("/http/upstreams", json!({ "*": upstream })),
        ("/http/upstreams/app", upstream),
        ("/http/upstreams/app/servers", json!([configured])),
        ("/http/upstreams/app/servers/0", configured),
    ]
}

#[test]
fn every_path_of_plus_has_its_form() {
    let (_origin, site) = start();
    assert_eq!(told(&site, "/api/"), json!([1, 2, 3, 4, 5, 6, 7, 8, 9]));
    for (path, form) in forms() {
        let value = told(&site, &format!("/api/9{path}"));
        has_form(&value, &form, path);
        // Paths that hold others may end in a slash, and any location has them.
        assert_eq!(site.get(&format!("/elsewhere/9{path}/")).status, 200, "{path}");
    }
    assert_eq!(
        told(&site, "/api/9"),
        json!(["nginx", "processes", "connections", "slabs", "http", "resolvers", "ssl", "workers"])
    );
    // Each name in a list is the path of something; a stream and an explanation are no JSON.
    for folder in ["/api/9", "/api/9/http", "/api/larder/1"] {
        for name in told(&site, folder).as_array().unwrap().iter().map(|name| name.as_str().unwrap()) {
            match name {
                "live" | "explain" => {
                    let path = format!("{folder}/{name}?url=http://site.test/page");
                    assert_eq!(site.ask("HEAD", &path, "").status, 200, "{path}");
                }
                name => drop(told(&site, &format!("{folder}/{name}"))),
            }
        }
    }
}

#[test]
fn the_numbers_are_those_of_what_happened() {
    let (_origin, site) = start();
    let zone = told(&site, "/api/9/http/location_zones/pages");
    assert_eq!((&zone["requests"], &zone["responses"]["codes"]), (&json!(3), &json!({ "200": 3 })));
    let server = told(&site, "/api/9/http/server_zones/shop");
    // This request is the tenth.
    assert_eq!(
        (&server["requests"], &server["processing"], &server["responses"]["total"]),
        (&json!(10), &json!(1), &json!(9))
    );
    assert_eq!(server["responses"]["codes"], json!({ "200": 6, "404": 1, "502": 1, "503": 1 }));

    let cache = told(&site, "/api/9/http/caches/pages");
    let page = "a page".len();
    assert_eq!(cache["hit"], json!({ "responses": 1, "bytes": page }));
    assert_eq!(
        cache["miss"],
        json!({ "responses": 3, "bytes": 3 * page, "responses_written": 2, "bytes_written": 2 * page })
    );
    assert_eq!((&cache["max_size"], &cache["cold"]), (&json!(64 << 20), &json!(false)));

    let limits = told(&site, "/api/9/http/limit_reqs/slow");
    assert_eq!((&limits["passed"], &limits["rejected"]), (&json!(1), &json!(1)));
    assert_eq!(told(&site, "/api/9/http/limit_conns/few")["passed"], 1);

    let names = told(&site, "/api/9/resolvers/names");
    assert_eq!((&names["requests"]["name"], &names["requests"]["srv"]), (&json!(2), &json!(0)));
    assert_eq!((&names["responses"]["noerror"], &names["responses"]["nxdomain"]), (&json!(1), &json!(1)));

    let app = told(&site, "/api/9/http/upstreams/app");
    let peers = app["peers"].as_array().unwrap();
    let state = |peer: &Value| (peer["state"].clone(), peer["backup"].clone(), peer["requests"].clone());
    assert_eq!(
        peers.iter().map(state).collect::<Vec<_>>(),
        [
            (json!("up"), json!(false), json!(2)),
            (json!("up"), json!(true), json!(0)),
            (json!("down"), json!(false), json!(0))
        ]
    );
    let peer = &peers[0];
    assert_eq!((&peer["weight"], &peer["max_conns"], &peer["active"]), (&json!(3), &json!(9), &json!(0)));
    assert_eq!(peer["responses"]["codes"], json!({ "200": 2 }));
    assert_eq!(peer["response_time_hist"]["count"], 2);
    assert!(peer["sent"].as_u64() > Some(20) && peer["received"].as_u64() > Some(20), "{peer}");
    assert!(peers[1].get("selected").is_none() && peers[1].get("header_time").is_none(), "{}", peers[1]);

    let nginx = told(&site, "/api/9/nginx");
    assert_eq!(
        (&nginx["address"], &nginx["generation"], &nginx["pid"]),
        (&json!("127.0.0.1"), &json!(1), &json!(site.serving_process()))
    );
    site.reload();
    assert_eq!(told(&site, "/api/9/nginx")["generation"], 2);
    assert_eq!(told(&site, "/api/9/http/upstreams/app")["peers"][0]["requests"], 2, "a reload forgets nothing");
    assert_eq!(told(&site, "/api/9/http/caches/pages")["hit"]["responses"], 1);
}

#[test]
fn older_versions_have_what_they_had() {
    let (_origin, site) = start();
    let has = |version: u8, path: &str| site.get(&format!("/api/{version}{path}")).status == 200;
    for (path, since) in [
        ("/ssl", 1),
        ("/http/upstreams", 1),
        ("/http/location_zones", 5),
        ("/resolvers", 5),
        ("/http/limit_reqs", 6),
        ("/http/limit_conns", 6),
        ("/workers", 9),
    ] {
        for version in 1..=9 {
            assert_eq!(has(version, path), version >= since, "{path} of {version}");
            let (folder, name) = path.rsplit_once('/').unwrap();
            let listed = told(&site, &format!("/api/{version}{folder}"));
            assert_eq!(listed.as_array().unwrap().contains(&json!(name)), version >= since, "{path} of {version}");
        }
    }
    for (path, pointer, since) in [
        ("/http/server_zones/shop", "/responses/codes", 7),
        ("/http/server_zones/shop", "/ssl", 8),
        ("/ssl", "/verify_failures", 8),
        ("/http/upstreams/app", "/peers/0/response_time_hist", 9),
    ] {
        for version in 1..=9 {
            let value = told(&site, &format!("/api/{version}{path}"));
            assert_eq!(value.pointer(pointer).is_some(), version >= since, "{path} {pointer} of {version}");
        }
    }
}

#[test]
fn fields_are_chosen() {
    let (_origin, site) = start();
    for (path, expected) in [
        ("/api/9/processes?fields=respawned", json!({ "respawned": 0 })),
        ("/api/9/processes?fields=other", json!({})),
        ("/api/9/http/upstreams?fields=zone", json!({ "app": { "zone": "app" } })),
        ("/api/9/http/upstreams?fields=", json!(["app"])),
        ("/api/9/http/upstreams/app?fields=zone,zombies", json!({ "zone": "app", "zombies": 0 })),
        ("/api/9/http/upstreams/app/servers?fields=id", json!([{ "id": 0 }, { "id": 1 }, { "id": 2 }])),
    ] {
        assert_eq!(told(&site, path), expected, "{path}");
    }
}

#[test]
fn what_is_not_there_is_told_as_plus_does() {
    let (_origin, site) = start();
    for (path, code) in [
        ("/api/10", "UnknownVersion"),
        ("/api/0/nginx", "UnknownVersion"),
        ("/api/larder/2", "UnknownVersion"),
        ("/api/nine", "PathNotFound"),
        ("/api/9/nothing", "PathNotFound"),
        ("/api/9/stream", "PathNotFound"),
        ("/api/9/stream/server_zones", "PathNotFound"),
        ("/api/9/license", "PathNotFound"),
        ("/api/larder/1/nothing", "PathNotFound"),
        ("/api/9/slabs/a", "SlabNotFound"),
        ("/api/9/workers/9", "WorkerNotFound"),
        ("/api/9/resolvers/a", "ResolverZoneNotFound"),
        ("/api/9/http/server_zones/pages", "ServerZoneNotFound"),
        ("/api/9/http/location_zones/shop", "LocationZoneNotFound"),
        ("/api/9/http/caches/a", "CacheNotFound"),
        ("/api/9/http/limit_reqs/few", "LimitReqNotFound"),
        ("/api/9/http/limit_conns/slow", "LimitConnNotFound"),
        ("/api/9/http/keyvals/a", "KeyvalNotFound"),
        ("/api/9/http/upstreams/a", "UpstreamNotFound"),
        ("/api/9/http/upstreams/app/servers/9", "UpstreamServerNotFound"),
    ] {
        let response = site.get(path);
        let told = json_of(&response);
        assert_eq!(
            (response.status, &told["error"]["status"], &told["error"]["code"]),
            (404, &json!(404), &json!(code)),
            "{path}"
        );
        has_form(
            &told,
            &json!({ "error": { "status": 0, "text": "", "code": "" }, "request_id": "", "href": "" }),
            path,
        );
        assert_eq!(told["request_id"].as_str().map(str::len), Some(32));
    }
    assert_eq!(site.get("/api/9/http/upstreams/app/servers/x").status, 400);
}

#[test]
fn nothing_can_be_changed() {
    let (_origin, site) = start();
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let response = site.ask(method, "/api/9/http/server_zones/shop", "Content-Length: 0\r\n");
        assert_eq!((response.status, response.field("Allow")), (405, Some("GET, HEAD, OPTIONS")), "{method}");
        assert_eq!(json_of(&response)["error"]["code"], "MethodDisabled");
    }
    let response = site.ask("OPTIONS", "/api/9/nginx", "");
    assert_eq!((response.status, response.field("Allow")), (200, Some("GET, HEAD, OPTIONS")));
    let response = site.ask("HEAD", "/api/9/nginx", "");
    assert_eq!((response.status, response.field("Content-Type")), (200, Some("application/json")));
    assert_eq!(told(&site, "/api/9/http/server_zones/shop")["responses"]["codes"]["405"], 4, "they are still counted");
}

#[test]
fn what_is_larders_own_is_told_beside_it() {
    let (_origin, site) = start();
    assert_eq!(told(&site, "/api/larder"), json!([1]));
    let latency = told(&site, "/api/larder/1/latency");
    assert_eq!((&latency["cache"]["count"], &latency["origin"]["count"]), (&json!(1), &json!(4)), "{latency}");
    assert_eq!(latency["verdicts"]["pass"]["count"], 1, "what comes from an origin where there is no cache: {latency}");
    let bounds = latency["bounds"].as_array().unwrap().len();
    assert_eq!(latency["origin"]["buckets"].as_array().unwrap().len(), bounds + 1);
    assert!(latency["cache"]["p50"].as_f64() > Some(0.0) && latency["cache"]["p99"].as_f64() < Some(10.0), "{latency}");

    let pages = told(&site, "/api/larder/1/caches/pages");
    assert_eq!(pages["verdicts"]["miss"]["stored"], 2);
    assert_eq!(pages["disks"][0]["path"], json!(site.setup().path("pages")));
    let zones = told(&site, "/api/larder/1/status_zones");
    assert_eq!(zones["locations"]["pages"]["times"]["hit"]["count"], 1);
    assert_eq!(zones["servers"]["shop"]["statuses"]["503"], 1);

    let origins = told(&site, "/api/larder/1/origins");
    let direct = origins.as_array().unwrap().iter().find(|group| group["name"] != "app").unwrap();
    assert_eq!((&direct["servers"][0]["requests"], &direct["is_up"]), (&json!(1), &json!(true)));

    let why = told(&site, "/api/larder/1/why");
    let row = why["rows"].as_array().unwrap().iter().find(|row| row["example"] == "/direct").unwrap();
    assert!(row["reason"].as_str().unwrap().starts_with("proxy_no_cache 1"), "{why}");
    assert_eq!(told(&site, "/api/larder/1/process")["workers"], 1);
    assert_eq!(told(&site, "/api/larder/1/memory")["stage"], "ample");
}

#[test]
fn the_admin_port_tells_it_too() {
    let (_origin, site) = start();
    let ask = |method: &str, fields: &str| {
        let mut client = Client::connect(site.setup().other_address()).unwrap();
        client
            .send(format!("{method} /api/9/http/caches/pages HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n").as_bytes())
            .unwrap();
        client.read_response(method).unwrap()
    };
    assert_eq!(json_of(&ask("GET", ""))["hit"]["responses"], 1);
    assert_eq!(ask("DELETE", "Content-Length: 0\r\n").status, 405);
    // A page of another site in the operator's browser reads nothing.
    assert_eq!(ask("GET", "Origin: http://elsewhere\r\n").status, 403);
}

#[test]
fn pages_of_other_sites_are_told_nothing() {
    let (_origin, site) = start();
    let ask = |admin: bool, host: &str, fields: &str| {
        let setup = site.setup();
        let mut client = Client::connect(if admin { setup.other_address() } else { setup.address() }).unwrap();
        client.send(format!("GET /api/9/nginx HTTP/1.1\r\nHost: {host}\r\n{fields}\r\n").as_bytes()).unwrap();
        client.read_response("GET").unwrap()
    };
    for admin in [false, true] {
        for host in ["127.0.0.1", "127.0.0.1:8081", "[::1]", "localhost:8081"] {
            assert_eq!(ask(admin, host, "").status, 200, "{host}");
        }
        // A name that its owner has made lead here for a while.
        let refused = ask(admin, "evil.test", "Sec-Fetch-Site: same-origin\r\n");
        assert_eq!((refused.status, &json_of(&refused)["error"]["code"]), (403, &json!("ForeignHost")));
    }
    assert_eq!(ask(false, "site.test", "").status, 200);
    let refused = ask(false, "localhost", "Sec-Fetch-Site: cross-site\r\n");
    assert_eq!((refused.status, &json_of(&refused)["error"]["code"]), (403, &json!("CrossSite")));
    assert_eq!(refused.field("Cache-Control"), Some("no-store"));
}

#[test]
fn handshakes_are_counted() {
    let (site, tls) = tls_site(
        "server { listen 127.0.0.1:{PORT} ssl; ssl_certificate site.crt; ssl_certificate_key site.key;
            ssl_protocols TLSv1.3; status_zone safe; server_name site.test;
            location / { return 200 ok; } location /api { larder_status; } }",
    );
    assert_eq!(body(&site, &tls), "ok");
    let is_refused = |tls: &Tls| {
        let answer = Client::connect_tls(site.setup().address(), tls).map_err(|_| ()).and_then(|mut client| {
            client.send(get("/").as_bytes()).map_err(|_| ())?;
            client.read_response("GET").map_err(|_| ())
        });
        answer.is_err()
    };
    assert!(is_refused(&tls.clone().version_1_2()));
    assert!(is_refused(&Tls::new("site.test", &Certificates::new("Another Authority"))));
    let mut asking = client(&site, &tls);
    let mut ask = |path| json_of(&get_on(&mut asking, path));
    let expected = json!({
        "handshakes": 2, "handshakes_failed": 2, "session_reuses": 0, "no_common_protocol": 1, "no_common_cipher": 0,
        "handshake_timeout": 0, "peer_rejected_cert": 1,
        "verify_failures": { "no_cert": 0, "expired_cert": 0, "revoked_cert": 0, "hostname_mismatch": 0, "other": 0 },
    });
    // The server hears of a refusal after the client has told it.
    eventually("both failures to be counted", || ask("/api/9/http/server_zones/safe")["ssl"] == expected);
    assert_eq!(ask("/api/9/ssl"), expected);
}

#[test]
fn processes_that_died_are_counted() {
    let (_origin, site) = start();
    assert_eq!(told(&site, "/api/9/processes"), json!({ "respawned": 0 }));
    let process = site.serving_process();
    signal_to(process, Signal::Kill).unwrap();
    site.wait_for_log(&format!("worker process {process} exited on signal 9"));
    assert_eq!(told(&site, "/api/9/processes"), json!({ "respawned": 1 }));
    let generation = || told(&site, "/api/9/nginx")["generation"].as_u64();
    assert_eq!(generation(), Some(1));
    site.reload();
    eventually("the second configuration", || generation() == Some(2));
    let process = site.serving_process();
    signal_to(process, Signal::Kill).unwrap();
    site.wait_for_log(&format!("worker process {process} exited on signal 9"));
    assert_eq!(generation(), Some(2), "the supervisor has loaded two");
}
