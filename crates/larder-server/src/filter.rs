//! Filters that change what a body says: `sub_filter` and the conversion of charsets.
//!
//! They stand between restoring a body that came compressed and compressing it, as in nginx. Each takes bytes as they
//! come and holds back only what it has to. Which of them a response goes through is decided in `request/filters.rs`.

pub mod chain;
pub mod change;
pub mod charset;
pub mod needles;
pub mod sub;
