//! Chooses an origin of a group, and notes its success or failure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::time::Duration;

use tokio::time::Instant;

use super::counts::Counts;
use super::{Balance, Group, LeastTime, Members, State, Tier, Until, hash};
use crate::address::Address;
use crate::gate::Slot;

/// The choices of one fetch: it asks no origin twice.
pub(crate) struct Turn {
    group: Arc<Group>,
    members: Arc<Members>,
    key: Vec<u8>,
    /// Attempts left, as nginx counts them.
    tries_left: u32,
    stage: Stage,
    tried: Tried,
    walk: Walk,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Primary,
    Backup,
}

/// Which servers were asked, a bit each: of the first 64, and of all others.
struct Tried(u64, Vec<u64>);

/// The position of a hash, from which the next choice goes on.
struct Walk {
    hash: u32,
    place: usize,
    rounds: u32,
    /// How many choices met a server that may not be asked. After [`DETOURS_MAX`], weights decide.
    detours: u32,
}

/// An origin that was chosen. It counts as running until this is dropped.
pub(crate) struct Pick {
    group: Arc<Group>,
    members: Arc<Members>,
    server: usize,
    chosen_at: Instant,
    /// When its response head was complete, in nanoseconds after the choice; 0 before that.
    header_ns: AtomicU64,
    /// What its connection has moved so far, bytes.
    sent: AtomicU64,
    received: AtomicU64,
    /// Whether the head of an answer has come.
    has_answered: AtomicBool,
    /// Its request's slot at the gate of the group, from the answer on.
    slot: Option<Slot>,
}

/// The same limit as in nginx.
const DETOURS_MAX: u32 = 20;

impl Turn {
    /// `tries` is `*_next_upstream_tries`, 0 for no limit but the number of servers.
    pub(crate) fn new(group: Arc<Group>, key: Vec<u8>, tries: u32) -> Turn {
        let members = group.members();
        let up = members.servers.iter().filter(|server| !server.down).count() as u32;
        let tries_left = if tries == 0 { up } else { up.min(tries) };
        let more = match members.servers.len().saturating_sub(1) / 64 {
            0 => Vec::new(),
            words => vec![0; words],
        };
        let walk = match (group.balance, &members.primary.ring) {
            (Balance::Hash { .. }, Some(ring)) => Walk { hash: 0, place: ring.start(&key), rounds: 0, detours: 0 },
            (Balance::IpHash, _) => Walk { hash: hash::IP_SEED, place: 0, rounds: 0, detours: 0 },
            _ => Walk { hash: 0, place: 0, rounds: 0, detours: 0 },
        };
        Turn { group, members, key, tries_left, stage: Stage::Primary, tried: Tried(0, more), walk }
    }

    /// The group that it chooses from.
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// How many more attempts are allowed.
    pub(crate) fn tries_left(&self) -> u32 {
        self.tries_left
    }

    /// Takes the servers that the group has by now, if none was asked yet. `tries` is as in [`new`](Self::new).
    pub(crate) fn renew(&mut self, tries: u32) {
        if !Arc::ptr_eq(&self.members, &self.group.members()) {
            *self = Turn::new(Arc::clone(&self.group), std::mem::take(&mut self.key), tries);
        }
    }

    /// Whether an origin has as many requests as it may.
    pub(crate) fn is_full(&self) -> bool {
        let mut all = self.members.servers.iter().zip(&self.members.running);
        all.any(|(server, running)| server.max_conns > 0 && running.get() >= server.max_conns)
    }

    /// Allows an attempt in place of one that does not count.
    pub(crate) fn allow_one_more(&mut self) {
        self.tries_left += 1;
    }

