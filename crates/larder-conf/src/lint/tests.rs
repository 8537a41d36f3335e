mod campaigns;
mod purges;
mod status;
mod stores;

use std::path::Path;

use crate::{MemoryLoader, Options, load};

/// A zone, and a server with this content.
fn server(content: &str) -> String {
    http(&format!("server {{ listen 80; server_name a.test; {content} }}"))
}

fn http(content: &str) -> String {
    format!(
        "events {{}} http {{ fastcgi_cache_path /c keys_zone=z:1m; proxy_cache_path /d keys_zone=p:1m;
         fastcgi_cache_key $scheme$request_method$host$request_uri; {content} }}"
    )
}

/// The warnings about a configuration.
fn said(text: &str) -> Vec<String> {
    let mut loader = MemoryLoader::new();
    loader.add("/etc/nginx/nginx.conf", text);
    let options = Options {
        prefix: "/usr/share/nginx".into(),
        conf_prefix: "/etc/nginx".into(),
        globals: None,
        is_root: true,
        hostname: "h".to_owned(),
    };
    let loaded = load(Path::new("/etc/nginx/nginx.conf"), &options, &mut loader)
        .unwrap_or_else(|failed| panic!("{:?}\n{text}", failed.diagnostics));
    let found = super::lint(&loaded.config);
    for one in &found {
        assert!(one.span.is_some() && one.help.is_some() && one.label.is_some(), "{one:?}");
    }
    found.into_iter().map(|one| one.message).collect()
}

/// Each case is a server's content, and a part of the only warning about it.
fn each_says(cases: &[(&str, &str)]) {
    for (content, expected) in cases {
        let found = said(&server(content));
        assert!(matches!(&found[..], [one] if one.contains(expected)), "{content}\n{found:#?}");
    }
}

fn each_is_silent(cases: &[&str]) {
    for content in cases {
        let found = said(&server(content));
        assert!(found.is_empty(), "{content}\n{found:#?}");
    }
}

#[test]
fn cookies_that_are_kept_for_all() {
    each_says(&[
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie Cache-Control; }",
            "answers with Set-Cookie are kept here",
        ),
        (
            r"location ~* \.(css|js|html)$ { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; }",
            "answers with Set-Cookie are kept here",
        ),
        (
            "proxy_ignore_headers Set-Cookie; location / { proxy_pass http://b; proxy_cache p; proxy_cache_bypass $arg_x; }",
            "answers with Set-Cookie are kept here",
        ),
        (
            "set $off 0; if ($request_method = POST) { set $off 1; } if ($query_string != '') { set $off $arg_off; }
             location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache $off; fastcgi_ignore_headers Set-Cookie; }",
            "and $off of \"fastcgi_no_cache\" asks for no cookie",
        ),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_no_cache $http_pragma $http_cache_control;
                proxy_ignore_headers Set-Cookie; }",
            "and $http_pragma of \"proxy_no_cache\" asks for no cookie",
        ),
    ]);
    each_is_silent(&[
        // Somebody has named the pages of one visitor, or decides by what cannot be looked into.
        "set $off 0; if ($request_uri ~ ^/account) { set $off 1; }
         location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache $off; fastcgi_ignore_headers Set-Cookie; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; proxy_no_cache $upstream_http_x_private; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie;
            proxy_no_cache $http_pragma $http_authorization; }",
        "location / { fastcgi_pass unix:/a; fastcgi_ignore_headers Set-Cookie; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Cache-Control Expires; }",
        r"location ~* \.(css|js|png)$ { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie;
            fastcgi_cache_bypass $cookie_session; fastcgi_no_cache $cookie_session; }",
        "location /img/ { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; proxy_hide_header Set-Cookie; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie;
            proxy_cache_key $host$request_uri$cookie_session; }",
    ]);
}

