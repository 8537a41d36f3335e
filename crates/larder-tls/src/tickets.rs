//! Session tickets: the keys, from `ssl_session_ticket_key` files, or random and rotated, or shared with other machines.
//!
//! A ticket is encrypted with a key of its own, made from the ticket key and a random salt, so that
//! any number of tickets may be made with one ticket key:
//!
//! | at | bytes | what                                                                      |
//! | -- | ----- | ------------------------------------------------------------------------- |
//! |  0 |    16 | the name of the ticket key                                                |
//! | 16 |    16 | the salt; the key is HMAC-SHA-256(ticket key, salt), see [`TicketView::bond`] |
//! | 32 |     8 | when it was made, seconds since 1970, from here on AES-256-GCM            |
//! | 40 |     2 | how long the session is                                                   |
//! | 42 |     n | the session                                                               |
//! |  … |  0-31 | zeros, so that the length says little of names and certificates           |
//! |  … |    16 | the tag, over the name and the configuration's context too                |

use crate::clock::Clock;
use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{hmac, rand};
use parking_lot::Mutex;
use rustls::server::ProducesTickets;
use std::sync::Arc;

/// How long a random key makes tickets at most before the next one does.
const ROTATION_SECONDS_MAX: u64 = 3600;

/// How many bytes a shared key has: its name, then its secret.
pub const TICKET_SECRET_BYTES: usize = NAME_BYTES + SECRET_BYTES;

const NAME_BYTES: usize = 16;
const SECRET_BYTES: usize = 32;
const SALT_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
const TIME_BYTES: usize = 8;
const LENGTH_BYTES: usize = 2;
/// The session and its length are filled up to a multiple of this.
const BLOCK_BYTES: usize = 32;

/// A session with a longer chain of client certificates gets no ticket: it would not fit where a ticket must.
const SESSION_BYTES_MAX: usize = 16 * 1024;

/// The longest a client may keep a ticket (RFC 8446 §4.6.1).
const LIFETIME_SECONDS_MAX: u64 = 7 * 24 * 3600;

/// The keys of session tickets. One for all workers and servers; keep it over reloads.
#[derive(Debug)]
pub struct TicketKeys {
    keys: ArcSwap<KeyRing>,
    /// How long old keys stay, unless the keys come from files. Guards all changes.
    rotation: Option<Mutex<u64>>,
    clock: Clock,
}

#[derive(Clone, Debug, Default)]
struct KeyRing {
    /// The first one makes tickets unless others do, all of them open them.
    own: Vec<Arc<TicketKey>>,
    /// Those of [`TicketKeys::share`]: the first one makes tickets if `is_shared`, all of them open them.
    shared: Vec<Arc<TicketKey>>,
    is_shared: bool,
    /// What is to be added to the clock, seconds, for the time that those who share the keys have.
    ahead: i64,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    secret: hmac::Key,
    made: u64,
    /// Whether it was stored where others may read it: then its tickets need the private key of the server, too.
    is_bound: bool,
}

/// A ticket key that several machines have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TicketSecret([u8; TICKET_SECRET_BYTES]);

/// The ticket keys that several machines have now.
#[derive(Clone, Copy, Debug)]
pub struct SharedKeys<'k> {
    /// Whether the first of them makes tickets. If not, a key makes them that only this process has.
    pub is_made_by: bool,
    /// All open tickets.
    pub keys: &'k [TicketSecret],
    /// The time that all agree on, seconds since 1970.
    pub now: u64,
}

/// Why the bytes of a ticket key file are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketKeyError {
    /// Neither of the two lengths nginx knows.
    #[error("a ticket key must be 48 or 80 bytes, not {0}")]
    Length(usize),
    /// The system has no random bytes.
    #[error("no random bytes")]
    Random,
    /// No file at all.
    #[error("no ticket key")]
    None,
}

impl TicketKeys {
    /// Keys from files, as `ssl_session_ticket_key` lists them: the first makes tickets.
    ///
    /// The files are nginx's, 48 or 80 bytes; the tickets are not: nginx cannot open them, nor we nginx's.
    pub fn from_files(files: &[Vec<u8>], clock: Clock) -> Result<Arc<Self>, TicketKeyError> {
        let keys = files.iter().map(|file| TicketKey::from_file(file).map(Arc::new)).collect::<Result<Vec<_>, _>>()?;
        if keys.is_empty() {
            return Err(TicketKeyError::None);
        }
        let keys = KeyRing { own: keys, ..KeyRing::default() };
        Ok(Arc::new(Self { keys: ArcSwap::from_pointee(keys), rotation: None, clock }))
    }

