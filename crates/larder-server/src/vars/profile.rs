//! What the profile of a location says of a request.

use larder_conf::model::Part;
use larder_http::normalise;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::profile::{Class, Profile, Request, Standing};

/// Whose the page of a request is, as `read` reads it; `None` without a profile.
pub fn standing<R>(ex: &mut Exchange, cx: &Cx, read: impl FnOnce(&Profile, Standing<'_, '_>) -> R) -> Option<R> {
    let profile = cx.loc(ex).profile.as_deref()?;
    let (mut path, mut buffer) = (ex.eval.lend(), ex.eval.lend());
    let found = read(profile, profile.standing(&request(ex, &mut path), &mut buffer));
    ex.eval.take_back(path);
    ex.eval.take_back(buffer);
    Some(found)
}

/// Who comes first where origins are scarce.
pub fn class(ex: &mut Exchange, cx: &Cx) -> Class {
    cx.loc(ex).profile.as_deref().map_or(Class::Normal, |profile| class_by(profile, ex).0)
}

/// The same by this profile, and the part of the request that says it.
pub fn class_by(profile: &Profile, ex: &mut Exchange) -> (Class, Option<Part>) {
    let (mut path, mut buffer) = (ex.eval.lend(), ex.eval.lend());
    let class = profile.class(&request(ex, &mut path), &mut buffer);
    ex.eval.take_back(path);
    ex.eval.take_back(buffer);
    class
}

/// What a profile is asked about. `path` is to work in.
fn request<'r>(ex: &'r Exchange, path: &'r mut Vec<u8>) -> Request<'r> {
    let now = (&ex.request.uri[..], &ex.request.args[..]);
    let fields = &ex.asked.head.fields;
    // A request inside another one is about its own URI.
    if !ex.request.way.uri_changed || ex.is_sub() {
        return Request { fields, urls: [now, (b"", b"")] };
    }
    let target = ex.asked.head.target();
    let (written, query) = match memchr::memchr(b'?', target) {
        Some(at) => (&target[..at], &target[at + 1..]),
        None => (target, &b""[..]),
    };
    let is_plain = memchr::memchr2(b'%', b'.', written).is_none() && memchr::memmem::find(written, b"//").is_none();
    let asked = match is_plain || normalise(written, true, path).is_err() {
        true => written,
        false => path,
    };
    Request { fields, urls: [(asked, query), now] }
}
