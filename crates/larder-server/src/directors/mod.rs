//! What a VCL chooses backends from: its backends with their health, and directors above them.
//!
//! A BACKEND of a VCL with `n` backends is a number:
//!
//! | number      | what                                            |
//! | ----------- | ----------------------------------------------- |
//! | `0..n`      | a backend of the VCL                            |
//! | `n`         | what the location serves without the VCL        |
//! | `n + 1 + k` | the director that is object `k` of the VCL      |
//!
//! A director stays one until a fetch needs a backend: then [`Directors::resolve`] asks it, and what it chooses.

mod counts;
mod fallback;
pub mod hash;
mod health;
mod judge;
mod listing;
mod members;
mod round_robin;
mod shard;
mod weighted;
mod window;

use std::collections::HashSet;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use larder_origin::Group;
use larder_vcl::Policy;
use larder_vcl::policy::Endpoint;
use parking_lot::Mutex;
use tokio::time::Instant;

use members::{MEMBERS_MAX, Member};

pub use counts::{Counted, Counts};
pub use fallback::Fallback;
pub use health::{Admin, Health};
pub use judge::{Judge, Number};
pub use listing::{Listed, ListedMember};
pub use round_robin::RoundRobin;
pub use shard::{Asked, By, Change, Healthy, REPLICAS, Set, Shard, TaskSets};
pub use weighted::{Weighted, place_of};
pub use window::{Answer, Event, Window};

/// The backends and the directors of a VCL. All workers share them.
#[derive(Debug, Default)]
pub struct Directors {
    backends: Vec<Backend>,
    objects: Vec<Object>,
    /// Whether a shard director is among them, whose changes wait for the end of a sub.
    has_shards: bool,
    /// Guards that no director comes below itself: held while members change.
    changing: Mutex<()>,
}

#[derive(Debug)]
struct Backend {
    name: String,
    health: Health,
    /// What has come of it so far; the next VCL with the same backend goes on with it.
    counts: ArcSwap<Counts>,
    /// The servers that it stands for: those of a group beside the VCL, or itself.
    group: ArcSwapOption<Group>,
    /// The probe and the place where it listens, to know it again in the next VCL.
    was: (Option<larder_vcl::policy::Probe>, Option<larder_vcl::policy::Endpoint>),
}

#[derive(Debug)]
struct Object {
    name: String,
    health: Health,
    /// `None` if it was not made, or is no director.
    director: Option<Director>,
}

/// A director.
#[derive(Debug)]
pub enum Director {
    /// `directors.round_robin()`
    RoundRobin(RoundRobin),
    /// `directors.fallback()`
    Fallback(Fallback),
    /// `directors.random()`
    Random(Weighted),
    /// `directors.hash()`: it chooses when it is called, and is no BACKEND itself.
    Hash(Weighted),
    /// `directors.shard()`
    Shard(Shard),
    /// `directors.shard_param()`: not a director, but arguments for some.
    ShardParam(Mutex<Set>),
}

/// Who asks for a backend, and when.
pub struct Asker<'a> {
    /// Now, in seconds since 1970.
    pub now: f64,
    /// Makes random numbers of at least 0 and less than 1.
    pub share: &'a dyn Fn() -> f64,
    /// The key of the page, in a fetch.
    pub page: Option<&'a [u8]>,
    /// The URL.
    pub url: &'a [u8],
    /// What the fetch has said about shard directors.
    pub task: Option<&'a TaskSets>,
}

/// Why the members of a director cannot change so.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// There is no such director.
    #[error("this director was not made")]
    NoDirector,
    /// There are too many.
    #[error("a director has {MEMBERS_MAX} backends at most")]
    TooMany,
}

impl Directors {
    /// Those of a VCL, before any object is made.
    pub fn new(policy: &Policy, now: f64) -> Self {
        let backends = policy.backends.iter().map(|backend| {
            let probe = policy.probe_of(backend);
            let was = (probe.cloned(), backend.endpoint.clone());
            Backend {
                name: backend.name.clone(),
                health: Health::new(probe, now),
                counts: ArcSwap::default(),
                group: ArcSwapOption::empty(),
                was,
            }
        });
        let objects = policy.objects.iter().map(|object| Object {
            name: object.name.clone(),
            health: Health::new(None, now),
            director: None,
        });
        Self { backends: backends.collect(), objects: objects.collect(), has_shards: false, changing: Mutex::default() }
    }

