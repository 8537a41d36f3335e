//! What must hold for any foreign bytes: a function for each parser, that panics where it does not.
//!
//! The fuzz targets in `fuzz/` call them, and so do the tests of this crate, which change the seeds of
//! `fuzz/corpus/` by a seeded [`Mutator`]. Each takes the bytes as a peer, a disk or a file would give them; where a parser
//! takes them in pieces, they are cut at places that the bytes themselves choose.
#![forbid(unsafe_code)]

mod disk;
mod fields;
mod files;
mod h2;
mod heads;
mod mutate;
mod origin;
mod pieces;
mod profile;
mod purge;
mod uri;
mod vcl;
mod vsl;

pub use disk::disk_records;
pub use fields::fields;
pub use files::{esi, nginx_conf, ssi};
pub use h2::{h2_frames, hpack};
pub use heads::{chunked, proxy_header, request_head, response_head};
pub use mutate::Mutator;
pub use origin::{dns, fastcgi};
pub use profile::profile;
pub use purge::purge;
pub use uri::uri;
pub use vcl::vcl;
pub use vsl::{vsl_frames, vsl_query};

/// A function that panics where something does not hold for the bytes.
pub type Target = fn(&[u8]);

/// All of them, by the names of their fuzz targets and of their folders in `fuzz/corpus/`.
pub const TARGETS: [(&str, Target); 19] = [
    ("request_head", request_head),
    ("chunked", chunked),
    ("response_head", response_head),
    ("h2_frames", h2_frames),
    ("hpack", hpack),
    ("fastcgi", fastcgi),
    ("proxy_header", proxy_header),
    ("fields", fields),
    ("uri", uri),
    ("nginx_conf", nginx_conf),
    ("dns", dns),
    ("disk_records", disk_records),
    ("ssi", ssi),
    ("esi", esi),
    ("vcl", vcl),
    ("vsl_frames", vsl_frames),
    ("vsl_query", vsl_query),
    ("purge", purge),
    ("profile", profile),
];
