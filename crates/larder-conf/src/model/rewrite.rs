//! The directives of the rewrite module.

use super::{Location, Pattern, Template};
use crate::span::Span;

/// A directive of the rewrite module, in order of writing.
#[derive(Clone, Debug)]
pub enum Rewrite {
    /// `set $name value`.
    Set {
        /// Without the dollar.
        name: String,
        /// What it becomes.
        value: Template,
    },
    /// `if (...) { ... }`.
    If {
        /// When the block holds.
        condition: Condition,
        /// The rewrite directives inside.
        script: Vec<Rewrite>,
        /// The location that the block makes, when inside a location. Its own `script` is empty.
        location: Option<Box<Location>>,
    },
    /// `rewrite pattern replacement [flag]`.
    Rewrite {
        /// Matched against the URI.
        pattern: Pattern,
        /// What it becomes. A trailing `?` has been taken off and `append_args` cleared.
        replacement: Template,
        /// Whether the arguments of the request are added.
        append_args: bool,
        /// What happens next.
        flag: RewriteFlag,
    },
    /// `return code [text]` or `return URL`.
    Return {
        /// The status; 302 where only a URL was given.
        status: u16,
        /// Body or URL.
        text: Option<Template>,
        /// The place.
        span: Span,
    },
    /// `break`.
    Break,
}

/// What happens after a `rewrite` that matched. A replacement that begins with `http://`, `https://` or
/// `$scheme` without a flag is [`RewriteFlag::Redirect`] already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteFlag {
    /// Go on with the next directive.
    None,
    /// Stop, and look for a location anew.
    Last,
    /// Stop, and stay in this location.
    Break,
    /// Answer 302.
    Redirect,
    /// Answer 301.
    Permanent,
}

/// The condition of an `if`.
#[derive(Clone, Debug)]
pub enum Condition {
    /// `if ($a)`: neither empty nor `0`.
    True(Template),
    /// `=` and `!=`.
    Equal {
        /// The left side, a variable.
        left: Template,
        /// The right side.
        right: Template,
        /// `!=`.
        negate: bool,
    },
    /// `~`, `~*`, `!~`, `!~*`.
    Match {
        /// The left side, a variable.
        left: Template,
        /// The expression.
        pattern: Pattern,
        /// `!~`, `!~*`.
        negate: bool,
    },
    /// `-f`, `-d`, `-e`, `-x` and their negations.
    File {
        /// Which question.
        test: FileTest,
        /// The path.
        path: Template,
        /// With `!`.
        negate: bool,
    },
}

/// A question about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileTest {
    /// `-f`: a file.
    File,
    /// `-d`: a directory.
    Directory,
    /// `-e`: anything.
    Exists,
    /// `-x`: executable.
    Executable,
}
