//! Purges from the dashboard: a page by its URL, for who may purge it where it is.
//!
//! Such a purge is a request of its own, `PURGE` of the URL, from the address of who looks at the dashboard. It goes through
//! server, rewrites, location and access rules as one by a plugin, and `larder_purge_from` of that location decides. What is
//! not decided at once, as by a password or `auth_request`, is refused; nothing else than a purge comes of it.
//!
//! A browser sends what a page of any site has it send, with the address that may purge. So a purge needs a field that such a
//! page cannot add without being allowed to, has to come from the dashboard's own origin, and by a name that is no stranger's:
//! that can lead here too (DNS rebinding).

use std::rc::Rc;

use larder_http::{Fields, status};
use larder_tls::VerifyMode;
use serde_json::{Value, json};

use crate::context::Cx;
use crate::exchange::{Exchange, Purpose, RequestBody};
use crate::net::Inbound;
use crate::typed_url::{Escapes, TypedUrl};

use super::purge_from::{self, may_purge};
use super::{Content, Response, Slow, Step, from_page, receive, refill};

/// A purge that is asked for.
pub struct Asked {
    url: String,
    is_soft: bool,
    /// Whether it is carried out, or only asked whether it may be.
    purpose: Purpose,
}

/// Whether the URL may be purged: `{"may": true}`.
pub fn may(url: String) -> Step {
    Slow::PurgeUrl(Box::new(Asked { url, is_soft: false, purpose: Purpose::MayPurge })).into()
}

/// Purges what the body of the request names: `{"url": "http://host/path", "soft": true}`.
pub fn asked(ex: &mut Exchange, cx: &Cx) -> Step {
    if let Some(why) = not_own(ex, cx) {
        return told(status::FORBIDDEN, why, ex);
    }
    let body = match &ex.request.body {
        RequestBody::Unread(_) => return Slow::ReadBody.into(),
        RequestBody::Memory(bytes) if bytes.len() <= BODY_BYTES_MAX => bytes.clone(),
        RequestBody::None | RequestBody::Memory(_) | RequestBody::File(..) | RequestBody::Passing(_) => {
            return told(status::BAD_REQUEST, FORM, ex);
        }
    };
    match read(&body) {
        Some((url, is_soft)) => Slow::PurgeUrl(Box::new(Asked { url, is_soft, purpose: Purpose::Purge })).into(),
        None => told(status::BAD_REQUEST, FORM, ex),
    }
}

fn read(body: &[u8]) -> Option<(String, bool)> {
    let mut said: serde_json::Map<String, Value> = serde_json::from_slice(body).ok()?;
    let Value::String(url) = said.remove("url")? else { return None };
    let is_soft = said.remove("soft").map_or(Some(false), |soft| soft.as_bool())?;
    said.is_empty().then_some((url, is_soft))
}

/// Why it may be that somebody else's page has sent the request; `None` for the dashboard, and for a program.
fn not_own(ex: &Exchange, cx: &Cx) -> Option<&'static str> {
    let fields = &ex.asked.head.fields;
    if !fields.get_all(FIELD).any(|value| value == b"1") {
        return Some("a purge needs the field \"X-Larder-Dashboard: 1\"");
    }
    if !is_same_origin(fields) {
        return Some("\"Origin\" or \"Sec-Fetch-Site\" says that another site has sent this");
    }
    from_page::has_foreign_name(ex, cx).then_some("the host of the request is no address, and no \"server_name\" here")
}

/// Whether the fields of a browser, if there are any, say that a page of this very host, scheme and port has sent it.
fn is_same_origin(fields: &Fields) -> bool {
    let host = fields.get_all("Host").next().unwrap_or_default();
    let is_own = |origin: &[u8]| {
        let authority = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
        authority.is_some_and(|authority| !host.is_empty() && authority.eq_ignore_ascii_case(host))
    };
    fields.get_all("Sec-Fetch-Site").all(|site| site == b"same-origin") && fields.get_all("Origin").all(is_own)
}

/// Purges, or asks whether it may be, and tells what has come of it.
pub async fn carry_out(asked: Asked, ex: &mut Exchange, cx: &Cx) -> Step {
    let is_question = asked.purpose == Purpose::MayPurge;
    let outcome = purged(&asked, ex, cx).await;
    match (is_question, outcome) {
        (true, outcome) => {
            let may = matches!(outcome, Ok((status::OK, _)));
            json(status::OK, &json!({ "may": may }), ex)
        }
        (false, Ok((status, text))) => told(status, &text, ex),
        (false, Err(why)) => told(status::FORBIDDEN, why, ex),
    }
}

