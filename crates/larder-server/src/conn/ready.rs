//! Tells which responses need no waiting: the whole body is in memory, or so small that the socket is sure to take it.

use larder_cache::Form;

use crate::net::memory::InMemory;
use crate::request::deliver::Outgoing;

/// What an empty send buffer is sure to take. For a response up to this size, `limit_conn` and the like are released
/// before its last byte is written: a client that has read it may send its next request by another connection before
/// this thread goes on.
pub const SMALL_BYTES_MAX: u64 = 8 * 1024;

/// Whether the socket is sure to take the whole response, so that it is over once it is written.
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

/// The body of a response if all of it is in memory: it can be sent without waiting for anything but the client.
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
