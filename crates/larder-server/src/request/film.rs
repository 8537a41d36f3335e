//! Films that are sent from a point in time or a byte on: `mp4` and `flv` (nginx's modules of these names).

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use larder_conf::model::LogLevel;
use larder_http::{Method, status};
use tokio::sync::Semaphore;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::files::Opened;
use crate::files::mp4::{self, Cut, Mp4Error, Wanted};
use crate::vars;

use super::files::{self, Body};
use super::{Content, Slow, Step, Synth};

/// What a film of Flash begins with, wherever it is entered.
const FLV_HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";
/// How many films are cut at a time: each takes as much memory as its tables.
const CUTS_MAX: usize = 4;
static CUTS: Semaphore = Semaphore::const_new(CUTS_MAX);

/// A film that is to be cut.
pub struct Film {
    opened: Opened,
    path: Vec<u8>,
    wanted: Wanted,
}

/// Serves a film from `start=`, in seconds, up to `end=`.
pub fn mp4(ex: &mut Exchange, cx: &Cx) -> Step {
    let (path, opened) = match open(ex, cx) {
        Ok(found) => found,
        Err(step) => return step,
    };
    let time = |name: &[u8]| vars::arg(&ex.request.args, name).and_then(mp4::milliseconds);
    let (start, end) = (time(b"start"), time(b"end").filter(|end| *end > 0));
    let Some(start_ms) = start.or(end.map(|_| 0)) else { return whole(opened, ex, cx) };
    let settings = cx.loc(ex).settings.modules.mp4;
    let wanted = Wanted {
        start_ms,
        length_ms: end.map_or(0, |end| end.saturating_sub(start_ms)),
        from_key_frame: settings.start_key_frame,
        moov_bytes_max: settings.max_buffer_bytes.max(settings.buffer_bytes) as u64,
    };
    Slow::Film(Box::new(Film { opened, path, wanted })).into()
}

/// Cuts a film, on a thread made for that: its tables may be large, and its disk slow.
pub async fn cut(film: Film, ex: &mut Exchange, cx: &Cx) -> Step {
    let Film { opened, path, wanted } = film;
    let (file, len) = (Arc::clone(&opened.file), opened.len);
    // Nobody closes it.
    let _permit = CUTS.acquire().await;
    let cut = tokio::task::spawn_blocking(move || mp4::cut(&*file, len, &wanted)).await;
    match cut.unwrap_or_else(|error| Err(Mp4Error::Read(io::Error::other(error)))) {
        Ok(Cut::Whole) => whole(opened, ex, cx),
        Ok(Cut::Part(head, data)) => {
            let len = head.len() as u64 + (data.end - data.start);
            let content = Content::Spliced(head.into(), opened.file, data);
            files::respond(Body { content, len, mtime: opened.mtime }, ex, cx)
        }
        Err(error) => {
            let level = if matches!(error, Mp4Error::Read(_)) { LogLevel::Crit } else { LogLevel::Error };
            let path = String::from_utf8_lossy(&path);
            cx.local.logs.error(cx, ex, level, format_args!("{error} in \"{path}\""));
            Step::Synth(Synth::Status(status::INTERNAL_SERVER_ERROR))
        }
    }
}

/// Serves a film of Flash from the byte `start=` on.
pub fn flv(ex: &mut Exchange, cx: &Cx) -> Step {
    let (_, opened) = match open(ex, cx) {
        Ok(found) => found,
        Err(step) => return step,
    };
    let start = vars::arg(&ex.request.args, b"start").and_then(number).unwrap_or(0);
    if start == 0 || start >= opened.len {
        return whole(opened, ex, cx);
    }
    let len = FLV_HEADER.len() as u64 + (opened.len - start);
    let content = Content::Spliced(Bytes::from_static(FLV_HEADER), opened.file, start..opened.len);
    files::respond(Body { content, len, mtime: opened.mtime }, ex, cx)
}

/// A number of digits alone.
fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|digit| digit.is_ascii_digit()))?.parse().ok()
}

/// Opens the file of the URI; a folder or the like is left to [`files::serve`].
fn open(ex: &mut Exchange, cx: &Cx) -> Result<(Vec<u8>, Opened), Step> {
    if !matches!(ex.request.method, Method::Get | Method::Head) {
        return Err(Step::Synth(Synth::Status(status::NOT_ALLOWED)));
    }
    if ex.request.uri.last() == Some(&b'/') {
        return Err(files::serve(ex, cx));
    }
    let (path, opened) = files::find(ex, cx)?;
    if opened.is_regular { Ok((path, opened)) } else { Err(files::serve(ex, cx)) }
}

fn whole(opened: Opened, ex: &mut Exchange, cx: &Cx) -> Step {
    files::respond(Body::of(&opened), ex, cx)
}
