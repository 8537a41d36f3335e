//! A request that is asked about.

use std::net::{IpAddr, Ipv4Addr};

use crate::typed_url::{Escapes, TypedUrl, host_and_port, strip};

/// A request that is asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    method: String,
    /// Whether it comes by TLS.
    pub tls: bool,
    /// The host, without its port, in lower case.
    pub host: String,
    port: Option<u16>,
    /// Path and query.
    target: String,
    /// Whom it comes from.
    pub from: IpAddr,
    /// Lines of its head.
    fields: Vec<String>,
}

impl Question {
    /// Reads `METHOD URL`, then an address or nothing, then fields, a line each.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let (method, url) = first.split_once(' ').ok_or_else(|| format!("\"{first}\" is no method and URL"))?;
        let from = match lines.next().unwrap_or_default() {
            "" => Ipv4Addr::LOCALHOST.into(),
            from => from.parse().map_err(|_| format!("\"{from}\" is no address: write 192.0.2.1 or 2001:db8::1"))?,
        };
        let fields: Vec<String> = lines.filter(|line| !line.is_empty()).map(str::to_owned).collect();
        if let Some(wrong) = fields.iter().find(|line| !line.contains(':')) {
            return Err(format!("\"{wrong}\" is no field: write \"Name: value\""));
        }
        let typed = TypedUrl::parse(url)?;
        let target = typed.target(Escapes::Upper);
        let said = fields.iter().find_map(|line| strip(line, "host:")).map(|value| value.trim().to_owned());
        let authority = said.unwrap_or_else(|| typed.authority.to_owned());
        if authority.is_empty() {
            return Err(format!("\"{url}\" names no host: write http://HOST{target}, or add -H \"Host: HOST\""));
        }
        let (host, port) = host_and_port(&authority)?;
        let mut question = Self {
            method: method.to_owned(),
            tls: typed.tls == Some(true),
            host: host.to_ascii_lowercase(),
            port,
            target,
            from,
            fields: fields.into_iter().filter(|line| strip(line, "host:").is_none()).collect(),
        };
        question.fields.insert(0, format!("Host: {authority}"));
        Ok(question)
    }

    /// The port that it comes in at.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.tls { 443 } else { 80 })
    }

    /// Its head.
    pub fn head(&self) -> Vec<u8> {
        format!("{} {} HTTP/1.1\r\n{}\r\n\r\n", self.method, self.target, self.fields.join("\r\n")).into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_says_where_the_request_comes_in() {
        for (text, tls, port, head) in [
            ("GET http://a.test/b?c=d", false, 80, "GET /b?c=d HTTP/1.1\r\nHost: a.test\r\n\r\n"),
            ("GET HTTPS://A.test", true, 443, "GET / HTTP/1.1\r\nHost: A.test\r\n\r\n"),
            ("POST a.test:81?x#y\n", false, 81, "POST /?x HTTP/1.1\r\nHost: a.test:81\r\n\r\n"),
            ("GET http://[::1]/\n\nCookie: a=b", false, 80, "GET / HTTP/1.1\r\nHost: [::1]\r\nCookie: a=b\r\n\r\n"),
            ("GET http://[::1]:82/\n::1", false, 82, "GET / HTTP/1.1\r\nHost: [::1]:82\r\n\r\n"),
            ("GET /b\n\nX: y\nhost: c.test", false, 80, "GET /b HTTP/1.1\r\nHost: c.test\r\nX: y\r\n\r\n"),
        ] {
            let question = Question::parse(text).unwrap();
            assert_eq!((question.tls, question.port()), (tls, port), "{text}");
            assert_eq!(String::from_utf8(question.head()).unwrap(), head, "{text}");
        }
    }

    #[test]
    fn what_is_no_request_is_told() {
        for (text, expected) in [
            ("", "is no method and URL"),
            ("GET", "is no method and URL"),
            ("GET /a", "names no host"),
            ("GET http://a:b/", "is no port"),
            ("GET http://a/\nb", "is no address"),
            ("GET ftp://a/", "is neither http nor https"),
            ("GET http://a/\n\nCookie", "is no field"),
        ] {
            let refused = Question::parse(text).unwrap_err();
            assert!(refused.contains(expected), "{text}: {refused}");
        }
    }
}
