//! The field names that larder has rules for, as an enum, so that looking for one compares a byte and not a text.

macro_rules! known {
    ($($variant:ident = $name:literal,)*) => {
        /// A field name that larder knows; all others are [`Known::Other`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        #[allow(missing_docs, reason = "the variants are the field names themselves")]
        pub enum Known {
            Other,
            $($variant,)*
        }

        /// Every known name in the order of the variants, [`Known::Other`] with an empty one.
        const NAMES: [&str; 1 + [$($name),*].len()] = ["", $($name),*];

        impl Known {
            /// Every variant in order.
            pub(crate) const ALL: [Known; NAMES.len()] = [Known::Other, $(Known::$variant),*];
        }
    };
}

known! {
    Accept = "Accept",
    AcceptCharset = "Accept-Charset",
    AcceptEncoding = "Accept-Encoding",
    AcceptLanguage = "Accept-Language",
    AcceptRanges = "Accept-Ranges",
    Age = "Age",
    Allow = "Allow",
    AltSvc = "Alt-Svc",
    Authorization = "Authorization",
    CacheControl = "Cache-Control",
    CacheStatus = "Cache-Status",
    CdnCacheControl = "CDN-Cache-Control",
    Connection = "Connection",
    ContentDisposition = "Content-Disposition",
    ContentEncoding = "Content-Encoding",
    ContentLanguage = "Content-Language",
    ContentLength = "Content-Length",
    ContentLocation = "Content-Location",
    ContentRange = "Content-Range",
    ContentSecurityPolicy = "Content-Security-Policy",
    ContentType = "Content-Type",
    Cookie = "Cookie",
    Date = "Date",
    Dnt = "DNT",
    EarlyData = "Early-Data",
    Etag = "ETag",
    Expect = "Expect",
    Expires = "Expires",
    Forwarded = "Forwarded",
    Host = "Host",
    Http2Settings = "HTTP2-Settings",
    IfMatch = "If-Match",
    IfModifiedSince = "If-Modified-Since",
    IfNoneMatch = "If-None-Match",
    IfRange = "If-Range",
    IfUnmodifiedSince = "If-Unmodified-Since",
    KeepAlive = "Keep-Alive",
    LastModified = "Last-Modified",
    Link = "Link",
    Location = "Location",
    MaxForwards = "Max-Forwards",
    Origin = "Origin",
    Pragma = "Pragma",
    Priority = "Priority",
    ProxyAuthenticate = "Proxy-Authenticate",
    ProxyAuthorization = "Proxy-Authorization",
    ProxyConnection = "Proxy-Connection",
    Range = "Range",
    Referer = "Referer",
    Refresh = "Refresh",
    RetryAfter = "Retry-After",
    SecChUa = "Sec-CH-UA",
    SecChUaMobile = "Sec-CH-UA-Mobile",
    SecChUaPlatform = "Sec-CH-UA-Platform",
    SecFetchDest = "Sec-Fetch-Dest",
    SecFetchMode = "Sec-Fetch-Mode",
    SecFetchSite = "Sec-Fetch-Site",
    SecFetchUser = "Sec-Fetch-User",
    Server = "Server",
    SetCookie = "Set-Cookie",
    Status = "Status",
    StrictTransportSecurity = "Strict-Transport-Security",
    SurrogateControl = "Surrogate-Control",
    SurrogateKey = "Surrogate-Key",
    Te = "TE",
    Trailer = "Trailer",
    TransferEncoding = "Transfer-Encoding",
    Upgrade = "Upgrade",
    UpgradeInsecureRequests = "Upgrade-Insecure-Requests",
    UserAgent = "User-Agent",
    Vary = "Vary",
    Via = "Via",
    Warning = "Warning",
    WwwAuthenticate = "WWW-Authenticate",
    XAccelBuffering = "X-Accel-Buffering",
    XAccelCharset = "X-Accel-Charset",
    XAccelExpires = "X-Accel-Expires",
    XAccelLimitRate = "X-Accel-Limit-Rate",
    XAccelRedirect = "X-Accel-Redirect",
    XCache = "X-Cache",
    XContentTypeOptions = "X-Content-Type-Options",
    XForwardedFor = "X-Forwarded-For",
    XForwardedHost = "X-Forwarded-Host",
    XForwardedPort = "X-Forwarded-Port",
    XForwardedProto = "X-Forwarded-Proto",
    XFrameOptions = "X-Frame-Options",
    XPoweredBy = "X-Powered-By",
    XRealIp = "X-Real-IP",
    XRequestedWith = "X-Requested-With",
    XVarnish = "X-Varnish",
}

