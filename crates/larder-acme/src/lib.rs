//! Certificates obtained and renewed by ACME (RFC 8555).
//!
//! [`spawn`] starts one thread that keeps a certificate for each [`Order`]. What the thread needs of the outside it is
//! given: the time, a place for its log lines, somebody who takes certificates ([`Hooks`]), workers that answer the
//! CA's challenges from [`Responses`], and other hosts for the same names, if there are any ([`Peers`]).
//!
//! ```text
//! spawn -> thread -> keeper (one an order) -> attempt -> registration, client -> the CA
//!             |          |                       `----> responses <- workers
//!             |          |-> together: who orders, if several hosts serve the names -> peers
//!             |          `-> schedule: when to renew, when to try again
//!             `-> store: what outlives the process
//! ```
#![forbid(unsafe_code)]

mod account;
mod attempt;
mod certificate;
mod client;
mod failure;
mod keeper;
mod log;
mod order;
mod peers;
mod placeholder;
mod registration;
mod responses;
mod schedule;
mod shared;
mod store;
mod thread;
mod together;

pub use account::{Account, ExternalAccount, ExternalAccountError, KeyType, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use log::{Level, OnLog};
pub use order::{Challenge, Order, OrderError};
pub use peers::{Asked, Away, FindPeers, Found, Peers, Right, http01_name, tls_alpn01_name};
pub use placeholder::{Placeholder, PlaceholderError, placeholder};
pub use responses::{ChallengeCertificate, Responses};
pub use schedule::Timing;
pub use shared::{OnCertificate, Status};
pub use thread::{Handle, Hooks, spawn};
