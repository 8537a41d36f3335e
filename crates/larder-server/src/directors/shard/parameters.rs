//! How a shard director is asked: the arguments of `.backend()`, and sets of them (`directors.shard_param()`).

/// What is hashed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// The key of the page; before a fetch has begun, the URL.
    #[default]
    Hash,
    /// The URL.
    Url,
    /// This number.
    Key(u32),
    /// This number, which came as a blob.
    Blob(u32),
}

impl By {
    /// Varnish's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hash => "HASH",
            Self::Url => "URL",
            Self::Key(_) => "KEY",
            Self::Blob(_) => "BLOB",
        }
    }
}

/// Whose health counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Healthy {
    /// That of the member that is chosen.
    #[default]
    Chosen,
    /// Nobody's.
    Ignore,
    /// That of members that are passed over, too.
    All,
}

impl Healthy {
    /// All of them, in the order of Varnish's ENUM.
    pub const ALL: [Self; 3] = [Self::Chosen, Self::Ignore, Self::All];

    /// Varnish's word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Chosen => "CHOSEN",
            Self::Ignore => "IGNORE",
            Self::All => "ALL",
        }
    }
}

/// A set of arguments, of which any may be missing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Set {
    /// `by`, with `key` or `key_blob`.
    pub by: Option<By>,
    /// `alt`
    pub alt: Option<u64>,
    /// `warmup`
    pub warmup: Option<f64>,
    /// `rampup`
    pub rampup: Option<bool>,
    /// `healthy`
    pub healthy: Option<Healthy>,
}

/// How a member is chosen, once it is all known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// What is hashed.
    pub by: By,
    /// The how many-th member behind the first one is wanted.
    pub alt: u64,
    /// How often the next member is taken instead, from 0 to 1; `None` if the director says it.
    pub warmup: Option<f64>,
    /// Whether a member that has just become healthy gets only a part of its requests.
    pub rampup: bool,
    /// Whose health counts.
    pub healthy: Healthy,
}

impl Set {
    /// What it says, and of what it does not say, what the other one says.
    pub fn or(self, other: Set) -> Set {
        Set {
            by: self.by.or(other.by),
            alt: self.alt.or(other.alt),
            warmup: self.warmup.or(other.warmup),
            rampup: self.rampup.or(other.rampup),
            healthy: self.healthy.or(other.healthy),
        }
    }

    /// The question, with Varnish's defaults for what it does not say.
    pub fn question(self) -> Question {
        Question {
            by: self.by.unwrap_or_default(),
            alt: self.alt.unwrap_or(0),
            warmup: self.warmup.filter(|warmup| *warmup >= 0.0),
            rampup: self.rampup.unwrap_or(true),
            healthy: self.healthy.unwrap_or_default(),
        }
    }
}

/// What a request to a backend has said about shard directors and sets, each by its number among the objects of the
/// VCL. It is forgotten with the request.
#[derive(Clone, Debug, Default)]
pub struct TaskSets {
    sets: Vec<(usize, Set)>,
    asked: Vec<(usize, Asked)>,
}

/// What a call of `.backend(resolve=LAZY)` has said for later.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Asked {
    /// Its arguments.
    pub set: Set,
    /// The object that is the set behind them (`param`), if it was given.
    pub param: Option<usize>,
}

impl TaskSets {
    /// Changes a set for this request.
    pub fn put(&mut self, object: usize, set: Set) {
        put(&mut self.sets, object, set);
    }

    /// The set as it was changed for this request; one that was not says nothing.
    pub fn get(&self, object: usize) -> Set {
        get(&self.sets, object).unwrap_or_default()
    }

    /// Keeps how a director is to be asked.
    pub fn ask(&mut self, director: usize, asked: Asked) {
        put(&mut self.asked, director, asked);
    }

    /// How a director is to be asked.
    pub fn asked(&self, director: usize) -> Asked {
        get(&self.asked, director).unwrap_or_default()
    }
}

fn put<T>(all: &mut Vec<(usize, T)>, object: usize, value: T) {
    match all.iter_mut().find(|(known, _)| *known == object) {
        Some((_, known)) => *known = value,
        None => all.push((object, value)),
    }
}

fn get<T: Copy>(all: &[(usize, T)], object: usize) -> Option<T> {
    all.iter().find(|(known, _)| *known == object).map(|(_, value)| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_set_that_says_something_decides_it() {
        let one = Set { by: Some(By::Key(1)), alt: Some(2), ..Set::default() };
        let two = Set { by: Some(By::Url), warmup: Some(0.5), rampup: Some(false), ..Set::default() };
        let asked = one.or(two).question();
        let expected = Question { by: By::Key(1), alt: 2, warmup: Some(0.5), rampup: false, healthy: Healthy::Chosen };
        assert_eq!(asked, expected);
        let plain = Set { warmup: Some(-1.0), ..Set::default() }.question();
        assert_eq!((plain.by, plain.alt, plain.warmup, plain.rampup), (By::Hash, 0, None, true));
    }

    #[test]
    fn what_a_request_says_replaces_what_it_said_before() {
        let mut task = TaskSets::default();
        let alt = |alt| Set { alt: Some(alt), ..Set::default() };
        task.put(3, alt(1));
        task.put(4, alt(2));
        task.put(3, Set { by: Some(By::Url), ..Set::default() });
        assert_eq!((task.get(3).alt, task.get(4).alt, task.get(5)), (None, Some(2), Set::default()));
        task.ask(1, Asked { set: alt(7), param: Some(3) });
        assert_eq!((task.asked(1).param, task.asked(2)), (Some(3), Asked::default()));
    }
}
