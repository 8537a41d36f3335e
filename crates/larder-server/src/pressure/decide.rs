//! THE decision on memory: what the process may still take, given how much is used.
//!
//! Pages are evicted first, then nothing new is stored, then requests wait before they are read. All numbers are
//! measured, so they include what nobody counts, such as gaps between freed blocks or another process in the same
//! container.

/// A limit on memory, and how much of it is used. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The most that may be used.
    pub cap: u64,
    /// What is used now.
    pub used: u64,
}

/// What one look finds.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// All limits of the process.
    pub limits: &'a [Limit],
    /// What pages use, bytes.
    pub pages: u64,
    /// What pages may use now, bytes.
    pub pages_max: u64,
    /// What the configuration gives to pages, bytes.
    pub pages_wanted: u64,
    /// How many requests are running.
    pub running: u64,
    /// How many of them have run for a while, so that their memory is already in `used`.
    pub settled: u64,
    /// How many requests wait to be read.
    pub waiting: u64,
}

/// How short memory is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// There is enough.
    #[default]
    Ample,
    /// Pages may use less than the configured memory, and would use more.
    Less,
    /// Nothing new is stored.
    Full,
    /// Requests have to wait.
    Waiting,
}

impl Stage {
    /// All stages, from enough memory to the least.
    pub const ALL: [Self; 4] = [Self::Ample, Self::Less, Self::Full, Self::Waiting];
}

/// What the process may do until the next look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What pages may use, bytes.
    pub pages_max: u64,
    /// How many more requests may begin until the next look; if negative, that many have to end first.
    pub requests: i64,
    /// How many connections may be accepted until the next look.
    pub connections: u64,
    /// How short memory is.
    pub stage: Stage,
}

impl Look<'_> {
    /// The limit with the least memory left.
    pub fn nearest(&self) -> Limit {
        let nothing = Limit { cap: u64::MAX / 4, used: 0 };
        self.limits.iter().copied().min_by_key(|limit| limit.room()).unwrap_or(nothing)
    }

    /// Decides.
    pub fn decide(&self) -> Decision {
        let nearest = self.nearest();
        let room = nearest.room();
        let reserve = nearest.reserve();
        let demand = self.waiting.saturating_mul(REQUEST_BYTES).min(nearest.cap / DEMAND_SHARE);
        let pages_max = self.pages_max(room - reserve - signed(demand), nearest);
        let young = self.running.saturating_sub(self.settled);
        let promised = self.settled.saturating_mul(SETTLED_BYTES).saturating_add(young.saturating_mul(YOUNG_BYTES));
        let requests = (room - signed(promised)) / signed(REQUEST_BYTES);
        let connections = (room / signed(CONNECTION_BYTES)).max(0) as u64;
        let stage = if self.waiting > 0 {
            Stage::Waiting
        } else if pages_max == 0 && self.pages_wanted > 0 {
            Stage::Full
        } else if pages_max < self.pages_wanted && self.pages > pages_max - pages_max / NEAR_SHARE {
            Stage::Less
        } else {
            Stage::Ample
        };
        Decision { pages_max, requests, connections, stage }
    }

    /// What pages may use, with `free` bytes beyond what they use now. It shrinks at once and grows in steps, as the
    /// measurement lags behind.
    fn pages_max(&self, free: i64, nearest: Limit) -> u64 {
        let possible = (signed(self.pages) + free).max(0) as u64;
        let now = self.pages_max.min(self.pages_wanted);
        if possible < now {
            // The system gets freed memory back with a delay, so unless it is urgent, pages shrink in steps.
            let step = if nearest.room() > 0 { self.pages - self.pages / STEP_SHARE } else { 0 };
            let less = possible.max(step.min(now));
            return if less < PAGES_BYTES_MIN.min(self.pages_wanted) { 0 } else { less };
        }
        // Very little memory for pages is of no use, and would come and go.
        let least = (2 * PAGES_BYTES_MIN).min(self.pages_wanted);
        let is_worth_it = possible >= self.pages_wanted || possible - now > nearest.cap / GROWTH_SHARE;
        if !is_worth_it || possible < least {
            return now;
        }
        (now + (possible - now).div_ceil(2)).max(least).min(self.pages_wanted)
    }
}

