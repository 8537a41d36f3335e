//! The forms of an object's body: compressed, or restored, once for all who come.
//!
//! ```text
//! Empty --claim--> Making --finish--> Ready --claim_hard--> Remaking --finish--> Ready
//!   ^                |  `--no room--> NoRoom  ^                 |
//!   |                |  `--unwanted-> Unwanted `--drop, unwanted-+
//!   `----- drop -----'
//! ```
//! A form that is ready is read without a lock, and belongs to the object: its bytes are counted as the body's are,
//! and go with it. Who makes a form has no hold on the object's place in the cache.

mod permit;
mod waiter;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::{ArcSwapOption, Guard};
use larder_http::Coding;
use larder_store::{Body, Reservation};
use tokio::sync::Notify;

use crate::entry::Entry;
use crate::object::{Object, Prepared};
use crate::zone::Zone;
pub use permit::{Finished, FormPermit, NewForm};
pub use waiter::FormWaiter;

/// What a stored body can be sent as, other than as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Compressed.
    Coded(Coding),
    /// Restored, when the origin sent it compressed.
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

/// How much work went into a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// Little, as somebody waited.
    Quick,
    /// All that is worth the while.
    Hard,
}

/// A body in another shape.
#[derive(Debug)]
pub struct Form {
    /// Complete, and in memory.
    pub body: Body,
    /// The fields of the object, as they are sent with this body.
    pub prepared: Option<Prepared>,
    /// How it was made.
    pub made: Made,
    /// Uses of a quick one, saturating at [`USES_FOR_HARD`].
    uses: AtomicU8,
    /// The bytes of it beside the body's.
    head: Reservation,
}

impl Form {
    /// To be asked at every use: whether this is the one at which the form is worth being made again, hard.
    ///
    /// A form that is used often, or was made hard, is only read here.
    #[inline]
    pub fn wants_hard(&self) -> bool {
        let uses = self.uses.load(Ordering::Relaxed);
        if uses >= USES_FOR_HARD {
            return false;
        }
        // As in the shelf's order: a lost update of two threads costs one count.
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

/// A form held in its place, without a count that other workers share.
///
/// For the length of a response that is written at once; [`to_arc`](Self::to_arc) for longer.
pub struct FormRef(Guard<Option<Arc<Form>>>);

impl FormRef {
    /// The form, for as long as one likes.
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

/// What there is of a body in one shape.
#[derive(Debug)]
pub enum FormState {
    /// Nothing yet: [`Object::claim_form`] gives the right to make it.
    None,
    /// Another makes it.
    Making(FormWaiter),
    /// It is here.
    Ready(FormRef),
    /// It is no smaller than the body, or cannot be made: the body goes out as it is.
    Unwanted,
    /// There was no room to keep it. The next time that the object is freshened, it may be tried again.
    NoRoom,
}

impl Object {
    /// What there is of the body in `shape`. Takes no lock, allocates nothing, and writes nothing.
    #[inline]
    pub fn form(&self, shape: impl Into<Shape>) -> FormState {
        match self.hold.forms() {
            None => FormState::None,
            Some(forms) => forms.look(shape.into()),
        }
    }

    /// The right to make a form that is not there; `None` when another has it by now, when the form came or was
    /// found unwanted, or when the object is not whole or not kept in a cache.
    pub fn claim_form(&self, shape: impl Into<Shape>) -> Option<FormPermit> {
        let shape = shape.into();
        self.body.whole()?;
        let home = self.hold.home().filter(|_| self.body.is_stored())?;
        let forms = self.hold.make_forms();
        let is_mine = forms.place(shape).step(Stage::Empty, Stage::Making);
        is_mine.then(|| FormPermit::new(self, forms, home, shape, Made::Quick))
    }

    /// The right to make a form again that was made quickly, for one to whom [`Form::wants_hard`] said yes.
    pub fn claim_hard(&self, shape: impl Into<Shape>) -> Option<FormPermit> {
        let shape = shape.into();
        let (home, forms) = (self.hold.home()?, self.hold.forms()?);
        let place = forms.place(shape);
        let is_quick = place.form.load().as_ref().is_some_and(|form| form.made == Made::Quick);
        let is_mine = is_quick && place.step(Stage::Ready, Stage::Remaking);
        is_mine.then(|| FormPermit::new(self, forms, home, shape, Made::Hard))
    }
}

/// Where an object is kept. Keeps nothing alive.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) zone: Weak<Zone>,
    pub(crate) entry: Weak<Entry>,
}

/// All forms of one body: of an object, and of those that it was freshened to.
#[derive(Default)]
pub(crate) struct Forms {
    /// By [`Shape::index`].
    places: [Place; Coding::ALL.len() + 1],
    /// Told when one of them was made, or will not be.
    changed: Notify,
}

#[derive(Default)]
struct Place {
    /// Set before the stage says so, and never taken away.
    form: ArcSwapOption<Form>,
    stage: AtomicStage,
}

impl Forms {
    #[inline]
    fn place(&self, shape: Shape) -> &Place {
        &self.places[shape.index()]
    }

    #[inline]
    fn look(self: &Arc<Self>, shape: Shape) -> FormState {
        let place = self.place(shape);
        if let Some(form) = place.ready() {
            return FormState::Ready(form);
        }
        match place.stage.load() {
            Stage::Empty => FormState::None,
            Stage::Making => FormState::Making(FormWaiter::new(self, shape)),
            // It came between the two looks.
            Stage::Ready | Stage::Remaking => place.ready().map_or(FormState::None, FormState::Ready),
            Stage::Unwanted => FormState::Unwanted,
            Stage::NoRoom => FormState::NoRoom,
        }
    }

    /// The bytes reserved for all of them.
    pub(crate) fn reserved(&self) -> usize {
        self.places.iter().filter_map(|place| Some(place.form.load().as_ref()?.reserved())).sum()
    }

    /// What there was no room for may be tried again.
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

    /// Goes from one stage to another; false when it was not there.
    fn step(&self, from: Stage, to: Stage) -> bool {
        // A look first: those who find another stage write nothing.
        self.stage.load() == from
            && self.stage.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }
}

/// Where the making of a form is.
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

/// A form that was used this often is likely to be used the thousand times that pay for the work of a better one.
const USES_FOR_HARD: u8 = 8;
