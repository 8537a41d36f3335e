//! The life of one request: steps, each of which returns the next.
//!
//! ```text
//! Route -> Handle -> Lookup -> Fetch -> Deliver -> Send -> (written and logged by the connection)
//!    ^        |                  |
//!    `--------+--- redirects ----'      every step may end in Synth, which ends in Deliver
//! ```
//! [`advance`] runs the steps that never wait, so that a hit takes no allocation and no task of its own;
//! [`finish`] runs the others, in a future that is allocated only for a request that needs one.

pub mod access;
pub mod acme_challenge;
pub mod added_fields;
pub mod admin;
pub mod answer;
pub mod auth_request;
pub mod ban;
pub mod cache_status;
pub mod charset;
pub mod compose;
pub mod compress;
pub mod cookies;
pub mod counted;
mod dashboard_purge;
pub mod deliver;
pub mod early_hints;
pub mod esi;
pub mod explained;
pub mod far_range;
pub mod fetch;
pub mod files;
pub mod fill;
pub mod film;
pub mod filters;
mod for_all;
mod from_page;
pub mod gate;
pub mod handle;
pub mod head_update;
mod ignored;
pub mod lookup;
pub mod masked;
pub mod mirror;
pub mod more_headers;
pub mod needs;
pub mod notes;
pub mod old_browsers;
pub mod origin_request;
pub mod own_files;
pub mod page;
pub mod part;
pub mod pieces;
pub mod plan;
pub mod proxy_store;
pub mod pump;
pub mod purge;
pub mod purge_by_origin;
pub mod purge_from;
mod purge_site;
pub mod read;
pub mod reasons;
pub mod receive;
pub mod recode;
pub mod refetch;
pub mod refill;
pub mod request_body;
pub mod resolve;
pub mod response_fields;
pub mod route;
pub mod settle;
mod share;
pub mod slice;
pub mod ssi;
pub mod store;
pub mod subrequest;
pub mod synth;
pub mod walk;
pub mod walk_cache;
pub mod walk_page;
pub mod wire;
pub mod written_url;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use larder_cache::{Form, HitRef, Object};
use larder_conf::model::LogLevel;
use larder_http::status;
use larder_store::{BodyReader, Whole};

use crate::context::Cx;
use crate::exchange::{Exchange, Part, Purpose, Refusal, url};
use crate::net::Inbound;
use crate::policy::{self, Delivery};
use crate::records;
use crate::vsl::Shown;
use settle::Settled;

/// What comes next.
pub enum Step {
    /// Find the location and ask what stands before its handler.
    Route(Entrance),
    /// Look for a location again, after a rewrite.
    Find,
    /// Go to another URI or location without telling the client.
    Redirect(Internal),
    /// Let the location's handler answer.
    Handle,
    /// Ask the policy of the location once more, from its first decision.
    Restart,
    /// Ask the cache.
    Lookup,
    /// Ask a zone, under the key of the exchange.
    LookInZone(usize),
    /// Deliver a stored page.
    Page(page::Page),
    /// Answer by ourselves.
    Synth(Synth),
    /// Decide what this client gets of a response: what the policy changes, conditions, whether a form is made first.
    Deliver(Response),
    /// Decide the rest of it, form, ranges and length; the machine stops with it, and the connection writes it.
    Send(Response),
    /// Hand a response to the request that it goes into.
    Part(Response),
    /// Close the connection without a word.
    Abort,
    /// Do what may take a while.
    Slow(Slow),
}

impl From<Slow> for Step {
    fn from(slow: Slow) -> Self {
        Self::Slow(slow)
    }
}

