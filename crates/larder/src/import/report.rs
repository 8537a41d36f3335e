//! What is said of a configuration of another server: what works, what differs, and how to switch over and back.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::remark::Remark;

/// The whole answer.
#[derive(Debug, Default)]
pub struct Report {
    /// What was read, in a line: `nginx: /etc/nginx/nginx.conf and 8 files that it includes`.
    pub read: String,
    /// What works, by lines.
    pub works: Vec<String>,
    /// What does not work.
    pub refused: Vec<Remark>,
    /// What is different with larder.
    pub differs: Vec<Remark>,
    /// What has no effect and needs none; for programs, as people get the number.
    pub without_effect: Vec<Remark>,
    /// What could not be looked at.
    pub unknown: Vec<Remark>,
    /// What is likely to be a mistake, before and after.
    pub likely: Vec<Remark>,
    /// larder's configuration that stands in for it, if it is another.
    pub configuration: Option<String>,
    /// The commands that switch over, as root.
    pub switch_over: Vec<String>,
    /// The way back.
    pub way_back: Vec<String>,
    /// What the commands need that is not there: names below the folder of `--write`, and texts.
    pub files: Vec<(PathBuf, String)>,
}

impl Report {
    /// Sorts errors: that somebody who is not root may not read a key says nothing of the configuration.
    pub fn refuse(&mut self, errors: impl IntoIterator<Item = Remark>) {
        let is_root = rustix::process::geteuid().is_root();
        let (unknown, refused): (Vec<_>, Vec<_>) =
            errors.into_iter().partition(|error| !is_root && error.is_forbidden());
        self.unknown.extend(unknown);
        self.refused.extend(refused);
    }

    /// Whether all of it works.
    pub fn works(&self) -> bool {
        self.refused.is_empty()
    }

    /// For people.
    pub fn as_text(&self) -> String {
        let mut text = format!("{}\n", self.read);
        section(&mut text, "Works:", self.works.iter().cloned());
        section(&mut text, "Does not work:", self.refused.iter().flat_map(lines));
        section(&mut text, "Differs:", self.differs.iter().flat_map(lines));
        section(&mut text, "Not known:", self.unknown.iter().flat_map(lines));
        section(&mut text, "Likely mistakes, which larder does not change:", self.likely.iter().flat_map(lines));
        if let Some(configuration) = &self.configuration {
            let lines = configuration.lines().map(str::to_owned);
            section(&mut text, "As a configuration of larder's own:", lines);
        }
        let title = match self.works() {
            true => "Switch over, as root:",
            false => "Switch over, as root, when what does not work is mended or taken out:",
        };
        section(&mut text, title, self.switch_over.iter().cloned());
        section(&mut text, "The way back:", self.way_back.iter().cloned());
        text
    }

    /// For programs.
    pub fn as_json(&self) -> Value {
        let remarks = |all: &[Remark]| all.iter().map(Remark::as_json).collect::<Vec<_>>();
        json!({
            "read": self.read,
            "works": self.works(),
            "fine": self.works,
            "refused": remarks(&self.refused),
            "differs": remarks(&self.differs),
            "without_effect": remarks(&self.without_effect),
            "unknown": remarks(&self.unknown),
            "likely": remarks(&self.likely),
            "configuration": self.configuration,
            "switch_over": self.switch_over,
            "way_back": self.way_back,
        })
    }

    /// Writes the files and the report itself into `folder`. What is there is an error, and stays as it is.
    pub fn write_into(&self, folder: &Path) -> io::Result<()> {
        make_own(folder).map_err(at(folder))?;
        let report = (PathBuf::from("report.txt"), self.as_text());
        for (name, text) in self.files.iter().chain([&report]) {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(at(parent))?;
            }
            let mut file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at(&path))?;
            file.write_all(text.as_bytes()).map_err(at(&path))?;
        }
        Ok(())
    }
}

/// Makes the folder, unless it is there and nobody else can write there: what is written is started as root, and links of
/// others would lead elsewhere.
fn make_own(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    let facts = fs::symlink_metadata(folder)?;
    let is_own = facts.is_dir() && facts.uid() == geteuid().as_raw() && facts.mode() & 0o022 == 0;
    match is_own {
        true => Ok(()),
        false => Err(io::Error::other("others can write there, or it is a link: name a folder that is not there yet")),
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn section(text: &mut String, title: &str, lines: impl Iterator<Item = String>) {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        text.push_str(&format!("\n{title}\n"));
    }
    for line in lines {
        text.push_str(&format!("    {line}"));
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
}

/// A remark, and what to do below it.
fn lines(remark: &Remark) -> Vec<String> {
    let first = match &remark.label {
        Some(label) => format!("{} ({label})", remark.in_a_line()),
        None => remark.in_a_line(),
    };
    std::iter::once(first).chain(remark.help.as_ref().map(|help| format!("    {help}"))).collect()
}

#[cfg(test)]
mod tests {
    use larder_conf::Severity;

    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn report() -> Report {
        let refused = Remark {
            severity: Severity::Error,
            message: "no".to_owned(),
            span: None,
            place: Some(("/a".into(), 3)),
            label: Some("there".to_owned()),
            help: Some("yes".to_owned()),
        };
        Report {
            read: "nginx: /a".to_owned(),
            works: vec!["the rest".to_owned()],
            refused: vec![refused],
            switch_over: vec!["one".to_owned(), "two".to_owned()],
            way_back: vec!["back".to_owned()],
            files: vec![("d/larder.conf".into(), "text\n".to_owned())],
            ..Report::default()
        }
    }

    #[test]
    fn it_says_what_does_not_work_and_where() {
        let expected = "nginx: /a\n\nWorks:\n    the rest\n\nDoes not work:\n    /a:3: no (there)\n        yes\n\n\
                        Switch over, as root, when what does not work is mended or taken out:\n    one\n    two\n\n\
                        The way back:\n    back\n";
        assert_eq!(report().as_text(), expected);
        let json = report().as_json();
        assert_eq!((&json["works"], &json["refused"][0]["line"]), (&json!(false), &json!(3)));
    }

    #[test]
    fn nothing_that_is_there_is_changed() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("new");
        report().write_into(&to).unwrap();
        assert_eq!(fs::read_to_string(to.join("d/larder.conf")).unwrap(), "text\n");
        assert!(fs::read_to_string(to.join("report.txt")).unwrap().starts_with("nginx: /a"));
        fs::write(to.join("d/larder.conf"), "mine").unwrap();
        let error = report().write_into(&to).unwrap_err();
        assert!(error.to_string().contains("d/larder.conf"), "{error}");
        assert_eq!(fs::read_to_string(to.join("d/larder.conf")).unwrap(), "mine");
    }

    #[test]
    fn nothing_is_written_where_others_can() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path(), &link).unwrap();
        for place in [&open, &link] {
            let error = report().write_into(place).unwrap_err();
            assert!(error.to_string().contains("others can write there"), "{error}");
        }
        assert_eq!(fs::read_dir(&open).unwrap().count(), 0);
    }
}
