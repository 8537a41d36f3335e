//! The response that is being built.

use std::cell::Cell;
use std::rc::Rc;

use larder_cache::Shape;
use larder_http::{Coding, Fields};

use super::emptied;

/// The response as the steps build it.
#[derive(Default)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The reason as the origin gave it.
    pub reason: Vec<u8>,
    /// Fields, without those that deliver writes itself: Server, Date, Content-Length, Connection, Transfer-Encoding.
    pub fields: Fields,
    /// Whether `Location` is our own, so that a path in it is made a URL.
    pub location_is_ours: bool,
    /// The Content-Type before `charset` adds to it, while `expires` and `add_header` are worked out; else empty.
    pub bare_type: Vec<u8>,
    /// What we do not say by ourselves.
    pub silent: Silent,
    /// Fields that X-Accel-Redirect brings along, for the response it leads to.
    pub accel_fields: Option<Fields>,
    /// The charset that the origin asks for.
    pub charset: Option<Box<[u8]>>,
    /// Early hints that are to go out, but for what the client has taken of them.
    pub hints: Vec<u8>,
    /// The trailers that have been made, for `$sent_trailer_NAME`.
    pub trailers: Option<Box<Fields>>,
    /// What becomes of the body on its way out.
    pub choice: Choice,
    /// Whether a file that was compressed beforehand lies beside the one that is asked for.
    pub has_packed: bool,
    /// What is known of a body that is put together of several; `None` for others.
    pub composed: Option<Rc<Composed>>,
    /// The connection to an origin that has switched protocols.
    pub upgraded: Option<larder_origin::Upgraded>,
    /// How the message ends.
    pub framing: Framing,
}

/// How a response ends, and what its connection does then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    /// The length that was announced.
    pub length: Option<u64>,
    /// Whether the body went in chunks.
    pub chunked: bool,
    /// How long the head is, where the body went in chunks.
    pub head_bytes: u64,
    /// Whether the connection is kept after this.
    pub keep_alive: bool,
}

/// Fields that are the origin's by `proxy_pass_header`: where it says nothing, nothing is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// `Server`.
    pub server: bool,
    /// `Date`.
    pub date: bool,
}

/// What becomes of a body on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// It goes as it is.
    #[default]
    AsItIs,
    /// It goes as it is, and would not to another client: `Vary` says so.
    AsItIsHere,
    /// It is compressed.
    Compress(Coding),
    /// It came compressed and is restored.
    Restore(Coding),
}

impl Choice {
    /// Whether another client may get another form.
    pub fn varies(self) -> bool {
        self != Self::AsItIs
    }

    /// What is made of a stored body.
    pub fn shape(self) -> Option<Shape> {
        match self {
            Self::AsItIs | Self::AsItIsHere => None,
            Self::Compress(coding) => Some(Shape::Coded(coding)),
            Self::Restore(_) => Some(Shape::Identity),
        }
    }
}

/// What the sender of a composed body has to know of it.
#[derive(Debug, Default)]
pub struct Composed {
    /// Whether it is not whole because the document is not: then what there is of the response goes out, be it the head
    /// alone.
    pub is_cut_off: Cell<bool>,
}

impl Reply {
    /// Begins another one. Buffers keep their room.
    pub(super) fn reset(&mut self) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.clear();
        *self = Self {
            fields,
            reason: emptied(&mut self.reason),
            bare_type: emptied(&mut self.bare_type),
            hints: emptied(&mut self.hints),
            ..Self::default()
        };
    }
}
