//! Both ends of TLS connections, in memory.

mod certificates;
mod clients;
mod ends;
mod foreign;
mod handshakes;
mod keys;
mod origins;
mod records;
mod resumption;
