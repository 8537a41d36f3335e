//! The functions of the module `unix`: who is at the other end of a Unix socket.

use larder_conf::model::LogLevel;
use larder_vcl::run::{Failure, Texts, Value};
use nix::unistd::{Gid, Group, Uid, User};

use crate::policy::vcl::task::Run;

use super::{kept, unbuilt};

/// Calls one of them. At another socket the numbers are -1 and the names are not there, and the log says why.
pub fn call(run: &Run<'_>, name: &str, texts: &mut Texts<'_>) -> Result<Value, Failure> {
    let Some((uid, gid)) = run.ex.asked.client.ids else {
        let why = format_args!("vmod unix error: not listening on a Unix domain socket");
        run.cx.local.logs.error(run.cx, run.ex, LogLevel::Error, why);
        return Ok(if matches!(name, "uid" | "gid") { Value::Int(-1) } else { Value::Text(None) });
    };
    match name {
        "uid" => Ok(Value::Int(uid.into())),
        "gid" => Ok(Value::Int(gid.into())),
        "user" => {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            kept(user.as_ref().map(|user| user.name.as_bytes()), texts)
        }
        "group" => {
            let group = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
            kept(group.as_ref().map(|group| group.name.as_bytes()), texts)
        }
        _ => Err(unbuilt(&format!("unix.{name}()"))),
    }
}
