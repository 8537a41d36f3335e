//! What other nodes are still to be told.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;

/// Purges that are not in the log yet, in their order, and the file that keeps them while the server is away.
pub(crate) struct Queue {
    unsent: VecDeque<Unsent>,
    /// The number of the last one.
    newest: u64,
    /// The folder that keeps them.
    folder: Option<PathBuf>,
    /// Those up to this number are in the file.
    kept: u64,
    /// Whether there is a file.
    has_file: bool,
}

/// What a file is still to keep.
pub(crate) struct Unkept {
    folder: PathBuf,
    text: Vec<u8>,
    /// Up to which number.
    number: u64,
}

/// A purge that is not in the log yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unsent {
    /// Its number in this process.
    pub number: u64,
    /// The zone.
    pub zone: String,
    /// What is purged.
    pub words: String,
}

impl Queue {
    /// Those that the folder has kept.
    pub fn of_folder(folder: Option<PathBuf>) -> Self {
        let text = folder.as_ref().and_then(|folder| fs::read(folder.join(UNSENT_FILE)).ok());
        let has_file = text.is_some();
        let mut queue = Self { unsent: VecDeque::new(), newest: 0, folder, kept: 0, has_file };
        // A last line without an end was being written when the machine went down: nobody was told that it is kept.
        for line in text.iter().flat_map(|text| text.split_inclusive(|byte| *byte == b'\n')) {
            if let Some((zone, words)) = line.strip_suffix(b"\n").and_then(read) {
                queue.push(zone, words);
            }
        }
        queue.kept = queue.newest;
        queue
    }

    /// Adds one, and returns its number.
    pub fn push(&mut self, zone: String, words: String) -> u64 {
        self.newest += 1;
        self.unsent.push_back(Unsent { number: self.newest, zone, words });
        if self.unsent.len() > UNSENT_MAX {
            self.shorten();
        }
        self.newest
    }

    /// The number of the last one.
    pub fn newest(&self) -> u64 {
        self.newest
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unsent.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.unsent.len()
    }

    /// The first ones, as many as are sent at once.
    pub fn first(&self) -> Vec<Unsent> {
        let mut bytes = 0;
        let fits = |unsent: &&Unsent| {
            bytes += unsent.words.len();
            bytes <= BATCH_BYTES_MAX
        };
        let mut first: Vec<Unsent> = self.unsent.iter().take(BATCH_MAX).take_while(fits).cloned().collect();
        if first.is_empty() {
            first.extend(self.unsent.front().cloned());
        }
        first
    }

    /// Those up to this number are in the log. Returns the file that has nothing to keep any more.
    #[must_use]
    pub fn sent(&mut self, number: u64) -> Option<PathBuf> {
        while self.unsent.front().is_some_and(|first| first.number <= number) {
            self.unsent.pop_front();
        }
        let is_over = self.unsent.is_empty() && std::mem::take(&mut self.has_file);
        self.folder.as_ref().filter(|_| is_over).map(|folder| folder.join(UNSENT_FILE))
    }

    /// What the folder does not keep yet. It is [written](Unkept::write) while others push, and then [noted](Self::kept).
    pub fn unkept(&self) -> Option<Unkept> {
        let folder = self.folder.clone()?;
        let number = self.unsent.back().map(|last| last.number).filter(|last| *last > self.kept)?;
        let (count, mut text) =
            (self.unsent.iter().rev().take_while(|unsent| unsent.number > self.kept).count(), Vec::new());
        self.unsent.range(self.unsent.len() - count..).for_each(|unsent| write(unsent, &mut text));
        Some(Unkept { folder, text, number })
    }

    /// The folder keeps these, or cannot.
    pub fn kept(&mut self, unkept: &Unkept) {
        (self.kept, self.has_file) = (unkept.number, true);
    }

    /// Has one purge of all for each zone take the place of very many.
    fn shorten(&mut self) {
        let mut zones: Vec<(String, bool)> = Vec::new();
        for unsent in self.unsent.drain(..) {
            let is_hard = !unsent.words.starts_with("purge soft ");
            match zones.iter_mut().find(|(zone, _)| *zone == unsent.zone) {
                Some((_, has_hard)) => *has_hard |= is_hard,
                None => zones.push((unsent.zone, is_hard)),
            }
        }
        for (zone, is_hard) in zones {
            let words = if is_hard { "purge hard all" } else { "purge soft all" };
            self.unsent.push_back(Unsent { number: self.newest, zone, words: words.to_owned() });
        }
    }
}

impl Unkept {
    /// Writes it, durably.
    pub fn write(&self) -> io::Result<()> {
        let mut file: File = OpenOptions::new().append(true).create(true).open(self.folder.join(UNSENT_FILE))?;
        file.write_all(&self.text)?;
        file.sync_data()
    }
}

