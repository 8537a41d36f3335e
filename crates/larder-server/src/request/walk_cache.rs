//! What a walk says of the cache: the conditions with what made them so, the page, and the verdict.

use larder_cache::{Asking, Banned, Ended, KeyRef, Mark, Object, Peek, Refusal, Rules, Zone};
use larder_conf::model::Template;
use larder_http::{Known, Time};

use crate::context::Cx;
use crate::exchange::{Cause, Exchange, Slot};
use crate::policy::{self, Ask, Found, OnStale, Turn};
use crate::profile::Standing;
use crate::script::cookie_of;
use crate::site::{CachePolicy, Directives, Origin, Policy, Target, UserVarSource};
use crate::text::{Part, Text, written};
use crate::variable::Var;
use crate::vars::profile;
use crate::vsl::{Fact, Note, Plain, Shown};

use super::notes::{notes, say, tell, verdict};
use super::{Step, gate, masked, reasons, walk_page};

/// Asks the policy, and looks at the cache without a trace.
pub fn look(ex: &mut Exchange, cx: &Cx) -> Step {
    let Some(origin) = cx.origin(ex) else {
        verdict("answered with 500: no origin", ex);
        return Step::Abort;
    };
    ex.upstream.reset();
    let asked = policy::ask(origin, ex, cx);
    let guards = match origin.policy.directives() {
        Some(policy) => Guards::of(policy, reasons::prefix(&origin.backend.protocol), ex, cx),
        None => Guards::default(),
    };
    if !ex.upstream.cache_key.is_empty() && origin.policy.directives().is_some() {
        // As it has to be written: only what is no text is escaped.
        let key = masked::without_secrets(&ex.upstream.cache_key, ex, cx);
        let key = match str::from_utf8(&key) {
            Ok(key) => Plain(key).to_string(),
            Err(_) => Shown(&key).to_string(),
        };
        say("key", key, None, ex);
    }
    guards.tell(ex, cx);
    tell_gate(origin, ex, cx);
    if origin.policy.directives().is_some() {
        tell_profile(ex, cx);
    }
    match asked {
        Ask::Look(zone) if !cx.worker.shared.sharing.is_trusted() => away(zone, origin, &guards, ex, cx),
        Ask::Look(zone) => look_in(zone, origin, &guards, ex, cx),
        Ask::Refresh(zone) => {
            let peek = cx.zone(zone).peek(&KeyRef::new(&ex.upstream.cache_key), cx.now());
            walk_page::tell(zone, origin, &peek, ex, cx);
            let by_profile = || {
                let why = if origin.policy.directives().is_some() { reasons::by_profile(ex, cx) } else { None };
                why.map(|why| format!("{NOT_CACHED}{why}"))
            };
            let sentence = guards.sentence().or_else(by_profile);
            verdict(sentence.unwrap_or_else(|| "not answered from the cache: req.hash_always_miss".to_owned()), ex);
            Step::Abort
        }
        Ask::Pass(why) => {
            ex.upstream.cache_detail = why;
            let reason = reasons::of_answer(ex, cx);
            verdict(format!("not cached: {reason}"), ex);
            Step::Abort
        }
        Ask::Refuse => {
            verdict("answered with 500: there is no such cache", ex);
            Step::Abort
        }
        Ask::Turn(turn) => turned(turn, ex, cx),
    }
}

/// What the profile of the location says.
fn tell_profile(ex: &mut Exchange, cx: &Cx) {
    let told = profile::standing(ex, cx, |profile, standing| {
        let says = match standing {
            Standing::ForAll { .. } => "a page for all".to_owned(),
            Standing::File(row) => format!("a file by {}:{}", row.place.0, row.place.1),
            Standing::Personal(why) => format!("one visitor's by {why}"),
        };
        format!("{}: {says}", profile.name)
    });
    if let Some(told) = told {
        say("profile", told, None, ex);
    }
}

/// Where a VCL leads.
fn turned(turn: Turn, ex: &mut Exchange, cx: &Cx) -> Step {
    match turn {
        Turn::Pass(why) => {
            ex.upstream.cache_detail = why;
            let reason = reasons::of_answer(ex, cx);
            verdict(format!("not cached: {reason}"), ex);
        }
        Turn::Respond(_) => verdict(format!("answered by the VCL itself: {}{}", ex.reply.status, last_place(ex)), ex),
        Turn::Restart => return Step::Restart,
        Turn::Fail => verdict(format!("answered with 500: the VCL failed{}", last_place(ex)), ex),
        Turn::Bad => verdict("answered with 400: the VCL is not asked", ex),
        Turn::Close => verdict("the connection is closed", ex),
        Turn::Absent => verdict("answered with 504: only-if-cached, and there is no page", ex),
    }
    Step::Abort
}

