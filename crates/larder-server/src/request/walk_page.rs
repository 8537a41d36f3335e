//! What a walk says of what is stored under a key: the pages in memory, and the last answer if that was not stored.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use larder_cache::{BodyState, FetchedBy, FormState, KeyRef, Mark, Object, Peek, Shape, Zone, vary};
use larder_http::{Coding, Known, Time};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::Origin;
use crate::vsl::{Fact, Facts, Shown};

use super::notes::tell as told;
use super::{masked, needs};

/// Tells what is stored under the key.
pub fn tell(index: usize, origin: &Origin, peek: &Peek, ex: &Exchange, cx: &Cx) {
    let (zone, now) = (cx.zone(index), cx.now());
    let key = KeyRef::new(&ex.upstream.cache_key);
    let variants = match peek.variants.len() {
        1 => "1 variant".to_owned(),
        more => format!("{more} variants"),
    };
    let mut state = format!("zone {}, {variants} in memory", zone.name());
    if peek.may_be_on_disk {
        state.push_str(", perhaps more on disk");
    }
    if peek.is_being_fetched {
        state.push_str(", being fetched now");
    }
    if peek.uses > 0 && !peek.variants.is_empty() {
        state.push_str(&format!(", found {} times or more", peek.uses));
    }
    let facts = vec![
        ("zone", Fact::Text(zone.name().to_owned())),
        ("variants_in_memory", Fact::number(peek.variants.len() as u64)),
        ("may_be_on_disk", Fact::Flag(peek.may_be_on_disk)),
        ("is_being_fetched", Fact::Flag(peek.is_being_fetched)),
        ("hits_at_least", Fact::number(peek.uses.into())),
    ];
    told("cache", state, None, facts, ex);
    let request = ex.selecting();
    for object in peek.variants.iter().take(VARIANTS_SHOWN) {
        let is_for_request = object.vary.matches(&request);
        let vary = object.vary.values();
        let vary = vary.map(|(name, value)| (name, masked::of_page(value, is_for_request, ex))).collect();
        let page = Page { object, zone, shelves: zone.shelves_with(&key, object), vary, now };
        told("page", page.text(is_for_request), None, page.facts(is_for_request), ex);
    }
    if let Some(refusal) = zone.refusal(&key) {
        needs::tell(&refusal, origin, ex, cx);
    }
}

/// How many variants are shown.
const VARIANTS_SHOWN: usize = 10;
/// How many tags of a page are shown to people.
const TAGS_SHOWN: usize = 20;

struct Page<'a> {
    object: &'a Arc<Object>,
    zone: &'a Zone,
    /// The folders of the disks that have it.
    shelves: Vec<PathBuf>,
    /// By which fields of the request it varies, and their values as they are told.
    vary: Vec<(&'a str, Cow<'static, [u8]>)>,
    now: Time,
}

/// A form of the body.
struct Shaped {
    name: &'static str,
    bytes: u64,
}

