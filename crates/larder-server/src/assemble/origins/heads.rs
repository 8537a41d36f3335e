//! Lays out what every request of a location to its origin has in common.

use larder_origin::fastcgi::{self, ParamStart};

use crate::request::origin_request::http::append_host;
use crate::request::wire::append_line;
use crate::site::origin_head::{FIELD_PREFIX, Given, Param, ParamFields, Params, SetFields, SetLine};
use crate::text::Text;

/// The fields of `proxy_set_header`; lines without variables that follow each other become one.
pub fn set_fields(given: Vec<(&[u8], Text)>) -> SetFields {
    let names = given.iter().map(|(name, _)| name).collect();
    let (mut lines, mut has) = (Vec::new(), Given::default());
    for (name, text) in given {
        let of_line =
            Given { host: name.eq_ignore_ascii_case(b"host"), upgrade: name.eq_ignore_ascii_case(b"upgrade") };
        match text.constant() {
            Some(b"") => {}
            Some(value) => {
                if !matches!(lines.last(), Some(SetLine::Fixed(_))) {
                    lines.push(SetLine::Fixed(Vec::new()));
                }
                if let Some(SetLine::Fixed(fixed)) = lines.last_mut() {
                    append_line(name, value, fixed);
                }
                has = Given { host: has.host || of_line.host, upgrade: has.upgrade || of_line.upgrade };
            }
            None => lines.push(SetLine::Value { start: [name, b": "].concat().into(), has: of_line, text }),
        }
    }
    SetFields { lines, names, has }
}

/// The line `Host` of requests to the place `host`.
pub fn host_line(host: &[u8]) -> Box<[u8]> {
    let mut line = Vec::new();
    append_host(host, &mut line);
    line.into()
}

/// A `fastcgi_param`.
pub struct GivenParam<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its value.
    pub value: Text,
    /// `if_not_empty`.
    pub if_not_empty: bool,
}

/// The parameters of `fastcgi_param`; those without variables that follow each other become one.
pub fn params(given: Vec<GivenParam<'_>>) -> Params {
    let fields = ParamFields::of(given.iter().map(|param| param.name));
    let mut list = Vec::new();
    for GivenParam { name, value, if_not_empty } in given {
        // A field that is set to nothing is not passed at all: `fastcgi_param HTTP_PROXY "";`.
        let if_not_empty = if_not_empty || name.starts_with(FIELD_PREFIX);
        match value.constant() {
            Some(b"") if if_not_empty => {}
            Some(value) => {
                if !matches!(list.last(), Some(Param::Fixed(_))) {
                    list.push(Param::Fixed(Vec::new()));
                }
                if let Some(Param::Fixed(fixed)) = list.last_mut() {
                    fastcgi::append_param(name, value, fixed);
                }
            }
            None => list.push(Param::Value { start: ParamStart::of(name), text: value, if_not_empty }),
        }
    }
    Params { list, fields, host: ParamStart::of(b"HTTP_HOST") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::assemble::site_of;
    use crate::site::Protocol;

    /// What is fixed, with `<NAME>` for each that is not.
    fn shown(location: &str) -> String {
        let text = format!("events {{}} http {{ server {{ location / {{ {location} }} }} }}");
        let site = site_of(&text);
        let origin = site.locations.iter().find_map(|loc| loc.handler.origin()).expect("one location has an origin");
        let mut all = Vec::new();
        match &origin.backend.protocol {
            Protocol::Http(parts) => {
                for line in &parts.set.lines {
                    match line {
                        SetLine::Fixed(fixed) => all.extend_from_slice(fixed),
                        SetLine::Value { start, .. } => all.extend_from_slice(&[b"<", &start[..], b">"].concat()),
                    }
                }
            }
            Protocol::FastCgi(parts) => {
                for param in &parts.params.list {
                    match param {
                        Param::Fixed(fixed) => all.extend_from_slice(fixed),
                        Param::Value { start, .. } => all.extend_from_slice(&[b"<", start.name(), b">"].concat()),
                    }
                }
            }
        }
        all.escape_ascii().to_string()
    }

    #[test]
    fn what_has_no_variable_is_laid_out_once() {
        for (location, expected) in [
            ("", ""),
            ("proxy_set_header Connection \"\";", ""),
            (
                "proxy_set_header A 1; proxy_set_header B \"\"; proxy_set_header C 'x\ny'; proxy_set_header D $uri;
                 proxy_set_header E 2;",
                "A: 1\\r\\nC: x y\\r\\n<D: >E: 2\\r\\n",
            ),
        ] {
            assert_eq!(shown(&format!("{location} proxy_pass http://127.0.0.1:1;")), expected, "{location}");
        }
        for (location, expected) in [
            ("", ""),
            (
                "fastcgi_param A 1; fastcgi_param B \"\"; fastcgi_param C \"\" if_not_empty; fastcgi_param HTTP_D \"\";
                 fastcgi_param E $uri; fastcgi_param F ab;",
                "\\x01\\x01A1\\x01\\x00B<E>\\x01\\x02Fab",
            ),
        ] {
            assert_eq!(shown(&format!("{location} fastcgi_pass 127.0.0.1:1;")), expected, "{location}");
        }
    }
}
