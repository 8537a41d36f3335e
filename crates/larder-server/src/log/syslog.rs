//! Sends lines to a syslog server: datagrams by UDP or a unix socket, with the header of RFC 3164 §4.1.

use std::io::{self, Write as _};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use larder_conf::model::{Syslog, SyslogServer};

use super::stamp::Stamp;

const PORT: u16 = 514;

/// A syslog server. All workers share it.
#[derive(Debug)]
pub struct SyslogSender {
    address: Address,
    /// The address as written.
    name: String,
    facility: u8,
    severity: u8,
    /// The text between the time and the line: `host tag: ` or `tag: `.
    origin: String,
    /// The socket, while one works. If two workers connect at the same time, one of the two sockets is dropped: that is
    /// cheaper than a lock around each send.
    socket: ArcSwapOption<Socket>,
}

#[derive(Debug)]
enum Address {
    Udp(SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug)]
enum Socket {
    Udp(UdpSocket),
    Unix(UnixDatagram),
}

impl Socket {
    fn send(&self, message: &[u8]) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.send(message).map(drop),
            Self::Unix(unix) => unix.send(message).map(drop),
        }
    }
}

impl SyslogSender {
    /// A sender with this configuration. Looks up the server's name now and never again, as nginx does; connects when
    /// the first line is sent.
    pub fn new(syslog: &Syslog, hostname: &str) -> io::Result<Self> {
        let (address, name) = match &syslog.server {
            SyslogServer::Unix(path) => (Address::Unix(path.clone()), format!("unix:{}", path.display())),
            SyslogServer::Udp(server) => (Address::Udp(look_up(server)?), server.clone()),
        };
        let tag = &syslog.tag;
        let origin = if syslog.nohostname { format!("{tag}: ") } else { format!("{hostname} {tag}: ") };
        let Syslog { facility, severity, .. } = *syslog;
        Ok(Self { address, name, facility, severity, origin, socket: ArcSwapOption::empty() })
    }

    /// The severity of access log lines.
    pub fn severity(&self) -> u8 {
        self.severity
    }

    /// The server's address as configured, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a line without its line feed. Never blocks: a line that does not fit the socket's buffer is lost.
    pub fn send(&self, severity: u8, stamp: &Stamp, line: &[u8]) -> io::Result<()> {
        let message = self.message(severity, stamp, line);
        // A connected socket may report that an earlier line was refused, and a restarted server has a new socket. So
        // this line is tried a second time.
        if let Some(socket) = self.socket.load_full()
            && socket.send(&message).is_ok()
        {
            return Ok(());
        }
        self.socket.store(None);
        let socket = connect(&self.address)?;
        socket.send(&message)?;
        self.socket.store(Some(Arc::new(socket)));
        Ok(())
    }

    fn message(&self, severity: u8, stamp: &Stamp, line: &[u8]) -> Vec<u8> {
        let priority = u16::from(self.facility) * 8 + u16::from(severity);
        let mut message = Vec::with_capacity(32 + self.origin.len() + line.len());
        write!(message, "<{priority}>{} {}", stamp.syslog, self.origin).expect("a vector takes all that is written");
        message.extend_from_slice(line);
        message
    }
}

fn look_up(server: &str) -> io::Result<SocketAddr> {
    let found = match server.parse::<SocketAddr>() {
        Ok(address) => return Ok(address),
        Err(_) => (server.trim_matches(['[', ']']), PORT).to_socket_addrs().or_else(|_| server.to_socket_addrs()),
    };
    found?.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the name has no address"))
}

fn connect(address: &Address) -> io::Result<Socket> {
    match address {
        Address::Udp(address) => {
            let any: SocketAddr = if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
            let socket = UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            socket.connect(address)?;
            Ok(Socket::Udp(socket))
        }
        Address::Unix(path) => {
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.connect(path)?;
            Ok(Socket::Unix(socket))
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;
    use larder_http::Time;

    use super::*;

    fn syslog(server: SyslogServer, nohostname: bool) -> Syslog {
        Syslog { server, facility: 23, severity: 6, tag: "nginx".to_owned(), nohostname }
    }

    fn stamp() -> Stamp {
        Stamp::new(Time::from_secs(5 * 86_400), &TimeZone::UTC)
    }

    #[test]
    fn a_line_arrives_over_udp_with_nginxs_head() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = server.local_addr().expect("bound").to_string();
        for (nohostname, severity, head) in
            [(false, 6, "<190>Jan  6 00:00:00 web nginx: "), (true, 3, "<187>Jan  6 00:00:00 nginx: ")]
        {
            let sender =
                SyslogSender::new(&syslog(SyslogServer::Udp(address.clone()), nohostname), "web").expect("an address");
            sender.send(severity, &stamp(), b"GET / 200").expect("sent");
            let mut buffer = [0; 200];
            let len = server.recv(&mut buffer).expect("received");
            assert_eq!(String::from_utf8_lossy(&buffer[..len]), format!("{head}GET / 200"));
        }
    }

    #[test]
    fn a_unix_socket_that_comes_back_is_found_again() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = dir.path().join("log");
        let sender = SyslogSender::new(&syslog(SyslogServer::Unix(path.clone()), true), "web").expect("an address");
        let mut buffer = [0; 200];
        for round in ["first", "second"] {
            assert!(sender.send(6, &stamp(), b"lost").is_err(), "{round}: nobody listens");
            let server = UnixDatagram::bind(&path).expect("bound");
            sender.send(6, &stamp(), round.as_bytes()).expect("sent");
            let len = server.recv(&mut buffer).expect("received");
            assert!(buffer[..len].ends_with(round.as_bytes()));
            drop(server);
            std::fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn a_line_arrives_though_the_one_before_was_refused() {
        let server = UdpSocket::bind("127.0.0.1:0").expect("bound");
        let address = server.local_addr().expect("bound");
        let sender =
            SyslogSender::new(&syslog(SyslogServer::Udp(address.to_string()), true), "web").expect("an address");
        assert_eq!(sender.name(), address.to_string());
        drop(server);
        // The system accepts a line for a closed port, and reports that with the next one.
        sender.send(6, &stamp(), b"refused").expect("taken");
        let server = UdpSocket::bind(address).expect("bound again");
        sender.send(6, &stamp(), b"next").expect("sent");
        let mut buffer = [0; 200];
        let len = server.recv(&mut buffer).expect("received");
        assert!(buffer[..len].ends_with(b"next"));
    }

    #[test]
    fn the_port_is_514_unless_told() {
        for (server, address) in [
            ("127.0.0.1", "127.0.0.1:514"),
            ("127.0.0.1:5140", "127.0.0.1:5140"),
            ("[::1]", "[::1]:514"),
            ("[::1]:5140", "[::1]:5140"),
        ] {
            assert_eq!(look_up(server).expect("an address").to_string(), address, "{server}");
        }
    }
}
