//! What a ClientHello says, read before a connection is given to a server's configuration.
//!
//! The handshake itself is rustls' work, and it reads the same bytes again. This reader is for
//! what comes before: which server is meant, and whether this is TLS at all.

use crate::alert;

/// The longest ClientHello we gather, its handshake header included. Today's are below 2 KB.
const HELLO_BYTES_MAX: usize = 64 * 1024;

/// How many records a ClientHello may be cut into. Clients use one; what is cut smaller costs more to gather than it is worth.
const HELLO_RECORDS_MAX: usize = 4096;

/// How many entries of one list are kept. Browsers send about 20.
const LIST_LENGTH_MAX: usize = 256;

const RECORD_HANDSHAKE: u8 = 22;
const RECORD_PAYLOAD_MAX: usize = 16 * 1024;
const CLIENT_HELLO: u8 = 1;

/// What a ClientHello says. Lists are in the client's order and hold what the client wrote, known to us or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hello {
    /// The host name the client asks for (RFC 6066 §3), in lower case, without a final dot.
    pub server_name: Option<Box<str>>,
    /// The protocols offered (RFC 7301), such as `h2` and `http/1.1`.
    pub alpn: Box<[Box<[u8]>]>,
    /// Cipher suites, by IANA number.
    pub ciphers: Box<[u16]>,
    /// Groups for the key exchange, by IANA number.
    pub groups: Box<[u16]>,
    /// Signature schemes, by IANA number.
    pub signature_schemes: Box<[u16]>,
    /// Protocol versions: 0x0304 is TLS 1.3, 0x0303 is TLS 1.2.
    pub versions: Box<[u16]>,
    /// A digest of the session that the client wants to go on with in TLS 1.3: of the first ticket it shows.
    pub session: Option<[u8; 32]>,
}

/// Why bytes are no ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// nginx answers "400 The plain HTTP request was sent to HTTPS port".
    #[error("a plain HTTP request on a TLS port")]
    PlainHttp,
    /// Neither TLS nor HTTP.
    #[error("not a TLS handshake")]
    NotTls,
    /// A TLS record that holds something else, or a ClientHello that contradicts itself.
    #[error("a damaged ClientHello")]
    Malformed,
    /// Longer than any client has a reason for.
    #[error("a ClientHello longer than {HELLO_BYTES_MAX} bytes")]
    TooLong,
}

impl HelloError {
    /// What to send before closing, if anything: a record with a fatal alert.
    pub fn alert(self) -> Option<[u8; 7]> {
        match self {
            Self::PlainHttp => None,
            Self::NotTls => Some(alert::plain(alert::UNEXPECTED_MESSAGE)),
            Self::Malformed => Some(alert::plain(alert::DECODE_ERROR)),
            Self::TooLong => Some(alert::plain(alert::RECORD_OVERFLOW)),
        }
    }
}

impl Hello {
    /// Reads the ClientHello at the beginning of `bytes`, however it is cut into records.
    ///
    /// `None` means that more bytes are needed. Nothing is consumed: `bytes` go to `Session::read` as they are.
    pub fn read(bytes: &[u8]) -> Result<Option<Hello>, HelloError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        if first != RECORD_HANDSHAKE {
            return Err(match first {
                b'A'..=b'Z' | b'a'..=b'z' | b'\r' | b'\n' => HelloError::PlainHttp,
                _ => HelloError::NotTls,
            });
        }
        let Some(message) = first_message(bytes)? else {
            return Ok(None);
        };
        match &message {
            Message::Whole(body) => read_body(body),
            Message::Gathered(body) => read_body(body),
        }
        .map(Some)
        .ok_or(HelloError::Malformed)
    }

    /// Whether the client offers `protocol` by ALPN.
    pub fn offers(&self, protocol: &[u8]) -> bool {
        self.alpn.iter().any(|offered| **offered == *protocol)
    }

    /// Whether the client speaks nothing from TLS 1.2 on. rustls would look for what such a client cannot know.
    pub(crate) fn is_outdated(&self) -> bool {
        !self.versions.is_empty() && self.versions.iter().all(|version| *version < 0x0303)
    }

    /// The ciphers offered, as nginx's `$ssl_ciphers` has them.
    pub fn cipher_names(&self) -> String {
        joined(&self.ciphers, crate::names::cipher)
    }

    /// The groups offered, as nginx's `$ssl_curves` has them.
    pub fn group_names(&self) -> String {
        joined(&self.groups, crate::names::group)
    }
}

/// The body of the first handshake message.
enum Message<'a> {
    Whole(&'a [u8]),
    Gathered(Vec<u8>),
}

