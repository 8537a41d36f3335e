//! What `Begin` and `Link` say: `KIND VXID REASON [LEVEL]`.

use crate::record::Kind;

/// Why a transaction began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not said, or not known.
    Unknown,
    /// A connection of HTTP/1.
    Http1,
    /// A request came.
    RxReq,
    /// A page includes it.
    Esi,
    /// A VCL asked for it.
    Restart,
    /// To be passed on.
    Pass,
    /// To be stored.
    Fetch,
    /// The same in the background.
    BgFetch,
    /// To be a pipe.
    Pipe,
}

/// One such record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// `None` for a word that is not known.
    pub kind: Option<Kind>,
    pub vxid: u64,
    pub reason: Reason,
    /// How deep a request is inside of others.
    pub level: u64,
}

impl Link {
    /// Reads one. `None` if something is missing.
    pub fn read(text: &[u8]) -> Option<Self> {
        let mut words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let kind = match words.next()? {
            b"sess" => Some(Kind::Session),
            b"req" => Some(Kind::Request),
            b"bereq" => Some(Kind::BeReq),
            b"raw" => Some(Kind::Raw),
            _ => None,
        };
        let number = |word: &[u8]| str::from_utf8(word).ok().and_then(|word| word.parse().ok());
        let vxid = number(words.next()?)?;
        let reason = match words.next()? {
            b"HTTP/1" => Reason::Http1,
            b"rxreq" => Reason::RxReq,
            b"esi" => Reason::Esi,
            b"restart" => Reason::Restart,
            b"pass" => Reason::Pass,
            b"fetch" => Reason::Fetch,
            b"bgfetch" => Reason::BgFetch,
            b"pipe" => Reason::Pipe,
            _ => Reason::Unknown,
        };
        let level = words.next().and_then(number).unwrap_or(0);
        Some(Self { kind, vxid, reason, level })
    }
}

/// The word for a kind.
pub fn word(kind: Option<Kind>) -> &'static str {
    kind.map_or("unknown", Kind::word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read() {
        let link = |kind, vxid, reason, level| Some(Link { kind, vxid, reason, level });
        for (text, expected) in [
            ("req 1 rxreq", link(Some(Kind::Request), 1, Reason::RxReq, 0)),
            ("bereq 4294967297 bgfetch", link(Some(Kind::BeReq), 1 << 32 | 1, Reason::BgFetch, 0)),
            ("sess 0 HTTP/1", link(Some(Kind::Session), 0, Reason::Http1, 0)),
            ("  req\t7  esi 2 more", link(Some(Kind::Request), 7, Reason::Esi, 2)),
            ("what 7 why", link(None, 7, Reason::Unknown, 0)),
            ("req 7", None),
            ("req", None),
            ("", None),
            ("req x rxreq", None),
            ("req -1 rxreq", None),
            ("req 99999999999999999999 rxreq", None),
        ] {
            assert_eq!(Link::read(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(Link::read(b"\xff \xff \xff"), None);
        assert_eq!((word(None), word(Some(Kind::BeReq))), ("unknown", "bereq"));
    }
}