    /// The next origin to ask. `None` if none may be asked now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Pick> {
        let members = self.members.clone();
        let mut state = members.state.lock();
        let mut server = self.choose(&members, &mut state, now);
        if server.is_none() && self.stage == Stage::Primary && !members.backup.members.is_empty() {
            self.stage = Stage::Backup;
            server = self.choose(&members, &mut state, now);
        }
        let server = server?;
        self.tried.add(server);
        self.tries_left = self.tries_left.saturating_sub(1);
        let peer = &mut state.peers[server];
        peer.running.one_more();
        let waited = peer.checked_at.is_none_or(|at| now.duration_since(at) > members.servers[server].fail_timeout);
        if waited {
            peer.checked_at = Some(now);
        }
        if let Balance::LeastTime(LeastTime { inflight: true, .. }) = self.group.balance {
            peer.times.begin(now);
        }
        drop(state);
        Some(Pick::new(self.group.clone(), members, server, now))
    }

    fn choose(&mut self, members: &Members, state: &mut State, now: Instant) -> Option<usize> {
        let tier = match self.stage {
            Stage::Primary => &members.primary,
            Stage::Backup => &members.backup,
        };
        let mut choice = Choice { group: members, tier, state, tried: &self.tried, now };
        // `hash`, `ip_hash` and `random` have no backups of their own; as in nginx, weights decide among backups.
        match (self.group.balance, self.stage) {
            _ if members.is_single() => choice.only(),
            (Balance::LeastConn, _) => choice.fewest_running(),
            (Balance::LeastTime(by), _) => choice.soonest(by),
            (Balance::RoundRobin, _) | (_, Stage::Backup) => choice.by_weight(|_| true),
            (Balance::IpHash, Stage::Primary) => choice.by_address(&mut self.walk, &self.key),
            (Balance::Hash { .. }, Stage::Primary) if self.key.is_empty() => choice.by_weight(|_| true),
            (Balance::Hash { consistent: true }, Stage::Primary) => choice.by_ring(&mut self.walk),
            (Balance::Hash { consistent: false }, Stage::Primary) => choice.by_key(&mut self.walk, &self.key),
            (Balance::Random { two }, Stage::Primary) => choice.by_chance(&mut self.walk, two),
        }
    }
}

/// One choice among a tier, under the lock of the group.
///
/// Places of servers come from `tier.members`, which were made from `group.servers`, so they are in bounds of
/// it and of `state.peers`.
struct Choice<'a> {
    group: &'a Members,
    tier: &'a Tier,
    state: &'a mut State,
    tried: &'a Tried,
    now: Instant,
}

