//! What modules of VCL keep for the whole process: all workers share it, and it outlives a configuration.

mod globals;

use globals::Globals;

/// What they keep.
#[derive(Debug, Default)]
pub struct Vmods {
    /// The global variables of the module `var`.
    pub globals: Globals,
}
