//! A stored response.

use std::any::Any;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use larder_http::{Fields, Time};
use larder_store::{Body, Reservation};

use crate::bans::Tested;
use crate::came::Came;
use crate::entry::Entry;
use crate::form::{FormState, Forms, Shape};
use crate::prepared::Prepared;
use crate::rfc9111;
use crate::tags::{TagFields, TagHash, Tags};
use crate::url::{Located, Place, Url};
use crate::vary::VaryKey;
use crate::zone::Zone;

/// A stored response: head, body, times. It never changes; to freshen it (RFC 9111 §4.3.4) is to make another object
/// with the same body.
pub struct Object {
    /// The status code, such as 200.
    pub status: u16,
    /// The reason phrase as the origin sent it.
    pub reason: Box<[u8]>,
    /// The header fields as the origin sent them, without hop-by-hop ones.
    pub fields: Fields,
    /// The body; it may still be filling.
    pub body: Body,
    /// When it was stored, or last confirmed by a 304.
    pub stored_at: Time,
    /// Until when it is fresh; it is stale from then on.
    pub fresh_until: Time,
    /// How long after that it may be served while a refetch runs (RFC 5861 §3).
    pub stale_while_revalidate: Duration,
    /// How long after that it may be served instead of an error (RFC 5861 §4).
    pub stale_if_error: Duration,
    /// `Last-Modified`, in seconds since 1970.
    pub last_modified: Option<u64>,
    /// `ETag`, quotes included.
    pub etag: Option<Box<[u8]>>,
    /// Which requests it answers.
    pub vary: VaryKey,
    /// How long the origin took to answer, in µs; zero if unknown.
    pub cost_micros: u32,
    /// The fields as the server sends them with a plain hit: made when the page is stored, or at the first use of one
    /// that comes from disk. `None` in it: they are not the same for every request.
    ///
    /// There is room for one, and the first stays: for a location whose [rules](Prepared::rules) differ the fields are
    /// laid out at every hit, until a fetch or a 304 of that location makes the object anew. A second place would be
    /// reserved with every page, and used only where locations share pages but hide different fields of them.
    pub prepared: OnceLock<Option<Prepared>>,
    /// What the cache keeps with it; `Hold::default()` for a new object.
    pub hold: Hold,
}

/// What the cache keeps with an object: reserved bytes, the updating mark, compressed forms.
#[derive(Default)]
pub struct Hold {
    /// The memory that is reserved for the head in its zone.
    head: OnceLock<Reservation>,
    /// Set while a request refetches this object.
    updating: AtomicBool,
    /// What the last refetch brought for those alone who waited for it.
    shared: ArcSwapOption<Object>,
    /// The zone and entry that keep it; unset until it is kept.
    home: OnceLock<Home>,
    /// Its compressed forms; most objects have none.
    forms: OnceLock<Arc<Forms>>,
    /// What it stands for.
    mark: Mark,
    /// How often it was delivered, where that is counted.
    hits: AtomicU32,
    /// When it was delivered last, where that is counted, in ms since 1970; 0 if it never was.
    hit_at: AtomicU64,
    /// By which bans it was tested.
    pub(crate) tested: Tested,
    /// It was told to who fetches what is soon stale.
    is_announced: AtomicBool,
    /// It was read from a disk, which does not say when it was delivered last.
    is_read: bool,
    /// For a page with ESI: see [`Object::esi_base`].
    esi_base: Option<Box<[u8]>>,
    /// What it can be purged by.
    pub(crate) tags: Tags,
    /// The same.
    pub(crate) located: Located,
    /// What was made of its body: see [`Object::made`].
    made: OnceLock<Made>,
    fetched: Fetched,
}

/// Who has fetched an object. It is not kept on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The address of the origin; `None` if that is not known.
    pub from: Option<Arc<str>>,
    /// For whom.
    pub by: FetchedBy,
    /// Whether the origin has confirmed it since then, by a 304.
    pub is_confirmed: bool,
    /// How the request for it came in; `None` if that is not known.
    pub came: Option<Came>,
}

