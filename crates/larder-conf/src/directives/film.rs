//! `mp4` and `flv`: films that are sent from a point in time or a byte on.

use super::{Action, Args, DirectiveInfo, HSL, LOCATION, NONE, ONE, directive, http, repeated};
use crate::model::Handler;

pub const TABLE: &[DirectiveInfo] = &[
    repeated(
        "mp4",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.handler = Handler::Mp4;
            Ok(())
        }),
    ),
    repeated(
        "flv",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.handler = Handler::Flv;
            Ok(())
        }),
    ),
    directive(
        "mp4_buffer_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.modules().mp4.buffer_bytes, d.size(0))),
    ),
    directive(
        "mp4_max_buffer_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.modules().mp4.max_buffer_bytes, d.size(0))),
    ),
    directive(
        "mp4_start_key_frame",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.modules().mp4.start_key_frame, d.flag())),
    ),
];
