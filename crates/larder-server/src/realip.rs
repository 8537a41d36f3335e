//! The client's real address, as told by trusted proxies: `set_real_ip_from`, and `proxy` in `geo`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use larder_conf::model::RealIpFrom;

use crate::access::{self, Peer};

/// The proxies that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trusted {
    nets: Vec<IpNet>,
    unix: bool,
}

impl Trusted {
    /// Those of `set_real_ip_from`.
    pub fn new(from: &[RealIpFrom]) -> Self {
        let nets = from.iter().filter_map(|from| match from {
            RealIpFrom::Net(net) => Some(*net),
            RealIpFrom::Unix => None,
        });
        Self { nets: nets.collect(), unix: from.contains(&RealIpFrom::Unix) }
    }

    /// Those of nets only.
    pub fn nets(nets: Vec<IpNet>) -> Self {
        Self { nets, unix: false }
    }

    /// Whether `peer` is trusted. An IPv4-mapped IPv6 address counts as IPv4.
    pub fn contains(&self, peer: Peer) -> bool {
        match peer {
            Peer::Unix => self.unix,
            Peer::Ip(ip) => access::is_in(&self.nets, ip),
        }
    }
}

/// An address told by a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The address.
    pub ip: IpAddr,
    /// Its port, if that was told.
    pub port: Option<u16>,
}

/// The address told by the proxies before us; `None` if `peer` is the client.
///
/// `values` are the values of the field as they arrived: all of `X-Forwarded-For`, and the first of any other field.
/// The last address of the last value counts; with `recursive`, trusted addresses are skipped from the end. Parsing
/// stops at the first word that is no address.
pub fn forwarded<'a>(
    peer: Peer,
    trusted: &Trusted,
    values: impl DoubleEndedIterator<Item = &'a [u8]>,
    recursive: bool,
) -> Option<Told> {
    let mut found: Option<Told> = None;
    for value in values.rev() {
        let mut rest = Some(value);
        while let Some(list) = rest {
            let told_by = found.map_or(peer, |told| Peer::Ip(told.ip));
            if !trusted.contains(told_by) {
                return found;
            }
            let (last, before) = split_last(list);
            let Some(told) = parse_address_port(last) else {
                return found;
            };
            found = Some(told);
            if !recursive {
                return found;
            }
            rest = before;
        }
    }
    found
}

/// Splits off the last word of a list. Words are separated by spaces and commas. As in nginx, a separator at the very
/// beginning of the value stays in the word, which then is no address.
fn split_last(list: &[u8]) -> (&[u8], Option<&[u8]>) {
    let is_gap = |byte: &u8| matches!(byte, b' ' | b',');
    let end = list.iter().rposition(|byte| !is_gap(byte)).map_or(list.len().min(1), |last| last + 1);
    let words = &list[..end];
    match words.iter().rposition(is_gap) {
        Some(gap) if gap > 0 => (&words[gap + 1..], Some(&words[..gap])),
        Some(_) | None => (words, None),
    }
}

/// Parses an address with or without a port: `1.2.3.4`, `1.2.3.4:80`, `::1`, `[::1]:80`.
pub fn parse_address_port(text: &[u8]) -> Option<Told> {
    if let Some(ip) = parse_address(text) {
        return Some(Told { ip, port: None });
    }
    let (address, port) = match text {
        [b'[', rest @ ..] => {
            let end = memchr::memchr(b']', rest)?;
            (&rest[..end], rest[end + 1..].strip_prefix(b":")?)
        }
        _ => {
            let colon = memchr::memchr(b':', text)?;
            (&text[..colon], &text[colon + 1..])
        }
    };
    Some(Told { ip: parse_address(address)?, port: Some(parse_port(port)?) })
}

/// Parses an address as nginx does: IPv4 has four numbers that may have leading zeros or be missing. 255.255.255.255 is
/// refused.
pub fn parse_address(text: &[u8]) -> Option<IpAddr> {
    if let Some(v4) = parse_v4(text) {
        return Some(IpAddr::V4(v4));
    }
    let v6: Ipv6Addr = std::str::from_utf8(text).ok()?.parse().ok()?;
    Some(IpAddr::V6(v6))
}

fn parse_v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0_u8; 4];
    let mut parts = text.split(|&byte| byte == b'.');
    for octet in &mut octets {
        *octet = parts.next()?.iter().try_fold(0_u8, |value, &byte| {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 { None } else { value.checked_mul(10)?.checked_add(digit) }
        })?;
    }
    let address = Ipv4Addr::from(octets);
    (parts.next().is_none() && address != Ipv4Addr::BROADCAST).then_some(address)
}

