use super::{each_is_silent, each_says, http, said};

#[test]
fn caches_that_store_nothing() {
    let nothing = "nothing is stored here: \"proxy_buffering\" is off";
    each_says(&[
        ("location / { proxy_buffering off; proxy_pass http://b; proxy_cache p; }", nothing),
        ("proxy_buffering off; location / { proxy_pass http://b; proxy_cache p; }", nothing),
        (
            "proxy_buffering off; proxy_cache p; location / { proxy_pass http://b; } location /a { proxy_pass http://b; }",
            nothing,
        ),
        (
            "location / { fastcgi_buffering off; fastcgi_pass unix:/a; fastcgi_cache z; }",
            "nothing is stored here: \"fastcgi_buffering\" is off",
        ),
    ]);
    each_is_silent(&[
        // What streams is kept out of the cache of the rest.
        "proxy_cache p; location / { proxy_pass http://b; } location /events { proxy_buffering off; proxy_pass http://b; }",
        "location / { proxy_pass http://b; proxy_cache p; location /events { proxy_pass http://b; proxy_buffering off; } }",
        "location / { proxy_buffering off; proxy_cache off; proxy_pass http://b; }",
        "location / { proxy_buffering off; fastcgi_pass unix:/a; fastcgi_cache z; }",
        "location / { proxy_request_buffering off; proxy_pass http://b; proxy_cache p; }",
    ]);
}

#[test]
fn crowds_that_a_lock_does_not_hold() {
    each_says(&[
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_lock on; }",
            "\"fastcgi_cache_lock\" is for pages that are not there yet",
        ),
        (
            "proxy_cache_lock on; proxy_cache_use_stale updating;
             location / { proxy_pass http://b; proxy_cache p; proxy_cache_use_stale error timeout; }",
            "\"proxy_cache_lock\" is for pages that are not there yet",
        ),
    ]);
    each_is_silent(&[
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache_lock on; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_lock on; fastcgi_cache_use_stale error updating; }",
        "proxy_cache_lock on; proxy_cache_use_stale updating; location / { proxy_pass http://b; proxy_cache p; }",
        "proxy_cache_lock on; location / { proxy_pass http://b; proxy_cache p; proxy_cache_lock off; }",
        "proxy_cache_lock on; location / { fastcgi_pass unix:/a; fastcgi_cache z; }",
    ]);
}

#[test]
fn larders_that_share_pages_and_do_not_wait_for_each_other() {
    let shared = |content: &str| {
        said(&http(&format!(
            "larder_cluster redis://127.0.0.1; larder_cluster_share 1m; server {{ listen 80; server_name a.test; {content} }}"
        )))
    };
    for content in [
        "location / { proxy_pass http://b; proxy_cache p; }",
        "proxy_cache_lock on; proxy_cache_use_stale updating; location / { fastcgi_pass unix:/a; fastcgi_cache z; }",
        // A directive that several locations inherit.
        "proxy_cache p; location / { proxy_pass http://b; } location /a { proxy_pass http://b; proxy_cache_use_stale updating; }",
    ] {
        let found = shared(content);
        let is_said = |one: &str| one.starts_with("\"larder_cluster_share\" is on, and nobody waits here");
        assert!(matches!(&found[..], [one] if is_said(one)), "{content}\n{found:#?}");
    }
    for content in [
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_lock on; proxy_cache_use_stale updating; }",
        "location / { proxy_pass http://b; }",
        // It is meant.
        "proxy_cache_lock on; location / { proxy_pass http://b; proxy_cache p; proxy_cache_lock off; }",
        // What is not shared.
        "location / { proxy_pass http://b; proxy_cache p; slice 1m; proxy_cache_key $uri$slice_range; }",
    ] {
        let found = shared(content);
        assert!(found.is_empty(), "{content}\n{found:#?}");
    }
    for off in ["", "larder_cluster redis://127.0.0.1;", "larder_cluster redis://127.0.0.1; larder_cluster_share off;"]
    {
        let found = said(&http(&format!("{off} server {{ location / {{ proxy_pass http://b; proxy_cache p; }} }}")));
        assert!(found.iter().all(|one| !one.contains("larder_cluster_share")), "{off}\n{found:#?}");
    }
}

#[test]
fn pages_that_wait_though_they_need_not() {
    let waits = "background_update\" has nothing to do: who asks for a page that has expired waits for the new one";
    each_says(&[
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_background_update on; proxy_cache_use_stale error timeout; }",
            waits,
        ),
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_background_update on;
                fastcgi_ignore_headers Cache-Control Expires; }",
            waits,
        ),
        (
            "larder_cache_mode rfc9111; location / { proxy_pass http://b; proxy_cache p; proxy_cache_background_update on; }",
            waits,
        ),
    ]);
    each_is_silent(&[
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_background_update on; proxy_cache_use_stale updating; }",
        // The origin may send stale-while-revalidate.
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_background_update on; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_use_stale error timeout; }",
        "proxy_cache_background_update on; proxy_cache_use_stale error; location / { proxy_pass http://b; }",
    ]);
}

