//! The queue of a shelf's writer. It is bounded by bytes; adding to it never waits.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::buffer::AlignedBuffer;
use super::debt::{Debt, Debts, Due};
use super::page::Page;
use super::record::Span;

/// Called when a slice was written, or will not be.
pub(super) type SliceDone = Box<dyn FnOnce(Option<Span>) + Send>;

/// Called when everything before it is done; true if all of it is durable.
pub(super) type Ack = Box<dyn FnOnce(bool) + Send>;

/// Why the bans of a shelf are not on its disk. They hold all the same, and it is tried again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotKept {
    /// The list cannot be written.
    #[error("{} cannot be written ({why}), {}", file.display(), if *is_noted {
        "so that the next start drops all pages in its folder"
    } else {
        "and a restart may bring back what is banned"
    })]
    Failed {
        /// The list.
        file: PathBuf,
        /// What the file system said.
        why: String,
        /// The folder has a file that says so to the next process.
        is_noted: bool,
    },
    /// Another process uses the folder.
    #[error("{} is used by another process", .0.display())]
    InUse(PathBuf),
    /// The shelf is out.
    #[error("{} cannot be used now, as the error log says", .0.display())]
    Out(PathBuf),
    /// The shelf has ended.
    #[error("{} is closed", .0.display())]
    Stopped(PathBuf),
}

/// Called when the bans are on the disk, or cannot be written now.
pub(super) type BansKept = Box<dyn FnOnce(Result<(), NotKept>) + Send>;

/// A job for the writer.
pub(super) enum Command {
    Store {
        page: Box<Page>,
        now: u64,
        due: Due,
    },
    Slice {
        pieces: Vec<Bytes>,
        done: SliceDone,
    },
    Remove(Removal),
    /// Gives bans their place: the one with this ticket and those before it.
    Ban {
        ticket: u64,
    },
    /// Write the bans, and tell when they are on the disk.
    KeepBans(BansKept),
    Clear,
    Tick,
    Flush(Ack),
    Stop(Ack),
}

/// The removal of a page: its tombstone is to be written.
#[derive(Clone, Debug)]
pub(super) struct Removal {
    pub(super) key: Box<[u8]>,
    pub(super) variant: Option<u8>,
    pub(super) now: u64,
    pub(super) ticket: u64,
}

/// A batch was written, or not.
pub(super) struct Written {
    pub(super) buffer: AlignedBuffer,
    pub(super) result: io::Result<()>,
}

/// What the writer does next.
pub(super) enum Next {
    Command(Command),
    Debt(Debt),
    Written(Written),
    Timeout,
}

/// Commands in order, and the result of the running write.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    woken: Condvar,
}

#[derive(Default)]
struct State {
    commands: VecDeque<(Command, usize)>,
    written: Option<Written>,
    bytes: usize,
    debts: Debts,
    is_closed: bool,
}

impl State {
    /// Whether a command has to queue behind owed pages. Not the head of a body that is already on disk: it costs next
    /// to nothing, and without it that body is lost.
    fn is_behind(&self, command: &Command) -> bool {
        let is_body = matches!(command, Command::Store { page, .. } if page.body.fresh_bytes() > 0);
        is_body && !self.debts.is_empty()
    }
}

impl Queue {
    /// Adds a command of `bytes`. If the queue would have more than `bytes_max`, returns it instead.
    pub(super) fn add(&self, command: Command, bytes: usize, bytes_max: usize) -> Result<(), Command> {
        let mut state = self.state.lock();
        if state.is_closed || state.is_behind(&command) || bytes > 0 && state.bytes + bytes > bytes_max {
            return Err(command);
        }
        state.bytes += bytes;
        state.commands.push_back((command, bytes));
        drop(state);
        self.woken.notify_one();
        Ok(())
    }

    /// Adds a command that does not count.
    pub(super) fn push(&self, command: Command) {
        // It is only refused if the writer has ended; then waiters see their channel closed.
        let _ = self.add(command, 0, 0);
    }

