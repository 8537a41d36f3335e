//! What the functions of the modules compute of their arguments alone: no request, no clock, no files.

pub mod addresses;
pub mod cookies;
pub mod dates;
pub mod encodings;
pub mod numbers;
pub mod query;
pub mod reasons;
pub mod replace;
pub mod wildcard;