    /// Makes an object a director.
    pub fn make(&mut self, object: usize, director: Director) {
        self.has_shards |= matches!(director, Director::Shard(_));
        if let Some(made) = self.objects.get_mut(object) {
            made.director = Some(director);
        }
    }

    /// Notes for which servers a backend stands.
    pub fn is_group(&self, backend: usize, group: &Arc<Group>) {
        if let Some(backend) = self.backends.get(backend) {
            // In all locations it is the same one; a site that is assembled again has a new one.
            backend.group.store(Some(Arc::clone(group)));
        }
    }

    /// Whether a probe or an operator says that the backend which these servers are is sick.
    pub fn is_sick(&self, group: &Arc<Group>) -> bool {
        let is_it = |backend: &&Backend| backend.group.load().as_ref().is_some_and(|own| Arc::ptr_eq(own, group));
        self.backends.iter().filter(is_it).any(|backend| backend.health.said() == Some(false))
    }

    /// The number of an object as a BACKEND.
    pub fn number(&self, object: usize) -> Number {
        Number::try_from(self.backends.len() + 1 + object).unwrap_or(Number::MAX)
    }

    /// The name of a backend or a director.
    pub fn name(&self, backend: Number) -> Option<&str> {
        match self.backends.get(backend as usize) {
            Some(backend) => Some(&backend.name),
            None => Some(&self.objects.get(self.object(backend)?)?.name),
        }
    }

    /// The backend or director of a name.
    pub fn find(&self, name: &str) -> Option<Number> {
        let backend = self.backends.iter().position(|backend| backend.name == name && backend.was.1.is_some());
        let is_it = |object: &Object| object.name == name && object.is_backend();
        let director = || self.objects.iter().position(is_it).map(|object| self.number(object));
        backend.and_then(|at| Number::try_from(at).ok()).or_else(director)
    }

    /// The director that an object is.
    pub fn director(&self, object: usize) -> Option<&Director> {
        self.objects.get(object)?.director.as_ref()
    }

    /// The object behind the number of a director.
    fn object(&self, backend: Number) -> Option<usize> {
        (backend as usize).checked_sub(self.backends.len() + 1)
    }

    fn director_of(&self, backend: Number) -> Option<(usize, &Director)> {
        let object = self.object(backend)?;
        Some((object, self.director(object)?))
    }

    /// The backend that a director chooses, whatever is in between; a backend is its own. `None` if it chooses none.
    pub fn resolve(&self, backend: Number, asker: &Asker<'_>) -> Option<Number> {
        let mut at = backend;
        // No director is below itself.
        for _ in 0..=self.objects.len() {
            let Some(object) = self.object(at) else { return Some(at) };
            at = match self.director(object)? {
                Director::RoundRobin(director) => director.choose(self)?,
                Director::Fallback(director) => director.choose(self)?,
                Director::Random(director) => director.choose((asker.share)(), self)?,
                Director::Shard(shard) => self.choose_shard(object, shard, Asked::default(), asker)?,
                Director::Hash(_) | Director::ShardParam(_) => return None,
            };
        }
        None
    }

    /// The member that a shard director chooses for these arguments; those that are missing were said before.
    pub fn choose_shard(&self, object: usize, shard: &Shard, asked: Asked, asker: &Asker<'_>) -> Option<Number> {
        let question = self.shard_arguments(object, shard, asked, asker.task).question();
        shard.choose(asker.key(question.by), &question, self, asker.now, asker.share)
    }

    fn shard_arguments(&self, object: usize, shard: &Shard, asked: Asked, task: Option<&TaskSets>) -> Set {
        let before = task.map(|task| task.asked(object)).unwrap_or_default();
        let (set, param) = match asked.param {
            Some(param) => (asked.set, Some(param)),
            None => (asked.set.or(before.set), before.param.or(shard.param())),
        };
        param.map_or(set, |param| set.or(self.set(param, task)))
    }

    /// What a `shard_param` says, for a request or for all.
    pub fn set(&self, object: usize, task: Option<&TaskSets>) -> Set {
        let for_all = match self.director(object) {
            Some(Director::ShardParam(set)) => *set.lock(),
            Some(_) | None => Set::default(),
        };
        task.map_or(for_all, |task| task.get(object).or(for_all))
    }