/// Where the last sub has returned that may lead elsewhere.
fn last_place(ex: &Exchange) -> String {
    let last = notes(ex).into_iter().rev().find_map(|note| match note {
        Note::Said { what, text, at } if what.starts_with("vcl_") && !["vcl_hash", "vcl_synth"].contains(&what) => {
            Some((what, text, at))
        }
        _ => None,
    });
    last.map_or_else(String::new, |(what, text, at)| {
        let at = at.map_or_else(String::new, |at| format!(" at {at}"));
        format!(", {what}: {text}{at}")
    })
}

/// The gate of the origin: who is in, who waits, and the class that this request has there.
fn tell_gate(origin: &Origin, ex: &mut Exchange, cx: &Cx) {
    let (Target::Group { group, .. }, Some(_)) = (&origin.backend.target, origin.policy.directives()) else { return };
    let group = &cx.site().origins.groups[*group];
    let Some(gate) = group.gate() else { return };
    let (class, by) = gate::class(&origin.backend, ex, cx);
    let status = gate.status();
    let limit = status.limit.map_or_else(|| "max_conns".to_owned(), |limit| limit.to_string());
    let how = match origin.backend.gating.passes {
        true => "it passes by, by larder_gate off".to_owned(),
        false => format!("class {}, by {by}", class.name()),
    };
    let text = format!(
        "{}: {} of {limit} are in, {} of {} wait; {how}",
        group.name(),
        status.running,
        status.waiting_all(),
        status.queue_max
    );
    let facts = vec![
        ("group", Fact::Text(group.name().to_owned())),
        ("running", Fact::Number(status.running.into())),
        ("waiting", Fact::Number(status.waiting_all().into())),
        ("class", Fact::Text(class.name().to_owned())),
    ];
    tell("gate", text, None, facts, ex);
}

fn look_in(index: usize, origin: &Origin, guards: &Guards, ex: &mut Exchange, cx: &Cx) -> Step {
    let zone = cx.zone(index);
    let now = policy::time_of_lookup(origin, ex, cx);
    let rules = policy::rules(origin, ex, now);
    let peek = zone.peek(&KeyRef::new(&ex.upstream.cache_key), now);
    walk_page::tell(index, origin, &peek, ex, cx);
    let found = {
        let request = ex.selecting();
        peek.variants.iter().find(|object| rules.ignore_vary || object.vary.matches(&request)).cloned()
    };
    let head = &ex.asked.head;
    let asking = Asking { url: head.target(), fields: &head.fields };
    let banned = found.as_ref().and_then(|object| zone.banned(object, &asking));
    let sentence = match found {
        Some(_) if banned == Some(Banned::Gone) => "a miss: the page is banned".to_owned(),
        Some(_) if let Some(Banned::Stale(stale)) = banned => match zone.ended_by(stale) {
            Ended::Purged => "the page is stale: a purge has ended its freshness".to_owned(),
            Ended::Unsure => format!("the page is stale: {UNSURE}"),
        },
        Some(object) if object.is_fresh(now) => match policy::looked_at(origin, &object, ex, cx) {
            Found::Page => hit(&object, cx),
            Found::Miss if object.mark() == Mark::HitMiss => {
                "a miss: hit-for-miss, the last answer was not to be shared".to_owned()
            }
            Found::Miss => "a miss: the page is older than the request allows".to_owned(),
            Found::Ask => "a miss: the request wants the origin to be asked whether the page is still good".to_owned(),
            Found::Turn(turn) => return turned(turn, ex, cx),
        },
        Some(object) => match policy::on_stale(origin, &object, object.is_updating(), ex, cx) {
            OnStale::Turn(turn) => return turned(turn, ex, cx),
            OnStale::Fetch => expired(&object, zone, origin, ex, now),
            OnStale::Wait => "it waits: another request is fetching the page anew".to_owned(),
            OnStale::Deliver => "a stale hit: another request is fetching the page anew".to_owned(),
            OnStale::DeliverAndRefetch => "a stale hit, and the page is fetched anew in the background".to_owned(),
        },
        None => match policy::miss(origin, ex, cx) {
            Some(turn) => return turned(turn, ex, cx),
            None => absent(&peek, zone, &rules, guards, origin, ex, cx),
        },
    };
    verdict(sentence, ex);
    Step::Abort
}

