//! Reads a body from an origin as fast as it comes, however slow its readers are.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_cache::Permit;
use larder_conf::model::LogLevel;
use larder_origin::{Answer, AnswerBody, FetchError};
use larder_store::{BodyReader, BodyWriter};

use crate::context::Cx;
use crate::directors::Counts;
use crate::exchange::Report;
use crate::logs::Context;
use crate::records;
use crate::records::fetch::Told;
use crate::turns::TRANSFER_STEP_BYTES;

use super::for_all::ForAll;
use super::part::Joined;
use super::pieces;
use super::proxy_store::StoredFile;

/// How fast a body is taken: `*_limit_rate`.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Bytes a second; not 0.
    rate: u64,
    began: Instant,
}

impl Pace {
    /// A pace that begins now; `None` for no limit.
    pub fn new(rate: u64) -> Option<Self> {
        (rate > 0).then(|| Self { rate, began: Instant::now() })
    }

    /// How many bytes may be taken when `taken` have been, after `passed`; or how long to wait for the next. As in
    /// nginx the first second's worth goes at once.
    fn room(self, taken: u64, passed: Duration) -> Result<usize, Duration> {
        let earned = u128::from(self.rate) * (passed.as_millis() + 1000) / 1000;
        match earned.checked_sub(u128::from(taken)).filter(|&room| room > 0) {
            Some(room) => Ok(usize::try_from(room).unwrap_or(usize::MAX)),
            None => {
                let due = (u128::from(taken) + 1) * 1000 / u128::from(self.rate);
                let wait = due.saturating_sub(passed.as_millis() + 1000) + 1;
                Err(Duration::from_millis(u64::try_from(wait).unwrap_or(u64::MAX)).min(PACE_STEP))
            }
        }
    }

    /// Appends as the pace allows, until all readers have left; with `is_wanted` even then.
    async fn append(
        self,
        mut bytes: Bytes,
        mut taken: u64,
        writer: &mut BodyWriter,
        is_wanted: bool,
    ) -> Result<(), End> {
        while !bytes.is_empty() {
            match self.room(taken, self.began.elapsed()) {
                Ok(room) => {
                    let piece = bytes.split_to(room.min(bytes.len()));
                    taken += piece.len() as u64;
                    writer.append(piece).map_err(|error| End::Failed(error.to_string()))?;
                }
                Err(wait) => tokio::select! {
                    () = tokio::time::sleep(wait.max(PACE_PAUSE)) => {}
                    () = writer.readers_gone(), if !is_wanted => return Err(End::Unwanted),
                },
            }
        }
        Ok(())
    }
}

/// The shortest pause, so that a low rate does not mean many small pieces.
const PACE_PAUSE: Duration = Duration::from_millis(20);
/// The longest pause, after which the pace is computed anew.
const PACE_STEP: Duration = Duration::from_secs(1);

/// Where a pump writes what goes wrong; its exchange may be over by then.
pub struct Complaint {
    /// The log.
    pub logs: Cx,
    /// Client, server, request and so on.
    pub context: Context,
}

/// Where a body goes beside its readers, and how fast.
pub struct Wanted {
    /// The cache. The permit to store it is held to its end.
    pub permit: Option<Permit>,
    /// Other nodes.
    pub for_all: Option<Box<ForAll>>,
    /// A file.
    pub kept: Option<StoredFile>,
    /// A part that is stored, which goes before or behind it.
    pub joined: Option<Joined>,
    /// How fast it is taken off the origin; `None` for as fast as it is made.
    pub pace: Option<Pace>,
    /// Who counts its bytes for the backend.
    pub counts: Option<Arc<Counts>>,
    /// What the transaction log is told of it.
    pub told: Option<Told>,
}

/// Takes the body of `answer` to its end. One that is neither stored nor kept as a file ends with its last reader.
pub async fn pump(answer: Answer, writer: BodyWriter, report: &Report, wanted: Wanted, complaint: &Complaint) {
    let Wanted { permit, for_all, kept, joined, pace, counts, told } = wanted;
    let started = Instant::now();
    let length = answer.body.content_length();
    let mut pump =
        Pump { kept, permit, for_all, writer, answer, pace, length, is_alone: false, turn_began: 0, report, complaint };
    let end = match joined {
        None => pump.run().await,
        Some(joined) => pump.join(joined).await.unwrap_or_else(|end| end),
    };
    pump.account(started);
    if let Some(counts) = counts {
        counts.note_answer(report.body_bytes.get(), &pump.answer.body);
    }
    if let Some(told) = told {
        let error = match &end {
            End::Failed(error) => Some(error.as_str()),
            End::Complete | End::Unwanted => None,
        };
        records::fetch::over(&told, error, report);
    }
    pump.close(end);
}

