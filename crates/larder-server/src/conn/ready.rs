//! Responses that need no waiting: all of the body is in memory, or it is so small that the socket surely takes it.

use larder_cache::Form;

use crate::net::memory::InMemory;
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

/// The body of a response when all of it is in memory: its bytes can go out without waiting for anything but the client.
pub fn in_memory(outgoing: &Outgoing) -> Option<InMemory<'_>> {
    let (whole, range) = match outgoing {
        Outgoing::Nothing => return Some(InMemory::Bytes(&[])),
        Outgoing::Bytes(bytes) => return Some(InMemory::Bytes(bytes)),
        Outgoing::Hit(object, range) => (object.body.whole()?, range),
        Outgoing::Stored(object, range) => (object.body.whole()?, range),
        Outgoing::HitForm(form) => return all_of(form),
        Outgoing::Form(form) => return all_of(form),
        Outgoing::File(..)
        | Outgoing::Spliced(..)
        | Outgoing::Stream { .. }
        | Outgoing::Recoded { .. }
        | Outgoing::Trailed(..)
        | Outgoing::Slices(_)
        | Outgoing::Parts(..) => return None,
    };
    Some(InMemory::Stored(whole, range.clone()))
}

fn all_of(form: &Form) -> Option<InMemory<'_>> {
    let whole = form.body.whole()?;
    Some(InMemory::Stored(whole, 0..whole.len()))
}
