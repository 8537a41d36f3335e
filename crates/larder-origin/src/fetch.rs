//! A fetch: choose an origin, ask it, and if it fails, ask the next as `*_next_upstream` says. Start here.

use std::{future::poll_fn, time::Duration};

use larder_http::{Fields, ResponseHead};
use parking_lot::Mutex;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{
    answer::{Answer, AnswerBody, Upgraded},
    connection::{Connection, Layers},
    download::Download,
    error::{FailKind, FetchError},
    exchange::Exchange,
    fastcgi,
    group::{Pick, Turn},
    http,
    limits::Limits,
    pool::{Purpose, Speaks},
    request::{Fetch, Protocol, RequestBody, Retry},
    upload::Upload,
};

/// The result of a fetch.
#[derive(Debug)]
pub struct Outcome {
    /// The answer, or why there is none. The caller makes a status of the error.
    pub result: Result<Answer, FetchError>,
    /// Every origin that was asked, in order; the last one gave `result`.
    pub attempts: Vec<Attempt>,
}

/// An origin that was asked, for `$upstream_*` and the error log.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Its address; the name of the group when no origin could be asked.
    pub address: String,
    /// The status of its answer, or nginx's status for its failure: 504 for a timeout, else 502. `None` if the failure
    /// was not the origin's.
    pub status: Option<u16>,
    /// How long connecting took; zero on a kept connection, `None` if it failed.
    pub connect: Option<Duration>,
    /// From the choice of this origin to the end of its response head; `None` if it failed before.
    pub header: Option<Duration>,
    /// From the choice of this origin to its failure, or to the end of its response head.
    pub elapsed: Duration,
    /// The message for the error log, in nginx's words.
    pub error: Option<String>,
    /// What a failed origin wrote to stderr. For the origin that answered see [`AnswerBody::stderr`].
    pub stderr: Vec<String>,
    /// Bytes sent to it, by then.
    pub sent_bytes: u64,
    /// Bytes received from it, by then.
    pub received_bytes: u64,
    /// Whether it is the first attempt of a fetch. A request may have several fetches, because of internal redirects.
    pub begins: bool,
    chosen_at: Instant,
}

/// Asks an origin of the group, and if it fails, the next, as `fetch.retry` says.
///
/// Returns when the head of an answer is complete, or when no origin is left to ask. Dropping the future closes its
/// connection. It needs a tokio runtime with time and I/O; the answer stays on the runtime that fetched it.
pub async fn fetch(fetch: Fetch) -> Outcome {
    fetch_watched(fetch, &Mutex::default()).await
}

/// As [`fetch`]. If it is dropped before it returns, `unfinished` gets the attempts so far.
pub async fn fetch_watched(fetch: Fetch, unfinished: &Mutex<Vec<Attempt>>) -> Outcome {
    fetch_hinting(fetch, unfinished, None).await
}

/// As [`fetch_watched`]. The fields of each 103 (RFC 8297) that an HTTP origin sends before its answer go to `hints`,
/// from all attempts.
pub async fn fetch_hinting(
    fetch: Fetch,
    unfinished: &Mutex<Vec<Attempt>>,
    hints: Option<UnboundedSender<Fields>>,
) -> Outcome {
    let Fetch { group, hash_key, protocol, body, limits, tls, preface, retry, keep, method_is_head } = fetch;
    let keep = keep && group.pool().keeps();
    let mut turn = Turn::new(group.clone(), hash_key, retry.tries);
    let layers = Layers { preface, tls };
    let call = Call { protocol, layers, limits, retry, keep, method_is_head, hints, started: Instant::now() };
    let mut body = Some(body);
    let mut attempts = Watched { attempts: Vec::new(), running: None, unfinished };
    loop {
        let now = Instant::now();
        let Some(pick) = turn.next(now) else {
            let begins = attempts.is_empty();
            attempts.push(Attempt { begins, ..Attempt::of_nobody(group.name()) });
            return Outcome { result: Err(FetchError::NoLiveOrigin), attempts: attempts.finish() };
        };
        let begins = attempts.is_empty();
        let attempt = attempts.running.insert(Attempt { begins, ..Attempt::new(&pick, now) });
        let failure = match call.attempt(&pick, &mut body, attempt, turn.tries_left()).await {
            Ok((head, exchange)) => {
                pick.answered();
                pick.answers(Instant::now());
                let answer = call.answer(head, exchange, pick, attempt.chosen_at);
                return Outcome { result: Ok(answer), attempts: attempts.finish() };
            }
            Err(failure) => failure,
        };
        match failure.says() {
            Health::Bad => pick.failed(Instant::now()),
            Health::Good => pick.answered(),
            Health::Unknown => {}
        }
        let again = match &failure {
            Failure::Refused { .. } => true,
            Failure::Dead(_) => false,
            Failure::Failed(error) => {
                let may_resend = body.is_some() && call.may_resend(attempt);
                call.covers(error) && may_resend && call.may_go_on(turn.tries_left())
            }
        };
        attempts.end_running();
        match failure {
            Failure::Failed(error) | Failure::Dead(error) if !again => {
                return Outcome { result: Err(error), attempts: attempts.finish() };
            }
            Failure::Refused { .. } | Failure::Failed(_) | Failure::Dead(_) => {}
        }
    }
}

