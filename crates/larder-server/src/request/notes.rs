//! What is noted of a request that is walked through.

use std::rc::Rc;

use crate::exchange::{Exchange, Purpose};
use crate::vsl::{Audience, Facts, Note, Open};

/// Notes that something is not asked, and is taken to let the request pass.
pub fn assume(what: &'static str, ex: &Exchange) {
    say(what, "not asked: what follows holds if it lets the request pass".to_owned(), None, ex);
}

/// Notes something, with its place as `FILE:LINE`.
pub fn say(what: &'static str, text: String, at: Option<String>, ex: &Exchange) {
    note(Note::Said { what, text, at }, ex);
}

/// The same, with what programs are told of it.
pub fn tell(what: &'static str, text: String, at: Option<String>, facts: Facts, ex: &Exchange) {
    note(Note::Told { what, text, at, facts }, ex);
}

/// Notes how the request ends.
pub fn verdict(sentence: impl Into<String>, ex: &Exchange) {
    note(Note::Verdict(sentence.into()), ex);
}

fn note(note: Note, ex: &Exchange) {
    if let Some(open) = &ex.log.client {
        open.note(|| note);
    }
}

/// The notes of the walk so far.
pub fn notes(ex: &Exchange) -> Vec<Note> {
    ex.log.client.as_ref().map_or_else(Vec::new, |open| open.notes())
}

/// Whom the notes are for.
pub fn audience(ex: &Exchange) -> Audience {
    ex.log.client.as_ref().map_or(Audience::Visitor, |open| open.audience())
}

/// Makes an exchange one that is walked through.
pub fn begin(ex: &mut Exchange, audience: Audience) {
    ex.request.nested.purpose = Purpose::Walk;
    ex.log.client = Some(Rc::new(Open::walk(audience)));
    // So that it takes no number of its own.
    ex.vcl.client.xid = 1;
}
