//! A configuration as running parts: every regular expression compiled, every name turned into a place in a list.
//!
//! Built by `assemble`; shared by all workers; never changed. A reload makes a new one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_cache::Zone;
use larder_origin::Group;

use crate::acme::Plan;
use crate::filter::charset::Charsets;
use crate::limit::{LimitConnZone, LimitReqZone};
use crate::resolvers::Followed;
use crate::text::Text;
use crate::variable::{self, Var};

mod listener;
mod location;
mod log;
mod modules;
mod origin;
pub mod origin_tls;
mod parts;
mod policy;
mod script;
mod variables;

pub use listener::{Listener, NameTable, VirtualServer, listener_for};
pub use location::{Handler, Loc, Matching, Tree, TryFallback, TryFiles};
pub use log::{AccessLog, AccessLogTarget, SiteLogs};
pub use modules::{Modules, SubFilter};
pub use origin::{Backend, FastCgiParts, Find, HttpParts, OriginShared, Protocol, Redirect, Scheme, Target};
pub use parts::{
    AccessParts, Around, AuthRequest, Composing, CompressionParts, Edit, EditChange, Edits, FieldParts, FileParts,
    LocLogs, Pace, Subrequests,
};
pub use policy::{CachePolicy, Directives, MethodPurge, Origin, Policy, PurgePolicy, StorePath, ZoneChoice};
pub use script::{Condition, Op, RewriteOp, SetTarget};
pub use variables::{GeoPart, MapPart, NamedRegex, SplitPart, UserVar, UserVarSource, Variables};

/// All that one configuration makes.
pub struct Site {
    /// Virtual servers, in order of writing.
    pub servers: Vec<VirtualServer>,
    /// Locations of all servers, with `if` and `limit_except` blocks among them.
    pub locations: Vec<Loc>,
    /// One for each address that is listened at.
    pub listeners: Vec<Listener>,
    /// What the variables with a slot come from.
    pub variables: Variables,
    /// Who is asked.
    pub origins: Origins,
    /// Where pages are kept.
    pub caches: Caches,
    /// What limits requests and connections.
    pub limits: LimitZones,
    /// Where lines go.
    pub logs: SiteLogs,
    /// Which certificates have to be issued.
    pub acme: Option<Plan>,
    /// Charsets by name, and what is made into what.
    pub charsets: Charsets,
    /// Whether HTTP/2 is spoken anywhere.
    pub speaks_http2: bool,
    /// Where relative roots are that come out of variables.
    pub prefix: PathBuf,
    /// Where relative password files are that come out of variables.
    pub conf_prefix: PathBuf,
    /// The name of this machine.
    pub hostname: String,
    /// How long old requests may take after a stop or a reload.
    pub shutdown_timeout: Option<Duration>,
}

impl Site {
    /// The variable of a name that comes at run time. A page that asks for many is rare enough for a search.
    pub fn variable(&self, name: &str) -> Option<Var> {
        let slot = self.variables.slots.iter().position(|var| var.name == name);
        slot.map(Var::Slot).or_else(|| variable::built_in(name))
    }
}

/// Groups of origins.
#[derive(Default)]
pub struct Origins {
    /// Groups of origins: `upstream` blocks and single addresses.
    pub groups: Vec<Arc<Group>>,
    /// The key of each group's `hash`, where it has one.
    pub hash_keys: Vec<Option<Text>>,
    /// Groups by name, for addresses that come from variables.
    pub names: HashMap<String, usize>,
    /// Groups whose names are resolved again and again.
    pub followed: Vec<Arc<Followed>>,
}

/// Cache zones.
#[derive(Default)]
pub struct Caches {
    /// All of them.
    pub zones: Vec<Arc<Zone>>,
    /// Their places, by name.
    pub names: HashMap<String, usize>,
}

/// Zones of limits.
#[derive(Default)]
pub struct LimitZones {
    /// `limit_req` zones.
    pub requests: Vec<LimitPart<LimitReqZone>>,
    /// `limit_conn` zones.
    pub connections: Vec<LimitPart<LimitConnZone>>,
}

/// A zone of limits.
pub struct LimitPart<T> {
    /// Its name.
    pub name: String,
    /// What is counted.
    pub key: Text,
    /// The counts.
    pub state: Arc<T>,
}
