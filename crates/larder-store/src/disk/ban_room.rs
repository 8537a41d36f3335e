//! How much room bans take in their file, and how much they may take.

/// A ban of either kind, as it takes room in the file.
#[derive(Clone, Copy)]
pub(super) enum Item<'a> {
    Prefix(&'a [u8]),
    Words(&'a str),
}

/// What bans take in the file: the number of each kind, and its bytes.
#[derive(Clone, Copy, Default)]
pub(super) struct Room {
    prefixes: usize,
    prefix_bytes: usize,
    worded: usize,
    worded_bytes: usize,
}

impl Room {
    pub(super) fn take(&mut self, item: Item<'_>) {
        match item {
            Item::Prefix(prefix) => {
                self.prefixes += 1;
                self.prefix_bytes += BAN_BYTES + prefix.len();
            }
            Item::Words(words) => {
                self.worded += 1;
                self.worded_bytes += WORDED_BYTES + words.len();
            }
        }
    }

    /// Gives back what one takes that was counted.
    pub(super) fn give_back(&mut self, item: Item<'_>) {
        match item {
            Item::Prefix(prefix) => {
                self.prefixes -= 1;
                self.prefix_bytes -= BAN_BYTES + prefix.len();
            }
            Item::Words(words) => {
                self.worded -= 1;
                self.worded_bytes -= WORDED_BYTES + words.len();
            }
        }
    }

    pub(super) fn fits(&self, bytes_max: u64) -> bool {
        let worded = if self.worded > 0 { COUNT_BYTES + self.worded_bytes } else { 0 };
        self.prefixes <= BANS_MAX
            && self.worded <= WORDED_MAX
            && self.worded_bytes <= WORDED_BYTES_MAX
            && (HEAD_BYTES + self.prefix_bytes + worded) as u64 <= bytes_max
    }
}

/// The most bans of prefixes. Beyond it, the oldest bans become one of everything before them.
pub(super) const BANS_MAX: usize = 1000;
/// The most bans in words, and the bytes that they take in the file. Beyond it, the same happens.
pub(super) const WORDED_MAX: usize = 10_000;
pub(super) const WORDED_BYTES_MAX: usize = 4 << 20;
/// The file takes at most one part in this many of `max_size`. If it would be longer, the same happens, and what does not
/// fit alone clears the shelf.
pub(super) const BANS_SHARE: u64 = 8;
pub(super) const HEAD_BYTES: usize = 20;
/// The bytes of a ban in the file, without its prefix.
pub(super) const BAN_BYTES: usize = 12;
/// The bytes of a ban in words in the file, without its words.
pub(super) const WORDED_BYTES: usize = 20;
/// The bytes that say how many there are.
pub(super) const COUNT_BYTES: usize = 4;
