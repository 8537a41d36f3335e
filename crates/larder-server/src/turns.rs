//! Makes heavy work of a worker take turns, so that light work waits for one piece of it, not for all.

use std::rc::Rc;

use tokio::sync::Semaphore;
use tokio::task::{spawn_local, yield_now};

/// How much of a body is read from an origin or sent to a client before others get a turn. Where bytes are copied this
/// is about 20 µs of work, compared to which a turn of the loop is cheap.
pub const TRANSFER_STEP_BYTES: usize = 64 * 1024;

/// One kind of heavy work. In each turn of the event loop one waiting task gets its turn, first come, first served; all
/// other work that is ready runs in between.
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

    /// As [`next`](Self::next), for a future that shares its task with others: a wake-up for them must not end the
    /// wait.
    pub async fn next_beside_others(&self) {
        // The semaphore is never closed.
        let _turn = self.one.acquire().await;
        // The task cannot panic, and is aborted only with the runtime.
        let _ = spawn_local(yield_now()).await;
    }

    /// Does one piece of work when it is its turn. Then all other work that is ready runs first.
    pub async fn take<R>(&self, work: impl FnOnce() -> R) -> R {
        // The semaphore is never closed.
        let _turn = self.one.acquire().await;
        let done = work();
        yield_now().await;
        done
    }
}

/// A large transfer, which lets others run after every [`TRANSFER_STEP_BYTES`].
#[derive(Debug)]
pub struct Transfer {
    turns: Rc<Turns>,
    /// How many bytes were moved since others had a turn.
    bytes: usize,
}

impl Transfer {
    /// A transfer that takes these turns.
    pub fn new(turns: &Rc<Turns>) -> Self {
        Self { turns: Rc::clone(turns), bytes: 0 }
    }

    /// Counts bytes that were moved.
    pub fn count(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// Lets others run if a step's worth was moved.
    pub async fn give_way(&mut self) {
        if self.is_due() {
            self.turns.next().await;
        }
    }

    /// As [`give_way`](Self::give_way), for a future that shares its task with others.
    pub async fn give_way_beside_others(&mut self) {
        if self.is_due() {
            self.turns.next_beside_others().await;
        }
    }

    /// Whether a step's worth was moved; if so, counts from 0 again.
    fn is_due(&mut self) -> bool {
        let is_due = self.bytes >= TRANSFER_STEP_BYTES;
        if is_due {
            self.bytes = 0;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::io::Write as _;
    use std::task::Poll;

    use tokio::io::AsyncReadExt as _;
    use tokio::net::UnixStream;

    use super::*;

    /// How many pieces of heavy work are done, at most, while a task with light work waits for the next turn of the
    /// loop.
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

    #[tokio::test(flavor = "local")]
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
        assert_eq!(between(waiting).await, 1);
        assert_eq!(between(working).await, 1);
    }

    #[tokio::test(flavor = "local")]
    async fn one_that_is_woken_all_the_time_lets_sockets_in_after_each_piece() {
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair can be had");
        theirs.set_nonblocking(true).expect("it is a socket");
        let mut theirs = UnixStream::from_std(theirs).expect("there is a runtime");
        let work = async move {
            let (turns, done) = (Turns::default(), Rc::new(Cell::new(0)));
            let counted = Rc::clone(&done);
            let wakes = poll_fn(|task| {
                task.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            let works = async move {
                loop {
                    turns.next_beside_others().await;
                    counted.set(counted.get() + 1);
                }
            };
            spawn_local(async move { tokio::join!(wakes, works) });
            let mut most = 0;
            for _ in 0..20 {
                let before = done.get();
                ours.write_all(b"x").expect("there is room");
                theirs.read_u8().await.expect("a byte has come");
                most = most.max(done.get() - before);
            }
            most
        };
        let most = work.await;
        assert!(most <= 2, "{most} pieces");
    }
}
