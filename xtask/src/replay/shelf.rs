//! The real memory shelf under replay, used as the cache uses it; only the bodies are left out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use larder_store::{Kept, MemoryShelf, Reservation, Seat, ShelfLimits};

use super::Cache;
use super::trace::Thing;

/// The shelf, with pages that hold reservations and no bytes.
pub struct Shelf {
    shelf: MemoryShelf<Page>,
}

/// A page without its body.
struct Page {
    key: [u8; 8],
    seat: Seat,
    filling: AtomicBool,
    held: Mutex<Option<Reservation>>,
}

impl Page {
    fn hold(&self, reservation: Option<Reservation>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = reservation;
    }
}

impl Kept for Page {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn weight(&self) -> usize {
        self.held.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map_or(0, Reservation::bytes)
    }

    fn seat(&self) -> &Seat {
        &self.seat
    }

    fn is_busy(&self) -> bool {
        self.filling.load(Ordering::Relaxed)
    }

    fn leave(&self) {
        self.hold(None);
    }
}

impl Shelf {
    /// An empty one.
    pub fn new(bytes_max: u64) -> Self {
        Self { shelf: MemoryShelf::new(ShelfLimits { bytes_max }) }
    }
}

impl Cache for Shelf {
    fn ask(&mut self, thing: &Thing) -> bool {
        let key = thing.id.to_be_bytes();
        if self.shelf.get(thing.id, &key).is_some() {
            return true;
        }
        // The place of the page is made first and its body reserved while it fills, of a cost that is not known yet.
        let page = self.shelf.get_or_insert_with(thing.id, &key, || {
            let (seat, filling) = (Seat::new(thing.id), AtomicBool::new(true));
            Arc::new(Page { key, seat, filling, held: Mutex::default() })
        });
        let Some(reservation) = self.shelf.reserve(usize::try_from(thing.bytes).unwrap_or(usize::MAX)) else {
            self.shelf.remove(thing.id, &key);
            return false;
        };
        page.hold(Some(reservation));
        page.filling.store(false, Ordering::Relaxed);
        page.seat.set_cost_micros(thing.micros);
        self.shelf.reweigh(&page);
        false
    }
}
