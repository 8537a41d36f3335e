//! Why requests of the last minutes were no hits: a count for each place and reason, with an example.
//!
//! Each worker has a table of its own, which is bounded however many places and reasons there are. Hits do not come here.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use larder_http::Time;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::stats::Stats;

/// How many minutes are kept.
pub const MINUTES: u64 = 10;
/// How many rows a minute has, and how many are told; what finds no room is counted together.
const ROWS_MAX: usize = 128;
/// How many rows there are of one place that differ only in what stands behind the first words of the reason: names that visitors
/// and origins choose. The others are one row.
const ALIKE_MAX: usize = 8;
/// What that row has behind those words.
const OTHERS: &str = " (others)";
/// For how long a summary is the same for all who ask, milliseconds.
const SUMMARY_MS: u64 = 1000;
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
    /// Its path and query, behind its method if that is not GET.
    pub url: Box<str>,
    /// What stands before the path in its URL: `https://shop.example`.
    pub site: Box<str>,
    /// What has given the variable of a condition its value, such as a cookie; empty if there is none.
    pub made_by: Box<str>,
}

impl Example {
    /// Its URL, if it is a GET and all of the URL is known, byte for byte.
    pub fn whole_url(&self) -> Option<String> {
        let is_whole = |text: &str| text.len() < TEXT_BYTES_MAX && !text.contains('\\');
        (self.url.starts_with('/') && is_whole(&self.url) && is_whole(&self.site))
            .then(|| format!("{}{}", self.site, self.url))
    }
}

/// The tables of all workers of the process.
#[derive(Clone, Debug, Default)]
pub struct AllMisses(Arc<Tables>);

#[derive(Debug, Default)]
struct Tables {
    workers: Mutex<Vec<OfWorker>>,
    /// The last summary, and when it was made. It is locked while one is made, so that all who ask share it.
    last: Mutex<Option<(Time, Arc<Summary>)>>,
}

#[derive(Debug)]
struct OfWorker {
    stats: Arc<Stats>,
    misses: Arc<Mutex<Misses>>,
}

impl AllMisses {
    /// The table of one more worker, whose counters these are. Others lock it only to read.
    pub fn add_worker(&self, stats: Arc<Stats>) -> Arc<Mutex<Misses>> {
        let misses = Arc::default();
        self.0.workers.lock().push(OfWorker { stats, misses: Arc::clone(&misses) });
        misses
    }

    /// What all have seen in the minutes before `now`; made once a second at most.
    pub fn summary(&self, now: Time) -> Arc<Summary> {
        let mut last = self.0.last.lock();
        if let Some((at, summary)) = &*last
            && at.0 <= now.0
            && now.0 - at.0 < SUMMARY_MS
        {
            return Arc::clone(summary);
        }
        let mut all = Gathered::default();
        for OfWorker { stats, misses } in &*self.0.workers.lock() {
            misses.lock().gather(stats.hits.get(), now, &mut all);
        }
        let summary = Arc::new(all.summary());
        *last = Some((now, Arc::clone(&summary)));
        summary
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
        if let Some(row) = minute.rows.get_mut(key) {
            row.count += 1;
            return;
        }
        let begin = alike(key, place_bytes);
        let count = minute.rows.iter().filter(|(key, row)| alike(key, row.place_bytes) == begin).count();
        let key = match count < ALIKE_MAX || begin == key {
            true => Cow::Borrowed(key),
            false => Cow::Owned(format!("{begin}{OTHERS}")),
        };
        if let Some(row) = minute.rows.get_mut(&*key) {
            row.count += 1;
            return;
        }
        if minute.rows.len() >= ROWS_MAX {
            // What came once makes room: what comes again and again stays, however many others there are.
            let Some(once) = minute.rows.iter().find(|(_, row)| row.count == 1).map(|(key, _)| key.clone()) else {
                minute.others += 1;
                return;
            };
            minute.rows.remove(&once);
            minute.others += 1;
        }
        let Example { url, site, made_by } = example();
        let example = Example { url: cut(&url).into(), site: cut(&site).into(), made_by: cut(&made_by).into() };
        minute.rows.insert(key.as_ref().into(), Row { count: 1, place_bytes, example });
    }

