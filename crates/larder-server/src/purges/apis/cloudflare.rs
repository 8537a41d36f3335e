//! Cloudflare's API, version 4: `POST /client/v4/zones/ID/purge_cache`. Its zones are not ours, so that the name of one
//! says nothing.

use larder_cache::How;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::purges::wanted::{Part, Wanted};

use super::parse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    purge_everything: Option<bool>,
    files: Option<Vec<File>>,
    tags: Option<Vec<String>>,
    hosts: Option<Vec<String>>,
    prefixes: Option<Vec<String>>,
}

/// A page. What its key has of fields does not matter here, as all variants go.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a file is a URL, or an object with \"url\" and \"headers\"")]
enum File {
    Url(String),
    WithFields(WithFields),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WithFields {
    url: String,
    #[serde(rename = "headers")]
    _headers: Option<IgnoredAny>,
}

/// What it wants purged.
pub fn wanted(body: &[u8], how: How) -> Result<Wanted, String> {
    let body: Body = parse(body)?;
    let url = |file| match file {
        File::Url(url) | File::WithFields(WithFields { url, .. }) => Part::Page(url),
    };
    let parts = body.files.into_iter().flatten().map(url);
    let parts = parts.chain(body.tags.into_iter().flatten().map(Part::Tag));
    let parts = parts.chain(body.hosts.into_iter().flatten().map(Part::Host));
    let parts = parts.chain(body.prefixes.into_iter().flatten().map(Part::Prefix));
    let parts: Vec<Part> = parts.chain((body.purge_everything == Some(true)).then_some(Part::All)).collect();
    if parts.is_empty() {
        let why = "Request must contain one of \"purge_everything\", \"files\", \"tags\", \"hosts\" or \"prefixes\"";
        return Err(why.to_owned());
    }
    Wanted::of(how, None, parts)
}

/// The envelope of a purge that holds.
pub fn done(zone: &str) -> String {
    format!("{}\n", json!({ "success": true, "errors": [], "messages": [], "result": { "id": zone } }))
}

/// The envelope of one that is refused.
pub fn refused(status: u16, why: &str) -> String {
    let code = match status {
        larder_http::status::FORBIDDEN => CODE_FORBIDDEN,
        _ => CODE_WRONG,
    };
    let errors = [json!({ "code": code, "message": why })];
    format!("{}\n", json!({ "success": false, "errors": errors, "messages": [], "result": null }))
}

/// "Authentication error".
const CODE_FORBIDDEN: u32 = 10_000;
/// A body that says nothing to be purged, and whatever else is wrong.
const CODE_WRONG: u32 = 1012;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_say_what_goes() {
        let page = |url: &str| Part::Page(url.to_owned());
        for (body, parts) in [
            (r#"{"purge_everything":true}"#, vec![Part::All]),
            (
                r#"{"files":["http://a.example/b.css","http://a.example/c*"]}"#,
                vec![page("http://a.example/b.css"), page("http://a.example/c*")],
            ),
            (
                r#"{"files":[{"url":"http://a.example/b","headers":{"CF-IPCountry":"US"}},{"url":"/c"},"/d"]}"#,
                vec![page("http://a.example/b"), page("/c"), page("/d")],
            ),
            (r#"{"tags":["a","b"]}"#, vec![Part::Tag("a".to_owned()), Part::Tag("b".to_owned())]),
            (r#"{"hosts":["a.example"]}"#, vec![Part::Host("a.example".to_owned())]),
            (r#"{"prefixes":["a.example/b/c"]}"#, vec![Part::Prefix("a.example/b/c".to_owned())]),
            (r#"{"purge_everything":false,"tags":["a"],"files":null}"#, vec![Part::Tag("a".to_owned())]),
        ] {
            assert_eq!(wanted(body.as_bytes(), How::Soft), Wanted::of(How::Soft, None, parts), "{body}");
        }
    }

    #[test]
    fn what_is_not_understood_purges_nothing() {
        for (body, why) in [
            ("{}", "Request must contain one of"),
            (r#"{"purge_everything":false}"#, "Request must contain one of"),
            (r#"{"purge_everything":"true"}"#, "expected a boolean"),
            (r#"{"files":[{"uri":"/a"}]}"#, "a file is a URL"),
            (r#"{"files":[1]}"#, "a file is a URL"),
            (r#"{"file":["/a"]}"#, "unknown field `file`"),
            (r#"{"tags":"a"}"#, "expected a sequence"),
        ] {
            let refused = wanted(body.as_bytes(), How::Hard).expect_err(body);
            assert!(refused.contains(why), "{body}: {refused}");
        }
    }

    #[test]
    fn answers_are_in_the_envelope() {
        assert_eq!(done("9a\""), "{\"errors\":[],\"messages\":[],\"result\":{\"id\":\"9a\\\"\"},\"success\":true}\n");
        assert_eq!(
            refused(403, "no"),
            "{\"errors\":[{\"code\":10000,\"message\":\"no\"}],\"messages\":[],\"result\":null,\"success\":false}\n"
        );
    }
}
