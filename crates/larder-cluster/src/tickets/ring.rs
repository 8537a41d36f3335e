//! The keys of a node, by the periods that they are for.

use std::collections::BTreeMap;

use super::TicketSecret;

/// The keys that a node knows. Times are milliseconds of the server.
pub(super) struct Ring {
    period: u64,
    /// Those of each period; the one that the server has is the first. A server that lost its data may have had another.
    known: BTreeMap<u64, Vec<TicketSecret>>,
}

impl Ring {
    /// None yet. A period is a millisecond at least.
    pub fn new(period: u64) -> Self {
        Self { period: period.max(1), known: BTreeMap::new() }
    }

    /// The period of this time.
    pub fn period(&self, now: u64) -> u64 {
        now / self.period
    }

    /// The first period whose tickets are still to be opened, if each is good for `kept`.
    pub fn first(&self, now: u64, kept: u64) -> u64 {
        let most = self.period(now).saturating_sub(PERIODS_MAX);
        self.period(now.saturating_sub(kept)).max(most)
    }

    /// When the tickets of a period have all expired.
    pub fn end(&self, number: u64, kept: u64) -> u64 {
        (number + 1).saturating_mul(self.period).saturating_add(kept)
    }

    /// How long until the next period.
    pub fn left(&self, now: u64) -> u64 {
        self.period - now % self.period
    }

    /// The key that this node would use in a period.
    pub fn of(&self, number: u64) -> Option<TicketSecret> {
        self.known.get(&number)?.first().copied()
    }

    /// The server has this key for a period.
    pub fn learn(&mut self, number: u64, secret: TicketSecret) {
        let secrets = self.known.entry(number).or_default();
        secrets.retain(|known| *known != secret);
        secrets.insert(0, secret);
        secrets.truncate(SECRETS_MAX);
    }

    /// Forgets keys that make no tickets any more and whose tickets have expired, and those of a time that is far off.
    pub fn forget(&mut self, now: u64, kept: u64) {
        let (first, number) = (self.first(now, kept), self.period(now));
        let first = if self.known.contains_key(&number) { first } else { first.min(number.saturating_sub(1)) };
        self.known.retain(|known, _| (first..=number + 1).contains(known));
    }

    /// Whether the first key makes tickets, and all that open them. A key makes tickets for a period longer than it should if
    /// there is no other.
    pub fn at(&self, now: u64) -> (bool, Vec<TicketSecret>) {
        let number = self.period(now);
        let making = self.of(number).or_else(|| self.of(number.checked_sub(1)?));
        let others = self.known.values().rev().flatten().filter(|secret| Some(**secret) != making);
        (making.is_some(), making.iter().chain(others).copied().collect())
    }
}

/// As many as an hour each in the week that a ticket may last (RFC 8446 §4.6.1).
const PERIODS_MAX: u64 = 7 * 24 + 1;
/// How many keys a node knows for one period.
const SECRETS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(n: u8) -> TicketSecret {
        [n; size_of::<TicketSecret>()]
    }

    /// The first bytes of the keys at a time, after `!` if none makes tickets.
    fn at(ring: &Ring, now: u64) -> String {
        let (is_made_by, secrets) = ring.at(now);
        let mark = if is_made_by { "" } else { "!" };
        let secrets: Vec<String> = secrets.iter().map(|secret| secret[0].to_string()).collect();
        format!("{mark}{}", secrets.join(" "))
    }

    #[test]
    fn the_key_of_the_period_makes_tickets_and_the_last_one_a_period_longer() {
        let mut ring = Ring::new(100);
        assert_eq!(at(&ring, 500), "!");
        for number in 4..=5 {
            ring.learn(number, secret(number as u8));
        }
        for (now, expected) in
            [(400, "4 5"), (499, "4 5"), (500, "5 4"), (550, "5"), (599, "5"), (600, "5"), (699, "5"), (700, "!")]
        {
            ring.forget(now, 50);
            assert_eq!(at(&ring, now), expected, "{now}");
        }
    }

    #[test]
    fn keys_are_known_until_their_tickets_have_expired() {
        for (now, kept, first) in [(500, 0, 5), (500, 1, 4), (599, 99, 5), (599, 100, 4), (550, 300, 2), (50, 300, 0)] {
            let mut ring = Ring::new(100);
            (0..=7).for_each(|number| ring.learn(number, secret(number as u8)));
            ring.forget(now, kept);
            let known: Vec<u64> = ring.known.keys().copied().collect();
            assert_eq!(known, (first..=now / 100 + 1).collect::<Vec<_>>(), "{now} {kept}");
            assert!(ring.end(first, kept) > now && first.checked_sub(1).is_none_or(|gone| ring.end(gone, kept) <= now));
        }
        let ring = Ring::new(1);
        assert_eq!(ring.first(1_000_000, 999_999), 1_000_000 - PERIODS_MAX);
    }

    #[test]
    fn of_two_keys_for_a_period_the_servers_makes_tickets_and_both_open_them() {
        let mut ring = Ring::new(100);
        for (n, expected) in [(1, "1"), (1, "1"), (2, "2 1"), (1, "1 2"), (3, "3 1 2"), (4, "4 3 1 2"), (5, "5 4 3 1")]
        {
            ring.learn(0, secret(n));
            assert_eq!(at(&ring, 0), expected, "{n}");
        }
        assert_eq!((ring.left(0), ring.left(99), ring.left(100)), (100, 1, 100));
    }
}
