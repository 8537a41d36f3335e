//! ESI: the includes of a page (Varnish: `cache_esi_deliver.c`).
//!
//! Each is a request of its own, from the rewrites of the server on, so that a VCL sees it like any other; what it
//! brings goes in the place of its element. Varnish waits for each before the next, and an origin may count on it: so
//! does larder while they come quickly. When one does not, all others are asked for at once.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use larder_cache::Object;
use larder_conf::model::{Esi, LogLevel};
use larder_http::{Coding, Fields, Known, Version};
use tokio::sync::mpsc;

use crate::context::Cx;
use crate::exchange::{Exchange, RequestBody, Top};
use crate::files::etag::weaken_etag;
use crate::filter::esi::{Event, Findings, Include, Parser, Rules};
use crate::policy;
use crate::records;

use super::compose::parts::{
    Attempt, Except, Fallback, Inner, OnError, PARTS_MAX, Page, Part, Pending, Unwanted, Wait,
};
use super::origin_request::passed_on::CONDITIONAL;
use super::pieces::Pieces;
use super::{Content, Response, subrequest};
use at_once::{AtOnce, Begun};
use read::READ_BYTES;
use way::{Item, Tried, Way, visitor};

pub mod at_once;
mod directive;
mod personal;
mod read;
mod way;

pub use personal::is_personal;
pub use read::EFFORT;

/// What is known of a page with ESI before it is read.
#[derive(Clone)]
pub struct Includes {
    /// The URL that includes are relative to.
    base: Rc<[u8]>,
    rules: Rules,
    /// How deep they may lie in each other.
    depth_max: u32,
    /// Whether there is no VCL that decides.
    is_by_directive: bool,
    /// What becomes of one that fails: [`OnError::End`] is for those without `onerror="continue"`.
    on_error: OnError,
}

/// How many includes a request may lead to, on all levels: a page that includes itself ten times would have a hundred
/// thousand on the fifth.
const INCLUDES_MAX: usize = 10_000;
/// How long a page waits for an include before it asks for the next.
const PATIENCE: Duration = Duration::from_millis(10);

impl Includes {
    /// What becomes of an include that fails.
    fn on_error(&self, include: &Include) -> OnError {
        match self.on_error {
            OnError::End if include.goes_on => OnError::Skip,
            on_error => on_error,
        }
    }

    /// The same in an attempt, which ends with an include that fails.
    fn of_an_attempt(&self) -> Self {
        Self { on_error: OnError::End, ..self.clone() }
    }
}

/// What a response includes; `None` if it goes out as it is.
pub fn of(content: &Content, ex: &mut Exchange, cx: &Cx) -> Option<Includes> {
    if matches!(content, Content::NoBody | Content::Empty) {
        return None;
    }
    if is_by_directive(ex, cx) {
        return directive::includes(content, ex, cx);
    }
    let policy = policy::esi(cx.origin(ex)?, ex)?;
    let parameters = &policy.parameters;
    Some(Includes {
        base: ex.reply.esi_base.as_deref()?.into(),
        rules: policy::vcl::esi_rules(policy),
        depth_max: parameters.max_esi_depth,
        is_by_directive: false,
        on_error: if parameters.features.esi_include_onerror { OnError::End } else { OnError::Show },
    })
}

/// Says in a request to an origin that its page may have ESI, where `larder_esi` says so. Returns what the client has said
/// of itself, for [`withdraw`].
pub fn announce(ex: &mut Exchange, cx: &Cx) -> Option<Vec<Vec<u8>>> {
    is_by_directive(ex, cx).then(|| {
        let fields = &mut ex.asked.head.fields;
        let own = fields.get_all(directive::CAPABILITY.0).map(<[u8]>::to_vec).collect();
        fields.set(directive::CAPABILITY.0, directive::CAPABILITY.1);
        // What comes of its pages has other ones, and is not asked for in parts.
        fields.remove_known(CONDITIONAL);
        own
    })
}

/// Takes back what [`announce`] has said, when it is written: includes begin with what the client sent.
pub fn withdraw(own: Option<Vec<Vec<u8>>>, ex: &mut Exchange) {
    let Some(own) = own else { return };
    let fields = &mut ex.asked.head.fields;
    fields.remove(directive::CAPABILITY.0);
    for value in own {
        fields.push(directive::CAPABILITY.0.as_bytes(), &value);
    }
}

