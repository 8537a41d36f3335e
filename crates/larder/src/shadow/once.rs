//! Which GETs are not sent again, because they may change something or work only once.
//!
//! Nobody can tell it of all: these are the words that applications use, and arguments whose name or value is that of a
//! secret, such as a link to reset a password.

use larder_conf::profiles;
use larder_http::unescape;
use larder_server::profile::Profile;

/// What is not sent.
pub struct Once {
    /// `--skip`, without escapes and in lower case.
    own: Vec<String>,
    /// The profile that knows arguments of campaigns, which look like secrets and are none.
    common: Option<Profile>,
}

impl Once {
    /// With the texts of `--skip`.
    pub fn new(own: &[String]) -> Once {
        let common = profiles::find("common").map(|common| Profile::new(&profiles::known(common)));
        Once { own: own.iter().map(|text| plain(text.as_bytes()).to_lowercase()).collect(), common }
    }

    /// Whether a target is one of them.
    pub fn has(&self, target: &[u8]) -> bool {
        let text = plain(target).to_lowercase();
        if WORDS.iter().any(|word| text.contains(word)) || self.own.iter().any(|own| text.contains(own.as_str())) {
            return true;
        }
        let (path, query) = match target.iter().position(|byte| *byte == b'?') {
            Some(at) => (&target[..at], &target[at + 1..]),
            None => (target, &b""[..]),
        };
        plain(path).split('/').any(|part| !part.contains('.') && is_secret(part, PART_LETTERS_MIN))
            || query.split(|byte| matches!(byte, b'&' | b';')).any(|pair| self.is_for_once(pair))
    }

    fn is_for_once(&self, pair: &[u8]) -> bool {
        if self.common.as_ref().is_some_and(|common| common.is_ignored(pair)) {
            return false;
        }
        let pair = plain(pair);
        let (name, value) = pair.split_once('=').unwrap_or((&pair, ""));
        let (name, value) = (name.trim().to_lowercase(), value.trim());
        let parts: Vec<&str> = name.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
        let does = parts.iter().any(|part| DOES.contains(part)) && !READS.contains(&&*value.to_lowercase());
        let is_key = !value.is_empty()
            && (parts.iter().any(|part| SECRETS.contains(part)) || SECRET_ENDS.iter().any(|end| name.ends_with(end)));
        does || is_key || (!VERSIONS.contains(&name.as_str()) && is_secret(value, VALUE_LETTERS_MIN))
    }
}

/// Bytes without escapes.
fn plain(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    unescape(text, &mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Whether a text is too long and too mixed to be written by a person: hexadecimal digits, a UUID, or base64.
fn is_secret(text: &str, letters_min: usize) -> bool {
    let compact: String = text.chars().filter(|letter| *letter != '-').collect();
    let has = |is: fn(&char) -> bool| compact.chars().any(|letter| is(&letter));
    let (has_digit, has_small, has_big) =
        (has(char::is_ascii_digit), has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    if compact.len() < letters_min || !has_digit || !(has_small || has_big) {
        return false;
    }
    let is_hex = compact.chars().all(|letter| letter.is_ascii_hexdigit());
    let is_base64 = text.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_+/=.~:".contains(letter));
    // Words that are joined by dashes have digits, too, but seldom capitals among them.
    is_hex || (is_base64 && has_small && has_big) || (is_base64 && !text.contains(['-', '_', '/', '.']))
}

/// What stands, without escapes and in lower case, in the targets of a GET that is known to change something, or that works once.
const WORDS: [&str; 17] = [
    "logout",
    "logoff",
    "log-out",
    "signout",
    "sign-out",
    "unsubscribe",
    "opt-out",
    "optout",
    "confirm",
    "activate",
    "add-to-cart",
    "add_to_cart",
    "remove_item",
    "remove-item",
    "undo_item",
    "wc-ajax",
    "cron.php",
];

/// Words in the name of an argument that has something done.
const DOES: [&str; 8] = ["action", "do", "task", "cmd", "command", "delete", "remove", "doaction"];
/// Values of such arguments that only read.
const READS: [&str; 11] =
    ["view", "show", "raw", "history", "info", "render", "search", "list", "print", "diff", "display"];
/// Words in the name of an argument whose value is a secret.
const SECRETS: [&str; 27] = [
    "key",
    "token",
    "nonce",
    "wpnonce",
    "hash",
    "sig",
    "sign",
    "signature",
    "code",
    "otp",
    "totp",
    "pin",
    "secret",
    "auth",
    "password",
    "passwd",
    "pass",
    "pwd",
    "ticket",
    "invite",
    "invitation",
    "verify",
    "verification",
    "reset",
    "jwt",
    "hmac",
    "session",
];
/// The same behind other letters, as in `orderkey` or `resetToken`.
const SECRET_ENDS: [&str; 8] = ["key", "token", "nonce", "hash", "signature", "secret", "otp", "sessid"];
/// Arguments that say which version of a file is asked for, often by a sum of it.
const VERSIONS: [&str; 5] = ["v", "ver", "version", "rev", "build"];
/// How many letters and digits a secret has: of an argument, of a part of a path.
const VALUE_LETTERS_MIN: usize = 16;
const PART_LETTERS_MIN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_works_once_or_changes_something_is_not_sent() {
        let once = Once::new(&["/Track/".to_owned(), "x%3D1".to_owned()]);
        for target in [
            "/?add%2Dto-cart=7",
            "/track/7",
            "/?X=1",
            "/wp-cron.php",
            "/LogOut",
            "/wp-login.php?action=rp&key=Ab3&login=anna",
            "/checkout/order-received/12/?key=wc_order_Ab3",
            "/shop/?orderkey=7",
            "/?resetToken=7",
            "/newsletter?email=a%40b&sig=7",
            "/?%6Bey=1",
            "/?a[token]=1",
            "/oauth?state=1&code=2",
            "/?edd_action=remove&x",
            "/admin-ajax.php?action=vote",
            "/index.php?task=publish",
            "/?id=3&delete",
            "/?u=0f8fad5bd9cb469fa16570867728950e",
            "/?u=0f8fad5b-d9cb-469f-a165-70867728950e",
            "/?u=dGhpcyBpcyBhIHNlY3JldCE1&v=1",
            "/?u=9KQ3T7Z0P2M8X5WB",
            "/reset/0f8fad5bd9cb469fa16570867728950e",
            "/verify-email/12/1b6453892473a467d07372d45eb05abc2031647a",
            "/i/eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiIxMjM0NTY3ODkwIn0",
        ] {
            assert!(once.has(target.as_bytes()), "{target}");
        }
        for target in [
            "/",
            "/?s=hats",
            "/?keyword=hats&page=2",
            "/shop/?orderby=price&min_price=10",
            "/index.php?title=Main_Page&action=history",
            "/index.php?title=Main_Page&oldid=1234567890123456789",
            "/a-very-long-title-of-a-post-from-2026-11-26/",
            "/?name=a-very-long-title-of-a-post-from-2026-11-26",
            "/build/0f8fad5bd9cb469fa16570867728950e.js",
            "/?gclid=EAIaIQobChMI0f8fad5bd9cb469fa1&utm_source=x&fbclid=IwAR0f8fad5bd9cb469fa1",
            "/?token=",
            "/wp-content/a.css?ver=0f8fad5bd9cb469fa16570867728950e",
        ] {
            assert!(!once.has(target.as_bytes()), "{target}");
        }
    }
}
