//! Records, and the transactions that they make up.

use super::tag::Tag;

/// What a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Records that belong to none.
    Raw,
    /// A client's connection.
    Session,
    /// A client's request, or one inside a page.
    Request,
    /// A request to a backend.
    BeReq,
}

/// Whose side a record is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Side {
    /// Nobody's.
    None = b'-',
    /// The client's.
    Client = b'c',
    /// The backend's.
    Backend = b'b',
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is about.
    pub tag: Tag,
    /// What it says: one line as a rule; bytes from a client may be anything.
    pub text: &'a [u8],
}

/// A transaction, from its beginning to its end.
///
/// ```text
/// byte 0         kind
/// bytes 1 to 8   number (vxid), little-endian
/// records        each: tag (1 byte), length (4 bytes, little-endian), text
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction(Vec<u8>);

/// Why bytes are no transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// They end early.
    #[error("a transaction of the log ends early")]
    Short,
    /// A number that means no kind.
    #[error("a transaction of the log is of the unknown kind {0}")]
    Kind(u8),
    /// A number that means no tag.
    #[error("a record of the log has the unknown tag {0}")]
    Tag(u8),
}

/// Bytes before the first record.
const HEAD_BYTES: usize = 9;
/// Bytes before the text of a record.
const RECORD_BYTES: usize = 5;

impl Kind {
    fn of_code(code: u8) -> Option<Self> {
        [Self::Raw, Self::Session, Self::Request, Self::BeReq].into_iter().find(|kind| *kind as u8 == code)
    }

    /// The word for it in `Begin` and `Link`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Session => "sess",
            Self::Request => "req",
            Self::BeReq => "bereq",
        }
    }

    /// Whose side it is.
    pub fn side(self) -> Side {
        match self {
            Self::Raw => Side::None,
            Self::Session | Self::Request => Side::Client,
            Self::BeReq => Side::Backend,
        }
    }
}

impl Transaction {
    /// The transaction that bytes are. All of its records can be read.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, RecordError> {
        if bytes.len() < HEAD_BYTES {
            return Err(RecordError::Short);
        }
        Kind::of_code(bytes[0]).ok_or(RecordError::Kind(bytes[0]))?;
        let mut rest = &bytes[HEAD_BYTES..];
        while !rest.is_empty() {
            next_record(&mut rest)?;
        }
        Ok(Self(bytes))
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// What it is.
    pub fn kind(&self) -> Kind {
        Kind::of_code(self.0[0]).unwrap_or(Kind::Raw)
    }

    /// Its number.
    pub fn vxid(&self) -> u64 {
        let mut number = [0; 8];
        number.copy_from_slice(&self.0[1..HEAD_BYTES]);
        u64::from_le_bytes(number)
    }

    /// Its records.
    pub fn records(&self) -> Records<'_> {
        Records(&self.0[HEAD_BYTES..])
    }
}

/// The records of a transaction, in their order.
#[derive(Clone, Debug)]
pub struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        if self.0.is_empty() {
            return None;
        }
        next_record(&mut self.0).ok()
    }
}

fn next_record<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>, RecordError> {
    let (head, behind) = rest.split_at_checked(RECORD_BYTES).ok_or(RecordError::Short)?;
    let tag = Tag::of_code(head[0]).ok_or(RecordError::Tag(head[0]))?;
    let length = u32::from_le_bytes([head[1], head[2], head[3], head[4]]) as usize;
    let (text, behind) = behind.split_at_checked(length).ok_or(RecordError::Short)?;
    *rest = behind;
    Ok(Record { tag, text })
}

/// Writes a transaction.
#[derive(Debug)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// The beginning of a transaction.
    pub fn new(kind: Kind, vxid: u64) -> Self {
        let mut bytes = Vec::with_capacity(USUAL_BYTES);
        bytes.push(kind as u8);
        bytes.extend_from_slice(&vxid.to_le_bytes());
        Self { bytes }
    }

    /// Adds a record whose text `write` appends; what is longer than `bytes_max` is cut.
    pub fn record(&mut self, tag: Tag, bytes_max: usize, write: impl FnOnce(&mut Vec<u8>)) {
        self.bytes.push(tag.code());
        self.bytes.extend_from_slice(&[0; 4]);
        let text_at = self.bytes.len();
        write(&mut self.bytes);
        // Whoever writes can only append; were that not so, the record would be empty.
        let length = self.bytes.len().saturating_sub(text_at).min(bytes_max).min(u32::MAX as usize);
        self.bytes.truncate(text_at + length);
        self.bytes[text_at - 4..text_at].copy_from_slice(&(length as u32).to_le_bytes());
    }

    /// How many bytes it has so far.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether it has no record yet.
    pub fn is_empty(&self) -> bool {
        self.bytes.len() <= HEAD_BYTES
    }

    /// The transaction as it is now.
    pub fn finish(self) -> Transaction {
        Transaction(self.bytes)
    }
}

/// What a request with its headers takes.
const USUAL_BYTES: usize = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn written() -> Transaction {
        let mut writer = Writer::new(Kind::Request, 0x1_0000_0007);
        assert!(writer.is_empty());
        writer.record(Tag::ReqUrl, 100, |out| out.extend_from_slice(b"/a"));
        writer.record(Tag::ReqHeader, 3, |out| out.extend_from_slice(b"Host: a"));
        writer.record(Tag::End, 100, |_| ());
        assert_eq!((writer.is_empty(), writer.len()), (false, 9 + 7 + 8 + 5));
        writer.finish()
    }

    #[test]
    fn what_is_written_can_be_read() {
        let whole = written();
        assert_eq!((whole.kind(), whole.vxid()), (Kind::Request, 0x1_0000_0007));
        let records: Vec<_> = whole.records().collect();
        let expected = [(Tag::ReqUrl, &b"/a"[..]), (Tag::ReqHeader, b"Hos"), (Tag::End, b"")];
        assert_eq!(records, expected.map(|(tag, text)| Record { tag, text }));
        assert_eq!(Transaction::from_bytes(whole.bytes().to_vec()), Ok(whole));
    }

    #[test]
    fn bytes_that_are_none_are_refused() {
        let whole = written();
        let bytes = whole.bytes();
        for end in 0..bytes.len() {
            let is_whole = [9, 9 + 7, 9 + 7 + 8].contains(&end);
            assert_eq!(Transaction::from_bytes(bytes[..end].to_vec()).is_ok(), is_whole, "{end} bytes");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = bytes.to_vec();
            bytes[at] = byte;
            Transaction::from_bytes(bytes)
        };
        assert_eq!(changed(0, 9), Err(RecordError::Kind(9)));
        assert_eq!(changed(9, 250), Err(RecordError::Tag(250)));
        assert_eq!(changed(13, 255), Err(RecordError::Short));
    }
}
