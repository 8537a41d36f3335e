//! Stored pages that are big enough to lie in the memory file.

use std::os::unix::fs::MetadataExt as _;

use larder_testkit::{Answer, Client, Http2Client, Http2Request, Origin, Tls, unpacked};

use crate::site::{Site, cached, eventually, get, get_on};
use crate::tls::certified;

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    gzip on; gzip_min_length 1;
    server {
        listen 127.0.0.1:{PORT} http2;
        listen 127.0.0.1:{PORT2} ssl http2;
        {ONE}
        location / {
            proxy_pass http://{ORIGIN}; proxy_cache pages; proxy_cache_valid 200 1h; proxy_cache_key $uri;
            proxy_cache_bypass $arg_new; add_header X-Cache $upstream_cache_status;
        }
    }";

/// Around the size at which a page goes there, around a chunk of it, and more than goes out in a turn.
const SIZES: [usize; 7] = [49_151, 49_152, 100_000, 262_144, 262_145, 1 << 20, 3_333_333];

/// Bytes that differ from place to place.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A site with a stored page at `/SIZE` for each size.
fn stored(content_type: &str, body: impl Fn(usize) -> Vec<u8>) -> (Site, Origin, Tls) {
    let (authority, setup) = certified();
    let origin = Origin::start().unwrap();
    for size in SIZES {
        let answer = Answer::ok(body(size)).field("Content-Type", content_type).field("Accept-Ranges", "bytes");
        origin.answer(format!("/{size}").as_str(), answer.field("ETag", "\"v1\""));
    }
    let site = setup.name("ORIGIN", origin.address()).start(SITE);
    for size in SIZES {
        site.get(&format!("/{size}"));
        site.get_until(&format!("/{size}"), "the page", |response| cached(response) == "HIT");
    }
    (site, origin, Tls::new("site.test", &authority))
}

#[test]
fn they_reach_every_client_whole_and_in_parts() {
    let (site, origin, tls) = stored("image/png", pattern);
    let fetched = origin.count();
    let (plain, safe) = (site.setup().address(), site.setup().other_address());
    for size in SIZES {
        let page = pattern(size);
        let parts: [(String, &[u8]); 4] = [
            (String::new(), &page),
            ("bytes=1-1".to_owned(), &page[1..2]),
            (format!("bytes=4095-{}", size - 2), &page[4095..size - 1]),
            ("bytes=-5000".to_owned(), &page[size - 5000..]),
        ];
        for (range, wanted) in &parts {
            let field = if range.is_empty() { String::new() } else { format!("Range: {range}\r\n") };
            let request = format!("GET /{size} HTTP/1.1\r\nHost: site.test\r\n{field}\r\n");
            for mut client in [Client::connect(plain).unwrap(), Client::connect_tls(safe, &tls).unwrap()] {
                // Two at once, so that what follows is in its place too.
                client.send(request.repeat(2).as_bytes()).unwrap();
                for _ in 0..2 {
                    let response = client.read_response("GET").unwrap();
                    assert_eq!(response.status, if range.is_empty() { 200 } else { 206 }, "{size} {range}");
                    assert!(response.body == *wanted, "{size} {range}: {} bytes", response.body.len());
                }
            }
            for mut client in [Http2Client::connect(plain).unwrap(), Http2Client::connect_tls(safe, &tls).unwrap()] {
                let request = Http2Request::get(&format!("/{size}"));
                let request = if range.is_empty() { request } else { request.field("range", range) };
                let two = [client.start(&request).unwrap(), client.start(&request).unwrap()];
                for exchange in two {
                    let response = exchange.finish().unwrap();
                    assert!(response.body == *wanted, "{size} {range}: {} bytes", response.body.len());
                }
            }
        }
        let head = site.ask("HEAD", &format!("/{size}"), "");
        assert_eq!(head.field("Content-Length"), Some(size.to_string().as_str()));

        let several =
            site.ask("GET", &format!("/{size}"), &format!("Range: bytes=0-9999,{}-{}\r\n", size / 2, size - 1));
        assert_eq!(several.status, 206);
        let holds = |part: &[u8]| several.body.windows(part.len()).any(|window| window == part);
        assert!(holds(&page[..1000]) && holds(&page[9000..10_000]) && holds(&page[size - 1000..]), "{size}");
        assert!(several.body.len() > 10_000 + size - size / 2, "{size}");
    }
    assert_eq!(origin.count(), fetched);
}

#[test]
fn they_are_compressed_and_their_forms_may_be_big_too() {
    // Hexadecimal digits at random, which become half as many bytes.
    let (site, _origin, tls) = stored("text/html", |size| {
        let digit = |byte: &u8| b"0123456789abcdef"[usize::from(byte & 15)];
        pattern(size).iter().map(digit).collect()
    });
    for size in SIZES {
        let wanted = site.get(&format!("/{size}")).body;
        assert_eq!(wanted.len(), size);
        let request = format!("GET /{size} HTTP/1.1\r\nHost: site.test\r\nAccept-Encoding: gzip\r\n\r\n");
        for _ in 0..3 {
            let addresses =
                [Client::connect(site.setup().address()), Client::connect_tls(site.setup().other_address(), &tls)];
            for client in addresses {
                let mut client = client.unwrap();
                client.send(request.as_bytes()).unwrap();
                let response = client.read_response("GET").unwrap();
                assert_eq!(response.field("Content-Encoding"), Some("gzip"), "{size}");
                assert!(unpacked("gzip", &response.body) == wanted, "{size}");
            }
        }
    }
}

#[test]
fn what_is_on_its_way_stays_as_it_is_and_its_memory_comes_back() {
    let (site, origin, tls) = stored("image/png", pattern);
    let size = 3_333_333;
    let page = pattern(size);
    let target = format!("/{size}");
    let (plain, safe) = (site.setup().address(), site.setup().other_address());
    let mut readers = Vec::new();
    for mut client in [Client::connect(plain).unwrap(), Client::connect_tls(safe, &tls).unwrap()] {
        client.send(get(&target).as_bytes()).unwrap();
        let head = client.read_head().unwrap();
        readers.push((client, head));
    }
    // Other pages take its place, one after the other, while the kernel still has parts of it to send.
    for round in 1..=5_u8 {
        let other: Vec<u8> = page.iter().map(|byte| byte.wrapping_add(round)).collect();
        origin.answer(target.as_str(), Answer::ok(other.clone()));
        site.get(&format!("{target}?new=1"));
        site.get_until(&target, "the new page", |response| cached(response) == "HIT" && response.body == other);
    }
    for (mut client, mut response) in readers {
        client.read_body(&mut response).unwrap();
        assert!(response.body == page);
        assert_eq!(get_on(&mut client, "/49152").body, pattern(49_152));
    }
    // Whole pages, whatever the size of one.
    let pages: u64 = SIZES.iter().map(|&size| (size as u64).next_multiple_of(65_536)).sum();
    eventually("the memory of the old pages to come back", || memory_file_bytes(&site) <= pages);
    assert!(memory_file_bytes(&site) > 0, "pages are in it");
}

/// How much memory the memory files of the serving process take.
fn memory_file_bytes(site: &Site) -> u64 {
    let folder = format!("/proc/{}/fd", site.serving_process());
    let open = std::fs::read_dir(folder).unwrap().flatten();
    let is_memory = |path: &std::path::Path| {
        std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:larder pages"))
    };
    open.map(|entry| entry.path())
        .filter(|path| is_memory(path))
        .filter_map(|path| std::fs::metadata(path).ok())
        .map(|file| file.blocks() * 512)
        .sum()
}
