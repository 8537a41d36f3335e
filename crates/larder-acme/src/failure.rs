//! Why an attempt brought no certificate, in words for an operator, and what that means for the next one.

use crate::client::Answer;
use crate::store::StoreError;
use http::StatusCode;
use instant_acme::{ChallengeType, Error, Problem};
use std::time::{Duration, SystemTime};

/// A failed attempt.
#[derive(Debug)]
pub(crate) struct Failure {
    /// What happened, and where there is something to mend, what.
    pub(crate) text: String,
    pub(crate) next: Next,
}

/// When to try again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// In a second: nothing was wrong but the moment.
    Soon,
    /// When the waits that double come to it.
    Later,
    /// The same, with waits twice as long: CAs count failed challenges, five an hour at Let's Encrypt.
    LaterForChallenges,
    /// Not before this time has passed: the CA said so.
    NotBefore(Duration),
}

impl Failure {
    pub(crate) fn later(text: impl Into<String>) -> Self {
        Self { text: text.into(), next: Next::Later }
    }

    /// `doing` failed with `error`; `answer` is the response that it came from, if one came.
    pub(crate) fn of(doing: &str, error: &Error, answer: Option<&Answer>, now: SystemTime) -> Self {
        let wait = answer.and_then(|answer| answer.wait(now));
        let refused = answer.filter(|answer| !answer.status.is_success());
        match error {
            Error::Api(problem) => Self {
                text: format!("the CA refuses to {doing}: {}{}", said(problem), mend(problem)),
                next: match (kind(problem), wait) {
                    ("badNonce", _) => Next::Soon,
                    ("rateLimited", wait) => Next::NotBefore(wait.unwrap_or(LIMITED)),
                    (_, Some(wait)) => Next::NotBefore(wait),
                    (_, None) => Next::Later,
                },
            },
            Error::Timeout(_) => {
                Self::later(format!("cannot {doing}: the CA is still busy with it; larder asks again"))
            }
            // What is no problem document comes from something before the CA, or from a URL that is no directory.
            Error::Json(error) => match refused {
                Some(answer) => Self {
                    text: format!("cannot {doing}: the CA answered {}", answer.status),
                    next: wait.map_or(Next::Later, Next::NotBefore),
                },
                None => Self::later(format!("cannot {doing}: the CA's answer is not what ACME says ({error})")),
            },
            Error::Str(what) => Self::later(format!("cannot {doing}: the CA's answer is not what ACME says ({what})")),
            other => Self::later(format!("cannot {doing}: {other}")),
        }
    }

    /// The CA tried challenges, and these are its findings, one a name.
    pub(crate) fn of_challenges(findings: &[String]) -> Self {
        Self { text: findings.join("; "), next: Next::LaterForChallenges }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::later(error.to_string())
    }
}

/// What the CA found when it tried the challenge `challenge` of `name`; `is_shared`: it may have asked any host of the cluster.
pub(crate) fn finding(name: &str, challenge: &ChallengeType, problem: &Problem, is_shared: bool) -> String {
    let host = if name.contains(':') { format!("[{name}]") } else { name.to_string() };
    let (place, port) = match challenge {
        ChallengeType::Http01 => (format!("http://{host}/.well-known/acme-challenge/..."), 80),
        _ => (format!("{host}:443"), 443),
    };
    let detail = said(problem);
    let reach = match is_shared {
        true => format!("port {port} of every host that {name} leads to must reach a larder of the cluster"),
        false => format!("port {port} of this host must reach larder"),
    };
    let lead_to = if is_shared { "larders of the cluster alone" } else { "this host" };
    match kind(problem) {
        "connection" if is_shared => format!("the CA could not reach {place}: {detail}; {reach}"),
        "connection" => {
            format!("the CA could not reach {place}: {detail}; {reach}, and {name} must lead to {lead_to}")
        }
        "dns" => {
            format!("the CA could not look up {name}: {detail}; its A and AAAA records must lead to {lead_to}")
        }
        "unauthorized" | "incorrectResponse" => format!(
            "the CA got another answer than larder's at {place}: {detail}; {name} must lead to {lead_to}, and nothing \
             before larder may answer there"
        ),
        "tls" => {
            format!("the CA could not speak TLS with {place}: {detail}; {reach}, and nothing before it may end TLS")
        }
        "caa" => format!("{}: {detail}{}", name, mend(problem)),
        _ => format!("the CA refuses {name}: {detail}"),
    }
}

