//! Reads a profile: a row a line, its words apart by spaces, and `#` before what is for people.

use std::sync::Arc;
use std::time::Duration;

use crate::diagnostic::{Diagnostic, Outcome};
use crate::model::{Glob, Part, ProfileRow, Says};
use crate::span::Span;
use crate::{suggest, values};

/// A profile as it is written.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// `about`: what it is for.
    pub about: String,
    /// `with`: the profiles that it adds to, with their places.
    pub with: Vec<(String, Span)>,
    /// `found`: files below the root, all of which have to be there; one such row is enough.
    pub found: Vec<Vec<String>>,
    /// The rows about requests.
    pub rows: Vec<ProfileRow>,
    /// `else personal`.
    pub only_static: bool,
    /// `tags`.
    pub tags: Vec<String>,
    /// `purge`.
    pub purge: Vec<String>,
}

/// Reads the text of a profile, which is `file` of the sources; `name` stands before the numbers of its lines. All that is
/// wrong goes to `wrong`.
pub fn read(text: &str, file: u32, name: &str, wrong: &mut Vec<Diagnostic>) -> Written {
    let mut written = Written::default();
    let name: Arc<str> = name.into();
    let mut start = 0;
    for (line, number) in text.split('\n').zip(1..) {
        let words = words(line, start, file);
        start += line.len() + 1;
        let Some((first, rest)) = words.split_first() else { continue };
        if let Err(diagnostic) = row(first, rest, &(Arc::clone(&name), number), &mut written) {
            wrong.push(*diagnostic);
        }
    }
    written
}

/// A word and its place.
struct Word<'t> {
    text: &'t str,
    span: Span,
}

fn words(line: &str, line_start: usize, file: u32) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let mut at = 0;
    for text in line.split([' ', '\t', '\r']) {
        if text.starts_with('#') {
            break;
        }
        if !text.is_empty() {
            let place = |at: usize| u32::try_from(line_start + at).unwrap_or(u32::MAX);
            words.push(Word { text, span: Span { file, start: place(at), end: place(at + text.len()) } });
        }
        at += text.len() + 1;
    }
    words
}

fn row(first: &Word<'_>, rest: &[Word<'_>], place: &(Arc<str>, u32), written: &mut Written) -> Outcome {
    let texts = || rest.iter().map(|word| word.text.to_owned());
    if rest.is_empty() && ROWS.contains(&first.text) {
        return Err(wrong(first, "nothing follows", how(first.text)));
    }
    match first.text {
        "about" => written.about = rest.iter().map(|word| word.text).collect::<Vec<_>>().join(" "),
        "with" => written.with.extend(rest.iter().map(|word| (word.text.to_owned(), word.span))),
        "found" => written.found.push(texts().collect()),
        "tags" => written.tags.extend(texts()),
        "purge" => written.purge.push(rest.iter().map(|word| word.text).collect::<Vec<_>>().join(" ")),
        "else" => match rest {
            [Word { text: "personal", .. }] => written.only_static = true,
            _ => return Err(wrong(&rest[0], "it can only be personal", how("else"))),
        },
        "static" => {
            let (ttl, patterns) = lifetime(rest)?;
            add(Says::Static(ttl), Part::Path, patterns, place, written)?;
        }
        "personal" | "ignored" | "keyed" | "first" | "last" => {
            let (part, patterns) = part(first.text, &rest[0]).map(|part| (part, &rest[1..]))?;
            if patterns.is_empty() {
                return Err(wrong(&rest[0], "nothing follows", how(first.text)));
            }
            let says = match (first.text, part) {
                ("personal", part) => Says::Personal(part),
                ("first", part) => Says::First(part),
                ("last", part) => Says::Last(part),
                ("keyed", _) => Says::KeyedCookie,
                (_, Part::Argument) => Says::IgnoredArgument,
                _ => Says::IgnoredCookie,
            };
            add(says, part, patterns, place, written)?;
        }
        other => {
            let near = suggest::nearest(other, ROWS.into_iter()).map(|near| format!("did you mean \"{near}\"? "));
            let help = format!("{}a row begins with {}", near.unwrap_or_default(), ROWS.join(", "));
            return Err(Diagnostic::error(format!("unknown row \"{other}\" in a profile")).at(first.span).help(help));
        }
    }
    Ok(())
}

