//! Proxy Cache Purge for WordPress, once Varnish HTTP Purge: `purge_url()` of its varnish-http-purge.php, 5.2.

use super::{Cached, Page};

/// As the VCL that Varnish Software publishes for the plugin: bans by what `vcl_backend_response` notes of the request.
const BANS: &str = r#"
sub vcl_recv {
    if (req.method == "PURGE") {
        if (!client.ip ~ purgers) { return (synth(405, "PURGE not allowed for this IP address")); }
        if (req.http.X-Purge-Method == "regex") {
            ban("obj.http.x-url ~ " + req.url + " && obj.http.x-host == " + req.http.host);
            return (synth(200, "Purged"));
        }
        ban("obj.http.x-url == " + req.url + " && obj.http.x-host == " + req.http.host);
        return (synth(200, "Purged"));
    }
}
sub vcl_backend_response {
    set beresp.http.x-url = bereq.url;
    set beresp.http.x-host = bereq.http.host;
}
sub vcl_deliver {
    unset resp.http.x-url;
    unset resp.http.x-host;
}
"#;

/// As the templates that hosts use: the page by `return (purge)`, all that matches by a ban of the request's own URL.
const PURGES: &str = r#"
sub vcl_recv {
    if (req.method == "PURGE") {
        if (client.ip !~ purgers) { return (synth(405)); }
        if (req.http.X-Purge-Method == "regex") {
            ban("req.url ~ " + req.url + " && req.http.host ~ " + req.http.host);
            return (synth(200, "Banned."));
        }
        return (purge);
    }
}
"#;

const BLOG: &[Page] = &[
    ("blog.example", "/", &[]),
    ("blog.example", "/hello-world/", &[]),
    ("blog.example", "/hello-world/?replytocom=7", &[]),
    ("blog.example", "/category/news/", &[]),
    ("blog.example:8080", "/", &[]),
    ("shop.example", "/", &[]),
];

/// What the plugin sends for a URL: `wp_remote_request()` adds the rest.
pub fn purge(host: &str, target: &str, method: &str) -> String {
    format!(
        "PURGE {target} HTTP/1.1\nhost: {host}\nUser-Agent: WordPress/6.8; https://{host}\nAccept: */*\n\
         Accept-Encoding: deflate, gzip, br\nX-Purge-Method: {method}\nReferer: http://127.0.0.1{target}"
    )
}

#[test]
fn a_page_or_all_of_a_blog_goes() {
    let with_port = "blog.example:8080/";
    for (vcl, refused, banned, also) in [
        // A host is compared, or searched for.
        (BANS, "405 PURGE not allowed for this IP address", "200 Purged", None),
        (PURGES, "405 Method Not Allowed", "200 Banned.", Some(with_port)),
    ] {
        let site = Cached::start(vcl, BLOG);
        for (target, gone) in [
            ("/", &["blog.example/"][..]),
            ("/hello-world/", &["blog.example/hello-world/"]),
            ("/hello-world/?replytocom=7", &["blog.example/hello-world/?replytocom=7"]),
            ("/not-there/", &[]),
        ] {
            site.purges(&purge("blog.example", target, "default"), "200 Purged", gone, refused);
        }
        site.purges(&purge("blog.example:8080", "/", "default"), "200 Purged", &[with_port], refused);
        let below = &["blog.example/category/news/"];
        site.purges(&purge("blog.example", "/category/.*", "regex"), banned, below, refused);
        let all =
            BLOG.iter().filter(|(host, ..)| *host == "blog.example").map(|(host, path, _)| format!("{host}{path}"));
        let all: Vec<String> = all.chain(also.map(str::to_owned)).collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        site.purges(&purge("blog.example", "/.*", "regex"), banned, &all, refused);
    }
}
