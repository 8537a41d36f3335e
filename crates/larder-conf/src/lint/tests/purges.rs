use super::{each_is_silent, each_says, http, said, server};

#[test]
fn purges_of_no_page() {
    let cached = "location ~ \\.php$ { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache $is_args; }";
    let none = "this purges no page: the key is none that a page can have";
    let own = "this purges no page: $request_uri is the address of the purge request itself";
    for (purge, expected) in [
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$host$1; }", none),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$1; }", none),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z /$scheme$request_method$host$1; }", none),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z ${scheme}get$host$1; }", none),
        ("location /purge { fastcgi_cache_purge z $scheme$request_method$host$request_uri; }", own),
        ("location = /clear { fastcgi_cache_purge z $scheme$request_method$host$request_uri; }", own),
        (
            "location ~ ^/purge { fastcgi_cache_purge z $scheme$request_method$host$uri; }",
            "$uri is the address of the purge",
        ),
        // The page's address is behind a rewrite, or cannot be told.
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1$is_args$args; }", ""),
        ("location ~ /purge/(GET|HEAD)/(.*) { fastcgi_cache_purge z $scheme$1$host/$2; }", ""),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z ${scheme}GET$host$1; }", ""),
        (
            "location /purge { rewrite ^/purge(.*) $1 break; fastcgi_cache_purge z $scheme$request_method$host$uri; }",
            "",
        ),
        ("location /purge { fastcgi_cache_purge z $scheme$request_method$host$arg_page; }", ""),
        ("location / { fastcgi_cache_purge z $scheme$request_method$host$request_uri; }", ""),
        ("location /purge { internal; fastcgi_cache_purge z $scheme$request_method$host$request_uri; }", ""),
        (
            "if ($request_method = PURGE) { rewrite ^ /purge last; }
             location /purge { fastcgi_cache_purge z $scheme$request_method$host$request_uri; }",
            "",
        ),
        (
            "error_page 418 = /purge; location /purge { fastcgi_cache_purge z $scheme$request_method$host$request_uri; }",
            "",
        ),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $arg_a$request_method; } fastcgi_cache_key $arg_a$host;", ""),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $key; set $key $scheme$host$1; }", ""),
        // No page goes into that zone here, or by a key that nobody sees.
        ("location ~ /purge(/.*) { proxy_cache_purge p $scheme$host$1; }", ""),
        (
            "location ~ /purge(/.*) { proxy_cache_purge p $host$1; } location /b { proxy_pass http://b; proxy_cache p; }",
            "",
        ),
        // One of two keys fits.
        (
            "location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$host$1; }
             location /b { proxy_pass http://b; proxy_cache z; proxy_cache_key $scheme$host$request_uri; }",
            "",
        ),
    ] {
        let found = said(&server(&format!("deny all; {purge} {cached}")));
        match expected {
            "" => assert!(found.is_empty(), "{purge}\n{found:#?}"),
            _ => assert!(matches!(&found[..], [one] if one.contains(expected)), "{purge}\n{found:#?}"),
        }
    }
}

#[test]
fn purges_that_everybody_may_send() {
    let open = "everybody may purge here: \"larder_purge_from\" has";
    each_says(&[
        ("larder_purge_from 0.0.0.0/0; location / { proxy_pass http://b; proxy_cache p; }", open),
        (
            "larder_purge_from 10.0.0.0/8 ::/0; location / { proxy_pass http://b; } location /b { proxy_pass http://b; }",
            open,
        ),
        ("larder_purge_from 0.0.0.0/0; location /a { deny all; } location /b { proxy_pass http://b; }", open),
    ]);
    each_is_silent(&[
        "larder_purge_from 127.0.0.1 10.0.0.0/8 key=0123456789abcdef; location / { proxy_pass http://b; }",
        "larder_purge_from 0.0.0.0/0; allow 10.0.0.0/8; deny all; location / { proxy_pass http://b; }",
        "larder_purge_from 0.0.0.0/0; location / { auth_basic x; auth_basic_user_file f; proxy_pass http://b; }",
        "larder_purge_from 0.0.0.0/0; location / { auth_request /auth; proxy_pass http://b; } location = /auth { return 204; }",
        "larder_purge_from 0.0.0.0/0; location / { larder_purge_from off; proxy_pass http://b; }",
    ]);
    let inside = "server { listen 127.0.0.1:80; listen unix:/s; larder_purge_from 0.0.0.0/0; location / { proxy_pass http://b; } }";
    assert_eq!(said(&http(inside)), Vec::<String>::new());
}

