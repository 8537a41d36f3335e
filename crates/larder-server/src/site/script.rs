//! Rewrite directives.

use larder_conf::model;

use crate::text::Text;

use super::variables::NamedRegex;

/// A rewrite directive.
pub enum Op {
    /// `set`, to a slot.
    Set(SetTarget, Text),
    /// `if`: the rewrite directives inside, and the location that holds then.
    If(Condition, Vec<Op>, Option<usize>),
    /// `rewrite`.
    Rewrite(Box<RewriteOp>),
    /// `return`.
    Return(u16, Option<Text>),
    /// `break`.
    Break,
}

/// What `set` changes.
pub enum SetTarget {
    /// A slot.
    Slot(usize),
    /// `$args`.
    Args,
    /// `$limit_rate`.
    LimitRate,
}

/// A `rewrite`.
pub struct RewriteOp {
    /// Matched against the URI.
    pub regex: NamedRegex,
    /// What it becomes.
    pub replacement: Text,
    /// Whether the arguments of the request are added.
    pub append_args: bool,
    /// What happens next.
    pub flag: model::RewriteFlag,
}

/// The condition of an `if`.
pub enum Condition {
    /// Neither empty nor `0`.
    True(Text),
    /// Equal, or not.
    Equal(Text, Text, bool),
    /// Matches, or not.
    Match(Text, NamedRegex, bool),
    /// A question about a file, or its contrary.
    File(model::FileTest, Text, bool),
}