/// The attempts of a fetch, the running one included. So they can be logged if the client disconnects meanwhile.
struct Watched<'a> {
    attempts: Vec<Attempt>,
    running: Option<Attempt>,
    unfinished: &'a Mutex<Vec<Attempt>>,
}

impl Watched<'_> {
    fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    fn push(&mut self, attempt: Attempt) {
        self.attempts.push(attempt);
    }

    /// The running attempt has ended.
    fn end_running(&mut self) {
        self.attempts.extend(self.running.take());
    }

    fn finish(mut self) -> Vec<Attempt> {
        self.end_running();
        std::mem::take(&mut self.attempts)
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if let Some(running) = &mut self.running {
            running.elapsed = running.chosen_at.elapsed();
            self.end_running();
        }
        self.unfinished.lock().append(&mut self.attempts);
    }
}

/// What all attempts of a fetch have in common.
struct Call {
    protocol: Protocol,
    layers: Layers,
    limits: Limits,
    retry: Retry,
    keep: bool,
    method_is_head: bool,
    hints: Option<UnboundedSender<Fields>>,
    started: Instant,
}

/// Why an attempt brought no answer.
enum Failure {
    /// The answer has a status for which `*_next_upstream` asks another origin, and one may be asked.
    Refused {
        status: u16,
    },
    Failed(FetchError),
    /// The kept connection was dead, but the request may not be sent again.
    Dead(FetchError),
}

impl Call {
    /// Asks one origin. Leaves `body` there if it can be sent again, and notes the result in `attempt`.
    async fn attempt(
        &self,
        pick: &Pick,
        body: &mut Option<RequestBody>,
        attempt: &mut Attempt,
        tries_left: u32,
    ) -> Result<(ResponseHead, Exchange), Failure> {
        let kept = self.purpose_of(pick).and_then(|purpose| pick.group().pool().take(&purpose));
        if let Some(connection) = kept {
            attempt.connect = Some(Duration::ZERO);
            match self.exchange(connection, body, attempt, tries_left).await {
                // The origin closed the kept connection while we wrote. That says nothing about its health; a new
                // connection will tell. But a request that must not be repeated may have been processed.
                Err(Failure::Failed(error)) if error.is_broken() && attempt.received_bytes == 0 => {
                    if body.is_none() || !self.may_resend(attempt) {
                        return attempt.note_result(Err(Failure::Dead(error)));
                    }
                }
                result => return attempt.note_result(result),
            }
        }
        attempt.connect = None;
        let patient = pick.is_single();
        let connection = match Connection::open(pick.address(), &self.layers, &self.limits, patient).await {
            Ok(connection) => connection,
            Err(error) => return attempt.note_result(Err(Failure::Failed(error))),
        };
        attempt.connect = Some(attempt.chosen_at.elapsed());
        let waiting = self.purpose_of(pick).and_then(|purpose| pick.group().pool().wait(&purpose));
        let result = self.exchange(connection, body, attempt, tries_left).await;
        drop(waiting);
        attempt.note_result(result)
    }

    /// Sends the request on a connection and reads the head of the response.
    async fn exchange(
        &self,
        connection: Connection,
        body: &mut Option<RequestBody>,
        attempt: &mut Attempt,
        tries_left: u32,
    ) -> Result<(ResponseHead, Exchange), Failure> {
        let once_more = body.as_ref().and_then(RequestBody::again);
        let body_now = once_more.or_else(|| body.take()).expect("an attempt is made only while the body can be sent");
        let upload = Upload::new(&self.protocol, body_now, self.keep);
        let mut exchange = Exchange::new(connection, upload, self.download(), self.limits.send, self.limits.read);
        let result = poll_fn(|cx| exchange.poll_head(cx)).await;
        attempt.sent_bytes = exchange.upload.sent_bytes();
        attempt.received_bytes = exchange.received_bytes();
        let failure = match result {
            Ok(head) if !self.turns_away(head.status, attempt) || !self.may_go_on(tries_left) => {
                return Ok((head, exchange));
            }
            Ok(head) if body.is_none() && !exchange.upload.is_untouched() => {
                return Ok((head, exchange));
            }
            Ok(head) => Failure::Refused { status: head.status },
            Err(error) => Failure::Failed(error),
        };
        attempt.stderr = exchange.download.take_stderr();
        if body.is_none() {
            *body = exchange.upload.into_untouched();
        }
        Err(failure)
    }

