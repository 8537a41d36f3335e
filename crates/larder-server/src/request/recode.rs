//! Changing a body as it passes: compressing, restoring, and what filters do.

use larder_compress::{Decoded, Decoder, Encoder};

use crate::context::Cx;
use crate::exchange::{Choice, Exchange};

use crate::filter::chain::Chain;
use crate::filter::change::{Change, Fed};
use crate::filter::charset::Converter;
use crate::filter::sub::Substitution;

use super::compress;
use super::filters::Filters;

/// How many bytes a body may be restored to before it is seen whether the client takes them: a small body can hold
/// gigabytes.
const RESTORED_BYTES: usize = 128 * 1024;

/// What is done to a body.
pub enum Recoder {
    /// It is compressed.
    Encode(Encoder),
    /// It is restored.
    Decode(Decoder),
    /// Parts of it are replaced.
    Substitute(Box<Substitution>),
    /// It is converted to another charset.
    Convert(Converter),
    /// Several of these, one after the other.
    Chain(Chain<Self>),
}

impl Recoder {
    /// The recoder for `choice`; `None` when the body stays as it is, or there is no encoder for its coding.
    pub fn new(choice: Choice, ex: &Exchange, cx: &Cx) -> Option<Self> {
        match choice {
            Choice::AsItIs | Choice::AsItIsHere => None,
            Choice::Compress(coding) => Encoder::new(coding, compress::params(coding, ex, cx)).ok().map(Self::Encode),
            Choice::Restore(coding) => Decoder::new(coding).ok().map(Self::Decode),
        }
    }

    /// Restores, runs the filters, then compresses, as `choice` says; `None` when there is no encoder for a coding.
    pub fn with(filters: Filters, choice: Choice, ex: &Exchange, cx: &Cx) -> Option<Self> {
        let mut changes = Vec::with_capacity(3);
        if let Choice::Restore(_) = choice {
            changes.push(Self::new(choice, ex, cx)?);
        }
        changes.extend(filters.sub.map(|sub| Self::Substitute(Box::new(sub))));
        changes.extend(filters.charset.map(|table| Self::Convert(Converter::new(table))));
        if let Choice::Compress(_) = choice {
            changes.push(Self::new(choice, ex, cx)?);
        }
        if changes.len() == 1 { changes.pop() } else { Some(Self::Chain(Chain::new(changes))) }
    }
}

impl Change for Recoder {
    fn feed(&mut self, input: &mut &[u8], out: &mut Vec<u8>) -> Result<Fed, String> {
        match self {
            Self::Encode(encoder) => {
                encoder.encode(input, out).map_err(|error| error.to_string())?;
                *input = &[];
                Ok(Fed::All)
            }
            Self::Decode(decoder) => {
                match decoder.decode(input, out, RESTORED_BYTES).map_err(|error| error.to_string())? {
                    Decoded::NeedsInput => Ok(Fed::All),
                    Decoded::Full => Ok(Fed::Some),
                }
            }
            Self::Substitute(sub) => Ok(sub.feed(input, out)),
            Self::Convert(converter) => {
                converter.feed(input, out);
                *input = &[];
                Ok(Fed::All)
            }
            Self::Chain(chain) => chain.feed(input, out),
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Encode(encoder) => encoder.flush(out).map_err(|error| error.to_string()),
            // Bytes that may begin a match or a character wait for the next ones.
            Self::Decode(_) | Self::Substitute(_) | Self::Convert(_) => Ok(()),
            Self::Chain(chain) => chain.flush(out),
        }
    }

    fn finish(self, out: &mut Vec<u8>) -> Result<(), String> {
        match self {
            Self::Encode(encoder) => encoder.finish(out).map_err(|error| error.to_string()),
            Self::Decode(decoder) => decoder.finish().map_err(|error| error.to_string()),
            Self::Substitute(sub) => {
                sub.finish(out);
                Ok(())
            }
            Self::Convert(converter) => {
                converter.finish(out);
                Ok(())
            }
            Self::Chain(chain) => chain.finish(out),
        }
    }
}

/// A body that is changed on its way.
pub struct Recoding {
    /// `None` when it has come to its end.
    recoder: Option<Recoder>,
    /// What was made and has not been sent.
    pub out: Vec<u8>,
    /// Whether something went in since the last flush.
    holds: bool,
    /// Bytes that went in.
    pub taken: u64,
    /// Bytes that came out.
    pub made: u64,
}

impl Recoding {
    /// One at its beginning, with room for `bytes` that were made.
    pub fn new(recoder: Recoder, bytes: usize) -> Self {
        Self { recoder: Some(recoder), out: Vec::with_capacity(bytes), holds: false, taken: 0, made: 0 }
    }

    /// Takes of `input`; says whether that was all.
    pub fn feed(&mut self, input: &mut &[u8]) -> Result<Fed, String> {
        let Some(recoder) = &mut self.recoder else { return Ok(Fed::All) };
        let before = input.len();
        let fed = recoder.feed(input, &mut self.out)?;
        self.taken += (before - input.len()) as u64;
        self.holds = true;
        Ok(fed)
    }

    /// What is held back goes to what was made.
    pub fn flush(&mut self) -> Result<(), String> {
        match &mut self.recoder {
            Some(_) if !std::mem::take(&mut self.holds) => Ok(()),
            Some(recoder) => recoder.flush(&mut self.out),
            None => Ok(()),
        }
    }

    /// So does the end.
    pub fn finish(&mut self) -> Result<(), String> {
        match self.recoder.take() {
            Some(recoder) => recoder.finish(&mut self.out),
            None => Ok(()),
        }
    }

    /// What was made.
    pub fn take(&mut self) -> Vec<u8> {
        self.made += self.out.len() as u64;
        std::mem::take(&mut self.out)
    }
}
