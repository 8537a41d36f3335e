//! `split_clients`: assigns shares of all values to parts, by MurmurHash2 with nginx's seed and thresholds.

/// The shares of one `split_clients`.
#[derive(Debug)]
pub struct Split {
    /// The first hash after each part; `None` for the part that takes all the rest.
    ends: Vec<Option<u32>>,
}

impl Split {
    /// `shares` are in hundredths of a percent; `None` is `*`.
    pub fn new(shares: impl IntoIterator<Item = Option<u32>>) -> Self {
        let mut end: u32 = 0;
        let ends = shares
            .into_iter()
            .map(|share| {
                // Each share is rounded down by itself, then added: nginx's arithmetic, with its wrapping.
                let part = (u64::from(share?) * u64::from(u32::MAX) / 10_000) as u32;
                end = end.wrapping_add(part);
                Some(end)
            })
            .collect();
        Self { ends }
    }

    /// The part that `value` belongs to; `None` if the shares do not add up to all.
    pub fn find(&self, value: &[u8]) -> Option<usize> {
        let hash = murmur_hash2(value);
        self.ends.iter().position(|end| end.is_none_or(|end| hash < end))
    }
}

/// MurmurHash2 of 32 bits, with the seed 0 as `split_clients` uses it.
pub fn murmur_hash2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = data.len() as u32;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k = (k ^ (k >> 24)).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ k;
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0, |tail, &byte| tail << 8 | u32::from(byte));
        hash = (hash ^ tail).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From nginx 1.22: keys, and the parts they fell into with the shares of the test.
    const FROM_NGINX: &str = include_str!("split_cases.txt");

    #[test]
    fn parts_are_those_nginx_chose() {
        let all = Split::new([Some(50), Some(3330), Some(1225), Some(5000), None]);
        let some = Split::new([Some(1000), Some(2000)]);
        let mut cases = 0;
        for line in FROM_NGINX.lines().filter(|line| !line.starts_with('#')) {
            let mut words = line.split(' ');
            let mut word = || words.next().unwrap_or_default();
            let (key, in_all, in_some) = (word().as_bytes(), word(), word());
            let name = |part: Option<usize>| part.map_or("", |part| ["a", "b", "c", "d", "e"][part]);
            assert_eq!(name(all.find(key)), in_all, "{line}");
            assert_eq!(name(some.find(key)), in_some, "{line}");
            cases += 1;
        }
        assert_eq!(cases, 300);
    }

    #[test]
    fn a_whole_is_everyone_and_nothing_is_nobody() {
        for (shares, part) in
            [(&[None][..], Some(0)), (&[Some(10_000)], Some(0)), (&[Some(1), None], Some(1)), (&[], None)]
        {
            assert_eq!(Split::new(shares.iter().copied()).find(b"anyone"), part, "{shares:?}");
        }
    }
}
