//! What is purged over the HTTP APIs of other caches, where operators come in: their words, and their answers.
//!
//! | API | requests |
//! | --- | --- |
//! | our own | `POST /purge` |
//! | Cloudflare | `POST /client/v4/zones/ID/purge_cache` |
//! | Fastly | `POST /service/ID/purge/KEY`, `/service/ID/purge`, `/service/ID/purge_all`, `/purge/HOST/PATH` |
//! | Souin | `POST /souin-api/souin` |

mod cloudflare;
mod fastly;
mod own;
mod souin;

use larder_http::Fields;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::deeds::Done;
use super::wanted::Wanted;
use super::{Order, dialects};

/// Whose words a request has, by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Api {
    /// Our own.
    Own,
    /// Cloudflare's, for a zone of theirs with this name.
    Cloudflare(Box<[u8]>),
    /// Fastly's: one tag, as it stands in the path.
    FastlyKey(Box<[u8]>),
    /// Fastly's: the tags in a field or in the body.
    FastlyKeys,
    /// Fastly's: everything.
    FastlyAll,
    /// Fastly's: one URL, as it stands in the path.
    FastlyUrl(Box<[u8]>),
    /// Souin's.
    Souin,
}

/// What is looked at of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// Its fields.
    pub fields: &'a Fields,
    /// The names of the fields that have the tags of pages.
    pub tag_fields: &'a [Box<str>],
    /// Its body, whole.
    pub body: &'a [u8],
}

/// What a request wants purged.
#[derive(Debug, PartialEq, Eq)]
pub enum Said {
    /// As an operator says it.
    Wanted(Wanted),
    /// As a plugin says it.
    Orders(Vec<Order>),
}

impl Api {
    /// The API of a path; its query counts in a URL of Fastly's alone.
    pub fn find(target: &[u8]) -> Option<Self> {
        let path = target.split(|byte| *byte == b'?').next()?.strip_prefix(b"/")?;
        if let Some(url) = target.strip_prefix(b"/purge/").filter(|url| !url.is_empty()) {
            return Some(Self::FastlyUrl(url.into()));
        }
        let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').take(PARTS_MAX).collect();
        Some(match parts[..] {
            [b"purge"] => Self::Own,
            [b"client", b"v4", b"zones", zone, b"purge_cache"] if !zone.is_empty() => Self::Cloudflare(zone.into()),
            [b"service", id, b"purge", key] if !id.is_empty() && !key.is_empty() => Self::FastlyKey(key.into()),
            [b"service", id, b"purge"] if !id.is_empty() => Self::FastlyKeys,
            [b"service", id, b"purge_all"] if !id.is_empty() => Self::FastlyAll,
            [b"souin-api", b"souin"] => Self::Souin,
            _ => return None,
        })
    }

    /// The methods that purge by it. Clients of Cloudflare have sent DELETE as well.
    pub fn methods(&self) -> &'static [&'static str] {
        match self {
            Self::Cloudflare(_) => &["POST", "DELETE"],
            Self::Own | Self::FastlyKey(_) | Self::FastlyKeys | Self::FastlyAll | Self::FastlyUrl(_) | Self::Souin => {
                &["POST"]
            }
        }
    }

    /// What a request wants purged. An error says why it cannot be understood.
    pub fn said(&self, asked: Asked<'_>) -> Result<Said, String> {
        let how = dialects::how(asked.fields);
        match self {
            Self::Own => return own::said(asked),
            Self::Cloudflare(_) => cloudflare::wanted(asked.body, how),
            Self::FastlyKey(key) => fastly::key(key, how),
            Self::FastlyKeys => fastly::keys(asked, how),
            Self::FastlyAll => fastly::all(),
            Self::FastlyUrl(url) => fastly::url(url, how),
            Self::Souin => souin::wanted(asked.body),
        }
        .map(Said::Wanted)
    }

    /// How the client is told of it; `id` is a name that no other purge has.
    pub fn form(&self, said: Option<&Said>, id: String) -> Form {
        match self {
            Self::Own => Form::Own,
            Self::Cloudflare(zone) => Form::Cloudflare { zone: String::from_utf8_lossy(zone).into_owned() },
            Self::FastlyKeys => {
                let keys = match said {
                    Some(Said::Wanted(wanted)) => wanted.tags().map(str::to_owned).collect(),
                    Some(Said::Orders(_)) | None => Vec::new(),
                };
                Form::FastlyKeys { keys, id }
            }
            Self::FastlyAll => Form::Fastly { id: None },
            Self::FastlyKey(_) | Self::FastlyUrl(_) => Form::Fastly { id: Some(id) },
            Self::Souin => Form::Souin,
        }
    }
}

