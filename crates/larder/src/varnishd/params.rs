//! `param.show`: what parameters are set to, in varnishd's form.

use larder_vcl::parameters::table::{FORMER, Kind, Row, TABLE};
use larder_vcl::parameters::{VCL_PATH, check_name};
use serde_json::{Map, Value, json};

use super::cli::protocol::{self, Answer, Status};
use super::param_texts;
use super::settings::{Settings, has_effect};

/// `param.show [-j|-l] [changed|NAME]`. The parameters of `read_only` are shown as protected.
pub fn show(settings: &Settings, read_only: &[String], words: &[String]) -> Answer {
    let (mut is_json, mut is_long, mut only_changed, mut wanted) = (false, false, false, None);
    for word in words.iter().skip(1) {
        match word.as_str() {
            "-j" => is_json = true,
            "-l" if is_json => return Answer::new(Status::Parameter, "-l not permitted with param.show -j"),
            "-l" => is_long = true,
            "changed" => only_changed = true,
            _ if wanted.is_some() => return Answer::new(Status::TooMany, "Too many parameters"),
            name => {
                (wanted, is_long) = (Some(name), true);
            }
        }
    }
    if let Some(Err(why)) = wanted.map(check_name) {
        return Answer::new(Status::Parameter, format!("{why}\n"));
    }
    let shown = TABLE.iter().map(|row| Shown::of(row, settings, read_only));
    let is_meant = |shown: &Shown<'_>| match wanted {
        Some(wanted) => wanted == shown.row.name,
        // Who has set a name of an older version finds it.
        None => !FORMER.contains(&shown.row.name) || settings.get(shown.row.name).is_some(),
    };
    let shown = shown.filter(|shown| is_meant(shown) && (!only_changed || !shown.is_default));
    Answer::ok(match (is_json, is_long) {
        (true, _) => protocol::json(2, words, shown.map(|shown| shown.as_json()).collect()),
        (false, true) => shown.map(|shown| shown.in_full()).collect(),
        (false, false) => shown.map(|shown| shown.in_a_line()).collect(),
    })
}

/// A parameter and what it is set to.
struct Shown<'a> {
    row: &'a Row,
    /// Empty if it is not known: a default that larder has no use for.
    value: String,
    is_default: bool,
    is_protected: bool,
}

impl<'a> Shown<'a> {
    fn of(row: &'a Row, settings: &Settings, read_only: &[String]) -> Shown<'a> {
        let default = default(row);
        let value = match settings.get(row.name) {
            Some(set) => row.shown(set).unwrap_or_else(|_| set.to_owned()),
            None => default.to_owned(),
        };
        let is_protected = read_only.iter().any(|name| name == row.name);
        Shown { row, is_default: value == default, value, is_protected }
    }

    fn in_a_line(&self) -> String {
        let width = TABLE.iter().map(|row| row.name.len()).max().unwrap_or(0) + 1;
        format!("{:<width$}{}\n", self.row.name, self.told().unwrap_or_else(|| "-".to_owned()))
    }

    fn in_full(&self) -> String {
        let row = self.row;
        let mut text = match self.told() {
            Some(told) => format!("{}\n        Value is: {told}\n", row.name),
            None => format!("{}\n        Not available\n", row.name),
        };
        for (is_said, what, said) in [
            (!self.is_default && !default(row).is_empty(), "Default", default(row)),
            (!row.least.is_empty(), "Minimum", row.least),
            (!row.most.is_empty(), "Maximum", row.most),
        ] {
            if is_said {
                text.push_str(&format!("        {what} is: {said}\n"));
            }
        }
        let notes = [
            Some(param_texts::text(row.name)),
            (!means_something(row)).then_some("NB: It is taken, and changes nothing in larder."),
            is_sticky(row).then_some("NB: It holds for pages that are fetched from now on."),
            self.is_protected.then_some("NB: The CLI may not set it (-r)."),
        ];
        for note in notes.into_iter().flatten() {
            text.push('\n');
            text.push_str(&wrapped(note));
        }
        text + "\n\n"
    }

    /// The value with its unit, and whether it is the default, if it is known.
    fn told(&self) -> Option<String> {
        if self.value.is_empty() {
            return None;
        }
        let unit = if self.row.unit.is_empty() { String::new() } else { format!(" [{}]", self.row.unit) };
        let mark = if self.is_default { " (default)" } else { "" };
        Some(format!("{}{unit}{mark}", self.value))
    }

    fn as_json(&self) -> Value {
        let row = self.row;
        let mut shown = Map::new();
        shown.insert("name".to_owned(), row.name.into());
        shown.insert("implemented".to_owned(), means_something(row).into());
        if !self.value.is_empty() {
            shown.insert("value".to_owned(), self.json_value());
        }
        let texts = [("units", row.unit), ("default", default(row)), ("minimum", row.least), ("maximum", row.most)];
        for (key, said) in texts.into_iter().filter(|(_, said)| !said.is_empty()) {
            shown.insert(key.to_owned(), said.into());
        }
        shown.insert("description".to_owned(), param_texts::text(row.name).into());
        let flags = [(is_sticky(row), "obj_sticky"), (self.is_protected, "protected")];
        let flags: Vec<&str> = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, flag)| flag).collect();
        shown.insert("flags".to_owned(), flags.into());
        shown.into()
    }

    fn json_value(&self) -> Value {
        match self.row.kind {
            Kind::Switch => json!(self.value == "on"),
            Kind::Count | Kind::Bytes => {
                self.row.number(&self.value).map_or(Value::Null, |number| json!(number as i64))
            }
            Kind::Real | Kind::Seconds => self.row.number(&self.value).map_or(Value::Null, Value::from),
            Kind::Text => {
                match self.value.split(',').map(str::parse::<f64>).collect::<Result<Vec<_>, _>>().as_deref() {
                    Ok([least, most, age]) => {
                        json!({ "min_pool": *least as i64, "max_pool": *most as i64, "max_age": *age as i64 })
                    }
                    _ => json!(self.value),
                }
            }
        }
    }
}

