//! Who does what the cluster says.

use std::time::Duration;

use crate::place::Place;

/// Does what other nodes wish. Called by the threads of the cluster.
pub trait Carrier: Send + Sync {
    /// Purges in a zone what these words mean, which were said so long ago. It may come again, and must change nothing then. A
    /// zone that is not there has nothing to purge. True if it stays in a list that pages are tested by.
    fn carry_out(&self, zone: &str, words: &str, ago: Duration) -> bool;

    /// Notes for people what [`carry_out`](Self::carry_out) did, and the node that wished it if that says who it is. Not called
    /// while this node is behind. All three come from outside, with any text.
    fn tell(&self, zone: &str, words: &str, node: Option<&str>);

    /// Makes everything stale that was stored until now: nobody knows what was purged meanwhile.
    fn count_as_stale(&self);

    /// Keeps the place until which everything was carried out, when that is on disks. It may wait for these. False if one did
    /// not: then it is asked again.
    fn keep(&self, place: &Place) -> bool;

    /// Notes up to where everything was carried out, where nodes share pages: first what was carried out until now, and then
    /// what `place` says. That is `None` while a purge of this node is not in the log yet.
    fn note(&self, place: &dyn Fn() -> Option<Place>);

    /// Takes a line for the log.
    fn say(&self, level: Level, line: &str);
}

/// How much a line matters, in nginx's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Of use to who asks what happened.
    Info,
    /// Worth knowing.
    Notice,
    /// Something is wrong, and nobody gets a wrong page by it.
    Warn,
    /// Purges do not reach other nodes, or those of others this one.
    Error,
}
