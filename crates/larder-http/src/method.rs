//! Request methods.

/// A request method: those that larder has rules for, and all others as one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[allow(missing_docs, reason = "the variants are the methods themselves")]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Options,
    Patch,
    Trace,
    Connect,
    Mkcol,
    Copy,
    Move,
    Propfind,
    Proppatch,
    Lock,
    Unlock,
    Purge,
    #[default]
    Other,
}

impl Method {
    /// The method of this name; names are case-sensitive (RFC 9110 §9.1).
    pub fn of(name: &[u8]) -> Method {
        match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"OPTIONS" => Method::Options,
            b"PATCH" => Method::Patch,
            b"TRACE" => Method::Trace,
            b"CONNECT" => Method::Connect,
            b"MKCOL" => Method::Mkcol,
            b"COPY" => Method::Copy,
            b"MOVE" => Method::Move,
            b"PROPFIND" => Method::Propfind,
            b"PROPPATCH" => Method::Proppatch,
            b"LOCK" => Method::Lock,
            b"UNLOCK" => Method::Unlock,
            b"PURGE" => Method::Purge,
            _ => Method::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_case_sensitive() {
        for (name, method) in [
            ("GET", Method::Get),
            ("HEAD", Method::Head),
            ("PURGE", Method::Purge),
            ("PROPPATCH", Method::Proppatch),
            ("UNLOCK", Method::Unlock),
        ] {
            assert_eq!(Method::of(name.as_bytes()), method, "{name}");
        }
        for name in ["get", "GETS", "", "BAN"] {
            assert_eq!(Method::of(name.as_bytes()), Method::Other, "{name}");
        }
    }
}
