//! Static files: index, directories, `autoindex`, types (nginx's static, index and autoindex modules).

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::{AutoindexFormat, LogLevel, StaticForms};
use larder_http::{Coding, Escape, Known, Method, Time, escape_uri, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::files::{self, Facts, LinkPolicy, OpenError, Opened, Stamp};
use crate::request::compress;
use crate::site::Handler;
use crate::variable::{FileVar, Var};

use super::{Content, Internal, Ranges, Response, Step, Synth};

/// Serves the file that the URI names.
pub fn serve(ex: &mut Exchange, cx: &Cx) -> Step {
    if ex.request.uri.last() == Some(&b'/') {
        return index(ex, cx);
    }
    if !matches!(ex.request.method, Method::Get | Method::Head | Method::Post) {
        return Step::Synth(Synth::Status(status::NOT_ALLOWED));
    }
    let mut path = ex.eval.scratch.pop().unwrap_or_default();
    append_filename(ex, cx, &mut path);
    let step = serve_at(&path, ex, cx);
    path.clear();
    ex.eval.scratch.push(path);
    step
}

/// Serves what is at `path`.
fn serve_at(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some((packed, coding)) = packed(path, ex, cx) {
        let step = respond(packed, ex, cx);
        ex.reply.fields.set("Content-Encoding", coding.name().as_bytes());
        return step;
    }
    let opened = match get(path, ex, cx) {
        Ok(Found::Kept(_)) if ex.request.method == Method::Post => {
            return Step::Synth(Synth::Status(status::NOT_ALLOWED));
        }
        Ok(Found::Kept(body)) => return respond(body, ex, cx),
        Ok(Found::Opened(opened)) => opened,
        Err(error) => return failed(&error, path, ex, cx),
    };
    if opened.is_dir {
        let mut url = Vec::with_capacity(ex.request.uri.len() + 1);
        escape_uri(&ex.request.uri, Escape::Uri, &mut url);
        url.push(b'/');
        if !ex.request.args.is_empty() {
            url.push(b'?');
            url.extend_from_slice(&ex.request.args);
        }
        return Step::Synth(Synth::Redirect(status::MOVED_PERMANENTLY, url));
    }
    if !opened.is_regular {
        let path = String::from_utf8_lossy(path).into_owned();
        cx.local.logs.error(cx, ex, LogLevel::Crit, format_args!("\"{path}\" is not a regular file"));
        return Step::Synth(Synth::Status(status::NOT_FOUND));
    }
    if ex.request.method == Method::Post {
        return Step::Synth(Synth::Status(status::NOT_ALLOWED));
    }
    respond(Body::of(&opened), ex, cx)
}

/// Opens the file that the URI names, whatever it is.
pub fn find(ex: &mut Exchange, cx: &Cx) -> Result<(Vec<u8>, Opened), Step> {
    let path = filename(ex, cx);
    match open(&path, ex, cx) {
        Ok(opened) => Ok((path, opened)),
        Err(error) => Err(failed(&error, &path, ex, cx)),
    }
}

/// What was compressed beforehand, for `brotli_static`, `zstd_static` and `gzip_static`: the smallest first.
const PACKED: [(Coding, &[u8]); 3] = [(Coding::Brotli, b".br"), (Coding::Zstd, b".zst"), (Coding::Gzip, b".gz")];

/// The file that lies compressed beside the one at `path`, when this client gets it (ngx_http_gzip_static_handler).
fn packed(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Option<(Body, Coding)> {
    let config = &cx.loc(ex).settings.compression;
    if ex.request.method == Method::Post {
        return None;
    }
    // A VCL keeps pages in gzip, and unpacks them.
    let only_gzip = matches!(cx.loc(ex).handler, Handler::Vcl(_));
    for (coding, extension) in PACKED {
        if only_gzip && coding != Coding::Gzip {
            continue;
        }
        let mode = match coding {
            Coding::Brotli => config.brotli.files,
            Coding::Zstd => config.zstd.files,
            Coding::Gzip => config.gzip.files,
        };
        let takes = match mode {
            StaticForms::Off => continue,
            StaticForms::On => compress::takes(coding, ex, cx),
            StaticForms::Always => true,
        };
        // Only `Vary` needs to know whether other clients would get a compressed file.
        if !takes && !config.vary {
            continue;
        }
        let body = match get(&[path, extension].concat(), ex, cx) {
            Ok(Found::Kept(body)) => Some(body),
            Ok(Found::Opened(opened)) => opened.is_regular.then(|| Body::of(&opened)),
            Err(_) => continue,
        };
        ex.reply.has_packed |= mode == StaticForms::On;
        if let Some(body) = body.filter(|_| takes) {
            return Some((body, coding));
        }
    }
    None
}

/// What is sent of a file, and how long that is.
pub struct Body {
    /// The bytes.
    pub content: Content,
    /// How many.
    pub len: u64,
    /// When the file was last changed, in seconds since 1970.
    pub mtime: u64,
}

impl Body {
    /// All of a file.
    pub fn of(opened: &Opened) -> Self {
        let &Opened { len, mtime, .. } = opened;
        let content = if len == 0 { Content::Empty } else { Content::File(Arc::clone(&opened.file), len) };
        Self { content, len, mtime }
    }
}

/// The response of a file. Its head is laid out.
pub fn respond(body: Body, ex: &mut Exchange, cx: &Cx) -> Step {
    let Body { content, len, mtime } = body;
    let settings = &cx.loc(ex).settings;
    ex.reply.status = status::OK;
    // The origin's type stays after X-Accel-Redirect.
    let content_type = content_type(ex, cx);
    if !content_type.is_empty() && !ex.reply.fields.contains_known(Known::ContentType) {
        ex.reply.fields.set("Content-Type", content_type.as_bytes());
    }
    ex.reply.fields.set("Last-Modified", &larder_http::format_date(mtime));
    if settings.files.etag {
        ex.reply.fields.set("ETag", &files::etag::etag(mtime, len));
    }
    Step::Deliver(Response { content, last_modified: Some(mtime), ranges: Ranges::Announced, conditional: true })
}

/// The media type of the URI's extension.
pub fn content_type<'a>(ex: &Exchange, cx: &'a Cx) -> &'a str {
    let settings = &cx.loc(ex).settings;
    let extension = match memchr::memrchr2(b'.', b'/', &ex.request.uri) {
        Some(dot) if ex.request.uri[dot] == b'.' => &ex.request.uri[dot + 1..],
        Some(_) | None => return &settings.files.default_type,
    };
    let found = std::str::from_utf8(extension).ok().and_then(|extension| {
        if extension.bytes().any(|byte| byte.is_ascii_uppercase()) {
            settings.files.types.get(&extension.to_ascii_lowercase())
        } else {
            settings.files.types.get(extension)
        }
    });
    found.unwrap_or(&settings.files.default_type)
}

