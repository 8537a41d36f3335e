//! Runs rewrite directives: `set`, `if`, `rewrite`, `return`, `break`, as they were written.
//!
//! As nginx's rewrite module. An `if` that holds makes its own location the current one, and the run goes on.

use larder_conf::Span;
use larder_conf::model::{FileTest, LogLevel, RewriteFlag};
use larder_http::{Escape, Known, escape_uri, status, unescape};

use crate::context::Cx;
use crate::exchange::{Exchange, Slot};
use crate::site::{Condition, Handler, NamedRegex, Op, RewriteOp, SetTarget, Written};
use crate::text::{Part, Text};
use crate::vars::{self, pattern};
use crate::vsl::{Note, Open, Shown};

/// How a run of directives ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ran {
    /// All were run. The flag says whether the URI has changed, so that a location is searched for again.
    Through(bool),
    /// `break` or a flag ended the run; the flag as above.
    Stopped(bool),
    /// `return`, or a `rewrite` that redirects.
    Answer(Answer),
}

/// What a script answers with.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// A status, which an `error_page` may still replace.
    Status(u16),
    /// A redirect with this status to a URL or a path.
    Redirect(u16, Vec<u8>),
    /// A body of the location's default media type.
    Text(u16, Vec<u8>),
}

/// Runs `ops` in the current location.
pub fn run(ops: &[Op], ex: &mut Exchange, cx: &Cx) -> Ran {
    let mut so_far = SoFar { changed: false, escapes: true, is_orphaned: false };
    let ran = run_from(ops, ex, cx, &mut so_far).unwrap_or(Ran::Through(so_far.changed));
    match ran {
        Ran::Through(false) | Ran::Stopped(false) if so_far.is_orphaned => {
            cx.local.logs.error(cx, ex, LogLevel::Alert, format_args!("no upstream configuration"));
            Ran::Answer(Answer::Status(status::INTERNAL_SERVER_ERROR))
        }
        ran => ran,
    }
}

/// The state of a run.
struct SoFar {
    /// Whether a `rewrite` has changed the URI.
    changed: bool,
    /// Whether `set` escapes `$1`: until a `rewrite` has matched, as in nginx (`quote` of its script engine).
    escapes: bool,
    /// Whether an `if` with an origin held and a later `if` without one replaced it. nginx then keeps the first one's
    /// handler without anything to ask, and answers 500.
    is_orphaned: bool,
}

fn run_from(ops: &[Op], ex: &mut Exchange, cx: &Cx, so_far: &mut SoFar) -> Option<Ran> {
    let locations = &cx.site().locations;
    for op in ops {
        match op {
            Op::Set(target, value, at) => {
                set(target, value, so_far.escapes, ex, cx);
                if let Some(open) = &ex.log.client {
                    note_set(open, target, value, *at, ex);
                }
            }
            Op::If(condition, inside, location, written) => {
                if !holds(condition, ex, cx) {
                    continue;
                }
                if let Some(open) = ex.log.client.clone().filter(|open| open.keeps_notes()) {
                    note_holds(&open, condition, written, ex, cx);
                }
                if let Some(location) = location {
                    let had_origin = matches!(cx.loc(ex).handler, Handler::Origin(_));
                    let has_none = matches!(locations[*location].handler, Handler::Static);
                    so_far.is_orphaned = has_none && (had_origin || so_far.is_orphaned);
                    ex.request.location = *location;
                }
                if let Some(ran) = run_from(inside, ex, cx, so_far) {
                    return Some(ran);
                }
                if let Some(open) = &ex.log.client {
                    open.note(|| Note::Left);
                }
            }
            Op::Rewrite(op) => {
                if let Some(ran) = rewrite(op, ex, cx, so_far) {
                    return Some(ran);
                }
            }
            Op::Return(status, text, at) => {
                if let Some(open) = &ex.log.client {
                    open.note(|| said("return", status.to_string(), *at, cx));
                }
                return Some(Ran::Answer(answer(*status, text.as_ref(), ex, cx)));
            }
            Op::Break => {
                // A URI that a `rewrite` has changed before is no longer the one that matched the location.
                ex.request.way.path_is_the_locations &= !so_far.changed;
                return Some(Ran::Stopped(false));
            }
        }
    }
    None
}

