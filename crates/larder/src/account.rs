//! The user and group that the serving process becomes.

use std::ffi::CString;

use larder_conf::model::Main;
use nix::unistd::{Gid, Group, Uid, User, initgroups, setgid, setuid};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities, set_keep_capabilities};

use crate::oserror::CallFailed;

/// A user and a group of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The user's name, which decides the supplementary groups.
    pub name: String,
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// Whether it keeps the capability to connect from addresses of other machines: `*_bind ... transparent`.
    pub binds_anywhere: bool,
}

/// Why there is no such account. The texts are nginx's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// No such user.
    #[error("getpwnam(\"{0}\") failed")]
    NoUser(String),
    /// No such group.
    #[error("getgrnam(\"{0}\") failed")]
    NoGroup(String),
}

/// The account that `user` names, or `nobody`. `None` if this process is not root, so that it keeps its user.
pub fn of(main: &Main) -> Result<Option<Account>, AccountError> {
    if !nix::unistd::geteuid().is_root() {
        return Ok(None);
    }
    let found = match &main.user {
        Some(user) => find(&user.value.0, user.value.1.as_deref()),
        None => find(DEFAULT_USER, None),
    };
    found.map(|account| Some(Account { binds_anywhere: main.binds_anywhere, ..account }))
}

/// Looks up a user and its group: `group`, or else the group with the user's name, or else the user's primary group.
fn find(name: &str, group: Option<&str>) -> Result<Account, AccountError> {
    let user = user_named(name).ok_or_else(|| AccountError::NoUser(name.to_owned()))?;
    let gid = match group {
        Some(group) => group_named(group).ok_or_else(|| AccountError::NoGroup(group.to_owned()))?,
        None => group_named(name).unwrap_or(user.gid),
    };
    Ok(Account { name: name.to_owned(), uid: user.uid.as_raw(), gid: gid.as_raw(), binds_anywhere: false })
}

fn user_named(name: &str) -> Option<User> {
    // The library panics on a zero byte.
    (!name.contains('\0')).then(|| User::from_name(name).ok().flatten())?
}

fn group_named(name: &str) -> Option<Gid> {
    let group = (!name.contains('\0')).then(|| Group::from_name(name).ok().flatten())?;
    group.map(|group| group.gid)
}

impl Account {
    /// Changes this process to that account, for good.
    pub fn become_it(&self) -> Result<(), CallFailed> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        setgid(gid).map_err(|error| CallFailed::on("setgid", self.gid, error))?;
        let name = CString::new(self.name.as_str()).unwrap_or_default();
        initgroups(&name, gid).map_err(|error| CallFailed::on("initgroups", &self.name, error))?;
        if self.binds_anywhere {
            set_keep_capabilities(true).map_err(|error| CallFailed::new("prctl", error))?;
        }
        setuid(uid).map_err(|error| CallFailed::on("setuid", self.uid, error))?;
        if self.binds_anywhere {
            let right = CapabilitySet::NET_RAW;
            let only = CapabilitySets { effective: right, permitted: right, inheritable: CapabilitySet::empty() };
            set_capabilities(None, only).map_err(|error| CallFailed::new("capset", error))?;
        }
        // After a change of user, the kernel hides /proc/self and forbids core files until this is set.
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::Dumpable)
            .map_err(|error| CallFailed::new("prctl", error))
    }
}

/// nginx's default; its group is that user's primary group.
const DEFAULT_USER: &str = "nobody";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_with_a_group() {
        let root = |gid| Account { name: "root".to_owned(), uid: 0, gid, binds_anywhere: false };
        let daemon = Group::from_name("daemon").unwrap().expect("daemon is everywhere").gid;
        for (user, group, expected) in [
            ("root", None, Ok(root(0))),
            ("root", Some("daemon"), Ok(root(daemon.as_raw()))),
            ("no such user", None, Err(AccountError::NoUser("no such user".to_owned()))),
            ("a\0b", None, Err(AccountError::NoUser("a\0b".to_owned()))),
            ("root", Some("no such"), Err(AccountError::NoGroup("no such".to_owned()))),
            ("root", Some("\0"), Err(AccountError::NoGroup("\0".to_owned()))),
        ] {
            assert_eq!(find(user, group), expected, "{user} {group:?}");
        }
    }

    #[test]
    fn nobody_has_a_group_even_where_none_is_named_so() {
        let nobody = find(DEFAULT_USER, None).expect("nobody is everywhere");
        assert_ne!(nobody.uid, 0);
        assert_ne!(nobody.gid, 0);
    }
}
