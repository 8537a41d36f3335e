//! The URL of a page: what clients ask for to get it, as far as purges and operators name pages by it.

/// The URL of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether it is asked for by https.
    pub is_https: bool,
    /// The host, without a port.
    pub host: &'a [u8],
    /// Path and query.
    pub uri: &'a [u8],
}

/// The URL of a page as it is kept: most keys have it in them, and then it takes no room of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Located {
    /// Nobody said it.
    #[default]
    Unknown,
    /// Parts of the key.
    InKey(Places),
    /// A copy.
    Apart(Box<Copied>),
    /// A copy, and the key, of a page that is on a disk alone.
    OnDisk(Box<OnDisk>),
}

/// Where in a key a URL is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Places {
    is_https: bool,
    host_len: u16,
    host_at: u32,
    uri_at: u32,
    uri_len: u32,
}

/// A URL with bytes of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copied {
    is_https: bool,
    host: Box<[u8]>,
    uri: Box<[u8]>,
}

/// What a record says of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OnDisk {
    key: Box<[u8]>,
    url: Located,
}

impl Located {
    /// A copy of a URL.
    pub(crate) fn copied(url: Url<'_>) -> Self {
        let Url { is_https, host, uri } = url;
        Self::Apart(Box::new(Copied { is_https, host: host.into(), uri: uri.into() }))
    }

    /// The same for a page under `key`, without a copy if the key has it in it.
    pub(crate) fn under(self, key: &[u8]) -> Self {
        match &self {
            Self::Apart(copied) => Places::of(copied.url(), key).map_or(self, Self::InKey),
            Self::Unknown | Self::InKey(_) | Self::OnDisk(_) => self,
        }
    }

    /// The same for a page that is on a disk alone, under `key`.
    pub(crate) fn on_disk(self, key: &[u8]) -> Self {
        Self::OnDisk(Box::new(OnDisk { key: key.into(), url: self }))
    }

    /// The key of a page that is on a disk alone.
    pub(crate) fn own_key(&self) -> Option<&[u8]> {
        match self {
            Self::Unknown | Self::InKey(_) | Self::Apart(_) => None,
            Self::OnDisk(page) => Some(&page.key),
        }
    }

    /// The URL of a page under `key`; `None` if it is unknown. A page whose entry is gone has no key.
    pub(crate) fn url<'a>(&'a self, key: Option<&'a [u8]>) -> Option<Url<'a>> {
        match self {
            Self::Unknown => None,
            Self::InKey(places) => places.url(key?),
            Self::Apart(copied) => Some(copied.url()),
            Self::OnDisk(page) => page.url.url(Some(&page.key)),
        }
    }

    /// What it takes on the heap.
    pub(crate) fn heap_bytes(&self) -> usize {
        match self {
            Self::Unknown | Self::InKey(_) => 0,
            Self::Apart(copied) => size_of::<Copied>() + ALLOCATIONS_BYTES + copied.host.len() + copied.uri.len(),
            Self::OnDisk(page) => size_of::<OnDisk>() + page.key.len() + page.url.heap_bytes(),
        }
    }
}

impl Places {
    /// Where `key` has the URL: the URI at its end, as most keys, or else behind the host.
    fn of(url: Url<'_>, key: &[u8]) -> Option<Self> {
        let find = |text: &[u8], word: &[u8]| match word.is_empty() {
            true => Some(0),
            false => text.windows(word.len()).position(|window| window == word),
        };
        let host_at = find(key, url.host)?;
        let uri_at = match key.ends_with(url.uri) {
            true => key.len() - url.uri.len(),
            false => host_at + url.host.len() + find(key.get(host_at + url.host.len()..)?, url.uri)?,
        };
        Some(Self {
            is_https: url.is_https,
            host_len: u16::try_from(url.host.len()).ok()?,
            host_at: u32::try_from(host_at).ok()?,
            uri_at: u32::try_from(uri_at).ok()?,
            uri_len: u32::try_from(url.uri.len()).ok()?,
        })
    }

    fn url(self, key: &[u8]) -> Option<Url<'_>> {
        let part = |at: u32, len: usize| key.get(at as usize..)?.get(..len);
        Some(Url {
            is_https: self.is_https,
            host: part(self.host_at, self.host_len.into())?,
            uri: part(self.uri_at, self.uri_len as usize)?,
        })
    }
}

impl Copied {
    fn url(&self) -> Url<'_> {
        Url { is_https: self.is_https, host: &self.host, uri: &self.uri }
    }
}

/// What the allocator adds to three allocations.
const ALLOCATIONS_BYTES: usize = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_the_same_whether_the_key_has_it_or_not() {
        for (key, host, uri, is_in_key) in [
            ("httpsGETa.example/b?c", "a.example", "/b?c", true),
            ("a.example/b|mobile", "a.example", "/b", true),
            ("/b.example/a.example/b", "a.example", "/b", true),
            ("https://www.a.example/b", "a.example", "/b", true),
            ("/b", "a.example", "/b", false),
            ("a.example/c", "a.example", "/b", false),
            ("/b a.example", "a.example", "/b", false),
            ("0123456789abcdef", "a.example", "/b", false),
            ("/b", "", "/b", true),
            ("", "a.example", "", false),
        ] {
            for is_https in [true, false] {
                let url = Url { is_https, host: host.as_bytes(), uri: uri.as_bytes() };
                let located = Located::copied(url);
                assert_eq!(located.url(None), Some(url));
                let located = located.under(key.as_bytes());
                assert_eq!(matches!(located, Located::InKey(_)), is_in_key, "{key}");
                assert_eq!(located.url(Some(key.as_bytes())), Some(url), "{key}");
                assert_eq!(located.heap_bytes() == 0, is_in_key, "{key}");
                assert_eq!(located.url(None).is_none(), is_in_key, "{key}");
            }
        }
        assert_eq!(Located::Unknown.url(Some(b"a.example/b")), None);
    }

    #[test]
    fn what_is_too_long_for_its_place_is_copied() {
        let host = vec![b'a'; 70_000];
        let key = [&host[..], b"/"].concat();
        let url = Url { is_https: true, host: &host, uri: b"/" };
        assert_eq!(Located::copied(url).under(&key).url(Some(&key)), Some(url));
    }
}
