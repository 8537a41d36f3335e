//! `param.show`: what parameters are set to, in varnishd's form.

use larder_vcl::parameters::check_name;
use larder_vcl::parameters::table::{Kind, Row, TABLE};
use serde_json::{Map, Value, json};

use super::cli::protocol::{self, Answer, Status};
use super::settings::{Settings, has_effect};

/// `param.show [-j] [-l] [changed|NAME]`
pub fn show(settings: &Settings, words: &[String]) -> Answer {
    let (mut is_json, mut is_long, mut only_changed, mut wanted) = (false, false, false, None);
    for word in words.iter().skip(1) {
        match word.as_str() {
            "-j" => is_json = true,
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
    let is_meant =
        |row: &&Row| wanted.is_none_or(|wanted| wanted == row.name) && (!only_changed || is_changed(settings, row));
    let rows: Vec<&Row> = TABLE.iter().filter(is_meant).collect();
    Answer::ok(match (is_json, is_long) {
        (true, _) => protocol::json(2, words, rows.into_iter().map(|row| as_json(settings, row)).collect()),
        (false, true) => rows.into_iter().map(|row| in_full(settings, row)).collect(),
        (false, false) => rows.into_iter().map(|row| in_a_line(settings, row)).collect(),
    })
}

fn is_changed(settings: &Settings, row: &Row) -> bool {
    settings.get(row.name).is_some() && value(settings, row) != row.default
}

/// The value as it is shown.
fn value(settings: &Settings, row: &Row) -> String {
    match settings.get(row.name) {
        Some(set) => row.shown(set).unwrap_or_else(|_| set.to_owned()),
        None => row.default.to_owned(),
    }
}

/// The value with its unit, and whether it is the default.
fn told(settings: &Settings, row: &Row) -> String {
    let value = value(settings, row);
    let unit = if row.unit.is_empty() { String::new() } else { format!(" [{}]", row.unit) };
    let mark = if value == row.default { " (default)" } else { "" };
    format!("{value}{unit}{mark}")
}

fn in_a_line(settings: &Settings, row: &Row) -> String {
    let width = TABLE.iter().map(|row| row.name.len()).max().unwrap_or(0) + 1;
    format!("{:<width$}{}\n", row.name, told(settings, row))
}

fn in_full(settings: &Settings, row: &Row) -> String {
    let mut text = format!("{}\n        Value is: {}\n", row.name, told(settings, row));
    let has_default = !row.default.is_empty() && value(settings, row) != row.default;
    for (is_said, what, said) in [
        (has_default, "Default", row.default),
        (!row.least.is_empty(), "Minimum", row.least),
        (!row.most.is_empty(), "Maximum", row.most),
    ] {
        if is_said {
            text.push_str(&format!("        {what} is: {said}\n"));
        }
    }
    if !means_something(row) {
        text.push_str("\n        It is taken, and changes nothing in larder.\n");
    }
    text.push('\n');
    text
}

fn as_json(settings: &Settings, row: &Row) -> Value {
    let value = value(settings, row);
    let mut shown = Map::new();
    shown.insert("name".to_owned(), row.name.into());
    shown.insert("implemented".to_owned(), means_something(row).into());
    shown.insert(
        "value".to_owned(),
        match row.kind {
            Kind::Switch => json!(value == "on"),
            Kind::Count | Kind::Real | Kind::Seconds => value.parse::<f64>().map_or_else(|_| json!(value), Value::from),
            Kind::Bytes | Kind::Text => json!(value),
        },
    );
    for (key, said) in [("units", row.unit), ("default", row.default), ("minimum", row.least), ("maximum", row.most)] {
        if !said.is_empty() {
            shown.insert(key.to_owned(), said.into());
        }
    }
    shown.into()
}

/// Whether larder heeds it.
fn means_something(row: &Row) -> bool {
    has_effect(row.name, if row.default.is_empty() { "1" } else { row.default })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_shown_as_varnishd_shows_them() {
        let mut settings = Settings::default();
        settings.set("default_ttl", "10").unwrap();
        settings.set("default_grace", "10").unwrap();
        let show = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            show(&settings, &words).text
        };
        assert_eq!(show("param.show").lines().count(), TABLE.len());
        assert_eq!(show("param.show changed"), "default_ttl                   10.000 [seconds]\n");
        for (name, expected) in [
            (
                "default_ttl",
                "default_ttl\n        Value is: 10.000 [seconds]\n        Default is: 120.000\n        Minimum is: 0.000\n\n",
            ),
            ("http_gzip_support", "http_gzip_support\n        Value is: on [bool] (default)\n\n"),
            (
                "thread_pools",
                "thread_pools\n        Value is: 2 [pools] (default)\n        Minimum is: 1\n\n        \
                 It is taken, and changes nothing in larder.\n\n",
            ),
            ("nothing", "varnishd has no parameter \"nothing\"\n"),
        ] {
            assert_eq!(show(&format!("param.show {name}")), expected, "{name}");
        }
        let read: Value = serde_json::from_str(&show("param.show -j default_ttl")).unwrap();
        assert_eq!(
            read[3],
            json!({
                "name": "default_ttl", "implemented": true, "value": 10.0, "units": "seconds",
                "default": "120.000", "minimum": "0.000"
            })
        );
    }
}
