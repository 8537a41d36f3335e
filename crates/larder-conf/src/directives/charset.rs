//! `charset`: the label in `Content-Type`. Nothing is converted.

use super::{Action, Args, DirectiveInfo, HSL, HSLI, ONE, directive, repeated};

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "charset",
        HSLI,
        ONE,
        Action::Level(|l, _, d| {
            l.settings.charset = match d.text(0) {
                "off" => None,
                _ => Some(d.template(0)?),
            };
            Ok(())
        }),
    ),
    directive(
        "override_charset",
        HSLI,
        Args::Flag,
        Action::Level(|l, cx, d| {
            l.settings.override_charset = d.flag()?;
            if l.settings.override_charset {
                cx.notice_no_effect(&d.name.text, d.name.span, "a charset that an origin names stays");
            }
            Ok(())
        }),
    ),
    repeated(
        "charset_types",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            let types = l.list(|s| &mut s.charset_types);
            if is_first {
                // nginx always adds this one.
                types.push("text/html".to_owned());
            }
            for word in &d.args {
                let kind = word.text.to_ascii_lowercase();
                if !types.contains(&kind) {
                    types.push(kind);
                }
            }
            Ok(())
        }),
    ),
];