    /// Adds an owed page, which is written when the queue is empty. Returns those that are given up for it.
    pub(super) fn owe(&self, debt: Debt, bytes_max: u64) -> Vec<Debt> {
        let mut state = self.state.lock();
        if state.is_closed {
            return vec![debt];
        }
        let over = state.debts.add(debt, bytes_max);
        drop(state);
        self.woken.notify_one();
        over
    }

    /// The page that has been owed longest.
    pub(super) fn next_debt(&self) -> Option<Debt> {
        self.state.lock().debts.next()
    }

    /// Whether a page is owed.
    pub(super) fn has_debts(&self) -> bool {
        !self.state.lock().debts.is_empty()
    }

    /// Drops debts whose pages are no longer in memory. It does not block others: pages that become owed meanwhile are
    /// put behind.
    pub(super) fn prune_debts(&self) -> Vec<Debt> {
        let mut debts = std::mem::take(&mut self.state.lock().debts);
        let over = debts.prune();
        self.state.lock().debts.put_back(debts);
        over
    }

    /// Drops what waits, and refuses everything from now on.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.bytes = 0;
        let dropped = (std::mem::take(&mut state.commands), std::mem::take(&mut state.debts));
        // Dropped commands may call back.
        drop(state);
        drop(dropped);
    }

    /// The bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// The next job; waits for it up to `patience`. With `with_debts`, owed pages too, after everything else.
    pub(super) fn next(&self, patience: Duration, with_debts: bool) -> Next {
        let mut state = self.state.lock();
        loop {
            if let Some(written) = state.written.take() {
                return Next::Written(written);
            }
            if let Some((command, bytes)) = state.commands.pop_front() {
                state.bytes -= bytes;
                return Next::Command(command);
            }
            if let Some(debt) = with_debts.then(|| state.debts.next()).flatten() {
                return Next::Debt(debt);
            }
            if self.woken.wait_for(&mut state, patience).timed_out()
                && state.commands.is_empty()
                && state.written.is_none()
            {
                return Next::Timeout;
            }
        }
    }

    /// Waits for the result of the running write.
    pub(super) fn written(&self) -> Written {
        let mut state = self.state.lock();
        loop {
            if let Some(written) = state.written.take() {
                return written;
            }
            self.woken.wait(&mut state);
        }
    }

    /// Passes the result of a write to the writer.
    pub(super) fn put_written(&self, written: Written) {
        self.state.lock().written = Some(written);
        self.woken.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::disk::debt::Sums;
    use crate::disk::page::{Owed, PageBody, Payable};

    struct Gone;

    impl Owed for Gone {
        fn page(&self) -> Payable {
            Payable::Gone
        }

        fn is_there(&self) -> bool {
            false
        }
    }

    #[test]
    fn bodies_come_behind_what_is_owed_and_nothing_else_does() {
        let (queue, sums) = (Queue::default(), Arc::new(Sums::default()));
        let store = |body| {
            let page = Page {
                key: b"key"[..].into(),
                variant: 0,
                head: Bytes::new(),
                body,
                expires_at: 2000,
                cost_micros: 0,
                holds: None,
            };
            Command::Store { page: Box::new(page), now: 1000, due: Due::new(&sums, 10) }
        };
        let body = || PageBody::Memory(vec![Bytes::from_static(b"body")]);
        assert!(queue.add(store(body()), 10, 100).is_ok());
        assert!(queue.owe(Debt { owed: Box::new(Gone), now: 1000, due: Due::new(&sums, 10) }, 100).is_empty());
        assert!(queue.add(store(body()), 10, 100).is_err());
        assert!(queue.add(store(PageBody::Memory(Vec::new())), 10, 100).is_ok());
        assert!(queue.add(Command::Tick, 0, 100).is_ok());
        drop(queue.next_debt());
        assert!(queue.add(store(body()), 10, 100).is_ok());
    }
}
