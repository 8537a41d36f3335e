//! What `vcl.list`, `vcl.deps` and `vcl.symtab` show, in varnishd's form.

use serde_json::{Value, json};

use super::cli::protocol;
use super::loaded::{Entry, Times, Vcls};

/// The VCLs and labels of `vcl.list`.
pub fn list(vcls: &Vcls, times: Times, is_running: bool) -> String {
    let widest = |of: fn(&Entry) -> &str| vcls.list().map(|(entry, _)| of(entry).len()).max().unwrap_or(0) + GAP;
    let (state_width, name_width) = (widest(state_of), widest(Entry::name));
    let status_width = vcls.list().map(|(_, is_active)| status(is_active).len()).max().unwrap_or(0) + STATUS_GAP;
    let line = |(entry, is_active): (&Entry, bool)| {
        let (status, warmth) = (status(is_active), warmth(vcls, entry, times));
        let (state, busy) = (state_of(entry), if is_running { '0' } else { '-' });
        let users = vcls.users_of(entry.name()).len();
        let name = entry.name();
        let rest = match entry {
            Entry::Label { vcl, .. } => match users {
                0 => format!("{name:<name_width$}->    {vcl}"),
                1 => format!("{name:<name_width$}->    {vcl} (1 return(vcl))"),
                many => format!("{name:<name_width$}->    {vcl} ({many} return(vcl)'s)"),
            },
            Entry::Vcl(_) => match users {
                0 => name.to_owned(),
                1 => format!("{name:<name_width$}<-    (1 label)"),
                many => format!("{name:<name_width$}<-    ({many} labels)"),
            },
        };
        format!("{status:<status_width$}{state:<state_width$}{warmth:<4}         {busy}    {rest}\n")
    };
    vcls.list().map(line).collect()
}

/// The same as JSON.
pub fn list_json(vcls: &Vcls, times: Times, is_running: bool, words: &[String]) -> String {
    let one = |(entry, is_active): (&Entry, bool)| {
        let mut shown = json!({
            "status": status(is_active),
            "state": state_of(entry),
            "temperature": warmth(vcls, entry, times),
            "name": entry.name(),
        });
        if is_running {
            shown["busy"] = 0.into();
        }
        let users = vcls.users_of(entry.name()).len();
        match entry {
            Entry::Label { vcl, .. } => {
                shown["label"] = json!({ "name": vcl });
                if users > 0 {
                    shown["label"]["refs"] = users.into();
                }
            }
            Entry::Vcl(_) if users > 0 => shown["labels"] = users.into(),
            Entry::Vcl(_) => {}
        }
        shown
    };
    protocol::json(2, words, vcls.list().map(one).collect())
}

/// What each needs: `vcl.deps`.
pub fn deps(vcls: &Vcls) -> String {
    let width = vcls.list().map(|(entry, _)| entry.name().len()).max().unwrap_or(0) + DEPS_GAP;
    let lines = vcls.list().flat_map(|(entry, _)| match entry.needs() {
        [] => vec![format!("{}\n", entry.name())],
        needs => needs.iter().map(|need| format!("{:<width$}{need}\n", entry.name())).collect(),
    });
    lines.collect()
}

/// The same as JSON.
pub fn deps_json(vcls: &Vcls, words: &[String]) -> String {
    let one = |(entry, _): (&Entry, bool)| -> Value { json!({ "name": entry.name(), "deps": entry.needs() }) };
    protocol::json(1, words, vcls.list().map(one).collect())
}

/// What each imports, and what imports it: `vcl.symtab`. Modules have no files here.
pub fn symtab(vcls: &Vcls) -> String {
    vcls.list().map(|(entry, _)| symbols(vcls, entry)).collect()
}

fn symbols(vcls: &Vcls, entry: &Entry) -> String {
    let kind = match entry {
        Entry::Vcl(_) => "Vcl",
        Entry::Label { .. } => "Label",
    };
    let mut lines = format!("{kind}: {}\n", entry.name());
    // Only what a VCL names is in its symbols; a label just stands for one.
    let linked = |heading: &str, others: Vec<&str>, label_of: &dyn Fn(&str) -> Option<String>| {
        let one = |other: &str| {
            let import = label_of(other).map(|label| import("$VCL", &label, 6)).unwrap_or_default();
            format!("    {other}\n{import}")
        };
        let all: String = others.into_iter().map(one).collect();
        if all.is_empty() { all } else { format!("  {heading}:\n{all}") }
    };
    let needs = entry.needs().iter().map(String::as_str).collect();
    lines += &linked("imports from", needs, &|need| match entry {
        Entry::Vcl(_) => Some(need.to_owned()),
        Entry::Label { .. } => None,
    });
    lines += &linked("exports to", vcls.users_of(entry.name()), &|user| match vcls.entry(user) {
        Some(Entry::Vcl(_)) => Some(entry.name().to_owned()),
        Some(Entry::Label { .. }) | None => None,
    });
    if let Entry::Vcl(vcl) = entry {
        lines += "  symtab:\n    {array}\n      {object}\n        [\"version\"]: {number} <0>\n";
        lines.extend(vcl.modules.iter().map(|module| import("$VMOD", module, 6)));
        lines.extend(vcl.labels.iter().map(|label| import("$VCL", label, 6)));
    }
    lines
}