impl Page<'_> {
    fn text(&self, is_for_request: bool) -> String {
        let (object, now) = (self.object, self.now);
        let mut out = match object.mark() {
            Mark::Page => format!("status {}", object.status),
            Mark::HitMiss => "hit-for-miss".to_owned(),
            Mark::HitPass => "hit-for-pass".to_owned(),
        };
        let stored = now.since(object.stored_at).as_secs();
        match object.is_fresh(now) {
            true => {
                let left = object.fresh_until.since(now).as_secs();
                out.push_str(&format!(", stored {stored} s ago, fresh for {left} s"));
            }
            false => {
                let stale = object.staleness(now).as_secs();
                out.push_str(&format!(", stored {stored} s ago, stale for {stale} s"));
            }
        }
        let age = object.age(now);
        if age != stored {
            out.push_str(&format!(", age {age} s"));
        }
        if !object.stale_while_revalidate.is_zero() {
            out.push_str(&format!(", grace {} s", object.stale_while_revalidate.as_secs()));
        }
        if !object.stale_if_error.is_zero() {
            out.push_str(&format!(", stale if the origin fails {} s", object.stale_if_error.as_secs()));
        }
        out.push_str(&format!(", {}", self.place()));
        if let Some(bytes) = self.body_bytes() {
            out.push_str(&format!(", {bytes} bytes as {}", self.own_form()));
        }
        let forms: Vec<String> =
            self.forms().iter().map(|form| format!("{} ({} bytes)", form.name, form.bytes)).collect();
        if !forms.is_empty() {
            out.push_str(&format!(", also as {}", forms.join(", ")));
        }
        out.push_str(&self.fetch());
        if object.hits() > 0 {
            out.push_str(&format!(", {} hits", object.hits()));
        }
        let tags = self.zone.tags_of(object);
        if !tags.is_empty() {
            let shown: Vec<String> = tags.iter().take(TAGS_SHOWN).map(|tag| Shown(tag).to_string()).collect();
            let more = tags.len().saturating_sub(TAGS_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            out.push_str(&format!(", tags {}{more}", shown.join(" ")));
        }
        for (name, value) in &self.vary {
            out.push_str(&format!(", for {}: \"{}\"", vary::shown(name), Shown(value)));
        }
        if object.is_updating() {
            out.push_str(", being fetched anew");
        }
        if !is_for_request {
            out.push_str("; not for this request");
        }
        out
    }

    fn facts(&self, is_for_request: bool) -> Facts {
        let (object, now) = (self.object, self.now);
        let seconds = |time: std::time::Duration| Fact::number(time.as_secs());
        let mark = match object.mark() {
            Mark::Page => "page",
            Mark::HitMiss => "hit-for-miss",
            Mark::HitPass => "hit-for-pass",
        };
        let left = match object.is_fresh(now) {
            true => seconds(object.fresh_until.since(now)),
            false => Fact::Number(-i64::try_from(object.staleness(now).as_secs()).unwrap_or(i64::MAX)),
        };
        let form = |form: Shaped| Fact::Group(vec![("form", text(form.name)), ("bytes", Fact::number(form.bytes))]);
        let own = Shaped { name: self.own_form(), bytes: self.body_bytes().unwrap_or_default() };
        let by = object.fetched();
        let whom = match by.by {
            FetchedBy::Request => text("request"),
            FetchedBy::Background => text("background"),
            FetchedBy::Unknown => Fact::Unknown,
        };
        vec![
            ("mark", text(mark)),
            ("status", Fact::Number(object.status.into())),
            ("age", Fact::number(object.age(now))),
            ("stored_ago", seconds(now.since(object.stored_at))),
            ("lifetime", seconds(object.fresh_until.since(object.stored_at))),
            ("ttl", left),
            ("grace", seconds(object.stale_while_revalidate)),
            ("stale_if_error", seconds(object.stale_if_error)),
            ("tags", Fact::List(self.zone.tags_of(object).iter().map(|tag| bytes(tag)).collect())),
            (
                "varies_on",
                Fact::List(
                    self.vary
                        .iter()
                        .map(|(name, value)| Fact::Group(vec![("field", text(name)), ("value", bytes(value))]))
                        .collect(),
                ),
            ),
            ("forms", Fact::List([own].into_iter().chain(self.forms()).map(form).collect())),
            ("in_memory", Fact::Flag(object.body.whole().is_some())),
            ("on_disk", Fact::List(self.shelves.iter().map(|dir| text(&dir.display().to_string())).collect())),
            ("hits", Fact::number(object.hits().into())),
            ("fetched_from", Fact::text(by.from.as_deref())),
            ("fetched_for", whom),
            ("fetched_by_request", Fact::text(self.request_number())),
            (
                "fetched_in_ms",
                match object.cost_micros {
                    0 => Fact::Unknown,
                    micros => Fact::number(u64::from(micros) / 1000),
                },
            ),
            ("is_confirmed", Fact::Flag(by.is_confirmed)),
            ("is_updating", Fact::Flag(object.is_updating())),
            ("is_for_request", Fact::Flag(is_for_request)),
        ]
    }

    /// On which shelf it is.
    fn place(&self) -> String {
        let disks: Vec<String> = self.shelves.iter().map(|dir| format!("on disk at {}", dir.display())).collect();
        let disks = disks.join(" and ");
        match (self.object.body.whole().is_some(), disks.is_empty()) {
            (true, true) => "in memory".to_owned(),
            (true, false) => format!("in memory and {disks}"),
            (false, false) => format!("its body {disks}"),
            (false, true) => match self.object.body.state() {
                BodyState::Filling { so_far } => format!("its body is filling, {so_far} bytes so far"),
                BodyState::Complete { .. } => "its body on its way to disk".to_owned(),
                BodyState::Failed(_) => "its body has failed".to_owned(),
            },
        }
    }

    fn body_bytes(&self) -> Option<u64> {
        match self.object.body.state() {
            BodyState::Complete { len } => Some(len),
            BodyState::Filling { .. } | BodyState::Failed(_) => None,
        }
    }

    /// How the origin has sent it.
    fn own_form(&self) -> &'static str {
        match self.object.fields.get_known(Known::ContentEncoding) {
            None => "identity",
            Some(name) => Coding::parse(name).map_or("another coding", Coding::name),
        }
    }

    /// The forms that are ready beside it.
    fn forms(&self) -> Vec<Shaped> {
        let coded = Coding::ALL.into_iter().map(|coding| (Shape::Coded(coding), coding.name()));
        let all = [(Shape::Identity, "identity")].into_iter().chain(coded);
        let ready = all.filter_map(|(shape, name)| match self.object.form(shape) {
            FormState::Ready(form) => {
                Some(Shaped { name, bytes: form.body.whole().map_or(0, larder_store::Whole::len) })
            }
            FormState::None | FormState::Making(_) | FormState::Unwanted | FormState::NoRoom => None,
        });
        ready.collect()
    }

    /// Who has fetched it, and how long that took.
    fn fetch(&self) -> String {
        let mut out = String::new();
        let by = self.object.fetched();
        if self.object.cost_micros > 0 {
            out.push_str(&format!(", fetched in {} ms", self.object.cost_micros / 1000));
        } else if by.from.is_some() {
            out.push_str(", fetched");
        }
        if let Some(from) = &by.from {
            out.push_str(&format!(" from {from}"));
        }
        match by.by {
            FetchedBy::Request => out.push_str(" for a request"),
            FetchedBy::Background => out.push_str(" in the background"),
            FetchedBy::Unknown if self.object.is_read() => out.push_str(", read from disk since then"),
            FetchedBy::Unknown => {}
        }
        if let Some(number) = self.request_number() {
            out.push_str(&format!(", fetched by request {number}"));
        }
        if by.is_confirmed {
            out.push_str(", and confirmed since then");
        }
        out
    }

    /// The number of the request that has fetched it, in VCL.
    fn request_number(&self) -> Option<String> {
        self.object.fields.get_known(Known::XVarnish).map(|number| Shown(number).to_string())
    }
}

fn text(text: &str) -> Fact {
    Fact::Text(text.to_owned())
}

fn bytes(bytes: &[u8]) -> Fact {
    Fact::Text(String::from_utf8_lossy(bytes).into_owned())
}
