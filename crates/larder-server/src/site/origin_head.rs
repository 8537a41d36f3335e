//! What is the same in every request of a location to its origin, laid out when the configuration is assembled.

use larder_http::{Known, KnownSet, Names};
use larder_origin::fastcgi::ParamStart;

use crate::text::Text;

/// The fields of `proxy_set_header`.
pub struct SetFields {
    /// Their lines.
    pub lines: Vec<SetLine>,
    /// Their names, also of those that are left out.
    pub names: Names,
    /// What the lines without variables have.
    pub has: Given,
}

/// What `proxy_set_header` gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// A `Host`.
    pub host: bool,
    /// An `Upgrade`.
    pub upgrade: bool,
}

/// Lines of `proxy_set_header`.
#[derive(Debug)]
pub enum SetLine {
    /// Whole lines without variables.
    Fixed(Vec<u8>),
    /// One line, left out for an empty value.
    Value {
        /// The name, with `: ` after it.
        start: Box<[u8]>,
        /// What it has if it is not left out.
        has: Given,
        /// The value.
        text: Text,
    },
}

/// The parameters of `fastcgi_param`.
pub struct Params {
    /// The parameters.
    pub list: Vec<Param>,
    /// Which of them are in the place of fields, also of those that are left out.
    pub fields: ParamFields,
    /// The client's host as a parameter, if none of them is in its place.
    pub host: ParamStart,
}

/// Parameters of `fastcgi_param`.
#[derive(Debug)]
pub enum Param {
    /// Whole parameters without variables, as FastCGI encodes them.
    Fixed(Vec<u8>),
    /// One parameter.
    Value {
        /// Its lengths and its name.
        start: ParamStart,
        /// Its value.
        text: Text,
        /// Whether it is left out for an empty value.
        if_not_empty: bool,
    },
}

/// What comes before the name of a field that is passed as a parameter.
pub const FIELD_PREFIX: &[u8] = b"HTTP_";

/// Fields in whose place there are parameters `HTTP_*`.
#[derive(Clone, Debug, Default)]
pub struct ParamFields {
    known: KnownSet,
    /// The names of the parameters, without `HTTP_`.
    names: Vec<Box<[u8]>>,
}

impl ParamFields {
    /// Those of the parameters with these names.
    pub fn of<'a>(params: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let names = params.into_iter().filter_map(|name| name.strip_prefix(FIELD_PREFIX)).map(Box::from);
        let mut fields = Self { known: KnownSet::default(), names: names.collect() };
        for name in &fields.names {
            let field: Vec<u8> = name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }).collect();
            let known = Known::of(&field);
            if known != Known::Other && is_param(known.name().as_bytes(), name) {
                fields.known.insert(known);
            }
        }
        fields
    }

    /// Whether this field is among them. `known` is that of `name`.
    pub fn contains(&self, known: Known, name: &[u8]) -> bool {
        match known {
            Known::Other => self.names.iter().any(|param| is_param(name, param)),
            known => self.known.contains(known),
        }
    }
}

/// A byte of the name of a field, in the name of its parameter.
pub fn param_byte(byte: u8) -> u8 {
    if byte == b'-' { b'_' } else { byte.to_ascii_uppercase() }
}

fn is_param(field: &[u8], param: &[u8]) -> bool {
    field.len() == param.len() && field.iter().zip(param).all(|(&field, &param)| param_byte(field) == param)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_the_parameter_of_its_name_in_capitals() {
        let params = ["HTTP_HOST", "HTTP_X_PAD", "HTTP_X_FORWARDED_FOR", "HTTP_accept", "HTTP_X-CACHE", "SERVER_NAME"];
        let fields = ParamFields::of(params.iter().map(|name| name.as_bytes()));
        for (name, is_there) in [
            ("Host", true),
            ("host", true),
            ("X-Pad", true),
            ("x_pad", true),
            ("X-Forwarded-For", true),
            ("X_FORWARDED_For", true),
            ("Accept", false),
            ("X-Cache", false),
            ("Server-Name", false),
            ("X-Pads", false),
        ] {
            let name = name.as_bytes();
            assert_eq!(fields.contains(Known::of(name), name), is_there, "{}", name.escape_ascii());
        }
    }
}
