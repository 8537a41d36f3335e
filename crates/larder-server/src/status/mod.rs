//! `larder_status`: what is counted, as JSON. In the shape of NGINX Plus' API where that has a name for it, which is
//! `plus.rs`; what is larder's own is in `own.rs`.

mod alarms;
mod nodes;
mod now;
mod own;
mod plus;

use larder_http::{Time, status};
use serde_json::{Map, Value, json};

use crate::context::Cx;
use crate::log::stamp::Civil;

/// The versions of Plus' API that are spoken. Source: the module's documentation, "Compatibility".
pub const VERSIONS: [u8; 9] = [1, 2, 3, 4, 5, 6, 7, 8, 9];
/// The versions of our own.
const OWN_VERSIONS: [u8; 1] = [1];

pub use nodes::cluster;
pub use now::{event, now, tick};

/// The dashboard, for browsers.
pub const PAGE: &str = include_str!("page.html");

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// The path below the location, in segments.
    pub path: &'a [&'a str],
    /// `fields=` of the query: the only ones that are wanted.
    pub fields: Option<&'a [String]>,
    /// The address that the request came to.
    pub address: &'a str,
}

/// Why there is nothing; as Plus says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The status of the response.
    pub status: u16,
    /// In words.
    pub text: &'static str,
    /// For programs.
    pub code: &'static str,
    /// The version of the API that was asked, if that is known.
    pub version: Option<u8>,
}

impl Wrong {
    const fn new(status: u16, text: &'static str, code: &'static str) -> Self {
        Self { status, text, code, version: None }
    }

    /// Only reading is possible.
    pub const READ_ONLY: Self = Self::new(status::NOT_ALLOWED, "method disabled", "MethodDisabled");
    /// A page of another site has had a browser ask.
    pub const CROSS_SITE: Self = Self::new(
        status::FORBIDDEN,
        "\"Sec-Fetch-Site\" says that a page of another site has sent this: open the address itself",
        "CrossSite",
    );
    /// The host is none that leads to this machine by right.
    pub const FOREIGN_HOST: Self = Self::new(
        status::FORBIDDEN,
        "the host of this request is no name of this server: ask by an address or localhost, or add the name to its \"server_name\"",
        "ForeignHost",
    );
    const NO_PATH: Self = Self::new(status::NOT_FOUND, "path not found", "PathNotFound");
    const NO_VERSION: Self = Self::new(status::NOT_FOUND, "unknown version", "UnknownVersion");

    /// The object that tells it. `request_id` is `$request_id`.
    pub fn json(&self, request_id: &str) -> Value {
        let mut error = json!({ "status": self.status, "text": self.text, "code": self.code });
        if self.version.is_some_and(|version| version < 4) {
            error["method"] = "".into();
            error["path"] = "".into();
        }
        json!({ "error": error, "request_id": request_id, "href": DOCUMENTATION })
    }
}

/// Where clients are told that the API is described.
const DOCUMENTATION: &str = "https://nginx.org/en/docs/http/ngx_http_api_module.html";

/// A value, and how `fields` narrows it.
enum Shape {
    /// It does not.
    List(Value),
    /// To those of its fields.
    One(Value),
    /// To those fields of each of its items.
    Each(Vec<Value>),
    /// To those fields of each thing, or to the names if it says none.
    Named(Map<String, Value>),
}

/// Whether this is the version of Plus' API that a path names.
fn version_of(segment: &str, spoken: &[u8]) -> Option<u8> {
    spoken.iter().copied().find(|version| version.to_string() == segment)
}

/// The value at a path.
pub fn value(asked: Asked<'_>, cx: &Cx) -> Result<Value, Wrong> {
    let shape = match *asked.path {
        [] => Shape::List(json!(VERSIONS)),
        ["larder"] => Shape::List(json!(OWN_VERSIONS)),
        ["larder", version, ref path @ ..] => match version_of(version, &OWN_VERSIONS) {
            Some(_) => own::shape(path, cx)?,
            None => return Err(Wrong::NO_VERSION),
        },
        [version, ref path @ ..] => match version_of(version, &VERSIONS) {
            Some(version) => {
                let plus = plus::Plus { version, address: asked.address, now: cx.now(), cx };
                plus.shape(path).map_err(|wrong| Wrong { version: Some(version), ..wrong })?
            }
            None if version.bytes().all(|byte| byte.is_ascii_digit()) => return Err(Wrong::NO_VERSION),
            None => return Err(Wrong::NO_PATH),
        },
    };
    Ok(narrowed(shape, asked.fields))
}

fn narrowed(shape: Shape, fields: Option<&[String]>) -> Value {
    let only = |mut value: Value| {
        if let (Some(fields), Some(object)) = (fields, value.as_object_mut()) {
            object.retain(|name, _| fields.contains(name));
        }
        value
    };
    match shape {
        Shape::List(value) => value,
        Shape::One(value) => only(value),
        Shape::Each(items) => items.into_iter().map(only).collect(),
        Shape::Named(all) if fields.is_some_and(<[String]>::is_empty) => {
            all.into_iter().map(|(name, _)| name).collect()
        }
        Shape::Named(all) => Value::Object(all.into_iter().map(|(name, value)| (name, only(value))).collect()),
    }
}

/// All things of a kind, or the one that the rest of the path names.
fn named(mut all: Map<String, Value>, rest: &[&str], missing: Wrong) -> Result<Shape, Wrong> {
    match rest {
        [] => Ok(Shape::Named(all)),
        // A name may have a slash.
        parts => all.remove(&parts.join("/")).map(Shape::One).ok_or(missing),
    }
}

/// A time in the form of ISO 8601, with milliseconds.
fn timestamp(time: Time) -> String {
    let Civil { year, month, day, hour, minute, second } = Civil::at(time.secs().cast_signed());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", time.0 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_narrow_what_is_told() {
        let one = || json!({ "a": 1, "b": 2 });
        let all = || Map::from_iter([("x".to_owned(), one()), ("y".to_owned(), json!({ "a": 3 }))]);
        let fields = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        for (shape, names, expected) in [
            (Shape::One(one()), None, json!({ "a": 1, "b": 2 })),
            (Shape::One(one()), Some(fields(&["a", "c"])), json!({ "a": 1 })),
            (Shape::One(one()), Some(fields(&[])), json!({})),
            (Shape::Named(all()), Some(fields(&["b"])), json!({ "x": { "b": 2 }, "y": {} })),
            (Shape::Named(all()), Some(fields(&[])), json!(["x", "y"])),
            (Shape::Each(vec![one()]), Some(fields(&["b"])), json!([{ "b": 2 }])),
            (Shape::List(json!(["a"])), Some(fields(&[])), json!(["a"])),
        ] {
            assert_eq!(narrowed(shape, names.as_deref()), expected, "{names:?}");
        }
    }

    #[test]
    fn times_have_milliseconds() {
        assert_eq!(timestamp(Time(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(Time(1_467_112_544_467)), "2016-06-28T11:15:44.467Z");
    }

    #[test]
    fn errors_are_those_of_plus() {
        assert_eq!(
            Wrong::NO_PATH.json("0f"),
            json!({
                "error": { "status": 404, "text": "path not found", "code": "PathNotFound" },
                "request_id": "0f",
                "href": "https://nginx.org/en/docs/http/ngx_http_api_module.html",
            })
        );
        let old = Wrong { version: Some(3), ..Wrong::NO_PATH }.json("0f");
        assert_eq!((&old["error"]["method"], &old["error"]["path"]), (&json!(""), &json!("")));
    }
}
