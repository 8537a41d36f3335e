//! ACLs: which addresses are in one, in time that grows with the logarithm of its length.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

/// A line of an ACL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AclLine {
    /// The address.
    pub address: IpAddr,
    /// How many of its bits count.
    pub bits: u8,
    /// `!`: who matches is not in the ACL.
    pub is_negated: bool,
}

impl AclLine {
    /// Whether all bits of the address count that are not zero.
    pub fn is_whole(&self) -> bool {
        network(self.address, self.bits) == self.address
    }
}

/// The place of the first line that has the addresses of an earlier one, but not its sign. Varnish refuses such an ACL.
pub fn first_contradiction(lines: &[AclLine]) -> Option<usize> {
    let mut signs = HashMap::new();
    lines.iter().position(|line| {
        let sign = signs.entry((line.bits, network(line.address, line.bits))).or_insert(line.is_negated);
        *sign != line.is_negated
    })
}

/// An ACL. The line with the most bits decides, and of those the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl {
    // A large one is looked through for each request: the smaller it is, the more of it stays in the CPU's caches.
    v4: Stretches<u32>,
    /// For each first byte of an address of IPv4, and for 256: how many of `v4` begin before it.
    before: Vec<u32>,
    v6: Stretches<u128>,
    /// What a log is told of it, if it is.
    told: Option<Box<Told>>,
}

/// What a log is told of an ACL.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    name: String,
    /// Each line as it was written.
    lines: Vec<String>,
}

/// What an ACL says of an address, for a log: `MATCH NAME LINE`, `NEG_MATCH NAME LINE` or `NO_MATCH NAME`.
pub struct AclVerdict<'a> {
    told: &'a Told,
    said: Said,
}

impl fmt::Display for AclVerdict<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { name, lines } = self.told;
        let line = self.said.line.and_then(|line| lines.get(usize::try_from(line).ok()?));
        match line {
            Some(line) => write!(f, "{}MATCH {name} {line}", if self.said.is_in { "" } else { "NEG_" }),
            None => write!(f, "NO_MATCH {name}"),
        }
    }
}

/// Where addresses change from one line to another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Stretches<A> {
    /// The first address of each stretch, in order.
    starts: Vec<A>,
    /// What holds from there on.
    says: Vec<Said>,
}

/// What an ACL says of an address: the line that decided, and whether it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    /// The line, by its place; `None` if none matches.
    pub line: Option<u32>,
    /// Whether the address is in the ACL.
    pub is_in: bool,
}

/// What is said of an address that no line matches.
const NOT_LISTED: Said = Said { line: None, is_in: false };

impl Acl {
    /// The ACL with these lines.
    pub fn new(lines: &[AclLine]) -> Acl {
        let v4 = Stretches::new(lines.iter().enumerate().filter(|(_, line)| line.address.is_ipv4()), 32);
        let v4 = Stretches { starts: v4.starts.iter().map(|start| *start as u32).collect(), says: v4.says };
        Acl {
            before: (0..=256u64).map(|byte| v4.starts.partition_point(|s| u64::from(*s) < byte << 24) as u32).collect(),
            v4,
            v6: Stretches::new(lines.iter().enumerate().filter(|(_, line)| line.address.is_ipv6()), 128),
            told: None,
        }
    }

    /// The same that a log is told of, by its name and its lines as they were written.
    pub fn told(self, name: String, lines: Vec<String>) -> Acl {
        Acl { told: Some(Box::new(Told { name, lines })), ..self }
    }

    /// What a log is told, if it is told of this ACL.
    pub fn verdict(&self, said: Said) -> Option<AclVerdict<'_>> {
        Some(AclVerdict { told: self.told.as_deref()?, said })
    }

    /// What it says of `address`.
    pub fn says_of(&self, address: IpAddr) -> Said {
        match address {
            IpAddr::V4(address) => {
                let first = usize::from(address.octets()[0]);
                let from = |at: usize| self.before.get(at).map_or(0, |count| *count as usize);
                self.v4.says_of(address.to_bits(), from(first)..from(first + 1))
            }
            IpAddr::V6(address) => self.v6.says_of(address.to_bits(), 0..self.v6.starts.len()),
        }
    }
}

