//! Puts the parts of a whole together, in order.

use std::pin::Pin;
use std::rc::Rc;

use bytes::Bytes;
use larder_compress::{Joined, Segment};
use larder_store::BodyWriter;
use tokio::sync::{mpsc, oneshot};

use crate::context::Cx;
use crate::exchange::SsiShared;
use crate::request::{esi, subrequest};

use super::parts::{Answer, Attempt, OnError, PARTS_MAX, Part, is_good, left_out, named};

/// Small parts are gathered up to this size, unless the next is not there yet.
const GATHERED_BYTES: usize = 16 * 1024;
/// How much an attempt may bring, as it is in memory until it is known that nothing of it fails.
const ATTEMPT_BYTES_MAX: usize = 1 << 20;

/// Writes the parts that come in, until the last one or until all readers have left: behind `begun`, if the whole is in gzip.
pub async fn join(writer: BodyWriter, begun: Option<Joined>, mut incoming: mpsc::Receiver<Part>, cx: &Cx) {
    let out = match begun {
        None => Out::Whole(writer),
        Some(begun) => Out::Packed(writer, begun),
    };
    let mut joiner = Joiner { out, held: Vec::new(), cx };
    let joined = match joiner.run(&mut incoming).await {
        Ok(()) => joiner.flush().await,
        Err(Ended::Failed(why)) => joiner.flush().await.and(Err(Ended::Failed(why))),
        Err(Ended::Unwanted) => Err(Ended::Unwanted),
    };
    match (joiner.out, joined) {
        (Out::Packed(mut writer, joined), Ok(())) => {
            if let Ok(()) = writer.append(joined.finish().into()) {
                writer.finish();
            }
        }
        (Out::Packed(writer, _), Err(Ended::Failed(why))) => writer.fail(why),
        (Out::Packed(..), Err(Ended::Unwanted)) => {}
        (Out::Whole(writer), Ok(())) => writer.finish(),
        (Out::Whole(writer), Err(Ended::Failed(why))) => writer.fail(why),
        (Out::Whole(_), Err(Ended::Unwanted)) | (Out::Attempt(..), _) => {}
    }
}

struct Joiner<'a> {
    out: Out,
    /// Small parts that go on together.
    held: Vec<u8>,
    cx: &'a Cx,
}

/// Where parts go.
enum Out {
    /// To the client.
    Whole(BodyWriter),
    /// To the client, in gzip.
    Packed(BodyWriter, Joined),
    /// Into memory, until all are there.
    Attempt(Vec<u8>, Rc<SsiShared>),
}

/// Why parts are joined no further.
enum Ended {
    /// Nobody reads them any more.
    Unwanted,
    /// What they make is not whole.
    Failed(String),
}

