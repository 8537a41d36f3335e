//! Takes a node that is away off the list, before its day is over.

use redis::Value;

use crate::fault::Fault;
use crate::link::Link;
use crate::shared::{BEAT_MS, Shared};

/// Why a node is not forgotten.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForgetError {
    /// It is the one that was asked.
    #[error("the node \"{0}\" is the one that was asked: when it ends in order it leaves the list")]
    Own(String),
    /// It would note at once that it is there.
    #[error("the node \"{node}\" is there, or was within the last {secs} s: it would be in the list again", node = .0, secs = BEAT_MS / 1000)]
    There(String),
    /// Nobody is called so.
    #[error("no node is called \"{0}\": \"larder cluster status\" names them")]
    Unknown(String),
    /// The server is of no use.
    #[error("{server} {fault}")]
    Fault {
        /// The server, without the password.
        server: String,
        /// Why it is not.
        fault: Fault,
    },
}

/// Forgets a node, over a connection of its own. Waits for the server.
pub(crate) fn forget(shared: &Shared, node: &str) -> Result<(), ForgetError> {
    if *shared.node.lock() == node {
        return Err(ForgetError::Own(node.to_owned()));
    }
    let failed = |fault| ForgetError::Fault { server: shared.settings.shown(), fault };
    let mut link = Link::open(&shared.settings).map_err(failed)?;
    let (nodes, at) = (&shared.keys.nodes, shared.keys.at(node));
    let mut question = redis::pipe();
    question.cmd("HEXISTS").arg(nodes).arg(node);
    question.cmd("EXISTS").arg(&at);
    match link.ask(&question).map_err(failed)?[..] {
        [_, Value::Int(1..)] => return Err(ForgetError::There(node.to_owned())),
        [Value::Int(1..), _] => {}
        _ => return Err(ForgetError::Unknown(node.to_owned())),
    }
    let mut commands = redis::pipe();
    commands.cmd("HDEL").arg(nodes).arg(node);
    commands.cmd("DEL").arg(&at);
    link.ask(&commands).map_err(failed)?;
    // The reader looks once a second.
    shared.looked.lock().nodes.retain(|seen| seen.name != node);
    Ok(())
}