fn filename(ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    let mut path = Vec::new();
    append_filename(ex, cx, &mut path);
    path
}

fn append_filename(ex: &mut Exchange, cx: &Cx, out: &mut Vec<u8>) {
    crate::vars::append(&Var::File(FileVar::RequestFilename), ex, cx, out);
}

/// What is at a path.
enum Found {
    /// A small file, which is in memory.
    Kept(Body),
    /// Whatever was opened.
    Opened(Opened),
}

/// Finds what is at `path`: a small file in memory if it is still in the state in which it was read, else opened.
fn get(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Result<Found, OpenError> {
    let links = &crate::vars::links(path, ex, cx);
    let now = cx.now();
    if *links == LinkPolicy::Off && cx.loc(ex).settings.files.open_cache.kept.is_none() {
        match files::stat(path, links) {
            Ok(Facts { stamp, len, mtime, .. }) => {
                if let Some(bytes) = in_memory(&stamp, now, cx) {
                    return Ok(Found::Kept(Body { content: Content::Kept(bytes), len, mtime }));
                }
            }
            Err(error @ OpenError::NotFound(_)) => return Err(error.by("open()")),
            // What opening says of it.
            Err(_) => {}
        }
    }
    let opened = open_by(path, links, ex, cx)?;
    let bytes = in_memory(&opened.stamp, now, cx).or_else(|| cx.worker.kept.borrow_mut().take(&opened, now));
    Ok(match bytes {
        Some(bytes) => Found::Kept(Body { content: Content::Kept(bytes), len: opened.len, mtime: opened.mtime }),
        None => Found::Opened(opened),
    })
}

fn open(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Result<Opened, OpenError> {
    let links = &crate::vars::links(path, ex, cx);
    open_by(path, links, ex, cx)
}

/// What is in a small file of this state, if that is in memory; counted.
fn in_memory(stamp: &Stamp, now: Time, cx: &Cx) -> Option<Bytes> {
    let bytes = cx.worker.kept.borrow_mut().get(stamp, now)?;
    cx.stats().files_kept.add(1);
    Some(bytes)
}

fn open_by(path: &[u8], links: &LinkPolicy, ex: &Exchange, cx: &Cx) -> Result<Opened, OpenError> {
    let settings = &cx.loc(ex).settings;
    let Some((max, inactive)) = settings.files.open_cache.kept else { return files::open(path, links) };
    let mut caches = cx.local.files.borrow_mut();
    let cache = caches.entry((max, inactive.as_secs())).or_insert_with(|| files::cache::FileCache::new(max, inactive));
    cache.open(
        path,
        links,
        settings.files.open_cache.valid,
        settings.files.open_cache.min_uses,
        settings.files.open_cache.errors,
        cx.now(),
    )
}

/// Whether what is at `path` is a folder, for `try_files` and `index`; `None` when nothing can be served from there.
pub fn look(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Option<bool> {
    match seen(path, ex, cx) {
        Ok(is_dir) => Some(is_dir),
        Err(error) => {
            if error.status() == status::INTERNAL_SERVER_ERROR {
                cx.local.logs.error(cx, ex, LogLevel::Crit, format_args!("{}", error.log_text(path)));
            }
            None
        }
    }
}

/// The same, with why not. A file that we may not read is there: it may be PHP that reads it.
fn seen(path: &[u8], ex: &mut Exchange, cx: &Cx) -> Result<bool, OpenError> {
    match open(path, ex, cx) {
        Ok(opened) => Ok(opened.is_dir),
        Err(error @ OpenError::Forbidden(_)) => crate::vars::facts(path, ex, cx).map(|facts| facts.is_dir).ok_or(error),
        Err(error) => Err(error),
    }
}

fn failed(error: &OpenError, path: &[u8], ex: &mut Exchange, cx: &Cx) -> Step {
    let status = error.status();
    let settings = &cx.loc(ex).settings;
    if status != status::NOT_FOUND || settings.files.log_not_found {
        let level = if status == status::INTERNAL_SERVER_ERROR { LogLevel::Crit } else { LogLevel::Error };
        cx.local.logs.error(cx, ex, level, format_args!("{}", error.log_text(path)));
    }
    Step::Synth(Synth::Status(status))
}

/// A URI that ends in `/`: the first index file that is there, else a list of the folder, else 403.
fn index(ex: &mut Exchange, cx: &Cx) -> Step {
    if !matches!(ex.request.method, Method::Get | Method::Head | Method::Post) {
        return Step::Synth(Synth::Status(status::NOT_ALLOWED));
    }
    let loc = cx.loc(ex);
    let folder = filename(ex, cx);
    if loc.settings.modules.random_index
        && let Some(step) = random_index(&folder, ex, cx)
    {
        return step;
    }
    for name in &loc.files.index {
        let name = name.value(ex, cx);
        if name.first() == Some(&b'/') {
            return Step::Redirect(Internal::Path(name));
        }
        let path = [&folder[..], &name].concat();
        let error = match seen(&path, ex, cx) {
            // A folder too: the request for it leads to one with a slash.
            Ok(_) => return Step::Redirect(Internal::Path([&ex.request.uri[..], &name].concat())),
            Err(error) => error,
        };
        match error {
            OpenError::NotFound(_) if !error.is_below_a_file() => {}
            OpenError::NotFound(_) | OpenError::Forbidden(_) => {
                if error.status() != status::NOT_FOUND || loc.settings.files.log_not_found {
                    let path = String::from_utf8_lossy(&path).into_owned();
                    cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("\"{path}\" is {error}"));
                }
                return Step::Synth(Synth::Status(error.status()));
            }
            OpenError::Loop(_) => return Step::Synth(Synth::Status(status::FORBIDDEN)),
            OpenError::NameTooLong(_) | OpenError::Other(_) => return failed(&error, &path, ex, cx),
        }
    }
    match loc.settings.files.autoindex.filter(|_| matches!(ex.request.method, Method::Get | Method::Head)) {
        // An `alias` without a slash at its end, below a location with one: what is in that folder has no names here.
        Some(_) if folder.last() != Some(&b'/') => failed_index(&folder, 404, ex, cx),
        Some(form) => autoindex(&folder, form, ex, cx),
        None => failed_index(&folder, if exists(&folder) { 403 } else { 404 }, ex, cx),
    }
}

/// `random_index`: any file of the folder; `None` when it has none.
fn random_index(folder: &[u8], ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let error = match crate::modules::random_index::choose(folder, cx.worker.random()) {
        Ok(name) => return name.map(|name| Step::Redirect(Internal::Path([&ex.request.uri[..], &name].concat()))),
        Err(error) => error,
    };
    let (status, level) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory | io::ErrorKind::InvalidFilename => {
            (status::NOT_FOUND, LogLevel::Error)
        }
        io::ErrorKind::PermissionDenied => (status::FORBIDDEN, LogLevel::Error),
        _ => (status::INTERNAL_SERVER_ERROR, LogLevel::Crit),
    };
    let folder = String::from_utf8_lossy(folder.strip_suffix(b"/").unwrap_or(folder)).into_owned();
    let why = crate::log::io_error_text(&error);
    cx.local.logs.error(cx, ex, level, format_args!("opendir() \"{folder}\" failed{why}"));
    Some(Step::Synth(Synth::Status(status)))
}

fn exists(folder: &[u8]) -> bool {
    std::fs::metadata(std::ffi::OsStr::from_bytes(folder)).is_ok()
}

fn failed_index(folder: &[u8], status: u16, ex: &mut Exchange, cx: &Cx) -> Step {
    let folder = String::from_utf8_lossy(folder).into_owned();
    match status {
        404 if !cx.loc(ex).settings.files.log_not_found => {}
        404 => cx.local.logs.error(
            cx,
            ex,
            LogLevel::Error,
            format_args!("\"{folder}\" is not found (2: No such file or directory)"),
        ),
        _ => cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("directory index of \"{folder}\" is forbidden")),
    }
    Step::Synth(Synth::Status(status))
}

