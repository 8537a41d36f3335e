//! Cuts an MP4 film by time as ngx_http_mp4_module does: new tables of samples, then a part of the old data.
//!
//! ```text
//! file:  ftyp  moov (mvhd, trak: tables of samples ...)  mdat (samples)       in any order
//! sent:  ftyp  moov, as far as it is known, made anew    mdat, of which only the samples from start to end
//! ```
//! `atom` reads atoms, `movie` reads what is kept of `moov`, `track` makes the tables of a track. All numbers come from
//! the file and are not trusted before they were checked against its length; nothing larger than `moov` is kept.

mod atom;
mod movie;
mod table;
mod times;
mod track;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::ops::Range;

use atom::Header;
use movie::Movie;

/// The part of a film that is requested.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// Where it begins, in milliseconds.
    pub start_ms: u64,
    /// Its length in milliseconds; 0 for the rest of the film.
    pub length_ms: u64,
    /// `mp4_start_key_frame`: begin at the key frame before; an edit list hides what is too early.
    pub from_key_frame: bool,
    /// The largest `moov` that is accepted.
    pub moov_bytes_max: u64,
}

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// The file unchanged.
    Whole,
    /// These bytes, then this part of the file, which is not empty.
    Part(Vec<u8>, Range<u64>),
}

/// Why a film cannot be cut.
#[derive(Debug, thiserror::Error)]
pub enum Mp4Error {
    /// The file cannot be read.
    #[error("read() failed: {0}")]
    Read(#[from] io::Error),
    /// The file ends within an atom's head.
    #[error("mp4 file truncated")]
    Truncated,
    /// An atom is smaller than its own head.
    #[error("mp4 atom is too small: {0}")]
    AtomTooSmall(u64),
    /// An atom is larger than its parent.
    #[error("mp4 atom too large: {0}")]
    AtomTooLarge(u64),
    /// There are more atoms than a film has.
    #[error("too many mp4 atoms")]
    TooManyAtoms,
    /// `ftyp` is unreasonably large.
    #[error("mp4 ftyp atom is too large: {0}")]
    FtypTooLarge(u64),
    /// `moov` is larger than allowed.
    #[error("mp4 moov atom is too large: {0}, you may want to increase mp4_max_buffer_size")]
    MoovTooLarge(u64),
    /// An atom's content is larger than the atom.
    #[error("mp4 {0} atom too small")]
    TooSmall(&'static str),
    /// There may be only one such atom.
    #[error("duplicate mp4 {0} atom")]
    Duplicate(&'static str),
    /// Such an atom is missing.
    #[error("no mp4 {0} atoms were found")]
    Missing(&'static str),
    /// A `cmov`, which nobody uses.
    #[error("mp4 compressed moov atom (cmov) is not supported")]
    Compressed,
    /// The film ends before the start.
    #[error("mp4 start time exceeds file duration")]
    StartTooLate,
    /// This table ends before the start.
    #[error("start time is out mp4 {0}")]
    StartOut(&'static str),
    /// This table ends before the requested end.
    #[error("end time is out mp4 {0}")]
    EndOut(&'static str),
    /// A table is inconsistent.
    #[error("{0}")]
    Nonsense(&'static str),
    /// No samples lie in that time.
    #[error("no data between start time and end time")]
    Empty,
}

/// A file, or a substitute for tests.
pub trait ReadAt {
    /// Fills `buffer` with the bytes from `at` on.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, at)
    }
}

/// Decides which part of a film of `len` bytes is sent, and makes the bytes that go before it.
pub fn cut(file: &impl ReadAt, len: u64, wanted: &Wanted) -> Result<Cut, Mp4Error> {
    let Some(places) = scan(file, len, wanted)? else { return Ok(Cut::Whole) };
    let mut moov = vec![0; usize::try_from(places.moov.end - places.moov.start).map_err(|_| Mp4Error::Truncated)?];
    file.read_exact_at(&mut moov, places.moov.start)?;
    let movie = Movie::parse(&moov, wanted)?;
    movie.write(&places, len, wanted)
}

/// Where the parts of the file lie.
#[derive(Debug)]
struct Places {
    /// `ftyp`, without its head.
    ftyp: Option<Vec<u8>>,
    /// The content of `moov`.
    moov: Range<u64>,
    /// Where `mdat` ends.
    data_end: u64,
}

/// The largest `ftyp` that is accepted, bytes.
const FTYP_BYTES_MAX: u64 = 1024;
/// The largest `moov` that any configuration can allow, as its tables count in 32 bits.
const MOOV_BYTES_MAX: u64 = 1 << 30;
/// The most atoms at the top level of the file. Recorders that write in pieces make some thousands.
const ATOMS_MAX: usize = 20_000;

/// Finds `ftyp`, `moov` and `mdat`. `None` if the whole film is requested and `moov` already comes first.
fn scan(file: &impl ReadAt, len: u64, wanted: &Wanted) -> Result<Option<Places>, Mp4Error> {
    let (mut ftyp, mut moov, mut data_end) = (None, None, None);
    let mut at = 0;
    for _ in 0..ATOMS_MAX {
        if let (Some(moov), Some(data_end)) = (&moov, data_end) {
            return Ok(Some(Places { ftyp, moov: Range::clone(moov), data_end }));
        }
        let Some(header) = read_header(file, at, len)? else {
            return Err(Mp4Error::Missing(if moov.is_none() { "trak" } else { "mdat" }));
        };
        let (start, end) = (at + header.head_bytes, at + header.bytes);
        match &header.name {
            b"ftyp" if ftyp.is_some() => return Err(Mp4Error::Duplicate("ftyp")),
            b"ftyp" if end - start > FTYP_BYTES_MAX => return Err(Mp4Error::FtypTooLarge(end - start)),
            b"ftyp" => {
                let mut bytes = vec![0; (end - start) as usize];
                file.read_exact_at(&mut bytes, start)?;
                ftyp = Some(bytes);
            }
            b"moov" if data_end.is_none() && wanted.start_ms == 0 && wanted.length_ms == 0 => return Ok(None),
            b"moov" if moov.is_some() => return Err(Mp4Error::Duplicate("moov")),
            b"moov" if end - start > wanted.moov_bytes_max.min(MOOV_BYTES_MAX) => {
                return Err(Mp4Error::MoovTooLarge(end - start));
            }
            b"moov" => moov = Some(start..end),
            b"mdat" if data_end.is_some() => return Err(Mp4Error::Duplicate("mdat")),
            b"mdat" => data_end = Some(end),
            _ => {}
        }
        at = end;
    }
    Err(Mp4Error::TooManyAtoms)
}

/// The head of the atom at `at`, which lies within the file; `None` at the end.
fn read_header(file: &impl ReadAt, at: u64, len: u64) -> Result<Option<Header>, Mp4Error> {
    let left = len.saturating_sub(at);
    if left == 0 {
        return Ok(None);
    }
    let mut bytes = [0; 16];
    let bytes = &mut bytes[..left.min(16) as usize];
    file.read_exact_at(bytes, at)?;
    Header::parse(bytes, left)
}

/// Parses seconds with a fraction, as in `?start=`, to milliseconds. Digits after the third are ignored, as players
/// send many. `None` if it is no such number.
pub fn milliseconds(text: &[u8]) -> Option<u64> {
    let (seconds, fraction) = match text.iter().position(|&byte| byte == b'.') {
        Some(dot) => (&text[..dot], &text[dot + 1..]),
        None => (text, &b""[..]),
    };
    if text.is_empty() || !seconds.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    let thousandths = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(3);
    let number = seconds
        .iter()
        .copied()
        .chain(thousandths)
        .try_fold(0i64, |number, digit| number.checked_mul(10)?.checked_add(i64::from(digit - b'0')))?;
    u64::try_from(number).ok()
}