impl Joiner<'_> {
    async fn run(&mut self, incoming: &mut mpsc::Receiver<Part>) -> Result<(), Ended> {
        loop {
            let part = match incoming.try_recv() {
                Ok(part) => part,
                Err(_) => {
                    // What is there goes out before we wait for more.
                    self.flush().await?;
                    let received = tokio::select! {
                        biased;
                        part = incoming.recv() => part,
                        () = self.readers_gone() => return Err(Ended::Unwanted),
                    };
                    match received {
                        Some(part) => part,
                        None => return Ok(()),
                    }
                }
            };
            match part {
                Part::Bytes(bytes) => self.append(bytes).await?,
                Part::Packed(segment) => self.packed(&segment).await?,
                Part::Answer(answer, through, on_error) => {
                    self.answer(answer, on_error).await?;
                    if let Some(through) = through {
                        let _ = through.send(());
                    }
                }
                Part::Attempt(attempt) => self.attempt(*attempt).await?,
                Part::Failed(why) => return Err(Ended::Failed(why)),
            }
        }
    }

    /// The same. The future is boxed, as attempts lie in each other.
    fn run_inside<'a>(
        &'a mut self,
        incoming: &'a mut mpsc::Receiver<Part>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Ended>> + 'a>> {
        Box::pin(self.run(incoming))
    }

    /// Adds an attempt when it is whole, or else its except.
    async fn attempt(&mut self, Attempt { mut parts, except, shared }: Attempt) -> Result<(), Ended> {
        self.flush().await?;
        let mut joiner = Joiner { out: Out::Attempt(Vec::new(), shared), held: Vec::new(), cx: self.cx };
        let joined = tokio::select! {
            biased;
            joined = async { joiner.run_inside(&mut parts).await?; joiner.flush().await } => joined,
            () = self.readers_gone() => return Err(Ended::Unwanted),
        };
        let why = match (joined, joiner.out) {
            (Ok(()), Out::Attempt(bytes, _)) => return self.append(bytes.into()).await,
            (Err(Ended::Failed(why)), _) => why,
            (Err(Ended::Unwanted), _) | (Ok(()), Out::Whole(_) | Out::Packed(..)) => return Err(Ended::Unwanted),
        };
        // Whoever makes the attempt sees by this that no more of it is wanted.
        drop(parts);
        let (parts, mut incoming) = mpsc::channel(PARTS_MAX);
        let making = async {
            except(why, parts).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            biased;
            joined = self.run_inside(&mut incoming) => joined,
            () = making => Ok(()),
        }
    }

    /// Adds an answer once it is there. An error says why the whole has to end with it.
    async fn answer(
        &mut self,
        mut answer: oneshot::Receiver<Result<Answer, String>>,
        on_error: OnError,
    ) -> Result<(), Ended> {
        let answer = match answer.try_recv() {
            Ok(answer) => answer,
            Err(_) => {
                self.flush().await?;
                tokio::select! {
                    biased;
                    answer = answer => answer.unwrap_or_else(|_| Err("a subrequest was closed".to_owned())),
                    () = self.readers_gone() => return Err(Ended::Unwanted),
                }
            }
        };
        let Answer { mut ex, mut body, counted: _counted } = answer.map_err(Ended::Failed)?;
        if on_error != OnError::Show && !is_good(ex.reply.status) {
            left_out(&ex, self.cx);
            subrequest::log(&mut ex, self.cx);
            return match on_error {
                OnError::End => Err(Ended::Failed(format!("{} answers {}", named(&ex), ex.reply.status))),
                OnError::Show | OnError::Skip => Ok(()),
            };
        }
        let mut is_whole = true;
        loop {
            if !body.is_ready() {
                self.flush().await?;
            }
            let next = tokio::select! {
                biased;
                next = body.next(self.cx) => next,
                () = self.readers_gone() => return Err(Ended::Unwanted),
            };
            match next {
                Ok(Some(bytes)) => {
                    ex.tally.sent.0 += bytes.len() as u64;
                    ex.tally.sent.1 += bytes.len() as u64;
                    self.append(bytes).await?;
                }
                Ok(None) => break,
                // One that breaks off is in the log; the page goes on behind it.
                Err(_) => {
                    is_whole = false;
                    break;
                }
            }
        }
        subrequest::log(&mut ex, self.cx);
        match on_error {
            OnError::End if !is_whole => Err(Ended::Failed(format!("{} breaks off", named(&ex)))),
            OnError::Show | OnError::Skip | OnError::End => Ok(()),
        }
    }

    /// Adds text that is in gzip: as it is, where the whole is so, too.
    async fn packed(&mut self, segment: &Segment) -> Result<(), Ended> {
        if let Out::Packed(..) = self.out {
            self.flush().await?;
        }
        if let Out::Packed(_, joined) = &mut self.out {
            joined.push(segment);
            return if joined.len() < GATHERED_BYTES { Ok(()) } else { self.send().await };
        }
        let mut text = Vec::with_capacity(segment.len() as usize);
        segment.restore(&mut text).map_err(|error| Ended::Failed(format!("a page that is kept: {error}")))?;
        self.append(text.into()).await
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), Ended> {
        if self.held.len() + bytes.len() < GATHERED_BYTES {
            self.held.extend_from_slice(&bytes);
            return Ok(());
        }
        self.flush().await?;
        self.write(bytes).await
    }

    async fn flush(&mut self) -> Result<(), Ended> {
        if self.held.is_empty() {
            return self.send().await;
        }
        let held = std::mem::take(&mut self.held);
        self.write(held.into()).await
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Ended> {
        let writer = match &mut self.out {
            Out::Whole(writer) => writer,
            Out::Packed(_, joined) => {
                let segment = Segment::of(&bytes, esi::EFFORT);
                joined.push(&segment.map_err(|error| Ended::Failed(format!("the whole cannot be packed: {error}")))?);
                return self.send().await;
            }
            Out::Attempt(kept, shared) => {
                if kept.len() + bytes.len() > ATTEMPT_BYTES_MAX {
                    return Err(Ended::Failed("its attempt brings more than 1 MB".to_owned()));
                }
                if !shared.may_make(bytes.len()) {
                    return Err(Ended::Failed("the attempts of the request bring more than 32 MB".to_owned()));
                }
                kept.extend_from_slice(&bytes);
                return Ok(());
            }
        };
        put(writer, bytes).await
    }

    /// Writes what there is in gzip.
    async fn send(&mut self) -> Result<(), Ended> {
        let Out::Packed(writer, joined) = &mut self.out else { return Ok(()) };
        match joined.take() {
            none if none.is_empty() => Ok(()),
            packed => put(writer, packed.into()).await,
        }
    }

    /// Waits until nobody reads what is written. Of an attempt, whoever waits for it knows.
    async fn readers_gone(&self) {
        match &self.out {
            Out::Whole(writer) | Out::Packed(writer, _) => writer.readers_gone().await,
            Out::Attempt(..) => std::future::pending().await,
        }
    }
}

async fn put(writer: &mut BodyWriter, bytes: Bytes) -> Result<(), Ended> {
    tokio::select! {
        biased;
        () = writer.readers_gone() => return Err(Ended::Unwanted),
        () = writer.wait_for_room() => {}
    }
    writer.append(bytes).map_err(|_| Ended::Unwanted)
}
