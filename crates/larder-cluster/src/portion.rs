//! How many entries of the log are asked for at once. The server sends as many as it is asked for, however long they are.

use redis::Value;

/// A number of entries that follows how long they were.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion(usize);

impl Default for Portion {
    fn default() -> Self {
        Self(COUNT_FIRST)
    }
}

impl Portion {
    /// How many are asked for.
    pub fn count(self) -> usize {
        self.0
    }

    /// So many came, in so many bytes.
    pub fn came(&mut self, entries: usize, bytes: usize) {
        if bytes > BYTES_MANY {
            self.0 = (entries.saturating_mul(BYTES_MANY) / bytes).max(1);
        } else if bytes < BYTES_FEW && entries >= self.0 {
            self.0 = (self.0 * 2).min(COUNT_MAX);
        }
    }
}

/// How many bytes of text an answer has.
pub(crate) fn bytes_of(answer: &Value) -> usize {
    match answer {
        Value::BulkString(bytes) => bytes.len(),
        Value::Array(answers) => answers.iter().map(bytes_of).sum(),
        _ => 0,
    }
}

const COUNT_FIRST: usize = 128;
const COUNT_MAX: usize = 1000;
/// An answer of less is followed by one of more entries.
const BYTES_FEW: usize = 1 << 20;
/// An answer of more is followed by one of about so much.
const BYTES_MANY: usize = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_grows_with_short_entries_and_shrinks_with_long_ones() {
        let mut portion = Portion::default();
        let mut counts = Vec::new();
        for bytes_each in [100, 100, 100, 100, 1000, 1 << 20, 1 << 20, 8 << 20, 300_000, 300_000, 300_000, 300_000] {
            portion.came(portion.count(), portion.count() * bytes_each);
            counts.push(portion.count());
        }
        assert_eq!(counts, [256, 512, 1000, 1000, 1000, 4, 4, 1, 2, 4, 4, 4]);
        // The log had no more.
        portion.came(3, 100);
        assert_eq!(portion.count(), 4);
    }

    #[test]
    fn all_text_of_an_answer_counts() {
        let word = |bytes| Value::BulkString(vec![b'x'; bytes]);
        let answer = Value::Array(vec![word(3), Value::Array(vec![word(4), Value::Nil, word(5)]), Value::Int(1)]);
        assert_eq!(bytes_of(&answer), 12);
    }
}