/// Whether an order may still come to something after this: it was not the order that was refused.
pub(crate) fn leaves_order(error: &Error, answer: Option<&Answer>) -> bool {
    match error {
        Error::Api(problem) => {
            matches!(kind(problem), "badNonce" | "rateLimited" | "serverInternal")
                || answer.is_some_and(|answer| answer.status.is_server_error())
        }
        // Some refuse without a problem document.
        Error::Json(_) => !answer
            .is_some_and(|answer| answer.status.is_client_error() && answer.status != StatusCode::TOO_MANY_REQUESTS),
        _ => true,
    }
}

/// The last word of the problem's type (RFC 8555 §6.7).
pub(crate) fn kind(problem: &Problem) -> &str {
    let kind = problem.r#type.as_deref().unwrap_or_default();
    kind.strip_prefix("urn:ietf:params:acme:error:").unwrap_or(kind)
}

/// What the CA says in its own words, on one line and not longer than a line may be.
pub(crate) fn said(problem: &Problem) -> String {
    let mut text = match (&problem.detail, kind(problem)) {
        (Some(detail), "") => detail.clone(),
        (Some(detail), kind) => format!("{detail} ({kind})"),
        (None, "") => "it does not say why".into(),
        (None, kind) => kind.into(),
    };
    for subproblem in &problem.subproblems {
        text.push_str(&format!(", {subproblem}"));
    }
    text.chars().take(SAID_CHARS_MAX).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// What can be done about a problem that is no challenge's.
fn mend(problem: &Problem) -> &'static str {
    match kind(problem) {
        "externalAccountRequired" => {
            "; this CA wants to know its customers: configure the key id and the key that its web site hands out"
        }
        "invalidContact" | "unsupportedContact" => "; mend the mail address of the account",
        "userActionRequired" => "; do what the CA says there",
        "rejectedIdentifier" | "unsupportedIdentifier" => "; take that name out of the server, or to another CA",
        "invalidProfile" => "; the CA's directory lists the profiles it has",
        "caa" => "; a CAA record of the name forbids this CA: add the CA to it",
        "dns" => "; the A and AAAA records of the name must lead to larder",
        "accountDoesNotExist" => "; a new account is made",
        _ => "",
    }
}

/// How long to wait if the CA limits us and does not say how long.
const LIMITED: Duration = Duration::from_secs(3600);

