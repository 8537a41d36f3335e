//! Compresses pages on threads of its own, so that no worker has to.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

/// How many pages may wait for compression while a client waits for them. Beyond this, pages are sent uncompressed.
const QUICK_WAITING_MAX: usize = 256;
/// How many pages may wait for compression with no client waiting ([`Compressor::later`]).
const HARD_WAITING_MAX: usize = 1024;
/// How much nicer than a worker the thread runs for which no client waits (setpriority(2)).
const HARD_NICENESS: i32 = 15;

/// A piece of work for a thread.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads. They start with the first page to compress.
#[derive(Default)]
pub struct Compressor {
    quick: OnceLock<Option<SyncSender<Job>>>,
    hard: OnceLock<Option<SyncSender<Job>>>,
}

impl Compressor {
    /// Does work that a client waits for; false if too much is waiting already.
    pub fn soon(&self, job: Job) -> bool {
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        let queue = self.quick.get_or_init(|| start("compress", threads, QUICK_WAITING_MAX, 0));
        queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok())
    }

    /// Does work that no client waits for; false if too much is waiting already.
    pub fn later(&self, job: Job) -> bool {
        let queue = self.hard.get_or_init(|| start("compress hard", 1, HARD_WAITING_MAX, HARD_NICENESS));
        queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok())
    }
}

/// Starts threads that work through a queue; `None` if none can be started.
fn start(name: &str, threads: usize, waiting_max: usize, niceness: i32) -> Option<SyncSender<Job>> {
    let (sender, receiver) = sync_channel::<Job>(waiting_max);
    let receiver = std::sync::Arc::new(Mutex::new(receiver));
    let mut started = 0;
    for _ in 0..threads {
        let receiver = std::sync::Arc::clone(&receiver);
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || run(&receiver, niceness));
        started += usize::from(thread.is_ok());
    }
    (started > 0).then_some(sender)
}

/// Works until the process ends.
fn run(receiver: &Mutex<Receiver<Job>>, niceness: i32) {
    if niceness != 0 {
        // On Linux this sets the priority of this thread alone. If it fails, the thread still works.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness);
    }
    loop {
        let job = receiver.lock().recv();
        match job {
            // If the compressor panics on a page, the page is sent as it is, and the next one is tried.
            Ok(job) => drop(catch_unwind(AssertUnwindSafe(job))),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_done_and_too_many_are_refused() {
        let compressor = Compressor::default();
        let (done, all) = std::sync::mpsc::channel();
        let (begun, begins) = std::sync::mpsc::channel();
        let (open, gate) = sync_channel::<()>(0);
        assert!(compressor.later(Box::new(move || {
            let _ = begun.send(());
            let _ = gate.recv();
        })));
        begins.recv().expect("the thread takes the job");
        let taken = (0..HARD_WAITING_MAX + 2)
            .filter(|_| {
                let done = done.clone();
                compressor.later(Box::new(move || {
                    let _ = done.send(());
                }))
            })
            .count();
        assert_eq!(taken, HARD_WAITING_MAX);
        drop((open, done));
        assert_eq!(all.iter().count(), taken);
    }
}
