//! A hostile corpus: raw requests and raw answers, played through larder to recording origins on kept connections.
//!
//! After each case holds: an origin saw only requests that a client really sent as one, each once; no client got
//! another's bytes; the same page, asked for by an innocent client, is complete and has nothing of the attack in it; and
//! the serving process is the one it was, with no panic and no `[alert]` in its log.
//!
//! The cases are in `requests/`, `http2/`, `answers/` and `records/`, their format on top of `case.rs`. What is behind `---` is what
//! larder answers; `HOSTILE_UPDATE=1` writes it, review the diff. `HOSTILE_CASE=text` plays only cases with that name.
//! What does not hold today is in `known.list` with its reason, and must leave the list when it holds.

mod answers;
mod case;
mod ledger;
mod origin;
mod requests;
mod streams;
mod world;