const SAID_CHARS_MAX: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;
    fn problem(kind: &str, detail: &str) -> Problem {
        let text = format!(r#"{{"type":"urn:ietf:params:acme:error:{kind}","detail":"{detail}"}}"#);
        serde_json::from_str(&text).expect("it is a problem document")
    }

    fn answer(status: u16, retry_after: Option<&str>) -> Answer {
        let status = StatusCode::from_u16(status).expect("a test names a status");
        Answer { status, retry_after: retry_after.map(String::from) }
    }

    #[test]
    fn the_ca_decides_when_to_come_back_if_it_says_so() {
        let json = || serde_json::from_str::<u8>("<html>").expect_err("it is no JSON");
        for (error, answer, next) in [
            (Error::Api(problem("badNonce", "")), answer(400, None), Next::Soon),
            (
                Error::Api(problem("rateLimited", "")),
                answer(429, Some("7200")),
                Next::NotBefore(Duration::from_secs(7200)),
            ),
            (Error::Api(problem("rateLimited", "")), answer(429, None), Next::NotBefore(LIMITED)),
            (Error::Api(problem("serverInternal", "")), answer(500, None), Next::Later),
            (
                Error::Api(problem("serverInternal", "")),
                answer(503, Some("30")),
                Next::NotBefore(Duration::from_secs(30)),
            ),
            (Error::Api(problem("rejectedIdentifier", "")), answer(400, None), Next::Later),
            (Error::Json(json()), answer(503, Some("60")), Next::NotBefore(Duration::from_secs(60))),
            (Error::Json(json()), answer(200, None), Next::Later),
            (Error::Timeout(None), answer(200, None), Next::Later),
        ] {
            let failure = Failure::of("order", &error, Some(&answer), SystemTime::UNIX_EPOCH);
            assert_eq!(failure.next, next, "{error:?} {answer:?}");
        }
    }

    #[test]
    fn a_failure_says_what_was_refused_and_what_to_mend() {
        for (kind, text) in [
            (
                "externalAccountRequired",
                "the CA refuses to make an account: x (externalAccountRequired); this CA wants to know its customers: \
                 configure the key id and the key that its web site hands out",
            ),
            (
                "rejectedIdentifier",
                "the CA refuses to make an account: x (rejectedIdentifier); take that name out of the server, or to \
                 another CA",
            ),
            ("malformed", "the CA refuses to make an account: x (malformed)"),
        ] {
            let error = Error::Api(problem(kind, "x"));
            let failure = Failure::of("make an account", &error, None, SystemTime::UNIX_EPOCH);
            assert_eq!(failure.text, text);
        }
        let html = Error::Json(serde_json::from_str::<u8>("<html>").expect_err("it is no JSON"));
        let failure = Failure::of("make an account", &html, Some(&answer(404, None)), SystemTime::UNIX_EPOCH);
        assert_eq!(failure.text, "cannot make an account: the CA answered 404 Not Found");
    }

    #[test]
    fn a_finding_names_the_place_and_the_mend() {
        for (name, challenge, kind, text) in [
            (
                "example.org",
                ChallengeType::Http01,
                "connection",
                "the CA could not reach http://example.org/.well-known/acme-challenge/...: x (connection); port 80 of \
                 this host must reach larder, and example.org must lead to this host",
            ),
            (
                "example.org",
                ChallengeType::TlsAlpn01,
                "connection",
                "the CA could not reach example.org:443: x (connection); port 443 of this host must reach larder, and \
                 example.org must lead to this host",
            ),
            (
                "example.org",
                ChallengeType::Http01,
                "dns",
                "the CA could not look up example.org: x (dns); its A and AAAA records must lead to this host",
            ),
            (
                "2001:db8::1",
                ChallengeType::Http01,
                "unauthorized",
                "the CA got another answer than larder's at http://[2001:db8::1]/.well-known/acme-challenge/...: x \
                 (unauthorized); 2001:db8::1 must lead to this host, and nothing before larder may answer there",
            ),
            (
                "example.org",
                ChallengeType::Http01,
                "caa",
                "example.org: x (caa); a CAA record of the name forbids this CA: add the CA to it",
            ),
            ("example.org", ChallengeType::Http01, "new", "the CA refuses example.org: x (new)"),
        ] {
            assert_eq!(finding(name, &challenge, &problem(kind, "x"), false), text);
        }
    }

    #[test]
    fn where_hosts_share_a_finding_is_about_every_host_that_the_name_leads_to() {
        for (challenge, kind, text) in [
            (
                ChallengeType::Http01,
                "connection",
                "the CA could not reach http://a.example/.well-known/acme-challenge/...: x (connection); port 80 of \
                 every host that a.example leads to must reach a larder of the cluster",
            ),
            (
                ChallengeType::Http01,
                "dns",
                "the CA could not look up a.example: x (dns); its A and AAAA records must lead to larders of the \
                 cluster alone",
            ),
            (
                ChallengeType::TlsAlpn01,
                "unauthorized",
                "the CA got another answer than larder's at a.example:443: x (unauthorized); a.example must lead to \
                 larders of the cluster alone, and nothing before larder may answer there",
            ),
            (
                ChallengeType::TlsAlpn01,
                "tls",
                "the CA could not speak TLS with a.example:443: x (tls); port 443 of every host that a.example leads \
                 to must reach a larder of the cluster, and nothing before it may end TLS",
            ),
        ] {
            assert_eq!(finding("a.example", &challenge, &problem(kind, "x"), true), text);
        }
    }

    #[test]
    fn what_the_ca_says_fits_one_line() {
        let long = "a\\r\\nb".to_string() + &"\u{e4}".repeat(2000);
        let text = said(&problem("malformed", &long));
        assert!(text.starts_with("a  b\u{e4}") && text.chars().count() == SAID_CHARS_MAX, "{text}");
        let empty: Problem = serde_json::from_str("{}").expect("nothing is asked for");
        assert_eq!(said(&empty), "it does not say why");
    }

    #[test]
    fn an_order_is_given_up_when_it_was_refused() {
        let json = || Error::Json(serde_json::from_str::<u8>("<html>").expect_err("it is no JSON"));
        for (error, answer, leaves) in [
            (Error::Api(problem("badNonce", "")), answer(400, None), true),
            (Error::Api(problem("rateLimited", "")), answer(429, None), true),
            (Error::Api(problem("malformed", "")), answer(404, None), false),
            (Error::Api(problem("whatever", "")), answer(502, None), true),
            (Error::Str("x"), answer(200, None), true),
            (json(), answer(200, None), true),
            (json(), answer(404, None), false),
            (json(), answer(429, None), true),
            (json(), answer(502, None), true),
        ] {
            assert_eq!(leaves_order(&error, Some(&answer)), leaves, "{error:?}");
        }
    }
}