/// What is stored may not be used. It is told all the same.
fn away(index: usize, origin: &Origin, guards: &Guards, ex: &mut Exchange, cx: &Cx) -> Step {
    let peek = cx.zone(index).peek(&KeyRef::new(&ex.upstream.cache_key), cx.now());
    walk_page::tell(index, origin, &peek, ex, cx);
    if let Some(turn) = policy::miss(origin, ex, cx) {
        return turned(turn, ex, cx);
    }
    let why = format!("{}, and larder_cluster_away lets no stored page be used", Cause::Cluster.words());
    let sentence = match guards.why() {
        None => format!("{BYPASSED}{why}{THEN_STORED}"),
        // One that bypasses has had no lookup.
        Some(guard) => format!("{NOT_CACHED}{why}; nor is the answer stored: {guard}"),
    };
    verdict(sentence, ex);
    Step::Abort
}

fn hit(object: &Object, cx: &Cx) -> String {
    let (age, left) = (cx.now().since(object.stored_at).as_secs(), object.fresh_until.since(cx.now()).as_secs());
    format!("a hit: stored {age} s ago, fresh for {left} s more")
}

/// Why a stale page is no hit.
fn expired(object: &Object, zone: &Zone, origin: &Origin, ex: &Exchange, now: Time) -> String {
    let ago = object.staleness(now).as_secs();
    match zone.ended(&KeyRef::new(&ex.upstream.cache_key)) {
        Some(Ended::Purged) => return format!("a miss: it was purged softly, and is stale for {ago} s"),
        Some(Ended::Unsure) => return format!("a miss: it is stale for {ago} s, as {UNSURE}"),
        None => {}
    }
    if object.is_never_fresh()
        && let Policy::Rfc9111(policy) = &origin.policy
    {
        return format!("a miss: it is {}", reasons::of_never_fresh(policy, object));
    }
    format!("a miss: the page expired {ago} s ago")
}

/// Why there is no page for the request, and whether its answer may become one.
fn absent(peek: &Peek, zone: &Zone, rules: &Rules, guards: &Guards, origin: &Origin, ex: &Exchange, cx: &Cx) -> String {
    if let Some(sentence) = guards.sentence() {
        return sentence;
    }
    if origin.policy.directives().is_some_and(|policy| !policy.settings.model.response.buffering) {
        return format!("{NOT_CACHED}buffering is off");
    }
    let key = KeyRef::new(&ex.upstream.cache_key);
    let refusal = zone.refusal(&key);
    let ago = refusal.as_ref().map_or(0, |refusal| cx.now().since(refusal.at).as_secs());
    let why = match peek.variants.first() {
        None if let Some(Refusal { why, is_passing: false, .. }) = &refusal => {
            return format!("{NOT_CACHED}{why}, says the last answer, {ago} s ago");
        }
        Some(other) => format!("it is stored for other values of {}", other.vary.shown()),
        None if peek.may_be_on_disk => return "a hit or a miss: what is on disk is read first".to_owned(),
        None => match peek.uncacheable_until {
            Some(until) => format!(
                "it is not stored, and for {} s requests do not wait for each other",
                until.since(cx.now()).as_secs()
            ),
            None => match zone.ended(&key) {
                Some(Ended::Purged) => "it was purged".to_owned(),
                Some(Ended::Unsure) => format!("it was stale, as {UNSURE}"),
                None => "it is not stored".to_owned(),
            },
        },
    };
    let seldom = u64::from(rules.min_uses).saturating_sub(u64::from(peek.misses) + 1);
    let then = match seldom {
        0 if peek.is_being_fetched && rules.lock => "it waits for another request's fetch".to_owned(),
        0 if origin.policy.is_rfc9111() && ex.asked.head.fields.contains_known(Known::Authorization) => {
            "the answer is stored if it says that others may have it, as by Cache-Control: public".to_owned()
        }
        0 => "the answer is stored if it may be".to_owned(),
        more => format!("the answer is not stored before {more} more requests (cache_min_uses)"),
    };
    let last = match refusal {
        Some(Refusal { why, is_passing: true, .. }) => format!("; the last one was not, {ago} s ago: {why}"),
        Some(_) | None => String::new(),
    };
    format!("a miss: {why}; {then}{last}")
}

