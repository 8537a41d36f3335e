//! Fastly's API. Its services are not ours, so that the name of one says nothing.

use larder_cache::{How, split_tags};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::purges::wanted::{Part, Wanted};

use super::{Asked, is_blank, parse, unescaped};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    surrogate_keys: Vec<String>,
}

/// `POST /service/ID/purge/KEY`.
pub fn key(key: &[u8], how: How) -> Result<Wanted, String> {
    Wanted::of(how, None, vec![Part::Tag(unescaped(key)?)])
}

/// `POST /service/ID/purge`: tags in a field, in the body, or in both.
pub fn keys(asked: Asked<'_>, how: How) -> Result<Wanted, String> {
    let mut parts = Vec::new();
    for tag in asked.fields.get_all(FIELD).flat_map(split_tags) {
        let tag = str::from_utf8(tag).map_err(|_| format!("\"{FIELD}\" is not UTF-8"))?;
        parts.push(Part::Tag(tag.to_owned()));
    }
    if parts.is_empty() || !is_blank(asked.body) {
        let body: Keys = parse(asked.body)?;
        parts.extend(body.surrogate_keys.into_iter().map(Part::Tag));
    }
    Wanted::of(how, None, parts)
}

/// `POST /service/ID/purge_all`, which is never soft.
pub fn all() -> Result<Wanted, String> {
    Wanted::of(How::Hard, None, vec![Part::All])
}

/// `POST /purge/HOST/PATH`, with a scheme before it or not. Some clients escape all of it.
pub fn url(url: &[u8], how: How) -> Result<Wanted, String> {
    let url = match url.contains(&b'/') {
        true => String::from_utf8(url.to_vec()).map_err(|_| "the URL is not UTF-8".to_owned())?,
        false => unescaped(url)?,
    };
    // What joins paths makes one slash of two.
    let url = match url.split_once(":/") {
        Some((scheme @ ("http" | "https"), rest)) if !rest.starts_with('/') => format!("{scheme}://{rest}"),
        _ => url,
    };
    if url.starts_with('/') {
        return Err("the URL has no host".to_owned());
    }
    Wanted::of(how, None, vec![Part::Page(url)])
}

/// The answer to a purge that holds.
pub fn done(id: Option<&str>) -> String {
    let told = match id {
        Some(id) => json!({ "status": "ok", "id": id }),
        None => json!({ "status": "ok" }),
    };
    format!("{told}\n")
}

/// The answer to a purge of these tags, each with a name of its own.
pub fn keys_done(keys: &[String], id: &str) -> String {
    let named = keys.iter().enumerate().map(|(number, key)| (key.clone(), format!("{id}-{number}").into()));
    format!("{}\n", Value::Object(named.collect::<Map<_, _>>()))
}

/// The answer to one that is refused.
pub fn refused(status: u16, why: &str) -> String {
    let what = match status {
        larder_http::status::FORBIDDEN => "Provided credentials are missing or invalid",
        _ => "Bad request",
    };
    format!("{}\n", json!({ "msg": what, "detail": why }))
}

const FIELD: &str = "Surrogate-Key";

#[cfg(test)]
mod tests {
    use larder_http::Fields;

    use super::*;

    fn tags(how: How, tags: &[&str]) -> Result<Wanted, String> {
        Wanted::of(how, None, tags.iter().map(|tag| Part::Tag((*tag).to_owned())).collect())
    }

    #[test]
    fn tags_are_in_the_path_in_a_field_or_in_the_body() {
        assert_eq!(key(b"a%2Fb", How::Soft), tags(How::Soft, &["a/b"]));
        assert!(key(b"%ff", How::Hard).is_err());
        for (field, body, expected) in [
            ("foo bar baz", "", tags(How::Hard, &["foo", "bar", "baz"])),
            ("", r#"{"surrogate_keys":["foo","bar"]}"#, tags(How::Hard, &["foo", "bar"])),
            ("a", r#"{"surrogate_keys":["b"]}"#, tags(How::Hard, &["a", "b"])),
            ("", "", Err("the body is no object of JSON".to_owned())),
            ("", r#"{"surrogate_keys":[]}"#, tags(How::Hard, &[])),
        ] {
            let mut fields = Fields::new();
            fields.push(FIELD.as_bytes(), field.as_bytes());
            let asked = Asked { fields: &fields, tag_fields: &[], body: body.as_bytes() };
            assert_eq!(keys(asked, How::Hard), expected, "{field} {body}");
        }
        for body in [r#"{"surrogate_keys":"a"}"#, r#"{"keys":["a"]}"#, "{}"] {
            let asked = Asked { fields: &Fields::new(), tag_fields: &[], body: body.as_bytes() };
            assert!(keys(asked, How::Hard).is_err(), "{body}");
        }
    }

    #[test]
    fn a_url_is_in_the_path() {
        for (path, expected) in [
            ("a.example/b?c=d", Some("a.example/b?c=d")),
            ("https://a.example/b%20c", Some("https://a.example/b%20c")),
            ("a.example%2Fb%3Fc", Some("a.example/b?c")),
            ("https%3A%2F%2Fa.example%2Fb", Some("https://a.example/b")),
            ("https:/a.example/b", Some("https://a.example/b")),
            ("a.example", Some("a.example")),
            ("/b", None),
            ("%2Fb", None),
        ] {
            let expected = expected.map(|url| Wanted::of(How::Hard, None, vec![Part::Page(url.to_owned())]));
            assert_eq!(Some(url(path.as_bytes(), How::Hard)).filter(Result::is_ok), expected, "{path}");
        }
    }

    #[test]
    fn answers_are_fastlys() {
        assert_eq!(done(Some("1-2")), "{\"id\":\"1-2\",\"status\":\"ok\"}\n");
        assert_eq!(done(None), "{\"status\":\"ok\"}\n");
        let keys = ["foo".to_owned(), "b\"r".to_owned()];
        assert_eq!(keys_done(&keys, "7"), "{\"b\\\"r\":\"7-1\",\"foo\":\"7-0\"}\n");
        assert_eq!(refused(400, "no"), "{\"detail\":\"no\",\"msg\":\"Bad request\"}\n");
    }
}
