//! Whether a response may be stored, as nginx decides it from what the origin sent.

use larder_http::vary::{Vary, parse};
use larder_http::{Fields, Known};

/// The fields to ignore: `*_ignore_headers`, as far as it concerns storing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ignore {
    /// `X-Accel-Expires`.
    pub x_accel_expires: bool,
    /// `Expires`.
    pub expires: bool,
    /// `Cache-Control`.
    pub cache_control: bool,
    /// `Set-Cookie`.
    pub set_cookie: bool,
    /// `Vary`.
    pub vary: bool,
}

/// Why a response may not be stored, whatever its ttl; `None` if it may.
///
/// - `Set-Cookie`: the cookie belongs to one visitor; even `X-Accel-Expires` does not allow storing.
/// - `Vary: *`: the response answers no other request.
pub fn personal(fields: &Fields, ignore: &Ignore) -> Option<&'static str> {
    if !ignore.set_cookie && fields.contains_known(Known::SetCookie) {
        return Some("Set-Cookie");
    }
    if !ignore.vary && parse(fields.all_known(Known::Vary)) == Vary::Any {
        return Some("Vary: *");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_and_an_asterisk_are_not_stored_unless_ignored() {
        let all = Ignore { set_cookie: true, vary: true, ..Ignore::default() };
        for (name, value, reason) in [
            ("Set-Cookie", "a=1", Some("Set-Cookie")),
            ("set-cookie", "", Some("Set-Cookie")),
            ("Set-Cookie2", "a=1", None),
            ("Vary", "*", Some("Vary: *")),
            ("Vary", "Accept, *", Some("Vary: *")),
            ("Vary", "Accept", None),
            ("Cookie", "a=1", None),
        ] {
            let mut fields = Fields::new();
            fields.push(name.as_bytes(), value.as_bytes());
            assert_eq!(personal(&fields, &Ignore::default()), reason, "{name}: {value}");
            assert_eq!(personal(&fields, &all), None, "{name}: {value}, ignored");
        }
    }
}