    /// Adds a member to a director that is no shard. One that has this director among its own would lead back here, and
    /// is left out: false.
    pub fn add(&self, object: usize, backend: Number, weight: f64) -> Result<bool, MemberError> {
        let _changing = self.changing.lock();
        let members = match self.director(object) {
            Some(Director::RoundRobin(director)) => &director.members,
            Some(Director::Fallback(director)) => &director.members,
            Some(Director::Random(director) | Director::Hash(director)) => &director.members,
            Some(Director::Shard(_) | Director::ShardParam(_)) | None => return Err(MemberError::NoDirector),
        };
        if self.contains(backend, object) {
            return Ok(false);
        }
        if members.add(Member { backend, weight }) { Ok(true) } else { Err(MemberError::TooMany) }
    }

    /// Removes a member from a director that is no shard; one that is not there is no error.
    pub fn remove(&self, object: usize, backend: Number) {
        match self.director(object) {
            Some(Director::RoundRobin(director)) => drop(director.members.remove(backend)),
            Some(Director::Fallback(director)) => director.remove(backend),
            Some(Director::Random(director) | Director::Hash(director)) => drop(director.members.remove(backend)),
            Some(Director::Shard(_) | Director::ShardParam(_)) | None => {}
        }
    }

    /// Makes the changes that wait in a shard director: [`Shard::reconfigure`].
    pub fn reconfigure(&self, object: usize, replicas: u32) -> (bool, Vec<String>) {
        let Some(Director::Shard(shard)) = self.director(object) else { return (false, Vec::new()) };
        let _changing = self.changing.lock();
        shard.reconfigure(replicas, |backend| self.contains(backend, object))
    }

    /// Makes the changes that wait in all shard directors, and returns what went wrong.
    pub fn settle(&self) -> Vec<String> {
        // It is asked after each sub, and hardly ever is there one.
        if !self.has_shards {
            return Vec::new();
        }
        let waits = |object: &Object| matches!(&object.director, Some(Director::Shard(shard)) if shard.waits());
        let shards = self.objects.iter().enumerate().filter(|(_, object)| waits(object));
        shards.flat_map(|(at, object)| shown(&object.name, self.reconfigure(at, REPLICAS).1)).collect()
    }

    /// Whether a director is a BACKEND, or one of those below it.
    fn contains(&self, backend: Number, object: usize) -> bool {
        let (mut seen, mut open) = (HashSet::from([backend]), vec![backend]);
        while let Some(at) = open.pop() {
            if at == self.number(object) {
                return true;
            }
            open.extend(self.members(at).into_iter().filter(|member| seen.insert(*member)));
        }
        false
    }

    /// The members of a director; a backend has none.
    fn members(&self, backend: Number) -> Vec<Number> {
        let members = match self.director_of(backend) {
            Some((_, Director::RoundRobin(director))) => director.members.now(),
            Some((_, Director::Fallback(director))) => director.members.now(),
            Some((_, Director::Random(director) | Director::Hash(director))) => director.members.now(),
            Some((_, Director::Shard(shard))) => return shard.backends(),
            Some((_, Director::ShardParam(_))) | None => return Vec::new(),
        };
        members.iter().map(|member| member.backend).collect()
    }

    /// Whether one of the members of a director is healthy. A request may ask, so it allocates nothing.
    fn has_healthy_member(&self, backend: Number) -> bool {
        let members = match self.director_of(backend) {
            Some((_, Director::RoundRobin(director))) => director.members.now(),
            Some((_, Director::Fallback(director))) => director.members.now(),
            Some((_, Director::Random(director) | Director::Hash(director))) => director.members.now(),
            Some((_, Director::Shard(_) | Director::ShardParam(_))) | None => {
                return self.members(backend).into_iter().any(|member| self.is_healthy(member));
            }
        };
        members.iter().any(|member| self.is_healthy(member.backend))
    }

    /// Whether one of the servers that a backend stands for may be asked now; `None` if it is no group.
    fn group_is_up(&self, backend: Number) -> Option<bool> {
        let backend = self.backends.get(backend as usize)?;
        if !matches!(backend.was.1, Some(Endpoint::Upstream(_))) {
            return None;
        }
        let group = backend.group.load();
        group.as_ref().map(|group| group.is_up(Instant::now()))
    }

