//! Why a request was no hit, or its answer is not stored: in `$larder_cache_detail`, `Cache-Status` and logs as they are, and in
//! sentences by `request/reasons.rs`.

use larder_cache::rfc9111::OVER;
use larder_cache::{Ended, NO_ROOM, TOO_LARGE};

macro_rules! causes {
    ($($cause:ident $words:expr),* $(,)?) => {
        /// Why a request was no hit, or its answer is not stored.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs)]
        pub enum Cause {
            /// Nothing is to be said.
            #[default]
            None,
            $($cause,)*
            /// What only its words are told of: mostly a field of the answer.
            Other(&'static str),
        }

        impl Cause {
            /// Those that are told apart, with their words.
            const KNOWN: &[(Cause, &'static str)] = &[(Cause::None, ""), $((Cause::$cause, $words)),*];
        }
    };
}

causes! {
    NotStoredYet "not stored yet",
    Purged "purged",
    Unsure "stale by larder_cluster",
    Stale "stale",
    EachTime "confirmed each time",
    Bypass "bypass",
    Cluster "away from the cluster",
    ByRequest "Cache-Control of the request",
    NoStoreOfRequest "Cache-Control: no-store of the request",
    Method "method",
    OnlyIfCached "only-if-cached of the request",
    NoCache "no_cache",
    Profile "profile",
    IgnoredArgument "an ignored argument went to the origin",
    NoLifetime "no lifetime",
    Over OVER,
    Status "its status",
    Authorization "Authorization",
    SetCookie "Set-Cookie",
    PartOfPage "a part of a page",
    Undecided "a rule could not be evaluated",
    TooSeldom "asked for too seldom",
    TooLarge TOO_LARGE,
    NoRoom NO_ROOM,
    RangeNotThere "the range has not arrived",
    Failed "the origin failed",
    Gate "no turn at the gate",
    Pass "pass",
    NoTtl "ttl",
    NotShared "not shared",
}

impl Cause {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Other(words) => words,
            known => Self::KNOWN.iter().find(|(cause, _)| *cause == known).map_or("", |(_, words)| words),
        }
    }

    /// That of a page that has ended before its time.
    pub fn of_end(ended: Ended) -> Self {
        match ended {
            Ended::Purged => Self::Purged,
            Ended::Unsure => Self::Unsure,
        }
    }

    /// Whether it says nothing of the next answer: the request has made it so, or the moment.
    pub fn is_passing(self) -> bool {
        matches!(
            self,
            Self::NoCache
                | Self::Profile
                | Self::IgnoredArgument
                | Self::Authorization
                | Self::NoStoreOfRequest
                | Self::PartOfPage
                | Self::Undecided
                | Self::NoRoom
        )
    }
}

impl From<&'static str> for Cause {
    /// That of the cache, which says it in words.
    fn from(words: &'static str) -> Self {
        Self::KNOWN.iter().find(|(_, known)| *known == words).map_or(Self::Other(words), |(cause, _)| *cause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_words_of_its_own() {
        for (cause, words) in Cause::KNOWN {
            assert_eq!((Cause::from(*words), cause.words()), (*cause, *words));
        }
        assert_eq!(Cause::from("Vary: *"), Cause::Other("Vary: *"));
        assert_eq!(Cause::Other("Vary: *").words(), "Vary: *");
    }
}
