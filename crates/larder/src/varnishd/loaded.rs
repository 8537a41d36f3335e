//! All VCLs that are loaded, by their names, and the labels of them.

use std::time::Duration;

use larder_vcl::functions::wildcard::{self, Rules};

use tokio::time::Instant;

use super::care::{Care, Wanted};
use super::vcls::Vcl;

/// What has a name.
#[derive(Debug)]
pub enum Entry {
    /// A VCL.
    Vcl(Box<Vcl>),
    /// A label.
    Label {
        /// Its name.
        name: String,
        /// The name of its VCL.
        vcl: String,
    },
}

impl Entry {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Entry::Vcl(vcl) => &vcl.name,
            Entry::Label { name, .. } => name,
        }
    }

    /// The names of what it needs: the labels that a VCL names, or the VCL of a label.
    pub fn needs(&self) -> &[String] {
        match self {
            Entry::Vcl(vcl) => &vcl.labels,
            Entry::Label { vcl, .. } => std::slice::from_ref(vcl),
        }
    }
}

/// All VCLs and labels, the oldest first.
#[derive(Debug, Default)]
pub struct Vcls {
    all: Vec<Entry>,
    active: Option<String>,
}

/// A VCL that is to answer requests, with those to which it may give them, and those that may take over.
#[derive(Debug)]
pub struct Served<'a> {
    /// The VCL.
    pub vcl: &'a Vcl,
    /// The labels that it names, and those that their VCLs name.
    pub labels: Vec<(&'a str, &'a Vcl)>,
    /// The VCLs that answer no requests, and are kept ready.
    pub ready: Vec<&'a Vcl>,
    /// The labels that only those name.
    pub ready_labels: Vec<(&'a str, &'a Vcl)>,
}

impl<'a> Served<'a> {
    /// One that names no labels.
    #[cfg(test)]
    pub fn alone(vcl: &'a Vcl) -> Served<'a> {
        Served { vcl, labels: Vec::new(), ready: Vec::new(), ready_labels: Vec::new() }
    }

    /// Each VCL that answers requests once, the first one first.
    pub fn answering(&self) -> Vec<&'a Vcl> {
        let mut found = vec![self.vcl];
        for (_, vcl) in &self.labels {
            if found.iter().all(|known| known.name != vcl.name) {
                found.push(vcl);
            }
        }
        found
    }

    /// All of them, with those that are kept ready.
    pub fn all(&self) -> Vec<&'a Vcl> {
        let mut found = self.answering();
        found.extend(&self.ready);
        found
    }
}

/// By what it is judged whether a VCL rests.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// `vcl_cooldown`
    pub cooldown: Duration,
    /// Now.
    pub now: Instant,
}

/// Why a VCL or label cannot be named, used or discarded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No VCL has this name.
    #[error("No VCL named {0} known.")]
    Unknown(String),
    /// Another VCL has it.
    #[error("Already a VCL named {0}")]
    Taken(String),
    /// It cannot be a name.
    #[error("Illegal VCL name (\"{0}\"): a letter, then letters, digits, _, - and .")]
    Invalid(String),
    /// It cannot be the name of a label.
    #[error("Illegal label name (\"{0}\"): a letter, then letters, digits, _ and -")]
    InvalidLabel(String),
    /// Requests are answered by it.
    #[error("Cannot discard active VCL program {0}")]
    Active(String),
    /// It is to rest.
    #[error("VCL '{0}' is cold - set to auto or warm first")]
    Cold(String),
    /// It has labels that stay.
    #[error("Cannot discard labeled VCL program {0}:\n{1}")]
    Labelled(String, String),
    /// VCLs that stay name the label.
    #[error("Cannot discard VCL label {0}, other VCLs depend on it:\n{1}")]
    LabelNeeded(String, String),
    /// No name matches the pattern.
    #[error("No VCL name matches {0}")]
    NoMatch(String),
    /// A VCL has the name.
    #[error("{0} is not a label")]
    NotLabel(String),
    /// A label would stand for another.
    #[error("VCL labels cannot point to labels")]
    LabelOfLabel,
    /// The VCL leads to the label already.
    #[error("Pointing label {0} at {1} would create a loop")]
    Loop(String, String),
    /// There are many.
    #[error("There are {VCLS_MAX} VCLs already: discard some")]
    TooMany,
}

