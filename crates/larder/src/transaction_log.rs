//! The transaction log of a server with an nginx.conf: where it is told, and by whom.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use larder_conf::model::{Config, LogLevel, TransactionLogPlace};
use larder_server::vsl::{self, Hub, Settings};

use crate::log::Log;
use crate::oserror::CallFailed;
use crate::pidfile::beside;
use crate::tell_socket::TellSocket;

/// Where it is told: `larder_transaction_log`, or else beside the pid file; `None` if it is off.
pub fn path(config: &Config, pid_path: &Path) -> Option<PathBuf> {
    match &config.main.transaction_log.place {
        TransactionLogPlace::Usual => Some(beside_pid_file(pid_path)),
        TransactionLogPlace::At(path) => Some(path.clone()),
        TransactionLogPlace::Off => None,
    }
}

/// The socket of a server with this pid file, unless it was put elsewhere.
pub fn beside_pid_file(pid_path: &Path) -> PathBuf {
    beside(pid_path, EXTENSION)
}

/// Listens there. A server goes on without it.
pub fn listen(config: &Config, pid_path: &Path, log: &Log) -> Option<(TellSocket, UnixListener)> {
    let path = path(config, pid_path)?;
    match TellSocket::listen(&path) {
        Ok((socket, listener)) => {
            if socket.has_replaced() {
                let place = path.display();
                log.write(LogLevel::Notice, &format!("another process told its transaction log at {place}: now we do"));
            }
            Some((socket, listener))
        }
        Err(error) => {
            let is_asked_for = config.main.transaction_log.place != TransactionLogPlace::Usual;
            let level = if is_asked_for { LogLevel::Error } else { LogLevel::Notice };
            let why = CallFailed::on("bind", path.display(), error);
            log.write(level, &format!("larder varnishlog will find no log: {why}"));
            None
        }
    }
}

/// The log of a process that serves `config`, told at a socket if there is one.
pub fn hub(config: &Config, socket: Option<OwnedFd>) -> Arc<Hub> {
    let hub = Hub::new(settings(config));
    if let Some(socket) = socket
        && let Err(error) = vsl::serve(UnixListener::from(socket), Arc::clone(&hub))
    {
        eprintln!("larder: [error] larder varnishlog will find no log: {}", CallFailed::new("thread", error));
    }
    hub
}

/// After a reload: says where the log is told from now on if the configuration has another place for it, which a process
/// that runs cannot take. With `off`, `socket` is removed, so that nobody new hears anything.
pub fn follow(old: (&Config, &Path), new: (&Config, &Path), socket: Option<&TellSocket>, log: &Log) {
    let wanted = path(new.0, new.1);
    if wanted == path(old.0, old.1) {
        return;
    }
    let now = match (socket, &wanted) {
        (Some(socket), None) => {
            socket.remove();
            return log.write(LogLevel::Notice, "\"larder_transaction_log\" is off now: nobody new can read the log");
        }
        // It is back where the log is told.
        (Some(socket), Some(wanted)) if socket.is_there() && socket.path() == wanted => return,
        (Some(socket), Some(_)) if socket.is_there() => format!("the log is told at {}", socket.path().display()),
        _ => "the log is told nowhere".to_owned(),
    };
    let what = "\"larder_transaction_log\" has another place now: it is used from the next start on; until then";
    log.write(LogLevel::Warn, &format!("{what} {now}"));
}

/// How the log is kept under `config`.
pub fn settings(config: &Config) -> Settings {
    Settings { kept_bytes_max: config.main.transaction_log.kept_bytes, ..Settings::default() }
}

/// What the name of the socket beside the pid file ends with.
const EXTENSION: &str = "vsl";
