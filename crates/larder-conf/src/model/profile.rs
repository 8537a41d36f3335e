//! `larder_profile`: what of an application is for one visitor, and what does not change its pages.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::span::Span;

/// `larder_profile` of a level.
#[derive(Clone, Debug, Default)]
pub struct Profiled {
    /// What is written, in order; none for `off`.
    pub named: Arc<[Named]>,
    /// `lifetimes`: files of which nothing says how long they are fresh have the times of their rows.
    pub lifetimes: bool,
    /// What that comes to where an origin is asked; `None` if it comes to nothing.
    pub profile: Option<Arc<Profile>>,
}

/// A word of `larder_profile`.
#[derive(Clone, Debug)]
pub enum Named {
    /// One of ours, or a file, with its rows.
    Known(Arc<Profile>),
    /// `auto`.
    Auto(Span),
}

/// The rows of one profile or of several.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// What people call it: `wordpress and woocommerce`, or the path of a file.
    pub name: String,
    /// Its rows, and before them those of the profiles that it goes `with`.
    pub rows: Vec<ProfileRow>,
    /// `else personal`: what is no file by `static` is for one visitor.
    pub only_static: bool,
    /// `tags`: fields of answers that have the tags of a page.
    pub tags: Vec<String>,
    /// `purge`: the clients that purge its pages.
    pub purge: Vec<String>,
}

/// A row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileRow {
    /// What it says.
    pub says: Says,
    /// Of what.
    pub pattern: Glob,
    /// The profile that has it, and the line there, from 1.
    pub place: (Arc<str>, u32),
}

impl ProfileRow {
    /// How long a file is fresh, by a row that calls it one.
    pub fn lifetime(&self) -> Option<Duration> {
        match self.says {
            Says::Static(ttl) => ttl,
            Says::Personal(_)
            | Says::IgnoredCookie
            | Says::KeyedCookie
            | Says::IgnoredArgument
            | Says::First(_)
            | Says::Last(_) => None,
        }
    }
}

/// What a row says of a request that has such a cookie, path, argument or field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Says {
    /// It is for one visitor: neither answered from the cache nor stored.
    Personal(Part),
    /// The cookie changes no page: it does not go to the origin with what may be stored.
    IgnoredCookie,
    /// The cookie changes pages, which the key tells apart.
    KeyedCookie,
    /// The argument changes no page: it is in no key, and does not go to the origin with what may be stored.
    IgnoredArgument,
    /// A file, which is the same whatever cookies come with the request. How long it is fresh where nothing says it, if
    /// `larder_profile` has `lifetimes`.
    Static(Option<Duration>),
    /// It comes first where origins are scarce.
    First(Part),
    /// It comes last there.
    Last(Part),
}

/// A part of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The name of a cookie.
    Cookie,
    /// The path, from one of its slashes on.
    Path,
    /// The name of an argument, perhaps with its value.
    Argument,
    /// The name of a field.
    Field,
    /// `User-Agent`.
    Agent,
}

impl Part {
    /// The word for it in a profile.
    pub fn word(self) -> &'static str {
        match self {
            Self::Cookie => "cookie",
            Self::Path => "path",
            Self::Argument => "argument",
            Self::Field => "field",
            Self::Agent => "agent",
        }
    }
}

/// A text with one `*` at most, which stands for any bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob {
    /// What stands before the `*`, or all.
    pub start: String,
    /// What stands behind the `*`; `None` without one.
    pub end: Option<String>,
}

impl Glob {
    /// `None` with more than one `*`.
    pub fn of(text: &str) -> Option<Self> {
        match text.split_once('*') {
            None => Some(Self { start: text.to_owned(), end: None }),
            Some((_, end)) if end.contains('*') => None,
            Some((start, end)) => Some(Self { start: start.to_owned(), end: Some(end.to_owned()) }),
        }
    }

    /// How many bytes it names.
    pub fn weight(&self) -> usize {
        // Without a `*` it means one text, and says more than any that has one.
        self.end.as_ref().map_or(usize::MAX, |end| self.start.len() + end.len())
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.start)?;
        self.end.as_ref().map_or(Ok(()), |end| write!(f, "*{end}"))
    }
}
