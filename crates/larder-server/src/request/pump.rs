//! Taking a body off an origin as fast as it is made, whoever reads it and however slowly.

use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use larder_cache::Permit;
use larder_conf::model::LogLevel;
use larder_origin::Answer;
use larder_store::BodyWriter;

use crate::context::Cx;
use crate::exchange::Report;
use crate::logs::Context;
use crate::turns::TRANSFER_STEP_BYTES;

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

    /// Appends as the pace allows. With `is_wanted` whether or not somebody reads.
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

/// Bytes are let through in steps of this at least, so that a pace is not a storm of small pieces.
const PACE_PAUSE: Duration = Duration::from_millis(20);
/// And waited for no longer at once than this.
const PACE_STEP: Duration = Duration::from_secs(1);

/// Where a pump writes what goes wrong; its exchange may be over by then.
pub struct Complaint {
    /// The log.
    pub logs: Cx,
    /// Client, server, request and so on.
    pub context: Context,
}

/// Who wants a body beside those who read it.
pub struct Wanted {
    /// The cache. The permit to store it is held to its end.
    pub permit: Option<Permit>,
    /// A file.
    pub kept: Option<StoredFile>,
    /// How fast it is taken off the origin; `None` for as fast as it is made.
    pub pace: Option<Pace>,
}

/// Takes the body of `answer` to its end. One that is neither stored nor kept as a file ends with its last reader.
pub async fn pump(mut answer: Answer, mut writer: BodyWriter, report: &Report, wanted: Wanted, complaint: &Complaint) {
    let Wanted { permit, mut kept, pace } = wanted;
    // Its readers are gone, and a file is still to be made of it.
    let mut is_alone = false;
    let started = Instant::now();
    let length = answer.body.content_length();
    // With its framing: an origin may send records of a byte.
    let mut step_began = 0;
    let end = loop {
        // Who has read all bytes leaves; what is missing then is the origin's own end, which frees its connection.
        let has_all = length == Some(report.body_bytes.get());
        let next = if is_alone {
            Some(answer.body.next().await)
        } else if has_all || permit.is_some() && writer.is_stored() {
            writer.wait_for_disk().await;
            Some(answer.body.next().await)
        } else {
            tokio::select! {
                biased;
                () = writer.readers_gone() => None,
                next = async {
                    writer.wait_for_room().await;
                    answer.body.next().await
                } => Some(next),
            }
        };
        let Some(next) = next else {
            if kept.is_none() {
                break End::Unwanted;
            }
            is_alone = true;
            continue;
        };
        match next {
            Ok(Some(bytes)) => {
                let before = report.body_bytes.get();
                report.body_bytes.set(before + bytes.len() as u64);
                if let Some(file) = &mut kept {
                    if let Err(error) = file.append(bytes.clone()).await {
                        complaint.write(LogLevel::Crit, &not_kept(file.path(), &error));
                        kept = None;
                        if is_alone {
                            break End::Unwanted;
                        }
                    }
                    // Who has the last byte may ask for the file.
                    if length == Some(report.body_bytes.get()) {
                        finish(kept.take(), complaint).await;
                    }
                }
                let appended = match pace {
                    _ if is_alone => Ok(()),
                    None => writer.append(bytes).map_err(|error| End::Failed(error.to_string())),
                    Some(pace) => pace.append(bytes, before, &mut writer, permit.is_some() || kept.is_some()).await,
                };
                if let Err(end) = appended {
                    break end;
                }
                // An origin that has much to give must not hold up those who want a page that is here. The last bytes are
                // followed by the end at once: who has read them finds the page in the cache.
                let received = answer.body.bytes_received();
                let is_long = received.saturating_sub(step_began) >= TRANSFER_STEP_BYTES as u64;
                if is_long && length != Some(report.body_bytes.get()) {
                    step_began = received;
                    complaint.logs.worker.transfers.next().await;
                }
            }
            Ok(None) => {
                finish(kept.take(), complaint).await;
                break if is_alone { End::Unwanted } else { End::Complete };
            }
            Err(error) => break End::Failed(error.to_string()),
        }
    };
    report.received.set(answer.body.bytes_received());
    report.sent.set(Some(answer.body.bytes_sent()));
    report.total.set(Some(started.elapsed()));
    for line in answer.body.stderr() {
        complaint.write(LogLevel::Error, &format!("FastCGI sent in stderr: \"{line}\" while reading upstream"));
    }
    for note in answer.body.notes() {
        complaint.write(LogLevel::Warn, &note);
    }
    if let Some(trouble) = writer.take_trouble() {
        complaint.write(LogLevel::Crit, &trouble);
    }
    match end {
        End::Complete => {
            writer.finish();
            drop(permit);
        }
        // Dropping the writer says that the body is not whole.
        End::Unwanted => {}
        End::Failed(error) => {
            complaint.write(LogLevel::Error, &error);
            writer.fail(error);
        }
    }
}

/// Gives the file its place.
async fn finish(kept: Option<StoredFile>, complaint: &Complaint) {
    let Some(kept) = kept else { return };
    let path = kept.path().to_owned();
    if let Err(error) = kept.finish().await {
        complaint.write(LogLevel::Crit, &not_kept(&path, &error));
    }
}

fn not_kept(path: &Path, error: &std::io::Error) -> String {
    format!("the answer could not be stored as \"{}\": {error}", path.display())
}

/// How a pump came to its end.
enum End {
    Complete,
    /// It is not stored, and its last reader left.
    Unwanted,
    Failed(String),
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
