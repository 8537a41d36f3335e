//! Why the server is of no use, in words that name the mend.

use std::io;

use redis::{ErrorKind, RedisError, ServerError};

use crate::tls;

/// Why the server is of no use now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No connection, or it broke.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// It does not know the user or the password.
    #[error(
        "refuses the password: mend \"USER:PASSWORD@\" in \"larder_cluster\"; if the server has forgotten the user, add it again \
         and keep it, by ACL SAVE or in its redis.conf ({0})"
    )]
    WrongPassword(String),
    /// It demands a password, and none is given.
    #[error("demands a password: write it as \"redis://:PASSWORD@HOST\" or \"redis://USER:PASSWORD@HOST\"")]
    NoPassword,
    /// Its rules do not let the user do something.
    #[error(
        "forbids the user what larder does: give it \"~{keys} +@read +@write +@connection +@transaction +time -@dangerous\" ({why})"
    )]
    Forbidden {
        /// The keys that it needs.
        keys: String,
        /// What the server says.
        why: String,
    },
    /// It only reads.
    #[error("is a read-only replica: name its primary in \"larder_cluster\", or its Sentinels and \"sentinel=\"")]
    Replica,
    /// It has no memory left.
    #[error("is full: raise its \"maxmemory\", or have it evict other keys ({0})")]
    Full(String),
    /// It takes nothing, as it could not write it to its disk.
    #[error(
        "takes nothing, as it cannot save its data: mend its disk, or set \"stop-writes-on-bgsave-error no\" there ({0})"
    )]
    Unsaved(String),
    /// A key is something else.
    #[error(
        "holds something else than larder's under one of its keys \"{keys}\": \"{log}\" has to be a stream, \"nodes\" a hash, all \
         others strings; delete the one that is not, or take another \"name=\""
    )]
    WrongType {
        /// All keys of larder.
        keys: String,
        /// The key of the log.
        log: String,
    },
    /// The log has the last entry that a stream may have. Entries of a new one come before it, so that has to be another log.
    #[error(
        "can add nothing to the log, as somebody has written the last entry that there may be: delete \"{log}\" and \"{epoch}\", \
         both with one DEL; all nodes then count as stale what they have, once"
    )]
    LogEnded {
        /// The key of the log.
        log: String,
        /// The key that tells logs apart.
        epoch: String,
    },
    /// There is no key of session tickets, nor does it take one.
    #[error(
        "holds something else than a key of session tickets under \"{0}\": delete that key, or take another \"name=\""
    )]
    NoTicketKey(String),
    /// A key of certificates is something else.
    #[error("holds something else than what larder writes under \"{0}\": delete those keys, or take another \"name=\"")]
    NoCertificate(String),
    /// It reads its own data, or waits for its primary.
    #[error("is not ready yet ({0})")]
    NotReady(String),
    /// It is too old.
    #[error("is too old: larder needs Redis 6.2 or Valkey ({0})")]
    TooOld(String),
    /// The Sentinels do not know the primary.
    #[error("is a Sentinel that knows no primary called \"{0}\": mend \"sentinel=\" in \"larder_cluster\"")]
    NoSuchPrimary(String),
    /// It is to name the primary, and is itself what holds the data.
    #[error(
        "is no Sentinel: leave \"sentinel=\" out of \"larder_cluster\", or name the Sentinels in front of it, mostly at port 26379"
    )]
    NoSentinel,
    /// It holds no data, and names who does.
    #[error("is a Sentinel: add \"sentinel={0}\" to \"larder_cluster\"")]
    Sentinel(String),
    /// It has fewer databases.
    #[error("has no such database: mend the number behind \"/\" in \"larder_cluster\" ({0})")]
    NoDatabase(String),
    /// An answer that means nothing.
    #[error("answers what larder does not understand: {0}")]
    Odd(String),
    /// The key lies on another server of a Redis Cluster.
    #[error("sends larder to {0}, and that one elsewhere: is the Redis Cluster being set up?")]
    Moved(String),
}

impl Fault {
    /// What a connection that broke says.
    pub(crate) fn of_connection(error: &RedisError) -> Self {
        Self::Unreachable(match () {
            () if error.is_timeout() => "it does not answer in time".to_owned(),
            () if is_closed(error) => "it has closed the connection".to_owned(),
            () if error.kind() == ErrorKind::Parse => "what answers there is no Redis or Valkey".to_owned(),
            () => tls::why(error).unwrap_or_else(|| error.to_string()),
        })
    }

    /// What a server's refusal means; `prefix` is that of our keys, and `log` the key of the log.
    pub(crate) fn of_server(error: &ServerError, prefix: &str, log: &str) -> Self {
        let details = error.details().unwrap_or_default();
        let said = format!("{} {details}", error.code()).trim_end().to_owned();
        match error.code() {
            "WRONGPASS" => Self::WrongPassword(said),
            "NOAUTH" => Self::NoPassword,
            "NOPERM" => Self::Forbidden { keys: format!("{prefix}*"), why: said },
            "READONLY" => Self::Replica,
            "OOM" => Self::Full(said),
            "MISCONF" => Self::Unsaved(said),
            "WRONGTYPE" => Self::WrongType { keys: format!("{prefix}*"), log: log.to_owned() },
            "LOADING" | "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" | "BUSY" | "NOREPLICAS" | "ASK" => {
                Self::NotReady(said)
            }
            "MOVED" => Self::Moved(details.to_owned()),
            "ERR" if details.starts_with("unknown command") || details.starts_with("syntax error") => {
                Self::TooOld(said)
            }
            "ERR" if details.starts_with("The stream has exhausted") => {
                Self::LogEnded { log: log.to_owned(), epoch: format!("{prefix}epoch") }
            }
            "ERR" if details.contains("AUTH") => Self::WrongPassword(said),
            "ERR" if details.starts_with("DB index") || details.starts_with("SELECT ") => Self::NoDatabase(said),
            _ => Self::Odd(said),
        }
    }

    /// Whether reading goes on all the same, if what is refused is writing.
    pub(crate) fn is_of_writing(&self) -> bool {
        matches!(self, Self::Full(_) | Self::Forbidden { .. } | Self::Unsaved(_))
    }

    /// Whether it is the same, but for what the server says of it.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// Whether a connection broke that there was.
fn is_closed(error: &RedisError) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let why = tls::io_of(error).map(io::Error::kind);
    matches!(why, Some(BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof))
}
