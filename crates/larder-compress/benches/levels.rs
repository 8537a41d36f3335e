//! What each level costs and gives: `cargo bench -p larder-compress -- page.html...`, a made page without arguments.
//!
//! The numbers that `Effort::Hard` was chosen by. The fastest of some runs.

use std::hint::black_box;
use std::time::{Duration, Instant};

use larder_compress::{Coding, Effort, compress};

fn main() {
    let paths: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with("--")).collect();
    let pages: Vec<(String, Vec<u8>)> = if paths.is_empty() {
        [10, 40, 100].map(|kb| (format!("a made page of {kb} KB"), made_page(kb * 1024))).into()
    } else {
        paths.into_iter().map(|path| (path.clone(), std::fs::read(&path).unwrap_or_default())).collect()
    };
    for (name, page) in &pages {
        println!("\n{name}: {} bytes", page.len());
        levels(page, Coding::Gzip, &[1, 4, 6, 9]);
        levels(page, Coding::Brotli, &[1, 4, 5, 6, 7, 8, 9, 10, 11]);
        levels(page, Coding::Zstd, &[1, 3, 6, 9, 12, 15, 17, 19]);
    }
}

fn levels(page: &[u8], coding: Coding, levels: &[u32]) {
    for &level in levels {
        let once = || compress(std::iter::once(page), coding, Effort::Quick(level)).map_or(0, |out| out.len());
        let (len, millis) = best(once);
        println!(
            "{:4} {level:2}: {len:7} bytes {:5.1} %, {millis:7.3} ms",
            coding.name(),
            len as f64 / page.len() as f64 * 100.0
        );
    }
}

/// What `work` gives, and the milliseconds of its fastest run.
fn best(mut work: impl FnMut() -> usize) -> (usize, f64) {
    let mut given = 0;
    let mut fastest = Duration::MAX;
    let begun = Instant::now();
    for _ in 0..RUNS_MAX {
        let start = Instant::now();
        given = black_box(work());
        fastest = fastest.min(start.elapsed());
        if begun.elapsed() > ENOUGH {
            break;
        }
    }
    (given, fastest.as_secs_f64() * 1e3)
}

/// A page as a site makes them: the same frame around words that follow Zipf's law.
fn made_page(len: usize) -> Vec<u8> {
    let mut seed = 1_u64;
    let mut random = move |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let mut page =
        b"<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>A page</title></head><body>".to_vec();
    while page.len() < len {
        let number = random(10_000);
        page.extend_from_slice(
            format!("<article id=\"post-{number}\" class=\"post type-post status-publish hentry\"><h2><a href=\"/post/{number}\">").as_bytes(),
        );
        for _ in 0..random(120) + 20 {
            let most = random(2000) + 1;
            let word = random(most);
            page.extend_from_slice(
                format!("{}{} ", SYLLABLES[(word % 16) as usize], SYLLABLES[(word / 16 % 16) as usize]).as_bytes(),
            );
            if word > 256 {
                page.extend_from_slice(SYLLABLES[(word / 256) as usize % 16].as_bytes());
            }
        }
        page.extend_from_slice(b"</p></article>\n");
    }
    page.truncate(len);
    page
}

const SYLLABLES: [&str; 16] =
    ["an", "be", "con", "de", "er", "for", "ing", "la", "men", "no", "or", "pre", "re", "sta", "ti", "ver"];

const RUNS_MAX: usize = 200;
const ENOUGH: Duration = Duration::from_millis(300);
