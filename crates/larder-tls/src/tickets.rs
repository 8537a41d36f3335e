//! Session tickets: the keys, from `ssl_session_ticket_key` files or random and rotated.
//!
//! A ticket is encrypted with a key of its own, made from the ticket key and a random salt, so that
//! any number of tickets may be made with one ticket key:
//!
//! | at | bytes | what                                                                      |
//! | -- | ----- | ------------------------------------------------------------------------- |
//! |  0 |    16 | the name of the ticket key                                                |
//! | 16 |    16 | the salt; the key is HMAC-SHA-256(ticket key, salt)                       |
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

const NAME_BYTES: usize = 16;
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
    /// The first one makes tickets, all of them open them.
    keys: ArcSwap<Vec<Arc<TicketKey>>>,
    /// How long old keys stay, unless the keys come from files. Also guards rotation.
    rotation: Option<Mutex<u64>>,
    clock: Clock,
}

struct TicketKey {
    name: [u8; NAME_BYTES],
    secret: hmac::Key,
    made: u64,
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
        Ok(Arc::new(Self { keys: ArcSwap::from_pointee(keys), rotation: None, clock }))
    }

    /// Random keys, a new one every `timeout_seconds` as in nginx, and every hour at least. Old ones open tickets for
    /// `timeout_seconds` more.
    pub fn random(timeout_seconds: u64, clock: Clock) -> Result<Arc<Self>, TicketKeyError> {
        let key = Arc::new(TicketKey::random(clock.now())?);
        Ok(Arc::new(Self {
            keys: ArcSwap::from_pointee(vec![key]),
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

    /// Makes a new key when it is time to. The old one goes on when there are no random bytes.
    fn rotate(&self, now: u64) {
        let Some(rotation) = &self.rotation else {
            return;
        };
        let kept = rotation.lock();
        let period = kept.clamp(1, ROTATION_SECONDS_MAX);
        let is_due = |keys: &[Arc<TicketKey>]| keys.first().is_some_and(|key| now.saturating_sub(key.made) >= period);
        let keys = self.keys.load();
        if is_due(&keys)
            && let Ok(key) = TicketKey::random(now)
        {
            let oldest = now.saturating_sub(kept.saturating_add(period));
            let old = keys.iter().filter(|key| key.made >= oldest).cloned();
            self.keys.store(Arc::new(std::iter::once(Arc::new(key)).chain(old).collect()));
        }
    }

    fn seal(&self, session: &[u8], context: &[u8]) -> Option<Vec<u8>> {
        if session.len() > SESSION_BYTES_MAX {
            return None;
        }
        let now = self.clock.now();
        self.rotate(now);
        let keys = self.keys.load();
        let key = keys.first()?;
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
        let tag = key.cipher(&salt)?.seal_in_place_separate_tag(nonce(), associated, text).ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], context: &[u8], timeout_seconds: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (salt, text) = rest.split_first_chunk::<SALT_BYTES>()?;
        let keys = self.keys.load();
        let key = keys.iter().find(|key| key.name == *name)?;
        let mut text = text.to_vec();
        let associated = Aad::from([&name[..], context].concat());
        let opened = key.cipher(salt)?.open_in_place(nonce(), associated, &mut text).ok()?;
        let (made, rest) = opened.split_first_chunk::<TIME_BYTES>()?;
        let (length, rest) = rest.split_first_chunk::<LENGTH_BYTES>()?;
        let session = rest.get(..u16::from_be_bytes(*length).into())?;
        let age = self.clock.now().saturating_sub(u64::from_be_bytes(*made));
        (age < timeout_seconds).then(|| session.to_vec())
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
        Ok(Self { name: *name, secret: hmac::Key::new(hmac::HMAC_SHA256, extracted.as_ref()), made: 0 })
    }

    fn random(made: u64) -> Result<Self, TicketKeyError> {
        let mut bytes = [0; NAME_BYTES + 32];
        rand::fill(&mut bytes).map_err(|_| TicketKeyError::Random)?;
        let (name, secret) = bytes.split_first_chunk::<NAME_BYTES>().ok_or(TicketKeyError::Random)?;
        Ok(Self { name: *name, secret: hmac::Key::new(hmac::HMAC_SHA256, secret), made })
    }

    fn cipher(&self, salt: &[u8; SALT_BYTES]) -> Option<LessSafeKey> {
        let key = hmac::sign(&self.secret, salt);
        UnboundKey::new(&AES_256_GCM, key.as_ref()).ok().map(LessSafeKey::new)
    }
}

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("TicketKey").field("made", &self.made).finish_non_exhaustive()
    }
}

/// One configuration's view of the keys: tickets of another context stay closed.
#[derive(Debug)]
pub(crate) struct TicketView {
    pub(crate) keys: Arc<TicketKeys>,
    pub(crate) context: [u8; 32],
    pub(crate) timeout_seconds: u64,
}

impl ProducesTickets for TicketView {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(self.timeout_seconds.min(LIFETIME_SECONDS_MAX)).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, session: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(session, &self.context)
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.keys.open(ticket, &self.context, self.timeout_seconds)
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
        TicketView { keys: keys.clone(), context: [context; 32], timeout_seconds: 300 }
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
        let view = TicketView { keys: keys.clone(), context: [0; 32], timeout_seconds: 2 };
        let first = view.encrypt(b"1").unwrap();
        for seconds in 1..=10 {
            time.fetch_add(1, Ordering::Relaxed);
            let ticket = view.encrypt(b"n").unwrap();
            assert_eq!(ticket[..16] == first[..16], seconds < 2, "after {seconds} s");
            assert_eq!(view.decrypt(&first).is_some(), seconds < 2, "after {seconds} s");
            assert!(keys.keys.load().len() <= 3);
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
        let view = TicketView { keys: keys.clone(), context: [0; 32], timeout_seconds: 7200 };
        let first = view.encrypt(b"1").unwrap();
        for hour in 1..=10 {
            time.fetch_add(3600, Ordering::Relaxed);
            let ticket = view.encrypt(b"n").unwrap();
            assert_ne!(ticket[..16], first[..16]);
            assert_eq!(view.decrypt(&first).is_some(), hour < 2, "hour {hour}");
            assert!(keys.keys.load().len() <= 4);
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
