//! DNS messages (RFC 1035): writes questions and parses answers. Strict where a wrong answer could do harm; otherwise
//! as lenient as nginx, so that every name server that works with nginx works here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The type of records that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    A,
    Aaaa,
    Srv,
}

/// The parts of an answer that are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) id: u16,
    /// The question it answers, in lower case.
    pub(super) name: String,
    pub(super) kind: Kind,
    /// `RCODE`: 0 for success, at most [`REFUSED`].
    pub(super) code: u8,
    /// The answer did not fit into a datagram.
    pub(super) is_truncated: bool,
    /// Whether there were no records at all.
    pub(super) is_empty: bool,
    pub(super) addresses: Vec<IpAddr>,
    pub(super) alias: Option<String>,
    pub(super) services: Vec<Service>,
    /// The smallest of all records, in seconds.
    pub(super) ttl: u32,
}

/// An SRV record (RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Service {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) port: u16,
    pub(super) target: String,
}

/// Why a message cannot be used. The texts are those of nginx's error log.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    #[error("short DNS response")]
    Short,
    #[error("invalid {how} DNS response {id} fl:{flags:04X}")]
    Head { how: &'static str, id: u16, flags: u16 },
    /// The server could not parse the question, or answered with an unknown code.
    #[error("DNS error ({code}: {}), query id:{id}", code_text(*code))]
    Code { code: u8, id: u16 },
    #[error("{0} in DNS response")]
    Content(&'static str),
    #[error("unknown query class {0} in DNS response")]
    QueryClass(u16),
    #[error("unknown query type {0} in DNS response")]
    QueryType(u16),
    #[error("unexpected RR class {0} in DNS response")]
    RecordClass(u16),
}

/// `FORMERR`.
pub(super) const FORMAT_ERROR: u8 = 1;
/// `NXDOMAIN`.
pub(super) const NOT_FOUND: u8 = 3;
/// `REFUSED`, the last code that is an answer about the name.
const REFUSED: u8 = 5;

const TYPE_A: u16 = 1;
const TYPE_CNAME: u16 = 5;
const TYPE_AAAA: u16 = 28;
const TYPE_SRV: u16 = 33;
const CLASS_IN: u16 = 1;

const HEAD_BYTES: usize = 12;
/// Type, class, TTL and length of a record.
const RECORD_HEAD_BYTES: usize = 10;
const LABEL_BYTES_MAX: usize = 63;
/// More than the 255 of RFC 1035, because nginx has no limit, and some answers have longer names.
const NAME_BYTES_MAX: usize = 512;
/// How many pointers are followed in one name.
const POINTERS_MAX: usize = 128;

/// nginx's text for a code.
pub(super) fn code_text(code: u8) -> &'static str {
    match code {
        1 => "Format error",
        2 => "Server failure",
        3 => "Host not found",
        4 => "Unimplemented",
        5 => "Operation refused",
        110 => "Operation timed out",
        _ => "Unknown error",
    }
}

/// A question for a recursive server. `None` if `name` is invalid.
pub(super) fn question(id: u16, name: &str, kind: Kind) -> Option<Vec<u8>> {
    const RECURSION_DESIRED: u16 = 0x0100;
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut out = Vec::with_capacity(HEAD_BYTES + name.len() + 6);
    for word in [id, RECURSION_DESIRED, 1, 0, 0, 0] {
        out.extend_from_slice(&word.to_be_bytes());
    }
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|&len| len > 0 && usize::from(len) <= LABEL_BYTES_MAX)?;
        out.push(length);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    let number = match kind {
        Kind::A => TYPE_A,
        Kind::Aaaa => TYPE_AAAA,
        Kind::Srv => TYPE_SRV,
    };
    out.extend_from_slice(&number.to_be_bytes());
    out.extend_from_slice(&CLASS_IN.to_be_bytes());
    Some(out)
}

/// Parses an answer. The caller checks whether it answers one of our questions.
pub(super) fn read(message: &[u8], by_tcp: bool) -> Result<Reply, WireError> {
    let word = |at: usize| u16_at(message, at).ok_or(WireError::Short);
    let (id, flags) = (word(0)?, word(2)?);
    let (questions, answers) = (word(4)?, word(6)?);
    word(HEAD_BYTES - 2)?;
    let is_truncated = flags & 0x0200 != 0;
    // It has to be an answer to a standard query.
    if flags & 0xf870 != 0x8000 || (is_truncated && by_tcp) {
        return Err(WireError::Head { how: if by_tcp { "TCP" } else { "UDP" }, id, flags });
    }
    let code = (flags & 0xf) as u8;
    if code == FORMAT_ERROR || code > REFUSED {
        return Err(WireError::Code { code, id });
    }
    if questions != 1 {
        return Err(WireError::Content("invalid number of questions"));
    }
    let at = question_end(message)?;
    let name = name_at(message, HEAD_BYTES)?;
    let (kind, class) = (word(at)?, word(at + 2)?);
    if class != CLASS_IN {
        return Err(WireError::QueryClass(class));
    }
    let kind = match kind {
        TYPE_A => Kind::A,
        TYPE_AAAA => Kind::Aaaa,
        TYPE_SRV => Kind::Srv,
        other => return Err(WireError::QueryType(other)),
    };
    let mut reply = Reply {
        id,
        name,
        kind,
        code,
        is_truncated,
        is_empty: answers == 0,
        addresses: Vec::new(),
        alias: None,
        services: Vec::new(),
        ttl: u32::MAX,
    };
    // Records of a failure or of a truncated answer are ignored.
    if code == 0 && !is_truncated {
        let mut at = at + 4;
        for _ in 0..answers {
            at = record(message, at, &mut reply)?;
        }
    }
    Ok(reply)
}

