//! Restoring a body as it comes.

use brotli::enc::StandardAlloc;
use brotli::{BrotliDecompressStream, BrotliResult, BrotliState};
use flate2::{Decompress, FlushDecompress, Status};
use larder_http::Coding;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// What is wrong with compressed bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// They end before the stream does.
    #[error("the {0} stream is cut short")]
    Truncated(Coding),
    /// They are not what the coding allows, or a checksum is wrong.
    #[error("the {0} stream is corrupt")]
    Corrupt(Coding),
    /// There is more after the end of a coding that knows one stream only.
    #[error("there are bytes after the end of the {0} stream")]
    Trailing(Coding),
    /// The stream looks back further than RFC 9659 allows, 8 MB.
    #[error("the window of the {0} stream is too big")]
    Window(Coding),
    /// No memory for what the stream needs.
    #[error("there is no memory to decode {0}")]
    Memory(Coding),
}

/// How far a call got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// All input is taken, and all that it gives is given.
    NeedsInput,
    /// The output is as long as it may be, and there may be more.
    Full,
}

/// Restores one body.
///
/// As nginx's gunzip does, it takes several gzip members behind one another for one body, and anything else behind
/// a member for an error. The same goes for the frames of zstd; a brotli stream has one end.
pub struct Decoder {
    state: State,
    place: Place,
    /// The last call filled the output, so that the state may have more without more input.
    may_hold_output: bool,
}

enum State {
    Gzip(Box<Decompress>),
    Brotli(Box<BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>>),
    Zstd(DCtx<'static>),
}

/// Where in the stream it is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Start,
    Inside,
    /// At the end of a member, with or without another behind it.
    Between,
}

/// What one step of a state did.
struct Step {
    taken: usize,
    made: usize,
    ended: bool,
}

impl Decoder {
    /// A decoder for one body.
    pub fn new(coding: Coding) -> Result<Self, DecodeError> {
        let state = match coding {
            Coding::Gzip => State::Gzip(Box::new(Decompress::new_gzip(GZIP_WINDOW_BITS))),
            Coding::Brotli => State::Brotli(Box::new(BrotliState::new_strict(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ))),
            Coding::Zstd => State::Zstd(new_dctx().ok_or(DecodeError::Memory(Coding::Zstd))?),
        };
        Ok(Self { state, place: Place::Start, may_hold_output: false })
    }

    /// Takes bytes off the front of `input` and appends at most `bytes_max` to `out`.
    ///
    /// A thousandfold of what comes in may come out: the bound is what keeps memory in hand. While it says
    /// [`Decoded::Full`], call again with the rest of the input, also when that is empty.
    pub fn decode(&mut self, input: &mut &[u8], out: &mut Vec<u8>, bytes_max: usize) -> Result<Decoded, DecodeError> {
        let mut left = bytes_max;
        loop {
            if input.is_empty() && !self.may_hold_output {
                return Ok(Decoded::NeedsInput);
            }
            if left == 0 {
                return Ok(Decoded::Full);
            }
            let room = left.min(STEP_BYTES);
            let at = out.len();
            out.resize(at + room, 0);
            let step = self.step(input, out.get_mut(at..).unwrap_or_default());
            out.truncate(at + step.as_ref().map_or(0, |step| step.made));
            let step = step?;
            let is_stuck = step.taken == 0 && step.made == 0 && !step.ended && !input.is_empty();
            if is_stuck {
                return Err(DecodeError::Corrupt(self.coding()));
            }
            *input = input.get(step.taken..).unwrap_or_default();
            left -= step.made;
            self.may_hold_output = step.made == room && !step.ended;
            self.place = if step.ended { Place::Between } else { Place::Inside };
        }
    }

    /// Whether the bytes so far are a whole body.
    pub fn is_at_end(&self) -> bool {
        self.place == Place::Between
    }

    /// To be asked when the input has ended: was that the end of the stream?
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.is_at_end() { Ok(()) } else { Err(DecodeError::Truncated(self.coding())) }
    }

    fn coding(&self) -> Coding {
        match &self.state {
            State::Gzip(_) => Coding::Gzip,
            State::Brotli(_) => Coding::Brotli,
            State::Zstd(_) => Coding::Zstd,
        }
    }

    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<Step, DecodeError> {
        match &mut self.state {
            State::Gzip(inflate) => {
                if self.place == Place::Between {
                    **inflate = Decompress::new_gzip(GZIP_WINDOW_BITS);
                    self.place = Place::Inside;
                }
                gunzip(inflate, input, room)
            }
            State::Brotli(_) if self.place == Place::Between => Err(DecodeError::Trailing(Coding::Brotli)),
            State::Brotli(state) => unbrotli(state, input, room),
            State::Zstd(context) => unzstd(context, input, room),
        }
    }
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Decoder({})", self.coding())
    }
}

fn gunzip(inflate: &mut Decompress, input: &[u8], room: &mut [u8]) -> Result<Step, DecodeError> {
    let (taken, made) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, room, FlushDecompress::None);
    let ended = match status.map_err(|_| DecodeError::Corrupt(Coding::Gzip))? {
        Status::StreamEnd => true,
        Status::Ok | Status::BufError => false,
    };
    let (taken, made) = (inflate.total_in() - taken, inflate.total_out() - made);
    Ok(Step { taken: taken as usize, made: made as usize, ended })
}

fn unbrotli(
    state: &mut BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    input: &[u8],
    room: &mut [u8],
) -> Result<Step, DecodeError> {
    let (mut input_left, mut room_left) = (input.len(), room.len());
    let (mut taken, mut made) = (0, 0);
    let result =
        BrotliDecompressStream(&mut input_left, &mut taken, input, &mut room_left, &mut made, room, &mut 0, state);
    match result {
        BrotliResult::ResultSuccess => Ok(Step { taken, made, ended: true }),
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => Ok(Step { taken, made, ended: false }),
        BrotliResult::ResultFailure => Err(DecodeError::Corrupt(Coding::Brotli)),
    }
}

fn new_dctx() -> Option<DCtx<'static>> {
    let mut context = DCtx::try_create()?;
    context.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS)).ok()?;
    Some(context)
}

fn unzstd(context: &mut DCtx<'static>, input: &[u8], room: &mut [u8]) -> Result<Step, DecodeError> {
    let mut input = InBuffer::around(input);
    let mut output = OutBuffer::around(room);
    let result = context.decompress_stream(&mut output, &mut input);
    // Error codes are negative numbers in an unsigned type.
    let hint = result.map_err(|code| match code.wrapping_neg() {
        ZSTD_MEMORY => DecodeError::Memory(Coding::Zstd),
        ZSTD_WINDOW => DecodeError::Window(Coding::Zstd),
        _ => DecodeError::Corrupt(Coding::Zstd),
    })?;
    Ok(Step { taken: input.pos(), made: output.pos(), ended: hint == 0 })
}

/// What is offered to a state at a time.
const STEP_BYTES: usize = 16 * 1024;

const GZIP_WINDOW_BITS: u8 = 15;
const ZSTD_WINDOW_BITS: u32 = 23;

/// `ZSTD_error_memory_allocation` and `ZSTD_error_frameParameter_windowTooLarge` of zstd's stable interface.
const ZSTD_MEMORY: usize = 64;
const ZSTD_WINDOW: usize = 16;
