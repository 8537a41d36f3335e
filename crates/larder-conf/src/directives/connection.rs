//! Timeouts and keepalive of client connections, and how bodies are sent on them.

use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http};
use crate::model::{KeepaliveDisable, LingeringClose};

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "keepalive_timeout",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            l.settings.connection.keepalive_timeout = d.time(0)?;
            l.settings.connection.keepalive_header = None;
            if d.args.len() == 2 {
                l.settings.connection.keepalive_header = Some(d.time(1)?.as_secs());
            }
            Ok(())
        }),
    ),
    directive(
        "keepalive_requests",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.keepalive_requests, d.number(0))),
    ),
    directive(
        "keepalive_time",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.keepalive_time, d.time(0))),
    ),
    directive(
        "keepalive_disable",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            let disable = &mut l.settings.connection.keepalive_disable;
            *disable = KeepaliveDisable::default();
            for word in &d.args {
                match word.text.as_str() {
                    "none" => {}
                    "msie6" => disable.msie6 = true,
                    "safari" => disable.safari = true,
                    _ => return Err(d.invalid(word, "\"none\", \"msie6\" or \"safari\"")),
                }
            }
            Ok(())
        }),
    ),
    directive(
        "send_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.send_timeout, d.time(0))),
    ),
    directive(
        "lingering_close",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices =
                [("off", LingeringClose::Off), ("on", LingeringClose::On), ("always", LingeringClose::Always)];
            http::set(&mut l.settings.connection.lingering_close, http::choose(d, &choices))
        }),
    ),
    directive(
        "lingering_time",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.lingering_time, d.time(0))),
    ),
    directive(
        "lingering_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.lingering_timeout, d.time(0))),
    ),
    directive(
        "reset_timedout_connection",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.reset_timedout, d.flag())),
    ),
    directive(
        "chunked_transfer_encoding",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.connection.chunked_transfer_encoding, d.flag())),
    ),
];
