//! A compressed log as its lines.

use std::fs::File;
use std::io::{self, Read};

use larder_compress::{Coding, Decoded, Decoder};

/// A gzip file, restored as it is read.
pub struct Unpacked {
    file: File,
    decoder: Decoder,
    /// What was read of the file, and how much of it the decoder has taken.
    packed: Vec<u8>,
    taken: usize,
    /// What was restored, and how much of it has been read.
    plain: Vec<u8>,
    given: usize,
}

impl Unpacked {
    /// Of a file, from where it is read next.
    pub fn new(file: File) -> io::Result<Unpacked> {
        let decoder = Decoder::new(Coding::Gzip).map_err(io::Error::other)?;
        Ok(Unpacked { file, decoder, packed: Vec::new(), taken: 0, plain: Vec::new(), given: 0 })
    }

    /// Restores some more; `false` at the end.
    fn restore(&mut self) -> io::Result<bool> {
        self.plain.clear();
        self.given = 0;
        loop {
            let mut input = &self.packed[self.taken..];
            let before = input.len();
            let decoded = self.decoder.decode(&mut input, &mut self.plain, PIECE_BYTES).map_err(io::Error::other)?;
            self.taken += before - input.len();
            if !self.plain.is_empty() {
                return Ok(true);
            }
            if decoded == Decoded::NeedsInput {
                self.packed.resize(PIECE_BYTES, 0);
                self.taken = 0;
                let count = self.file.read(&mut self.packed)?;
                self.packed.truncate(count);
                match (count, self.decoder.is_at_end()) {
                    (0, true) => return Ok(false),
                    (0, false) => {
                        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "its compressed data is cut"));
                    }
                    _ => {}
                }
            }
        }
    }
}

impl Read for Unpacked {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.given == self.plain.len() && !self.restore()? {
            return Ok(0);
        }
        let rest = &self.plain[self.given..];
        let count = rest.len().min(out.len());
        out[..count].copy_from_slice(&rest[..count]);
        self.given += count;
        Ok(count)
    }
}

const PIECE_BYTES: usize = 64 << 10;
