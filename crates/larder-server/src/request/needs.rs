//! What an answer that was not stored would need to be: `larder explain` tells it of the last one of a key.

use larder_cache::{Refusal, TOO_LARGE};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Origin, Policy};
use crate::vsl::Fact;

use super::notes::tell as told;
use super::reasons;

/// Tells of the last answer of a key that it was not stored, why, and what it would have needed.
pub fn tell(refusal: &Refusal, origin: &Origin, ex: &Exchange, cx: &Cx) {
    let by = match &origin.policy {
        Policy::Vcl(_) => By::Vcl,
        Policy::Directives(_) | Policy::Rfc9111(_) => By::Directives(reasons::prefix(&origin.backend.protocol)),
        #[cfg(test)]
        Policy::Written => By::Directives("proxy"),
    };
    let ago = cx.now().since(refusal.at).as_secs();
    let needs = needs(&refusal.why, refusal.status, by);
    let status = refusal.status.map_or_else(|| "none".to_owned(), |status| format!("status {status}"));
    let mut text = format!("{status}, {ago} s ago, not stored: {}", refusal.why);
    if let Some(needs) = &needs {
        text.push_str(&format!("; it would need {needs}"));
    }
    let facts = vec![
        ("status", refusal.status.map_or(Fact::Unknown, |status| Fact::Number(status.into()))),
        ("ago", Fact::number(ago)),
        ("reason", Fact::Text(refusal.why.to_string())),
        ("needs", Fact::text(needs)),
        ("may_be_otherwise", Fact::Flag(refusal.is_passing)),
    ];
    told("last answer", text, None, facts, ex);
}

/// Who has decided about the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    /// The directives whose names begin so, in either mode.
    Directives(&'static str),
    Vcl,
}

/// What an answer would need that was not stored for this reason.
fn needs(why: &str, status: Option<u16>, by: By) -> Option<String> {
    // The reason behind a mark is that of the answer.
    let why = why.strip_prefix(reasons::HIT_FOR_MISS).unwrap_or(why);
    let is = |start: &str| why.starts_with(start);
    if is(TOO_LARGE) {
        return Some(
            "a larger memory or disk for its zone: a page has half of the one, or a quarter of the other".to_owned(),
        );
    }
    if is("no room") {
        return Some("room in its zone".to_owned());
    }
    let By::Directives(prefix) = by else { return needs_of_vcl(why) };
    let status = status.unwrap_or_default();
    Some(match why {
        _ if is("Set-Cookie") => {
            format!("no Set-Cookie, or {prefix}_ignore_headers Set-Cookie, if the cookie is nobody's own")
        }
        _ if why.ends_with(reasons::NO_VALIDATOR) => {
            "a time, such as Cache-Control: max-age=600, or an ETag or Last-Modified to be confirmed by".to_owned()
        }
        "Cache-Control: no-store of the request" => {
            "a request without it, or larder_cache_mode rfc9111 ignore_requests".to_owned()
        }
        _ if is("Cache-Control:") => {
            format!("another Cache-Control, such as max-age=600, or {prefix}_ignore_headers Cache-Control")
        }
        _ if is("Expires") => format!("an Expires that lies ahead, or {prefix}_ignore_headers Expires"),
        _ if is("X-Accel-Expires") => format!("X-Accel-Expires above 0, or {prefix}_ignore_headers X-Accel-Expires"),
        "Vary: *" => format!("a Vary that names fields, or {prefix}_ignore_headers Vary"),
        // An error is better not kept.
        _ if (is("no lifetime") || is("status ")) && status >= 500 => "a status below 500".to_owned(),
        _ if is("no lifetime") || is("status ") => {
            format!("a time: Cache-Control: max-age=600, or {prefix}_cache_valid {status} 10m")
        }
        _ if is("Authorization") => "Cache-Control: public, or a request without Authorization".to_owned(),
        _ if is(prefix) && why.contains("_no_cache") => {
            let condition = why.split_once(' ').map_or("its condition", |(_, condition)| condition);
            let condition = condition.split(" at ").next().unwrap_or(condition);
            format!("{condition} to be empty or 0")
        }
        "x-accel-buffering" => "an answer without X-Accel-Buffering: no".to_owned(),
        "buffering is off" => format!("{prefix}_buffering on"),
        "x-accel-redirect" => "an answer without X-Accel-Redirect".to_owned(),
        "a part of a page" => "the whole page: a status other than 206 and 304".to_owned(),
        reasons::NO_ANSWER | "no turn at the gate" => "an answer of the origin".to_owned(),
        _ => return None,
    })
}

fn needs_of_vcl(why: &str) -> Option<String> {
    Some(match why {
        _ if why.starts_with("beresp.uncacheable") => {
            "vcl_backend_response to leave beresp.uncacheable alone: the built-in one sets it for Set-Cookie, Vary: * and \
             a Cache-Control with no-cache, no-store or private"
                .to_owned()
        }
        _ if why.starts_with("the VCL gives it no time") => {
            "a beresp.ttl above 0: by Cache-Control: max-age=600 of the origin, or in vcl_backend_response".to_owned()
        }
        reasons::NO_ANSWER => "an answer of the backend".to_owned(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_answer_needs_follows_from_why_it_was_not_stored() {
        let by = By::Directives("fastcgi");
        for (why, status, by, expected) in [
            ("Set-Cookie (a, b)", Some(200), by, Some("no Set-Cookie, or fastcgi_ignore_headers Set-Cookie")),
            (
                "Cache-Control: private",
                Some(200),
                by,
                Some("another Cache-Control, such as max-age=600, or fastcgi_ig"),
            ),
            ("Cache-Control: no-store of the request", Some(200), by, Some("a request without it")),
            ("Vary: *", Some(200), by, Some("a Vary that names fields")),
            (
                "no lifetime: the answer says none",
                Some(404),
                by,
                Some("a time: Cache-Control: max-age=600, or fastcgi_cache_valid 404"),
            ),
            ("no lifetime: the answer says none", Some(500), by, Some("a status below 500")),
            ("status 302: it says no time", Some(302), by, Some("a time: ")),
            ("Cache-Control: max-age=0, and no ETag or Last-Modified", Some(200), by, Some("a time, such as ")),
            ("Expires: it does not lie ahead", Some(404), by, Some("an Expires that lies ahead")),
            ("fastcgi_no_cache $skip at a.conf:3", Some(200), by, Some("$skip to be empty or 0")),
            ("too large (700 bytes)", Some(200), By::Vcl, Some("a larger memory or disk")),
            (reasons::NO_ANSWER, None, by, Some("an answer")),
            ("no turn at the gate", None, by, Some("an answer")),
            ("hit-for-miss, then beresp.uncacheable", Some(200), By::Vcl, Some("vcl_backend_response to leave")),
            ("what nobody knows", Some(200), by, None),
            ("what nobody knows", Some(200), By::Vcl, None),
        ] {
            let found = needs(why, status, by);
            let is_right = match expected {
                Some(expected) => found.as_deref().is_some_and(|found| found.starts_with(expected)),
                None => found.is_none(),
            };
            assert!(is_right, "{why}: {found:?}");
        }
    }
}
