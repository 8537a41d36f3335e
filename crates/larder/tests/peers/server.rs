//! A server with what the suites ask for: a page that also takes a POST, in the clear and with TLS.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use larder_testkit::{Certificates, Folder, HandOrigin, KeyKind, Lifetime, ServerUnderTest, free_port};

/// How long the origin takes: a suite that sends a frame behind a request means it to come before the response.
const THINKING: Duration = Duration::from_millis(50);

/// A running server and the authority of its certificate.
pub struct Server {
    _server: ServerUnderTest,
    /// HTTP/2 in the clear.
    pub port: u16,
    /// HTTP/2 over TLS.
    pub tls_port: u16,
    /// Where `authority.pem` is.
    pub folder: Folder,
}

impl Server {
    /// Starts the server under test; of TLS it is told nothing but its certificates.
    pub fn start() -> Server {
        let folder = Folder::new().expect("/tmp takes a folder");
        let authority = Certificates::new("Larder Test Authority");
        let ecdsa = authority.server_with(&["localhost"], KeyKind::Ecdsa, Lifetime::Days(180));
        let rsa = authority.server_with(&["localhost"], KeyKind::Rsa, Lifetime::Days(180));
        let (port, tls_port) = (free_port(), free_port());
        let origin = start_origin();
        // The default of nginx before 1.23.4 is older.
        let protocols = if is_nginx() { "ssl_protocols TLSv1.2 TLSv1.3;" } else { "" };
        let configuration = format!(
            "daemon off; worker_processes 2; pid nginx.pid; error_log error.log info; events {{}}
             http {{
                access_log off; {protocols}
                client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
                server {{
                    listen 127.0.0.1:{port} http2;
                    listen 127.0.0.1:{tls_port} ssl http2;
                    server_name localhost;
                    ssl_certificate ecdsa.crt; ssl_certificate_key ecdsa.key;
                    ssl_certificate rsa.crt; ssl_certificate_key rsa.key;
                    location / {{ proxy_pass http://{origin}; }}
                }}
             }}"
        );
        for (name, text) in [
            ("nginx.conf", &configuration),
            ("authority.pem", &authority.authority_pem()),
            ("ecdsa.crt", &ecdsa.pem),
            ("ecdsa.key", &ecdsa.key_pem),
            ("rsa.crt", &rsa.pem),
            ("rsa.key", &rsa.key_pem),
        ] {
            folder.write(name, text).expect("the folder is ours");
        }
        let server = ServerUnderTest::start(&binary(), folder.path()).unwrap_or_else(|error| panic!("{error}"));
        Server { _server: server, port, tls_port, folder }
    }
}

/// An origin that reads a request to its end, thinks, and answers with a page that is long enough for windows to matter.
fn start_origin() -> SocketAddr {
    let mut origin = HandOrigin::start().expect("a port is free");
    let address = origin.address();
    let page = "a page that is long enough for a window to matter. ".repeat(20);
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\r\n{page}", page.len());
    // It ends with the process, whose only business are these tests.
    thread::spawn(move || {
        loop {
            let Ok(mut connection) = origin.accept() else { continue };
            let answer = answer.clone();
            thread::spawn(move || {
                while let Ok(Some(_)) = connection.request() {
                    thread::sleep(THINKING);
                    if connection.send(&answer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The server under test: larder, or the one named by `LARDER_TEST_BINARY`.
pub fn binary() -> PathBuf {
    std::env::var_os("LARDER_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_larder").into()).into()
}

/// Whether the server under test is nginx, of which less is expected.
pub fn is_nginx() -> bool {
    binary().file_name().is_some_and(|name| name == "nginx")
}

/// A program: where `go install` puts it, or in one of the usual places.
pub fn program(name: &str) -> PathBuf {
    let var = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let places = [
        var("GOBIN"),
        var("GOPATH").map(|path| path.join("bin")),
        var("HOME").map(|path| path.join("go/bin")),
        Some("/usr/local/bin".into()),
        Some("/usr/bin".into()),
    ];
    let mut paths = places.into_iter().flatten().map(|place| place.join(name));
    paths.find(|path| path.exists()).unwrap_or_else(|| panic!("{name} is not installed. Run `scripts/setup test`."))
}

/// Runs a program to its end; what it said, and whether it was content.
pub fn run(program: &Path, arguments: &[&str], folder: &Path) -> (String, bool) {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let said = [output.stdout, output.stderr].concat();
    (larder_testkit::text_of(&said), output.status.success())
}
