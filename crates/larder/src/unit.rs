//! Units of systemd, with their drop-ins: what a service of a machine is told, whether systemd runs or not.
//!
//! Sources: systemd.unit(5), systemd.syntax(7).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::machine::{Machine, Unread};

/// A unit.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Its file, and its drop-ins in the order in which they are read.
    pub files: Vec<PathBuf>,
    settings: Vec<(String, Setting)>,
}

/// A value, and where it is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// With the lines that it goes on in joined.
    pub value: String,
    /// The file.
    pub file: PathBuf,
    /// Its line, from 1.
    pub line: usize,
}

impl Unit {
    /// The unit of that name, such as `larder.service`; `None` if the machine has none.
    pub fn read(machine: &Machine, name: &str) -> Result<Option<Unit>, Unread> {
        let mut unit = Unit { files: Vec::new(), settings: Vec::new() };
        let Some(main) = FOLDERS.iter().map(|folder| Path::new(folder).join(name)).find(|path| machine.has(path))
        else {
            return Ok(None);
        };
        // One name is read once: from the first of the folders that has it.
        let mut beside: BTreeMap<PathBuf, PathBuf> = BTreeMap::new();
        for folder in FOLDERS {
            for path in machine.files(&format!("{folder}/{name}.d/*.conf")) {
                let file = path.file_name().map(PathBuf::from).unwrap_or_default();
                beside.entry(file).or_insert(path);
            }
        }
        for path in std::iter::once(main).chain(beside.into_values()) {
            let text = machine.text(&path)?;
            unit.take(&path, &text);
            unit.files.push(path);
        }
        Ok(Some(unit))
    }

    fn take(&mut self, file: &Path, text: &str) {
        let mut lines = text.lines().enumerate();
        while let Some((at, first)) = lines.next() {
            if is_comment(first) {
                continue;
            }
            let mut whole = first.trim().to_owned();
            while let Some(begun) = whole.strip_suffix('\\') {
                let begun = begun.trim_end().to_owned();
                // A comment between does not end it.
                let next =
                    lines.by_ref().map(|(_, line)| line).find(|line| !is_comment(line) || line.trim().is_empty());
                whole = format!("{begun} {}", next.unwrap_or_default().trim()).trim_end().to_owned();
            }
            if let Some((key, value)) = whole.split_once('=') {
                let (key, value) = (key.trim().to_owned(), value.trim().to_owned());
                self.settings.push((key, Setting { value, file: file.to_owned(), line: at + 1 }));
            }
        }
    }

    /// All values of a key that hold: an empty one forgets those before.
    pub fn all(&self, key: &str) -> Vec<&Setting> {
        let mut found = Vec::new();
        for (_, setting) in self.settings.iter().filter(|(own, _)| own == key) {
            match setting.value.is_empty() {
                true => found.clear(),
                false => found.push(setting),
            }
        }
        found
    }

    /// The last of them.
    pub fn last(&self, key: &str) -> Option<&Setting> {
        self.all(key).pop()
    }

    /// Whether a switch is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.last(key).is_some_and(|setting| ["yes", "true", "on", "1"].contains(&setting.value.as_str()))
    }

    /// The setting by which the service does not see a path of the machine (systemd.exec(5)).
    pub fn hides(&self, path: &Path) -> Option<String> {
        let keys = [("PrivateTmp", &["/tmp", "/var/tmp"][..]), ("ProtectHome", &["/home", "/root", "/run/user"])];
        keys.into_iter().find_map(|(key, folders)| {
            let value = &self.last(key)?.value;
            let is_hidden = self.is_on(key) || ["tmpfs", "disconnected"].contains(&value.as_str());
            let is_below = folders.iter().any(|folder| path.starts_with(folder));
            (is_hidden && is_below).then(|| format!("{key}={value}"))
        })
    }
}

fn is_comment(line: &str) -> bool {
    matches!(line.trim_start().bytes().next(), None | Some(b'#' | b';' | b'['))
}

/// Where units are, the strongest first.
const FOLDERS: [&str; 5] = [
    "/etc/systemd/system",
    "/run/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_unit_is_read_with_its_drop_ins() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "usr/lib/systemd/system/a.service",
            "[Service]\n# no\nExecStart=/bin/a \\\n# between\n    -x \\\n  -y\nLimitNOFILE=5\nPrivateTmp=yes\nEnvironment=A=1\nEnvironment=B=2\n",
        );
        write("usr/lib/systemd/system/a.service.d/20.conf", "[Service]\nLimitNOFILE=6\n");
        write("etc/systemd/system/a.service.d/20.conf", "[Service]\nLimitNOFILE=7\n");
        write("etc/systemd/system/a.service.d/10.conf", "[Service]\nExecStart=\nExecStart=/bin/b\n");
        let machine = Machine::at(root.path()).unwrap();
        let unit = Unit::read(&machine, "a.service").unwrap().unwrap();
        let value = |key: &str| unit.last(key).map(|setting| setting.value.as_str());
        assert_eq!(unit.files.len(), 3);
        assert_eq!((value("LimitNOFILE"), value("ExecStart")), (Some("7"), Some("/bin/b")));
        assert_eq!(unit.all("Environment").len(), 2);
        assert!(unit.is_on("PrivateTmp") && !unit.is_on("ExecStart") && !unit.is_on("Nothing"));
        assert_eq!(unit.last("ExecStart").unwrap().line, 3);
        assert_eq!(unit.hides(Path::new("/tmp/a")).as_deref(), Some("PrivateTmp=yes"));
        assert_eq!(unit.hides(Path::new("/home/a")).or(unit.hides(Path::new("/tmpa"))), None);
        assert!(Unit::read(&machine, "b.service").unwrap().is_none());
        let mut alone = Unit { files: Vec::new(), settings: Vec::new() };
        alone.take(Path::new("/a"), "ExecStart=/bin/a \\\n# between\n    -x \\\n  -y\nLast=1 \\");
        assert_eq!(alone.last("ExecStart").unwrap().value, "/bin/a -x -y");
        assert_eq!(alone.last("Last").unwrap().value, "1");
    }
}
