//! The gate of a group: so many requests are at its origins at once, and others wait for their turn, by class.
//!
//! ```text
//! enter -+-> Slot ------------------------------- dropped: the next has its turn
//!        +-> Place --turn--> Slot
//!        |     |`--no server is free--> Place, as it was
//!        |     |`--hurried---> Place, in a better class
//!        |     `--time over, or its place given to another--> Refusal
//!        `-> Refusal: nobody may wait any more
//! ```
//!
//! One gate serves all workers of the process, also over a reload. A turn is handed to one waiter, which holds a slot from
//! then on: nobody is woken in vain, and none can take it meanwhile. Who has a turn and does not take it hands it on.

mod class;
mod counts;
mod gradient;
mod line;
#[cfg(test)]
mod tests;

use std::{
    fmt,
    future::Future,
    pin::Pin,
    sync::{Arc, Weak},
    task::{Context, Poll, Waker},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    time::{Instant, Sleep},
};

pub use class::{CLASSES, Class};
pub use counts::{GateCounts, GateStatus, WAIT_BOUNDS_MILLIS};
use gradient::{Gradient, Round};
use line::{Line, Ticket};

/// How a gate lets in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How many at once.
    pub limit: Limit,
    /// How many wait at most.
    pub queue_max: usize,
    /// How long one waits at most; `None` for as long as its origin may be silent.
    pub timeout: Option<Duration>,
}

impl Rules {
    /// Those of a gate that is no more: all who wait come in.
    pub const OPEN: Rules = Rules { limit: Limit::Fixed(u32::MAX), queue_max: 0, timeout: None };
}

/// How many requests are at the origins at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// So many; one at least.
    Fixed(u32),
    /// As many as the `max_conns` of the servers allow.
    Servers,
    /// Between these, by how long the origins take: see `gate/gradient.rs`.
    Adaptive {
        /// The lowest.
        min: u32,
        /// The highest.
        max: u32,
    },
}

/// What a request asks of a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asks {
    /// Its class.
    pub class: Class,
    /// Whether it passes by, so that it neither waits nor counts.
    pub passes: bool,
    /// Whether it is refused where it would have to wait.
    pub is_refused: bool,
    /// How many may wait, and how long, in place of what the gate says; an overflow of these is no [`Refusal`], but no
    /// live origin.
    pub own: Option<Queueing>,
}

/// How many wait at most, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queueing {
    /// How many.
    pub most: u32,
    /// For how long.
    pub time: Duration,
}

impl Asks {
    /// A policy with a queue of its own counts connections, which end with the request.
    fn lingers(self, silence: Duration) -> Option<Duration> {
        self.own.is_none().then_some(silence)
    }
}

impl Default for Asks {
    fn default() -> Self {
        Asks { class: Class::NORMAL, passes: false, is_refused: false, own: None }
    }
}

/// Why a request does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub why: Why,
    /// After which time it might, by how long the last ones took; a second or more.
    pub retry_after: Duration,
}

/// Why a request does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// As many wait as may.
    Full,
    /// It waited, and one of a better class has its place.
    Displaced,
    /// It has waited as long as it might.
    Expired,
    /// It asks for the page that tells of such a refusal.
    Again,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.why {
            Why::Full => "found as many as may wait at the gate",
            Why::Displaced => "gave up its place at the gate to a request of a better class",
            Why::Expired => "waited at the gate as long as it might",
            Why::Again => "has its error page behind a gate, too, where it does not wait again",
        })
    }
}

/// A gate.
pub struct Gate {
    /// Not held across an await. Taken before that of a [`Call`].
    state: Mutex<State>,
}

struct State {
    rules: Rules,
    /// How many at once now.
    limit: u32,
    gradient: Option<Gradient>,
    /// Whether some worker looks at the gradient now and then, as requests wait.
    is_looked_at: bool,
    /// How many slots there are.
    running: u32,
    line: Line<Arc<Call>>,
    /// Whether somebody whose turn it was found no free server, so that a turn is due when one is.
    is_stalled: bool,
    /// How often a turn was due.
    tries: u64,
    /// How long a slot is held, on an average of the last ones; zero before the first.
    time: Duration,
    counts: GateCounts,
}

/// A waiter: where it stands, and what becomes of it.
struct Call(Mutex<Waiter>);

struct Waiter {
    called: Called,
    /// Changed only under the lock of the gate.
    ticket: Ticket,
    /// Until when it may wait.
    deadline: Instant,
    /// Until when it might if somebody waits for it.
    patience: Instant,
}