#[test]
fn a_guard_by_the_method_guards_no_cookies() {
    let by_method = |map: &str, passed: &str| {
        http(&format!(
            "{map} server {{ listen 80; location / {{ fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_no_cache $no_cache;
             fastcgi_cache_bypass $no_cache; fastcgi_ignore_headers Cache-Control Expires Set-Cookie; {passed} }} }}"
        ))
    };
    let method = "map $request_method $no_cache { default 1; HEAD 0; GET 0; }";
    let kept = "answers with Set-Cookie are kept here for everybody: \"fastcgi_ignore_headers\" has Set-Cookie, and $no_cache \
                of \"fastcgi_no_cache\" asks for no cookie";
    assert_eq!(said(&by_method(method, "")), [kept]);
    let given = "the cookie of one visitor is given to all: \"fastcgi_ignore_headers\" and \"fastcgi_pass_header\" both have \
                 Set-Cookie";
    assert_eq!(said(&by_method(method, "fastcgi_pass_header Set-Cookie;")), [given]);
    for other in [
        "map $http_cookie $no_cache { ~SESS 1; }",
        "map $request_method$cookie_session $no_cache { GET 0; HEAD 0; default 1; }",
        "geo $no_cache { 10.0.0.0/8 1; }",
        "map $request_method $no_cache { default 1; GET $cookie_a; }",
    ] {
        assert_eq!(said(&by_method(other, "")), Vec::<String>::new(), "{other}");
    }
}

#[test]
fn a_map_of_the_session_that_no_key_has() {
    let site = |map: &str, content: &str| {
        http(&format!(
            "log_format l $cache_uid; map {map} $cache_uid {{ default nil; ~SESS[a-z]+=(?<session_id>[a-z]+) $session_id; }}
             server {{ listen 80; location / {{ fastcgi_pass unix:/a; fastcgi_cache z; {content} }} }}"
        ))
    };
    let expected = "$cache_uid tells one session from another and is in no cache key: visitors with a session get the pages of \
                    each other";
    assert_eq!(said(&site("$http_cookie", "")), [expected]);
    assert_eq!(said(&site("$cookie_session", "fastcgi_no_cache $arg_x; access_log x l;")), [expected]);
    // Shown to whoever looks for mistakes, and to no cache.
    assert_eq!(said(&site("$http_cookie", "add_header X-Uid $cache_uid; access_log x l;")), [expected]);
    for (map, content) in [
        ("$http_cookie", "fastcgi_cache_key $host$request_uri$cache_uid;"),
        ("$http_cookie", "fastcgi_no_cache $http_cookie; fastcgi_cache_bypass $http_cookie;"),
        ("$http_cookie", "fastcgi_no_cache $cache_uid; fastcgi_cache_bypass $cache_uid;"),
        ("$http_cookie", "add_header Vary $cache_uid;"),
        ("$http_user_agent", ""),
        ("$request_method", ""),
    ] {
        assert_eq!(said(&site(map, content)), Vec::<String>::new(), "{map} {content}");
    }
}

#[test]
fn a_map_that_a_set_overwrites() {
    let site = |server: &str, location: &str| {
        http(&format!(
            "map $request_method $no_cache {{ default 1; HEAD 0; GET 0; }}
             server {{ listen 80; {server} location / {{ {location} fastcgi_pass unix:/a; fastcgi_cache z;
             fastcgi_no_cache $no_cache; fastcgi_cache_bypass $no_cache; }} }}"
        ))
    };
    let expected = "\"set $no_cache\" overwrites what the \"map\" says: no cache sees its value";
    for (server, location) in [
        ("set $no_cache 0;", ""),
        ("", "set $no_cache '';"),
        ("set $no_cache ''; if ($http_cookie ~ SESS) { set $no_cache 1; } if ($no_cache = 1) { set $x 1; }", ""),
    ] {
        assert_eq!(said(&site(server, location)), [expected], "{server} {location}");
    }
    for (server, location) in [
        ("", ""),
        ("if ($http_cookie ~ SESS) { set $no_cache 1; }", ""),
        ("if ($no_cache) { return 405; } set $no_cache 0;", ""),
        ("set $no_cache $no_cache$cookie_session;", ""),
        ("location /a { proxy_pass http://b; proxy_cache p; proxy_no_cache $no_cache; }", "set $no_cache 0;"),
    ] {
        assert_eq!(said(&site(server, location)), Vec::<String>::new(), "{server} {location}");
    }
    // The map is for the other server, and this one may be exempted from it.
    let two = "map $http_cookie $no_cache { ~SESS 1; } proxy_cache p; proxy_no_cache $no_cache;
        server { listen 80; server_name a; set $no_cache 0; location / { proxy_pass http://b; } }
        server { listen 80; server_name b; location / { proxy_pass http://b; } }";
    assert_eq!(said(&http(two)), Vec::<String>::new());
}

#[test]
fn cookies_that_are_kept_and_passed_on() {
    let given = "the cookie of one visitor is given to all";
    each_says(&[
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie;
                fastcgi_pass_header Set-Cookie; }",
            given,
        ),
        // Visitors with a session bypass the cache; one who gets a session from a stored page does not yet.
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie Expires;
                fastcgi_pass_header set-cookie; fastcgi_cache_bypass $cookie_session; fastcgi_no_cache $cookie_session; }",
            given,
        ),
        (
            "proxy_ignore_headers Set-Cookie; proxy_pass_header Set-Cookie;
             location / { proxy_pass http://b; proxy_cache p; proxy_no_cache $arg_x; }",
            given,
        ),
    ]);
    each_is_silent(&[
        "location / { fastcgi_pass unix:/a; fastcgi_ignore_headers Set-Cookie; fastcgi_pass_header Set-Cookie; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_pass_header Set-Cookie; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie; fastcgi_pass_header Set-Cookie;
            fastcgi_no_cache $upstream_http_set_cookie; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; proxy_pass_header Set-Cookie;
            proxy_cache_key $host$request_uri$cookie_session; }",
        r"location ~* \.(css|js|png)$ { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie;
            proxy_pass_header Set-Cookie; }",
    ]);
}

