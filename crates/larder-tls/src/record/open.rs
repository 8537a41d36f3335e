//! Records to plaintext.

use super::key::{DirectionKey, EXPLICIT_NONCE_BYTES, TAG_BYTES, Version};
use super::{
    APPLICATION_DATA, CONTROL_MESSAGES_MAX, HANDSHAKE, HEADER_BYTES, KeySource, MESSAGE_BYTES_MAX, PLAINTEXT_BYTES_MAX,
    Records,
};
use crate::alert;
use crate::error::SessionError;

const HELLO_REQUEST: u8 = 0;
const CLIENT_HELLO: u8 = 1;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

/// What a record may be longer than its plaintext: RFC 8446 §5.2, RFC 5246 §6.2.3.
const fn expansion_max(version: Version) -> usize {
    match version {
        Version::Tls13 => 256,
        Version::Tls12 => 2048,
    }
}

/// A record that breaks the rules: the alert to answer with.
struct Refusal(u8);

impl<K: KeySource> Records<K> {
    /// Decrypts the whole records at the beginning of `incoming`, in place, and returns their length.
    ///
    /// Data goes to the end of `plain`, answers to the end of `out`. After an error an alert is in `out`,
    /// and nothing else may be done with the connection.
    pub(crate) fn read(
        &mut self,
        incoming: &mut [u8],
        plain: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<usize, SessionError> {
        let mut consumed = 0;
        while !self.peer_closed {
            let rest = incoming.get_mut(consumed..).unwrap_or_default();
            let Some((&mut [kind, major, minor, high, low], after)) = rest.split_first_chunk_mut::<HEADER_BYTES>()
            else {
                return Ok(consumed);
            };
            let length = usize::from(u16::from_be_bytes([high, low]));
            if length > PLAINTEXT_BYTES_MAX + expansion_max(self.version) {
                return Err(self.refuse(Refusal(alert::RECORD_OVERFLOW), out));
            }
            if major != 3 {
                return Err(self.refuse(Refusal(alert::DECODE_ERROR), out));
            }
            let Some((payload, _)) = after.split_at_mut_checked(length) else {
                return Ok(consumed);
            };
            consumed += HEADER_BYTES + length;
            let (kind, text) = match self.version {
                Version::Tls13 => open_tls13(&mut self.read, [kind, major, minor, high, low], payload),
                Version::Tls12 => open_tls12(&mut self.read, kind, payload),
            }
            .map_err(|refusal| self.refuse(refusal, out))?;
            if kind == APPLICATION_DATA && self.partial_message.is_empty() {
                if !text.is_empty() {
                    self.control_messages = 0;
                }
                plain.extend_from_slice(text);
                continue;
            }
            match kind {
                HANDSHAKE => self.handshake(text, out)?,
                alert::RECORD_TYPE => self.alert(text, out)?,
                _ => return Err(self.refuse(Refusal(alert::UNEXPECTED_MESSAGE), out)),
            }
        }
        // What follows a close_notify is ignored (RFC 8446 §6.1).
        Ok(incoming.len())
    }

    /// Messages about the connection itself, after the handshake.
    fn handshake(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), SessionError> {
        if text.is_empty() {
            return Err(self.refuse(Refusal(alert::UNEXPECTED_MESSAGE), out));
        }
        let mut gathered = std::mem::take(&mut self.partial_message);
        gathered.extend_from_slice(text);
        let mut rest = &gathered[..];
        while let [kind, a, b, c, after @ ..] = rest {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length + 4 > MESSAGE_BYTES_MAX {
                return Err(self.refuse(Refusal(alert::DECODE_ERROR), out));
            }
            let Some((body, after)) = after.split_at_checked(length) else {
                break;
            };
            rest = after;
            self.control_messages += 1;
            if self.control_messages > CONTROL_MESSAGES_MAX {
                return Err(self.refuse(Refusal(alert::UNEXPECTED_MESSAGE), out));
            }
            self.message(*kind, body, rest.is_empty(), out)?;
        }
        if !rest.is_empty() {
            self.partial_message = rest.to_vec();
        }
        Ok(())
    }

    fn message(&mut self, kind: u8, body: &[u8], is_last: bool, out: &mut Vec<u8>) -> Result<(), SessionError> {
        match (self.version, kind, body) {
            // A message must not span keys, so nothing may follow this one (RFC 8446 §5.1).
            (Version::Tls13, KEY_UPDATE, [answer @ (0 | 1)]) if is_last => {
                let secrets = self.source.next_read().map_err(|error| self.fail(error, out))?;
                self.read = DirectionKey::new(&secrets, 0)?;
                if *answer == 1 && !self.closed {
                    self.update_write_key(out)?;
                }
                Ok(())
            }
            (Version::Tls13, NEW_SESSION_TICKET, body) => match self.source.ticket(body) {
                Some(Ok(())) => Ok(()),
                Some(Err(error)) => Err(self.fail(error, out)),
                None => Err(self.refuse(Refusal(alert::UNEXPECTED_MESSAGE), out)),
            },
            // We never renegotiate; a peer may ask once and is told so (RFC 5246 §7.2.2).
            (Version::Tls12, HELLO_REQUEST | CLIENT_HELLO, _) if self.control_messages == 1 => {
                self.send_alert(alert::WARNING, alert::NO_RENEGOTIATION, out);
                Ok(())
            }
            _ => Err(self.refuse(Refusal(alert::UNEXPECTED_MESSAGE), out)),
        }
    }

    fn alert(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), SessionError> {
        let &[level, description] = text else {
            return Err(self.refuse(Refusal(alert::DECODE_ERROR), out));
        };
        self.control_messages += 1;
        match (self.version, level, description) {
            (_, _, alert::CLOSE_NOTIFY) => {
                self.peer_closed = true;
                Ok(())
            }
            (Version::Tls13, _, alert::USER_CANCELED) | (Version::Tls12, alert::WARNING, _)
                if self.control_messages <= CONTROL_MESSAGES_MAX =>
            {
                Ok(())
            }
            _ => {
                self.closed = true;
                Err(SessionError::Alert(alert::name(description)))
            }
        }
    }

    fn refuse(&mut self, refusal: Refusal, out: &mut Vec<u8>) -> SessionError {
        self.send_alert(alert::FATAL, refusal.0, out);
        self.closed = true;
        SessionError::Refused(alert::name(refusal.0))
    }

    fn fail(&mut self, error: rustls::Error, out: &mut Vec<u8>) -> SessionError {
        self.send_alert(alert::FATAL, alert::INTERNAL_ERROR, out);
        self.closed = true;
        SessionError::from(error)
    }
}

/// Decrypts one record and strips its padding: the type stands behind the text (RFC 8446 §5.2).
fn open_tls13<'p>(
    key: &mut DirectionKey,
    header: [u8; HEADER_BYTES],
    payload: &'p mut [u8],
) -> Result<(u8, &'p [u8]), Refusal> {
    if header[0] != APPLICATION_DATA {
        return Err(Refusal(alert::UNEXPECTED_MESSAGE));
    }
    let nonce = key.nonce();
    let text: &[u8] = key.open(nonce, &header, payload).ok_or(Refusal(alert::BAD_RECORD_MAC))?;
    if text.len() > PLAINTEXT_BYTES_MAX + 1 {
        return Err(Refusal(alert::RECORD_OVERFLOW));
    }
    let end = text.iter().rposition(|byte| *byte != 0).ok_or(Refusal(alert::UNEXPECTED_MESSAGE))?;
    Ok((text[end], &text[..end]))
}

fn open_tls12<'p>(key: &mut DirectionKey, kind: u8, payload: &'p mut [u8]) -> Result<(u8, &'p [u8]), Refusal> {
    const DAMAGED: Refusal = Refusal(alert::BAD_RECORD_MAC);
    let (nonce, text) = if key.explicit_bytes(Version::Tls12) == 0 {
        (key.nonce(), payload)
    } else {
        let (explicit, text) = payload.split_first_chunk_mut::<EXPLICIT_NONCE_BYTES>().ok_or(DAMAGED)?;
        (key.nonce_with(explicit), text)
    };
    let length = text.len().checked_sub(TAG_BYTES).ok_or(DAMAGED)?;
    if length > PLAINTEXT_BYTES_MAX {
        return Err(Refusal(alert::RECORD_OVERFLOW));
    }
    let associated = key.associated_tls12(kind, length);
    let text = key.open(nonce, &associated, text).ok_or(DAMAGED)?;
    Ok((kind, text))
}