/// How the labels begin that keep VCLs ready in a configuration; operators have no such labels.
pub const READY: &str = "ready--";
/// How many VCLs and labels are kept.
const VCLS_MAX: usize = 1000;

impl Vcls {
    /// Whether a new VCL may have this name.
    pub fn is_free(&self, name: &str) -> Result<(), NameError> {
        match () {
            () if !is_name(name) => Err(NameError::Invalid(name.to_owned())),
            () if self.entry(name).is_some() => Err(NameError::Taken(name.to_owned())),
            () if self.all.len() >= VCLS_MAX => Err(NameError::TooMany),
            () => Ok(()),
        }
    }

    /// Adds one whose name is free.
    pub fn add(&mut self, mut vcl: Vcl) {
        let is_taken = self.vcls().any(|known| known.place == vcl.path);
        if is_taken {
            vcl.place = format!("{} ({})", vcl.path.display(), vcl.name).into();
        }
        self.all.push(Entry::Vcl(Box::new(vcl)));
    }

    /// Forgets the one that was added last.
    pub fn take_back(&mut self) {
        self.all.pop();
    }

    /// The VCLs, without labels.
    pub fn vcls(&self) -> impl Iterator<Item = &Vcl> {
        self.all.iter().filter_map(|entry| match entry {
            Entry::Vcl(vcl) => Some(&**vcl),
            Entry::Label { .. } => None,
        })
    }

    /// Whether a VCL is ready to answer requests: one of use is, and for some time one that was.
    pub fn is_warm(&self, vcl: &Vcl, times: Times) -> bool {
        self.is_of_use(&vcl.name) || vcl.care.is_warm(times.cooldown, times.now)
    }

    /// Whether it answers requests, or has a label.
    fn is_of_use(&self, name: &str) -> bool {
        self.active().is_some_and(|active| active.name == name) || !self.users_of(name).is_empty()
    }

    /// When the next VCL will rest.
    pub fn next_rest(&self, times: Times) -> Option<Instant> {
        let idle = self.vcls().filter(|vcl| !self.is_of_use(&vcl.name));
        idle.filter_map(|vcl| vcl.care.rests_at(times.cooldown, times.now)).min()
    }

    /// What an operator wants of a VCL from now on.
    pub fn care_for(&mut self, name: &str, wanted: Wanted, now: Instant) {
        if let Some(vcl) = self.vcl_mut(name) {
            vcl.care = Care { wanted, idle_since: now };
        }
    }

    fn vcl_mut(&mut self, name: &str) -> Option<&mut Vcl> {
        self.all.iter_mut().find_map(|entry| match entry {
            Entry::Vcl(vcl) if vcl.name == name => Some(&mut **vcl),
            Entry::Vcl(_) | Entry::Label { .. } => None,
        })
    }

    /// Makes a label for a VCL, or moves it there. Returns the name of the VCL that had it.
    pub fn label(&mut self, label: &str, vcl: &str) -> Result<Option<String>, NameError> {
        if !is_name(label) || label.contains('.') || label.starts_with(READY) {
            return Err(NameError::InvalidLabel(label.to_owned()));
        }
        if let Some(Entry::Vcl(_)) = self.entry(label) {
            return Err(NameError::NotLabel(label.to_owned()));
        }
        match self.entry(vcl) {
            None => return Err(NameError::Unknown(vcl.to_owned())),
            Some(Entry::Label { .. }) => return Err(NameError::LabelOfLabel),
            Some(Entry::Vcl(entry)) if entry.care.wanted == Wanted::Cold => {
                return Err(NameError::Cold(vcl.to_owned()));
            }
            Some(Entry::Vcl(_)) => {}
        }
        if self.reached_from(vcl).contains(&label) {
            return Err(NameError::Loop(label.to_owned(), vcl.to_owned()));
        }
        let is_full = self.all.len() >= VCLS_MAX;
        let had = self.all.iter_mut().find_map(|entry| match entry {
            Entry::Label { name, vcl } if name == label => Some(vcl),
            Entry::Label { .. } | Entry::Vcl(_) => None,
        });
        match had {
            Some(had) => Ok(Some(std::mem::replace(had, vcl.to_owned()))),
            None if is_full => Err(NameError::TooMany),
            None => {
                self.all.push(Entry::Label { name: label.to_owned(), vcl: vcl.to_owned() });
                Ok(None)
            }
        }
    }

