//! php-fpm: its pools, and what of the configuration asks them.

pub mod children;
pub mod opcache;
pub mod origins;
pub mod pools;
pub mod queue;
pub mod status;
pub mod timeouts;

use larder_conf::model::Config;

use crate::machine::Machine;
use crate::processes::{self, Process};

use origins::Origin;
use pools::Pool;

/// The php-fpm of a machine.
#[derive(Debug, Default)]
pub struct Php {
    /// Who is asked over FastCGI.
    pub origins: Vec<Origin>,
    /// All pools.
    pub pools: Vec<Pool>,
    /// What could not be read.
    pub unread: Vec<String>,
    /// The processes of the machine.
    pub processes: Vec<Process>,
}

impl Php {
    /// Looks for pools where packages have them, and where a running php-fpm says that it has its configuration.
    pub fn of(machine: &Machine, config: Option<&Config>) -> Php {
        let processes = processes::all(machine);
        let (pools, unread) = pools::all(machine, &processes);
        Php { origins: config.map(origins::of).unwrap_or_default(), pools, unread, processes }
    }

    /// The pools that the configuration asks, each with who asks it.
    pub fn asked<'a>(&'a self, machine: &Machine) -> Vec<(&'a Origin, &'a Pool)> {
        let pair = |origin: &'a Origin| {
            let found = self.pools.iter().find(|pool| pool.listens_at(&origin.address, machine));
            found.map(|pool| (origin, pool))
        };
        self.origins.iter().filter_map(pair).collect()
    }

    /// Those that are asked and belong to no pool whose file is known.
    pub fn without_pool<'a>(&'a self, machine: &Machine) -> Vec<&'a Origin> {
        let has_pool = |origin: &&Origin| self.pools.iter().any(|pool| pool.listens_at(&origin.address, machine));
        self.origins.iter().filter(|origin| !has_pool(origin)).collect()
    }
}
