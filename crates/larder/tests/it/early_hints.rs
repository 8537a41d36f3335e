//! 103 of an origin (RFC 8297), passed on to who waits for its answer. nginx has the directive since 1.29.

use larder_testkit::{Client, Frame, FrameKind, HandOrigin, Http2Client, RawHttp2};

use crate::site::{Setup, Site, asked, get_on, text};
use crate::tls::is_nginx;

const HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload; as=style\r\n\
    Set-Cookie: a=b\r\nServer: origin\r\nX-Accel-Redirect: /other\r\nContent-Length: 7\r\nConnection: x\r\n\
    Transfer-Encoding: chunked\r\nUpgrade: h2c\r\n\r\n";
const PAGE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nLink: </style.css>\r\n\r\npage";

fn site(origin: &HandOrigin) -> Site {
    Setup::new().name("ORIGIN", origin.address().to_string()).start(
        "proxy_cache_path {DIR}/pages keys_zone=pages:1m max_size=10m;
         map $arg_hints $hints { default 1; no 0; none ''; }
         server {
            listen 127.0.0.1:{PORT}; listen 127.0.0.1:{PORT2} http2;
            proxy_http_version 1.1; proxy_buffer_size 1k;
            location / { proxy_pass http://{ORIGIN}; }
            location /hinted/ { proxy_pass http://{ORIGIN}; early_hints '' $hints; }
            location /stored/ { proxy_pass http://{ORIGIN}; early_hints 1; proxy_cache pages; proxy_cache_valid 1h;
                proxy_cache_lock on; add_header X-Cache $upstream_cache_status; } }",
    )
}

/// Reads a 103 and looks at what is in it.
fn assert_hint(client: &mut Client) {
    let hint = client.read_head().unwrap();
    assert_eq!((hint.status, hint.field("Link")), (103, Some("</style.css>; rel=preload; as=style")));
    assert_eq!(hint.fields.len(), 2, "{:?}", hint.fields);
    assert_eq!(hint.field("Set-Cookie"), Some("a=b"));
}

#[test]
fn hints_come_before_the_answer() {
    if is_nginx() {
        return;
    }
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let (mut client, mut fetch) = asked(&site, &mut origin, "/hinted/a");
    fetch.send(HINTS).unwrap();
    assert_hint(&mut client);
    // As many as there are.
    fetch.send(HINTS).unwrap();
    assert_hint(&mut client);
    fetch.send(PAGE).unwrap();
    let page = client.read_response("GET").unwrap();
    assert_eq!((page.status, text(&page).as_str(), page.field("Link")), (200, "page", Some("</style.css>")));
    // What comes together goes out together, in order.
    client.send(b"GET /hinted/b HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    fetch.send([HINTS, HINTS, PAGE].concat()).unwrap();
    assert_hint(&mut client);
    assert_hint(&mut client);
    assert_eq!(text(&client.read_response("GET").unwrap()), "page");
}

#[test]
fn hints_are_for_who_can_read_them_where_they_are_asked_for() {
    if is_nginx() {
        return;
    }
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    for request in [
        "GET /a HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hinted/a?hints=no HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hinted/a?hints=none HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /hinted/a HTTP/1.0\r\nHost: a\r\n\r\n",
    ] {
        let mut client = site.client();
        client.send(request.as_bytes()).unwrap();
        let mut fetch = origin.accept().unwrap();
        fetch.request().unwrap();
        fetch.send([HINTS, PAGE].concat()).unwrap();
        assert_eq!(client.read_response("GET").unwrap().status, 200, "{request}");
    }
    // Without an answer behind them they are none.
    let (mut client, mut fetch) = asked(&site, &mut origin, "/hinted/a");
    fetch.send(HINTS).unwrap();
    assert_hint(&mut client);
    drop(fetch);
    assert_eq!(client.read_response("GET").unwrap().status, 502);
    // What is larger than a head may be is left out.
    let (mut client, mut fetch) = asked(&site, &mut origin, "/hinted/a");
    let large = format!("HTTP/1.1 103 Early Hints\r\nLink: <{}>\r\n\r\n", "a".repeat(900));
    fetch.send([&large, &large, &large, PAGE].concat()).unwrap();
    assert_eq!(client.read_head().unwrap().status, 103);
    assert_eq!(client.read_response("GET").unwrap().status, 200);
    // And nobody sends them for ever.
    let (mut client, mut fetch) = asked(&site, &mut origin, "/hinted/a");
    fetch.send("HTTP/1.1 103\r\nA: b\r\n\r\n".repeat(33)).unwrap();
    for _ in 0..32 {
        assert_eq!(client.read_head().unwrap().field("A"), Some("b"));
    }
    assert_eq!(client.read_response("GET").unwrap().status, 502);
}

#[test]
fn a_hit_has_no_hints_and_neither_has_who_waited() {
    if is_nginx() {
        return;
    }
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let (mut client, mut fetch) = asked(&site, &mut origin, "/stored/a");
    let mut other = site.client();
    other.send(b"GET /stored/a HTTP/1.1\r\nHost: site.test\r\n\r\n").unwrap();
    fetch.send(HINTS).unwrap();
    assert_hint(&mut client);
    fetch.send(PAGE).unwrap();
    assert_eq!(client.read_response("GET").unwrap().field("X-Cache"), Some("MISS"));
    assert_eq!(text(&other.read_response("GET").unwrap()), "page");
    let hit = get_on(&mut client, "/stored/a");
    assert_eq!((hit.status, hit.field("X-Cache"), hit.field("Set-Cookie")), (200, Some("HIT"), None));
}

#[test]
fn hints_go_out_by_http_2() {
    if is_nginx() {
        return;
    }
    let mut origin = HandOrigin::start().unwrap();
    let site = site(&origin);
    let mut client = RawHttp2::open(site.setup().other_address(), &[]).unwrap();
    client.send_frame(&Frame::get(1, "/hinted/a")).unwrap();
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    let mut head = || loop {
        let frame = client.read_frame().unwrap().unwrap();
        if frame.kind == FrameKind::Headers {
            return frame;
        }
    };
    // Its status is 103, and `link`, entry 45 of the static table, comes first.
    let begins = [8, 3, b'1', b'0', b'3', 0x0f, 45 - 15];
    fetch.send(HINTS).unwrap();
    for sent_next in [HINTS, PAGE] {
        let hint = head();
        assert!(hint.payload.starts_with(&begins) && !hint.ends_stream() && hint.stream == 1, "{hint:?}");
        fetch.send(sent_next).unwrap();
    }
    let page = client.answer(1).unwrap();
    assert_eq!((page.status, page.body.as_slice()), (Some(200), &b"page"[..]));
    // A client that reads both.
    let mut client = Http2Client::connect(site.setup().other_address()).unwrap();
    let asking = std::thread::spawn(move || client.get("/hinted/b").unwrap());
    let mut fetch = origin.accept().unwrap();
    fetch.request().unwrap();
    fetch.send([HINTS, HINTS, PAGE].concat()).unwrap();
    let page = asking.join().unwrap();
    assert_eq!((page.status, text(&page).as_str()), (200, "page"));
}
