//! A cached site in this process, and a client that allocates nothing, for what measures hits.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use larder_conf::model::{Config, ListenAddress};
use larder_conf::{MemoryLoader, Options};
use larder_server::objects::Surroundings;
use larder_server::site::Vcl;
use larder_server::{Descriptors, Material, Serving, ServingOptions};
use tempfile::TempDir;

/// One worker that caches a page, made by a third server of the same configuration.
pub struct Site {
    serving: Option<Serving>,
    ports: Ports,
    bytes: usize,
    /// Its cache, which no other site finds pages in.
    cache: TempDir,
}

#[derive(Clone, Copy)]
struct Ports {
    site: u16,
    other: u16,
    origin: u16,
}

/// What is added to the blocks of a configuration.
#[derive(Clone, Copy, Default)]
pub struct Blocks<'a> {
    /// To `http`.
    pub http: &'a str,
    /// To the server of the site.
    pub server: &'a str,
    /// To its location.
    pub location: &'a str,
    /// To the one of another site, which has the same pages in the same cache.
    pub other: &'a str,
    /// To the one of the origin.
    pub origin: &'a str,
    /// A VCL in front of the location; none if it is empty.
    pub vcl: &'a str,
}

impl Site {
    /// Starts it with a page of `bytes`; `http` and `location` are added to those blocks.
    pub fn start(bytes: usize, http: &str, location: &str) -> Self {
        Self::with(bytes, Blocks { http, location, ..Blocks::default() })
    }

    /// Starts it with a page of `bytes`.
    pub fn with(bytes: usize, blocks: Blocks<'_>) -> Self {
        let sockets = [(); 3].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port is free"));
        let [site, other, origin] = [0, 1, 2].map(|at: usize| sockets[at].local_addr().expect("it is bound").port());
        let ports = Ports { site, other, origin };
        let cache = TempDir::new().expect("the folder for temporary files takes another");
        let config = config(bytes, ports, cache.path(), blocks);
        let listener = |(socket, port): (TcpListener, u16)| {
            (ListenAddress::Tcp(([127, 0, 0, 1], port).into()), vec![socket.into()])
        };
        let listeners = sockets.into_iter().zip([site, other, origin]).map(listener).collect();
        let descriptors = Descriptors { listeners, logs: Vec::new() };
        let serving = Serving::start(
            config,
            &material(blocks),
            descriptors,
            ServingOptions { workers: 1, respawned: 0, reloads: 0, log: Default::default(), desk: Default::default() },
        );
        let serving = serving.unwrap_or_else(|errors| panic!("{errors:?}"));
        Self { serving: Some(serving), ports, bytes, cache }
    }

    /// Has the worker serve by other blocks. It may take a moment until it does.
    #[allow(dead_code, reason = "not everybody who measures reloads")]
    pub fn reload(&self, blocks: Blocks<'_>) {
        let config = config(self.bytes, self.ports, self.cache.path(), blocks);
        let descriptors = Descriptors { listeners: Vec::new(), logs: Vec::new() };
        let serving = self.serving.as_ref().expect("it runs until it is dropped");
        serving.reload(config, &material(blocks), descriptors).unwrap_or_else(|errors| panic!("{errors:?}"));
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.ports.site
    }

    /// Where the other site listens.
    #[allow(dead_code, reason = "not everybody who measures has two")]
    pub fn other_port(&self) -> u16 {
        self.ports.other
    }
}

/// The name of the VCL.
const VCL: &str = "/site.vcl";

fn material(blocks: Blocks<'_>) -> Material {
    let mut material = Material::new();
    if blocks.vcl.is_empty() {
        return material;
    }
    let mut loader = MemoryLoader::new();
    loader.add(VCL, blocks.vcl);
    let options = larder_vcl::Options { has_other_backends: true, ..larder_vcl::Options::default() };
    let loaded = larder_vcl::load(Path::new(VCL), &options, &mut loader, &|_| Ok(()));
    let loaded = loaded.unwrap_or_else(|failed| panic!("{}", larder_vcl::render(&failed.diagnostics, &failed.sources)));
    let surroundings = Surroundings {
        hostname: "localhost".to_owned(),
        identity: "localhost".to_owned(),
        parameters: larder_vcl::parameters::Parameters::default(),
        now: 0.0,
    };
    let (vcl, _) = Vcl::new(loaded, &|_| Vec::new(), &surroundings).unwrap_or_else(|errors| panic!("{errors:?}"));
    material.add_vcl(VCL.into(), vcl);
    material
}

