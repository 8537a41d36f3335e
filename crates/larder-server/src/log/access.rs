//! Writes the lines of one access log for a worker, with `buffer=`, `flush=` and `gzip`.

use std::sync::Arc;
use std::time::Duration;

use larder_compress::{Encoder, Params};
use larder_http::{Coding, Time};

use super::sink::{LogFile, Trouble};
use super::stamp::Stamps;
use super::syslog::SyslogSender;

/// Where a log's lines go.
#[derive(Clone, Debug)]
pub enum Target {
    /// A file, shared by the workers.
    File(Arc<LogFile>),
    /// A syslog server: one datagram for each line, never buffered.
    Syslog(Arc<SyslogSender>),
}

/// An access log of one worker. Dropping it writes the lines in the buffer.
pub struct LogWriter {
    target: Target,
    /// `gzip`: the compressed lines that were not written yet.
    packing: Option<Packing>,
    buffer: Vec<u8>,
    /// The size of the buffer; 0 writes each line at once.
    buffer_bytes: usize,
    flush: Option<Duration>,
    /// When the first line entered the empty buffer.
    first_at: Option<Time>,
    /// The time of the last call, for the write when this is dropped.
    now: Time,
}

impl LogWriter {
    /// A writer with `buffer=`, `flush=` and `gzip` as configured.
    pub fn new(target: Target, buffer_bytes: Option<usize>, flush: Option<Duration>, gzip: Option<u8>) -> Self {
        let buffer_bytes = match target {
            Target::File(_) => buffer_bytes.unwrap_or(0),
            Target::Syslog(_) => 0,
        };
        let packing = gzip.map(|level| Packing { level, encoder: None, taken: 0, made: Vec::new() });
        let room = if packing.is_some() { 0 } else { buffer_bytes };
        Self { target, packing, buffer: Vec::with_capacity(room), buffer_bytes, flush, first_at: None, now: Time(0) }
    }

    /// Adds a line, which `build` appends without its line feed.
    ///
    /// If the line does not fit into the buffer, the buffer is written first; a line longer than the buffer is written
    /// alone. A line is never split between two writes.
    pub fn line(&mut self, now: Time, stamps: &mut Stamps, build: impl FnOnce(&mut Vec<u8>)) -> Result<(), Trouble> {
        self.now = now;
        let start = self.buffer.len();
        build(&mut self.buffer);
        let file = match &self.target {
            Target::File(file) => file,
            Target::Syslog(syslog) => {
                let sent = syslog.send(syslog.severity(), stamps.at(now), &self.buffer);
                self.buffer.clear();
                return sent.map_err(|source| Trouble::Syslog { server: syslog.name().to_owned(), source });
            }
        };
        self.buffer.push(b'\n');
        if let Some(packing) = &mut self.packing {
            // A member holds as many bytes of lines as the buffer would.
            let is_full = packing.taken > 0 && packing.taken + self.buffer.len() > self.buffer_bytes;
            let before = if is_full { packing.write(file, now) } else { Ok(()) };
            if packing.taken == 0 {
                self.first_at = Some(now);
            }
            packing.take(&self.buffer);
            self.buffer.clear();
            if packing.taken <= self.buffer_bytes {
                return before;
            }
            self.first_at = None;
            let alone = packing.write(file, now);
            return before.and(alone);
        }
        if self.buffer.len() <= self.buffer_bytes {
            self.first_at.get_or_insert(now);
            return Ok(());
        }
        let before = file.append(&self.buffer[..start], now);
        let line_len = self.buffer.len() - start;
        if line_len <= self.buffer_bytes {
            self.buffer.drain(..start);
            self.first_at = Some(now);
            return before;
        }
        let alone = file.append(&self.buffer[start..], now);
        self.buffer.clear();
        self.buffer.shrink_to(self.buffer_bytes.max(BUFFER_KEPT_BYTES));
        self.first_at = None;
        before.and(alone)
    }

    /// When [`LogWriter::flush`] has to be called, unless something else writes before.
    pub fn due(&self) -> Option<Time> {
        Some(self.first_at?.plus(self.flush?))
    }

    /// Writes the buffer: when it is [`due`](Self::due), before the file is reopened, and at the end.
    pub fn flush(&mut self, now: Time) -> Result<(), Trouble> {
        self.now = now;
        let written = match (&self.target, &mut self.packing) {
            (Target::File(file), Some(packing)) => packing.write(file, now),
            (Target::File(file), None) => file.append(&self.buffer, now),
            (Target::Syslog(_), _) => Ok(()),
        };
        self.buffer.clear();
        self.first_at = None;
        written
    }
}

/// Lines that become one member of a gzip file. Each is compressed when it arrives, so that no request waits for all of
/// them.
struct Packing {
    level: u8,
    /// The member that is being made.
    encoder: Option<Encoder>,
    /// How many bytes of lines it holds.
    taken: usize,
    /// The compressed bytes so far.
    made: Vec<u8>,
}

impl Packing {
    fn take(&mut self, line: &[u8]) {
        if self.encoder.is_none() {
            let params = Params::new(Coding::Gzip, u32::from(self.level));
            self.encoder = Encoder::new(Coding::Gzip, params).ok();
        }
        // If there is no memory for the encoder, lines are lost, as on a full disk.
        if let Some(encoder) = &mut self.encoder
            && encoder.encode(line, &mut self.made).is_ok()
        {
            self.taken += line.len();
        }
    }

