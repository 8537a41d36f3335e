//! A fetch: choose an origin, ask it, and if it fails, ask the next as `*_next_upstream` says. Start here.
//!
//! ```text
//! (nobody) --choose--> Chosen --kept, or new and plain--> Exchanging --> Outcome
//!     ^                  `--new, with TLS--> Opening --------^ |  |
//!     |                                                 ^-dead-'  |
//!     `---------------------------failed--------------------------'
//! ```
//!
//! A plain connection is written to before it is known whether it is made: TCP has often finished by then.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use larder_http::{Fields, ResponseHead};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{
    answer::{Answer, AnswerBody, Upgraded},
    attempt::Attempt,
    connection::Connection,
    download::Download,
    error::{FailKind, FetchError},
    exchange::Exchange,
    fastcgi,
    group::{Pick, Turn},
    http,
    limits::Limits,
    pool::Waiting,
    purpose::{Layers, Speaks, Wanted},
    request::{Fetch, Protocol, Retry},
    request_body::RequestBody,
    socket::is_queue_full,
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

/// A fetch under way: asks an origin of the group, and if it fails, the next, as `fetch.retry` says.
///
/// Dropping it closes its connection. It needs a tokio runtime with time and I/O; the answer stays on the runtime that
/// fetched it.
pub struct Fetching {
    call: Call,
    turn: Turn,
    request: Request,
    /// The attempts that have ended.
    attempts: Vec<Attempt>,
    running: Option<Running>,
}

/// An origin that is being asked.
struct Running {
    pick: Pick,
    attempt: Attempt,
    step: Step,
}

#[expect(clippy::large_enum_variant, reason = "the large one is the one of a kept connection, which allocates nothing")]
enum Step {
    /// The origin was chosen.
    Chosen,
    /// A connection is made that needs several steps: TLS, or a Unix socket with a full queue.
    Opening(Pin<Box<dyn Future<Output = Result<Connection, FetchError>> + Send>>),
    Exchanging {
        exchange: Exchange,
        /// Whether the connection was kept from an earlier fetch.
        is_kept: bool,
        _waiting: Option<Waiting>,
    },
    /// The attempt has ended.
    Over,
}

/// The request, as far as no attempt has it.
struct Request {
    /// What comes before the body.
    opening: Bytes,
    /// The body, as long as it can be sent (again).
    body: Option<RequestBody>,
}

/// What all attempts of a fetch have in common.
struct Call {
    speaks: Speaks,
    /// Whether a 101 may turn the connection into a tunnel.
    upgrade: bool,
    catch_stderr: Option<Arc<[Vec<u8>]>>,
    layers: Layers,
    limits: Limits,
    retry: Retry,
    keep: bool,
    method_is_head: bool,
    hints: Option<UnboundedSender<Fields>>,
    started: Option<Instant>,
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

/// [`Fetching`], for callers that await.
pub async fn fetch(fetch: Fetch) -> Outcome {
    let mut fetching = Fetching::new(fetch, None);
    poll_fn(|cx| fetching.poll(cx)).await
}

impl Fetching {
    /// A fetch of which nothing was sent yet. The fields of each 103 (RFC 8297) that an HTTP origin sends before its
    /// answer go to `hints`, from all attempts.
    pub fn new(fetch: Fetch, hints: Option<UnboundedSender<Fields>>) -> Fetching {
        let Fetch { group, hash_key, protocol, body, limits, tls, preface, retry, keep, method_is_head } = fetch;
        let keep = keep && group.pool().keeps();
        let turn = Turn::new(group, hash_key, retry.tries);
        let layers = Layers { preface, tls };
        let (speaks, opening, upgrade, catch_stderr) = match protocol {
            Protocol::Http { head, upgrade } => (Speaks::Http, head, upgrade, None),
            Protocol::FastCgi { params, catch_stderr } => {
                let has_body = !matches!(body, RequestBody::None);
                let catch_stderr = (!catch_stderr.is_empty()).then(|| catch_stderr.into());
                (Speaks::FastCgi, fastcgi::opening(&params, keep, has_body), false, catch_stderr)
            }
        };
        let call =
            Call { speaks, upgrade, catch_stderr, layers, limits, retry, keep, method_is_head, hints, started: None };
        let request = Request { opening, body: Some(body) };
        Fetching { call, turn, request, attempts: Vec::new(), running: None }
    }

