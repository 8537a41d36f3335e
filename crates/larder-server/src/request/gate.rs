//! What a request asks of the gate of a group of origins: its class, and whether it passes by.

use std::sync::{Arc, LazyLock};

use larder_conf::model::Part;
use larder_conf::profiles;
use larder_http::Method;
use larder_origin::Group;
use larder_origin::gate::{Asks, Class, Gate, Hurry};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::profile::{self, Profile};
use crate::site::{Backend, Target};
use crate::vars::profile as by_profile;

/// What the request of `ex` asks; nothing is looked at where there is no gate.
pub fn asks(backend: &Backend, group: &Group, ex: &mut Exchange, cx: &Cx) -> Asks {
    if group.gate().is_none() {
        return Asks::default();
    }
    let (class, _) = class(backend, ex, cx);
    let is_awaited = !ex.request.nested.purpose.is_background();
    let passes = backend.gating.passes || is_awaited && ex.request.nested.holds_slot;
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
    if ex.request.nested.purpose.is_background() {
        return (Class::BACKGROUND, "no client waits for it");
    }
    let said = backend.gating.class.as_ref().and_then(|text| text.with(ex, cx, |_, value| Class::parse(value)));
    match said {
        Some(class) => (class, "larder_gate_class"),
        None => usual(ex, cx),
    }
}

/// The class of a request of which the configuration says nothing: who changes something or has a session comes first, a
/// program last. The profile of the location is asked first.
fn usual(ex: &mut Exchange, cx: &Cx) -> (Class, &'static str) {
    static COMMON: LazyLock<Profile> = LazyLock::new(|| {
        let common = profiles::find("common").expect("it is one of ours");
        Profile::new(&profiles::known(common))
    });
    if !matches!(ex.request.method, Method::Get | Method::Head | Method::Options | Method::Trace) {
        return (Class::HIGH, "its method");
    }
    let own = cx.loc(ex).profile.as_deref();
    let said = own.into_iter().chain([&*COMMON]).find_map(|profile| {
        let (class, part) = by_profile::class_by(profile, ex);
        Some((class, part?))
    });
    let Some((class, part)) = said else { return (Class::NORMAL, "no rule") };
    let class = match class {
        profile::Class::High => Class::HIGH,
        profile::Class::Normal => Class::NORMAL,
        profile::Class::Low => Class::LOW,
    };
    let by = match part {
        Part::Cookie => "a cookie of a session",
        Part::Path => "its path",
        Part::Argument => "an argument",
        Part::Field => "a field",
        Part::Agent => "its User-Agent",
    };
    (class, by)
}
