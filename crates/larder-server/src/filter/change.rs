//! What a change of a body is, whoever makes it.

/// How much may come out of a change between two looks at the client.
pub const MADE_BYTES: usize = 128 * 1024;

/// A change that is made to a body as it passes.
pub trait Change {
    /// Takes of `input` and appends what comes of it to `out`.
    fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Fed, String>;

    /// Appends what is held back, so that the client can use all that has come.
    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), String>;

    /// Appends the end.
    fn finish(self, out: &mut Vec<u8>) -> Result<(), String>;
}

/// How far a piece of a body has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fed {
    /// It is used up.
    All,
    /// There is more in it; what was made has to go out first.
    Some,
}
