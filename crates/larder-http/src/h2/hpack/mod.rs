//! HPACK, the compression of field sections (RFC 7541).
//!
//! We decode with the dynamic table that the standard demands of a reader, and encode without one, so that an
//! encoded block means the same on every connection and can be kept with a stored page.

mod decode;
mod encode;
mod huffman;
mod integer;
mod static_table;
mod table;

pub use decode::{Decoded, Decoder, HpackError};
pub(crate) use encode::is_of_connection;
pub use encode::{encode_field, encode_lines, encode_status};
pub use table::{Class, NameKind};

/// The largest dynamic table a client may ask us to keep, the default of SETTINGS_HEADER_TABLE_SIZE.
pub const TABLE_BYTES_MAX: usize = 4096;
