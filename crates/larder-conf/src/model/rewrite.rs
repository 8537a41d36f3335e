//! What directives of the rewrite module say: conditions, flags.

use super::{Pattern, Template};

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
