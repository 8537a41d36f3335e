//! Compressing a body as it comes.

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct};
use flate2::{Compress, Compression, FlushCompress, Status};
use larder_http::Coding;
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer};

use crate::params::Params;

/// Why bytes could not be compressed. Nothing about the bytes themselves can be the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The compressor of this coding gave up: no memory, or a body of another length than announced.
    #[error("the {0} compressor gave up")]
    GaveUp(Coding),
}

/// Compresses one body.
///
/// ```text
/// encode* -- flush --> encode* ... -- finish -->
/// ```
/// What it gives is appended to the caller's buffer; a stream that was not finished is cut short.
pub struct Encoder {
    state: State,
}

enum State {
    Gzip(Gzip),
    Brotli(Brotli),
    Zstd(Zstd),
}

impl Encoder {
    /// An encoder for a body of any length.
    pub fn new(coding: Coding, params: Params) -> Result<Self, EncodeError> {
        Self::make(coding, params, None)
    }

    /// An encoder for a body of exactly `len` bytes: another length is an error when it is finished, for zstd.
    /// It works better and faster for knowing.
    pub fn of_len(coding: Coding, params: Params, len: u64) -> Result<Self, EncodeError> {
        Self::make(coding, params, Some(len))
    }

    fn make(coding: Coding, params: Params, len: Option<u64>) -> Result<Self, EncodeError> {
        let params = params.within(coding);
        let state = match coding {
            Coding::Gzip => State::Gzip(Gzip::new(params)),
            Coding::Brotli => State::Brotli(Brotli::new(params, len)),
            Coding::Zstd => State::Zstd(Zstd::new(params, len)?),
        };
        Ok(Self { state })
    }

    /// Takes all of `input`; some of what it becomes, or nothing yet, is appended to `out`.
    pub fn encode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.state {
            State::Gzip(gzip) => gzip.run(input, FlushCompress::None, out),
            State::Brotli(brotli) => brotli.run(input, BrotliEncoderOperation::BROTLI_OPERATION_PROCESS, out),
            State::Zstd(zstd) => zstd.run(input, ZSTD_EndDirective::ZSTD_e_continue, out),
        }
    }

    /// Appends what is still missing for the client to see all input so far. Costs some ratio.
    pub fn flush(&mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.state {
            State::Gzip(gzip) => gzip.run(&[], FlushCompress::Sync, out),
            State::Brotli(brotli) => brotli.run(&[], BrotliEncoderOperation::BROTLI_OPERATION_FLUSH, out),
            State::Zstd(zstd) => zstd.run(&[], ZSTD_EndDirective::ZSTD_e_flush, out),
        }
    }

    /// Appends the rest and the end of the stream.
    pub fn finish(mut self, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match &mut self.state {
            State::Gzip(gzip) => gzip.run(&[], FlushCompress::Finish, out),
            State::Brotli(brotli) => brotli.run(&[], BrotliEncoderOperation::BROTLI_OPERATION_FINISH, out),
            State::Zstd(zstd) => zstd.run(&[], ZSTD_EndDirective::ZSTD_e_end, out),
        }
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let coding = match &self.state {
            State::Gzip(_) => Coding::Gzip,
            State::Brotli(_) => Coding::Brotli,
            State::Zstd(_) => Coding::Zstd,
        };
        write!(f, "Encoder({coding})")
    }
}

/// gzip. Its head has no name and no time, as nginx's has.
struct Gzip {
    deflate: Compress,
}

impl Gzip {
    fn new(params: Params) -> Self {
        Self { deflate: Compress::new_gzip(Compression::new(params.level.into()), params.window_bits) }
    }

    fn run(&mut self, input: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        deflate(&mut self.deflate, input, flush, out)
    }
}