fn said(what: &'static str, text: String, at: Span, cx: &Cx) -> Note {
    Note::Said { what, text, at: cx.site().place(at) }
}

#[cold]
fn note_set(open: &Open, target: &SetTarget, text: &Text, at: Span, ex: &Exchange) {
    if let SetTarget::Slot(slot) = target {
        let value = || ex.eval.values.borrow().bytes(ex.eval.slot(*slot)).unwrap_or_default().to_vec();
        let literals = || text.parts().iter().filter_map(Part::as_literal).map(Into::into).collect();
        open.note(|| Note::Set { slot: *slot, value: value(), literals: literals(), at });
    }
}

/// Notes a condition that holds, with the cookie that makes it do so.
#[cold]
fn note_holds(open: &Open, condition: &Condition, written: &Written, ex: &mut Exchange, cx: &Cx) {
    let cookie = match condition {
        Condition::Match(left, regex, false) => {
            let subject = left.value(ex, cx);
            cookie_of(&subject, ex, |pair| regex.regex.is_match(pair).unwrap_or(false))
        }
        _ => None,
    };
    open.note(|| Note::Holds { condition: written.text.clone(), cookie, at: written.span });
}

/// The name of the cookie by which a text matches, if the text is the field `Cookie`. What has no name may be a secret.
pub fn cookie_of(text: &[u8], ex: &Exchange, matches: impl Fn(&[u8]) -> bool) -> Option<String> {
    let mut lines = ex.asked.head.fields.all_known(Known::Cookie);
    if text.is_empty() || !lines.any(|line| line == text) {
        return None;
    }
    let pairs = text.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = |pair: &[u8]| match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => Shown(&pair[..at]).cut(NAME_BYTES_MAX),
        None => "***".to_owned(),
    };
    pairs.filter(|pair| !pair.is_empty()).find(|pair| matches(pair)).map(name)
}

/// How much of the name of a cookie is shown.
pub const NAME_BYTES_MAX: usize = 80;

/// Whether `regex` matches, for `if` and `rewrite`: if it does not, `$1` and the like become empty.
fn captures_or_forgets(regex: &NamedRegex, text: &[u8], ex: &mut Exchange, cx: &Cx) -> bool {
    let matched = pattern::matches(regex, text, ex, cx);
    if !matched {
        ex.eval.captures.clear();
    }
    matched
}

fn set(target: &SetTarget, value: &Text, escapes: bool, ex: &mut Exchange, cx: &Cx) {
    if escapes && has_captures(value) && was_encoded(ex) {
        let value = with_escaped_captures(value, ex, cx);
        assign(target, &value, ex);
    } else {
        value.with(ex, cx, |ex, value| assign(target, value, ex));
    }
}

/// Sets a variable.
pub fn assign(target: &SetTarget, value: &[u8], ex: &mut Exchange) {
    match target {
        SetTarget::Slot(slot) => {
            let value = ex.eval.keep(value);
            ex.eval.set_slot(*slot, if value == Slot::Unset { Slot::Absent } else { value });
        }
        SetTarget::Args => {
            ex.request.args.clear();
            ex.request.args.extend_from_slice(value);
            ex.request.way.uri_changed = true;
        }
        SetTarget::LimitRate => ex.request.limits.rate = crate::limit::parse_rate(value),
    }
}

fn holds(condition: &Condition, ex: &mut Exchange, cx: &Cx) -> bool {
    match condition {
        Condition::True(text) => text.is_true(ex, cx),
        Condition::Equal(left, right, negate) => {
            left.with(ex, cx, |ex, left| right.with(ex, cx, |_, right| left == right)) != *negate
        }
        Condition::Match(left, regex, negate) => {
            let mut subject = ex.eval.scratch.pop().unwrap_or_default();
            left.append(ex, cx, &mut subject);
            let matched = captures_or_forgets(regex, &subject, ex, cx);
            subject.clear();
            ex.eval.scratch.push(subject);
            matched != *negate
        }
        Condition::File(test, path, negate) => path.with(ex, cx, |ex, path| file_is(*test, path, ex, cx)) != *negate,
    }
}

fn file_is(test: FileTest, path: &[u8], ex: &mut Exchange, cx: &Cx) -> bool {
    let Some(found) = vars::facts(path, ex, cx) else { return false };
    match test {
        FileTest::Exists => true,
        FileTest::File => found.is_regular,
        FileTest::Directory => found.is_dir,
        FileTest::Executable => found.is_executable,
    }
}

