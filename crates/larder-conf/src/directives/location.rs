//! `location`, and how files are found in it: `root`, `alias`, `index`, `try_files`, `error_page`.

use super::{
    Action, Args, BlockKind, Contexts, DirectiveInfo, HSL, HSLI, LOCATION, NONE, ONE, SERVER, block, directive, http,
    repeated,
};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{
    At, ErrorPage, ErrorPageStatus, Handler, Matcher, Pattern, Template, TemplatePart, TryFallback, TryFiles,
};
use crate::tree::{Directive, Word};
use crate::{template, values};

pub const TABLE: &[DirectiveInfo] = &[
    block("location", SERVER.or(LOCATION), Args::Between(1, 2), Action::Block(BlockKind::Location)),
    DirectiveInfo {
        repeats: false,
        ..block("limit_except", LOCATION, Args::AtLeast(1), Action::Block(BlockKind::LimitExcept))
    },
    directive("root", HSLI, ONE, Action::Level(root)),
    directive("alias", LOCATION, ONE, Action::Level(alias)),
    directive(
        "internal",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.internal = true;
            Ok(())
        }),
    ),
    repeated("index", HSL, Args::AtLeast(1), Action::Level(index)),
    directive("try_files", SERVER.or(LOCATION), Args::AtLeast(2), Action::Level(try_files)),
    repeated("error_page", HSLI, Args::AtLeast(2), Action::Level(error_page)),
    directive(
        "recursive_error_pages",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.settings.errors.recursive, d.flag())),
    ),
    directive(
        "stub_status",
        SERVER.or(LOCATION),
        Args::Between(0, 1),
        Action::Level(|l, _, _| {
            l.handler = Handler::StubStatus;
            Ok(())
        }),
    ),
    directive(
        "larder_metrics",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.handler = Handler::Metrics;
            Ok(())
        }),
    ),
    directive(
        "empty_gif",
        LOCATION,
        NONE,
        Action::Level(|l, _, _| {
            l.handler = Handler::EmptyGif;
            Ok(())
        }),
    ),
];

/// How a location is matched, and whether it may stand where it does.
pub fn location_matcher(d: &Directive, outer: &Level) -> Outcome<Matcher> {
    let matcher = match d.args.as_slice() {
        [modifier, name] => match modifier.text.as_str() {
            "=" => Matcher::Exact(name.text.clone()),
            "^~" => Matcher::Prefix { path: name.text.clone(), regex_stops: true },
            "~" => regex(name, &name.text, false),
            "~*" => regex(name, &name.text, true),
            other => {
                return Err(Diagnostic::error(format!("invalid location modifier \"{other}\""))
                    .at(modifier.span)
                    .label("it must be \"=\", \"^~\", \"~\" or \"~*\""));
            }
        },
        _ => {
            let word = d.arg(0);
            let text = word.text.as_str();
            if let Some(path) = text.strip_prefix('=') {
                Matcher::Exact(path.to_owned())
            } else if let Some(path) = text.strip_prefix("^~") {
                Matcher::Prefix { path: path.to_owned(), regex_stops: true }
            } else if let Some(pattern) = text.strip_prefix("~*") {
                regex(word, pattern, true)
            } else if let Some(pattern) = text.strip_prefix('~') {
                regex(word, pattern, false)
            } else if text.starts_with('@') {
                Matcher::Named(text.to_owned())
            } else {
                Matcher::Prefix { path: text.to_owned(), regex_stops: false }
            }
        }
    };
    if outer.context == Contexts::LOCATION {
        check_nesting(d, &matcher, &outer.matcher)?;
    }
    Ok(matcher)
}

fn regex(word: &Word, source: &str, caseless: bool) -> Matcher {
    Matcher::Regex(Pattern { source: source.to_owned(), caseless, span: word.span })
}

fn check_nesting(d: &Directive, inner: &Matcher, outer: &Matcher) -> Outcome {
    let (name, outer_name) = (matcher_name(inner), matcher_name(outer));
    let message = match (inner, outer) {
        (_, Matcher::Exact(_)) => {
            format!("location \"{name}\" cannot be inside the exact location \"{outer_name}\"")
        }
        (_, Matcher::Named(_)) => {
            format!("location \"{name}\" cannot be inside the named location \"{outer_name}\"")
        }
        (Matcher::Named(_), _) => {
            format!("named location \"{name}\" can be on the server level only")
        }
        (Matcher::Exact(_) | Matcher::Prefix { .. }, _) if !name.starts_with(outer_name) => {
            format!("location \"{name}\" is outside location \"{outer_name}\"")
        }
        _ => return Ok(()),
    };
    Err(Diagnostic::error(message).at(d.span()))
}

fn matcher_name(matcher: &Matcher) -> &str {
    match matcher {
        Matcher::Root => "",
        Matcher::Exact(name) | Matcher::Prefix { path: name, .. } | Matcher::Named(name) => name,
        Matcher::Regex(pattern) => &pattern.source,
    }
}

/// The methods of `limit_except`.
pub fn limited_methods(d: &Directive) -> Outcome<Vec<String>> {
    const METHODS: [&str; 14] = [
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "DELETE",
        "MKCOL",
        "COPY",
        "MOVE",
        "OPTIONS",
        "PROPFIND",
        "PROPPATCH",
        "LOCK",
        "UNLOCK",
        "PATCH",
    ];
    let mut methods = Vec::new();
    for word in &d.args {
        let method = word.text.to_ascii_uppercase();
        if !METHODS.contains(&method.as_str()) {
            return Err(Diagnostic::error(format!("invalid method \"{}\"", word.text)).at(word.span));
        }
        methods.push(method);
    }
    Ok(methods)
}

