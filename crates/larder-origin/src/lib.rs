//! Fetching from origins, by HTTP/1.1 or FastCGI. A [`Fetching`] chooses an origin of a [`Group`], connects or reuses a kept
//! connection, sends the request, reads the head of the response, and tries the next origin if `*_next_upstream` says
//! so. The caller then pulls the body from the [`Answer`]. Nothing here knows that there is a cache.
//!
//! ```text
//! fetch -> gate -> group (choose) -> pool or connection -> exchange -+-> upload     request bytes out
//!                                                            `-> download   response bytes in: fastcgi or http
//! connection: unsent bytes, tls, socket
//! ```
#![forbid(unsafe_code)]

mod address;
mod alarm;
mod answer;
mod attempt;
mod connection;
mod download;
mod error;
mod exchange;
pub mod fastcgi;
mod fetch;
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
mod group;
mod http;
mod io_error;
mod limits;
mod linger;
mod looks;
mod piece;
mod pieces;
mod pool;
mod purpose;
mod request;
mod request_body;
pub mod resolver;
mod scratch;
mod socket;
mod tls;
mod upload;

pub use address::Address;
pub use answer::{Answer, AnswerBody, Upgraded, Usage};
pub use attempt::{Attempt, Line};
pub use error::{FailKind, FetchError};
pub use fetch::{Fetching, Outcome, fetch};
pub use group::{BOUNDS_MILLIS, Balance, Group, LeastTime, Server, ServerCounts, ServerState, ServerStatus, Until};
pub use http::Interim;
pub use limits::{Bind, Limits};
pub use pool::Keepalive;
pub use request::{Fetch, Protocol, Retry, RetryRules, Statuses};
pub use request_body::{BodyPiece, RequestBody};
pub use tls::{Tls, TlsError};