fn answer(status: u16, text: Option<&Text>, ex: &mut Exchange, cx: &Cx) -> Answer {
    match text {
        None if status >= 400 => Answer::Status(status),
        text => {
            let value = text.map(|text| text.value(ex, cx)).unwrap_or_default();
            match status {
                status if status::is_redirect(status) => Answer::Redirect(status, value),
                _ => Answer::Text(status, value),
            }
        }
    }
}

fn rewrite(op: &RewriteOp, ex: &mut Exchange, cx: &Cx, so_far: &mut SoFar) -> Option<Ran> {
    let mut uri = std::mem::take(&mut ex.request.uri);
    let matched = captures_or_forgets(&op.regex, &uri, ex, cx);
    std::mem::swap(&mut ex.request.uri, &mut uri);
    if !matched {
        return None;
    }
    so_far.escapes = false;
    if let Some(open) = &ex.log.client {
        open.note(|| said("rewrite", "matches".to_owned(), op.span, cx));
    }
    let redirects = matches!(op.flag, RewriteFlag::Redirect | RewriteFlag::Permanent);
    let (mut path, args) = replacement(&op.replacement, redirects, ex, cx);
    if redirects {
        let mut url = decoded_for_redirect(&path);
        if let Some(args) = &args {
            url.push(b'?');
            url.extend_from_slice(args);
        }
        if op.append_args && !ex.request.args.is_empty() {
            url.push(if args.is_some() { b'&' } else { b'?' });
            url.extend_from_slice(&ex.request.args);
        }
        let status =
            if op.flag == RewriteFlag::Permanent { status::MOVED_PERMANENTLY } else { status::MOVED_TEMPORARILY };
        return Some(Ran::Answer(Answer::Redirect(status, url)));
    }
    if path.is_empty() {
        cx.local.logs.error(
            cx,
            ex,
            larder_conf::model::LogLevel::Error,
            format_args!("the rewritten URI has a zero length"),
        );
        return Some(Ran::Answer(Answer::Status(status::INTERNAL_SERVER_ERROR)));
    }
    match args {
        Some(mut args) => {
            if op.append_args && !ex.request.args.is_empty() {
                args.push(b'&');
                args.extend_from_slice(&ex.request.args);
            }
            ex.request.args = args;
        }
        None if !op.append_args => ex.request.args.clear(),
        None => {}
    }
    std::mem::swap(&mut ex.request.uri, &mut path);
    ex.request.way.uri_changed = true;
    ex.request.way.internal = true;
    match op.flag {
        RewriteFlag::Last => Some(Ran::Stopped(true)),
        RewriteFlag::Break => {
            ex.request.way.path_is_the_locations = false;
            Some(Ran::Stopped(false))
        }
        RewriteFlag::None | RewriteFlag::Redirect | RewriteFlag::Permanent => {
            so_far.changed = true;
            None
        }
    }
}

/// The path and the arguments after the first `?` that is written in the text, not in a variable.
///
/// The URI is decoded, so a capture in arguments or in a redirect is encoded again if the client had sent it encoded.
fn replacement(text: &Text, redirects: bool, ex: &mut Exchange, cx: &Cx) -> (Vec<u8>, Option<Vec<u8>>) {
    let was_encoded = was_encoded(ex);
    let mut path = Vec::new();
    let mut args: Option<Vec<u8>> = None;
    for part in text.parts() {
        match part {
            Part::Literal(bytes) => match (&mut args, bytes.iter().position(|&byte| byte == b'?')) {
                (Some(args), _) => args.extend_from_slice(bytes),
                (None, Some(at)) => {
                    path.extend_from_slice(&bytes[..at]);
                    args = Some(bytes[at + 1..].to_vec());
                }
                (None, None) => path.extend_from_slice(bytes),
            },
            Part::Var(var) => {
                vars::append(var, ex, cx, args.as_mut().unwrap_or(&mut path));
            }
            Part::Capture(n) => {
                let encode = was_encoded && (redirects || args.is_some());
                let value = ex.eval.captures.get(usize::from(*n)).unwrap_or(b"");
                let out = args.as_mut().unwrap_or(&mut path);
                if encode { escape_uri(value, Escape::Args, out) } else { out.extend_from_slice(value) }
            }
        }
    }
    (path, args)
}

