//! What the cache has made of a request, by its records: `%{Varnish:hitmiss}x` and `%{Varnish:handling}x` of varnishncsa.

use larder_vsl::{Record, Tag};

use super::text::word;

/// What it has made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handling {
    /// `hit`, `miss`, or `-`.
    pub hit_or_miss: &'static str,
    /// `hit`, `miss`, `hitmiss`, `pass`, `hitpass`, `pipe`, `synth`, or `-`.
    pub name: &'static str,
}

impl Default for Handling {
    fn default() -> Self {
        Self { hit_or_miss: "-", name: "-" }
    }
}

impl Handling {
    /// Takes what a record says of it.
    pub fn take(&mut self, record: Record<'_>) {
        let (hit_or_miss, name) = match record.tag {
            Tag::HitMiss => ("miss", "hitmiss"),
            Tag::HitPass => ("miss", "hitpass"),
            Tag::VclReturn if record.text.eq_ignore_ascii_case(b"pipe") => ("miss", "pipe"),
            Tag::VclCall => match self.of_call(record.text) {
                Some(found) => found,
                None => return,
            },
            Tag::Cache => match of_cache(record.text) {
                Some(found) => found,
                None => return,
            },
            _ => return,
        };
        *self = Self { hit_or_miss, name };
    }

    fn of_call(&self, sub: &[u8]) -> Option<(&'static str, &'static str)> {
        let is = |name: &str| sub.eq_ignore_ascii_case(name.as_bytes());
        if is("recv") {
            Some(("-", "-"))
        } else if is("hit") {
            Some(("hit", "hit"))
        } else if is("miss") && self.name != "hitmiss" {
            Some(("miss", "miss"))
        } else if is("pass") && self.name != "hitpass" {
            Some(("miss", "pass"))
        } else if is("synth") {
            // It is neither, and nearer to a miss.
            Some(("miss", "synth"))
        } else {
            None
        }
    }
}

/// What the cache of an nginx.conf says, which runs no subs.
fn of_cache(text: &[u8]) -> Option<(&'static str, &'static str)> {
    match word(text, 1).unwrap_or_default() {
        b"HIT" | b"STALE" | b"UPDATING" | b"REVALIDATED" => Some(("hit", "hit")),
        b"MISS" | b"EXPIRED" => Some(("miss", "miss")),
        b"BYPASS" | b"PASS" => Some(("miss", "pass")),
        _ => None,
    }
}
