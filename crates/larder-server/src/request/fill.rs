//! The body of an answer goes into the cache if it may be stored, into a file for `*_store`, and to its readers.
//!
//! A task reads it from the origin as fast as it comes. So a slow client holds no PHP child, and a client that leaves
//! ends no fetch that others wait for.

use std::fs::File;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use larder_cache::Zone;
use larder_http::{Fields, Known, ResponseHead, status};
use larder_origin::Answer;
use larder_store::{Body, BodyReader, BodyWriter, Spill};

use super::pump::{self, Wanted};
use crate::context::Cx;
use crate::exchange::{Cause, Exchange, Purpose, Report, Reported};
use crate::policy::{self, Keep};
use crate::records;
use crate::records::fetch::Told;
use crate::refill;
use crate::site::{Backend, Origin};
use crate::tempfile;
use crate::typed_url::{Escapes, TypedUrl};

use super::for_all::ForAll;
use super::part::{self, Joined};
use super::plan::Storing;
use super::proxy_store::{self, StoredFile};
use super::store;

/// What becomes of a body.
pub enum Passed {
    /// It came together with its head, and nothing else wants it.
    Whole(Bytes),
    /// It is a file of this length, and nothing else wants it.
    File(Arc<File>, u64),
    /// It is on its way.
    Coming {
        /// What has come of it so far.
        body: Body,
        /// For the response. It was there before the first byte: a body that finds no room is kept only for such
        /// readers.
        reader: BodyReader,
        /// Whether it is being stored.
        stored: bool,
    },
}

/// The largest body that is passed on without a task of its own, if it came together with its head.
const WHOLE_BYTES_MAX: usize = 64 * 1024;
/// The same for one whose length was not announced: it goes out as a chunk, for which it is copied.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

