//! The threads that read from the disk what is not in the page cache.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Up to [`THREADS`] threads, started when there is work for them.
#[derive(Default)]
pub(super) struct Readers {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    is_stopped: bool,
}

type Job = Box<dyn FnOnce() + Send>;

impl Readers {
    /// Runs `job` soon. False if too many jobs wait. It works after [`Readers::stop`] too, because bodies are still
    /// being sent then.
    pub(super) fn run(&self, job: Job) -> bool {
        let mut state = self.inner.state.lock();
        if state.jobs.len() >= JOBS_MAX {
            return false;
        }
        state.jobs.push_back(job);
        if state.jobs.len() > state.idle && state.threads < THREADS {
            let inner = Arc::clone(&self.inner);
            let started = std::thread::Builder::new().name("larder-disk-read".into()).spawn(move || inner.work());
            if started.is_ok() {
                state.threads += 1;
            } else if state.threads == 0 {
                state.jobs.pop_back();
                return false;
            }
        }
        drop(state);
        self.inner.woken.notify_one();
        true
    }

    /// Ends the threads when they have done the waiting jobs.
    pub(super) fn stop(&self) {
        self.inner.state.lock().is_stopped = true;
        self.inner.woken.notify_all();
    }
}

impl Inner {
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                drop(state);
                job();
                state = self.state.lock();
                continue;
            }
            if state.is_stopped {
                break;
            }
            state.idle += 1;
            let is_late = self.woken.wait_for(&mut state, IDLE_MAX).timed_out();
            state.idle -= 1;
            if is_late && state.jobs.is_empty() {
                break;
            }
        }
        state.threads -= 1;
    }
}

/// How many reads run at a time: enough for the disk to order them, few enough not to starve the writer.
const THREADS: usize = 4;
/// How many reads may wait; more are misses at once.
const JOBS_MAX: usize = 1024;
/// A thread without work ends after this.
const IDLE_MAX: Duration = Duration::from_secs(10);