/// A step that [`advance`] cannot take, as it waits or writes.
pub enum Slow {
    /// Wait, as `limit_req` demands, then go on.
    Delay(Duration),
    /// Answer 401, after `auth_delay`.
    Refuse(Duration),
    /// Check a password that takes long to check.
    Verify(Box<access::Verification>),
    /// Ask the server of `auth_request` whether the request is allowed.
    Ask(Box<access::Ask>),
    /// Read the body of the request, then let the handler answer.
    ReadBody,
    /// Wait for another request's fetch of the same page.
    Wait(Box<lookup::Waiting>),
    /// Wait until another request has fetched a page anew.
    Hold(Box<lookup::Held>),
    /// Wait for a disk.
    Load(Box<lookup::LoadingOf>),
    /// Ask for what another larder answers to a challenge of the CA with this token.
    Challenge(Box<str>),
    /// Look whether another node has the page, or fetches it.
    Share(Box<share::Sought>),
    /// Ban pages of a cache.
    Ban(Box<ban::Ban>),
    /// Drop pages of a cache.
    Purge(Box<purge::Purge>),
    /// Purge pages of several caches.
    PurgePages(Box<purge_from::Purges>),
    /// Wait until other larders know what the request has purged, then deliver.
    Known(Box<Response>),
    /// Purge a page from the dashboard, or ask whether that may be.
    PurgeUrl(Box<dashboard_purge::Asked>),
    /// Find out what is sent of a film.
    Film(Box<film::Film>),
    /// Ask the origin.
    Fetch(plan::Plan),
    /// Purge what an origin purges by its answer, then go on with that.
    PurgeFirst(Box<answer::PurgeFirst>),
    /// Wait for the whole body of an answer.
    Gather(Box<answer::Gather>),
    /// Wait until a page has been compressed, then send it.
    Form(Box<compress::Wait>),
}

/// Where a request enters.
#[derive(Debug)]
pub enum Entrance {
    /// At the server's own rewrites.
    Server,
    /// At a named location.
    Named(Box<[u8]>),
    /// At the limits and access rules, once a delay is over.
    Limits,
}

/// Where an internal redirect goes.
pub enum Internal {
    /// A path with arguments, not decoded: `X-Accel-Redirect`.
    Uri(Vec<u8>),
    /// A path with arguments that is taken as it is: `error_page`, the last argument of `try_files`.
    Literal(Vec<u8>),
    /// A path that is decoded already, with the request's arguments: `index`.
    Path(Vec<u8>),
    /// A named location.
    Named(Box<[u8]>),
}

impl Internal {
    /// Where it goes, as it is written.
    fn text(&self) -> &[u8] {
        match self {
            Self::Uri(uri) | Self::Literal(uri) | Self::Path(uri) => uri,
            Self::Named(name) => name,
        }
    }
}

/// An answer of our own.
#[derive(Debug)]
pub enum Synth {
    /// A status; an `error_page` may take it.
    Status(u16),
    /// A status that no `error_page` takes.
    Final(u16),
    /// A redirect to a URL or path.
    Redirect(u16, Vec<u8>),
    /// A text of the location's default type.
    Text(u16, Vec<u8>),
}

impl Synth {
    /// Its status.
    pub fn status(&self) -> u16 {
        match self {
            Self::Status(status) | Self::Final(status) | Self::Redirect(status, _) | Self::Text(status, _) => *status,
        }
    }
}

impl From<Refusal> for Synth {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::First => Self::Status(status::INTERNAL_SERVER_ERROR),
            Refusal::Final => Self::Final(status::INTERNAL_SERVER_ERROR),
        }
    }
}

/// A response whose head is in the exchange.
pub struct Response {
    /// The body.
    pub content: Content,
    /// For conditional requests and `expires modified`.
    pub last_modified: Option<u64>,
    /// Which ranges of the body may be asked for.
    pub ranges: Ranges,
    /// Whether conditional requests are answered; not for error pages.
    pub conditional: bool,
}

/// Which ranges of a response may be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// None.
    No,
    /// Any, and `Accept-Ranges` says so.
    Announced,
    /// Any, unannounced: a cached object whose origin did not say.
    Quiet,
    /// Any, and the head stays as a VCL has left it, on a 206 and on a 416.
    Shaped,
}

