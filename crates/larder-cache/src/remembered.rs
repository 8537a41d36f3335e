//! What is remembered of keys that have no page: why the last answer was not stored, and what has ended the last page. It is
//! for `larder explain` and `larder why`; nothing is decided by it.
//!
//! Both are tables of a fixed size, in which a newer key takes the place of an older one. Only fetches and purges come here.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_http::Time;
use parking_lot::Mutex;

/// An answer that was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Its status; `None` if the origin has given no answer.
    pub status: Option<u16>,
    /// Why, in words.
    pub why: Box<str>,
    /// When it came.
    pub at: Time,
    /// Whether the next one may be stored all the same: the request has made it so, as a cookie does, or the origin has failed.
    pub is_passing: bool,
}

/// What has ended a page before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// A purge or a ban.
    Purged,
    /// Purges of others may have been missed, so that everything became stale: see [`Zone::count_as_stale`](crate::Zone::count_as_stale).
    Unsure,
}

/// The memory of a zone.
#[derive(Default)]
pub(crate) struct Remembered {
    refused: OnceLock<Box<[Refused]>>,
    /// Hashes of keys, of which the place has the lower bits, so that the last one tells what has ended their pages; 0 for none.
    ended: OnceLock<Box<[AtomicU64]>>,
    /// When purges of others may last have been missed: milliseconds since 1970, and 0 for never.
    unsure_since: AtomicU64,
}

/// A place in the table of answers: one with the hash of its key.
type Refused = Mutex<Option<(u64, Refusal)>>;

/// How many answers are remembered: with the longest words 120 KB for a zone.
const REFUSED_MAX: usize = 512;
/// How many keys are whose pages were ended: 32 KB.
const ENDED_MAX: usize = 4096;
/// The bit of a hash that tells what has ended the page.
const UNSURE: u64 = 1;
/// What the reason of an answer begins with that has no room in its zone.
pub const TOO_LARGE: &str = "too large";
/// The reason of one that has none now.
pub const NO_ROOM: &str = "no room";

/// The reason of an answer with a body of this length.
pub fn too_large(bytes: u64) -> String {
    format!("{TOO_LARGE} ({bytes} bytes)")
}

/// How much of a reason is kept.
const WHY_BYTES_MAX: usize = 200;

impl Remembered {
    /// Notes that an answer was not stored.
    pub(crate) fn refuse(&self, hash: u64, status: Option<u16>, why: &str, is_passing: bool, at: Time) {
        let table = self.refused.get_or_init(|| (0..REFUSED_MAX).map(|_| Mutex::default()).collect());
        let mut place = table[hash as usize % REFUSED_MAX].lock();
        let why = &why[..why.floor_char_boundary(WHY_BYTES_MAX)];
        match &mut *place {
            // The same again and again costs no memory.
            Some((own, refusal)) if *own == hash && *refusal.why == *why => {
                (refusal.status, refusal.at, refusal.is_passing) = (status, at, is_passing);
            }
            other => *other = Some((hash, Refusal { status, why: why.into(), at, is_passing })),
        }
        drop(place);
        self.begin_anew(hash);
    }

    /// Notes that a page was purged.
    pub(crate) fn purge(&self, hash: u64) {
        self.end(hash, Ended::Purged);
    }

    /// Notes that a page is stale since `since`.
    pub(crate) fn end_freshness(&self, hash: u64, since: Time) {
        self.end(hash, self.ended_by(since));
    }

    /// Notes that purges of others may have been missed until `now`, for which what is stored is being made stale.
    pub(crate) fn doubt(&self, now: Time) {
        self.unsure_since.store(now.0, Ordering::Relaxed);
    }

    /// What has made a page stale since `since`.
    pub(crate) fn ended_by(&self, since: Time) -> Ended {
        let is_unsure = since.0 != 0 && self.unsure_since.load(Ordering::Relaxed) == since.0;
        if is_unsure { Ended::Unsure } else { Ended::Purged }
    }

    fn end(&self, hash: u64, why: Ended) {
        let table = self.ended.get_or_init(|| (0..ENDED_MAX).map(|_| AtomicU64::new(0)).collect());
        let value = match why {
            Ended::Purged => hash & !UNSURE,
            Ended::Unsure => hash | UNSURE,
        };
        table[hash as usize % ENDED_MAX].store(value, Ordering::Relaxed);
    }

