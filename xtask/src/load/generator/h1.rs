//! HTTP/1.1 answers, counted rather than kept.

use super::Answer;
use memchr::memmem;

/// Longest response head, and longest line of a chunked body, that is read.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Reads the answers of one connection, one at a time.
///
/// ```text
/// Head --Content-Length--> Counted --all read--> Head
///   `--chunked--> Chunked(Size -> Octets -> LineEnd -> Size ... -> Trailer) --> Head
/// ```
pub struct Reader {
    state: State,
    answer: Answer,
    keeps_bodies: bool,
}

enum State {
    Head(Vec<u8>),
    Counted(usize),
    Chunked(Chunk),
}

enum Chunk {
    /// In the line that says how long the next chunk is.
    Size(Vec<u8>),
    /// So many octets of the chunk are still to come.
    Octets(usize),
    /// In the line end after a chunk.
    LineEnd(Vec<u8>),
    /// In the fields after the last chunk; an empty line ends them.
    Trailer(Vec<u8>),
}

impl Reader {
    /// A reader of a new connection.
    pub fn new(keeps_bodies: bool) -> Reader {
        Reader { state: State::Head(Vec::new()), answer: Answer::default(), keeps_bodies }
    }

    /// Takes bytes off `input` until an answer is whole or there are no more. An error is what is wrong with them.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Answer>, String> {
        loop {
            let done = match &mut self.state {
                State::Head(head) => {
                    let Some(text) = take_through(input, head, b"\r\n\r\n")? else {
                        return Ok(None);
                    };
                    let (answer, body) = read_head(&text)?;
                    self.answer = answer;
                    self.state = body;
                    matches!(self.state, State::Counted(0))
                }
                State::Counted(left) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let part = split(input, *left);
                    *left -= part.len();
                    let is_whole = *left == 0;
                    self.count(part);
                    is_whole
                }
                State::Chunked(Chunk::Octets(left)) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let part = split(input, *left);
                    *left -= part.len();
                    if *left == 0 {
                        self.state = State::Chunked(Chunk::LineEnd(Vec::new()));
                    }
                    self.count(part);
                    false
                }
                State::Chunked(Chunk::LineEnd(line)) => {
                    let Some(text) = take_through(input, line, b"\r\n")? else {
                        return Ok(None);
                    };
                    if text.len() != 2 {
                        return Err("a chunk is longer than it says".into());
                    }
                    self.state = State::Chunked(Chunk::Size(Vec::new()));
                    false
                }
                State::Chunked(Chunk::Size(line)) => {
                    let Some(text) = take_through(input, line, b"\r\n")? else {
                        return Ok(None);
                    };
                    self.state = State::Chunked(match chunk_size(&text)? {
                        0 => Chunk::Trailer(Vec::new()),
                        size => Chunk::Octets(size),
                    });
                    false
                }
                State::Chunked(Chunk::Trailer(line)) => {
                    let Some(text) = take_through(input, line, b"\r\n")? else {
                        return Ok(None);
                    };
                    text.len() == 2
                }
            };
            if done {
                self.state = State::Head(Vec::new());
                return Ok(Some(std::mem::take(&mut self.answer)));
            }
        }
    }

    fn count(&mut self, part: &[u8]) {
        self.answer.bytes += part.len();
        if self.keeps_bodies {
            self.answer.body.extend_from_slice(part);
        }
    }
}

/// Takes from `input` through the first `end`, with what `held` has of earlier reads; `None` while it has not come.
fn take_through(input: &mut &[u8], held: &mut Vec<u8>, end: &[u8]) -> Result<Option<Vec<u8>>, String> {
    // The end may lie across two reads.
    let searched_from = held.len().saturating_sub(end.len() - 1);
    let held_before = held.len();
    held.extend_from_slice(input);
    let unsearched = held.get(searched_from..).unwrap_or_default();
    let Some(at) = memmem::find(unsearched, end) else {
        *input = &[];
        if held.len() > HEAD_BYTES_MAX {
            return Err("a head or a line of a chunked body does not end".into());
        }
        return Ok(None);
    };
    let length = searched_from + at + end.len();
    *input = input.get(length - held_before..).unwrap_or_default();
    held.truncate(length);
    Ok(Some(std::mem::take(held)))
}

/// Takes at most `most` bytes off the front of `input`.
fn split<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (part, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    part
}

fn chunk_size(line: &[u8]) -> Result<usize, String> {
    let text = std::str::from_utf8(line).unwrap_or_default().trim_end();
    let digits = text.split(';').next().unwrap_or_default().trim();
    usize::from_str_radix(digits, 16).map_err(|_| format!("`{text}` is not the size of a chunk"))
}

/// What the head says, and what to expect after it.
fn read_head(head: &[u8]) -> Result<(Answer, State), String> {
    let text = std::str::from_utf8(head).map_err(|_| "a head is not text".to_string())?;
    let mut lines = text.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let mut answer =
        Answer { status: status.ok_or_else(|| format!("`{first}` is no status line"))?, ..Answer::default() };
    let (mut length, mut is_chunked) = (None, false);
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(value.parse().map_err(|_| format!("`{value}` is no length"))?);
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            is_chunked = value.eq_ignore_ascii_case("chunked");
        } else if name.eq_ignore_ascii_case("content-encoding") {
            answer.is_gzip = value.eq_ignore_ascii_case("gzip");
        } else if name.eq_ignore_ascii_case("connection") {
            answer.closes = value.eq_ignore_ascii_case("close");
        } else if name.eq_ignore_ascii_case("x-cache") {
            answer.is_hit = value == "HIT";
        }
    }
    match (is_chunked, length) {
        (true, _) => Ok((answer, State::Chunked(Chunk::Size(Vec::new())))),
        (false, Some(length)) => Ok((answer, State::Counted(length))),
        (false, None) => Err("an answer has neither a length nor chunks".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_the_same_in_any_pieces() {
        for (wire, bodies, closes, is_gzip) in [
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
                vec!["abc", ""],
                false,
                false,
            ),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n",
                vec!["abc0123456789"],
                false,
                true,
            ),
            (
                "HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n\r\r\n0\r\nA: b\r\n\r\n",
                vec!["\r"],
                true,
                false,
            ),
        ] {
            for step in 1..=wire.len() {
                let mut reader = Reader::new(true);
                let mut answers = Vec::new();
                for piece in wire.as_bytes().chunks(step) {
                    let mut input = piece;
                    while let Some(answer) = reader.take(&mut input).expect("it is valid") {
                        answers.push(answer);
                    }
                }
                let found: Vec<_> = answers.iter().map(|answer| String::from_utf8_lossy(&answer.body)).collect();
                assert_eq!(found, bodies, "{wire} in pieces of {step}");
                assert!(answers.iter().all(|answer| answer.status == 200 && answer.bytes == answer.body.len()));
                assert!(answers.iter().all(|answer| answer.closes == closes && answer.is_gzip == is_gzip));
            }
        }
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for wire in [
            "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        ] {
            assert!(Reader::new(false).take(&mut wire.as_bytes()).is_err(), "{wire}");
        }
    }
}
