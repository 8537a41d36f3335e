//! `larder_status`, and `api` as NGINX Plus calls it: what is asked for, and how it is told.

use std::rc::Rc;
use std::sync::LazyLock;

use bytes::Bytes;
use larder_http::{Fields, Known, Method, list, status};
use larder_store::BodyReader;
use sha2::{Digest, Sha256};

use crate::auth::encode_base64;
use crate::context::Cx;
use crate::exchange::Exchange;
use crate::status::{Asked, PAGE, Wrong, value};
use crate::variable::{RequestVar, Var};
use crate::vars;
use crate::worker::Worker;

use super::{Content, Response, Step, dashboard_purge, from_page};

/// Answers from the path below that of the location.
pub fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let is_read = matches!(ex.request.method, Method::Get | Method::Head);
    let refused = refused(ex, cx);
    if let Some(step) = (is_read && refused.is_none()).then(|| for_browsers(ex, cx)).flatten() {
        return step;
    }
    if ex.request.method == Method::Post && refused.is_none() && is_purge(ex, cx) {
        return dashboard_purge::asked(ex, cx);
    }
    let told = match ex.request.method {
        _ if let Some(wrong) = refused => Err(wrong),
        Method::Get | Method::Head => asked(ex, cx),
        Method::Options => {
            ex.reply.status = status::OK;
            ex.reply.fields.set("Allow", METHODS.as_bytes());
            return Step::Deliver(Response::own(Content::Empty));
        }
        _ => Err(Wrong::READ_ONLY),
    };
    let (status, body) = match told {
        Ok(value) => (status::OK, value),
        Err(wrong) => {
            let mut id = Vec::new();
            vars::append(&Var::Request(RequestVar::RequestId), ex, cx, &mut id);
            (wrong.status, wrong.json(&String::from_utf8_lossy(&id)))
        }
    };
    ex.reply.status = status;
    ex.reply.fields.set("Content-Type", b"application/json");
    ex.reply.fields.set("Cache-Control", b"no-store");
    if is_at_root(ex, cx) {
        ex.reply.fields.set("Vary", b"Accept");
    }
    if status == status::NOT_ALLOWED {
        ex.reply.fields.set("Allow", METHODS.as_bytes());
    }
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(body.to_string()))))
}

fn is_purge(ex: &Exchange, cx: &Cx) -> bool {
    let path = String::from_utf8_lossy(below(&cx.loc(ex).matching.prefix, &ex.request.uri));
    segments(&path)[..] == ["larder", "1", "purge"]
}

/// Why a page of another site is told nothing.
fn refused(ex: &Exchange, cx: &Cx) -> Option<Wrong> {
    match () {
        () if from_page::is_cross_site(&ex.asked.head.fields) => Some(Wrong::CROSS_SITE),
        () if from_page::has_foreign_host(ex, cx) => Some(Wrong::FOREIGN_HOST),
        () => None,
    }
}

/// Whether nothing is below the location in the path: there browsers get a page.
fn is_at_root(ex: &Exchange, cx: &Cx) -> bool {
    segments(&String::from_utf8_lossy(below(&cx.loc(ex).matching.prefix, &ex.request.uri))).is_empty()
}

const METHODS: &str = "GET, HEAD, OPTIONS";

/// The dashboard, its stream, and explanations for it; `None` if something else is asked for.
fn for_browsers(ex: &mut Exchange, cx: &Cx) -> Option<Step> {
    let path = String::from_utf8_lossy(below(&cx.loc(ex).matching.prefix, &ex.request.uri)).into_owned();
    let (content_type, content) = match segments(&path)[..] {
        [] if wants_page(&ex.asked.head.fields) => {
            ex.reply.fields.set("Content-Security-Policy", SECURITY_POLICY.as_bytes());
            ex.reply.fields.set("X-Content-Type-Options", b"nosniff");
            ex.reply.fields.set("Vary", b"Accept");
            ("text/html; charset=utf-8", Content::Bytes(Bytes::from_static(PAGE.as_bytes())))
        }
        ["larder", "1", "live"] => {
            let content = match ex.is_head() {
                true => Content::Empty,
                false => Content::Stream(stream(&cx.worker), None),
            };
            ("text/event-stream", content)
        }
        ["larder", "1", "purge"] => return Some(dashboard_purge::may(argument(&ex.request.args, "url"))),
        ["larder", "1", "explain"] => {
            let explain = cx.worker.shared.explain?;
            let told = explain(&question(&ex.request.args), &cx.worker);
            ex.reply.status = if told.is_ok() { status::OK } else { status::BAD_REQUEST };
            ex.reply.fields.set("Cache-Control", b"no-store");
            ex.reply.fields.set("Content-Type", b"text/plain; charset=utf-8");
            let text = told.unwrap_or_else(|why| format!("{why}\n"));
            return Some(Step::Deliver(Response::own(Content::Bytes(Bytes::from(text)))));
        }
        _ => return None,
    };
    ex.reply.status = status::OK;
    ex.reply.fields.set("Content-Type", content_type.as_bytes());
    ex.reply.fields.set("Cache-Control", b"no-store");
    Some(Step::Deliver(Response::own(content)))
}

/// The page has its own style and script, whose digests stand here, and asks nobody else for anything.
static SECURITY_POLICY: LazyLock<String> = LazyLock::new(|| {
    let [style, script] = ["style", "script"].map(digest);
    format!(
        "default-src 'none'; style-src {style}; script-src {script}; connect-src 'self'; img-src data:; form-action 'none'; \
         frame-ancestors 'none'; base-uri 'none'"
    )
});

