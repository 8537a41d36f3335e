//! Where transactions come from: the socket of a server, or a file.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use larder_vsl::{Asked, Frame, FrameError, Pieces};

use super::options::Place;
use crate::told::Unread;
use crate::varnishd::workdir;

/// A stream of frames.
#[derive(Debug)]
pub struct Source {
    stream: Stream,
    pieces: Pieces,
}

#[derive(Debug)]
enum Stream {
    Server(UnixStream),
    File(File),
}

impl Source {
    /// Opens it, and tells a server what is asked for.
    pub fn open(place: &Place, asked: Asked) -> Result<Self, Unread> {
        let stream = match place {
            Place::Server(name) => Stream::Server(connect(&socket(name.as_deref()), asked)?),
            Place::File(path) => {
                let failed = |source| Unread::Failed { path: path.clone(), source };
                Stream::File(match path.as_os_str() == "-" {
                    true => File::from(io::stdin().as_fd().try_clone_to_owned().map_err(failed)?),
                    false => File::open(path).map_err(failed)?,
                })
            }
        };
        Ok(Self { stream, pieces: Pieces::default() })
    }

    /// Reads what is there; waits if nothing is. Returns whether the stream goes on.
    pub fn read(&mut self) -> io::Result<bool> {
        let mut piece = [0; PIECE_BYTES];
        let count = match &mut self.stream {
            Stream::Server(socket) => socket.read(&mut piece),
            Stream::File(file) => file.read(&mut piece),
        };
        match count {
            Ok(count) => {
                self.pieces.push(&piece[..count]);
                Ok(count > 0)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            // A server that was killed.
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next frame that has come.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        self.pieces.next_frame()
    }

    /// Whether everything that has come was a frame.
    pub fn is_whole(&self) -> bool {
        self.pieces.is_whole()
    }
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.stream {
            Stream::Server(socket) => socket.as_fd(),
            Stream::File(file) => file.as_fd(),
        }
    }
}

/// The socket that `-n` names: itself, or that in the folder of a server.
fn socket(name: Option<&Path>) -> PathBuf {
    match name {
        Some(path) if fs::metadata(path).is_ok_and(|found| found.file_type().is_socket()) => path.to_owned(),
        name => workdir::place(name).join(workdir::LOG_SOCKET),
    }
}

fn connect(path: &Path, asked: Asked) -> Result<UnixStream, Unread> {
    let failed = |error| Unread::of(error, "log", path);
    let mut stream = UnixStream::connect(path).map_err(failed)?;
    stream.write_all(&[asked as u8]).map_err(failed)?;
    Ok(stream)
}

/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;
