//! The variables with a slot, and the blocks that they come from.

use larder_conf::Span;

use crate::geo::Geo;
use crate::map::Map;
use crate::realip::Trusted;
use crate::regex::Regex;
use crate::split::Split;
use crate::text::Text;
use crate::variable::Var;

/// The variables with a slot, and the blocks that they come from.
#[derive(Default)]
pub struct Variables {
    /// The variables, by slot.
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
    /// The number of each named group, and the slot of its variable.
    pub slots: Vec<(usize, usize)>,
}

/// A variable with a slot.
pub struct UserVar {
    /// The name, without the dollar.
    pub name: String,
    /// Where its value comes from if no `set` or group has set it.
    pub source: UserVarSource,
    /// For a variable of `set` whose name is one of nginx's (`$http_`, `$cookie_`, `$arg_`): what it is until it is
    /// set.
    pub otherwise: Option<Var>,
}

/// Where the value of a variable comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserVarSource {
    /// Only from `set` and named groups.
    Set,
    /// A `map`, by its place in [`Variables`].
    Map(usize),
    /// A `geo`, likewise.
    Geo(usize),
    /// A `split_clients`, likewise.
    Split(usize),
}

/// A `map`.
pub struct MapPart {
    /// The text that is looked up.
    pub source: Text,
    /// The entries that are strings.
    pub table: Map,
    /// The entries that are regular expressions.
    pub regexes: Vec<NamedRegex>,
    /// The value of each entry.
    pub values: Vec<Text>,
    /// The value if no entry matches.
    pub default: Text,
    /// Whether it is looked up anew every time.
    pub volatile: bool,
    /// The place of each entry.
    pub spans: Vec<Span>,
    /// The place of its default, or of the whole without one.
    pub span: Span,
}

/// A `geo`.
pub struct GeoPart {
    /// The address; `None` for the client's.
    pub source: Option<Text>,
    /// The table of networks.
    pub table: Geo,
    /// The value of each entry.
    pub values: Vec<Box<[u8]>>,
    /// The value if no network contains the address.
    pub default: Box<[u8]>,
    /// Its own place.
    pub span: Span,
    /// The proxies whose `X-Forwarded-For` is trusted.
    pub proxies: Option<Trusted>,
    /// Whether addresses of trusted proxies in that field are skipped.
    pub recursive: bool,
    /// Whether it is looked up anew every time.
    pub volatile: bool,
}

/// A `split_clients`.
pub struct SplitPart {
    /// The text that is hashed.
    pub source: Text,
    /// The share of each value.
    pub table: Split,
    /// The values.
    pub values: Vec<Text>,
}
