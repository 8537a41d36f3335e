//! The PROXY protocol, versions 1 and 2: a load balancer tells the address of the client.
//!
//! It accepts what nginx accepts, with nginx's error messages. Unlike in nginx, a header may arrive in pieces, and
//! invalid addresses and fields that do not end with the header are refused, the latter as by Varnish.

use std::borrow::Cow;
use std::io::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The PROXY header of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The two ends of the client's connection.
    pub addresses: Addresses,
    /// The type-length-value fields of version 2, unparsed.
    tlvs: Box<[u8]>,
}

/// The two ends of the client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// The sender does not know them, or connects for itself (`UNKNOWN`, `LOCAL`), or it is not a TCP connection. Use
    /// the addresses of the connection itself.
    Unknown,
    /// Of TCP, both of one family.
    Inet {
        /// The client.
        source: SocketAddr,
        /// Where it connected to.
        destination: SocketAddr,
    },
    /// Of a unix socket: paths, mostly empty.
    Unix {
        /// The client.
        source: Box<[u8]>,
        /// Where it connected to.
        destination: Box<[u8]>,
    },
}

/// The result of [`parse`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// It begins like a header, but is incomplete.
    Partial,
    /// A header.
    Complete {
        /// Its length; the bytes of the client's connection follow.
        consumed: usize,
        /// What it says.
        header: Header,
    },
}

/// Why the bytes are not a header. The texts are those of nginx's log.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum ProxyProtocolError {
    /// The text up to its end of line.
    #[error("broken header: \"{text}\" while reading PROXY protocol")]
    Broken { text: Box<str> },
    #[error("unknown PROXY protocol version: {0} while reading PROXY protocol")]
    UnknownVersion(u8),
    #[error("header is too large while reading PROXY protocol")]
    TooLarge,
    /// nginx closes the connection without a message.
    #[error("broken header: {len} bytes are too few for its addresses while reading PROXY protocol")]
    TooShort { len: usize },
    /// nginx takes the connection as one of the proxy itself, which rules about addresses may trust.
    #[error("unknown PROXY protocol command: {0} while reading PROXY protocol")]
    UnknownCommand(u8),
    /// nginx does not look at it.
    #[error("broken header: its checksum is wrong while reading PROXY protocol")]
    WrongChecksum,
    /// nginx reads the fields only when a variable asks for one.
    #[error("broken header: its fields do not end where it ends while reading PROXY protocol")]
    BrokenFields,
}

/// The longest line of version 1, CR and LF included.
pub const V1_BYTES_MAX: usize = 107;
/// The longest header of version 2.
pub const V2_BYTES_MAX: usize = 4096;

const V1_START: &[u8] = b"PROXY ";
const V2_START: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// [`V2_START`], version and command, family and transport, length.
const V2_FIXED_BYTES: usize = 16;
const UNIX_PATH_BYTES: usize = 108;

/// Reads the header at the start of `buf`.
pub fn parse(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    let begins = |start: &[u8]| buf.iter().zip(start).all(|(ours, theirs)| ours == theirs);
    if begins(V2_START) && !buf.is_empty() {
        parse_v2(buf)
    } else if begins(V1_START) {
        parse_v1(buf)
    } else {
        Err(broken(buf))
    }
}

fn parse_v1(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    let within = buf.get(..V1_BYTES_MAX).unwrap_or(buf);
    let Some(end) = memchr::memchr(b'\n', within) else {
        return if within.len() < V1_BYTES_MAX { Ok(Parsed::Partial) } else { Err(broken(buf)) };
    };
    let addresses = within[..end].strip_suffix(b"\r").and_then(parse_v1_line).ok_or_else(|| broken(buf))?;
    Ok(Parsed::Complete { consumed: end + 1, header: Header { addresses, tlvs: Box::default() } })
}

