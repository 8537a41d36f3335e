//! Taking the body of an answer: into the cache if it may be stored, into a file for `*_store`, and to who reads it.
//!
//! A task of its own takes it off the origin as fast as it is made, so that a slow client holds no PHP child, and one
//! that leaves takes nobody's page.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use larder_http::{Fields, Known};
use larder_origin::Answer;
use larder_store::{Body, BodyReader, BodyWriter, Spill};

use crate::context::Cx;
use crate::exchange::{Exchange, Report};
use crate::pump::{self, Wanted};
use crate::site::OriginPolicy;
use crate::tempfile;

use super::keep;
use super::plan::Storing;
use super::store::{self, Keeping};

/// A body that is on its way.
pub struct Passed {
    /// What has come of it so far.
    pub body: Body,
    /// For the response. It was there before the first byte: a body that finds no room is kept for its readers only.
    pub reader: BodyReader,
    /// Whether it is being stored.
    pub stored: bool,
}

/// Decides about storing, and starts the task that takes the body.
pub fn fill(answer: Answer, storing: Option<Storing>, policy: &OriginPolicy, ex: &mut Exchange, cx: &Cx) -> Passed {
    let length = answer.body.content_length();
    let is_buffered = is_buffered(policy, &answer.head.fields);
    let kept =
        keep::target(answer.head.status, &answer.head.fields, is_buffered, policy, ex, cx).map(keep::Keeping::new);
    let mut permit = None;
    let (writer, body) = match storing {
        None => larder_store::body(None, Some(spill(policy, &answer.head.fields))),
        Some(storing) => match store::keeping(answer.head.status, &answer.head.fields, policy, ex, cx) {
            Keeping::No(why) => {
                ex.upstream.cache_detail = why;
                // A failure is no reason for everyone who waits to ask at once: the next one tries.
                if answer.head.status < 500 {
                    storing.uncacheable(cx);
                }
                larder_store::body(None, Some(spill(policy, &answer.head.fields)))
            }
            keeping => {
                let zone = Arc::clone(cx.zone(storing.zone()));
                let (mut writer, body) =
                    zone.body(&ex.upstream.cache_key, length, Some(spill(policy, &answer.head.fields)));
                if let Some(mut right) = storing.permit(policy, ex, cx) {
                    match store::object(&answer, body.clone(), keeping, policy, ex, cx) {
                        Some(object) => {
                            right.begin(object);
                            permit = Some(right);
                        }
                        None => right.uncacheable(cx.now()),
                    }
                }
                if permit.is_none() {
                    // No disk is to be filled with it.
                    writer.unstore();
                }
                (writer, body)
            }
        },
    };
    let report = Rc::new(Report::default());
    ex.tally.report = Some(Rc::clone(&report));
    let stored = permit.is_some();
    let wanted = Wanted { permit, kept, pace: pace(policy, is_buffered, ex, cx) };
    let reader = body.reader();
    start(answer, writer, report, wanted, ex, cx);
    Passed { body, reader, stored }
}

/// How fast the body may be taken: `*_limit_rate`, which nginx keeps to where it buffers.
fn pace(policy: &OriginPolicy, is_buffered: bool, ex: &mut Exchange, cx: &Cx) -> Option<pump::Pace> {
    let text = policy.limit_rate.as_ref().filter(|_| is_buffered)?;
    let rate = text.with(ex, cx, |_, value| crate::limit::parse_rate(value))?;
    pump::Pace::new(rate)
}

fn start(answer: Answer, writer: BodyWriter, report: Rc<Report>, wanted: Wanted, ex: &Exchange, cx: &Cx) {
    let address = ex.tally.attempts.last().map(|attempt| attempt.address.clone()).unwrap_or_default();
    let complaint = pump::Complaint { logs: cx.clone(), context: cx.local.logs.context(cx, ex, &address) };
    let running = cx.worker.exchange_begins();
    let is_wanted = wanted.permit.is_some() && writer.is_stored();
    let mut pumping = Box::pin(async move {
        let _running = running;
        pump::pump(answer, writer, &report, wanted, &complaint).await;
    });
    // A page that came with its head is stored before anybody gets it, and can ask for it again.
    let is_over = is_wanted && pumping.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
    if !is_over {
        tokio::task::spawn_local(pumping);
    }
}

/// Whether an answer is buffered: as its origin says, or else the directive.
fn is_buffered(policy: &OriginPolicy, fields: &Fields) -> bool {
    let model = &policy.settings.model;
    let told = fields.get_known(Known::XAccelBuffering).filter(|_| !model.ignore_headers.x_accel_buffering);
    match told {
        Some(value) if value.eq_ignore_ascii_case(b"no") => false,
        Some(value) if value.eq_ignore_ascii_case(b"yes") => true,
        _ => model.buffering,
    }
}

/// Where the body waits when the client is slower than the origin: memory for `*_buffers`, then a file, unless
/// buffering is off or the origin says so.
fn spill(policy: &OriginPolicy, fields: &Fields) -> Spill {
    let model = &policy.settings.model;
    let buffering = is_buffered(policy, fields);
    let memory = model.buffers.0.saturating_mul(model.buffers.1).max(model.buffer_bytes);
    Spill {
        dir: model.temp_path.clone().filter(|dir| dir.is_dir()).unwrap_or_else(|| tempfile::SYSTEM_DIR.into()),
        memory_bytes_max: if buffering { memory } else { model.buffer_bytes },
        file_bytes_max: if buffering { model.max_temp_file_bytes } else { 0 },
    }
}