/// Whether a response is a page that is put together without a VCL: its own validators are not those of the whole.
pub fn is_whole_of_others(response: &Response, ex: &Exchange, cx: &Cx) -> bool {
    is_by_directive(ex, cx) && directive::reads(&response.content, ex, cx)
}

/// Whether `larder_esi` decides, and not a VCL.
fn is_by_directive(ex: &Exchange, cx: &Cx) -> bool {
    cx.loc(ex).settings.subrequests.esi != Esi::Off && !cx.origin(ex).is_some_and(policy::shapes_responses)
}

/// Whether the whole is sent in gzip: its page is, and the client takes it.
pub fn packs(ex: &Exchange) -> bool {
    is_gzip(&ex.reply.fields) && !ex.is_sub() && policy::vcl::takes_gzip(ex)
}

fn is_gzip(fields: &Fields) -> bool {
    fields.get_known(Known::ContentEncoding).and_then(Coding::parse) == Some(Coding::Gzip)
}

/// Makes the head that of the whole. Returns when that was modified, if that is known.
///
/// With a VCL the validators of the page are those of the whole, as in Varnish; else nobody would see that an include has
/// changed.
pub fn adapt(fields: &mut Fields, includes: &Includes, last_modified: Option<u64>) -> Option<u64> {
    fields.remove("Accept-Ranges");
    if !includes.is_by_directive {
        weaken_etag(fields);
        return last_modified;
    }
    for name in ["Last-Modified", "ETag"] {
        fields.remove(name);
    }
    None
}

/// Makes the copy of a request for its page: includes begin with what the client sent, whatever a VCL made of it.
pub fn prepare(copy: &mut Exchange, ex: &Exchange) {
    let top = || Rc::new(Top { head: ex.asked.head.clone(), started: ex.asked.started });
    copy.vcl.client.top.get_or_insert_with(top);
    if ex.vcl.is_changed {
        copy.asked.head.copy_from(&ex.vcl.original);
    }
}

/// Puts a stored page together as far as nothing has to be waited for. `copy` is the request as its includes begin with it.
pub fn at_once(
    content: &Content,
    is_packed: bool,
    includes: &Includes,
    copy: &Exchange,
    ex: &Exchange,
    cx: &Cx,
) -> AtOnce {
    let Some(page) = content.page() else { return AtOnce::Not };
    // As whoever reads it as it comes sees it.
    let is_gzip = is_gzip(&ex.reply.fields);
    let is_coded = ex.reply.fields.contains_known(Known::ContentEncoding);
    let loc = cx.loc(ex);
    // What filters make of it is not what was read.
    if is_coded && !is_gzip || loc.modules.sub.is_some() || loc.fields.charset.is_some() {
        return AtOnce::Not;
    }
    at_once::run(page, (is_gzip, is_packed), includes, copy, cx)
}

/// Reads `source` to its end, and includes what it says.
pub async fn run(page: &mut Page, mut source: Pieces, includes: &Includes) -> Result<(), Unwanted> {
    let mut parser = Parser::new(includes.rules);
    let (mut events, mut way) = (Vec::new(), Way::default());
    loop {
        let mut piece = match source.next(&page.cx).await {
            Ok(Some(piece)) => piece,
            Ok(None) => break,
            Err(why) => return Err(page.cut_off(why).await),
        };
        while !piece.is_empty() {
            let part = piece.split_to(piece.len().min(READ_BYTES));
            parser.feed(&part, &mut events);
            done(&mut events, &mut way, page, includes).await?;
        }
    }
    let findings = parser.finish(&mut events);
    // With a VCL they were logged when it was fetched.
    if includes.is_by_directive {
        tell(&findings, page.ex.upstream.page.upgrade().as_deref(), &page.ex, &page.cx);
    }
    done(&mut events, &mut way, page, includes).await
}

/// Goes on with a page that has begun.
pub async fn go_on(page: &mut Page, mut begun: Begun, includes: &Includes) -> Result<(), Unwanted> {
    page.text(std::mem::take(&mut begun.text)).await?;
    let mut way = begun.way();
    let next = begun.next_include().and_then(|include| include.seen_by(&visitor(&page.ex)).ok());
    let fallback = fallback(next.as_deref(), includes, page);
    match begun.next.take() {
        None => {}
        Some((Pending::Failed(why), OnError::End)) => return Err(page.fail(why).await),
        Some((pending, on_error)) => {
            page.include(Inner::Begun(pending), fallback, Wait::AtMost(PATIENCE), on_error).await?;
        }
    }
    for found in begun.rest() {
        if let Some(item) = way.take(found, &visitor(&page.ex)) {
            put_in(item, page, includes).await?;
        }
    }
    Ok(())
}

