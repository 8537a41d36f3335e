//! `client_body_*`: the bodies of requests.

use super::{Action, Args, DirectiveInfo, HSL, ONE, directive, http};
use crate::diagnostic::Outcome;
use crate::model::BodyInFile;
use crate::tree::Directive;
use crate::values;

pub const TABLE: &[DirectiveInfo] = &[
    directive(
        "client_max_body_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            http::set(&mut l.settings.body.max_bytes, d.offset(0).map(|bytes| (bytes > 0).then_some(bytes)))
        }),
    ),
    directive(
        "client_body_buffer_size",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.body.buffer_bytes, d.size(0))),
    ),
    directive(
        "client_body_timeout",
        HSL,
        ONE,
        Action::Level(|l, _, d| http::set(&mut l.settings.body.timeout, d.time(0))),
    ),
    directive(
        "client_body_temp_path",
        HSL,
        Args::Between(1, 4),
        Action::Level(|l, cx, d| {
            l.settings.body.temp_levels = temp_levels(d)?;
            http::set(&mut l.settings.body.temp_path, http::temp_path(cx, d).map(Some))
        }),
    ),
    directive(
        "client_body_in_file_only",
        HSL,
        ONE,
        Action::Level(|l, _, d| {
            let choices = [("off", BodyInFile::Off), ("on", BodyInFile::On), ("clean", BodyInFile::Clean)];
            http::set(&mut l.settings.body.in_file_only, http::choose(d, &choices))
        }),
    ),
];

/// The levels of folders below a path for temporary files, by letters of the files' names.
fn temp_levels(d: &Directive) -> Outcome<[usize; 3]> {
    let mut levels = [0; 3];
    for (level, word) in levels.iter_mut().zip(&d.args[1..]) {
        *level = values::number(&word.text).and_then(|letters| usize::try_from(letters).ok()).unwrap_or(0);
        if *level == 0 {
            return Err(d.invalid(word, "a number of letters above zero"));
        }
    }
    let letters = levels.iter().fold(0, |sum: usize, letters| sum.saturating_add(*letters));
    match d.args.last() {
        Some(last) if letters > TEMP_NAME_LETTERS => Err(d.invalid(
            last,
            &format!("at most what the others leave of {TEMP_NAME_LETTERS}, as a name has no more letters"),
        )),
        Some(_) | None => Ok(levels),
    }
}

/// How long the names of temporary files are.
const TEMP_NAME_LETTERS: usize = 10;
