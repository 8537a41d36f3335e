//! `add_header`, `add_trailer`, `expires`, and whether larder's own fields are sent.

use super::access::network;
use super::{Action, Args, DirectiveInfo, HSL, HSLI, ONE, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::{HeaderInheritance, Level};
use crate::model::{AddHeader, Expires, ServerTokens};
use crate::tree::Directive;
use crate::{template, values};

pub const TABLE: &[DirectiveInfo] = &[
    repeated(
        "add_header",
        HSLI,
        Args::Between(2, 3),
        Action::Level(|l, _, d| {
            let header = add_header(d)?;
            l.list(|s| &mut s.fields.add_headers).push(header);
            Ok(())
        }),
    ),
    repeated(
        "add_trailer",
        HSLI,
        Args::Between(2, 3),
        Action::Level(|l, _, d| {
            let header = add_header(d)?;
            l.list(|s| &mut s.fields.add_trailers).push(header);
            Ok(())
        }),
    ),
    directive(
        "add_header_inherit",
        HSLI,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.header_inheritance, http::choose(d, INHERITANCE))),
    ),
    directive(
        "add_trailer_inherit",
        HSLI,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.trailer_inheritance, http::choose(d, INHERITANCE))),
    ),
    directive("expires", HSLI, Args::Between(1, 2), Action::Level(expires)),
    directive(
        "server_tokens",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices = [("on", ServerTokens::On), ("off", ServerTokens::Off), ("build", ServerTokens::Build)];
            http::set(&mut l.settings.fields.server_tokens, http::choose(d, &choices))
        }),
    ),
    directive(
        "larder_cache_status",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.fields.cache_status, d.flag())),
    ),
    directive("larder_explain_from", HSL, Args::AtLeast(1), Action::Level(explain_from)),
];

const INHERITANCE: &[(&str, HeaderInheritance)] =
    &[("on", HeaderInheritance::On), ("off", HeaderInheritance::Off), ("merge", HeaderInheritance::Merge)];

fn explain_from(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    level.settings.fields.explain_from = match &d.args[..] {
        [only] if only.text == "off" => Vec::new(),
        words => words.iter().map(|word| network(cx, d, word)).collect::<Outcome<_>>()?,
    };
    Ok(())
}

fn add_header(d: &Directive) -> Outcome<AddHeader> {
    let always = match d.args.get(2) {
        None => false,
        Some(word) if word.text == "always" => true,
        Some(word) => {
            return Err(Diagnostic::error(format!("invalid parameter \"{}\"", word.text))
                .at(word.span)
                .label("only \"always\" may stand here")
                .help("a value with spaces needs quotes"));
        }
    };
    Ok(AddHeader { name: d.text(0).to_owned(), value: d.template(1)?, always })
}

fn expires(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let modified = d.args.len() == 2;
    if modified && d.text(0) != "modified" {
        return Err(d.invalid(d.arg(0), "\"modified\" where two arguments are given"));
    }
    let word = d.arg(d.args.len() - 1);
    let value = template::of(word)?;
    let Some(text) = template::as_literal(&value) else {
        level.settings.fields.expires = Some(Expires::Variable(value, modified));
        return Ok(());
    };
    level.settings.fields.expires = parse_expires(text, modified).map_err(|error| match error {
        ExpiresError::Invalid => d.invalid(word, "a time such as 30d, -1 or @15h30m, \"epoch\", \"max\" or \"off\""),
        ExpiresError::DailyModified | ExpiresError::DailyTooLong => Diagnostic::error(error.to_string()).at(word.span),
    })?;
    Ok(())
}

/// Why a text is no argument of `expires`. The words are nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpiresError {
    /// Neither a time nor one of the words.
    #[error("invalid value")]
    Invalid,
    /// `modified @15h`.
    #[error("daily time cannot be used with \"modified\" parameter")]
    DailyModified,
    /// A time of the day beyond 24 hours.
    #[error("daily time value must be less than 24 hours")]
    DailyTooLong,
}

/// Reads the argument of `expires` as it is written, or as a variable has it; `None` is `off`.
pub fn parse_expires(text: &str, modified: bool) -> Result<Option<Expires>, ExpiresError> {
    const DAY_SECONDS: i64 = 24 * 60 * 60;
    match text {
        "epoch" if !modified => return Ok(Some(Expires::Epoch)),
        "max" if !modified => return Ok(Some(Expires::Max)),
        "off" if !modified => return Ok(None),
        _ => {}
    }
    let (rest, sign) = match text.strip_prefix(['+', '@']) {
        Some(rest) => (rest, 1),
        None => text.strip_prefix('-').map_or((text, 1), |rest| (rest, -1)),
    };
    let time = values::time(rest).filter(|time| time.subsec_millis() == 0).ok_or(ExpiresError::Invalid)?;
    let seconds = i64::try_from(time.as_secs()).map_err(|_| ExpiresError::Invalid)? * sign;
    match (text.starts_with('@'), modified) {
        (true, true) => Err(ExpiresError::DailyModified),
        (true, false) => match u32::try_from(seconds) {
            Ok(daily) if seconds <= DAY_SECONDS => Ok(Some(Expires::Daily(daily))),
            _ => Err(ExpiresError::DailyTooLong),
        },
        (false, true) => Ok(Some(Expires::Modified(seconds))),
        (false, false) => Ok(Some(Expires::After(seconds))),
    }
}
