//! What is purged, in words for a log.

use std::fmt::{self, Display};

use larder_cache::How;

use super::deeds::Done;
use super::{Order, Uri, What};
use crate::vsl::Shown;

/// These orders in words, escaped and shortened.
pub fn of_orders(orders: &[Order]) -> String {
    shortened(orders.iter().map(Words))
}

/// These words one after the other, escaped and shortened.
pub fn shortened(words: impl IntoIterator<Item = impl Display>) -> String {
    let mut text = String::new();
    for word in words {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&word.to_string());
        if text.len() > SAID_BYTES_MAX {
            // Escapes are ASCII.
            text.truncate(text.floor_char_boundary(SAID_BYTES_MAX));
            text.push_str("...");
            break;
        }
    }
    text
}

/// How long the words of a line may be.
const SAID_BYTES_MAX: usize = 300;

/// The line of the log about what has been done.
pub fn line(said: &str, done: &Done) -> String {
    line_by("", said, done)
}

/// The same of what was done by an answer of an origin.
pub fn line_by_origin(said: &str, done: &Done) -> String {
    line_by(" by the origin", said, done)
}

fn line_by(by: &str, said: &str, done: &Done) -> String {
    match done.banned.is_empty() {
        true => format!("purged{by}: {said}: {}", done.counted()),
        false => format!("banned{by}: {said}"),
    }
}

struct Words<'a>(&'a Order);

impl Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.what {
            What::Page(page) => write!(f, "page {}", Shown(page))?,
            What::Uri { of_host, uri } => {
                f.write_str(if *of_host { "" } else { "on any host " })?;
                match uri {
                    Uri::Is(uri) => write!(f, "URL {}", Shown(uri))?,
                    Uri::Like(uri) => write!(f, "URLs like {}", Shown(uri))?,
                    Uri::Begins(uri) => write!(f, "URLs that begin with {}", Shown(uri))?,
                    Uri::Matches(regex) => write!(f, "URLs ~ {}", Shown(regex.as_bytes()))?,
                }
            }
            What::Host => f.write_str("the host")?,
            What::Tags(tags) => {
                f.write_str("tags")?;
                tags.iter().try_for_each(|tag| write!(f, " {}", Shown(tag)))?;
            }
            What::Ban(words) => write!(f, "{}", Shown(words.join(" ").as_bytes()))?,
            What::All => f.write_str("all")?,
        }
        if self.0.how == How::Soft { f.write_str(", softly") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_told_what_was_meant() {
        let order = |what| Order { what, how: How::Hard };
        let tags = |tags: &[&[u8]]| What::Tags(tags.iter().map(|tag| Box::from(*tag)).collect());
        for (orders, expected) in [
            (vec![order(What::Page(b"/a".to_vec()))], "page /a".to_owned()),
            (
                vec![order(What::Uri { of_host: false, uri: Uri::Matches("^/\u{e9}\n".to_owned()) })],
                r"on any host URLs ~ ^/\xc3\xa9\n".to_owned(),
            ),
            (
                vec![order(tags(&[b"a", b"b\x1b"])), Order { what: tags(&[b"c"]), how: How::Soft }],
                r"tags a b\x1b, tags c, softly".to_owned(),
            ),
            (vec![order(What::Ban(vec!["obj.age".into(), ">".into(), "1h".into()]))], "obj.age > 1h".to_owned()),
            (vec![order(tags(&[&[b'x'; 1000]]))], format!("tags {}...", "x".repeat(SAID_BYTES_MAX - 5))),
        ] {
            assert_eq!(of_orders(&orders), expected);
        }
        let done = Done { pages: 1, ..Done::default() };
        assert_eq!(line("page /a", &done), "purged: page /a: 1 page");
        assert_eq!(line("a", &Done { banned: vec!["a".to_owned()], ..done }), "banned: a");
    }
}