/// The default, as it is shown.
fn default(row: &Row) -> &'static str {
    if row.name == "vcl_path" { VCL_PATH } else { row.default }
}

/// Whether it holds for pages from when they are fetched.
fn is_sticky(row: &Row) -> bool {
    ["default_grace", "default_keep", "default_ttl", "uncacheable_ttl"].contains(&row.name)
}

/// Whether larder heeds it.
fn means_something(row: &Row) -> bool {
    has_effect(row.name, if row.default.is_empty() { "1" } else { row.default })
}

/// A text in lines of the width that varnishd gives them.
fn wrapped(text: &str) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= LINE_MAX => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(format!("        {word}")),
        }
    }
    lines.join("\n") + "\n"
}

/// How long a line of a text may be.
const LINE_MAX: usize = 72;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(settings: &Settings, words: &str) -> Answer {
        let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
        show(settings, &["max_retries".to_owned()], &words)
    }

    fn settings(set: &[(&str, &str)]) -> Settings {
        let mut settings = Settings::default();
        for (name, value) in set {
            settings.set(name, value).unwrap();
        }
        settings
    }

    #[test]
    fn lists_have_a_line_or_a_text_for_each() {
        let settings = settings(&[("default_ttl", "10"), ("default_grace", "10"), ("feature", "+http2")]);
        let lines = |words: &str| said(&settings, words).text.lines().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines("param.show").len(), TABLE.len() - FORMER.len());
        assert_eq!(
            lines("param.show changed"),
            [
                "default_ttl                   10.000 [seconds]",
                "feature                       none,+http2,+validate_headers,+vcl_req_reset"
            ]
        );
        assert!(lines("param.show").contains(&"cc_command                    -".to_owned()));
        let values = lines("param.show -l").iter().filter(|line| line.contains("Value is: ")).count();
        let unknown = lines("param.show -l").iter().filter(|line| line.contains("Not available")).count();
        assert_eq!(values + unknown, TABLE.len() - FORMER.len());
    }

    #[test]
    fn a_parameter_is_told_in_full() {
        let settings = settings(&[("default_ttl", "10"), ("cli_buffer", "16k")]);
        for (name, expected) in [
            (
                "default_ttl",
                "default_ttl\n        Value is: 10.000 [seconds]\n        Default is: 120.000\n        Minimum is: 0.000\n\n        \
                 The time of a page about which neither its backend nor the VCL\n        \
                 says how long it is fresh: beresp.ttl.\n\n        \
                 NB: It holds for pages that are fetched from now on.\n\n\n",
            ),
            (
                "max_retries",
                "max_retries\n        Value is: 4 [retries] (default)\n        Minimum is: 0\n\n        \
                 How often a VCL may ask a backend again.\n\n        NB: The CLI may not set it (-r).\n\n\n",
            ),
            (
                "thread_pools",
                "thread_pools\n        Value is: 2 [pools] (default)\n        Minimum is: 1\n\n        \
                 How many pools of threads there are. larder has one worker for\n        \
                 each core.\n\n        NB: It is taken, and changes nothing in larder.\n\n\n",
            ),
            (
                "vmod_path",
                "vmod_path\n        Not available\n\n        \
                 The folders in which modules are looked for. larder has its own.\n\n        \
                 NB: It is taken, and changes nothing in larder.\n\n\n",
            ),
            ("nothing", "varnishd has no parameter \"nothing\"\n"),
        ] {
            assert_eq!(said(&settings, &format!("param.show {name}")).text, expected, "{name}");
        }
        assert!(
            said(&settings, "param.show cli_buffer").text.contains("Value is: 16k [bytes]\n        Default is: 4m\n")
        );
        assert_eq!(said(&settings, "param.show -j -l").status, Status::Parameter);
        assert_eq!(said(&settings, "param.show a b").status, Status::TooMany);
    }

    #[test]
    fn json_has_the_keys_and_types_of_varnish() {
        let settings = settings(&[("default_ttl", "10")]);
        let one = |name: &str| {
            let all: Value = serde_json::from_str(&said(&settings, &format!("param.show -j {name}")).text).unwrap();
            all[3].clone()
        };
        assert_eq!(
            one("default_ttl"),
            json!({
                "name": "default_ttl", "implemented": true, "value": 10.0, "units": "seconds",
                "default": "120.000", "minimum": "0.000",
                "description":
                    "The time of a page about which neither its backend nor the VCL says how long it is fresh: beresp.ttl.",
                "flags": ["obj_sticky"]
            })
        );
        for (name, value) in [
            ("http_gzip_support", json!(true)),
            ("max_restarts", json!(4)),
            ("http_req_size", json!(32768)),
            ("acceptor_sleep_decay", json!(0.9)),
            ("pool_req", json!({ "min_pool": 10, "max_pool": 100, "max_age": 10 })),
            ("vcl_path", json!(VCL_PATH)),
            ("cc_command", Value::Null),
        ] {
            assert_eq!(one(name)["value"], value, "{name}");
        }
        assert_eq!(one("max_retries")["flags"], json!(["protected"]));
    }
}