/// Decides about storing, and starts the task that takes the body, if there is any to take.
pub fn fill(
    mut answer: Answer,
    storing: Option<Storing>,
    joined: Option<Joined>,
    origin: &Origin,
    ex: &mut Exchange,
    cx: &Cx,
) -> Passed {
    let length = joined.as_ref().map(|joined| joined.total).or(answer.body.content_length());
    ex.upstream.is_stored = false;
    // A refill brings what visitors are to get: neither a failure, nor the way from another scheme or port to the page.
    let storing = storing.filter(|_| {
        let is_of_use = || !refill::is_failure(answer.head.status) && !leads_to_itself(&answer.head, ex);
        !ex.is_refill() || is_of_use()
    });
    let storing = part::storing_for(&answer, storing, ex, cx);
    let backend = &origin.backend;
    let is_buffered = is_buffered(backend, &answer.head.fields);
    let file =
        proxy_store::target(answer.head.status, &answer.head.fields, is_buffered, origin, ex, cx).map(StoredFile::new);
    let kept = match storing.map(|storing| (policy::keep(origin, &answer.head, ex, cx), storing)) {
        None => None,
        Some((Keep::Not { why, uncacheable_for }, storing)) => {
            ex.upstream.cache_detail = why;
            ex.upstream.refused_in = Some(storing.zone());
            if let Some(time) = uncacheable_for {
                storing.uncacheable(time, cx);
            }
            None
        }
        Some((Keep::Shared(kept), mut storing)) => {
            storing.give_up_for_all();
            ex.upstream.cache_detail = Cause::Other("only for who waits");
            ex.upstream.refused_in = Some(storing.zone());
            if let Some(bytes) = answer.body.take_whole(usize::MAX) {
                store::share(storing, &answer, bytes.clone(), kept, backend, ex, cx);
                account(&mut answer, bytes.len() as u64, origin, ex, cx);
                return Passed::Whole(bytes);
            }
            None
        }
        Some((Keep::Mark(mark, kept), mut storing)) => {
            storing.give_up_for_all();
            ex.upstream.cache_detail = Cause::NotShared;
            let zone = storing.zone();
            ex.upstream.refused_in = Some(zone);
            if let Some(permit) = storing.permit(ex, cx) {
                permit.remember(store::mark(mark, zone, &answer, kept, backend, ex, cx));
            }
            None
        }
        Some((Keep::Until(kept), storing)) => Some((kept, storing)),
    };
    if kept.is_none()
        && file.is_none()
        && joined.is_none()
        && backend.limit_rate.is_none()
        && ex.request.nested.purpose == Purpose::Answer
    {
        if let Some((file, len)) = answer.body.take_file() {
            account(&mut answer, len, origin, ex, cx);
            return Passed::File(file, len);
        }
        let bytes_max = if length.is_some() { WHOLE_BYTES_MAX } else { CHUNK_BYTES_MAX };
        if let Some(bytes) = answer.body.take_whole(bytes_max) {
            account(&mut answer, bytes.len() as u64, origin, ex, cx);
            return Passed::Whole(bytes);
        }
    }
    let zone = kept.as_ref().map(|(_, storing)| &**cx.zone(storing.zone()));
    let told = record(&answer, zone, origin, ex);
    let (mut permit, mut for_all) = (None, None);
    let spill = spill(backend, is_buffered);
    if answer.body.is_counted() && may_wait_for_readers(&spill, length) {
        // Parts of a page are read in order: one that waits for its readers, and holds what an earlier one waits for,
        // would wait for ever.
        match ex.is_sub() {
            true => drop(answer.body.leave_gate()),
            false => ex.request.nested.holds_slot = true,
        }
    }
    let spill = Some(spill);
    let (writer, body) = match kept {
        None => larder_store::body(None, spill),
        Some((kept, mut storing)) => {
            let may_be = |for_all: &ForAll| length.is_none_or(|bytes| for_all.may_be(bytes));
            for_all = storing.take_for_all().filter(|for_all| for_all.is_of(&ex.upstream.cache_key));
            if let Some(too_large) = for_all.take_if(|for_all| !may_be(for_all)) {
                too_large.give_up();
            }
            let index = storing.zone();
            let zone = cx.zone(index);
            let (mut writer, body) = zone.body(&ex.upstream.cache_key, length, spill);
            if let Some(mut right) = storing.permit(ex, cx) {
                let can_hold = length.is_none_or(|bytes| zone.can_hold(&ex.upstream.cache_key, bytes));
                if !can_hold || !body.is_stored() {
                    ex.upstream.cache_detail = if can_hold { Cause::NoRoom } else { Cause::TooLarge };
                    ex.upstream.refused_in = Some(index);
                } else {
                    ex.upstream.is_stored = true;
                    if ex.upstream.cache_detail == Cause::TooLarge && length.is_some() {
                        // It was, the last time.
                        ex.upstream.cache_detail = Cause::NotStoredYet;
                    }
                }
                let page = right.begin(store::object(&answer, body.clone(), kept, backend, ex, cx));
                ex.upstream.page = Arc::downgrade(&page);
                permit = Some(right);
                for_all = for_all.map(|for_all| for_all.with(page));
            } else {
                // No disk is to be filled with it.
                writer.unstore();
                ex.upstream.cache_detail = Cause::NoRoom;
                ex.upstream.refused_in = Some(index);
            }
            (writer, body)
        }
    };
    let report = Rc::new(Report::default());
    ex.tally.report = Reported::Running(Rc::clone(&report));
    let stored = permit.is_some();
    let counts = policy::counts(origin, ex);
    let wanted = Wanted { permit, for_all, kept: file, joined, pace: pace(backend, is_buffered, ex, cx), counts, told };
    let reader = body.reader();
    start(answer, writer, report, wanted, ex, cx);
    Passed::Coming { body, reader, stored }
}

/// Whether an answer leads to the page that was asked for, in another scheme or at another port.
fn leads_to_itself(head: &ResponseHead, ex: &Exchange) -> bool {
    let location = head.fields.get("Location").filter(|_| status::is_redirect(head.status));
    let Some(location) = location.and_then(|location| str::from_utf8(location).ok()) else { return false };
    TypedUrl::parse(location).is_ok_and(|url| {
        let is_here = url.host.is_empty() || url.host.as_bytes().eq_ignore_ascii_case(&ex.request.host);
        is_here && url.target(Escapes::Upper).as_bytes() == ex.asked.head.target()
    })
}

/// Notes for the logs what came of an answer that is over.
fn account(answer: &mut Answer, body_bytes: u64, origin: &Origin, ex: &mut Exchange, cx: &Cx) {
    let told = record(answer, None, origin, ex);
    if let Some(counts) = policy::counts(origin, ex) {
        counts.note_answer(body_bytes, &answer.body);
    }
    let report = Report::default();
    report.body_bytes.set(body_bytes);
    pump::note(&report, &answer.body, Duration::ZERO, cx);
    if let Some(told) = told {
        records::fetch::over(&told, None, &report);
    }
    ex.tally.report = Reported::Over(report);
    let complaints = pump::complaints(&mut answer.body);
    if complaints.is_empty() {
        return;
    }
    let address = ex.tally.attempts.last().map(|attempt| attempt.address.clone()).unwrap_or_default();
    for (level, text) in complaints {
        cx.local.logs.origin_error(cx, ex, level, &address, format_args!("{text}"));
    }
}

