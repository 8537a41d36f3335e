//! `autoindex` and `random_index`.

use super::{Action, Args, DirectiveInfo, HSL, LOCATION, ONE, directive, http};
use crate::model::AutoindexFormat;

pub const TABLE: &[DirectiveInfo] = &[
    directive("autoindex", HSL, Args::Flag, Action::Level(|l, _, d| http::set(&mut l.autoindex_on, d.flag()))),
    directive(
        "random_index",
        LOCATION,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.modules().random_index, d.flag())),
    ),
    directive(
        "autoindex_exact_size",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.autoindex.exact_size, d.flag())),
    ),
    directive(
        "autoindex_localtime",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.autoindex.localtime, d.flag())),
    ),
    directive(
        "autoindex_format",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices = [
                ("html", AutoindexFormat::Html),
                ("xml", AutoindexFormat::Xml),
                ("json", AutoindexFormat::Json),
                ("jsonp", AutoindexFormat::Jsonp),
            ];
            http::set(&mut l.autoindex.format, http::choose(d, &choices))
        }),
    ),
];
