//! A hit from head to log line over a kept connection: CPU time of the worker, system calls and all.
//!
//! `cargo bench -p larder-server --bench hit`

mod site;

use site::{Keep, Site};

const HITS: usize = 100_000;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` runs this too, and only wants to know that it works.
    let hits = if std::env::args().any(|argument| argument == "--bench") { HITS } else { 100 };
    let site = Site::start(site::PAGE_BYTES, "access_log off;", "add_header X-Cache $upstream_cache_status;");
    let mut client = Keep::connect(site.port());
    client.get(100);
    for round in 1..=ROUNDS {
        let before = worker_nanos();
        client.get(hits);
        let per_hit = (worker_nanos() - before) / hits as u64;
        println!("round {round}: {per_hit} ns of the worker's CPU a hit");
    }
}

/// What the worker thread has used, from the kernel's accounting.
fn worker_nanos() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("Linux has /proc");
    tasks
        .flatten()
        .filter(|task| std::fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.starts_with("worker")))
        .filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok())
        .sum()
}