    fn answer(&self, head: ResponseHead, mut exchange: Exchange, pick: Pick, attempt_started: Instant) -> Answer {
        let is_http = matches!(self.protocol, Protocol::Http { .. });
        if matches!(self.protocol, Protocol::Http { upgrade: true, .. }) && head.status == 101 {
            let (upgraded, body) = Upgraded::new(exchange, pick);
            return Answer { head, body, upgraded: Some(upgraded), attempt_started };
        }
        // An HTTP origin that answers with an error before it has read the request will not read the rest (RFC 9112
        // §9.3). One that answers with success may still be reading, and PHP reads when the script does.
        if is_http && head.status >= 300 {
            exchange.upload.stop();
        }
        let keep = self.purpose_of(&pick);
        Answer { head, body: AnswerBody::new(exchange, pick, keep), upgraded: None, attempt_started }
    }

    fn download(&self) -> Download {
        let head_bytes_max = self.limits.head_bytes_max;
        match &self.protocol {
            Protocol::FastCgi { catch_stderr, .. } => {
                Download::FastCgi(fastcgi::Response::new(head_bytes_max, catch_stderr.clone(), self.method_is_head))
            }
            Protocol::Http { upgrade, .. } => {
                let response = http::Response::new(head_bytes_max, self.method_is_head, *upgrade);
                Download::Http(response.hinting(self.hints.clone()))
            }
        }
    }

    /// For which requests a connection to this origin is kept; `None` if it is not kept.
    fn purpose_of(&self, pick: &Pick) -> Option<Purpose> {
        let speaks = match self.protocol {
            Protocol::FastCgi { .. } => Speaks::FastCgi,
            Protocol::Http { .. } => Speaks::Http,
        };
        let layers = self.layers.clone();
        self.keep.then_some(Purpose { server: pick.address().clone(), bind: self.limits.bind, speaks, layers })
    }

    /// Whether the number of tries and the time allow another attempt.
    fn may_go_on(&self, tries_left: u32) -> bool {
        let limit = self.retry.timeout;
        tries_left > 0 && limit.is_none_or(|limit| self.started.elapsed() < limit)
    }

    fn turns_away(&self, status: u16, attempt: &Attempt) -> bool {
        self.retry.rules.statuses.contains(&status) && self.may_resend(attempt)
    }

    /// Whether the request may be sent to another origin after this attempt.
    fn may_resend(&self, attempt: &Attempt) -> bool {
        self.retry.is_idempotent || self.retry.rules.non_idempotent || attempt.sent_bytes == 0
    }

    /// Whether `*_next_upstream` asks another origin after this failure.
    fn covers(&self, error: &FetchError) -> bool {
        let rules = &self.retry.rules;
        error.is_origins()
            && match error.kind() {
                FailKind::Error => rules.error,
                FailKind::Timeout => rules.timeout,
                FailKind::InvalidHeader => rules.invalid_header,
            }
    }
}

/// What a failure says about the health of its origin.
enum Health {
    Good,
    Bad,
    Unknown,
}

impl Failure {
    fn says(&self) -> Health {
        match self {
            // Another origin may have the page, but this one is healthy.
            Failure::Refused { status: 403 | 404 } => Health::Good,
            Failure::Refused { .. } => Health::Bad,
            Failure::Failed(error) if error.is_origins() => Health::Bad,
            Failure::Failed(_) | Failure::Dead(_) => Health::Unknown,
        }
    }
}

impl Attempt {
    fn new(pick: &Pick, chosen_at: Instant) -> Attempt {
        Attempt { address: pick.address().to_string(), ..Attempt::blank(chosen_at) }
    }

    fn of_nobody(group: &str) -> Attempt {
        let error = FetchError::NoLiveOrigin;
        let status = error.status();
        Attempt { address: group.to_owned(), status, error: Some(error.to_string()), ..Attempt::blank(Instant::now()) }
    }

    fn blank(chosen_at: Instant) -> Attempt {
        Attempt {
            address: String::new(),
            status: None,
            connect: None,
            header: None,
            elapsed: Duration::ZERO,
            error: None,
            stderr: Vec::new(),
            sent_bytes: 0,
            received_bytes: 0,
            begins: false,
            chosen_at,
        }
    }

    /// Adds the time and bytes since the head, up to now: of the body, or of a tunnel.
    pub fn note_end(&mut self) {
        self.elapsed = self.chosen_at.elapsed();
    }

    /// Notes how the attempt ended.
    fn note_result(
        &mut self,
        result: Result<(ResponseHead, Exchange), Failure>,
    ) -> Result<(ResponseHead, Exchange), Failure> {
        self.elapsed = self.chosen_at.elapsed();
        match &result {
            Ok((ResponseHead { status, .. }, _)) | Err(Failure::Refused { status }) => {
                self.status = Some(*status);
                self.header = Some(self.elapsed);
            }
            Err(Failure::Failed(error) | Failure::Dead(error)) => {
                self.status = error.status();
                self.error = Some(error.to_string());
            }
        }
        result
    }
}
