//! Line breaks in a decoded URI, which nginx lets through: nobody gets a field or a message that a visitor wrote.

use larder_testkit::{Answer, Origin};

use crate::site::{Setup, get_on, text};

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT};
        location /return { return 302 http://other.test$uri; }
        location /here { return 301 $uri; }
        location /rewrite { rewrite ^(.*)$ http://other.test$1 redirect; }
        location /page { error_page 404 http://other.test$uri; }
        location /header { add_header X-Uri $uri always; return 200 ok; }
        location /trailer { add_trailer X-Uri $uri; return 200 ok; }
        location /type { set $type $uri; charset $type; return 200 ok; }
        location /realm { auth_basic $uri; auth_basic_user_file {DIR}/none; }
        location /field { proxy_set_header X-Uri $uri; proxy_pass http://{ORIGIN}; }
        location /host { proxy_set_header Host $uri; proxy_pass http://{ORIGIN}; }
        location /cookie { proxy_cookie_path / $uri; proxy_pass http://{ORIGIN}; }
        location /location { proxy_redirect / $uri; proxy_pass http://{ORIGIN}; }
        location /uri { proxy_pass http://{ORIGIN}$uri; }
        location /part { rewrite ^/part(.*)$ /uri$1 break; proxy_pass http://{ORIGIN}; }
        location /method { set $method $uri; proxy_method $method; proxy_pass http://{ORIGIN}; }
        location /last { return 200 last; }
    }";

#[test]
fn a_line_break_in_a_uri_ends_no_line() {
    let origin = Origin::start().unwrap();
    let answer = Answer::ok("ok").field("Set-Cookie", "a=b; path=/").field("Location", "/").field("X-Own", "1");
    origin.answer("*", answer);
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).file("none", "").start(SITE);
    let injected = "a%0d%0aX-Injected:%20yes%0d%0a%0d%0aGET%20/smuggled%20HTTP/1.1%0d%0aHost:%20b%0d%0a%0d%0a";
    let (mut at_origin, mut client) = (0, site.client());
    for (path, asks_origin) in [
        ("/return", false),
        ("/here", false),
        ("/rewrite", false),
        ("/page", false),
        ("/header", false),
        ("/trailer", false),
        ("/type", false),
        ("/realm", false),
        ("/field", true),
        ("/host", true),
        ("/cookie", true),
        ("/location", true),
        ("/uri", true),
        ("/part", true),
        ("/method", true),
    ] {
        for escaped in [injected.to_owned(), injected.replace("%0d", ""), injected.replace("%0a", "")] {
            let response = get_on(&mut client, &format!("{path}/{escaped}"));
            let lines = response.fields.iter().chain(&response.trailers);
            assert!(lines.clone().all(|(name, _)| !name.contains("X-Injected")), "{path}: {response:?}");
            assert!(lines.clone().all(|(_, value)| !value.contains(['\r', '\n'])), "{path}: {response:?}");
            // What follows is the answer to the next request, and not what the visitor wrote.
            let last = get_on(&mut client, "/last");
            assert_eq!((last.status, text(&last).as_str()), (200, "last"), "{path}");
            at_origin += usize::from(asks_origin);
        }
        let seen = origin.requests();
        let line = seen.last().map(|request| request.request_line.as_str()).unwrap_or_default();
        assert_eq!(seen.len(), at_origin, "{path}: {seen:?}");
        assert!(seen.iter().all(|request| request.field("X-Injected").is_none()), "{path}: {seen:?}");
        assert!(!line.contains(['\r', '\n', '\0']), "{path}: {line:?}");
    }
}
