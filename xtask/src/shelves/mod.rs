//! Caches that are bigger than memory, larder's beside nginx's: how fast they are filled on one disk and on two
//! (`cargo xtask place`), and how long they take to be there again after a restart (`cargo xtask restart`).
//!
//! How and why they measure as they do is told in `docs/measuring.md`.

pub mod client;
mod disks;
mod fill;
mod options;
mod place;
mod restart;
mod server;
mod table;
mod watch;

pub use place::main as place;
pub use restart::main as restart;