    /// Gives a label back to the VCL that had it, or takes it away if none had.
    pub fn restore_label(&mut self, label: &str, before: Option<String>) {
        self.all.retain(|entry| before.is_some() || entry.name() != label);
        for entry in &mut self.all {
            if let (Entry::Label { name, vcl }, Some(before)) = (entry, &before)
                && name == label
            {
                vcl.clone_from(before);
            }
        }
    }

    /// The names of all labels.
    pub fn labels(&self) -> Vec<String> {
        let labels = self.all.iter().filter(|entry| matches!(entry, Entry::Label { .. }));
        labels.map(|entry| entry.name().to_owned()).collect()
    }

    /// What has this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.all.iter().find(|entry| entry.name() == name)
    }

    /// The VCL of this name or label.
    pub fn get(&self, name: &str) -> Result<&Vcl, NameError> {
        let unknown = || NameError::Unknown(name.to_owned());
        match self.entry(name).ok_or_else(unknown)? {
            Entry::Vcl(vcl) => Ok(vcl),
            Entry::Label { vcl, .. } => match self.entry(vcl) {
                Some(Entry::Vcl(vcl)) => Ok(vcl),
                Some(Entry::Label { .. }) | None => Err(unknown()),
            },
        }
    }

    /// A VCL with all that it may give requests to.
    pub fn served<'a>(&'a self, vcl: &'a Vcl, times: Times) -> Served<'a> {
        let labels = self.labels_from(std::iter::once(vcl));
        let mut served = Served { vcl, labels, ready: Vec::new(), ready_labels: Vec::new() };
        let answering = served.answering();
        let is_idle = |idle: &&Vcl| answering.iter().all(|vcl| vcl.name != idle.name);
        served.ready = self.vcls().filter(is_idle).filter(|vcl| self.is_warm(vcl, times)).collect();
        let mut more = self.labels_from(served.ready.iter().copied());
        more.retain(|(label, _)| served.labels.iter().all(|(known, _)| known != label));
        served.ready_labels = more;
        served
    }

    /// The labels that VCLs name, and those that their VCLs name, with the VCLs of them.
    fn labels_from<'a>(&'a self, vcls: impl Iterator<Item = &'a Vcl>) -> Vec<(&'a str, &'a Vcl)> {
        let mut labels: Vec<(&str, &Vcl)> = Vec::new();
        let mut to_come: Vec<&String> = vcls.flat_map(|vcl| &vcl.labels).collect();
        while let Some(label) = to_come.pop() {
            if labels.iter().all(|(known, _)| known != label)
                && let Ok(labelled) = self.get(label)
            {
                labels.push((label, labelled));
                to_come.extend(&labelled.labels);
            }
        }
        labels.sort_by_key(|(label, _)| *label);
        labels
    }

    /// The names of all that a VCL or label leads to.
    fn reached_from<'a>(&'a self, name: &'a str) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        let mut to_come = vec![name];
        while let Some(name) = to_come.pop() {
            let needs = self.entry(name).map_or(&[][..], Entry::needs);
            for need in needs.iter().filter(|need| !found.contains(&need.as_str())).collect::<Vec<_>>() {
                found.push(need);
                to_come.push(need);
            }
        }
        found
    }

    /// The VCL that answers requests.
    pub fn active(&self) -> Option<&Vcl> {
        self.active.as_deref().and_then(|name| self.get(name).ok())
    }

    /// Answers requests by this VCL, or that of this label, from now on.
    pub fn activate(&mut self, name: &str, now: Instant) {
        let before = self.active().map(|vcl| vcl.name.clone());
        self.active = Some(name.to_owned());
        if let Some(vcl) = before.and_then(|before| self.vcl_mut(&before)) {
            vcl.care.idle_since = now;
        }
    }

    /// Forgets all VCLs and labels that the patterns match, or none of them.
    pub fn discard(&mut self, patterns: &[String]) -> Result<(), NameError> {
        let rules = Rules { pathname: false, noescape: false, period: false };
        let is_meant = |pattern: &str, name: &str| wildcard::matches(pattern.as_bytes(), name.as_bytes(), rules);
        for pattern in patterns {
            let meant = || self.all.iter().map(Entry::name).filter(|name| is_meant(pattern, name));
            if let Some(active) = meant().find(|name| self.active.as_deref() == Some(*name)) {
                return Err(NameError::Active(active.to_owned()));
            }
            if meant().next().is_none() {
                return Err(NameError::NoMatch(pattern.clone()));
            }
        }
        let goes = |name: &str| patterns.iter().any(|pattern| is_meant(pattern, name));
        for entry in self.all.iter().filter(|entry| goes(entry.name())) {
            let users: Vec<&str> = self.users_of(entry.name());
            if users.iter().all(|user| goes(user)) {
                continue;
            }
            let shown = users.iter().take(USERS_SHOWN).map(|user| format!("\t{user}\n")).collect::<String>();
            let more = if users.len() > USERS_SHOWN { "\t[...]" } else { "" };
            let (name, shown) = (entry.name().to_owned(), format!("{}{more}", shown.trim_end_matches('\n')));
            return Err(match entry {
                Entry::Vcl(_) => NameError::Labelled(name, shown),
                Entry::Label { .. } => NameError::LabelNeeded(name, shown),
            });
        }
        let gone: Vec<String> =
            self.all.iter().map(|entry| entry.name().to_owned()).filter(|name| goes(name)).collect();
        self.all.retain(|entry| !gone.iter().any(|name| name == entry.name()));
        Ok(())
    }

    /// The names of what needs this one.
    pub fn users_of(&self, name: &str) -> Vec<&str> {
        let users = self.all.iter().filter(|entry| entry.needs().iter().any(|need| need == name));
        users.map(Entry::name).collect()
    }

    /// All of them, and whether they are active.
    pub fn list(&self) -> impl Iterator<Item = (&Entry, bool)> {
        self.all.iter().map(|entry| (entry, self.active.as_deref() == Some(entry.name())))
    }
}

