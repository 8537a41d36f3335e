//! `geo`: finds the entry of an address, by the longest prefix or by ranges.

use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};

use ipnet::IpNet;
use larder_conf::model;

/// The table of one `geo`: adjacent spans of addresses, so that a lookup is one binary search.
#[derive(Debug, Default)]
pub struct Geo {
    v4: Stretches,
    v6: Stretches,
}

impl Geo {
    /// The table of a block. Entries are numbered from 0: those of `nets`, then those of `ranges`.
    ///
    /// Of several nets the one with the longest prefix wins, of equal ones the last; of several ranges the last one.
    pub fn new(geo: &model::Geo) -> Self {
        let nets = geo.nets.iter().map(|(net, _)| *net);
        let ranges = geo.ranges.iter().map(|(first, last, _)| (*first, *last));
        Self::of(nets, ranges)
    }

    fn of(nets: impl Iterator<Item = IpNet>, ranges: impl Iterator<Item = (IpAddr, IpAddr)>) -> Self {
        let nets = nets.map(|net| (net.network(), net.broadcast(), u64::from(net.prefix_len())));
        let ranges = ranges.map(|(first, last)| (first, last, 0));
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (entry, (first, last, weight)) in nets.chain(ranges).enumerate() {
            match (first, last) {
                (IpAddr::V4(first), IpAddr::V4(last)) => {
                    v4.push(Span { first: first.to_bits().into(), last: last.to_bits().into(), weight, entry });
                }
                (IpAddr::V6(first), IpAddr::V6(last)) => {
                    v6.push(Span { first: first.to_bits(), last: last.to_bits(), weight, entry });
                }
                // A range from one family to the other is empty.
                (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => {}
            }
        }
        Self { v4: Stretches::new(v4), v6: Stretches::new(v6) }
    }

    /// The entry of an address; `None` for the default.
    ///
    /// An IPv4-mapped IPv6 address counts as IPv4. `None` stands for a value that is no address, such as a unix socket,
    /// and is looked up as 255.255.255.255, as in nginx.
    pub fn find(&self, address: Option<IpAddr>) -> Option<usize> {
        match address.unwrap_or(IpAddr::V4(Ipv4Addr::BROADCAST)).to_canonical() {
            IpAddr::V4(v4) => self.v4.find(v4.to_bits().into()),
            IpAddr::V6(v6) => self.v6.find(v6.to_bits()),
        }
    }
}

/// The addresses of an entry, both ends included. Where two overlap, the heavier wins, then the later one.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u128,
    last: u128,
    weight: u64,
    entry: usize,
}

#[derive(Debug, Default)]
struct Stretches {
    /// The first address of each span, in order; a span ends where the next begins. Addresses before the first have no
    /// entry.
    begins: Vec<u128>,
    /// The entry of each span.
    entries: Vec<Option<usize>>,
}

impl Stretches {
    /// Walks over the places where an entry begins or has ended, with the open entries in a heap.
    fn new(mut spans: Vec<Span>) -> Self {
        spans.retain(|span| span.first <= span.last);
        spans.sort_by_key(|span| span.first);
        let mut places: Vec<u128> =
            spans.iter().flat_map(|span| [Some(span.first), span.last.checked_add(1)]).flatten().collect();
        places.sort_unstable();
        places.dedup();

        let mut stretches = Self::default();
        let mut open = BinaryHeap::new();
        let mut to_open = spans.into_iter().peekable();
        for place in places {
            while let Some(span) = to_open.next_if(|span| span.first <= place) {
                open.push((span.weight, span.entry, span.last));
            }
            while open.peek().is_some_and(|&(_, _, last)| last < place) {
                open.pop();
            }
            let entry = open.peek().map(|&(_, entry, _)| entry);
            if stretches.entries.last().copied().flatten() != entry {
                stretches.begins.push(place);
                stretches.entries.push(entry);
            }
        }
        stretches
    }

