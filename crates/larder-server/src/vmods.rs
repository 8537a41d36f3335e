//! What modules of VCL keep beyond a request.

mod globals;
mod read_files;
mod secrets;
pub mod tags;
mod throttle;

use globals::Globals;

pub use read_files::ReadFiles;
pub use tags::Tags;
pub use throttle::{Limit, Throttle};

/// What they keep for the whole process: all workers share it, and it outlives a configuration.
#[derive(Debug, Default)]
pub struct Vmods {
    /// The global variables of the module `var`.
    pub globals: Globals,
    /// Which pages the module `xkey` finds by their tags.
    pub tags: Tags,
    /// The buckets of the module `vsthrottle`.
    pub throttle: Throttle,
}
