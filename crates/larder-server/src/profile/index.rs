//! Rows of a profile, found by the first byte of what they name.

use larder_conf::model::ProfileRow;

/// Rows by the first byte that they name.
pub struct Index {
    /// By bytes, one behind the other.
    rows: Box<[u16]>,
    /// Where the rows of a byte begin; those of the next end them.
    starts: Box<[u16]>,
    /// Those that begin with any.
    pub any: Box<[u16]>,
}

impl Index {
    /// Of the rows that `first` knows: with their first byte, or with `None` for those that begin with any.
    pub fn new(rows: &[ProfileRow], first: impl Fn(&ProfileRow) -> Option<Option<u8>>) -> Self {
        let mut named: Vec<(u8, u16)> = Vec::new();
        let mut any = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let Ok(at) = u16::try_from(at) else { break };
            match first(row) {
                Some(Some(byte)) => named.push((byte, at)),
                Some(None) => any.push(at),
                None => {}
            }
        }
        named.sort_by_key(|(byte, _)| *byte);
        let start = |byte: u16| {
            let before = named.partition_point(|(own, _)| u16::from(*own) < byte);
            u16::try_from(before).unwrap_or(u16::MAX)
        };
        Self {
            starts: (0..=256).map(start).collect(),
            rows: named.iter().map(|(_, at)| *at).collect(),
            any: any.into(),
        }
    }

    /// Those that may name what begins so.
    pub fn of(&self, first: Option<u8>) -> impl Iterator<Item = usize> + '_ {
        let named = first.map_or(&[][..], |byte| {
            let (start, end) = (self.starts[usize::from(byte)], self.starts[usize::from(byte) + 1]);
            &self.rows[usize::from(start)..usize::from(end)]
        });
        named.iter().chain(&self.any).map(|at| usize::from(*at))
    }
}
