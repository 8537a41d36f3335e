//! A request as FastCGI parameters: those of `fastcgi_param`, and the client's fields as `HTTP_*`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use larder_http::{Fields, Known, KnownSet};
use larder_origin::{Protocol as Wire, fastcgi};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::Validators;
use crate::site::origin_head::{FIELD_PREFIX, Param, ParamFields, param_byte};
use crate::site::{Backend, FastCgiParts};
use crate::variable::{RequestVar, Var};

use super::passed_on::{Extent, left_out, wire_body};

/// The request of `ex` as parameters. `extent` says whose conditions it has.
pub fn fastcgi_request(
    parts: &FastCgiParts,
    backend: &Backend,
    extent: Extent,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> (Wire, larder_origin::RequestBody) {
    let mut params = ex.eval.lend();
    for param in &parts.params.list {
        match param {
            Param::Fixed(encoded) => params.extend_from_slice(encoded),
            Param::Value { start, text, if_not_empty } => {
                start.append_with(*if_not_empty, &mut params, |out| text.append(ex, cx, out));
            }
        }
    }
    if !parts.params.fields.contains(Known::Host, b"Host") {
        parts.params.host.append_with(true, &mut params, |out| {
            for part in [RequestVar::Host, RequestVar::IsRequestPort, RequestVar::RequestPort] {
                crate::vars::append(&Var::Request(part), ex, cx, out);
            }
        });
    }
    if extent.has_our_conditions() {
        if let Some(value) = &validators.last_modified {
            fastcgi::append_param(b"HTTP_IF_MODIFIED_SINCE", value, &mut params);
        }
        if let Some(value) = &validators.etag {
            fastcgi::append_param(b"HTTP_IF_NONE_MATCH", value, &mut params);
        }
        if let Some(rest) = &validators.rest {
            fastcgi::append_param(b"HTTP_RANGE", &rest.range, &mut params);
            fastcgi::append_param(b"HTTP_IF_RANGE", &rest.etag, &mut params);
        }
    }
    if backend.settings.model.request.pass_headers {
        append_fields(&parts.params.fields, left_out(extent, ex), &ex.asked.head.fields, &mut params);
    }
    let body = if backend.settings.model.request.pass_body {
        wire_body(&mut ex.request.body, false)
    } else {
        larder_origin::RequestBody::None
    };
    let wire = Wire::FastCgi { params: cx.worker.buffers.shared(&params), catch_stderr: parts.catch_stderr.clone() };
    ex.eval.take_back(params);
    (wire, body)
}

/// The request's fields as `HTTP_*` parameters, several lines of one name joined, those that `fastcgi_param` sets
/// left out, and the host, which is a parameter by itself. Of two names that make the same parameter the first counts.
fn append_fields(set: &ParamFields, left_out: KnownSet, fields: &Fields, params: &mut Vec<u8>) {
    let left_out = HOST.and(left_out);
    let passed =
        fields.iter_known().filter(|(known, name, _)| !left_out.contains(*known) && !set.contains(*known, name));
    if makes_one_each(passed.clone()) {
        for (_, name, value) in passed {
            append_field(name, value, params);
        }
    } else {
        append_joined(passed, params);
    }
}

/// The host is a parameter by itself.
const HOST: KnownSet = KnownSet::of(&[Known::Host]);

/// How many names that are not known are compared with each other.
const OTHERS_MAX: usize = 16;

/// Whether each of these fields makes a parameter of its own, as usual. False also if that would take long to tell.
fn makes_one_each<'a>(fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>) -> bool {
    let mut seen = KnownSet::default();
    let (mut others, mut count) = ([&b""[..]; OTHERS_MAX], 0);
    for (known, name, _) in fields {
        let is_new = match known {
            // A name with an underscore may make the parameter of one with a hyphen.
            Known::Other => {
                count < OTHERS_MAX
                    && !name.contains(&b'_')
                    && !others[..count].iter().any(|other| other.eq_ignore_ascii_case(name))
            }
            known => seen.insert(known),
        };
        if !is_new {
            return false;
        }
        if known == Known::Other {
            others[count] = name;
            count += 1;
        }
    }
    true
}

fn append_field(name: &[u8], value: &[u8], params: &mut Vec<u8>) {
    const NAME_BYTES_MAX: usize = 64;
    let len = FIELD_PREFIX.len() + name.len();
    if len > NAME_BYTES_MAX {
        return fastcgi::append_param(&param_of(name), value, params);
    }
    let mut param = [0; NAME_BYTES_MAX];
    param[..FIELD_PREFIX.len()].copy_from_slice(FIELD_PREFIX);
    for (to, &from) in param[FIELD_PREFIX.len()..].iter_mut().zip(name) {
        *to = param_byte(from);
    }
    fastcgi::append_param(&param[..len], value, params);
}

