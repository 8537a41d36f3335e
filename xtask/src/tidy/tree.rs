//! The files of one crate, and which of them imports which.

use super::imports::Imports;
use super::rust_text::RustText;
use std::path::{Path, PathBuf};

/// How many `use`s a name is followed through to the file that has it.
const FOLLOWED_MAX: usize = 8;

/// The files of one crate's program. Tests are left out.
pub struct Tree {
    /// By their modules' names.
    pub files: Vec<SourceFile>,
}

/// One file, and the files that it imports.
pub struct SourceFile {
    /// As it was given.
    pub path: PathBuf,
    /// Its module, from the root of the crate: `src/a/mod.rs` and `src/a.rs` are both `["a"]`, `src/lib.rs` is `[]`.
    pub module: Vec<String>,
    /// One for each other file, the first, in the order of the text.
    pub imports: Vec<Edge>,
}

/// An import of another file.
#[derive(Debug, PartialEq, Eq)]
pub struct Edge {
    /// Counted from 1.
    pub line: usize,
    /// The place of the file in [`Tree::files`].
    pub to: usize,
}

impl Tree {
    /// Reads `files`, which are paths and their texts, of the crate whose root file lies in `src`.
    pub fn of(src: &Path, files: &[(PathBuf, RustText)]) -> Tree {
        let mut read: Vec<Read<'_>> = files.iter().filter_map(|(path, text)| Read::of(src, path, text)).collect();
        read.sort_by(|a, b| a.module.cmp(&b.module));
        let tests: Vec<Vec<String>> = read.iter().flat_map(Read::test_modules).collect();
        let is_test = |file: &Read<'_>| tests.iter().any(|test| is_within(&file.module, test));
        read.retain(|file| !is_test(file));

        let file_of = |(from, file): (usize, &Read<'_>)| SourceFile {
            path: file.path.to_path_buf(),
            module: file.module.iter().map(|part| (*part).to_string()).collect(),
            imports: edges(&read, from, file),
        };
        Tree { files: read.iter().enumerate().map(file_of).collect() }
    }

    /// Who imports whom, by their places in [`Tree::files`].
    pub fn edges(&self) -> Vec<Vec<usize>> {
        self.files.iter().map(|file| file.imports.iter().map(|import| import.to).collect()).collect()
    }
}

impl SourceFile {
    /// What a finding calls it: its module, with slashes.
    pub fn name(&self) -> String {
        match self.module.is_empty() {
            true => "the root".to_string(),
            false => format!("`{}`", self.module.join("/")),
        }
    }
}

struct Read<'a> {
    path: &'a Path,
    module: Vec<&'a str>,
    imports: Imports,
}

