//! What the driver of a connection of HTTP/2 and the tasks of its streams share.

mod handle;
mod shared;

pub use handle::Handle;
pub use shared::{OUT_BYTES_MAX, Shared};
