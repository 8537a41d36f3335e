//! Compressing and restoring bodies: gzip, brotli and zstd behind one interface.
//!
//! - [`compress`] and [`restore`] take a whole body.
//! - [`Encoder`] and [`Decoder`] take a body as it comes, and give what there is at any time.
//! - [`Segment`] is a part of a body that is compressed once, and [`Joined`] a body of such parts.
//! - [`Params`] says how hard to try and what memory that takes, [`Effort`] how much time there is.
//!
//! What is made here can be undone by every browser: no window is bigger than they allow.
#![forbid(unsafe_code)]

mod decoder;
mod effort;
mod encoder;
mod params;
mod segment;
#[cfg(test)]
mod tests;
mod whole;

pub use decoder::{DecodeError, Decoded, Decoder};
pub use effort::Effort;
pub use encoder::{EncodeError, Encoder};
pub use params::{Params, memory_bytes};
pub use segment::{Joined, Segment};
pub use whole::{RestoreError, compress, restore};

pub use larder_http::Coding;
