//! The interface of everything that changes a body as it passes.

/// How much output a change may make before the client gets it.
pub const MADE_BYTES: usize = 128 * 1024;

/// A change that is made to a body as it passes.
pub trait Change {
    /// Takes bytes from `input`, and appends the changed ones to `out`.
    fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Fed, String>;

    /// Appends what is held back, so that the client can use all that has arrived.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends the last output.
    fn finish(self, out: &mut Vec<u8>) -> Result<(), String>;
}

/// Whether the whole input was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// All of it.
    All,
    /// Not all: the output has to be sent first.
    Some,
}
