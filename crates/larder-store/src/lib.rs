//! Shelves: bytes under a key. Knows no HTTP.
//!
//! - [`MemoryShelf`] keeps things in memory under a hard byte budget and says who leaves when it is full.
//! - [`Reservation`] is a part of that budget, owned by whatever uses the memory.
//! - [`body`] makes a body that is written once and read by many, while it fills and after.
#![forbid(unsafe_code)]

mod body;
mod budget;
mod memory;

pub use body::{
    Body, BodyError, BodyReader, BodyState, BodyWriter, CHUNK_BYTES, Piece, SMALL_BYTES, Spill, UNSPILLED_BYTES_MAX,
    Whole, body,
};
pub use budget::Reservation;
pub use memory::{Kept, MemoryShelf, SLOT_BYTES, Seat, ShelfLimits, ShelfStats};
