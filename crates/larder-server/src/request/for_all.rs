//! The right to fetch a page for all nodes, and to hand it on.

use std::sync::Arc;
use std::time::Duration;

use larder_cache::{Handing, Object, VaryKey};
use larder_cluster::{Lock, PageName, Place, Share};
use larder_store::BodyState;
use xxhash_rust::xxh3::Xxh3Default;

use crate::context::Cx;

use super::pieces;

/// The right of this node to fetch a page for all. It is given back when it is dropped.
pub struct ForAll {
    share: Arc<Share>,
    /// `None` once it is given back.
    lock: Option<Lock>,
    /// The name under which the page is looked for.
    first: PageName,
    key: Vec<u8>,
    /// Up to where this node had carried out what is in the log, before the fetch.
    began: Place,
    /// The page that the fetch has begun to bring.
    page: Option<Arc<Object>>,
}

impl ForAll {
    /// The right to fetch the page of this key, which is looked for under the name `first`. `began` is up to where this node
    /// has carried out what is in the log.
    pub fn new(share: Arc<Share>, lock: Lock, first: PageName, key: Vec<u8>, began: Place) -> Box<Self> {
        Box::new(Self { share, lock: Some(lock), first, key, began, page: None })
    }

    /// Has every node fetch for itself for a while, as the page cannot be shared.
    pub fn give_up(mut self) {
        self.end(true);
    }

    /// Whether a page of this length can be shared.
    pub fn may_be(&self, bytes: u64) -> bool {
        bytes < self.share.bytes_max() as u64
    }

    /// Whether the page has this key.
    pub fn is_of(&self, key: &[u8]) -> bool {
        self.key == key
    }

    /// The right to hand on this page, once its body is whole.
    pub fn with(mut self: Box<Self>, page: Arc<Object>) -> Box<Self> {
        self.page = Some(page);
        self
    }

    /// Hands on the page, if its fetch has brought one and it is stored here.
    pub fn store(mut self, cx: &Cx) {
        let Some(page) = self.page.take().filter(|page| page.body.is_stored()) else { return };
        if let Some(whole) = page.body.whole() {
            match whole.to_bytes() {
                Ok(body) => self.hand_on(&page, &body, cx),
                Err(_) => drop(self),
            }
            return;
        }
        let BodyState::Complete { len } = page.body.state() else { return };
        if !self.may_be(len) {
            return self.give_up();
        }
        let cx = cx.clone();
        tokio::task::spawn_local(async move {
            let (mut reader, mut body) = (page.body.reader(), Vec::new());
            // A page that its disk has lost is not handed on.
            while let Ok(Some(piece)) = pieces::piece(&mut reader, u64::MAX).await {
                body.extend_from_slice(&piece);
            }
            match body.len() as u64 == len {
                true => self.hand_on(&page, &body, &cx),
                false => drop(self),
            }
        });
    }

    fn hand_on(mut self, page: &Object, body: &[u8], cx: &Cx) {
        let now = cx.now();
        let fresh_for = page.fresh_until.since(now);
        let grace = page.stale_while_revalidate.max(page.stale_if_error).min(GRACE_MAX);
        if fresh_for.is_zero() || !self.may_be(body.len() as u64) {
            return self.give_up();
        }
        let lasts = fresh_for.saturating_add(grace).min(LASTS_MAX);
        let handing = Handing { key: &self.key, began: &self.began.to_string(), lasts };
        let value = handing.page(page, body, now);
        let values = match page.vary.is_empty() {
            true => vec![(self.first.clone(), value)],
            false => {
                let variant = name_of(&self.first.zone, &self.key, &page.vary);
                vec![(self.first.clone(), handing.differs(&page.vary)), (variant, value)]
            }
        };
        if let Some(lock) = self.lock.take() {
            self.share.store(&lock, &values, lasts);
        }
    }

    fn end(&mut self, is_alone: bool) {
        if let Some(lock) = self.lock.take() {
            self.share.give_up(&lock, is_alone);
        }
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        self.end(false);
    }
}

/// The name of a page of this key, or of its variant. All nodes must agree on it.
pub fn name_of(zone: &str, key: &[u8], vary: &VaryKey) -> PageName {
    let mut hash = Xxh3Default::new();
    let mut add = |text: &[u8]| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    add(key);
    for (name, value) in vary.values() {
        add(name.as_bytes());
        add(value);
    }
    PageName { zone: zone.into(), hash: hash.digest128() }
}

/// How long a page is kept for all at most: less than any server takes.
const LASTS_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// How long a page is kept for all at most after it is stale.
const GRACE_MAX: Duration = Duration::from_secs(24 * 3600);

#[cfg(test)]
mod tests {
    use larder_cache::selecting;
    use larder_http::Fields;

    use super::*;

    #[test]
    fn pages_and_variants_have_names_of_their_own_on_every_node() {
        let german: Fields = [("Accept-Language", "de")].into_iter().collect();
        let none = VaryKey::none();
        let de = VaryKey::with_names(vec!["accept-language".into()], &selecting(&german));
        let any = VaryKey::with_names(vec!["accept-language".into()], &selecting(&Fields::new()));
        let names = [
            name_of("pages", b"key", &none),
            name_of("pages", b"key", &de),
            name_of("pages", b"key", &any),
            name_of("pages", b"other", &none),
            name_of("others", b"key", &none),
        ];
        for (at, name) in names.iter().enumerate() {
            assert_eq!(names.iter().position(|other| other == name), Some(at));
        }
        // Nodes of one cluster must agree.
        assert_eq!(name_of("pages", b"key", &none).hash, HASH_OF_KEY);
    }

    const HASH_OF_KEY: u128 = 68594376009625788091223888647077841242;
}
