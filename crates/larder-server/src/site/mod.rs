//! A configuration as running parts: its regular expressions are compiled, its names are places in lists.
//!
//! `assemble` builds it, all workers share it, and it never changes: a reload builds a new one.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use larder_cache::Zone;
use larder_cluster::Settings;
use larder_conf::{Lines, Span};
use larder_http::Time;
use larder_origin::Group;
use larder_origin::gate::GateStatus;
use larder_tls::TicketKeys;

use crate::acme::Plan;
use crate::counts::AllZones;
use crate::filter::charset::Charsets;
use crate::limit::{LimitConnZone, LimitReqZone};
use crate::profile::Profile;
use crate::resolvers::Followed;
use crate::text::Text;
use crate::variable::{self, Var};

mod listener;
mod location;
mod log;
mod modules;
mod origin;
pub mod origin_head;
pub mod origin_tls;
mod parts;
mod policy;
mod script;
mod unbuilt;
mod variables;
mod vcl;

pub use listener::{Listener, NameTable, VirtualServer, listener_for};
pub use location::{Handler, Keeps, Loc, Matching, Tree, TryFallback, TryFiles};
pub use log::{AccessLog, AccessLogTarget, AccessSink, SiteLogs};
pub use modules::{BanRule, Modules, PurgeRule, SubFilter};
pub use origin::{Backend, FastCgiParts, Find, Gating, HttpParts, OriginShared, Protocol, Redirect, Scheme, Target};
pub use parts::{
    AccessParts, Around, AuthRequest, Composing, CompressionParts, Edit, EditChange, Edits, FieldParts, FileParts,
    LocLogs, Pace, Subrequests,
};
pub use policy::{
    CachePolicy, Directives, LiteSpeed, MethodPurge, Origin, Policy, PurgePolicy, Rfc9111Policy, StorePath, ZoneChoice,
};
pub use script::{Condition, Op, RewriteOp, SetTarget, Written};
pub use unbuilt::errors as unbuilt_errors;
pub use variables::{GeoPart, MapPart, NamedRegex, SplitPart, UserVar, UserVarSource, Variables};
pub use vcl::{HeaderList, HeaderName, UsedVcl, Vcl, VclNames, VclPolicy};

/// All parts of one configuration.
pub struct Site {
    /// Virtual servers, as they were written.
    pub servers: Vec<VirtualServer>,
    /// Locations of all servers, with their `if` and `limit_except` blocks.
    pub locations: Vec<Loc>,
    /// One listener for each address.
    pub listeners: Vec<Listener>,
    /// The sources of variables with a slot: `map`, `geo` and the like.
    pub variables: Variables,
    /// The groups of origins.
    pub origins: Origins,
    /// The cache zones.
    pub caches: Caches,
    /// What is counted by zone.
    pub counted: AllZones,
    /// The zones of `limit_req` and `limit_conn`.
    pub limits: LimitZones,
    /// The logs.
    pub logs: SiteLogs,
    /// The certificates to be issued; `None` if there are none.
    pub acme: Option<Plan>,
    /// Charsets by name, and their conversions.
    pub charsets: Charsets,
    /// Whether any server speaks HTTP/2.
    pub speaks_http2: bool,
    /// The folder for relative roots that variables give.
    pub prefix: PathBuf,
    /// The folder for relative password files that variables give.
    pub conf_prefix: PathBuf,
    /// The name of this machine.
    pub hostname: String,
    /// How long old requests may run after a stop or a reload.
    pub shutdown_timeout: Option<Duration>,
    /// Where the lines of its files begin.
    pub lines: Arc<Lines>,
    /// When it was loaded.
    pub loaded: Loaded,
    /// When the certificates of its files end.
    pub certificates: Vec<CertificateEnd>,
}

/// When a certificate ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEnd {
    /// Its file.
    pub name: String,
    /// Seconds since 1970.
    pub not_after: i64,
}

/// When a configuration was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// How many of this process, with this one.
    pub generation: u64,
    /// At this time.
    pub at: Time,
}

impl Site {
    /// A place in its files in words, such as `conf.d/shop.conf:12`; below the folder of the main file without that.
    pub fn place(&self, span: Span) -> Option<String> {
        let (path, line) = self.lines.of(span)?;
        let path = path.strip_prefix(&self.conf_prefix).unwrap_or(path);
        Some(format!("{}:{line}", path.display()))
    }