impl Known {
    /// The length of the longest known name.
    pub(crate) const NAME_BYTES_MAX: usize = {
        let (mut at, mut max) = (0, 0);
        while at < NAMES.len() {
            if NAMES[at].len() > max {
                max = NAMES[at].len();
            }
            at += 1;
        }
        max
    };

    /// The known name of a field, ignoring case.
    #[inline]
    pub fn of(name: &[u8]) -> Known {
        if name.is_empty() {
            return Known::Other;
        }
        let known = SLOTS[slot(name)];
        if is_same(known.name().as_bytes(), name) { known } else { Known::Other }
    }

    /// The name as the standards write it; empty for [`Known::Other`].
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// A set of known names: a bit each, in two words, so that one is found by a short shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KnownSet([u64; 2]);

impl KnownSet {
    /// The set of these names.
    pub const fn of(names: &[Known]) -> KnownSet {
        assert!(NAMES.len() <= 2 * u64::BITS as usize, "a set has a bit for each name");
        let (mut set, mut at) = (KnownSet([0; 2]), 0);
        while at < names.len() {
            let (word, bit) = Self::place(names[at]);
            set.0[word] |= bit;
            at += 1;
        }
        set
    }

    /// The word of a name, and its bit there.
    #[inline]
    const fn place(known: Known) -> (usize, u64) {
        (known as usize / u64::BITS as usize % 2, 1 << (known as u32 % u64::BITS))
    }

    /// Whether the name is in the set.
    #[inline]
    pub const fn contains(self, known: Known) -> bool {
        let (word, bit) = Self::place(known);
        self.0[word] & bit != 0
    }

    /// Adds the name. True if it was not there before.
    #[inline]
    pub fn insert(&mut self, known: Known) -> bool {
        let (word, bit) = Self::place(known);
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }

    /// Removes the name.
    #[inline]
    pub fn remove(&mut self, known: Known) {
        let (word, bit) = Self::place(known);
        self.0[word] &= !bit;
    }

    /// Whether a name is in both sets.
    #[inline]
    pub const fn meets(self, other: KnownSet) -> bool {
        self.0[0] & other.0[0] | self.0[1] & other.0[1] != 0
    }

    /// The names that are not in the other set.
    #[inline]
    pub const fn without(self, other: KnownSet) -> KnownSet {
        KnownSet([self.0[0] & !other.0[0], self.0[1] & !other.0[1]])
    }

