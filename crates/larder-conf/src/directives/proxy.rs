//! `proxy_*`: passing requests to HTTP servers.

use super::origin::{check_pass, shared_table};
use super::purge::{Whose, cache_purge};
use super::{Action, Args, Contexts, DirectiveInfo, HSL, LIMIT_EXCEPT, LOCATION, ONE, directive, http, repeated};
use crate::cx::Cx;
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{Handler, Matcher, Pattern, ProxyRedirect, ProxyRedirectRule, Rewriting, Template};
use crate::template;
use crate::tree::{Directive, Word};

pub const SHARED: &[DirectiveInfo] = shared_table!("proxy", proxy_origin);

pub const TABLE: &[DirectiveInfo] = &[
    directive("proxy_pass", LOCATION.or(Contexts::IF_IN_LOCATION).or(LIMIT_EXCEPT), ONE, Action::Level(proxy_pass)),
    directive(
        "proxy_http_version",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            if d.text(0) == "2" {
                return Err(Diagnostic::error("\"proxy_http_version 2\" is not available in this version of larder")
                    .at(d.arg(0).span)
                    .help("use 1.1"));
            }
            http::set(&mut l.proxy().http_1_1, http::choose(d, &[("1.0", false), ("1.1", true)]))
        }),
    ),
    repeated(
        "proxy_set_header",
        HSL,
        Args::Between(2, 2),
        Action::Level(|l, _, d| {
            let header = (d.text(0).to_owned(), d.template(1)?);
            let is_first = l.is_first;
            let list = &mut l.proxy().set_headers;
            if is_first {
                list.clear();
            }
            list.push(header);
            Ok(())
        }),
    ),
    directive(
        "proxy_set_body",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.proxy().set_body, d.template(0).map(Some))),
    ),
    directive(
        "proxy_method",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.proxy().method, d.template(0).map(Some))),
    ),
    directive(
        "proxy_cache_convert_head",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.proxy_origin().cache.convert_head, d.flag())),
    ),
    repeated("proxy_redirect", HSL, Args::Between(1, 2), Action::Level(proxy_redirect)),
    repeated(
        "proxy_cookie_domain",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            cookie_rule(is_first, &mut l.proxy().cookie_domains, d, CookiePart::Domain)
        }),
    ),
    repeated(
        "proxy_cookie_path",
        HSL,
        Args::Between(1, 2),
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            cookie_rule(is_first, &mut l.proxy().cookie_paths, d, CookiePart::Path)
        }),
    ),
    repeated("proxy_cookie_flags", HSL, Args::AtLeast(1), Action::Level(cookie_flags)),
    directive(
        "proxy_cache_purge",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            cache_purge(l, cx, d, Whose { prefix: "proxy", cache: "proxy_cache", settings: Level::proxy_origin })
        }),
    ),
];

fn proxy_pass(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    check_pass(d)?;
    let word = d.arg(0);
    let pass = d.template(0)?;
    if let Some(url) = template::as_literal(&pass) {
        check_url(level, word, url)?;
    }
    level.handler = Handler::Proxy(pass);
    Ok(())
}

/// A URL without variables: `http://host[:port][/uri]` or `http://unix:/path:[/uri]`, or `https://`.
fn check_url(level: &Level, word: &Word, url: &str) -> Outcome {
    let lower = url.to_ascii_lowercase();
    let Some(scheme) = ["http://", "https://"].into_iter().find(|scheme| lower.starts_with(scheme)) else {
        let diagnostic =
            Diagnostic::error("invalid URL prefix").at(word.span).label("a URL begins with http:// or https://");
        return Err(match url.contains("://") {
            true => diagnostic,
            false => diagnostic.help(format!("did you mean \"http://{url}\"?")),
        });
    };
    let rest = &url[scheme.len()..];
    let (host, uri) = match rest.strip_prefix("unix:") {
        Some(path) => {
            let (path, uri) = path.split_once(':').unwrap_or((path, ""));
            if path.is_empty() {
                return Err(Diagnostic::error(format!("no path in upstream \"{rest}\"")).at(word.span));
            }
            ("unix:", uri)
        }
        None => rest.find(['/', '?']).map_or((rest, ""), |at| rest.split_at(at)),
    };
    if host != "unix:" {
        let host = Word { text: host.to_owned(), ..word.clone() };
        super::address::check_address(&host)?;
    }
    let has_no_prefix = match level.matcher {
        Matcher::Regex(_) | Matcher::Named(_) => true,
        Matcher::Exact(_) | Matcher::Prefix { .. } | Matcher::Root => level.context != LOCATION,
    };
    match uri.is_empty() || !has_no_prefix {
        true => Ok(()),
        false => Err(Diagnostic::error(
            "\"proxy_pass\" cannot have URI part in location given by regular expression, or inside named location, \
             or inside \"if\" statement, or inside \"limit_except\" block",
        )
        .at(word.span)
        .label(format!("the URI part is \"{uri}\""))
        .help("leave it out, or put the URI together with \"rewrite ... break\"")),
    }
}

