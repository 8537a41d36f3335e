//! VCL: text in, a checked and typed policy or errors out.
//!
//! `vars`, `steps`, `types` and `vmods` are the tables of what the language has. The crate opens nothing.
#![forbid(unsafe_code)]

pub mod ast;
pub mod steps;
pub mod types;
pub mod vars;
pub mod vmods;
