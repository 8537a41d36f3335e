//! What lies between a node and the server, and can be cut.

use crate::load::{LoadError, cannot};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// What becomes of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// They pass.
    Whole,
    /// They pass later, as behind a switch that drops packets.
    Silent,
    /// There are no connections: those that were there are closed, and new ones at once.
    Cut,
}

/// A way to the server, open until the process ends.
pub struct Wire {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

/// Room for what one read brings.
const BUFFER_BYTES: usize = 64 * 1024;

impl Wire {
    /// One that leads to a port of this machine.
    pub fn lay(to: u16) -> Result<Wire, LoadError> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(cannot("listen between a node and the server"))?;
        let port = listener.local_addr().map_err(cannot("listen between a node and the server"))?.port();
        let shared =
            Arc::new(Shared { state: Mutex::new(State::Whole), changed: Condvar::new(), open: Mutex::default() });
        let by = Arc::clone(&shared);
        thread::spawn(move || {
            for node in listener.incoming().flatten() {
                // If the server is not there, the node's connection ends as if it had found that itself.
                if *by.state() != State::Cut {
                    drop(join(&by, &node, to));
                }
            }
        });
        Ok(Wire { port, shared })
    }

    /// Where the node finds it.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What becomes of bytes from now on.
    pub fn put(&self, state: State) {
        *self.shared.state() = state;
        self.shared.changed.notify_all();
        if state == State::Cut {
            let open = std::mem::take(&mut *self.shared.open());
            // Those that have ended meanwhile cannot be.
            open.iter().for_each(|stream| drop(stream.shutdown(Shutdown::Both)));
        }
    }
}

/// Has bytes pass both ways.
fn join(shared: &Arc<Shared>, node: &TcpStream, to: u16) -> io::Result<()> {
    let server = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to)))?;
    for stream in [node, &server] {
        stream.set_nodelay(true)?;
        shared.open().push(stream.try_clone()?);
    }
    for (from, to) in [(node, &server), (&server, node)] {
        let (from, to, shared) = (from.try_clone()?, to.try_clone()?, Arc::clone(shared));
        thread::spawn(move || drop(pass(&shared, &from, &to)));
    }
    Ok(())
}

fn pass(shared: &Shared, mut from: &TcpStream, mut to: &TcpStream) -> io::Result<()> {
    let mut buffer = [0; BUFFER_BYTES];
    let ended = loop {
        let count = match from.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(count) => count,
            Err(error) => break Err(error),
        };
        let state = shared.state();
        // They may come out of a connection that is closed by now.
        drop(shared.changed.wait_while(state, |state| *state == State::Silent));
        if let Err(error) = to.write_all(buffer.get(..count).unwrap_or_default()) {
            break Err(error);
        }
    };
    // The other way ends as well.
    drop((from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both)));
    ended
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> MutexGuard<'_, Vec<TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_pass_wait_or_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let wire = Wire::lay(listener.local_addr().expect("it has one").port()).expect("a port is free");
        let mut node = TcpStream::connect(("127.0.0.1", wire.port())).expect("it listens");
        let (mut server, _) = listener.accept().expect("it comes");
        let mut byte = [0];
        node.write_all(b"a").expect("it passes");
        server.read_exact(&mut byte).expect("it passes");
        wire.put(State::Silent);
        server.write_all(b"b").expect("it is taken");
        wire.put(State::Whole);
        node.read_exact(&mut byte).expect("it passes");
        assert_eq!(&byte, b"b");
        wire.put(State::Cut);
        assert!(matches!(node.read(&mut byte), Ok(0) | Err(_)));
        assert!(matches!(server.read(&mut byte), Ok(0) | Err(_)));
        let mut node = TcpStream::connect(("127.0.0.1", wire.port())).expect("it listens");
        assert!(matches!(node.read(&mut byte), Ok(0) | Err(_)));
    }
}
