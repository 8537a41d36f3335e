//! Cookies that an origin sets, as the client gets them: `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`.

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Find, HttpParts};
use crate::text::Text;

/// Whether cookies of this origin are rewritten at all.
pub fn are_rewritten(parts: &HttpParts) -> bool {
    !parts.cookie_domains.is_empty() || !parts.cookie_paths.is_empty() || !parts.cookie_flags.is_empty()
}

/// A value of Set-Cookie by the rules of `parts`; `None` when it stays as it is.
pub fn rewritten(value: &[u8], parts: &HttpParts, ex: &mut Exchange, cx: &Cx) -> Option<Vec<u8>> {
    let mut cookie = Cookie::read(value);
    // What sets no cookie is none of ours.
    cookie.attributes.first()?.value.as_ref()?;
    let mut changed = false;
    for attribute in cookie.attributes.iter_mut().skip(1) {
        let Some(value) = &attribute.value else { continue };
        let new = if attribute.is("domain") {
            replaced(value, &parts.cookie_domains, true, ex, cx)
        } else if attribute.is("path") {
            replaced(value, &parts.cookie_paths, false, ex, cx)
        } else {
            None
        };
        if let Some(new) = new {
            attribute.value = Some(new);
            changed = true;
        }
    }
    let name = cookie.attributes[0].name.clone();
    if let Some(flags) = flags_for(&name, &parts.cookie_flags, ex, cx) {
        cookie.set(flags);
        changed = true;
    }
    changed.then(|| cookie.written())
}

/// A cookie and its attributes; the first attribute is the cookie's own name and value.
struct Cookie {
    attributes: Vec<Attribute>,
}

struct Attribute {
    name: Vec<u8>,
    /// `None` where there is no `=`.
    value: Option<Vec<u8>>,
}

impl Attribute {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }
}

impl Cookie {
    /// Reads `name=value; attribute; attribute=value`, with the spaces around each left out.
    fn read(value: &[u8]) -> Self {
        let attributes = value
            .split(|&byte| byte == b';')
            .map(|part| {
                let at = part.iter().position(|&byte| byte == b'=');
                let name = at.map_or(part, |at| &part[..at]);
                let value = at.map(|at| trim(&part[at + 1..]).to_vec());
                Attribute { name: trim(name).to_vec(), value }
            })
            .collect();
        Self { attributes }
    }

    /// Gives the cookie flags, and takes flags from it.
    fn set(&mut self, flags: Flags) {
        let Flags { secure, http_only, same_site } = flags;
        self.set_plain("Secure", secure);
        self.set_plain("HttpOnly", http_only);
        match same_site {
            None => {}
            Some(SameSite::Gone) => self.remove("samesite"),
            Some(SameSite::Is(wanted)) => {
                // The first one that is there is changed, as in nginx.
                let position = self.attributes.iter().skip(1).position(|attribute| attribute.is("samesite"));
                let is_wanted = |value: &Option<Vec<u8>>| {
                    value.as_deref().is_some_and(|value| value.eq_ignore_ascii_case(wanted.as_bytes()))
                };
                let new = Attribute { name: b"SameSite".to_vec(), value: Some(wanted.as_bytes().to_vec()) };
                match position {
                    Some(at) if is_wanted(&self.attributes[at + 1].value) => {}
                    Some(at) => self.attributes[at + 1] = new,
                    None => self.attributes.push(new),
                }
            }
        }
    }

    fn set_plain(&mut self, name: &str, wanted: Option<bool>) {
        let is_there = self.attributes.iter().skip(1).any(|attribute| attribute.is(name));
        match wanted {
            Some(true) if !is_there => {
                self.attributes.push(Attribute { name: name.as_bytes().to_vec(), value: None });
            }
            Some(false) => self.remove(name),
            Some(true) | None => {}
        }
    }

    /// Takes every attribute of this name away; the cookie itself may have that name too.
    fn remove(&mut self, name: &str) {
        let mut number = 0;
        self.attributes.retain(|attribute| {
            number += 1;
            number == 1 || !attribute.is(name)
        });
    }

    fn written(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for attribute in &self.attributes {
            if !out.is_empty() {
                out.extend_from_slice(b"; ");
            }
            out.extend_from_slice(&attribute.name);
            if let Some(value) = &attribute.value {
                out.push(b'=');
                out.extend_from_slice(value);
            }
        }
        out
    }
}

/// Without spaces at both ends. nginx counts spaces alone, no tabs.
fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|&byte| byte != b' ').unwrap_or(text.len());
    let end = text.iter().rposition(|&byte| byte != b' ').map_or(start, |at| at + 1);
    &text[start..end]
}

