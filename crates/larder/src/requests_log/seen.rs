//! A request of a client, put together of its transactions: its own, those of its restarts, and its fetches.

use larder_vsl::{Group, Kind, Member, Record, Tag};

use crate::vsl::handling::Handling;
use crate::vsl::text::{behind, trimmed, word};

/// What is known of a request. What no record says is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen<'a> {
    /// When it began, seconds since 1970.
    pub began: Option<f64>,
    /// How long it took, seconds.
    pub seconds: Option<f64>,
    /// The address of the client.
    pub client: &'a [u8],
    /// The method as the client has sent it.
    pub method: &'a [u8],
    /// The host as the client has sent it.
    pub host: &'a [u8],
    /// Path and query as the client has sent them.
    pub url: &'a [u8],
    /// The status that the client got.
    pub status: Option<u16>,
    /// How many bytes the client got.
    pub bytes: Option<u64>,
    /// What the cache said, in its words: `MISS`.
    pub cache: &'a [u8],
    /// Why, if it was no hit.
    pub reason: &'a [u8],
    /// What a VCL made of it.
    pub handling: Handling,
    /// The origin that was asked last, and how long it took until its answer began, seconds.
    pub origin: Option<(&'a [u8], Option<f64>)>,
    /// What went wrong, in the words of the error log.
    pub errors: Vec<&'a [u8]>,
    /// What the error log is told beside. Of a request that failed without an error it is why.
    pub notices: Vec<&'a [u8]>,
}

/// Looks through a group; `None` if no request of a client led to it.
pub fn see(group: &Group) -> Option<Seen<'_>> {
    let first = group.members.first().filter(|first| first.kind == Some(Kind::Request))?;
    let mut seen = Seen::default();
    for member in group.members.iter().filter(|member| !member.is_inner) {
        match member.kind {
            // A restart has the level of its request.
            Some(Kind::Request) if member.level == first.level => seen.take_request(member),
            Some(Kind::BeReq) => seen.take_fetch(member),
            _ => {}
        }
    }
    if seen.errors.is_empty() && seen.status.is_some_and(|status| status >= 400) {
        std::mem::swap(&mut seen.errors, &mut seen.notices);
    }
    seen.began.is_some().then_some(seen)
}

impl<'a> Seen<'a> {
    fn take_request(&mut self, member: &'a Member) {
        let is_restart = self.began.is_some();
        let mut is_sent = false;
        for (record, _) in member.records() {
            let text = trimmed(record.text);
            match record.tag {
                Tag::Timestamp => self.take_time(text, is_restart),
                // What a VCL has changed stands behind `vcl_recv`.
                Tag::VclCall => is_sent = true,
                Tag::ReqStart if !is_restart => self.client = word(text, 1).unwrap_or_default(),
                Tag::ReqMethod if !is_restart && !is_sent => self.method = text,
                Tag::ReqUrl if !is_restart && !is_sent => self.url = text,
                Tag::ReqHeader if !is_restart && !is_sent => {
                    self.host = behind(text, b"Host:").unwrap_or(self.host);
                }
                Tag::RespStatus => self.status = number(Some(text)),
                Tag::ReqAcct => self.bytes = number(word(text, 6)),
                Tag::PipeAcct => self.bytes = number(word(text, 4)),
                Tag::Cache => (self.cache, self.reason) = cache(text),
                Tag::HttpGarbage if !is_restart => {
                    (self.method, self.url) = (word(text, 1).unwrap_or_default(), word(text, 2).unwrap_or_default());
                }
                Tag::Error | Tag::FetchError | Tag::VclError => self.errors.push(text),
                Tag::Notice => self.notices.push(text),
                _ => {}
            }
            self.handling.take(Record { text, ..record });
        }
    }

    fn take_time(&mut self, text: &'a [u8], is_restart: bool) {
        if let Some(rest) = behind(text, b"Start:").filter(|_| !is_restart) {
            self.began = number(word(rest, 1)).filter(|at: &f64| at.is_finite());
        } else if let Some(rest) = behind(text, b"Resp:").or_else(|| behind(text, b"PipeSess:"))
            && let Some((at, began)) = number::<f64>(word(rest, 1)).zip(self.began)
        {
            self.seconds = Some((at - began).max(0.0)).filter(|took| took.is_finite());
        }
    }

    fn take_fetch(&mut self, member: &'a Member) {
        let (mut place, mut seconds) = (None, None);
        for (record, _) in member.records() {
            let text = trimmed(record.text);
            match record.tag {
                Tag::BackendOpen => place = word(text, 2),
                Tag::FetchError => self.errors.push(text),
                Tag::Timestamp => {
                    if let Some(rest) = behind(text, b"Beresp:") {
                        seconds = number(word(rest, 2)).filter(|took: &f64| took.is_finite());
                    }
                }
                _ => {}
            }
        }
        if let Some(place) = place {
            self.origin = Some((place, seconds));
        }
    }

    /// What the cache made of it: its own word, or that of the VCL; empty if it was not asked.
    pub fn verdict(&self) -> Vec<u8> {
        match (self.cache, self.handling.name) {
            (b"", "-") => Vec::new(),
            (b"", of_vcl) => of_vcl.to_ascii_uppercase().into_bytes(),
            (own, _) => own.to_vec(),
        }
    }
}

/// What the cache said, and why, of a record `HIT KEY` or `MISS KEY - REASON`. A key has no blank: only what is behind the third word is
/// the server's own.
fn cache(text: &[u8]) -> (&[u8], &[u8]) {
    let mut words = text.splitn(4, |byte| *byte == b' ');
    let said = words.next().unwrap_or_default();
    let reason = words.nth(1).filter(|dash| *dash == b"-").and_then(|_| words.next());
    (said, reason.unwrap_or_default())
}

fn number<T: std::str::FromStr>(text: Option<&[u8]>) -> Option<T> {
    str::from_utf8(text?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::cache;

    #[test]
    fn a_key_is_no_reason() {
        for (text, said, reason) in [
            ("HIT a.test/x", "HIT", ""),
            ("MISS a.test/x - not stored yet", "MISS", "not stored yet"),
            ("PASS - - POST is not cached - here", "PASS", "POST is not cached - here"),
            ("HIT a.test/x\\x20-\\x20purged\\x20by\\x20root", "HIT", ""),
            ("HIT a.test/x by - purged", "HIT", ""),
            ("", "", ""),
        ] {
            assert_eq!(cache(text.as_bytes()), (said.as_bytes(), reason.as_bytes()), "{text}");
        }
    }
}
