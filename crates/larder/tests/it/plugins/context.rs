//! The user context of FOSHttpCache and Ibexa: one page for all who may see the same, by a hash that the application gives for
//! the cookies of a visitor. The site is that of `docs/recipes.md`, in place of the published `fos_user_context.vcl`.

use larder_testkit::{Answer, Origin, Response};

use crate::site::{Setup, Site, cached, text};

const SITE: &str = r#"
    proxy_cache_path {DIR}/pages keys_zone=pages:1m;
    proxy_cache_path {DIR}/hashes keys_zone=hashes:1m;
    map $http_cookie$http_authorization $is_anonymous { default 0; "" 1; }
    server {
        listen 127.0.0.1:{PORT};
        larder_purge_from 127.0.0.1;
        larder_cache_tags X-Cache-Tags;
        add_header X-Cache $upstream_cache_status;

        if ($http_accept ~ "application/vnd.fos.user-context-hash") { return 400; }
        if ($http_x_user_context_hash) { return 400; }

        location / {
            auth_request /_fos_user_context_hash;
            auth_request_set $context $upstream_http_x_user_context_hash;
            proxy_pass http://{ORIGIN};
            proxy_set_header Host $http_host;
            proxy_set_header X-User-Context-Hash $context;
            proxy_hide_header X-User-Context-Hash;
            proxy_cache pages;
            proxy_cache_key $scheme$host$request_uri|$context;
        }
        location = /_fos_user_context_hash {
            internal;
            if ($is_anonymous) { return 204; }
            proxy_pass http://{ORIGIN};
            proxy_set_header Host $http_host;
            proxy_set_header Accept application/vnd.fos.user-context-hash;
            proxy_pass_request_body off;
            proxy_set_header Content-Length "";
            proxy_cache hashes;
            proxy_cache_key $host|$http_cookie|$http_authorization;
        }
    }"#;

const HASH: &str = "/_fos_user_context_hash";

/// The application, with this hash for whoever asks next.
fn knows(origin: &Origin, hash: &str) {
    origin.answer(
        HASH,
        Answer::ok("")
            .field("Content-Type", "application/vnd.fos.user-context-hash")
            .field("X-User-Context-Hash", hash)
            .field("X-Cache-Tags", &format!("hash,of-{hash}"))
            .field("Cache-Control", "max-age=600, public")
            .field("Vary", "Cookie, Authorization"),
    );
}

/// What the application shows to whoever asks next.
fn shows(origin: &Origin, body: &str) {
    let page = Answer::ok(body).field("Cache-Control", "max-age=600, public");
    origin.answer("/news", page.field("Vary", "X-User-Context-Hash").field("X-User-Context-Hash", "leaked"));
}

fn get(site: &Site, fields: &str) -> Response {
    site.ask("GET", "/news", fields)
}

/// The requests that the origin has got since: each path, and its hash.
fn asked(origin: &Origin) -> Vec<String> {
    let shown = origin.requests().into_iter().map(|seen| {
        let path = seen.request_line.split(' ').nth(1).unwrap_or_default().to_owned();
        format!("{path} {}", seen.field("X-User-Context-Hash").unwrap_or("-"))
    });
    shown.collect()
}

#[test]
fn those_with_the_same_rights_share_a_page() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    let known = |cookie: &str| format!("Cookie: {cookie}\r\n");
    // Who comes first, and whom the page is for.
    for (fields, hash, page) in [
        (String::new(), "none", "for all"),
        (known("PHPSESSID=ann"), "editor", "for editors"),
        (known("PHPSESSID=bob"), "member", "for members"),
        ("Authorization: Basic ZXZl\r\n".to_owned(), "machine", "for machines"),
    ] {
        knows(&origin, hash);
        shows(&origin, page);
        let response = get(&site, &fields);
        assert_eq!((cached(&response), &*text(&response)), ("MISS", page), "{fields}");
        assert_eq!(response.field("X-User-Context-Hash"), None);
    }
    let seen = asked(&origin);
    let hash = format!("{HASH} -");
    assert_eq!(
        seen,
        ["/news -", &hash, "/news editor", &hash, "/news member", &hash, "/news machine"],
        "who has no cookie is not asked about"
    );
    let accept = origin.requests()[1].field("Accept").map(str::to_owned);
    assert_eq!(accept.as_deref(), Some("application/vnd.fos.user-context-hash"));
    // From here on the application would show to everybody what nobody is to see.
    shows(&origin, "wrong");
    knows(&origin, "member");
    for (fields, page) in [
        (known("PHPSESSID=ann"), "for editors"),
        (known("PHPSESSID=carol"), "for members"),
        (known("PHPSESSID=bob"), "for members"),
        (String::new(), "for all"),
        ("Authorization: Basic ZXZl\r\n".to_owned(), "for machines"),
    ] {
        let response = get(&site, &fields);
        assert_eq!((cached(&response), &*text(&response)), ("HIT", page), "{fields}");
    }
    assert_eq!(asked(&origin).len(), seen.len() + 1, "Carol alone is new");
}

#[test]
fn nobody_says_for_himself_what_he_may_see() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    knows(&origin, "editor");
    shows(&origin, "for editors");
    get(&site, "Cookie: PHPSESSID=ann\r\n");
    let before = origin.count();
    for fields in [
        "X-User-Context-Hash: editor\r\n",
        "X-User-Context-Hash: editor\r\nCookie: PHPSESSID=bob\r\n",
        "Accept: application/vnd.fos.user-context-hash\r\n",
    ] {
        assert_eq!(get(&site, fields).status, 400, "{fields}");
    }
    assert_eq!(site.ask("GET", HASH, "Cookie: PHPSESSID=ann\r\n").status, 404);
    assert_eq!(origin.count(), before);
    // An application that gives no hash has nobody let in.
    for answer in [Answer::status("500 Internal Server Error").body("broken"), Answer::status("302 Found").body("")] {
        origin.answer(HASH, answer);
        let response = get(&site, "Cookie: PHPSESSID=dan\r\n");
        assert_eq!((response.status, text(&response).contains("for ")), (500, false));
    }
}

#[test]
fn a_hash_goes_by_its_tag_when_rights_change() {
    let origin = Origin::start().unwrap();
    let site = Setup::new().name("ORIGIN", origin.address()).start(SITE);
    for (hash, page) in [("member", "for members"), ("editor", "for editors")] {
        knows(&origin, hash);
        shows(&origin, page);
        let response = get(&site, "Cookie: PHPSESSID=bob\r\n");
        assert_eq!((cached(&response), &*text(&response)), ("MISS", page));
        let purged = site.ask("BAN", "/", "X-Cache-Tags: hash\r\n");
        assert_eq!(purged.status, 200);
    }
}