    /// Ready when the head of an answer is complete, or when no origin is left to ask. Not to be polled after that.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let now = Instant::now();
        self.call.started.get_or_insert(now);
        loop {
            let Some(running) = &mut self.running else {
                if self.begin(now) {
                    continue;
                }
                let nobody = Attempt::of_nobody(self.turn.group().name(), self.attempts.is_empty(), now);
                self.attempts.push(nobody);
                return Poll::Ready(self.outcome(Err(FetchError::NoLiveOrigin)));
            };
            let tries_left = self.turn.tries_left();
            let result = ready!(running.poll(cx, &self.call, &mut self.request, tries_left, now));
            let Some(Running { pick, mut attempt, step }) = self.running.take() else {
                continue;
            };
            match (result, step) {
                (Ok(head), Step::Exchanging { exchange, .. }) => {
                    attempt.note_head(head.status, now);
                    pick.answered();
                    pick.answers(now);
                    let answer = self.call.answer(head, exchange, pick, attempt.chosen_at(), now);
                    self.attempts.reserve_exact(1);
                    self.attempts.push(attempt);
                    return Poll::Ready(self.outcome(Ok(answer)));
                }
                (Err(failure), _) => {
                    if let Some(error) = self.after(failure, &pick, attempt, now) {
                        return Poll::Ready(self.outcome(Err(error)));
                    }
                }
                // Only who exchanges has an answer.
                (Ok(_), Step::Chosen | Step::Opening(_) | Step::Over) => {}
            }
        }
    }

    /// Ends it. Returns the attempts so far, the running one included.
    pub fn give_up(mut self) -> Vec<Attempt> {
        self.take_attempts()
    }

    fn take_attempts(&mut self) -> Vec<Attempt> {
        if let Some(mut running) = self.running.take() {
            running.attempt.note_end();
            self.attempts.push(running.attempt);
        }
        std::mem::take(&mut self.attempts)
    }

    fn outcome(&mut self, result: Result<Answer, FetchError>) -> Outcome {
        Outcome { result, attempts: std::mem::take(&mut self.attempts) }
    }

    /// Chooses the next origin. False if there is none.
    fn begin(&mut self, now: Instant) -> bool {
        let Some(pick) = self.turn.next(now) else {
            return false;
        };
        let attempt = Attempt::new(&pick, self.attempts.is_empty(), now);
        self.running = Some(Running { pick, attempt, step: Step::Chosen });
        true
    }

    /// Notes a failed attempt. `None` if another origin is to be asked, else the error.
    fn after(&mut self, failure: Failure, pick: &Pick, mut attempt: Attempt, now: Instant) -> Option<FetchError> {
        match failure.says() {
            Health::Bad => pick.failed(now),
            Health::Good => pick.answered(),
            Health::Unknown => {}
        }
        let error = match failure {
            Failure::Refused { status } => {
                attempt.note_head(status, now);
                None
            }
            Failure::Dead(error) => {
                attempt.note_failure(&error, now);
                Some(error)
            }
            Failure::Failed(error) => {
                attempt.note_failure(&error, now);
                let may_resend = self.request.body.is_some() && self.call.may_resend(&attempt);
                let again = self.call.covers(&error) && may_resend && self.call.may_go_on(self.turn.tries_left(), now);
                (!again).then_some(error)
            }
        };
        self.attempts.push(attempt);
        error
    }
}

impl Running {
    /// Ready when the origin has answered or failed. Leaves in `request` what can be sent again, and an exchange with an
    /// answer in `self`.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        call: &Call,
        request: &mut Request,
        tries_left: u32,
        now: Instant,
    ) -> Poll<Result<ResponseHead, Failure>> {
        loop {
            let attempt = &mut self.attempt;
            let (exchange, result) = match &mut self.step {
                Step::Chosen => {
                    let kept = call.wanted(&self.pick).and_then(|wanted| self.pick.group().pool().take(wanted, now));
                    self.step = match kept {
                        Some(connection) => {
                            attempt.connect = Some(Duration::ZERO);
                            call.exchange(connection, request, true, None, now)
                        }
                        None => call.connect(&self.pick, request, now)?,
                    };
                    continue;
                }
                Step::Opening(opening) => {
                    let connection = ready!(opening.as_mut().poll(cx)).map_err(Failure::Failed)?;
                    self.step = call.begin(connection, &self.pick, request, now);
                    continue;
                }
                Step::Exchanging { exchange, .. } => {
                    let result = ready!(poll_head(cx, exchange, &self.pick, attempt, now));
                    (exchange, result)
                }
                Step::Over => return Poll::Pending,
            };
            attempt.sent_bytes = exchange.upload.sent_bytes();
            attempt.received_bytes = exchange.received_bytes();
            let failure = match result {
                Ok(head) if !call.turns_away(head.status, attempt) || !call.may_go_on(tries_left, now) => {
                    return Poll::Ready(Ok(head));
                }
                Ok(head) if request.body.is_none() && !exchange.upload.is_untouched() => {
                    return Poll::Ready(Ok(head));
                }
                Ok(head) => Failure::Refused { status: head.status },
                Err(error) => Failure::Failed(error),
            };
            attempt.stderr = exchange.download.take_stderr();
            let Step::Exchanging { exchange, is_kept, .. } = std::mem::replace(&mut self.step, Step::Over) else {
                continue;
            };
            let (opening, untouched) = exchange.upload.into_untouched();
            request.opening = opening;
            if request.body.is_none() {
                request.body = untouched;
            }
            // The origin closed the kept connection while we wrote. That says nothing about its health; a new
            // connection will tell. But a request that must not be repeated may have been processed.
            match failure {
                Failure::Failed(error) if is_kept && error.is_broken() && attempt.received_bytes == 0 => {
                    if request.body.is_none() || !call.may_resend(attempt) {
                        return Poll::Ready(Err(Failure::Dead(error)));
                    }
                    attempt.connect = None;
                    self.step = call.connect(&self.pick, request, now)?;
                }
                failure => return Poll::Ready(Err(failure)),
            }
        }
    }
}

