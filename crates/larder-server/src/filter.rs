//! Filters that change the content of a body: `sub_filter` and the conversion of charsets; and what finds ESI in one.
//!
//! As in nginx, they run after a body is decompressed and before it is compressed. Each takes bytes as they arrive and
//! holds back only what it must. `request/filters.rs` decides which ones a response passes.

pub mod chain;
pub mod change;
pub mod charset;
pub mod esi;
pub mod needles;
pub mod sub;
