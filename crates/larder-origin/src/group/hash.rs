//! The hashes of `hash` and `ip_hash`. They give the same results as nginx's, so that a key stays with its origin when
//! larder replaces nginx.

/// A CRC-32 (IEEE) that is fed in pieces.
#[derive(Clone, Copy)]
pub(super) struct Crc32(u32);

impl Crc32 {
    pub(super) fn new() -> Crc32 {
        Crc32(!0)
    }

    pub(super) fn feed(mut self, bytes: &[u8]) -> Crc32 {
        for byte in bytes {
            let at = (self.0 as u8 ^ byte) as usize;
            self.0 = CRC32_TABLE[at] ^ (self.0 >> 8);
        }
        self
    }

    pub(super) fn sum(self) -> u32 {
        !self.0
    }
}

/// The next number that `hash KEY` adds up, in the way of Cache::Memcached: the round is put before the key
/// from the second round on.
pub(super) fn plain(key: &[u8], round: u32) -> u32 {
    let crc = Crc32::new();
    let crc = if round > 0 { crc.feed(round.to_string().as_bytes()) } else { crc };
    (crc.feed(key).sum() >> 16) & 0x7fff
}

/// The start value of `ip_hash`.
pub(super) const IP_SEED: u32 = 89;

/// The next number of `ip_hash` for an address, from the last.
pub(super) fn ip(seed: u32, address: &[u8]) -> u32 {
    address.iter().fold(seed, |hash, octet| (hash * 113 + u32::from(*octet)) % 6271)
}

/// The bytes that `ip_hash` uses: the first three octets of an IPv4 address, all of an IPv6 address, and three zeros
/// for a client without an address.
pub(super) fn ip_part(address: &[u8]) -> &[u8] {
    match address.len() {
        0 => &[0; 3],
        4 => &address[..3],
        _ => address,
    }
}

/// The ring of `hash KEY consistent`, as in Cache::Memcached::Fast: 160 points for each weight.
pub(super) struct Ring {
    /// Hashes, each with the index of its name; ascending, without duplicates.
    points: Vec<(u32, u32)>,
    names: Vec<String>,
}

impl Ring {
    /// `servers` are names as configured, with weights. Addresses of one name share its points.
    pub(super) fn new<'a>(servers: impl Iterator<Item = (&'a str, u32)>) -> Ring {
        let mut ring = Ring { points: Vec::new(), names: Vec::new() };
        for (name, weight) in servers {
            let known = ring.names.iter().position(|known| known == name);
            let which = known.unwrap_or_else(|| {
                ring.names.push(name.to_owned());
                ring.names.len() - 1
            });
            let (host, port) = host_and_port(name);
            let base = Crc32::new().feed(host.as_bytes()).feed(&[0]).feed(port.as_bytes());
            let mut last = 0u32;
            for _ in 0..weight.saturating_mul(160) {
                last = base.feed(&last.to_le_bytes()).sum();
                ring.points.push((last, which as u32));
            }
        }
        ring.points.sort_by_key(|point| point.0);
        ring.points.dedup_by_key(|point| point.0);
        ring
    }

    /// The place of a key on the ring.
    pub(super) fn start(&self, key: &[u8]) -> usize {
        let hash = Crc32::new().feed(key).sum();
        self.points.partition_point(|point| point.0 < hash)
    }

    /// The name at a place; places beyond the end start again at the beginning.
    pub(super) fn name(&self, place: usize) -> Option<&str> {
        let place = place.checked_rem(self.points.len())?;
        let (_, which) = self.points.get(place)?;
        self.names.get(*which as usize).map(String::as_str)
    }
}

/// `host:port` in two. A Unix socket is its path; a name without a port is all host.
fn host_and_port(name: &str) -> (&str, &str) {
    if name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("unix:")) {
        return (&name[5..], "");
    }
    match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (host, port),
        _ => (name, ""),
    }
}

const CRC32_TABLE: [u32; 256] = crc32_table();

const fn crc32_table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut at = 0;
    while at < 256 {
        let mut crc = at as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 };
            bit += 1;
        }
        table[at] = crc;
        at += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_is_that_of_ieee() {
        assert_eq!(Crc32::new().feed(b"123456789").sum(), 0xcbf4_3926);
        assert_eq!(Crc32::new().feed(b"1234").feed(b"56789").sum(), 0xcbf4_3926);
    }

    #[test]
    fn names_are_split_as_nginx_splits_them() {
        for (name, parts) in [
            ("a:80", ("a", "80")),
            ("a", ("a", "")),
            ("unix:/run/a:1", ("/run/a:1", "")),
            ("[::1]:80", ("[::1]", "80")),
            ("[::1]", ("[::1]", "")),
        ] {
            assert_eq!(host_and_port(name), parts, "{name}");
        }
    }

    #[test]
    fn a_ring_moves_only_the_keys_of_an_origin_that_left() {
        let three = Ring::new([("a:80", 1), ("b:80", 1), ("c:80", 1)].into_iter());
        let two = Ring::new([("a:80", 1), ("b:80", 1)].into_iter());
        let mut moved = 0;
        for number in 0..1000 {
            let key = format!("/page/{number}");
            let before = three.name(three.start(key.as_bytes())).unwrap().to_owned();
            let after = two.name(two.start(key.as_bytes())).unwrap();
            match before.as_str() {
                "c:80" => moved += 1,
                name => assert_eq!(name, after, "{key}"),
            }
        }
        assert!((200..470).contains(&moved), "{moved}");
    }

    #[test]
    fn an_empty_ring_has_no_names() {
        assert_eq!(Ring::new(std::iter::empty()).name(7), None);
    }

    #[test]
    fn ip_hash_looks_at_the_network_of_an_ipv4_client() {
        assert_eq!(ip(IP_SEED, ip_part(&[10, 1, 2, 3])), ip(IP_SEED, ip_part(&[10, 1, 2, 200])));
        assert_ne!(ip(IP_SEED, ip_part(&[10, 1, 2, 3])), ip(IP_SEED, ip_part(&[10, 1, 3, 3])));
        assert_eq!(ip_part(&[]), &[0, 0, 0]);
        assert_eq!(ip_part(&[1; 16]).len(), 16);
    }
}