#[test]
fn visitors_who_are_known() {
    each_says(&[
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_bypass $http_authorization; }",
            "is kept for everybody: \"proxy_cache_bypass\" without \"proxy_no_cache\"",
        ),
        (
            "set $skip 0; if ($http_cookie ~ session) { set $skip 1; }
             location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_bypass $skip; }",
            "what is answered to visitors with $skip is kept for everybody",
        ),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_set_header Authorization $http_authorization; }",
            "the origin is told who asks by Authorization",
        ),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_set_header X-Session $cookie_sessionid; }",
            "the origin is told who asks by X-Session",
        ),
        (
            "auth_basic x; auth_basic_user_file f; location / { fastcgi_pass unix:/a; fastcgi_cache z;
                fastcgi_param REMOTE_USER $remote_user; }",
            "the origin is told who asks by REMOTE_USER",
        ),
        (
            "set $skip_cache 0; if ($http_cookie ~ wordpress_logged_in) { set $skip_cache 1; }
             location / { fastcgi_pass unix:/a; fastcgi_cache z; }",
            "$skip_cache is set and no cache of this server looks at it",
        ),
        (
            "set $skip_cache 0; if ($http_cookie ~ wordpress_logged_in) { set $skip_cache 1; }
             location / { fastcgi_pass unix:/a; fastcgi_cache z; add_header X-Skip $skip_cache; }",
            "$skip_cache is set and no cache of this server looks at it",
        ),
    ]);
    each_is_silent(&[
        // From nginx's own manual: a switch, and no session.
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_bypass $cookie_nocache $arg_nocache$arg_comment; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_set_header Authorization $http_authorization;
            proxy_cache_bypass $http_authorization; proxy_no_cache $http_authorization; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_set_header Authorization $http_authorization;
            proxy_cache_key $host$request_uri$http_authorization; }",
        "location / { proxy_pass http://b; proxy_set_header Authorization $http_authorization; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_param REMOTE_USER $remote_user; }",
        // One of two caches reads it, and the other one is for files.
        "set $skip_cache 0; if ($http_cookie ~ logged) { set $skip_cache 1; }
         location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_bypass $skip_cache; fastcgi_no_cache $skip_cache; }
         location /files/ { proxy_pass http://b; proxy_cache p; }",
        "set $skip_cache 0; location / { fastcgi_pass unix:/a; }",
        // Read by another variable, a log, an application.
        "set $no_cache_uri a; set $skip $no_cache_uri$arg_x;
         location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_bypass $skip; fastcgi_no_cache $skip; }",
        "set $skip_cache 0; access_log /l combined if=$skip_cache; location / { fastcgi_pass unix:/a; fastcgi_cache z; }",
        "set $skip_cache 0; location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_param SKIP $skip_cache; }",
        "set $no_cache no-store; location / { fastcgi_pass unix:/a; fastcgi_cache z; add_header Cache-Control $no_cache; }",
    ]);
    let by_map = "map $skip_cache $nothing { default $skip_cache; } map $http_cookie $who { ~sess 1; }
        server { listen 80; set $skip_cache 0; if ($who) { set $skip_cache 1; }
            location / { proxy_pass http://b; proxy_cache p; proxy_no_cache $nothing; proxy_cache_bypass $nothing; } }";
    assert_eq!(said(&http(by_map)), Vec::<String>::new());
}

#[test]
fn what_the_key_lacks() {
    each_says(&[
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_methods GET HEAD POST; }",
            "whatever is posted, the first answer is given to all",
        ),
        (
            "listen 443 ssl; ssl_certificate a; ssl_certificate_key b; location / { fastcgi_pass unix:/a; fastcgi_cache z;
                fastcgi_param HTTPS $https; fastcgi_cache_key $request_method$host$request_uri; }",
            "a page made for http is shown to https",
        ),
        (
            "server_name www.a.test; location / { proxy_pass http://b; proxy_cache p; proxy_set_header Host $host; }",
            "a page of one host is shown for another",
        ),
        (
            "server_name *.b.test; location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_key $request_method$request_uri; }",
            "a page of one host is shown for another",
        ),
    ]);
    each_is_silent(&[
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_methods POST; proxy_cache_key $request_uri|$request_body; }",
        // There the directive does nothing.
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_methods POST; larder_cache_mode rfc9111; }",
        "location / { proxy_pass http://b; proxy_cache p; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_convert_head off; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $uri$is_args$args; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_set_header Host $host; }",
        "server_name www.a.test; location / { proxy_pass http://b; proxy_cache p; proxy_set_header Host $host;
            proxy_cache_key $scheme$host$request_uri; }",
        // The origin always gets the same name, whatever the visitor requested.
        "server_name www.a.test; location / { proxy_pass http://b; proxy_cache p; }",
        "server_name www.a.test; location / { proxy_pass http://b; proxy_cache p; proxy_set_header Host $host;
            proxy_cache_key $tenant$request_uri; set $tenant $host; }",
        "listen 443 ssl; ssl_certificate a; ssl_certificate_key b; location / { fastcgi_pass unix:/a; fastcgi_cache z;
            fastcgi_param HTTPS $https; }",
    ]);
    let two = "proxy_set_header Host $host; proxy_cache p;
        server { listen 80; server_name a.test; location / { proxy_pass http://b; } }
        server { listen 80; server_name b.test; location / { proxy_pass http://b; } }";
    assert_eq!(said(&http(two)).len(), 1, "once for the one place that both inherit");
}

#[test]
fn keys_that_no_second_request_has() {
    each_says(&[
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$request_uri$request_id; }",
            "no page is found again: the key has $request_id, which is another for each request",
        ),
        (
            "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_cache_key $msec$host$request_uri; }",
            "no page is found again: the key has $msec",
        ),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $remote_addr:$remote_port$request_uri; }",
            "no page is found again by another visitor: the key has $remote_port, which is another for each connection",
        ),
        (
            "proxy_cache_key $connection$host$request_uri; location / { proxy_pass http://b; proxy_cache p; }",
            "the key has $connection, which",
        ),
    ]);
    each_is_silent(&[
        // The same for a while, or for some.
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$request_uri$remote_addr; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$request_uri$http_connection; }",
        "set $page $request_uri; if ($arg_fresh) { set $page $request_id; }
         location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$page; }",
        "proxy_cache_key $request_id; location / { proxy_pass http://b; }",
    ]);
}

