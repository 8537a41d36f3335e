//! Why requests of the last minutes were no hits: a count for each place and reason, with an example.
//!
//! Each worker has a table of its own, which is bounded however many places and reasons there are. Hits do not come here.

use std::collections::HashMap;
use std::sync::Arc;

use larder_http::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stats::Stats;

/// How many minutes are kept.
pub const MINUTES: u64 = 10;
/// How many rows a minute has; what finds no room is counted together.
const ROWS_MAX: usize = 128;
/// How much of a place, of a reason and of a URL is kept.
pub const TEXT_BYTES_MAX: usize = 200;

/// The table of a worker.
#[derive(Debug, Default)]
pub struct Misses {
    /// The minutes for which there is anything, oldest first.
    minutes: Vec<Minute>,
    /// A text to write the next place into.
    scratch: String,
}

#[derive(Debug)]
struct Minute {
    /// Since 1970.
    number: u64,
    /// How many hits the worker had counted when it began.
    hits_before: u64,
    rows: HashMap<Box<str>, Row>,
    others: u64,
}

/// What stands for a place and a reason.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    count: u64,
    /// The length of the place in the key, which goes on with a zero byte and the reason.
    place_bytes: usize,
    example: Example,
}

/// One of the requests that a row stands for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Example {
    /// Its URL.
    pub url: Box<str>,
    /// What has given the variable of a condition its value, such as a cookie; empty if there is none.
    pub made_by: Box<str>,
}

/// The tables of all workers of the process.
#[derive(Clone, Debug, Default)]
pub struct AllMisses(Arc<Mutex<Vec<OfWorker>>>);

#[derive(Debug)]
struct OfWorker {
    stats: Arc<Stats>,
    misses: Arc<Mutex<Misses>>,
}

impl AllMisses {
    /// The table of one more worker, whose counters these are. Others lock it only to read.
    pub fn add_worker(&self, stats: Arc<Stats>) -> Arc<Mutex<Misses>> {
        let misses = Arc::default();
        self.0.lock().push(OfWorker { stats, misses: Arc::clone(&misses) });
        misses
    }

    /// What all have seen in the minutes before `now`.
    pub fn summary(&self, now: Time) -> Summary {
        let mut all = Summary::default();
        for OfWorker { stats, misses } in &*self.0.lock() {
            all.add(misses.lock().summary(stats.hits.get(), now));
        }
        all
    }
}

/// A place and a reason, and how many requests they stand for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The server and the location.
    pub place: String,
    /// Why.
    pub reason: String,
    /// How many requests.
    pub count: u64,
    /// One of them.
    pub example: Example,
}

/// What workers have seen in the last minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Each place and reason, the most frequent first.
    pub rows: Vec<Seen>,
    /// Requests that had no room in the table.
    pub others: u64,
    /// Hits since the first of these minutes.
    pub hits: u64,
}

impl Misses {
    /// Notes how many hits the worker has counted so far, so that those of each minute are known. To be called now and then.
    pub fn tick(&mut self, hits: u64, now: Time) {
        self.minute(hits, now);
    }

    /// The minute of `now`, which begins with the first call in it.
    fn minute(&mut self, hits: u64, now: Time) -> Option<&mut Minute> {
        let number = now.secs() / 60;
        if self.minutes.last().is_none_or(|last| last.number != number) {
            // A clock that was set back begins anew.
            self.minutes.retain(|minute| minute.number < number && minute.number + MINUTES > number);
            self.minutes.push(Minute { number, hits_before: hits, rows: HashMap::new(), others: 0 });
        }
        self.minutes.last_mut()
    }

    /// Notes a request that was no hit. `hits` is how many the worker has counted so far; `example` is asked for if the
    /// reason is new in this minute.
    pub fn note(&mut self, place: String, reason: &str, hits: u64, now: Time, example: impl FnOnce() -> Example) {
        let mut key = place;
        key.truncate(cut(&key).len());
        let place_bytes = key.len();
        // A place may end as a reason begins.
        key.push('\0');
        key.push_str(cut(reason));
        self.count(&key, place_bytes, hits, now, example);
        key.clear();
        self.scratch = key;
    }

    /// An empty text, in which a place may be written without an allocation.
    pub fn lend(&mut self) -> String {
        std::mem::take(&mut self.scratch)
    }

    fn count(&mut self, key: &str, place_bytes: usize, hits: u64, now: Time, example: impl FnOnce() -> Example) {
        let Some(minute) = self.minute(hits, now) else { return };
        let is_full = minute.rows.len() >= ROWS_MAX;
        match minute.rows.get_mut(key) {
            Some(row) => row.count += 1,
            None if is_full => minute.others += 1,
            None => {
                let Example { url, made_by } = example();
                let example = Example { url: cut(&url).into(), made_by: cut(&made_by).into() };
                minute.rows.insert(key.into(), Row { count: 1, place_bytes, example });
            }
        }
    }

