//! Partial and conditional answers: `if_modified_since`, `max_ranges`, `slice`.

use super::{Action, DirectiveInfo, HSL, ONE, directive, http};
use crate::model::IfModifiedSince;

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "if_modified_since",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices =
                [("off", IfModifiedSince::Off), ("exact", IfModifiedSince::Exact), ("before", IfModifiedSince::Before)];
            http::set(&mut l.settings.parts.if_modified_since, http::choose(d, &choices))
        }),
    ),
    directive(
        "max_ranges",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.parts.max_ranges, d.number32(0).map(Some))),
    ),
    directive(
        "slice",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.parts.slice_bytes, d.size(0).map(|n| n as u64))),
    ),
];