/// Tells the transaction log that the body is taken, and who tells it the rest.
fn record(answer: &Answer, zone: Option<&Zone>, origin: &Origin, ex: &mut Exchange) -> Option<Told> {
    ex.log.fetch.as_ref()?;
    let backend = backend_of(origin, ex).filter(|_| answer.body.usage().sent > 0).map(str::to_owned);
    let is_chunked = answer.head.fields.contains_known(Known::TransferEncoding);
    records::fetch::body(answer.body.content_length(), is_chunked, zone, backend.as_deref(), ex)
}

/// What the backend of the answer is called in the transaction log.
pub fn backend_of<'a>(origin: &'a Origin, ex: &'a Exchange) -> Option<&'a str> {
    let asked = ex.tally.attempts.last().map(|attempt| &*attempt.address);
    policy::backend_name(origin, ex).or(asked)
}

/// How fast the body may be taken: `*_limit_rate`, which nginx keeps to where it buffers.
fn pace(backend: &Backend, is_buffered: bool, ex: &mut Exchange, cx: &Cx) -> Option<pump::Pace> {
    let text = backend.limit_rate.as_ref().filter(|_| is_buffered)?;
    let rate = text.with(ex, cx, |_, value| crate::limit::parse_rate(value))?;
    pump::Pace::new(rate)
}

fn start(answer: Answer, writer: BodyWriter, report: Rc<Report>, wanted: Wanted, ex: &Exchange, cx: &Cx) {
    let address = ex.tally.attempts.last().map(|attempt| attempt.address.clone()).unwrap_or_default();
    let complaint = pump::Complaint { logs: cx.clone(), context: cx.local.logs.context(cx, ex, &address) };
    // Nobody waits for what larder asks by itself, so the end of the worker does not either.
    let running = (!ex.is_unasked()).then(|| cx.worker.seats.begin());
    let mut pumping = Box::pin(async move {
        let _running = running;
        pump::pump(answer, writer, &report, wanted, &complaint).await;
    });
    // What came of the body together with the head goes out with it. A page that came whole is stored before the client
    // gets it: its next request is a hit.
    if pumping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        tokio::task::spawn_local(pumping);
    }
}

/// Whether an answer is buffered: as its origin says, or else the directive.
fn is_buffered(backend: &Backend, fields: &Fields) -> bool {
    let model = &backend.settings.model;
    let told = fields.get_known(Known::XAccelBuffering).filter(|_| !model.ignore_headers.x_accel_buffering);
    match told {
        Some(value) if value.eq_ignore_ascii_case(b"no") => false,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
        _ => model.response.buffering,
    }
}

/// Whether a body may find no more room until some of it is read, and so be taken no faster than its readers are.
fn may_wait_for_readers(spill: &Spill, length: Option<u64>) -> bool {
    let room = spill.file_bytes_max.saturating_add(spill.memory_bytes_max as u64);
    length.unwrap_or(PAGE_BYTES_MAX) > room
}

/// The longest page that is reckoned with, where its length is not announced: `*_max_temp_file_size`, unless it is set.
const PAGE_BYTES_MAX: u64 = 1 << 30;

/// Where the body waits when the client is slower than the origin: memory for `*_buffers`, then a file, unless
/// buffering is off or the origin says so.
fn spill(backend: &Backend, is_buffered: bool) -> Spill {
    let model = &backend.settings.model;
    let memory = model.buffers.count.saturating_mul(model.buffers.bytes).max(model.buffers.head_bytes);
    Spill {
        dir: model.buffers.temp_path.clone().unwrap_or_else(|| tempfile::SYSTEM_DIR.into()),
        system_dir: Path::new(tempfile::SYSTEM_DIR),
        memory_bytes_max: if is_buffered { memory } else { model.buffers.head_bytes },
        file_bytes_max: if is_buffered { model.buffers.max_temp_file_bytes } else { 0 },
    }
}