#[test]
fn purges_that_nothing_closes() {
    let open = "everybody may purge here: nothing says who";
    let cached = r"location ~ \.php$ { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache $args; }";
    let key = "fastcgi_cache_purge z $scheme$request_method$host$1;";
    let site = |content: &str| server(&format!("{cached} {content}"));
    let by_map = |map: &str, content: &str| {
        http(&format!(
            "{map} server {{ listen 80; {content} location / {{ proxy_pass http://b; proxy_cache p; proxy_cache_purge $purge; }} }}"
        ))
    };
    let by_method = "map $request_method $purge { PURGE 1; default 0; }";
    for text in [
        site(&format!("location ~ /purge(/.*) {{ {key} }}")),
        site(&format!("if ($host = b.test) {{ return 301 https://a.test; }} location ~ /purge(/.*) {{ {key} }}")),
        site(&format!("location ~ /purge(/.*) {{ allow 127.0.0.1; {key} }}")),
        site("location / { proxy_pass http://b; proxy_cache p; proxy_cache_purge PURGE; }"),
        site("location / { proxy_pass http://b; proxy_cache p; proxy_cache_purge PURGE purge_all from all; }"),
        site(
            "location = /clear { fastcgi_cache z; fastcgi_cache_key $host$request_uri; fastcgi_cache_purge GET purge_all from all; }",
        ),
        by_map(by_method, ""),
    ] {
        let found = said(&text);
        assert!(matches!(&found[..], [one] if one == open), "{text}\n{found:#?}");
    }
    let inside = format!(
        "server {{ listen 127.0.0.1:80; {cached} location ~ /purge(/.*) {{ {key} }} }}
         server {{ listen 10.0.0.1:80; {cached} location ~ /purge(/.*) {{ {key} }} }}"
    );
    for text in [
        http(&inside),
        site(&format!("location ~ /purge(/.*) {{ allow 127.0.0.1; deny all; {key} }}")),
        site(&format!("deny all; location ~ /purge(/.*) {{ {key} }}")),
        site(&format!("location ~ /purge(/.*) {{ auth_basic x; auth_basic_user_file f; {key} }}")),
        site(&format!("location ~ /purge(/.*) {{ internal; {key} }}")),
        site(&format!("location ~ /purge(/.*) {{ if ($remote_addr != 192.0.2.1) {{ return 403; }} {key} }}")),
        site(&format!("location ~ /purge(/.*) {{ if ($http_x_key != abc) {{ return 403; }} {key} }}")),
        site(&format!("location ~ /purge-8f3a9c1e(/.*) {{ {key} }}")),
        site(&format!("return 301 https://a.test$request_uri; location ~ /purge(/.*) {{ {key} }}")),
        site("location / { proxy_pass http://b; proxy_cache p; proxy_cache_purge PURGE from 127.0.0.1; }"),
        site("location / { proxy_pass http://b; proxy_cache p; proxy_cache_purge PURGE from all; deny 192.0.2.0/24; }"),
        site(
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_purge PURGE; limit_except GET { deny all; } }",
        ),
        // No page is cached here.
        site("location / { proxy_pass http://b; proxy_cache_purge PURGE; }"),
        by_map("geo $may { 10.0.0.0/8 1; } map $request_method $purge { PURGE $may; default 0; }", ""),
        by_map("map $http_x_key $purge { abc 1; default 0; }", ""),
        by_map(by_method, "if ($http_x_key != abc) { set $no 1; } if ($no) { return 403; }"),
    ] {
        assert_eq!(said(&text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn purges_that_leave_out_the_query() {
    let none = "no page with a query is purged here: the key ends before it";
    let site = |purge: &str, cached: &str| {
        server(&format!("deny all; {purge} location ~ \\.php$ {{ fastcgi_pass unix:/a; fastcgi_cache z; {cached} }}"))
    };
    let by_path = "location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1; }";
    for (purge, cached) in [
        (by_path, ""),
        (by_path, "fastcgi_cache_key $scheme$request_method$host$uri$is_args$args;"),
        (by_path, "fastcgi_no_cache $cookie_a;"),
        ("location ~ ^/purge(/.*)$ { fastcgi_cache_purge z ${scheme}GET$host$1; }", ""),
        (
            "set $skip 0; if ($request_uri ~ ^/admin) { set $skip 1; }
             location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1; }",
            "fastcgi_no_cache $skip; fastcgi_cache_bypass $skip;",
        ),
    ] {
        assert_eq!(said(&site(purge, cached)), [none], "{purge} {cached}");
    }
    for (purge, cached) in [
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1$is_args$args; }", ""),
        ("location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1$arg_q; }", ""),
        ("location ~ ^/purge(?<page>/.*) { fastcgi_cache_purge z $scheme$request_method$host$page; }", ""),
        (
            "location /purge { if ($request_uri ~ /purge(/.*)) { set $page $1; }
             fastcgi_cache_purge z $scheme$request_method$host$page; }",
            "",
        ),
        (
            "location ~ /purge { rewrite ^/purge(.*) $1 break; fastcgi_cache_purge z $scheme$request_method$host$1; }",
            "",
        ),
        // Pages with a query are not stored, or not under a key of their own.
        (by_path, "fastcgi_no_cache $is_args; fastcgi_cache_bypass $is_args;"),
        (
            "set $skip 0; if ($query_string != '') { set $skip 1; }
             location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1; }",
            "fastcgi_no_cache $skip; fastcgi_cache_bypass $skip;",
        ),
        (
            r"set $skip 0; if ($request_uri ~ \?) { set $skip 1; }
             location ~ /purge(/.*) { fastcgi_cache_purge z $scheme$request_method$host$1; }",
            "fastcgi_no_cache $skip; fastcgi_cache_bypass $skip;",
        ),
        (by_path, "fastcgi_cache_key $scheme$request_method$host$uri;"),
        (by_path, "fastcgi_cache_key $scheme$request_method$host$uri$arg_page;"),
    ] {
        assert_eq!(said(&site(purge, cached)), Vec::<String>::new(), "{purge} {cached}");
    }
}
