//! The accounts of a machine, and what they may do with a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use crate::machine::Machine;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    uid: u32,
    /// All groups it is in.
    gids: Vec<u32>,
}

impl Account {
    /// The account of that name, by `/etc/passwd` and `/etc/group`; with `group` in place of its own groups.
    pub fn named(machine: &Machine, name: &str, group: Option<&str>) -> Option<Account> {
        let passwd = machine.text("/etc/passwd").ok()?;
        let groups = machine.text("/etc/group").unwrap_or_default();
        let line = |text: &str, wanted: &str| -> Option<Vec<String>> {
            let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
            text.lines().map(fields).find(|fields| fields.first().is_some_and(|first| first == wanted))
        };
        let user = line(&passwd, name)?;
        let uid = user.get(2)?.parse().ok()?;
        let number = |fields: Vec<String>| fields.get(2).and_then(|field| field.parse::<u32>().ok());
        let own = match group {
            Some(group) => number(line(&groups, group)?)?,
            // As larder chooses: the group with the user's name, or else the primary one.
            None => line(&groups, name).and_then(number).or_else(|| user.get(3)?.parse().ok())?,
        };
        let has_it =
            |fields: &Vec<&str>| fields.get(3).is_some_and(|members| members.split(',').any(|one| one == name));
        let more = groups.lines().map(|line| line.split(':').collect::<Vec<_>>()).filter(has_it);
        let more = more.filter_map(|fields| fields.get(2)?.parse().ok());
        Some(Account { name: name.to_owned(), uid, gids: std::iter::once(own).chain(more).collect() })
    }

    /// Whether it may write to a file, and so connect to a socket, as far as its mode says.
    pub fn may_write(&self, file: &Metadata) -> bool {
        const WRITE: u32 = 0o2;
        let mode = file.mode();
        let granted = if self.uid == 0 {
            return true;
        } else if self.uid == file.uid() {
            mode >> 6
        } else if self.gids.contains(&file.gid()) {
            mode >> 3
        } else {
            mode
        };
        granted & WRITE != 0
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn an_account_is_in_its_groups() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("etc")).unwrap();
        let me = fs::metadata(root.path()).unwrap();
        let (uid, gid) = (me.uid(), me.gid());
        let passwd = format!("web:x:{}:{}::/:\nown:x:{uid}:5::/:\nodd\n", uid + 1, gid + 1);
        let groups = format!("web:x:{}:\nphp:x:{gid}:web,other\nalone:x:77:\n", gid + 1);
        fs::write(root.path().join("etc/passwd"), passwd).unwrap();
        fs::write(root.path().join("etc/group"), groups).unwrap();
        let machine = Machine::at(root.path()).unwrap();
        let file = root.path().join("file");
        fs::write(&file, "").unwrap();
        for (name, group, mode, expected) in [
            ("web", None, 0o660, Some(true)),
            ("web", None, 0o640, Some(false)),
            ("web", None, 0o602, Some(false)),
            ("web", Some("alone"), 0o660, Some(true)),
            ("own", None, 0o600, Some(true)),
            ("none", None, 0o666, None),
            ("web", Some("none"), 0o666, None),
            ("odd", None, 0o666, None),
        ] {
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
            let account = Account::named(&machine, name, group);
            let may = account.map(|account| account.may_write(&fs::metadata(&file).unwrap()));
            assert_eq!(may, expected, "{name} {group:?} {mode:o}");
        }
    }
}