/// For whom an object was fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FetchedBy {
    /// That is not known.
    #[default]
    Unknown,
    /// A request that waited for it.
    Request,
    /// Nobody in particular: a stale page was fetched anew in the background.
    Background,
}

/// What was made of a body, and the memory that it takes.
struct Made {
    what: Box<dyn Any + Send + Sync>,
    room: Reservation,
    next: OnceLock<Box<Made>>,
}

/// What an object stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mark {
    /// A page.
    #[default]
    Page,
    /// The memory that the page of its key is not to be shared: a request for it does not wait for others.
    HitMiss,
    /// The same, and a request for it is passed.
    HitPass,
}

/// The zone and entry of an object, as weak references.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) zone: Weak<Zone>,
    pub(crate) entry: Weak<Entry>,
}

impl Hold {
    /// That of an object that is no page.
    pub fn marked(mark: Mark) -> Self {
        Self { mark, ..Self::default() }
    }

    /// That of an object that takes the place of another one with the same body: what it stands for, and its hits.
    pub(crate) fn like(old: &Self) -> Self {
        let hits = AtomicU32::new(old.hits.load(Ordering::Relaxed));
        let hit_at = AtomicU64::new(old.hit_at.load(Ordering::Relaxed));
        let tested = Tested::by(old.tested.number());
        let (is_read, esi_base) = (old.is_read, old.esi_base.clone());
        let (tags, located, fetched) = (old.tags.clone(), old.located.clone(), old.fetched.clone());
        Self { mark: old.mark, hits, hit_at, tested, is_read, esi_base, tags, located, fetched, ..Self::default() }
    }

    /// That of a page, with ESI if there is a URL that its includes are relative to.
    pub fn of_page(esi_base: Option<Box<[u8]>>) -> Self {
        Self { esi_base, ..Self::default() }
    }

    /// The same for what can be purged by this URL. Without one, all purges by URLs mean it.
    pub fn at(self, url: Url<'_>) -> Self {
        Self { located: Located::copied(url), ..self }
    }

    /// The same for what was fetched so.
    pub fn fetched(self, fetched: Fetched) -> Self {
        Self { fetched, ..self }
    }

    /// That of a page that was read from a disk.
    pub(crate) fn of_read(esi_base: Option<Box<[u8]>>) -> Self {
        Self { is_read: true, ..Self::of_page(esi_base) }
    }

    #[inline]
    pub(crate) fn forms(&self) -> Option<&Arc<Forms>> {
        self.forms.get()
    }

    /// The forms; an empty set is made if there is none.
    pub(crate) fn make_forms(&self) -> &Arc<Forms> {
        self.forms.get_or_init(Arc::default)
    }

    pub(crate) fn home(&self) -> Option<&Home> {
        self.home.get()
    }
}

impl Object {
    /// Whether it is fresh at `now`.
    #[inline]
    pub fn is_fresh(&self, now: Time) -> bool {
        now < self.fresh_until
    }

    /// Whether its time was over when it came: each request has its origin asked.
    pub fn is_never_fresh(&self) -> bool {
        self.fresh_until <= self.stored_at
    }

    /// Its age at `now`, seconds: that of `Age` when it was stored, and since then (RFC 9111 §4.2.3).
    pub fn age(&self, now: Time) -> u64 {
        let then = rfc9111::age_value(&self.fields).unwrap_or(0);
        then.saturating_add(now.since(self.stored_at).as_secs())
    }

    /// How long it has been stale at `now`; zero while it is fresh.
    pub fn staleness(&self, now: Time) -> Duration {
        now.since(self.fresh_until)
    }

    /// Whether `stale-while-revalidate` lets it be served while a refetch runs.
    pub fn may_serve_while_revalidating(&self, now: Time) -> bool {
        self.is_fresh(now) || self.staleness(now) < self.stale_while_revalidate
    }

    /// Whether `stale-if-error` lets it be served instead of an error.
    pub fn may_serve_if_error(&self, now: Time) -> bool {
        self.is_fresh(now) || self.staleness(now) < self.stale_if_error
    }

    /// The state of the body's form in `shape`. Takes no lock, allocates nothing, and writes nothing.
    #[inline]
    pub fn form(&self, shape: impl Into<Shape>) -> FormState {
        match self.hold.forms() {
            None => FormState::None,
            Some(forms) => forms.look(shape.into()),
        }
    }

