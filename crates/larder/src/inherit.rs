//! Takes over listening sockets from an older process: the other end of [`crate::upgrade`].
//!
//! They are passed on as in nginx, so that larder can replace nginx, and nginx larder: as open descriptors, with their
//! numbers in the variable `NGINX`, each followed by `;`.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixDatagram;

use larder_conf::model::ListenAddress;
use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, getppid};
use socket2::{Domain, SockRef, Type};

use crate::sockets::Listener;

/// The variable that nginx uses.
pub const VARIABLE: &str = "NGINX";

/// What a predecessor left us.
#[derive(Debug)]
pub struct Inherited {
    /// Its listening sockets, by address.
    pub listeners: Vec<Listener>,
    /// The process that passed them on.
    pub predecessor: Predecessor,
}

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
    let sockets: Vec<OwnedFd> = parse(&numbers).into_iter().filter_map(|number| adopt(number).ok()).collect();
    let mut listeners: Vec<Listener> = Vec::new();
    for socket in sockets {
        let Some(address) = listens_at(&socket) else { continue };
        match listeners.iter_mut().find(|listener| *listener.address() == address) {
            Some(listener) => listener.add(socket),
            None => listeners.push(Listener::inherited(address, socket)),
        }
    }
    // The variable is from somebody else, and has none of our sockets.
    if listeners.is_empty() {
        return None;
    }
    let addresses = listeners.iter().map(|listener| listener.address().clone()).collect();
    Some(Inherited { listeners, predecessor: Predecessor { parent: getppid(), addresses } })
}

/// The numbers in the value of the variable, up to the first invalid one, as in nginx.
fn parse(value: &str) -> Vec<RawFd> {
    let ended = value.rfind([';', ':']).map_or("", |end| &value[..end]);
    let numbers = ended.split([';', ':']).map_while(|number| number.parse().ok());
    numbers.filter(|number| *number > STDERR).take(SOCKETS_MAX).collect()
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
            ("6;", vec![6]),
            ("6;7:8;", vec![6, 7, 8]),
            ("6;7", vec![6]),
            ("6", vec![]),
            ("6;x;8;", vec![6]),
            ("0;1;2;3;", vec![3]),
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
