//! The socket at which a server with an nginx.conf is asked: beside its pid file.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_server::ask::{self, Desk};

use crate::log::Log;
use crate::oserror::CallFailed;
use crate::pidfile::beside;
use crate::tell_socket::TellSocket;

/// What the name of the socket beside the pid file ends with.
pub const EXTENSION: &str = "ask";

/// Listens there, for root or for the account that runs the server. A server goes on without it.
pub fn listen(pid_path: &Path, log: &Log) -> Option<(TellSocket, UnixListener)> {
    let path = beside(pid_path, EXTENSION);
    match TellSocket::listen_privately(&path) {
        Ok(listening) => Some(listening),
        Err(error) => {
            let why = CallFailed::on("bind", path.display(), error);
            log.write(LogLevel::Notice, &format!("{NOBODY_ASKS}: {why}"));
            None
        }
    }
}

/// Answers at the socket, if there is one.
pub fn serve(socket: Option<OwnedFd>) -> Arc<Desk> {
    let desk = Arc::<Desk>::default();
    if let Some(socket) = socket
        && let Err(error) = answer(UnixListener::from(socket), &desk)
    {
        eprintln!("larder: [error] {NOBODY_ASKS}: {}", CallFailed::new("thread", error));
    }
    desk
}

/// Answers at a socket.
pub fn answer(listener: UnixListener, desk: &Arc<Desk>) -> io::Result<()> {
    ask::serve(listener, Arc::clone(desk))
}

/// What does not work without the socket.
pub const NOBODY_ASKS: &str = "larder why, larder explain and larder purge will find no server";