impl Limit {
    fn room(self) -> i64 {
        signed(self.cap) - signed(self.used)
    }

    /// What pages leave free: for requests that begin before evicted pages have made room.
    fn reserve(self) -> i64 {
        signed(self.cap / RESERVE_SHARE).min(RESERVE_BYTES_MAX)
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX / 4)
}

/// The most that a request takes: heads, buffers towards client and origin, `*_buffers` for its body.
const REQUEST_BYTES: u64 = 64 * 1024;
/// What a request that has just begun may still take.
const YOUNG_BYTES: u64 = 48 * 1024;
/// What a request that has run for a while may still take: if it waits for an origin, that will answer.
const SETTLED_BYTES: u64 = 16 * 1024;

/// What a connection takes, in larder and in the kernel.
const CONNECTION_BYTES: u64 = 16 * 1024;

/// Pages leave one part in this many of the limit free, and at most the bytes below.
const RESERVE_SHARE: u64 = 12;
const RESERVE_BYTES_MAX: i64 = 256 << 20;

/// For waiting requests, pages give up at most one part in this many of the limit at once.
const DEMAND_SHARE: u64 = 4;

/// Unless it is urgent, pages give up one part in this many of their memory at once.
const STEP_SHARE: u64 = 8;

/// Pages get more memory if that is at least one part in this many of the limit.
const GROWTH_SHARE: u64 = 64;

/// If less than one part in this many of their memory is left, pages would use more.
const NEAR_SHARE: u64 = 8;

