//! The parsers of this crate, for `larder-fuzz`.

use crate::object::Object;
use crate::shelves::head;

/// The head of an object as it is written to disk; [`object_of_head`](crate::object_of_head) reads it.
pub fn head_of_object(object: &Object) -> Vec<u8> {
    head::encode(object)
}
