//! Parses the records of a response in place: says where in the bytes their content is.

use std::ops::Range;

use super::{END_REQUEST, HEAD_BYTES, REQUEST_ID, STDERR, STDOUT, VERSION};

/// The position in the sequence of records.
///
/// ```text
/// Head --> Content --> Padding --> Head
///   `----> (END_REQUEST is taken whole)
/// ```
pub(super) enum Records {
    Head,
    Content { kind: Kind, left: usize, padding: usize },
    Padding { left: usize },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Stdout,
    Stderr,
}

/// A part of the response, and where it is. Content is passed on as it arrives, so one record may give many parts.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    Stdout(Range<usize>),
    /// The script writes no more.
    StdoutEnd,
    Stderr {
        content: Range<usize>,
        /// Whether the record ends here.
        is_last: bool,
    },
    End {
        exit: u32,
        protocol: u8,
    },
    /// The bytes are used up.
    More,
}

/// A record that an origin must not send. The texts are nginx's.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum RecordError {
    #[error("upstream sent unsupported FastCGI protocol version: {0}")]
    Version(u8),
    #[error("upstream sent unexpected FastCGI record: {0}")]
    Kind(u8),
    #[error("upstream sent unexpected FastCGI request id: {0}")]
    RequestId(u16),
    #[error("upstream sent a FastCGI END_REQUEST of {0} bytes")]
    EndLength(usize),
}

/// The content of END_REQUEST: exit code, protocol status, three bytes unused.
const END_BYTES: usize = 8;

impl Records {
    pub(super) fn new() -> Records {
        Records::Head
    }

    /// The next part in `input` from `at`, which it moves.
    pub(super) fn next(&mut self, input: &[u8], at: &mut usize) -> Result<Part, RecordError> {
        loop {
            match *self {
                Records::Head => match self.open(&input[*at..], at)? {
                    Some(part) => return Ok(part),
                    None if matches!(self, Records::Head) => return Ok(Part::More),
                    None => {}
                },
                Records::Content { left: 0, padding, .. } => *self = Records::Padding { left: padding },
                Records::Content { .. } if *at >= input.len() => return Ok(Part::More),
                Records::Content { kind, left, padding } => {
                    let content = *at..*at + left.min(input.len() - *at);
                    *at = content.end;
                    let left = left - content.len();
                    *self = Records::Content { kind, left, padding };
                    return Ok(match kind {
                        Kind::Stdout => Part::Stdout(content),
                        Kind::Stderr => Part::Stderr { content, is_last: left == 0 },
                    });
                }
                Records::Padding { left: 0 } => *self = Records::Head,
                Records::Padding { .. } if *at >= input.len() => return Ok(Part::More),
                Records::Padding { left } => {
                    let skipped = left.min(input.len() - *at);
                    *at += skipped;
                    *self = Records::Padding { left: left - skipped };
                }
            }
        }
    }

    /// Takes back the last bytes of the content that [`Records::next`] told: it will be told again.
    pub(super) fn give_back(&mut self, count: usize, at: &mut usize) {
        if let Records::Content { left, .. } = self {
            *left += count;
            *at -= count;
        }
    }

    /// Reads the header of a record. `None`, with the position unchanged, means that it is incomplete.
    fn open(&mut self, buffer: &[u8], at: &mut usize) -> Result<Option<Part>, RecordError> {
        let &[version, kind, id_high, id_low, len_high, len_low, padding, _] = &buffer[..buffer.len().min(HEAD_BYTES)]
        else {
            return Ok(None);
        };
        let id = u16::from_be_bytes([id_high, id_low]);
        let len = usize::from(u16::from_be_bytes([len_high, len_low]));
        let padding = usize::from(padding);
        if version != VERSION {
            return Err(RecordError::Version(version));
        }
        let kind = match kind {
            END_REQUEST if id == REQUEST_ID => return self.finish(buffer, len, padding, at),
            STDOUT => Kind::Stdout,
            STDERR => Kind::Stderr,
            END_REQUEST => return Err(RecordError::RequestId(id)),
            other => return Err(RecordError::Kind(other)),
        };
        if id != REQUEST_ID {
            return Err(RecordError::RequestId(id));
        }
        *at += HEAD_BYTES;
        *self = Records::Content { kind, left: len, padding };
        Ok((kind == Kind::Stdout && len == 0).then_some(Part::StdoutEnd))
    }

