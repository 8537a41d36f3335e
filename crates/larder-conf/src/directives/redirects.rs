//! How the redirects that larder makes itself are written.

use super::{Action, Args, DirectiveInfo, HSL, directive, http};

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "absolute_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.redirects.absolute, d.flag())),
    ),
    directive(
        "server_name_in_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.redirects.server_name, d.flag())),
    ),
    directive(
        "port_in_redirect",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.redirects.port, d.flag())),
    ),
];