    /// Random keys, a new one every `timeout_seconds` as in nginx, and every hour at least. Old ones open tickets for
    /// `timeout_seconds` more.
    pub fn random(timeout_seconds: u64, clock: Clock) -> Result<Arc<Self>, TicketKeyError> {
        let key = Arc::new(TicketKey::random(clock.now())?);
        Ok(Arc::new(Self {
            keys: ArcSwap::from_pointee(KeyRing { own: vec![key], ..KeyRing::default() }),
            rotation: Some(Mutex::new(timeout_seconds)),
            clock,
        }))
    }

    /// Keeps old random keys for at least `timeout_seconds`: several servers may share these keys.
    pub fn keep_for(&self, timeout_seconds: u64) {
        if let Some(rotation) = &self.rotation {
            let mut kept = rotation.lock();
            *kept = (*kept).max(timeout_seconds);
        }
    }

    /// How long a key must open tickets after it has made its last one, in seconds.
    pub fn kept_seconds(&self) -> u64 {
        self.rotation.as_ref().map_or(0, |rotation| (*rotation.lock()).min(LIFETIME_SECONDS_MAX))
    }

    /// Uses keys that other machines have too, from now on. Keys from files stay as they are.
    pub fn share(&self, shared: SharedKeys<'_>) {
        let Some(rotation) = &self.rotation else {
            return;
        };
        let _guard = rotation.lock();
        let own = self.keys.load().own.clone();
        let keys: Vec<_> = shared.keys.iter().map(|secret| Arc::new(TicketKey::shared(secret))).collect();
        let is_shared = shared.is_made_by && !keys.is_empty();
        let ahead = shared.now.checked_signed_diff(self.clock.now()).unwrap_or(0);
        self.keys.store(Arc::new(KeyRing { own, shared: keys, is_shared, ahead }));
    }

    /// Uses keys of its own alone, from now on.
    pub fn unshare(&self) {
        self.share(SharedKeys { is_made_by: false, keys: &[], now: self.clock.now() });
    }

    /// Makes a new key when it is time to. The old one goes on when there are no random bytes.
    fn rotate(&self, now: u64) {
        let Some(rotation) = &self.rotation else {
            return;
        };
        let kept = rotation.lock();
        let period = kept.clamp(1, ROTATION_SECONDS_MAX);
        let is_due = |keys: &[Arc<TicketKey>]| keys.first().is_some_and(|key| now.saturating_sub(key.made) >= period);
        let keys = self.keys.load();
        if is_due(&keys.own)
            && let Ok(key) = TicketKey::random(now)
        {
            let oldest = now.saturating_sub(kept.saturating_add(period));
            let old = keys.own.iter().filter(|key| key.made >= oldest).cloned();
            let own = std::iter::once(Arc::new(key)).chain(old).collect();
            self.keys.store(Arc::new(KeyRing { own, ..KeyRing::clone(&keys) }));
        }
    }

    fn seal(&self, session: &[u8], context: &[u8], bond: Option<&[u8; 32]>) -> Option<Vec<u8>> {
        if session.len() > SESSION_BYTES_MAX {
            return None;
        }
        let now = self.clock.now();
        self.rotate(now);
        let keys = self.keys.load();
        let key = if keys.is_shared && bond.is_some() { keys.shared.first() } else { keys.own.first() }?;
        let now = keys.time(now);
        let mut salt = [0; SALT_BYTES];
        rand::fill(&mut salt).ok()?;
        let filled = (LENGTH_BYTES + session.len()).next_multiple_of(BLOCK_BYTES);
        let mut ticket = Vec::with_capacity(NAME_BYTES + SALT_BYTES + TIME_BYTES + filled + TAG_BYTES);
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(&salt);
        ticket.extend_from_slice(&now.to_be_bytes());
        ticket.extend_from_slice(&u16::try_from(session.len()).ok()?.to_be_bytes());
        ticket.extend_from_slice(session);
        ticket.resize(NAME_BYTES + SALT_BYTES + TIME_BYTES + filled, 0);
        let associated = Aad::from([&key.name[..], context].concat());
        let text = &mut ticket[NAME_BYTES + SALT_BYTES..];
        let tag = key.cipher(&salt, bond)?.seal_in_place_separate_tag(nonce(), associated, text).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], context: &[u8], bond: Option<&[u8; 32]>, timeout_seconds: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (salt, text) = rest.split_first_chunk::<SALT_BYTES>()?;
        let keys = self.keys.load();
        let key = keys.shared.iter().chain(&keys.own).find(|key| key.name == *name)?;
        let mut text = text.to_vec();
        let associated = Aad::from([&name[..], context].concat());
        let opened = key.cipher(salt, bond)?.open_in_place(nonce(), associated, &mut text).ok()?;
        let (made, rest) = opened.split_first_chunk::<TIME_BYTES>()?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let session = rest.get(..u16::from_be_bytes(*length).into())?;
        let age = keys.time(self.clock.now()).saturating_sub(u64::from_be_bytes(*made));
        (age < timeout_seconds).then(|| session.to_vec())
    }
}

