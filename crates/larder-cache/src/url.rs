//! The URL of a page: what clients ask for to get it, as far as purges and operators name pages by it.

use larder_http::{Escape, escape_uri, normalise};

/// The URL of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Url<'a> {
    /// Whether it is asked for by https.
    pub is_https: bool,
    /// The host, without a port; empty for a page of every host.
    pub host: &'a [u8],
    /// Path and query.
    pub uri: &'a [u8],
}

/// Where a page is, for tests by its URL. The first visitor has chosen how that is written, so tests see the other ways, too.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    url: Url<'a>,
    /// Whether the key leaves the query out, so that the page is that of every query.
    is_of_any_query: bool,
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

    /// The same for tests.
    pub(crate) fn place<'a>(&'a self, key: Option<&'a [u8]>) -> Option<Place<'a>> {
        let url = self.url(key)?;
        let is_in = |key: &[u8]| position(key, url.uri).is_some();
        let is_of_any_query = path_of(url.uri).len() < url.uri.len() && !self.own_key().or(key).is_none_or(is_in);
        Some(Place { url, is_of_any_query })
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
        let host_at = position(key, url.host)?;
        let uri_at = match key.ends_with(url.uri) {
            true => key.len() - url.uri.len(),
            false => host_at + url.host.len() + position(key.get(host_at + url.host.len()..)?, url.uri)?,
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

impl Place<'_> {
    /// Whether it is on this host, in whatever case, or on every one.
    pub fn is_on(&self, host: &[u8]) -> bool {
        self.host().is_none_or(|own| own.eq_ignore_ascii_case(host))
    }

    /// The host; `None` for a page of every host.
    pub fn host(&self) -> Option<&[u8]> {
        Some(self.url.host).filter(|host| !host.is_empty())
    }

    /// Whether a test holds for its path and query in one of the ways in which visitors may write them to get it: as they
    /// were sent, with the escapes of browsers or of WordPress (`%C3`, `%c3`), and without the query if the key leaves that
    /// out.
    pub fn any_uri(&self, mut test: impl FnMut(&[u8]) -> bool) -> bool {
        let (uri, path) = (self.url.uri, path_of(self.url.uri));
        if test(uri) || self.is_of_any_query && test(path) {
            return true;
        }
        if is_plain(path) {
            return false;
        }
        let mut decoded = Vec::new();
        // What a policy has made need not be a path; then there is no other way to write it.
        let Ok(parts) = normalise(uri, true, &mut decoded) else { return false };
        let mut written = Vec::with_capacity(uri.len());
        escape_uri(&decoded, Escape::Uri, &mut written);
        let path_len = written.len();
        if let Some(args) = parts.args.and_then(|args| uri.get(args)) {
            written.push(b'?');
            written.extend_from_slice(args);
        }
        let mut holds = |written: &[u8]| test(written) || self.is_of_any_query && test(&written[..path_len]);
        holds(&written) || {
            lower_escapes(&mut written[..path_len]);
            holds(&written)
        }
    }

    /// Whether it is at `uri`, written in one of these ways.
    pub fn is_at(&self, uri: &[u8]) -> bool {
        let asked = if self.is_of_any_query { path_of(uri) } else { uri };
        self.any_uri(|own| own == asked)
    }
}

/// The path of a URI, as it is written.
fn path_of(uri: &[u8]) -> &[u8] {
    let end = uri.iter().position(|byte| matches!(byte, b'?' | b'#'));
    &uri[..end.unwrap_or(uri.len())]
}

/// Whether a path is written in the only way. May be false although it is.
fn is_plain(path: &[u8]) -> bool {
    let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~!$&'()*+,;=:@".contains(byte);
    path.iter().all(is_usual) && !path.windows(2).any(|pair| matches!(pair, b"//" | b"/."))
}

fn lower_escapes(path: &mut [u8]) {
    let mut rest = path;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        let digits = &mut rest[at + 1..];
        let len = digits.len().min(2);
        digits[..len].make_ascii_lowercase();
        rest = &mut digits[len..];
    }
}

/// Where `text` has `word`.
fn position(text: &[u8], word: &[u8]) -> Option<usize> {
    match word.is_empty() {
        true => Some(0),
        false => text.windows(word.len()).position(|window| window == word),
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

    /// What `$uri` in a key makes one page of.
    #[test]
    fn a_page_is_at_its_url_however_the_first_visitor_has_written_that() {
        for (key, asked, at, not_at) in [
            ("a.example/page", "/page", &["/page"][..], &["/pag", "/page?x", "/Page"][..]),
            ("a.example/page", "/%70age", &["/page", "/%70age"], &["/%50age"]),
            ("a.example/page", "//page", &["/page", "//page"], &[]),
            ("a.example/page", "/x/.././page", &["/page"], &["/x"]),
            ("a.example/page", "/page?x", &["/page", "/page?x", "/page?y"], &["/pag?x"]),
            ("a.example/page", "/page?page", &["/page"], &[]),
            ("a.example/page", "/p%61ge?x#y", &["/page", "/page?z"], &[]),
            ("a.example/page?x", "/p%61ge?x", &["/page?x", "/page"], &["/pag?x"]),
            ("a.example/page?x", "/page?x", &["/page?x"], &["/page", "/page?y"]),
            ("/page?x a.example", "/page?x", &["/page?x"], &["/page", "/page?y"]),
            ("a.example/caf\u{e9} 1", "/caf%C3%A9%201", &["/caf%C3%A9%201", "/caf%c3%a9%201"], &["/caf"]),
            ("a.example/caf\u{e9} 1", "/caf%c3%A9%201", &["/caf%C3%A9%201", "/caf%c3%a9%201"], &[]),
            ("http://a.example/", "//", &["/"], &[]),
            ("a.example/%", "/%25", &["/%25"], &["/"]),
            ("a.example*", "*", &["*"], &["/"]),
        ] {
            let url = Url { is_https: true, host: b"a.example", uri: asked.as_bytes() };
            let located = Located::copied(url);
            for located in [located.clone().under(key.as_bytes()), located.on_disk(key.as_bytes())] {
                let place = located.place(Some(key.as_bytes())).expect("it has a URL");
                for uri in at {
                    assert!(place.is_at(uri.as_bytes()), "{asked} under {key} is at {uri}");
                }
                for uri in not_at {
                    assert!(!place.is_at(uri.as_bytes()), "{asked} under {key} is not at {uri}");
                }
            }
        }
    }

    #[test]
    fn a_page_without_a_host_is_on_every_one() {
        for (host, asked, expected) in
            [("a.example", "A.Example", true), ("a.example", "b.example", false), ("", "a.example", true)]
        {
            let located = Located::copied(Url { is_https: false, host: host.as_bytes(), uri: b"/" });
            let place = located.place(None).expect("it has a URL");
            assert_eq!(place.is_on(asked.as_bytes()), expected, "{host} {asked}");
        }
    }

    #[test]
    fn what_is_too_long_for_its_place_is_copied() {
        let host = vec![b'a'; 70_000];
        let key = [&host[..], b"/"].concat();
        let url = Url { is_https: true, host: &host, uri: b"/" };
        assert_eq!(Located::copied(url).under(&key).url(Some(&key)), Some(url));
    }
}