/// A body on its way from the origin to readers, cache and file. Fields are in the order in which they are dropped.
struct Pump<'a> {
    kept: Option<StoredFile>,
    permit: Option<Permit>,
    for_all: Option<Box<ForAll>>,
    writer: BodyWriter,
    answer: Answer,
    pace: Option<Pace>,
    /// How long the body is to be, if the origin said so.
    length: Option<u64>,
    /// All readers have left, and a file is still to be made.
    is_alone: bool,
    /// Bytes received when the worker's turn began, with their framing: an origin may send records of a byte.
    turn_began: u64,
    report: &'a Report,
    complaint: &'a Complaint,
}

/// How a pump came to its end.
enum End {
    Complete,
    /// It is not stored, and its last reader left.
    Unwanted,
    Failed(String),
}

impl Pump<'_> {
    async fn run(&mut self) -> End {
        loop {
            let Some(next) = self.next().await else {
                if self.kept.is_none() {
                    return End::Unwanted;
                }
                self.is_alone = true;
                continue;
            };
            match next {
                Ok(Some(bytes)) => {
                    if let Err(end) = self.pass_on(bytes).await {
                        return end;
                    }
                }
                Ok(None) => {
                    self.finish_file().await;
                    return if self.is_alone { End::Unwanted } else { End::Complete };
                }
                Err(error) => return End::Failed(error.to_string()),
            }
        }
    }

    /// Runs with a part that is stored before or behind the body.
    async fn join(&mut self, joined: Joined) -> Result<End, End> {
        let Joined { mut reader, bytes, is_first, .. } = joined;
        if is_first {
            self.copy(&mut reader, bytes).await?;
        }
        match self.run().await {
            End::Complete if !is_first => self.copy(&mut reader, bytes).await?,
            End::Complete => {}
            end => return Err(end),
        }
        Ok(End::Complete)
    }

    /// Copies that many bytes of a stored body.
    async fn copy(&mut self, reader: &mut BodyReader, bytes: u64) -> Result<(), End> {
        while reader.at() < bytes {
            if self.permit.is_some() && self.writer.is_stored() {
                self.writer.wait_for_disk().await;
            } else {
                tokio::select! {
                    biased;
                    () = self.writer.readers_gone() => return Err(End::Unwanted),
                    () = self.writer.wait_for_room() => {}
                }
            }
            let piece = pieces::piece(reader, bytes).await.map_err(End::Failed)?;
            let piece = piece.ok_or_else(|| End::Failed("a stored part is shorter than it was".to_owned()))?;
            self.writer.append(piece).map_err(|error| End::Failed(error.to_string()))?;
            self.complaint.logs.worker.transfers.next().await;
        }
        Ok(())
    }

    /// What the origin sends next, once there is room for it. `None` when the last reader of a body that is not stored
    /// has left.
    async fn next(&mut self) -> Option<Result<Option<Bytes>, FetchError>> {
        if self.is_alone {
            return Some(self.answer.body.next().await);
        }
        // A reader that has all bytes leaves; what is missing then is the origin's own end, which frees its connection.
        if self.has_all() || self.permit.is_some() && self.writer.is_stored() {
            self.writer.wait_for_disk().await;
            // Where the cache is to keep them, if it can.
            self.answer.body.read_into(|| self.writer.buffer());
            return Some(self.answer.body.next().await);
        }
        tokio::select! {
            biased;
            () = self.writer.readers_gone() => None,
            next = async {
                self.writer.wait_for_room().await;
                self.answer.body.next().await
            } => Some(next),
        }
    }

    fn has_all(&self) -> bool {
        self.length == Some(self.report.body_bytes.get())
    }

    /// Hands bytes to the file and to the readers, then lets others on the worker go first if it was their turn.
    async fn pass_on(&mut self, bytes: Bytes) -> Result<(), End> {
        let before = self.report.body_bytes.get();
        self.report.body_bytes.set(before + bytes.len() as u64);
        self.report.received.set(self.answer.body.usage().received);
        if let Some(too_large) = self.for_all.take_if(|for_all| !for_all.may_be(self.report.body_bytes.get())) {
            too_large.give_up();
        }
        if self.kept.is_some() {
            self.append_to_file(&bytes).await?;
        }
        match self.pace {
            _ if self.is_alone => {}
            None => self.writer.append(bytes).map_err(|error| End::Failed(error.to_string()))?,
            Some(pace) => {
                let is_wanted = self.permit.is_some() || self.kept.is_some();
                pace.append(bytes, before, &mut self.writer, is_wanted).await?;
            }
        }
        self.give_way().await;
        Ok(())
    }

    /// Appends to the file. One that cannot be written is given up; the readers get the rest without it.
    async fn append_to_file(&mut self, bytes: &Bytes) -> Result<(), End> {
        if let Some(file) = &mut self.kept
            && let Err(error) = file.append(bytes.clone()).await
        {
            self.complaint.write(LogLevel::Crit, &not_kept(file.path(), &error));
            self.kept = None;
            if self.is_alone {
                return Err(End::Unwanted);
            }
        }
        // A reader that has the last byte may ask for the file.
        if self.has_all() {
            self.finish_file().await;
        }
        Ok(())
    }

    /// An origin that has much to give must not hold up clients that want a page that is here. The last bytes are followed
    /// by the end at once: a reader that has them finds the page in the cache.
    async fn give_way(&mut self) {
        let received = self.answer.body.usage().received;
        let is_long = received.saturating_sub(self.turn_began) >= TRANSFER_STEP_BYTES as u64;
        if is_long && !self.has_all() {
            self.turn_began = received;
            self.complaint.logs.worker.transfers.next().await;
        }
    }

    /// Puts the file into its place.
    async fn finish_file(&mut self) {
        let Some(kept) = self.kept.take() else { return };
        let path = kept.path().to_owned();
        if let Err(error) = kept.finish().await {
            self.complaint.write(LogLevel::Crit, &not_kept(&path, &error));
        }
    }

    /// Reports bytes and time for the access log, and what the origin complained of to the error log.
    fn account(&mut self, started: Instant) {
        let body = &mut self.answer.body;
        note(self.report, body, started.elapsed(), &self.complaint.logs);
        for (level, text) in complaints(body) {
            self.complaint.write(level, &text);
        }
        if let Some(folder) = self.writer.take_spilled() {
            let folder = folder.display();
            let text =
                format!("an upstream response is buffered to a temporary file in {folder} while reading upstream");
            self.complaint.write(LogLevel::Warn, &text);
        }
        if let Some(trouble) = self.writer.take_trouble() {
            self.complaint.write(LogLevel::Crit, &trouble);
        }
    }

    /// Tells the readers how it ended.
    fn close(self, end: End) {
        match end {
            End::Complete => {
                if let Some(permit) = self.permit.as_ref().filter(|_| !self.writer.is_stored()) {
                    // Its head did not tell, unless it was too large.
                    let (status, bytes) = (self.answer.head.status, self.report.body_bytes.get());
                    permit.remember_no_room(status, bytes, self.complaint.logs.now());
                }
                self.writer.finish();
                drop(self.permit);
                if let Some(for_all) = self.for_all {
                    for_all.store(&self.complaint.logs);
                }
            }
            // Dropping the writer says that the body is not whole.
            End::Unwanted => {}
            End::Failed(error) => {
                self.complaint.logs.stats().fetches_failed.add(1);
                self.complaint.write(LogLevel::Error, &error);
                self.writer.fail(error);
            }
        }
    }
}

