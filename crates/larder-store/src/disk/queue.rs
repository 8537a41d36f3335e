//! What waits for the writer of a shelf: bounded by bytes, and never waited for by those who add.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::Page;
use super::record::Span;
use super::writer::Written;

/// Told when a slice is written, or is not.
pub(super) type SliceDone = Box<dyn FnOnce(Option<Span>) + Send>;

/// Told when everything before it is done; true when it all is durable.
pub(super) type Ack = Box<dyn FnOnce(bool) + Send>;

/// Work for the writer.
pub(super) enum Command {
    Store {
        page: Box<Page>,
        now: u64,
    },
    Slice {
        pieces: Vec<Bytes>,
        done: SliceDone,
    },
    Remove(Removal),
    /// Everything under keys that begin so is to be hidden, as far as it is stored by then.
    Ban {
        ticket: u64,
        prefix: Box<[u8]>,
    },
    Clear,
    Tick,
    Flush(Ack),
    Stop(Ack),
}

/// A page is to be removed: the tombstone that makes it last.
#[derive(Clone, Debug)]
pub(super) struct Removal {
    pub(super) key: Box<[u8]>,
    pub(super) variant: Option<u8>,
    pub(super) now: u64,
    pub(super) ticket: u64,
}

/// What the writer does next.
pub(super) enum Next {
    Command(Command),
    Written(Written),
    Timeout,
}

/// Commands in order, and the outcome of the write under way.
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
    is_closed: bool,
}

impl Queue {
    /// Adds what counts for `bytes`, unless that would be more than `bytes_max`. Gives it back then.
    pub(super) fn add(&self, command: Command, bytes: usize, bytes_max: usize) -> Result<(), Command> {
        let mut state = self.state.lock();
        if state.is_closed || bytes > 0 && state.bytes + bytes > bytes_max {
            return Err(command);
        }
        state.bytes += bytes;
        state.commands.push_back((command, bytes));
        drop(state);
        self.woken.notify_one();
        Ok(())
    }

    /// Adds what counts for nothing.
    pub(super) fn push(&self, command: Command) {
        // Refused only when nobody will ever do it; then those who wait for it see their end dropped.
        let _ = self.add(command, 0, 0);
    }

    /// Drops what waits and takes nothing more.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.bytes = 0;
        let dropped = std::mem::take(&mut state.commands);
        // What is dropped may call back.
        drop(state);
        drop(dropped);
    }

    /// The bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// What is next, waited for as long as `patience` says.
    pub(super) fn next(&self, patience: Duration) -> Next {
        let mut state = self.state.lock();
        loop {
            if let Some(written) = state.written.take() {
                return Next::Written(written);
            }
            if let Some((command, bytes)) = state.commands.pop_front() {
                state.bytes -= bytes;
                return Next::Command(command);
            }
            if self.woken.wait_for(&mut state, patience).timed_out()
                && state.commands.is_empty()
                && state.written.is_none()
            {
                return Next::Timeout;
            }
        }
    }

    /// The outcome of the write under way, waited for.
    pub(super) fn written(&self) -> Written {
        let mut state = self.state.lock();
        loop {
            if let Some(written) = state.written.take() {
                return written;
            }
            self.woken.wait(&mut state);
        }
    }

    /// Hands the outcome of a write to the writer.
    pub(super) fn put_written(&self, written: Written) {
        self.state.lock().written = Some(written);
        self.woken.notify_one();
    }
}
