//! Pages that are read from where they were found.

use std::sync::Arc;

use bytes::Bytes;

use super::bans::Verdict;
use super::body::DiskBody;
use super::footer::BLOCK;
use super::found::{Found, Place};
use super::read::{NoPage, RecordBody, Wait, gather, read_record, read_span};
use super::shared::Shared;

/// A page from a shelf: verified, and under the key that was asked for.
#[derive(Clone)]
pub struct Stored {
    /// What was stored as its head.
    pub head: Bytes,
    /// Its body.
    pub body: StoredBody,
    /// When it was stored.
    pub stored_at: u64,
    /// From when on it is of no use at all.
    pub expires_at: u64,
    /// What it cost to make.
    pub cost_micros: u32,
    /// Which of the pages under its key it is.
    pub variant: u8,
    /// The number of the first ban in words since it was written; `None` if there is none.
    pub first_ban: Option<u64>,
}

/// The body of a page from a shelf.
#[derive(Clone)]
pub enum StoredBody {
    /// It was short enough to be read with the page.
    Memory(Bytes),
    /// It is where it was.
    Disk(DiskBody),
}

/// Reads all that was found. `None` when that would wait and must not.
pub(super) fn read_all(
    shared: &Arc<Shared>,
    key: &[u8],
    found: &Found,
    body_max: usize,
    wait: Wait<'_>,
) -> Option<Vec<Stored>> {
    let mut all = Vec::with_capacity(found.places.len());
    for place in &found.places {
        match read_page(shared, key, place, found.now, body_max, wait) {
            Ok(stored) => {
                shared.counters.read.add(1);
                all.push(stored);
            }
            Err(NoPage::WouldBlock) => return None,
            Err(why) => note_miss(shared, found, place, why),
        }
    }
    Some(all)
}

fn note_miss(shared: &Shared, found: &Found, place: &Place, why: NoPage) {
    match why {
        NoPage::WouldBlock | NoPage::OtherKey => {}
        NoPage::Expired => {
            shared.counters.expired.add(1);
            shared.drop_place(found.hash, place);
        }
        NoPage::Gone | NoPage::Banned => shared.drop_place(found.hash, place),
        NoPage::Corrupt => {
            shared.counters.corrupt.add(1);
            shared.drop_place(found.hash, place);
        }
        NoPage::Failed(error) => {
            shared.counters.read_errors.add(1);
            shared.drop_place(found.hash, place);
            shared.health.read_failed(shared.units.now(), &error);
        }
    }
}

fn read_page(
    shared: &Arc<Shared>,
    key: &[u8],
    place: &Place,
    now: u64,
    body_max: usize,
    wait: Wait<'_>,
) -> Result<Stored, NoPage> {
    let record = read_record(shared, place, body_max, wait)?;
    let header = &record.header;
    if record.key != key || header.variant != place.variant {
        return Err(NoPage::OtherKey);
    }
    if shared.bans.cover(key, header.sequence) {
        return Err(NoPage::Banned);
    }
    if header.expires_at <= now {
        return Err(NoPage::Expired);
    }
    let body = match record.body {
        RecordBody::Memory(bytes) => StoredBody::Memory(bytes),
        RecordBody::Spans(spans) => {
            let body = DiskBody::of(shared, spans);
            if !body.is_here() {
                return Err(NoPage::Gone);
            }
            body.lasts_until(header.expires_at);
            if body.len() <= body_max as u64 {
                StoredBody::Memory(gather(shared, body.spans(), wait)?)
            } else {
                // Without room for any body it is the head alone that is wanted.
                if body_max > 0 {
                    verify_start(shared, &body, wait)?;
                }
                StoredBody::Disk(body)
            }
        }
    };
    // Again: bans may have come while the body was read.
    let Verdict::Since(first_ban) = shared.bans.verdict(key, header.sequence) else { return Err(NoPage::Banned) };
    // Bans are forgotten once the segments before them have left, but who found the page before that can still read it.
    // Asked last: a segment that is here now had all its bans when they were asked.
    if !shared.live.has(&place.segment) {
        return Err(NoPage::Gone);
    }
    Ok(Stored {
        head: record.head,
        body,
        stored_at: header.stored_at,
        expires_at: header.expires_at,
        cost_micros: header.cost_micros,
        variant: header.variant,
        first_ban,
    })
}

/// Makes sure that a body which stays on the disk begins as it was written: its head goes out before it, and what is
/// damaged further on can only cut it off. Its first part is wanted next, and is in memory then.
fn verify_start(shared: &Shared, body: &DiskBody, wait: Wait) -> Result<(), NoPage> {
    let Some(first) = body.spans().first().filter(|first| first.len as usize >= BLOCK) else { return Ok(()) };
    let segment = shared.live.get(first.segment).ok_or(NoPage::Gone)?;
    if segment.is_verified(first.offset, first.len) {
        return Ok(());
    }
    if matches!(wait, Wait::Never) {
        return Err(NoPage::WouldBlock);
    }
    read_span(shared, &segment, first, &mut vec![0; first.len as usize], wait)
}
