//! How many pipes of VCLs there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The pipes of the process.
#[derive(Debug, Default)]
pub struct Pipes(AtomicU32);

/// One of them, while it lasts.
#[derive(Debug)]
pub struct Pipe(Arc<Pipes>);

impl Pipes {
    /// How many there are now.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Another one, unless there are `most` already; 0 is for any number.
    pub fn enter(self: &Arc<Self>, most: u32) -> Option<Pipe> {
        let pipe = Pipe(Arc::clone(self));
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        // Who comes too late counts until it is dropped, here.
        (most == 0 || before < most).then_some(pipe)
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_may_be() {
        let pipes = Arc::new(Pipes::default());
        let two = [pipes.enter(2), pipes.enter(2)];
        assert!(two.iter().all(Option::is_some) && pipes.enter(2).is_none());
        assert_eq!(pipes.count(), 2);
        let any = pipes.enter(0);
        assert!(any.is_some());
        drop((two, any));
        assert!(pipes.enter(1).is_some());
    }
}
