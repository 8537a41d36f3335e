//! The response that is being built.

use std::cell::Cell;
use std::rc::Rc;

use larder_cache::Shape;
use larder_http::{Coding, Fields};

/// The response as the steps build it.
#[derive(Default)]
pub struct Reply {
    /// The status to be sent; 0 as long as none is known.
    pub status: u16,
    /// The reason phrase of the origin.
    pub reason: Vec<u8>,
    /// All fields but those that the delivery writes itself: Server, Date, Content-Length, Connection,
    /// Transfer-Encoding.
    pub fields: Fields,
    /// Whether `Location` was written by us, so that a path in it becomes a full URL.
    pub location_is_ours: bool,
    /// The Content-Type without the `charset`, while `expires` and `add_header` are evaluated; else empty.
    pub bare_type: Vec<u8>,
    /// Which of our own fields are not sent.
    pub silent: Silent,
    /// Fields that X-Accel-Redirect takes along, for the response that it leads to.
    pub accel_fields: Option<Fields>,
    /// The charset that the origin asks for (X-Accel-Charset).
    pub charset: Option<Box<[u8]>>,
    /// Early hints (103) to be sent; the bytes that the client has taken are removed.
    pub hints: Vec<u8>,
    /// The trailers that were sent, for `$sent_trailer_NAME`.
    pub trailers: Option<Box<Fields>>,
    /// How the body is changed on its way out.
    pub choice: Choice,
    /// Whether a precompressed file lies beside the requested one.
    pub has_packed: bool,
    /// The state of a page that is composed of several responses; `None` for others.
    pub composed: Option<Rc<Composed>>,
    /// For a page whose ESI is done for this request: the URL that its includes are relative to.
    pub esi_base: Option<Box<[u8]>>,
    /// Whether it is made for this client alone, and no cache on its way may show it to others.
    pub is_personal: bool,
    /// The connection to an origin that has answered 101.
    pub upgraded: Option<larder_origin::Upgraded>,
    /// How the message is framed.
    pub framing: Framing,
}

/// How a response is framed, and whether its connection is kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Framing {
    /// The declared length.
    pub length: Option<u64>,
    /// Whether the body is sent in chunks.
    pub chunked: bool,
    /// The length of the head, if the body is sent in chunks.
    pub head_bytes: u64,
    /// How many bytes of the body are written together with the head.
    pub body_with_head: usize,
    /// Whether the connection is kept after this.
    pub keep_alive: bool,
}

/// Fields that `proxy_pass_header` leaves to the origin: if it does not send them, neither do we.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// `Server`.
    pub server: bool,
    /// `Date`.
    pub date: bool,
}

/// How a body is changed on its way out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// Not at all.
    #[default]
    AsItIs,
    /// Not for this client, but for another: `Vary` says so.
    AsItIsHere,
    /// It is compressed.
    Compress(Coding),
    /// It came compressed and is restored.
    Restore(Coding),
}

impl Choice {
    /// Whether another client may get the body in another form.
    pub fn varies(self) -> bool {
        self != Self::AsItIs
    }

    /// The form that is made of a stored body.
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
    /// Whether the page is incomplete because its document is. Then what there is of the response is sent, even if that
    /// is only the head.
    pub is_cut_off: Cell<bool>,
    /// Whether its head is sent before its body is there, as larder sends what there is of it in any case.
    pub has_head_first: bool,
    /// Whether it is sent in gzip whatever the location says.
    pub is_packed: bool,
}

impl Reply {
    /// Prepares for another response. Buffers keep their memory.
    pub(super) fn reset(&mut self) {
        let Self {
            status,
            reason,
            fields,
            location_is_ours,
            bare_type,
            silent,
            accel_fields,
            charset,
            hints,
            trailers,
            choice,
            has_packed,
            composed,
            esi_base,
            is_personal,
            upgraded,
            framing,
        } = self;
        *status = 0;
        reason.clear();
        fields.clear();
        *location_is_ours = false;
        bare_type.clear();
        *silent = Silent::default();
        *accel_fields = None;
        *charset = None;
        hints.clear();
        *trailers = None;
        *choice = Choice::default();
        *has_packed = false;
        *composed = None;
        *esi_base = None;
        *is_personal = false;
        *upgraded = None;
        *framing = Framing::default();
    }
}
