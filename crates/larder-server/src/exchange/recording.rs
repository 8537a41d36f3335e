//! What the transaction log is told of an exchange, while it is told anything.

use std::rc::Rc;

use larder_origin::Usage;

use crate::vsl::Open;

/// The transactions that an exchange is told by.
#[derive(Default)]
pub struct Recording {
    /// The client's request; for a fetch beside it, the request that has begun the fetch.
    pub client: Option<Rc<Open>>,
    /// The fetch.
    pub fetch: Option<Rc<Open>>,
    /// What a VCL has the body go through: that of the answer, then that of the response.
    pub filters: Option<Vec<u8>>,
    /// What the connection was used for of an answer whose place another has taken, with the bytes of its body.
    pub replaced: Option<(Usage, u64)>,
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
        let Self { client, fetch, filters, replaced } = self;
        *filters = None;
        *replaced = None;
        *fetch = None;
        *client = None;
    }

    /// That of a fetch beside the exchange.
    pub(super) fn again(&self) -> Self {
        Self { client: self.client.clone(), ..Self::default() }
    }
}
