//! How far a node has read.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::str::FromStr;

/// The name of an entry of the log: milliseconds of the server, and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// When it was added, in milliseconds since 1970 by the server's clock.
    pub ms: u64,
    /// Its number among those of this millisecond.
    pub number: u64,
}

/// Everything up to this entry was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which log it is.
    pub epoch: String,
    /// The entry.
    pub at: EntryId,
}

/// A text is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not \"EPOCH MILLISECONDS-NUMBER\"")]
pub struct NoPlace;

impl FromStr for EntryId {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (ms, number) = text.split_once('-').ok_or(NoPlace)?;
        let number_of = |text: &str| {
            let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            is_number.then(|| text.parse().ok()).flatten().ok_or(NoPlace)
        };
        Ok(Self { ms: number_of(ms)?, number: number_of(number)? })
    }
}

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.number)
    }
}

impl FromStr for Place {
    type Err = NoPlace;

    fn from_str(text: &str) -> Result<Self, NoPlace> {
        let (epoch, at) = text.strip_suffix('\n').ok_or(NoPlace)?.split_once(' ').ok_or(NoPlace)?;
        match is_epoch(epoch) {
            true => Ok(Self { epoch: epoch.to_owned(), at: at.parse()? }),
            false => Err(NoPlace),
        }
    }
}

impl fmt::Display for Place {
    /// A line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} {}", self.epoch, self.at)
    }
}

/// Whether this can be the name of a log.
pub(crate) fn is_epoch(text: &str) -> bool {
    !text.is_empty() && text.len() <= EPOCH_BYTES_MAX && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

impl Place {
    /// The place that a folder keeps; `None` without one that can be read.
    pub fn of_folder(folder: &Path) -> Option<Self> {
        fs::read_to_string(folder.join(PLACE_FILE)).ok()?.parse().ok()
    }

    /// Has a folder keep it.
    pub fn keep_in(&self, folder: &Path) -> io::Result<()> {
        replace(folder, PLACE_FILE, self.to_string().as_bytes())
    }
}

/// Writes a file whole, so that a crash leaves the old one or the new one.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let new = folder.join(format!("{name}.new"));
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&new, folder.join(name))?;
    File::open(folder)?.sync_all()
}

/// The file in the folder of a zone that keeps its place.
pub const PLACE_FILE: &str = "larder.place";
const EPOCH_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn place(epoch: &str, ms: u64, number: u64) -> Place {
        Place { epoch: epoch.to_owned(), at: EntryId { ms, number } }
    }

    #[test]
    fn a_folder_keeps_a_place() {
        let folder = tempfile::tempdir().expect("there is room");
        assert_eq!(Place::of_folder(folder.path()), None);
        for place in [place("a1", 17, 3), place("b2", u64::MAX, 0)] {
            place.keep_in(folder.path()).expect("it can be written");
            assert_eq!(Place::of_folder(folder.path()), Some(place));
        }
        assert!(place("a", 1, 1).keep_in(&folder.path().join("none")).is_err());
    }

    #[test]
    fn what_is_no_place_is_none() {
        for text in [
            "",
            "\n",
            "a 1-2",
            "a 1-2\n\n",
            "a 1\n",
            "a -2\n",
            "a 1-\n",
            "a +1-2\n",
            "a 1-2-3\n",
            " 1-2\n",
            "\u{e9} 1-2\n",
            "a 18446744073709551616-0\n",
        ] {
            assert_eq!(text.parse::<Place>(), Err(NoPlace), "{text:?}");
        }
        assert_eq!("a 1-2\n".parse(), Ok(place("a", 1, 2)));
    }

    #[test]
    fn entries_are_in_the_order_of_the_log() {
        let of = |text: &str| text.parse::<EntryId>().expect("it is one");
        assert!(of("9-9") < of("10-0") && of("10-2") < of("10-10"));
    }
}
