//! What the commands of the CLI look at and change.

use super::loaded::Vcls;
use super::settings::Settings;
use super::site::Site;
use crate::log::Log;

/// The state of the process.
pub struct State {
    /// The parameters.
    pub settings: Settings,
    /// Those that the CLI may not set.
    pub read_only: Vec<String>,
    /// What was loaded.
    pub vcls: Vcls,
    /// What is served.
    pub site: Site,
    /// The log.
    pub log: Log,
}