fn parse_v1_line(line: &[u8]) -> Option<Addresses> {
    let line = line.strip_prefix(V1_START)?;
    if line.starts_with(b"UNKNOWN") {
        return Some(Addresses::Unknown);
    }
    let (is_v4, line) = match line.strip_prefix(b"TCP4 ") {
        Some(rest) => (true, rest),
        None => (false, line.strip_prefix(b"TCP6 ")?),
    };
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    let mut address = || words.next()?.parse::<IpAddr>().ok().filter(|address| address.is_ipv4() == is_v4);
    let (source, destination) = (address()?, address()?);
    let mut port = || u16::try_from(crate::decimal(words.next()?.as_bytes())?).ok();
    let (source_port, destination_port) = (port()?, port()?);
    words.next().is_none().then_some(Addresses::Inet {
        source: SocketAddr::new(source, source_port),
        destination: SocketAddr::new(destination, destination_port),
    })
}

fn parse_v2(buf: &[u8]) -> Result<Parsed, ProxyProtocolError> {
    const VERSION_AT: usize = V2_START.len();
    if let Some(version) = buf.get(VERSION_AT).map(|byte| byte >> 4)
        && version != 2
    {
        return Err(ProxyProtocolError::UnknownVersion(version));
    }
    let Some(fixed) = buf.first_chunk::<V2_FIXED_BYTES>() else {
        return Ok(Parsed::Partial);
    };
    let [.., version_command, family_transport, high, low] = *fixed;
    let consumed = V2_FIXED_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if consumed > V2_BYTES_MAX {
        return Err(ProxyProtocolError::TooLarge);
    }
    let Some(content) = buf.get(V2_FIXED_BYTES..consumed) else {
        return Ok(Parsed::Partial);
    };
    let family = match version_command & 0x0f {
        COMMAND_LOCAL => 0,
        COMMAND_PROXY => family_transport,
        other => return Err(ProxyProtocolError::UnknownCommand(other)),
    };
    let (addresses, tlvs) = v2_addresses(family, content).ok_or(ProxyProtocolError::TooShort { len: content.len() })?;
    let is_sound = |ssl: &[u8]| ssl.get(SSL_FIXED_BYTES..).is_some_and(are_whole);
    if !are_whole(tlvs) || !find(tlvs, SSL).is_none_or(is_sound) {
        return Err(ProxyProtocolError::BrokenFields);
    }
    if find(tlvs, CRC32C).is_some_and(|checksum| !is_checksum(checksum, &buf[..consumed])) {
        return Err(ProxyProtocolError::WrongChecksum);
    }
    Ok(Parsed::Complete { consumed, header: Header { addresses, tlvs: tlvs.into() } })
}

/// Whether `checksum`, a part of `header`, is that of the header with zeros in its place (section 2.2.3).
fn is_checksum(checksum: &[u8], header: &[u8]) -> bool {
    let Ok(said) = <[u8; 4]>::try_from(checksum) else { return false };
    let at = checksum.as_ptr() as usize - header.as_ptr() as usize;
    let before = crc32c::crc32c(&header[..at]);
    let with_zeros = crc32c::crc32c_append(before, &[0; 4]);
    crc32c::crc32c_append(with_zeros, &header[at + said.len()..]) == u32::from_be_bytes(said)
}

const COMMAND_LOCAL: u8 = 0;
const COMMAND_PROXY: u8 = 1;
const V2_TCP4: u8 = 0x11;
/// The kind of the field with the checksum of the header.
const CRC32C: u8 = 0x03;
/// The kind of the field with what is known of TLS.
const SSL: u8 = 0x20;
/// What stands in that before its own fields: a byte of flags, and the result of the verification.
const SSL_FIXED_BYTES: usize = 5;
/// The kind of the field that names a host.
const AUTHORITY: u8 = 0x02;
/// The kind and the length of a field.
const FIELD_HEAD_BYTES: u16 = 3;
/// The most of a name of a host that is written: DNS has no longer ones.
const AUTHORITY_BYTES_MAX: usize = 255;
const V2_TCP6: u8 = 0x21;
const V2_UNIX_STREAM: u8 = 0x31;

