//! What a finished handshake found out.

use crate::names;
use rustls::{CommonState, HandshakeKind, NamedGroup, ProtocolVersion};
use std::ops::Deref;

/// What is known of a connection once its handshake is over; empty before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    protocol: Option<ProtocolVersion>,
    cipher: Option<u16>,
    group: Option<NamedGroup>,
    pub(crate) is_resumed: bool,
    alpn: Option<Box<[u8]>>,
    /// The peer's certificates, its own first, DER.
    pub(crate) peer_certificates: Box<[Box<[u8]>]>,
    /// Whether data came before the handshake was over.
    pub(crate) early_data: bool,
    server_hello_session_id: Box<[u8]>,
}

impl Facts {
    /// Copies what rustls knows at the end of the handshake.
    pub(crate) fn take(&mut self, connection: &impl Deref<Target: Deref<Target = CommonState>>) {
        let connection: &CommonState = connection;
        self.protocol = connection.protocol_version();
        self.cipher = connection.negotiated_cipher_suite().map(|suite| suite.suite().into());
        self.group = connection.negotiated_key_exchange_group().map(|group| group.name());
        self.is_resumed = connection.handshake_kind() == Some(HandshakeKind::Resumed);
        self.alpn = connection.alpn_protocol().map(Into::into);
        self.peer_certificates =
            connection.peer_certificates().unwrap_or_default().iter().map(|der| der.as_ref().into()).collect();
        if self.protocol == Some(ProtocolVersion::TLSv1_3) {
            // There the field only echoes what the client made up (RFC 8446 §4.1.3).
            self.server_hello_session_id = Box::default();
        }
    }

    /// Keeps the session id of a ServerHello that leaves: TLS 1.2 has no other place that tells it.
    pub(crate) fn look_at_record(&mut self, record: &[u8]) {
        const HANDSHAKE: u8 = 22;
        const SERVER_HELLO: u8 = 2;
        const ID_AT: usize = 5 + 4 + 2 + 32;
        if record.first() == Some(&HANDSHAKE) && record.get(5) == Some(&SERVER_HELLO) {
            let length = usize::from(record.get(ID_AT).copied().unwrap_or(0));
            let id = record.get(ID_AT + 1..).and_then(|rest| rest.get(..length));
            self.server_hello_session_id = id.unwrap_or_default().into();
        }
    }

    pub(crate) fn protocol(&self) -> &'static str {
        match self.protocol {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        }
    }

    pub(crate) fn cipher(&self) -> &'static str {
        self.cipher.and_then(names::cipher).unwrap_or("")
    }

    pub(crate) fn group(&self) -> &'static str {
        self.group.and_then(|group| names::group(group.into())).unwrap_or("")
    }

    pub(crate) fn alpn(&self) -> Option<&[u8]> {
        self.alpn.as_deref()
    }

    pub(crate) fn session_id(&self) -> String {
        hexadecimal(&self.server_hello_session_id)
    }
}

/// Bytes as `$ssl_session_id` shows them.
pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
