//! The socket at which a server is asked: with an nginx.conf, beside its pid file.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use larder_conf::model::LogLevel;
use larder_server::ask::{self, Desk};

use crate::log::Log;
use crate::oserror::CallFailed;
use crate::pidfile::beside;
use crate::serve_socket;
use crate::tell_socket::TellSocket;

/// What the name of the socket beside the pid file ends with.
pub const EXTENSION: &str = "ask";

/// Listens there, for root or for the account that runs the server. A server goes on without it.
pub fn listen(pid_path: &Path, log: &Log) -> Option<(TellSocket, UnixListener)> {
    listen_at(&beside(pid_path, EXTENSION), log)
}

/// Listens for the questions to a `larder serve`.
pub fn listen_for_serve(listen: SocketAddr, log: &Log) -> Option<(TellSocket, UnixListener)> {
    match serve_socket::make_path(listen) {
        Ok(path) => listen_at(&path, log),
        Err(error) => {
            log.write(LogLevel::Notice, &format!("{NOBODY_ASKS}: {}", CallFailed::new("mkdir", error)));
            None
        }
    }
}

fn listen_at(path: &Path, log: &Log) -> Option<(TellSocket, UnixListener)> {
    match TellSocket::listen_privately(path) {
        Ok(listening) => Some(listening),
        Err(error) => {
            let why = CallFailed::on("bind", path.display(), error);
            log.write(LogLevel::Notice, &format!("{NOBODY_ASKS}: {why}"));
            None
        }
    }
}

/// After a reload: the socket goes where the pid file is now.
pub fn follow(socket: Option<&mut TellSocket>, pid_path: &Path, log: &Log) {
    let path = beside(pid_path, EXTENSION);
    let Some(socket) = socket.filter(|socket| socket.path() != path) else { return };
    if let Err(error) = socket.move_to(&path) {
        let (now, why) = (socket.path().display(), CallFailed::on("rename", path.display(), error));
        let what = "until the next start, larder why, larder explain and larder purge find this server by";
        log.write(LogLevel::Warn, &format!("{what} \"{now}\" alone, of the former pid file (--pid): {why}"));
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
