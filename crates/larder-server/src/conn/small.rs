//! Responses that are over when they are written.

use crate::request::deliver::Outgoing;

/// What a socket surely takes at once when nothing waits in it. Limits are let go before the end of a response is
/// written, if it is within this: who has read it may ask for more by another connection before this thread goes on.
pub const SMALL_BYTES_MAX: u64 = 8 * 1024;

/// Whether a response is over when it is written, as the socket surely takes all of it.
pub fn is_small(outgoing: &Outgoing) -> bool {
    match outgoing {
        Outgoing::Nothing => true,
        Outgoing::Bytes(bytes) => bytes.len() as u64 <= SMALL_BYTES_MAX,
        Outgoing::Hit(_, range) | Outgoing::Stored(_, range) => range.end - range.start <= SMALL_BYTES_MAX,
        Outgoing::HitForm(_)
        | Outgoing::Form(_)
        | Outgoing::File(..)
        | Outgoing::Spliced(..)
        | Outgoing::Stream { .. }
        | Outgoing::Recoded { .. }
        | Outgoing::Trailed(..)
        | Outgoing::Slices(_)
        | Outgoing::Parts(..) => false,
    }
}