    /// Adds what was seen in the minutes before `now`; `hits` as above.
    pub fn gather(&self, hits: u64, now: Time, all: &mut Gathered) {
        let number = now.secs() / 60;
        let mut recent = self.minutes.iter().filter(|minute| minute.number + MINUTES > number).peekable();
        if let Some(first) = recent.peek() {
            all.hits += hits.saturating_sub(first.hits_before);
        }
        for minute in recent {
            all.others += minute.others;
            for (key, row) in &minute.rows {
                all.add(key, row);
            }
        }
    }
}

/// The beginning of a key that rows share which differ in a name: the place, and the reason up to what is in brackets or behind a colon.
fn alike(key: &str, place_bytes: usize) -> &str {
    let reason = key.get(place_bytes + 1..).unwrap_or_default();
    let end = [" (", ": "].iter().filter_map(|mark| reason.find(mark)).min().unwrap_or(reason.len());
    key.get(..place_bytes + 1 + end).unwrap_or(key)
}

/// What several minutes and workers have seen.
#[derive(Debug, Default)]
pub struct Gathered {
    rows: HashMap<Box<str>, Row>,
    others: u64,
    hits: u64,
}

impl Gathered {
    /// Adds what another worker has seen.
    pub fn join(&mut self, other: Self) {
        self.others += other.others;
        self.hits += other.hits;
        for (key, row) in &other.rows {
            self.add(key, row);
        }
    }

    fn add(&mut self, key: &str, row: &Row) {
        match self.rows.get_mut(key) {
            Some(sum) => {
                sum.count += row.count;
                sum.example = row.example.clone();
            }
            None => drop(self.rows.insert(key.into(), row.clone())),
        }
    }

    /// The same in order.
    pub fn summary(self) -> Summary {
        let mut rows: Vec<(Box<str>, Row)> = self.rows.into_iter().collect();
        rows.sort_unstable_by(in_order);
        let mut summary = Summary { rows: Vec::new(), others: self.others, hits: self.hits };
        let mut alike_so_far: HashMap<&str, usize> = HashMap::new();
        let mut told: Vec<(&str, Row)> = Vec::new();
        let mut joined: HashMap<&str, Row> = HashMap::new();
        for (key, row) in &rows {
            let alike = alike(key, row.place_bytes);
            let count = alike_so_far.entry(alike).or_default();
            *count += 1;
            if *count <= ALIKE_MAX && !key.ends_with(OTHERS) {
                told.push((key, row.clone()));
            } else {
                joined.entry(alike).and_modify(|sum| sum.count += row.count).or_insert_with(|| row.clone());
            }
        }
        let joined = joined.into_iter().map(|(alike, row)| (format!("{alike}{OTHERS}").into_boxed_str(), row));
        let mut rows: Vec<(Box<str>, Row)> =
            told.into_iter().map(|(key, row)| (key.into(), row)).chain(joined).collect();
        rows.sort_unstable_by(in_order);
        for (place, (key, row)) in rows.into_iter().enumerate() {
            if place >= ROWS_MAX {
                summary.others += row.count;
                continue;
            }
            let (place, reason) = (key.get(..row.place_bytes), key.get(row.place_bytes + 1..));
            let [place, reason] = [place, reason].map(|text| text.unwrap_or_default().to_owned());
            summary.rows.push(Seen { place, reason, count: row.count, example: row.example });
        }
        summary
    }
}

/// The most frequent first, and then by their names.
fn in_order(a: &(Box<str>, Row), b: &(Box<str>, Row)) -> std::cmp::Ordering {
    (Reverse(a.1.count), &a.0).cmp(&(Reverse(b.1.count), &b.0))
}

