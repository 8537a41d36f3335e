//! What is to be purged, in the words of plugins, operators and origins.

use std::sync::{Arc, LazyLock};

use larder_conf::profiles;
use larder_http::Fields;
use larder_server::profile::Profile;
use larder_server::purges::apis::{self, Api, Said};
use larder_server::purges::deeds::Done;
use larder_server::purges::dialects::{Asked, is_purge_method, orders};
use larder_server::purges::wanted::Wanted;
use larder_server::purges::{What, by_origin};

/// What leaves arguments out of keys.
static COMMON: LazyLock<[Arc<Profile>; 1]> = LazyLock::new(|| {
    let common = profiles::find("common").map(profiles::known).unwrap_or_default();
    [Arc::new(Profile::new(&common))]
});

/// `METHOD TARGET`, then fields in lines, and from the first brace on a body of JSON: a purge means something, its tags are tags, and all means that it said so.
pub fn purge(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let (method, target) = first.split_at(first.iter().position(|byte| *byte == b' ').unwrap_or(first.len()));
    let mut fields = Fields::new();
    for line in lines {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if !name.is_empty() && name.len() < 1000 {
            fields.push(name, value);
        }
    }
    let own = [Box::from("X-Tags")];
    let target = target.trim_ascii();
    if let Some(found) = orders(Asked { method, target, fields: &fields, tag_fields: &own }) {
        assert!(is_purge_method(method) || method == b"GET" && target.starts_with(b"/purge/"));
        let found = found.unwrap_or_default();
        let says = |words: &[&[u8]]| words.iter().any(|word| data.windows(word.len()).any(|bytes| bytes == *word));
        for order in &found {
            match &order.what {
                What::Tags(tags) => {
                    let is_tag = |tag: &[u8]| !tag.is_empty() && !tag.iter().any(|byte| b" \t".contains(byte));
                    assert!(!tags.is_empty() && tags.iter().all(|tag| is_tag(tag)), "{tags:?}");
                }
                What::All => {
                    let is_plain_ban = method == b"BAN" && matches!(target, b"/" | b"*");
                    assert!(
                        is_plain_ban || says(&[b"All", b"ALL", b"all", b"aLL", b"flush", b".*"]) || said_all(&fields)
                    );
                }
                What::Page(_) | What::Uri { .. } | What::Host | What::Ban(_) => {}
            }
        }
    }
    drop(by_origin::orders(&fields));
    let body = data.iter().position(|byte| *byte == b'{').map_or(&b""[..], |at| &data[at..]);
    by_api(Api::find(target), apis::Asked { fields: &fields, tag_fields: &own, body });
    for api in [Api::Own, Api::Cloudflare((*b"1").into()), Api::FastlyKeys, Api::Souin] {
        by_api(Some(api), apis::Asked { fields: &fields, tag_fields: &own, body });
    }
    if let Ok(text) = str::from_utf8(data)
        && let Ok(wanted) = Wanted::parse(text)
    {
        assert!(text.trim_end_matches('\n').ends_with("\nend"));
        drop(wanted.planned(&[], &*COMMON));
    }
}

/// What is understood of an API is told in JSON, and so is what is not.
fn by_api(api: Option<Api>, asked: apis::Asked<'_>) {
    let Some(api) = api else { return };
    let said = api.said(asked);
    let form = api.form(said.as_ref().ok(), "1".to_owned());
    let told = match &said {
        Ok(Said::Wanted(wanted)) => {
            drop(wanted.planned(&[], &*COMMON));
            form.done(&Done::default())
        }
        Ok(Said::Orders(orders)) => {
            assert!(api == Api::Own && asked.body.trim_ascii().is_empty(), "{orders:?}");
            form.done(&Done::default())
        }
        Err(why) => form.refused(400, why),
    };
    assert!(told.is_empty() && api == Api::Souin || told.starts_with('{') && told.ends_with("}\n"), "{told}");
}

fn said_all(fields: &Fields) -> bool {
    fields.get("X-Purge-Method").is_some_and(|value| value.eq_ignore_ascii_case(b"all"))
        || fields.contains("Varnish-Ban-All")
}
