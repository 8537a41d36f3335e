//! A connection to a server, with TLS or without.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use crate::PATIENCE;
use crate::tls::{Tls, TlsFacts};

/// A TLS connection as rustls keeps it.
pub(crate) type TlsStream = rustls::StreamOwned<rustls::ClientConnection, TcpStream>;

/// The transport below a client.
#[derive(Debug)]
pub(crate) enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Connects without TLS.
    pub(crate) fn connect(address: SocketAddr) -> io::Result<Stream> {
        Ok(Stream::Plain(tcp(address)?))
    }

    /// Connects, sends `first` before anything else, and completes a handshake.
    pub(crate) fn connect_tls(address: SocketAddr, tls: &Tls, first: &[u8]) -> io::Result<Stream> {
        let mut socket = tcp(address)?;
        socket.write_all(first)?;
        let mut connection = tls.connection()?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Stream::Tls(Box::new(TlsStream::new(connection, socket))))
    }

    /// Connects and sends `early` with the first flight, where a session that is resumed allows it.
    ///
    /// The flag says whether the server took it so; when it did not, `early` has not been sent.
    pub(crate) fn connect_early(address: SocketAddr, tls: &Tls, early: &[u8]) -> io::Result<(Stream, bool)> {
        let mut socket = tcp(address)?;
        let mut connection = tls.connection()?;
        let is_offered = match connection.early_data() {
            Some(mut writer) => writer.write(early)? == early.len(),
            None => false,
        };
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        let is_taken = is_offered && connection.is_early_data_accepted();
        Ok((Stream::Tls(Box::new(TlsStream::new(connection, socket))), is_taken))
    }

    /// What the handshake agreed on.
    pub(crate) fn facts(&self) -> Option<TlsFacts> {
        match self {
            Stream::Plain(_) => None,
            Stream::Tls(stream) => Some(TlsFacts::of(&stream.conn)),
        }
    }

    /// The socket below.
    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => &stream.sock,
        }
    }

    /// How long a read waits.
    pub(crate) fn set_read_timeout(&self, limit: Duration) {
        drop(self.socket().set_read_timeout(Some(limit)));
    }

    /// Says that nothing more will be sent.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(_) => {}
            Stream::Tls(stream) => {
                stream.conn.send_close_notify();
                stream.flush()?;
            }
        }
        self.socket().shutdown(Shutdown::Write)
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpStream::connect_timeout(&address, PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.set_write_timeout(Some(PATIENCE))?;
    Ok(socket)
}
