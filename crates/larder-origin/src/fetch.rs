//! A fetch: choose an origin, ask it, and if it fails, ask the next as `*_next_upstream` says. Start here.
//!
//! ```text
//! (nobody) --gate, choose--> Chosen --kept, or new and plain--> Exchanging --> Outcome
//!     ^                        `---new, with TLS--> Opening -------^ |  |
//!     |                         (as if chosen) Again <-kept, dead----'  |
//!     `---------------------------------failed--------------------------'
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
use larder_http::ResponseHead;
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::Instant;

use crate::{
    answer::{Answer, AnswerBody, Upgraded},
    attempt::{Attempt, Line},
    connection::Connection,
    download::Download,
    error::{FailKind, FetchError},
    exchange::Exchange,
    fastcgi,
    gate::{Asks, Entry, Hurry, Place, Refusal, Slot},
    group::{Pick, Turn},
    http::{self, Interim},
    limits::Limits,
    linger::linger,
    looks,
    pool::{Taken, Unseen, Waiting},
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
/// Dropping it closes its connection; behind a gate, when the origin is done. It needs a tokio runtime with time and I/O;
/// the answer stays on the runtime that fetched it.
pub struct Fetching {
    call: Call,
    turn: Turn,
    request: Request,
    /// The last is the one that runs.
    attempts: Vec<Attempt>,
    running: Option<Running>,
    admission: Admission,
}

/// How far it has come at the gate of the group.
enum Admission {
    /// It has not asked.
    Outside,
    /// It waits.
    Waits(Place),
    /// It is in, by a slot where the gate counts it.
    In(Option<Slot>),
}

/// An origin that is being asked.
struct Running {
    pick: Pick,
    step: Step,
}

enum Step {
    /// The origin was chosen.
    Chosen { unseen: Unseen },
    /// A kept connection to the only origin was dead; now a new one is made.
    Again,
    /// A connection is made that needs several steps: TLS, or a Unix socket with a full queue.
    Opening(Pin<Box<dyn Future<Output = Result<Connection, FetchError>> + Send>>),
    Exchanging {
        exchange: Box<Exchange>,
        /// Whether the connection was kept from an earlier fetch.
        is_kept: bool,
        _waiting: Option<Waiting>,
    },
    /// The origin was too slow, and still works.
    Left(Box<Exchange>),
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
    gate: Asks,
    method_is_head: bool,
    hints: Option<UnboundedSender<Interim>>,
    started: Option<Instant>,
}

/// Why an attempt brought no answer.
enum Failure {
    /// The answer has a status for which `*_next_upstream` asks another origin, and one may be asked.
    Refused {
        status: u16,
    },
    Failed(FetchError),
    /// The kept connection was dead: the origin closed it while we wrote, or while it worked on the request.
    Dead(FetchError),
}

/// [`Fetching`], for callers that await.
pub async fn fetch(fetch: Fetch) -> Outcome {
    let mut fetching = Fetching::new(fetch, None, Vec::new());
    poll_fn(|cx| fetching.poll(cx)).await
}

impl Fetching {
    /// A fetch of which nothing was sent yet. Interim responses that an HTTP origin sends before its answer, such
    /// as 103 (RFC 8297), go to `hints`, from all attempts. `attempts` is an empty list, the memory of [`Outcome::attempts`].
    pub fn new(fetch: Fetch, hints: Option<UnboundedSender<Interim>>, attempts: Vec<Attempt>) -> Fetching {
        debug_assert!(attempts.is_empty());
        let Fetch { group, hash_key, protocol, body, limits, tls, preface, retry, keep, gate, method_is_head } = fetch;
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
        let call = Call {
            speaks,
            upgrade,
            catch_stderr,
            layers,
            limits,
            retry,
            keep,
            gate,
            method_is_head,
            hints,
            started: None,
        };
        let request = Request { opening, body: Some(body) };
        Fetching { call, turn, request, attempts, running: None, admission: Admission::Outside }
    }

    /// Ready when the head of an answer is complete, or when no origin is left to ask. Not to be polled after that.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Outcome> {
        let now = Instant::now();
        loop {
            let Some(running) = &mut self.running else {
                let refused = match ready!(self.poll_gate(cx, now)) {
                    Ok(()) if self.begin(now) => continue,
                    Ok(()) => match self.stall(now) {
                        Ok(true) => continue,
                        Ok(false) => FetchError::NoLiveOrigin,
                        Err(refusal) => FetchError::Gate(refusal),
                    },
                    // A policy that says how long to wait has no word for a gate.
                    Err(_) if self.call.gate.own.is_some() => FetchError::NoLiveOrigin,
                    Err(refusal) => FetchError::Gate(refusal),
                };
                let nobody = Attempt::of_nobody(self.turn.group().name(), &refused, self.attempts.is_empty(), now);
                self.attempts.push(nobody);
                return Poll::Ready(self.outcome(Err(refused)));
            };
            let tries_left = self.turn.tries_left();
            let Some(attempt) = self.attempts.last_mut() else {
                self.running = None;
                continue;
            };
            let result = ready!(running.poll(cx, &self.call, &mut self.request, attempt, tries_left, now));
            let Some(Running { mut pick, step }) = self.running.take() else {
                continue;
            };
            match (result, step) {
                (Ok(head), Step::Exchanging { exchange, .. }) => {
                    attempt.note_head(head.status, now);
                    pick.has_head(head.status, now);
                    pick.note_bytes(attempt.sent_bytes, attempt.received_bytes);
                    pick.answered(now);
                    pick.answers(now);
                    pick.hold(self.admission.take_slot(now));
                    let answer = self.call.answer(head, exchange, pick, attempt.chosen_at(), now);
                    return Poll::Ready(self.outcome(Ok(answer)));
                }
                (Err(failure), step) => {
                    let error = self.after(failure, pick, now);
                    if let Step::Left(exchange) = step
                        && let Some(slot) = self.admission.slot_for_left(error.is_some())
                    {
                        linger(exchange, slot, None);
                    }
                    if let Some(error) = error {
                        return Poll::Ready(self.outcome(Err(error)));
                    }
                }
                // Only who exchanges has an answer.
                (Ok(_), Step::Chosen { .. } | Step::Again | Step::Opening(_) | Step::Left(_) | Step::Over) => {}
            }
        }
    }

    /// Whether it waits at the gate of the group, so that no origin has heard of it.
    pub fn is_waiting(&self) -> bool {
        matches!(self.admission, Admission::Waits(_))
    }

    /// Brings it forward at the gate, if it waits there.
    pub fn hurry(&self) -> Option<Hurry> {
        match &self.admission {
            Admission::Waits(place) => Some(place.hurry()),
            Admission::Outside | Admission::In(_) => None,
        }
    }

    /// Ends it. Returns the attempts so far, the running one included.
    pub fn give_up(mut self) -> Vec<Attempt> {
        self.take_attempts()
    }

    fn take_attempts(&mut self) -> Vec<Attempt> {
        if let Some(running) = &self.running
            && let Some(attempt) = self.attempts.last_mut()
        {
            if let Step::Exchanging { exchange, .. } = &running.step {
                note_bytes(attempt, exchange);
            }
            attempt.note_end();
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
        self.ask(pick, Step::Chosen { unseen: Unseen::Wait }, now);
        true
    }

    /// Waits to be let in by the gate of the group, if it has one.
    fn poll_gate(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<(), Refusal>> {
        loop {
            let slot = match &mut self.admission {
                Admission::In(_) => return Poll::Ready(Ok(())),
                Admission::Waits(place) => {
                    let slot = ready!(place.poll(cx, now))?;
                    self.turn.renew(self.call.retry.tries);
                    Some(slot)
                }
                Admission::Outside => match self.turn.group().gate().filter(|_| !self.call.gate.passes) {
                    None => None,
                    Some(gate) => match gate.enter(self.call.gate, self.call.limits.read, now)? {
                        Entry::In(slot) => Some(slot),
                        Entry::Waits(place) => {
                            self.admission = Admission::Waits(place);
                            continue;
                        }
                    },
                },
            };
            self.call.started.get_or_insert(now);
            self.admission = Admission::In(slot);
        }
    }

    /// Waits on, if it is in, but all origins have as many requests as they may, and none was asked yet. False if it is no
    /// use to wait.
    fn stall(&mut self, now: Instant) -> Result<bool, Refusal> {
        if !self.attempts.is_empty() || !self.turn.is_full() {
            return Ok(false);
        }
        let Admission::In(slot) = &mut self.admission else { return Ok(false) };
        let (Some(slot), Some(gate)) = (slot.take(), self.turn.group().gate()) else { return Ok(false) };
        let entry = gate.stall(slot, self.call.gate, self.call.limits.read, now, || self.turn.is_full());
        self.admission = match entry {
            Ok(Entry::In(slot)) => Admission::In(Some(slot)),
            Ok(Entry::Waits(place)) => Admission::Waits(place),
            Err(None) => return Ok(false),
            Err(Some(refusal)) => return Err(refusal),
        };
        Ok(true)
    }

    fn ask(&mut self, pick: Pick, step: Step, now: Instant) {
        self.attempts.reserve_exact(1);
        self.attempts.push(Attempt::new(&pick, self.attempts.is_empty(), now));
        self.running = Some(Running { pick, step });
    }

    /// Notes a failed attempt. `None` if an origin is to be asked again, else the error.
    fn after(&mut self, failure: Failure, pick: Pick, now: Instant) -> Option<FetchError> {
        match failure.says() {
            Health::Bad => pick.failed(now),
            Health::Good => pick.answered(now),
            Health::Unknown => {}
        }
        let attempt = self.attempts.last_mut()?;
        pick.note_bytes(attempt.sent_bytes, attempt.received_bytes);
        match failure {
            Failure::Refused { status } => {
                pick.has_head(status, now);
                attempt.note_head(status, now);
                None
            }
            Failure::Failed(error) => {
                attempt.note_failure(&error, now);
                let may_resend = self.request.body.is_some() && self.call.may_resend(attempt);
                let again = self.call.covers(&error) && may_resend && self.call.may_go_on(self.turn.tries_left(), now);
                (!again).then_some(error)
            }
            Failure::Dead(error) => self.after_dead(error, pick, now),
        }
    }

    /// As [`after`](Self::after), where a kept connection was dead: another origin is to be asked, or if there is no
    /// other, this one on a new connection. As in nginx, this is a failed attempt, but none of those that
    /// `*_next_upstream_tries` counts.
    fn after_dead(&mut self, error: FetchError, pick: Pick, now: Instant) -> Option<FetchError> {
        let attempt = self.attempts.last_mut()?;
        attempt.note_failure(&error, now);
        let may_resend = self.request.body.is_some() && self.call.may_resend(attempt);
        // A request of which nothing was sent is sent for the first time.
        let is_covered = attempt.sent_bytes == 0 || self.call.covers(&error);
        if !is_covered || !may_resend || !self.call.has_time(now) {
            return Some(error);
        }
        match pick.is_single() {
            true => self.ask(pick, Step::Again, now),
            false => self.turn.allow_one_more(),
        }
        None
    }
}

impl Drop for Fetching {
    /// Who is given up while an origin works at its request holds its slot on.
    fn drop(&mut self) {
        if let Some(Running { pick, step: Step::Exchanging { exchange, .. } }) = self.running.take()
            && let Admission::In(slot) = &mut self.admission
            && let Some(slot) = slot.take()
        {
            linger(exchange, slot, Some(pick));
        }
    }
}

impl Admission {
    /// A slot for a request that an origin works at though it was given up: that of the fetch, if it is over.
    fn slot_for_left(&mut self, is_over: bool) -> Option<Slot> {
        match self {
            Admission::In(slot) if is_over => slot.take(),
            Admission::In(slot) => slot.as_ref().map(Slot::another),
            Admission::Outside | Admission::Waits(_) => None,
        }
    }

    /// The slot of an answer that has come.
    fn take_slot(&mut self, now: Instant) -> Option<Slot> {
        let Admission::In(slot) = self else { return None };
        let mut slot = slot.take()?;
        slot.answered(now);
        Some(slot)
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
        attempt: &mut Attempt,
        tries_left: u32,
        now: Instant,
    ) -> Poll<Result<ResponseHead, Failure>> {
        loop {
            let (exchange, result) = match &mut self.step {
                Step::Chosen { unseen } => {
                    self.step = ready!(call.start(cx, &self.pick, unseen, request, attempt, now))?;
                    continue;
                }
                Step::Again => {
                    self.step = call.connect(&self.pick, request, now)?;
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
                Step::Left(_) | Step::Over => return Poll::Pending,
            };
            note_bytes(attempt, exchange);
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
            let Step::Exchanging { mut exchange, is_kept, .. } = std::mem::replace(&mut self.step, Step::Over) else {
                continue;
            };
            let (opening, untouched) = exchange.upload.take_untouched();
            request.opening = opening;
            if request.body.is_none() {
                request.body = untouched;
            }
            if let Failure::Failed(FetchError::HeadTimeout | FetchError::SendTimeout) = failure {
                self.step = Step::Left(exchange);
            }
            return Poll::Ready(Err(match failure {
                Failure::Failed(error) if is_kept && error.is_broken() && attempt.received_bytes == 0 => {
                    Failure::Dead(error)
                }
                failure => failure,
            }));
        }
    }
}

fn note_bytes(attempt: &mut Attempt, exchange: &Exchange) {
    attempt.sent_bytes = exchange.upload.sent_bytes();
    attempt.received_bytes = exchange.received_bytes();
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
        let chosen_at = attempt.chosen_at();
        attempt.connect.get_or_insert_with(|| now.saturating_duration_since(chosen_at));
    }
    polled.map_err(|error| match error {
        FetchError::Send { source } if !is_connected => FetchError::connecting(pick.address(), source),
        error => error,
    })
}

impl Call {
    /// Begins the request on a kept connection, or makes a new one. Pending for one look at the sockets at most.
    fn start(
        &self,
        cx: &Context<'_>,
        pick: &Pick,
        unseen: &mut Unseen,
        request: &mut Request,
        attempt: &mut Attempt,
        now: Instant,
    ) -> Poll<Result<Step, Failure>> {
        let take = |wanted| pick.group().pool().take(wanted, *unseen, now);
        match self.wanted(pick).map_or(Taken::Nothing, take) {
            Taken::Kept(mut exchange) => {
                (attempt.line, attempt.connect) = (Line::Kept, Some(Duration::ZERO));
                exchange.renew(self.upload(request), self.download(), &self.limits, now);
                Poll::Ready(Ok(Step::Exchanging { exchange, is_kept: true, _waiting: None }))
            }
            Taken::Later => {
                *unseen = Unseen::Ask;
                looks::after_next(cx);
                Poll::Pending
            }
            Taken::Nothing => Poll::Ready(self.connect(pick, request, now)),
        }
    }

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
        let exchange = Exchange::new(connection, self.upload(request), self.download(), &self.limits, now);
        Step::Exchanging { exchange, is_kept: false, _waiting: waiting }
    }

    /// What is sent in an attempt.
    fn upload(&self, request: &mut Request) -> Upload {
        let once_more = request.body.as_ref().and_then(RequestBody::again);
        let body = once_more.or_else(|| request.body.take()).expect("an attempt is made only while there is a body");
        Upload::new(self.speaks, std::mem::take(&mut request.opening), body)
    }

    fn answer(
        &self,
        head: ResponseHead,
        mut exchange: Box<Exchange>,
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
                Download::Http(response.hinting(self.hints.clone()).within(&self.limits))
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
        tries_left > 0 && self.has_time(now)
    }

    fn has_time(&self, now: Instant) -> bool {
        let took = || self.started.map_or(Duration::ZERO, |started| now.saturating_duration_since(started));
        self.retry.timeout.is_none_or(|limit| took() < limit)
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
