//! The parsers of this crate for who feeds them anything, as `larder-fuzz` does.

use crate::object::Object;
use crate::shelves::head;

/// The head of an object as it is kept on disks; [`object_of_head`](crate::object_of_head) reads it.
pub fn head_of_object(object: &Object) -> Vec<u8> {
    head::encode(object)
}