impl Choice<'_> {
    /// The only server of its group, if there is only one: its failures do not count.
    fn only(&self) -> Option<usize> {
        let at = *self.tier.members.first()?;
        self.group.is_free(self.state, at, self.now).then_some(at)
    }

    /// Smooth weighted round robin, as in nginx.
    fn by_weight(&mut self, admits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut best: Option<usize> = None;
        let mut total = 0;
        for &at in &self.tier.members {
            if !admits(at) || !self.may_ask(at) {
                continue;
            }
            total += self.advance(at);
            let peers = &self.state.peers;
            if best.is_none_or(|best| peers[at].weight_current > peers[best].weight_current) {
                best = Some(at);
            }
        }
        self.state.peers[best?].weight_current -= total;
        best
    }

    fn fewest_running(&mut self) -> Option<usize> {
        let running = |choice: &mut Self, at: usize| u64::from(choice.state.peers[at].running.get());
        self.least(running)
    }

    fn soonest(&mut self, by: LeastTime) -> Option<usize> {
        self.least(|choice, at| {
            let (now, peer) = (choice.now, &mut choice.state.peers[at]);
            let unseen = peer.checked_at.map(|checked| now.duration_since(checked));
            peer.times.estimate(by, peer.running.get(), unseen, choice.group.servers[at].fail_timeout, now)
        })
    }

    /// The server with the least load for its weight; servers with equal load take turns.
    fn least(&mut self, load: impl Fn(&mut Self, usize) -> u64) -> Option<usize> {
        let mut loads: Vec<(usize, u64)> = Vec::new();
        for &at in &self.tier.members {
            if self.may_ask(at) {
                loads.push((at, load(self, at)));
            }
        }
        let servers = &self.group.servers;
        let above = |a: (usize, u64), b: (usize, u64)| a.1.saturating_mul(servers[b.0].weight.into());
        let best =
            loads.iter().copied().reduce(|best, one| if above(one, best) < above(best, one) { one } else { best })?;
        let even: Vec<usize> =
            loads.iter().filter(|one| above(**one, best) == above(best, **one)).map(|one| one.0).collect();
        match even.len() {
            1 => Some(best.0),
            _ => self.by_weight(|at| even.contains(&at)),
        }
    }

    fn by_address(&mut self, walk: &mut Walk, key: &[u8]) -> Option<usize> {
        while walk.detours <= DETOURS_MAX {
            walk.hash = hash::ip(walk.hash, hash::ip_part(key));
            let at = self.weigh(walk.hash)?;
            if self.may_ask(at) {
                return Some(at);
            }
            walk.detours += 1;
        }
        self.by_weight(|_| true)
    }

    fn by_key(&mut self, walk: &mut Walk, key: &[u8]) -> Option<usize> {
        while walk.detours <= DETOURS_MAX {
            walk.hash = walk.hash.wrapping_add(hash::plain(key, walk.rounds));
            walk.rounds += 1;
            let at = self.weigh(walk.hash)?;
            if self.may_ask(at) {
                return Some(at);
            }
            walk.detours += 1;
        }
        self.by_weight(|_| true)
    }

    fn by_ring(&mut self, walk: &mut Walk) -> Option<usize> {
        let tier = self.tier;
        let ring = tier.ring.as_ref()?;
        let servers = &self.group.servers;
        while walk.detours <= DETOURS_MAX {
            let name = ring.name(walk.place)?;
            if let Some(at) = self.by_weight(|at| servers[at].name == name) {
                return Some(at);
            }
            walk.place += 1;
            walk.detours += 1;
        }
        self.by_weight(|_| true)
    }

    fn by_chance(&mut self, walk: &mut Walk, two: bool) -> Option<usize> {
        let mut first: Option<usize> = None;
        while walk.detours <= DETOURS_MAX {
            let at = self.draw()?;
            match first {
                _ if first == Some(at) || !self.may_ask(at) => walk.detours += 1,
                None if !two => return Some(at),
                None => first = Some(at),
                Some(first) => {
                    let (peers, servers) = (&self.state.peers, &self.group.servers);
                    let load = |a: usize, b: usize| u64::from(peers[a].running.get()) * u64::from(servers[b].weight);
                    return Some(if load(at, first) > load(first, at) { first } else { at });
                }
            }
        }
        self.by_weight(|_| true)
    }

    /// Adds a server's effective weight to its current weight, and restores a part of what failures took from it.
    fn advance(&mut self, at: usize) -> i64 {
        let peer = &mut self.state.peers[at];
        let weight = peer.weight_effective;
        peer.weight_current += weight;
        if peer.weight_effective < i64::from(self.group.servers[at].weight) {
            peer.weight_effective += 1;
        }
        weight
    }

    /// The server for a number below the sum of weights, if each server has as many numbers as its weight.
    fn weigh(&self, number: u32) -> Option<usize> {
        let mut rest = number.checked_rem(self.tier.weight_total)?;
        for &at in &self.tier.members {
            let weight = self.group.servers[at].weight;
            if rest < weight {
                return Some(at);
            }
            rest -= weight;
        }
        None
    }

    fn draw(&mut self) -> Option<usize> {
        let random = &mut self.state.random;
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let number = (*random >> 32) as u32;
        self.weigh(number)
    }

    fn may_ask(&self, at: usize) -> bool {
        self.group.is_free(self.state, at, self.now) && !self.tried.has(at)
    }
}

impl Pick {
    /// For a server that was already counted as running.
    pub(super) fn new(group: Arc<Group>, members: Arc<Members>, server: usize, now: Instant) -> Pick {
        members.counts[server].chosen(now);
        Pick {
            group,
            members,
            server,
            chosen_at: now,
            header_ns: AtomicU64::new(0),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            has_answered: AtomicBool::new(false),
            slot: None,
        }
    }

    /// Its index in the group.
    #[cfg(test)]
    pub(super) fn server(&self) -> usize {
        self.server
    }

    /// Holds the request's slot at the gate of the group from now on.
    pub(crate) fn hold(&mut self, slot: Option<Slot>) {
        self.slot = slot;
    }

    /// Whether it holds one.
    pub(crate) fn has_slot(&self) -> bool {
        self.slot.is_some()
    }

    /// Takes that slot.
    pub(crate) fn take_slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// Its answer is complete.
    pub(crate) fn done(&mut self) {
        if let Some(slot) = &mut self.slot {
            slot.done();
        }
    }

