//! What a visitor asked for, as both servers are asked for it.

/// A request that may be sent again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whether it is HEAD, or GET.
    pub is_head: bool,
    /// Path and arguments.
    pub target: Vec<u8>,
    /// The host, if it is known.
    pub host: Option<Vec<u8>>,
    /// Fields, without those that concern the connection, or that say who asks.
    pub fields: Vec<(String, Vec<u8>)>,
    /// The status of what the visitor got, if it is known.
    pub status: Option<u16>,
}

/// What a line of a log, or a mirrored request, turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// It is compared.
    Wanted(Wanted),
    /// It may change something: it is not sent again.
    Unsafe,
    /// The visitor was refused it, and we come from an address that may be let in.
    Refused,
    /// We asked for it ourselves.
    Echo,
    /// It cannot be read.
    Unreadable,
}

/// Requests with this field are ours.
pub const MARK_FIELD: &str = "x-larder-shadow";
/// What ends the `User-Agent` of our requests, for logs.
pub const MARK_AGENT: &str = "larder-shadow";
/// The argument by which a page is asked for past a cache.
pub const MARK_ARGUMENT: &str = "larder-shadow=";

/// Makes it of its parts; `fields` lose those that concern a connection or would shorten the answer.
pub fn seen(method: &[u8], target: &[u8], host: Option<&[u8]>, fields: Vec<(String, Vec<u8>)>) -> Seen {
    let is_head = match method {
        b"GET" => false,
        b"HEAD" => true,
        _ if method.iter().all(|byte| byte.is_ascii_graphic()) && !method.is_empty() => return Seen::Unsafe,
        _ => return Seen::Unreadable,
    };
    let is_ours = |(name, value): &(String, Vec<u8>)| {
        name == MARK_FIELD || (name == "user-agent" && value.ends_with(MARK_AGENT.as_bytes()))
    };
    if fields.iter().any(is_ours) || target.windows(MARK_ARGUMENT.len()).any(|part| part == MARK_ARGUMENT.as_bytes()) {
        return Seen::Echo;
    }
    // What a proxy between would read as the end of a line, or of the target.
    let is_sound = |text: &[u8]| text.iter().all(|byte| *byte > b' ' && *byte != 0x7f);
    let is_line = |text: &[u8]| text.iter().all(|byte| (*byte >= b' ' || *byte == b'\t') && *byte != 0x7f);
    let host = host.filter(|host| !host.is_empty());
    if target.first() != Some(&b'/') || !is_sound(target) || !host.is_none_or(is_sound) {
        return Seen::Unreadable;
    }
    let fields = fields.into_iter().filter(|(name, value)| !is_left_out(name) && is_line(value)).collect();
    Seen::Wanted(Wanted { is_head, target: target.to_vec(), host: host.map(<[u8]>::to_vec), fields, status: None })
}

