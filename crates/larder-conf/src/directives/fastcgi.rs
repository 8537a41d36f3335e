//! `fastcgi_*`: passing requests to FastCGI servers.

use super::origin::{check_pass, shared_table};
use super::purge::{Whose, cache_purge};
use super::{Action, Args, Contexts, DirectiveInfo, HSL, LOCATION, ONE, address, directive, http, repeated};
use crate::cx::{Cx, Reference};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::level::Level;
use crate::model::{At, FastCgiParam, Handler, Pattern};
use crate::template;
use crate::tree::Directive;

pub const SHARED: &[DirectiveInfo] = shared_table!("fastcgi", fastcgi_origin);

pub const TABLE: &[DirectiveInfo] = &[
    directive("fastcgi_pass", LOCATION.or(Contexts::IF_IN_LOCATION), ONE, Action::Level(fastcgi_pass)),
    directive(
        "fastcgi_index",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.fastcgi().index, Ok(Some(d.text(0).to_owned())))),
    ),
    directive(
        "fastcgi_split_path_info",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let word = d.arg(0);
            let pattern = Pattern { source: word.text.clone(), caseless: false, span: word.span };
            http::set(&mut l.fastcgi().split_path_info, Ok(Some(pattern)))
        }),
    ),
    repeated("fastcgi_param", HSL, Args::Between(2, 3), Action::Level(fastcgi_param)),
    directive(
        "fastcgi_keep_conn",
        HSL,
        Args::Flag,
        Action::Level(|l, _, d| http::set(&mut l.fastcgi().keep_conn, d.flag())),
    ),
    repeated(
        "fastcgi_catch_stderr",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let is_first = l.is_first;
            let list = &mut l.fastcgi().catch_stderr;
            if is_first {
                list.clear();
            }
            list.push(d.text(0).to_owned());
            Ok(())
        }),
    ),
    directive("larder_php_status", HSL, ONE, Action::Level(php_status)),
    directive(
        "fastcgi_cache_purge",
        HSL,
        Args::AtLeast(1),
        Action::Level(|l, cx, d| {
            cache_purge(l, cx, d, Whose { prefix: "fastcgi", cache: "fastcgi_cache", settings: Level::fastcgi_origin })
        }),
    ),
];

/// A path, or `off`.
fn php_status(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let path = d.text(0);
    let is_path = path.starts_with('/') && !path.contains(['$', '?']);
    if path != "off" && !is_path {
        return Err(Diagnostic::error(format!("invalid path \"{path}\""))
            .at(d.arg(0).span)
            .label("write the pm.status_path of the pool, such as \"/fpm-status\", or \"off\""));
    }
    level.fastcgi().php_status = is_path.then(|| path.to_owned());
    Ok(())
}

fn fastcgi_pass(level: &mut Level, cx: &mut Cx<'_>, d: &Directive) -> Outcome {
    check_pass(d)?;
    let word = d.arg(0);
    let pass = d.template(0)?;
    if let Some(text) = template::as_literal(&pass) {
        if text.contains("://") {
            return Err(Diagnostic::error(format!("invalid host in upstream \"{text}\""))
                .at(word.span)
                .label("\"fastcgi_pass\" takes no scheme: host:port, unix:/path or the name of an \"upstream\""));
        }
        address::check_address(word)?;
        if !address::is_complete(text) {
            cx.references.push(Reference::Group(At { value: text.to_owned(), span: word.span }));
        }
    }
    level.handler = Handler::FastCgi(pass);
    Ok(())
}

fn fastcgi_param(level: &mut Level, _: &mut Cx<'_>, d: &Directive) -> Outcome {
    let if_not_empty = match d.args.get(2) {
        None => false,
        Some(word) if word.text == "if_not_empty" => true,
        Some(word) => return Err(d.invalid_parameter(word)),
    };
    let param = FastCgiParam { name: d.text(0).to_owned(), value: d.template(1)?, if_not_empty };
    let is_first = level.is_first;
    let list = &mut level.fastcgi().params;
    if is_first {
        list.clear();
    }
    list.push(param);
    Ok(())
}