/// The addresses, and the bytes after them. `None` if they are incomplete.
fn v2_addresses(family_transport: u8, content: &[u8]) -> Option<(Addresses, &[u8])> {
    let (addresses, len) = match family_transport {
        V2_TCP4 => {
            let at = content.first_chunk::<12>()?;
            let address = |at: &[u8; 4]| IpAddr::V4(Ipv4Addr::from(*at));
            (inet(address(at[..4].as_array()?), address(at[4..8].as_array()?), at[8..].as_array()?), at.len())
        }
        V2_TCP6 => {
            let at = content.first_chunk::<36>()?;
            let address = |at: &[u8; 16]| IpAddr::V6(Ipv6Addr::from(*at));
            (inet(address(at[..16].as_array()?), address(at[16..32].as_array()?), at[32..].as_array()?), at.len())
        }
        V2_UNIX_STREAM => {
            let at = content.first_chunk::<{ 2 * UNIX_PATH_BYTES }>()?;
            let (source, destination) = at.split_at(UNIX_PATH_BYTES);
            let path = |at: &[u8]| at.split(|byte| *byte == 0).next().unwrap_or_default().into();
            (Addresses::Unix { source: path(source), destination: path(destination) }, at.len())
        }
        _ => return Some((Addresses::Unknown, &[])),
    };
    Some((addresses, &content[len..]))
}

fn inet(source: IpAddr, destination: IpAddr, ports: &[u8; 4]) -> Addresses {
    let [source_high, source_low, destination_high, destination_low] = *ports;
    Addresses::Inet {
        source: SocketAddr::new(source, u16::from_be_bytes([source_high, source_low])),
        destination: SocketAddr::new(destination, u16::from_be_bytes([destination_high, destination_low])),
    }
}

fn broken(buf: &[u8]) -> ProxyProtocolError {
    let line = buf.split(|byte| matches!(byte, b'\r' | b'\n')).next().unwrap_or_default();
    let text = line.get(..TEXT_BYTES_MAX).unwrap_or(line);
    ProxyProtocolError::Broken { text: String::from_utf8_lossy(text).into() }
}

/// How much of a foreign text a message quotes.
const TEXT_BYTES_MAX: usize = 256;

const TLVS: [(&str, u8); 5] =
    [("alpn", 0x01), ("authority", AUTHORITY), ("unique_id", 0x05), ("ssl", SSL), ("netns", 0x30)];
const SSL_TLVS: [(&str, u8); 5] =
    [("version", 0x21), ("cn", 0x22), ("cipher", 0x23), ("sig_alg", 0x24), ("key_alg", 0x25)];

impl Header {
    /// The value of a field, by its name after `$proxy_protocol_tlv_`: `alpn`, `authority`, `unique_id`, `netns`,
    /// `ssl`, `ssl_verify`, `ssl_version`, `ssl_cn`, `ssl_cipher`, `ssl_sig_alg`, `ssl_key_alg`, or its type as in
    /// `0xEA` and `ssl_0x21`.
    ///
    /// `None` for unknown names, missing fields, and fields after a truncated one.
    pub fn tlv(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        let Some(name) = name.strip_prefix("ssl_") else {
            return find(&self.tlvs, kind_of(name, &TLVS)?).map(Cow::Borrowed);
        };
        // Before the inner fields are a byte of flags and the result of the verification.
        let ([_, verify @ ..], inside) = find(&self.tlvs, kind_of("ssl", &TLVS)?)?.split_first_chunk::<5>()?;
        if name == "verify" {
            return Some(Cow::Owned(u32::from_be_bytes(*verify).to_string().into_bytes()));
        }
        find(inside, kind_of(name, &SSL_TLVS)?).map(Cow::Borrowed)
    }
}

fn kind_of(name: &str, known: &[(&str, u8)]) -> Option<u8> {
    match name.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) => u8::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None => known.iter().find(|(called, _)| *called == name).map(|(_, kind)| *kind),
    }
}

fn are_whole(mut tlvs: &[u8]) -> bool {
    while !tlvs.is_empty() {
        let Some(([_, high, low], rest)) = tlvs.split_first_chunk::<3>() else { return false };
        let Some(behind) = rest.get(usize::from(u16::from_be_bytes([*high, *low]))..) else { return false };
        tlvs = behind;
    }
    true
}

