//! How supervisor and serving process talk: frames over a unix socket, descriptors beside them.
//!
//! ```text
//! supervisor                      serving process
//!     | -- Configure (sockets, logs) --> |   after the start, and on every reload
//!     | <------- Ready, or Refused ----- |
//!     | -- Reopen (logs) --------------> |   after a rotation; not answered
//! ```
//! Stopping is by signals, which need no reader at the other end.

mod channel;
mod message;

pub use channel::{Channel, ControlError};
pub use message::{Configure, Message};
