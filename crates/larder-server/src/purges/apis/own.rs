//! `POST /purge`: what `larder purge` can say, in JSON, or tags in the fields for them.

use larder_cache::How;
use serde::Deserialize;

use crate::purges::dialects;
use crate::purges::wanted::{Part, Wanted};

use super::{Asked, Said, is_blank, parse};

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Body {
    urls: Vec<String>,
    prefixes: Vec<String>,
    #[serde(rename = "match")]
    patterns: Vec<String>,
    hosts: Vec<String>,
    tags: Vec<String>,
    bans: Vec<String>,
    all: bool,
    soft: bool,
    zone: Option<String>,
}

/// What it wants purged.
pub fn said(asked: Asked<'_>) -> Result<Said, String> {
    let by_fields = dialects::by_tag_fields(dialects::Asked {
        method: b"POST",
        target: b"/purge",
        fields: asked.fields,
        tag_fields: asked.tag_fields,
    });
    let by_fields = by_fields.map_err(|wrong| wrong.to_string())?;
    match (by_fields.is_empty(), is_blank(asked.body)) {
        (false, true) => Ok(Said::Orders(by_fields)),
        (false, false) => Err("tags are in a field and there is a body too: say all in the body".to_owned()),
        (true, true) => Err("it does not say which pages: send JSON, or tags in \"Surrogate-Key\"".to_owned()),
        (true, false) => wanted(parse(asked.body)?, dialects::how(asked.fields)).map(Said::Wanted),
    }
}

fn wanted(body: Body, how: How) -> Result<Wanted, String> {
    let parts = body.urls.into_iter().map(Part::Url);
    let parts = parts.chain(body.prefixes.into_iter().map(Part::Prefix));
    let parts = parts.chain(body.patterns.into_iter().map(Part::Match));
    let parts = parts.chain(body.hosts.into_iter().map(Part::Host));
    let parts = parts.chain(body.tags.into_iter().map(Part::Tag));
    let parts = parts.chain(body.bans.into_iter().map(Part::Ban));
    let parts = parts.chain(body.all.then_some(Part::All)).collect();
    Wanted::of(if body.soft { How::Soft } else { how }, body.zone, parts)
}

#[cfg(test)]
mod tests {
    use larder_http::Fields;

    use crate::purges::{Order, What};

    use super::*;

    fn said_by(lines: &[(&str, &str)], body: &str) -> Result<Said, String> {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        said(Asked { fields: &fields, tag_fields: &["X-Tags".into()], body: body.as_bytes() })
    }

    #[test]
    fn a_body_says_all_that_the_command_can_say() {
        let text = |text: &str| text.to_owned();
        for (body, how, zone, parts) in [
            (
                r#"{"urls":["/a","b.example/c"]}"#,
                How::Hard,
                None,
                vec![Part::Url(text("/a")), Part::Url(text("b.example/c"))],
            ),
            (r#" {"prefixes":["/a"],"soft":true}"#, How::Soft, None, vec![Part::Prefix(text("/a"))]),
            (r#"{"match":["^/a"],"zone":"pages"}"#, How::Hard, Some("pages"), vec![Part::Match(text("^/a"))]),
            (
                r#"{"hosts":["a"],"tags":["b"],"all":true}"#,
                How::Hard,
                None,
                vec![Part::Host(text("a")), Part::Tag(text("b")), Part::All],
            ),
            (r#"{"bans":["obj.age > 1h"],"zone":null}"#, How::Hard, None, vec![Part::Ban(text("obj.age > 1h"))]),
        ] {
            let expected = Wanted::of(how, zone.map(str::to_owned), parts).map(Said::Wanted);
            assert_eq!(said_by(&[], body), expected, "{body}");
        }
        let soft = said_by(&[("Fastly-Soft-Purge", "1")], r#"{"all":true}"#);
        assert_eq!(soft, Wanted::of(How::Soft, None, vec![Part::All]).map(Said::Wanted));
    }

    #[test]
    fn fields_name_tags_where_there_is_no_body() {
        let tags = |tags: &[&str]| What::Tags(tags.iter().map(|tag| tag.as_bytes().into()).collect());
        for (lines, how, what) in [
            (&[("Surrogate-Key", "a b")][..], How::Hard, tags(&["a", "b"])),
            (&[("Cache-Tag", "a,b"), ("Fastly-Soft-Purge", "1")], How::Soft, tags(&["a", "b"])),
            (&[("x-tags", "a")], How::Hard, tags(&["a"])),
        ] {
            assert_eq!(said_by(lines, " \n"), Ok(Said::Orders(vec![Order { what, how }])), "{lines:?}");
        }
        assert!(said_by(&[("Surrogate-Key", "")], "").is_err());
        assert!(said_by(&[("Surrogate-Key", "a")], r#"{"all":true}"#).is_err());
    }

    #[test]
    fn what_is_not_understood_purges_nothing() {
        for (body, why) in [
            ("", "which pages"),
            ("{}", "which pages"),
            (r#"{"all":false}"#, "which pages"),
            (r#"{"soft":true,"zone":"pages"}"#, "which pages"),
            (r#"{"urls":[]}"#, "which pages"),
            (r#"{"urls":"/a"}"#, "invalid type: string \"/a\", expected a sequence"),
            (r#"{"urls":[1]}"#, "invalid type: integer `1`"),
            (r#"{"urls":null}"#, "invalid type: null"),
            (r#"{"all":1}"#, "invalid type: integer `1`, expected a boolean"),
            (r#"{"all":1e999999999}"#, "number out of range"),
            (r#"{"url":["/a"]}"#, "unknown field `url`, expected one of `urls`"),
            (r#"{"all":true,"all":true}"#, "duplicate field `all`"),
            (r#"{"urls":[""]}"#, "an empty text"),
            (r#"{"match":[" "]}"#, "an empty text"),
            (r#"{"urls":["\ud800"]}"#, "cannot be understood"),
        ] {
            let refused = said_by(&[], body).expect_err(body);
            assert!(refused.contains(why), "{body}: {refused}");
        }
        let bytes = said(Asked { fields: &Fields::new(), tag_fields: &[], body: b"{\"urls\":[\"/\xff\"]}" });
        assert!(bytes.is_err_and(|why| why.contains("invalid unicode")));
        let many = format!("{{\"urls\":[{}\"/a\"]}}", "\"/a\",".repeat(5000));
        assert!(said_by(&[], &many).is_err_and(|why| why.contains("send several")));
    }
}
