//! HTTP/2 as nobody means well speaks it: each connection is ended or holds nothing, and others are served meanwhile.

use std::time::{Duration, Instant};

use larder_testkit::{Answer, Frame, FrameKind, Http2Client, Origin, RawEnd, RawHttp2, children_of, request_block};

use crate::site::{Setup, Site};

/// How long a server may take to end a connection that floods it, or to stop reading.
const SOON: Duration = Duration::from_secs(5);
/// What all connections of a test may cost.
const MEMORY_BYTES_MAX: u64 = 100 << 20;
/// Codes of RFC 9113 §7.
const PROTOCOL_ERROR: u32 = 1;
const FLOW_CONTROL_ERROR: u32 = 3;
const FRAME_SIZE_ERROR: u32 = 6;
const COMPRESSION_ERROR: u32 = 9;
const ENHANCE_YOUR_CALM: u32 = 11;

const SITE: &str = "
    server {
        listen 127.0.0.1:{PORT} http2;
        client_header_timeout 2s; client_body_timeout 2s; send_timeout 2s; keepalive_timeout 2s;
        location / { }
        location /here { return 200 here; }
        location /o/ { proxy_pass http://{ORIGIN}; }
    }";

/// A site whose memory is watched.
struct Besieged {
    site: Site,
    origin: Origin,
    memory_before: u64,
}

fn besieged() -> Besieged {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let large = vec![b'a'; 8 << 20];
    let site = Setup::new().name("ORIGIN", origin.address()).file("www/large", large).start(SITE);
    let mut besieged = Besieged { site, origin, memory_before: 0 };
    besieged.serves("before anything");
    besieged.memory_before = besieged.memory();
    besieged
}

impl Besieged {
    fn attacker(&self) -> RawHttp2 {
        RawHttp2::open(self.site.setup().address(), &[]).unwrap()
    }

    /// Resident bytes of the processes that serve.
    fn memory(&self) -> u64 {
        let pages = |process: u32| {
            let statm = std::fs::read_to_string(format!("/proc/{process}/statm")).unwrap_or_default();
            statm.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0_u64)
        };
        children_of(self.site.server().pid()).into_iter().map(pages).sum::<u64>() * 4096
    }

    /// Somebody else is served at once.
    fn serves(&self, when: &str) {
        let begun = Instant::now();
        let mut client = Http2Client::connect(self.site.setup().address()).unwrap();
        assert_eq!(client.get("/here").map(|response| response.status), Ok(200), "{when}");
        assert!(begun.elapsed() < SOON, "{when}: {:?}", begun.elapsed());
    }

    /// Nobody was hurt, and memory did not grow by much.
    fn stands(&self, when: &str) {
        self.serves(when);
        let grown = self.memory().saturating_sub(self.memory_before);
        assert!(grown < MEMORY_BYTES_MAX, "{when}: {grown} bytes more");
        assert!(!self.site.server().error_log().contains("panicked"), "{}", self.site.server().error_log());
    }
}

/// Whether a flood was answered as it may be: an end that names a code of these, or no more reading.
#[track_caller]
fn ended(attacker: &mut RawHttp2, codes: &[u32], what: &str) {
    match attacker.end_within(SOON) {
        RawEnd::GoAway(code) => assert!(codes.contains(&code), "{what}: code {code}"),
        // The GOAWAY may be lost where the server closes with bytes of ours unread.
        RawEnd::Closed => {}
        RawEnd::Open => panic!("{what}: the connection is still open"),
    }
}

/// A head that leaves its stream open.
fn post(stream: u32, path: &str) -> Frame {
    let block =
        request_block(&[(":method", "POST"), (":scheme", "http"), (":authority", "site.test"), (":path", path)]);
    Frame::new(FrameKind::Headers, 4, stream, block)
}

/// The number of the stream that is opened so many times after the first.
fn stream(number: usize) -> u32 {
    u32::try_from(number * 2 + 1).unwrap()
}

#[test]
fn streams_opened_and_reset_at_once_end_the_connection() {
    let besieged = besieged();
    let hold = besieged.origin.hold("*");
    for path in ["/here", "/o/slow"] {
        let mut attacker = besieged.attacker();
        let sent = attacker.flood(200_000, SOON, |number| {
            [Frame::get(stream(number), path).to_bytes(), Frame::reset(stream(number), 8).to_bytes()].concat()
        });
        besieged.stands(path);
        // nginx before 1.25.3 bears it as long as it can keep up. What is answered at once is no attack, and ends
        // with the number of requests that a connection may have.
        let end = attacker.end_within(SOON);
        assert!(
            crate::tls::is_nginx() || matches!(end, RawEnd::GoAway(0 | ENHANCE_YOUR_CALM) | RawEnd::Closed),
            "{path}: {end:?} after {sent}"
        );
        assert!(crate::tls::is_nginx() || besieged.origin.count() < 2000, "{path}: {}", besieged.origin.count());
    }
    drop(hold);
}

