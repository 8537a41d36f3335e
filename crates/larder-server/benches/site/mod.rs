//! A cached site in this process, and a client that allocates nothing, for what measures hits.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use larder_conf::model::ListenAddress;
use larder_conf::{MemoryLoader, Options};
use larder_server::{Descriptors, Serving, ServingOptions};

/// One worker that caches a page of 1 KB, made by a second server of the same configuration.
pub struct Site {
    serving: Option<Serving>,
    port: u16,
}

impl Site {
    /// Starts it; `http` and `location` are added to those blocks.
    pub fn start(http: &str, location: &str) -> Self {
        let front = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let back = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port_of = |socket: &TcpListener| socket.local_addr().expect("it is bound").port();
        let (port, origin) = (port_of(&front), port_of(&back));
        let body = "x".repeat(1024);
        let text = format!(
            "error_log stderr; events {{}} http {{ {http} keepalive_requests 1000000000; keepalive_time 100h; proxy_cache_path /tmp/none keys_zone=pages:10m;
             server {{ listen 127.0.0.1:{port}; location / {{ {location}
               proxy_pass http://127.0.0.1:{origin}; proxy_cache pages; proxy_cache_valid 200 1h;
               proxy_cache_key \"$scheme$request_method$host$request_uri\"; }} }}
             server {{ listen 127.0.0.1:{origin}; access_log off; location / {{ return 200 \"{body}\"; }} }} }}"
        );
        let mut loader = MemoryLoader::new();
        loader.add("/site.conf", text.into_bytes());
        let options = Options {
            prefix: "/tmp".into(),
            conf_prefix: "/tmp".into(),
            globals: None,
            is_root: false,
            hostname: "localhost".to_owned(),
        };
        let loaded = match larder_conf::load(Path::new("/site.conf"), &options, &mut loader) {
            Ok(loaded) => loaded,
            Err(failed) => panic!("{}", larder_conf::render(&failed.diagnostics, &failed.sources)),
        };
        let listener =
            |socket: TcpListener, port: u16| (ListenAddress::Tcp(([127, 0, 0, 1], port).into()), vec![socket.into()]);
        let descriptors =
            Descriptors { listeners: vec![listener(front, port), listener(back, origin)], logs: Vec::new() };
        let serving = Serving::start(loaded.config, descriptors, ServingOptions { workers: 1 });
        let serving = serving.unwrap_or_else(|errors| panic!("{errors:?}"));
        Self { serving: Some(serving), port }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.stop();
            serving.join();
        }
    }
}

/// A kept connection.
pub struct Keep {
    stream: TcpStream,
    buffer: Vec<u8>,
}

const REQUEST: &[u8] = b"GET /2026/11/hello/ HTTP/1.1\r\nHost: example.org\r\nUser-Agent: Mozilla/5.0 (X11; Linux x86_64) \
AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0 Safari/537.36\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\n\
Accept-Language: en-GB,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\nCookie: _ga=GA1.2.1\r\n\r\n";

impl Keep {
    /// Connects.
    pub fn connect(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("the site listens");
        stream.set_nodelay(true).expect("a connected socket takes options");
        Self { stream, buffer: vec![0; 64 * 1024] }
    }

    /// Asks for the page `count` times, one after the other.
    pub fn get(&mut self, count: usize) {
        for _ in 0..count {
            self.stream.write_all(REQUEST).expect("the connection is kept");
            let mut read = 0;
            loop {
                let n = self.stream.read(&mut self.buffer[read..]).expect("the site answers");
                assert!(n > 0, "the site closed the connection");
                read += n;
                if self.buffer[..read].ends_with(b"xxxxxxxx") {
                    break;
                }
            }
            assert!(self.buffer.starts_with(b"HTTP/1.1 200 OK"));
        }
    }
}
