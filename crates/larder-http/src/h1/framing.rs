//! What a request head says about its host, its body and its connection.

use crate::field::Fields;
use crate::field::known::Known;
use crate::field::list::has_token;
use crate::host::{is_valid_host, normalise_host};

use super::Version;
use super::error::{HeadError, excerpt};
use super::request::RequestHead;

/// How the body of a request ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is none.
    None,
    /// After this many bytes, which may be 0.
    Length(u64),
    /// As a [`ChunkedDecoder`](super::chunked::ChunkedDecoder) says.
    Chunked,
}

/// Decides how the body ends. Refuses every head about which two servers might disagree (RFC 9112 §6.3): with both
/// `Content-Length` and `Transfer-Encoding`, one of them twice, a length that is not just digits, `chunked` in
/// HTTP/1.0, or codings other than `chunked`.
pub fn body_framing(head: &RequestHead) -> Result<Framing, HeadError> {
    let length = at_most_one(&head.fields, Known::ContentLength)?;
    let coding = at_most_one(&head.fields, Known::TransferEncoding)?;
    match (length, coding) {
        (None, None) => Ok(Framing::None),
        (Some(length), None) => crate::decimal(length).map(Framing::Length).ok_or(HeadError::InvalidContentLength),
        (Some(_), Some(_)) => Err(HeadError::BothLengths),
        (None, Some(_)) if head.version < Version::Http11 => Err(HeadError::TransferEncodingIn10),
        (None, Some(coding)) if coding.eq_ignore_ascii_case(b"chunked") => Ok(Framing::Chunked),
        (None, Some(coding)) => Err(HeadError::UnknownTransferEncoding { value: excerpt(coding) }),
    }
}

/// Checks that the request names its host once, in a valid form: in the target, if there is one, and in the `Host`
/// field, which is required after HTTP/1.0 even then. Over HTTP/2, the head has a `Host` if the request named its host
/// in any way.
pub fn check_host(head: &RequestHead) -> Result<(), HeadError> {
    if head.target_host().is_some_and(|host| !is_valid_host(host)) {
        return Err(HeadError::InvalidTargetHost);
    }
    match at_most_one(&head.fields, Known::Host)? {
        Some(host) if is_valid_host(host) => Ok(()),
        Some(_) => Err(HeadError::InvalidHost),
        None => missing_host(head.version),
    }
}

/// Checks the host as [`check_host`] does, and adds it to `out` as [`normalise_host`] does; nothing where an HTTP/1.0
/// request names none. The host of the target is copied into the `Host` field.
pub fn take_host(head: &mut RequestHead, out: &mut Vec<u8>) -> Result<(), HeadError> {
    if head.target_host().is_some() {
        check_host(head)?;
        copy_target_host(head);
    }
    match at_most_one(&head.fields, Known::Host)? {
        Some(host) => normalise_host(host, out).map(drop),
        None => missing_host(head.version),
    }
}

/// What a request without a host in its fields is answered.
fn missing_host(version: Version) -> Result<(), HeadError> {
    match version {
        Version::Http10 => Ok(()),
        Version::Http11 => Err(HeadError::MissingHost),
        Version::Http2 => Err(HeadError::MissingAuthority),
    }
}

/// Copies the host of the target into the `Host` field, so that an origin does not see another one there (RFC 9112,
/// section 3.2.2). Both must have passed [`check_host`].
pub fn copy_target_host(head: &mut RequestHead) {
    let Some(host) = head.target_host() else { return };
    if head.fields.get_known(Known::Host) != Some(host) {
        let host = host.to_vec();
        head.fields.set("Host", &host);
    }
}

/// Whether the client wants to keep the connection: not with `close`; with HTTP/1.0 only if it says `keep-alive`.
pub fn keep_alive_wanted(head: &RequestHead) -> bool {
    keeps_alive(head.version, &head.fields)
}

/// Whether version and `Connection` together keep the connection, for requests and responses.
pub(super) fn keeps_alive(version: Version, fields: &Fields) -> bool {
    let says = |token| has_token(fields.all_known(Known::Connection), token);
    !says("close") && (version >= Version::Http11 || says("keep-alive"))
}

/// The value of a field that may come at most once.
fn at_most_one(fields: &Fields, known: Known) -> Result<Option<&[u8]>, HeadError> {
    let mut values = fields.all_known(known);
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(HeadError::DuplicateField { name: known.name() }),
    }
}