/// Notes for the access log what came of a body that is over; its own bytes are counted by whoever took them.
pub fn note(report: &Report, body: &AnswerBody, total: Duration, cx: &Cx) {
    let usage = body.usage();
    cx.stats().origin_connections_kept.add(u64::from(usage.is_kept));
    report.received.set(usage.received);
    report.ended.set(Some(usage));
    report.total.set(Some(total));
}

/// What an origin said of its body for the error log, since the last call.
pub fn complaints(body: &mut AnswerBody) -> Vec<(LogLevel, String)> {
    if body.is_silent() {
        return Vec::new();
    }
    let said = body
        .stderr()
        .into_iter()
        .map(|line| (LogLevel::Error, format!("FastCGI sent in stderr: \"{line}\" while reading upstream")));
    said.chain(body.notes().into_iter().map(|note| (LogLevel::Warn, note))).collect()
}

fn not_kept(path: &Path, error: &std::io::Error) -> String {
    format!("the answer could not be stored as \"{}\": {error}", path.display())
}

impl Complaint {
    fn write(&self, level: LogLevel, message: &str) {
        self.logs.local.logs.write(level, message, &self.context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_second_goes_at_once_and_then_the_pace_holds() {
        let pace = Pace::new(1000).expect("it is a limit");
        let millis = Duration::from_millis;
        for (taken, passed, room) in [
            (0, 0, Ok(1000)),
            (999, 0, Ok(1)),
            (1000, 0, Err(2)),
            (1500, 0, Err(502)),
            (1500, 499, Err(3)),
            (1500, 502, Ok(2)),
            (9000, 0, Err(1000)),
        ] {
            assert_eq!(pace.room(taken, millis(passed)), room.map_err(millis), "{taken} bytes after {passed} ms");
        }
        assert!(Pace::new(0).is_none());
        assert_eq!(Pace::new(u64::MAX).map(|pace| pace.room(0, millis(0)).is_ok()), Some(true));
    }
}
