//! What the commands of the CLI look at and change.

use tokio::time::Instant;

use super::loaded::{Times, Vcls};
use super::settings::Settings;
use super::site::Site;
use crate::log::Log;

/// The state of the process.
pub struct State {
    /// When the process began.
    pub began: Instant,
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

impl State {
    /// By what it is judged now whether a VCL rests.
    pub fn times(&self) -> Times {
        Times { cooldown: self.settings.own().cooldown, now: Instant::now() }
    }
}
