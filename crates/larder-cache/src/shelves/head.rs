//! How the head of an object is written to disk.
//!
//! Integers are little-endian; a text is its length and its bytes.
//!
//! | what                                   | as                                          |
//! | -------------------------------------- | ------------------------------------------- |
//! | version, 1; 2 with ESI, 3 with a URL   | u8                                          |
//! | status                                 | u16                                         |
//! | stored at, fresh until                 | u64 each, ms since 1970                     |
//! | stale while revalidate, stale if error | u64 each, ms                                |
//! | cost of the fetch                      | u32, µs                                     |
//! | last modified                          | u64, s since 1970; all ones for none        |
//! | reason                                 | u32, bytes                                  |
//! | entity tag                             | u8, 0 for none; u32, bytes                  |
//! | what it varies by                      | u32; name, value, and 0 or 1 and as sent    |
//! | fields                                 | u32; name and value each                    |
//! | 2: what includes are relative to       | u32, bytes                                  |
//! | 3: what includes are relative to       | u8, 0 for a page without ESI; u32, bytes    |
//! | 3: is it https, host, URI              | u8, 0 or 1; u32, bytes; u32, bytes          |
//!
//! A page has the tags that its fields say.

use std::time::Duration;

use larder_http::{Fields, Time};
use larder_store::Body;

use crate::object::{Hold, Object};
use crate::url::Url;
use crate::vary::VaryKey;

/// The bytes of an object's head: everything but its body.
pub(crate) fn encode(object: &Object) -> Vec<u8> {
    object.with_url(|url| encode_with(object, url))
}

fn encode_with(object: &Object, url: Option<Url<'_>>) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + object.fields.heap_bytes());
    out.push(match (url, object.esi_base()) {
        (Some(_), _) => VERSION_URL,
        (None, Some(_)) => VERSION_ESI,
        (None, None) => VERSION,
    });
    out.extend_from_slice(&object.status.to_le_bytes());
    for time in [object.stored_at, object.fresh_until] {
        out.extend_from_slice(&time.0.to_le_bytes());
    }
    for duration in [object.stale_while_revalidate, object.stale_if_error] {
        let millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        out.extend_from_slice(&millis.to_le_bytes());
    }
    out.extend_from_slice(&object.cost_micros.to_le_bytes());
    out.extend_from_slice(&object.last_modified.unwrap_or(u64::MAX).to_le_bytes());
    put(&mut out, &object.reason);
    put_option(&mut out, object.etag.as_deref());
    put_len(&mut out, object.vary.parts().count());
    for (name, value, sent) in object.vary.parts() {
        put(&mut out, name.as_bytes());
        put(&mut out, value);
        put_option(&mut out, sent);
    }
    put_len(&mut out, object.fields.len());
    for (name, value) in object.fields.iter() {
        put(&mut out, name);
        put(&mut out, value);
    }
    match (url, object.esi_base()) {
        (Some(url), base) => {
            put_option(&mut out, base);
            out.push(u8::from(url.is_https));
            put(&mut out, url.host);
            put(&mut out, url.uri);
        }
        (None, Some(base)) => put(&mut out, base),
        (None, None) => {}
    }
    out
}

/// The object with this head and `body`. `None` if the bytes are of another version, or incomplete.
pub(crate) fn decode(bytes: &[u8], body: Body) -> Option<Object> {
    let mut rest = Rest(bytes);
    let version = rest.u8()?;
    let status = rest.u16()?;
    let (stored_at, fresh_until) = (Time(rest.u64()?), Time(rest.u64()?));
    let (revalidate, error) = (rest.u64()?, rest.u64()?);
    let cost_micros = rest.u32()?;
    let last_modified = Some(rest.u64()?).filter(|&secs| secs != u64::MAX);
    let reason = rest.text()?.into();
    let etag = rest.option()?.map(Box::from);
    let mut parts = Vec::new();
    for _ in 0..rest.u32()? {
        let name = std::str::from_utf8(rest.text()?).ok()?;
        parts.push((name.into(), rest.text()?.into(), rest.option()?.map(Box::from)));
    }
    let mut fields = Fields::new();
    for _ in 0..rest.u32()? {
        let (name, value) = (rest.text()?, rest.text()?);
        fields.push(name, value);
    }
    let (esi_base, url) = match version {
        VERSION => (None, None),
        VERSION_ESI => (Some(rest.text()?), None),
        VERSION_URL => (rest.option()?, Some(rest.url()?)),
        _ => return None,
    };
    let hold = Hold::of_read(esi_base.map(Box::from));
    let hold = match url {
        Some(url) => hold.at(url),
        None => hold,
    };
    rest.0.is_empty().then(|| Object {
        status,
        reason,
        fields,
        body,
        stored_at,
        fresh_until,
        stale_while_revalidate: Duration::from_millis(revalidate),
        stale_if_error: Duration::from_millis(error),
        last_modified,
        etag,
        vary: VaryKey::from_parts(parts),
        cost_micros,
        prepared: Default::default(),
        hold,
    })
}

