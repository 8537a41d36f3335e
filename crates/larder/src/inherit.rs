//! Takes over listening sockets: from an older process, the other end of [`crate::upgrade`], or from systemd.
//!
//! An older process passes them on as in nginx, so that larder can replace nginx, and nginx larder: as open descriptors,
//! with their numbers in the variable `NGINX`, each followed by `;`, or by `:` if systemd holds the socket too.
//!
//! systemd passes `LISTEN_FDS` descriptors from number 3 on to the process `LISTEN_PID`: sd_listen_fds(3).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use larder_conf::model::ListenAddress;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, getpid, getppid};
use socket2::{Domain, SockRef, Type};

use crate::sockets::{Keeper, Listener};

/// The variable that nginx uses.
pub const VARIABLE: &str = "NGINX";

/// What a predecessor left us.
#[derive(Debug)]
pub struct Inherited {
    /// Its listening sockets, by address.
    pub listeners: Vec<Listener>,
    /// The process that passed them on, unless that is systemd.
    pub predecessor: Option<Predecessor>,
}

/// The variables by which systemd says what it passes.
pub const SYSTEMD_VARIABLES: [&str; 3] = ["LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"];

/// The process that started us to replace it. It may go on beside us for a while.
#[derive(Debug)]
pub struct Predecessor {
    parent: Option<Pid>,
    /// The addresses at which it listens too.
    addresses: Vec<ListenAddress>,
}

impl Predecessor {
    /// Whether it still runs. When it ends, we get another parent process.
    pub fn is_alive(&self) -> bool {
        self.parent.is_some() && getppid() == self.parent
    }

    /// Whether it listens at `address` too, so that we must not remove the socket's file.
    pub fn shares(&self, address: &ListenAddress) -> bool {
        self.is_alive() && self.addresses.contains(address)
    }
}

/// Takes over the sockets. Call it before this process opens anything, so that every number is that of a descriptor
/// that we were started with.
pub fn take() -> Option<Inherited> {
    let numbers = std::env::var(VARIABLE).ok()?;
    let listeners = listeners(parse(&numbers));
    // The variable is from somebody else, and has none of our sockets.
    if listeners.is_empty() {
        return None;
    }
    let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
    Some(Inherited { listeners, predecessor: Some(Predecessor { parent: getppid(), addresses }) })
}

/// Takes over the sockets that systemd passes to this process, or to the one that started it as a daemon and waits.
pub fn take_from_systemd() -> Option<Inherited> {
    let [process, count, _] = SYSTEMD_VARIABLES.map(|name| std::env::var(name).ok());
    let process: i32 = process?.parse().ok()?;
    let ours = [Some(getpid()), getppid()].into_iter().flatten().any(|it| it.as_raw_nonzero().get() == process);
    let count: RawFd = count?.parse().ok().filter(|count| ours && (1..=SYSTEMD_SOCKETS_MAX).contains(count))?;
    let numbers = (0..count).map(|index| (SYSTEMD_FIRST + index, Keeper::Systemd)).collect();
    Some(Inherited { listeners: listeners(numbers), predecessor: None })
}

/// Those of the descriptors that listen, by address.
fn listeners(numbers: Vec<(RawFd, Keeper)>) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    for (number, keeper) in numbers {
        let Ok(socket) = adopt(number) else { continue };
        let Some(address) = listens_at(&socket) else { continue };
        match listeners.iter_mut().find(|listener| *listener.address() == address) {
            Some(listener) => listener.add(socket),
            None => listeners.push(Listener::inherited(address, socket, keeper)),
        }
    }
    listeners
}

/// The numbers in the value of the variable, up to the first invalid one, as in nginx.
fn parse(value: &str) -> Vec<(RawFd, Keeper)> {
    let ends = value.match_indices([';', ':']);
    let mut begin = 0;
    let numbers = ends.map_while(|(end, mark)| {
        let number = value[begin..end].parse().ok()?;
        begin = end + 1;
        Some((number, if mark == SYSTEMD_MARK { Keeper::Systemd } else { Keeper::Larder }))
    });
    numbers.filter(|(number, _)| *number > STDERR).take(SOCKETS_MAX).collect()
}