/// Does what was read.
async fn done(events: &mut Vec<Event>, way: &mut Way, page: &mut Page, includes: &Includes) -> Result<(), Unwanted> {
    for event in events.drain(..) {
        if let Some(item) = way.take((&event).into(), &visitor(&page.ex)) {
            put_in(item, page, includes).await?;
        }
    }
    Ok(())
}

/// Puts something into the whole.
async fn put_in(item: Item<'_>, page: &mut Page, includes: &Includes) -> Result<(), Unwanted> {
    match item {
        Item::Text(bytes) => page.text(bytes).await,
        Item::Packed(segment) => page.packed(segment).await,
        Item::Include(include) => one(&include, page, includes).await,
        Item::Broken(why) => broken(why.into_owned(), includes.on_error, page).await,
        Item::Try(tried) => attempt(*tried, page, includes).await,
    }
}

/// The same for several. The future is boxed, as attempts lie in each other.
fn put_in_all<'a>(
    items: Vec<Item<'a>>,
    page: &'a mut Page,
    includes: &'a Includes,
) -> Pin<Box<dyn Future<Output = Result<(), Unwanted>> + 'a>> {
    Box::pin(async move {
        for item in items {
            put_in(item, page, includes).await?;
        }
        Ok(())
    })
}

/// Puts an attempt in, or its except. Whoever joins the whole sees which, when it is the turn of this.
async fn attempt(tried: Tried, page: &mut Page, includes: &Includes) -> Result<(), Unwanted> {
    let Tried { attempt, except } = tried;
    let (parts, incoming) = mpsc::channel(PARTS_MAX);
    let except = excepted(except, page, includes);
    let shared = Rc::clone(page.ex.request.nested.ssi.get_or_insert_default());
    let attempted = Attempt { parts: incoming, except, shared };
    page.parts.send(Part::Attempt(Box::new(attempted))).await.map_err(|_| Unwanted)?;
    let whole = std::mem::replace(&mut page.parts, parts);
    // One that fails is no end of the page.
    let _ = put_in_all(attempt, page, &includes.of_an_attempt()).await;
    page.parts = whole;
    Ok(())
}

/// What makes an except, if it comes to that.
fn excepted(items: Vec<Item<'static>>, page: &Page, includes: &Includes) -> Except {
    let (ex, cx, includes) = (page.ex.for_page(), page.cx.clone(), includes.clone());
    let (composed, leave) = (Rc::clone(&page.composed), page.leave.clone());
    Box::new(move |why, parts| {
        Box::pin(async move {
            say(LogLevel::Warn, &format!("<esi:except> goes in: {why}"), &ex, &cx);
            let mut page = Page { ex, cx, composed, parts, leave, is_slow: false };
            let _ = put_in_all(items, &mut page, &includes).await;
        })
    })
}

/// Includes one page.
async fn one(include: &Include, page: &mut Page, includes: &Includes) -> Result<(), Unwanted> {
    let on_error = includes.on_error(include);
    let inner =
        counted(&page.ex, includes, &page.cx).and_then(|()| request(include, &includes.base, &page.ex, &page.cx));
    match inner {
        Ok(inner) => {
            let fallback = fallback(Some(include), includes, page);
            page.include(Inner::New(inner), fallback, Wait::AtMost(PATIENCE), on_error).await
        }
        Err(why) => broken(why, on_error, page).await,
    }
}

/// Does what is to be done for an include that is not asked for.
async fn broken(why: String, on_error: OnError, page: &mut Page) -> Result<(), Unwanted> {
    failed(&why, &page.ex, &page.cx);
    // Of these there may be many in a row, and nothing else waits for anything.
    tokio::task::coop::consume_budget().await;
    match on_error {
        OnError::Show | OnError::Skip => Ok(()),
        OnError::End => Err(page.fail(why).await),
    }
}

