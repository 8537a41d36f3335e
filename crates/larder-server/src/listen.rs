//! Accepts connections; each worker has sockets of its own.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_conf::model::{ListenAddress, LogLevel};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SocketFlags, acceptfrom_with, getsockname};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::clock;
use crate::conn::h1::Connection;
use crate::conn::open;
use crate::exchange::{Client, Secured};
use crate::net::socket::{Haste, Socket};
use crate::net::stream::Stream;
use crate::worker::Worker;

/// How long accepting pauses after an error, such as too many open files.
const REST: Duration = Duration::from_millis(500);
/// How many connections one listener accepts before others get a turn.
const BURST: u32 = 64;

/// Numbers the connections of the process, for the logs.
#[derive(Clone, Debug, Default)]
pub struct ConnectionIds(Arc<AtomicU64>);

impl ConnectionIds {
    /// The next number.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A listening socket.
struct Listener {
    /// tokio's listeners register every socket that they accept; its streams can be waited for and used by system calls
    /// of one's own.
    socket: TcpStream,
    /// The address of every connection that is accepted; `None` for a wildcard, where each has its own.
    local: Option<SocketAddr>,
    is_tcp: bool,
    haste: Rc<Haste>,
}

/// A connection that was accepted.
struct Accepted {
    socket: Socket,
    peer: Option<SocketAddr>,
    ids: Option<(u32, u32)>,
    local: Option<SocketAddr>,
}

impl Listener {
    fn new(address: &ListenAddress, fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        let (is_tcp, local) = match address {
            ListenAddress::Tcp(address) => (true, Some(*address).filter(|address| !address.ip().is_unspecified())),
            ListenAddress::Unix(_) => (false, None),
        };
        if is_tcp {
            // A response is one write or ends with MSG_MORE, so waiting for more bytes would only delay it. The sockets
            // of connections inherit this.
            rustix::net::sockopt::set_tcp_nodelay(&fd, true)?;
        }
        Ok(Self { socket: TcpStream::from_std(std::net::TcpStream::from(fd))?, local, is_tcp, haste: Rc::default() })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        let accept = || Ok(acceptfrom_with(&self.socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?);
        let (fd, peer) = self.socket.async_io(Interest::READABLE, accept).await?;
        let (peer, local) = match (self.is_tcp, self.local) {
            (false, _) => (None, None),
            (true, Some(local)) => (peer, Some(local)),
            (true, None) => (peer, Some(getsockname(&fd)?.try_into()?)),
        };
        let peer = peer.map(SocketAddr::try_from).transpose()?;
        let ids = if self.is_tcp { None } else { socket_peercred(&fd).ok() };
        let ids = ids.map(|ids| (ids.uid.as_raw(), ids.gid.as_raw()));
        Ok(Accepted { socket: Socket::new(fd, &self.haste), peer, ids, local })
    }
}

/// Accepts connections at `address` until the task is aborted.
pub async fn accept(address: ListenAddress, fd: OwnedFd, worker: Rc<Worker>, ids: ConnectionIds) {
    let listener = match Listener::new(&address, fd) {
        Ok(listener) => listener,
        Err(error) => {
            worker.cx().local.logs.main(
                LogLevel::Alert,
                format_args!("a listening socket cannot be used{}", crate::log::io_error_text(&error)),
            );
            return;
        }
    };
    let accepted = Cell::new(0_u32);
    loop {
        worker.gate.counts().accept().await;
        match listener.accept().await {
            Ok(Accepted { socket, peer, ids: client_ids, local }) => {
                let client = Client {
                    id: ids.next(),
                    peer,
                    ids: client_ids,
                    local,
                    bound: address.clone(),
                    began: clock::now(),
                    proxy: None,
                    secured: Secured::Not,
                    xid: Cell::default(),
                    log: RefCell::default(),
                };
                serve(socket, client, &worker);
                accepted.set(accepted.get() + 1);
                if accepted.get().is_multiple_of(BURST) {
                    tokio::task::yield_now().await;
                }
            }
            Err(error) if is_the_clients(&error) => {}
            Err(error) => {
                worker
                    .cx()
                    .local
                    .logs
                    .main(LogLevel::Crit, format_args!("accept4() failed{}", crate::log::io_error_text(&error)));
                tokio::time::sleep(REST).await;
            }
        }
    }
}

/// Serves a connection in a task of its own. One that begins with a request of HTTP/1 needs no opening.
fn serve(socket: Socket, client: Client, worker: &Rc<Worker>) {
    let (worker, seat) = (Rc::clone(worker), worker.seats.sit());
    let begins_plainly = client.begins_plainly(worker.cx().site());
    if begins_plainly {
        let connection = Connection::new(Stream::Plain(socket), Vec::new(), Rc::new(client), worker, seat);
        tokio::task::spawn_local(connection.run());
    } else {
        tokio::task::spawn_local(open::run(socket, client, worker, seat));
    }
}

/// Whether the error concerns only the connection that was being accepted.
fn is_the_clients(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
            | io::ErrorKind::NotConnected
    )
}