#[test]
fn streams_whose_resets_the_server_is_made_to_send_end_the_connection() {
    let besieged = besieged();
    let hold = besieged.origin.hold("*");
    let mut attacker = besieged.attacker();
    // A WINDOW_UPDATE of nothing is an error of its stream, for which the server resets it (CVE-2025-8671).
    attacker.flood(100_000, SOON, |number| {
        [Frame::get(stream(number), "/o/slow").to_bytes(), Frame::window_update(stream(number), 0).to_bytes()].concat()
    });
    besieged.stands("resets of the server's own");
    let end = attacker.end_within(SOON);
    assert!(crate::tls::is_nginx() || matches!(end, RawEnd::GoAway(_) | RawEnd::Closed), "{end:?}");
    assert!(crate::tls::is_nginx() || besieged.origin.count() < 2000, "{}", besieged.origin.count());
    drop(hold);
}

#[test]
fn a_head_without_end_is_cut_off() {
    let besieged = besieged();
    for (what, payload) in [
        ("large pieces", request_block(&[("x-a", &"v".repeat(4000))])),
        ("empty pieces", Vec::new()),
        ("small pieces", request_block(&[("x", "")])),
    ] {
        let mut attacker = besieged.attacker();
        let start = request_block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/here")]);
        attacker.send_frame(&Frame::new(FrameKind::Headers, 1, 1, start)).unwrap();
        attacker.flood(200_000, SOON, |_| Frame::new(FrameKind::Continuation, 0, 1, payload.clone()).to_bytes());
        besieged.stands(what);
        // nginx reads on where nothing is said, at no cost but time.
        if crate::tls::is_nginx() && payload.is_empty() {
            continue;
        }
        ended(&mut attacker, &[ENHANCE_YOUR_CALM, PROTOCOL_ERROR, COMPRESSION_ERROR], what);
    }
}

#[test]
fn floods_of_frames_that_ask_for_nothing_hold_nothing() {
    let besieged = besieged();
    let ping = Frame::new(FrameKind::Ping, 0, 0, [0; 8]).to_bytes();
    let settings = Frame::settings(&[(3, 100)]).to_bytes();
    let acknowledged = Frame::new(FrameKind::Ping, 1, 0, [0; 8]).to_bytes();
    let unknown = [0, 0, 0, 0xee, 0, 0, 0, 0, 0].to_vec();
    let mut priority = Frame::new(FrameKind::Priority, 0, 1, [0, 0, 0, 0, 16]);
    for (what, frame) in [
        ("PING", Some(ping)),
        ("SETTINGS", Some(settings)),
        ("PING that answers nothing", Some(acknowledged)),
        ("unknown frames", Some(unknown)),
        ("PRIORITY", None),
    ] {
        let mut attacker = besieged.attacker();
        // The answers are not read: a server that queued them all would hold them all.
        attacker.flood(300_000, SOON, |number| match &frame {
            Some(frame) => frame.clone(),
            None => {
                priority.stream = stream(number);
                priority.to_bytes()
            }
        });
        besieged.stands(what);
    }
}

#[test]
fn floods_on_a_stream_that_is_open_hold_nothing() {
    let besieged = besieged();
    for (what, frame) in [
        ("empty DATA", Frame::new(FrameKind::Data, 0, 1, Vec::new())),
        ("padding alone", Frame::new(FrameKind::Data, 8, 1, [&[200][..], &[0; 200]].concat())),
        ("WINDOW_UPDATE of one", Frame::window_update(1, 1)),
        ("WINDOW_UPDATE of the connection", Frame::window_update(0, 1)),
        ("DATA of one byte", Frame::new(FrameKind::Data, 0, 1, [b'a'])),
    ] {
        let mut attacker = besieged.attacker();
        attacker.send_frame(&post(1, "/o/p")).unwrap();
        attacker.flood(200_000, SOON, |_| frame.to_bytes());
        besieged.stands(what);
    }
}

