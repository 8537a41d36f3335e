//! Asks a server for its counters, over the socket in its folder.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::point::{self, Point, ReadError};
use crate::told::Unread;

/// Why there are no counters.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be asked.
    #[error(transparent)]
    Unread(#[from] Unread),
    /// The server tells something else.
    #[error("{}: {source}", path.display())]
    Told {
        /// The socket.
        path: PathBuf,
        /// What is wrong with it.
        source: ReadError,
    },
}

/// Asks the server whose socket is `socket`, once.
pub fn once(socket: &Path) -> Result<Vec<Point>, AskError> {
    let failed = |error| Unread::of(error, "counters", socket);
    let stream = UnixStream::connect(socket).map_err(failed)?;
    stream.set_read_timeout(Some(READ_PATIENCE)).map_err(failed)?;
    let mut text = String::new();
    stream.take(TEXT_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
    point::read(&text).map_err(|source| AskError::Told { path: socket.to_owned(), source })
}

/// The same, again and again until there are counters, or `patience` is over; `None` for ever.
pub fn waiting(socket: &Path, patience: Option<Duration>) -> Result<Vec<Point>, AskError> {
    let began = Instant::now();
    loop {
        match once(socket) {
            Err(AskError::Unread(Unread::NoServer { .. }) | AskError::Told { .. })
                if patience.is_none_or(|patience| began.elapsed() < patience) =>
            {
                thread::sleep(ASK_EVERY)
            }
            told => return told,
        }
    }
}

/// How long a server may be silent: it may be loading a VCL.
const READ_PATIENCE: Duration = Duration::from_secs(30);
/// How often one that is not there is asked, as by varnishstat.
const ASK_EVERY: Duration = Duration::from_millis(500);
/// More than the counters of ten thousand backends.
const TEXT_BYTES_MAX: u64 = 64 << 20;
