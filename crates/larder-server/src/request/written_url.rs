//! The URL of a request that a policy has written, where what answers at the location without the policy gets it.
//!
//! The policy sees the URL that the client has asked for; a `rewrite`, an index or `try_files` may have led from there
//! to another path, which is often that of a script for all pages. What the policy changes of the URL is changed of
//! what came of it, too.

use larder_conf::model::LogLevel;
use larder_http::{status, uri};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::locations;
use crate::site::{Backend, Protocol};

/// Who gets the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// An origin of the policy: its request line has the URL as it is.
    Url,
    /// What finds things by their path.
    Path,
    /// What runs scripts: a path that was found stays, as it is that of the script.
    Script,
}

impl By {
    /// That of an origin.
    pub fn of(backend: &Backend) -> Self {
        match &backend.protocol {
            Protocol::Http(parts) if parts.is_written => Self::Url,
            Protocol::Http(_) => Self::Path,
            Protocol::FastCgi(_) => Self::Script,
        }
    }
}

/// The path and the arguments that the location had, while an origin gets others.
pub struct Before {
    /// Whether the origin gets others because the policy has changed the URL.
    pub is_changed: bool,
    place: Option<Place>,
    uri_changed: bool,
}

/// What a changed URL has taken the place of.
struct Place {
    path: Vec<u8>,
    args: Vec<u8>,
    /// The path of the client's URL.
    of_client: Vec<u8>,
}

impl Before {
    /// Whether the origin gets another path than the location had.
    pub fn had_another_path(&self, ex: &Exchange) -> bool {
        self.place.as_ref().is_some_and(|place| place.path != ex.request.uri)
    }
}

/// Puts the policy's request on, with the path and the arguments as its URL says. The status with which a URL is
/// refused that is none.
pub fn wear(by: By, ex: &mut Exchange, cx: &Cx) -> Result<Before, u16> {
    let uri_changed = ex.request.way.uri_changed;
    let is_changed = ex.vcl.fetch.bereq.target() != ex.client_target();
    let place = match by {
        By::Url => {
            ex.request.way.uri_changed = false;
            None
        }
        By::Path | By::Script if is_changed => match change(by == By::Script, ex) {
            Some(place) => Some(place),
            None => return Err(refused(ex.vcl.fetch.bereq.target(), "has no path below the root", ex, cx)),
        },
        By::Path | By::Script => None,
    };
    ex.wear_bereq();
    Ok(Before { is_changed, place, uri_changed })
}

/// Takes it off again.
pub fn take_off(before: Before, ex: &mut Exchange) {
    ex.take_bereq_off();
    ex.request.way.uri_changed = before.uri_changed;
    if let Some(place) = before.place {
        (ex.request.uri, ex.request.args) = (place.path, place.args);
    }
}

/// Refuses a path that the policy has made and another location answers for: that one may deny it, or run it as a
/// script.
pub fn belongs(before: &Before, ex: &mut Exchange, cx: &Cx) -> Result<(), u16> {
    let path = ex.request.uri.clone();
    let of_client = before.place.as_ref().map(|place| &place.of_client[..]);
    match locations::may_answer(&path, of_client, ex, cx) {
        true => Ok(()),
        false => Err(refused(&path, "belongs to another location", ex, cx)),
    }
}

/// Logs why a URL of the policy is not served.
pub fn refused(url: &[u8], why: &str, ex: &Exchange, cx: &Cx) -> u16 {
    let shown = String::from_utf8_lossy(url);
    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("the VCL asks for \"{shown}\", which {why}"));
    status::NOT_FOUND
}

/// Changes the path and the arguments as the policy has changed the URL, and returns what they were.
fn change(is_script: bool, ex: &mut Exchange) -> Option<Place> {
    let (path, args) = parts(ex.vcl.fetch.bereq.target())?;
    let (client_path, client_args) = parts(ex.client_target()).unwrap_or_default();
    let stays = ex.request.way.uri_changed && (is_script || path == client_path);
    let args = if stays { exchanged(&ex.request.args, &client_args, args) } else { args };
    ex.request.way.uri_changed = stays;
    let path = if stays { ex.request.uri.clone() } else { path };
    let path = std::mem::replace(&mut ex.request.uri, path);
    let args = std::mem::replace(&mut ex.request.args, args);
    Some(Place { path, args, of_client: client_path })
}

/// The path of a URL, decoded and without dots, and its arguments; `None` if it is none.
fn parts(target: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut path = Vec::new();
    let parts = uri::normalise(target, true, &mut path).ok()?;
    Some((path, parts.args.map(|args| target[args].to_vec()).unwrap_or_default()))
}

/// Arguments of which those of the client are a part, behind others, with `new` in their place. Where they are no part,
/// they are as a rewrite has made them.
fn exchanged(made: &[u8], client: &[u8], new: Vec<u8>) -> Vec<u8> {
    match made.strip_suffix(client) {
        Some([]) => new,
        Some([own @ .., b'&']) if new.is_empty() => own.to_vec(),
        Some(own @ [.., b'&']) => [own, &new].concat(),
        // The client has sent none, and there are others.
        Some(own) if client.is_empty() && !new.is_empty() => [own, b"&", &new].concat(),
        Some(_) | None => made.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_of_the_client_are_exchanged_within_others() {
        for (made, client, new, expected) in [
            ("a=1&utm=2", "a=1&utm=2", "a=1", "a=1"),
            ("a=1", "a=1", "", ""),
            ("", "", "b=2", "b=2"),
            ("q=/x&a=1", "a=1", "b=2", "q=/x&b=2"),
            ("q=/x&a=1", "a=1", "", "q=/x"),
            ("q=/x", "", "b=2", "q=/x&b=2"),
            ("q=/x", "", "", "q=/x"),
            ("q=/x", "a=1", "b=2", "q=/x"),
            ("xa=1", "a=1", "b=2", "xa=1"),
            ("a=1&q=/x", "a=1", "b=2", "a=1&q=/x"),
        ] {
            let found = exchanged(made.as_bytes(), client.as_bytes(), new.as_bytes().to_vec());
            assert_eq!(String::from_utf8_lossy(&found), expected, "{made} {client} {new}");
        }
    }

    #[test]
    fn a_url_has_a_path_without_dots() {
        for (url, expected) in [
            ("/a/../b?c=/../d", Some(("/b", "c=/../d"))),
            ("/%61", Some(("/a", ""))),
            ("", Some(("/", ""))),
            ("/../a", None),
        ] {
            let expected = expected.map(|(path, args)| (path.as_bytes().to_vec(), args.as_bytes().to_vec()));
            assert_eq!(parts(url.as_bytes()), expected, "{url}");
        }
    }
}
