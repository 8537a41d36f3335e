//! The session cache: `ssl_session_cache shared:NAME:SIZE` and `builtin`.
//!
//! One cache may serve several configurations. A session is found again only by a configuration with
//! the same certificates and the same demands on clients: its key begins with a digest of those, as
//! OpenSSL's session id context does.

use crate::clock::Clock;
use parking_lot::Mutex;
use rustls::server::StoresServerSessions;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// What an entry costs beside its key and value: its places in the map and the queue, and what the allocator rounds up.
const ENTRY_OVERHEAD_BYTES: usize = 160;

/// What a session of TLS 1.3 without a client certificate takes, for caches that are given a number of sessions.
const SESSION_BYTES: usize = 400;

const SHARDS: usize = 16;

/// Sessions that clients may resume, bounded by bytes. Keep it over reloads.
#[derive(Debug)]
pub struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    shard_bytes_max: usize,
    hasher: RandomState,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Shard {
    sessions: HashMap<Box<[u8]>, Session>,
    /// Keys in the order they came, each with its session's number; those of sessions taken since are skipped.
    queue: VecDeque<(Box<[u8]>, u64)>,
    bytes: usize,
    next_number: u64,
}

#[derive(Debug)]
struct Session {
    value: Box<[u8]>,
    expires: u64,
    number: u64,
}

impl SessionCache {
    /// A cache that holds about `bytes_max` bytes and never more.
    pub fn new(bytes_max: usize, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            shards: Default::default(),
            shard_bytes_max: bytes_max / SHARDS,
            hasher: RandomState::new(),
            clock,
        })
    }

    /// A cache for about `sessions` sessions: `builtin:N`; nginx's default is 20480.
    pub fn builtin(sessions: usize, clock: Clock) -> Arc<Self> {
        Self::new(sessions.saturating_mul(SESSION_BYTES + ENTRY_OVERHEAD_BYTES), clock)
    }

    /// How many sessions are in it, expired ones included.
    pub fn sessions(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().sessions.len()).sum()
    }

    /// How many bytes it holds, by its own account.
    pub fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().bytes).sum()
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    fn put(&self, key: Box<[u8]>, value: Box<[u8]>, expires: u64) -> bool {
        let now = self.clock.now();
        let cost = cost(&key, &value);
        if cost > self.shard_bytes_max {
            return false;
        }
        let mut shard = self.shard(&key).lock();
        shard.remove(&key);
        while shard.bytes + cost > self.shard_bytes_max || shard.oldest_is_expired(now) {
            if !shard.drop_oldest() {
                break;
            }
        }
        let number = shard.next_number;
        shard.next_number += 1;
        shard.bytes += cost;
        shard.queue.push_back((key.clone(), number));
        shard.sessions.insert(key, Session { value, expires, number });
        shard.forget_taken();
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let shard = self.shard(key).lock();
        let session = shard.sessions.get(key)?;
        (session.expires > self.clock.now()).then(|| session.value.to_vec())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let session = self.shard(key).lock().remove(key)?;
        (session.expires > self.clock.now()).then(|| session.value.into())
    }
}

fn cost(key: &[u8], value: &[u8]) -> usize {
    2 * key.len() + value.len() + ENTRY_OVERHEAD_BYTES
}

impl Shard {
    fn remove(&mut self, key: &[u8]) -> Option<Session> {
        let session = self.sessions.remove(key)?;
        self.bytes -= cost(key, &session.value);
        Some(session)
    }

    fn oldest_is_expired(&self, now: u64) -> bool {
        let oldest = self.queue.front().and_then(|(key, _)| self.sessions.get(key));
        oldest.is_some_and(|session| session.expires <= now)
    }

    /// Drops the oldest session, or says that there is none.
    fn drop_oldest(&mut self) -> bool {
        while let Some((key, number)) = self.queue.pop_front() {
            if self.sessions.get(&key).is_some_and(|session| session.number == number) {
                self.remove(&key);
                return true;
            }
        }
        false
    }

    /// Keeps the queue in proportion to the sessions: TLS 1.3 takes nearly every one out of the middle.
    fn forget_taken(&mut self) {
        if self.queue.len() > 2 * self.sessions.len() + 16 {
            let sessions = &self.sessions;
            self.queue.retain(|(key, number)| sessions.get(key).is_some_and(|session| session.number == *number));
        }
    }
}

/// One configuration's view of a cache.
#[derive(Debug)]
pub(crate) struct CacheView {
    pub(crate) cache: Arc<SessionCache>,
    pub(crate) context: [u8; 32],
    pub(crate) timeout_seconds: u64,
}

impl CacheView {
    fn key(&self, id: &[u8]) -> Box<[u8]> {
        [&self.context[..16], id].concat().into()
    }
}

impl StoresServerSessions for CacheView {
    fn put(&self, id: Vec<u8>, value: Vec<u8>) -> bool {
        let expires = self.cache.clock.now().saturating_add(self.timeout_seconds);
        self.cache.put(self.key(&id), value.into(), expires)
    }

    fn get(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.cache.get(&self.key(id))
    }

    fn take(&self, id: &[u8]) -> Option<Vec<u8>> {
        self.cache.take(&self.key(id))
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn view(cache: &Arc<SessionCache>, context: u8) -> CacheView {
        CacheView { cache: cache.clone(), context: [context; 32], timeout_seconds: 300 }
    }

    #[test]
    fn a_session_is_found_by_its_configuration_until_it_expires() {
        let time = Arc::new(AtomicU64::new(1000));
        let clock = {
            let time = time.clone();
            Clock::new(move || time.load(Ordering::Relaxed))
        };
        let cache = SessionCache::new(1 << 20, clock);
        let (one, other) = (view(&cache, 1), view(&cache, 2));
        assert!(one.put(b"id".to_vec(), b"secret".to_vec()));
        assert_eq!(other.get(b"id"), None);
        assert_eq!(one.get(b"id"), Some(b"secret".to_vec()));
        assert_eq!(one.take(b"id"), Some(b"secret".to_vec()));
        assert_eq!(one.take(b"id"), None, "taken once");
        assert_eq!(cache.bytes(), 0);
        one.put(b"id".to_vec(), b"secret".to_vec());
        time.store(1299, Ordering::Relaxed);
        assert!(one.get(b"id").is_some());
        time.store(1300, Ordering::Relaxed);
        assert_eq!(one.get(b"id"), None, "expired");
    }

    #[test]
    fn the_oldest_leave_and_the_bound_holds() {
        let cache = SessionCache::new(64 * 1024, Clock::new(|| 1000));
        let view = view(&cache, 1);
        for number in 0_u32..10_000 {
            assert!(view.put(number.to_be_bytes().to_vec(), vec![7; 300]));
            if number % 3 == 0 {
                view.take(&number.to_be_bytes());
            }
            assert!(cache.bytes() <= 64 * 1024);
        }
        assert!(cache.sessions() > 64, "{}", cache.sessions());
        assert!(view.get(&9_998_u32.to_be_bytes()).is_some());
        assert!(view.get(&1_u32.to_be_bytes()).is_none());
        let queued: usize = cache.shards.iter().map(|shard| shard.lock().queue.len()).sum();
        assert!(queued <= 2 * cache.sessions() + 17 * SHARDS);
        assert!(!view.put(b"large".to_vec(), vec![0; 5000]), "larger than a shard");
    }
}
