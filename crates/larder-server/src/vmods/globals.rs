//! The global variables of the module `var`.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Texts by their names. They are never forgotten, so their number is bounded.
#[derive(Debug, Default)]
pub struct Globals(Mutex<Texts>);

#[derive(Debug, Default)]
struct Texts {
    by_name: HashMap<Box<[u8]>, Option<Box<[u8]>>>,
    bytes: usize,
}

/// The bytes of all names and texts.
const BYTES_MAX: usize = 16 << 20;
/// What a variable takes beside its name and its text.
const VAR_BYTES: usize = 64;

/// There is no room for another variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the global variables take more than {BYTES_MAX} bytes")]
pub struct NoRoom;

impl Globals {
    /// Sets a variable to a text, or to one that is not there.
    pub fn set(&self, name: &[u8], text: Option<&[u8]>) -> Result<(), NoRoom> {
        let mut texts = self.0.lock();
        let old = texts.by_name.get(name).map_or(0, |old| bytes_of(name, old.as_deref()));
        let bytes = texts.bytes - old + bytes_of(name, text);
        if bytes > BYTES_MAX {
            return Err(NoRoom);
        }
        texts.bytes = bytes;
        texts.by_name.insert(name.into(), text.map(Box::from));
        Ok(())
    }

    /// The text of a variable; `None` if it was not set.
    pub fn get(&self, name: &[u8]) -> Option<Box<[u8]>> {
        self.0.lock().by_name.get(name)?.clone()
    }
}

fn bytes_of(name: &[u8], text: Option<&[u8]>) -> usize {
    VAR_BYTES + name.len() + text.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_has_the_text_that_it_got_last() {
        let globals = Globals::default();
        for (text, expected) in [(Some("one"), Some("one")), (None, None), (Some(""), Some("")), (Some("2"), Some("2"))]
        {
            globals.set(b"a", text.map(str::as_bytes)).expect("there is room");
            assert_eq!(globals.get(b"a").as_deref(), expected.map(str::as_bytes));
        }
        assert_eq!(globals.get(b"b"), None);
    }

    #[test]
    fn the_room_is_bounded_and_used_again() {
        let globals = Globals::default();
        let large = vec![b'x'; BYTES_MAX - 100];
        globals.set(b"a", Some(&large)).expect("there is room");
        assert_eq!(globals.set(b"b", Some(b"no")), Err(NoRoom));
        globals.set(b"a", Some(b"small")).expect("it is smaller");
        globals.set(b"b", Some(b"yes")).expect("there is room again");
    }
}