    /// Its connection has become a tunnel, which holds a slot only where `max_conns` counts it.
    pub(crate) fn is_tunnel(&mut self) {
        self.slot.take_if(|slot| !slot.counts_tunnels());
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> &Address {
        &self.members.servers[self.server].address
    }

    /// Where it listens, as text.
    pub(crate) fn shown(&self) -> &Arc<str> {
        &self.members.shown[self.server]
    }

    /// Whether it is the only server of its group.
    pub(crate) fn is_single(&self) -> bool {
        self.members.is_single()
    }

    /// The group that it belongs to.
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The origin failed: counts for `max_fails`, unless it is the only server.
    pub(crate) fn failed(&self, now: Instant) {
        self.counts().failed();
        if self.members.is_single() {
            return;
        }
        let server = &self.members.servers[self.server];
        let mut state = self.members.state.lock();
        let peer = &mut state.peers[self.server];
        peer.fails = peer.fails.saturating_add(1);
        peer.failed_at = Some(now);
        peer.checked_at = Some(now);
        if peer.fails == server.max_fails {
            self.counts().down(now);
        }
        if let Some(share) = server.weight.checked_div(server.max_fails) {
            peer.weight_effective = (peer.weight_effective - i64::from(share)).max(0);
        }
    }

    /// The head of an answer has arrived.
    pub(crate) fn has_head(&self, status: u16, now: Instant) {
        self.has_answered.store(true, Ordering::Relaxed);
        self.counts().answered(status, now.saturating_duration_since(self.chosen_at));
    }

    /// What its connection has moved so far, bytes; counted when this is dropped.
    pub(crate) fn note_bytes(&self, sent: u64, received: u64) {
        self.sent.store(sent, Ordering::Relaxed);
        self.received.store(received, Ordering::Relaxed);
    }

    fn counts(&self) -> &Counts {
        &self.members.counts[self.server]
    }

    /// The head of an answer has arrived that will be delivered. Only such answers count for `least_time`.
    pub(crate) fn answers(&self, now: Instant) {
        let Balance::LeastTime(by) = self.group.balance else { return };
        let took = now.saturating_duration_since(self.chosen_at);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
        self.header_ns.store(nanos, Ordering::Relaxed);
        if by.inflight && by.until == Until::Header {
            let mut state = self.members.state.lock();
            let times = &mut state.peers[self.server].times;
            times.add_header(took);
            times.done(took, now);
        }
    }

    /// The response has ended, successfully or not.
    fn ended(&self, by: LeastTime, now: Instant) {
        let took = now.saturating_duration_since(self.chosen_at);
        let header = self.header_ns.load(Ordering::Relaxed);
        let counts_at_header = by.inflight && by.until == Until::Header;
        let mut state = self.members.state.lock();
        let times = &mut state.peers[self.server].times;
        if by.inflight && !(counts_at_header && header > 0) {
            times.done(took, now);
        }
        if header > 0 {
            times.add_response(took);
            if !counts_at_header {
                times.add_header(Duration::from_nanos(header));
            }
        }
    }

    /// The origin answered: if this was its test after `fail_timeout`, its failures are forgotten.
    pub(crate) fn answered(&self, now: Instant) {
        // The failures of an only server are not counted.
        if self.members.is_single() {
            return;
        }
        let mut state = self.members.state.lock();
        let peer = &mut state.peers[self.server];
        if peer.failed_at < peer.checked_at {
            peer.fails = 0;
            self.counts().up(now);
        }
    }
}

impl Drop for Pick {
    fn drop(&mut self) {
        let now = Instant::now();
        if let Balance::LeastTime(by) = self.group.balance {
            self.ended(by, now);
        }
        if *self.has_answered.get_mut() {
            self.counts().ended(now.saturating_duration_since(self.chosen_at));
        }
        let (sent, received) = (*self.sent.get_mut(), *self.received.get_mut());
        self.counts().moved(sent, received);
        self.members.running[self.server].one_less();
        match (self.slot.take(), self.group.gate()) {
            // It tells the gate, too.
            (Some(slot), _) => drop(slot),
            (None, Some(gate)) => gate.freed(),
            (None, None) => {}
        }
    }
}

impl Tried {
    fn has(&self, at: usize) -> bool {
        let word = if at < 64 { Some(&self.0) } else { self.1.get(at / 64 - 1) };
        word.is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    fn add(&mut self, at: usize) {
        let word = if at < 64 { Some(&mut self.0) } else { self.1.get_mut(at / 64 - 1) };
        if let Some(word) = word {
            *word |= 1 << (at % 64);
        }
    }
}
