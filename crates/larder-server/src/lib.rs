//! Sockets, protocols, and the life of one request.
//!
//! Start at [`request`], the steps of a request. [`assemble`] builds the running parts of a configuration, [`serving`]
//! starts the threads, [`conn`] reads and writes the bytes.
#![forbid(unsafe_code)]

pub mod access;
mod access_lines;
pub mod acme;
mod acme_sharing;
mod ahead;
pub mod ask;
pub mod assemble;
pub mod auth;
pub mod bans;
pub mod clock;
mod cluster;
pub mod compressor;
pub mod conn;
pub mod context;
mod counting;
pub mod counts;
mod dash;
pub mod directors;
mod error_lines;
pub mod exchange;
mod explain;
pub mod files;
pub mod filter;
#[doc(hidden)]
pub mod fuzzing;
pub mod geo;
mod handshake;
pub mod limit;
mod limit_sharing;
pub mod listen;
pub mod local;
mod locations;
pub mod log;
pub mod logs;
mod lru;
mod lurker;
pub mod map;
pub mod material;
mod metrics;
mod misses;
pub mod modules;
pub mod net;
pub mod objects;
pub mod ocsp;
mod pace;
mod php_status;
mod pipes;
pub mod policy;
pub mod prepared;
mod pressure;
pub mod probes;
pub mod profile;
pub mod purges;
pub mod realip;
mod records;
pub mod refill;
mod refiller;
pub mod regex;
pub mod request;
pub mod resolvers;
pub mod script;
pub mod seats;
pub mod serving;
pub mod site;
mod sitemaps;
pub mod split;
mod staple;
mod stats;
mod status;
mod target;
pub mod tempfile;
pub mod text;
mod ticket_sharing;
pub mod tls;
pub mod turns;
mod typed_url;
pub mod variable;
pub mod vars;
pub mod vmods;
pub mod vsl;
mod ways;
mod worker;
mod worker_thread;
pub mod xid;
mod zones;

pub use assemble::{Checked, check};
pub use logs::LogFiles;
pub use material::{FpmPool, Material};
pub use pressure::{Group as MemoryGroup, has_little_memory};
pub use serving::{Counted, CountedZone, Descriptors, Serving, ServingOptions};
pub use site::Vcl;
pub use stats::Sums;

/// The version of nginx whose configuration and behaviour larder follows, for `$nginx_version` and `-V`.
pub const NGINX_VERSION: &str = "1.31.5";