impl Stretches<u128> {
    fn new<'a>(lines: impl Iterator<Item = (usize, &'a AclLine)>, width: u8) -> Self {
        // Wider lines first, so that narrower ones lie on top of them, and of equal ones the first on top of the others.
        let mut lines: Vec<_> = lines.collect();
        lines.sort_by_key(|(at, line)| (line.bits, std::cmp::Reverse(*at)));
        lines.sort_by_key(|(_, line)| first_of(line));
        let mut all = Self { starts: Vec::new(), says: Vec::new() };
        // Lines are nested or apart: those that are open lie within each other.
        let mut open: Vec<(u128, Said)> = Vec::new();
        for (at, line) in lines {
            let (first, last) = (first_of(line), last_of(line, width));
            all.close(&mut open, Some(first), width);
            let said = Said { line: u32::try_from(at).ok(), is_in: !line.is_negated };
            all.begin(first, said);
            open.push((last, said));
        }
        all.close(&mut open, None, width);
        all
    }

    /// Ends the lines that end before `next`, or all; behind each, the one around it holds again.
    fn close(&mut self, open: &mut Vec<(u128, Said)>, next: Option<u128>, width: u8) {
        while let Some((last, _)) = open.pop_if(|(last, _)| next.is_none_or(|next| *last < next)) {
            let around = open.last().map_or(NOT_LISTED, |(_, said)| *said);
            if last < highest(width) {
                self.begin(last + 1, around);
            }
        }
    }

    fn begin(&mut self, start: u128, said: Said) {
        if self.starts.last() == Some(&start) {
            self.says.pop();
            self.starts.pop();
        }
        self.starts.push(start);
        self.says.push(said);
    }
}

impl<A: Copy + Ord> Stretches<A> {
    /// What is said of an address; the first stretch behind it is among those in `range`, or right behind them.
    fn says_of(&self, address: A, range: Range<usize>) -> Said {
        let among = self.starts.get(range.clone()).unwrap_or_default();
        let behind = range.start + among.partition_point(|start| *start <= address);
        behind.checked_sub(1).and_then(|at| self.says.get(at)).copied().unwrap_or(NOT_LISTED)
    }
}

/// How many bits an address has.
pub fn width_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// The address with all but its first `bits` set to zero.
pub fn network(address: IpAddr, bits: u8) -> IpAddr {
    let open = u32::from(width_of(address).saturating_sub(bits));
    match address {
        IpAddr::V4(address) => Ipv4Addr::from_bits(address.to_bits() & u32::MAX.checked_shl(open).unwrap_or(0)).into(),
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(open).unwrap_or(0)).into(),
    }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

fn highest(width: u8) -> u128 {
    u128::MAX >> (128 - u32::from(width))
}

/// The bits of an address that a line leaves open.
fn open_bits(line: &AclLine, width: u8) -> u128 {
    let count = width.saturating_sub(line.bits);
    if count == 0 { 0 } else { u128::MAX >> (128 - u32::from(count)) }
}

fn first_of(line: &AclLine) -> u128 {
    bits_of(network(line.address, line.bits))
}

