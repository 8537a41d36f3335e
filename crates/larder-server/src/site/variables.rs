//! What variables with a slot come from.

use crate::geo::Geo;
use crate::map::Map;
use crate::realip::Trusted;
use crate::regex::Regex;
use crate::split::Split;
use crate::text::Text;
use crate::variable::Var;

/// What the variables with a slot come from.
#[derive(Default)]
pub struct Variables {
    /// By slot.
    pub slots: Vec<UserVar>,
    /// `map` blocks.
    pub maps: Vec<MapPart>,
    /// `geo` blocks.
    pub geos: Vec<GeoPart>,
    /// `split_clients` blocks.
    pub splits: Vec<SplitPart>,
}

/// A regular expression whose named groups set variables.
#[derive(Debug)]
pub struct NamedRegex {
    /// The expression.
    pub regex: Regex,
    /// Group and slot.
    pub slots: Vec<(usize, usize)>,
}

/// A variable with a slot.
pub struct UserVar {
    /// Without the dollar.
    pub name: String,
    /// Where its value comes from when nothing has set it.
    pub source: UserVarSource,
    /// What `set` makes may be named like a field, cookie or argument, and is that while nothing has set it.
    pub otherwise: Option<Var>,
}

/// See [`UserVar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserVarSource {
    /// Only `set` and named groups.
    Set,
    /// A `map`.
    Map(usize),
    /// A `geo`.
    Geo(usize),
    /// A `split_clients`.
    Split(usize),
}

/// A `map`.
pub struct MapPart {
    /// What is looked up.
    pub source: Text,
    /// The strings.
    pub table: Map,
    /// The expressions, by entry.
    pub regexes: Vec<NamedRegex>,
    /// The values, by entry.
    pub values: Vec<Text>,
    /// The value when nothing matches.
    pub default: Text,
    /// Looked up anew every time.
    pub volatile: bool,
}

/// A `geo`.
pub struct GeoPart {
    /// The address; the client's when none is given.
    pub source: Option<Text>,
    /// The table.
    pub table: Geo,
    /// The values, by entry.
    pub values: Vec<Box<[u8]>>,
    /// The value when no entry is about the address.
    pub default: Box<[u8]>,
    /// Whose `X-Forwarded-For` is believed.
    pub proxies: Option<Trusted>,
    /// Whether it is believed recursively.
    pub recursive: bool,
    /// Whether the value is asked for anew each time.
    pub volatile: bool,
}

/// A `split_clients`.
pub struct SplitPart {
    /// What is hashed.
    pub source: Text,
    /// The shares.
    pub table: Split,
    /// The values.
    pub values: Vec<Text>,
}
