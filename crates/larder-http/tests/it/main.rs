//! The codec from outside: what is read, what is refused, and that it does not matter how bytes arrive.

mod chunked;
mod h2;
mod request;
mod response;
mod robust;
mod smuggling;

/// Foreign bytes as text, for messages and tables.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Fields as `Name: value` joined by `, `.
fn shown(fields: &larder_http::Fields) -> String {
    fields.iter().map(|(name, value)| text(name) + ": " + &text(value)).collect::<Vec<_>>().join(", ")
}
