//! What other nodes are still to be told.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Purges that are not in the log yet, in their order, and the file that keeps them while the server is away.
pub(crate) struct Queue {
    unsent: VecDeque<Unsent>,
    /// The number of the last one.
    newest: u64,
    /// The folder that keeps them.
    folder: Option<PathBuf>,
    /// How many from the front are in the file.
    kept: usize,
    /// Whether there is a file.
    has_file: bool,
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
        queue.kept = queue.unsent.len();
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

    /// Those up to this number are in the log.
    pub fn sent(&mut self, number: u64) {
        while self.unsent.front().is_some_and(|first| first.number <= number) {
            self.unsent.pop_front();
            self.kept = self.kept.saturating_sub(1);
        }
        if self.unsent.is_empty()
            && self.has_file
            && let Some(folder) = &self.folder
        {
            // If it stays, what it says is sent once more, which changes nothing.
            let _ = fs::remove_file(folder.join(UNSENT_FILE));
            self.has_file = false;
        }
    }

    /// Has the folder keep those that it does not keep yet.
    pub fn keep(&mut self) -> io::Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        if self.kept >= self.unsent.len() {
            return Ok(());
        }
        let mut text = Vec::new();
        self.unsent.range(self.kept..).for_each(|unsent| write(unsent, &mut text));
        append(folder, &text)?;
        (self.kept, self.has_file) = (self.unsent.len(), true);
        Ok(())
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
        // What the file says stays true, and is sent if this process ends before.
        self.kept = 0;
    }
}

fn append(folder: &Path, text: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().append(true).create(true).open(folder.join(UNSENT_FILE))?;
    file.write_all(text)?;
    file.sync_data()
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
        queue.keep().expect("it can be written");
        queue.push("pages".to_owned(), "purge soft all".to_owned());
        queue.keep().expect("it can be written");
        queue.push("pages".to_owned(), "not kept".to_owned());
        let mut again = of_folder();
        assert_eq!(words(&again), ["purge hard all", odd, "purge soft all"]);
        assert_eq!(again.unsent[1].zone, "o\tdd");
        again.sent(2);
        again.push("pages".to_owned(), "a later one".to_owned());
        again.keep().expect("it can be written");
        // What was sent is in the file until all is.
        assert_eq!(words(&of_folder()), ["purge hard all", odd, "purge soft all", "a later one"]);
        again.sent(again.newest());
        assert!(of_folder().is_empty() && !folder.path().join(UNSENT_FILE).exists());
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
            queue.sent(newest);
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
        queue.sent(1);
        assert_eq!(queue.first().len(), BATCH_MAX);
    }
}