/// Polls the head of an answer, and notes when the connection is made. A failure before that is one to connect.
fn poll_head(
    cx: &mut Context<'_>,
    exchange: &mut Exchange,
    pick: &Pick,
    attempt: &mut Attempt,
    now: Instant,
) -> Poll<Result<ResponseHead, FetchError>> {
    let polled = exchange.poll_head(cx, now);
    let is_connected = !exchange.connection.is_connecting();
    if is_connected {
        attempt.connect.get_or_insert(now.saturating_duration_since(attempt.chosen_at()));
    }
    polled.map_err(|error| match error {
        FetchError::Send { source } if !is_connected => FetchError::connecting(pick.address(), source),
        error => error,
    })
}

impl Call {
    /// Makes a new connection.
    fn connect(&self, pick: &Pick, request: &mut Request, now: Instant) -> Result<Step, Failure> {
        let patient = pick.is_single();
        if self.layers.tls.is_none() {
            match Connection::begin(pick.address(), &self.layers, &self.limits, now) {
                Ok(connection) => return Ok(self.begin(connection, pick, request, now)),
                Err(error) if patient && is_queue_full(pick.address(), &error) => {}
                Err(error) => return Err(Failure::Failed(FetchError::connecting(pick.address(), error))),
            }
        }
        let (address, layers, limits) = (pick.address().clone(), self.layers.clone(), self.limits.clone());
        Ok(Step::Opening(Box::pin(async move { Connection::open(&address, &layers, &limits, patient).await })))
    }

    /// Begins the request on a new connection.
    fn begin(&self, mut connection: Connection, pick: &Pick, request: &mut Request, now: Instant) -> Step {
        let wanted = self.wanted(pick);
        let waiting = wanted.and_then(|wanted| pick.group().pool().wait(wanted, now));
        if let Some(wanted) = wanted {
            connection.dedicate(wanted.to_purpose());
        }
        self.exchange(connection, request, false, waiting, now)
    }

    /// Begins the request on a connection.
    fn exchange(
        &self,
        connection: Connection,
        request: &mut Request,
        is_kept: bool,
        waiting: Option<Waiting>,
        now: Instant,
    ) -> Step {
        let once_more = request.body.as_ref().and_then(RequestBody::again);
        let body = once_more.or_else(|| request.body.take()).expect("an attempt is made only while there is a body");
        let upload = Upload::new(self.speaks, std::mem::take(&mut request.opening), body);
        let exchange = Exchange::new(connection, upload, self.download(), &self.limits, now);
        Step::Exchanging { exchange, is_kept, _waiting: waiting }
    }

    fn answer(
        &self,
        head: ResponseHead,
        mut exchange: Exchange,
        pick: Pick,
        attempt_started: Instant,
        now: Instant,
    ) -> Answer {
        if self.upgrade && head.status == 101 {
            let (upgraded, body) = Upgraded::new(exchange, pick);
            return Answer { head, body, upgraded: Some(upgraded), attempt_started };
        }
        // An HTTP origin that answers with an error before it has read the request will not read the rest (RFC 9112
        // §9.3). One that answers with success may still be reading, and PHP reads when the script does.
        if self.speaks == Speaks::Http && head.status >= 300 {
            exchange.upload.stop();
        }
        Answer { head, body: AnswerBody::new(exchange, pick, now), upgraded: None, attempt_started }
    }

    fn download(&self) -> Download {
        let head_bytes_max = self.limits.head_bytes_max;
        match self.speaks {
            Speaks::FastCgi => {
                let catch_stderr = self.catch_stderr.clone();
                Download::FastCgi(fastcgi::Response::new(head_bytes_max, catch_stderr, self.method_is_head))
            }
            Speaks::Http => {
                let response = http::Response::new(head_bytes_max, self.method_is_head, self.upgrade);
                Download::Http(response.hinting(self.hints.clone()))
            }
        }
    }

    /// What a connection to this origin must be made for; `None` if none is kept.
    fn wanted<'a>(&'a self, pick: &'a Pick) -> Option<Wanted<'a>> {
        let may_resend = self.retry.is_idempotent || self.retry.rules.non_idempotent;
        let wanted = Wanted {
            server: pick.address(),
            bind: self.limits.bind,
            speaks: self.speaks,
            layers: &self.layers,
            may_resend,
        };
        self.keep.then_some(wanted)
    }

    /// Whether the number of tries and the time allow another attempt.
    fn may_go_on(&self, tries_left: u32, now: Instant) -> bool {
        let took = || self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        tries_left > 0 && self.retry.timeout.is_none_or(|limit| took() < limit)
    }

    fn turns_away(&self, status: u16, attempt: &Attempt) -> bool {
        self.retry.rules.statuses.contains(status) && self.may_resend(attempt)
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
