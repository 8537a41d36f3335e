//! Up to where in the log purges are carried out, at which moments of the zones: a page of another node counts as one whose
//! fetch began here when no more was carried out than there.

use std::collections::{HashMap, VecDeque};

use larder_cache::Moment;
use larder_cluster::{EntryId, Place};

/// What was noted of each zone.
#[derive(Default)]
pub struct Reached {
    /// Of which log.
    epoch: String,
    zones: HashMap<String, VecDeque<(EntryId, Moment)>>,
}

impl Reached {
    /// Notes a moment of a zone in which nothing was carried out that is not in the log up to this place.
    pub fn note(&mut self, zone: &str, place: &Place, moment: Moment) {
        if self.epoch != place.epoch {
            self.zones.clear();
            self.epoch.clone_from(&place.epoch);
        }
        let Some(noted) = self.zones.get_mut(zone) else {
            self.zones.insert(zone.to_owned(), VecDeque::from([(place.at, moment)]));
            return;
        };
        // The earlier place of a moment says more.
        if noted.back().is_some_and(|(at, last)| *last == moment || *at >= place.at) {
            return;
        }
        noted.push_back((place.at, moment));
        if noted.len() > NOTED_MAX {
            noted.pop_front();
        }
    }

    /// The last moment of a zone in which no more was carried out than up to this place of the log. `None` if that is not
    /// known: it is another log, or too long ago.
    pub fn moment(&self, zone: &str, place: &Place) -> Option<Moment> {
        if self.epoch != place.epoch {
            return None;
        }
        let noted = self.zones.get(zone)?;
        let after = noted.partition_point(|(at, _)| *at <= place.at);
        Some(noted.get(after.checked_sub(1)?)?.1)
    }

    /// Forgets what was noted of a zone.
    pub fn forget(&mut self, zone: &str) {
        self.zones.remove(zone);
    }
}

/// How many moments of a zone are kept, in 2 MB: those of at least as many purges.
const NOTED_MAX: usize = 50_000;

#[cfg(test)]
mod tests {
    use larder_cache::{KeyRef, Zone, ZoneLimits};

    use super::*;
    use std::time::Duration;

    fn place(epoch: &str, ms: u64) -> Place {
        Place { epoch: epoch.to_owned(), at: EntryId { ms, number: 0 } }
    }

    #[test]
    fn a_page_is_judged_from_the_last_moment_that_had_no_more_than_its_own_node() {
        let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(60) });
        let next = || {
            zone.purge(&KeyRef::new(b"a"), larder_http::Time(1));
            zone.moment()
        };
        let (first, second, third) = (next(), next(), next());
        let mut reached = Reached::default();
        for (ms, moment) in [(10, first), (20, first), (30, second), (30, third), (40, third)] {
            reached.note("pages", &place("a", ms), moment);
        }
        for (ms, moment) in
            [(9, None), (10, Some(first)), (29, Some(first)), (30, Some(second)), (40, Some(third)), (99, Some(third))]
        {
            assert_eq!(reached.moment("pages", &place("a", ms)), moment, "{ms}");
        }
        assert_eq!(reached.moment("pages", &place("b", 40)), None);
        assert_eq!(reached.moment("others", &place("a", 40)), None);
        reached.forget("pages");
        assert_eq!(reached.moment("pages", &place("a", 40)), None);
        reached.note("pages", &place("b", 5), third);
        reached.note("others", &place("c", 6), first);
        assert_eq!(reached.moment("pages", &place("b", 5)), None, "that log is gone");
    }

    #[test]
    fn what_is_too_long_ago_is_not_known() {
        let zone = Zone::new("pages", ZoneLimits { bytes_max: 1 << 20, inactive: Duration::from_secs(60) });
        let mut reached = Reached::default();
        for ms in 0..NOTED_MAX as u64 + 3 {
            zone.purge(&KeyRef::new(b"a"), larder_http::Time(1));
            reached.note("pages", &place("a", ms), zone.moment());
        }
        assert_eq!(reached.moment("pages", &place("a", 2)), None);
        assert!(reached.moment("pages", &place("a", 3)).is_some());
    }
}
