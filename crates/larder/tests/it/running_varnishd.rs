//! A `larder varnishd` that runs, with its CLI and its clients.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use larder_testkit::{Client, Folder, PATIENCE, Response, Signal, end_of, free_port, signal_to};
use sha2::{Digest, Sha256};

use crate::site::{binary, eventually};

/// A VCL without backends.
pub const GOOD: &str = "vcl 4.1;\nbackend default none;\nsub vcl_recv { return (synth(200)); }\n";
/// What is in the file `secret`.
pub const SECRET: &[u8] = b"the secret\n";

/// A `larder varnishd -F` with a CLI.
pub struct Varnishd {
    pub child: Child,
    /// Where its CLI is.
    pub cli: SocketAddr,
    /// Where it serves.
    pub listen: SocketAddr,
    /// Where it was started. Its own folder is `run` there.
    pub folder: Arc<Folder>,
}

impl Varnishd {
    /// Starts it with these options besides those of its places, and waits for its CLI. The files `good.vcl` and `secret`
    /// are there.
    pub fn start(options: &[&str]) -> Varnishd {
        let folder = Folder::new().unwrap();
        folder.write("good.vcl", GOOD).unwrap();
        folder.write("secret", SECRET).unwrap();
        Varnishd::start_in(Arc::new(folder), options)
    }

    /// Starts it with this VCL and a CLI that asks for no secret, and waits until it serves.
    pub fn serve(vcl: &str, options: &[&str]) -> Varnishd {
        Varnishd::serve_in(Folder::new().unwrap(), vcl, options)
    }

    /// The same in a folder that is there; the VCL is `site.vcl`.
    pub fn serve_in(folder: Folder, vcl: &str, options: &[&str]) -> Varnishd {
        folder.write("site.vcl", vcl).unwrap();
        let site = folder.join("site.vcl").display().to_string();
        let varnishd = Varnishd::start_in(Arc::new(folder), &[&["-S", "none", "-f", &site], options].concat());
        eventually("it serves", || TcpStream::connect(varnishd.listen).is_ok());
        varnishd
    }

    /// Starts it in this folder, which may be that of one before it.
    pub fn start_in(folder: Arc<Folder>, options: &[&str]) -> Varnishd {
        let listen = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
        let child = Command::new(binary())
            .args(["varnishd", "-F", "-j", "none", "-T", "127.0.0.1:0", "-a", &listen.to_string()])
            .args(options)
            .arg("-n")
            .arg(folder.join("run"))
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .spawn()
            .expect("larder can be run");
        let noted = folder.join("run/_.vsm_mgt");
        let mut cli = None;
        eventually("the CLI is there", || {
            cli = address_of_cli(&noted);
            cli.is_some()
        });
        let cli = cli.expect("it is there");
        Varnishd { child, cli, listen, folder }
    }

    /// A connection to the CLI, before anything was said.
    pub fn connect(&self) -> Cli {
        Cli::of(TcpStream::connect(self.cli).unwrap())
    }

    /// A connection that may give orders.
    pub fn cli(&self, secret: &[u8]) -> Cli {
        self.connect().proven(secret)
    }

    /// A connection that may give orders, where no secret is asked for.
    pub fn open_cli(&self) -> Cli {
        let mut cli = self.connect();
        let (status, text) = cli.answer();
        assert_eq!(status, 200, "{text}");
        cli
    }

    /// Whether a request is answered.
    pub fn answers(&self) -> bool {
        let Ok(mut client) = Client::connect(self.listen) else { return false };
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").is_ok()
            && client.read_response("GET").is_ok()
    }

    /// The response to a request.
    pub fn ask(&self, method: &str, url: &str) -> Response {
        self.play(&format!("{method} {url} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"))
    }

    /// The response to a request of these bytes.
    pub fn play(&self, request: &str) -> Response {
        response(self.listen, request)
    }

    /// Ends it by a signal. Its exit code.
    pub fn end(mut self, signal: Signal) -> Option<i32> {
        signal_to(self.child.id(), signal).unwrap();
        end_of(&mut self.child).expect("it ends").code()
    }
}

impl Drop for Varnishd {
    fn drop(&mut self) {
        // It has ended already where a test looked at its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address that varnishadm would find in the folder of a server.
fn address_of_cli(noted: &Path) -> Option<SocketAddr> {
    let index = fs::read_to_string(noted.join("_.index")).ok()?;
    let file = index.lines().find(|line| line.ends_with(" Arg -T"))?.split(' ').nth(1)?;
    let address = fs::read_to_string(noted.join(file)).ok()?;
    address.lines().next()?.trim_end_matches('\0').replace(' ', ":").parse().ok()
}

/// What a server answers to a request, which may have a PROXY header in front.
pub fn response(address: SocketAddr, request: &str) -> Response {
    let mut client = Client::connect(address).unwrap();
    client.send(request.as_bytes()).unwrap();
    let head = request.lines().find(|line| !line.starts_with("PROXY ")).unwrap_or_default();
    client.read_response(head.split(' ').next().unwrap_or_default()).unwrap()
}

/// What shows that a client knows the secret.
pub fn proof(challenge: &str, secret: &[u8]) -> String {
    let challenge = &challenge.as_bytes()[..32];
    let hash = Sha256::digest([challenge, b"\n", secret, challenge, b"\n"].concat());
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A connection to the CLI.
pub struct Cli(pub TcpStream);

impl Cli {
    /// A connection of which nothing was read.
    pub fn of(stream: TcpStream) -> Cli {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Cli(stream)
    }

    /// The same when it has been shown that the secret is known.
    pub fn proven(mut self, secret: &[u8]) -> Cli {
        let (status, text) = self.answer();
        assert_eq!(status, 107, "{text}");
        let (status, text) = self.ask(&format!("auth {}", proof(&text, secret)));
        assert_eq!(status, 200, "{text}");
        self
    }

    /// Status and text of the next answer.
    pub fn answer(&mut self) -> (u16, String) {
        let mut line = [0; 13];
        self.0.read_exact(&mut line).unwrap();
        let line = str::from_utf8(&line).unwrap();
        let mut text = vec![0; line[4..12].trim().parse::<usize>().unwrap() + 1];
        self.0.read_exact(&mut text).unwrap();
        assert_eq!((line.as_bytes()[12], text.pop()), (b'\n', Some(b'\n')));
        (line[..3].trim().parse().unwrap(), String::from_utf8(text).unwrap())
    }

    pub fn ask(&mut self, line: &str) -> (u16, String) {
        self.0.write_all(format!("{line}\n").as_bytes()).unwrap();
        self.answer()
    }

    /// Asks, and checks the status and a part of the text.
    pub fn says(&mut self, line: &str, status: u16, part: &str) {
        let (found, text) = self.ask(line);
        assert!(found == status && text.contains(part), "{line}: {found} {text}");
    }

    /// Gives an order that is carried out.
    pub fn order(&mut self, line: &str) {
        self.says(line, 200, "");
    }

    pub fn is_closed(&mut self) -> bool {
        matches!(self.0.read(&mut [0]), Ok(0) | Err(_))
    }
}
