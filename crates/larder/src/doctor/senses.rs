//! What no file of a machine says and has to be tried: room and speed of a disk, features of the kernel, who listens, an
//! answer of php-fpm.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use larder_origin::fastcgi;
use larder_server::clock;
use rustix::fs::{MemfdFlags, OFlags};

use crate::serve::fpm::Address;

/// What can be tried on a machine.
pub trait Senses {
    /// Seconds since 1970.
    fn now(&self) -> u64;
    /// How much room the file system of a folder has.
    fn space(&self, folder: &Path) -> io::Result<Space>;
    /// How long small writes into a folder take until they are on the disk.
    fn writes(&self, folder: &Path) -> io::Result<Writes>;
    /// Whether the kernel has something that larder uses.
    fn has(&self, feature: Feature) -> io::Result<()>;
    /// Whether somebody listens there, and takes a connection within a second.
    fn connect(&self, address: &Address) -> io::Result<()>;
    /// What the script `name` of a php-fpm answers to `?json`, head and body.
    fn ask_php(&self, address: &Address, name: &str) -> io::Result<Vec<u8>>;
}

/// Room of a file system, for those who are not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Free bytes.
    pub free_bytes: u64,
    /// All bytes.
    pub bytes: u64,
    /// Free inodes; `None` where files need none.
    pub free_inodes: Option<u64>,
}

/// How long writes took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writes {
    /// How many there were.
    pub count: usize,
    /// Half of them took no longer.
    pub median: Duration,
    /// The longest.
    pub longest: Duration,
}

/// Something of the kernel that larder uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// `memfd_create`: pages of 48 KB and more lie in a memory file.
    MemoryFile,
    /// `MFD_NOEXEC_SEAL`, Linux 6.3: that file cannot be made a program.
    SealedMemoryFile,
    /// `SO_REUSEPORT`: each worker accepts at a socket of its own.
    SharedPort,
    /// `openat2`, Linux 5.6: links are followed within another root.
    OpenWithin,
}

/// This machine.
pub struct Tried;

impl Senses for Tried {
    fn now(&self) -> u64 {
        clock::now().secs()
    }

    fn space(&self, folder: &Path) -> io::Result<Space> {
        let found = rustix::fs::statvfs(folder)?;
        Ok(Space {
            free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
            bytes: found.f_blocks.saturating_mul(found.f_frsize),
            free_inodes: (found.f_files > 0).then_some(found.f_favail),
        })
    }

    fn writes(&self, folder: &Path) -> io::Result<Writes> {
        let scratch = Scratch::new(folder)?;
        let block = [0xA5; BLOCK_BYTES];
        let (began, mut times) = (Instant::now(), Vec::new());
        while times.len() < WRITES_MAX && (times.is_empty() || began.elapsed() < MEASURED) {
            let at = Instant::now();
            scratch.file.write_all_at(&block, (times.len() % BLOCKS * BLOCK_BYTES) as u64)?;
            let took = at.elapsed();
            times.push(took);
            // Whoever else uses the disk has at least half of the time.
            thread::sleep(took.clamp(PAUSE_MIN, PAUSE_MAX));
        }
        times.sort_unstable();
        let longest = times.last().copied().unwrap_or_default();
        let median = times.get(times.len() / 2).copied().unwrap_or_default();
        Ok(Writes { count: times.len(), median, longest })
    }

    fn has(&self, feature: Feature) -> io::Result<()> {
        match feature {
            Feature::MemoryFile => {
                let plain = rustix::fs::memfd_create("larder-doctor", MemfdFlags::CLOEXEC);
                plain.or_else(|_| rustix::fs::memfd_create("larder-doctor", SEALED)).map(drop)?;
            }
            Feature::SealedMemoryFile => rustix::fs::memfd_create("larder-doctor", SEALED).map(drop)?,
            Feature::SharedPort => {
                let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
                socket.set_reuse_port(true)?;
            }
            Feature::OpenWithin => {
                let flags = OFlags::PATH | OFlags::CLOEXEC;
                let resolve = rustix::fs::ResolveFlags::IN_ROOT;
                rustix::fs::openat2(rustix::fs::CWD, ".", flags, rustix::fs::Mode::empty(), resolve).map(drop)?;
            }
        }
        Ok(())
    }

