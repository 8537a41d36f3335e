//! Origins whose place comes from a variable: addresses as written, and names that are looked up.

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin};

use crate::site::{Setup, Site, get, text};

/// A place from the request's arguments, with its own answer beside it.
const SITE: &str = "
    resolver_timeout 10s;
    server {
        listen 127.0.0.1:{PORT};
        location /p { proxy_pass http://$arg_at; }
        location /u { proxy_pass http://$arg_at/fixed; }
        location /f { fastcgi_pass $arg_at; {PARAMS} }
        location /here { return 200 here; }
    }";

fn site() -> (Origin, FastCgiOrigin, Site) {
    let (origin, fcgi) = (Origin::start().unwrap(), FastCgiOrigin::start_tcp().unwrap());
    origin.answer("*", Answer::ok("by HTTP"));
    fcgi.answer("*", FastCgiReply::html("by FastCGI"));
    let site = Setup::new().one_worker().start(SITE);
    (origin, fcgi, site)
}

#[test]
fn a_variable_may_hold_an_address_or_a_name() {
    let (origin, fcgi, site) = site();
    let http = origin.address();
    for (target, body) in [
        (format!("/p?at={http}"), "by HTTP"),
        (format!("/u?at={http}"), "by HTTP"),
        (format!("/f?at={}", fcgi.address()), "by FastCGI"),
        // Of a name with several addresses the next one is tried.
        (format!("/p?at=localhost:{}", http.port()), "by HTTP"),
        (format!("/u?at=localhost:{}", http.port()), "by HTTP"),
    ] {
        // Once looked up, and once known.
        for _ in 0..2 {
            let response = site.get(&target);
            assert_eq!((response.status, text(&response).as_str()), (200, body), "{target}");
        }
    }
}

#[test]
fn a_name_that_nobody_knows_is_a_502_and_holds_up_nobody() {
    let (_origin, _fcgi, site) = site();
    let targets = ["/p?at=no-such-host.invalid", "/u?at=no-such-host.invalid:81", "/f?at=no-such-host.invalid:9000"];
    let mut clients = targets.map(|_| site.client());
    for (client, target) in clients.iter_mut().zip(targets) {
        client.send(get(target).as_bytes()).unwrap();
        assert_eq!(site.get("/here").body, b"here");
    }
    for (client, target) in clients.iter_mut().zip(targets) {
        assert_eq!(client.read_response("GET").unwrap().status, 502, "{target}");
        // It is not asked for again at once; the answer is the same.
        assert_eq!(site.get(target).status, 502, "{target}");
    }
    site.wait_for_log("host not found in upstream \"no-such-host.invalid:81\"");
}