fn proxy_redirect(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    if !is_first && matches!(level.settings.proxy.redirect, ProxyRedirect::Off) {
        return Err(d.duplicate());
    }
    let rule = match (d.text(0), d.args.len()) {
        ("off", 1) => {
            if !is_first {
                return Err(d.duplicate());
            }
            level.proxy().redirect = ProxyRedirect::Off;
            return Ok(());
        }
        ("default", 1) => {
            check_default(level, d)?;
            ProxyRedirectRule::Default
        }
        (_, 1) => {
            return Err(d.invalid_parameter(d.arg(0)).label("it must be \"default\", \"off\" or two arguments"));
        }
        _ => ProxyRedirectRule::Replace(pattern(d.arg(0), true)?, d.template(1)?),
    };
    match (&mut level.proxy().redirect, is_first) {
        (ProxyRedirect::Rules(rules), false) => rules.push(rule),
        (redirect, _) => *redirect = ProxyRedirect::Rules(vec![rule]),
    }
    Ok(())
}

/// `default` is made from the `proxy_pass` of the same location, which has to stand before it.
fn check_default(level: &Level, d: &Directive) -> Outcome {
    let message = match (level.place("proxy_pass"), &level.handler) {
        (Some(_), Handler::Proxy(pass)) if template::as_literal(pass).is_some() => return Ok(()),
        (Some(_), _) => "\"proxy_redirect default\" cannot be used with \"proxy_pass\" directive with variables",
        (None, _) => "\"proxy_redirect default\" should be placed after the \"proxy_pass\" directive",
    };
    Err(Diagnostic::error(message).at(d.span()).help("without \"proxy_redirect\" the default holds everywhere"))
}

/// What the rewriting of a cookie is about.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CookiePart {
    /// Compared without case and without a leading dot.
    Domain,
    Path,
}

fn cookie_rule(is_first: bool, rules: &mut Vec<(Rewriting, Template)>, d: &Directive, part: CookiePart) -> Outcome {
    if is_first {
        rules.clear();
    }
    if d.args.len() == 1 {
        return match d.text(0) {
            "off" if is_first => Ok(()),
            "off" => Err(d.duplicate()),
            _ => Err(d.invalid_parameter(d.arg(0)).label("it must be \"off\" or two arguments")),
        };
    }
    let (mut from, mut to) = (d.arg(0).clone(), d.arg(1).clone());
    if part == CookiePart::Domain && !from.text.starts_with('~') {
        for word in [&mut from, &mut to] {
            if let Some(rest) = word.text.strip_prefix('.') {
                word.text = rest.to_owned();
            }
        }
    }
    let mut from = pattern(&from, part == CookiePart::Path)?;
    if let (Rewriting::Regex(pattern), CookiePart::Domain) = (&mut from, part) {
        pattern.caseless = true;
    }
    rules.push((from, template::of(&to)?));
    Ok(())
}

fn cookie_flags(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    let is_first = level.is_first;
    let rules = &mut level.proxy().cookie_flags;
    if is_first {
        rules.clear();
    } else if rules.is_empty() {
        return Err(d.duplicate());
    }
    if d.args.len() == 1 {
        return match d.text(0) {
            "off" if is_first => Ok(()),
            "off" => Err(d.duplicate()),
            _ => Err(d.invalid_parameter(d.arg(0)).label("it must be \"off\", or a cookie and its flags")),
        };
    }
    let mut cookie = pattern(d.arg(0), false)?;
    if let Rewriting::Regex(pattern) = &mut cookie {
        pattern.caseless = true;
    }
    let mut flags = Vec::new();
    for word in &d.args[1..] {
        let flag = template::of(word)?;
        let is_known = |text: &str| COOKIE_FLAGS.iter().any(|known| known.eq_ignore_ascii_case(text));
        if let Some(text) = template::as_literal(&flag).filter(|text| !is_known(text)) {
            cx.report(
                Diagnostic::warning(format!("invalid proxy_cookie_flags flag \"{text}\""))
                    .at(word.span)
                    .label(format!("it has no effect; the flags are {}", COOKIE_FLAGS.join(", "))),
            );
        }
        flags.push(flag);
    }
    rules.push((cookie, flags));
    Ok(())
}

/// The flags of `proxy_cookie_flags`, in any case. nginx passes over any other without a word.
const COOKIE_FLAGS: [&str; 8] =
    ["secure", "nosecure", "httponly", "nohttponly", "samesite=strict", "samesite=lax", "samesite=none", "nosamesite"];

/// A text, `~pattern`, or where it is known `~*pattern`.
fn pattern(word: &Word, knows_caseless: bool) -> Outcome<Rewriting> {
    let Some(source) = word.text.strip_prefix('~') else {
        return Ok(Rewriting::Text(template::of(word)?));
    };
    let (source, caseless) = match source.strip_prefix('*') {
        Some(source) if knows_caseless => (source, true),
        _ => (source, false),
    };
    Ok(Rewriting::Regex(Pattern { source: source.to_owned(), caseless, span: word.span }))
}