/// The digest of what stands in an element of the page. Source: Content Security Policy Level 3, section 2.3.1, `hash-source`.
fn digest(element: &str) -> String {
    let begin = format!("<{element}>");
    let inside = PAGE.split_once(&*begin).and_then(|(_, rest)| rest.split_once(&*format!("</{element}>")));
    let inside = inside.map_or("", |(inside, _)| inside);
    format!("'sha256-{}'", String::from_utf8_lossy(&encode_base64(&Sha256::digest(inside))))
}

/// Whether a browser asks, which takes pages rather than JSON.
fn wants_page(fields: &Fields) -> bool {
    let is_page =
        |member: &[u8]| member.split(|byte| *byte == b';').next().is_some_and(|kind| kind.trim_ascii() == b"text/html");
    fields.all_known(Known::Accept).flat_map(list::members).any(is_page)
}

/// `url=` and `cookie=` of a query, as `larder explain` asks.
fn question(args: &[u8]) -> String {
    let (url, cookie) = (argument(args, "url"), argument(args, "cookie"));
    let field = if cookie.is_empty() { String::new() } else { format!("Cookie: {cookie}\n") };
    format!("GET {url}\n\n{field}")
}

/// The value of an argument, in one line: what would end it would be another question.
fn argument(args: &[u8], name: &str) -> String {
    let found = args.split(|byte| *byte == b'&').find_map(|arg| arg.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    let plain: Vec<u8> =
        found.unwrap_or_default().iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
    let mut text = Vec::new();
    larder_http::unescape(&plain, &mut text);
    String::from_utf8_lossy(&text).replace(['\r', '\n'], " ")
}

/// How many events a stream has; then a browser asks again by itself. So no end of a worker waits long, and who reads nothing
/// is forgotten.
const EVENTS: usize = 60;

/// Has browsers ask again at once, and not after some seconds. Source: the HTML standard, "Server-sent events".
const REOPEN: &[u8] = b"retry: 100\n";

/// This moment, once a second. A client that is too slow misses some.
fn stream(worker: &Rc<Worker>) -> BodyReader {
    let mut told = worker.shared.dash.watch();
    let mut next = Bytes::from([REOPEN, &crate::status::event(&worker.cx())].concat());
    let (mut writer, body) = larder_store::body(None, None);
    let reader = body.reader();
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        for _ in 0..EVENTS {
            if writer.append(next).is_err() {
                return;
            }
            writer.wait_for_room().await;
            let is_told = tokio::select! {
                told = told.changed() => told.is_ok(),
                () = worker.seats.is_to_close() => false,
            };
            if !is_told {
                break;
            }
            next = told.borrow_and_update().clone();
        }
        writer.finish();
    });
    reader
}

fn asked(ex: &Exchange, cx: &Cx) -> Result<serde_json::Value, Wrong> {
    let path = String::from_utf8_lossy(below(&cx.loc(ex).matching.prefix, &ex.request.uri));
    let fields = fields(&ex.request.args);
    let address = ex.asked.client.local.map_or_else(|| "unix:".to_owned(), |local| local.ip().to_string());
    value(Asked { path: &segments(&path), fields: fields.as_deref(), address: &address }, cx)
}

/// What the path has below that of the location.
fn below<'a>(prefix: &[u8], path: &'a [u8]) -> &'a [u8] {
    path.strip_prefix(prefix).unwrap_or(path)
}

/// Its segments. `/api` may stand in front where the location does not have it.
fn segments(path: &str) -> Vec<&str> {
    let mut segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    if segments.first() == Some(&"api") {
        segments.remove(0);
    }
    segments
}

/// `fields=` of a query: names with commas between them.
fn fields(args: &[u8]) -> Option<Vec<String>> {
    let value = args.split(|byte| *byte == b'&').find_map(|arg| arg.strip_prefix(b"fields="))?;
    let value = String::from_utf8_lossy(value).replace("%2C", ",").replace("%2c", ",");
    Some(value.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_of_any_name_has_the_same_paths() {
        for (prefix, path, expected) in [
            ("/api", "/api", &[][..]),
            ("/api", "/api/", &[]),
            ("/api", "/api/9/http/caches/", &["9", "http", "caches"]),
            ("/api/", "/api/9/nginx", &["9", "nginx"]),
            ("/", "/api/9/nginx", &["9", "nginx"]),
            ("/", "/9/nginx", &["9", "nginx"]),
            ("/status", "/status/9", &["9"]),
            ("/status/", "/status/api/larder/1", &["larder", "1"]),
            // By a regular expression.
            ("", "/api/9", &["9"]),
            ("@named", "/api/9", &["9"]),
            ("/api", "/apis", &["s"]),
        ] {
            let path = String::from_utf8_lossy(below(prefix.as_bytes(), path.as_bytes()));
            assert_eq!(segments(&path), expected, "{prefix} {path}");
        }
    }

    #[test]
    fn fields_are_a_list() {
        for (args, expected) in [
            ("", None),
            ("a=1", None),
            ("fields", None),
            ("fields=", Some(&[][..])),
            ("fields=peers", Some(&["peers"])),
            ("a=1&fields=peers,zone%2Ckeepalive&b", Some(&["peers", "zone", "keepalive"])),
        ] {
            assert_eq!(
                fields(args.as_bytes()).as_deref(),
                expected.map(|e| e.iter().map(ToString::to_string).collect::<Vec<_>>()).as_deref(),
                "{args}"
            );
        }
    }
}
