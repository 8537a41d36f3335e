//! A page that is to be stored, and who keeps it until then.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;

use super::body::DiskBody;

/// A page to be stored.
pub struct Page {
    /// Its whole key.
    pub key: Box<[u8]>,
    /// Which of the pages under the key it is.
    pub variant: u8,
    /// Kept with it and given back as it is.
    pub head: Bytes,
    /// Its body.
    pub body: PageBody,
    /// From when on it is of no use at all, in seconds since 1970.
    pub expires_at: u64,
    /// What it cost to make.
    pub cost_micros: u32,
    /// Who keeps it until it is written. Dropped when it is, or is not going to be.
    pub holds: Option<Box<dyn Hold>>,
}

/// Who keeps a page until it is written.
pub trait Hold: Send {
    /// Whether it is still to be written. False when it was replaced or removed since: whoever did that has told the
    /// shelf, or is about to.
    fn is_wanted(&self) -> bool {
        true
    }

    /// The number of the newest ban in words that the page was tested by.
    fn tested(&self) -> u64 {
        u64::MAX
    }

    /// How the page can be had later, when it cannot be written now. `None`: it is not written then.
    fn owe(&self) -> Option<Box<dyn Owed>> {
        None
    }
}

/// A page that is to be written later.
pub trait Owed: Send {
    /// The page, if it is still to be written. It is kept from then on until it is.
    fn page(&self) -> Payable;

    /// Whether [`Owed::page`] would give it.
    fn is_there(&self) -> bool;
}

/// What has become of a page that is owed.
pub enum Payable {
    /// It is to be written.
    Page(Page),
    /// Another is in its place.
    Replaced,
    /// It is not in memory any more.
    Gone,
}

/// The body of a page to be stored.
pub enum PageBody {
    /// Pieces, in order.
    Memory(Vec<Bytes>),
    /// A part of a file, which does not change until the page is written.
    File {
        /// The file.
        file: Arc<File>,
        /// Where in it the body begins.
        offset: u64,
        /// Its length.
        len: u64,
    },
    /// Slices that were stored before it, or the body of a page that is here already, which gets another head.
    Disk(DiskBody),
}

impl PageBody {
    /// Its length.
    pub fn len(&self) -> u64 {
        match self {
            Self::Memory(pieces) => pieces.iter().map(|piece| piece.len() as u64).sum(),
            Self::File { len, .. } => *len,
            Self::Disk(body) => body.len(),
        }
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that are to be written for it.
    pub(super) fn fresh_bytes(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::File { .. } => self.len(),
            Self::Disk(_) => 0,
        }
    }
}

/// Key and head of a page take at most one part in this many of a segment.
pub(super) const LABEL_SHARE: u64 = 8;