pub(crate) fn put_len(out: &mut Vec<u8>, len: usize) {
    // Heads are kilobytes long, because responses have a limit for them; so the length fits.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

pub(crate) fn put(out: &mut Vec<u8>, text: &[u8]) {
    put_len(out, text.len());
    out.extend_from_slice(text);
}

fn put_option(out: &mut Vec<u8>, text: Option<&[u8]>) {
    out.push(u8::from(text.is_some()));
    if let Some(text) = text {
        put(out, text);
    }
}

/// The bytes that are not yet read.
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn url(&mut self) -> Option<Url<'a>> {
        let is_https = match self.u8()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Url { is_https, host: self.text()?, uri: self.text()? })
    }

    fn option(&mut self) -> Option<Option<&'a [u8]>> {
        match self.u8()? {
            0 => Some(None),
            1 => self.text().map(Some),
            _ => None,
        }
    }
}

const VERSION: u8 = 1;
const VERSION_ESI: u8 = 2;
const VERSION_URL: u8 = 3;

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::selecting;

    fn object() -> Object {
        let mut fields = Fields::new();
        fields.push(b"Content-Type", b"text/html");
        fields.push(b"Vary", b"Accept, Cookie");
        let mut asked = Fields::new();
        asked.push(b"Accept", b"a,  b");
        Object {
            status: 404,
            reason: (*b"Not Here").into(),
            vary: VaryKey::of(&fields, &selecting(&asked)).expect("no asterisk"),
            fields,
            body: Body::of(Bytes::from_static(b"text"), None),
            stored_at: Time(1_000_001),
            fresh_until: Time(2_000_002),
            stale_while_revalidate: Duration::from_secs(3),
            stale_if_error: Duration::MAX,
            last_modified: Some(4),
            etag: Some((*b"\"five\"").into()),
            cost_micros: 6,
            prepared: Default::default(),
            hold: Default::default(),
        }
    }

    #[test]
    fn a_head_comes_back_as_it_was() {
        let object = object();
        let bytes = encode(&object);
        let back = decode(&bytes, object.body.clone()).expect("it is whole");
        assert_eq!((back.status, &back.reason), (404, &object.reason));
        assert_eq!((back.stored_at, back.fresh_until), (object.stored_at, object.fresh_until));
        assert_eq!(
            (back.stale_while_revalidate, back.stale_if_error.as_millis()),
            (Duration::from_secs(3), u64::MAX.into())
        );
        assert_eq!((back.last_modified, &back.etag, back.cost_micros), (Some(4), &object.etag, 6));
        assert_eq!(back.vary, object.vary);
        assert_eq!(back.fields.iter().collect::<Vec<_>>(), object.fields.iter().collect::<Vec<_>>());
        assert_eq!(encode(&back), bytes);
    }

    #[test]
    fn a_page_with_esi_comes_back_as_one() {
        let plain = object();
        let bytes = encode(&plain);
        let object = Object { hold: Hold::of_page(Some((*b"/a/b?c").into())), ..object() };
        let back = |object: &Object| decode(&encode(object), object.body.clone()).expect("it is whole");
        assert_eq!(back(&object).esi_base(), Some(&b"/a/b?c"[..]));
        assert_eq!(back(&plain).esi_base(), None);
        assert_eq!(encode(&object)[1..bytes.len()], bytes[1..], "the rest is the same");
        // Without ESI the layout is the one that it has always been.
        assert_eq!(bytes[0], 1);
    }

    #[test]
    fn a_page_with_a_url_comes_back_with_it_with_and_without_esi() {
        let url = Url { is_https: true, host: b"a.example", uri: b"/a/b?c" };
        for esi_base in [None, Some(&b"/a/"[..])] {
            let object = Object { hold: Hold::of_page(esi_base.map(Box::from)).at(url), ..object() };
            let bytes = encode(&object);
            let back = decode(&bytes, object.body.clone()).expect("it is whole");
            assert_eq!(bytes[0], 3);
            assert_eq!(back.esi_base(), esi_base);
            back.with_url(|back| assert_eq!(back, Some(url)));
            assert_eq!(encode(&back), bytes);
        }
        object().with_url(|none| assert_eq!(none, None));
    }

    #[test]
    fn what_is_cut_or_damaged_is_no_head_and_never_panics() {
        let url = Url { is_https: false, host: b"a.example", uri: b"/" };
        for hold in [Hold::of_page(Some((*b"/a").into())), Hold::default().at(url)] {
            damage(Object { hold, ..object() });
        }
    }

    fn damage(object: Object) {
        let bytes = encode(&object);
        for len in 0..bytes.len() {
            assert!(decode(&bytes[..len], object.body.clone()).is_none(), "{len}");
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x80;
            let _ = decode(&damaged, object.body.clone());
        }
        assert!(decode(&[&bytes[..], b"x"].concat(), object.body.clone()).is_none(), "something follows");
    }
}
