//! Groups of servers of nginx.conf: `larder.upstream("php")` is a backend that nobody has declared.

use larder_source::{Diagnostic, Span, nearest};

use super::backends;
use super::cx::Cx;
use crate::ast::Word;
use crate::policy::{Argument, BackendId, Endpoint, Expr, ExprKind};
use crate::types::Type;

/// The module of the function.
pub const MODULE: &str = "larder";
/// Its name.
pub const FUNCTION: &str = "upstream";

/// The backend that a call stands for, whose name has to be known before requests come.
pub fn upstream(cx: &mut Cx, args: &[Argument], span: Span) -> Option<Expr> {
    let [Argument::Value(Expr { kind: ExprKind::Text(name), span: name_span, .. })] = args else {
        let message = "the name of an upstream is written out";
        let help = format!("write {MODULE}.{FUNCTION}(\"NAME\") for each of them, and choose by \"if\"");
        return cx.fail(Diagnostic::error(message).at(span).help(help));
    };
    let name = String::from_utf8_lossy(name).into_owned();
    if !cx.upstreams.contains(&name) {
        let help = how_to_name(&name, &cx.upstreams);
        return cx.fail(Diagnostic::error(format!("there is no upstream \"{name}\"")).at(*name_span).help(help));
    }
    let endpoint = Some(Endpoint::Upstream(name.clone()));
    let backends = &mut cx.policy.backends;
    let known = backends.iter().position(|backend| backend.endpoint == endpoint);
    let id = known.unwrap_or_else(|| {
        let mut backend = backends::empty(&Word { text: name, span: *name_span, quoted: true });
        backend.host_header.clone_from(&backend.name);
        backend.endpoint = endpoint;
        backends.push(backend);
        backends.len() - 1
    });
    Some(Expr { kind: ExprKind::Backend(BackendId(id)), ty: Type::Backend, span })
}

/// Which upstreams there are, and how one is made.
fn how_to_name(name: &str, upstreams: &[String]) -> String {
    if let Some(near) = nearest(name, upstreams.iter().map(String::as_str)) {
        return format!("did you mean \"{near}\"?");
    }
    let known = match upstreams {
        [] => "there are none".to_owned(),
        [only] => format!("there is only \"{only}\""),
        all => format!("there are \"{}\"", all.join("\", \"")),
    };
    format!(
        "{known}; \"upstream {name} {{ server ...; }}\" in nginx.conf makes one. Where larder takes the place of \
         varnishd, write a backend for each server, and a director above them"
    )
}
