//! Choosing an origin, and what its success or failure changes.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Balance, Group, State, Tier, hash};

/// The choices of one fetch: it asks no origin twice.
pub(crate) struct Turn {
    group: Arc<Group>,
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

/// Which servers were asked, a bit each.
struct Tried(Vec<u64>);

/// Where a hash has come to, so that the next choice goes on from there.
struct Walk {
    hash: u32,
    place: usize,
    rounds: u32,
    /// Choices that met a server that may not be asked. After [`DETOURS_MAX`] the turn goes by weight.
    detours: u32,
}

/// An origin that was chosen. It counts as running until this is dropped.
pub(crate) struct Pick {
    group: Arc<Group>,
    server: usize,
}

/// nginx's own bound.
const DETOURS_MAX: u32 = 20;

impl Turn {
    /// `tries` is `*_next_upstream_tries`, 0 for no limit but the number of servers.
    pub(crate) fn new(group: Arc<Group>, key: Vec<u8>, tries: u32) -> Turn {
        let up = group.servers.iter().filter(|server| !server.down).count() as u32;
        let tries_left = if tries == 0 { up } else { up.min(tries) };
        let words = if group.is_single() { 0 } else { group.servers.len().div_ceil(64) };
        let walk = match (group.balance, &group.primary.ring) {
            (Balance::Hash { .. }, Some(ring)) => Walk { hash: 0, place: ring.start(&key), rounds: 0, detours: 0 },
            (Balance::IpHash, _) => Walk { hash: hash::IP_SEED, place: 0, rounds: 0, detours: 0 },
            _ => Walk { hash: 0, place: 0, rounds: 0, detours: 0 },
        };
        Turn { group, key, tries_left, stage: Stage::Primary, tried: Tried(vec![0; words]), walk }
    }

    /// Attempts that may follow the ones that were made.
    pub(crate) fn tries_left(&self) -> u32 {
        self.tries_left
    }

    /// The next origin to ask; `None` when none may be asked now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<Pick> {
        let group = self.group.clone();
        let mut state = group.state.lock();
        let mut server = self.choose(&group, &mut state, now);
        if server.is_none() && self.stage == Stage::Primary && !group.backup.members.is_empty() {
            self.stage = Stage::Backup;
            server = self.choose(&group, &mut state, now);
        }
        let server = server?;
        self.tried.add(server);
        self.tries_left = self.tries_left.saturating_sub(1);
        let peer = &mut state.peers[server];
        peer.running += 1;
        let waited = peer.checked_at.is_none_or(|at| now.duration_since(at) > group.servers[server].fail_timeout);
        if waited {
            peer.checked_at = Some(now);
        }
        drop(state);
        Some(Pick::new(group, server))
    }

    fn choose(&mut self, group: &Group, state: &mut State, now: Instant) -> Option<usize> {
        let tier = match self.stage {
            Stage::Primary => &group.primary,
            Stage::Backup => &group.backup,
        };
        let mut choice = Choice { group, tier, state, tried: &self.tried, now };
        // The hashes and chance know no backups; nginx turns to weights there.
        match (group.balance, self.stage) {
            _ if group.is_single() => choice.only(),
            (Balance::LeastConn, _) => choice.fewest_running(),
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
    group: &'a Group,
    tier: &'a Tier,
    state: &'a mut State,
    tried: &'a Tried,
    now: Instant,
}

impl Choice<'_> {
    /// The only server of its group: its failures do not count.
    fn only(&self) -> Option<usize> {
        let at = *self.tier.members.first()?;
        let server = &self.group.servers[at];
        (!server.down && !self.is_full(at)).then_some(at)
    }

    /// The smooth weighted turn: who waited longest for its weight.
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
        let load = |choice: &Self, a: usize, b: usize| {
            u64::from(choice.state.peers[a].running) * u64::from(choice.group.servers[b].weight)
        };
        let mut best: Option<usize> = None;
        for &at in &self.tier.members {
            if self.may_ask(at) && best.is_none_or(|best| load(self, at, best) < load(self, best, at)) {
                best = Some(at);
            }
        }
        let best = best?;
        let even: Vec<usize> =
            self.tier.members.iter().copied().filter(|&at| load(self, at, best) == load(self, best, at)).collect();
        match even.len() {
            1 => Some(best),
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
                    let load = |a: usize, b: usize| u64::from(peers[a].running) * u64::from(servers[b].weight);
                    return Some(if load(at, first) > load(first, at) { first } else { at });
                }
            }
        }
        self.by_weight(|_| true)
    }

    /// Adds a server's weight to its claim, and gives back a part of what failures took.
    fn advance(&mut self, at: usize) -> i64 {
        let peer = &mut self.state.peers[at];
        let weight = peer.weight_effective;
        peer.weight_current += weight;
        if peer.weight_effective < i64::from(self.group.servers[at].weight) {
            peer.weight_effective += 1;
        }
        weight
    }

    /// The server that a number falls on when they stand side by side, each as wide as its weight.
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
        let (server, peer) = (&self.group.servers[at], &self.state.peers[at]);
        let resting = server.max_fails > 0
            && peer.fails >= server.max_fails
            && peer.checked_at.is_some_and(|checked| self.now.duration_since(checked) <= server.fail_timeout);
        !server.down && !resting && !self.is_full(at) && !self.tried.has(at)
    }

    fn is_full(&self, at: usize) -> bool {
        let limit = self.group.servers[at].max_conns;
        limit > 0 && self.state.peers[at].running >= limit
    }
}

impl Pick {
    /// A server that was counted as running.
    pub(super) fn new(group: Arc<Group>, server: usize) -> Pick {
        Pick { group, server }
    }

    /// Its place in the group.
    pub(crate) fn server(&self) -> usize {
        self.server
    }

    /// Whose it is.
    pub(crate) fn group(&self) -> &Arc<Group> {
        &self.group
    }

    /// The origin failed: it counts against it, unless it is the only one.
    pub(crate) fn failed(&self, now: Instant) {
        if self.group.is_single() {
            return;
        }
        let server = &self.group.servers[self.server];
        let mut state = self.group.state.lock();
        let peer = &mut state.peers[self.server];
        peer.fails = peer.fails.saturating_add(1);
        peer.failed_at = Some(now);
        peer.checked_at = Some(now);
        if let Some(share) = server.weight.checked_div(server.max_fails) {
            peer.weight_effective = (peer.weight_effective - i64::from(share)).max(0);
        }
    }

    /// The origin answered: if this was its trial after failures, they are forgotten.
    pub(crate) fn answered(&self) {
        let mut state = self.group.state.lock();
        let peer = &mut state.peers[self.server];
        if peer.failed_at < peer.checked_at {
            peer.fails = 0;
        }
    }
}

impl Drop for Pick {
    fn drop(&mut self) {
        let mut state = self.group.state.lock();
        let peer = &mut state.peers[self.server];
        peer.running = peer.running.saturating_sub(1);
    }
}

impl Tried {
    fn has(&self, at: usize) -> bool {
        self.0.get(at / 64).is_some_and(|word| word & (1 << (at % 64)) != 0)
    }

    fn add(&mut self, at: usize) {
        if let Some(word) = self.0.get_mut(at / 64) {
            *word |= 1 << (at % 64);
        }
    }
}