fn parse_port(text: &[u8]) -> Option<u16> {
    if !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(text).ok()?.parse().ok().filter(|&port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> Trusted {
        let net = |text: &str| RealIpFrom::Net(text.parse().expect("a net"));
        Trusted::new(&[net("127.0.0.0/8"), net("10.0.0.0/8")])
    }

    fn told(values: &[&str], recursive: bool) -> String {
        let peer = Peer::Ip(Ipv4Addr::LOCALHOST.into());
        match forwarded(peer, &trusted(), values.iter().map(|value| value.as_bytes()), recursive) {
            Some(Told { ip, port: Some(port) }) => format!("{ip} {port}"),
            Some(Told { ip, port: None }) => ip.to_string(),
            None => "peer".to_owned(),
        }
    }

    /// Each line was compared with nginx 1.22, except for the empty values.
    #[test]
    fn addresses_are_found_as_in_nginx() {
        for (values, recursive, last) in [
            (&["1.2.3.4"][..], "1.2.3.4", "1.2.3.4"),
            (&["1.2.3.4, 10.0.0.1"], "1.2.3.4", "10.0.0.1"),
            (&["1.2.3.4:80, 10.0.0.1"], "1.2.3.4 80", "10.0.0.1"),
            (&["[2001:db8::1]:99"], "2001:db8::1 99", "2001:db8::1 99"),
            (&["[2001:db8::1]"], "peer", "peer"),
            (&["2001:db8::1"], "2001:db8::1", "2001:db8::1"),
            (&["junk, 10.0.0.1"], "10.0.0.1", "10.0.0.1"),
            (&["junk"], "peer", "peer"),
            (&["1.2.3.4,"], "1.2.3.4", "1.2.3.4"),
            (&[",1.2.3.4"], "peer", "peer"),
            (&["9.9.9.9, 1.2.3.4, 10.0.0.1"], "1.2.3.4", "10.0.0.1"),
            (&["10.0.0.3, 10.0.0.2"], "10.0.0.3", "10.0.0.2"),
            (&["010.0.0.9"], "10.0.0.9", "10.0.0.9"),
            (&["..."], "0.0.0.0", "0.0.0.0"),
            (&["255.255.255.255"], "peer", "peer"),
            (&["1.2.3.4:0"], "peer", "peer"),
            (&["1.2.3.4:70000"], "peer", "peer"),
            (&["5.5.5.5:080"], "5.5.5.5 80", "5.5.5.5 80"),
            (&["::ffff:10.0.0.1,9.9.9.9"], "9.9.9.9", "9.9.9.9"),
            (&["1.1.1.1", "10.0.0.1"], "1.1.1.1", "10.0.0.1"),
            (&["2.2.2.2, junk", "10.0.0.1"], "10.0.0.1", "10.0.0.1"),
            (&["2.2.2.2", "junk"], "peer", "peer"),
            (&[], "peer", "peer"),
            (&[""], "peer", "peer"),
            (&[" , "], "peer", "peer"),
        ] {
            assert_eq!(told(values, true), recursive, "{values:?}, recursive");
            assert_eq!(told(values, false), last, "{values:?}");
        }
    }

    #[test]
    fn only_the_trusted_are_believed() {
        let unix = Trusted::new(&[RealIpFrom::Unix]);
        for (trusted, peer, is_believed) in [
            (trusted(), "127.0.0.1", true),
            (trusted(), "::ffff:10.1.1.1", true),
            (trusted(), "11.0.0.1", false),
            (trusted(), "unix", false),
            (unix.clone(), "unix", true),
            (unix, "127.0.0.1", false),
            (Trusted::nets(vec!["::/0".parse().expect("a net")]), "2001:db8::1", true),
        ] {
            let peer = peer.parse().map_or(Peer::Unix, Peer::Ip);
            let told = forwarded(peer, &trusted, [&b"1.2.3.4"[..]].into_iter(), false);
            assert_eq!(told.is_some(), is_believed, "{peer:?} by {trusted:?}");
        }
    }

    #[test]
    fn no_bytes_are_too_odd() {
        let mut seed: u32 = 3;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below
        };
        let letters = b"10.:[], f\xff";
        for _ in 0..20_000 {
            let value: Vec<u8> = (0..random(24)).map(|_| letters[random(letters.len())]).collect();
            let peer = Peer::Ip(Ipv4Addr::LOCALHOST.into());
            let values = [&value[..], &value[..value.len() / 2]];
            let told = forwarded(peer, &trusted(), values.into_iter(), true);
            assert!(told.is_none_or(|told| told.port != Some(0)), "{value:?}");
        }
    }
}
