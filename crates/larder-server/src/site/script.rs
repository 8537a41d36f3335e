//! Rewrite directives, compiled.

use larder_conf::model;

use crate::text::Text;

use super::variables::NamedRegex;

/// A rewrite directive.
pub enum Op {
    /// `set`, to a slot.
    Set(SetTarget, Text),
    /// `if`: the rewrite directives inside, and the location that becomes the current one.
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
    /// A variable with a slot.
    Slot(usize),
    /// `$args`.
    Args,
    /// `$limit_rate`.
    LimitRate,
}

/// A `rewrite` directive.
pub struct RewriteOp {
    /// The pattern that the URI is matched against.
    pub regex: NamedRegex,
    /// The new URI.
    pub replacement: Text,
    /// Whether the request's query is appended.
    pub append_args: bool,
    /// What happens next.
    pub flag: model::RewriteFlag,
}

/// The condition of an `if`.
pub enum Condition {
    /// Neither empty nor `0`.
    True(Text),
    /// Both are equal; with `false`, they differ.
    Equal(Text, Text, bool),
    /// The text matches; with `false`, it does not.
    Match(Text, NamedRegex, bool),
    /// The test of a file holds; with `false`, it does not.
    File(model::FileTest, Text, bool),
}
