//! Tests pages by bans before anybody asks for them, so that what is banned makes room and bans are forgotten: the lurker
//! of Varnish.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use larder_cache::Zone;
use larder_http::Time;
use parking_lot::Mutex;

use crate::clock;
use crate::site::Caches;

/// How often it looks whether there is something to do.
const INTERVAL: Duration = Duration::from_secs(1);
/// How old a ban is before pages are tested by it, where no VCL says that: most pages that are asked for often were
/// tested by then.
const AGE: Duration = Duration::from_secs(60);
/// How long it works at a time, and how many times as long it rests then.
const TURN: Duration = Duration::from_millis(2);
const REST: u32 = 9;
/// How much nicer than a worker the thread runs (setpriority(2)).
const NICENESS: i32 = 15;

/// What it looks after.
#[derive(Default)]
pub struct Lurker {
    /// Guards what is looked after. Not held while it looks.
    domain: Mutex<(Vec<Arc<Zone>>, Duration)>,
}

impl Lurker {
    /// Starts the thread, which ends when nobody holds the lurker any more.
    pub fn start() -> Arc<Lurker> {
        let lurker = Arc::new(Lurker::default());
        let weak = Arc::downgrade(&lurker);
        // If no thread can be started, pages are tested when they are asked for.
        let _ = thread::Builder::new().name("lurker".into()).spawn(move || run(&weak));
        lurker
    }

    /// Looks after these caches from now on.
    pub fn follow(&self, caches: &Caches) {
        *self.domain.lock() = (caches.zones.clone(), caches.lurker_age.unwrap_or(AGE));
    }
}

fn run(lurker: &Weak<Lurker>) {
    // On Linux this sets the priority of this thread alone. If it fails, the thread still works.
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
    loop {
        thread::sleep(INTERVAL);
        let Some((zones, age)) = lurker.upgrade().map(|lurker| lurker.domain.lock().clone()) else { return };
        for zone in zones {
            let now = clock::now();
            let mut began = clock::steady();
            zone.look_ahead(before(now, age), now, || {
                let busy = clock::steady().saturating_sub(began);
                if busy >= TURN {
                    thread::sleep(busy * REST);
                    began = clock::steady();
                }
                lurker.strong_count() > 0
            });
        }
    }
}

fn before(now: Time, age: Duration) -> Time {
    Time(now.0.saturating_sub(u64::try_from(age.as_millis()).unwrap_or(u64::MAX)))
}