/// More than any API has.
const PARTS_MAX: usize = 6;

/// How a client is told what came of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// In plain text, as plugins are.
    Text,
    /// In JSON, as `larder purge` tells it.
    Own,
    /// In Cloudflare's envelope.
    Cloudflare {
        /// The zone that was named.
        zone: String,
    },
    /// In Fastly's JSON.
    Fastly {
        /// The name of the purge; all have one but a purge of everything.
        id: Option<String>,
    },
    /// In Fastly's JSON for several tags, each with the name of its purge.
    FastlyKeys {
        /// The tags.
        keys: Vec<String>,
        /// The name of all together.
        id: String,
    },
    /// By the status alone, unless there is an error.
    Souin,
}

impl Form {
    /// The type of the answer.
    pub fn content_type(&self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Own | Self::Cloudflare { .. } | Self::Fastly { .. } | Self::FastlyKeys { .. } | Self::Souin => JSON,
        }
    }

    /// The answer to a purge that holds.
    pub fn done(&self, done: &Done) -> String {
        match self {
            Self::Text => done.text(),
            Self::Own => done.json(),
            Self::Cloudflare { zone } => cloudflare::done(zone),
            Self::Fastly { id } => fastly::done(id.as_deref()),
            Self::FastlyKeys { keys, id } => fastly::keys_done(keys, id),
            Self::Souin => String::new(),
        }
    }

    /// The answer to a request that is refused with this status.
    pub fn refused(&self, status: u16, why: &str) -> String {
        match self {
            Self::Text => format!("{why}\n"),
            Self::Own | Self::Souin => format!("{}\n", json!({ "error": why })),
            Self::Cloudflare { .. } => cloudflare::refused(status, why),
            Self::Fastly { .. } | Self::FastlyKeys { .. } => fastly::refused(status, why),
        }
    }
}

const JSON: &str = "application/json";

/// Reads a body. An error says what is wrong with it, and where.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    // A list would be taken as the members in their order.
    match body.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => serde_json::from_slice(body).map_err(|error| format!("the body cannot be understood: {error}")),
        _ => Err("the body is no object of JSON".to_owned()),
    }
}

/// Whether a body says nothing.
fn is_blank(body: &[u8]) -> bool {
    body.trim_ascii().is_empty()
}

/// A part of a path without its escapes.
fn unescaped(text: &[u8]) -> Result<String, String> {
    let mut bytes = Vec::with_capacity(text.len());
    larder_http::unescape(text, &mut bytes);
    String::from_utf8(bytes).map_err(|_| "the path is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_says_whose_words_a_request_has() {
        for (target, expected) in [
            ("/purge", Some(Api::Own)),
            ("/purge?x=1", Some(Api::Own)),
            ("/client/v4/zones/023e105f/purge_cache", Some(Api::Cloudflare((*b"023e105f").into()))),
            ("/client/v4/zones//purge_cache", None),
            ("/client/v4/zones/023e105f/dns_records", None),
            ("/service/7i6H/purge/a%2Fb", Some(Api::FastlyKey((*b"a%2Fb").into()))),
            ("/service/7i6H/purge/a/b", None),
            ("/service/7i6H/purge", Some(Api::FastlyKeys)),
            ("/service/7i6H/purge_all", Some(Api::FastlyAll)),
            ("/service//purge_all", None),
            ("/purge/a.example/b?c=d", Some(Api::FastlyUrl((*b"a.example/b?c=d").into()))),
            ("/purge/", None),
            ("/souin-api/souin", Some(Api::Souin)),
            ("/souin-api/souin/flush", None),
            ("/client/v4/zones/1/purge_cache/2/3/4/5", None),
            ("/", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(Api::find(target.as_bytes()), expected, "{target}");
        }
    }

    #[test]
    fn a_body_is_an_object_of_json() {
        let deep = format!("{{\"urls\":{}", "[".repeat(100_000));
        for body in ["", " ", "[]", "[[\"/a\"]]", "\"all\"", "{", "{}}", "{\"all\":true}x", "\u{feff}{}", &deep] {
            let asked = Asked { fields: &Fields::new(), tag_fields: &[], body: body.as_bytes() };
            for api in [Api::Own, Api::Cloudflare((*b"1").into()), Api::FastlyKeys, Api::Souin] {
                assert!(api.said(asked).is_err(), "{api:?} {body:.20}");
            }
        }
    }
}