impl<'a> Read<'a> {
    fn of(src: &Path, path: &'a Path, text: &RustText) -> Option<Read<'a>> {
        let below = path.strip_prefix(src).ok()?;
        let mut module: Vec<&str> = below.parent()?.iter().filter_map(|part| part.to_str()).collect();
        match below.file_stem()?.to_str()? {
            "lib" | "main" if module.is_empty() => {}
            "mod" => {}
            name => module.push(name),
        }
        let imports = Imports::of(text, &module);
        Some(Read { path, module, imports })
    }

    /// The modules of tests that the file declares, from the root of the crate.
    fn test_modules(&self) -> impl Iterator<Item = Vec<String>> {
        let here = self.module.iter().copied();
        let below = move |name: &String| here.clone().chain([name.as_str()]).map(str::to_string).collect();
        self.imports.test_modules.iter().map(below)
    }
}

/// Whether `module` is `other`, or lies in it.
fn is_within<A: PartialEq<B>, B>(module: &[A], other: &[B]) -> bool {
    module.len() >= other.len() && module.iter().zip(other).all(|(module, other)| module == other)
}

fn edges(files: &[Read<'_>], from: usize, file: &Read<'_>) -> Vec<Edge> {
    let mut found: Vec<Edge> = Vec::new();
    for import in &file.imports.paths {
        let Some(to) = file_that_has(files, import.path.clone()) else { continue };
        let lies_in = files.get(to).is_some_and(|other| is_within(&file.module, &other.module));
        if to != from && !lies_in && found.iter().all(|edge| edge.to != to) {
            found.push(Edge { line: import.line, to });
        }
    }
    found
}

/// The file that `path` leads to, through the `use`s of others.
fn file_that_has(files: &[Read<'_>], mut path: Vec<String>) -> Option<usize> {
    let mut found = None;
    for _ in 0..FOLLOWED_MAX {
        let (at, file) = longest_prefix(files, &path)?;
        found = Some(at);
        let rest = path.get(file.module.len()..).unwrap_or_default();
        let Some((name, rest)) = rest.split_first() else { break };
        let Some(taken) = file.imports.paths.iter().find(|import| import.name.as_ref() == Some(name)) else { break };
        path = taken.path.iter().chain(rest).cloned().collect();
    }
    found
}

fn longest_prefix<'f, 'a>(files: &'f [Read<'a>], path: &[String]) -> Option<(usize, &'f Read<'a>)> {
    let leads_there = files.iter().enumerate().filter(|(_, file)| is_within(path, &file.module));
    leads_there.max_by_key(|(_, file)| file.module.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The imports of these files: `file line file`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<_> =
            files.iter().map(|(path, text)| (Path::new("src").join(path), RustText::of(text))).collect();
        let tree = Tree::of(Path::new("src"), &files);
        let shown = |file: &SourceFile| -> Vec<String> {
            let to = |edge: &Edge| tree.files.get(edge.to).map_or(String::new(), |to| to.module.join("/"));
            file.imports.iter().map(|edge| format!("{} {} {}", file.module.join("/"), edge.line, to(edge))).collect()
        };
        tree.files.iter().flat_map(shown).collect()
    }

    #[test]
    fn an_import_counts_for_the_file_that_has_the_name() {
        for (files, expected) in [
            (&[("a.rs", "use crate::b::C;"), ("b.rs", "")][..], &["a 1 b"][..]),
            (&[("a.rs", "use crate::b::c::D;"), ("b/mod.rs", ""), ("b/c.rs", "")], &["a 1 b/c"]),
            (&[("a.rs", "use crate::b::C;\nuse crate::b::D;"), ("b/mod.rs", "")], &["a 1 b"]),
            // Taken over from another file, under another name, over two files.
            (&[("lib.rs", "mod b;\npub use b::C;"), ("a.rs", "use crate::C;"), ("b.rs", "")], &[" 2 b", "a 1 b"]),
            (
                &[
                    ("a.rs", "fn f() { crate::b::E::new() }"),
                    ("b/mod.rs", "mod c;\npub use c::D as E;"),
                    ("b/c.rs", ""),
                ],
                &["a 1 b/c", "b 2 b/c"],
            ),
            (
                &[
                    ("a.rs", "use crate::b::D;"),
                    ("b.rs", "pub use crate::c::D;"),
                    ("c.rs", "pub use crate::d::D;"),
                    ("d.rs", ""),
                ],
                &["a 1 d", "b 1 d", "c 1 d"],
            ),
            // A child sees its parents; what they took over from elsewhere is an import of that.
            (&[("a/mod.rs", "mod b;"), ("a/b.rs", "use super::A;\nuse crate::a;")], &[]),
            (&[("a/mod.rs", "use crate::c::C;"), ("a/b.rs", "use super::C;"), ("c.rs", "")], &["a 1 c", "a/b 1 c"]),
            (&[("lib.rs", ""), ("a.rs", "use crate::A;")], &[]),
            // Names that lead round end somewhere.
            (&[("a.rs", "use crate::b::A;"), ("b.rs", "use crate::a::A;")], &[]),
        ] {
            assert_eq!(imports(files), expected, "{files:?}");
        }
    }

    #[test]
    fn tests_are_left_out() {
        let files = [
            ("a/mod.rs", "#[cfg(test)]\nmod tests;\n#[cfg(test)]\nuse crate::b::B;"),
            ("a/tests/mod.rs", "use crate::b::B;"),
            ("a/tests/more.rs", "use crate::b::B;"),
            ("b.rs", "#[cfg(test)]\nmod tests {\nuse crate::a::A;\n}"),
        ];
        assert_eq!(imports(&files), [""; 0]);
    }
}
