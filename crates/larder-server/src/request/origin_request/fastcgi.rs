//! A request as FastCGI parameters: those of `fastcgi_param`, and the client's fields as `HTTP_*`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::BytesMut;
use larder_http::{Fields, Known};
use larder_origin::{Protocol as Wire, fastcgi};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::policy::Validators;
use crate::site::{Backend, FastCgiParts};
use crate::variable::{RequestVar, Var};

use super::passed_on::{CONDITIONAL, wire_body};

/// The request of `ex` as parameters. With `caches` its conditions are ours.
pub fn fastcgi_request(
    parts: &FastCgiParts,
    backend: &Backend,
    caches: bool,
    validators: &Validators,
    ex: &mut Exchange,
    cx: &Cx,
) -> (Wire, larder_origin::RequestBody) {
    let mut params = BytesMut::with_capacity(1024);
    let mut set = Vec::new();
    for (name, value, if_not_empty) in &parts.params {
        let value = value.value(ex, cx);
        if let Some(field) = name.strip_prefix(b"HTTP_") {
            set.push(field);
        }
        // A field that is set to nothing is not passed at all: `fastcgi_param HTTP_PROXY "";`.
        if value.is_empty() && (*if_not_empty || name.starts_with(b"HTTP_")) {
            continue;
        }
        fastcgi::push_param(&mut params, name, &value);
    }
    if !set.contains(&&b"HOST"[..]) {
        let mut value = Vec::new();
        for part in [RequestVar::Host, RequestVar::IsRequestPort, RequestVar::RequestPort] {
            crate::vars::append(&Var::Request(part), ex, cx, &mut value);
        }
        if !value.is_empty() {
            fastcgi::push_param(&mut params, b"HTTP_HOST", &value);
        }
    }
    if caches {
        if let Some(value) = &validators.last_modified {
            fastcgi::push_param(&mut params, b"HTTP_IF_MODIFIED_SINCE", value);
        }
        if let Some(value) = &validators.etag {
            fastcgi::push_param(&mut params, b"HTTP_IF_NONE_MATCH", value);
        }
    }
    if backend.settings.model.request.pass_headers {
        push_fields(&mut params, &set, caches, &ex.asked.head.fields);
    }
    let body = if backend.settings.model.request.pass_body {
        wire_body(&mut ex.request.body, false)
    } else {
        larder_origin::RequestBody::None
    };
    (Wire::FastCgi { params: params.freeze(), catch_stderr: parts.catch_stderr.clone() }, body)
}

/// The request's fields as `HTTP_*` parameters, several lines of one name joined, those that `fastcgi_param` sets
/// left out, and the host, which is a parameter by itself. Of two names that make the same parameter the first counts.
///
/// In one pass: a client may send as many fields as `max_headers` allows.
fn push_fields(params: &mut BytesMut, set: &[&[u8]], caches: bool, fields: &Fields) {
    const PREFIX: &[u8] = b"HTTP_";
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut values: Vec<(&[u8], Cow<'_, [u8]>)> = Vec::new();
    for (known, name, value) in fields.iter_known() {
        if known == Known::Host || (caches && CONDITIONAL.contains(&known)) {
            continue;
        }
        let mut param = PREFIX.to_vec();
        param.extend(name.iter().map(|&byte| if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }));
        if set.contains(&&param[PREFIX.len()..]) {
            continue;
        }
        match places.entry(param) {
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
    let mut in_order: Vec<_> = places.into_iter().collect();
    in_order.sort_unstable_by_key(|(_, place)| *place);
    for ((param, _), (_, value)) in in_order.iter().zip(&values) {
        fastcgi::push_param(params, param, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The parameters of these fields, as `NAME=value` each.
    fn params(fields: &[(&str, &str)], set: &[&[u8]], caches: bool) -> Vec<String> {
        let mut list = Fields::new();
        fields.iter().for_each(|(name, value)| list.push(name.as_bytes(), value.as_bytes()));
        let mut wire = BytesMut::new();
        push_fields(&mut wire, set, caches, &list);
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
        assert_eq!(params(&fields, &[b"PROXY"], true), common);
        let rest = ["HTTP_RANGE=bytes=0-1", "HTTP_PROXY=no, nor this"];
        assert_eq!(params(&fields, &[], false), [&common[..], &rest[..]].concat());
        assert!(params(&[], &[], false).is_empty());
        // As many as there may be are no more work each than a few.
        let many: Vec<String> = (0..20_000).map(|number| format!("x-{number}")).collect();
        let many: Vec<(&str, &str)> = many.iter().map(|name| (&**name, "v")).collect();
        let made = params(&many, &[], false);
        assert_eq!((made.len(), &*made[19_999]), (20_000, "HTTP_X_19999=v"));
    }
}