/// How many of those that need something are told.
const USERS_SHOWN: usize = 5;

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// VCLs for tests, each with the labels that it names.
#[cfg(test)]
pub fn vcls(names: &[(&str, &[&str])]) -> Vcls {
    let mut vcls = Vcls::default();
    for (name, labels) in names {
        vcls.add(Vcl {
            name: (*name).to_owned(),
            path: "<a>".into(),
            place: "<a>".into(),
            care: Care::new(),
            files: Vec::new(),
            globs: Vec::new(),
            labels: labels.iter().map(|label| (*label).to_owned()).collect(),
            modules: vec!["std"],
        });
    }
    vcls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(vcls: &Vcls) -> Vec<(&str, bool)> {
        vcls.list().map(|(entry, is_active)| (entry.name(), is_active)).collect()
    }

    fn discard(vcls: &mut Vcls, patterns: &str) -> Result<(), String> {
        let patterns: Vec<String> = patterns.split(' ').map(str::to_owned).collect();
        vcls.discard(&patterns).map_err(|error| error.to_string())
    }

    #[test]
    fn a_name_is_given_once_and_the_active_vcl_stays() {
        let mut vcls = vcls(&[("boot", &[]), ("b", &[])]);
        vcls.activate("boot", Instant::now());
        for (name, expected) in [
            ("c-1.x_", Ok(())),
            ("b", Err("Already a VCL named b")),
            ("1", Err("Illegal VCL name (\"1\"): a letter, then letters, digits, _, - and .")),
            ("", Err("Illegal VCL name (\"\"): a letter, then letters, digits, _, - and .")),
            ("a/b", Err("Illegal VCL name (\"a/b\"): a letter, then letters, digits, _, - and .")),
        ] {
            assert_eq!(
                vcls.is_free(name).map_err(|error| error.to_string()),
                expected.map_err(str::to_owned),
                "{name}"
            );
        }
        assert_eq!(discard(&mut vcls, "b*"), Err("Cannot discard active VCL program boot".to_owned()));
        assert_eq!(discard(&mut vcls, "c"), Err("No VCL name matches c".to_owned()));
        assert_eq!(discard(&mut vcls, "b"), Ok(()));
        assert_eq!(names(&vcls), [("boot", true)]);
    }

    #[test]
    fn a_label_is_made_and_moved_but_never_into_a_loop() {
        let mut vcls = vcls(&[("a", &[]), ("b", &["one"]), ("c", &["two"])]);
        for (label, vcl, expected) in [
            ("one", "a", Ok(None)),
            ("two", "b", Ok(None)),
            ("one", "a", Ok(Some("a"))),
            ("x.y", "a", Err("Illegal label name (\"x.y\"): a letter, then letters, digits, _ and -")),
            ("a", "b", Err("a is not a label")),
            ("three", "none", Err("No VCL named none known.")),
            ("three", "one", Err("VCL labels cannot point to labels")),
            ("one", "b", Err("Pointing label one at b would create a loop")),
            ("one", "c", Err("Pointing label one at c would create a loop")),
            ("two", "a", Ok(Some("b"))),
        ] {
            let found = vcls.label(label, vcl).map_err(|error| error.to_string());
            let expected = expected.map(|before: Option<&str>| before.map(str::to_owned)).map_err(str::to_owned);
            assert_eq!(found, expected, "{label} {vcl}");
        }
    }

    #[test]
    fn what_others_need_is_not_discarded_without_them() {
        let mut vcls = vcls(&[("boot", &[]), ("a", &[]), ("b", &["one"])]);
        vcls.activate("boot", Instant::now());
        for label in ["one", "two"] {
            vcls.label(label, "a").unwrap();
        }
        for (patterns, expected) in [
            ("a", Err("Cannot discard labeled VCL program a:\n\tone\n\ttwo")),
            ("a two", Err("Cannot discard labeled VCL program a:\n\tone\n\ttwo")),
            ("one", Err("Cannot discard VCL label one, other VCLs depend on it:\n\tb")),
            ("two", Ok(())),
            ("[ab] one", Ok(())),
        ] {
            assert_eq!(discard(&mut vcls, patterns), expected.map_err(str::to_owned), "{patterns}");
        }
        assert_eq!(names(&vcls), [("boot", true)]);
    }

    #[test]
    fn what_is_served_has_all_that_it_leads_to_each_by_a_path_of_its_own() {
        let mut vcls = vcls(&[("a", &[]), ("b", &["one"]), ("c", &["two", "three"]), ("d", &[])]);
        for (label, vcl) in [("one", "a"), ("two", "b"), ("three", "b"), ("other", "c")] {
            vcls.label(label, vcl).unwrap();
        }
        vcls.activate("other", Instant::now());
        let now = Instant::now();
        let times = Times { cooldown: Duration::from_secs(600), now };
        let served = vcls.served(vcls.active().unwrap(), times);
        let labels: Vec<_> = served.labels.iter().map(|(label, vcl)| (*label, vcl.name.as_str())).collect();
        assert_eq!(labels, [("one", "a"), ("three", "b"), ("two", "b")]);
        let places = served.all().into_iter().map(|vcl| format!("{} {}", vcl.name, vcl.place.display()));
        assert_eq!(places.collect::<Vec<_>>(), ["c <a> (c)", "a <a>", "b <a> (b)", "d <a> (d)"]);
        let ready = |vcls: &Vcls, now: Instant| {
            let served = vcls.served(vcls.active().unwrap(), Times { now, ..times });
            served.ready.iter().map(|vcl| vcl.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(ready(&vcls, now + times.cooldown * 2), [""; 0]);
        vcls.care_for("d", Wanted::Warm, now);
        assert_eq!(ready(&vcls, now + times.cooldown * 2), ["d"]);
    }
}
