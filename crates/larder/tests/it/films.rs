//! Films from a time or a byte on, over every way there is to a client. What is cut from which film is asked of nginx by
//! the oracle, and of tables in larder-server.

use larder_testkit::{Film, Http2Client, Http2Request, Layout};

use crate::site::{Setup, Site};
use crate::tls::is_nginx;

fn films() -> (Site, Vec<u8>) {
    let file = Film::of_seconds(600).write(Layout { has_offsets: true, ..Layout::default() });
    let site = Setup::new().file("www/a.mp4", file.clone()).file("www/broken.mp4", &file[..file.len() - 1]).start(
        "server { listen 127.0.0.1:{PORT}; listen 127.0.0.1:{PORT2} http2;
            location / { mp4; }
            location /small/ { alias {DIR}/www/; mp4; mp4_buffer_size 10k; mp4_max_buffer_size 20k; } }",
    );
    (site, file)
}

#[test]
fn a_film_begins_where_the_viewer_wants() {
    let (site, file) = films();
    let whole = Film::read(&file).unwrap();
    for (query, first, count) in [("start=300", 0.5, 0.5), ("start=0.5&end=300", 0.0, 0.5), ("end=60", 0.0, 0.1)] {
        let target = format!("/a.mp4?{query}");
        let answer = site.get(&target);
        assert_eq!(answer.status, 200, "{target}");
        let film = Film::read(&answer.body).unwrap();
        for (all, cut) in whole.tracks.iter().zip(&film.tracks) {
            let about = |share: f64| (all.samples.len() as f64 * share) as usize;
            let near = |a: usize, b: usize| a.abs_diff(b) < all.samples.len() / 50;
            assert!(near(cut.samples.len(), about(count)), "{target}: {}", cut.samples.len());
            let at = all.samples.iter().position(|sample| *sample == cut.samples[0]).unwrap();
            assert!(near(at, about(first)), "{target}: {at}");
            assert_eq!(cut.samples, all.samples[at..at + cut.samples.len()], "{target}");
        }
        let mut client = Http2Client::connect(site.setup().other_address()).unwrap();
        assert!(client.get(&target).unwrap().body == answer.body, "{target}");
        let length = answer.body.len();
        // Where the new tables end and the film begins does not show.
        for at in (0..length - 10).step_by(length / 40) {
            let range = format!("bytes={at}-{}", at + length / 40 + 5);
            let part = site.ask("GET", &target, &format!("Range: {range}\r\n"));
            let end = (at + length / 40 + 6).min(length);
            assert!(part.status == 206 && part.body == answer.body[at..end], "{target} {range}");
            let same = client.exchange(&Http2Request::get(&target).field("range", &range)).unwrap();
            assert!(same.status == 206 && same.body == part.body, "{target} {range}");
        }
        let head = site.ask("HEAD", &target, "");
        assert_eq!(head.field("Content-Length"), Some(length.to_string().as_str()), "{target}");
    }
}

#[test]
fn a_film_is_cut_for_many_at_once() {
    let (site, _) = films();
    let target = "/a.mp4?start=200&end=220";
    let film = site.get(target).body;
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| assert!(site.get(target).body == film));
        }
    });
}

#[test]
fn a_film_whose_tables_are_too_large_or_broken_is_an_error() {
    let (site, _) = films();
    for (target, status, said) in [
        ("/a.mp4?start=1", 200, None),
        ("/small/a.mp4?start=1", 500, Some("moov atom is too large")),
        ("/small/a.mp4", 200, None),
        ("/broken.mp4?start=1", 500, Some("atom too large")),
        ("/a.mp4?start=700", 500, Some("start time exceeds file duration")),
    ] {
        assert_eq!(site.get(target).status, status, "{target}");
        if let Some(said) = said {
            site.wait_for_log(said);
        }
    }
}

#[test]
fn several_parts_of_a_film_of_flash_are_the_whole() {
    let site =
        Setup::new().file("www/a.flv", "0123456789").start("server { listen 127.0.0.1:{PORT}; location / { flv; } }");
    if is_nginx() {
        // It closes the connection.
        return;
    }
    let answer = site.ask("GET", "/a.flv?start=5", "Range: bytes=0-2,12-14\r\n");
    assert_eq!((answer.status, &answer.body[..]), (200, &b"FLV\x01\x05\0\0\0\x09\0\0\0\x0056789"[..]));
}
