//! A buffer for reads that each thread lends, so that whoever waits for an origin holds none.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

thread_local! {
    static SPARE: Cell<Option<Box<[u8]>>> = const { Cell::new(None) };
}

/// The buffer of this thread, until it is dropped. What is in it must be copied by then.
pub(crate) struct Scratch(Box<[u8]>);

/// Room for a whole FastCGI record, and for most pages.
pub(crate) const SCRATCH_BYTES: usize = 64 << 10;

impl Scratch {
    /// Lends the buffer. If it is lent already, this is another one.
    pub(crate) fn lend() -> Scratch {
        Scratch(SPARE.take().unwrap_or_else(|| vec![0; SCRATCH_BYTES].into()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        SPARE.set(Some(std::mem::take(&mut self.0)));
    }
}

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_lends_the_same_buffer_again() {
        let mut one = Scratch::lend();
        one[0] = 1;
        let other = Scratch::lend();
        assert_eq!((one[0], other[0], other.len()), (1, 0, SCRATCH_BYTES));
        drop(other);
        drop(one);
        assert_eq!(Scratch::lend()[0], 1);
    }
}