    fn find(&self, address: u128) -> Option<usize> {
        let after = self.begins.partition_point(|&begin| begin <= address);
        *self.entries.get(after.checked_sub(1)?)?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geo(nets: &[&str], ranges: &[(&str, &str)]) -> Geo {
        let address = |text: &str| -> IpAddr { text.parse().expect("the cases are addresses") };
        let nets = nets.iter().map(|net| net.parse().expect("the cases are nets"));
        Geo::of(nets, ranges.iter().map(|(first, last)| (address(first), address(last))))
    }

    fn find(geo: &Geo, address: &str) -> Option<usize> {
        geo.find(address.parse().ok())
    }

    /// Compared with nginx 1.22: IPv4, and the lookup of what is no address.
    #[test]
    fn the_longest_prefix_decides() {
        let nets =
            ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "2001:db8::/32", "255.255.255.255/32", "2001:db8::1/128"];
        let geo = geo(&nets, &[]);
        for (address, entry) in [
            ("10.0.0.1", Some(0)),
            ("10.1.9.9", Some(1)),
            ("10.1.2.3", Some(2)),
            ("10.1.2.4", Some(1)),
            ("10.2.0.0", Some(0)),
            ("10.255.255.255", Some(0)),
            ("11.0.0.0", None),
            ("9.255.255.255", None),
            ("0.0.0.0", None),
            ("::ffff:10.1.2.3", Some(2)),
            ("2001:db8::1", Some(5)),
            ("2001:db8::2", Some(3)),
            ("2001:db9::", None),
            ("::", None),
            ("junk", Some(4)),
        ] {
            assert_eq!(find(&geo, address), entry, "{address}");
        }
    }

    #[test]
    fn of_equal_nets_and_of_ranges_the_last_decides() {
        let nets = geo(&["0.0.0.0/0", "10.0.0.0/8", "10.0.0.0/8"], &[]);
        assert_eq!(find(&nets, "10.0.0.1"), Some(2));
        assert_eq!(find(&nets, "255.255.255.255"), Some(0));
        let ranges = geo(&[], &[("10.0.0.0", "10.0.0.255"), ("10.0.0.100", "10.0.0.120"), ("10.0.0.255", "10.0.1.9")]);
        for (address, entry) in [
            ("9.255.255.255", None),
            ("10.0.0.0", Some(0)),
            ("10.0.0.99", Some(0)),
            ("10.0.0.100", Some(1)),
            ("10.0.0.120", Some(1)),
            ("10.0.0.121", Some(0)),
            ("10.0.0.255", Some(2)),
            ("10.0.1.9", Some(2)),
            ("10.0.1.10", None),
            ("junk", None),
            ("::1", None),
        ] {
            assert_eq!(find(&ranges, address), entry, "{address}");
        }
    }

    #[test]
    fn a_range_that_ends_before_it_begins_holds_nothing() {
        let geo = geo(&[], &[("10.0.0.9", "10.0.0.1"), ("10.0.0.0", "::1")]);
        assert_eq!(find(&geo, "10.0.0.5"), None);
    }

    /// Compares the table with the plain meaning of its entries, for addresses around each edge.
    #[test]
    fn stretches_say_what_the_entries_say() {
        let mut seed: u32 = 7;
        let mut random = |below: u32| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 16) % below
        };
        for _ in 0..50 {
            let spans: Vec<Span> = (0..20)
                .map(|entry| {
                    let first = u128::from(random(100));
                    Span { first, last: first + u128::from(random(30)), weight: random(3).into(), entry }
                })
                .collect();
            let stretches = Stretches::new(spans.clone());
            for address in 0..140 {
                let expected = spans
                    .iter()
                    .filter(|span| (span.first..=span.last).contains(&address))
                    .max_by_key(|span| (span.weight, span.entry))
                    .map(|span| span.entry);
                assert_eq!(stretches.find(address), expected, "{address} in {spans:?}");
            }
        }
    }
}