    /// Ends the member and appends it to the file.
    fn write(&mut self, file: &LogFile, now: Time) -> Result<(), Trouble> {
        let Some(encoder) = self.encoder.take() else { return Ok(()) };
        self.taken = 0;
        let mut member = std::mem::take(&mut self.made);
        match encoder.finish(&mut member) {
            Ok(()) => file.append(&member, now),
            Err(_) => Ok(()),
        }
    }
}

/// How much memory for an unbuffered line is kept for the next one.
const BUFFER_KEPT_BYTES: usize = 4096;

impl Drop for LogWriter {
    fn drop(&mut self) {
        // Nobody is left to report a failure to.
        let _ = self.flush(self.now);
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;

    struct Bench {
        dir: ::tempfile::TempDir,
        file: Arc<LogFile>,
        stamps: Stamps,
    }

    impl Bench {
        fn new() -> Self {
            let dir = ::tempfile::tempdir().expect("a temp dir can be made");
            let file = Arc::new(LogFile::open(&dir.path().join("a.log")).expect("opened"));
            Self { dir, file, stamps: Stamps::new(TimeZone::UTC) }
        }

        fn writer(&self, buffer: usize, flush: Option<u64>) -> LogWriter {
            LogWriter::new(Target::File(self.file.clone()), Some(buffer), flush.map(Duration::from_secs), None)
        }

        fn line(&mut self, writer: &mut LogWriter, secs: u64, text: &str) {
            writer
                .line(Time::from_secs(secs), &mut self.stamps, |out| out.extend_from_slice(text.as_bytes()))
                .expect("written");
        }

        fn written(&self) -> String {
            std::fs::read_to_string(self.dir.path().join("a.log")).expect("there")
        }
    }

    #[test]
    fn lines_are_written_when_the_next_does_not_fit() {
        for (buffer, lines, written, rest) in [
            (0, &["a", "b"][..], "a\nb\n", ""),
            (8, &["aaa", "bbb"], "", "aaa\nbbb\n"),
            (8, &["aaa", "bbb", "c"], "aaa\nbbb\n", "c\n"),
            (8, &["aaa", "too long for it", "c"], "aaa\ntoo long for it\n", "c\n"),
            (8, &["1234567", "x"], "1234567\n", "x\n"),
        ] {
            let mut bench = Bench::new();
            let mut writer = bench.writer(buffer, None);
            for line in lines {
                bench.line(&mut writer, 0, line);
            }
            assert_eq!(bench.written(), written, "{lines:?}");
            drop(writer);
            assert_eq!(bench.written(), format!("{written}{rest}"), "{lines:?}, at the end");
        }
    }

    #[test]
    fn a_flush_is_due_after_the_first_line_in_the_buffer() {
        let mut bench = Bench::new();
        let mut writer = bench.writer(8, Some(5));
        assert_eq!(writer.due(), None);
        bench.line(&mut writer, 10, "aaa");
        bench.line(&mut writer, 12, "bbb");
        assert_eq!(writer.due(), Some(Time::from_secs(15)));
        bench.line(&mut writer, 13, "ccc");
        assert_eq!(writer.due(), Some(Time::from_secs(18)), "counted anew from the line that is left");
        writer.flush(Time::from_secs(18)).expect("written");
        assert_eq!(writer.due(), None);
        assert_eq!(bench.written(), "aaa\nbbb\nccc\n");
        bench.line(&mut writer, 20, "longer than the buffer");
        assert_eq!(writer.due(), None);
    }

    #[test]
    fn a_compressed_log_is_members_of_what_the_buffer_holds() {
        let mut bench = Bench::new();
        let file = Target::File(bench.file.clone());
        let mut writer = LogWriter::new(file, Some(8), Some(Duration::from_secs(5)), Some(1));
        let unpacked = |bench: &Bench| {
            let bytes = std::fs::read(bench.dir.path().join("a.log")).expect("there");
            let lines = larder_compress::restore(std::iter::once(&bytes[..]), Coding::Gzip, 1000).expect("gzip");
            (String::from_utf8(lines).expect("text"), bytes.windows(3).filter(|at| *at == [0x1f, 0x8b, 8]).count())
        };
        for (secs, line, due) in [(10, "aaa", 15), (11, "bbb", 15), (12, "ccc", 17), (13, "d", 17)] {
            bench.line(&mut writer, secs, line);
            assert_eq!(writer.due(), Some(Time::from_secs(due)), "{line}");
        }
        assert_eq!(unpacked(&bench), ("aaa\nbbb\n".to_owned(), 1));
        bench.line(&mut writer, 14, "longer than the buffer");
        assert_eq!(writer.due(), None);
        assert_eq!(unpacked(&bench), ("aaa\nbbb\nccc\nd\nlonger than the buffer\n".to_owned(), 3));
        bench.line(&mut writer, 15, "e");
        drop(writer);
        assert_eq!(unpacked(&bench).0.lines().last(), Some("e"));
    }

    #[test]
    fn a_full_disk_loses_lines_and_nothing_else() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has a full device");
        let file = Arc::new(LogFile::from_file(std::path::Path::new("/dev/full"), full));
        let mut writer = LogWriter::new(Target::File(file), None, None, None);
        let mut stamps = Stamps::new(TimeZone::UTC);
        for (millis, is_told) in [(0, true), (1, false), (1000, true)] {
            let result = writer.line(Time(millis), &mut stamps, |out| out.push(b'x'));
            assert_eq!(result.is_err(), is_told, "at {millis}");
            assert!(writer.buffer.is_empty());
        }
    }
}
