//! Places in configuration files, and what is said about them.
//!
//! What every language that larder reads needs: a [`Loader`] that opens files, [`Sources`] that keep them, a [`Span`]
//! for a place in one, a [`Diagnostic`] about it, and [`nearest`] for what was probably meant.
#![forbid(unsafe_code)]

pub mod diagnostic;
pub mod lines;
mod plain;
pub mod sources;
pub mod span;
pub mod suggest;

pub use diagnostic::{Diagnostic, Outcome, Severity, render};
pub use lines::Lines;
pub use plain::{Plain, PlainJson, PlainLines};
pub use sources::{Loader, MemoryLoader, Position, Sources};
pub use span::Span;
pub use suggest::nearest;