impl Summary {
    /// For programs.
    pub fn to_json(&self) -> Value {
        let row = |row: &Seen| {
            let Example { url, made_by, .. } = &row.example;
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
        Example { url: url.into(), site: url.into(), made_by: url.into() }
    }

    fn summary(misses: &Misses, hits: u64, now: u64) -> Summary {
        let mut all = Gathered::default();
        misses.gather(hits, Time::from_secs(now), &mut all);
        all.summary()
    }

    fn seen(misses: &Misses, now: u64) -> Vec<String> {
        let summary = summary(misses, 100, now);
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
        let summary = summary(&misses, 100, 62);
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
        assert!(misses.minutes.iter().all(|minute| minute.rows.len() == ROWS_MAX));
        let summary = summary(&misses, 0, 60 * 99);
        assert_eq!((summary.rows.len(), summary.misses()), (ROWS_MAX, MINUTES * 2 * ROWS_MAX as u64));
        assert!(summary.rows.iter().all(|row| {
            [row.reason.len(), row.example.url.len(), row.example.site.len(), row.example.made_by.len()]
                .iter()
                .all(|len| *len <= TEXT_BYTES_MAX)
        }));
    }

    #[test]
    fn names_that_others_choose_drown_no_reason() {
        let mut misses = Misses::default();
        for minute in 0..MINUTES {
            let now = Time::from_secs(60 * minute);
            for number in 0..1000 {
                let url = format!("/{minute}/{number}");
                misses.note("a /".to_owned(), &format!("Set-Cookie (c{minute}-{number})"), 0, now, || of(&url));
                // A VCL that serves alone has as many places as visitors name hosts.
                misses.note(format!("{minute}-{number}.test"), "pass", 0, now, || of(&url));
            }
            for _ in 0..2 {
                misses.note("a /".to_owned(), "proxy_no_cache $a at a.conf:1", 0, now, || of("/real"));
            }
        }
        let summary = summary(&misses, 0, 60 * MINUTES - 1);
        assert_eq!(summary.misses(), MINUTES * 2002);
        let row = |seen: &Seen| format!("{} {}: {}", seen.count, seen.place, seen.reason);
        assert_eq!(summary.rows[0].reason, "Set-Cookie (others)");
        assert_eq!(row(&summary.rows[1]), "20 a /: proxy_no_cache $a at a.conf:1");
        assert!(summary.rows.iter().filter(|seen| seen.reason.starts_with("Set-Cookie")).count() <= ALIKE_MAX + 1);
    }

    #[test]
    fn all_who_ask_within_a_second_share_a_summary() {
        let all = AllMisses::default();
        let misses = all.add_worker(Arc::default());
        let now = Time::from_secs(60);
        let note = || misses.lock().note("a".to_owned(), "b", 0, now, Example::default);
        note();
        let first = all.summary(now);
        note();
        assert!(Arc::ptr_eq(&first, &all.summary(Time(now.0 + SUMMARY_MS - 1))));
        assert_eq!(all.summary(Time(now.0 + SUMMARY_MS)).misses(), 2);
        assert_eq!(all.summary(Time(now.0 - 1)).misses(), 2, "a clock that is set back");
    }

    #[test]
    fn a_clock_that_is_set_back_begins_anew() {
        let mut misses = Misses::default();
        for now in [6000, 60] {
            misses.note("a".to_owned(), "b", 0, Time::from_secs(now), Example::default);
        }
        assert_eq!(seen(&misses, 60), ["1 a: b ()"]);
    }

    #[test]
    fn an_example_has_a_url_if_all_of_it_is_known() {
        let long = format!("/{}", "a".repeat(TEXT_BYTES_MAX));
        for (url, expected) in [
            ("/a?b=c", Some("http://a:81/a?b=c")),
            ("POST /a", None),
            ("/\\xff", None),
            ("*", None),
            (cut(&long), None),
        ] {
            let example = Example { url: url.into(), site: "http://a:81".into(), made_by: Box::default() };
            assert_eq!(example.whole_url().as_deref(), expected, "{url}");
        }
    }
}
