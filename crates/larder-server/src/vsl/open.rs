//! A transaction that is being recorded.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Write as _};
use std::io::Write as _;
use std::sync::Arc;

use larder_conf::Span;
use larder_vsl::{Kind, Tag, Writer};

use super::hub::Hub;
use crate::clock;

/// A transaction that is being recorded. It ends, and is told, when it is dropped.
pub struct Open {
    hub: Arc<Hub>,
    kind: Kind,
    vxid: u64,
    writer: RefCell<Option<Writer>>,
    /// When it began, and when it was last stamped: seconds since 1970.
    began: f64,
    stamped: Cell<f64>,
    /// The status that was told last.
    status: Cell<u16>,
    /// What is noted beside, for one who has a request walked through.
    notes: Option<RefCell<Vec<Note>>>,
    /// Whom the notes are for.
    audience: Audience,
}

/// Whom it is told what would be done with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// Whoever may read what the server does: the private socket. All values are told.
    Owner,
    /// Whoever gets a response: not what other visitors have sent, nor what the configuration alone knows.
    Visitor,
}

/// What happens to a request that is walked through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// A location was entered, by its place in the site, with this URI.
    Location(usize, Vec<u8>),
    /// A condition holds, up to the next [`Note::Left`].
    Holds {
        /// As it was written.
        condition: String,
        /// The cookie that makes it hold.
        cookie: Option<String>,
        /// Where it stands.
        at: Span,
    },
    /// What belongs to the condition before is over.
    Left,
    /// A variable was set.
    Set {
        /// The variable, by its slot.
        slot: usize,
        /// To this.
        value: Vec<u8>,
        /// What is written in the configuration of it, without variables.
        literals: Vec<Box<[u8]>>,
        /// Where.
        at: Span,
    },
    /// Something else.
    Said {
        /// What it is about, in one word.
        what: &'static str,
        /// In words.
        text: String,
        /// Where, as `FILE:LINE`.
        at: Option<String>,
    },
    /// The same, with what programs are told of it.
    Told {
        /// As in `Said`.
        what: &'static str,
        /// As in `Said`.
        text: String,
        /// As in `Said`.
        at: Option<String>,
        /// By their names.
        facts: Facts,
    },
    /// How it ends, in a sentence.
    Verdict(String),
}

/// Facts by their names, for programs.
pub type Facts = Vec<(&'static str, Fact)>;

/// A value that programs are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fact {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// Whether something is so.
    Flag(bool),
    /// Several.
    List(Vec<Fact>),
    /// Several with names.
    Group(Facts),
    /// It is not known.
    Unknown,
}

impl Fact {
    /// A number, as far as it fits.
    pub fn number(number: u64) -> Self {
        Self::Number(i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// A text, if there is one.
    pub fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Unknown, |text| Self::Text(text.into()))
    }
}

/// How many notes are kept of one walk.
const NOTES_MAX: usize = 500;

/// A transaction is cut here, for what a client can make of it.
const BYTES_MAX: usize = 1 << 20;

impl Open {
    /// A transaction that another one has begun, for this reason: `Begin KIND PARENT REASON`.
    pub fn begin(hub: &Arc<Hub>, kind: Kind, vxid: u64, begin: fmt::Arguments<'_>) -> Self {
        let now = clock::precise();
        let open = Self {
            hub: Arc::clone(hub),
            kind,
            vxid,
            writer: RefCell::new(Some(Writer::new(kind, vxid))),
            began: now,
            stamped: Cell::new(now),
            status: Cell::new(0),
            notes: None,
            audience: Audience::Visitor,
        };
        open.say(Tag::Begin, begin);
        open
    }

    /// One that nobody is told of, and that keeps notes.
    pub fn walk(audience: Audience) -> Self {
        Self {
            hub: Arc::default(),
            kind: Kind::Request,
            vxid: 1,
            writer: RefCell::default(),
            began: clock::precise(),
            stamped: Cell::new(0.0),
            status: Cell::new(0),
            notes: Some(RefCell::default()),
            audience,
        }
    }

    /// Whom the notes are for.
    pub fn audience(&self) -> Audience {
        self.audience
    }

    /// Whether notes are kept.
    pub fn keeps_notes(&self) -> bool {
        self.notes.is_some()
    }

    /// Notes something, if notes are kept.
    pub fn note(&self, note: impl FnOnce() -> Note) {
        if let Some(notes) = &self.notes
            && notes.borrow().len() < NOTES_MAX
        {
            let note = note();
            notes.borrow_mut().push(note);
        }
    }

    /// The notes so far.
    pub fn notes(&self) -> Vec<Note> {
        self.notes.as_ref().map_or_else(Vec::new, |notes| notes.borrow().clone())
    }

    /// Its number.
    pub fn vxid(&self) -> u64 {
        self.vxid
    }

    /// Adds a record.
    pub fn put(&self, tag: Tag, text: &[u8]) {
        self.put_with(tag, |out| out.extend_from_slice(text));
    }

