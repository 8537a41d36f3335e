//! Files of a crate import in layers, and never in a circle.
//!
//! An import of a name that another file has only by a `use` counts for the file that defines it, so that no `pub use`
//! hides a circle. What a file takes from a module it lies in does not count: a child may see its parent.

use super::Finding;
use super::circles;
use super::rust_text::RustText;
use super::tree::{Edge, SourceFile, Tree};
use std::path::{Path, PathBuf};

/// Folders with their files and folders in layers, from the bottom to the top.
///
/// A file imports from its own layer and those below it. Several names in one layer may import each other, but not in
/// a circle. The file of the folder itself, `lib.rs` or `mod.rs`, stands above all.
const LAYERS: &[(&str, Layers)] = &[
    (
        "crates/larder-http/src",
        &[
            &["date", "digits", "method", "scan", "status", "time"],
            &["field", "proxy_protocol", "uri"],
            &["h1", "host"],
            &["h2"],
        ],
    ),
    (
        "crates/larder-store/src",
        &[&["background", "ghost", "times"], &["arena", "budget"], &["disk", "memory"], &["body"]],
    ),
    (
        "crates/larder-server/src",
        &[
            &[
                "clock",
                "compressor",
                "counts",
                "lru",
                "misses",
                "pace",
                "pipes",
                "prepared",
                "regex",
                "stats",
                "tempfile",
                "turns",
                "typed_url",
                "vmods",
                "vsl",
                "ways",
                "xid",
            ],
            &[
                "access",
                "bans",
                "directors",
                "filter",
                "geo",
                "limit",
                "log",
                "map",
                "modules",
                "profile",
                "purges",
                "realip",
                "refill",
                "split",
                "text",
                "variable",
            ],
            &[
                "acme",
                "acme_sharing",
                "auth",
                "cluster",
                "files",
                "net",
                "objects",
                "ocsp",
                "dash",
                "pressure",
                "probes",
                "resolvers",
                "staple",
                "tls",
                "zones",
            ],
            &["site"],
            &["exchange", "logs", "material"],
            &["context", "local", "seats", "worker"],
            &[
                "access_lines",
                "counting",
                "error_lines",
                "handshake",
                "locations",
                "metrics",
                "php_status",
                "policy",
                "records",
                "script",
                "status",
                "target",
                "vars",
            ],
            &["request"],
            &["conn", "explain", "fuzzing"],
            &[
                "ahead",
                "ask",
                "assemble",
                "limit_sharing",
                "listen",
                "lurker",
                "refiller",
                "serving",
                "sitemaps",
                "ticket_sharing",
                "worker_thread",
            ],
        ],
    ),
    ("crates/larder-source/src", &[&["plain", "span", "suggest"], &["sources"], &["diagnostic", "lines"]]),
    (
        "crates/larder-conf/src",
        &[
            &["contexts", "values"],
            &["model"],
            &["cx", "lex", "profiles"],
            &["template"],
            &["tree"],
            &["level"],
            &["directives"],
            &["build", "lint", "parse"],
        ],
    ),
    (
        "crates/larder-vcl/src",
        &[
            &["features", "functions", "types"],
            &["acl", "ast", "bans", "lex", "lifetime", "old", "steps"],
            &["parameters", "read", "vars", "vmods"],
            &["parse", "policy"],
            &["check", "program"],
            &["compile", "reach", "run"],
            &["modules"],
        ],
    ),
    ("crates/larder-vsl/src", &[&["pattern", "tag"], &["globs", "record"], &["frame", "group"], &["filter", "query"]]),
    ("crates/larder-compress/src", &[&["params"], &["decoder", "effort", "encoder"], &["segment", "whole"]]),
];

/// Crates whose circles are not all opened yet, and how many files stand in them. The numbers only go down.
const TANGLED: &[(&str, usize)] = &[("larder-cache", 7)];