fn config(bytes: usize, ports: Ports, cache: &Path, blocks: Blocks<'_>) -> Config {
    let Ports { site, other, origin } = ports;
    let cache = cache.display();
    let body = "x".repeat(bytes);
    let vcl = if blocks.vcl.is_empty() { String::new() } else { format!("vcl {VCL};") };
    let pages = format!(
        "proxy_pass http://127.0.0.1:{origin}; proxy_cache pages; proxy_cache_valid 200 1h;
         proxy_cache_key \"$scheme$request_method$host$request_uri\";"
    );
    let text = format!(
        "error_log stderr; events {{}} http {{ {} default_type text/html; http2 on; keepalive_requests 1000000000; keepalive_time 100h; proxy_cache_path {cache} keys_zone=pages:10m;
         server {{ listen 127.0.0.1:{site}; {} location / {{ {} {vcl} {pages} }} }}
         server {{ listen 127.0.0.1:{other}; location / {{ {} {pages} }} }}
         server {{ listen 127.0.0.1:{origin}; access_log off; location / {{ {} return 200 \"{body}\"; }} }} }}",
        blocks.http, blocks.server, blocks.location, blocks.other, blocks.origin
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
    match larder_conf::load(Path::new("/site.conf"), &options, &mut loader) {
        Ok(loaded) => loaded.config,
        Err(failed) => panic!("{}", larder_conf::render(&failed.diagnostics, &failed.sources)),
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

/// The size of a page that does not matter.
pub const PAGE_BYTES: usize = 1024;

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
        Self { stream, buffer: vec![0; 256 * 1024] }
    }

    /// Asks for the page; whether a line of the answer's head is `line`.
    #[allow(dead_code, reason = "not everybody who measures looks at the answer")]
    pub fn get_has(&mut self, line: &str) -> bool {
        self.get(1);
        let wanted = format!("\r\n{line}\r\n");
        let head = self.buffer.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 2);
        self.buffer[..head].windows(wanted.len()).any(|window| window == wanted.as_bytes())
    }

    /// Asks for the page `count` times, one after the other.
    pub fn get(&mut self, count: usize) {
        self.send(REQUEST, count);
    }

    /// Sends another request `count` times, each after the answer to the one before.
    pub fn send(&mut self, request: &[u8], count: usize) {
        for _ in 0..count {
            self.stream.write_all(request).expect("the connection is kept");
            let mut read = 0;
            while whole_len(&self.buffer[..read]).is_none_or(|len| read < len) {
                let n = self.stream.read(&mut self.buffer[read..]).expect("the site answers");
                assert!(n > 0, "the site closed the connection");
                read += n;
            }
            assert!(self.buffer.starts_with(b"HTTP/1.1 200 OK"));
        }
    }
}

/// The length of a response of which the head has come.
fn whole_len(bytes: &[u8]) -> Option<usize> {
    const FIELD: &[u8] = b"Content-Length: ";
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let Some(at) = bytes.windows(FIELD.len()).position(|window| window == FIELD) else {
        // In chunks: a page that was compressed as it passed.
        return bytes.ends_with(b"\r\n0\r\n\r\n").then_some(bytes.len());
    };
    let at = at + FIELD.len();
    let digits = bytes[at..].iter().take_while(|byte| byte.is_ascii_digit());
    Some(head + digits.fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

/// A kept connection that speaks HTTP/2, one request at a time.
#[allow(dead_code, reason = "not everybody who measures speaks both")]
pub struct KeepFrames {
    stream: TcpStream,
    buffer: Vec<u8>,
    next: u32,
    page_bytes: usize,
}

/// The same request as a field block, without Huffman: names of the static table (RFC 7541, appendix A).
const BLOCK: &[u8] = b"\x82\x86\x04\x0f/2026/11/hello/\x01\x0bexample.org\x0f\x01\x11gzip, deflate, br";
const HEADERS: u8 = 1;
const DATA: u8 = 0;
const FRAME_HEAD_BYTES: usize = 9;
const END_STREAM: u8 = 1;
const END_STREAM_AND_HEADERS: u8 = 5;

#[allow(dead_code, reason = "as above")]
impl KeepFrames {
    /// Connects, to ask for pages of so many bytes.
    pub fn connect(port: u16, page_bytes: usize) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the site listens");
        stream.set_nodelay(true).expect("a connected socket takes options");
        // The preface, and settings with a window of 1 MB for each stream.
        stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\x06\x04\0\0\0\0\0").expect("it is open");
        stream.write_all(b"\0\x04\0\x10\0\0").expect("it is open");
        Self { stream, buffer: vec![0; 256 * 1024], next: 1, page_bytes }
    }

    /// Asks for the page `count` times, one after the other.
    pub fn get(&mut self, count: usize) {
        for _ in 0..count {
            // Room for the next page, then the request.
            let mut request = [0; 128];
            request[..9].copy_from_slice(b"\0\0\x04\x08\0\0\0\0\0");
            request[9..13].copy_from_slice(&(self.page_bytes as u32).to_be_bytes());
            let at = 13;
            request[at + 2] = BLOCK.len() as u8;
            request[at + 3] = HEADERS;
            request[at + 4] = END_STREAM_AND_HEADERS;
            request[at + 5..at + 9].copy_from_slice(&self.next.to_be_bytes());
            let end = at + FRAME_HEAD_BYTES + BLOCK.len();
            request[at + FRAME_HEAD_BYTES..end].copy_from_slice(BLOCK);
            self.stream.write_all(&request[..end]).expect("the connection is kept");
            self.read_to_end_of(self.next);
            self.next += 2;
        }
    }

    fn read_to_end_of(&mut self, stream: u32) {
        let mut read = 0;
        let mut at = 0;
        loop {
            let n = self.stream.read(&mut self.buffer[read..]).expect("the site answers");
            assert!(n > 0, "the site closed the connection");
            read += n;
            while let Some(frame) = self.buffer[at..read].get(..FRAME_HEAD_BYTES) {
                let len = usize::from(frame[0]) << 16 | usize::from(frame[1]) << 8 | usize::from(frame[2]);
                let (kind, flags) = (frame[3], frame[4]);
                let id = u32::from_be_bytes([frame[5], frame[6], frame[7], frame[8]]);
                if read - at < FRAME_HEAD_BYTES + len {
                    break;
                }
                at += FRAME_HEAD_BYTES + len;
                if kind == DATA && id == stream && flags & END_STREAM != 0 {
                    return;
                }
            }
        }
    }
}