/// How many names the rows of a profile have.
const ROWS_MAX: usize = 10_000;

/// The words that a row begins with.
const ROWS: [&str; 12] =
    ["about", "with", "found", "personal", "ignored", "keyed", "static", "else", "first", "last", "tags", "purge"];

/// What may stand in a row.
fn how(row: &str) -> &'static str {
    match row {
        "about" => "write \"about\" and what the profile is for",
        "with" => "write \"with\" and the names of profiles, such as \"with common\"",
        "found" => "write \"found\" and files below the root, such as \"found wp-load.php\"",
        "personal" => "write \"personal cookie|path|argument|field\" and names, such as \"personal cookie session_*\"",
        "ignored" => "write \"ignored cookie|argument\" and names, such as \"ignored argument utm_*\"",
        "keyed" => "write \"keyed cookie\" and names, such as \"keyed cookie language\"",
        "static" => "write \"static\", a time, and paths, such as \"static 30d /assets/*.css\"",
        "else" => "write \"else personal\"",
        "first" | "last" => "write \"first\" or \"last\", \"cookie|path|argument|field|agent\" and names",
        "tags" => "write \"tags\" and names of fields, such as \"tags X-Cache-Tags\"",
        _ => "write \"purge\" and what purges",
    }
}

fn wrong(word: &Word<'_>, label: &str, how: &str) -> Box<Diagnostic> {
    Diagnostic::error(format!("invalid row of a profile at \"{}\"", word.text)).at(word.span).label(label).help(how)
}

/// The part of a request that a row is about.
fn part(row: &str, word: &Word<'_>) -> Outcome<Part> {
    let parts: &[Part] = match row {
        "personal" => &[Part::Cookie, Part::Path, Part::Argument, Part::Field],
        "ignored" => &[Part::Cookie, Part::Argument],
        "keyed" => &[Part::Cookie],
        _ => &[Part::Cookie, Part::Path, Part::Argument, Part::Field, Part::Agent],
    };
    let known = parts.iter().copied().find(|part| part.word() == word.text);
    known.ok_or_else(|| wrong(word, "it is no part of a request that such a row may be about", how(row)))
}

/// The time of a `static` row, and its paths.
fn lifetime<'w, 't>(rest: &'w [Word<'t>]) -> Outcome<(Option<Duration>, &'w [Word<'t>])> {
    let (time, patterns) =
        rest.split_first().map_or((None, rest), |(first, behind)| match first.text.starts_with('/') {
            true => (None, rest),
            false => (Some(first), behind),
        });
    let Some(time) = time else { return Ok((None, patterns)) };
    match values::time(time.text) {
        None => Err(wrong(time, "it is neither a time such as 30d nor a path", how("static"))),
        Some(_) if patterns.is_empty() => Err(wrong(time, "no path follows", how("static"))),
        Some(ttl) => Ok((Some(ttl), patterns)),
    }
}

