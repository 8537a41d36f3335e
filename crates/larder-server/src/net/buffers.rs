//! Buffers that a worker lends to the connection at work, so that a waiting connection holds none.

use std::cell::RefCell;

use bytes::{Bytes, BytesMut};

/// The least that a worker reads at once, bytes.
const READ_BYTES: usize = 32 * 1024;
/// How many buffers for frames are kept for reuse, and how large each may have grown.
const FRAME_BUFFERS_MAX: usize = 64;
const FRAME_BYTES_KEPT: usize = 256 * 1024;
/// The room that short shared bytes are cut from; little, as what waits for long holds all of it.
const SHARED_BYTES: usize = 4 * 1024;

/// The buffers of a worker.
pub struct Buffers {
    /// For the connection that has just become readable.
    pub read: RefCell<Vec<u8>>,
    /// For the head of a response.
    pub write: RefCell<Vec<u8>>,
    /// For bytes of a file that cannot go out by `sendfile`.
    pub file: RefCell<Vec<u8>>,
    /// For the TLS connection at work.
    pub records: RefCell<Records>,
    /// Where short shared bytes are cut from.
    shared: RefCell<BytesMut>,
    /// For frames of HTTP/2; a connection holds one while it has something to send.
    frames: RefCell<Vec<Vec<u8>>>,
}

/// The buffers of the TLS connection at work.
#[derive(Default)]
pub struct Records {
    /// Records that arrived.
    pub incoming: Vec<u8>,
    /// Their plaintext.
    pub plain: Vec<u8>,
    /// Records to be sent.
    pub outgoing: Vec<u8>,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            read: RefCell::new(vec![0; READ_BYTES]),
            write: RefCell::new(Vec::with_capacity(READ_BYTES)),
            file: RefCell::default(),
            records: RefCell::default(),
            shared: RefCell::default(),
            frames: RefCell::default(),
        }
    }
}

impl Buffers {
    /// A copy of bytes, to be shared. Short ones, such as the head of a request to an origin, are allocated many at once.
    pub fn shared(&self, bytes: &[u8]) -> Bytes {
        if bytes.len() > SHARED_BYTES / 2 {
            return Bytes::copy_from_slice(bytes);
        }
        let mut room = self.shared.borrow_mut();
        if room.capacity() < bytes.len() {
            room.reserve(SHARED_BYTES);
        }
        room.extend_from_slice(bytes);
        room.split().freeze()
    }

    /// Lends an empty buffer for frames.
    pub fn frames(&self) -> Vec<u8> {
        self.frames.borrow_mut().pop().unwrap_or_else(|| Vec::with_capacity(READ_BYTES))
    }

    /// Takes a buffer for frames back.
    pub fn take_frames(&self, mut buffer: Vec<u8>) {
        let mut frames = self.frames.borrow_mut();
        if frames.len() < FRAME_BUFFERS_MAX && buffer.capacity() <= FRAME_BYTES_KEPT {
            buffer.clear();
            frames.push(buffer);
        }
    }
}

/// Makes a lent buffer at least this long. It never shrinks, so that no byte is cleared twice.
pub fn ensure(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}