/// The flags that `proxy_cookie_flags` gives to a cookie, and takes from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Flags {
    secure: Option<bool>,
    http_only: Option<bool>,
    same_site: Option<SameSite>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SameSite {
    Is(&'static str),
    Gone,
}

impl Flags {
    /// Adds a flag. Where two contradict each other, that which sets something counts, and the strictest place.
    fn add(&mut self, word: &[u8]) {
        let set = |place: &mut Option<bool>, wanted: bool| *place = Some(place.unwrap_or(false) | wanted);
        let rank = |same_site: Option<SameSite>| match same_site {
            None => 0,
            Some(SameSite::Gone) => 1,
            Some(SameSite::Is("None")) => 2,
            Some(SameSite::Is("Lax")) => 3,
            Some(SameSite::Is(_)) => 4,
        };
        let same_site = match word.to_ascii_lowercase().as_slice() {
            b"secure" => return set(&mut self.secure, true),
            b"nosecure" => return set(&mut self.secure, false),
            b"httponly" => return set(&mut self.http_only, true),
            b"nohttponly" => return set(&mut self.http_only, false),
            b"samesite=strict" => SameSite::Is("Strict"),
            b"samesite=lax" => SameSite::Is("Lax"),
            b"samesite=none" => SameSite::Is("None"),
            b"nosamesite" => SameSite::Gone,
            // What a variable brought along that is none is passed over.
            _ => return,
        };
        if rank(Some(same_site)) > rank(self.same_site) {
            self.same_site = Some(same_site);
        }
    }
}

/// The flags of the first rule that means the cookie; `None` when there are none.
fn flags_for(name: &[u8], rules: &[(Find, Vec<Text>)], ex: &mut Exchange, cx: &Cx) -> Option<Flags> {
    let (_, words) = rules.iter().find(|(find, _)| match find {
        Find::Regex(regex) => crate::vars::pattern::matches(regex, name, ex, cx),
        Find::Text(text) => text.value(ex, cx).eq_ignore_ascii_case(name),
    })?;
    let mut flags = Flags::default();
    for word in words {
        flags.add(&word.value(ex, cx));
    }
    Some(flags).filter(|flags| *flags != Flags::default())
}

fn replaced(value: &[u8], rules: &[(Find, Text)], is_domain: bool, ex: &mut Exchange, cx: &Cx) -> Option<Vec<u8>> {
    rules.iter().find_map(|(find, to)| match find {
        Find::Regex(regex) => crate::vars::pattern::matches(regex, value, ex, cx).then(|| to.value(ex, cx)),
        Find::Text(from) if is_domain => {
            let from = from.value(ex, cx);
            let bare = value.strip_prefix(b".").unwrap_or(value);
            let from = from.strip_prefix(b".").unwrap_or(&from);
            // The dot before the domain stays.
            let dot = &value[..value.len() - bare.len()];
            bare.eq_ignore_ascii_case(from).then(|| [dot, &to.value(ex, cx)].concat())
        }
        Find::Text(from) => {
            let from = from.value(ex, cx);
            let rest = value.strip_prefix(&from[..])?;
            Some([&to.value(ex, cx)[..], rest].concat())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(words: &str) -> Flags {
        let mut flags = Flags::default();
        words.split_whitespace().for_each(|word| flags.add(word.as_bytes()));
        flags
    }

    #[test]
    fn flags_are_set_once_and_taken_away() {
        for (cookie, words, after) in [
            ("a=b", "secure", "a=b; Secure"),
            ("a=b", "httponly secure", "a=b; Secure; HttpOnly"),
            ("a=b;Secure", "secure", "a=b; Secure"),
            ("a=b; secure; Path=/", "nosecure", "a=b; Path=/"),
            ("secure=1; secure", "nosecure", "secure=1"),
            ("a=b;HttpOnly", "nohttponly samesite=lax", "a=b; SameSite=Lax"),
            ("a=b; samesite=none; Path=/", "samesite=strict", "a=b; SameSite=Strict; Path=/"),
            ("a=b; samesite=LAX", "samesite=lax", "a=b; samesite=LAX"),
            ("a=b; SameSite", "samesite=none", "a=b; SameSite=None"),
            ("a=b; SameSite=Lax", "nosamesite", "a=b"),
            ("a=b", "SECURE nosecure SameSite=None samesite=strict", "a=b; Secure; SameSite=Strict"),
            (" a = b c ; Path = / ", "httponly", "a=b c; Path=/; HttpOnly"),
            ("a=b", "what", "a=b"),
        ] {
            let mut read = Cookie::read(cookie.as_bytes());
            read.set(flags(words));
            assert_eq!(String::from_utf8_lossy(&read.written()), after, "{cookie} with {words}");
        }
    }
}
