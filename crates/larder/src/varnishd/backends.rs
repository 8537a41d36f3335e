//! What operators ask about backends, and say about their health: `backend.list` and `backend.set_health`.

use std::sync::Arc;

use larder_server::directors::{Admin, Event, Listed, Window};
use larder_server::{Vcl, clock};
use larder_vcl::functions::wildcard::{self, Rules};
use serde_json::{Map, Value, json};

use super::cli::protocol::{self, Answer, Status};
use super::state::State;

/// The backends and directors of the active VCL and of those to which it gives requests, as `backend.list [-j] [-p] [PATTERN]` shows them.
pub fn list(state: &State, words: &[String]) -> Answer {
    let mut shape = Shape::default();
    let mut rest = words.get(1..).unwrap_or_default();
    while let [flags, behind @ ..] = rest
        && let Some(letters) = flags.strip_prefix('-')
    {
        for letter in letters.chars() {
            match letter {
                'j' => shape.is_json = true,
                'p' => shape.has_probes = true,
                _ => return Answer::new(Status::Parameter, format!("Invalid flag {letter}\n")),
            }
        }
        rest = behind;
    }
    let pattern = match rest {
        [] => "",
        [pattern] => pattern,
        _ => return Answer::new(Status::Parameter, "Too many arguments\n"),
    };
    let vcls = state.site.vcls();
    let Some((active, _)) = vcls.first() else { return not_running() };
    let of = |(name, vcl): &(&str, Arc<Vcl>)| {
        let found = vcl.objects.directors.list().into_iter();
        found.map(|listed| (format!("{name}.{}", listed.name), listed)).collect::<Vec<_>>()
    };
    let all = vcls.iter().flat_map(of);
    let listed: Vec<(String, Listed)> = all.filter(|(full, _)| is_meant(pattern, active, full)).collect();
    Answer::ok(match shape.is_json {
        true => as_json(&listed, words, shape.has_probes),
        false => as_table(&listed, shape.has_probes),
    })
}

/// `backend.set_health PATTERN auto|healthy|sick`
pub fn set_health(state: &State, pattern: &str, admin: &str) -> Answer {
    let Ok(admin) = admin.parse::<Admin>() else {
        return Answer::new(Status::Parameter, format!("Invalid state {admin}\n"));
    };
    let vcls = state.site.vcls();
    let Some((active, _)) = vcls.first() else { return not_running() };
    let now = clock::now().secs_f64();
    let mut meant = 0;
    for (name, vcl) in &vcls {
        let directors = &vcl.objects.directors;
        for listed in directors.list() {
            let is_meant = is_meant(pattern, active, &format!("{name}.{}", listed.name));
            meant += usize::from(is_meant && directors.set_health(&listed.name, admin, now));
        }
    }
    match meant {
        0 => Answer::new(Status::Parameter, "No Backends matches\n"),
        _ => Answer::ok(""),
    }
}

/// How a list is shown.
#[derive(Default)]
struct Shape {
    is_json: bool,
    has_probes: bool,
}

fn not_running() -> Answer {
    Answer::new(Status::Cannot, "Child in state stopped; backends are there after \"start\"\n")
}

/// Whether a pattern means a backend. One without a dot is about the active VCL.
fn is_meant(pattern: &str, vcl: &str, full: &str) -> bool {
    let rules = Rules { pathname: false, noescape: false, period: false };
    let pattern = match pattern {
        "" | "*" => format!("{vcl}.*"),
        short if !short.contains('.') => format!("{vcl}.{short}"),
        full => full.to_owned(),
    };
    wildcard::matches(pattern.as_bytes(), full.as_bytes(), rules)
}

fn admin_word(admin: Admin) -> &'static str {
    match admin {
        Admin::Auto => "probe",
        Admin::Sick => "sick",
        Admin::Healthy => "healthy",
    }
}

fn health_word(is_healthy: bool) -> &'static str {
    if is_healthy { "healthy" } else { "sick" }
}

/// Whether a probe, or the members, find it healthy, whatever an operator says.
fn is_found_healthy(listed: &Listed) -> bool {
    match &listed.window {
        Some(window) => window.is_healthy(),
        None => listed.members.is_empty() || listed.good > 0,
    }
}

fn as_table(all: &[(String, Listed)], has_probes: bool) -> String {
    let head = ["Backend name", "Admin", "Probe", "Health", "Last change"].map(str::to_owned);
    let row = |(name, listed): &(String, Listed)| {
        [
            name.clone(),
            admin_word(listed.admin).to_owned(),
            format!("{}/{}", listed.good, listed.of),
            health_word(is_found_healthy(listed)).to_owned(),
            listed.changed_date(),
        ]
    };
    let rows: Vec<[String; 5]> = std::iter::once(head).chain(all.iter().map(row)).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
        if let Some((_, listed)) = number.checked_sub(1).and_then(|at| all.get(at)).filter(|_| has_probes) {
            text.push_str(&details(listed));
        }
    }
    text
}

