//! Pages in slices: `slice`.

use larder_testkit::{Answer, Client, HandConnection, HandOrigin, Http2Client, Http2Request, Origin, unpacked};

use crate::site::{Setup, Site, cached, get, get_on, text};

const SITE: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    log_format slices '$request_uri $status $body_bytes_sent $upstream_cache_status';
    access_log access.log slices;
    server {
        listen 127.0.0.1:{PORT};
        add_header X-Cache $upstream_cache_status;
        slice 4k;
        proxy_http_version 1.1;
        proxy_set_header Range $slice_range;
        proxy_cache pages;
        proxy_cache_key $uri$slice_range;
        proxy_cache_valid 200 206 {VALID};
        proxy_cache_lock on; proxy_cache_lock_timeout 1m; proxy_cache_lock_age 1m;
        {MORE}
        location / { proxy_pass http://{ORIGIN}; }
    }";

const SLICE: usize = 4096;

fn site(origin: impl ToString, valid: &str, more: &str) -> Site {
    Setup::new()
        .one_worker()
        .name("ORIGIN", origin)
        .name("VALID", valid)
        .name("MORE", more)
        .file("www/page", page())
        .start(SITE)
}

/// Three slices, the last of which is shorter.
fn page() -> Vec<u8> {
    (0..SLICE * 2 + 100).map(|at| b'a' + (at / 7 % 26) as u8).collect()
}

/// Takes the next request, which must be for the slice that begins at `start`.
fn asked_for(origin: &mut HandOrigin, start: usize) -> HandConnection {
    let mut fetch = origin.accept().unwrap();
    let request = fetch.request().unwrap().unwrap();
    assert_eq!(request.field("Range"), Some(&*format!("bytes={start}-{}", start + SLICE - 1)));
    fetch
}

/// The head of the slice that begins at `start`.
fn head(start: usize, etag: &str) -> String {
    let end = (start + SLICE).min(page().len());
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {start}-{}/{}\r\nContent-Length: {}\r\n{etag}\r\n",
        end - 1,
        page().len(),
        end - start
    )
}

fn slice(start: usize) -> Vec<u8> {
    page()[start..(start + SLICE).min(page().len())].to_vec()
}

fn send_slice(fetch: &mut HandConnection, start: usize, etag: &str) {
    fetch.send(head(start, etag)).unwrap();
    fetch.send(slice(start)).unwrap();
}

/// Asks for `/page` and reads the head of the answer once the first slice has begun.
fn begin(site: &Site, origin: &mut HandOrigin, etag: &str) -> (Client, HandConnection) {
    let mut client = site.client();
    client.send(get("/page").as_bytes()).unwrap();
    let mut fetch = asked_for(origin, 0);
    fetch.send(head(0, etag)).unwrap();
    (client, fetch)
}

#[test]
fn slices_go_out_as_they_arrive_and_the_next_is_asked_for_then() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(origin.address(), "1h", "");
    let (mut client, mut fetch) = begin(&site, &mut origin, "");
    fetch.send(&slice(0)[..2000]).unwrap();
    let response = client.read_head().unwrap();
    assert_eq!(response.field("Content-Length"), Some(&*page().len().to_string()));
    assert_eq!((response.status, response.field("Content-Range")), (200, None));
    assert_eq!(client.read_bytes(2000).unwrap(), page()[..2000]);
    assert!(origin.try_accept().unwrap().is_none(), "one slice is fetched at a time");
    fetch.send(&slice(0)[2000..]).unwrap();
    let mut second = asked_for(&mut origin, SLICE);
    second.send(head(SLICE, "")).unwrap();
    second.send(&slice(SLICE)[..2000]).unwrap();
    assert_eq!(client.read_bytes(SLICE).unwrap(), page()[2000..SLICE + 2000]);
    second.send(&slice(SLICE)[2000..]).unwrap();
    send_slice(&mut asked_for(&mut origin, SLICE * 2), SLICE * 2, "");
    assert_eq!(client.read_bytes(SLICE - 2000 + 100).unwrap(), page()[SLICE + 2000..]);
    let again = get_on(&mut client, "/page");
    assert_eq!((cached(&again), &again.body), ("HIT", &page()), "and the connection is in order");
}

