//! The main context.

use std::path::PathBuf;
use std::time::Duration;

use super::{At, ErrorLog};

/// The main context: the process.
#[derive(Clone, Debug)]
pub struct Main {
    /// `user`: the user and group that the serving process becomes when started as root.
    pub user: Option<At<(String, Option<String>)>>,
    /// `worker_processes`: the number of worker threads.
    pub worker_processes: Workers,
    /// `worker_rlimit_nofile`; when absent larder raises the limit to the hard one.
    pub worker_rlimit_nofile: Option<u64>,
    /// `worker_shutdown_timeout`: how long old requests may take after a stop or a reload.
    pub worker_shutdown_timeout: Option<Duration>,
    /// `worker_connections`, for `$connections` arithmetic of nobody; read, and not a limit.
    pub worker_connections: Option<u64>,
    /// `pid`: where the process writes its number; `None` for the built-in path.
    pub pid: Option<PathBuf>,
    /// `larder_transaction_log`.
    pub transaction_log: TransactionLog,
    /// `error_log` of the main context, in order; empty means the built-in path.
    pub error_log: Vec<ErrorLog>,
    /// `ssl_object_cache_inheritable`: whether certificates and keys whose files look unchanged outlive a reload.
    pub inherits_certificates: bool,
    /// `daemon`.
    pub daemon: bool,
    /// `master_process`: whether a supervisor runs.
    pub master_process: bool,
    /// `working_directory`.
    pub working_directory: Option<PathBuf>,
    /// Where relative roots are, for those that come out of variables; all others are joined to it already.
    pub prefix: PathBuf,
    /// Where relative password files are, likewise.
    pub conf_prefix: PathBuf,
    /// `env`, as `NAME` or `NAME=value`.
    pub env: Vec<(String, Option<String>)>,
    /// Whether some `*_bind` is `transparent`, so that the serving process needs the right to it.
    pub binds_anywhere: bool,
}

impl Main {
    /// nginx's defaults, below these folders.
    pub fn new(prefix: PathBuf, conf_prefix: PathBuf) -> Self {
        Self {
            user: None,
            worker_processes: Workers::Auto,
            worker_rlimit_nofile: None,
            worker_shutdown_timeout: None,
            worker_connections: None,
            pid: None,
            transaction_log: TransactionLog::default(),
            error_log: Vec::new(),
            inherits_certificates: false,
            daemon: true,
            master_process: true,
            working_directory: None,
            prefix,
            conf_prefix,
            binds_anywhere: false,
            env: Vec::new(),
        }
    }
}

/// Where the transaction log is told, and how much of it is kept: `larder_transaction_log`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionLog {
    /// Where.
    pub place: TransactionLogPlace,
    /// How many bytes of it are kept for those who come later; 0 for none.
    pub kept_bytes: usize,
}

/// Where the transaction log is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TransactionLogPlace {
    /// At a socket beside the pid file.
    #[default]
    Usual,
    /// At this socket.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// The argument of `worker_processes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One a core.
    Auto,
    /// This many.
    Count(usize),
}
