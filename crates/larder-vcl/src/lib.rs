//! VCL: text in, a checked and typed policy or errors out.
//!
//! `read` makes one row of tokens of a file and all that it includes, and `parse` a tree. `vars`, `steps`, `types` and
//! `vmods` are the tables of what the language has. The crate opens nothing: files come through a loader.
#![forbid(unsafe_code)]

pub mod ast;
pub mod lex;
pub mod old;
pub mod parse;
pub mod read;
pub mod steps;
pub mod types;
pub mod vars;
pub mod vmods;
