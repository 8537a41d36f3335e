//! One end of a TLS connection, server's or client's: the handshake by rustls, then records of our own.
//!
//! ```text
//! Handshake --both Finished--> Open --close, error--> Ended
//!     `------------- error --------------------------->
//! ```

use crate::alert;
use crate::error::SessionError;
use crate::facts::Facts;
use crate::record::{KeySource, PLAINTEXT_BYTES_MAX, Records, Slices};
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::kernel::KernelConnection;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, ReadEarlyData, UnbufferedStatus};
use rustls::{CommonState, ExtractedSecrets};
use std::io::IoSlice;

/// What [`Link::read`] and the public sessions' `read` came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// How many bytes of the incoming ones are used up. The others must be given again, unchanged, with more behind them.
    pub consumed: usize,
    /// Where the session stands.
    pub state: State,
}

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not every Finished is there yet.
    Handshaking,
    /// Data may flow.
    Open,
    /// The peer said it sends no more. Writing is still possible.
    Closed,
}

/// One end of a connection. `H` makes the handshake.
pub(crate) struct Link<H: Handshake> {
    phase: Phase<H>,
    /// How long the plaintext of one record may be.
    fragment: usize,
    facts: Facts,
}

enum Phase<H: Handshake> {
    Handshake(Box<Handshaking<H>>),
    Open(Box<Records<H::Keys>>),
    Ended,
}

struct Handshaking<H> {
    connection: H,
    /// Plaintext that waits for keys: written before the handshake allows.
    unsent: Vec<u8>,
    /// Whether `close` was called.
    closing: bool,
    peer_closed: bool,
    /// How many bytes the last `read` did not use. rustls keeps track of places in them.
    left_over: usize,
}

/// What rustls' two kinds of unbuffered connection have in common.
pub(crate) trait Handshake: Sized + std::ops::Deref<Target: std::ops::Deref<Target = CommonState>> {
    type Keys: KeySource;

    /// Works through `incoming` and sends what is ready of `unsent`. The number is that of bytes used.
    fn advance(&mut self, io: Io<'_>) -> (usize, Result<Advance, Failure>);

    fn into_records(self) -> Result<(ExtractedSecrets, Self::Keys), rustls::Error>;
}

/// The buffers of one step of a handshake.
pub(crate) struct Io<'a> {
    incoming: &'a mut [u8],
    unsent: &'a mut Vec<u8>,
    fragment: usize,
    plain: &'a mut Vec<u8>,
    out: &'a mut Vec<u8>,
    facts: &'a mut Facts,
}

/// How far a handshake came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advance {
    Blocked,
    Writable,
    PeerClosed,
}

/// Why a handshake ended.
pub(crate) struct Failure {
    error: rustls::Error,
    /// Whether the peer was told, or told us.
    is_said: bool,
}

impl<H: Handshake> Link<H> {
    pub(crate) fn new(connection: Result<H, rustls::Error>, fragment: usize) -> Self {
        let phase = match connection {
            Ok(connection) => Phase::Handshake(Box::new(Handshaking {
                connection,
                unsent: Vec::new(),
                closing: false,
                peer_closed: false,
                left_over: 0,
            })),
            Err(_) => Phase::Ended,
        };
        Self { phase, fragment: fragment.clamp(1, PLAINTEXT_BYTES_MAX), facts: Facts::default() }
    }

