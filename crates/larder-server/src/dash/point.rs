//! What was counted until a moment, and how that grew between two moments.

use std::time::Duration;

use crate::counts::{CacheSums, FROM_CACHE, FROM_ORIGIN, MISSED, TimeSums, TlsSums, Verdict};
use crate::stats::Sums;

/// What was counted until a moment.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// The moment.
    pub at: Duration,
    /// Of the process.
    pub sums: Sums,
    /// Of all caches, and of requests that ask none.
    pub verdicts: CacheSums,
    /// Of TLS.
    pub tls: TlsSums,
    /// Requests to origins.
    pub origin_requests: u64,
    /// Of each cache.
    pub zones: Vec<ZonePoint>,
    /// Of each gate.
    pub gates: Vec<GatePoint>,
}

/// The same of the gate of a group of origins.
#[derive(Clone, Debug, Default)]
pub struct GatePoint {
    /// The group's name.
    pub name: Box<str>,
    /// Requests that did not get in.
    pub overflows: u64,
}

/// The same of a cache.
#[derive(Clone, Debug, Default)]
pub struct ZonePoint {
    /// Its name.
    pub name: Box<str>,
    /// Pages that were purged.
    pub purged: u64,
    /// Pages that left memory for others.
    pub evicted: u64,
    /// How often there was no room for a page.
    pub refused: u64,
    /// Requests that had to fetch, as nothing was found.
    pub fetched: u64,
    /// Of these, those for a page that memory has evicted although it was fresh.
    pub evicted_wanted: u64,
    /// Of each of its disks.
    pub disks: Vec<DiskPoint>,
}

impl ZonePoint {
    /// Requests for a page that memory or a disk has evicted although it could still be used.
    pub fn wanted(&self) -> u64 {
        self.evicted_wanted + self.disks.iter().map(|disk| disk.evicted_wanted).sum::<u64>()
    }
}

/// The same of a disk.
#[derive(Clone, Debug, Default)]
pub struct DiskPoint {
    /// Bytes that were written.
    pub written: u64,
    /// Bytes that the disk had to read.
    pub read_bytes: u64,
    /// Pages that were read, from the disk or the kernel's cache.
    pub reads: u64,
    /// How long writes took.
    pub write_times: TimeSums,
    /// How long reads from the disk took.
    pub read_times: TimeSums,
    /// Requests that had to fetch a page that it has evicted although it could still be used.
    pub evicted_wanted: u64,
}

/// How counts grew from one moment to another.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    first: &'a Point,
    last: &'a Point,
}

impl<'a> Span<'a> {
    /// Between these.
    pub fn new(first: &'a Point, last: &'a Point) -> Self {
        Self { first, last }
    }

    /// What this count grew by, in a second. A reload may make counts smaller: that is no growth.
    pub fn per_second(&self, count: impl Fn(&Point) -> u64) -> Option<f64> {
        let seconds = self.last.at.saturating_sub(self.first.at).as_secs_f64();
        (seconds > 0.0).then(|| self.grown(count) as f64 / seconds)
    }

    fn grown(&self, count: impl Fn(&Point) -> u64) -> u64 {
        count(self.last).saturating_sub(count(self.first))
    }

    /// How many requests did not get in at the gate of a group, in a second; `None` if a reload has brought it since then.
    pub fn overflows_per_second(&self, group: &str) -> Option<f64> {
        gate(self.first, group)?;
        self.per_second(|point| gate(point, group).unwrap_or(0))
    }

    /// How many did not.
    pub fn overflows(&self, group: &str) -> u64 {
        gate(self.first, group).map_or(0, |before| gate(self.last, group).unwrap_or(0).saturating_sub(before))
    }

    /// The same for a count of the cache of this name; `None` if a reload has brought it since then, or its disks.
    pub fn zone_per_second(&self, name: &str, count: impl Fn(&ZonePoint) -> u64) -> Option<f64> {
        self.zone(name)?;
        self.per_second(|point| find(point, name).map_or(0, &count))
    }

    /// What a count of a cache grew by.
    pub fn zone_grown(&self, name: &str, count: impl Fn(&ZonePoint) -> u64) -> u64 {
        self.zone(name).map_or(0, |(first, last)| count(last).saturating_sub(count(first)))
    }

    /// What a count of a disk of a cache, by its place there, grew by in a second.
    pub fn disk_per_second(&self, (zone, disk): (&str, usize), count: impl Fn(&DiskPoint) -> u64) -> Option<f64> {
        self.zone_per_second(zone, |zone| zone.disks.get(disk).map_or(0, &count))
    }

    /// What it grew by.
    pub fn disk_grown(&self, (zone, disk): (&str, usize), count: impl Fn(&DiskPoint) -> u64) -> u64 {
        self.zone_grown(zone, |zone| zone.disks.get(disk).map_or(0, &count))
    }

    /// The times that a disk took since then.
    pub fn disk_times(&self, (zone, disk): (&str, usize), times: impl Fn(&DiskPoint) -> TimeSums) -> TimeSums {
        let of = |zone: &ZonePoint| zone.disks.get(disk).map(&times);
        let both = self.zone(zone).and_then(|(first, last)| of(first).zip(of(last)));
        both.map_or_else(TimeSums::default, |(first, last)| last.since(&first))
    }