    fn connect(&self, address: &Address) -> io::Result<()> {
        address.connect().map(drop)
    }

    fn ask_php(&self, address: &Address, name: &str) -> io::Result<Vec<u8>> {
        let mut stream = address.connect()?;
        stream.write_all(&fastcgi::status_request(name))?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
        fastcgi::whole_stdout(&answer).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no answer of FastCGI"))
    }
}

/// A file that is gone when this is: it has no name, or loses it.
struct Scratch {
    file: File,
    path: Option<PathBuf>,
}

impl Scratch {
    fn new(folder: &Path) -> io::Result<Scratch> {
        let with = |flags: OFlags, path: &Path| {
            let mut options = OpenOptions::new();
            options.write(true).mode(0o600).custom_flags(flags.bits() as i32);
            options.create_new(!flags.contains(OFlags::TMPFILE)).open(path)
        };
        if let Ok(file) = with(OFlags::TMPFILE | OFlags::DSYNC, folder) {
            return Ok(Scratch { file, path: None });
        }
        // NFS and old overlays have no files without a name.
        let path = folder.join(format!(".larder-doctor.{}", std::process::id()));
        let file = with(OFlags::DSYNC | OFlags::NOFOLLOW, &path)?;
        Ok(Scratch { file, path: Some(path) })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
    }
}

const SEALED: MemfdFlags = MemfdFlags::CLOEXEC.union(MemfdFlags::NOEXEC_SEAL);
/// How long a disk is measured.
const MEASURED: Duration = Duration::from_secs(2);
const BLOCK_BYTES: usize = 4096;
/// How many blocks the file has.
const BLOCKS: usize = 64;
const WRITES_MAX: usize = 200;
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);
const ANSWER_BYTES_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_folder_is_measured_and_left_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let writes = Tried.writes(folder.path()).unwrap();
        assert!(writes.count > 0 && writes.median <= writes.longest);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let space = Tried.space(folder.path()).unwrap();
        assert!(space.bytes >= space.free_bytes);
        assert!(Tried.writes(&folder.path().join("none")).is_err());
        assert!(Tried.space(&folder.path().join("none")).is_err());
    }

    #[test]
    fn what_the_kernel_has_is_tried() {
        // Everything that runs these tests has them.
        Tried.has(Feature::MemoryFile).unwrap();
        Tried.has(Feature::SharedPort).unwrap();
    }

    #[test]
    fn a_socket_without_a_listener_is_told_from_one_with_a_full_queue() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let address = Address::Unix(path.clone());
        assert_eq!(Tried.connect(&address).unwrap_err().kind(), io::ErrorKind::NotFound);
        let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
        socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
        assert_eq!(Tried.connect(&address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        socket.listen(0).unwrap();
        Tried.connect(&address).unwrap();
        // Nobody accepts, so that the first one stays in the queue.
        assert_eq!(Tried.connect(&address).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn php_is_asked_over_fastcgi() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::Tcp(listener.local_addr().unwrap());
        let php = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = vec![0; 4096];
            let read = stream.read(&mut asked).unwrap();
            let text = b"Content-Type: a/b\r\n\r\n{}";
            let head = [1, 6, 0, 1, 0, text.len() as u8, 0, 0];
            let end = [1, 3, 0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            stream.write_all(&[&head[..], text, &end].concat()).unwrap();
            asked.truncate(read);
            asked
        });
        assert_eq!(Tried.ask_php(&address, "/status").unwrap(), b"Content-Type: a/b\r\n\r\n{}");
        let asked = php.join().unwrap();
        assert!(asked.windows(7).any(|window| window == b"/status"));
    }
}
