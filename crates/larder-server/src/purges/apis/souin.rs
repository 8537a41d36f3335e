//! Souin's `POST /souin-api/souin`: an HTTP Cache Invalidation API (draft-nottingham-http-invalidation).

use larder_cache::How;
use serde::Deserialize;

use crate::purges::wanted::{Part, Wanted};

use super::parse;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(rename = "type")]
    by: By,
    #[serde(default)]
    selectors: Vec<String>,
    #[serde(default)]
    groups: Vec<String>,
    /// Whether pages are gone; else they are only invalid.
    #[serde(default)]
    purge: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum By {
    Uri,
    UriPrefix,
    Origin,
    Group,
}

/// What it wants purged. The pages of a group go on all hosts.
pub fn wanted(body: &[u8]) -> Result<Wanted, String> {
    let body: Body = parse(body)?;
    let how = if body.purge { How::Hard } else { How::Soft };
    let parts: Vec<Part> = match body.by {
        By::Uri => body.selectors.into_iter().map(Part::Page).collect(),
        By::UriPrefix => body.selectors.into_iter().map(Part::Prefix).collect(),
        By::Origin => body.selectors.iter().map(|origin| Part::Host(host(origin).to_owned())).collect(),
        By::Group => body.groups.into_iter().map(Part::Tag).collect(),
    };
    match (parts.is_empty(), body.by) {
        (true, By::Group) => Err("\"groups\" names none".to_owned()),
        (true, By::Uri | By::UriPrefix | By::Origin) => Err("\"selectors\" names none".to_owned()),
        (false, _) => Wanted::of(how, None, parts),
    }
}

/// The host of an origin such as `https://a.example`.
fn host(origin: &str) -> &str {
    let origin = origin.strip_suffix('/').unwrap_or(origin);
    let schemes = ["https://", "http://", "//"];
    schemes.iter().find_map(|scheme| origin.strip_prefix(scheme)).unwrap_or(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_go_by_uri_origin_or_group() {
        let text = |text: &str| text.to_owned();
        for (body, how, parts) in [
            (
                r#"{"type":"uri","selectors":["a.example/b?c"],"purge":true}"#,
                How::Hard,
                vec![Part::Page(text("a.example/b?c"))],
            ),
            (
                r#"{"type":"uri-prefix","selectors":["https://a.example/b"]}"#,
                How::Soft,
                vec![Part::Prefix(text("https://a.example/b"))],
            ),
            (
                r#"{"type":"origin","selectors":["https://a.example","b.example"],"purge":false}"#,
                How::Soft,
                vec![Part::Host(text("a.example")), Part::Host(text("b.example"))],
            ),
            (
                r#"{"type":"group","groups":["a","b"],"selectors":[],"purge":true}"#,
                How::Hard,
                vec![Part::Tag(text("a")), Part::Tag(text("b"))],
            ),
        ] {
            assert_eq!(wanted(body.as_bytes()), Wanted::of(how, None, parts), "{body}");
        }
    }

    #[test]
    fn what_is_not_understood_purges_nothing() {
        for (body, why) in [
            ("{}", "missing field `type`"),
            (r#"{"type":"uri"}"#, "\"selectors\" names none"),
            (r#"{"type":"group","selectors":["a"]}"#, "\"groups\" names none"),
            (r#"{"type":"everything","selectors":["a"]}"#, "unknown variant `everything`, expected one of `uri`"),
            (r#"{"type":"uri","selectors":["/a"],"hard":true}"#, "unknown field `hard`"),
        ] {
            let refused = wanted(body.as_bytes()).expect_err(body);
            assert!(refused.contains(why), "{body}: {refused}");
        }
    }
}