#[test]
fn hosts_that_anybody_may_write() {
    let said = "the origin is told $http_host";
    each_says(&[
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $scheme$host$request_uri;
                proxy_set_header Host $http_host; }",
            said,
        ),
        (
            "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $server_name$request_uri;
                proxy_set_header Host $host; proxy_set_header X-Forwarded-Host $http_host; }",
            said,
        ),
        ("location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_param HTTP_HOST $http_host; }", said),
    ]);
    each_is_silent(&[
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $scheme$host$request_uri;
            proxy_set_header Host $host; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $scheme$http_host$request_uri;
            proxy_set_header Host $http_host; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$http_host$request_uri;
            proxy_set_header Host $http_host; }",
        "location / { proxy_pass http://b; proxy_set_header Host $http_host; }",
        // Nobody knows what this variable is made of.
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$site; set $site $http_host;
            proxy_set_header Host $http_host; }",
        "location / { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_param HTTP_HOST $host; }",
    ]);
}

#[test]
fn folders_that_lead_out_of_themselves() {
    each_says(&[
        ("location /i { alias /srv/img/; }", "\"/i../\" leads out of \"/srv/img/\""),
        ("location ^~ /i { alias /srv/$host/; }", "\"/i../\" leads out of \"/srv/${host}/\""),
        ("location /a { location /a/b { alias /srv/; } }", "\"/a/b../\" leads out of \"/srv/\""),
    ]);
    each_is_silent(&[
        "location /i/ { alias /srv/img/; }",
        "location /i { alias /srv/img; }",
        "location = /i { alias /srv/img/; }",
        "location /i { internal; alias /srv/img/; }",
        "location ~ ^/i(.*)$ { alias /srv/img/; }",
        "location /i/ { alias /srv/img/; location /i/j { expires max; } }",
    ]);
}