fn last_of(line: &AclLine, width: u8) -> u128 {
    bits_of(line.address) | open_bits(line, width)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ACL of lines such as `!10.0.0.0/8`.
    fn lines(text: &str) -> Vec<AclLine> {
        text.split_whitespace()
            .map(|word| {
                let (is_negated, word) = word.strip_prefix('!').map_or((false, word), |word| (true, word));
                let (address, bits) = word.split_once('/').expect("lines have bits");
                let address = address.parse().expect("it is an address");
                AclLine { address, bits: bits.parse().expect("it is a number"), is_negated }
            })
            .collect()
    }

    #[test]
    fn the_narrowest_line_decides() {
        for (acl, address, line, is_in) in [
            ("", "1.2.3.4", None, false),
            ("10.0.0.0/8", "10.255.255.255", Some(0), true),
            ("10.0.0.0/8", "11.0.0.0", None, false),
            ("10.0.0.0/8", "9.255.255.255", None, false),
            ("10.9.8.7/8", "10.0.0.1", Some(0), true),
            ("10.0.0.0/8 !10.1.0.0/16", "10.1.2.3", Some(1), false),
            ("10.0.0.0/8 !10.1.0.0/16", "10.2.0.0", Some(0), true),
            ("!10.1.0.0/16 10.0.0.0/8", "10.1.255.255", Some(0), false),
            ("!10.1.0.0/16 10.0.0.0/8", "10.0.255.255", Some(1), true),
            ("10.0.0.0/8 !10.0.0.0/8", "10.0.0.1", Some(0), true),
            ("!10.0.0.0/8 10.0.0.0/8", "10.0.0.1", Some(0), false),
            ("0.0.0.0/0", "255.255.255.255", Some(0), true),
            ("0.0.0.0/0 !255.255.255.255/32", "255.255.255.255", Some(1), false),
            ("0.0.0.0/0", "::1", None, false),
            ("::/0", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(0), true),
            ("::/0 !2001:db8::/32 2001:db8::1/128", "2001:db8::1", Some(2), true),
            ("::/0 !2001:db8::/32 2001:db8::1/128", "2001:db8::2", Some(1), false),
            ("::ffff:10.0.0.0/104", "10.0.0.1", None, false),
            ("127.0.0.1/32 127.0.0.1/32", "127.0.0.1", Some(0), true),
            ("10.0.0.0/24 10.0.1.0/24", "10.0.1.0", Some(1), true),
        ] {
            let said = Acl::new(&lines(acl)).says_of(address.parse().expect("it is an address"));
            assert_eq!(said, Said { line, is_in }, "{address} in {acl}");
        }
    }

    #[test]
    fn a_log_is_told_the_line_that_decided() {
        let acl = Acl::new(&lines("10.0.0.0/8 !10.1.0.0/16"));
        let address = "10.1.2.3".parse().expect("it is an address");
        assert!(acl.verdict(acl.says_of(address)).is_none(), "it is told of none unless that is asked for");
        let acl = acl.told("a".to_owned(), vec!["\"10\"/8".to_owned(), "\"10.1\"/16".to_owned()]);
        for (address, expected) in [
            ("10.2.0.0", "MATCH a \"10\"/8"),
            ("10.1.0.0", "NEG_MATCH a \"10.1\"/16"),
            ("11.0.0.0", "NO_MATCH a"),
            ("::1", "NO_MATCH a"),
        ] {
            let said = acl.says_of(address.parse().expect("it is an address"));
            let verdict = acl.verdict(said).expect("it is told of");
            assert_eq!(verdict.to_string(), expected);
        }
    }

    #[test]
    fn lines_contradict_with_the_same_addresses_and_another_sign() {
        for (acl, expected) in [
            ("", None),
            ("10.0.0.0/8 10.0.0.0/8", None),
            ("10.0.0.0/8 !10.1.0.0/16", None),
            ("0.0.0.0/0 !::/0", None),
            ("10.0.0.0/8 192.0.2.1/32 !192.0.2.1/32", Some(2)),
            ("10.1.0.0/8 !10.2.0.0/8", Some(1)),
            ("!2001:db8::/32 2001:db8::1/32", Some(1)),
        ] {
            assert_eq!(first_contradiction(&lines(acl)), expected, "{acl}");
        }
    }

    #[test]
    fn every_address_gets_what_looking_at_all_lines_says() {
        // Lines over 16 addresses, of all widths, from a fixed sequence.
        let mut seed = 1u32;
        let mut next = move || {
            seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            seed >> 16
        };
        for _ in 0..300 {
            let all: Vec<AclLine> = (0..next() % 8)
                .map(|_| AclLine {
                    address: IpAddr::from([255, 255, 255, 240 + (next() % 16) as u8]),
                    bits: 28 + (next() % 5) as u8,
                    is_negated: next().is_multiple_of(3),
                })
                .collect();
            let acl = Acl::new(&all);
            for last in 230..=255u8 {
                let address = IpAddr::from([255, 255, 255, last]);
                let is_in = |line: &AclLine| (first_of(line)..=last_of(line, 32)).contains(&bits_of(address));
                let narrowest =
                    all.iter().enumerate().filter(|(_, line)| is_in(line)).rev().max_by_key(|(_, line)| line.bits);
                let expected =
                    narrowest.map_or(NOT_LISTED, |(at, line)| Said { line: Some(at as u32), is_in: !line.is_negated });
                assert_eq!(acl.says_of(address), expected, "{address} in {all:?}");
            }
        }
    }
}
