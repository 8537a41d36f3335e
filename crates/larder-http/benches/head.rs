//! How long it takes to read the head of a request. `cargo bench -p larder-http`.

use std::hint::black_box;
use std::time::Instant;

use larder_http::{HeadLimits, RequestHead, body_framing, check_host, keep_alive_wanted, normalise, parse_request};

const BROWSER: &[u8] = b"GET /2024/05/a-post-with-a-long-name/?utm_source=mail HTTP/1.1\r\n\
Host: www.example.org\r\n\
User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:126.0) Gecko/20100101 Firefox/126.0\r\n\
Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
Accept-Language: en-US,en;q=0.5\r\n\
Accept-Encoding: gzip, deflate, br, zstd\r\n\
Referer: https://www.example.org/\r\n\
Connection: keep-alive\r\n\
Upgrade-Insecure-Requests: 1\r\n\
Cookie: consent=1; theme=dark\r\n\
Cache-Control: max-age=0\r\n\
\r\n";

const ROUNDS: u32 = 10_000;
const BATCHES: u32 = 200;

fn main() {
    let limits = HeadLimits::default();
    let mut head = RequestHead::new();
    let mut path = Vec::new();
    println!("a head of {} bytes", BROWSER.len());
    measure("parse_request", || {
        black_box(parse_request(black_box(BROWSER), &mut head, &limits)).expect("the head is valid");
    });
    measure("check_host", || {
        black_box(check_host(black_box(&head))).expect("the host is valid");
    });
    measure("body_framing", || {
        black_box(body_framing(black_box(&head))).expect("there is no body");
    });
    measure("keep_alive_wanted", || {
        black_box(keep_alive_wanted(black_box(&head)));
    });
    measure("normalise", || {
        black_box(normalise(black_box(head.target()), true, &mut path)).expect("the target is valid");
    });
}

/// Prints the best of many batches, because the machine may have other things to do.
fn measure(name: &str, mut run: impl FnMut()) {
    let batch = |_| {
        let start = Instant::now();
        for _ in 0..ROUNDS {
            run();
        }
        start.elapsed()
    };
    let best = (0..BATCHES).map(batch).min().unwrap_or_default();
    println!("{name}: {:.0} ns", best.as_nanos() as f64 / f64::from(ROUNDS));
}
