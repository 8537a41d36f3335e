//! Reads the body of a response as bytes, for a page that includes it (`ssi`, `add_before_body`).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use larder_store::{BodyReader, Piece};

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};
use crate::filter::change::Fed;

use super::compress::{self, Facts};
use super::filters::Filters;
use super::recode::{Recoder, Recoding};
use super::slice::Slices;
use super::{Content, charset};

/// How much is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// A body that is read from its beginning.
pub struct Pieces {
    from: From,
    /// What was looked at and not taken.
    peeked: Option<Bytes>,
    /// What is done to it on its way.
    change: Option<Change>,
}

/// A change on the way.
struct Change {
    recoding: Recoding,
    /// What has not been changed yet.
    input: Bytes,
    has_ended: bool,
    /// Whether more comes of what has been taken already.
    has_more: bool,
}

enum From {
    Nothing,
    Bytes(Bytes),
    /// Bytes, then a part of a file.
    File {
        before: Bytes,
        file: Arc<File>,
        at: u64,
        end: u64,
    },
    Reader(BodyReader, u64),
    Slices(Box<Slices>, Option<(BodyReader, u64)>),
}

impl Pieces {
    /// The body of a response to `ex`, which is wanted whole.
    pub fn new(content: Content, ex: &Exchange) -> Self {
        let from = match content {
            Content::Empty | Content::NoBody => From::Nothing,
            Content::Bytes(bytes) | Content::Kept(bytes) | Content::Passed(bytes, _) => From::Bytes(bytes),
            Content::File(file, len) => From::File { before: Bytes::new(), file, at: 0, end: len },
            Content::Spliced(before, file, rest) => From::File { before, file, at: rest.start, end: rest.end },
            Content::Hit(object) => From::Reader(object.to_arc().body.reader(), u64::MAX),
            Content::Object(object) => From::Reader(object.body.reader(), u64::MAX),
            Content::Form(form) => From::Reader(form.body.reader(), u64::MAX),
            Content::Stream(reader, _) => From::Reader(reader, u64::MAX),
            Content::Slices(mut slices) => {
                slices.want(0..slices.total(), ex);
                From::Slices(slices, None)
            }
        };
        Self { from, peeked: None, change: None }
    }

    /// The same, changed by `recoder` on its way.
    pub fn changed(self, recoder: Recoder) -> Self {
        let recoding = Recoding::new(recoder, PIECE_BYTES);
        Self { change: Some(Change { recoding, input: Bytes::new(), has_ended: false, has_more: false }), ..self }
    }

    /// The next piece, which is not empty; `None` at the end, and an error when the body is not whole.
    pub async fn next(&mut self, cx: &Cx) -> Result<Option<Bytes>, String> {
        match self.peeked.take() {
            Some(bytes) => Ok(Some(bytes)),
            None => self.take(cx).await,
        }
    }

    async fn take(&mut self, cx: &Cx) -> Result<Option<Bytes>, String> {
        match &mut self.change {
            None => self.from.next(cx).await,
            Some(change) => change.next(&mut self.from, cx).await,
        }
    }

    /// Whether the next piece is there, so that asking for it does not wait.
    pub fn is_ready(&mut self) -> bool {
        if self.peeked.is_some() {
            return true;
        }
        if self.change.is_some() {
            return false;
        }
        match &mut self.from {
            From::Nothing | From::Bytes(_) | From::File { .. } => true,
            From::Reader(reader, _) => match reader.try_next(PIECE_BYTES) {
                Piece::Pending => false,
                Piece::Data(bytes) => {
                    self.peeked = Some(bytes).filter(|bytes| !bytes.is_empty());
                    true
                }
                Piece::File { file, offset, len } => match read(&file, offset, len) {
                    Ok(bytes) => {
                        self.peeked = Some(bytes);
                        true
                    }
                    Err(_) => {
                        self.from = From::Nothing;
                        true
                    }
                },
                Piece::End | Piece::Failed(_) => true,
            },
            From::Slices(..) => false,
        }
    }

    /// Waits until it is known whether there is anything in it.
    pub async fn is_empty(&mut self, cx: &Cx) -> bool {
        if self.peeked.is_none() {
            // One that ends before it has begun is empty, too.
            self.peeked = self.take(cx).await.ok().flatten();
        }
        self.peeked.is_none()
    }
}