#[test]
fn failures_that_are_kept() {
    let cached = |says: &str| format!("location / {{ proxy_pass http://b; proxy_cache p; {says} }}");
    for (says, time) in [
        ("proxy_cache_valid any 10m;", "10m"),
        ("proxy_cache_valid 200 302 10m; proxy_cache_valid 404 1m; proxy_cache_valid any 1h;", "1h"),
        ("proxy_cache_valid 200 any 90s;", "90s"),
        ("proxy_cache_valid any 2d; proxy_no_cache $cookie_a;", "2d"),
        // The first one decides.
        ("proxy_cache_valid any 5m; proxy_cache_valid 500 502 503 504 1s;", "5m"),
    ] {
        let found = said(&super::server(&cached(says)));
        let expected =
            format!("a failure of the origin is kept for {time}: \"proxy_cache_valid any\" is for 500 and 503, too");
        assert_eq!(found, [expected], "{says}");
    }
    let silent = [
        // From nginx's own manual.
        "proxy_cache_valid 200 302 10m; proxy_cache_valid 301 1h; proxy_cache_valid any 1m;",
        "proxy_cache_valid any 1s;",
        "proxy_cache_valid any 0;",
        "proxy_cache_valid 10m; proxy_cache_valid 404 1h;",
        "proxy_cache_valid 400 404 500 0m; proxy_cache_valid any 1h;",
        "proxy_cache_valid 500 502 503 504 1s; proxy_cache_valid any 1h;",
        "proxy_cache_valid any 1h; proxy_no_cache $upstream_http_x_failed;",
        "proxy_cache off; proxy_cache_valid any 1h;",
    ];
    for says in silent {
        let content = cached(says).replace("proxy_cache p; proxy_cache off;", "proxy_cache off;");
        assert_eq!(said(&super::server(&content)), Vec::<String>::new(), "{says}");
    }
    let by_map = "map $upstream_status $failed { ~^5 1; default 0; }
        server { listen 80; location / { proxy_pass http://b; proxy_cache p; proxy_cache_valid any 1h; proxy_no_cache $failed; } }";
    assert_eq!(said(&http(by_map)), Vec::<String>::new());
}

#[test]
fn caches_that_a_constant_keeps_empty() {
    let nothing = "nothing is stored here: \"proxy_no_cache\" always holds";
    each_says(&[
        ("location / { proxy_pass http://b; proxy_cache p; proxy_no_cache 1; }", nothing),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_no_cache $cookie_a cookie_b; proxy_cache_bypass $cookie_a; }",
            nothing,
        ),
        (
            "proxy_no_cache 1; proxy_cache p; location / { proxy_pass http://b; } location /a { proxy_pass http://b; }",
            nothing,
        ),
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache 1; }",
            "nothing is stored here: \"fastcgi_no_cache\" always holds",
        ),
    ]);
    each_is_silent(&[
        "location / { proxy_pass http://b; proxy_cache p; proxy_no_cache 0; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_no_cache ''; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_no_cache $cookie_a; }",
        // Meant: the cache is inherited, off, or bypassed, too.
        "proxy_cache p; location / { proxy_pass http://b; } location /admin { proxy_pass http://b; proxy_no_cache 1; }",
        "location /admin { proxy_pass http://b; proxy_no_cache 1; proxy_cache_bypass 1; }",
        "location /admin { proxy_pass http://b; proxy_cache p; proxy_no_cache 1; proxy_cache_bypass 1; }",
        "proxy_cache off; proxy_no_cache 1; location / { proxy_pass http://b; }",
        // It reads what another one fills.
        "location / { proxy_pass http://b; proxy_cache p; } location /a { proxy_pass http://b; proxy_cache p; proxy_no_cache 1; }",
    ]);
}

#[test]
fn caches_without_an_origin() {
    let proxy = "\"proxy_cache\" keeps nothing here: there is no \"proxy_pass\"";
    let fastcgi = "\"fastcgi_cache\" keeps nothing here: there is no \"fastcgi_pass\"";
    each_says(&[
        (r"location ~* \.(css|js)$ { proxy_cache p; expires max; }", proxy),
        (
            r"location / { fastcgi_cache z; try_files $uri /index.php; } location ~ \.php$ { fastcgi_pass unix:/a; }",
            fastcgi,
        ),
        ("location / { proxy_pass http://b; fastcgi_cache z; }", fastcgi),
        ("location / { fastcgi_pass unix:/a; proxy_cache p; }", proxy),
        ("location / { proxy_cache p; return 200 a; }", proxy),
        ("location / { proxy_cache p; location /a { proxy_cache off; proxy_pass http://b; } }", proxy),
    ]);
    each_is_silent(&[
        "proxy_cache p; location / { root /a; }",
        "location / { proxy_cache p; location /a { proxy_pass http://b; } }",
        "location / { proxy_cache p; if ($arg_a) { proxy_pass http://b; } }",
        "location / { proxy_cache off; root /a; }",
        "location / { proxy_cache p; proxy_pass http://b; location /a { root /a; } }",
        "location = /clear { allow 127.0.0.1; deny all; fastcgi_cache z; fastcgi_cache_purge GET purge_all from all; }",
        "location / { vcl a.vcl; proxy_cache p; }",
    ]);
}
