//! The parsers of this crate, for `larder-fuzz`.

use std::sync::Arc;

use crate::object::Object;
use crate::selection::{Pattern, Selection};
use crate::shelves::head;

/// The head of an object as it is written to disk; [`object_of_head`](crate::object_of_head) reads it.
pub fn head_of_object(object: &Object) -> Vec<u8> {
    head::encode(object)
}

/// The words of a purge as they are written, from words as a disk has them; `None` if they cannot be read.
pub fn purge_words(words: &str) -> Option<String> {
    /// Finds nothing.
    struct Unbuilt(String);

    impl Pattern for Unbuilt {
        fn text(&self) -> &str {
            &self.0
        }

        fn is_in(&self, _: &[u8]) -> Option<bool> {
            Some(false)
        }
    }

    let (selection, how, tag_fields) = Selection::read(words, |text| Some(Arc::new(Unbuilt(text.to_owned()))))?;
    selection.words(how, &tag_fields).ok()
}