/// The name of the parameter of a field.
fn param_of(name: &[u8]) -> Vec<u8> {
    FIELD_PREFIX.iter().copied().chain(name.iter().map(|&byte| param_byte(byte))).collect()
}

/// Fields of which some may make the same parameter.
///
/// In one pass: a client may send as many fields as `max_headers` allows.
fn append_joined<'a>(fields: impl Iterator<Item = (Known, &'a [u8], &'a [u8])>, params: &mut Vec<u8>) {
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut values: Vec<(&[u8], Cow<'_, [u8]>)> = Vec::new();
    for (known, name, value) in fields {
        match places.entry(param_of(name)) {
            Entry::Vacant(place) => {
                place.insert(values.len());
                values.push((name, Cow::Borrowed(value)));
            }
            Entry::Occupied(place) => {
                let (first, joined) = &mut values[*place.get()];
                if first.eq_ignore_ascii_case(name) {
                    let separator: &[u8] = if known == Known::Cookie { b"; " } else { b", " };
                    joined.to_mut().extend_from_slice(separator);
                    joined.to_mut().extend_from_slice(value);
                }
            }
        }
    }
    for (name, value) in &values {
        append_field(name, value, params);
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;

    /// The parameters of these fields, as `NAME=value` each.
    fn params(fields: &[(&str, &str)], set: &[&[u8]], extent: Extent) -> Vec<String> {
        let mut list = Fields::new();
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        let set: Vec<Vec<u8>> = set.iter().map(|name| [FIELD_PREFIX, name].concat()).collect();
        let mut wire = Vec::new();
        append_fields(&ParamFields::of(set.iter().map(|name| &name[..])), extent.left_out(), &list, &mut wire);
        let mut wire = BytesMut::from(&wire[..]);
        let mut params = Vec::new();
        while !wire.is_empty() {
            let lengths = wire.split_to(2);
            let name = wire.split_to(lengths[0].into());
            let value = wire.split_to(lengths[1].into());
            params.push(format!("{}={}", String::from_utf8_lossy(&name), String::from_utf8_lossy(&value)));
        }
        params
    }

    #[test]
    fn fields_become_parameters_in_their_order_and_lines_of_one_name_are_joined() {
        let fields = [
            ("Host", "a"),
            ("X-A", "1"),
            ("Cookie", "a=1"),
            ("x-a", "2"),
            ("X_A", "another name"),
            ("Range", "bytes=0-1"),
            ("cookie", "b=2"),
            ("Proxy", "no"),
            ("X-A", ""),
            ("Proxy", "nor this"),
        ];
        let common = ["HTTP_X_A=1, 2, ", "HTTP_COOKIE=a=1; b=2"];
        assert_eq!(params(&fields, &[b"PROXY"], Extent::Whole), common);
        let rest = ["HTTP_RANGE=bytes=0-1", "HTTP_PROXY=no, nor this"];
        assert_eq!(params(&fields, &[], Extent::AsAsked), [&common[..], &rest[..]].concat());
        assert!(params(&[], &[], Extent::AsAsked).is_empty());
        // A known name and another may make the same parameter too, in either order.
        assert_eq!(params(&[("X-Real-IP", "1"), ("x_real_ip", "2")], &[], Extent::AsAsked), ["HTTP_X_REAL_IP=1"]);
        assert_eq!(params(&[("x_real_ip", "2"), ("X-Real-IP", "1")], &[], Extent::AsAsked), ["HTTP_X_REAL_IP=2"]);
        assert!(params(&[("x_real_ip", "2"), ("X-Real-IP", "1")], &[b"X_REAL_IP"], Extent::AsAsked).is_empty());
        let long = "x".repeat(100);
        let expected = [format!("HTTP_{}=1", long.to_uppercase()), "HTTP_A=2".to_owned()];
        assert_eq!(params(&[(&long, "1"), ("a", "2")], &[], Extent::AsAsked), expected);
        // As many as there may be are no more work each than a few.
        let many: Vec<String> = (0..20_000).map(|number| format!("x-{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "v")).collect();
        let made = params(&many, &[], Extent::AsAsked);
        assert_eq!((made.len(), &*made[19_999]), (20_000, "HTTP_X_19999=v"));
    }
}
