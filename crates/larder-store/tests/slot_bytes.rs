//! What the shelf itself allocates for a thing, which [`SLOT_BYTES`] promises.

use std::alloc::System;
use std::sync::{Arc, Mutex};

use larder_store::{Kept, MemoryShelf, Reservation, SLOT_BYTES, Seat, ShelfLimits};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A thing of no more than a seat.
struct Thing {
    key: [u8; 8],
    seat: Seat,
    held: Mutex<Option<Reservation>>,
}

impl Kept for Thing {
    fn key(&self) -> &[u8] {
        &self.key
    }
    fn weight(&self) -> usize {
        WEIGHT
    }
    fn seat(&self) -> &Seat {
        &self.seat
    }
    fn leave(&self) {
        *self.held.lock().expect("nobody panics with it") = None;
    }
}

/// A mixer that spreads numbers over all bits.
fn hash(number: u64) -> u64 {
    let mut x = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The bytes that a full shelf of `len` things has allocated for each, after it let as many go again.
fn bytes_a_thing(len: usize) -> usize {
    let region = Region::new(ALLOCATOR);
    let shelf = MemoryShelf::new(ShelfLimits { bytes_max: (len * WEIGHT) as u64 });
    for number in 0..2 * len as u64 {
        let key = number.to_be_bytes();
        let held = Mutex::new(Some(shelf.reserve(WEIGHT).expect("others leave for it")));
        shelf.get_or_insert_with(hash(number), &key, || Arc::new(Thing { key, seat: Seat::new(hash(number)), held }));
    }
    assert_eq!(shelf.len(), len);
    let change = region.change();
    let own = size_of::<Thing>() + ARC_COUNTS;
    let taken = change.bytes_allocated - change.bytes_deallocated;
    taken / len - own
}

#[test]
fn a_slot_never_takes_more_than_is_promised_and_little_less() {
    // Tables double, so how full they are depends on the number of things.
    let lens = (0..8).map(|eighth| ((f64::from(eighth) / 8.0).exp2() * 30_000.0) as usize);
    let each: Vec<(usize, usize)> = lens.map(|len| (len, bytes_a_thing(len))).collect();
    assert!(each.iter().all(|&(_, bytes)| bytes <= SLOT_BYTES), "things, bytes: {each:?}");
    let mean = each.iter().map(|&(_, bytes)| bytes).sum::<usize>() / each.len();
    assert!(mean >= SLOT_BYTES - 10, "{mean} bytes a thing: {each:?}");
}

const WEIGHT: usize = 1000;

const ARC_COUNTS: usize = 16;
