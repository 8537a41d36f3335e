//! Asks a server for its counters, over the socket in its folder.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::point::{self, Point, ReadError};
use crate::oserror::Reason;

/// Why there are no counters.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// Nobody listens there.
    #[error(
        "no \"larder varnishd\" runs in {}: start one, or name the folder of another with -n, as it was started with",
        .0.display()
    )]
    NoServer(PathBuf),
    /// The socket belongs to others.
    #[error(
        "{} may not be read by this account: be root, the account of the server, or in its group",
        .0.display()
    )]
    Forbidden(PathBuf),
    /// The system refused something.
    #[error("{} cannot be read {}", path.display(), Reason(source))]
    Failed {
        /// The socket.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
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
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            AskError::NoServer(socket.parent().unwrap_or(socket).to_owned())
        }
        io::ErrorKind::PermissionDenied => AskError::Forbidden(socket.to_owned()),
        _ => AskError::Failed { path: socket.to_owned(), source: error },
    };
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
            Err(AskError::NoServer(_) | AskError::Told { .. })
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
