//! Bodies of requests.

use std::path::PathBuf;
use std::time::Duration;

/// What becomes of the body of a request: `client_body_*`.
#[derive(Clone, Debug)]
pub struct ClientBody {
    /// `client_max_body_size`, 1m; `None` for 0: no limit.
    pub max_bytes: Option<u64>,
    /// `client_body_buffer_size`, 16k: more goes to a file.
    pub buffer_bytes: usize,
    /// `client_body_timeout`, 60 s.
    pub timeout: Duration,
    /// `client_body_temp_path`; `None` for the built-in one.
    pub temp_path: Option<PathBuf>,
    /// How many letters of a file's name each level of folders below takes; 0 for no level.
    pub temp_levels: [usize; 3],
    /// `client_body_in_file_only`.
    pub in_file_only: BodyInFile,
}

impl Default for ClientBody {
    fn default() -> Self {
        Self {
            max_bytes: Some(1 << 20),
            buffer_bytes: 4 * 4096,
            timeout: Duration::from_secs(60),
            temp_path: None,
            temp_levels: [0; 3],
            in_file_only: BodyInFile::Off,
        }
    }
}

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
