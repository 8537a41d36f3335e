//! How supervisor and serving process communicate: messages over a unix socket, with file descriptors.
//!
//! ```text
//! supervisor                      serving process
//!     | -- Configure (sockets, logs) --> |   after the start, and on every reload
//!     | <------- Ready, or Refused ----- |
//!     | -- Reopen (logs) --------------> |   after a rotation; not answered
//! ```
//! Stopping is done by signals, which work even if the other process does not read.

mod channel;
mod message;

pub use channel::{Channel, ControlError};
pub use message::{Configure, Message};