    /// A cache then and now, if no reload has changed its disks.
    fn zone(&self, name: &str) -> Option<(&'a ZonePoint, &'a ZonePoint)> {
        find(self.first, name).zip(find(self.last, name)).filter(|(first, last)| first.disks.len() == last.disks.len())
    }

    /// Responses for which a cache was asked, in a second.
    pub fn asked_per_second(&self) -> Option<f64> {
        self.per_second(|point| responses(point, &FROM_CACHE) + responses(point, &MISSED))
    }

    /// The share of these that came from the cache; `None` if there were none.
    pub fn share(&self) -> Option<f64> {
        let (cache, missed) =
            (self.grown(|point| responses(point, &FROM_CACHE)), self.grown(|point| responses(point, &MISSED)));
        (cache + missed > 0).then(|| cache as f64 / (cache + missed) as f64)
    }

    /// Within what time this share of the answers from the cache began, seconds.
    pub fn cache_quantile(&self, share: f64) -> Option<f64> {
        self.quantile(&FROM_CACHE, share)
    }

    /// The same of the answers from origins.
    pub fn origin_quantile(&self, share: f64) -> Option<f64> {
        self.quantile(&FROM_ORIGIN, share)
    }

    fn quantile(&self, verdicts: &[Verdict], share: f64) -> Option<f64> {
        let mut grown = TimeSums::default();
        for verdict in verdicts {
            let times = |point: &Point| point.verdicts[*verdict as usize].times;
            grown.add_sums(&times(self.last).since(&times(self.first)));
        }
        grown.quantile(share).map(|micros| micros / 1e6)
    }

    /// The share of handshakes that resumed a session.
    pub fn resumed_share(&self) -> Option<f64> {
        let done = self.grown(|point| point.tls.done);
        (done > 0).then(|| self.grown(|point| point.tls.resumed) as f64 / done as f64)
    }
}

fn responses(point: &Point, verdicts: &[Verdict]) -> u64 {
    verdicts.iter().map(|verdict| point.verdicts[*verdict as usize].responses).sum()
}

fn find<'a>(point: &'a Point, name: &str) -> Option<&'a ZonePoint> {
    point.zones.iter().find(|zone| &*zone.name == name)
}

fn gate(point: &Point, group: &str) -> Option<u64> {
    point.gates.iter().find(|gate| &*gate.name == group).map(|gate| gate.overflows)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: u64, hits: u64, misses: u64) -> Point {
        let mut point = Point { at: Duration::from_secs(at), ..Point::default() };
        point.sums.requests = hits + misses;
        point.verdicts[Verdict::Hit as usize].responses = hits;
        point.verdicts[Verdict::Hit as usize].times.buckets[2] = hits;
        point.verdicts[Verdict::Miss as usize].responses = misses;
        point.verdicts[Verdict::Miss as usize].times.buckets[12] = misses;
        point.verdicts[Verdict::Unasked as usize].responses = 1000;
        point.verdicts[Verdict::Passed as usize].responses = 10 * misses;
        point.verdicts[Verdict::Passed as usize].times.buckets[12] = 10 * misses;
        point
    }

    #[test]
    fn rates_and_shares_are_of_what_came_between() {
        let (first, last) = (point(10, 100, 100), point(20, 190, 110));
        let span = Span::new(&first, &last);
        assert_eq!(span.per_second(|point| point.sums.requests), Some(10.0));
        assert_eq!((span.asked_per_second(), span.share()), (Some(10.0), Some(0.9)));
        assert_eq!(span.cache_quantile(1.0), Some(50e-6), "all in the third bucket");
        assert_eq!(span.origin_quantile(1.0), Some(0.1));
        assert_eq!(span.resumed_share(), None);
    }

    #[test]
    fn nothing_and_less_than_before_are_no_growth() {
        let (first, last) = (point(10, 100, 100), point(20, 50, 0));
        let span = Span::new(&first, &last);
        assert_eq!(span.per_second(|point| point.sums.requests), Some(0.0));
        assert_eq!((span.share(), span.cache_quantile(0.5)), (None, None));
        let same = Span::new(&first, &first);
        assert_eq!(same.per_second(|point| point.sums.requests), None, "no time has passed");
    }

    #[test]
    fn gates_are_compared_by_name() {
        let (mut first, mut last) = (point(1, 0, 0), point(3, 0, 0));
        let gate = |name: &str, overflows: u64| GatePoint { name: name.into(), overflows };
        first.gates = vec![gate("php", 5)];
        last.gates = vec![gate("new", 7), gate("php", 9)];
        let span = Span::new(&first, &last);
        assert_eq!((span.overflows_per_second("php"), span.overflows("php")), (Some(2.0), 4));
        assert_eq!((span.overflows_per_second("new"), span.overflows("new")), (None, 0));
    }

    #[test]
    fn caches_are_compared_by_name() {
        let mut first = point(1, 0, 0);
        let mut last = point(2, 0, 0);
        let zone = |name: &str, evicted: u64| ZonePoint { name: name.into(), evicted, ..ZonePoint::default() };
        first.zones = vec![zone("a", 5), zone("b", 1000)];
        // A reload has changed their order, and brought one.
        last.zones = vec![zone("new", 7), zone("b", 1001), zone("a", 8)];
        let rate = |name: &str| Span::new(&first, &last).zone_per_second(name, |zone| zone.evicted);
        assert_eq!((rate("a"), rate("b"), rate("new"), rate("none")), (Some(3.0), Some(1.0), None, None));
    }
}