    /// The names of both sets.
    pub const fn and(self, other: KnownSet) -> KnownSet {
        KnownSet([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }
}

/// A name's place in [`SLOTS`], a perfect hash: the factors were chosen so that no two known names share a place. If a
/// new name breaks that, the table does not compile.
#[inline]
const fn slot(name: &[u8]) -> usize {
    let length = name.len();
    let sum = (length as u32).wrapping_mul(53135)
        + lower(name[0]).wrapping_mul(25916)
        + lower(name[length / 2]).wrapping_mul(32201)
        + lower(name[length - 1]).wrapping_mul(56314)
        + lower(name[length.saturating_sub(2)]).wrapping_mul(6527);
    ((sum & 0xffff) >> 7) as usize
}

/// Whether `name` is the known name, ignoring case. Compares eight or four bytes at a time, the last ones perhaps twice.
#[inline]
fn is_same(known: &[u8], name: &[u8]) -> bool {
    if known.len() != name.len() {
        return false;
    }
    if let (Some(known_end), Some(name_end)) = (known.last_chunk::<8>(), name.last_chunk::<8>()) {
        let (mut known, mut name) = (known, name);
        while let (Some((known_word, known_rest)), Some((name_word, name_rest))) =
            (known.split_first_chunk(), name.split_first_chunk())
        {
            if !is_same_word(u64::from_ne_bytes(*known_word), u64::from_ne_bytes(*name_word)) {
                return false;
            }
            (known, name) = (known_rest, name_rest);
        }
        return is_same_word(u64::from_ne_bytes(*known_end), u64::from_ne_bytes(*name_end));
    }
    let half = |word: &[u8; 4]| u64::from(u32::from_ne_bytes(*word));
    match (known.first_chunk(), known.last_chunk(), name.first_chunk(), name.last_chunk()) {
        (Some(known), Some(known_end), Some(name), Some(name_end)) => {
            is_same_word(half(known), half(name)) && is_same_word(half(known_end), half(name_end))
        }
        _ => known.eq_ignore_ascii_case(name),
    }
}

#[inline]
fn is_same_word(known: u64, name: u64) -> bool {
    // Known names consist of letters, digits and hyphens, of which only letters have the bit 0x40. In letters, the bit
    // 0x20, next to it, may differ.
    let may_differ = (known & 0x4040_4040_4040_4040) >> 1;
    (known ^ name) & !may_differ == 0
}

/// Folds upper-case letters. It also confuses some other bytes, which does no harm in a hash.
const fn lower(byte: u8) -> u32 {
    (byte | 0x20) as u32
}

static SLOTS: [Known; 512] = {
    let mut slots = [Known::Other; 512];
    let mut at = 1;
    while at < NAMES.len() {
        let name = NAMES[at].as_bytes();
        let mut letter = 0;
        while letter < name.len() {
            assert!(name[letter].is_ascii_alphanumeric() || name[letter] == b'-', "`is_same` cannot compare it");
            letter += 1;
        }
        let place = slot(name);
        assert!(matches!(slots[place], Known::Other), "two known field names share a slot: search for new factors");
        slots[place] = Known::ALL[at];
        at += 1;
    }
    slots
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_known_in_any_case() {
        for known in &Known::ALL[1..] {
            let name = known.name();
            for written in [name.to_owned(), name.to_uppercase(), name.to_lowercase()] {
                assert_eq!(Known::of(written.as_bytes()), *known, "{written}");
            }
            assert_eq!(Known::of(&name.as_bytes()[1..]), Known::Other, "{name}");
            assert_eq!(Known::of(format!("{name}x").as_bytes()), Known::Other, "{name}");
            assert_eq!(Known::of(name.replace('-', "_").as_bytes()) == *known, !name.contains('-'), "{name}");
        }
    }

    #[test]
    fn a_set_has_what_was_put_into_it() {
        const SOME: KnownSet = KnownSet::of(&[Known::Accept, Known::XRequestedWith]);
        let mut set = SOME;
        assert!(set.insert(Known::Other) && !set.insert(Known::Other) && !set.insert(Known::Accept));
        let expected = [Known::Other, Known::Accept, Known::XRequestedWith];
        for &known in &Known::ALL {
            assert_eq!(set.contains(known), expected.contains(&known), "{known:?}");
            assert_eq!(SOME.contains(known), expected[1..].contains(&known), "{known:?}");
        }
        assert_eq!(SOME.and(KnownSet::of(&[Known::Other])), set);
    }

    #[test]
    fn other_names_are_other() {
        for name in ["", "X", "Foo", "Hosts", "\r\n", "X-Accel\rExpires"] {
            assert_eq!(Known::of(name.as_bytes()), Known::Other, "{name:?}");
        }
        assert_eq!(Known::Other.name(), "");
    }
}