#[test]
fn a_slice_that_is_being_fetched_is_shared() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(origin.address(), "1h", "");
    let (mut first, mut fetch) = begin(&site, &mut origin, "");
    first.read_head().unwrap();
    let mut second = site.client();
    second.send(b"GET /page HTTP/1.1\r\nHost: a\r\nRange: bytes=5-9\r\n\r\n").unwrap();
    let mut part = second.read_head().unwrap();
    assert_eq!(part.field("Content-Range"), Some(&*format!("bytes 5-9/{}", page().len())));
    fetch.send(slice(0)).unwrap();
    second.read_body(&mut part).unwrap();
    assert_eq!(part.body, page()[5..10]);
}

#[test]
fn a_slice_that_cannot_be_had_ends_the_response_where_it_is_missing() {
    for (answer, says) in [
        ("HTTP/1.1 502 Bad\r\nContent-Length: 0\r\n\r\n".to_owned(), "unexpected status code 502 in slice response"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_owned(), "unexpected status code 200 in slice response"),
        (head(0, "ETag: \"1\"\r\n"), "unexpected range in slice response: 0-4096, expected: 4096-4096"),
        (head(SLICE, "ETag: \"2\"\r\n"), "etag mismatch in slice response"),
        (head(SLICE, ""), "etag mismatch in slice response"),
        (String::new(), "unexpected status code 502 in slice response"),
        (
            head(SLICE, "ETag: \"1\"\r\n").replace("Content-Length: 4096", "Content-Length: 4097"),
            "unexpected length in slice response: 4097, expected: 4096",
        ),
    ] {
        let mut origin = HandOrigin::start().unwrap();
        let site = site(origin.address(), "1h", "");
        let (mut client, mut fetch) = begin(&site, &mut origin, "ETag: \"1\"\r\n");
        fetch.send(slice(0)).unwrap();
        client.read_head().unwrap();
        let mut second = asked_for(&mut origin, SLICE);
        second.send(&answer).unwrap();
        second.finish().unwrap();
        assert_eq!(client.read_to_end().unwrap(), slice(0), "{says}");
        site.wait_for_log(says);
        site.wait_for_text("access.log", &format!("/page 200 {SLICE} MISS"));
        // What was wrong is not kept, and what was right is.
        let mut again = site.client();
        again.send(get("/page").as_bytes()).unwrap();
        assert_eq!(cached(&again.read_head().unwrap()), "HIT");
        send_slice(&mut asked_for(&mut origin, SLICE), SLICE, "ETag: \"1\"\r\n");
        send_slice(&mut asked_for(&mut origin, SLICE * 2), SLICE * 2, "ETag: \"1\"\r\n");
        assert_eq!(again.read_bytes(page().len()).unwrap(), page(), "{says}");
    }
}

#[test]
fn a_slice_whose_body_is_too_short_ends_the_response() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(origin.address(), "1h", "");
    let mut client = site.client();
    client.send(get("/page").as_bytes()).unwrap();
    let mut fetch = asked_for(&mut origin, 0);
    let length = format!("Content-Length: {SLICE}");
    fetch.send(head(0, "").replace(&length, "Transfer-Encoding: chunked")).unwrap();
    fetch.send("3\r\nabc\r\n0\r\n\r\n").unwrap();
    assert_eq!(client.read_head().unwrap().status, 200);
    assert_eq!(client.read_to_end().unwrap(), b"abc");
}