impl KeyRing {
    /// The time of tickets, when the clock says `now`.
    fn time(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.ahead)
    }
}

/// Every cipher key is used once, so one nonce will do.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; 12])
}

impl TicketKey {
    /// nginx's files: 16 bytes of name, then a key for HMAC and one for AES of 16 or 32 bytes each.
    fn from_file(file: &[u8]) -> Result<Self, TicketKeyError> {
        if !matches!(file.len(), 48 | 80) {
            return Err(TicketKeyError::Length(file.len()));
        }
        let (name, secret) = file.split_first_chunk::<NAME_BYTES>().ok_or(TicketKeyError::Length(file.len()))?;
        // Another use of the same bytes gets another key.
        let extracted = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, b"larder session ticket 2"), secret);
        let secret = hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref());
        Ok(Self { name: *name, secret, made: 0, is_bound: false })
    }

    fn random(made: u64) -> Result<Self, TicketKeyError> {
        let secret = TicketSecret::random().ok_or(TicketKeyError::Random)?;
        Ok(Self { made, is_bound: false, ..Self::shared(&secret) })
    }

    fn shared(secret: &TicketSecret) -> Self {
        let (mut name, (start, secret)) = ([0; NAME_BYTES], secret.0.split_at(NAME_BYTES));
        name.copy_from_slice(start);
        Self { name, secret: hmac::Key::new(hmac::HMAC_SHA256, secret), made: 0, is_bound: true }
    }

    fn cipher(&self, salt: &[u8; SALT_BYTES], bond: Option<&[u8; 32]>) -> Option<LessSafeKey> {
        let mut key = hmac::sign(&self.secret, salt);
        if self.is_bound {
            key = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), bond?);
        }
        UnboundKey::new(&AES_256_GCM, key.as_ref()).ok().map(LessSafeKey::new)
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketKey").field("made", &self.made).finish_non_exhaustive()
    }
}

impl TicketSecret {
    /// A new one; `None` if the system has no random bytes.
    pub fn random() -> Option<Self> {
        let mut bytes = [0; TICKET_SECRET_BYTES];
        rand::fill(&mut bytes).ok().map(|()| Self(bytes))
    }

    /// The one that these bytes are.
    pub fn of(bytes: [u8; TICKET_SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes. Who has them and a server's private key can read the sessions of its tickets.
    pub fn bytes(&self) -> [u8; TICKET_SECRET_BYTES] {
        self.0
    }
}

impl std::fmt::Debug for TicketSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("TicketSecret")
    }
}

/// One configuration's view of the keys: tickets of another context stay closed.
pub(crate) struct TicketView {
    pub(crate) keys: Arc<TicketKeys>,
    pub(crate) context: [u8; 32],
    /// What only those know who have the private keys of the server. The key of a ticket by a shared ticket key is
    /// HMAC-SHA-256(HMAC-SHA-256(ticket key, salt), bond). Without one, shared keys are not used: who reads them where they
    /// are stored could take over sessions.
    pub(crate) bond: Option<[u8; 32]>,
    pub(crate) timeout_seconds: u64,
}

impl std::fmt::Debug for TicketView {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketView").field("keys", &self.keys).finish_non_exhaustive()
    }
}