#[test]
fn a_small_head_does_not_become_a_large_one() {
    let besieged = besieged();
    // A field of 4000 bytes goes into the table once, and is then named by a byte 10 000 times.
    let value = "v".repeat(3900);
    let mut block = request_block(&[(":method", "GET"), (":scheme", "http"), (":authority", "a"), (":path", "/here")]);
    block.extend_from_slice(&[0x40, 1, b'x', 0x7f]);
    let mut rest = value.len() - 127;
    while rest >= 128 {
        block.push(u8::try_from(rest % 128 + 128).unwrap());
        rest /= 128;
    }
    block.push(u8::try_from(rest).unwrap());
    block.extend_from_slice(value.as_bytes());
    block.extend_from_slice(&[0xbe; 10_000]);
    let mut attackers = Vec::new();
    for number in 0..50 {
        let mut attacker = besieged.attacker();
        let (first, second) = block.split_at(block.len() / 2);
        attacker.send_frame(&Frame::new(FrameKind::Headers, 1, 1, first)).unwrap();
        drop(attacker.send_frame(&Frame::new(FrameKind::Continuation, 4, 1, second)));
        if number == 0 {
            // A refusal of the request will do as well as the end of the connection.
            if let Ok(answer) = attacker.answer(1) {
                assert!(answer.reset.is_some() || answer.status.is_none_or(|status| status >= 400), "{answer:?}");
            }
        }
        attackers.push(attacker);
    }
    besieged.stands("HPACK bombs");
}

#[test]
fn frames_against_the_rules_end_the_connection_with_the_right_code() {
    let besieged = besieged();
    let over = Frame::window_update(0, 0x7fff_ffff);
    for (what, frames, codes) in [
        ("a window of more than 2^31 - 1", vec![over], &[FLOW_CONTROL_ERROR][..]),
        ("a frame larger than allowed", vec![Frame::new(FrameKind::Ping, 0, 0, vec![0; 20_000])], &[FRAME_SIZE_ERROR]),
        ("a PING of seven bytes", vec![Frame::new(FrameKind::Ping, 0, 0, [0; 7])], &[FRAME_SIZE_ERROR]),
        ("SETTINGS of five bytes", vec![Frame::new(FrameKind::Settings, 0, 0, [0; 5])], &[FRAME_SIZE_ERROR]),
        ("SETTINGS of a stream", vec![Frame::new(FrameKind::Settings, 0, 1, [])], &[PROTOCOL_ERROR]),
        ("a window that cannot be", vec![Frame::settings(&[(4, 0x8000_0000)])], &[FLOW_CONTROL_ERROR, PROTOCOL_ERROR]),
        ("an even stream", vec![Frame::get(2, "/here")], &[PROTOCOL_ERROR]),
        ("a stream behind the last", vec![Frame::get(5, "/here"), Frame::get(3, "/here")], &[PROTOCOL_ERROR, 5]),
        ("DATA of the connection", vec![Frame::new(FrameKind::Data, 0, 0, [0])], &[PROTOCOL_ERROR]),
        ("a CONTINUATION of nothing", vec![Frame::new(FrameKind::Continuation, 4, 1, [])], &[PROTOCOL_ERROR]),
        (
            "a head that is interrupted",
            vec![
                Frame::new(FrameKind::Headers, 1, 1, request_block(&[(":method", "GET")])),
                Frame::new(FrameKind::Ping, 0, 0, [0; 8]),
            ],
            &[PROTOCOL_ERROR],
        ),
        (
            "a name out of no table",
            vec![Frame::new(FrameKind::Headers, 5, 1, [0xff, 0xff, 0x03])],
            &[COMPRESSION_ERROR],
        ),
        ("a number without end", vec![Frame::new(FrameKind::Headers, 5, 1, [0xff; 30])], &[COMPRESSION_ERROR]),
        (
            "a table larger than allowed",
            vec![Frame::new(FrameKind::Headers, 5, 1, [0x3f, 0xff, 0xff, 0x7f])],
            &[COMPRESSION_ERROR],
        ),
    ] {
        let mut attacker = besieged.attacker();
        for frame in &frames {
            drop(attacker.send_frame(frame));
        }
        ended(&mut attacker, codes, what);
    }
    for noise in [
        &b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n"[..],
        b"PRI * HTTP/2.0\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0",
    ] {
        let mut attacker = RawHttp2::connect(besieged.site.setup().address()).unwrap();
        attacker.send(noise).unwrap();
        // Not HTTP/2: the end, be it after an answer of HTTP/1 or when patience with the rest is over.
        attacker.read_text();
    }
    besieged.stands("frames against the rules");
}