/// The ClientHello without its header of four bytes, gathered from as many records as it takes.
fn first_message(bytes: &[u8]) -> Result<Option<Message<'_>>, HelloError> {
    let mut gathered: Vec<u8> = Vec::new();
    let mut rest = bytes;
    for _ in 0..HELLO_RECORDS_MAX {
        let (payload, after) = match rest {
            [kind, major, minor, high, low, after @ ..] => {
                if *kind != RECORD_HANDSHAKE || *major != 3 || *minor > 4 {
                    return Err(HelloError::Malformed);
                }
                let length = usize::from(u16::from_be_bytes([*high, *low]));
                if length == 0 || length > RECORD_PAYLOAD_MAX {
                    return Err(HelloError::Malformed);
                }
                match after.split_at_checked(length) {
                    Some(split) => split,
                    // What is there already shows whether waiting for the rest makes sense.
                    None => {
                        if gathered.is_empty() {
                            message_length(after)?;
                        }
                        return Ok(None);
                    }
                }
            }
            _ => return Ok(None),
        };
        if gathered.is_empty()
            && let Some(length) = message_length(payload)?
            && let Some(body) = payload.get(4..4 + length)
        {
            return Ok(Some(Message::Whole(body)));
        }
        gathered.extend_from_slice(payload);
        if let Some(length) = message_length(&gathered)?
            && gathered.len() >= 4 + length
        {
            gathered.truncate(4 + length);
            gathered.drain(..4);
            return Ok(Some(Message::Gathered(gathered)));
        }
        rest = after;
    }
    Err(HelloError::Malformed)
}

/// The length of the handshake message that begins with `bytes`, once its header is there.
fn message_length(bytes: &[u8]) -> Result<Option<usize>, HelloError> {
    match bytes {
        [kind, ..] if *kind != CLIENT_HELLO => Err(HelloError::Malformed),
        [_, a, b, c, ..] => {
            let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
            if length + 4 > HELLO_BYTES_MAX { Err(HelloError::TooLong) } else { Ok(Some(length)) }
        }
        _ => Ok(None),
    }
}

/// RFC 8446 §4.1.2 and RFC 5246 §7.4.1.2.
fn read_body(body: &[u8]) -> Option<Hello> {
    let mut input = Input(body);
    let legacy_version = input.u16()?;
    input.take(32)?; // random
    input.short()?; // session id
    let ciphers = input.long()?.u16s()?;
    input.short()?; // compression methods
    let mut hello = Hello { ciphers, versions: Box::new([legacy_version]), ..Hello::default() };
    if input.0.is_empty() {
        return Some(hello); // TLS 1.2 may do without extensions
    }
    let mut extensions = input.long()?;
    if !input.0.is_empty() {
        return None;
    }
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let mut content = extensions.long()?;
        match kind {
            0 => hello.server_name = server_name(content)?,
            10 => hello.groups = content.long()?.u16s()?,
            13 => hello.signature_schemes = content.long()?.u16s()?,
            16 => hello.alpn = protocols(content)?,
            41 => hello.session = Some(first_ticket(content)?),
            43 => hello.versions = content.short()?.u16s()?,
            _ => {}
        }
    }
    Some(hello)
}

/// RFC 8446 §4.2.11.
fn first_ticket(mut content: Input<'_>) -> Option<[u8; 32]> {
    let ticket = content.long()?.long()?;
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, ticket.0);
    digest.as_ref().try_into().ok()
}

/// The host name in a `server_name` extension. One that is no name of a host is as good as none.
fn server_name(mut content: Input<'_>) -> Option<Option<Box<str>>> {
    let mut list = content.long()?;
    while !list.0.is_empty() {
        let kind = list.u8()?;
        let name = list.long()?;
        if kind != 0 {
            continue;
        }
        let name = name.0.strip_suffix(b".").unwrap_or(name.0);
        let is_host = !name.is_empty()
            && name.len() <= 253
            && name.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
        return Some(
            is_host.then(|| name.iter().map(|byte| byte.to_ascii_lowercase() as char).collect::<String>().into()),
        );
    }
    Some(None)
}

fn protocols(mut content: Input<'_>) -> Option<Box<[Box<[u8]>]>> {
    let mut list = content.long()?;
    let mut names = Vec::new();
    while !list.0.is_empty() {
        let name = list.short()?;
        if names.len() < LIST_LENGTH_MAX {
            names.push(name.0.into());
        }
    }
    Some(names.into())
}

/// Bytes that are left to read. Every method is total.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, length: usize) -> Option<Input<'a>> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(Input(taken))
    }

    fn u8(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    /// A vector with a length of one byte.
    fn short(&mut self) -> Option<Input<'a>> {
        let length = self.u8()?;
        self.take(usize::from(length))
    }

    /// A vector with a length of two bytes.
    fn long(&mut self) -> Option<Input<'a>> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    fn u16s(self) -> Option<Box<[u16]>> {
        let pairs = self.0.chunks_exact(2);
        if !pairs.remainder().is_empty() {
            return None;
        }
        Some(pairs.take(LIST_LENGTH_MAX).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect())
    }
}

fn joined(numbers: &[u16], name: fn(u16) -> Option<&'static str>) -> String {
    let mut text = String::new();
    for number in numbers {
        if !text.is_empty() {
            text.push(':');
        }
        match name(*number) {
            Some(name) => text.push_str(name),
            None => text.push_str(&format!("0x{number:04x}")),
        }
    }
    text
}