/// A path of files: joined to the prefix unless it begins with a variable.
fn file_path(cx: &Cx<'_>, d: &Directive, text: &str) -> Outcome<Template> {
    let word = d.arg(0);
    for variable in ["document_root", "realpath_root"] {
        if text.contains(&format!("${variable}")) || text.contains(&format!("${{{variable}}}")) {
            let message = format!("the ${variable} variable cannot be used in the \"{}\" directive", d.name.text);
            return Err(Diagnostic::error(message).at(word.span));
        }
    }
    if text.starts_with('$') || text.starts_with('/') {
        return template::parse_template(text, word.span);
    }
    let joined = cx.path(text);
    template::parse_template(&joined.to_string_lossy(), word.span)
}

fn root(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    check_root_and_alias(level, d, "alias")?;
    let text = d.text(0);
    let root = file_path(cx, d, text.strip_suffix('/').unwrap_or(text))?;
    level.set_root(root);
    Ok(())
}

fn alias(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    check_root_and_alias(level, d, "root")?;
    level.alias_replaces = match &level.matcher {
        Matcher::Named(_) => {
            let message = "the \"alias\" directive cannot be used inside the named location";
            return Err(Diagnostic::error(message).at(d.name.span).help("use \"root\""));
        }
        Matcher::Exact(path) | Matcher::Prefix { path, .. } => Some(path.len()),
        Matcher::Regex(_) | Matcher::Root => None,
    };
    level.alias = Some(file_path(cx, d, d.text(0))?);
    Ok(())
}

fn check_root_and_alias(level: &Level, d: &Directive, other: &str) -> Outcome {
    let name = &d.name;
    match level.place(other) {
        Some(first) => Err(Diagnostic::error(format!(
            "\"{}\" directive is duplicate, \"{other}\" directive was specified earlier",
            name.text
        ))
        .at(name.span)
        .related(first, "a location has one of them")),
        None => Ok(()),
    }
}

fn index(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let mut names = Vec::new();
    for (at, word) in d.args.iter().enumerate() {
        if word.text.is_empty() {
            return Err(Diagnostic::error("index \"\" in \"index\" directive is invalid").at(word.span));
        }
        if word.text.starts_with('/') && at + 1 != d.args.len() {
            cx.report(
                Diagnostic::warning(format!(
                    "only the last index in \"index\" directive should be absolute, not \"{}\"",
                    word.text
                ))
                .at(word.span),
            );
        }
        names.push(template::of(word)?);
    }
    level.list(|s| &mut s.files.index).extend(names);
    Ok(())
}

fn try_files(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let Some((last, files)) = d.args.split_last() else {
        return Ok(());
    };
    let fallback = if let Some(status) = last.text.strip_prefix('=') {
        let status = values::number(status).and_then(|n| u16::try_from(n).ok()).filter(|&n| n <= 999);
        TryFallback::Status(status.ok_or_else(|| {
            Diagnostic::error(format!("invalid code \"{}\"", last.text)).at(last.span).label("a status looks like =404")
        })?)
    } else if last.text.starts_with('@') {
        TryFallback::Named(At { value: last.text.clone(), span: last.span })
    } else {
        TryFallback::Uri(template::of(last)?)
    };
    let files = files.iter().map(template::of).collect::<Outcome<Vec<_>>>()?;
    level.try_files = Some(TryFiles { files, fallback });
    Ok(())
}

fn error_page(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let Some((target, words)) = d.args.split_last() else {
        return Ok(());
    };
    let (answer, statuses) = match words.split_last() {
        Some((last, statuses)) if last.text.starts_with('=') => {
            if statuses.is_empty() {
                return Err(d.invalid(last, "preceded by a status"));
            }
            let answer = match last.text.as_str() {
                "=" => ErrorPageStatus::OfTarget,
                text => ErrorPageStatus::Fixed(
                    values::number(&text[1..])
                        .and_then(|n| u16::try_from(n).ok())
                        .ok_or_else(|| d.invalid(last, "\"=\" or \"=\" and a status, such as =200"))?,
                ),
            };
            (answer, statuses)
        }
        _ => (ErrorPageStatus::Keep, words),
    };
    let mut numbers = Vec::new();
    for word in statuses {
        let status = values::number(&word.text).and_then(|n| u16::try_from(n).ok());
        match status {
            Some(499) | None => return Err(d.invalid(word, "a status from 300 to 599")),
            Some(status @ 300..=599) => numbers.push(status),
            Some(_) => {
                let message = format!("value \"{}\" must be between 300 and 599", word.text);
                return Err(Diagnostic::error(message).at(word.span));
            }
        }
    }
    let target = template::of(target)?;
    // Only a name that is a name as a whole is one.
    if let [TemplatePart::Literal(text)] = target.parts.as_slice()
        && text == "@"
    {
        return Err(Diagnostic::error("\"@\" names no location").at(target.span));
    }
    level.list(|s| &mut s.errors.pages).push(ErrorPage { statuses: numbers, answer, target });
    Ok(())
}