fn is_left_out(name: &str) -> bool {
    LEFT_OUT.contains(&name) || name.starts_with("if-") || !is_name(name) || is_vouched_for(name)
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a field may be added to requests by whoever starts this.
pub fn may_be_added(name: &str) -> bool {
    is_name(name) && !LEFT_OUT.contains(&name) && name != MARK_FIELD
}

/// Whether a field tells what only a proxy in front may say, such as who asks: a server believes it of 127.0.0.1, from where
/// we ask, and any visitor can have sent it.
fn is_vouched_for(name: &str) -> bool {
    VOUCHED_FOR.contains(&name) || VOUCHED_FOR_STARTS.iter().any(|start| name.starts_with(start))
}

const VOUCHED_FOR_STARTS: [&str; 11] = [
    "x-forwarded",
    "x-original-",
    "x-originating-",
    "x-rewrite-",
    "x-remote-",
    "x-client-",
    "x-ssl-",
    "ssl-",
    "x-auth-request-",
    "x-accel-",
    "x-larder-",
];
const VOUCHED_FOR: [&str; 16] = [
    "forwarded",
    "via",
    "x-real-ip",
    "client-ip",
    "true-client-ip",
    "x-true-client-ip",
    "cf-connecting-ip",
    "cf-connecting-ipv6",
    "cf-pseudo-ipv4",
    "fastly-client-ip",
    "fly-client-ip",
    "x-cluster-client-ip",
    "x-envoy-external-address",
    "x-host",
    "x-real-port",
    "remote-user",
];

/// Fields that concern one connection, the body that is not sent, parts of a page, or its coding.
const LEFT_OUT: [&str; 14] = [
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "expect",
    "content-length",
    "content-type",
    "accept-encoding",
    "range",
];

impl Wanted {
    /// The request as it is sent, with fields that are added to each.
    pub fn bytes(&self, host: &[u8], added: &[(String, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = if self.is_head { b"HEAD ".to_vec() } else { b"GET ".to_vec() };
        bytes.extend_from_slice(&self.target);
        bytes.extend_from_slice(b" HTTP/1.1\r\nHost: ");
        bytes.extend_from_slice(host);
        bytes.extend_from_slice(b"\r\nConnection: close\r\n");
        bytes.extend_from_slice(format!("{MARK_FIELD}: 1\r\n").as_bytes());
        let mut has_agent = false;
        let own = self.fields.iter().filter(|(name, _)| !added.iter().any(|(other, _)| other == name));
        for (name, value) in own.chain(added) {
            bytes.extend_from_slice(name.as_bytes());
            bytes.extend_from_slice(b": ");
            bytes.extend_from_slice(value);
            if name == "user-agent" {
                has_agent = true;
                bytes.extend_from_slice(format!(" {MARK_AGENT}").as_bytes());
            }
            bytes.extend_from_slice(b"\r\n");
        }
        if !has_agent {
            bytes.extend_from_slice(format!("User-Agent: {MARK_AGENT}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(name: &str, value: &str) -> (String, Vec<u8>) {
        (name.to_owned(), value.as_bytes().to_vec())
    }

    #[test]
    fn only_what_changes_nothing_is_sent_again() {
        for method in ["POST", "PUT", "DELETE", "PURGE", "OPTIONS", "get"] {
            assert_eq!(seen(method.as_bytes(), b"/", None, vec![]), Seen::Unsafe, "{method}");
        }
        for (method, target, host) in [
            ("GET", "*", None),
            ("GET", "/a b", None),
            ("GET", "/a\r\nX: y", None),
            ("GET", "/", Some("a\r\nb")),
            ("", "/", None),
        ] {
            let host = host.map(str::as_bytes);
            assert_eq!(seen(method.as_bytes(), target.as_bytes(), host, vec![]), Seen::Unreadable, "{target}");
        }
    }

    #[test]
    fn what_we_asked_for_is_known_again() {
        let Seen::Wanted(wanted) = seen(b"GET", b"/a?b", Some(b"a.test"), vec![field("user-agent", "Mozilla")]) else {
            panic!("it is wanted");
        };
        let text = String::from_utf8(wanted.bytes(b"a.test", &[])).unwrap();
        assert!(text.contains("\r\nuser-agent: Mozilla larder-shadow\r\n"), "{text}");
        assert_eq!(seen(b"GET", b"/", None, vec![field("user-agent", "Mozilla larder-shadow")]), Seen::Echo);
        assert_eq!(seen(b"GET", b"/", None, vec![field(MARK_FIELD, "1")]), Seen::Echo);
        assert_eq!(seen(b"GET", b"/a?b&larder-shadow=7-1", None, vec![]), Seen::Echo);
    }

    #[test]
    fn fields_of_the_connection_stay_behind() {
        let fields = ["cookie", "range", "if-none-match", "content-length", "bad name", "accept-language"]
            .map(|name| field(name, "1"));
        let fields = [fields.to_vec(), vec![field("x-cut", "a\nb")]].concat();
        let Seen::Wanted(wanted) = seen(b"HEAD", b"/", None, fields) else { panic!("it is wanted") };
        assert!(wanted.is_head);
        assert_eq!(wanted.fields, [field("cookie", "1"), field("accept-language", "1")]);
    }

    #[test]
    fn nobody_is_believed_because_we_ask_from_here() {
        let claims = [
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-forwarded-host",
            "forwarded",
            "x-real-ip",
            "cf-connecting-ip",
            "true-client-ip",
            "x-original-url",
            "x-rewrite-url",
            "x-remote-user",
            "x-ssl-client-verify",
            "ssl-client-cert",
        ];
        let fields = claims.iter().map(|name| field(name, "127.0.0.1")).collect();
        let Seen::Wanted(wanted) = seen(b"GET", b"/", None, fields) else { panic!("it is wanted") };
        assert_eq!(wanted.fields, []);
        let added = [field("x-forwarded-proto", "https"), field("accept-language", "de")];
        let Seen::Wanted(wanted) = seen(b"GET", b"/", None, vec![field("accept-language", "fr")]) else {
            panic!("it is wanted")
        };
        let text = String::from_utf8(wanted.bytes(b"a.test", &added)).unwrap();
        assert!(
            text.contains("\r\nx-forwarded-proto: https\r\naccept-language: de\r\n") && !text.contains("fr"),
            "{text}"
        );
    }
}
