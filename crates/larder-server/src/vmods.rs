//! What modules of VCL keep beyond a request.

mod globals;
mod read_files;
mod throttle;

use globals::Globals;

pub use read_files::ReadFiles;
pub use throttle::{Limit, Throttle};

/// What they keep for the whole process: all workers share it, and it outlives a configuration.
#[derive(Debug, Default)]
pub struct Vmods {
    /// The global variables of the module `var`.
    pub globals: Globals,
    /// The buckets of the module `vsthrottle`.
    pub throttle: Throttle,
}