enum Called {
    NotYet,
    /// It has been looked for, and waits to be woken.
    Waits(Waker),
    /// It holds a slot.
    In(Option<Round>),
    /// Another has its place.
    Displaced,
}

/// Background fetches wait so long at most: visitors may wait for the same page, and would be called sooner.
const BACKGROUND_WAIT_MAX: Duration = Duration::from_secs(1);
/// Where only a try tells whether a server is free, a free one is worth a turn, and each of so many times another, as more
/// may be free.
const TRY_EVERY: u64 = 16;
/// The longest `Retry-After`.
const RETRY_MAX: Duration = Duration::from_secs(120);
/// As long as no request waits.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What comes of asking to be let in.
pub(crate) enum Entry {
    In(Slot),
    Waits(Place),
}

impl Gate {
    /// A gate by `rules`.
    pub fn new(rules: Rules) -> Arc<Gate> {
        let state = State {
            limit: 0,
            gradient: None,
            is_looked_at: false,
            running: 0,
            line: Line::new(),
            is_stalled: false,
            tries: 0,
            time: Duration::ZERO,
            counts: GateCounts::default(),
            rules,
        };
        let gate = Gate { state: Mutex::new(state) };
        gate.state.lock().set_limit();
        Arc::new(gate)
    }

    /// Changes its rules. Those who wait keep their places, even where fewer may wait now.
    pub fn set_rules(&self, rules: Rules) {
        let mut state = self.state.lock();
        if state.rules != rules {
            state.rules = rules;
            state.set_limit();
            let called = state.call(u32::MAX, Instant::now());
            drop(state);
            called.wake();
        }
    }

    /// How it is.
    pub fn status(&self) -> GateStatus {
        let state = self.state.lock();
        GateStatus {
            limit: (state.rules.limit != Limit::Servers).then_some(state.limit),
            running: state.running,
            waiting: state.line.by_class(),
            queue_max: state.rules.queue_max,
            time: state.time,
            counts: state.counts,
        }
    }

    /// Lets a request in, or has it wait. `silence` is how long its origin may be silent.
    pub(crate) fn enter(self: &Arc<Self>, asks: Asks, silence: Duration, now: Instant) -> Result<Entry, Refusal> {
        let mut state = self.state.lock();
        if state.line.is_empty() && !state.is_full(now) {
            let came = state.come(now);
            state.counts.admitted += 1;
            drop(state);
            return Ok(Entry::In(Slot::new(self, came, asks.lingers(silence), now)));
        }
        if asks.is_refused {
            state.counts.refused += 1;
            return Err(state.refusal(Why::Again));
        }
        let mut displaced = Woken::default();
        if !state.has_room(asks.own) {
            let Some(call) = state.line.make_room(asks.class) else {
                state.counts.refused += 1;
                return Err(state.refusal(Why::Full));
            };
            state.counts.displaced += 1;
            displaced.add(call.set(Called::Displaced));
        }
        let call = state.waiter(asks, silence, now);
        if state.line.is_empty()
            && let Some(gradient) = &mut state.gradient
        {
            gradient.line_begins(now);
        }
        state.wait(&call);
        let looks = state.gradient.is_some() && !std::mem::replace(&mut state.is_looked_at, true);
        drop(state);
        displaced.wake();
        if looks {
            self.look_on();
        }
        let lingers = asks.lingers(silence);
        Ok(Entry::Waits(Place { gate: Arc::clone(self), call, since: now, lingers, timer: None }))
    }

    /// A place for who was let in and found no free server; `None` if nobody may wait, or a server is free by now, which
    /// `is_full` tells.
    pub(crate) fn stall(
        self: &Arc<Self>,
        slot: Slot,
        asks: Asks,
        silence: Duration,
        now: Instant,
        is_full: impl FnOnce() -> bool,
    ) -> Result<Entry, Option<Refusal>> {
        let mut state = self.state.lock();
        // Who frees a server counts it as free first, and takes this lock then.
        if !is_full() {
            return Ok(Entry::In(slot));
        }
        let (call, since) = match slot.place.clone() {
            Some(place) => place,
            None if asks.is_refused || !state.has_room(asks.own) => {
                state.counts.refused += 1;
                let refusal = state.refusal(if asks.is_refused { Why::Again } else { Why::Full });
                slot.give_back(&mut state);
                let called = state.call_next(now);
                drop(state);
                called.wake();
                return Err(asks.own.is_none().then_some(refusal));
            }
            None => (state.waiter(asks, silence, now), now),
        };
        let lingers = slot.lingers;
        slot.give_back(&mut state);
        state.is_stalled = true;
        state.wait(&call);
        drop(state);
        Ok(Entry::Waits(Place { gate: Arc::clone(self), call, since, lingers, timer: None }))
    }

