//! The body of a request to an origin.

use std::{fs::File, io, sync::Arc};

use bytes::Bytes;
use tokio::sync::mpsc;

/// The body of a request.
#[derive(Debug)]
pub enum RequestBody {
    /// There is none.
    None,
    /// All of it, in memory.
    Memory(Bytes),
    /// All of it, in a file.
    File {
        /// Read from its start, wherever its cursor is.
        file: Arc<File>,
        /// Its length in bytes.
        len: u64,
    },
    /// It is passed on as the client sends it (`*_request_buffering off`). Once anything was taken from `rx`, the
    /// request cannot be sent again.
    Stream {
        /// What has already arrived; it is sent with the head.
        first: Bytes,
        /// The rest. An error fails the fetch, and so does a channel that closes before the end.
        rx: mpsc::Receiver<io::Result<BodyPiece>>,
        /// Its length in bytes, `first` included. If `None`, HTTP/1.1 sends it chunked; FastCGI needs no length.
        len: Option<u64>,
    },
}

/// A piece of a body that is passed on as the client sends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BodyPiece {
    /// Some of it.
    Bytes(Bytes),
    /// The end. It is explicit, so that a dropped sender never makes a part look like the whole.
    End,
}

impl RequestBody {
    /// The same body again, if it can be sent more than once.
    pub(crate) fn again(&self) -> Option<RequestBody> {
        match self {
            RequestBody::None => Some(RequestBody::None),
            RequestBody::Memory(bytes) => Some(RequestBody::Memory(bytes.clone())),
            RequestBody::File { file, len } => Some(RequestBody::File { file: file.clone(), len: *len }),
            RequestBody::Stream { .. } => None,
        }
    }
}
