//! The transaction log: what is told of connections, requests and fetches to whoever listens.
//!
//! ```text
//! Open (a request's own) --its end--> Hub --> Listener --thread--> a socket: larder varnishlog
//!                                      `---> what is kept, if anything is
//! ```
//! Nothing is recorded while nobody listens and nothing is kept: a request then costs the look at one flag.

mod hub;
mod open;
mod socket;

pub use hub::{Hub, LISTENERS_MAX, Settings, TagSet};
pub use larder_conf::Plain;
pub use open::{Audience, Fact, Facts, Note, Open, Shown};
pub use socket::serve;