/// Whether the client's path had `%` or `+` in it, so that captures of it are escaped again.
fn was_encoded(ex: &Exchange) -> bool {
    let path = ex.asked.head.target().split(|&byte| byte == b'?').next().unwrap_or_default();
    path.iter().any(|byte| matches!(byte, b'%' | b'+'))
}

fn has_captures(text: &Text) -> bool {
    text.parts().iter().any(|part| matches!(part, Part::Capture(_)))
}

/// The value with `$1` and the like escaped.
fn with_escaped_captures(text: &Text, ex: &mut Exchange, cx: &Cx) -> Vec<u8> {
    let mut out = Vec::new();
    for part in text.parts() {
        match part {
            Part::Literal(bytes) => out.extend_from_slice(bytes),
            Part::Var(var) => {
                vars::append(var, ex, cx, &mut out);
            }
            Part::Capture(n) => {
                escape_uri(ex.eval.captures.get(usize::from(*n)).unwrap_or(b""), Escape::Args, &mut out);
            }
        }
    }
    out
}

/// A redirect's path as nginx writes it: up to a `?`, what need not be encoded is decoded.
fn decoded_for_redirect(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut at = 0;
    while at < path.len() {
        let pair = (path[at] == b'%').then(|| path.get(at + 1..at + 3)).flatten();
        let decoded =
            pair.and_then(|pair| std::str::from_utf8(pair).ok()).and_then(|pair| u8::from_str_radix(pair, 16).ok());
        let (byte, taken) = match decoded {
            Some(byte @ b'&'..0x7f) => (byte, 3),
            _ => (path[at], 1),
        };
        out.push(byte);
        at += taken;
        if byte == b'?' {
            break;
        }
    }
    out.extend_from_slice(path.get(at..).unwrap_or_default());
    out
}

/// Splits the URI of an internal redirect into the decoded path and the arguments after `?`.
pub fn split_uri(uri: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let (path, args) = match uri.iter().position(|&byte| byte == b'?') {
        Some(at) => (&uri[..at], &uri[at + 1..]),
        None => (uri, &b""[..]),
    };
    let mut decoded = Vec::new();
    unescape(path, &mut decoded);
    (decoded, args.to_vec())
}

/// Whether a URI leaves its folder by `..`, or has a NUL (ngx_http_parse_unsafe_uri).
pub fn is_unsafe_uri(uri: &[u8]) -> bool {
    let path = uri.split(|&byte| byte == b'?').next().unwrap_or_default();
    let mut decoded = Vec::new();
    larder_http::unescape(path, &mut decoded);
    decoded.contains(&0) || decoded.split(|&byte| byte == b'/').any(|segment| segment == b"..")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_that_leaves_its_folder_is_unsafe() {
        for (uri, unsafe_uri) in [
            ("/protected/a.pdf", false),
            ("/a..b/c", false),
            ("/a/../b", true),
            ("/..", true),
            ("/%2e%2e/etc/passwd", true),
            ("/a%00b", true),
            ("/a?x=/../b", false),
        ] {
            assert_eq!(is_unsafe_uri(uri.as_bytes()), unsafe_uri, "{uri}");
        }
    }

    #[test]
    fn a_redirect_is_decoded_up_to_its_question_mark() {
        for (path, out) in [
            ("/plain", "/plain"),
            ("/a%41b", "/aAb"),
            ("/a%20b", "/a%20b"),
            ("/a%25b", "/a%25b"),
            ("/a%3Fb%41", "/a?b%41"),
            ("/a?b%41", "/a?b%41"),
            ("/broken%4", "/broken%4"),
            ("/broken%zz", "/broken%zz"),
            ("/high%C3%A9", "/high%C3%A9"),
        ] {
            assert_eq!(decoded_for_redirect(path.as_bytes()), out.as_bytes(), "{path}");
        }
    }

    #[test]
    fn an_internal_redirect_is_split_at_its_question_mark() {
        for (uri, path, args) in
            [("/a%20b?c=%20", "/a b", "c=%20"), ("/a", "/a", ""), ("/a?", "/a", ""), ("?x", "", "x")]
        {
            assert_eq!(split_uri(uri.as_bytes()), (path.into(), args.into()), "{uri}");
        }
    }
}
