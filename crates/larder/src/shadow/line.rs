//! Lines of access logs: nginx's `combined`, a `log_format` of the configuration, or JSON.

use larder_conf::model::{LogEscape, LogFormat, Template, TemplatePart};
use serde_json::Value;

use super::wanted::{Seen, Wanted, seen};

/// How lines are written.
#[derive(Clone, Debug)]
pub struct Format {
    parts: Vec<TemplatePart>,
    escape: LogEscape,
}

impl Format {
    /// That of a `log_format`. `Err` says what it lacks.
    pub fn of(format: &LogFormat) -> Result<Format, String> {
        let Template { parts, .. } = &format.format;
        let has = |name: &str| parts.iter().any(|part| matches!(part, TemplatePart::Variable(it) if it == name));
        let says_what = has("request") || (has("request_uri") && has("request_method"));
        if !says_what {
            return Err(format!(
                "log_format \"{}\" does not say what was asked for: it needs $request, or $request_method and $request_uri",
                format.name.value
            ));
        }
        Ok(Format { parts: parts.clone(), escape: format.escape })
    }

    /// Whether lines say who asked, so that our own requests are known by it.
    pub fn has_agent(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, TemplatePart::Variable(name) if name == "http_user_agent"))
    }

    /// Whether lines say for which site a request was.
    pub fn has_host(&self) -> bool {
        HOSTS
            .iter()
            .any(|host| self.parts.iter().any(|part| matches!(part, TemplatePart::Variable(name) if name == host)))
    }

    /// Reads a line, without its end.
    pub fn read(&self, line: &[u8]) -> Seen {
        let is_json_line = matches!(self.parts.first(), Some(TemplatePart::Variable(_))) && line.first() == Some(&b'{');
        let values = if is_json_line { json_values(line) } else { self.values(line) };
        values.map_or(Seen::Unreadable, |values| meant(&values))
    }

    /// The variables of a line. What is between them tells where each ends.
    fn values(&self, line: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
        let mut rest = line;
        let mut values = Vec::new();
        for (at, part) in self.parts.iter().enumerate() {
            match part {
                TemplatePart::Literal(text) => rest = rest.strip_prefix(text.as_bytes())?,
                TemplatePart::Variable(name) => {
                    let end = match self.parts.get(at + 1) {
                        Some(TemplatePart::Literal(next)) => find(rest, next.as_bytes())?,
                        // Nobody can tell where one ends and the other begins.
                        Some(TemplatePart::Variable(_) | TemplatePart::Capture(_)) => return None,
                        None => rest.len(),
                    };
                    let (value, behind) = rest.split_at_checked(end)?;
                    rest = behind;
                    values.push((name.clone(), unescaped(value, self.escape)));
                }
                TemplatePart::Capture(_) => return None,
            }
        }
        Some(values)
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

/// Takes back what nginx's `escape=` does. In the usual one, `-` stands for nothing.
fn unescaped(value: &[u8], escape: LogEscape) -> Vec<u8> {
    match escape {
        LogEscape::None => value.to_vec(),
        LogEscape::Default if value == b"-" => Vec::new(),
        LogEscape::Default => {
            let mut out = Vec::with_capacity(value.len());
            let mut rest = value;
            while let Some((first, behind)) = rest.split_first() {
                let byte = match behind {
                    [b'x', high, low, ..] if *first == b'\\' => {
                        hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low)
                    }
                    _ => None,
                };
                out.push(byte.unwrap_or(*first));
                rest = if byte.is_some() { rest.get(4..).unwrap_or_default() } else { behind };
            }
            out
        }
        LogEscape::Json => {
            let quoted = [b"\"".as_slice(), value, b"\""].concat();
            serde_json::from_slice::<String>(&quoted).map_or_else(|_| value.to_vec(), String::into_bytes)
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The members of an object, by the names that loggers give them.
fn json_values(line: &[u8]) -> Option<Vec<(String, Vec<u8>)>> {
    let Value::Object(members) = serde_json::from_slice(line).ok()? else { return None };
    let named = members.into_iter().filter_map(|(name, value)| {
        let value = match value {
            Value::String(value) => value,
            Value::Number(number) => number.to_string(),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => return None,
        };
        let name = match name.as_str() {
            "method" => "request_method",
            "uri" | "url" | "path" => "request_uri",
            "vhost" | "domain" => "host",
            "user_agent" | "agent" => "http_user_agent",
            "referer" | "referrer" => "http_referer",
            other => other,
        };
        Some((name.to_owned(), value.into_bytes()))
    });
    Some(named.collect())
}

/// Variables that say for which site a request was.
const HOSTS: [&str; 3] = ["http_host", "host", "server_name"];

/// What the variables of a line mean.
fn meant(values: &[(String, Vec<u8>)]) -> Seen {
    let value = |name: &str| values.iter().find(|(it, _)| it == name).map(|(_, value)| value.as_slice());
    let mut words = value("request").unwrap_or_default().split(|byte| *byte == b' ');
    let (in_line, target) = (words.next(), words.next());
    let Some(method) = value("request_method").or(in_line) else { return Seen::Unreadable };
    let Some(target) = value("request_uri").or(target) else { return Seen::Unreadable };
    let host = HOSTS.into_iter().filter_map(value).find(|host| !host.is_empty() && *host != b"_");
    let fields = values.iter().filter_map(|(name, value)| {
        let name = name.strip_prefix("http_")?.replace('_', "-");
        (!value.is_empty()).then(|| (name, value.clone()))
    });
    match seen(method, target, host, fields.collect()) {
        Seen::Wanted(_) if value("status").is_some_and(is_refusal) => Seen::Refused,
        Seen::Wanted(wanted) => {
            let status = value("status").and_then(|status| std::str::from_utf8(status).ok()?.parse().ok());
            Seen::Wanted(Wanted { status, ..wanted })
        }
        seen => seen,
    }
}

/// Whether a status says that the visitor got nothing for who it is or how it asked: 4xx but for what is not there.
fn is_refusal(status: &[u8]) -> bool {
    status.len() == 3 && status.starts_with(b"4") && !matches!(status, b"404" | b"410")
}

#[cfg(test)]
mod tests {
    use larder_conf::model::At;

    use super::*;

    fn format(escape: LogEscape, text: &str) -> Format {
        let span = larder_conf::Span::NOWHERE;
        let name = At { value: "main".to_owned(), span };
        let format = larder_conf::parse_template(text, span).unwrap();
        Format::of(&LogFormat { name, escape, format }).unwrap()
    }

    const COMBINED: &str = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \"$http_user_agent\"";

    fn wanted(seen: Seen) -> Wanted {
        match seen {
            Seen::Wanted(wanted) => wanted,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_combined_line_is_read() {
        let format = format(LogEscape::Default, COMBINED);
        let line = r#"1.2.3.4 - - [26/Nov/2026:16:00:00 +0000] "GET /a?b=\x22c HTTP/1.1" 200 12 "-" "Mozilla (\x5C)""#;
        let read = wanted(format.read(line.as_bytes()));
        assert_eq!((read.target.as_slice(), read.status), (&b"/a?b=\"c"[..], Some(200)));
        assert_eq!(read.fields, [("user-agent".to_owned(), b"Mozilla (\\)".to_vec())]);
        assert_eq!(read.host, None);
        for (line, expected) in [
            (r#"1.2.3.4 - - [x] "POST /a HTTP/1.1" 200 12 "-" "-""#, Seen::Unsafe),
            (r#"1.2.3.4 - - [x] "GET /a HTTP/1.1" 200 12 "-" "x larder-shadow""#, Seen::Echo),
            (r#"1.2.3.4 - - [x] "\x16\x03\x01" 400 12 "-" "-""#, Seen::Unreadable),
            (r#"1.2.3.4 - - [x] "" 400 0 "-" "-""#, Seen::Unreadable),
            ("half a li", Seen::Unreadable),
            ("", Seen::Unreadable),
        ] {
            assert_eq!(format.read(line.as_bytes()), expected, "{line}");
        }
    }

    #[test]
    fn a_format_of_ones_own_says_more() {
        let format = format(
            LogEscape::Json,
            "{\"m\":\"$request_method\",\"u\":\"$request_uri\",\"h\":\"$host\",\"l\":\"$http_accept_language\"}",
        );
        let read = wanted(format.read(br#"{"m":"HEAD","u":"/\u00e9\"","h":"a.test","l":"de"}"#));
        assert_eq!((read.is_head, read.host.as_deref()), (true, Some(&b"a.test"[..])));
        assert_eq!(read.target, "/é\"".as_bytes());
        assert_eq!(read.fields, [("accept-language".to_owned(), b"de".to_vec())]);
        assert!(!format.has_agent());
    }

    #[test]
    fn json_is_read_by_the_usual_names() {
        let format = format(LogEscape::Default, COMBINED);
        let read =
            wanted(format.read(br#"{"method":"GET","uri":"/x","vhost":"b.test","user_agent":"u","status":200}"#));
        assert_eq!((read.target.as_slice(), read.host.as_deref()), (&b"/x"[..], Some(&b"b.test"[..])));
    }

    #[test]
    fn what_a_visitor_was_refused_is_not_asked_for() {
        let combined = format(LogEscape::Default, COMBINED);
        for (status, is_refused) in [
            ("200", false),
            ("404", false),
            ("410", false),
            ("401", true),
            ("403", true),
            ("444", true),
            ("500", false),
            ("-", false),
        ] {
            let line = format!("1.2.3.4 - - [x] \"GET /a HTTP/1.1\" {status} 12 \"-\" \"Mozilla\"");
            assert_eq!(combined.read(line.as_bytes()) == Seen::Refused, is_refused, "{status}");
        }
        assert_eq!(combined.read(br#"{"method":"GET","uri":"/x","status":403}"#), Seen::Refused);
    }

    #[test]
    fn no_bytes_are_too_much_for_it() {
        let line = br#"1.2.3.4 - - [x] "GET /a\x22\xZZ\x HTTP/1.1" 200 12 "-" "Mozilla (\x5C)""#;
        let object = br#"{"method":"GET","uri":"/\u00e9","host":"a.test","status":200}"#;
        for format in [format(LogEscape::Default, COMBINED), format(LogEscape::Json, "$request_method $request_uri")] {
            for line in [&line[..], object] {
                for at in 0..line.len() {
                    format.read(&line[..at]);
                    for byte in [0, b'"', b'\\', b' ', 0xff] {
                        let mut other = line.to_vec();
                        other[at] = byte;
                        if let Seen::Wanted(wanted) = format.read(&other) {
                            let sent = wanted.bytes(b"a.test", &[]);
                            let lines = sent.split(|byte| *byte == b'\n').count();
                            let more = wanted.fields.iter().filter(|(name, _)| name != "user-agent").count();
                            // The request line, three fields of ours, the agent, an empty line and what is behind it.
                            assert_eq!(lines, 7 + more);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn a_format_that_says_nothing_is_refused() {
        let span = larder_conf::Span::NOWHERE;
        let name = At { value: "short".to_owned(), span };
        let format = Template { parts: vec![TemplatePart::Variable("uri".to_owned())], span };
        let error = Format::of(&LogFormat { name, escape: LogEscape::None, format }).unwrap_err();
        assert!(error.contains("$request"), "{error}");
    }
}
