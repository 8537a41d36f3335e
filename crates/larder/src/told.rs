//! The sockets at which servers tell something: why one cannot be read.

use std::io;
use std::path::{Path, PathBuf};

use crate::oserror::Reason;

/// Why a socket or a file of a server cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unread {
    /// Nobody listens there.
    #[error("no server tells its {what} at {}: start one, or name it with -n", path.display())]
    NoServer {
        /// What it would tell.
        what: &'static str,
        /// The socket.
        path: PathBuf,
    },
    /// It belongs to others.
    #[error(
        "{} may not be read by this account: be root, the account of the server, or in its group",
        .0.display()
    )]
    Forbidden(PathBuf),
    /// The system refused something.
    #[error("{} cannot be read {}", path.display(), Reason(source))]
    Failed {
        /// The socket or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl Unread {
    /// What the system has said of the socket at which a server tells `what`.
    pub fn of(error: io::Error, what: &'static str, path: &Path) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::NoServer { what, path: path.to_owned() },
            io::ErrorKind::PermissionDenied => Self::Forbidden(path.to_owned()),
            _ => Self::Failed { path: path.to_owned(), source: error },
        }
    }
}
