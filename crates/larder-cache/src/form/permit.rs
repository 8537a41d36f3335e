//! The right to make one form, and putting it in its place.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use larder_store::Body;

use super::{Form, FormWaiter, Forms, Made, Shape, Stage, USES_FOR_HARD};
use crate::object::{Home, Object};
use crate::prepared::Prepared;
use crate::zone::Zone;

/// The right to make one form, for a thread beside the workers. If it is dropped unused, waiting requests wake, and
/// another may try.
///
/// It keeps the body in memory until it ends, even if the object is purged meanwhile.
pub struct FormPermit {
    forms: Arc<Forms>,
    home: Home,
    body: Body,
    shape: Shape,
    made: Made,
    ended: bool,
}

/// A form that was made, to be kept.
#[derive(Debug)]
pub struct NewForm {
    /// The body in the permit's shape.
    pub bytes: Bytes,
    /// The object's fields, ready to be sent with this body.
    pub prepared: Option<Prepared>,
}

/// What [`FormPermit::finish`] did with the form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// It is kept, and sent from now on.
    Kept,
    /// It is no smaller than what was there before, which stays.
    Unwanted,
    /// There was no room for it.
    NoRoom,
}

impl Object {
    /// The right to make a missing form. `None` if another request has taken it, if the form has been made or found
    /// unwanted, or if the object is not complete or not in a cache.
    pub fn claim_form(&self, shape: impl Into<Shape>) -> Option<FormPermit> {
        let shape = shape.into();
        self.body.whole()?;
        let home = self.hold.home().filter(|_| self.body.is_stored())?;
        let forms = self.hold.make_forms();
        let is_mine = forms.place(shape).step(Stage::Empty, Stage::Making);
        is_mine.then(|| FormPermit::new(self, forms, home, shape, Made::Quick))
    }

    /// The right to make a quick form again with [`Made::Hard`], for a caller to whom [`Form::wants_hard`] said true.
    pub fn claim_hard(&self, shape: impl Into<Shape>) -> Option<FormPermit> {
        let shape = shape.into();
        let (home, forms) = (self.hold.home()?, self.hold.forms()?);
        let place = forms.place(shape);
        let is_quick = place.form.load().as_ref().is_some_and(|form| form.made == Made::Quick);
        let is_mine = is_quick && place.step(Stage::Ready, Stage::Remaking);
        is_mine.then(|| FormPermit::new(self, forms, home, shape, Made::Hard))
    }
}

impl FormPermit {
    /// For the caller that has just moved the form's stage to `Making` or `Remaking`.
    fn new(object: &Object, forms: &Arc<Forms>, home: &Home, shape: Shape, made: Made) -> Self {
        let body = object.body.clone();
        Self { forms: Arc::clone(forms), home: home.clone(), body, shape, made, ended: false }
    }

    /// How it is to be made.
    pub fn made(&self) -> Made {
        self.made
    }

    /// The body to make it from: complete, and in memory.
    pub fn body(&self) -> &Body {
        &self.body
    }

    /// A waiter for the form, for the request that took the permit.
    pub fn waiter(&self) -> FormWaiter {
        FormWaiter::new(&self.forms, self.shape)
    }

    /// Whether the key has left the cache meanwhile, so that only requests that already wait can use the form.
    pub fn is_late(&self) -> bool {
        self.home.entry.upgrade().is_none_or(|entry| entry.is_gone())
    }

    /// Keeps the form if it is small enough and there is room, and wakes the waiting requests.
    pub fn finish(mut self, new: NewForm) -> Finished {
        let zone = self.home.zone.upgrade();
        let finished = match &zone {
            Some(zone) => self.place(zone, new),
            None => Finished::NoRoom,
        };
        self.end(finished);
        let Some(zone) = zone else { return finished };
        let count = |counter: &AtomicU64| counter.fetch_add(1, Ordering::Relaxed);
        match finished {
            Finished::Kept => {
                count(&zone.counts.forms);
                if let Some(entry) = self.home.entry.upgrade() {
                    zone.reweigh(&entry);
                }
            }
            Finished::Unwanted => drop(count(&zone.counts.forms_unwanted)),
            Finished::NoRoom => drop(count(&zone.counts.forms_refused)),
        }
        finished
    }

    /// Says that the form cannot be made, or is no smaller. It is not tried again.
    pub fn unwanted(mut self) {
        if let Some(zone) = self.home.zone.upgrade() {
            zone.counts.forms_unwanted.fetch_add(1, Ordering::Relaxed);
        }
        self.end(Finished::Unwanted);
    }

    /// Reserves room for a form, and stores it.
    fn place(&self, zone: &Zone, new: NewForm) -> Finished {
        let place = self.forms.place(self.shape);
        let is_worth_it = match (self.shape, self.made) {
            (Shape::Identity, Made::Quick) => true,
            (Shape::Coded(_), Made::Quick) => {
                self.body.whole().is_some_and(|whole| (new.bytes.len() as u64) < whole.len())
            }
            (_, Made::Hard) => place.form.load().as_ref().is_none_or(|quick| (new.bytes.len() as u64) < quick.len()),
        };
        if !is_worth_it {
            return Finished::Unwanted;
        }
        let head_bytes = size_of::<Form>()
            + size_of::<Forms>()
            + ALLOCATIONS_BYTES
            + new.prepared.as_ref().map_or(0, |prepared| prepared.heap_bytes());
        let Some(head) = zone.reserve(head_bytes) else { return Finished::NoRoom };
        let Some(room) = zone.reserve(new.bytes.len()) else { return Finished::NoRoom };
        let form = Form {
            body: Body::of(new.bytes, Some(room)),
            prepared: new.prepared,
            made: self.made,
            uses: AtomicU8::new(match self.made {
                Made::Quick => 0,
                Made::Hard => USES_FOR_HARD,
            }),
            head,
        };
        if !form.body.is_stored() {
            return Finished::NoRoom;
        }
        place.form.store(Some(Arc::new(form)));
        Finished::Kept
    }

    fn end(&mut self, finished: Finished) {
        self.ended = true;
        let stage = match (finished, self.made) {
            (Finished::Kept, _) | (_, Made::Hard) => Stage::Ready,
            (Finished::Unwanted, Made::Quick) => Stage::Unwanted,
            (Finished::NoRoom, Made::Quick) => Stage::NoRoom,
        };
        self.forms.end(self.shape, stage);
    }
}

impl Drop for FormPermit {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        match self.made {
            Made::Quick => self.forms.end(self.shape, Stage::Empty),
            Made::Hard => {
                // It is asked for again after as many uses.
                if let Some(quick) = self.forms.place(self.shape).ready() {
                    quick.uses.store(0, Ordering::Relaxed);
                }
                self.forms.end(self.shape, Stage::Ready);
            }
        }
    }
}

impl fmt::Debug for FormPermit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FormPermit({:?}, {:?})", self.shape, self.made)
    }
}

/// Bytes for the counts of the `Arc`s, the shared state of the body, and what the allocator adds to six allocations.
const ALLOCATIONS_BYTES: usize = 320;