/// Why the cluster has made pages stale.
const UNSURE: &str = "purges of the cluster may have been missed (larder_cluster)";
/// How the sentence of a request begins that is not answered from the cache, and whose answer is not stored.
pub const NOT_CACHED: &str = "not cached: ";
/// The same where the answer may be stored.
pub const BYPASSED: &str = "bypassed: ";
/// How that ends.
pub const THEN_STORED: &str = "; the answer is stored if it may be";
/// What stands between the reason and the directives that it is one for.
pub const USED_BY: &str = ", used by ";

/// The conditions of `*_cache_bypass` and `*_no_cache`.
#[derive(Default)]
struct Guards(Vec<Guard>);

/// One of them.
struct Guard {
    directive: String,
    /// `*_no_cache`.
    forbids_storing: bool,
    text: String,
    value: Vec<u8>,
    /// The same without secrets.
    shown: String,
    at: Option<String>,
    /// What has made it so, if that is known.
    made: Option<Made>,
}

/// What has given a variable its value.
struct Made {
    /// In words: `cookie a sets $skip=1`.
    sentence: String,
    at: Option<String>,
}

impl Guards {
    fn of(policy: &Directives, prefix: &str, ex: &mut Exchange, cx: &Cx) -> Self {
        let Some(cache) = &policy.cache else { return Self::default() };
        let CachePolicy { bypass, no_cache, .. } = cache;
        let model = &policy.settings.model.cache;
        let mut guards = Self::default();
        for (name, forbids_storing, texts, templates) in
            [("cache_bypass", false, bypass, &model.bypass), ("no_cache", true, no_cache, &model.no_cache)]
        {
            for (text, template) in texts.iter().zip(templates) {
                let guard = Guard::of(format!("{prefix}_{name}"), text, template, ex, cx);
                guards.0.push(Guard { forbids_storing, ..guard });
            }
        }
        guards
    }

    fn tell(&self, ex: &Exchange, cx: &Cx) {
        for guard in &self.0 {
            let value = masked::in_row(&guard.value, ex, cx);
            let is = if guard.is_true() { "true" } else { "false" };
            let made = guard.made.as_ref().map_or_else(String::new, |made| {
                let at = made.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
                format!(": {}{at}", made.sentence)
            });
            let text = format!("{} {} is \"{value}\", {is}{made}", guard.directive, guard.text);
            let (by, made_at) = match &guard.made {
                Some(made) => (Some(made.sentence.clone()), made.at.clone()),
                None => (None, None),
            };
            let facts = vec![
                ("directive", Fact::Text(guard.directive.clone())),
                ("condition", Fact::Text(guard.text.clone())),
                ("value", masked::as_fact(&guard.value, ex, cx)),
                ("is_true", Fact::Flag(guard.is_true())),
                ("made_by", Fact::text(by)),
                ("made_at", Fact::text(made_at)),
            ];
            tell("condition", text, guard.at.clone(), facts, ex);
        }
    }

    /// Why the request is not answered from the cache, or its answer not stored.
    fn sentence(&self) -> Option<String> {
        let why = self.why()?;
        let is_stored = !self.0.iter().any(|guard| guard.forbids_storing && guard.is_true());
        Some(if is_stored { format!("{BYPASSED}{why}{THEN_STORED}") } else { format!("{NOT_CACHED}{why}") })
    }

    fn why(&self) -> Option<String> {
        let first = self.0.iter().find(|guard| guard.is_true())?;
        let mut users: Vec<String> = Vec::new();
        for guard in self.0.iter().filter(|guard| guard.is_true() && guard.text == first.text) {
            let at = guard.at.as_ref().map_or_else(String::new, |at| format!(" at {at}"));
            users.push(format!("{}{at}", guard.directive));
        }
        let used = users.join(" and ");
        Some(match &first.made {
            Some(Made { sentence, at: Some(at) }) => format!("{sentence} at {at}{USED_BY}{used}"),
            Some(Made { sentence, at: None }) => format!("{sentence}{USED_BY}{used}"),
            None => format!("{} is \"{}\"{USED_BY}{used}", first.text, first.shown),
        })
    }
}

impl Guard {
    fn of(directive: String, text: &Text, template: &Template, ex: &mut Exchange, cx: &Cx) -> Self {
        let value = text.value(ex, cx);
        let made = text.parts().iter().find_map(|part| match part {
            Part::Var(Var::Slot(slot)) => made_by(*slot, ex, cx),
            Part::Var(_) | Part::Literal(_) | Part::Capture(_) => None,
        });
        let shown = masked::in_sentence(&value, ex, cx);
        let forbids_storing = false;
        Self {
            directive,
            forbids_storing,
            text: written(template),
            value,
            shown,
            at: cx.site().place(template.span),
            made,
        }
    }

