//! `larder_status`, and `api` as NGINX Plus calls it: what is asked for, and how it is told.

use bytes::Bytes;
use larder_http::{Method, status};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::status::{Asked, Wrong, value};
use crate::variable::{RequestVar, Var};
use crate::vars;

use super::{Content, Response, Step};

/// Answers from the path below that of the location.
pub fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let told = match ex.request.method {
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
    if status == status::NOT_ALLOWED {
        ex.reply.fields.set("Allow", METHODS.as_bytes());
    }
    Step::Deliver(Response::own(Content::Bytes(Bytes::from(body.to_string()))))
}

const METHODS: &str = "GET, HEAD, OPTIONS";

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
