//! Warns of `$uri` in a key where an internal redirect leads all pages to one script: `$uri` is that script then, and all
//! pages are one.

use crate::Span;
use crate::diagnostic::Diagnostic;
use crate::model::{
    ErrorPageStatus, Handler, Http, Location, Matcher, Rewrite, RewriteFlag, Server, Template, TemplatePart,
    TryFallback,
};

use super::answering::location_of;
use super::sources::Sources;
use super::{Cached, each_location, each_step, variables};

pub(super) fn lint(http: &Http, cached: &[Cached<'_>], found: &mut Vec<Diagnostic>) {
    let sources = Sources::of(http);
    for place in cached {
        let Some(key) = &place.origin.cache.key else { continue };
        if !is_blind(key, &sources) {
            continue;
        }
        let has_arguments = variables(key).any(|name| ARGUMENTS.contains(&name) || name.starts_with("arg_"));
        let is_told = is_told_the_page(place, &sources);
        let way = ways(place.server).into_iter().find(|way| {
            let makes_one = if way.keeps_path { !has_arguments } else { is_told };
            makes_one && location_of(&place.server.root, &way.script).is_some_and(|it| std::ptr::eq(it, place.location))
        });
        if let Some(way) = way {
            found.push(warning(place, key, &way, has_arguments));
        }
    }
}

fn warning(place: &Cached<'_>, key: &Template, way: &Way, has_arguments: bool) -> Diagnostic {
    let Way { by, script, .. } = way;
    let which = if has_arguments { "with the same arguments " } else { "" };
    let mut warning = *Diagnostic::warning(format!(
        "all pages {which}are one: $uri is \"{script}\" for each that \"{by}\" leads there, and \"{}_cache_key\" has nothing \
         else of what was asked for",
        place.prefix
    ))
    .at(key.span)
    .label("the first page that is asked for is shown for all the others")
    .help("write $request_uri in place of $uri and the arguments; to leave some arguments out, a \"map\" of $request_uri");
    warning.related.push((way.span, "from here".to_owned()));
    warning
}

/// An internal redirect of many pages to one script.
struct Way {
    by: &'static str,
    span: Span,
    script: String,
    /// Whether the arguments of the script name the page.
    keeps_path: bool,
}

impl Way {
    fn of(by: &'static str, target: &Template) -> Option<Way> {
        let mut script = String::new();
        let mut parts = target.parts.iter();
        let mut keeps_path = false;
        let mut is_path = true;
        for part in &mut parts {
            match part {
                TemplatePart::Literal(text) if is_path => {
                    let path = text.split('?').next().unwrap_or_default();
                    script.push_str(path);
                    is_path = path.len() == text.len();
                }
                TemplatePart::Variable(name) if is_path && name == "is_args" => is_path = false,
                TemplatePart::Variable(_) | TemplatePart::Capture(_) if is_path => return None,
                TemplatePart::Variable(name) => keeps_path |= !ARGUMENTS.contains(&name.as_str()),
                TemplatePart::Capture(_) => keeps_path = true,
                TemplatePart::Literal(_) => {}
            }
        }
        let file = script.rsplit('/').next().unwrap_or_default();
        let is_one = script.starts_with('/') && FRONTS.contains(&file);
        is_one.then_some(Way { by, span: target.span, script, keeps_path })
    }
}

fn ways(server: &Server) -> Vec<Way> {
    let mut ways = Vec::new();
    rewrites(&server.script, &mut ways);
    each_location(&server.root, &mut |location| {
        // Of one page alone.
        if matches!(location.matcher, Matcher::Exact(_)) {
            return;
        }
        if let Some(TryFallback::Uri(target)) = location.try_files.as_ref().map(|files| &files.fallback) {
            ways.extend(Way::of("try_files", target));
        }
        rewrites(&location.script, &mut ways);
        if matches!(location.handler, Handler::Static) {
            of_missing_files(location, &mut ways);
        }
    });
    ways
}

fn of_missing_files(location: &Location, ways: &mut Vec<Way>) {
    let settings = &location.settings;
    ways.extend(settings.files.index.iter().filter_map(|index| Way::of("index", index)));
    for page in &settings.errors.pages {
        // Without "=" it is the page of an error, which may well be one for all.
        let is_answer = matches!(page.answer, ErrorPageStatus::OfTarget | ErrorPageStatus::Fixed(200));
        if is_answer && page.statuses.contains(&404) {
            ways.extend(Way::of("error_page", &page.target));
        }
    }
}

fn rewrites(script: &[Rewrite], ways: &mut Vec<Way>) {
    each_step(script, &mut |step| {
        let Rewrite::Rewrite { pattern, replacement, flag, .. } = step else { return };
        if matches!(flag, RewriteFlag::Last | RewriteFlag::None) && matches_many(&pattern.source) {
            ways.extend(Way::of("rewrite", replacement));
        }
    });
}

/// Whether a pattern is one of many pages: `^`, `.*`, `^/(.+)$`, and not `^/robots\.txt$`.
fn matches_many(source: &str) -> bool {
    let is_bare = |text: &str| text.bytes().all(|byte| b"^/.()$".contains(&byte));
    is_bare(source) || source.contains(".*") || source.contains(".+") || source.contains("]*") || source.contains("]+")
}

/// Whether a key has the script's name and nothing that may tell one page from another.
fn is_blind(key: &Template, sources: &Sources) -> bool {
    let tells_nothing =
        |name: &str| SCRIPT.contains(&name) || sources.leaves(name).into_iter().all(is_apart_from_the_path);
    variables(key).any(|name| SCRIPT.contains(&name))
        && variables(key).all(tells_nothing)
        && !key.parts.iter().any(|part| matches!(part, TemplatePart::Capture(_)))
}

fn is_apart_from_the_path(name: &str) -> bool {
    let is_field =
        name.strip_prefix("http_").is_some_and(|field| !["ur", "path", "page"].iter().any(|part| field.contains(part)));
    PLAIN.contains(&name)
        || ARGUMENTS.contains(&name)
        || name.starts_with("arg_")
        || name.starts_with("cookie_")
        || is_field
}

/// Whether the origin learns which page was asked for before the redirect.
fn is_told_the_page(place: &Cached<'_>, sources: &Sources) -> bool {
    let settings = &place.location.settings;
    let tells = |template: &Template| variables(template).any(|name| sources.leaves(name).contains("request_uri"));
    match &place.location.handler {
        Handler::FastCgi(_) => settings.fastcgi.params.iter().any(|param| tells(&param.value)),
        Handler::Proxy(pass) => tells(pass) || settings.proxy.set_headers.iter().any(|(_, value)| tells(value)),
        _ => false,
    }
}

/// Names of scripts that answer for a whole site. Others, such as `404.php`, may have one page for all.
const FRONTS: [&str; 8] =
    ["index.php", "app.php", "front.php", "main.php", "router.php", "doku.php", "index_dev.php", "app_dev.php"];
/// Variables that are the script after a redirect.
const SCRIPT: [&str; 4] = ["uri", "document_uri", "fastcgi_script_name", "request_filename"];
const ARGUMENTS: [&str; 3] = ["args", "query_string", "is_args"];
/// Variables that say nothing about which page was asked for.
const PLAIN: [&str; 14] = [
    "scheme",
    "https",
    "host",
    "http_host",
    "server_name",
    "server_port",
    "server_addr",
    "proxy_host",
    "proxy_port",
    "request_method",
    "document_root",
    "remote_addr",
    "remote_user",
    "slice_range",
];
