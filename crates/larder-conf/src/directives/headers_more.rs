//! `more_set_headers`, `more_clear_headers` and the same for requests, as in the headers-more module.

use super::{Action, Args, DirectiveInfo, HSLI, repeated};
use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{FieldChange, FieldEdit};
use crate::template;
use crate::tree::{Directive, Word};

pub const TABLE: &[DirectiveInfo] = &[
    repeated(
        "more_set_headers",
        HSLI,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            l.settings.fields.edits.response.extend(edits(d, Verb::Set, Side::Response)?);
            Ok(())
        }),
    ),
    repeated(
        "more_clear_headers",
        HSLI,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            l.settings.fields.edits.response.extend(edits(d, Verb::Clear, Side::Response)?);
            Ok(())
        }),
    ),
    repeated(
        "more_set_input_headers",
        HSLI,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            l.settings.fields.edits.request.extend(edits(d, Verb::Set, Side::Request)?);
            Ok(())
        }),
    ),
    repeated(
        "more_clear_input_headers",
        HSLI,
        Args::AtLeast(1),
        Action::Level(|l, _, d| {
            l.settings.fields.edits.request.extend(edits(d, Verb::Clear, Side::Request)?);
            Ok(())
        }),
    ),
];

/// Fields that are written with the body, whose length and framing they tell.
const OF_FRAMING: &[&str] = &["content-length", "transfer-encoding", "connection", "keep-alive"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Set,
    Clear,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Request,
    Response,
}

/// What one directive says: options, which are for all of its fields wherever they stand, and the fields.
fn edits(d: &Directive, verb: Verb, side: Side) -> Outcome<Vec<FieldEdit>> {
    let (mut types, mut statuses) = (Vec::new(), Vec::new());
    let (mut appends, mut only_present) = (false, false);
    let mut fields = Vec::new();
    let mut words = d.args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| lacks_argument(d, word));
        match (word.text.as_str(), verb, side) {
            ("", ..) => {}
            ("-t", ..) => types.extend(value()?.text.split_ascii_whitespace().map(str::to_owned)),
            ("-s", _, Side::Response) => {
                let list = value()?;
                for status in list.text.split_ascii_whitespace() {
                    statuses.push(status.parse().map_err(|_| {
                        Diagnostic::error(format!("{}: invalid digit found in \"{status}\"", d.name.text)).at(list.span)
                    })?);
                }
            }
            ("-r", Verb::Set, Side::Request) => only_present = true,
            ("-a", Verb::Set, Side::Response) => appends = true,
            (option, ..) if option.starts_with('-') => {
                return Err(Diagnostic::error(format!("{}: invalid option name: \"{option}\"", d.name.text))
                    .at(word.span)
                    .label(format!("a field comes as \"Name: value\", options are {}", options(verb, side))));
            }
            _ => fields.push(word),
        }
    }
    let edit = |word: &Word| {
        let (name, change) = field(d, word, verb, appends, only_present)?;
        if side == Side::Response && OF_FRAMING.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(Diagnostic::error(format!("\"{name}\" cannot be changed by \"{}\"", d.name.text))
                .at(word.span)
                .label("it belongs to how the body is sent")
                .help("remove it: larder sends the one that is right, and none where none belongs"));
        }
        Ok(FieldEdit { name, change, statuses: statuses.clone(), types: types.clone() })
    };
    fields.into_iter().map(edit).collect()
}

/// The options that a directive takes.
fn options(verb: Verb, side: Side) -> &'static str {
    match (verb, side) {
        (Verb::Set, Side::Response) => "-s, -t and -a",
        (Verb::Clear, Side::Response) => "-s and -t",
        (Verb::Set, Side::Request) => "-t and -r",
        (Verb::Clear, Side::Request) => "-t",
    }
}

fn lacks_argument(d: &Directive, option: &Word) -> Box<Diagnostic> {
    Diagnostic::error(format!("{}: option {} takes an argument", d.name.text, option.text)).at(option.span)
}

/// `Name: value`, `Name value`, `Name:`, `Name`, and `Name*` where fields are cleared. As in the module a name ends at a
/// colon or at white space, and a value begins at what is neither.
fn field(d: &Directive, word: &Word, verb: Verb, appends: bool, only_present: bool) -> Outcome<(String, FieldChange)> {
    let separates = |byte: char| byte == ':' || byte.is_ascii_whitespace();
    let text = word.text.trim();
    let (name, value) = text.split_at(text.find(separates).unwrap_or(text.len()));
    let value = value.trim_start_matches(separates);
    if name.is_empty() {
        return Err(Diagnostic::error(format!("{}: empty header name", d.name.text)).at(word.span));
    }
    let change = match verb {
        Verb::Clear => match name.strip_suffix('*') {
            Some(beginning) => return Ok((beginning.to_owned(), FieldChange::ClearAllThatBegin)),
            None => FieldChange::Clear,
        },
        Verb::Set if value.is_empty() => FieldChange::Clear,
        Verb::Set => {
            let value = template::parse_template(value, word.span)?;
            match (appends, only_present) {
                (true, _) => FieldChange::Append(value),
                (false, true) => FieldChange::Replace(value),
                (false, false) => FieldChange::Set(value),
            }
        }
    };
    Ok((name.to_owned(), change))
}
