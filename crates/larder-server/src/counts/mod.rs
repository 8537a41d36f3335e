//! What is counted of requests, by zone. Each worker counts for itself, so that nobody waits and no line of memory is
//! written by two; who reads adds up. Counts live as long as a configuration names their zone.

mod times;
mod tls;
mod traffic;

use std::collections::BTreeMap;
use std::sync::Arc;

use larder_origin::resolver::ResolverCounts;
use parking_lot::Mutex;

pub use larder_store::{BOUNDS_MICROS, TimeSums};
pub use times::Times;
pub use tls::{TlsSums, TlsTraffic};
pub use traffic::{
    CacheSums, CacheTraffic, FROM_CACHE, FROM_ORIGIN, Finished, MISSED, Traffic, TrafficSums, VERDICTS, Verdict,
    VerdictSums,
};

/// The counts of each worker.
#[derive(Debug)]
pub struct PerWorker<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for PerWorker<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Default> PerWorker<T> {
    /// Those of the worker `number`, which it alone writes.
    pub fn of(&self, number: usize) -> Arc<T> {
        let mut all = self.0.lock();
        while all.len() <= number {
            all.push(Arc::default());
        }
        Arc::clone(&all[number])
    }

    /// Those of all workers, added up.
    pub fn sums<S: Default>(&self, add: impl FnMut(&mut S, &T)) -> S {
        let mut sums = S::default();
        self.add_to(&mut sums, add);
        sums
    }

    /// Adds those of all workers to `sums`.
    fn add_to<S>(&self, sums: &mut S, mut add: impl FnMut(&mut S, &T)) {
        self.0.lock().iter().for_each(|counts| add(sums, counts));
    }
}

/// A zone, and what is counted in it.
#[derive(Debug)]
pub struct Zone<T> {
    /// Its name.
    pub name: String,
    /// The counts.
    pub counts: Arc<PerWorker<T>>,
}

impl<T> Clone for Zone<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), counts: Arc::clone(&self.counts) }
    }
}

/// Zones of one kind.
#[derive(Debug)]
pub struct Zones<T>(Vec<Zone<T>>);

impl<T> Default for Zones<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Clone for Zones<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Default> Zones<T> {
    /// The place of the zone `name`. One that `before` has goes on counting where it stands there.
    pub fn place(&mut self, name: &str, before: &Self) -> usize {
        let known = |zones: &[Zone<T>]| zones.iter().position(|zone| zone.name == name);
        if let Some(place) = known(&self.0) {
            return place;
        }
        let zone = match known(&before.0) {
            Some(place) => before.0[place].clone(),
            None => Zone { name: name.to_owned(), counts: Arc::default() },
        };
        self.0.push(zone);
        self.0.len() - 1
    }

    /// The zones in the order of the configuration.
    pub fn iter(&self) -> impl Iterator<Item = &Zone<T>> {
        self.0.iter()
    }

    /// The counts of a worker in each.
    pub fn of_worker(&self, number: usize) -> Box<[Arc<T>]> {
        self.0.iter().map(|zone| zone.counts.of(number)).collect()
    }
}

/// The zones of a configuration.
#[derive(Clone, Debug, Default)]
pub struct AllZones {
    /// `status_zone` of servers.
    pub servers: Zones<Traffic>,
    /// `status_zone` of locations.
    pub locations: Zones<Traffic>,
    /// The cache zones in the order of the site, and behind them one without a name, for requests that ask none.
    pub caches: Zones<CacheTraffic>,
    /// The handshakes of all servers.
    pub tls: Arc<PerWorker<TlsTraffic>>,
    /// `status_zone=` of `resolver`.
    pub resolvers: BTreeMap<String, Arc<ResolverCounts>>,
}

/// What one worker counts under one configuration.
#[derive(Debug)]
pub struct Counts {
    /// As in [`AllZones`].
    pub servers: Box<[Arc<Traffic>]>,
    /// As in [`AllZones`].
    pub locations: Box<[Arc<Traffic>]>,
    /// As in [`AllZones`].
    pub caches: Box<[Arc<CacheTraffic>]>,
    /// As in [`AllZones`].
    pub tls: Arc<TlsTraffic>,
}

impl AllZones {
    /// The counts of the resolver zone `name`, which go on from those that `before` has.
    pub fn resolver(&mut self, name: &str, before: &Self) -> Arc<ResolverCounts> {
        let counts = self.resolvers.entry(name.to_owned());
        Arc::clone(counts.or_insert_with(|| before.resolvers.get(name).cloned().unwrap_or_default()))
    }

    /// Those of all caches together, and of requests that ask none.
    pub fn verdicts(&self) -> CacheSums {
        let mut all = CacheSums::default();
        self.caches.iter().for_each(|zone| zone.counts.add_to(&mut all, VerdictSums::add));
        all
    }

    /// The counts of the worker `number`.
    pub fn of_worker(&self, number: usize) -> Counts {
        Counts {
            servers: self.servers.of_worker(number),
            locations: self.locations.of_worker(number),
            caches: self.caches.of_worker(number),
            tls: self.tls.of(number),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_of_the_same_name_goes_on_counting() {
        let requests = |zones: &Zones<Traffic>, place: usize| {
            let zone = zones.iter().nth(place).expect("it was made");
            (zone.name.clone(), zone.counts.sums(TrafficSums::add).requests)
        };
        let mut first = Zones::<Traffic>::default();
        assert_eq!((first.place("a", &Zones::default()), first.place("b", &Zones::default())), (0, 1));
        assert_eq!(first.place("a", &Zones::default()), 0, "two servers may share a zone");
        first.of_worker(0)[0].requests.add(2);
        first.of_worker(3)[0].requests.add(5);
        first.of_worker(1)[1].requests.add(1);
        let mut second = Zones::default();
        second.place("c", &first);
        second.place("a", &first);
        assert_eq!(requests(&second, 0), ("c".to_owned(), 0));
        assert_eq!(requests(&second, 1), ("a".to_owned(), 7));
        // Requests of before the reload still count.
        first.of_worker(0)[0].requests.add(1);
        assert_eq!(requests(&second, 1), ("a".to_owned(), 8));
        let mut third = Zones::default();
        third.place("b", &second);
        assert_eq!(requests(&third, 0), ("b".to_owned(), 0), "what no configuration named is forgotten");
    }
}