    /// What it stands for.
    #[inline]
    pub fn mark(&self) -> Mark {
        self.hold.mark
    }

    /// The URL that the includes of a page with ESI are relative to; `None` for a page without ESI.
    #[inline]
    pub fn esi_base(&self) -> Option<&[u8]> {
        self.hold.esi_base.as_deref()
    }

    /// Passes on its URL; `None` if that is unknown.
    pub fn with_url<T>(&self, look: impl FnOnce(Option<Url<'_>>) -> T) -> T {
        self.with_key(|key| look(self.hold.located.url(key)))
    }

    /// Whether its key has its host, path and query.
    pub(crate) fn has_url_in_key(&self) -> bool {
        matches!(self.hold.located, Located::InKey(_))
    }

    /// Passes on where it is, for tests by its URL; `None` if that is unknown.
    pub fn with_place<T>(&self, look: impl FnOnce(Option<Place<'_>>) -> T) -> T {
        self.with_key(|key| look(self.hold.located.place(key)))
    }

    /// Passes on its key; `None` if it is not kept.
    pub(crate) fn with_key<T>(&self, look: impl FnOnce(Option<&[u8]>) -> T) -> T {
        let entry = self.hold.home().and_then(|home| home.entry.upgrade());
        look(entry.as_ref().map(|entry| entry.key_bytes()).or(self.hold.located.own_key()))
    }

    /// Whether one of these tags is in `fields` of it, or may be.
    pub(crate) fn has_any_tag(&self, tags: &[TagHash], fields: &TagFields) -> bool {
        match self.hold.tags.are_by(fields) {
            true => self.hold.tags.has_any(tags),
            // It was stored when other fields had tags.
            false => Tags::of(&self.fields, fields).has_any(tags),
        }
    }

    /// What [`Object::keep_made`] has kept, if it is a `T`.
    #[inline]
    pub fn made<T: Any>(&self) -> Option<&T> {
        self.all_made().find_map(|made| made.what.downcast_ref())
    }

    fn all_made(&self) -> impl Iterator<Item = &Made> {
        std::iter::successors(self.hold.made.get(), |made| made.next.get().map(|next| &**next))
    }

    /// Keeps what was made of its body, such as the parts of a page with ESI, which takes that many bytes. The first of its
    /// type stays. False if there is one, if there is no room, or if the object is not in a cache.
    pub fn keep_made<T: Any + Send + Sync>(&self, what: T, bytes: usize) -> bool {
        let Some(home) = self.hold.home().filter(|_| self.made::<T>().is_none()) else { return false };
        let Some(zone) = home.zone.upgrade() else { return false };
        let Some(room) = zone.reserve(size_of::<Made>() + size_of::<T>() + bytes) else { return false };
        let made = Made { what: Box::new(what), room, next: OnceLock::new() };
        let is_kept = match self.all_made().last() {
            None => self.hold.made.set(made).is_ok(),
            Some(last) => last.next.set(Box::new(made)).is_ok(),
        };
        if let Some(entry) = home.entry.upgrade() {
            zone.reweigh(&entry);
        }
        is_kept
    }

    /// Who has fetched it.
    pub fn fetched(&self) -> &Fetched {
        &self.hold.fetched
    }

    /// Whether it was read from a disk.
    pub fn is_read(&self) -> bool {
        self.hold.is_read
    }

    /// Counts a delivery, and returns how many there were.
    pub fn count_hit(&self, now: Time) -> u32 {
        self.hold.hit_at.store(now.0, Ordering::Relaxed);
        self.hold.hits.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Counts a delivery, for purges alone.
    #[inline]
    pub fn note_hit(&self) {
        self.hold.hits.fetch_add(1, Ordering::Relaxed);
    }

    /// When the last counted delivery was.
    pub fn hit_at(&self) -> Option<Time> {
        Some(Time(self.hold.hit_at.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
    }

    /// Whether it may have been delivered although [`Object::hit_at`] does not say so: before it was read from a disk.
    pub fn may_have_been_hit(&self) -> bool {
        self.hold.is_read && self.hit_at().is_none()
    }

    /// Whether [`Zone::due`](crate::Zone::due) has told of it.
    pub(crate) fn is_announced(&self) -> bool {
        self.hold.is_announced.load(Ordering::Relaxed)
    }

    pub(crate) fn announce(&self) {
        self.hold.is_announced.store(true, Ordering::Relaxed);
    }

    /// How many deliveries were counted.
    pub fn hits(&self) -> u32 {
        self.hold.hits.load(Ordering::Relaxed)
    }

    /// Whether a request is refetching it.
    pub fn is_updating(&self) -> bool {
        self.hold.updating.load(Ordering::Relaxed)
    }

    /// Takes the right to refetch it, which only one request has at a time. False if another has it.
    pub(crate) fn start_updating(&self) -> bool {
        // A load first: while a refetch runs, other requests write nothing.
        !self.is_updating() && !self.hold.updating.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn stop_updating(&self) {
        self.hold.updating.store(false, Ordering::Release);
    }

    /// Has those who wait for its refetch have `object`, which is not kept.
    pub(crate) fn share(&self, object: Arc<Object>) {
        self.hold.shared.store(Some(object));
    }

    /// What a refetch has brought since then for those alone who waited for it.
    pub fn shared_since(&self, began: Time) -> Option<Arc<Object>> {
        self.hold.shared.load_full().filter(|object| object.stored_at >= began)
    }

    /// Whether memory is reserved for its head, so that it may be kept.
    pub(crate) fn is_charged(&self) -> bool {
        self.hold.head.get().is_some()
    }

    /// Notes that it is kept in `home`, with `head` as the memory of its head.
    pub(crate) fn charge(&self, head: Reservation, home: Home) {
        let _ = self.hold.head.set(head);
        let _ = self.hold.home.set(home);
    }

    /// Takes over the forms of `old`, which it replaces and whose body it has.
    pub(crate) fn take_forms_of(&self, old: &Object) {
        let is_same = match (self.body.whole(), old.body.whole()) {
            (Some(new), Some(old)) => std::ptr::eq(new, old),
            _ => false,
        };
        let Some(forms) = old.hold.forms().filter(|_| is_same) else { return };
        forms.forget_lack_of_room();
        let _ = self.hold.forms.set(Arc::clone(forms));
    }

    /// The bytes reserved for head, body and forms.
    pub(crate) fn reserved(&self) -> usize {
        let forms = self.hold.forms().map_or(0, |forms| forms.reserved());
        let made: usize = self.all_made().map(|made| made.room.bytes()).sum();
        self.hold.head.get().map_or(0, Reservation::bytes) + self.body.reserved() + forms + made
    }

    /// The bytes that the head takes: the value, what it points to, and the allocations around it.
    pub(crate) fn head_bytes(&self) -> usize {
        size_of::<Self>()
            + ALLOCATIONS_BYTES
            + self.reason.len()
            + self.fields.heap_bytes()
            + self.etag.as_ref().map_or(0, |tag| tag.len())
            + self.esi_base().map_or(0, <[u8]>::len)
            + self.hold.tags.heap_bytes()
            + self.hold.tags.hashes().len() * PAIR_BYTES
            + self.hold.located.heap_bytes()
            + self.vary.heap_bytes()
            // What is prepared later is about as long as the fields.
            + match self.prepared.get() {
                Some(prepared) => prepared.as_ref().map_or(0, Prepared::heap_bytes),
                None => self.fields.heap_bytes(),
            }
    }
}

impl std::fmt::Debug for Hold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hold")
            .field("head", &self.head)
            .field("updating", &self.updating)
            .field("forms", &self.forms)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Object")
            .field("status", &self.status)
            .field("body", &self.body)
            .field("fresh_until", &self.fresh_until)
            .finish_non_exhaustive()
    }
}

/// What the index of tags takes for each tag of a page: measured by `benches/purge.rs`.
const PAIR_BYTES: usize = 24;

/// Bytes for the counts of its `Arc`, its node in the list of variants, the shared state of the body, and what the
/// allocator adds to about ten allocations.
const ALLOCATIONS_BYTES: usize = 448;