/// The least memory that is of use to pages.
const PAGES_BYTES_MIN: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// A process of 60 MB, of which this much is used.
    fn look(limits: &[Limit]) -> Look<'_> {
        let pages = 20 * MB;
        Look { limits, pages, pages_max: pages, pages_wanted: pages, running: 0, settled: 0, waiting: 0 }
    }

    fn used(mb: u64) -> [Limit; 1] {
        [Limit { cap: 60 * MB, used: mb * MB }]
    }

    #[test]
    fn pages_have_what_all_else_leaves_and_what_is_configured() {
        for (megabytes, pages_max, wanted, expected) in [
            // 5 MB are kept free for requests that begin.
            (40, 20 * MB, 20 * MB, 20 * MB),
            (55, 20 * MB, 20 * MB, 20 * MB),
            (57, 20 * MB, 20 * MB, 18 * MB),
            // Not urgent: an eighth is given up at once.
            (59, 20 * MB, 20 * MB, 20 * MB - 20 * MB / 8),
            // Urgent: all is given up at once.
            (61, 20 * MB, 20 * MB, 14 * MB),
            (79, 20 * MB, 20 * MB, 0),
            // Growing again: by half of what is free at a time, and not for a small gain.
            (40, 20 * MB, 60 * MB, 27 * MB + MB / 2),
            (40, 20 * MB, 24 * MB, 24 * MB),
            (55, 20 * MB, 24 * MB, 20 * MB),
        ] {
            let limits = used(megabytes);
            let look = Look { pages_max, pages_wanted: wanted, ..look(&limits) };
            assert_eq!(look.decide().pages_max, expected, "{megabytes} MB, {pages_max} of {wanted}");
        }
    }

    #[test]
    fn nothing_is_stored_in_very_little() {
        let limits = used(59);
        let none = Look { pages: 0, pages_max: 0, ..look(&limits) };
        assert_eq!(none.decide().pages_max, 0);
        let little = Look { pages: MB, pages_max: MB, ..look(&limits) };
        assert_eq!(little.decide().pages_max, 0);
        let limits = used(40);
        let back = Look { pages: 0, pages_max: 0, ..look(&limits) };
        assert_eq!(back.decide().pages_max, 7 * MB + MB / 2);
        let limits = used(53);
        let back = Look { pages: 0, pages_max: 0, ..look(&limits) };
        assert_eq!(back.decide().pages_max, 2 * MB, "half of what there is would be too little");
        let limits = used(54);
        let too_little = Look { pages: 0, pages_max: 0, ..look(&limits) };
        assert_eq!(too_little.decide().pages_max, 0, "it would come and go");
    }

    #[test]
    fn the_nearest_limit_decides() {
        let limits = [Limit { cap: 1000 * MB, used: 30 * MB }, Limit { cap: 60 * MB, used: 61 * MB }];
        assert_eq!(look(&limits).decide().pages_max, 14 * MB);
        assert_eq!(look(&limits).nearest(), limits[1]);
        let none = look(&[]).decide();
        assert_eq!((none.pages_max, none.stage), (20 * MB, Stage::Ample));
        assert!(none.requests > 1 << 30);
    }

    #[test]
    fn requests_begin_as_there_is_room_for_them_and_for_those_that_run() {
        for (megabytes, running, settled, requests) in [
            (40, 0, 0, 320),
            (59, 0, 0, 16),
            (61, 0, 0, -16),
            // 48 KB for each request that has just begun, 16 KB for each that has run for a while.
            (40, 400, 0, 20),
            (40, 400, 400, 220),
            (40, 1000, 0, -430),
            (40, 1280, 1280, 0),
        ] {
            let limits = used(megabytes);
            let look = Look { running, settled, ..look(&limits) };
            assert_eq!(look.decide().requests, requests, "{megabytes} MB, {running} running");
        }
    }

    #[test]
    fn pages_leave_for_who_waits() {
        let limits = used(55);
        let waiting = Look { waiting: 32, ..look(&limits) };
        assert_eq!(waiting.decide().pages_max, 18 * MB);
        let many = Look { waiting: 5000, ..look(&limits) };
        assert_eq!(many.decide().pages_max, 20 * MB - 20 * MB / 8);
    }

    #[test]
    fn the_stage_is_how_far_it_has_come() {
        for (megabytes, pages, pages_max, waiting, stage) in [
            (40, 20, 20, 0, Stage::Ample),
            // Pages may use less, and do not need more.
            (54, 1, 3, 0, Stage::Ample),
            (58, 18, 20, 0, Stage::Less),
            (70, 5, 5, 0, Stage::Full),
            (40, 20, 20, 1, Stage::Waiting),
        ] {
            let limits = used(megabytes);
            let look = Look { pages: pages * MB, pages_max: pages_max * MB, waiting, ..look(&limits) };
            assert_eq!(look.decide().stage, stage, "{megabytes} MB, {pages} of {pages_max}, {waiting} waiting");
        }
    }

    /// However pages and other memory grow and shrink, what is used stays below the cap once it was measured.
    #[test]
    fn it_settles() {
        let cap = 60 * MB;
        let (mut pages, mut pages_max, wanted) = (0, 40 * MB, 40 * MB);
        let mut changes = 0;
        for step in 0..200 {
            let rest = if (50..120).contains(&step) { 50 * MB } else { 12 * MB };
            // Pages fill what they may use; each MB of them really takes a tenth more.
            pages = pages_max.min(pages + 4 * MB);
            let limits = [Limit { cap, used: rest + pages + pages / 10 }];
            let look = Look { pages, pages_max, pages_wanted: wanted, ..look(&limits) };
            let decided = look.decide().pages_max;
            changes += usize::from(decided != pages_max);
            pages_max = decided;
            pages = pages.min(pages_max);
            assert!(rest + pages + pages / 10 <= cap, "step {step}: {pages} of {pages_max}");
        }
        assert!(pages >= 35 * MB, "they are back: {pages}");
        assert!(changes < 40, "{changes} changes");
    }
}
