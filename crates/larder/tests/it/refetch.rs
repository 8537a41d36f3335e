//! What a fetch in the background asks for, and what a hit keeps of what the origin said.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, FastCgiOrigin, FastCgiReply, Origin};

use crate::site::{Setup, cached, get_on};

#[test]
fn a_refetch_asks_for_the_file_that_try_files_found() {
    let origin = Origin::start().unwrap();
    let fcgi = FastCgiOrigin::start_tcp().unwrap();
    let setup = Setup::new().one_worker().name("ORIGIN", origin.address()).name("FCGI", fcgi.address());
    let site = setup.file("www/a.txt", "a").start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         fastcgi_cache_path {DIR}/fpages keys_zone=fpages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            proxy_cache_use_stale updating; proxy_cache_background_update on;
            fastcgi_cache_use_stale updating; fastcgi_cache_background_update on;
            location ~ ^/p(/.*)$ {
                alias {DIR}/www; try_files /a.txt =404;
                proxy_set_header X-File \"$request_filename $uri $1\";
                proxy_pass http://{ORIGIN};
                proxy_cache pages; proxy_cache_key $request_uri; proxy_cache_valid any 1s;
            }
            location ~ ^/f(/.*)$ {
                alias {DIR}/www; try_files /a.txt =404;
                fastcgi_param FILE \"$request_filename $uri $1\";
                fastcgi_pass {FCGI};
                fastcgi_cache fpages; fastcgi_cache_key $request_uri; fastcgi_cache_valid any 1s;
            }
         }",
    );
    origin.answer("*", Answer::ok("page"));
    fcgi.answer("*", FastCgiReply::html("page"));
    for target in ["/p/x", "/f/x"] {
        assert_eq!(cached(&site.get(target)), "MISS");
        site.get_until(target, "the page to expire", |response| cached(response) == "STALE");
    }
    assert!(origin.wait_for(2) && fcgi.wait_for(2));
    let file = format!("{} /a.txt ", site.setup().path("www/a.txt").display());
    let (asked, run) = (origin.requests(), fcgi.requests());
    assert!(asked[0].field("X-File").is_some_and(|value| value.starts_with(&file)), "{:?}", asked[0]);
    assert_eq!(asked[0].fields, asked[1].fields);
    assert_eq!(run[0].params, run[1].params);
}

#[test]
fn a_hit_keeps_the_pace_that_the_origin_asked_for() {
    let origin = Origin::start().unwrap();
    let body = vec![b'x'; 15_000];
    origin.answer("*", Answer::ok(body.clone()).field("X-Accel-Limit-Rate", "10000"));
    let site = Setup::new().one_worker().name("ORIGIN", origin.address()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m;
         server {
            listen 127.0.0.1:{PORT};
            add_header X-Cache $upstream_cache_status;
            location / { proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 1h; }
         }",
    );
    site.get("/p");
    site.get_until("/p", "the page", |response| cached(response) == "HIT");
    let mut client = site.client();
    for _ in 0..2 {
        let began = Instant::now();
        let hit = get_on(&mut client, "/p");
        assert_eq!((cached(&hit), hit.body == body), ("HIT", true));
        // The pace is what is measured: what goes beyond the first second's worth has to wait for that second.
        assert!(began.elapsed() >= Duration::from_millis(400), "{:?}", began.elapsed());
    }
}