    pub(crate) fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        matches!(self.phase, Phase::Handshake(_))
    }

    /// Plaintext that waits for the handshake to go on.
    pub(crate) fn queued_bytes(&self) -> usize {
        match &self.phase {
            Phase::Handshake(handshaking) => handshaking.unsent.len(),
            Phase::Open(_) | Phase::Ended => 0,
        }
    }

    pub(crate) fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<Read, SessionError> {
        let mut consumed = 0;
        if let Phase::Handshake(handshaking) = &mut self.phase {
            if incoming.len() < handshaking.left_over {
                return Err(SessionError::Internal("fewer bytes than were left over"));
            }
            let given = incoming.len();
            let io = Io {
                incoming: &mut *incoming,
                unsent: &mut handshaking.unsent,
                fragment: self.fragment,
                plain: &mut *plain,
                out: &mut *out,
                facts: &mut self.facts,
            };
            let (used, advance) = handshaking.connection.advance(io);
            if self.facts.early_data {
                // Who answers early data needs to know what was agreed on.
                self.facts.take(&handshaking.connection);
                self.facts.is_resumed = true;
            }
            consumed = used;
            match advance {
                Ok(Advance::Blocked | Advance::Writable) => {}
                Ok(Advance::PeerClosed) => handshaking.peer_closed = true,
                Err(Failure { error, is_said }) => {
                    // Some errors of rustls bring no alert. Encrypting one is beyond our reach, a plain one tells as much.
                    if !is_said {
                        out.extend_from_slice(&alert::plain(alert::UNEXPECTED_MESSAGE));
                    }
                    self.phase = Phase::Ended;
                    return Err(error.into());
                }
            }
            handshaking.left_over = given - consumed.min(given);
            if handshaking.connection.is_handshaking() {
                let state = if handshaking.peer_closed { State::Closed } else { State::Handshaking };
                return Ok(Read { consumed, state });
            }
            self.open(out)?;
        }
        match &mut self.phase {
            Phase::Open(records) => {
                let rest = incoming.get_mut(consumed..).unwrap_or_default();
                match records.read(rest, plain, out) {
                    Ok(used) => {
                        let state = if records.peer_closed() { State::Closed } else { State::Open };
                        Ok(Read { consumed: consumed + used, state })
                    }
                    Err(error) => {
                        self.phase = Phase::Ended;
                        Err(error)
                    }
                }
            }
            Phase::Handshake(_) | Phase::Ended => Err(SessionError::Closed),
        }
    }

    /// The handshake is over: keeps what it found out, and takes its keys.
    fn open(&mut self, out: &mut Vec<u8>) -> Result<(), SessionError> {
        let Phase::Handshake(handshaking) = std::mem::replace(&mut self.phase, Phase::Ended) else {
            return Ok(());
        };
        let Handshaking { connection, unsent, closing, peer_closed, .. } = *handshaking;
        self.facts.take(&connection);
        let (Some(protocol), Some(suite)) = (connection.protocol_version(), connection.negotiated_cipher_suite())
        else {
            return Err(SessionError::Internal("a handshake without a result"));
        };
        let (secrets, keys) = connection.into_records()?;
        let mut records = Records::new(secrets, keys, protocol, suite, peer_closed)?;
        if !unsent.is_empty() {
            records.write(&[IoSlice::new(&unsent)], self.fragment, out)?;
        }
        if closing {
            records.close(out);
        }
        self.phase = Phase::Open(Box::new(records));
        Ok(())
    }

    pub(crate) fn write(&mut self, slices: &[IoSlice<'_>], out: &mut Vec<u8>) -> Result<(), SessionError> {
        match &mut self.phase {
            Phase::Open(records) => records.write(slices, self.fragment, out),
            Phase::Handshake(handshaking) if handshaking.closing => Err(SessionError::Closed),
            Phase::Handshake(handshaking) => {
                Slices::new(slices).copy(usize::MAX, &mut handshaking.unsent);
                // With bytes left over there is a record on its way whose end brings the next `read`.
                if handshaking.left_over == 0 { self.read(&mut [], &mut Vec::new(), out).map(drop) } else { Ok(()) }
            }
            Phase::Ended => Err(SessionError::Closed),
        }
    }

    /// Nothing more is read or written.
    pub(crate) fn end(&mut self) {
        self.phase = Phase::Ended;
    }

    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        match &mut self.phase {
            Phase::Open(records) => records.close(out),
            Phase::Handshake(handshaking) => handshaking.closing = true,
            Phase::Ended => {}
        }
    }
}

/// How many records rustls may have queued before the alert of an error.
const STEPS_AFTER_ERROR_MAX: usize = 8;

/// Whether `record` is an alert, going by what cannot be hidden: in TLS 1.3 nothing else is as short.
fn is_alert(record: &[u8]) -> bool {
    const APPLICATION_DATA: u8 = 23;
    const ENCRYPTED_ALERT_BYTES: usize = 5 + 2 + 1 + 16;
    match record.first() {
        Some(&alert::RECORD_TYPE) => true,
        Some(&APPLICATION_DATA) => record.len() == ENCRYPTED_ALERT_BYTES,
        _ => false,
    }
}