impl ProducesTickets for TicketView {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.timeout_seconds.min(LIFETIME_SECONDS_MAX)).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(session, &self.context, self.bond.as_ref())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.keys.open(ticket, &self.context, self.bond.as_ref(), self.timeout_seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn clock() -> (Arc<AtomicU64>, Clock) {
        let time = Arc::new(AtomicU64::new(1_000_000));
        let shown = time.clone();
        (time, Clock::new(move || shown.load(Ordering::Relaxed)))
    }

    fn view(keys: &Arc<TicketKeys>, context: u8) -> TicketView {
        TicketView { keys: keys.clone(), context: [context; 32], bond: Some([9; 32]), timeout_seconds: 300 }
    }

    #[test]
    fn a_ticket_opens_for_its_configuration_until_it_expires() {
        let (time, clock) = clock();
        let keys = TicketKeys::random(300, clock).unwrap();
        let ticket = view(&keys, 1).encrypt(b"session").unwrap();
        assert_eq!(view(&keys, 1).decrypt(&ticket), Some(b"session".to_vec()));
        assert_eq!(view(&keys, 2).decrypt(&ticket), None, "another configuration");
        assert_ne!(view(&keys, 1).encrypt(b"session").unwrap(), ticket);
        time.fetch_add(300, Ordering::Relaxed);
        assert_eq!(view(&keys, 1).decrypt(&ticket), None, "expired");
    }

    #[test]
    fn keys_rotate_by_the_timeout_where_that_is_shorter() {
        let (time, clock) = clock();
        let keys = TicketKeys::random(2, clock).unwrap();
        let view = TicketView { keys: keys.clone(), context: [0; 32], bond: Some([9; 32]), timeout_seconds: 2 };
        let first = view.encrypt(b"1").unwrap();
        for seconds in 1..=10 {
            time.fetch_add(1, Ordering::Relaxed);
            let ticket = view.encrypt(b"n").unwrap();
            assert_eq!(ticket[..16] == first[..16], seconds < 2, "after {seconds} s");
            assert_eq!(view.decrypt(&first).is_some(), seconds < 2, "after {seconds} s");
            assert!(keys.keys.load().own.len() <= 3);
        }
        // A server of the same keys with a longer timeout has them all turn more slowly.
        keys.keep_for(10);
        let (ticket, long) = (view.encrypt(b"n").unwrap(), TicketView { timeout_seconds: 10, ..view });
        time.fetch_add(9, Ordering::Relaxed);
        assert_eq!(long.decrypt(&ticket), Some(b"n".to_vec()));
    }

    #[test]
    fn the_length_of_a_ticket_says_little_of_the_session() {
        let (_, clock) = clock();
        let view = view(&TicketKeys::random(300, clock).unwrap(), 0);
        for (bytes, ticket_bytes) in [(0, 88), (30, 88), (31, 120), (71, 152), (94, 152), (95, 184), (16384, 16472)] {
            let session = vec![7; bytes];
            let ticket = view.encrypt(&session).unwrap();
            assert_eq!((ticket.len(), view.decrypt(&ticket)), (ticket_bytes, Some(session)), "{bytes}");
        }
        assert_eq!(view.encrypt(&[7; 16385]), None);
    }

    #[test]
    fn keys_rotate_by_the_hour_and_old_ones_leave_after_the_timeout() {
        let (time, clock) = clock();
        let keys = TicketKeys::random(7200, clock).unwrap();
        let view = TicketView { keys: keys.clone(), context: [0; 32], bond: Some([9; 32]), timeout_seconds: 7200 };
        let first = view.encrypt(b"1").unwrap();
        for hour in 1..=10 {
            time.fetch_add(3600, Ordering::Relaxed);
            let ticket = view.encrypt(b"n").unwrap();
            assert_ne!(ticket[..16], first[..16]);
            assert_eq!(view.decrypt(&first).is_some(), hour < 2, "hour {hour}");
            assert!(keys.keys.load().own.len() <= 4);
        }
    }

    #[test]
    fn of_files_the_first_makes_tickets_and_all_open_them() {
        let (_, clock) = clock();
        let (short, long) = (vec![1; 48], vec![2; 80]);
        let old = TicketKeys::from_files(std::slice::from_ref(&short), clock.clone()).unwrap();
        let new = TicketKeys::from_files(&[long, short], clock.clone()).unwrap();
        let ticket = view(&old, 0).encrypt(b"session").unwrap();
        assert_eq!(view(&new, 0).decrypt(&ticket), Some(b"session".to_vec()));
        let ticket = view(&new, 0).encrypt(b"session").unwrap();
        assert_eq!(view(&old, 0).decrypt(&ticket), None);
        assert_eq!(TicketKeys::from_files(&[vec![0; 47]], clock.clone()).unwrap_err(), TicketKeyError::Length(47));
        assert_eq!(TicketKeys::from_files(&[], clock).unwrap_err(), TicketKeyError::None);
    }

    #[test]
    fn shared_keys_make_tickets_that_all_machines_open_whose_clocks_differ() {
        let (one_time, one_clock) = clock();
        let (other_time, other_clock) = clock();
        other_time.store(1_000_900, Ordering::Relaxed);
        let (one, other) = (TicketKeys::random(300, one_clock).unwrap(), TicketKeys::random(300, other_clock).unwrap());
        let secrets: Vec<_> = (1..=3).map(|n| TicketSecret::of([n; TICKET_SECRET_BYTES])).collect();
        let share = |from: usize, now| {
            for keys in [&one, &other] {
                keys.share(SharedKeys { is_made_by: true, keys: &secrets[from..], now });
            }
        };
        let own = view(&one, 1).encrypt(b"own").unwrap();
        share(1, 1_000_000);
        assert_eq!(view(&one, 1).decrypt(&own), Some(b"own".to_vec()), "what was made before");
        let ticket = view(&one, 1).encrypt(b"session").unwrap();
        assert_eq!(ticket[..16], [2; 16]);
        assert_eq!(view(&other, 1).decrypt(&ticket), Some(b"session".to_vec()));
        assert_eq!(view(&other, 2).decrypt(&ticket), None, "another configuration");
        for bond in [Some([8; 32]), None] {
            let view = TicketView { bond, ..view(&other, 1) };
            assert_eq!(view.decrypt(&ticket), None, "the ticket key is not enough: the private key is needed");
            assert_eq!(view.encrypt(b"own").unwrap()[..16] == [2; 16], bond.is_some(), "without one it is not used");
        }
        // After a rotation the old key opens, until the ticket expires by the time of all.
        share(0, 1_000_000);
        let next = view(&other, 1).encrypt(b"next").unwrap();
        assert_eq!((&next[..16], view(&one, 1).decrypt(&next)), (&[1; 16][..], Some(b"next".to_vec())));
        for (passed, is_open) in [(299, true), (1, false)] {
            one_time.fetch_add(passed, Ordering::Relaxed);
            other_time.fetch_add(passed, Ordering::Relaxed);
            assert_eq!(view(&other, 1).decrypt(&ticket).is_some(), is_open);
        }
    }

    #[test]
    fn without_a_shared_key_of_now_a_machine_makes_tickets_by_its_own() {
        let (time, clock) = clock();
        let keys = TicketKeys::random(300, clock.clone()).unwrap();
        let secret = TicketSecret::random().unwrap();
        keys.share(SharedKeys { is_made_by: true, keys: &[secret], now: 1_000_000 });
        let shared = view(&keys, 1).encrypt(b"shared").unwrap();
        keys.share(SharedKeys { is_made_by: false, keys: &[secret], now: 1_000_000 });
        let own = view(&keys, 1).encrypt(b"own").unwrap();
        assert_ne!(shared[..16], own[..16]);
        assert!(view(&keys, 1).decrypt(&shared).is_some() && view(&keys, 1).decrypt(&own).is_some());
        keys.unshare();
        assert!(view(&keys, 1).decrypt(&shared).is_none() && view(&keys, 1).decrypt(&own).is_some());
        // Keys of its own go on rotating meanwhile.
        time.fetch_add(300, Ordering::Relaxed);
        assert_ne!(view(&keys, 1).encrypt(b"own").unwrap()[..16], own[..16]);
        // Keys from files are the operator's.
        let files = TicketKeys::from_files(&[vec![1; 48]], clock).unwrap();
        files.share(SharedKeys { is_made_by: true, keys: &[secret], now: 1_000_000 });
        assert_eq!(view(&files, 1).encrypt(b"own").unwrap()[..16], [1; 16]);
        assert_eq!((files.kept_seconds(), keys.kept_seconds()), (0, 300));
    }

    #[test]
    fn foreign_bytes_open_nothing() {
        let (_, clock) = clock();
        let keys = TicketKeys::random(300, clock).unwrap();
        let view = view(&keys, 0);
        let ticket = view.encrypt(b"session").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(view.decrypt(&ticket[..length]), None);
            let mut flipped = ticket.clone();
            flipped[length] ^= 1;
            assert_eq!(view.decrypt(&flipped), None);
        }
    }
}
