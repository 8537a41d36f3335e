//! A stretch of network between a client and a server, as narrow and as one-sided as a test wants it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

/// How often some bytes pass where the stretch is narrow.
const TICK: Duration = Duration::from_millis(100);
/// What the socket towards the server holds.
const HELD: usize = 16 << 10;

/// One connection's way to a server. The end of what the client sends is kept from the server.
pub struct Relay {
    address: SocketAddr,
    /// Bytes a second towards the client.
    rate: Arc<AtomicUsize>,
    passed: Arc<AtomicUsize>,
}

impl Relay {
    /// Listens for one client; everything passes as it comes.
    pub fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let (rate, passed) = (Arc::new(AtomicUsize::new(usize::MAX)), Arc::new(AtomicUsize::new(0)));
        let relay = Relay { address, rate: Arc::clone(&rate), passed: Arc::clone(&passed) };
        thread::spawn(move || {
            let (client, _) = listener.accept().unwrap();
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            // Before it connects: what it may hold is told to the server then.
            socket.set_recv_buffer_size(HELD).unwrap();
            socket.connect(&server.into()).unwrap();
            let server = TcpStream::from(socket);
            let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            thread::spawn(move || up(from, to));
            down(server, client, &rate, &passed);
        });
        relay
    }

    /// Where the client connects.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, so many bytes a second pass towards the client; `usize::MAX` is as they come.
    pub fn set_rate(&self, rate: usize) {
        self.rate.store(rate, Ordering::Relaxed);
    }

    /// How many bytes have passed towards the client.
    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}

fn up(mut client: TcpStream, mut server: TcpStream) {
    let mut buffer = [0; 16 << 10];
    while let Ok(count @ 1..) = client.read(&mut buffer) {
        if server.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}

fn down(mut server: TcpStream, mut client: TcpStream, rate: &AtomicUsize, passed: &AtomicUsize) {
    let mut buffer = [0; 16 << 10];
    loop {
        let rate = rate.load(Ordering::Relaxed);
        let most = (rate / 10).min(buffer.len());
        if rate < usize::MAX {
            thread::sleep(TICK);
        }
        if most == 0 {
            continue;
        }
        let Ok(count @ 1..) = server.read(&mut buffer[..most]) else {
            break;
        };
        passed.fetch_add(count, Ordering::Relaxed);
        if client.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    drop(client.shutdown(Shutdown::Both));
}
