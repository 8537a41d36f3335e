//! The static table (RFC 7541 Appendix A).

use crate::field::known::Known;

use super::table::{Class, NameKind};

/// An entry of the static table.
pub(super) struct StaticEntry {
    pub name: &'static [u8],
    pub value: &'static [u8],
    pub kind: NameKind,
}

const fn entry(name: &'static str, value: &'static str, class: Class, known: Known) -> StaticEntry {
    StaticEntry { name: name.as_bytes(), value: value.as_bytes(), kind: NameKind { class, known } }
}

const fn pseudo(name: &'static str, value: &'static str, class: Class) -> StaticEntry {
    entry(name, value, class, Known::Other)
}

const fn field(name: &'static str, known: Known) -> StaticEntry {
    entry(name, "", Class::Plain, known)
}

/// How many entries there are; they are counted from 1.
pub(super) const LEN: usize = 61;

/// The entry with index 1 comes first.
pub(super) static ENTRIES: [StaticEntry; LEN] = [
    pseudo(":authority", "", Class::Authority),
    pseudo(":method", "GET", Class::Method),
    pseudo(":method", "POST", Class::Method),
    pseudo(":path", "/", Class::Path),
    pseudo(":path", "/index.html", Class::Path),
    pseudo(":scheme", "http", Class::Scheme),
    pseudo(":scheme", "https", Class::Scheme),
    pseudo(":status", "200", Class::OtherPseudo),
    pseudo(":status", "204", Class::OtherPseudo),
    pseudo(":status", "206", Class::OtherPseudo),
    pseudo(":status", "304", Class::OtherPseudo),
    pseudo(":status", "400", Class::OtherPseudo),
    pseudo(":status", "404", Class::OtherPseudo),
    pseudo(":status", "500", Class::OtherPseudo),
    field("accept-charset", Known::AcceptCharset),
    entry("accept-encoding", "gzip, deflate", Class::Plain, Known::AcceptEncoding),
    field("accept-language", Known::AcceptLanguage),
    field("accept-ranges", Known::AcceptRanges),
    field("accept", Known::Accept),
    field("access-control-allow-origin", Known::Other),
    field("age", Known::Age),
    field("allow", Known::Allow),
    field("authorization", Known::Authorization),
    field("cache-control", Known::CacheControl),
    field("content-disposition", Known::ContentDisposition),
    field("content-encoding", Known::ContentEncoding),
    field("content-language", Known::ContentLanguage),
    field("content-length", Known::ContentLength),
    field("content-location", Known::ContentLocation),
    field("content-range", Known::ContentRange),
    field("content-type", Known::ContentType),
    field("cookie", Known::Cookie),
    field("date", Known::Date),
    field("etag", Known::Etag),
    field("expect", Known::Expect),
    field("expires", Known::Expires),
    field("from", Known::Other),
    field("host", Known::Host),
    field("if-match", Known::IfMatch),
    field("if-modified-since", Known::IfModifiedSince),
    field("if-none-match", Known::IfNoneMatch),
    field("if-range", Known::IfRange),
    field("if-unmodified-since", Known::IfUnmodifiedSince),
    field("last-modified", Known::LastModified),
    field("link", Known::Link),
    field("location", Known::Location),
    field("max-forwards", Known::MaxForwards),
    field("proxy-authenticate", Known::ProxyAuthenticate),
    field("proxy-authorization", Known::ProxyAuthorization),
    field("range", Known::Range),
    field("referer", Known::Referer),
    field("refresh", Known::Refresh),
    field("retry-after", Known::RetryAfter),
    field("server", Known::Server),
    field("set-cookie", Known::SetCookie),
    field("strict-transport-security", Known::StrictTransportSecurity),
    field("transfer-encoding", Known::TransferEncoding),
    field("user-agent", Known::UserAgent),
    field("vary", Known::Vary),
    field("via", Known::Via),
    field("www-authenticate", Known::WwwAuthenticate),
];

/// The index of a field name, 0 when it has none.
#[inline]
pub(super) fn index_of(known: Known, name: &[u8]) -> usize {
    if known != Known::Other {
        return usize::from(BY_KNOWN[known as usize]);
    }
    let others = [(20, &b"access-control-allow-origin"[..]), (37, b"from")];
    others.into_iter().find(|(_, other)| name.eq_ignore_ascii_case(other)).map_or(0, |(index, _)| index)
}

/// The index of every known name, 0 where there is none.
static BY_KNOWN: [u8; 256] = {
    let mut table = [0; 256];
    let mut at = 0;
    while at < LEN {
        let known = ENTRIES_KNOWN[at];
        if known != Known::Other as u8 {
            table[known as usize] = at as u8 + 1;
        }
        at += 1;
    }
    table
};

/// What is known about the entries, as numbers.
const ENTRIES_KNOWN: [u8; LEN] = {
    let mut known = [0; LEN];
    let mut at = 0;
    while at < LEN {
        known[at] = ENTRIES[at].kind.known as u8;
        at += 1;
    }
    known
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_kinds_agree() {
        for (at, entry) in ENTRIES.iter().enumerate() {
            assert_eq!(NameKind::of(entry.name), entry.kind, "{at}");
            if entry.name[0] != b':' {
                assert_eq!(index_of(entry.kind.known, entry.name), at + 1);
            }
        }
        assert_eq!(index_of(Known::Other, b"From"), 37);
        assert_eq!(index_of(Known::Other, b"x"), 0);
        assert_eq!(index_of(Known::XCache, b"x-cache"), 0);
    }
}