    /// As [`Text::is_true`].
    fn is_true(&self) -> bool {
        !self.value.is_empty() && self.value != b"0"
    }
}

/// What has given a variable its value: the last `set`, with its condition, or the entry of its `map`.
fn made_by(slot: usize, ex: &mut Exchange, cx: &Cx) -> Option<Made> {
    made_within(slot, 0, ex, cx)
}

/// How many `map` of a `map` are followed.
const MAPS_MAX: usize = 4;

fn made_within(slot: usize, depth: usize, ex: &mut Exchange, cx: &Cx) -> Option<Made> {
    let site = cx.site();
    let variable = &site.variables.slots[slot];
    let mut around = None;
    let mut set = None;
    for note in notes(ex) {
        match note {
            Note::Holds { condition, cookie, .. } => around = Some((masked::condition(&condition, ex), cookie)),
            Note::Left => around = None,
            Note::Set { slot: own, value, at, .. } if own == slot => set = Some((value, at, around.clone())),
            Note::Set { .. } | Note::Location(..) | Note::Said { .. } | Note::Told { .. } | Note::Verdict(_) => {}
        }
    }
    if let Some((value, at, around)) = set {
        let by = match around {
            Some((_, Some(cookie))) => format!("cookie {cookie} sets "),
            Some((condition, None)) => format!("\"if ({condition})\" sets "),
            None => "\"set\" makes ".to_owned(),
        };
        let sentence = format!("{by}${}={}", variable.name, shown_value(&value, ex, cx));
        return Some(Made { sentence, at: site.place(at) });
    }
    let map = match variable.source {
        UserVarSource::Map(index) => &site.variables.maps[index],
        UserVarSource::Geo(index) => {
            let geo = &site.variables.geos[index];
            let address = match &geo.source {
                Some(source) => source.value(ex, cx),
                None => ex.remote_ip().map_or_else(Vec::new, |ip| ip.to_string().into_bytes()),
            };
            let by = format!("\"geo\" makes of {} ", masked::in_sentence(&address, ex, cx));
            let sentence = format!("{by}${}={}", variable.name, shown_value(&value_of(slot, ex), ex, cx));
            return Some(Made { sentence, at: site.place(geo.span) });
        }
        UserVarSource::Set | UserVarSource::Split(_) => return None,
    };
    let subject = map.source.value(ex, cx);
    let matches = |number: usize, text: &[u8]| {
        map.regexes.get(number).is_some_and(|named| named.regex.is_match(text).unwrap_or(false))
    };
    let entry = map.table.find(&subject, matches);
    let span = entry.and_then(|entry| map.spans.get(entry)).copied().unwrap_or(map.span);
    let cookie = entry.and_then(|entry| cookie_of(&subject, ex, |pair| map.table.find(pair, matches) == Some(entry)));
    let value = value_of(slot, ex);
    let inner = map.source.parts().iter().find_map(|part| match part {
        Part::Var(Var::Slot(inner)) if depth < MAPS_MAX => made_within(*inner, depth + 1, ex, cx),
        Part::Var(_) | Part::Literal(_) | Part::Capture(_) => None,
    });
    let by = match (cookie, entry) {
        (Some(cookie), _) => format!("cookie {cookie} makes "),
        (None, Some(_)) if let Some(Made { sentence, at }) = inner => {
            let at = at.map_or_else(String::new, |at| format!(" at {at}"));
            format!("{sentence}{at}, which makes ")
        }
        (None, Some(_)) => format!("\"map\" makes of \"{}\" ", masked::in_sentence(&subject, ex, cx)),
        (None, None) => "\"map\" makes by its default ".to_owned(),
    };
    Some(Made { sentence: format!("{by}${}={}", variable.name, shown_value(&value, ex, cx)), at: site.place(span) })
}

fn value_of(slot: usize, ex: &Exchange) -> Vec<u8> {
    match ex.eval.slot(slot) {
        Slot::Value(..) => ex.eval.values.borrow().bytes(ex.eval.slot(slot)).unwrap_or_default().to_vec(),
        Slot::Unset | Slot::Absent => Vec::new(),
    }
}

fn shown_value(value: &[u8], ex: &Exchange, cx: &Cx) -> String {
    if value.is_empty() { "\"\"".to_owned() } else { masked::in_sentence(value, ex, cx) }
}
