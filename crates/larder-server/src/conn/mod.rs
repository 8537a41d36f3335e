//! Connections of clients, from the first byte to the last response.

pub mod at_once;
pub mod h1;
pub mod h2;
pub mod limit_rate;
pub mod open;
pub mod ready;
pub mod send;
mod shake;
pub mod tunnel;