    /// A server has one request less, whose slot is still held.
    pub(crate) fn freed(&self) {
        let mut state = self.state.lock();
        if state.is_stalled {
            let called = state.call_next(Instant::now());
            drop(state);
            called.wake();
        }
    }

    /// A request has its answer, after this time.
    fn answered(&self, took: Duration, came: Round, now: Instant) {
        let mut state = self.state.lock();
        let running = state.running;
        let Some(gradient) = &mut state.gradient else { return };
        gradient.note(took, came, running, now);
        state.limit = gradient.limit();
        let called = state.call_more(now);
        drop(state);
        called.wake();
    }

    fn release(&self, slot: &Slot, now: Instant) {
        let held = now.saturating_duration_since(slot.since);
        let mut state = self.state.lock();
        let running = state.running;
        // A failure at once says nothing of how long requests take.
        if slot.header.is_none()
            && held > state.time
            && let (Some(gradient), Some(came)) = (&mut state.gradient, slot.came)
        {
            gradient.note_silent(held, came, running, now);
        }
        // One that was given up would have taken longer.
        if slot.is_done {
            state.time = match state.time {
                Duration::ZERO => held,
                time => time - time / 16 + held / 16,
            };
        }
        state.leave(slot.came);
        let called = state.call_next(now);
        drop(state);
        called.wake();
    }

    /// A turn that nobody takes.
    fn hand_on(&self, came: Option<Round>) {
        let mut state = self.state.lock();
        state.leave(came);
        let called = state.call_next(Instant::now());
        drop(state);
        called.wake();
    }

    /// Has the gradient looked at on this worker as long as requests wait.
    fn look_on(self: &Arc<Self>) {
        let looking = Looking(Arc::downgrade(self));
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(look(looking));
        }
    }

    /// Looks at the gradient. False if nobody waits.
    fn look(&self, now: Instant) -> bool {
        let mut state = self.state.lock();
        let called = state.call_more(now);
        state.is_looked_at = !state.line.is_empty() && state.gradient.is_some();
        let goes_on = state.is_looked_at;
        drop(state);
        called.wake();
        goes_on
    }
}

/// The right to look at a gradient. If its runtime ends, the next who waits begins anew.
struct Looking(Weak<Gate>);

impl Drop for Looking {
    fn drop(&mut self) {
        if let Some(gate) = self.0.upgrade() {
            gate.state.lock().is_looked_at = false;
        }
    }
}

async fn look(mut looking: Looking) {
    loop {
        tokio::time::sleep(gradient::WINDOW).await;
        let Some(gate) = looking.0.upgrade() else { return };
        if !gate.look(Instant::now()) {
            looking.0 = Weak::new();
            return;
        }
    }
}

impl State {
    fn set_limit(&mut self) {
        let (limit, gradient) = match self.rules.limit {
            Limit::Fixed(limit) => (limit.max(1), None),
            Limit::Servers => (u32::MAX, None),
            Limit::Adaptive { min, max } => {
                let mut gradient = self.gradient.take().unwrap_or_else(|| Gradient::new(min, max));
                gradient.set_bounds(min, max);
                (gradient.limit(), Some(gradient))
            }
        };
        (self.limit, self.gradient) = (limit, gradient);
    }

    /// Whether as many are in as may be now.
    fn is_full(&mut self, now: Instant) -> bool {
        if self.running >= self.limit
            && let Some(gradient) = &mut self.gradient
        {
            gradient.look(self.running, now);
            self.limit = gradient.limit();
        }
        self.running >= self.limit
    }

    fn come(&mut self, now: Instant) -> Option<Round> {
        self.running += 1;
        self.gradient.as_mut().map(|gradient| gradient.come(now))
    }

    fn leave(&mut self, came: Option<Round>) {
        self.running -= 1;
        if let (Some(gradient), Some(came)) = (&mut self.gradient, came) {
            gradient.leave(came);
            self.limit = gradient.limit();
        }
    }

    fn has_room(&self, own: Option<Queueing>) -> bool {
        self.line.len() < own.map_or(self.rules.queue_max, |own| own.most as usize)
    }

