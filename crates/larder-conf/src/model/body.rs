//! Bodies of requests.

/// `client_body_in_file_only`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyInFile {
    /// When a body does not fit into memory.
    Off,
    /// Always, and the file stays.
    On,
    /// Always, while the request lasts.
    Clean,
}
