//! The context of a request's steps: the worker, and the configuration under which the request runs.

use larder_cache::Zone;
use std::rc::Rc;
use std::sync::Arc;

use crate::clock;
use crate::exchange::Exchange;
use crate::local::Local;
use crate::site::{Handler, Loc, Origin, Site, VirtualServer};
use crate::stats::Stats;
use crate::worker::Worker;

/// The worker and the configuration. Cheap to clone: two counts of this thread only.
#[derive(Clone)]
pub struct Cx {
    /// The worker.
    pub worker: Rc<Worker>,
    /// The worker's part of the configuration.
    pub local: Rc<Local>,
}

impl Cx {
    /// The configuration.
    pub fn site(&self) -> &Site {
        &self.local.site
    }

    /// The location of `ex`.
    pub fn loc<'a>(&'a self, ex: &Exchange) -> &'a Loc {
        &self.site().locations[ex.request.location]
    }

    /// The origin of that location, if one answers.
    pub fn origin<'a>(&'a self, ex: &Exchange) -> Option<&'a Origin> {
        match &self.loc(ex).handler {
            Handler::Vcl(origins) => origins.get(ex.vcl.origin),
            handler => handler.origin(),
        }
    }

    /// A cache zone, by its place in the site.
    pub fn zone(&self, index: usize) -> &Arc<Zone> {
        &self.site().caches.zones[index]
    }

    /// The virtual server of `ex`.
    pub fn server<'a>(&'a self, ex: &Exchange) -> &'a VirtualServer {
        &self.site().servers[ex.request.server]
    }

    /// The time of day.
    pub fn now(&self) -> larder_http::Time {
        clock::now()
    }

    /// The worker's counters.
    pub fn stats(&self) -> &Stats {
        &self.worker.stats
    }
}

impl Worker {
    /// The context of a request that begins now.
    pub fn cx(self: &Rc<Self>) -> Cx {
        Cx { worker: Rc::clone(self), local: self.local() }
    }
}