    /// One who waits from now on, once it has a place in the line.
    fn waiter(&mut self, asks: Asks, silence: Duration, now: Instant) -> Arc<Call> {
        let time = asks.own.map(|own| own.time).or(self.rules.timeout).unwrap_or(silence);
        let patience = now.checked_add(time).unwrap_or(now + FOREVER);
        let deadline = match asks.class {
            Class::BACKGROUND => patience.min(now + BACKGROUND_WAIT_MAX),
            _ => patience,
        };
        let ticket = self.line.ticket(asks.class);
        Arc::new(Call(Mutex::new(Waiter { called: Called::NotYet, ticket, deadline, patience })))
    }

    fn wait(&mut self, call: &Arc<Call>) {
        let ticket = call.0.lock().ticket;
        self.line.insert(ticket, Arc::clone(call));
    }

    /// When all who wait have had their turns.
    fn refusal(&self, why: Why) -> Refusal {
        let at_once = if self.limit == u32::MAX { self.running } else { self.limit };
        let before = u32::try_from(self.line.len()).unwrap_or(u32::MAX).saturating_add(1);
        let retry_after = self.time.saturating_mul(before) / at_once.max(1);
        Refusal { why, retry_after: retry_after.clamp(Duration::from_secs(1), RETRY_MAX) }
    }

    /// Calls those whose turn it is now that a place is free.
    fn call_next(&mut self, now: Instant) -> Woken {
        let is_by_try = self.is_stalled || self.rules.limit == Limit::Servers;
        self.is_stalled = false;
        self.tries += 1;
        let most = match is_by_try {
            true => 1 + u32::from(self.tries.is_multiple_of(TRY_EVERY)),
            false => u32::MAX,
        };
        self.call(most, now)
    }

    /// Calls those whose turn it is if the limit is higher now.
    fn call_more(&mut self, now: Instant) -> Woken {
        let most = if self.is_stalled { 0 } else { u32::MAX };
        self.call(most, now)
    }

    fn call(&mut self, most: u32, now: Instant) -> Woken {
        let mut woken = Woken::default();
        for _ in 0..most {
            if self.line.is_empty() || self.is_full(now) {
                break;
            }
            let Some(call) = self.line.take() else { break };
            let came = self.come(now);
            woken.add(call.set(Called::In(came)));
        }
        woken
    }
}

/// Who is woken when no lock is held any more: mostly one.
#[derive(Default)]
struct Woken {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Woken {
    fn add(&mut self, waker: Option<Waker>) {
        match (&self.first, waker) {
            (None, waker) => self.first = waker,
            (Some(_), Some(waker)) => self.others.push(waker),
            (Some(_), None) => {}
        }
    }

    fn wake(self) {
        self.first.into_iter().chain(self.others).for_each(Waker::wake);
    }
}

impl Call {
    /// Says what becomes of the waiter, and returns who is to be woken.
    fn set(&self, called: Called) -> Option<Waker> {
        match std::mem::replace(&mut self.0.lock().called, called) {
            Called::Waits(waker) => Some(waker),
            Called::NotYet | Called::In(_) | Called::Displaced => None,
        }
    }
}

/// A place in the line of a gate. It is given up when dropped.
pub(crate) struct Place {
    gate: Arc<Gate>,
    call: Arc<Call>,
    since: Instant,
    lingers: Option<Duration>,
    /// Made when it is first waited for.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Place {
    /// Ready with a slot when it is this one's turn. Not to be polled after that.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Instant) -> Poll<Result<Slot, Refusal>> {
        loop {
            let deadline = {
                let mut waiter = self.call.0.lock();
                match &mut waiter.called {
                    &mut Called::In(came) => {
                        waiter.called = Called::NotYet;
                        drop(waiter);
                        return Poll::Ready(Ok(self.arrive(came, now)));
                    }
                    Called::Displaced => {
                        drop(waiter);
                        return Poll::Ready(Err(self.gate.state.lock().refusal(Why::Displaced)));
                    }
                    Called::Waits(waker) => waker.clone_from(cx.waker()),
                    Called::NotYet => waiter.called = Called::Waits(cx.waker().clone()),
                }
                waiter.deadline
            };
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if timer.deadline() < deadline {
                // Somebody has come to wait for it.
                timer.as_mut().reset(deadline);
                continue;
            }
            let mut state = self.gate.state.lock();
            let waiter = self.call.0.lock();
            if waiter.deadline > deadline {
                continue;
            }
            // Otherwise it was called at the last moment.
            if state.line.remove(waiter.ticket).is_some() {
                state.counts.expired += 1;
                return Poll::Ready(Err(state.refusal(Why::Expired)));
            }
        }
    }

