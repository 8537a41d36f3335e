//! What a row of a table says.

use crate::contexts::Contexts;
use crate::cx::Cx;
use crate::diagnostic::Outcome;
use crate::level::{HttpParts, Level};
use crate::model::{Main, Upstream};
use crate::tree::Directive;

pub(super) const MAIN: Contexts = Contexts::MAIN;
pub(super) const EVENTS: Contexts = Contexts::EVENTS;
pub(super) const HTTP: Contexts = Contexts::HTTP;
pub(super) const SERVER: Contexts = Contexts::SERVER;
pub(super) const LOCATION: Contexts = Contexts::LOCATION;
pub(super) const UPSTREAM: Contexts = Contexts::UPSTREAM;
pub(super) const LIMIT_EXCEPT: Contexts = Contexts::LIMIT_EXCEPT;
/// `http`, `server`.
pub(super) const HS: Contexts = HTTP.or(SERVER);
/// `http`, `server`, `location`: where most may stand.
pub(super) const HSL: Contexts = HS.or(LOCATION);
/// The same and `if` in `location`.
pub(super) const HSLI: Contexts = HSL.or(Contexts::IF_IN_LOCATION);

/// How many arguments a directive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Args {
    /// `on` or `off`.
    Flag,
    /// This many to that many.
    Between(usize, usize),
    /// This many or more.
    AtLeast(usize),
}

impl Args {
    pub(super) fn accept(self, count: usize) -> bool {
        match self {
            Self::Flag => count == 1,
            Self::Between(min, max) => (min..=max).contains(&count),
            Self::AtLeast(min) => count >= min,
        }
    }

    pub(super) fn describe(self) -> String {
        match self {
            Self::Flag => "\"on\" or \"off\"".to_owned(),
            Self::Between(0, 0) => "no argument".to_owned(),
            Self::Between(1, 1) => "one argument".to_owned(),
            Self::Between(min, max) if min == max => format!("{min} arguments"),
            Self::Between(min, max) => format!("{min} to {max} arguments"),
            Self::AtLeast(1) => "one argument or more".to_owned(),
            Self::AtLeast(min) => format!("{min} arguments or more"),
        }
    }
}

/// A directive that larder knows.
#[derive(Clone, Copy, Debug)]
pub struct DirectiveInfo {
    /// Its name.
    pub name: &'static str,
    /// Where it may stand.
    pub contexts: Contexts,
    /// What it takes.
    pub args: Args,
    /// Whether braces follow.
    pub is_block: bool,
    /// Whether it may stand more than once in a level.
    pub repeats: bool,
    pub(crate) action: Action,
}

/// How larder stands to a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It does what it does in nginx.
    Built,
    /// Nothing comes of it, and a site works without it.
    Harmless,
    /// It is an error.
    Refused,
}

impl DirectiveInfo {
    /// How larder stands to it.
    pub fn standing(&self) -> Standing {
        match self.action {
            Action::Main(_)
            | Action::Level(_)
            | Action::Http(_)
            | Action::Group(_)
            | Action::Script
            | Action::Block(_) => Standing::Built,
            Action::Harmless(_) | Action::Lost(_) | Action::Obsolete(_) => Standing::Harmless,
            Action::Refused(_) => Standing::Refused,
        }
    }
}

/// What is done with a directive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Sets something of the process.
    Main(fn(&mut Main, &mut Cx<'_>, &Directive) -> Outcome),
    /// Sets something of the level it stands in.
    Level(fn(&mut Level, &mut Cx<'_>, &Directive) -> Outcome),
    /// Adds something to `http`.
    Http(fn(&mut HttpParts, &mut Cx<'_>, &Directive) -> Outcome),
    /// Sets something of an `upstream`.
    Group(fn(&mut Upstream, &mut Cx<'_>, &Directive) -> Outcome),
    /// Is run for each request, in order.
    Script,
    /// Opens a level.
    Block(BlockKind),
    /// Does nothing and need not, for this reason.
    Harmless(&'static str),
    /// Does nothing though something was wanted of it that is missing then, for this reason.
    Lost(&'static str),
    /// Does nothing any more in nginx either; what it tuned is tuned by the one named.
    Obsolete(Option<&'static str>),
    /// Is not there; an error unless the one argument is this.
    Refused(Refusal),
}

/// A block that is a level of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Events,
    Http,
    Server,
    Location,
    LimitExcept,
    Upstream,
}

/// Why a directive is refused.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    /// What it belongs to.
    pub module: &'static str,
    /// What to do instead.
    pub advice: &'static str,
    /// The arguments with which it does nothing in nginx either, and is fine here.
    pub harmless_with: &'static [&'static str],
}

pub(super) const fn directive(name: &'static str, contexts: Contexts, args: Args, action: Action) -> DirectiveInfo {
    DirectiveInfo { name, contexts, args, is_block: false, repeats: false, action }
}

/// The same for one that may stand more than once in a level.
pub(super) const fn repeated(name: &'static str, contexts: Contexts, args: Args, action: Action) -> DirectiveInfo {
    DirectiveInfo { repeats: true, ..directive(name, contexts, args, action) }
}

/// The same with braces.
pub(super) const fn block(name: &'static str, contexts: Contexts, args: Args, action: Action) -> DirectiveInfo {
    DirectiveInfo { is_block: true, ..repeated(name, contexts, args, action) }
}

pub(super) const ONE: Args = Args::Between(1, 1);
pub(super) const NONE: Args = Args::Between(0, 0);