    /// The health of a backend or a director.
    fn health(&self, backend: Number) -> Option<&Health> {
        match self.backends.get(backend as usize) {
            Some(backend) => Some(&backend.health),
            None => Some(&self.objects.get(self.object(backend)?)?.health),
        }
    }

    /// Notes what came of a probe of a backend. Returns what the probe says now if its opinion has changed.
    pub fn note(&self, backend: usize, answer: Answer, now: f64) -> Option<Window> {
        self.backends.get(backend)?.health.add(answer, now)
    }

    /// What the probe of a backend has found, if it has one.
    pub fn window(&self, backend: usize) -> Option<Window> {
        self.backends.get(backend)?.health.window()
    }

    /// Goes on with what is known about the backends of the VCL that this one takes the place of: those of the same
    /// name and address.
    pub fn take_over(&self, old: &Directors) {
        for backend in &self.backends {
            let is_it = |old: &&Backend| old.name == backend.name && old.was.1 == backend.was.1;
            if let Some(old) = old.backends.iter().find(is_it) {
                backend.health.take_over(&old.health, is_same(&backend.was.0, &old.was.0));
                backend.counts.store(old.counts.load_full());
            }
        }
        for object in &self.objects {
            if let Some(old) = old.objects.iter().find(|old| old.name == object.name) {
                object.health.take_over(&old.health, false);
            }
        }
    }

    /// Goes on with what another VCL has found out about the same backends, by the same probes.
    pub fn learn_from(&self, other: &Directors) {
        for backend in &self.backends {
            let is_it = |old: &&Backend| {
                old.name == backend.name && old.was.1 == backend.was.1 && is_same(&backend.was.0, &old.was.0)
            };
            if let Some(old) = other.backends.iter().find(is_it) {
                backend.health.learn_from(&old.health);
            }
        }
    }
}

/// Whether two probes ask the same and judge alike, wherever they are declared.
fn is_same(one: &Option<larder_vcl::policy::Probe>, other: &Option<larder_vcl::policy::Probe>) -> bool {
    let placeless = |probe: &Option<larder_vcl::policy::Probe>| {
        probe.clone().map(|probe| larder_vcl::policy::Probe { name: None, span: larder_conf::Span::NOWHERE, ..probe })
    };
    placeless(one) == placeless(other)
}

/// Notes about a shard director, as Varnish logs them.
pub fn shown(director: &str, notes: Vec<String>) -> impl Iterator<Item = String> {
    notes.into_iter().map(move |note| format!("vmod_directors: shard {director}: {note}"))
}

impl Object {
    /// Whether it can be a BACKEND.
    fn is_backend(&self) -> bool {
        match self.director {
            Some(
                Director::RoundRobin(_)
                | Director::Fallback(_)
                | Director::Random(_)
                | Director::Hash(_)
                | Director::Shard(_),
            ) => true,
            Some(Director::ShardParam(_)) | None => false,
        }
    }
}

impl Asker<'_> {
    /// The number that a shard director looks up.
    pub fn key(&self, by: By) -> u32 {
        match by {
            By::Key(key) | By::Blob(key) => key,
            By::Hash => self.page.map_or_else(|| hash::hash(self.url), hash::of_page),
            By::Url => hash::hash(self.url),
        }
    }
}

impl Judge for Directors {
    fn is_healthy(&self, backend: Number) -> bool {
        if self.backends.get(backend as usize).is_some_and(|backend| backend.was.1.is_none()) {
            return false;
        }
        let said = self.health(backend).and_then(Health::said);
        said.unwrap_or_else(|| match self.director_of(backend) {
            None if let Some(is_up) = self.group_is_up(backend) => is_up,
            // What the location serves without the VCL, a backend without a probe, and a hash, which has no opinion.
            None | Some((_, Director::Hash(_))) => true,
            Some(_) => self.has_healthy_member(backend),
        })
    }

    fn changed(&self, backend: Number) -> f64 {
        let Some(health) = self.health(backend) else { return 0.0 };
        if self.director_of(backend).is_none() || health.admin() != Admin::Auto {
            return health.changed();
        }
        let mut last: f64 = 0.0;
        for member in self.members(backend) {
            last = last.max(self.changed(member));
            if self.is_healthy(member) {
                break;
            }
        }
        last
    }
}
