//! The record layer of an open connection: plaintext in, records out, and back (RFC 8446 §5, RFC 5246 §6.2).
//!
//! rustls makes the handshake and keeps the key schedule; once the connection is open its keys move
//! here. Encrypting with our own buffers saves an allocation and a copy a record, in each direction,
//! and an idle connection keeps two keys instead of a connection's whole state.

mod key;
mod open;
mod seal;

pub(crate) use seal::Slices;

use crate::alert;
use crate::error::SessionError;
use key::{DirectionKey, Version};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets, ProtocolVersion, SupportedCipherSuite};

/// The plaintext of one record is never longer (RFC 8446 §5.1).
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 16 * 1024;

const HEADER_BYTES: usize = 5;
const APPLICATION_DATA: u8 = 23;
const HANDSHAKE: u8 = 22;

/// How many messages about the connection itself a peer may send between two records of data.
const CONTROL_MESSAGES_MAX: u32 = 32;

/// The longest handshake message after the handshake: a session ticket.
const MESSAGE_BYTES_MAX: usize = 32 * 1024;

/// Where the next keys come from.
pub(crate) trait KeySource {
    /// The keys after a key update of our own.
    fn next_write(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error>;
    /// The keys after a key update of the peer.
    fn next_read(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error>;
    /// Keeps a ticket for a later connection; `None` where the peer has no business to send one.
    fn ticket(&mut self, body: &[u8]) -> Option<Result<(), rustls::Error>>;
}

impl KeySource for KernelConnection<ServerConnectionData> {
    fn next_write(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        self.update_tx_secret().map(|(_, secrets)| secrets)
    }

    fn next_read(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        self.update_rx_secret().map(|(_, secrets)| secrets)
    }

    fn ticket(&mut self, _: &[u8]) -> Option<Result<(), rustls::Error>> {
        None
    }
}

impl KeySource for KernelConnection<ClientConnectionData> {
    fn next_write(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        self.update_tx_secret().map(|(_, secrets)| secrets)
    }

    fn next_read(&mut self) -> Result<ConnectionTrafficSecrets, rustls::Error> {
        self.update_rx_secret().map(|(_, secrets)| secrets)
    }

    fn ticket(&mut self, body: &[u8]) -> Option<Result<(), rustls::Error>> {
        Some(self.handle_new_session_ticket(body))
    }
}

/// An open connection: both keys, and what may replace them.
pub(crate) struct Records<K> {
    version: Version,
    write: DirectionKey,
    read: DirectionKey,
    source: K,
    /// How many records one key may encrypt (RFC 8446 §5.5).
    records_max: u64,
    /// The part of a handshake message that came in an earlier record. Nearly always empty.
    partial_message: Vec<u8>,
    control_messages: u32,
    peer_closed: bool,
    closed: bool,
}

impl<K: KeySource> Records<K> {
    /// Takes over from the handshake. `peer_closed` says that its close_notify was among the handshake's records.
    pub(crate) fn new(
        secrets: ExtractedSecrets,
        source: K,
        protocol: ProtocolVersion,
        suite: SupportedCipherSuite,
        peer_closed: bool,
    ) -> Result<Self, SessionError> {
        let version = if protocol == ProtocolVersion::TLSv1_3 { Version::Tls13 } else { Version::Tls12 };
        let (write_sequence, write) = secrets.tx;
        let (read_sequence, read) = secrets.rx;
        Ok(Self {
            version,
            write: DirectionKey::new(&write, write_sequence)?,
            read: DirectionKey::new(&read, read_sequence)?,
            source,
            records_max: match suite {
                SupportedCipherSuite::Tls13(suite) => suite.common.confidentiality_limit,
                SupportedCipherSuite::Tls12(suite) => suite.common.confidentiality_limit,
            }
            .min(SEQUENCE_MAX),
            partial_message: Vec::new(),
            control_messages: 0,
            peer_closed,
            closed: false,
        })
    }

    pub(crate) fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    /// Says that no more data will follow. Later calls add nothing.
    pub(crate) fn close(&mut self, out: &mut Vec<u8>) {
        if !self.closed {
            self.closed = true;
            self.send_alert(alert::WARNING, alert::CLOSE_NOTIFY, out);
        }
    }

    /// An alert goes out whatever the keys' limits say, except at the very end of the sequence numbers.
    fn send_alert(&mut self, level: u8, description: u8, out: &mut Vec<u8>) {
        let _ = seal::record(
            &mut self.write,
            self.version,
            alert::RECORD_TYPE,
            &mut Slices::of(&[level, description]),
            2,
            out,
        );
    }
}

/// Far from where a sequence number would repeat.
const SEQUENCE_MAX: u64 = u64::MAX - (1 << 16);