    /// Reads an END_REQUEST with its padding, so that nothing of it is left on a kept connection.
    fn finish(
        &mut self,
        buffer: &[u8],
        len: usize,
        padding: usize,
        at: &mut usize,
    ) -> Result<Option<Part>, RecordError> {
        if len < END_BYTES {
            return Err(RecordError::EndLength(len));
        }
        let whole = HEAD_BYTES + len + padding;
        let Some(&[a, b, c, d, protocol]) = buffer.get(HEAD_BYTES..HEAD_BYTES + 5) else {
            return Ok(None);
        };
        if buffer.len() < whole {
            return Ok(None);
        }
        *at += whole;
        Ok(Some(Part::End { exit: u32::from_be_bytes([a, b, c, d]), protocol }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u8, content: &[u8], padding: u8) -> Vec<u8> {
        let [high, low] = (content.len() as u16).to_be_bytes();
        let mut record = vec![1, kind, 0, 1, high, low, padding, 0];
        record.extend(content);
        record.extend(vec![0; padding.into()]);
        record
    }

    /// What the parts say together: output, error output by record, exit and protocol status.
    type Told = (Vec<u8>, Vec<Vec<u8>>, Option<(u32, u8)>);

    fn read(pieces: &[&[u8]]) -> Result<Told, RecordError> {
        let (mut records, mut buffer) = (Records::new(), Vec::new());
        let (mut out, mut errors, mut open, mut end) = (Vec::new(), Vec::new(), Vec::new(), None);
        for piece in pieces {
            buffer.extend_from_slice(piece);
            let mut at = 0;
            loop {
                match records.next(&buffer, &mut at)? {
                    Part::Stdout(content) => out.extend_from_slice(&buffer[content]),
                    Part::StdoutEnd => {}
                    Part::Stderr { content, is_last } => {
                        open.extend_from_slice(&buffer[content]);
                        if is_last {
                            errors.push(std::mem::take(&mut open));
                        }
                    }
                    Part::End { exit, protocol } => end = Some((exit, protocol)),
                    Part::More => break,
                }
            }
            buffer.drain(..at);
        }
        assert!(buffer.len() < 32, "no more than a head is left lying");
        Ok((out, errors, end))
    }

    #[test]
    fn records_read_the_same_wherever_they_are_cut() {
        let mut bytes = Vec::new();
        bytes.extend(record(STDOUT, b"Content-Type: a/b\r\n\r\nfirst", 3));
        bytes.extend(record(STDERR, b"PHP Notice: x", 0));
        bytes.extend(record(STDOUT, b" second", 255));
        bytes.extend(record(STDERR, b"", 8));
        bytes.extend(record(STDOUT, b"", 0));
        bytes.extend(record(END_REQUEST, &[0, 0, 1, 2, 0, 0, 0, 0], 5));
        let whole = read(&[&bytes]).unwrap();
        assert_eq!(whole.0, b"Content-Type: a/b\r\n\r\nfirst second");
        assert_eq!(whole.1, [b"PHP Notice: x".to_vec()]);
        assert_eq!(whole.2, Some((258, 0)));
        for at in 0..bytes.len() {
            assert_eq!(read(&[&bytes[..at], &bytes[at..]]).unwrap(), whole, "cut at {at}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(read(&single).unwrap(), whole);
    }

    #[test]
    fn a_record_that_no_origin_may_send_is_refused() {
        let ok = record(STDOUT, b"x", 0);
        for (at, byte, error) in [
            (0, 2, RecordError::Version(2)),
            (1, 1, RecordError::Kind(1)),
            (1, 10, RecordError::Kind(10)),
            (2, 1, RecordError::RequestId(257)),
            (3, 0, RecordError::RequestId(0)),
        ] {
            let mut bad = ok.clone();
            bad[at] = byte;
            assert_eq!(read(&[&bad]).unwrap_err(), error);
        }
        assert_eq!(read(&[&record(END_REQUEST, &[0; 4], 0)]).unwrap_err(), RecordError::EndLength(4));
    }
}
