//! `more_set_headers`, `more_set_input_headers` and their kin: fields that are set, added and taken away by name, status
//! and media type.

use larder_http::{Fields, Known};

use crate::context::Cx;
use crate::exchange::Exchange;
use crate::site::{Edit, EditChange, Loc};

/// Changes the fields of the request, once the rewrites of its location are done.
pub fn request(ex: &mut Exchange, cx: &Cx) {
    let loc = cx.loc(ex);
    for edit in &loc.fields.edits.request {
        if !edit.is_for_type(ex.asked.head.fields.get_known(Known::ContentType)) {
            continue;
        }
        let value = edit.value(ex, cx);
        if edit.name.eq_ignore_ascii_case("host")
            && let Some(value) = &value
        {
            ex.request.host.clone_from(value);
        }
        edit.apply(value, &mut ex.asked.head.fields);
    }
}

/// Changes the fields of the response, before `expires` and `add_header` add theirs.
pub fn response(loc: &Loc, ex: &mut Exchange, cx: &Cx) {
    for edit in &loc.fields.edits.response {
        let is_for_status = edit.statuses.is_empty() || edit.statuses.contains(&ex.reply.status);
        if !is_for_status || !edit.is_for_type(ex.reply.fields.get_known(Known::ContentType)) {
            continue;
        }
        let value = edit.value(ex, cx);
        let is_set = value.is_some();
        edit.apply(value, &mut ex.reply.fields);
        match Known::of(edit.name.as_bytes()) {
            // Deliver writes these two where they are not among the fields.
            Known::Server => ex.reply.silent.server = !is_set,
            Known::Date => ex.reply.silent.date = !is_set,
            Known::Location => ex.reply.location_is_ours = true,
            // The body's conversion is decided already; the new type names the charset that it goes out in.
            Known::ContentType => {
                ex.reply.bare_type.clear();
                if is_set {
                    drop(super::charset::choose_and_label(loc, ex, cx));
                }
            }
            _ => {}
        }
    }
}

impl Edit {
    /// Whether it is for a message of this Content-Type.
    fn is_for_type(&self, content_type: Option<&[u8]>) -> bool {
        let bare = content_type.unwrap_or_default().split(|&byte| byte == b';').next().unwrap_or_default();
        self.types.is_empty() || self.types.iter().any(|listed| **listed == *bare.trim_ascii())
    }

    /// The value it gives; `None` when it takes the field away, as an empty one does.
    fn value(&self, ex: &mut Exchange, cx: &Cx) -> Option<Vec<u8>> {
        match &self.change {
            EditChange::Set(text) | EditChange::Replace(text) | EditChange::Append(text) => {
                Some(text.value(ex, cx)).filter(|value| !value.is_empty())
            }
            EditChange::Clear | EditChange::ClearAllThatBegin => None,
        }
    }

    fn apply(&self, value: Option<Vec<u8>>, fields: &mut Fields) {
        match (&self.change, value) {
            (EditChange::Replace(_), _) if !fields.contains(&self.name) => {}
            (EditChange::Append(_), Some(value)) => fields.push(self.name.as_bytes(), &value),
            (EditChange::Append(_), None) => {}
            (EditChange::Set(_) | EditChange::Replace(_), Some(value)) => {
                // What is there keeps the case of its name.
                let there = fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(self.name.as_bytes()));
                let there = there.map(|(name, _)| String::from_utf8_lossy(name).into_owned());
                fields.set(there.as_deref().unwrap_or(&self.name), &value);
            }
            (EditChange::Set(_) | EditChange::Replace(_) | EditChange::Clear, _) => {
                fields.remove(&self.name);
            }
            (EditChange::ClearAllThatBegin, _) => {
                let beginning = self.name.as_bytes();
                fields.retain(|_, name, _| {
                    !name.get(..beginning.len()).is_some_and(|start| start.eq_ignore_ascii_case(beginning))
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Text;

    fn edit(name: &str, change: EditChange) -> Edit {
        Edit { name: name.into(), change, statuses: Vec::new(), types: Vec::new() }
    }

    fn text() -> Text {
        Text::literal(b"unused")
    }

    #[test]
    fn fields_are_set_added_and_taken_away() {
        let some = || Some(b"new".to_vec());
        for (edit, value, want) in [
            (edit("x-a", EditChange::Set(text())), some(), "X-A: new, X-B: 2, Y: 3"),
            (edit("Z", EditChange::Set(text())), some(), "X-A: 1, X-A: 1b, X-B: 2, Y: 3, Z: new"),
            (edit("Y", EditChange::Set(text())), None, "X-A: 1, X-A: 1b, X-B: 2"),
            (edit("Y", EditChange::Replace(text())), some(), "X-A: 1, X-A: 1b, X-B: 2, Y: new"),
            (edit("Z", EditChange::Replace(text())), some(), "X-A: 1, X-A: 1b, X-B: 2, Y: 3"),
            (edit("Y", EditChange::Append(text())), some(), "X-A: 1, X-A: 1b, X-B: 2, Y: 3, Y: new"),
            (edit("Y", EditChange::Append(text())), None, "X-A: 1, X-A: 1b, X-B: 2, Y: 3"),
            (edit("X-A", EditChange::Clear), None, "X-B: 2, Y: 3"),
            (edit("x-", EditChange::ClearAllThatBegin), None, "Y: 3"),
        ] {
            let mut fields = Fields::new();
            for (name, value) in [("X-A", "1"), ("X-A", "1b"), ("X-B", "2"), ("Y", "3")] {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            edit.apply(value, &mut fields);
            let mut lines: Vec<String> = fields
                .iter()
                .map(|(name, value)| format!("{}: {}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)))
                .collect();
            lines.sort();
            let mut wanted: Vec<&str> = want.split(", ").collect();
            wanted.sort_unstable();
            assert_eq!(lines, wanted, "{}", edit.name);
        }
    }

    #[test]
    fn a_type_is_compared_without_its_parameters() {
        let listed = Edit { types: vec![b"text/html".as_slice().into()], ..edit("X", EditChange::Clear) };
        for (content_type, is_for) in [
            (Some("text/html"), true),
            (Some("text/html; charset=utf-8"), true),
            (Some("text/css"), false),
            (None, false),
        ] {
            assert_eq!(listed.is_for_type(content_type.map(str::as_bytes)), is_for, "{content_type:?}");
            assert!(edit("X", EditChange::Clear).is_for_type(content_type.map(str::as_bytes)));
        }
    }
}
