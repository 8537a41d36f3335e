//! What an origin purges by a field of its answer, in our words and in LiteSpeed's.
//!
//! | field                                          | purges                                   |
//! | ---------------------------------------------- | ---------------------------------------- |
//! | `X-Larder-Purge: tag=a,b url=/x url=/y/* soft` | tags, pages, what is like that; softly   |
//! | `X-Larder-Purge: host`, `all`                  | the host, everything                     |
//! | `X-LiteSpeed-Purge: public,tag=a,b,/x`         | two tags, a page                         |
//! | `X-LiteSpeed-Purge2: stale,*`                  | the host, softly                         |

use larder_cache::{How, split_tags};
use larder_http::Fields;

use super::{Order, TAGS_MAX, Uri, What, Wrong};

/// The fields, which no visitor gets where they are obeyed.
pub const FIELDS: [&str; 3] = [LARDER, LITESPEED[0], LITESPEED[1]];
const LARDER: &str = "X-Larder-Purge";
/// The plugins take the second where they send two.
const LITESPEED: [&str; 2] = ["X-LiteSpeed-Purge", "X-LiteSpeed-Purge2"];

/// What these fields of an answer say. An error says that one of them cannot be understood.
pub fn orders(fields: &Fields) -> Result<Vec<Order>, Wrong> {
    let mut orders = Vec::new();
    for value in fields.get_all(LARDER) {
        let words = value.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        orders.extend(of_words(
            LARDER,
            words.clone().filter(|word| *word != b"soft"),
            words.clone().any(|word| word == b"soft"),
        )?);
    }
    // What is private is in no shared cache.
    let lines = LITESPEED.iter().flat_map(|name| fields.get_all(name).map(|value| (*name, value)));
    for (name, group) in lines.flat_map(|(name, line)| line.split(|byte| *byte == b';').map(move |group| (name, group)))
    {
        let words = group.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|word| !word.is_empty());
        if words.clone().any(|word| word == b"private") {
            continue;
        }
        let is_soft = words.clone().any(|word| word == b"stale");
        orders.extend(of_words(name, words.filter(|word| !matches!(*word, b"public" | b"stale")), is_soft)?);
    }
    Ok(orders)
}

fn of_words<'a>(
    field: &'static str,
    words: impl Iterator<Item = &'a [u8]>,
    is_soft: bool,
) -> Result<Vec<Order>, Wrong> {
    let how = if is_soft { How::Soft } else { How::Hard };
    let (mut tags, mut orders) = (Vec::new(), Vec::new());
    let page = |uri: &[u8]| {
        let uri = if uri.ends_with(b"*") { Uri::Like(uri.into()) } else { Uri::Is(uri.into()) };
        What::Uri { of_host: true, uri }
    };
    for word in words {
        let what = match word {
            b"*" | b"host" => What::Host,
            b"all" => What::All,
            [b'/', ..] => page(word),
            _ => {
                let unknown = || Wrong::Unknown {
                    field,
                    value: String::from_utf8_lossy(word).into_owned(),
                    known: "tag=TAG, url=/PATH, host, all, and with them soft",
                };
                match word.split_at_checked(4).unwrap_or((b"", word)) {
                    (b"tag=", named) if split_tags(named).next().is_some() => {
                        tags.extend(split_tags(named).map(Box::from));
                        continue;
                    }
                    (b"url=", uri) if uri.starts_with(b"/") => page(uri),
                    // There `tag=` may be left out.
                    _ if field != LARDER && !word.ends_with(b"=") => {
                        tags.extend(split_tags(word).map(Box::from));
                        continue;
                    }
                    _ => return Err(unknown()),
                }
            }
        };
        orders.push(Order { what, how });
    }
    match tags.len() {
        0 => {}
        1..=TAGS_MAX => orders.push(Order { what: What::Tags(tags), how }),
        _ => return Err(Wrong::TooMany),
    }
    Ok(orders)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[(&str, &str)]) -> Result<Vec<Order>, Wrong> {
        let mut fields = Fields::new();
        lines.iter().for_each(|(name, value)| fields.push(name.as_bytes(), value.as_bytes()));
        orders(&fields)
    }

    fn tags(tags: &[&str]) -> What {
        What::Tags(tags.iter().map(|tag| tag.as_bytes().into()).collect())
    }

    fn uri(uri: Uri) -> What {
        What::Uri { of_host: true, uri }
    }

    #[test]
    fn an_origin_names_tags_pages_its_host_or_all() {
        let is = |text: &str| uri(Uri::Is(text.as_bytes().into()));
        for (lines, expected) in [
            (&[("X-Larder-Purge", "tag=a tag=b,c url=/x?y")][..], vec![is("/x?y"), tags(&["a", "b", "c"])]),
            (
                &[("x-larder-purge", "url=/x/*"), ("X-Larder-Purge", "host")],
                vec![uri(Uri::Like((*b"/x/*").into())), What::Host],
            ),
            (&[("X-Larder-Purge", "all")], vec![What::All]),
            (&[("X-Larder-Purge", " ")], vec![]),
            (
                &[("X-LiteSpeed-Purge", "public, tag=7f_HOME,tag=7f_Po.12,/feed/")],
                vec![is("/feed/"), tags(&["7f_HOME", "7f_Po.12"])],
            ),
            (&[("X-LiteSpeed-Purge", "*")], vec![What::Host]),
            (&[("X-LiteSpeed-Purge", "public,b3a_Po.12,b3a_F;private,b3a_F")], vec![tags(&["b3a_Po.12", "b3a_F"])]),
            (&[("X-Litespeed-Purge2", "tag=P1,a")], vec![tags(&["P1", "a"])]),
            (&[("X-LiteSpeed-Purge", "private,*")], vec![]),
            (&[("X-LiteSpeed-Purge", "public,tag=a;private,tag=b")], vec![tags(&["a"])]),
            (&[("X-Other", "all")], vec![]),
        ] {
            let expected = expected.into_iter().map(|what| Order { what, how: How::Hard }).collect();
            assert_eq!(said(lines), Ok(expected), "{lines:?}");
        }
        for line in [("X-Larder-Purge", "soft tag=a"), ("X-LiteSpeed-Purge", "stale,tag=a")] {
            assert_eq!(said(&[line]), Ok(vec![Order { what: tags(&["a"]), how: How::Soft }]), "{line:?}");
        }
    }

    #[test]
    fn what_cannot_be_understood_purges_nothing() {
        for line in ["tag=", "tag=,", "url=x", "url=", "tags=a", "a", "tag=a everything", "\u{fc}bel"] {
            assert!(matches!(said(&[("X-Larder-Purge", line)]), Err(Wrong::Unknown { .. })), "{line}");
        }
    }
}
