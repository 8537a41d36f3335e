//! HPACK, the compression of field sections (RFC 7541). We decode with a dynamic table, which the standard requires,
//! and encode without one. So an encoded block means the same on every connection, and can be cached with a page.

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

/// The largest dynamic table that a client may use: the default of SETTINGS_HEADER_TABLE_SIZE.
pub const TABLE_BYTES_MAX: usize = 4096;
