//! What several larders share by a Redis or Valkey: purges, by a stream, keys of session tickets, what limits count, and
//! certificates that one of them orders.
//!
//! [`Cluster::start`] starts three threads, which have nothing to do with workers. What they need of the outside they are
//! given: who carries purges out ([`Carrier`]), and a clock that goes on while the machine sleeps.
//!
//! ```text
//! a purge here  -> queue -> writer -> XADD -> log -> reader of every node -> Carrier
//!                    |         `-> known: who has read so far?   `-> at:NODE: as far as this
//!                    `-> the file larder.unsent, while the server is away
//! tickets: keys of TLS sessions, see [`Tickets`]; limits: see [`Limits`]; acme: see [`Certificates`]
//! keeper: once a second, when disks have it: the place in the log -> the file larder.place
//! ```
//!
//! All keys begin with `larder:{NAME}:`; the braces put them on one server of a Redis Cluster.
//!
//! | key       | type   | what                                                                        |
//! | --------- | ------ | --------------------------------------------------------------------------- |
//! | `log`     | stream | the purges: zone `z`, words `w`, and who wished them in `i`: the process, and what its node is called |
//! | `epoch`   | string | a random word. Another one means another server, or one that was emptied    |
//! | `nodes`   | hash   | each node, when it was there last, in milliseconds of the server, and its place then |
//! | `page:ZONE:HASH` | string | a page that all share, as long as it may be used; empty for one that cannot be shared |
//! | `lock:ZONE:HASH` | string | ten seconds at most: a node fetches that page |
//! | `tickets:N` | string | the key of the TLS session tickets of a period of the server's time, until they have all expired |
//! | `limits:ZONE:HASH` | string | how many requests were let through, until the bucket of `limit_req` is empty |
//! | `acme:certificate:ORDER` | string | private key and certificate that a node has ordered, until it expires |
//! | `acme:challenge:WHICH` | string | the answer to a challenge of the CA: fifteen minutes |
//! | `acme:lock:ORDER` | string | thirty seconds at most, unless it is kept: a node orders |
//! | `acme:failures:ORDER`, `acme:wait:ORDER` | string | how often an order failed; there while no node should try again |
//! | `at:NODE` | string | process and place of a node; it goes four seconds after the node            |
#![forbid(unsafe_code)]

mod carrier;
mod certificates;
mod cluster;
mod contact;
mod ending;
mod fault;
mod forget;
mod keeper;
mod keys;
mod known;
mod lag;
mod limits;
mod link;
mod nodes;
pub mod pace;
mod place;
mod portion;
mod queue;
mod random;
mod reader;
mod settings;
mod share;
mod shared;
mod status;
mod tickets;
mod tls;
mod writer;

pub use carrier::{Carrier, Level};
pub use certificates::{Away as CertificatesAway, Certificates, OrderRight, OrderState, SayLine};
pub use cluster::{Cluster, Start};
pub use contact::{Heard, Trust};
pub use fault::Fault;
pub use forget::ForgetError;
pub use keys::{LimitName, PageName};
pub use known::{Known, NAMED_MAX};
pub use lag::Lag;
pub use limits::{Counted, LimitUser, Limits, Others};
pub use place::{EntryId, PLACE_FILE, Place};
pub use queue::UNSENT_FILE;
pub use settings::{Away, LEASE, Server, Settings, Shelf};
pub use share::{ALONE, Hear, Lock, Look, Outcome, Share, ShareCounts, Take, Value};
pub use status::{NodeStatus, Status};
pub use tickets::{TICKET_PERIOD, TicketRing, TicketSecret, TicketStart, TicketUser, Tickets};
