//! Access and error logs, in nginx's forms.
//!
//! A worker writes access lines through [`access`], and lines with a level and the circumstances of a request through
//! [`error`]. Both end in a file ([`sink`]) or at a syslog server ([`syslog`]). [`escape`] escapes values; [`stamp`]
//! formats the local time.

pub mod access;
pub mod error;
pub mod escape;
pub mod main;
pub mod named;
pub mod sink;
pub mod stamp;
pub mod syslog;

/// ` (2: No such file or directory)`: a system error as nginx appends it to a line.
pub fn errno_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    let words = text.split(" (os error ").next().unwrap_or_default();
    format!(" ({errno}: {words})")
}

/// The same for an error that may not come from the system.
pub fn io_error_text(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(errno) => errno_text(errno),
        None => format!(" ({error})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_the_system_read_as_in_nginx() {
        for (errno, text) in [
            (2, " (2: No such file or directory)"),
            (13, " (13: Permission denied)"),
            (104, " (104: Connection reset by peer)"),
            (110, " (110: Connection timed out)"),
        ] {
            assert_eq!(errno_text(errno), text);
            assert_eq!(io_error_text(&std::io::Error::from_raw_os_error(errno)), text);
        }
        assert_eq!(io_error_text(&std::io::Error::other("odd")), " (odd)");
    }
}