/// The body of a response.
pub enum Content {
    /// A body of length 0.
    Empty,
    /// No body, and no `Content-Length`: a 101 or a 304.
    NoBody,
    /// Bytes.
    Bytes(Bytes),
    /// A small file that is in memory.
    Kept(Bytes),
    /// A file of this length.
    File(Arc<std::fs::File>, u64),
    /// Bytes, then a part of a file.
    Spliced(Bytes, Arc<std::fs::File>, Range<u64>),
    /// A cached object, as found by lookup; its head is not laid out yet.
    Hit(HitRef),
    /// A cached object, whole or still filling; its head is in the exchange.
    Object(Arc<Object>),
    /// Another form of a cached object; its head is in the exchange.
    Form(Arc<Form>),
    /// An origin's answer as it arrives, and its length when known.
    Stream(BodyReader, Option<u64>),
    /// An origin's answer that came together with its head, and its length if the origin said it.
    Passed(Bytes, Option<u64>),
    /// A page in slices, of which the first is there.
    Slices(Box<slice::Slices>),
}

impl Content {
    /// The page of the cache that it is, in the form in which that is stored.
    pub fn page(&self) -> Option<&Object> {
        match self {
            Self::Hit(page) => Some(page),
            Self::Object(page) => Some(page),
            _ => None,
        }
    }

    /// Its length, when that is known.
    pub fn length(&self) -> Option<u64> {
        match self {
            Self::Empty | Self::NoBody => Some(0),
            Self::Bytes(bytes) | Self::Kept(bytes) => Some(bytes.len() as u64),
            Self::File(_, len) => Some(*len),
            Self::Spliced(bytes, _, rest) => Some(bytes.len() as u64 + (rest.end - rest.start)),
            Self::Hit(object) => object.body.whole().map(Whole::len),
            Self::Form(form) => form.body.whole().map(Whole::len),
            Self::Object(object) => object.body.whole().map(Whole::len).or_else(|| object.fields.content_length()),
            Self::Stream(_, len) | Self::Passed(_, len) => *len,
            Self::Slices(slices) => Some(slices.total()),
        }
    }
}

impl Response {
    /// A response of bytes of our own, which is neither conditional nor sent in ranges.
    pub fn own(content: Content) -> Self {
        Self { content, last_modified: None, ranges: Ranges::No, conditional: false }
    }
}

/// Where [`advance`] stopped.
pub enum Stop {
    /// At a step that waits.
    Slow(Slow),
    /// At a response that is ready to be sent.
    Deliver(Settled),
    /// At the end, with nothing to send.
    Abort,
}

/// Runs a request from `step` to a response of which nothing has been sent; `None` when there is none.
///
/// Everybody who answers a request goes this way: connections, which call [`advance`] first and do the rest in a task,
/// subrequests, slices and refetches.
pub async fn run(step: Step, ex: &mut Exchange, cx: &Cx, from: Inbound<'_>) -> Option<Settled> {
    match advance(step, ex, cx) {
        Stop::Slow(slow) => finish(slow, ex, cx, from).await,
        Stop::Deliver(settled) => Some(settled),
        Stop::Abort => None,
    }
}

/// Runs steps until one has to wait. Where a step could not evaluate a pattern or a variable, whatever it decided gives
/// way to a 500.
pub fn advance(mut step: Step, ex: &mut Exchange, cx: &Cx) -> Stop {
    loop {
        if let Some(refusal) = ex.eval.evaluation.refuse() {
            step = Step::Synth(refusal.into());
        }
        // A step is large: the usual purpose leaves it where it is.
        match ex.request.nested.purpose {
            Purpose::Answer => {}
            Purpose::Slice => step = slice::only_of_slices(step, ex, cx),
            Purpose::Refetch => step = refetch::only_of_refetches(step),
            Purpose::Refill(_) => step = refill::only_of_refills(step, ex, cx),
            Purpose::Read => step = read::only_of_reads(step, ex, cx),
            Purpose::Purge | Purpose::MayPurge => step = dashboard_purge::only_of_purges(step, ex, cx),
            Purpose::Walk => step = walk::only_of_walks(step, ex, cx),
        }
        step = match step {
            Step::Route(entrance) => route::route(entrance, ex, cx),
            Step::Find => route::find_and_enter(ex, cx),
            Step::Redirect(to) => redirect(to, ex, cx),
            Step::Handle => handle::handle(ex, cx),
            Step::Restart => restart(ex, cx),
            Step::Lookup => lookup::lookup(ex, cx),
            Step::LookInZone(zone) => lookup::look_in_zone(zone, ex, cx),
            Step::Page(page) if ex.upstream.part == Part::Asked => part::deliver(page, ex, cx),
            Step::Page(page) => page::deliver(page, ex, cx),
            Step::Synth(synth) => synth::synth(synth, ex, cx),
            Step::Deliver(response) if ex.tally.has_purged => {
                ex.tally.has_purged = false;
                Slow::Known(Box::new(response)).into()
            }
            Step::Deliver(response) => deliver(response, ex, cx).unwrap_or_else(|step| step),
            Step::Send(response) => match settle::settle(response, ex, cx) {
                Ok(settled) => return Stop::Deliver(settled),
                Err(step) => step,
            },
            Step::Part(response) => return Stop::Deliver(Settled::Part(response)),
            Step::Abort => return Stop::Abort,
            Step::Slow(slow) => {
                ex.vcl.turn = None;
                return Stop::Slow(slow);
            }
        };
    }
}

