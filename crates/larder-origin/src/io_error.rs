//! What the system says, in the words of nginx.

use std::io;

/// An error as nginx writes it: `111: Connection refused`.
pub(crate) fn nginx_error(error: &io::Error) -> String {
    let text = error.to_string();
    match error.raw_os_error() {
        Some(code) => {
            let words = text.split(" (os error").next().unwrap_or_default();
            format!("{code}: {words}")
        }
        None => text,
    }
}