/// A server with PHP behind `way`, whose cache has this key.
fn script(way: &str, key: &str) -> String {
    format!(
        "{way} location ~ \\.php$ {{ fastcgi_pass unix:/a; fastcgi_param REQUEST_URI $request_uri; fastcgi_cache z;
         fastcgi_cache_key {key}; }}"
    )
}

#[test]
fn keys_that_are_one_for_all_pages() {
    let fallback = "location / { try_files $uri $uri/ /index.php?$args; }";
    for (way, key, expected) in [
        (
            fallback,
            "$scheme$host$uri",
            "all pages are one: $uri is \"/index.php\" for each that \"try_files\" leads there",
        ),
        (fallback, "$request_method|$host$document_uri$cookie_lang", "all pages are one"),
        (fallback, "$scheme$host$uri$is_args$args", "all pages with the same arguments are one"),
        (fallback, "$host$fastcgi_script_name$arg_page", "all pages with the same arguments are one"),
        ("location / { try_files $uri /index.php$is_args$args; }", "$host$uri", "all pages are one"),
        ("location / { try_files $uri /index.php?q=$uri&$args; }", "$host$uri", "all pages are one"),
        (
            "location / { if (!-e $request_filename) { rewrite ^(.*)$ /index.php last; } }",
            "$host$uri",
            "\"rewrite\" leads",
        ),
        (
            "if (!-e $request_filename) { rewrite ^/blog/.* /blog/index.php; }",
            "$host$uri",
            "$uri is \"/blog/index.php\"",
        ),
        ("error_page 404 = /index.php; location / { root /r; }", "$host$uri", "\"error_page\" leads"),
        ("location / { index index.html /index.php; }", "$host$uri", "\"index\" leads"),
        (
            "location / { try_files $uri @app; } location @app { rewrite ^ /index.php last; }",
            "$host$uri",
            "all pages are one",
        ),
        // These take none of the requests.
        (
            r"location ~ /\.ht { return 403; } location ~* \.(css|js)$ { expires max; } location ~ ^/up/.*\.php$ { return 403; }
              location ^~ /up/ { location ~ \.php$ { return 403; } } location / { try_files $uri /index.php; }",
            "$host$uri",
            "all pages are one",
        ),
    ] {
        let found = said(&server(&script(way, key)));
        assert!(matches!(&found[..], [one] if one.contains(expected)), "{way} {key}\n{found:#?}");
    }
    // What the pattern matches, however it is written.
    for (location, also) in [
        (r"~ \.(php|php5)$", None),
        (r"~ ^(.+?\.php)(/.*)?$", None),
        (r"~* \.PHP$", None),
        (r"~ ^/(index|app)\.php", None),
        ("~ .php$", Some("matches any character")),
        ("~* .php$", Some("matches any character")),
    ] {
        let text = script(fallback, "$host$uri").replace(r"~ \.php$", location);
        let found = said(&server(&text));
        let is_one = |one: &&String| one.contains("all pages are one");
        let others: Vec<_> = found.iter().filter(|one| !is_one(one)).collect();
        assert_eq!(found.iter().filter(is_one).count(), 1, "{location}\n{found:#?}");
        assert_eq!(others.len(), also.iter().len(), "{location}\n{found:#?}");
        assert!(others.iter().zip(also).all(|(one, also)| one.contains(also)), "{location}\n{found:#?}");
    }
    // Written out as few sites have it: what the arguments leave out is a map of them.
    let mapped = format!(
        "map $args $key_args {{ default $args; ~^utm_[a-z]+=[^&]*$ ''; }} server {{ listen 80; {} }}",
        script(fallback, "$host$uri$key_args")
    );
    assert!(
        matches!(&said(&http(&mapped))[..], [one] if one.contains("all pages are one")),
        "{:?}",
        said(&http(&mapped))
    );
}