#[test]
fn windows_of_one_byte_get_their_bytes_and_hold_nobody_up() {
    let besieged = besieged();
    let mut attackers = Vec::new();
    for _ in 0..50 {
        let mut attacker = RawHttp2::open(besieged.site.setup().address(), &[(4, 1)]).unwrap();
        for number in 0..20 {
            attacker.send_frame(&Frame::get(stream(number), "/large")).unwrap();
        }
        attackers.push(attacker);
    }
    besieged.stands("a thousand streams of one byte");
    let mut patient = RawHttp2::open(besieged.site.setup().address(), &[(4, 1)]).unwrap();
    patient.send_frame(&Frame::get(1, "/here")).unwrap();
    let mut body = Vec::new();
    while let Some(frame) = patient.read_frame().unwrap() {
        if frame.kind == FrameKind::Data {
            assert!(frame.payload.len() <= 1, "{frame:?}");
            body.extend_from_slice(&frame.payload);
            patient.send_frame(&Frame::window_update(1, 1)).unwrap();
        }
        if frame.ends_stream() {
            break;
        }
    }
    assert_eq!(body, b"here");
}

#[test]
fn a_window_made_smaller_than_what_is_under_way_is_honoured() {
    let besieged = besieged();
    let mut client = RawHttp2::open(besieged.site.setup().address(), &[(4, 30_000)]).unwrap();
    client.send_frame(&Frame::get(1, "/large")).unwrap();
    let mut received = 0;
    while received < 30_000 {
        let frame = client.read_frame().unwrap().unwrap();
        if frame.kind == FrameKind::Data {
            received += frame.payload.len();
        }
    }
    // 20 000 less: what is there is owed, and the first 20 000 bytes of room make up for it.
    client.send_frame(&Frame::settings(&[(4, 10_000)])).unwrap();
    client.send_frame(&Frame::window_update(1, 20_000)).unwrap();
    client.send_frame(&Frame::new(FrameKind::Ping, 0, 0, *b"are you?")).unwrap();
    loop {
        let frame = client.read_frame().unwrap().unwrap();
        assert_ne!(frame.kind, FrameKind::Data, "{} bytes too many", frame.payload.len());
        if frame.kind == FrameKind::Ping {
            break;
        }
    }
    client.send_frame(&Frame::window_update(1, 5_000)).unwrap();
    let mut more = 0;
    while more < 5_000 {
        let frame = client.read_frame().unwrap().unwrap();
        if frame.kind == FrameKind::Data {
            more += frame.payload.len();
        }
    }
    assert_eq!((received, more), (30_000, 5_000));
}

#[test]
fn more_streams_than_allowed_are_refused_and_the_others_answered() {
    let besieged = besieged();
    let hold = besieged.origin.hold("*");
    let mut client = besieged.attacker();
    for number in 0..200 {
        client.send_frame(&Frame::get(stream(number), "/o/slow")).unwrap();
    }
    // 128 at once unless told otherwise; the last one is far beyond.
    let refused = client.answer(stream(199)).unwrap();
    assert_eq!(refused.reset, Some(7), "REFUSED_STREAM: {refused:?}");
    assert!(besieged.origin.count() <= 128, "{}", besieged.origin.count());
    besieged.serves("while streams wait");
    drop(hold);
}

#[test]
fn many_legitimate_requests_on_one_connection_are_no_attack() {
    let origin = Origin::start().unwrap();
    origin.answer("*", Answer::ok("ok"));
    let site = Setup::new()
        .name("ORIGIN", origin.address())
        .start(&SITE.replace("location / { }", "keepalive_requests 1000000;"));
    let mut client = Http2Client::connect(site.setup().address()).unwrap();
    for number in 0..5_000 {
        let response = client.get("/here").unwrap_or_else(|error| panic!("request {number}: {error}"));
        assert_eq!(response.status, 200);
    }
    // An upload in frames as small as they get.
    let upload = larder_testkit::Http2Request::get("/o/p").method("POST").body("");
    let mut exchange = client.start_open(&upload).unwrap();
    for number in 0..20_000 {
        exchange.send(b"abc", false).unwrap_or_else(|error| panic!("piece {number}: {error}"));
    }
    exchange.send(b"", true).unwrap();
    assert_eq!(exchange.finish().unwrap().status, 200);
    assert_eq!(origin.requests()[0].body.len(), 60_000);
    // A page whose reader changes his mind now and then.
    for _ in 0..50 {
        client.start(&larder_testkit::Http2Request::get("/o/q")).unwrap().cancel();
        for _ in 0..5 {
            assert_eq!(client.get("/here").unwrap().status, 200);
        }
    }
}
