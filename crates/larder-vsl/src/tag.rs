//! What a record is about: Varnish's tags (vsl(7)), and four of larder's own for what an nginx.conf decides.

/// Makes the tags of one list, so that each has a name.
macro_rules! tags {
    ($($(#[doc = $doc:literal])* $variant:ident = $name:literal,)*) => {
        /// What a record is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Tag {
            $($(#[doc = $doc])* $variant,)*
        }

        /// All tags.
        pub const ALL: &[Tag] = &[$(Tag::$variant,)*];

        impl Tag {
            /// Its name, as `-i` and queries have it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Tag::$variant => $name,)*
                }
            }
        }
    };
}

tags! {
    /// For developers.
    Debug = "Debug",
    /// What went wrong.
    Error = "Error",
    /// A command of the CLI, and its answer.
    Cli = "CLI",
    /// A client has connected: its address and port, the name of the listener, our address and port, the time.
    SessOpen = "SessOpen",
    /// A client's connection has ended: why, and after how many seconds.
    SessClose = "SessClose",
    /// A connection to a backend is used: its number, name of the backend, addresses and ports, whether it is new.
    BackendOpen = "BackendOpen",
    /// It is no longer: its number, name of the backend, whether it is kept.
    BackendClose = "BackendClose",
    /// A message that could not be read.
    HttpGarbage = "HttpGarbage",
    /// What a PROXY header said.
    Proxy = "Proxy",
    /// A PROXY header that could not be read.
    ProxyGarbage = "ProxyGarbage",
    /// How many bytes the body has.
    Length = "Length",
    /// Why a fetch failed.
    FetchError = "FetchError",
    /// The method of the client's request.
    ReqMethod = "ReqMethod",
    /// Its URL.
    ReqUrl = "ReqURL",
    /// Not used.
    ReqStatus = "ReqStatus",
    /// Not used.
    ReqReason = "ReqReason",
    /// Its protocol.
    ReqProtocol = "ReqProtocol",
    /// A header of it.
    ReqHeader = "ReqHeader",
    /// A header that was removed.
    ReqUnset = "ReqUnset",
    /// A header for which there was no room.
    ReqLost = "ReqLost",
    /// Not used.
    RespMethod = "RespMethod",
    /// Not used.
    RespUrl = "RespURL",
    /// The status of the response.
    RespStatus = "RespStatus",
    /// Its reason.
    RespReason = "RespReason",
    /// Its protocol.
    RespProtocol = "RespProtocol",
    /// A header of it.
    RespHeader = "RespHeader",
    /// A header that was removed.
    RespUnset = "RespUnset",
    /// A header for which there was no room.
    RespLost = "RespLost",
    /// The method of the request to a backend.
    BereqMethod = "BereqMethod",
    /// Its URL.
    BereqUrl = "BereqURL",
    /// Not used.
    BereqStatus = "BereqStatus",
    /// Not used.
    BereqReason = "BereqReason",
    /// Its protocol.
    BereqProtocol = "BereqProtocol",
    /// A header of it.
    BereqHeader = "BereqHeader",
    /// A header that was removed.
    BereqUnset = "BereqUnset",
    /// A header for which there was no room.
    BereqLost = "BereqLost",
    /// Not used.
    BerespMethod = "BerespMethod",
    /// Not used.
    BerespUrl = "BerespURL",
    /// The status of a backend's answer.
    BerespStatus = "BerespStatus",
    /// Its reason.
    BerespReason = "BerespReason",
    /// Its protocol.
    BerespProtocol = "BerespProtocol",
    /// A header of it.
    BerespHeader = "BerespHeader",
    /// A header that was removed.
    BerespUnset = "BerespUnset",
    /// A header for which there was no room.
    BerespLost = "BerespLost",
    /// Not used.
    ObjMethod = "ObjMethod",
    /// Not used.
    ObjUrl = "ObjURL",
    /// Not used.
    ObjStatus = "ObjStatus",
    /// Not used.
    ObjReason = "ObjReason",
    /// Not used.
    ObjProtocol = "ObjProtocol",
    /// Not used.
    ObjHeader = "ObjHeader",
    /// Not used.
    ObjUnset = "ObjUnset",
    /// Not used.
    ObjLost = "ObjLost",
    /// A header that could not be read.
    BogoHeader = "BogoHeader",
    /// A header for which there was no room.
    LostHeader = "LostHeader",
    /// The times of an answer: who set them, TTL, grace, keep, and what they come from.
    Ttl = "TTL",
    /// How a body is fetched: number, name, whether it streams.
    FetchBody = "Fetch_Body",
    /// Whether an address matches an ACL.
    VclAcl = "VCL_acl",
    /// A sub of a VCL is called.
    VclCall = "VCL_call",
    /// The place in a VCL.
    VclTrace = "VCL_trace",
    /// What it has returned.
    VclReturn = "VCL_return",
    /// Where a request comes from: address, port, listener.
    ReqStart = "ReqStart",
    /// A page was found: its number, TTL, grace, keep.
    Hit = "Hit",
    /// A mark was found by which the request is passed: its number and TTL.
    HitPass = "HitPass",
    /// A page was banned.
    ExpBan = "ExpBan",
    /// A page has left the cache.
    ExpKill = "ExpKill",
    /// A thread begins or ends.
    WorkThread = "WorkThread",
    /// ESI that could not be read.
    EsiXmlError = "ESI_xmlerror",
    /// What the key is made of.
    Hash = "Hash",
    /// What a probe has found.
    BackendHealth = "Backend_health",
    /// What a VCL says by `std.log()`.
    VclLog = "VCL_Log",
    /// Why a VCL failed.
    VclError = "VCL_Error",
    /// A body was packed or unpacked.
    Gzip = "Gzip",
    /// Another transaction that this one has begun: kind, number, why.
    Link = "Link",
    /// A transaction begins: kind, number of the one that began it, why.
    Begin = "Begin",
    /// It ends.
    End = "End",
    /// What a reader of the log has to say itself.
    Vsl = "VSL",
    /// Where a body is stored.
    Storage = "Storage",
    /// A time: of what, seconds since 1970, since the beginning, since the last one.
    Timestamp = "Timestamp",
    /// Bytes of a request and its response: head, body and sum of each.
    ReqAcct = "ReqAcct",
    /// Bytes of a pipe.
    PipeAcct = "PipeAcct",
    /// Bytes of a fetch: head, body and sum of request and answer.
    BereqAcct = "BereqAcct",
    /// Calls of a filter of a fetch.
    VfpAcct = "VfpAcct",
    /// For developers.
    Witness = "Witness",
    /// A frame of HTTP/2 that was received.
    H2RxHdr = "H2RxHdr",
    /// Its content.
    H2RxBody = "H2RxBody",
    /// A frame of HTTP/2 that was sent.
    H2TxHdr = "H2TxHdr",
    /// Its content.
    H2TxBody = "H2TxBody",
    /// A mark was found by which the page is fetched without waiting for others: its number and TTL.
    HitMiss = "HitMiss",
    /// What changes a body on its way.
    Filters = "Filters",
    /// A client could not be accepted.
    SessError = "SessError",
    /// The VCL that decides.
    VclUse = "VCL_use",
    /// What an operator should know.
    Notice = "Notice",
    /// Calls of a filter of a delivery.
    VdpAcct = "VdpAcct",
    /// The virtual server of an nginx.conf that a request is for.
    Server = "Server",
    /// Its location there.
    Location = "Location",
    /// Where an nginx.conf sends it inside: `rewrite`, `try_files`, `error_page`, `X-Accel-Redirect`.
    Rewrite = "Rewrite",
    /// What the cache of an nginx.conf said: status, zone, key, reason.
    Cache = "Cache",
}

/// How the text of a record is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As it is.
    Plain,
    /// In quotes: it may have any bytes.
    Quoted,
    /// In hexadecimal.
    Hexadecimal,
    /// Nobody writes it.
    Unused,
}

