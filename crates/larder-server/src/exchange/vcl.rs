//! What a VCL knows of a request, beyond the messages themselves.

use std::rc::Rc;
use std::sync::Arc;

use larder_cache::Object;
use larder_http::{RequestHead, ResponseHead, Time};
use larder_vcl::program::At;
use larder_vcl::run::Machine;
use larder_vcl::steps::Step;

use crate::directors::TaskSets;
use crate::pipes::Pipe;

use super::{KEPT_BYTES_MAX, ModuleTask, RequestBody};

/// The state of a request that a VCL decides about.
#[derive(Default)]
pub struct VclState {
    /// What runs the subs: not there before the first, and while one runs.
    pub machine: Option<Box<Machine>>,
    /// The request as it was before the first sub.
    pub original: RequestHead,
    /// Whether something has changed it since.
    pub is_changed: bool,
    /// The time, while the request has not waited since it was read.
    pub turn: Option<Time>,
    /// The client's side.
    pub client: ClientTask,
    /// The backend's side.
    pub fetch: FetchTask,
    /// The page that was found, while one is.
    pub page: Option<Arc<Object>>,
    /// The place of the backend among the origins of the location. It says also which VCL decides, as each has its own.
    pub origin: usize,
    /// The body that a VCL makes up.
    pub body: Vec<u8>,
}

/// What the client's side knows. It outlives restarts.
#[derive(Clone, Default)]
pub struct ClientTask {
    /// The number of the request; 0 before the first sub, unless the transaction log is told of it.
    pub xid: u64,
    /// Whether its fields have been made ready for the first sub.
    pub is_ready: bool,
    /// `req.backend_hint`; `None` until it is set.
    pub hint: Option<Option<u32>>,
    /// `req.hash_always_miss`
    pub always_miss: bool,
    /// `req.hash_ignore_busy`
    pub ignore_busy: bool,
    /// `req.hash_ignore_vary`
    pub ignore_vary: bool,
    /// `req.grace`
    pub grace: Option<f64>,
    /// `req.ttl`, `req.max_age`
    pub max_age: Option<f64>,
    /// Where the body of the request may go.
    pub body: BodyUse,
    /// `client.identity`
    pub identity: Option<Vec<u8>>,
    /// `req.is_hitmiss`
    pub is_hitmiss: bool,
    /// `req.is_hitpass`
    pub is_hitpass: bool,
    /// Which sub has passed it, and by which instruction; of use while it is passed.
    pub passed_by: Option<(Step, At)>,
    /// Whether the response is a page that was found.
    pub is_hit: bool,
    /// Since when it has waited for the refetch of a stale page: what came since then is fresh to it, however short its
    /// time is.
    pub waited_since: Option<Time>,
    /// Whether a page in gzip is unpacked for this client.
    pub unpacks: bool,
    /// `req.esi = false` and `resp.do_esi = false`.
    pub skips_esi: bool,
    /// `resp.filters`, once it was set.
    pub filters: Option<Vec<u8>>,
    /// `req.esi_level`
    pub esi_level: u32,
    /// `req_top`; `None` for a request that is the top itself.
    pub top: Option<Rc<Top>>,
    /// What modules keep.
    pub modules: ModuleTask,
}

/// Where the body of a request may go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BodyUse {
    /// To one backend.
    #[default]
    Once,
    /// To none: a backend has got it.
    Gone,
    /// To none: `unset bereq.body` has dropped it.
    Dropped,
    /// To any number of them: `std.cache_req_body()` has kept it.
    Kept,
}

/// The request at the top of ESI includes, when its page is delivered.
pub struct Top {
    /// Its head.
    pub head: RequestHead,
    /// When it began.
    pub started: Time,
}