/// A line `ZONE<tab>WORDS`, in which `\\`, `\t` and `\n` are bytes of the texts.
fn write(unsent: &Unsent, line: &mut Vec<u8>) {
    put(&unsent.zone, line);
    line.push(b'\t');
    put(&unsent.words, line);
    line.push(b'\n');
}

fn put(text: &str, line: &mut Vec<u8>) {
    for byte in text.bytes() {
        match byte {
            b'\\' => line.extend_from_slice(b"\\\\"),
            b'\t' => line.extend_from_slice(b"\\t"),
            b'\n' => line.extend_from_slice(b"\\n"),
            byte => line.push(byte),
        }
    }
}

fn read(line: &[u8]) -> Option<(String, String)> {
    let at = line.iter().position(|byte| *byte == b'\t')?;
    let (zone, words) = line.split_at(at);
    Some((unescaped(zone)?, unescaped(words.get(1..)?)?))
}

fn unescaped(text: &[u8]) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.iter());
    while let Some(&byte) = rest.next() {
        bytes.push(match byte {
            b'\\' => match rest.next()? {
                b'\\' => b'\\',
                b't' => b'\t',
                b'n' => b'\n',
                _ => return None,
            },
            b'\t' => return None,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The file in the folder of a zone that keeps purges which other nodes are still to be told.
pub const UNSENT_FILE: &str = "larder.unsent";
/// How many are kept one by one.
const UNSENT_MAX: usize = 100_000;
/// How many are sent at once.
const BATCH_MAX: usize = 256;
const BATCH_BYTES_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(queue: &mut Queue) {
        let unkept = queue.unkept().expect("there is something to keep");
        unkept.write().expect("it can be written");
        queue.kept(&unkept);
        assert!(queue.unkept().is_none());
    }

    fn words(queue: &Queue) -> Vec<&str> {
        queue.unsent.iter().map(|unsent| &*unsent.words).collect()
    }

    #[test]
    fn what_is_unsent_is_there_after_a_start() {
        let folder = tempfile::tempdir().expect("there is room");
        let of_folder = || Queue::of_folder(Some(folder.path().to_owned()));
        let mut queue = of_folder();
        assert!(queue.is_empty());
        let odd = "obj.http.a ~ \"\\\t\n\u{e9}\"";
        queue.push("pages".to_owned(), "purge hard all".to_owned());
        queue.push("o\tdd".to_owned(), odd.to_owned());
        keep(&mut queue);
        queue.push("pages".to_owned(), "purge soft all".to_owned());
        keep(&mut queue);
        queue.push("pages".to_owned(), "not kept".to_owned());
        let mut again = of_folder();
        assert_eq!(words(&again), ["purge hard all", odd, "purge soft all"]);
        assert_eq!(again.unsent[1].zone, "o\tdd");
        assert_eq!(again.sent(2), None);
        again.push("pages".to_owned(), "a later one".to_owned());
        keep(&mut again);
        // What was sent is in the file until all is.
        assert_eq!(words(&of_folder()), ["purge hard all", odd, "purge soft all", "a later one"]);
        assert_eq!(again.sent(again.newest()), Some(folder.path().join(UNSENT_FILE)));
        assert_eq!(again.sent(again.newest()), None);
    }

    #[test]
    fn a_line_that_was_not_finished_or_cannot_be_read_is_left_out() {
        let folder = tempfile::tempdir().expect("there is room");
        let text = b"pages\tone\nno tab\npages\t\\x\npages\t\xff\npages\ttwo\npages\tthr";
        fs::write(folder.path().join(UNSENT_FILE), text).expect("it can be written");
        assert_eq!(words(&Queue::of_folder(Some(folder.path().to_owned()))), ["one", "two"]);
    }

    #[test]
    fn too_many_become_a_purge_of_all() {
        for (last, expected) in [("purge soft key a", "purge soft all"), ("obj.age > 1h", "purge hard all")] {
            let mut queue = Queue::of_folder(None);
            for number in 0..UNSENT_MAX {
                queue.push("pages".to_owned(), format!("purge soft key {number}"));
            }
            let newest = queue.push("pages".to_owned(), last.to_owned());
            assert_eq!(words(&queue), [expected]);
            assert_eq!(queue.sent(newest), None);
            assert!(queue.is_empty());
        }
    }

    #[test]
    fn a_few_are_sent_at_once() {
        let mut queue = Queue::of_folder(None);
        queue.push("pages".to_owned(), "x".repeat(2 * BATCH_BYTES_MAX));
        for _ in 0..BATCH_MAX * 2 {
            queue.push("pages".to_owned(), "y".to_owned());
        }
        assert_eq!(queue.first().len(), 1);
        assert_eq!(queue.sent(1), None);
        assert_eq!(queue.first().len(), BATCH_MAX);
    }
}