/// Where the name of the question ends. It is the first name of the message, so it cannot have a pointer.
fn question_end(message: &[u8]) -> Result<usize, WireError> {
    let mut at = HEAD_BYTES;
    loop {
        match message.get(at) {
            None => return Err(WireError::Short),
            Some(0) if at == HEAD_BYTES => return Err(WireError::Content("zero-length domain name")),
            Some(0) => return Ok(at + 1),
            Some(length) if length & 0xc0 != 0 => return Err(WireError::Content("unexpected compression pointer")),
            Some(length) => at += 1 + usize::from(*length),
        }
    }
}

/// Parses one record, and returns where the next begins.
fn record(message: &[u8], at: usize, reply: &mut Reply) -> Result<usize, WireError> {
    let at = owner_end(message, at)?;
    let word = |at: usize| u16_at(message, at).ok_or(WireError::Short);
    let (kind, class, length) = (word(at)?, word(at + 2)?, usize::from(word(at + 8)?));
    let ttl = u32::from(word(at + 4)?) << 16 | u32::from(word(at + 6)?);
    if class != CLASS_IN {
        return Err(WireError::RecordClass(class));
    }
    // RFC 2181 §8: a TTL with the top bit set counts as zero.
    reply.ttl = reply.ttl.min(if ttl > i32::MAX as u32 { 0 } else { ttl });
    let at = at + RECORD_HEAD_BYTES;
    let body = message.get(at..at + length).ok_or(WireError::Short)?;
    match (kind, reply.kind) {
        (TYPE_A, Kind::A) => {
            let octets: [u8; 4] = body.try_into().map_err(|_| WireError::Content("invalid A record"))?;
            reply.addresses.push(IpAddr::V4(Ipv4Addr::from(octets)));
        }
        (TYPE_AAAA, Kind::Aaaa) => {
            let octets: [u8; 16] = body.try_into().map_err(|_| WireError::Content("invalid AAAA record"))?;
            reply.addresses.push(IpAddr::V6(Ipv6Addr::from(octets)));
        }
        (TYPE_A, _) => return Err(WireError::Content("unexpected A record")),
        (TYPE_AAAA, _) => return Err(WireError::Content("unexpected AAAA record")),
        (TYPE_SRV, Kind::Srv) => {
            let weight = word(at + 2)?.max(1);
            let target = name_at(message, at + 6)?;
            reply.services.push(Service { priority: word(at)?, weight, port: word(at + 4)?, target });
        }
        // If there are no addresses, those of the last name in the chain are missing.
        (TYPE_CNAME, _) => reply.alias = Some(name_at(message, at)?),
        // A DNAME comes with the CNAME that it makes; other records, such as signatures, are not needed.
        _ => {}
    }
    Ok(at + length)
}

/// Where the name that a record begins with ends.
fn owner_end(message: &[u8], from: usize) -> Result<usize, WireError> {
    let mut at = from;
    loop {
        match message.get(at) {
            None => return Err(WireError::Short),
            Some(length) if length & 0xc0 != 0 => return Ok(at + 2),
            Some(0) if at == from => return Err(WireError::Content("invalid name")),
            Some(0) => return Ok(at + 1),
            Some(length) => at += 1 + usize::from(*length),
        }
    }
}

/// Reads a name, following pointers; in lower case and without the last dot.
fn name_at(message: &[u8], from: usize) -> Result<String, WireError> {
    let mut name = Vec::new();
    let (mut at, mut pointers) = (from, 0);
    loop {
        let length = *message.get(at).ok_or(WireError::Short)?;
        if length == 0 {
            break;
        }
        if length & 0xc0 != 0 {
            let low = *message.get(at + 1).ok_or(WireError::Short)?;
            at = usize::from(length & 0x3f) << 8 | usize::from(low);
            pointers += 1;
            if pointers > POINTERS_MAX {
                return Err(WireError::Content("compression pointers loop"));
            }
            continue;
        }
        let label = message.get(at + 1..at + 1 + usize::from(length)).ok_or(WireError::Short)?;
        if !name.is_empty() {
            name.push(b'.');
        }
        name.extend(label.iter().map(u8::to_ascii_lowercase));
        if name.len() > NAME_BYTES_MAX {
            return Err(WireError::Content("name too long"));
        }
        at += 1 + usize::from(length);
    }
    String::from_utf8(name).map_err(|_| WireError::Content("unreadable name"))
}

