//! `resolver`: names of origins that a name server tells, in variables and in groups.

use larder_testkit::{Answer, NameServer, Origin, Says};

use crate::site::{Setup, Site, cached, text};

fn site(names: &NameServer, origin: &Origin, http: &str) -> Site {
    Setup::new().name("DNS", names.address()).name("ORIGIN_PORT", origin.address().port()).start(http)
}

#[test]
fn names_in_variables_are_asked_of_the_resolver() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    origin.answer("*", Answer::ok("ok"));
    names.knows("one.test", &[[127, 0, 0, 1]]);
    names.says("alias.test", Says::Alias("one.test".into()));
    names.says("long.test", Says::Long(vec![[127, 0, 0, 1].into()], 60));
    names.says("fails.test", Says::Failure(2));
    names.says("silent.test", Says::Nothing);
    // Of several addresses one after the other is asked.
    names.knows("two.test", &[[127, 0, 0, 1], [127, 9, 9, 9]]);
    let site = site(
        &names,
        &origin,
        "resolver {DNS}; resolver_timeout 1s;
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://$arg_at:{ORIGIN_PORT}; add_header X-At $upstream_addr always; }
         }",
    );
    for (name, status) in [
        ("one.test", 200),
        ("ONE.test", 200),
        ("alias.test", 200),
        ("long.test", 200),
        ("two.test", 200),
        ("two.test", 200),
        ("fails.test", 502),
        ("nowhere.test", 502),
        ("silent.test", 502),
    ] {
        let response = site.get(&format!("/?at={name}"));
        assert_eq!(response.status, status, "{name}\n{}", site.server().error_log());
    }
    assert_eq!(names.asked("one.test").0, 2, "once, for both families");
    for told in [
        "fails.test could not be resolved (2: Server failure), client: 127.0.0.1",
        "nowhere.test could not be resolved (3: Host not found)",
        "silent.test could not be resolved (110: Operation timed out)",
    ] {
        site.wait_for_log(told);
    }
}

#[test]
fn a_resolver_is_that_of_its_level() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    let others = NameServer::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    for server in [&names, &others] {
        server.says("one.test", Says::Addresses(vec!["::ffff:0".parse().unwrap(), [127, 0, 0, 1].into()], 60));
    }
    let port = origin.address().port();
    let setup = Setup::new().name("DNS", names.address()).name("OTHERS", others.address()).name("AT", port);
    let site = setup.start(
        "resolver {DNS};
         server {
            listen 127.0.0.1:{PORT};
            location /a { proxy_pass http://$arg_at:{AT}; }
            location /b { resolver {OTHERS} ipv6=off valid=1h; proxy_pass http://$arg_at:{AT}; }
         }",
    );
    assert_eq!(site.get("/b?at=one.test").status, 200);
    assert_eq!((names.asked("one.test").0, others.asked("one.test").0), (0, 1), "IPv4 alone");
    assert_eq!(site.get("/a?at=one.test").status, 200);
    assert_eq!((names.asked("one.test").0, others.asked("one.test").0), (2, 1));
}

#[test]
fn the_servers_of_a_group_follow_their_names() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    origin.answer("*", Answer::ok("ok"));
    let http = "resolver {DNS} valid=1s;
         upstream moving { zone moving 64k; server one.test:{ORIGIN_PORT} resolve; }
         server {
            listen 127.0.0.1:{PORT};
            location / { proxy_pass http://moving; add_header X-At $upstream_addr always; }
         }";
    let site = site(&names, &origin, http);
    let none = site.get("/");
    assert_eq!((none.status, none.field("X-At")), (502, Some("moving")), "nobody knows it yet");
    let port = origin.address().port();
    for octet in [1, 2, 1] {
        names.knows("one.test", &[[127, 0, 0, octet]]);
        let expected = format!("127.0.0.{octet}:{port}");
        site.get_until("/", "the name to be followed", |response| response.field("X-At") == Some(&expected));
    }
    // A reload begins with what was known, though nobody answers.
    names.says("one.test", Says::Nothing);
    site.reload();
    assert_eq!(text(&site.get("/")), "ok");
    // A name that is gone has no servers; one that cannot be asked for keeps those it had.
    names.says("one.test", Says::Failure(3));
    site.get_until("/", "the name to be gone", |response| response.status == 502);
    site.wait_for_log("one.test could not be resolved (3: Host not found)");
}

#[test]
fn a_service_tells_ports_and_backups() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    let spare = Origin::start().unwrap();
    origin.answer("*", Answer::ok("first"));
    spare.answer("*", Answer::ok("spare"));
    names.knows("a.test", &[[127, 0, 0, 1]]);
    let service = |priority, port| (priority, 1, port, "a.test".to_owned());
    let (first, second) = (service(1, origin.address().port()), service(2, spare.address().port()));
    names.says("_http._tcp.site.test", Says::Services(vec![first, second.clone()], 1));
    let site = site(
        &names,
        &origin,
        "upstream found { resolver {DNS}; server site.test resolve service=http; }
         server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://found; } }",
    );
    site.get_until("/", "the service to be found", |response| text(response) == "first");
    names.says("_http._tcp.site.test", Says::Services(vec![second], 1));
    site.get_until("/", "the other server", |response| text(response) == "spare");
}

#[test]
fn a_client_that_leaves_while_its_name_is_asked_for_is_let_go() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    names.says("silent.test", Says::Nothing);
    let site = site(
        &names,
        &origin,
        "resolver {DNS}; resolver_timeout 1h;
         server { listen 127.0.0.1:{PORT}; location / { proxy_pass http://$arg_at:{ORIGIN_PORT}; } }",
    );
    let mut client = site.client();
    client.send(b"GET /?at=silent.test HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    crate::site::eventually("the name to be asked for", || names.asked("silent.test").0 > 0);
    drop(client);
    site.wait_for_log("client prematurely closed connection");
}

#[test]
fn a_stale_page_is_better_than_a_name_that_is_gone() {
    let (names, origin) = (NameServer::start().unwrap(), Origin::start().unwrap());
    origin.answer("*", Answer::ok("page"));
    names.says("one.test", Says::Addresses(vec![[127, 0, 0, 1].into()], 0));
    let site = site(
        &names,
        &origin,
        "resolver {DNS};
         proxy_cache_path {DIR}/cache keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            location / {
                proxy_pass http://$arg_at:{ORIGIN_PORT};
                proxy_cache pages; proxy_cache_valid 1s; proxy_cache_use_stale error;
                add_header X-Cache $upstream_cache_status always;
            }
         }",
    );
    assert_eq!(cached(&site.get("/?at=one.test")), "MISS");
    names.says("one.test", Says::Failure(2));
    let stale = site.get_until("/?at=one.test", "the page to expire", |response| cached(response) != "HIT");
    assert_eq!((stale.status, cached(&stale), text(&stale).as_str()), (200, "STALE", "page"));
}