/// A symbol of something that is imported, behind so many spaces.
fn import(kind: &str, name: &str, indent: usize) -> String {
    let field = |key: &str, value: &str| format!("{:indent$}  [\"{key}\"]: {{string}} <{value}>\n", "");
    format!("{:indent$}{{object}}\n{}{}{}", "", field("dir", "import"), field("type", kind), field("name", name))
}

fn status(is_active: bool) -> &'static str {
    if is_active { "active" } else { "available" }
}

fn state_of(entry: &Entry) -> &str {
    match entry {
        Entry::Vcl(vcl) => vcl.care.wanted.word(),
        Entry::Label { .. } => "label",
    }
}

fn warmth(vcls: &Vcls, entry: &Entry, times: Times) -> &'static str {
    let is_warm = match entry {
        Entry::Label { .. } => true,
        Entry::Vcl(vcl) => vcls.is_warm(vcl, times),
    };
    if is_warm { "warm" } else { "cold" }
}

/// The spaces behind the first column of `vcl.list`, behind the others, and between those of `vcl.deps`.
const STATUS_GAP: usize = 3;
const GAP: usize = 4;
const DEPS_GAP: usize = 3;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::super::care::Wanted;
    use super::super::loaded::vcls;
    use super::*;

    fn some() -> Vcls {
        let mut vcls = vcls(&[("boot", &[]), ("v1", &[]), ("v2", &["l1"])]);
        for label in ["l1", "l2"] {
            vcls.label(label, "v1").unwrap();
        }
        vcls.care_for("v2", Wanted::Cold, Instant::now());
        vcls.activate("boot", Instant::now());
        vcls
    }

    fn times() -> Times {
        Times { cooldown: Duration::from_secs(600), now: Instant::now() }
    }

    #[test]
    fn lists_have_the_form_of_varnishd() {
        assert_eq!(
            list(&some(), times(), true),
            "active      auto     warm         0    boot\n\
             available   auto     warm         0    v1      <-    (2 labels)\n\
             available   cold     cold         0    v2\n\
             available   label    warm         0    l1      ->    v1 (1 return(vcl))\n\
             available   label    warm         0    l2      ->    v1\n"
        );
        assert_eq!(list(&vcls(&[("a", &[])]), times(), false), "available   auto    warm         -    a\n");
        assert_eq!(deps(&some()), "boot\nv1\nv2     l1\nl1     v1\nl2     v1\n");
    }

    #[test]
    fn symbols_are_what_a_vcl_imports_and_from_whom() {
        let mut vcls = vcls(&[("one", &[]), ("two", &["l1"])]);
        vcls.label("l1", "one").unwrap();
        let import = |kind: &str, name: &str| {
            format!(
                "      {{object}}\n        [\"dir\"]: {{string}} <import>\n        [\"type\"]: {{string}} <{kind}>\n        \
                 [\"name\"]: {{string}} <{name}>\n"
            )
        };
        let own = "  symtab:\n    {array}\n      {object}\n        [\"version\"]: {number} <0>\n".to_owned()
            + &import("$VMOD", "std");
        let label = import("$VCL", "l1");
        assert_eq!(
            symtab(&vcls),
            format!(
                "Vcl: one\n  exports to:\n    l1\n{own}\
                 Vcl: two\n  imports from:\n    l1\n{label}{own}{label}\
                 Label: l1\n  imports from:\n    one\n  exports to:\n    two\n{label}"
            )
        );
    }

    #[test]
    fn json_says_what_a_label_stands_for_and_who_names_it() {
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap();
        let list = read(list_json(&some(), times(), true, &["vcl.list".to_owned(), "-j".to_owned()]));
        assert_eq!(
            (&list[0], &list[4]["labels"], &list[6]["label"]),
            (&json!(2), &json!(2), &json!({ "name": "v1", "refs": 1 }))
        );
        let deps = read(deps_json(&some(), &["vcl.deps".to_owned(), "-j".to_owned()]));
        assert_eq!((&deps[0], &deps[5]), (&json!(1), &json!({ "name": "v2", "deps": ["l1"] })));
    }
}