fn autoindex(folder: &[u8], form: larder_conf::model::Autoindex, ex: &mut Exchange, cx: &Cx) -> Step {
    let entries = match files::autoindex::read(folder) {
        Ok(entries) => entries,
        Err(error) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("{}", error.log_text(folder)));
            return Step::Synth(Synth::Status(error.status()));
        }
    };
    let argument = crate::vars::arg(&ex.request.args, b"callback").map(<[u8]>::to_vec);
    let callback = match files::autoindex::check_callback(argument.as_deref()) {
        Ok(callback) => callback.filter(|_| form.format == AutoindexFormat::Jsonp),
        Err(_) if form.format != AutoindexFormat::Jsonp => None,
        Err(error) => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("client sent {error}"));
            return Step::Synth(Synth::Status(status::BAD_REQUEST));
        }
    };
    let charset = cx.loc(ex).fields.charset.as_ref().map(|text| text.value(ex, cx));
    let listing = files::autoindex::Listing {
        uri: &ex.request.uri,
        format: form.format,
        exact_size: form.exact_size,
        offset_secs: if form.localtime { cx.local.logs.stamp(cx.now(), |stamp| stamp.offset_secs) } else { 0 },
        utf8: charset.is_some_and(|charset| charset.eq_ignore_ascii_case(b"utf-8")),
        callback,
    };
    let body = files::autoindex::render(&listing, entries);
    let content_type = listing.content_type();
    ex.reply.status = status::OK;
    ex.reply.fields.set("Content-Type", content_type.as_bytes());
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(body))))
}
