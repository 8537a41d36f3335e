//! A part of an MP4 film by time, as ngx_http_mp4_module cuts it: new tables of samples before a part of the old data.
//!
//! ```text
//! file:  ftyp  moov (mvhd, trak: tables of samples ...)  mdat (samples)       in any order
//! sent:  ftyp  moov, as far as it is known, made anew    mdat, of which only the samples from start to end
//! ```
//! [`mod@atom`] reads atoms, [`movie`] what of `moov` is kept, [`track`] makes the tables of a track. All numbers come from the
//! file and mean nothing until they have been held against its length; nothing larger than `moov` is kept.

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

/// What of a film is wanted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wanted {
    /// From when on, in milliseconds.
    pub start_ms: u64,
    /// How much, in milliseconds; 0 for all that follows.
    pub length_ms: u64,
    /// `mp4_start_key_frame`: it begins with the key frame before, and an edit list hides what is too early.
    pub from_key_frame: bool,
    /// A `moov` that is larger is refused.
    pub moov_bytes_max: u64,
}

/// What is sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Cut {
    /// The file as it is.
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
    /// It ends inside of an atom's head.
    #[error("mp4 file truncated")]
    Truncated,
    /// An atom is smaller than its own head.
    #[error("mp4 atom is too small: {0}")]
    AtomTooSmall(u64),
    /// An atom is larger than what it is in.
    #[error("mp4 atom too large: {0}")]
    AtomTooLarge(u64),
    /// There are more atoms than a film has.
    #[error("too many mp4 atoms")]
    TooManyAtoms,
    /// `ftyp` is larger than anybody needs.
    #[error("mp4 ftyp atom is too large: {0}")]
    FtypTooLarge(u64),
    /// `moov` is larger than is allowed.
    #[error("mp4 moov atom is too large: {0}, you may want to increase mp4_max_buffer_size")]
    MoovTooLarge(u64),
    /// What an atom says does not fit into it.
    #[error("mp4 {0} atom too small")]
    TooSmall(&'static str),
    /// There may be one of it.
    #[error("duplicate mp4 {0} atom")]
    Duplicate(&'static str),
    /// There must be one of it.
    #[error("no mp4 {0} atoms were found")]
    Missing(&'static str),
    /// `cmov`, which nobody uses.
    #[error("mp4 compressed moov atom (cmov) is not supported")]
    Compressed,
    /// The film is over by then.
    #[error("mp4 start time exceeds file duration")]
    StartTooLate,
    /// The film is over by then, says this table.
    #[error("start time is out mp4 {0}")]
    StartOut(&'static str),
    /// This table ends before that.
    #[error("end time is out mp4 {0}")]
    EndOut(&'static str),
    /// A table says what cannot be.
    #[error("{0}")]
    Nonsense(&'static str),
    /// There are no samples in that time.
    #[error("no data between start time and end time")]
    Empty,
}

/// A file, or what stands in for one.
pub trait ReadAt {
    /// Fills `buffer` from `at` on.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(self, buffer, at)
    }
}

/// Finds out what of a film of `len` bytes is sent, and makes what goes before the part of the file.
pub fn cut(file: &impl ReadAt, len: u64, wanted: &Wanted) -> Result<Cut, Mp4Error> {
    let Some(places) = scan(file, len, wanted)? else { return Ok(Cut::Whole) };
    let mut moov = vec![0; usize::try_from(places.moov.end - places.moov.start).map_err(|_| Mp4Error::Truncated)?];
    file.read_exact_at(&mut moov, places.moov.start)?;
    let movie = Movie::parse(&moov, wanted)?;
    movie.write(&places, len, wanted)
}

/// Where in the file what lies.
#[derive(Debug)]
struct Places {
    /// `ftyp`, without its head.
    ftyp: Option<Vec<u8>>,
    /// What is in `moov`.
    moov: Range<u64>,
    /// Where `mdat` ends.
    data_end: u64,
}

/// How large a `ftyp` may be.
const FTYP_BYTES_MAX: u64 = 1024;
/// How large a `moov` may be whatever the configuration says: its tables count in 32 bits.
const MOOV_BYTES_MAX: u64 = 1 << 30;
/// How many atoms may lie beside each other in the file. Recorders that write in pieces make some thousands.
const ATOMS_MAX: usize = 20_000;

/// Looks for `ftyp`, `moov` and `mdat`. `None`: the whole is wanted, and `moov` comes first in it already.
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

/// Milliseconds of a number of seconds with a fraction, as of `?start=`. Digits behind the third count for nothing, as
/// players send many; what is no such number is `None`.
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