    fn arrive(&self, came: Option<Round>, now: Instant) -> Slot {
        let mut state = self.gate.state.lock();
        state.counts.waited(now.saturating_duration_since(self.since));
        drop(state);
        let mut slot = Slot::new(&self.gate, came, self.lingers, now);
        slot.place = Some((Arc::clone(&self.call), self.since));
        slot
    }

    /// Has others hurry it.
    pub(crate) fn hurry(&self) -> Hurry {
        Hurry { gate: Arc::clone(&self.gate), call: Arc::clone(&self.call) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let has_left = {
            let mut state = self.gate.state.lock();
            let ticket = self.call.0.lock().ticket;
            let has_left = state.line.remove(ticket).is_some();
            state.counts.left += u64::from(has_left);
            has_left
        };
        let Called::In(came) = self.call.0.lock().called else { return };
        if !has_left {
            self.gate.hand_on(came);
        }
    }
}

/// Brings who waits forward, for others who wait for the same. It may have been called meanwhile.
#[derive(Clone)]
pub struct Hurry {
    gate: Arc<Gate>,
    call: Arc<Call>,
}

impl Hurry {
    /// It waits as one of `class`, if that is better than its own, and as long as a client waits.
    pub fn as_one_of(&self, class: Class) {
        let mut state = self.gate.state.lock();
        let mut waiter = self.call.0.lock();
        if class >= waiter.ticket.class {
            return;
        }
        let place = state.line.remove(waiter.ticket);
        waiter.ticket.class = class;
        waiter.deadline = waiter.patience;
        if let Some(call) = place {
            state.line.insert(waiter.ticket, call);
        }
    }

    /// It comes in at once, beyond the limit: who waits for it keeps others out.
    pub fn at_once(&self) {
        let mut state = self.gate.state.lock();
        let ticket = self.call.0.lock().ticket;
        let Some(call) = state.line.remove(ticket) else { return };
        let came = state.come(Instant::now());
        let waker = call.set(Called::In(came));
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl fmt::Debug for Hurry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hurry").finish_non_exhaustive()
    }
}

/// One of the requests that a gate has let in, until this is dropped.
pub(crate) struct Slot {
    gate: Arc<Gate>,
    since: Instant,
    /// As the gradient counts, if there was one.
    came: Option<Round>,
    /// When the head of the answer came.
    header: Option<Duration>,
    /// As whom it waited, and since when.
    place: Option<(Arc<Call>, Instant)>,
    /// How long it is held at most when its request was given up while the origin works at it.
    lingers: Option<Duration>,
    /// Whether its request was answered to the end.
    is_done: bool,
    is_given_back: bool,
}

impl Slot {
    fn new(gate: &Arc<Gate>, came: Option<Round>, lingers: Option<Duration>, now: Instant) -> Slot {
        let gate = Arc::clone(gate);
        Slot { gate, since: now, came, header: None, place: None, lingers, is_done: false, is_given_back: false }
    }

    /// One more, beyond the limit, for an origin that still works at a request that was given up.
    pub(crate) fn another(&self) -> Slot {
        let mut state = self.gate.state.lock();
        let came = state.come(self.since);
        drop(state);
        let mut slot = Slot::new(&self.gate, came, self.lingers, self.since);
        slot.header = self.header;
        slot
    }

    /// How long it is held at most when its request was given up while the origin works at it.
    pub(crate) fn lingers(&self) -> Option<Duration> {
        self.lingers
    }

    /// Notes that its request was answered to the end.
    pub(crate) fn done(&mut self) {
        self.is_done = true;
    }

    /// Notes that the origin has answered.
    pub(crate) fn answered(&mut self, now: Instant) {
        let took = now.saturating_duration_since(self.since);
        self.header = Some(took);
        if let Some(came) = self.came {
            self.gate.answered(took, came, now);
        }
    }

    /// Whether a connection that has become a tunnel holds it on: one of those that `max_conns` counts.
    pub(crate) fn counts_tunnels(&self) -> bool {
        self.gate.state.lock().rules.limit == Limit::Servers
    }

    fn give_back(mut self, state: &mut State) {
        self.is_given_back = true;
        state.leave(self.came);
        // It is counted again when it comes in.
        match &self.place {
            Some((_, since)) => state.counts.waits_on(self.since.saturating_duration_since(*since)),
            None => state.counts.admitted -= 1,
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if !self.is_given_back {
            self.gate.release(self, Instant::now());
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate").finish_non_exhaustive()
    }
}