macro_rules! handshake {
    ($connection:ty, $data:ty, $take_early:expr) => {
        impl Handshake for $connection {
            type Keys = KernelConnection<$data>;

            fn advance(&mut self, io: Io<'_>) -> (usize, Result<Advance, Failure>) {
                let Io { incoming, unsent, fragment, plain, out, facts } = io;
                let mut consumed = 0;
                let mut failure: Option<Failure> = None;
                let mut steps_left = STEPS_AFTER_ERROR_MAX;
                let mut peer_closed = false;
                let mut has_tried = false;
                let outcome = loop {
                    if failure.is_some() {
                        steps_left -= 1;
                        if steps_left == 0 {
                            break Advance::Blocked;
                        }
                    }
                    let rest = incoming.get_mut(consumed..).unwrap_or_default();
                    let UnbufferedStatus { mut discard, state } = self.process_tls_records(rest);
                    let mut done = None;
                    match state {
                        Ok(ConnectionState::EncodeTlsData(mut data)) => {
                            let start = out.len();
                            if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
                                out.resize(start + size.required_size, 0);
                                let written = data.encode(&mut out[start..]).unwrap_or(0);
                                out.truncate(start + written);
                            }
                            facts.look_at_record(&out[start..]);
                            // rustls must not read on behind an error: it would find it again, and say so twice.
                            if let Some(failure) = &mut failure
                                && is_alert(&out[start..])
                            {
                                failure.is_said = true;
                                done = Some(Advance::Blocked);
                            }
                        }
                        Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                        Ok(ConnectionState::ReadTraffic(mut data)) => {
                            while let Some(Ok(record)) = data.next_record() {
                                discard += record.discard;
                                plain.extend_from_slice(record.payload);
                            }
                        }
                        Ok(ConnectionState::ReadEarlyData(data)) => {
                            discard += $take_early(data, &mut *plain, &mut *facts)
                        }
                        Ok(ConnectionState::PeerClosed) => peer_closed = true,
                        Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                            for piece in unsent.chunks(fragment) {
                                let start = out.len();
                                if let Err(EncryptError::InsufficientSize(size)) = traffic.encrypt(piece, &mut []) {
                                    out.resize(start + size.required_size, 0);
                                    let written = traffic.encrypt(piece, &mut out[start..]).unwrap_or(0);
                                    out.truncate(start + written);
                                }
                            }
                            unsent.clear();
                            // rustls holds its answer to a key update back until something is written. An attempt
                            // without room brings it to light; the next step sends it.
                            if !has_tried {
                                has_tried = true;
                                let _ = traffic.encrypt(&[0], &mut []);
                            } else {
                                done = Some(Advance::Writable);
                            }
                        }
                        Ok(_) => done = Some(Advance::Blocked),
                        Err(_) if failure.is_some() => done = Some(Advance::Blocked),
                        Err(error) => {
                            let is_said = matches!(error, rustls::Error::AlertReceived(_));
                            if is_said {
                                done = Some(Advance::Blocked);
                            }
                            failure = Some(Failure { error, is_said });
                        }
                    }
                    consumed += discard;
                    if let Some(done) = done {
                        break if peer_closed { Advance::PeerClosed } else { done };
                    }
                };
                match failure {
                    Some(failure) => (consumed, Err(failure)),
                    None => (consumed, Ok(outcome)),
                }
            }

            fn into_records(self) -> Result<(ExtractedSecrets, Self::Keys), rustls::Error> {
                self.dangerous_into_kernel_connection()
            }
        }
    };
}

handshake!(UnbufferedServerConnection, ServerConnectionData, take_early_data);
// A client is never sent early data.
handshake!(UnbufferedClientConnection, ClientConnectionData, |_, _: &mut Vec<u8>, _: &mut Facts| 0);

/// Data that came before the handshake is over (RFC 8446 §2.3). Returns how many more bytes are used up.
fn take_early_data(
    mut data: ReadEarlyData<'_, '_, ServerConnectionData>,
    plain: &mut Vec<u8>,
    facts: &mut Facts,
) -> usize {
    let mut used = 0;
    while let Some(Ok(record)) = data.next_record() {
        used += record.discard;
        plain.extend_from_slice(record.payload);
    }
    facts.early_data = true;
    used
}
