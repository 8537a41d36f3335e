//! What the driver of an HTTP/2 connection shares with the tasks of its streams.

mod handle;
mod shared;

pub use handle::Handle;
pub use shared::{OUT_BYTES_MAX, Shared};
