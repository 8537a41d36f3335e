//! Variables about files: roots, names, and the parts of a script's path.

use std::os::unix::ffi::OsStrExt as _;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::files::{self, LinkPolicy};
use crate::regex::{Captures, Regex};
use crate::site::{FastCgiParts, Protocol};
use crate::variable::FileVar;

use super::append::append_some;
use super::pattern;

/// Appends the value; false if there is none.
pub fn append(var: FileVar, ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    match var {
        FileVar::DocumentRoot => append_document_root(ex, cx, out),
        FileVar::RealpathRoot => append_realpath_root(ex, cx, out),
        FileVar::RequestFilename => append_filename(ex, cx, out),
        FileVar::FastcgiScriptName => append_script_name(ex, cx, out),
        FileVar::FastcgiPathInfo => append_path_info(ex, cx, out),
    }
}

/// The folder of the location's files: `root`, or `alias`.
pub fn document_root(ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    let mut out = Vec::new();
    append_document_root(ex, cx, &mut out);
    out
}

/// `$document_root`.
pub fn append_document_root(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let loc = cx.loc(ex);
    let start = out.len();
    match &loc.files.alias {
        Some(alias) => alias.append(ex, cx, out),
        None => loc.files.root.append(ex, cx, out),
    }
    if out.get(start) != Some(&b'/') {
        let prefix = cx.site().prefix.join("");
        out.splice(start..start, prefix.as_os_str().as_bytes().iter().copied());
    }
    true
}

/// `$realpath_root`: the folder without symbolic links; no value if the folder does not exist.
pub fn append_realpath_root(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let root = document_root(ex, cx);
    let Ok(real) = std::fs::canonicalize(std::ffi::OsStr::from_bytes(&root)) else { return false };
    append_some(Some(real.as_os_str().as_bytes()), out)
}

/// `$request_filename`: the path of the file that the URI names.
///
/// With `alias`, the part of the URI that the location's prefix matched is replaced; in a location with a regular
/// expression, the whole URI is (ngx_http_map_uri_to_path).
pub fn append_filename(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let loc = cx.loc(ex);
    append_document_root(ex, cx, out);
    match (&loc.files.alias, loc.files.alias_replaces) {
        // In such a location the alias is the whole path, unless `try_files` has found a name below it.
        (Some(_), None) if ex.request.way.alias_takes_uri => out.extend_from_slice(&ex.request.uri),
        (Some(_), None) => {}
        (Some(_), Some(bytes)) => out.extend_from_slice(ex.request.uri.get(bytes..).unwrap_or_default()),
        (None, _) => out.extend_from_slice(&ex.request.uri),
    }
    true
}

/// `$fastcgi_script_name`: the URI, without what `fastcgi_split_path_info` cuts off, with `fastcgi_index` after a `/`.
pub fn append_script_name(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let Some(parts) = fastcgi(ex, cx) else { return append_some(Some(&ex.request.uri), out) };
    let mut captures = Captures::default();
    let is_split = parts.split.as_ref().is_some_and(|split| splits(split, &mut captures, ex, cx));
    let name = if is_split { captures.get(1).unwrap_or(b"") } else { &ex.request.uri };
    out.extend_from_slice(name);
    if name.last() == Some(&b'/')
        && let Some(index) = &parts.index
    {
        out.extend_from_slice(index);
    }
    true
}

/// `$fastcgi_path_info`: what `fastcgi_split_path_info` cuts off.
pub fn append_path_info(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) -> bool {
    let Some(split) = fastcgi(ex, cx).and_then(|parts| parts.split.as_ref()) else { return true };
    let mut captures = Captures::default();
    if splits(split, &mut captures, ex, cx) {
        out.extend_from_slice(captures.get(2).unwrap_or(b""));
    }
    true
}

/// Whether `fastcgi_split_path_info` matches the URI.
fn splits(split: &Regex, captures: &mut Captures, ex: &mut Exchange, cx: &Cx) -> bool {
    split.matches(&ex.request.uri, captures).unwrap_or_else(|error| {
        let uri = ex.request.uri.clone();
        pattern::cannot_match(&error, &uri, ex, cx);
        false
    })
}

/// The properties of the file at `path`, for `if (-f ...)`, as far as `disable_symlinks` allows.
pub fn facts(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Option<files::Facts> {
    let links = links(path, ex, cx);
    files::stat(path, &links).ok()
}

/// Which symbolic links in `path` may be followed.
pub fn links(path: &[u8], ex: &mut Exchange, cx: &Cx) -> LinkPolicy {
    let loc = cx.loc(ex);
    let from = loc.files.links_from.as_ref().map(|from| from.value(ex, cx)).unwrap_or_default();
    LinkPolicy::new(&loc.settings.files.disable_symlinks, &from, path)
}

/// The location's `fastcgi_*` settings, if it passes to FastCGI.
fn fastcgi<'a>(ex: &Exchange, cx: &'a Cx) -> Option<&'a FastCgiParts> {
    match &cx.loc(ex).handler.origin()?.backend.protocol {
        Protocol::FastCgi(parts) => Some(parts),
        Protocol::Http(_) => None,
    }
}
