//! Variables about the request.

use std::os::unix::ffi::OsStrExt as _;

use larder_http::{Known, Method, Version};

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody};
use crate::profile::Profile;
use crate::variable::RequestVar;

use super::append::{append_display, append_joined, append_millis, append_number, append_some, append_text};
use super::profile;

/// Appends the value; false if there is none.
pub fn append(var: RequestVar, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        RequestVar::Args | RequestVar::QueryString if let Some(profile) = leaving_out(ex, cx) => {
            let before = out.len();
            profile.append_kept(&ex.request.args, out);
            out.len() > before
        }
        RequestVar::Args | RequestVar::QueryString => {
            append_some(Some(&ex.request.args).filter(|args| !args.is_empty()).map(Vec::as_slice), out)
        }
        RequestVar::RequestTime => append_millis(cx.now().since(ex.asked.started).as_millis(), out),
        RequestVar::ContentLength => append_content_length(ex, out),
        RequestVar::ContentType => {
            append_joined(ex.asked.head.fields.all_known(Known::ContentType), "content-type", out)
        }
        RequestVar::DocumentUri | RequestVar::Uri => append_some(Some(&ex.request.uri), out),
        RequestVar::Host => {
            if ex.request.host.is_empty() {
                return append_some(Some(&cx.server(ex).name), out);
            }
            append_some(Some(&ex.request.host), out)
        }
        RequestVar::IsArgs if let Some(profile) = leaving_out(ex, cx) => {
            let is_some = profile.keeps_some(&ex.request.args);
            append_text(if is_some { "?" } else { "" }, out)
        }
        RequestVar::IsArgs => append_text(if ex.request.args.is_empty() { "" } else { "?" }, out),
        RequestVar::LimitRate => append_display(ex.request.limits.rate.unwrap_or(0), out),
        RequestVar::Request => {
            let is_ignored = |profile: &Profile| profile.has_ignored(query_of(ex.asked.head.target()));
            ex.eval.reads_ignored |= leaving_out(ex, cx).is_some_and(is_ignored);
            append_some(Some(ex.asked.head.line()).filter(|line| !line.is_empty()), out)
        }
        RequestVar::RequestBody => match &ex.request.body {
            RequestBody::Memory(bytes) if !bytes.is_empty() => append_some(Some(bytes), out),
            _ => false,
        },
        RequestVar::RequestBodyFile => match &ex.request.body {
            RequestBody::File(temp, _) => append_some(temp.path().map(|path| path.as_os_str().as_bytes()), out),
            RequestBody::None | RequestBody::Unread(_) | RequestBody::Memory(_) | RequestBody::Passing(_) => false,
        },
        RequestVar::RequestId => {
            let id = *ex.eval.values.borrow_mut().request_id.get_or_insert_with(|| cx.worker.random_hex());
            append_some(Some(&id), out)
        }
        RequestVar::RequestLength => {
            append_display(ex.asked.head.bytes() as u64 + ex.request.body.read_bytes() + framing_bytes(ex), out)
        }
        // Always the method of the client's request, also in a subrequest.
        RequestVar::RequestMethod if ex.is_sub() => append_some(Some(ex.asked.head.method_name()), out),
        RequestVar::RequestMethod => append_some(Some(method_name(ex)), out),
        RequestVar::RequestUri if let Some(profile) = leaving_out(ex, cx) => {
            profile.append_kept_target(ex.asked.head.target(), out);
            true
        }
        RequestVar::RequestUri => append_some(Some(ex.asked.head.target()).filter(|target| !target.is_empty()), out),
        RequestVar::ServerName => append_some(Some(&cx.server(ex).name), out),
        RequestVar::RequestPort => match request_port(ex) {
            Some(port) => append_number(port, out),
            None => true,
        },
        RequestVar::IsRequestPort => append_text(if request_port(ex).is_some() { ":" } else { "" }, out),
        RequestVar::ServerProtocol => append_text(ex.asked.head.version.name(), out),
        RequestVar::SliceRange => super::slice::append_range(ex, cx, out),
        RequestVar::ProfileClass => append_text(profile::class(ex, cx).name(), out),
        RequestVar::LimitReqStatus => append_some(ex.request.limits.req_status.map(str::as_bytes), out),
        RequestVar::LimitConnStatus => append_some(ex.request.limits.conn_status.map(str::as_bytes), out),
        RequestVar::Http2 => {
            let name = if ex.asked.client.is_secure() { "h2" } else { "h2c" };
            append_text(if ex.asked.head.version == Version::Http2 { name } else { "" }, out)
        }
        RequestVar::Http3 => true,
    }
}

/// The profile by which arguments are left out now.
pub fn leaving_out<'a>(ex: &Exchange, cx: &'a Cx) -> Option<&'a Profile> {
    if ex.eval.leaves_out { cx.loc(ex).profile.as_deref() } else { None }
}

/// The arguments in a URL.
pub fn query_of(target: &[u8]) -> &[u8] {
    memchr::memchr(b'?', target).map_or(&b""[..], |at| &target[at + 1..])
}

/// The value of an argument, as sent; as in nginx, names are compared without case.
pub fn arg<'a>(args: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    args.split(|&byte| byte == b'&').find_map(|pair| {
        let at = pair.iter().position(|&byte| byte == b'=')?;
        pair[..at].eq_ignore_ascii_case(name).then(|| &pair[at + 1..])
    })
}

/// The port in the client's `Host`.
fn request_port(ex: &Exchange) -> Option<u16> {
    let host = ex.asked.head.fields.get_known(Known::Host)?;
    larder_http::host_port(host)
}

fn append_content_length(ex: &Exchange, out: &mut Vec<u8>) -> bool {
    match &ex.request.body {
        RequestBody::Memory(bytes) => append_display(bytes.len(), out),
        RequestBody::File(_, len) => append_display(len, out),
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Passing(_) => {
            append_some(ex.asked.head.fields.get_known(Known::ContentLength), out)
        }
    }
}

/// How many bytes the chunk framing of the request's body took.
fn framing_bytes(ex: &Exchange) -> u64 {
    match &ex.request.body {
        RequestBody::Passing(feed) => feed.framing_bytes(),
        RequestBody::None | RequestBody::Unread(_) | RequestBody::Memory(_) | RequestBody::File(..) => {
            ex.request.chunk_bytes
        }
    }
}

/// The name of the current method.
pub fn method_name(ex: &Exchange) -> &[u8] {
    match (ex.request.method, ex.asked.head.method) {
        (now, sent) if now == sent => ex.asked.head.method_name(),
        (Method::Head, _) => b"HEAD",
        _ => b"GET",
    }
}
