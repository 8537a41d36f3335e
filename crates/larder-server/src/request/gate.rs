//! What a request asks of the gate of a group of origins: its class, and whether it passes by.

use std::sync::Arc;

use larder_http::{Known, Method};
use larder_origin::Group;
use larder_origin::gate::{Asks, Class, Gate, Hurry};

use crate::context::Cx;
use crate::exchange::{Exchange, Purpose};
use crate::site::{Backend, Target};

/// What the request of `ex` asks; nothing is looked at where there is no gate.
pub fn asks(backend: &Backend, group: &Group, ex: &mut Exchange, cx: &Cx) -> Asks {
    if group.gate().is_none() {
        return Asks::default();
    }
    let (class, _) = class(backend, ex, cx);
    let passes = backend.gating.passes || ex.request.nested.holds_slot;
    Asks { class, passes, is_refused: ex.request.way.is_refused, own: None }
}

/// Whether a request that nobody waits for may come to the group that is asked.
pub fn is_idle(backend: &Backend, cx: &Cx) -> bool {
    gate_of(backend, cx).is_none_or(|gate| gate.status().is_idle())
}

/// Whether others wait at the gate of the group that is asked.
pub fn has_line(backend: &Backend, cx: &Cx) -> bool {
    gate_of(backend, cx).is_some_and(|gate| gate.status().waiting_all() > 0)
}

fn gate_of<'a>(backend: &Backend, cx: &'a Cx) -> Option<&'a Arc<Gate>> {
    let Target::Group { group, .. } = backend.target else { return None };
    cx.site().origins.groups.get(group)?.gate()
}

/// How good a request is that comes to wait for another's fetch; `None` where there is no gate for that to wait at.
pub fn rank(backend: &Backend, ex: &mut Exchange, cx: &Cx) -> Option<u8> {
    gate_of(backend, cx)?;
    Some(match ex.request.nested.holds_slot || backend.gating.passes {
        true => AT_ONCE,
        false => 1 + class(backend, ex, cx).0.rank(),
    })
}

/// Brings a fetch forward that waits at a gate, as those are good who wait for it.
pub fn leader(hurry: Hurry) -> larder_cache::Hurry {
    Arc::new(move |rank| match rank.checked_sub(1).and_then(Class::of_rank) {
        Some(class) => hurry.as_one_of(class),
        None => hurry.at_once(),
    })
}

/// The rank of who waits at no gate; those of classes are behind it.
const AT_ONCE: u8 = 0;

/// The class of a request, and by what.
pub fn class(backend: &Backend, ex: &mut Exchange, cx: &Cx) -> (Class, &'static str) {
    match ex.request.nested.purpose {
        Purpose::Refetch | Purpose::Refill(_) | Purpose::Read => {
            return (Class::BACKGROUND, "no client waits for it");
        }
        Purpose::Answer | Purpose::Slice | Purpose::Walk | Purpose::Purge | Purpose::MayPurge => {}
    }
    let said = backend.gating.class.as_ref().and_then(|text| text.with(ex, cx, |_, value| Class::parse(value)));
    match said {
        Some(class) => (class, "larder_gate_class"),
        None => {
            let fields = &ex.asked.head.fields;
            let agent = fields.get_known(Known::UserAgent).unwrap_or_default();
            usual(ex.request.method, fields.all_known(Known::Cookie), agent)
        }
    }
}

/// The class of a request of which the configuration says nothing: who has a session or changes something comes first,
/// a crawler last.
fn usual<'a>(method: Method, mut cookies: impl Iterator<Item = &'a [u8]>, agent: &[u8]) -> (Class, &'static str) {
    if !matches!(method, Method::Get | Method::Head | Method::Options | Method::Trace) {
        return (Class::HIGH, "its method");
    }
    if cookies.any(has_session) {
        return (Class::HIGH, "a cookie of a session");
    }
    if CRAWLERS.iter().any(|word| contains(agent, word)) {
        return (Class::LOW, "its User-Agent");
    }
    (Class::NORMAL, "no rule")
}

/// Whether a cookie begins with the name of a session.
fn has_session(value: &[u8]) -> bool {
    value.split(|byte| *byte == b';').any(|cookie| {
        let name = cookie.trim_ascii_start();
        SESSIONS.iter().any(|known| name.get(..known.len()).is_some_and(|start| start.eq_ignore_ascii_case(known)))
    })
}

fn contains(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word))
}

/// How the names of cookies begin that applications give with a session, a login or a cart.
const SESSIONS: [&[u8]; 21] = [
    b"PHPSESSID=",
    b"wordpress_logged_in_",
    b"wordpress_sec_",
    b"wp_woocommerce_session_",
    b"woocommerce_items_in_cart=",
    b"edd_items_in_cart=",
    b"SESS",
    b"SSESS",
    b"fe_typo_user=",
    b"be_typo_user=",
    b"joomla_user_state=",
    b"PrestaShop-",
    b"X-Magento-Vary=",
    b"mage-cache-sessid=",
    b"session-=",
    b"sw-states=",
    b"laravel_session=",
    b"MoodleSession",
    b"JSESSIONID=",
    b"sessionid=",
    b"connect.sid=",
];

/// What stands in the `User-Agent` of crawlers: most say where they are explained.
const CRAWLERS: [&[u8]; 7] =
    [b"+http", b"bot/", b"spider", b"crawler", b"slurp", b"facebookexternalhit", b"meta-externalagent"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_would_lose_work_comes_first_and_a_crawler_last() {
        const CHROME: &str = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/120.0.0.0 Safari/537.36";
        const GOOGLE: &str = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)";
        for (method, cookie, agent, expected) in [
            (Method::Get, "", CHROME, Class::NORMAL),
            (Method::Get, "", "", Class::NORMAL),
            (Method::Get, "_ga=GA1.2; _hjSessionUser_1=x; lang=de", CHROME, Class::NORMAL),
            (Method::Get, "a=PHPSESSID=1", CHROME, Class::NORMAL),
            (Method::Get, "a=1; wordpress_logged_in_0123=me", CHROME, Class::HIGH),
            (Method::Get, "phpsessid=1", CHROME, Class::HIGH),
            (Method::Post, "", CHROME, Class::HIGH),
            (Method::Head, "", CHROME, Class::NORMAL),
            (Method::Get, "", GOOGLE, Class::LOW),
            (Method::Get, "", "Mozilla/5.0 (compatible; YandexBot/3.0)", Class::LOW),
            (Method::Get, "", "facebookexternalhit/1.1", Class::LOW),
            (Method::Get, "", "Mozilla/5.0 (Linux; Android 9; CUBOT X19) Chrome/96.0", Class::NORMAL),
            (Method::Get, "JSESSIONID=1", GOOGLE, Class::HIGH),
        ] {
            let (class, _) = usual(method, [cookie.as_bytes()].into_iter(), agent.as_bytes());
            assert_eq!(class, expected, "{method:?} {cookie} {agent}");
        }
    }
}