fn add(says: Says, part: Part, patterns: &[Word<'_>], place: &(Arc<str>, u32), written: &mut Written) -> Outcome {
    for word in patterns {
        let Some(pattern) = Glob::of(word.text) else {
            return Err(wrong(word, "a name has one \"*\" at most", "write a row for each form of it"));
        };
        if part == Part::Path && !pattern.start.starts_with('/') {
            return Err(wrong(
                word,
                "a path begins with \"/\"",
                "it is looked for at any depth: \"/cart\" is /shop/cart, too",
            ));
        }
        // All would be meant.
        if pattern.start.is_empty() && pattern.end.as_ref().is_none_or(String::is_empty) {
            return Err(wrong(word, "it names nothing", how("personal")));
        }
        let is_plain = pattern.end.is_none();
        if matches!(part, Part::Field | Part::Agent) && !is_plain {
            let label = if part == Part::Field { "a field has no \"*\"" } else { "an agent needs no \"*\"" };
            return Err(wrong(
                word,
                label,
                "the name of a field is compared as a whole, a word of User-Agent is looked for",
            ));
        }
        if written.rows.len() == ROWS_MAX {
            return Err(wrong(word, "a profile has 10000 names at most", "join those that begin alike by \"*\""));
        }
        written.rows.push(ProfileRow { says, pattern, place: place.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(text: &str) -> (Written, Vec<Diagnostic>) {
        let mut wrong = Vec::new();
        let written = read(text, 3, "x.profile", &mut wrong);
        (written, wrong)
    }

    #[test]
    fn rows_are_read_with_their_lines() {
        let (written, wrong) = read_all(
            "# for people\nabout  a blog\nwith common\r\nfound a b\nfound c\n\npersonal cookie s_* t # why\n\tignored argument u\n\
             static 30d /a/*.css\nstatic /b\nelse personal\nlast agent bot\ntags X-T\npurge one, and two\n",
        );
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((&*written.about, &*written.with[0].0, written.with.len()), ("a blog", "common", 1));
        assert_eq!(written.found, [vec!["a".to_owned(), "b".to_owned()], vec!["c".to_owned()]]);
        let rows: Vec<_> = written.rows.iter().map(|row| (row.says, row.pattern.to_string(), row.place.1)).collect();
        let days = |days: u64| Duration::from_secs(days * 24 * 60 * 60);
        assert_eq!(
            rows,
            [
                (Says::Personal(Part::Cookie), "s_*".to_owned(), 7),
                (Says::Personal(Part::Cookie), "t".to_owned(), 7),
                (Says::IgnoredArgument, "u".to_owned(), 8),
                (Says::Static(Some(days(30))), "/a/*.css".to_owned(), 9),
                (Says::Static(None), "/b".to_owned(), 10),
                (Says::Last(Part::Agent), "bot".to_owned(), 12),
            ]
        );
        assert!(written.only_static);
        assert_eq!(
            (&written.tags[..], &written.purge[..]),
            (&["X-T".to_owned()][..], &["one, and two".to_owned()][..])
        );
    }

    #[test]
    fn what_is_wrong_has_its_place_and_the_rest_is_read() {
        for (row, at, label) in [
            ("personal", "personal", "nothing follows"),
            ("personal cookie", "cookie", "nothing follows"),
            ("personal agent x", "agent", "it is no part of a request"),
            ("ignored path /x", "path", "it is no part of a request"),
            ("keyed argument x", "argument", "it is no part of a request"),
            ("personal cookie a*b*", "a*b*", "one \"*\" at most"),
            ("personal cookie *", "*", "it names nothing"),
            ("personal path cart", "cart", "begins with \"/\""),
            ("personal field X-*", "X-*", "no \"*\""),
            ("static 30x /a", "30x", "neither a time"),
            ("static 30d", "30d", "no path follows"),
            ("else ignored", "ignored", "only be personal"),
        ] {
            let text = format!("\n{row}\nignored cookie ok\n");
            let (written, wrong) = read_all(&text);
            let [one] = &wrong[..] else { panic!("{row}: {wrong:?}") };
            let span = one.span.expect("it has a place");
            assert_eq!((span.file, &text[span.start as usize..span.end as usize]), (3, at), "{row}");
            assert!(one.label.as_deref().is_some_and(|own| own.contains(label)), "{row}: {one:?}");
            assert!(one.help.is_some(), "{row}");
            assert_eq!(written.rows.len(), 1, "{row}");
        }
        let (_, wrong) = read_all("persnal cookie a");
        assert_eq!(wrong[0].message, "unknown row \"persnal\" in a profile");
        assert!(
            wrong[0].help.as_deref().is_some_and(|help| help.starts_with("did you mean \"personal\"?")),
            "{wrong:?}"
        );
    }

    #[test]
    fn there_is_an_end_to_the_rows() {
        let (written, wrong) = read_all(&"personal cookie a\n".repeat(ROWS_MAX + 1));
        assert_eq!((written.rows.len(), wrong.len()), (ROWS_MAX, 1));
    }
}