/// Compresses all of `input`, and appends what that gives.
pub fn deflate(
    compress: &mut Compress,
    mut input: &[u8],
    flush: FlushCompress,
    out: &mut Vec<u8>,
) -> Result<(), EncodeError> {
    loop {
        out.reserve(STEP_BYTES);
        let before = compress.total_in();
        let status = compress.compress_vec(input, out, flush);
        let taken = (compress.total_in() - before) as usize;
        input = input.get(taken..).unwrap_or_default();
        // With room left in the buffer it has given all that this call can give.
        let is_drained = input.is_empty() && out.len() < out.capacity();
        match status.map_err(|_| EncodeError::GaveUp(Coding::Gzip))? {
            Status::StreamEnd => return Ok(()),
            Status::Ok | Status::BufError if is_drained => {
                return match flush {
                    FlushCompress::Finish => Err(EncodeError::GaveUp(Coding::Gzip)),
                    _ => Ok(()),
                };
            }
            Status::Ok | Status::BufError => {}
        }
    }
}

/// brotli. It takes its memory when the first bytes come.
struct Brotli {
    state: Box<BrotliEncoderStateStruct<StandardAlloc>>,
}

impl Brotli {
    fn new(params: Params, len: Option<u64>) -> Self {
        let mut state = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_QUALITY, params.level.into());
        state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_LGWIN, params.window_bits.into());
        if let Some(len) = len {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            state.set_parameter(BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT, len);
        }
        Self { state }
    }

    fn run(&mut self, input: &[u8], operation: BrotliEncoderOperation, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut input_left = input.len();
        let mut input_at = 0;
        loop {
            // No room is offered, so that the output is copied once, from where the encoder keeps it.
            let done = self.state.compress_stream(
                operation,
                &mut input_left,
                input,
                &mut input_at,
                &mut 0,
                &mut [],
                &mut 0,
                &mut None,
                &mut |_, _, _, _| (),
            );
            if !done {
                return Err(EncodeError::GaveUp(Coding::Brotli));
            }
            let had_output = self.state.has_more_output();
            while self.state.has_more_output() {
                // Zero asks for all there is; how much that is comes back in it.
                let mut size = 0;
                let storage = self.state.take_output(&mut size);
                out.extend_from_slice(storage.get(..size).unwrap_or(storage));
            }
            if input_left == 0 && !had_output {
                return Ok(());
            }
        }
    }
}

/// zstd.
struct Zstd {
    context: CCtx<'static>,
}

impl Zstd {
    fn new(params: Params, len: Option<u64>) -> Result<Self, EncodeError> {
        let mut context = CCtx::try_create().ok_or(GAVE_UP)?;
        let mut set = || {
            context.set_parameter(CParameter::CompressionLevel(params.level.into()))?;
            context.set_parameter(CParameter::WindowLog(params.window_bits.into()))?;
            context.set_pledged_src_size(len)
        };
        set().map_err(|_| GAVE_UP)?;
        Ok(Self { context })
    }

    fn run(&mut self, input: &[u8], directive: ZSTD_EndDirective, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        let mut input = InBuffer::around(input);
        loop {
            out.reserve(STEP_BYTES);
            let at = out.len();
            let mut room = OutBuffer::around_pos(out, at);
            let left = self.context.compress_stream2(&mut room, &mut input, directive).map_err(|_| GAVE_UP)?;
            let is_done = match directive {
                ZSTD_EndDirective::ZSTD_e_continue => input.pos() == input.src.len(),
                ZSTD_EndDirective::ZSTD_e_flush | ZSTD_EndDirective::ZSTD_e_end => left == 0,
            };
            if is_done {
                return Ok(());
            }
        }
    }
}

const GAVE_UP: EncodeError = EncodeError::GaveUp(Coding::Zstd);

/// The room that is offered at a time.
const STEP_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::memory_bytes;

    #[test]
    fn zstd_takes_what_was_said() {
        for level in 1..=19 {
            for window_bits in [10, 17, 20, 23] {
                let params = Params { level, window_bits };
                let mut zstd = Zstd::new(params, None).expect("there is memory");
                zstd.run(b"some", ZSTD_EndDirective::ZSTD_e_flush, &mut Vec::new()).expect("it takes everything");
                let (held, said) = (zstd.context.sizeof(), memory_bytes(Coding::Zstd, params));
                assert!(held <= said && said <= 3 * held + (2 << 20), "{params:?} holds {held}, said {said}");
            }
        }
    }
}
