//! Threads that compress pages, so that no worker does.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use parking_lot::Mutex;

/// How many pages may wait to be compressed while somebody waits for them, and otherwise. With more, pages go out as
/// they are.
const QUICK_WAITING_MAX: usize = 256;
/// See [`QUICK_WAITING_MAX`].
const HARD_WAITING_MAX: usize = 1024;
/// How much less than a worker the thread counts that nobody waits for (setpriority(2)).
const HARD_NICENESS: i32 = 15;

/// Something to do.
pub type Job = Box<dyn FnOnce() + Send>;

/// The threads. They start with the first page there is to compress.
#[derive(Default)]
pub struct Compressor {
    quick: OnceLock<Option<SyncSender<Job>>>,
    hard: OnceLock<Option<SyncSender<Job>>>,
}

impl Compressor {
    /// Does something that somebody waits for; false when too much waits already.
    pub fn soon(&self, job: Job) -> bool {
        let threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2));
        let queue = self.quick.get_or_init(|| start("compress", threads, QUICK_WAITING_MAX, 0));
        queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok())
    }

    /// Does something that nobody waits for; false when too much waits already.
    pub fn later(&self, job: Job) -> bool {
        let queue = self.hard.get_or_init(|| start("compress hard", 1, HARD_WAITING_MAX, HARD_NICENESS));
        queue.as_ref().is_some_and(|queue| queue.try_send(job).is_ok())
    }
}

/// Starts threads that work off a queue; `None` when there can be none.
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
        // Of this thread alone, as Linux has it. One that cannot be made less urgent works all the same.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), niceness);
    }
    loop {
        let job = receiver.lock().recv();
        match job {
            // A page that a compressor stumbles over is sent as it is, and the next one is tried.
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