/// Logs what is broken in a page, once for one that is in the cache.
fn tell(findings: &Findings, stored: Option<&Object>, ex: &Exchange, cx: &Cx) {
    struct Told;
    if let Some(stored) = stored.filter(|_| findings.faults > 0) {
        if stored.made::<Told>().is_some() {
            return;
        }
        stored.keep_made(Told, 0);
    }
    cx.stats().esi_errors.add(findings.faults);
    if let Some(told) = findings.told() {
        cx.local.logs.error(cx, ex, LogLevel::Warn, format_args!("{told}"));
    }
}

/// What stands in for the answer to an include.
fn fallback(include: Option<&Include>, includes: &Includes, page: &Page) -> Fallback {
    let other = include.and_then(|include| other_of(include, includes, &page.ex, &page.cx));
    other.map_or(Fallback::None, Fallback::Other)
}

/// The request that an include makes if its first fails. Varnish knows none, so with a VCL there is none.
fn other_of(include: &Include, includes: &Includes, page: &Exchange, cx: &Cx) -> Option<Box<Exchange>> {
    let alt = include.alt.as_ref().filter(|_| includes.is_by_directive)?;
    request(alt, &includes.base, page, cx).inspect_err(|why| failed(why, page, cx)).ok()
}

/// Says why an include failed before it was asked for.
fn failed(why: &str, ex: &Exchange, cx: &Cx) {
    say(LogLevel::Error, why, ex, cx);
}

/// Logs something once a request: a page could have thousands of it.
fn say(level: LogLevel, what: &str, ex: &Exchange, cx: &Cx) {
    if ex.request.nested.ssi.as_ref().is_some_and(|shared| !shared.is_news(what)) {
        return;
    }
    cx.local.logs.error(cx, ex, level, format_args!("ESI: {what}"));
}

/// Counts an include. An error says that there are too many, in each other or at all.
fn counted(ex: &Exchange, includes: &Includes, cx: &Cx) -> Result<(), String> {
    if ex.vcl.client.esi_level >= includes.depth_max {
        let limit = if includes.is_by_directive { "" } else { " (max_esi_depth)" };
        return Err(format!("includes lie in each other more than {} deep{limit}", includes.depth_max));
    }
    let Some(shared) = &ex.request.nested.ssi else { return Ok(()) };
    let all = shared.includes.get() + 1;
    if all > INCLUDES_MAX {
        return Err(format!("more than {INCLUDES_MAX} includes in one request"));
    }
    shared.includes.set(all);
    cx.stats().esi_includes.add(1);
    Ok(())
}

/// The request that an include makes: a GET with what the client sent to the page, but for its body and conditions.
fn request(include: &Include, base: &[u8], page: &Exchange, cx: &Cx) -> Result<Box<Exchange>, String> {
    let target = include.target(base);
    let shown = || String::from_utf8_lossy(&target).into_owned();
    let Some(mut inner) = subrequest::begin(page, b"", b"", cx) else {
        return Err(format!("\"{}\" cannot be included here", shown()));
    };
    let outer = &page.vcl.client;
    inner.vcl.client.esi_level = outer.esi_level + 1;
    inner.vcl.client.top.clone_from(&outer.top);
    inner.request.nested.place = include.place.max(page.request.nested.place);
    inner.request.body = RequestBody::None;
    // It is asked for as it is written, and not as it is found.
    inner.request.way.uri_changed = false;
    inner.request.way.url = None;
    let head = &mut inner.asked.head;
    head.version = Version::Http11;
    head.ask(b"GET", &target);
    head.fields.retain(|known, _, _| !matches!(known, Known::ContentLength | Known::TransferEncoding | Known::Expect));
    if let Some(host) = &include.host {
        head.fields.set("Host", host);
        inner.request.host.clear();
        larder_http::normalise_host(host, &mut inner.request.host)
            .map_err(|_| format!("\"{}\" is no host", String::from_utf8_lossy(host)))?;
    }
    let merge = cx.server(&inner).client.merge_slashes;
    let parts = larder_http::normalise(inner.asked.head.target(), merge, &mut inner.request.uri)
        .map_err(|_| format!("\"{}\" is no URL", shown()))?;
    if let Some(args) = parts.args {
        inner.request.args.extend_from_slice(&inner.asked.head.target()[args]);
    }
    records::begin_inside(page, &mut inner, "esi", cx);
    Ok(inner)
}
