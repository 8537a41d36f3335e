//! How the head of an object is written to disk.
//!
//! Integers are little-endian; a text is its length and its bytes.
//!
//! | what                                   | as                                          |
//! | -------------------------------------- | ------------------------------------------- |
//! | version, 1; 2 for a page with ESI      | u8                                          |
//! | status                                 | u16                                         |
//! | stored at, fresh until                 | u64 each, ms since 1970                     |
//! | stale while revalidate, stale if error | u64 each, ms                                |
//! | cost of the fetch                      | u32, µs                                     |
//! | last modified                          | u64, s since 1970; all ones for none        |
//! | reason                                 | u32, bytes                                  |
//! | entity tag                             | u8, 0 for none; u32, bytes                  |
//! | what it varies by                      | u32; name, value, and 0 or 1 and as sent    |
//! | fields                                 | u32; name and value each                    |
//! | with ESI: what includes are relative to | u32, bytes                                 |

use std::time::Duration;

use larder_http::{Fields, Time};
use larder_store::Body;

use crate::object::{Hold, Object};
use crate::vary::VaryKey;

/// The bytes of an object's head: everything but its body.
pub(crate) fn encode(object: &Object) -> Vec<u8> {
    let mut out = Vec::with_capacity(256 + object.fields.heap_bytes());
    out.push(if object.esi_base().is_some() { VERSION_ESI } else { VERSION });
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
    if let Some(base) = object.esi_base() {
        put(&mut out, base);
    }
    out
}

/// The object with this head and `body`. `None` if the bytes are of another version, or incomplete.
pub(crate) fn decode(bytes: &[u8], body: Body) -> Option<Object> {
    let mut rest = Rest(bytes);
    let has_esi = match rest.u8()? {
        VERSION => false,
        VERSION_ESI => true,
        _ => return None,
    };
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
    let esi_base = if has_esi { Some(rest.text()?.into()) } else { None };
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
        hold: Hold::of_read(esi_base),
    })
}

fn put_len(out: &mut Vec<u8>, len: usize) {
    // Heads are kilobytes long, because responses have a limit for them; so the length fits.
    out.extend_from_slice(&u32::try_from(len).unwrap_or(u32::MAX).to_le_bytes());
}

fn put(out: &mut Vec<u8>, text: &[u8]) {
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
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
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
    fn what_is_cut_or_damaged_is_no_head_and_never_panics() {
        let object = Object { hold: Hold::of_page(Some((*b"/a").into())), ..object() };
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
