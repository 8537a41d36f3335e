//! The form in which a cache hands a page to others.
//!
//! Integers are little-endian; a text is its length as u32, and its bytes. Times are spans: the clocks of machines differ.
//!
//! | what                                              | as                                    |
//! | ------------------------------------------------- | ------------------------------------- |
//! | `LDR`, and version 1                              | 4 bytes                               |
//! | the checksum of all that follows                  | u32, CRC-32C                          |
//! | a page, or by what the pages of a key differ      | u8, 0 or 1                            |
//! | its key                                           | text                                  |
//! | 1: the names of what they differ by               | u32; text each                        |
//! | 0: what is known of when its fetch began          | text                                  |
//! | 0: how old it is, and for how long it is fresh    | u64 each, ms                          |
//! | 0: for how long it is handed on                   | u64, ms                               |
//! | 0: its head, as on disk                           | text                                  |
//! | 0: its body                                       | the rest                              |

use std::time::Duration;

use bytes::Bytes;
use larder_http::Time;

use crate::object::Object;
use crate::shelves::head::{self, Rest};
use crate::shelves::object_of_head;
use crate::vary::VaryKey;

/// A page that is handed on.
pub struct Handing<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// What is known of when its fetch began.
    pub began: &'a str,
    /// For how long it is handed on.
    pub lasts: Duration,
}

/// What was handed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Handed {
    /// A page.
    Page(HandedPage),
    /// The pages of this key differ by these fields and cookies of requests.
    Differs {
        /// The key.
        key: Bytes,
        /// Their names, as in a [`VaryKey`].
        names: Vec<Box<str>>,
    },
}

/// A page of another cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedPage {
    /// Its key.
    pub key: Bytes,
    /// What is known of when its fetch began.
    pub began: String,
    /// How old it was when it was handed on.
    pub age: Duration,
    /// For how long it was fresh then.
    pub fresh_for: Duration,
    /// For how long it is handed on.
    pub lasts: Duration,
    head: Bytes,
    /// Its body.
    pub body: Bytes,
}

impl Handing<'_> {
    /// The form of a page with this body.
    pub fn page(&self, object: &Object, body: &[u8], now: Time) -> Vec<u8> {
        let head = head::encode(object);
        let mut out = start(PAGE, self.key, self.began.len() + head.len() + body.len() + 64);
        head::put(&mut out, self.began.as_bytes());
        for span in [now.since(object.stored_at), object.fresh_until.since(now), self.lasts] {
            out.extend_from_slice(&millis(span).to_le_bytes());
        }
        head::put(&mut out, &head);
        out.extend_from_slice(body);
        sealed(out)
    }

    /// That the pages of the key differ by the names in `vary`.
    pub fn differs(&self, vary: &VaryKey) -> Vec<u8> {
        let mut out = start(DIFFERS, self.key, 256);
        head::put_len(&mut out, vary.names().count());
        vary.names().for_each(|name| head::put(&mut out, name.as_bytes()));
        sealed(out)
    }
}

impl Handed {
    /// What these bytes are; `None` if they are damaged, cut, or of another version.
    pub fn read(bytes: &Bytes) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (crc, rest) = rest.split_first_chunk()?;
        if u32::from_le_bytes(*crc) != crc32c::crc32c(rest) {
            return None;
        }
        let mut rest = Rest(rest);
        let kind = rest.u8()?;
        let key = bytes.slice_ref(rest.text()?);
        match kind {
            PAGE => {
                let began = str::from_utf8(rest.text()?).ok()?.to_owned();
                let mut span = || Some(Duration::from_millis(rest.u64()?));
                let (age, fresh_for, lasts) = (span()?, span()?, span()?);
                let head = bytes.slice_ref(rest.text()?);
                let body = bytes.slice_ref(rest.0);
                Some(Self::Page(HandedPage { key, began, age, fresh_for, lasts, head, body }))
            }
            DIFFERS => {
                let mut names = Vec::new();
                for _ in 0..rest.u32()? {
                    names.push(str::from_utf8(rest.text()?).ok()?.into());
                }
                rest.0.is_empty().then_some(Self::Differs { key, names })
            }
            _ => None,
        }
    }
}

impl HandedPage {
    /// The object this long after it was handed on, with an empty body: [`HandedPage::body`] has the bytes. `None` if its
    /// head cannot be read, or is none that an origin could have sent.
    pub fn object(&self, spent: Duration, now: Time) -> Option<Object> {
        let mut object = object_of_head(&self.head).filter(is_of_an_answer)?;
        object.stored_at = Time(now.0.saturating_sub(millis(self.age.saturating_add(spent))));
        object.fresh_until = match self.fresh_for.checked_sub(spent) {
            Some(left) => now.plus(left),
            None => Time(now.0.saturating_sub(millis(spent.saturating_sub(self.fresh_for)))),
        };
        Some(object)
    }
}

/// Whether an origin could have sent this head: a final answer, without bytes that would end a line.
fn is_of_an_answer(object: &Object) -> bool {
    let is_text = |text: &[u8]| !text.iter().any(|byte| matches!(byte, b'\0' | b'\r' | b'\n'));
    (200..=599).contains(&object.status)
        && is_text(&object.reason)
        && object.fields.iter().all(|(name, value)| is_text(name) && is_text(value) && !name.is_empty())
}

