//! Where a directive may stand.

/// Where a directive may stand: a set of contexts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contexts(pub(crate) u16);

impl Contexts {
    /// Outside all blocks.
    pub const MAIN: Self = Self(1);
    /// In `events`.
    pub const EVENTS: Self = Self(2);
    /// In `http`.
    pub const HTTP: Self = Self(4);
    /// In `server`.
    pub const SERVER: Self = Self(8);
    /// In `location`.
    pub const LOCATION: Self = Self(16);
    /// In `upstream`.
    pub const UPSTREAM: Self = Self(32);
    /// In `if` in `server`.
    pub const IF_IN_SERVER: Self = Self(64);
    /// In `if` in `location`.
    pub const IF_IN_LOCATION: Self = Self(128);
    /// In `limit_except`.
    pub const LIMIT_EXCEPT: Self = Self(256);

    /// Both.
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` are in this set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The contexts in words: `"http", "server"`.
    pub fn describe(self) -> String {
        let named = [
            (Self::MAIN, "the top level of the file"),
            (Self::EVENTS, "\"events\""),
            (Self::HTTP, "\"http\""),
            (Self::SERVER, "\"server\""),
            (Self::LOCATION, "\"location\""),
            (Self::UPSTREAM, "\"upstream\""),
            (Self::IF_IN_SERVER, "\"if\" in \"server\""),
            (Self::IF_IN_LOCATION, "\"if\" in \"location\""),
            (Self::LIMIT_EXCEPT, "\"limit_except\""),
        ];
        let names: Vec<&str> =
            named.into_iter().filter(|(context, _)| self.contains(*context)).map(|(_, name)| name).collect();
        names.join(", ")
    }
}
