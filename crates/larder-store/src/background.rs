//! Threads for work that nobody waits for.

use std::io;
use std::thread::{Builder, JoinHandle};

/// How much less than those who answer requests such threads count (setpriority(2)): a quarter of a busy CPU is enough to
/// keep a disk busy, and no visitor should wait while a batch is copied.
const NICENESS: i32 = 5;

/// Starts one.
pub(crate) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(move || {
        // Of this thread alone, as Linux has it. One that cannot be made less urgent works all the same.
        let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
        run();
    })
}