    /// What was seen in the minutes before `now`; `hits` as above.
    pub fn summary(&self, hits: u64, now: Time) -> Summary {
        let number = now.secs() / 60;
        let mut summary = Summary::default();
        let recent: Vec<&Minute> = self.minutes.iter().filter(|minute| minute.number + MINUTES > number).collect();
        if let Some(first) = recent.first() {
            summary.hits = hits.saturating_sub(first.hits_before);
        }
        for minute in recent {
            let rows = minute.rows.iter().map(|(key, row)| {
                let (place, reason) = (key.get(..row.place_bytes), key.get(row.place_bytes + 1..));
                let [place, reason] = [place, reason].map(|text| text.unwrap_or_default().to_owned());
                Seen { place, reason, count: row.count, example: row.example.clone() }
            });
            summary.add(Summary { rows: rows.collect(), others: minute.others, hits: 0 });
        }
        summary
    }
}

impl Summary {
    /// Adds what another minute or worker has seen.
    pub fn add(&mut self, other: Self) {
        self.others += other.others;
        self.hits += other.hits;
        for seen in other.rows {
            match self.rows.iter_mut().find(|row| row.place == seen.place && row.reason == seen.reason) {
                Some(row) => {
                    row.count += seen.count;
                    row.example = seen.example;
                }
                None => self.rows.push(seen),
            }
        }
        self.rows.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| (&a.place, &a.reason).cmp(&(&b.place, &b.reason))));
    }

    /// For programs.
    pub fn to_json(&self) -> Value {
        let row = |row: &Seen| {
            let Example { url, made_by } = &row.example;
            let made_by = (!made_by.is_empty()).then_some(&**made_by);
            json!({ "count": row.count, "reason": row.reason, "place": row.place, "example": **url, "made_by": made_by })
        };
        json!({
            "minutes": MINUTES,
            "hits": self.hits,
            "misses": self.misses(),
            "others": self.others,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// How many requests were no hits.
    pub fn misses(&self) -> u64 {
        self.rows.iter().map(|row| row.count).sum::<u64>() + self.others
    }
}

/// What is kept of a text.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(url: &str) -> Example {
        Example { url: url.into(), made_by: url.into() }
    }

    fn seen(misses: &Misses, now: u64) -> Vec<String> {
        let summary = misses.summary(100, Time::from_secs(now));
        let row = |seen: &Seen| format!("{} {}: {} ({})", seen.count, seen.place, seen.reason, seen.example.url);
        summary.rows.iter().map(row).collect()
    }

    #[test]
    fn places_and_reasons_are_counted_apart_for_ten_minutes() {
        let mut misses = Misses::default();
        let mut note = |place, reason, hits, now, example: &str| {
            misses.note(str::to_owned(place), reason, hits, Time::from_secs(now), || of(example));
        };
        note("a /", "method", 10, 0, "/1");
        note("a /", "method", 20, 59, "/2");
        note("a /", "method", 30, 60, "/3");
        note("a /b", "method", 40, 61, "/b/1");
        // The place ends elsewhere, and both together read the same.
        note("a", " /method", 40, 62, "/c");
        assert_eq!(seen(&misses, 62), ["3 a /: method (/3)", "1 a:  /method (/c)", "1 a /b: method (/b/1)"]);
        let summary = misses.summary(100, Time::from_secs(62));
        assert_eq!((summary.misses(), summary.hits), (5, 90));
        assert_eq!(seen(&misses, 600), ["1 a:  /method (/c)", "1 a /: method (/3)", "1 a /b: method (/b/1)"]);
        assert_eq!(seen(&misses, 660), Vec::<String>::new());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut misses = Misses::default();
        let long = "ä".repeat(TEXT_BYTES_MAX);
        for minute in 0..100 {
            for number in 0..2 * ROWS_MAX {
                misses.note(format!("{number}"), &long, 0, Time::from_secs(60 * minute), || of(&long));
            }
        }
        assert_eq!(misses.minutes.len() as u64, MINUTES);
        let summary = misses.summary(0, Time::from_secs(60 * 99));
        assert_eq!((summary.rows.len(), summary.others), (ROWS_MAX, MINUTES * ROWS_MAX as u64));
        assert!(summary.rows.iter().all(|row| {
            [row.reason.len(), row.example.url.len(), row.example.made_by.len()]
                .iter()
                .all(|len| *len <= TEXT_BYTES_MAX)
        }));
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let mut misses = Misses::default();
        for now in [6000, 60] {
            misses.note("a".to_owned(), "b", 0, Time::from_secs(now), Example::default);
        }
        assert_eq!(seen(&misses, 60), ["1 a: b ()"]);
    }
}