/// The status and the text with which the purge was answered. An error says why it was not.
async fn purged(asked: &Asked, ex: &Exchange, cx: &Cx) -> Result<(u16, String), &'static str> {
    let typed = TypedUrl::parse(&asked.url).map_err(|_| NO_URL)?;
    let uri = typed.target(Escapes::Upper);
    if asked.url.is_empty() || uri.bytes().any(|byte| byte.is_ascii_control() || byte == b' ') {
        return Err(NO_URL);
    }
    let host = typed.host.to_ascii_lowercase();
    let way = refill::way_to(typed.tls == Some(true), host.as_bytes(), cx.site());
    let (listener, host) = way.ok_or(NOT_ONE_SERVER)?;
    let port = refill::port_of(listener).filter(|port| *port != refill::usual_port(listener));
    let mut head = refill::first_lines(b"PURGE ", uri.as_bytes(), host, port);
    // The page itself, even if its URL ends with `*`.
    head.extend_from_slice(b"X-Purge-Method: exact\r\n");
    if asked.is_soft {
        head.extend_from_slice(b"X-Purge-Soft: 1\r\n");
    }
    head.extend_from_slice(b"\r\n");
    let client = refill::client(listener, ex.remote_ip(), cx.now());
    let mut own = cx.worker.exchange(&Rc::new(client));
    own.request.nested.purpose = asked.purpose;
    let begun = receive::begin_unseen(&head, listener, &mut own, cx, cx.now());
    let outcome = match begun {
        // Where a certificate of the client is asked for, this one has none.
        Ok(step) if cx.server(&own).verify == VerifyMode::Off => {
            own.request.limits.req_asked = true;
            own.request.limits.conn_asked = true;
            let settled = Box::pin(super::run(step, &mut own, cx, Inbound::Nobody)).await;
            match settled.and_then(|settled| settled.into_part()).map(|response| response.content) {
                Some(Content::Bytes(text)) => Ok((own.reply.status, String::from_utf8_lossy(&text).into_owned())),
                Some(_) | None => Err(NOT_DECIDED),
            }
        }
        Ok(_) => Err(NOT_DECIDED),
        Err(_) => Err(NO_URL),
    };
    cx.worker.recycle(own);
    outcome
}

/// `step`, if it is on the way to a purge; else the end.
pub fn only_of_purges(step: Step, ex: &mut Exchange, cx: &Cx) -> Step {
    let step = if matches!(step, Step::Handle) { handle(ex, cx) } else { step };
    match step {
        // What larder says of a purge. Whatever else answers has not purged.
        Step::Deliver(response) => Step::Part(response),
        Step::Route(_)
        | Step::Find
        | Step::Redirect(_)
        | Step::Restart
        | Step::Part(_)
        | Step::Slow(Slow::PurgePages(_)) => step,
        Step::Handle
        | Step::Lookup
        | Step::LookInZone(_)
        | Step::Synth(_)
        | Step::Slow(_)
        | Step::Page(_)
        | Step::Send(_)
        | Step::Abort => Step::Abort,
    }
}

/// The answer of the location of the page.
fn handle(ex: &mut Exchange, cx: &Cx) -> Step {
    let may = cx.loc(ex).modules.purging.as_ref().is_some_and(|rule| may_purge(rule, ex));
    if !may {
        return purge_from::told(status::FORBIDDEN, MAY_NOT.to_owned(), &FORM_OF_ANSWERS, ex);
    }
    match purge_from::asked(ex, cx) {
        Some(Ok(Step::Slow(Slow::PurgePages(_)))) if ex.request.nested.purpose == Purpose::MayPurge => {
            purge_from::told(status::OK, String::new(), &FORM_OF_ANSWERS, ex)
        }
        Some(Ok(step)) => step,
        Some(Err(_)) | None => Step::Abort,
    }
}

fn told(status: u16, text: &str, ex: &mut Exchange) -> Step {
    json(status, &json!({ "status": status, "text": text.trim_end() }), ex)
}

fn json(status: u16, value: &Value, ex: &mut Exchange) -> Step {
    ex.reply.status = status;
    ex.reply.fields.set("Content-Type", b"application/json");
    ex.reply.fields.set("Cache-Control", b"no-store");
    Step::Deliver(Response::own(Content::Bytes(value.to_string().into())))
}

const FORM_OF_ANSWERS: crate::purges::apis::Form = crate::purges::apis::Form::Text;
const FIELD: &str = "X-Larder-Dashboard";
const BODY_BYTES_MAX: usize = 64 * 1024;
const FORM: &str = "the body is no {\"url\": \"http://host/path\", \"soft\": true}";
const NO_URL: &str = "this is no URL";
const MAY_NOT: &str = "\"larder_purge_from\" of the location of this page does not let the client's address purge";
const NOT_ONE_SERVER: &str = "the host of the page does not lead to one server at all addresses of its scheme";
const NOT_DECIDED: &str =
    "the location of this page lets nobody purge at once: it has a password, \"return\" or the like";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_site_sends_is_known_by_its_fields() {
        for (lines, is_own) in [
            (&[][..], true),
            (&[("Origin", "http://a:81")], true),
            (&[("Origin", "https://A:81"), ("Sec-Fetch-Site", "same-origin")], true),
            (&[("Origin", "http://a")], false),
            (&[("Origin", "http://b:81")], false),
            (&[("Origin", "null")], false),
            (&[("Origin", "")], false),
            (&[("Sec-Fetch-Site", "same-site")], false),
            (&[("Sec-Fetch-Site", "none")], false),
            (&[("Sec-Fetch-Site", "same-origin"), ("Sec-Fetch-Site", "cross-site")], false),
            (&[("Origin", "http://a:81"), ("Origin", "http://b")], false),
        ] {
            let mut fields = Fields::new();
            fields.push(b"Host", b"a:81");
            lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
            assert_eq!(is_same_origin(&fields), is_own, "{lines:?}");
        }
    }

    #[test]
    fn a_purge_names_one_url() {
        for (body, expected) in [
            (&br#"{"url":"http://a/b"}"#[..], Some(("http://a/b", false))),
            (br#"{"url":"/b","soft":true}"#, Some(("/b", true))),
            (br#"{"url":"/b","soft":1}"#, None),
            (br#"{"url":["/b"]}"#, None),
            (br#"{"url":"/b","all":true}"#, None),
            (b"{}", None),
            (b"url=/b", None),
            (b"\xff", None),
        ] {
            let expected = expected.map(|(url, is_soft)| (url.to_owned(), is_soft));
            assert_eq!(read(body), expected, "{}", String::from_utf8_lossy(body));
        }
    }
}