#[test]
fn keys_that_know_the_page() {
    let fallback = "location / { try_files $uri $uri/ /index.php?$args; }";
    for (way, key) in [
        (fallback, "$scheme$host$request_uri"),
        (fallback, "$host$uri$request_uri"),
        (fallback, "$host$uri$http_x_original_url"),
        // Set before the redirect.
        ("set $page $uri; location / { try_files $uri /index.php; }", "$host$uri$page"),
        ("rewrite ^/(.*)\\.html$ /$1; set $page $1; location / { try_files $uri /index.php; }", "$host$uri$page"),
        // The script gets the page by its arguments, or in its name.
        ("location / { try_files $uri /index.php?q=$uri&$args; }", "$host$uri$is_args$args"),
        ("rewrite ^/(.*)$ /index.php?q=$1 last;", "$host$uri$query_string"),
        ("location / { try_files $uri /index.php$uri; }", "$host$uri"),
        ("rewrite ^/(.*)$ /index.php/$1 last;", "$host$uri"),
        // One page, or the page of an error.
        ("location = /robots.txt { try_files $uri /index.php; }", "$host$uri"),
        ("rewrite ^/sitemap\\.xml$ /index.php?sitemap=1 last;", "$host$uri$is_args$args"),
        ("location / { try_files $uri $uri/ /404.php; }", "$host$uri"),
        ("error_page 404 /index.php; location / { root /r; }", "$host$uri"),
        ("location / { try_files $uri $uri/ =404; index index.php; }", "$host$uri"),
        ("rewrite ^ /index.php redirect;", "$host$uri"),
        // Another location answers.
        ("location = /index.php { fastcgi_pass unix:/b; } location / { try_files $uri /index.php; }", "$host$uri"),
        ("location ~ ^/index\\.php { fastcgi_pass unix:/b; } location / { try_files $uri /index.php; }", "$host$uri"),
        ("location ^~ / { try_files $uri /index.php; }", "$host$uri"),
        (r"location ~ ^/(\w+)\.php$ { fastcgi_pass unix:/b; } location / { try_files $uri /index.php; }", "$host$uri"),
        ("location ~ ^/(a|index).php { return 403; } location / { try_files $uri /index.php; }", "$host$uri"),
    ] {
        let found: Vec<String> =
            said(&server(&script(way, key))).into_iter().filter(|one| one.contains("are one")).collect();
        assert!(found.is_empty(), "{way} {key}\n{found:#?}");
    }
    each_is_silent(&[
        // The origin is asked for the script alone.
        "location / { try_files $uri /index.php; } location ~ \\.php$ { proxy_pass http://b; proxy_cache p; proxy_cache_key $uri; }",
        "location / { try_files $uri /index.html; } location = /index.html { proxy_pass http://b; proxy_cache p; proxy_cache_key $uri;
            proxy_set_header X-Page $request_uri; }",
        "location / { proxy_pass http://b; proxy_cache p; proxy_cache_key $host$uri; }",
    ]);
    let mapped =
        "map $request_uri $page { ~^([^?]*)\\? $1; default $request_uri; } map $page $short { default $page; }";
    let mapped = http(&format!("{mapped} server {{ listen 80; {} }}", script(fallback, "$host$uri$short")));
    assert_eq!(said(&mapped), Vec::<String>::new());
}

