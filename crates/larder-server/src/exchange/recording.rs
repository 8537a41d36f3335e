//! What the transaction log is told of an exchange, while it is told anything.

use std::rc::Rc;

use crate::vsl::Open;

/// The transactions that an exchange is told by.
#[derive(Default)]
pub struct Recording {
    /// The client's request; for a fetch beside it, the request that has begun the fetch.
    pub client: Option<Rc<Open>>,
    /// The fetch.
    pub fetch: Option<Rc<Open>>,
}

impl Recording {
    /// Whether anything is told.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.client.is_some() || self.fetch.is_some()
    }

    /// The one that what happens now belongs to: the fetch, while one is under way.
    pub fn now(&self) -> Option<&Rc<Open>> {
        self.fetch.as_ref().or(self.client.as_ref())
    }

    /// Tells it to the end.
    pub(super) fn reset(&mut self) {
        let Self { client, fetch } = self;
        *fetch = None;
        *client = None;
    }

    /// That of a fetch beside the exchange.
    pub(super) fn again(&self) -> Self {
        Self { client: self.client.clone(), fetch: None }
    }
}