/// The numbers of sockets, as the value of the variable.
pub fn written<'a>(sockets: impl IntoIterator<Item = (&'a OwnedFd, Keeper)>) -> String {
    let mark = |keeper| match keeper {
        Keeper::Larder => ";",
        Keeper::Systemd => SYSTEMD_MARK,
    };
    sockets.into_iter().map(|(socket, keeper)| format!("{}{}", socket.as_raw_fd(), mark(keeper))).collect()
}

/// Makes an owned descriptor, which no child inherits, of one that we only know by its number.
///
/// In safe Rust the kernel has to do it: we send the number to ourselves over a socket, and receive an owned
/// descriptor.
fn adopt(number: RawFd) -> io::Result<OwnedFd> {
    let (one, other) = UnixDatagram::pair()?;
    let numbers = [number];
    let message = [IoSlice::new(b"s")];
    sendmsg::<()>(one.as_raw_fd(), &message, &[ControlMessage::ScmRights(&numbers)], MsgFlags::empty(), None)?;
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(&other, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let arrived = control.drain().find_map(|part| match part {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let owned = arrived.ok_or(io::ErrorKind::InvalidData)?;
    // Anything but a listening socket belongs to somebody else, and stays open. nginx also passes on its HTTP/3
    // sockets; those are closed, because clients would wait at them in vain.
    let socket = SockRef::from(&owned);
    // systemd's block, unless the unit says otherwise.
    socket.set_nonblocking(true)?;
    let is_udp = socket.r#type().ok() == Some(Type::DGRAM) && socket.domain().ok() != Some(Domain::UNIX);
    if is_udp || socket.is_listener().unwrap_or(false) {
        nix::unistd::close(number)?;
    }
    Ok(owned)
}

/// Where a socket listens, if it listens at an address that a configuration can name.
fn listens_at(socket: &OwnedFd) -> Option<ListenAddress> {
    let socket = SockRef::from(socket);
    if !socket.is_listener().ok()? {
        return None;
    }
    let address = socket.local_addr().ok()?;
    if let Some(tcp) = address.as_socket() {
        return Some(ListenAddress::Tcp(tcp));
    }
    address.as_pathname().map(|path| ListenAddress::Unix(path.to_owned()))
}

const STDERR: RawFd = 2;
/// SD_LISTEN_FDS_START.
const SYSTEMD_FIRST: RawFd = 3;
/// More than a socket unit has addresses.
const SYSTEMD_SOCKETS_MAX: RawFd = 1024;
/// What follows the number of a socket that systemd holds; nginx reads it as `;`.
const SYSTEMD_MARK: &str = ":";
/// The highest accepted number: more than any process has open, but low enough to refuse nonsense.
const SOCKETS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::fd::IntoRawFd;

    use super::*;

    #[test]
    fn numbers_are_read_as_nginx_reads_them() {
        for (value, expected) in [
            ("", vec![]),
            ("6;", vec![(6, Keeper::Larder)]),
            ("6;7:8;", vec![(6, Keeper::Larder), (7, Keeper::Systemd), (8, Keeper::Larder)]),
            ("6;7", vec![(6, Keeper::Larder)]),
            ("6", vec![]),
            ("6;x;8;", vec![(6, Keeper::Larder)]),
            ("0;1;2;3;", vec![(3, Keeper::Larder)]),
            ("/usr/sbin/nginx", vec![]),
            ("99999999999;", vec![]),
        ] {
            assert_eq!(parse(value), expected, "{value:?}");
        }
    }

    #[test]
    fn a_number_becomes_a_socket_that_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let owned = adopt(listener.into_raw_fd()).unwrap();
        assert_eq!(listens_at(&owned), Some(ListenAddress::Tcp(address)));
        assert!(TcpStream::connect(address).is_ok());
        drop(owned);
        assert!(TcpStream::connect(address).is_err(), "the number itself is closed too");
    }

    #[test]
    fn a_socket_of_http3_is_closed() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        drop(adopt(socket.into_raw_fd()).unwrap());
        assert!(UdpSocket::bind(address).is_ok());
    }

    #[test]
    fn what_does_not_listen_is_left_alone() {
        let (one, other) = UnixDatagram::pair().unwrap();
        let owned = adopt(one.as_raw_fd()).unwrap();
        assert_eq!(listens_at(&owned), None);
        drop(owned);
        one.send(b"still there").unwrap();
        assert_eq!(other.recv(&mut [0; 16]).unwrap(), 11);
        assert!(adopt(987_654).is_err());
    }
}
