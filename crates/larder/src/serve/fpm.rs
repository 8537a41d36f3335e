//! Finds a php-fpm that runs on this machine and may read the site.

use std::fmt;
use std::fs::{self, Metadata};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket, Type};

/// Where a php-fpm listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => address.fmt(f),
        }
    }
}

/// A running php-fpm that answers and may read `root`.
pub fn find(root: &Path) -> Option<Address> {
    let unix = SOCKET_FOLDERS.iter().flat_map(|folder| sockets(Path::new(folder))).map(Address::Unix);
    let tcp = Address::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, TCP_PORT)));
    unix.chain([tcp]).find(|address| may_read(address, root) && answers(address))
}

/// The sockets in a folder, the newest PHP version first, judged by their names.
fn sockets(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut sockets: Vec<_> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sock"))
        .collect();
    sockets.sort();
    sockets.reverse();
    sockets
}

/// Whether something at `address` speaks FastCGI: asks it for the number of connections that it accepts.
fn answers(address: &Address) -> bool {
    let answer = address.connect().and_then(question);
    answer.is_ok_and(|answer| answer == [FCGI_VERSION, FCGI_GET_VALUES_RESULT])
}

/// A connection to a php-fpm.
pub trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Address {
    /// Connects. This and each read and write may take a second; `WouldBlock` if the queue of a Unix socket stays full.
    pub fn connect(&self) -> io::Result<Box<dyn Stream>> {
        match self {
            Address::Unix(path) => {
                let socket = Socket::new(Domain::UNIX, Type::STREAM.cloexec(), None)?;
                socket.set_read_timeout(Some(PATIENCE))?;
                // It is also how long connecting waits for room in the queue.
                socket.set_write_timeout(Some(PATIENCE))?;
                socket.connect(&SockAddr::unix(path)?)?;
                Ok(Box::new(UnixStream::from(OwnedFd::from(socket))))
            }
            Address::Tcp(address) => {
                let stream = TcpStream::connect_timeout(address, PATIENCE)?;
                stream.set_read_timeout(Some(PATIENCE))?;
                stream.set_write_timeout(Some(PATIENCE))?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// Sends FCGI_GET_VALUES and returns version and type of the record that comes back.
fn question(mut stream: Box<dyn Stream>) -> io::Result<[u8; 2]> {
    // The head of 8 bytes: version, type, id 0, length 16, no padding; then a name of 14 bytes, no value.
    let head = [FCGI_VERSION, FCGI_GET_VALUES, 0, 0, 0, 16, 0, 0, 14, 0];
    stream.write_all(&[&head[..], b"FCGI_MAX_CONNS"].concat())?;
    let mut answer = [0; 2];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// Whether the pool at `address` can probably read `root`. A pool usually runs as the owner of its socket; for one with
/// a port, everybody has to be able to read.
fn may_read(address: &Address, root: &Path) -> bool {
    let (uid, gid) = match address {
        Address::Unix(path) => match fs::metadata(path) {
            Ok(metadata) => (Some(metadata.uid()), Some(metadata.gid())),
            Err(_) => return false,
        },
        Address::Tcp(_) => (None, None),
    };
    let allows =
        |path: &Path, wanted: u32| fs::metadata(path).is_ok_and(|metadata| permits(&metadata, uid, gid, wanted));
    root.ancestors().all(|folder| allows(folder, EXECUTE)) && allows(&root.join("index.php"), READ)
}

/// Whether a user has the permissions `wanted` on a file.
fn permits(metadata: &Metadata, uid: Option<u32>, gid: Option<u32>, wanted: u32) -> bool {
    let mode = metadata.mode();
    let granted = if uid == Some(0) {
        READ | EXECUTE
    } else if uid == Some(metadata.uid()) {
        mode >> 6
    } else if gid == Some(metadata.gid()) {
        mode >> 3
    } else {
        mode
    };
    granted & wanted == wanted
}

const SOCKET_FOLDERS: [&str; 2] = ["/run/php", "/run/php-fpm"];
const TCP_PORT: u16 = 9000;
const PATIENCE: Duration = Duration::from_secs(1);

const FCGI_VERSION: u8 = 1;
const FCGI_GET_VALUES: u8 = 9;
const FCGI_GET_VALUES_RESULT: u8 = 10;

const READ: u32 = 4;
const EXECUTE: u32 = 1;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::fs::PermissionsExt;
    use std::thread;

    use super::*;

    #[test]
    fn only_what_speaks_fastcgi_is_taken_for_php() {
        for (answer, expected) in [
            (&b"\x01\x0a\0\0\0\0\0\0"[..], true),
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", false),
            (b"\x01", false),
            (b"", false),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = Address::Tcp(listener.local_addr().unwrap());
            let origin = thread::spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut asked = [0; 24];
                stream.read_exact(&mut asked).unwrap();
                stream.write_all(answer).unwrap();
                asked
            });
            assert_eq!(answers(&address), expected, "{answer:?}");
            assert!(origin.join().unwrap().ends_with(b"FCGI_MAX_CONNS"));
        }
    }

    #[test]
    fn permissions_count_for_owner_group_and_others() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let owner = fs::metadata(file.path()).unwrap();
        let (uid, gid) = (owner.uid(), owner.gid());
        let (other_uid, other_gid) = (Some(uid + 1), Some(gid + 1));
        for (mode, who, expected) in [
            (0o644, (other_uid, other_gid), true),
            (0o640, (other_uid, other_gid), false),
            (0o640, (other_uid, Some(gid)), true),
            (0o604, (other_uid, Some(gid)), false),
            (0o600, (None, None), false),
            (0o000, (Some(0), None), true),
        ] {
            fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).unwrap();
            let metadata = fs::metadata(file.path()).unwrap();
            assert_eq!(permits(&metadata, who.0, who.1, READ), expected, "{mode:o} {who:?}");
        }
    }
}