/// What the backend's side knows: a fetch with its retries.
#[derive(Default)]
pub struct FetchTask {
    /// How far it is.
    pub stage: Stage,
    /// The number of the fetch.
    pub xid: u64,
    /// When it began, in seconds since 1970.
    pub started: f64,
    /// The request for the backend.
    pub bereq: RequestHead,
    /// The same before the first sub.
    pub original: RequestHead,
    /// `bereq.uncacheable`: whether the request was passed.
    pub is_uncacheable: bool,
    /// The pipe, if it is that of one.
    pub pipe: Option<Pipe>,
    /// Whether the body of the request goes with it.
    pub has_body: bool,
    /// The body that does not, while the request is that of the fetch.
    pub unsent: RequestBody,
    /// `bereq.backend`: a backend, or a director.
    pub backend: Option<u32>,
    /// `beresp.backend`: the backend that is asked.
    pub resolved: Option<u32>,
    /// What it has said about shard directors.
    pub shards: TaskSets,
    /// `bereq.retries`
    pub retries: u32,
    /// `bereq.connect_timeout`, in seconds.
    pub connect_timeout: Option<f64>,
    /// `bereq.first_byte_timeout`, in seconds.
    pub first_byte_timeout: Option<f64>,
    /// `bereq.between_bytes_timeout`, in seconds.
    pub between_bytes_timeout: Option<f64>,
    /// The answer.
    pub beresp: ResponseHead,
    /// What is done with it.
    pub answer: AnswerTask,
    /// The numbers of the bans that it has made, the first and the last: what it brings is newer.
    pub bans: Option<(u64, u64)>,
    /// What modules keep.
    pub modules: ModuleTask,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It has not begun.
    #[default]
    New,
    /// Its request was made, and may be sent.
    Asking,
    /// It was answered, and is to be tried again.
    Again,
}

/// What is done with an answer. Times are in seconds.
#[derive(Clone, Debug, Default)]
pub struct AnswerTask {
    /// When the origin made it, since 1970.
    pub origin: f64,
    /// Until when it is fresh, since 1970.
    pub fresh_until: f64,
    /// `beresp.grace`
    pub grace: f64,
    /// `beresp.keep`
    pub keep: f64,
    /// `beresp.uncacheable`
    pub is_uncacheable: bool,
    /// Whether requests for the page are to be passed.
    pub is_hitpass: bool,
    /// `beresp.do_gzip`
    pub do_gzip: bool,
    /// `beresp.do_gunzip`
    pub do_gunzip: bool,
    /// `beresp.do_stream`
    pub do_stream: bool,
    /// `beresp.do_esi`
    pub do_esi: bool,
    /// `beresp.filters`, once it was set.
    pub filters: Option<Vec<u8>>,
    /// The URL that its includes are relative to, once ESI was found in its body.
    pub esi_base: Option<Box<[u8]>>,
    /// `beresp.was_304`
    pub was_304: bool,
    /// Whether it is that of `vcl_backend_error`.
    pub is_made: bool,
    /// When its head was there, since 1970.
    pub time: f64,
}

impl VclState {
    /// Forgets the request. Buffers keep their memory, unless they have grown large.
    pub(super) fn reset(&mut self) {
        let Self { machine, original: _, is_changed, turn, client, fetch, page, origin, body } = self;
        *is_changed = false;
        *turn = None;
        if let Some(machine) = machine {
            machine.shrink_to(KEPT_BYTES_MAX);
        }
        if client.xid != 0 || client.top.is_some() {
            *client = ClientTask::default();
        }
        fetch.reset();
        *page = None;
        *origin = 0;
        body.clear();
        body.shrink_to(KEPT_BYTES_MAX);
    }

    /// A copy for a fetch that runs beside the request.
    pub(super) fn again(&self) -> Self {
        Self {
            original: if self.is_changed { self.original.clone() } else { RequestHead::default() },
            is_changed: self.is_changed,
            client: self.client.clone(),
            origin: self.origin,
            ..Self::default()
        }
    }
}

impl FetchTask {
    /// Forgets the fetch.
    pub fn reset(&mut self) {
        if self.stage == Stage::New && self.xid == 0 && !self.is_uncacheable {
            return;
        }
        let (mut bereq, mut original) = (std::mem::take(&mut self.bereq), std::mem::take(&mut self.original));
        bereq.clear();
        original.clear();
        *self = Self { bereq, original, ..Self::default() };
    }
}