    /// What locations wish of each zone in which they keep pages; `both` makes one wish of two.
    pub fn wishes_by_zone<T: Copy>(
        &self,
        wish: impl Fn(&Loc) -> Option<T>,
        both: impl Fn(T, T) -> T,
    ) -> Vec<Option<T>> {
        let mut wishes: Vec<Option<T>> = vec![None; self.caches.zones.len()];
        for loc in &self.locations {
            let Some(wish) = wish(loc) else { continue };
            let of = match loc.handler.keeps() {
                None => 0..0,
                Some(Keeps::Zone(zone)) => zone..zone + 1,
                // It may be any.
                Some(Keeps::Named(_)) => 0..wishes.len(),
            };
            for known in wishes.get_mut(of).into_iter().flatten() {
                *known = Some(known.map_or(wish, |known| both(known, wish)));
            }
        }
        wishes
    }

    /// The variable of a name that is known at run time only, as in an SSI page. Searches, as pages with many of them
    /// are rare.
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
    /// What each group chooses by.
    pub hash_by: Vec<HashBy>,
    /// Groups by name, for addresses that variables give.
    pub names: HashMap<String, usize>,
    /// Groups whose servers are pools of php-fpm with a status page at a path: `larder_php_status`.
    pub php_status: Vec<(usize, String)>,
    /// Groups whose names are resolved again and again (`resolve`).
    pub followed: Vec<Arc<Followed>>,
    /// The VCLs, each once.
    pub vcls: Vec<UsedVcl>,
}

impl Origins {
    /// The gates as they are, with the names of their groups, each once.
    pub fn gates(&self) -> impl Iterator<Item = (&str, GateStatus)> {
        // The same place may be asked in two protocols.
        let is_first =
            |(at, group): &(usize, &Arc<Group>)| self.groups[..*at].iter().all(|other| other.name() != group.name());
        let firsts = self.groups.iter().enumerate().filter(is_first);
        firsts.filter_map(|(_, group)| Some((group.name(), group.gate()?.status())))
    }

    /// Whether a VCL has these servers as a backend that is sick.
    pub fn is_sick(&self, group: &Arc<Group>) -> bool {
        self.vcls.iter().any(|used| used.vcl.objects.directors.is_sick(group))
    }
}

/// What a group of origins chooses by.
pub enum HashBy {
    /// Nothing of the request.
    Nothing,
    /// The client's address: `ip_hash`.
    Address,
    /// The key of `hash`.
    Text(Text),
}

/// Cache zones.
#[derive(Default)]
pub struct Caches {
    /// All cache zones.
    pub zones: Vec<Arc<Zone>>,
    /// Their places, by name.
    pub names: HashMap<String, usize>,
    /// What the keys of some pages leave out: the profiles of all locations.
    pub profiles: Vec<Arc<Profile>>,
    /// `larder_cluster`.
    pub cluster: Option<Settings>,
    /// The keys of session tickets that `larder_cluster` shares.
    pub shared_tickets: Option<Arc<TicketKeys>>,
    /// Whether `larder_cluster` shares the counts of `limit_req`.
    pub shares_limits: bool,
    /// Whether it shares certificates of `larder_acme`.
    pub shares_certificates: bool,
    /// How old a ban is before their pages are tested by it beforehand: `ban_lurker_age` of the VCL that says least.
    pub lurker_age: Option<Duration>,
}

impl Caches {
    /// `larder_cluster`, if it shares certificates.
    pub fn sharing_certificates(&self) -> Option<&Settings> {
        self.cluster.as_ref().filter(|_| self.shares_certificates)
    }
}

/// The zones of `limit_req` and `limit_conn`.
#[derive(Default)]
pub struct LimitZones {
    /// `limit_req` zones.
    pub requests: Vec<LimitPart<LimitReqZone>>,
    /// `limit_conn` zones.
    pub connections: Vec<LimitPart<LimitConnZone>>,
}

/// A zone of limits.
pub struct LimitPart<T> {
    /// The zone's name, for the log.
    pub name: String,
    /// What is counted: one count for each value.
    pub key: Text,
    /// The counts.
    pub state: Arc<T>,
}
