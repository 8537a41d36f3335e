//! Turns that heavy work of a worker takes, so that light work waits for one piece of it and not for all.

use tokio::sync::Semaphore;
use tokio::task::yield_now;

/// One kind of heavy work. Of everyone who waits for a turn one gets it in a turn of the event loop, first come, first
/// served; in between everything else that is ready runs.
#[derive(Debug)]
pub struct Turns {
    one: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self { one: Semaphore::new(1) }
    }
}

impl Turns {
    /// Waits for the next turn.
    pub async fn next(&self) {
        // The semaphore is never closed.
        let _turn = self.one.acquire().await;
        yield_now().await;
    }

    /// Does one piece of work when it is its turn. After it, all that is ready goes first.
    pub async fn take<R>(&self, work: impl FnOnce() -> R) -> R {
        // The semaphore is never closed.
        let _turn = self.one.acquire().await;
        let done = work();
        yield_now().await;
        done
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// How many pieces of heavy work are done, at most, while someone with light work waits for the loop to come round.
    async fn between<F: Future<Output = ()> + 'static>(heavy: impl Fn(Rc<Turns>, Rc<Cell<usize>>) -> F) -> usize {
        let (turns, done) = (Rc::new(Turns::default()), Rc::new(Cell::new(0)));
        let tasks: Vec<_> = (0..20).map(|_| spawn_local(heavy(Rc::clone(&turns), Rc::clone(&done)))).collect();
        // Everyone has begun.
        yield_now().await;
        let mut most = 0;
        for _ in 0..100 {
            let before = done.get();
            yield_now().await;
            most = most.max(done.get() - before);
        }
        assert!(done.get() >= 50, "{} pieces are done", done.get());
        tasks.iter().for_each(|task| task.abort());
        most
    }

    #[tokio::test(flavor = "current_thread")]
    async fn twenty_who_work_hold_up_who_does_not_by_one_piece() {
        let waiting = |turns: Rc<Turns>, done: Rc<Cell<usize>>| async move {
            loop {
                turns.next().await;
                done.set(done.get() + 1);
            }
        };
        let working = |turns: Rc<Turns>, done: Rc<Cell<usize>>| async move {
            loop {
                turns.take(|| done.set(done.get() + 1)).await;
            }
        };
        LocalSet::new()
            .run_until(async {
                assert_eq!(between(waiting).await, 1);
                assert_eq!(between(working).await, 1);
            })
            .await;
    }
}