fn u16_at(message: &[u8], at: usize) -> Option<u16> {
    let bytes = message.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An answer to `name`, from words (in `u16`) and raw records.
    fn message(flags: u16, name: &str, kind: Kind, records: &[Vec<u8>]) -> Vec<u8> {
        let mut out = question(7, name, kind).expect("a name");
        out[2..4].copy_from_slice(&flags.to_be_bytes());
        out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        records.iter().for_each(|record| out.extend_from_slice(record));
        out
    }

    /// A record of the name in the question.
    fn rr(kind: u16, ttl: u32, body: &[u8]) -> Vec<u8> {
        let mut out = vec![0xc0, 0x0c];
        out.extend_from_slice(&kind.to_be_bytes());
        out.extend_from_slice(&CLASS_IN.to_be_bytes());
        out.extend_from_slice(&ttl.to_be_bytes());
        out.extend_from_slice(&(body.len() as u16).to_be_bytes());
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn a_question_is_written_label_by_label() {
        let bytes = question(0x1234, "a.bc", Kind::Aaaa).expect("a name");
        assert_eq!(bytes, b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x02bc\x00\x00\x1c\x00\x01");
        let long = "a".repeat(64);
        for none in ["", ".", "a..b", ".a", long.as_str(), &"a.".repeat(300)] {
            assert_eq!(question(1, none, Kind::A), None, "{none}");
        }
    }

    #[test]
    fn addresses_aliases_and_the_least_ttl_are_read() {
        let records = [rr(5, 30, b"\x05alias\xc0\x10"), rr(46, 5, b"signed"), rr(1, 60, &[127, 0, 0, 1])];
        let reply = read(&message(0x8180, "www.Example.org", Kind::A, &records), false).expect("it is whole");
        assert_eq!((reply.id, reply.name.as_str(), reply.code, reply.ttl), (7, "www.example.org", 0, 5));
        assert_eq!(reply.addresses, [IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(reply.alias.as_deref(), Some("alias.example.org"));
        let reply =
            read(&message(0x8180, "a.b", Kind::Aaaa, &[rr(28, u32::MAX, &[0; 16])]), true).expect("it is whole");
        assert_eq!((reply.addresses.len(), reply.ttl), (1, 0));
    }

    #[test]
    fn services_are_read_and_a_weight_of_zero_is_one() {
        let body = b"\x00\x02\x00\x00\x1f\x90\x01n\xc0\x0c";
        let reply = read(&message(0x8180, "_http._tcp.b", Kind::Srv, &[rr(33, 9, body)]), false).expect("it is whole");
        let target = "n._http._tcp.b".to_owned();
        assert_eq!(reply.services, [Service { priority: 2, weight: 1, port: 8080, target }]);
    }

    #[test]
    fn what_is_wrong_is_told_in_the_words_of_nginx() {
        let ok = |records: &[Vec<u8>]| message(0x8180, "a.b", Kind::A, records);
        let mut of_class_3 = ok(&[]);
        let end = of_class_3.len();
        of_class_3[end - 1] = 3;
        let mut cut = ok(&[rr(1, 1, &[1, 2, 3, 4])]);
        cut.truncate(cut.len() - 1);
        for (bytes, by_tcp, told) in [
            (b"\x00".to_vec(), false, "short DNS response"),
            (message(0x0180, "a.b", Kind::A, &[]), false, "invalid UDP DNS response 7 fl:0180"),
            (message(0x8380, "a.b", Kind::A, &[]), true, "invalid TCP DNS response 7 fl:8380"),
            (message(0x8181, "a.b", Kind::A, &[]), false, "DNS error (1: Format error), query id:7"),
            (message(0x8186, "a.b", Kind::A, &[]), false, "DNS error (6: Unknown error), query id:7"),
            (of_class_3, false, "unknown query class 3 in DNS response"),
            (cut, false, "short DNS response"),
            (ok(&[rr(1, 1, &[])]), false, "invalid A record in DNS response"),
            (ok(&[rr(28, 1, &[0; 16])]), false, "unexpected AAAA record in DNS response"),
            (ok(&[rr(5, 1, b"\xc0\x21")]), false, "compression pointers loop in DNS response"),
        ] {
            assert_eq!(read(&bytes, by_tcp).map_err(|error| error.to_string()), Err(told.to_owned()));
        }
    }

    #[test]
    fn failures_and_cut_answers_are_answers() {
        let failed = read(&message(0x8182, "a.b", Kind::A, &[rr(1, 1, &[1; 4])]), false).expect("it is whole");
        assert_eq!((failed.code, failed.addresses.len()), (2, 0));
        let cut = read(&message(0x8380, "a.b", Kind::A, &[rr(1, 1, &[1; 4])]), false).expect("it is whole");
        assert!(cut.is_truncated && cut.addresses.is_empty());
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = message(0x8180, "a.b", Kind::Srv, &[rr(33, 9, b"\x00\x02\x00\x00\x1f\x90\x01n\xc0\x0c")]);
        for at in 0..whole.len() {
            let _ = read(&whole[..at], false);
            for byte in [0, 1, 0x3f, 0x40, 0x80, 0xc0, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _ = read(&changed, false);
            }
        }
    }
}