    /// The same in words.
    pub fn say(&self, tag: Tag, text: fmt::Arguments<'_>) {
        // Writing to memory does not fail.
        self.put_with(tag, |out| drop(out.write_fmt(text)));
    }

    /// The same of a header.
    pub fn header(&self, tag: Tag, name: &[u8], value: &[u8]) {
        self.put_with(tag, |out| {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
        });
    }

    /// The same for whom `write` appends the text.
    pub fn put_with(&self, tag: Tag, write: impl FnOnce(&mut Vec<u8>)) {
        if self.hub.masks(tag) {
            return;
        }
        let Ok(mut writer) = self.writer.try_borrow_mut() else { return };
        if let Some(writer) = writer.as_mut().filter(|writer| writer.len() < BYTES_MAX) {
            writer.record(tag, self.hub.record_bytes_max(), write);
        }
    }

    /// Notes the time of something: `Timestamp WHAT: now since-the-beginning since-the-last`.
    pub fn stamp(&self, what: &str) {
        let now = clock::precise();
        let since = self.stamped.replace(now);
        self.say(
            Tag::Timestamp,
            format_args!("{what}: {now:.6} {:.6} {:.6}", (now - self.began).max(0.0), (now - since).max(0.0)),
        );
    }

    /// Notes a status; returns whether it is another one than before.
    pub fn note_status(&self, status: u16) -> bool {
        self.status.replace(status) != status
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if self.kind == Kind::Session {
            let seconds = (clock::precise() - self.began).max(0.0);
            self.say(Tag::SessClose, format_args!("REM_CLOSE {seconds:.3}"));
        }
        if let Some(mut writer) = self.writer.borrow_mut().take() {
            writer.record(Tag::End, 0, |_| ());
            self.hub.ended(&writer.finish());
        }
    }
}

/// Bytes as a text for people.
pub struct Shown<'a>(pub &'a [u8]);

impl Shown<'_> {
    /// The same, with at most that many bytes of it.
    pub fn cut(&self, bytes_max: usize) -> String {
        match self.0.get(..bytes_max) {
            Some(start) if start.len() < self.0.len() => format!("{}...", Shown(start)),
            Some(_) | None => self.to_string(),
        }
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.escape_ascii().try_for_each(|byte| f.write_char(char::from(byte)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::hub::Settings;
    use super::*;
    use larder_vsl::{Frame, GREETING, Reader, Transaction};

    fn told(hub: &Hub) -> Vec<Transaction> {
        let bytes: Vec<u8> = GREETING.iter().copied().chain(hub.some_kept(hub.kept()).frames.concat()).collect();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut told = Vec::new();
        while let Some(frame) = reader.next_frame().unwrap() {
            match frame {
                Frame::Transaction(transaction) => told.push(transaction),
                Frame::Lost(_) | Frame::End => panic!("nothing is lost, and there is no end"),
            }
        }
        told
    }

    fn records(transaction: &Transaction) -> Vec<String> {
        let shown = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        transaction.records().map(|record| format!("{} {}", record.tag.name(), shown(record.text))).collect()
    }

    #[test]
    fn a_transaction_is_told_when_it_ends() {
        let settings = Settings { kept_bytes_max: 1 << 20, record_bytes_max: 12, ..Settings::default() };
        let hub = Hub::new(settings);
        let open = Open::begin(&hub, Kind::Request, 7, format_args!("req 6 rxreq"));
        open.header(Tag::ReqHeader, b"Host", b"example.com");
        assert!(open.note_status(200) && !open.note_status(200) && open.note_status(404));
        assert!(told(&hub).is_empty());
        drop(open);
        let told = told(&hub);
        assert_eq!((told.len(), told[0].kind(), told[0].vxid()), (1, Kind::Request, 7));
        assert_eq!(records(&told[0]), ["Begin req 6 rxreq", "ReqHeader Host: exampl", "End "]);
    }

    #[test]
    fn a_transaction_has_an_end_however_much_is_said() {
        let hub = Hub::new(Settings { kept_bytes_max: 8 << 20, record_bytes_max: 1 << 20, ..Settings::default() });
        let open = Open::begin(&hub, Kind::Session, 1, format_args!("sess 0 HTTP/1"));
        for _ in 0..4 {
            open.put(Tag::Debug, &vec![b'a'; BYTES_MAX / 2]);
        }
        drop(open);
        let told = told(&hub);
        assert!(told[0].bytes().len() < 2 * BYTES_MAX);
        assert_eq!(records(&told[0]).last().map(String::as_str), Some("End "));
    }

    #[test]
    fn a_connection_says_why_it_ends() {
        let hub = Hub::new(Settings { kept_bytes_max: 1 << 20, ..Settings::default() });
        drop(Open::begin(&hub, Kind::Session, 1, format_args!("sess 0 HTTP/1")));
        let told = told(&hub);
        assert!(records(&told[0])[1].starts_with("SessClose REM_CLOSE 0."), "{told:?}");
    }
}
