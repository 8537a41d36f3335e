//! The forms of an object's body: compressed or decompressed once, for all clients.
//!
//! ```text
//! Empty --claim--> Making --finish--> Ready --claim_hard--> Remaking --finish--> Ready
//!   ^                |  `--no room--> NoRoom  ^                 |
//!   |                |  `--unwanted-> Unwanted `--drop, unwanted-+
//!   `----- drop -----'
//! ```
//! A ready form is read without a lock. It belongs to the object: its bytes count like the body's, and it is freed with
//! the object. Making a form does not keep the object in the cache.

pub(crate) mod permit;
mod waiter;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use arc_swap::{ArcSwapOption, Guard};
use larder_http::Coding;
use larder_store::{Body, Reservation};
use tokio::sync::Notify;

use crate::prepared::Prepared;
pub use waiter::FormWaiter;

/// How a stored body can be sent, other than as it was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Compressed with this coding.
    Coded(Coding),
    /// Decompressed, if the origin sent it compressed (`gunzip`).
    Identity,
}

impl From<Coding> for Shape {
    fn from(coding: Coding) -> Self {
        Self::Coded(coding)
    }
}

impl Shape {
    #[inline]
    fn index(self) -> usize {
        match self {
            Self::Coded(coding) => coding.index(),
            Self::Identity => Coding::ALL.len(),
        }
    }
}

/// How much work a form was worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Little, because a client waited: `gzip_comp_level` and the like.
    Quick,
    /// Much, because the page is used often.
    Hard,
}

/// A body in another shape.
#[derive(Debug)]
pub struct Form {
    /// Complete, and in memory.
    pub body: Body,
    /// The object's fields, ready to be sent with this body.
    pub prepared: Option<Prepared>,
    /// How it was made.
    pub made: Made,
    /// How often a quick form was used, saturating at [`USES_FOR_HARD`].
    uses: AtomicU8,
    /// The bytes that the form takes beside its body.
    head: Reservation,
}

impl Form {
    /// Counts a use. True for the one use at which the form should be made again with [`Made::Hard`].
    ///
    /// Writes nothing once the form has been used that often, or was made hard.
    #[inline]
    pub fn wants_hard(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses >= USES_FOR_HARD {
            return false;
        }
        // Not an atomic add: an update that two threads lose costs one count, as in the shelf's `Seat`.
        self.uses.store(uses + 1, Ordering::Relaxed);
        uses + 1 == USES_FOR_HARD
    }

    fn len(&self) -> u64 {
        self.body.whole().map_or(0, |whole| whole.len())
    }

    fn reserved(&self) -> usize {
        self.head.bytes() + self.body.reserved()
    }
}

/// A form that is held without touching a reference count that workers share.
///
/// Use it for a response that is written at once, and [`to_arc`](Self::to_arc) for longer.
pub struct FormRef(Guard<Option<Arc<Form>>>);

impl FormRef {
    /// The form, to be kept for any time.
    pub fn to_arc(&self) -> Arc<Form> {
        Arc::clone(self.form())
    }

    #[inline]
    fn form(&self) -> &Arc<Form> {
        self.0.as_ref().expect("a reference is made of a place that has a form")
    }
}

impl Deref for FormRef {
    type Target = Form;

    #[inline]
    fn deref(&self) -> &Form {
        self.form()
    }
}

impl fmt::Debug for FormRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FormRef").field(self.form()).finish()
    }
}

/// The state of a body's form in one shape.
#[derive(Debug)]
pub enum FormState {
    /// Not made yet: [`Object::claim_form`](crate::Object::claim_form) gives the right to make it.
    None,
    /// Another request has it made; wait for it.
    Making(FormWaiter),
    /// Made: send it.
    Ready(FormRef),
    /// It is no smaller than the body, or cannot be made: send the body as it is.
    Unwanted,
    /// There was no room to keep it. It may be tried again after the object was next freshened.
    NoRoom,
}

/// All forms of one body. An object shares them with the objects that it was freshened to.
#[derive(Default)]
pub(crate) struct Forms {
    /// Indexed by [`Shape::index`].
    places: [Place; Coding::ALL.len() + 1],
    /// Notified when a form was made, or will not be made.
    changed: Notify,
}

#[derive(Default)]
struct Place {
    /// Set before the stage says so, and never unset.
    form: ArcSwapOption<Form>,
    stage: AtomicStage,
}

impl Forms {
    #[inline]
    fn place(&self, shape: Shape) -> &Place {
        &self.places[shape.index()]
    }

    #[inline]
    pub(crate) fn look(self: &Arc<Self>, shape: Shape) -> FormState {
        let place = self.place(shape);
        if let Some(form) = place.ready() {
            return FormState::Ready(form);
        }
        match place.stage.load() {
            Stage::Empty => FormState::None,
            Stage::Making => FormState::Making(FormWaiter::new(self, shape)),
            // It was made between the two loads.
            Stage::Ready | Stage::Remaking => place.ready().map_or(FormState::None, FormState::Ready),
            Stage::Unwanted => FormState::Unwanted,
            Stage::NoRoom => FormState::NoRoom,
        }
    }

    /// The bytes reserved for all forms.
    pub(crate) fn reserved(&self) -> usize {
        self.places.iter().filter_map(|place| Some(place.form.load().as_ref()?.reserved())).sum()
    }

    /// Lets forms that found no room be tried again.
    pub(crate) fn forget_lack_of_room(&self) {
        for place in &self.places {
            place.step(Stage::NoRoom, Stage::Empty);
        }
    }

    fn end(&self, shape: Shape, stage: Stage) {
        self.place(shape).stage.store(stage);
        self.changed.notify_waiters();
    }
}

impl fmt::Debug for Forms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.places.iter().map(|place| place.stage.load())).finish()
    }
}

impl Place {
    #[inline]
    fn ready(&self) -> Option<FormRef> {
        let form = self.form.load();
        form.is_some().then(|| FormRef(form))
    }

    /// Moves the stage from `from` to `to`. False if it was not at `from`.
    fn step(&self, from: Stage, to: Stage) -> bool {
        // A load first, so that nothing is written if the stage is another.
        self.stage.load() == from
            && self.stage.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// How far the making of a form is; the moves are drawn at the top of this file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Empty,
    Making,
    Ready,
    Remaking,
    Unwanted,
    NoRoom,
}

#[derive(Default)]
struct AtomicStage(AtomicU8);

impl AtomicStage {
    fn load(&self) -> Stage {
        let stages = [Stage::Empty, Stage::Making, Stage::Ready, Stage::Remaking, Stage::Unwanted, Stage::NoRoom];
        stages[usize::from(self.0.load(Ordering::Acquire))]
    }

    fn store(&self, stage: Stage) {
        self.0.store(stage as u8, Ordering::Release);
    }
}

/// A form that was used this often will probably be used the thousand times that pay for making a smaller one.
const USES_FOR_HARD: u8 = 8;