#[test]
fn cookies_that_are_hidden_from_who_logs_in() {
    let hidden =
        "fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_ignore_headers Set-Cookie; fastcgi_hide_header Set-Cookie;";
    let expected = "nobody can log in here: \"fastcgi_hide_header\" takes Set-Cookie from what all PHP answers";
    for server_says in [
        format!("location ~ \\.php$ {{ {hidden} }}"),
        format!(
            "location / {{ try_files $uri /index.php; }} location ~ [^/]\\.php(/|$) {{ {hidden} fastcgi_no_cache $cookie_a; }}"
        ),
        format!("if ($request_method = POST) {{ set $x 1; }} location ~ \\.php$ {{ {hidden} }}"),
    ] {
        let found = said(&server(&server_says));
        assert!(matches!(&found[..], [one] if one.contains(expected)), "{server_says}\n{found:#?}");
    }
    let proxied = "proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; proxy_hide_header Set-Cookie;";
    each_says(&[
        (
            &format!("location ~ \\.php$ {{ {proxied} }}"),
            "\"proxy_hide_header\" takes Set-Cookie from what all PHP answers",
        ),
        (
            &format!("location / {{ {proxied} proxy_no_cache $cookie_session; proxy_cache_bypass $cookie_session; }}"),
            "\"proxy_hide_header\" takes Set-Cookie from all that is answered, to a login too",
        ),
        (
            &format!(
                "set $skip 0; if ($http_cookie ~ logged_in) {{ set $skip 1; }}
                 location / {{ {proxied} proxy_no_cache $skip; proxy_cache_bypass $skip; }}"
            ),
            "nobody can log in here",
        ),
    ]);
    each_is_silent(&[
        // Files, as far as anybody knows.
        &format!("location / {{ {proxied} }}"),
        &format!("location / {{ {proxied} proxy_cache_bypass $cookie_nocache; proxy_no_cache $cookie_nocache; }}"),
        &format!(
            "location /files/ {{ {proxied} proxy_no_cache $cookie_session; proxy_cache_bypass $cookie_session; }}"
        ),
        &format!(
            "location /login {{ proxy_pass http://b; }}
             location / {{ {proxied} proxy_no_cache $cookie_session; proxy_cache_bypass $cookie_session; }}"
        ),
    ]);
    for server_says in [
        // Nobody logs in here, or elsewhere.
        format!("location ~ \\.php$ {{ {hidden} limit_except GET {{ deny all; }} }}"),
        format!("if ($request_method !~ ^(GET|HEAD)$) {{ return 405; }} location ~ \\.php$ {{ {hidden} }}"),
        format!("location = /wp-login.php {{ fastcgi_pass unix:/a; }} location ~ \\.php$ {{ {hidden} }}"),
        format!("location /account {{ proxy_pass http://b; }} location ~ \\.php$ {{ {hidden} }}"),
        format!("location ~ ^/feed\\.php$ {{ {hidden} }}"),
        format!("location /files/ {{ {hidden} }}"),
        "location ~ \\.php$ { fastcgi_pass unix:/a; fastcgi_cache z; fastcgi_hide_header X-Powered-By; }".to_owned(),
    ] {
        assert_eq!(said(&server(&server_says)), Vec::<String>::new(), "{server_says}");
    }
}

#[test]
fn patterns_that_match_too_much() {
    each_says(&[
        ("location ~ .php$ { fastcgi_pass unix:/a; }", "the \".\" before \"php$\" matches any character"),
        ("location ~* .(jpg|png)$ { expires max; }", "matches any character"),
        ("location ~ /.git$ { return 404; }", "the \".\" before \"git$\" matches any character"),
        ("location ~ /.php$ { fastcgi_pass unix:/a; }", "\"/.php$\" matches no \"index.php\""),
        ("location ~ ^/a/.(?:css|js)$ { expires max; }", "\"^/a/.(?:css|js)$\" matches no \"index.css\""),
    ]);
    each_is_silent(&[r"location ~ \.php$ { fastcgi_pass unix:/a; }", r"location ~* \.(jpg|png)$ { expires max; }"]);
}

#[test]
fn conditions_that_never_hold() {
    each_says(&[
        ("if ($arg_a=1) { return 403; }", "\"$arg_a=1\" is the name of one variable"),
        ("location / { if ($http_x~y) { return 403; } }", "\"$http_x~y\" is the name of one variable"),
    ]);
    each_is_silent(&["if ($arg_go-get) { return 204; } location / { if ($arg_go-get = 1) { return 403; } }"]);
}

#[test]
fn what_is_lost_in_a_block() {
    each_says(&[
        (
            "location / { try_files $uri /index.php; if ($arg_a) { set $b 1; } }",
            "\"try_files\" of this location does nothing for who matches",
        ),
        (
            "location / { proxy_pass http://b; if ($arg_a) { add_header A 1; } if ($arg_b) { add_header B 1; } }",
            "of two \"if\" blocks that match, only the last one has an effect",
        ),
    ]);
    each_is_silent(&[
        "location / { try_files $uri =404; if ($arg_a) { set $b 1; } }",
        "location / { try_files $uri /index.php; if ($arg_a) { return 403; } }",
        "location / { try_files $uri /index.php; if (-f $document_root/off) { rewrite ^ /off.html last; } }",
        "if ($arg_a) { set $b 1; } location / { try_files $uri /index.php; }",
        "location / { proxy_pass http://b; if ($request_method = GET) { add_header A 1; } if ($request_method = POST) { add_header A 2; } }",
        "location / { proxy_pass http://b; if ($request_method = OPTIONS) { add_header A 1; return 204; } if ($arg_b) { add_header B 1; } }",
    ]);
}

