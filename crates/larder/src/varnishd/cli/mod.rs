//! Varnish's CLI: commands over a connection, for varnishadm and its like.
//!
//! `words` cuts lines into words, `protocol` is the form of answers and how a client shows that it knows the secret,
//! `server` has the connections, and `commands` the table of what can be asked for. `super::orders` does it.

pub mod commands;
pub mod protocol;
pub mod server;
pub mod words;