    /// Notes that a page was stored.
    pub(crate) fn store(&self, hash: u64) {
        if let Some(table) = self.refused.get() {
            let mut place = table[hash as usize % REFUSED_MAX].lock();
            if place.as_ref().is_some_and(|(own, _)| *own == hash) {
                *place = None;
            }
        }
        self.begin_anew(hash);
    }

    /// The last answer, if it was not stored and is remembered.
    pub(crate) fn refusal(&self, hash: u64) -> Option<Refusal> {
        let place = self.refused.get()?[hash as usize % REFUSED_MAX].lock();
        place.as_ref().filter(|(own, _)| *own == hash).map(|(_, refusal)| refusal.clone())
    }

    /// Whether the last answer was too large to be stored.
    pub(crate) fn is_too_large(&self, hash: u64) -> bool {
        let place = self.refused.get().map(|table| table[hash as usize % REFUSED_MAX].lock());
        place.is_some_and(|place| {
            place.as_ref().is_some_and(|(own, refusal)| *own == hash && refusal.why.starts_with(TOO_LARGE))
        })
    }

    /// What has ended the page, if no answer has come since then.
    pub(crate) fn ended(&self, hash: u64) -> Option<Ended> {
        let place = self.ended.get()?[hash as usize % ENDED_MAX].load(Ordering::Relaxed);
        is_of(place, hash).then_some(if place & UNSURE == 0 { Ended::Purged } else { Ended::Unsure })
    }

    fn begin_anew(&self, hash: u64) {
        if let Some(table) = self.ended.get() {
            let place = &table[hash as usize % ENDED_MAX];
            let value = place.load(Ordering::Relaxed);
            // Most keys were not purged, and nothing is written for them.
            if is_of(value, hash) {
                let _ = place.compare_exchange(value, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// Whether a value of the table is that of a key.
fn is_of(value: u64, hash: u64) -> bool {
    value | UNSURE == hash | UNSURE && value != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuse(remembered: &Remembered, hash: usize, why: &str, at: u64) {
        remembered.refuse(hash as u64, Some(200), why, false, Time::from_secs(at));
    }

    #[test]
    fn the_last_answer_is_remembered_until_a_page_is_stored() {
        let remembered = Remembered::default();
        assert_eq!(remembered.refusal(1), None);
        refuse(&remembered, 1, "Set-Cookie", 5);
        refuse(&remembered, 1, "Set-Cookie", 6);
        let expected =
            Refusal { status: Some(200), why: "Set-Cookie".into(), at: Time::from_secs(6), is_passing: false };
        assert_eq!(remembered.refusal(1), Some(expected));
        // Another key in the same place.
        remembered.store((1 + REFUSED_MAX) as u64);
        assert_eq!(remembered.refusal((1 + REFUSED_MAX) as u64), None);
        assert!(remembered.refusal(1).is_some());
        remembered.store(1);
        assert_eq!(remembered.refusal(1), None);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let remembered = Remembered::default();
        for hash in 0..10 * REFUSED_MAX {
            refuse(&remembered, hash, &"ä".repeat(WHY_BYTES_MAX), 0);
        }
        let found: Vec<Refusal> = (0..10 * REFUSED_MAX).filter_map(|hash| remembered.refusal(hash as u64)).collect();
        assert_eq!(found.len(), REFUSED_MAX);
        assert!(found.iter().all(|refusal| refusal.why.len() <= WHY_BYTES_MAX));
    }

    #[test]
    fn what_has_ended_a_page_is_remembered_until_the_next_answer() {
        for answer in [
            |it: &Remembered, hash: u64| it.store(hash),
            |it: &Remembered, hash: u64| refuse(it, hash as usize, "private", 0),
        ] {
            for hash in [6, 7] {
                let remembered = Remembered::default();
                assert_eq!((remembered.ended(hash), remembered.ended(0)), (None, None));
                remembered.purge(hash);
                assert_eq!(remembered.ended(hash), Some(Ended::Purged));
                assert_eq!(remembered.ended(hash + ENDED_MAX as u64), None);
                answer(&remembered, hash);
                assert_eq!(remembered.ended(hash), None);
                remembered.doubt(Time::from_secs(5));
                remembered.end_freshness(hash, Time::from_secs(5));
                assert_eq!(remembered.ended(hash), Some(Ended::Unsure));
                assert_eq!(remembered.ended(hash + ENDED_MAX as u64), None);
                answer(&remembered, hash);
                assert_eq!(remembered.ended(hash), None);
                // By a purge of another time.
                remembered.end_freshness(hash, Time::from_secs(6));
                assert_eq!(remembered.ended(hash), Some(Ended::Purged));
            }
        }
    }
}