#[test]
fn headers_that_are_dropped() {
    each_says(&[
        ("add_header A 1; location / { add_header B 1; }", "\"add_header\" here drops those around it: A"),
        (
            "add_header A 1; add_header C 1; location / { proxy_pass http://b; if ($arg_a) { add_header a 2; } }",
            "around it: C",
        ),
    ]);
    each_is_silent(&[
        "add_header A 1; location / { expires max; }",
        "add_header A 1; location / { add_header a 2; }",
        "add_header A 1; location / { add_header_inherit merge; add_header B 1; }",
        "add_header A 1; location / { add_header A 1; add_header B 1; }",
    ]);
    let outer = http("add_header A 1; server { listen 80; add_header B 1; location / { add_header B 2; } }");
    assert_eq!(said(&outer), ["\"add_header\" here drops those around it: A"]);
}

#[test]
fn what_everybody_runs_is_left_in_peace() {
    // The widespread recipe of a page cache for WordPress.
    let wordpress = http(
        "fastcgi_ignore_headers Cache-Control Expires Set-Cookie; fastcgi_cache_use_stale error timeout;
         server { listen 80; server_name a.test www.a.test; root /var/www; index index.php;
            set $skip_cache 0;
            if ($request_method = POST) { set $skip_cache 1; }
            if ($query_string != \"\") { set $skip_cache 1; }
            if ($request_uri ~* \"/wp-admin/|/xmlrpc.php|wp-.*.php\") { set $skip_cache 1; }
            if ($http_cookie ~* \"comment_author|wordpress_[a-f0-9]+|wp-postpass|wordpress_logged_in\") { set $skip_cache 1; }
            location / { try_files $uri $uri/ /index.php?$args; }
            location ~ \\.php$ {
                try_files $uri =404;
                fastcgi_pass unix:/run/php.sock; fastcgi_param REQUEST_METHOD $request_method; fastcgi_param HTTPS $https if_not_empty;
                fastcgi_cache_bypass $skip_cache; fastcgi_no_cache $skip_cache;
                fastcgi_cache z; fastcgi_cache_valid 60m; add_header X-Cache $upstream_cache_status;
            }
            location ~* ^.+\\.(ogg|svg|css|js|jpg|png)$ { access_log off; expires max; }
            location ~ /\\. { deny all; }
         }",
    );
    // The micro cache.
    let micro = http(
        "map $request_method $no_cache { default 1; HEAD 0; GET 0; }
         server { listen 80;
            location ~ \\.php$ {
                try_files $uri =404;
                if ($request_method !~ ^(GET|HEAD)$) { set $no_cache 1; }
                if ($no_cache = 1) { add_header Set-Cookie \"_mcnc=1; Max-Age=2; Path=/\"; add_header X-Microcachable 0; }
                if ($http_cookie ~ SESS) { set $no_cache 1; }
                fastcgi_no_cache $no_cache; fastcgi_cache_bypass $no_cache; fastcgi_cache z;
                fastcgi_cache_key $scheme$host$request_uri$request_method; fastcgi_cache_valid any 1s;
                fastcgi_ignore_headers Cache-Control Expires Set-Cookie;
                fastcgi_pass unix:/run/php.sock;
            }
         }",
    );
    // An application behind a proxy, with its files cached.
    let proxied = http(
        "server { listen 80; server_name a.test; return 301 https://$host$request_uri; }
         server { listen 443 ssl; server_name a.test; ssl_certificate a; ssl_certificate_key b;
            add_header Strict-Transport-Security max-age=1 always;
            location / { proxy_pass http://b; proxy_set_header Host $host; proxy_set_header X-Forwarded-Proto $scheme; }
            location /static/ { proxy_pass http://b; proxy_cache p; proxy_ignore_headers Set-Cookie; proxy_hide_header Set-Cookie; }
         }",
    );
    for text in [wordpress, micro, proxied] {
        assert_eq!(said(&text), Vec::<String>::new(), "{text}");
    }
}
