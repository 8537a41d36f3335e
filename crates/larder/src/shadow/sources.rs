//! Where requests come from: an access log that grows, and requests that the old server mirrors.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use larder_http::h1::request::{HeadLimits, HeadStatus, RequestHead, parse_request};

use super::line::Format;
use super::packed::Unpacked;
use super::wanted::{Seen, seen};

/// Takes what is seen. `false` ends the source.
pub trait Sink: Send {
    /// Hands it on, or counts it as dropped.
    fn take(&mut self, seen: Seen) -> bool;
    /// Counts a request that nobody had time to read.
    fn missed(&mut self);
}

/// An access log.
pub struct LogFile {
    path: std::path::PathBuf,
    file: Box<dyn BufRead + Send>,
    /// Whether it is compressed, as rotated logs are: it does not grow.
    is_packed: bool,
    inode: u64,
    /// How far it has been read.
    at: u64,
}

impl LogFile {
    /// Opens it, at its end or, `from_start`, at its beginning.
    pub fn open(path: &Path, from_start: bool) -> io::Result<LogFile> {
        let mut file = File::open(path)?;
        let inode = file.metadata()?.ino();
        let mut start = [0; 2];
        let is_packed = file.read_at(&mut start, 0).is_ok_and(|count| count == 2) && start == GZIP;
        let at = if from_start || is_packed { 0 } else { file.seek(SeekFrom::End(0))? };
        let file: Box<dyn BufRead + Send> =
            if is_packed { Box::new(BufReader::new(Unpacked::new(file)?)) } else { Box::new(BufReader::new(file)) };
        Ok(LogFile { path: path.to_owned(), file, is_packed, inode, at })
    }

    /// Reads its lines, as they come; with `once`, or if it is compressed, up to where it ends now.
    pub fn follow(mut self, format: &Format, once: bool, sink: &mut dyn Sink) {
        let mut line = Vec::new();
        let once = once || self.is_packed;
        loop {
            match self.read_line(&mut line) {
                Ok(true) => {
                    if !sink.take(format.read(&line)) {
                        return;
                    }
                    line.clear();
                }
                Ok(false) if once => return,
                Err(error) if once => {
                    eprintln!("larder shadow: --log {}: it is read up to here: {error}", self.path.display());
                    return;
                }
                Ok(false) | Err(_) => {
                    thread::sleep(PAUSE);
                    if let Ok(Some(next)) = self.successor() {
                        self = next;
                        line.clear();
                    }
                }
            }
        }
    }

    /// Reads on to the end of a line; `false` at the end of the file, with as much of the line as is there. What is
    /// longer than a request can be is cut, and read by nobody.
    fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        let mut came = Vec::new();
        let count = (&mut self.file).take(LINE_BYTES_MAX).read_until(b'\n', &mut came)?;
        self.at += count as u64;
        let is_whole = came.last() == Some(&b'\n');
        came.truncate(came.len() - usize::from(is_whole));
        if line.len() < LINE_BYTES_MAX as usize {
            line.extend_from_slice(&came);
        }
        Ok(is_whole)
    }

    /// The file that has taken its place, by rotation or by being emptied.
    fn successor(&self) -> io::Result<Option<LogFile>> {
        let now = std::fs::metadata(&self.path)?;
        match now.ino() != self.inode || now.len() < self.at {
            true => LogFile::open(&self.path, true).map(Some),
            false => Ok(None),
        }
    }
}

