//! Taking a body off an origin as fast as it is made, whoever reads it and however slowly.

use std::cell::Cell;
use std::time::{Duration, Instant};

use larder_cache::Permit;
use larder_conf::model::LogLevel;
use larder_origin::Answer;
use larder_store::BodyWriter;

use crate::context::Cx;
use crate::logs::Context;

/// What a pump tells the log line of its exchange.
#[derive(Debug, Default)]
pub struct Report {
    /// From the choice of the origin to the end of its body.
    pub total: Cell<Option<Duration>>,
    /// Bytes of the body.
    pub body_bytes: Cell<u64>,
    /// All bytes received.
    pub received: Cell<u64>,
}

/// Where a pump writes what goes wrong; its exchange may be over by then.
pub struct Complaint {
    /// The log.
    pub logs: Cx,
    /// Client, server, request and so on.
    pub context: Context,
}

/// Takes the body of `answer` to its end. A body that is not stored ends with its last reader. The permit to store
/// it is held until then.
pub async fn pump(
    mut answer: Answer,
    mut writer: BodyWriter,
    report: &Report,
    permit: Option<Permit>,
    complaint: &Complaint,
) {
    let started = Instant::now();
    let length = answer.body.content_length();
    let mut turn_bytes = 0;
    let end = loop {
        // Who has read all bytes leaves; what is missing then is the origin's own end, which frees its connection.
        let has_all = length == Some(report.body_bytes.get());
        let next = if has_all || permit.is_some() && writer.is_stored() {
            writer.wait_for_disk().await;
            answer.body.next().await
        } else {
            tokio::select! {
                biased;
                () = writer.readers_gone() => break End::Unwanted,
                () = writer.wait_for_room() => {}
            }
            tokio::select! {
                biased;
                next = answer.body.next() => next,
                () = writer.readers_gone() => break End::Unwanted,
            }
        };
        match next {
            Ok(Some(bytes)) => {
                report.body_bytes.set(report.body_bytes.get() + bytes.len() as u64);
                turn_bytes += bytes.len();
                if let Err(error) = writer.append(bytes) {
                    break End::Failed(error.to_string());
                }
                // An origin that has much to give must not hold up those who want a page that is here.
                if turn_bytes >= TURN_BYTES {
                    turn_bytes = 0;
                    tokio::task::yield_now().await;
                }
            }
            Ok(None) => break End::Complete,
            Err(error) => break End::Failed(error.to_string()),
        }
    };
    report.received.set(answer.body.bytes_received());
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

/// How much is taken from one origin until the other work of the worker gets a turn.
const TURN_BYTES: usize = 128 * 1024;

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