/// What a probe has found, or the members of a director, in lines of their own.
fn details(listed: &Listed) -> String {
    if let Some(window) = &listed.window {
        return history(window);
    }
    if listed.members.is_empty() {
        return String::new();
    }
    let members = listed.members.iter();
    let lines = members.map(|member| format!("\t{:<24} {}\n", member.name, health_word(member.is_healthy)));
    format!("\n\t{:<24} Health\n{}\n", "Backend", lines.collect::<String>())
}

fn history(window: &Window) -> String {
    let mut text = format!(
        "\n Current states  good: {:2} threshold: {:2} window: {:2}\n  Average response time of good probes: {:.6}\n  \
         Oldest ================================================== Newest\n",
        window.good,
        window.threshold,
        window.size,
        window.average.as_secs_f64(),
    );
    for (event, bits) in Event::ALL.into_iter().zip(window.history) {
        let (letter, name) = event.shown();
        if bits != 0 || event == Event::Happy {
            let marks = (0..64).rev().map(|at| if bits >> at & 1 == 1 { letter } else { '-' });
            text.push_str(&format!("  {} {name}\n", marks.collect::<String>()));
        }
    }
    text + "\n"
}

fn as_json(all: &[(String, Listed)], words: &[String], has_probes: bool) -> String {
    let one = |(name, listed): &(String, Listed)| {
        let mut shown = json!({
            "type": listed.kind,
            "admin_health": admin_word(listed.admin),
            "probe_message": [listed.good, listed.of, health_word(is_found_healthy(listed))],
            "last_change": (listed.changed * 1000.0).round() / 1000.0,
        });
        if has_probes {
            shown["probe_details"] = json_details(listed);
        }
        (name.clone(), shown)
    };
    let backends: Map<String, Value> = all.iter().map(one).collect();
    protocol::json(3, words, vec![backends.into()])
}

fn json_details(listed: &Listed) -> Value {
    let Some(window) = &listed.window else {
        let member = |member: &larder_server::directors::ListedMember| {
            (member.name.clone(), json!({ "health": health_word(member.is_healthy) }))
        };
        let members: Map<String, Value> = listed.members.iter().map(member).collect();
        return if members.is_empty() { json!({}) } else { json!({ "backends": members }) };
    };
    let mut shown = json!({ "good": window.good, "threshold": window.threshold, "window": window.size });
    for (event, bits) in Event::ALL.into_iter().zip(window.history) {
        shown[format!("bits_{}", event.shown().0)] = bits.into();
    }
    shown
}

#[cfg(test)]
mod tests {
    use larder_server::directors::ListedMember;

    use super::*;

    fn director(good: usize) -> Listed {
        let member = |number: usize| ListedMember { name: format!("s{number}"), is_healthy: number < good };
        Listed {
            name: "d".to_owned(),
            kind: "random",
            admin: Admin::Auto,
            is_judged: true,
            good,
            of: 2,
            is_healthy: good > 0,
            changed: 1.0,
            window: None,
            members: (0..2).map(member).collect(),
        }
    }

    #[test]
    fn a_pattern_without_a_dot_is_about_the_active_vcl() {
        for (pattern, full, expected) in [
            ("", "v.a", true),
            ("*", "v.a", true),
            ("a", "v.a", true),
            ("a", "v.ab", false),
            ("a*", "v.ab", true),
            ("?", "v.a", true),
            ("w.a", "v.a", false),
            ("*.a", "v.a", true),
            ("v.[ab]", "v.b", true),
        ] {
            assert_eq!(is_meant(pattern, "v", full), expected, "{pattern} {full}");
        }
    }

    #[test]
    fn columns_are_as_wide_as_their_longest_word() {
        let all = [("v.d".to_owned(), director(1))];
        assert_eq!(
            as_table(&all, false),
            "Backend name   Admin   Probe   Health    Last change\n\
             v.d            probe   1/2     healthy   Thu, 01 Jan 1970 00:00:01 GMT\n"
        );
        assert!(as_table(&all, true).ends_with(
            "GMT\n\n\tBackend                  Health\n\ts0                       healthy\n\
             \ts1                       sick\n\n"
        ));
    }

    #[test]
    fn json_has_the_shape_of_varnish() {
        let all = [("v.d".to_owned(), director(0))];
        let words = ["backend.list", "-j"].map(str::to_owned);
        let text = as_json(&all, &words, false);
        let Ok(Value::Array(parts)) = serde_json::from_str(&text) else { panic!("{text}") };
        assert_eq!((&parts[0], &parts[1]), (&json!(3), &json!(["backend.list", "-j"])));
        let expected =
            json!({ "type": "random", "admin_health": "probe", "probe_message": [0, 2, "sick"], "last_change": 1.0 });
        assert_eq!(parts[3]["v.d"], expected);
    }
}