/// The first part of settling a response, which may end in another step; [`settle::settle`] is the second.
fn deliver(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Step, Step> {
    let response = slice::assemble(response, ex, cx)?;
    let response = shaped(response, ex, cx)?;
    if ex.is_sub() {
        return Ok(Step::Part(lay_out_inside(response, ex, cx)));
    }
    let conditional = response.conditional && !esi::is_whole_of_others(&response, ex, cx);
    let response = settle::conditions(Response { conditional, ..response }, ex, cx)?;
    let response = compose::compose(response, ex, cx);
    compress::make_form(response, ex, cx).map(Step::Send)
}

/// Lets the policy of the location change the head of what its cache or its origin answered.
fn shaped(response: Response, ex: &mut Exchange, cx: &Cx) -> Result<Response, Step> {
    let is_ours = matches!(response.content, Content::Empty | Content::NoBody | Content::Bytes(_));
    let Some(origin) = cx.origin(ex).filter(|origin| !is_ours && policy::shapes_responses(origin)) else {
        return Ok(response);
    };
    let response = page::laid_out(response, ex, cx);
    match policy::deliver(origin, ex, cx) {
        Delivery::Go => Ok(response),
        Delivery::Shaped { has_ranges } => {
            let ranges = if has_ranges { Ranges::Shaped } else { Ranges::No };
            Ok(Response { conditional: false, ranges, ..response })
        }
        Delivery::NotModified => {
            ex.reply.status = status::NOT_MODIFIED;
            ex.reply.reason.clear();
            Ok(Response { conditional: false, content: Content::NoBody, ..response })
        }
        Delivery::Turn(turn) => Err(lookup::turned(turn, ex)),
    }
}

/// Begins anew at the location.
fn restart(ex: &mut Exchange, cx: &Cx) -> Step {
    ex.restart();
    match ex.request.way.restarts <= policy::restarts_max(cx.origin(ex)) {
        true => {
            records::restarted(ex, cx);
            Step::Lookup
        }
        false => {
            cx.local.logs.error(cx, ex, LogLevel::Error, format_args!("too many restarts"));
            Step::Synth(Synth::Final(status::SERVICE_UNAVAILABLE))
        }
    }
}

/// Settles the response to a request inside another one, which takes all of it.
pub fn lay_out_inside(response: Response, ex: &mut Exchange, cx: &Cx) -> Response {
    let response = subrequest::lay_out(response, ex, cx);
    compose::compose(response, ex, cx)
}

/// The response of our own to `synth`, unless its `error_page` has to be waited for: then the built-in page.
pub fn answer_now(synth: Step, ex: &mut Exchange, cx: &Cx) -> Option<Settled> {
    let stop = match advance(synth, ex, cx) {
        Stop::Slow(_) => advance(Step::Synth(Synth::Final(status::BAD_REQUEST)), ex, cx),
        stop @ (Stop::Deliver(_) | Stop::Abort) => stop,
    };
    match stop {
        Stop::Deliver(settled) => Some(settled),
        Stop::Slow(_) | Stop::Abort => None,
    }
}

/// Runs steps, waiting where they have to, until there is a response to send; `None` when there is none.
pub async fn finish(mut slow: Slow, ex: &mut Exchange, cx: &Cx, mut from: Inbound<'_>) -> Option<Settled> {
    loop {
        let step = wait(slow, ex, cx, &mut from).await;
        slow = match advance(step, ex, cx) {
            Stop::Slow(slow) => slow,
            Stop::Deliver(settled) => return Some(settled),
            Stop::Abort => return None,
        };
    }
}

/// Does what may take a while.
async fn wait(slow: Slow, ex: &mut Exchange, cx: &Cx, from: &mut Inbound<'_>) -> Step {
    match slow {
        Slow::Delay(delay) => {
            tokio::select! {
                () = tokio::time::sleep(delay) => Step::Route(Entrance::Limits),
                () = from.gone() => access::left(ex, cx),
            }
        }
        Slow::Refuse(delay) => {
            tokio::select! {
                () = tokio::time::sleep(delay) => Step::Synth(Synth::Status(status::UNAUTHORIZED)),
                () = from.gone() => access::left(ex, cx),
            }
        }
        Slow::Verify(verification) => access::verify(*verification, ex, cx).await,
        Slow::Ask(ask) => auth_request::ask(*ask, ex, cx, from).await,
        Slow::ReadBody => request_body::read(ex, cx, from).await,
        Slow::Wait(waiting) => lookup::wait(*waiting, ex, cx).await,
        Slow::Hold(held) => lookup::held(*held, ex, cx).await,
        Slow::Load(loading) => lookup::load(*loading).await,
        Slow::Challenge(token) => acme_challenge::ask(&token, ex, cx).await,
        Slow::Share(sought) => {
            let zone = sought.storing.zone();
            lookup::after_seeking(zone, share::ask(*sought, ex, cx).await, ex, cx)
        }
        Slow::Ban(ban) => ban::ban(*ban, ex, cx).await,
        Slow::Purge(purge) => purge::purge(*purge, ex, cx).await,
        Slow::PurgePages(purges) => purge_from::purge(*purges, ex, cx).await,
        Slow::Known(response) => {
            cx.worker.shared.sharing.known().await;
            Step::Deliver(*response)
        }
        Slow::PurgeUrl(asked) => dashboard_purge::carry_out(*asked, ex, cx).await,
        Slow::Film(film) => film::cut(*film, ex, cx).await,
        Slow::Fetch(plan) => fetch::fetch(plan, ex, cx, from).await,
        Slow::PurgeFirst(first) => answer::purge_first(*first, ex, cx).await,
        Slow::Gather(gather) => answer::gather(*gather, ex, cx).await,
        Slow::Form(wait) => compress::wait(*wait).await,
    }
}

/// Goes to another URI or location, as ngx_http_internal_redirect and ngx_http_named_location.
fn redirect(to: Internal, ex: &mut Exchange, cx: &Cx) -> Step {
    records::rewritten(ex, format_args!("to {}", Shown(to.text())));
    if !route::may_change_uri(ex, cx) {
        return Step::Synth(Synth::Final(status::INTERNAL_SERVER_ERROR));
    }
    ex.leave();
    match to {
        Internal::Named(name) => return Step::Route(Entrance::Named(name)),
        Internal::Uri(uri) => {
            let (path, args) = crate::script::split_uri(&uri);
            ex.request.way.url = Some(url(&path, &args));
            ex.request.uri = path;
            ex.request.args = args;
        }
        Internal::Literal(uri) => match uri.iter().position(|&byte| byte == b'?') {
            Some(at) => {
                ex.request.args = uri[at + 1..].to_vec();
                ex.request.uri = uri;
                ex.request.uri.truncate(at);
            }
            None => {
                ex.request.uri = uri;
                // Without a `?` of its own it loses the request's arguments, as in nginx.
                ex.request.args.clear();
            }
        },
        Internal::Path(path) => ex.request.uri = path,
    }
    ex.request.way.uri_changed = true;
    Step::Route(Entrance::Server)
}
