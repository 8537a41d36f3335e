//! `userid`: a cookie with a number for each visitor.

use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{UserIdExpires, UserIdFlags, UserIdMode};
use crate::tree::Directive;

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "userid",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let modes =
                [("off", UserIdMode::Off), ("log", UserIdMode::Log), ("v1", UserIdMode::V1), ("on", UserIdMode::On)];
            http::set(&mut l.modules().user_id.mode, http::choose(d, &modes))
        }),
    ),
    directive(
        "userid_service",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.modules().user_id.service, d.number32(0).map(Some))),
    ),
    directive("userid_name", HSL, ONE, Action::Level(|l, _, d| http::set(&mut l.modules().user_id.name, text(d)))),
    directive(
        "userid_domain",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.modules().user_id.domain, unless_none(d))),
    ),
    directive("userid_path", HSL, ONE, Action::Level(|l, _, d| http::set(&mut l.modules().user_id.path, text(d)))),
    directive(
        "userid_expires",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            l.modules().user_id.expires = match d.text(0) {
                "max" => UserIdExpires::Max,
                "off" => UserIdExpires::Off,
                _ => UserIdExpires::After(d.time(0)?),
            };
            Ok(())
        }),
    ),
    directive("userid_flags", HSL, Args::Between(1, 3), Action::Level(flags)),
    directive("userid_p3p", HSL, ONE, Action::Level(|l, _, d| http::set(&mut l.modules().user_id.p3p, unless_none(d)))),
    directive("userid_mark", HSL, ONE, Action::Level(mark)),
];

fn text(d: &Directive) -> Outcome<String> {
    Ok(d.text(0).to_owned())
}

fn unless_none(d: &Directive) -> Outcome<String> {
    Ok(if d.text(0) == "none" { String::new() } else { d.text(0).to_owned() })
}

fn flags(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut flags = UserIdFlags::default();
    for word in &d.args {
        match word.text.to_ascii_lowercase().as_str() {
            "off" => {}
            "secure" => flags.secure = true,
            "httponly" => flags.httponly = true,
            "samesite=strict" => flags.samesite_strict = true,
            "samesite=lax" => flags.samesite_lax = true,
            "samesite=none" => flags.samesite_none = true,
            _ => {
                let known = "off, secure, httponly, samesite=strict, samesite=lax or samesite=none";
                return Err(d.invalid(word, known));
            }
        }
    }
    level.modules().user_id.flags = flags;
    Ok(())
}

fn mark(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.modules().user_id.mark = match d.text(0).as_bytes() {
        b"off" => None,
        [mark] if mark.is_ascii_alphanumeric() || *mark == b'=' => Some(*mark),
        _ => {
            let message = "\"userid_mark\" directive value must be \"off\" or a single letter, digit or \"=\"";
            return Err(Diagnostic::error(message).at(d.arg(0).span));
        }
    };
    Ok(())
}