fn start(kind: u8, key: &[u8], more: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(MAGIC.len() + 16 + key.len() + more);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.push(kind);
    head::put(&mut out, key);
    out
}

fn sealed(mut out: Vec<u8>) -> Vec<u8> {
    if let Some((before, rest)) = out.split_at_mut_checked(MAGIC.len() + 4)
        && let Some(crc) = before.last_chunk_mut::<4>()
    {
        *crc = crc32c::crc32c(rest).to_le_bytes();
    }
    out
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

const MAGIC: &[u8] = b"LDR\x01";
const PAGE: u8 = 0;
const DIFFERS: u8 = 1;

#[cfg(test)]
mod tests {
    use larder_http::Fields;
    use larder_store::Body;

    use super::*;
    use crate::vary::selecting;

    fn object() -> Object {
        let fields: Fields = [("Content-Type", "text/html"), ("Vary", "Accept")].into_iter().collect();
        let vary = VaryKey::of(&fields, &selecting(&Fields::new())).expect("no asterisk");
        let head = Object {
            status: 200,
            reason: (*b"OK").into(),
            vary,
            fields,
            body: Body::of(Bytes::new(), None),
            stored_at: Time(10_000),
            fresh_until: Time(70_000),
            stale_while_revalidate: Duration::from_secs(3),
            stale_if_error: Duration::from_secs(4),
            last_modified: None,
            etag: None,
            cost_micros: 6,
            prepared: Default::default(),
            hold: Default::default(),
        };
        assert!(head.is_fresh(Time(69_999)));
        head
    }

    fn handing(key: &[u8]) -> Handing<'_> {
        Handing { key, began: "epoch 17-0\n", lasts: Duration::from_secs(63) }
    }

    fn page(bytes: Vec<u8>) -> HandedPage {
        match Handed::read(&Bytes::from(bytes)) {
            Some(Handed::Page(page)) => page,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_page_is_as_old_at_another_clock() {
        let page = page(handing(b"key").page(&object(), b"text", Time(15_000)));
        assert_eq!((&*page.key, &*page.began, &*page.body), (&b"key"[..], "epoch 17-0\n", &b"text"[..]));
        assert_eq!(page.lasts, Duration::from_secs(63));
        let of = |spent, now| page.object(Duration::from_millis(spent), Time(now)).expect("it is whole");
        // 5 s old, and fresh for 55 s more.
        let (soon, late) = (of(2_000, 900_000), of(56_000, 900_000));
        assert_eq!((soon.stored_at, soon.fresh_until), (Time(893_000), Time(953_000)));
        assert_eq!((late.stored_at, late.fresh_until), (Time(839_000), Time(899_000)));
        assert_eq!(soon.fields.iter().collect::<Vec<_>>(), object().fields.iter().collect::<Vec<_>>());
        assert_eq!(soon.vary, object().vary);
        assert_eq!(of(u64::MAX, 5).stored_at, Time(0));
    }

    #[test]
    fn what_no_origin_could_have_sent_is_no_page() {
        let with = |name: &str, value: &str| [(name, value)].into_iter().collect::<Fields>();
        for forged in [
            Object { status: 100, ..object() },
            Object { status: 65535, ..object() },
            Object { reason: (*b"OK\r\nX: 1").into(), ..object() },
            Object { fields: with("X", "a\r\nSet-Cookie: a=1"), ..object() },
            Object { fields: with("X\nY", "a"), ..object() },
            Object { fields: with("", "a"), ..object() },
        ] {
            let page = page(handing(b"key").page(&forged, b"text", Time(15_000)));
            assert!(page.object(Duration::ZERO, Time(15_000)).is_none(), "{:?}", forged.fields);
        }
    }

    #[test]
    fn what_the_pages_of_a_key_differ_by_comes_back() {
        let bytes = Bytes::from(handing(b"key").differs(&object().vary));
        let names = vec![Box::from("accept")];
        assert_eq!(Handed::read(&bytes), Some(Handed::Differs { key: Bytes::from_static(b"key"), names }));
    }

    #[test]
    fn what_is_cut_or_damaged_is_nothing() {
        for bytes in [handing(b"k").page(&object(), b"text", Time(15_000)), handing(b"k").differs(&object().vary)] {
            for len in 0..bytes.len() {
                assert_eq!(Handed::read(&Bytes::copy_from_slice(&bytes[..len])), None, "{len}");
            }
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1;
                assert_eq!(Handed::read(&damaged.into()), None, "{at}");
            }
        }
        // Lengths that lie, under a checksum that fits.
        for cut in [vec![PAGE, 9, 0, 0, 0], vec![DIFFERS, 0, 0, 0, 0, 255, 255, 255, 255], vec![2, 0, 0, 0, 0], vec![]]
        {
            let bytes = sealed([MAGIC, &[0; 4], &cut].concat());
            assert_eq!(Handed::read(&bytes.into()), None, "{cut:?}");
        }
    }
}
