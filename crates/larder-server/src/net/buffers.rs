//! Buffers that a worker lends to whoever is at work, so that a connection which waits holds none.

use std::cell::RefCell;

/// How much a worker reads at once, at least.
const READ_BYTES: usize = 32 * 1024;
/// How many buffers for frames wait to be used again, and how large one may have grown.
const FRAME_BUFFERS_MAX: usize = 64;
const FRAME_BYTES_KEPT: usize = 256 * 1024;

/// What a worker lends.
pub struct Buffers {
    /// Lent to whichever connection has become readable.
    pub read: RefCell<Vec<u8>>,
    /// Lent for the head of a response.
    pub write: RefCell<Vec<u8>>,
    /// Lent for what is read of a file and does not go out by `sendfile`.
    pub file: RefCell<Vec<u8>>,
    /// Lent to the TLS connection at hand.
    pub records: RefCell<Records>,
    /// For frames of HTTP/2; a connection has one while it has something to say.
    frames: RefCell<Vec<Vec<u8>>>,
}

/// What is lent to the TLS connection at hand.
#[derive(Default)]
pub struct Records {
    /// Records that came.
    pub incoming: Vec<u8>,
    /// What was in them.
    pub plain: Vec<u8>,
    /// Records that go out.
    pub outgoing: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            read: RefCell::new(vec![0; READ_BYTES]),
            write: RefCell::new(Vec::with_capacity(READ_BYTES)),
            file: RefCell::default(),
            records: RefCell::default(),
            frames: RefCell::default(),
        }
    }
}

impl Buffers {
    /// An empty buffer for frames.
    pub fn frames(&self) -> Vec<u8> {
        self.frames.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// Takes such a buffer back.
    pub fn take_frames(&self, mut buffer: Vec<u8>) {
        let mut frames = self.frames.borrow_mut();
        if frames.len() < FRAME_BUFFERS_MAX && buffer.capacity() <= FRAME_BYTES_KEPT {
            buffer.clear();
            frames.push(buffer);
        }
    }
}

/// Makes a lent buffer at least this long. It never gets shorter, so that nothing is cleared twice.
pub fn ensure(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}