fn find(mut tlvs: &[u8], wanted: u8) -> Option<&[u8]> {
    loop {
        let ([kind, high, low], rest) = tlvs.split_first_chunk::<3>()?;
        let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([*high, *low])))?;
        if *kind == wanted {
            return Some(value);
        }
        tlvs = rest;
    }
}

impl Addresses {
    /// The addresses of a TCP connection. If their families differ, both are written as IPv6.
    pub fn inet(source: SocketAddr, destination: SocketAddr) -> Self {
        let (from, to) = (source.ip().to_canonical(), destination.ip().to_canonical());
        let (from, to) = match (from, to) {
            (IpAddr::V4(from), IpAddr::V6(_)) => (IpAddr::V6(from.to_ipv6_mapped()), to),
            (IpAddr::V6(_), IpAddr::V4(to)) => (from, IpAddr::V6(to.to_ipv6_mapped())),
            (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => (from, to),
        };
        Self::Inet {
            source: SocketAddr::new(from, source.port()),
            destination: SocketAddr::new(to, destination.port()),
        }
    }
}

/// Appends a header of version 1. Anything but TCP is `UNKNOWN`.
pub fn write_v1(addresses: &Addresses, out: &mut Vec<u8>) {
    let Addresses::Inet { source, destination } = addresses else {
        out.extend_from_slice(b"PROXY UNKNOWN\r\n");
        return;
    };
    let family = if source.is_ipv4() { '4' } else { '6' };
    let (from, to) = (source.ip(), destination.ip());
    write!(out, "PROXY TCP{family} {from} {to} {} {}\r\n", source.port(), destination.port())
        .expect("writing to memory does not fail");
}

/// Appends a header of version 2, without fields after the addresses. As in nginx, anything but TCP is `LOCAL`.
pub fn write_v2(addresses: &Addresses, out: &mut Vec<u8>) {
    out.extend_from_slice(V2_START);
    match addresses {
        Addresses::Inet { source, destination } => write_v2_inet(*source, *destination, 0, out),
        Addresses::Unknown | Addresses::Unix { .. } => out.extend_from_slice(&[0x20, 0, 0, 0]),
    }
}

/// Appends a header of version 2 that names a host behind the addresses, for a proxy that speaks TLS with it.
/// Of a name that is too long for a header, what there is room for.
pub fn write_v2_for(source: SocketAddr, destination: SocketAddr, authority: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(V2_START);
    let authority = &authority[..authority.len().min(AUTHORITY_BYTES_MAX)];
    write_v2_inet(source, destination, FIELD_HEAD_BYTES + authority.len() as u16, out);
    out.push(AUTHORITY);
    out.extend_from_slice(&(authority.len() as u16).to_be_bytes());
    out.extend_from_slice(authority);
}

/// Appends what stands behind the first bytes: addresses of one family, before this many bytes of fields.
fn write_v2_inet(source: SocketAddr, destination: SocketAddr, fields_bytes: u16, out: &mut Vec<u8>) {
    let (family, len) = if source.is_ipv4() { (V2_TCP4, 12) } else { (V2_TCP6, 36) };
    out.extend_from_slice(&[0x21, family]);
    out.extend_from_slice(&(len + fields_bytes).to_be_bytes());
    for address in [source, destination] {
        match address.ip() {
            IpAddr::V4(address) => out.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => out.extend_from_slice(&address.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tcp(source: &str, destination: &str) -> Addresses {
        Addresses::Inet { source: source.parse().unwrap(), destination: destination.parse().unwrap() }
    }

    /// A header of version 2: version and command, family and transport, content.
    fn v2(version_command: u8, family: u8, content: &[u8]) -> Vec<u8> {
        let mut header = V2_START.to_vec();
        header.extend([version_command, family]);
        header.extend(u16::try_from(content.len()).unwrap().to_be_bytes());
        header.extend(content);
        header
    }

    fn tlv(kind: u8, value: &[u8]) -> Vec<u8> {
        let mut field = vec![kind];
        field.extend(u16::try_from(value.len()).unwrap().to_be_bytes());
        field.extend(value);
        field
    }

    const V4: &[u8] = b"\xc0\x00\x02\x01\xc0\x00\x02\x02\x0f\xa0\x01\xbb";

    #[test]
    fn headers_are_read() {
        let four = tcp("192.0.2.1:4000", "192.0.2.2:443");
        let six = tcp("[2001:db8::1]:1", "[::1]:65535");
        let mut v6 = Vec::new();
        write_v2(&six, &mut v6);
        let mut paths = [0; 216];
        paths[..4].copy_from_slice(b"/a/b");
        let unix = Addresses::Unix { source: (*b"/a/b").into(), destination: Box::default() };
        for (header, addresses) in [
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 4000 443\r\n".to_vec(), &four),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 04000 443\r\n".to_vec(), &four),
            (b"PROXY TCP6 2001:DB8:0::1 ::1 1 65535\r\n".to_vec(), &six),
            (b"PROXY UNKNOWN\r\n".to_vec(), &Addresses::Unknown),
            (b"PROXY UNKNOWN ffff::1 what ever\r\n".to_vec(), &Addresses::Unknown),
            (v2(0x21, 0x11, V4), &four),
            (v6, &six),
            (v2(0x21, 0x31, &paths), &unix),
            (v2(0x20, 0x11, V4), &Addresses::Unknown),
            (v2(0x20, 0x00, b""), &Addresses::Unknown),
            (v2(0x21, 0x00, b"anything"), &Addresses::Unknown),
            // Datagrams, and a family of which nobody knows.
            (v2(0x21, 0x12, V4), &Addresses::Unknown),
            (v2(0x21, 0x41, V4), &Addresses::Unknown),
        ] {
            let shown = header.escape_ascii();
            for end in 0..header.len() {
                assert_eq!(parse(&header[..end]), Ok(Parsed::Partial), "{shown} up to {end}");
            }
            let with_more = [&header, b"GET / HTTP/1.1\r\n".as_slice()].concat();
            let Ok(Parsed::Complete { consumed, header: read }) = parse(&with_more) else {
                panic!("{shown}: {:?}", parse(&with_more));
            };
            assert_eq!((consumed, &read.addresses), (header.len(), addresses), "{shown}");
        }
    }

    #[test]
    fn what_is_no_header_is_named_as_nginx_names_it() {
        let long = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 100]].concat();
        let quoted = format!("broken header: \"{}\"", String::from_utf8_lossy(&long));
        let mut too_large = v2(0x21, 0x11, &[0; 12]);
        too_large[14] = 0x10;
        for (bytes, said) in [
            (b"GET / HTTP/1.1\r\nHost: a\r\n".to_vec(), "broken header: \"GET / HTTP/1.1\""),
            (b"G".to_vec(), "broken header: \"G\""),
            (b"PROXY\tTCP4".to_vec(), "broken header: \"PROXY\tTCP4\""),
            (b"PROXY TCP4 192.0.2.1 192.0.2.2 1\r\n".to_vec(), "broken header: \"PROXY TCP4 192.0.2.1 192.0.2.2 1\""),
            (b"PROXY TCP4 ::1 ::1 1 2\r\n".to_vec(), "broken header: \"PROXY TCP4 ::1 ::1 1 2\""),
            (
                b"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\r\n".to_vec(),
                "broken header: \"PROXY TCP4 1.1.1.1 1.1.1.1 1 65536\"",
            ),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 -2\r\n".to_vec(), "broken header: \"PROXY TCP4 1.1.1.1 1.1.1.1 1 -2\""),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 2 \r\n".to_vec(), "broken header: \"PROXY TCP4 1.1.1.1 1.1.1.1 1 2 \""),
            (b"PROXY TCP4 1.1.1.1 1.1.1.1 1 2\n".to_vec(), "broken header: \"PROXY TCP4 1.1.1.1 1.1.1.1 1 2\""),
            (b"PROXY TCP5 1.1.1.1 1.1.1.1 1 2\r\n".to_vec(), "broken header: \"PROXY TCP5 1.1.1.1 1.1.1.1 1 2\""),
            (b"PROXY UDP4 1.1.1.1 1.1.1.1 1 2\r\n".to_vec(), "broken header: \"PROXY UDP4 1.1.1.1 1.1.1.1 1 2\""),
            (long, &quoted),
            (v2(0x11, 0x11, V4), "unknown PROXY protocol version: 1"),
            (v2(0x2f, 0x11, V4), "unknown PROXY protocol command: 15"),
            (v2(0x22, 0x00, b""), "unknown PROXY protocol command: 2"),
            (too_large, "header is too large"),
            (v2(0x21, 0x11, &V4[1..]), "broken header: 11 bytes are too few for its addresses"),
            (v2(0x21, 0x21, V4), "broken header: 12 bytes are too few for its addresses"),
            (v2(0x21, 0x31, V4), "broken header: 12 bytes are too few for its addresses"),
        ] {
            let error = parse(&bytes).expect_err(said);
            assert_eq!(error.to_string(), format!("{said} while reading PROXY protocol"));
        }
    }

    #[test]
    fn fields_are_found_by_the_names_of_variables() {
        let ssl = [
            b"\x01\x00\x00\x00\x13".to_vec(),
            tlv(0x21, b"TLSv1.3"),
            tlv(0x22, b"example.org"),
            tlv(0x23, b"ECDHE"),
            tlv(0x24, b"SHA256"),
            tlv(0x25, b"RSA2048"),
        ];
        let content = [
            V4.to_vec(),
            tlv(0x01, b"h2"),
            tlv(0x02, b"example.org"),
            tlv(0x05, b"id"),
            tlv(0x30, b"ns"),
            tlv(0x20, &ssl.concat()),
            tlv(0xea, b"vpce-1"),
        ];
        let Ok(Parsed::Complete { header, .. }) = parse(&v2(0x21, 0x11, &content.concat())) else {
            panic!("the header is complete");
        };
        for (name, value) in [
            ("alpn", Some("h2")),
            ("authority", Some("example.org")),
            ("unique_id", Some("id")),
            ("netns", Some("ns")),
            ("ssl_verify", Some("19")),
            ("ssl_version", Some("TLSv1.3")),
            ("ssl_cn", Some("example.org")),
            ("ssl_cipher", Some("ECDHE")),
            ("ssl_sig_alg", Some("SHA256")),
            ("ssl_key_alg", Some("RSA2048")),
            ("ssl_0x21", Some("TLSv1.3")),
            ("0x01", Some("h2")),
            ("0xea", Some("vpce-1")),
            ("0xEA", Some("vpce-1")),
            ("0x33", None),
            ("0x34", None),
            ("0x", None),
            ("0x1ea", None),
            ("0x+1", None),
            ("ssl_alpn", None),
            ("version", None),
            ("", None),
        ] {
            assert_eq!(header.tlv(name).as_deref(), value.map(str::as_bytes), "{name}");
        }
    }

    #[test]
    fn fields_that_do_not_end_with_the_header_are_refused() {
        for broken in [&b"\x33\x00\x09cut"[..], b"\x33\x00", b"\x01\x00\x02h2\x00"] {
            let parsed = parse(&v2(0x21, 0x11, &[V4, broken].concat()));
            assert_eq!(parsed, Err(ProxyProtocolError::BrokenFields), "{broken:?}");
        }
    }

    #[test]
    fn a_header_whose_checksum_is_wrong_is_refused() {
        let with = |checksum: &[u8]| {
            let fields = [tlv(0x02, b"example.org"), tlv(CRC32C, checksum), tlv(0x05, b"id")].concat();
            v2(0x21, 0x11, &[V4, &fields].concat())
        };
        let right = crc32c::crc32c(&with(&[0; 4])).to_be_bytes();
        assert!(matches!(parse(&with(&right)), Ok(Parsed::Complete { .. })));
        for wrong in [&[0; 4], &right[..3], &[right.as_slice(), b"x"].concat(), b""] {
            assert_eq!(parse(&with(wrong)), Err(ProxyProtocolError::WrongChecksum), "{wrong:?}");
        }
    }

    #[test]
    fn fields_of_tls_that_do_not_end_with_theirs_are_refused() {
        let fixed = b"\x01\x00\x00\x00\x00";
        for (ssl, is_taken) in [
            (fixed.to_vec(), true),
            ([fixed.as_slice(), &tlv(0x21, b"TLSv1.3")].concat(), true),
            (fixed[..4].to_vec(), false),
            (Vec::new(), false),
            ([fixed.as_slice(), b"\x21\x00\x09short"].concat(), false),
        ] {
            let header = v2(0x21, 0x11, &[V4, &tlv(SSL, &ssl)].concat());
            assert_eq!(parse(&header).is_ok(), is_taken, "{ssl:?}");
        }
    }

    #[test]
    fn what_is_written_can_be_read() {
        let inet =
            |source: &str, destination: &str| Addresses::inet(source.parse().unwrap(), destination.parse().unwrap());
        for (addresses, line, v2_bytes) in [
            (inet("192.0.2.1:4000", "192.0.2.2:443"), "PROXY TCP4 192.0.2.1 192.0.2.2 4000 443\r\n", 28),
            (inet("[2001:db8::1]:4000", "[::1]:443"), "PROXY TCP6 2001:db8::1 ::1 4000 443\r\n", 52),
            (inet("192.0.2.1:4000", "[::1]:443"), "PROXY TCP6 ::ffff:192.0.2.1 ::1 4000 443\r\n", 52),
            (inet("[::1]:443", "192.0.2.1:4000"), "PROXY TCP6 ::1 ::ffff:192.0.2.1 443 4000\r\n", 52),
            (inet("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2"), "PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", 28),
            (Addresses::Unknown, "PROXY UNKNOWN\r\n", 16),
        ] {
            let (mut v1, mut v2) = (Vec::new(), Vec::new());
            write_v1(&addresses, &mut v1);
            write_v2(&addresses, &mut v2);
            assert_eq!(v1, line.as_bytes());
            assert_eq!(v2.len(), v2_bytes, "{line}");
            for bytes in [v1, v2] {
                let header = Header { addresses: addresses.clone(), tlvs: Box::default() };
                assert_eq!(parse(&bytes), Ok(Parsed::Complete { consumed: bytes.len(), header }), "{line}");
            }
        }
        let mut longest = Vec::new();
        let six = "[ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff]:65535".parse().unwrap();
        write_v1(&Addresses::inet(six, six), &mut longest);
        assert!(longest.len() <= V1_BYTES_MAX, "{}", longest.len());
    }

    #[test]
    fn a_name_of_a_host_that_is_written_can_be_read() {
        let long = "a".repeat(AUTHORITY_BYTES_MAX + 1);
        for (source, destination, authority, bytes) in [
            ("0.0.0.0:0", "192.0.2.2:443", "example.org", 28 + 3 + 11),
            ("[::]:0", "[2001:db8::1]:443", "a", 52 + 3 + 1),
            ("0.0.0.0:0", "192.0.2.2:443", &long, 28 + 3 + AUTHORITY_BYTES_MAX),
        ] {
            let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
            let mut written = Vec::new();
            write_v2_for(source, destination, authority.as_bytes(), &mut written);
            let Ok(Parsed::Complete { consumed, header }) = parse(&written) else { panic!("{authority}") };
            assert_eq!((consumed, written.len()), (bytes, bytes), "{authority}");
            assert_eq!(header.addresses, Addresses::Inet { source, destination });
            let told = header.tlv("authority").expect("it is there");
            assert!(authority.as_bytes().starts_with(&told) && !told.is_empty(), "{authority}");
        }
    }

    #[test]
    fn no_bytes_panic() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for round in 0..20_000 {
            let start: &[u8] = [&V2_START[..], V1_START, b"PROXY TCP4 ", b""][round % 4];
            let mut bytes = start.to_vec();
            if round % 8 == 0 {
                bytes.extend([0x21, [V2_TCP4, V2_TCP6, V2_UNIX_STREAM][round / 8 % 3], (random() % 3) as u8]);
            }
            let len = random() as usize % 600;
            bytes.extend((0..len).map(|_| random() as u8));
            if let Ok(Parsed::Complete { consumed, header }) = parse(&bytes) {
                assert!(consumed <= bytes.len());
                for name in ["alpn", "ssl_cn", "ssl_verify", "0x00", "0xff"] {
                    let _ = header.tlv(name);
                }
            }
        }
    }
}