#[test]
fn a_stale_slice_is_delivered_while_it_is_refetched_as_a_slice() {
    let origin = Origin::start().unwrap();
    let site = site(origin.address(), "1s", "proxy_cache_use_stale updating; proxy_cache_background_update on;");
    let answer = |mark: &str| {
        Answer::status("206 Partial Content").field("Content-Range", "bytes 0-2/3").body(mark.as_bytes().to_vec())
    };
    origin.answer("/short", answer("old"));
    assert_eq!(text(&site.get("/short")), "old");
    origin.answer("/short", answer("new"));
    site.get_until("/short", "the slice is stale", |response| cached(response) == "STALE");
    let fresh = site.get_until("/short", "the slice is new", |response| text(response) == "new");
    assert_eq!(fresh.status, 200);
    for request in origin.requests() {
        assert_eq!(request.field("Range"), Some("bytes=0-4095"));
    }
}

#[test]
fn a_client_that_leaves_takes_no_slice_with_it() {
    let mut origin = HandOrigin::start().unwrap();
    let site = site(origin.address(), "1h", "");
    let (mut client, mut fetch) = begin(&site, &mut origin, "");
    client.read_head().unwrap();
    drop(client);
    fetch.send(slice(0)).unwrap();
    let mut next = site.client();
    next.send(b"GET /page HTTP/1.1\r\nHost: a\r\nRange: bytes=0-9\r\n\r\n").unwrap();
    assert_eq!(next.read_response("GET").unwrap().body, page()[..10]);
}

/// A larder in front of itself: whatever is sent on has to be the page.
const MIRROR: &str = "
    proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=100m;
    server {
        listen 127.0.0.1:{PORT}; http2 on;
        add_header X-Cache $upstream_cache_status;
        slice 100k;
        proxy_http_version 1.1;
        proxy_set_header Range $slice_range;
        proxy_cache_key $uri$slice_range;
        proxy_cache_valid 200 206 1h;
        location / { proxy_pass http://127.0.0.1:{PORT2}; proxy_cache pages; }
        location /gzip/ { proxy_pass http://127.0.0.1:{PORT2}/; gzip on; gzip_types text/plain; proxy_cache pages; }
        location /uncached/ { proxy_pass http://127.0.0.1:{PORT2}/; }
        location /whole/ { proxy_pass http://127.0.0.1:{PORT2}/; max_ranges 0; }
    }
    server { listen 127.0.0.1:{PORT2}; default_type text/plain; location / { } }";

fn big() -> Vec<u8> {
    (0..1_234_567_u32).flat_map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()).step_by(3).collect()
}

#[test]
fn a_big_page_is_the_same_in_slices() {
    let site = Setup::new().file("www/big", big()).start(MIRROR);
    let big = big();
    for path in ["/big", "/big", "/uncached/big", "/whole/big", "/gzip/big"] {
        assert!(site.get(path).body == big, "{path}");
        for (range, part) in
            [("bytes=150000-1000000", 150_000..1_000_001), ("bytes=-300000", big.len() - 300_000..big.len())]
        {
            let response = site.ask("GET", path, &format!("Range: {range}\r\n"));
            if path.starts_with("/whole") {
                assert!(response.status == 200 && response.body == big, "{range} of {path}");
            } else {
                assert!(response.status == 206 && response.body == big[part], "{range} of {path}");
            }
        }
    }
    let mut http2 = Http2Client::connect(site.setup().address()).unwrap();
    for path in ["/big", "/uncached/big"] {
        assert!(http2.get(path).unwrap().body == big, "{path} by HTTP/2");
        let request = Http2Request::get(path).field("range", "bytes=150000-1000000");
        let response = http2.exchange(&request).unwrap();
        assert!(response.status == 206 && response.body == big[150_000..1_000_001], "a range of {path} by HTTP/2");
    }
    for range in ["", "Range: bytes=150000-1000000\r\n"] {
        let response = site.ask("GET", "/gzip/big", &format!("Accept-Encoding: gzip\r\n{range}"));
        assert_eq!((response.status, response.field("Content-Encoding")), (200, Some("gzip")), "{range}");
        assert!(unpacked("gzip", &response.body) == big, "{range}");
    }
}