/// Answers mirrored requests with 204, and hands them on. Each connection has a thread, of which there are few.
pub fn receive(listener: TcpListener, mut sink: impl Sink + Clone + 'static) {
    let connections = Arc::new(AtomicUsize::new(0));
    for socket in listener.incoming() {
        let Ok(socket) = socket else {
            thread::sleep(PAUSE);
            continue;
        };
        if connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            connections.fetch_sub(1, Ordering::Relaxed);
            sink.missed();
            continue;
        }
        let (mut sink, connections) = (sink.clone(), Arc::clone(&connections));
        thread::spawn(move || {
            if let Ok(Some(seen)) = mirrored(socket) {
                sink.take(seen);
            }
            connections.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// Reads one request; its body, of which there is none by a right configuration, is thrown away.
fn mirrored(mut socket: TcpStream) -> io::Result<Option<Seen>> {
    socket.set_read_timeout(Some(MIRROR_PATIENCE))?;
    socket.set_write_timeout(Some(MIRROR_PATIENCE))?;
    let limits = HeadLimits {
        line_bytes: HEAD_BYTES_MAX,
        head_bytes: HEAD_BYTES_MAX,
        field_bytes: HEAD_BYTES_MAX,
        ..HeadLimits::default()
    };
    let mut bytes = Vec::new();
    let mut head = RequestHead::new();
    let seen = loop {
        let mut piece = [0; 4096];
        let count = socket.read(&mut piece)?;
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
        match parse_request(&bytes, &mut head, &limits) {
            Ok(HeadStatus::Complete { consumed }) => {
                let came = bytes.len().saturating_sub(consumed) as u64;
                let rest = head.fields.content_length().unwrap_or(0).saturating_sub(came);
                io::copy(&mut Read::by_ref(&mut socket).take(rest.min(BODY_BYTES_MAX)), &mut io::sink())?;
                break read_head(&head);
            }
            Ok(HeadStatus::Partial) if count == 0 && bytes.is_empty() => return Ok(None),
            Ok(HeadStatus::Partial) if count > 0 && bytes.len() < HEAD_BYTES_MAX => {}
            Ok(HeadStatus::Partial) | Err(_) => break Seen::Unreadable,
        }
    };
    socket.write_all(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?;
    Ok(Some(seen))
}

fn read_head(head: &RequestHead) -> Seen {
    let fields =
        head.fields.iter().map(|(name, value)| (String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()));
    let host = head.target_host().or_else(|| head.fields.get("host"));
    seen(head.method_name(), head.target(), host, fields.collect())
}

/// How gzip files begin.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const PAUSE: Duration = Duration::from_millis(100);
const LINE_BYTES_MAX: u64 = 64 << 10;
const HEAD_BYTES_MAX: usize = 64 << 10;
const BODY_BYTES_MAX: u64 = 64 << 20;
const CONNECTIONS_MAX: usize = 64;
const MIRROR_PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use larder_compress::{Coding, Encoder, Params};
    use larder_conf::Span;
    use larder_conf::model::{At, LogEscape, LogFormat};

    use super::*;

    /// What bytes on a connection are taken for, and what is answered.
    fn sent(bytes: &[u8]) -> (Option<Seen>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(bytes).unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let seen = mirrored(listener.accept().unwrap().0).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        (seen, answer)
    }

    #[test]
    fn whatever_is_mirrored_is_answered_and_only_whole_requests_are_taken() {
        let whole = b"GET /a?b HTTP/1.1\r\nHost: a.test\r\nCookie: c=d\r\nContent-Length: 3\r\n\r\nxyz";
        let (seen, answer) = sent(whole);
        let Some(Seen::Wanted(wanted)) = seen else { panic!("{seen:?}") };
        assert_eq!((wanted.target.as_slice(), wanted.host.as_deref()), (&b"/a?b"[..], Some(&b"a.test"[..])));
        assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
        let end_of_head = whole.len() - 3;
        for end in 1..end_of_head {
            assert_eq!(sent(&whole[..end]).0, Some(Seen::Unreadable), "{end}");
        }
        for bytes in [&b"\x16\x03\x01\x02"[..], b"GET / HTTP/9.9\r\n\r\n", b"GET http://a b HTTP/1.1\r\n\r\n"] {
            assert_eq!(sent(bytes).0, Some(Seen::Unreadable), "{bytes:?}");
        }
        assert_eq!(sent(b"").0, None);
    }

    /// Lines of a file in pieces, and through rotation.
    #[test]
    fn half_a_line_waits_for_its_other_half() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\ntw").unwrap();
        let mut log = LogFile::open(&path, true).unwrap();
        let mut line = Vec::new();
        assert!(log.read_line(&mut line).unwrap());
        assert_eq!(line, b"one");
        line.clear();
        assert!(!log.read_line(&mut line).unwrap());
        assert!(log.successor().unwrap().is_none());
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"o\n").unwrap();
        assert!(log.read_line(&mut line).unwrap());
        assert_eq!(line, b"two");
        std::fs::write(&path, "x\n").unwrap();
        let mut next = log.successor().unwrap().expect("it was emptied");
        line.clear();
        assert!(next.read_line(&mut line).unwrap());
        assert_eq!(line, b"x");
    }

    #[test]
    fn a_compressed_log_is_read_to_its_end() {
        struct Lines(Vec<Seen>);
        impl Sink for Lines {
            fn take(&mut self, seen: Seen) -> bool {
                self.0.push(seen);
                true
            }
            fn missed(&mut self) {}
        }
        let format = Format::of(&LogFormat {
            name: At { value: "short".to_owned(), span: Span::NOWHERE },
            escape: LogEscape::None,
            format: larder_conf::parse_template("$request", Span::NOWHERE).unwrap(),
        });
        let format = format.unwrap();
        let packed = |text: &str| {
            let mut out = Vec::new();
            let mut encoder = Encoder::new(Coding::Gzip, Params::new(Coding::Gzip, 6)).unwrap();
            encoder.encode(text.as_bytes(), &mut out).unwrap();
            encoder.finish(&mut out).unwrap();
            out
        };
        let lines: String = (0..10_000).map(|number| format!("GET /{number} HTTP/1.1\n")).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log.2.gz");
        // Compressed as a whole, or a part after the other; cut, what is there is read.
        for (bytes, count) in [
            (packed(&lines), 10_000),
            ([packed(&lines), packed("GET / HTTP/1.1\n")].concat(), 10_001),
            (packed(&lines[..lines.len() / 2]), 5_000),
            (vec![0x1f, 0x8b, 7, 7], 0),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let mut seen = Lines(Vec::new());
            LogFile::open(&path, false).unwrap().follow(&format, false, &mut seen);
            assert!(seen.0.len().abs_diff(count) < 100, "{count}: {}", seen.0.len());
            assert!(seen.0.iter().all(|seen| matches!(seen, Seen::Wanted(_))));
        }
    }
}
