//! Puts the parts of a whole together, in order.

use bytes::Bytes;
use larder_store::BodyWriter;
use tokio::sync::{mpsc, oneshot};

use crate::context::Cx;
use crate::request::subrequest;

use super::parts::{Answer, OnError, Part, Unwanted, is_good, left_out};

/// Small parts are gathered up to this size, unless the next is not there yet.
const GATHERED_BYTES: usize = 16 * 1024;

/// Writes the parts that come in, until the last one or until all readers have left.
pub async fn join(writer: BodyWriter, incoming: mpsc::Receiver<Part>, cx: &Cx) {
    Joiner { writer, held: Vec::new(), cx }.run(incoming).await;
}

struct Joiner<'a> {
    writer: BodyWriter,
    /// Small parts that go on together.
    held: Vec<u8>,
    cx: &'a Cx,
}

impl Joiner<'_> {
    async fn run(mut self, mut incoming: mpsc::Receiver<Part>) {
        loop {
            let part = match incoming.try_recv() {
                Ok(part) => part,
                Err(_) => {
                    // What is there goes out before we wait for more.
                    if self.flush().await.is_err() {
                        return;
                    }
                    let received = tokio::select! {
                        biased;
                        part = incoming.recv() => part,
                        () = self.writer.readers_gone() => return,
                    };
                    match received {
                        Some(part) => part,
                        None => return self.writer.finish(),
                    }
                }
            };
            let joined = match part {
                Part::Bytes(bytes) => self.append(bytes).await,
                Part::Answer(answer, through, on_error) => match self.answer(answer, on_error).await {
                    Ok(true) => {
                        if let Some(through) = through {
                            let _ = through.send(());
                        }
                        Ok(())
                    }
                    Ok(false) => {
                        let _ = self.flush().await;
                        return self.writer.fail("a subrequest was closed, or has failed".to_owned());
                    }
                    Err(unwanted) => Err(unwanted),
                },
                Part::Failed(why) => {
                    let _ = self.flush().await;
                    return self.writer.fail(why);
                }
            };
            if joined.is_err() {
                return;
            }
        }
    }

    /// Adds an answer once it is there; false when the whole has to end with it.
    async fn answer(
        &mut self,
        mut answer: oneshot::Receiver<Option<Answer>>,
        on_error: OnError,
    ) -> Result<bool, Unwanted> {
        let answer = match answer.try_recv() {
            Ok(answer) => answer,
            Err(_) => {
                self.flush().await?;
                tokio::select! {
                    biased;
                    answer = answer => answer.ok().flatten(),
                    () = self.writer.readers_gone() => return Err(Unwanted),
                }
            }
        };
        let Some(Answer { mut ex, mut body, counted: _counted }) = answer else { return Ok(false) };
        if on_error != OnError::Show && !is_good(ex.reply.status) {
            left_out(&ex, self.cx);
            subrequest::log(&mut ex, self.cx);
            return Ok(on_error == OnError::Skip);
        }
        let mut is_whole = true;
        loop {
            if !body.is_ready() {
                self.flush().await?;
            }
            let next = tokio::select! {
                biased;
                next = body.next(self.cx) => next,
                () = self.writer.readers_gone() => return Err(Unwanted),
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
        Ok(is_whole || on_error != OnError::End)
    }

    async fn append(&mut self, bytes: Bytes) -> Result<(), Unwanted> {
        if self.held.len() + bytes.len() < GATHERED_BYTES {
            self.held.extend_from_slice(&bytes);
            return Ok(());
        }
        self.flush().await?;
        self.write(bytes).await
    }

    async fn flush(&mut self) -> Result<(), Unwanted> {
        if self.held.is_empty() {
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        self.write(held.into()).await
    }

    async fn write(&mut self, bytes: Bytes) -> Result<(), Unwanted> {
        tokio::select! {
            biased;
            () = self.writer.readers_gone() => return Err(Unwanted),
            () = self.writer.wait_for_room() => {}
        }
        self.writer.append(bytes).map_err(|_| Unwanted)
    }
}