/// Names of files and folders, without `.rs`.
type Layers = &'static [&'static [&'static str]];

/// Where the tables are.
const TABLES: &str = "xtask/src/tidy/layers.rs";

const OPEN_IT: &str = "move what both need to a file below both, or pass in what the lower one needs as an argument";

/// Checks the crate whose root file lies in `src`: `files` are paths and their texts.
pub fn check(src: &Path, files: &[(PathBuf, RustText)]) -> Vec<Finding> {
    check_by(LAYERS, TANGLED, src, files)
}

fn check_by(
    layers: &[(&str, Layers)],
    tangled: &[(&str, usize)],
    src: &Path,
    files: &[(PathBuf, RustText)],
) -> Vec<Finding> {
    let tree = Tree::of(src, files);
    let mut findings = circles_of(src, &tree, tangled);
    for (folder, layers) in layers {
        if let Ok(below) = Path::new(folder).strip_prefix(src) {
            findings.extend(climbs(&tree, folder, below, layers));
        }
    }
    findings
}

fn circles_of(src: &Path, tree: &Tree, tangled: &[(&str, usize)]) -> Vec<Finding> {
    let edges = tree.edges();
    let knots = circles::knots(&edges);
    let found = knots.iter().filter_map(|knot| circle(tree, &circles::shortest(&edges, knot)));
    let name = src.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let Some((_, allowed)) = tangled.iter().find(|(tangled, _)| *tangled == name) else {
        return found.collect();
    };

    let now: usize = knots.iter().map(Vec::len).sum();
    let standing = format!("{now} files of {name} import in circles");
    if now > *allowed {
        let more = |circle: Finding| {
            let fact = format!("{standing}, {allowed} may, and none new: {}", circle.fact);
            Finding { fact, ..circle }
        };
        found.map(more).collect()
    } else if now < *allowed {
        let fact = format!("{standing}, where {allowed} may");
        let mend = match now {
            0 => format!("take the row of {name} out of TANGLED"),
            _ => format!("write {now} in the row of {name} in TANGLED, so that it stays so"),
        };
        vec![Finding { file: TABLES.into(), line: 1, fact, mend }]
    } else {
        Vec::new()
    }
}

/// The finding about `circle`, whose files import the next and the last the first.
fn circle(tree: &Tree, circle: &[usize]) -> Option<Finding> {
    let files: Vec<&SourceFile> = circle.iter().filter_map(|at| tree.files.get(*at)).collect();
    let nexts = circle.iter().cycle().skip(1);
    let line =
        |(file, next): (&&SourceFile, &usize)| file.imports.iter().find(|edge| edge.to == *next).map(|edge| edge.line);
    let lines: Vec<usize> = files.iter().zip(nexts).filter_map(line).collect();
    let first = files.first()?;
    let way = files.iter().zip(&lines).map(|(file, line)| format!("{} (line {line}) -> ", file.name()));
    Some(Finding {
        file: first.path.clone(),
        line: *lines.first()?,
        fact: format!("files import in a circle: {}{}", way.collect::<String>(), first.name()),
        mend: OPEN_IT.into(),
    })
}

/// What climbs from a layer to one above it. `below` is the way from the crate's root to `folder`.
fn climbs(tree: &Tree, folder: &str, below: &Path, layers: Layers) -> Vec<Finding> {
    let below: Vec<_> = below.iter().filter_map(|part| part.to_str()).collect();
    let name_of = |file: &'_ SourceFile| -> Option<String> {
        let inside = file.module.len() > below.len() && file.module.iter().zip(&below).all(|(a, b)| a == b);
        file.module.get(below.len()).filter(|_| inside).cloned()
    };
    let layer_of = |name: &str| layers.iter().position(|layer| layer.contains(&name));

    let mut findings = Vec::new();
    let mut known: Vec<String> = Vec::new();
    for file in &tree.files {
        let Some(name) = name_of(file) else { continue };
        let layer = layer_of(&name);
        if layer.is_none() && !known.contains(&name) {
            findings.push(Finding {
                file: file.path.clone(),
                line: 1,
                fact: format!("`{name}` has no layer in {folder}"),
                mend: format!("write it into LAYERS in {TABLES}, as low as what it imports lets it"),
            });
        }
        for Edge { line, to } in &file.imports {
            let Some(other) = tree.files.get(*to) else { continue };
            let Some(other_name) = name_of(other) else { continue };
            if layer_of(&other_name) > layer && layer.is_some() {
                findings.push(Finding {
                    file: file.path.clone(),
                    line: *line,
                    fact: format!(
                        "{} imports {}, and `{other_name}` is a layer above `{name}`",
                        file.name(),
                        other.name()
                    ),
                    mend: OPEN_IT.into(),
                });
            }
        }
        known.push(name);
    }
    for name in layers.iter().flat_map(|layer| layer.iter()).filter(|name| known.iter().all(|known| known != *name)) {
        let fact = format!("the layer `{name}` of {folder} has no file");
        findings.push(Finding { file: TABLES.into(), line: 1, fact, mend: "take it out of LAYERS".into() });
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREE: Layers = &[&["low"], &["mid", "between"], &["high"]];

    /// What is found in a crate of these files: `file:line: fact`.
    fn facts(layers: &[(&str, Layers)], tangled: &[(&str, usize)], files: &[(&str, &str)]) -> Vec<String> {
        let src = Path::new("crates/a/src");
        let files: Vec<_> = files.iter().map(|(path, text)| (src.join(path), RustText::of(text))).collect();
        let shown = |found: Finding| {
            let file = found.file.strip_prefix(src).unwrap_or(&found.file).display().to_string();
            format!("{file}:{}: {}", found.line, found.fact)
        };
        check_by(layers, tangled, src, &files).into_iter().map(shown).collect()
    }

    #[test]
    fn a_circle_is_named_in_its_order_with_the_lines() {
        for (files, expected) in [
            (&[("x.rs", "use crate::y::Y;"), ("y.rs", "")][..], &[][..]),
            (
                &[("x.rs", "use crate::y::Y;"), ("y.rs", "\n\nuse super::x::X;")],
                &["x.rs:1: files import in a circle: `x` (line 1) -> `y` (line 3) -> `x`"],
            ),
            (
                &[
                    ("x/mod.rs", "\nuse crate::y::Y;"),
                    ("y.rs", "use crate::z;"),
                    ("z.rs", "use crate::{y::Y,\nx::X};"),
                    ("w.rs", "use crate::v::V;"),
                    ("v.rs", "use crate::w::W;"),
                ],
                &[
                    "v.rs:1: files import in a circle: `v` (line 1) -> `w` (line 1) -> `v`",
                    "y.rs:1: files import in a circle: `y` (line 1) -> `z` (line 1) -> `y`",
                ],
            ),
        ] {
            assert_eq!(facts(&[], &[("b", 1)], files), expected, "{files:?}");
        }
    }

    #[test]
    fn circles_that_are_known_become_fewer_only() {
        let two = [("x.rs", "use crate::y::Y;"), ("y.rs", "use crate::x::X;")];
        for (allowed, expected) in [
            (2, &[][..]),
            (
                1,
                &["x.rs:1: 2 files of a import in circles, 1 may, and none new: files import in a circle: \
                   `x` (line 1) -> `y` (line 1) -> `x`"],
            ),
            (3, &["xtask/src/tidy/layers.rs:1: 2 files of a import in circles, where 3 may"]),
        ] {
            assert_eq!(facts(&[], &[("a", allowed)], &two), expected, "{allowed}");
        }
        let none = [("x.rs", "use crate::y::Y;"), ("y.rs", "")];
        let found = facts(&[], &[("a", 2)], &none);
        assert_eq!(found, ["xtask/src/tidy/layers.rs:1: 0 files of a import in circles, where 2 may"]);
    }

    #[test]
    fn a_file_imports_from_its_layer_and_those_below() {
        let lib = ("lib.rs", "use high::a;");
        for (files, expected) in [
            (
                &[lib, ("low.rs", ""), ("mid.rs", "use crate::low::A;"), ("high/a.rs", "use crate::{low, mid};")][..],
                None,
            ),
            (
                &[
                    lib,
                    ("low.rs", ""),
                    ("mid.rs", "use crate::between::A;"),
                    ("high.rs", "use self::a::B;"),
                    ("high/a.rs", ""),
                ],
                None,
            ),
            (
                &[lib, ("low.rs", "\nuse crate::high::a::A;"), ("mid.rs", ""), ("high/a.rs", "")],
                Some("low.rs:2: `low` imports `high/a`, and `high` is a layer above `low`"),
            ),
            (&[lib, ("low/b/mod.rs", "use crate::A;"), ("mid.rs", ""), ("high/a.rs", "")], None),
            (
                &[
                    ("lib.rs", "pub use mid::A; mod mid;"),
                    ("low/b/mod.rs", "use crate::A;"),
                    ("mid.rs", ""),
                    ("high/a.rs", ""),
                ],
                Some("low/b/mod.rs:1: `low/b` imports `mid`, and `mid` is a layer above `low`"),
            ),
            (
                &[
                    lib,
                    ("low.rs", ""),
                    ("mid.rs", ""),
                    ("high.rs", ""),
                    ("new/x.rs", "use crate::high;"),
                    ("new/y.rs", ""),
                ],
                Some("new/x.rs:1: `new` has no layer in crates/a/src"),
            ),
            (
                &[lib, ("low.rs", ""), ("mid.rs", "")],
                Some("xtask/src/tidy/layers.rs:1: the layer `high` of crates/a/src has no file"),
            ),
        ] {
            let mut files = files.to_vec();
            files.push(("between.rs", ""));
            let found = facts(&[("crates/a/src", THREE), ("crates/b/src", THREE)], &[], &files);
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{files:?}");
        }
    }

    #[test]
    fn the_layers_may_be_those_of_a_folder() {
        let files = [
            ("x.rs", "use crate::f::high;"),
            ("f/mod.rs", "mod high;\nuse high::A;"),
            ("f/low.rs", "use super::high::A;\nuse crate::x;"),
            ("f/high.rs", ""),
        ];
        let found = facts(&[("crates/a/src/f", &[&["low"], &["high"]])], &[], &files);
        assert_eq!(found, ["f/low.rs:1: `f/low` imports `f/high`, and `high` is a layer above `low`"]);
    }
}