impl Change {
    async fn next(&mut self, from: &mut From, cx: &Cx) -> Result<Option<Bytes>, String> {
        loop {
            let mut input = &self.input[..];
            if self.has_more || !input.is_empty() {
                self.has_more = self.recoding.feed(&mut input)? == Fed::Some;
                let taken = self.input.len() - input.len();
                self.input.advance(taken);
            } else if self.has_ended {
                return Ok(None);
            } else {
                match from.next(cx).await? {
                    Some(bytes) => self.input = bytes,
                    None => {
                        self.has_ended = true;
                        self.recoding.finish()?;
                    }
                }
            }
            let made = self.recoding.take();
            if !made.is_empty() {
                return Ok(Some(made.into()));
            }
        }
    }
}

impl From {
    async fn next(&mut self, cx: &Cx) -> Result<Option<Bytes>, String> {
        match self {
            Self::Nothing => Ok(None),
            Self::Bytes(bytes) => Ok(Some(std::mem::take(bytes)).filter(|bytes| !bytes.is_empty())),
            Self::File { before, .. } if !before.is_empty() => Ok(Some(std::mem::take(before))),
            Self::File { file, at, end, .. } => {
                let count = usize::try_from(*end - *at).unwrap_or(PIECE_BYTES).min(PIECE_BYTES);
                if count == 0 {
                    return Ok(None);
                }
                let bytes = read(file, *at, count).map_err(|error| format!("the file cannot be read: {error}"))?;
                *at += bytes.len() as u64;
                Ok(Some(bytes))
            }
            Self::Reader(reader, end) => piece(reader, *end).await,
            Self::Slices(slices, now) => loop {
                if let Some((reader, end)) = now {
                    match piece(reader, *end).await? {
                        Some(bytes) => return Ok(Some(bytes)),
                        None => *now = None,
                    }
                }
                if slices.is_over() {
                    return Ok(None);
                }
                let (body, part) = slices.next(cx).await.ok_or_else(|| "a slice of the page is missing".to_owned())?;
                let mut reader = body.into_reader();
                reader.skip_to(part.start);
                *now = Some((reader, part.end));
            },
        }
    }
}

/// The next bytes of a body before this position; `None` when there are no more.
pub async fn piece(reader: &mut BodyReader, end: u64) -> Result<Option<Bytes>, String> {
    loop {
        let left = usize::try_from(end.saturating_sub(reader.at())).unwrap_or(usize::MAX);
        if left == 0 {
            return Ok(None);
        }
        match reader.next(PIECE_BYTES.min(left)).await {
            Piece::Data(bytes) if bytes.is_empty() => {}
            Piece::Data(bytes) => return Ok(Some(bytes)),
            Piece::File { file, offset, len } => {
                let bytes = read(&file, offset, len).map_err(|error| format!("the body cannot be read: {error}"))?;
                return Ok(Some(bytes));
            }
            Piece::End => return Ok(None),
            Piece::Failed(why) => return Err(why.to_string()),
            Piece::Pending => {}
        }
    }
}

fn read(file: &File, offset: u64, count: usize) -> io::Result<Bytes> {
    let mut bytes = vec![0; count];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes.into())
}

/// The body of a response after the filters of its location, ready to be included. A page with includes of its own
/// went through them already.
pub fn body_of(content: Content, ex: &mut Exchange, cx: &Cx) -> Pieces {
    let facts = Facts { status: ex.reply.status, fields: &ex.reply.fields, length: content.length() };
    let choice = compress::restored_for_parts(&facts, ex, cx);
    let recoder = if ex.reply.composed.is_some() { None } else { recoder(choice, facts.length, ex, cx) };
    let source = Pieces::new(content, ex);
    match recoder {
        None => source,
        Some(recoder) => {
            compress::adapt(&mut ex.reply.fields, choice);
            source.changed(recoder)
        }
    }
}

/// Makes the head of a response what it is once its body is restored, as [`body_of`] does.
pub fn restore_head(content: &Content, ex: &mut Exchange, cx: &Cx) {
    let facts = Facts { status: ex.reply.status, fields: &ex.reply.fields, length: content.length() };
    let choice = compress::restored_for_parts(&facts, ex, cx);
    compress::adapt(&mut ex.reply.fields, choice);
}

/// What restores a body and changes what it says, if anything does.
fn recoder(choice: Choice, length: Option<u64>, ex: &mut Exchange, cx: &Cx) -> Option<Recoder> {
    let charset = charset::choose_and_label(cx.loc(ex), ex, cx);
    let filters = Filters::choose(charset, length, choice, ex, cx);
    if filters.is_empty() {
        return Recoder::new(choice, ex, cx);
    }
    filters.adapt(cx.loc(ex), &mut ex.reply.fields);
    Recoder::with(filters, choice, ex, cx)
}

/// Whether a body is known to have nothing in it.
pub fn is_empty(content: &Content) -> bool {
    content.length() == Some(0)
}
