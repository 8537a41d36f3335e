//! Matches regular expressions for a request.

use larder_conf::model::LogLevel;

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::regex::MatchError;
use crate::site::NamedRegex;

/// How many bytes the log shows of a text that could not be matched.
const SHOWN_BYTES: usize = 200;

/// Whether `regex` matches; then the request gets its captures, and its named groups are set.
///
/// If the match has no result, the request is refused, and nothing else is matched for it.
pub fn matches(regex: &NamedRegex, text: &[u8], ex: &mut Exchange, cx: &Cx) -> bool {
    if ex.eval.evaluation.has_failed() {
        return false;
    }
    let mut captures = std::mem::take(&mut ex.eval.captures);
    let found = regex.regex.matches(text, &mut captures);
    let matched = match &found {
        Ok(matched) => *matched,
        Err(_) => false,
    };
    if matched {
        for &(group, slot) in &regex.slots {
            let value = match captures.get(group) {
                Some(value) => ex.eval.keep(value),
                None => ex.eval.keep(b""),
            };
            ex.eval.set_slot(slot, value);
        }
    }
    ex.eval.captures = captures;
    if let Err(error) = found {
        cannot_match(&error, text, ex, cx);
    }
    matched
}

/// Logs that a pattern had no result for `text`, and makes the request fail.
pub fn cannot_match(error: &MatchError, text: &[u8], ex: &mut Exchange, cx: &Cx) {
    ex.eval.evaluation.fail();
    let shown = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]);
    cx.local.logs.error(cx, ex, LogLevel::Alert, format_args!("{error} on \"{shown}\", {} bytes", text.len()));
}