impl Tag {
    /// How its records are printed.
    pub fn form(self) -> Form {
        match self {
            Self::Debug | Self::HttpGarbage | Self::Hash => Form::Quoted,
            Self::H2RxHdr | Self::H2RxBody | Self::H2TxHdr | Self::H2TxBody => Form::Hexadecimal,
            Self::ReqStatus | Self::ReqReason | Self::RespMethod | Self::RespUrl => Form::Unused,
            Self::BereqStatus | Self::BereqReason | Self::BerespMethod | Self::BerespUrl => Form::Unused,
            Self::ObjMethod | Self::ObjUrl => Form::Unused,
            _ => Form::Plain,
        }
    }

    /// The tag of this code.
    pub fn of_code(code: u8) -> Option<Self> {
        ALL.get(usize::from(code)).copied()
    }

    /// Its code, where it goes over a socket.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The tag of this name, in any case.
    pub fn of_name(name: &str) -> Option<Self> {
        ALL.iter().copied().find(|tag| tag.name().eq_ignore_ascii_case(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_and_a_name_mean_their_tag() {
        for &tag in ALL {
            assert_eq!(Tag::of_code(tag.code()), Some(tag));
            assert_eq!(Tag::of_name(&tag.name().to_lowercase()), Some(tag));
        }
        assert_eq!(Tag::of_code(ALL.len() as u8), None);
        assert_eq!(Tag::of_name("ReqU"), None);
    }
}
