//! The manual names every directive that larder knows, in the contexts where it may stand, and no other.
//!
//! The tables of directives are not public, so their names are found in their source: whatever text there is the
//! name of a directive.

use std::collections::BTreeSet;
use std::path::Path;

use larder_conf::{Contexts, DirectiveInfo, Standing, find_directive};

/// A context, and the word that the tables of the manual have for it.
const CONTEXTS: [(Contexts, &str); 9] = [
    (Contexts::MAIN, "main"),
    (Contexts::EVENTS, "events"),
    (Contexts::HTTP, "http"),
    (Contexts::SERVER, "server"),
    (Contexts::LOCATION, "location"),
    (Contexts::UPSTREAM, "upstream"),
    (Contexts::IF_IN_SERVER, "if in server"),
    (Contexts::IF_IN_LOCATION, "if in location"),
    (Contexts::LIMIT_EXCEPT, "limit_except"),
];

/// A directive as a row of the manual has it.
struct Row {
    name: String,
    contexts: String,
    /// The heading `##` above it.
    chapter: String,
}

#[test]
fn every_directive_is_in_the_manual_with_its_contexts() {
    let rows = rows(&manual());
    let names = known();
    assert!(names.len() > 400, "only {} names were found in the tables", names.len());
    for name in names {
        let info = find_directive(&name).expect("only known names were kept");
        let mut here = rows.iter().filter(|row| row.name == name && row.chapter == chapter(info)).peekable();
        assert!(here.peek().is_some(), "docs/directives.md does not have `{name}` under \"{}\"", chapter(info));
        let expected = contexts(info);
        let fits = info.standing() == Standing::Refused || here.any(|row| row.contexts == expected);
        assert!(fits, "docs/directives.md does not say that `{name}` may stand in: {expected}");
    }
}

#[test]
fn every_directive_of_the_manual_exists() {
    for Row { name, chapter, .. } in rows(&manual()) {
        let is_family = name.contains('*');
        assert!(is_family || find_directive(&name).is_some(), "there is no `{name}`, as under \"{chapter}\"");
    }
}

#[test]
fn names_that_are_known_by_how_they_begin_are_in_the_manual() {
    let manual = manual();
    let mut count = 0;
    for file in ["refused.rs", "third_party.rs"] {
        let source = source(file);
        let (_, families) = source.split_once("static PREFIXES").expect("the table is there");
        let (families, _) = families.split_once("];").expect("the table ends");
        for row in families.split("refused(").flat_map(|part| part.split("family(")).skip(1) {
            let prefix = row.split('"').nth(1).expect("a row begins with a name");
            assert!(manual.contains(&format!("| `{prefix}*` |")), "docs/directives.md does not have `{prefix}*`");
            count += 1;
        }
    }
    assert!(count > 90, "only {count} rows were found");
}

/// The chapter of the manual that a directive belongs to.
fn chapter(info: &DirectiveInfo) -> &'static str {
    match info.standing() {
        Standing::Built => "What works",
        Standing::Harmless => "Read, without effect",
        Standing::Refused => "Refused",
    }
}

fn contexts(info: &DirectiveInfo) -> String {
    let words = CONTEXTS.iter().filter(|(context, _)| info.contexts.contains(*context)).map(|(_, word)| *word);
    words.collect::<Vec<_>>().join(", ")
}

fn manual() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/directives.md");
    std::fs::read_to_string(path).expect("the manual is there")
}

/// The rows of all tables; a row with several names is several.
fn rows(manual: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut chapter = "";
    for line in manual.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            chapter = heading;
        }
        let Some(row) = line.strip_prefix("| `") else { continue };
        let mut cells = row.split('|');
        let names = cells.next().unwrap_or_default();
        let contexts = cells.next().unwrap_or_default().trim();
        for name in names.split(',') {
            let name = name.trim().trim_matches('`').to_owned();
            rows.push(Row { name, contexts: contexts.to_owned(), chapter: chapter.to_owned() });
        }
    }
    rows
}

/// Every directive of the tables, the ones that `fastcgi_*` and `proxy_*` share with their first word.
fn known() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/directives");
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder).expect("the tables are there") {
        let name = entry.expect("the folder can be listed").file_name();
        let text = source(name.to_str().expect("the names of our files are UTF-8"));
        for word in text.split('"') {
            let shared = ["fastcgi", "proxy"].map(|first| format!("{first}{word}"));
            names.extend(shared.into_iter().filter(|_| word.starts_with('_')));
            names.insert(word.to_owned());
        }
    }
    names.retain(|name| find_directive(name).is_some());
    names
}

fn source(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/directives").join(file);
    std::fs::read_to_string(path).expect("a table is a text file")
}
