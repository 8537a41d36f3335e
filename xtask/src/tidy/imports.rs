//! What a Rust file imports of its own crate: the paths in its program that lead to another file.

use super::rust_text::RustText;

/// The imports of one file, without those of its tests.
#[derive(Debug, Default)]
pub struct Imports {
    /// In the order of the text.
    pub paths: Vec<Import>,
    /// The modules that are there for tests only: `#[cfg(test)] mod NAME;`.
    pub test_modules: Vec<String>,
}

/// A path that begins with `crate`, `self`, `super` or the name of a child module, in a `use` or in code.
#[derive(Debug, PartialEq, Eq)]
pub struct Import {
    /// Counted from 1.
    pub line: usize,
    /// From the root of the crate. May end in names of items, or in `*`.
    pub path: Vec<String>,
    /// The name that a `use` gives it in this file.
    pub name: Option<String>,
}

impl Imports {
    /// Reads `text`, which is the module `here`.
    ///
    /// The last inline module of tests is left out. Modules in braces do not count for `super`: files have none but tests.
    pub fn of(text: &RustText, here: &[&str]) -> Imports {
        let tokens: Vec<Token<'_>> = text.program_lines().flat_map(|(line, text)| tokens(line, text)).collect();
        let mut reader = Reader { tokens, at: 0, here, children: Vec::new(), found: Imports::default() };
        reader.children = reader.declared_modules();
        reader.read();
        reader.found
    }
}

/// A name, `::`, or one other character, and its line.
type Token<'a> = (usize, &'a str);

fn tokens(line: usize, text: &str) -> impl Iterator<Item = Token<'_>> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let word = rest.find(|char| !is_word(char)).unwrap_or(rest.len());
        let end = match word {
            0 if rest.starts_with("::") => 2,
            0 => first.len_utf8(),
            word => word,
        };
        let (token, after) = rest.split_at(end);
        rest = after.trim_start();
        Some((line, token))
    })
}

fn is_word(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

struct Reader<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    here: &'a [&'a str],
    children: Vec<&'a str>,
    found: Imports,
}

impl<'a> Reader<'a> {
    fn read(&mut self) {
        const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
        while self.at < self.tokens.len() {
            let follows_a_path = self.at > 0 && matches!(self.token(self.at - 1), "::" | ".");
            let here = self.token(self.at);
            if (0..FOR_TESTS.len()).all(|ahead| FOR_TESTS.get(ahead) == Some(&self.token(self.at + ahead))) {
                self.at += FOR_TESTS.len();
                self.skip_of_tests();
            } else if here == "use" {
                self.at += 1;
                self.use_tree(Vec::new());
            } else if !follows_a_path && self.starts_a_path(here) && self.token(self.at + 1) == "::" {
                self.path_in_code();
            } else {
                self.at += 1;
            }
        }
    }

    /// The token at `at`; behind the end it is empty.
    fn token(&self, at: usize) -> &'a str {
        self.tokens.get(at).map_or("", |(_, token)| token)
    }

    fn declared_modules(&self) -> Vec<&'a str> {
        let declared = |at: &usize| self.token(*at) == "mod" && self.token(at + 2) == ";";
        (0..self.tokens.len()).filter(declared).map(|at| self.token(at + 1)).collect()
    }

    fn starts_a_path(&self, token: &str) -> bool {
        matches!(token, "crate" | "self" | "super") || self.children.contains(&token)
    }

    /// Passes a `use` or a `mod NAME;` that is there for tests only, and notes the module.
    fn skip_of_tests(&mut self) {
        match (self.token(self.at), self.token(self.at + 1), self.token(self.at + 2)) {
            ("mod", name, ";") => self.found.test_modules.push(name.to_string()),
            ("use", ..) => {
                while !matches!(self.token(self.at), ";" | "") {
                    self.at += 1;
                }
            }
            _ => {}
        }
    }

    /// Reads `a::b`, `a::{b, c as d}` or `a::*`, behind `use` or inside the braces of one.
    fn use_tree(&mut self, mut path: Vec<&'a str>) {
        let line = self.tokens.get(self.at).map_or(0, |(line, _)| *line);
        let shared = path.len();
        let mut name = None;
        while self.at < self.tokens.len() {
            let token = self.token(self.at);
            match token {
                "{" => {
                    while !matches!(self.token(self.at), "}" | "") {
                        self.at += 1;
                        self.use_tree(path.clone());
                    }
                    self.at += 1;
                    return;
                }
                "::" => {}
                "as" => {
                    name = Some(self.token(self.at + 1));
                    self.at += 1;
                }
                "*" => path.push(token),
                _ if token.starts_with(is_word) => path.push(token),
                _ => break,
            }
            self.at += 1;
        }
        if path.len() == shared {
            return; // Behind the last comma.
        }
        if path.len() > 1 && path.last() == Some(&"self") {
            path.pop();
        }
        let name = name.or(path.last().copied());
        self.add(line, &path, name);
    }

    fn path_in_code(&mut self) {
        let line = self.tokens.get(self.at).map_or(0, |(line, _)| *line);
        let mut path = vec![self.token(self.at)];
        self.at += 1;
        while self.token(self.at) == "::" && self.token(self.at + 1).starts_with(is_word) {
            path.push(self.token(self.at + 1));
            self.at += 2;
        }
        self.add(line, &path, None);
    }

    /// Adds `path`, if it is one of this crate.
    fn add(&mut self, line: usize, path: &[&str], name: Option<&str>) {
        let climbs = path.iter().take_while(|part| **part == "super").count();
        let from = match path.first() {
            Some(&"crate") => &[],
            Some(&"super") => &self.here[..self.here.len().saturating_sub(climbs)],
            Some(first) if self.starts_a_path(first) => self.here,
            _ => return,
        };
        let rest = path.iter().skip_while(|part| matches!(**part, "crate" | "self" | "super"));
        let path: Vec<String> = from.iter().chain(rest).map(|part| (*part).to_string()).collect();
        if !path.is_empty() {
            self.found.paths.push(Import { line, path, name: name.map(str::to_string) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file `a/b` imports, as `line path` and ` as name` where a `use` gives another name than the last.
    fn imports(text: &str) -> Vec<String> {
        let shown = |import: Import| {
            let last = import.path.last().cloned();
            let renamed = import.name.filter(|name| Some(name) != last.as_ref());
            format!(
                "{} {}{}",
                import.line,
                import.path.join("/"),
                renamed.map_or(String::new(), |name| format!(" as {name}"))
            )
        };
        Imports::of(&RustText::of(text), &["a", "b"]).paths.into_iter().map(shown).collect()
    }

    #[test]
    fn every_way_to_name_a_file_is_an_import() {
        for (text, expected) in [
            ("use crate::c::D;", &["1 c/D"][..]),
            ("pub use super::D;", &["1 a/D"]),
            ("use super::super::c::D;", &["1 c/D"]),
            ("use self::c::D;", &["1 a/b/c/D"]),
            ("use crate::c::{self, D, e::{F, G}};", &["1 c", "1 c/D", "1 c/e/F", "1 c/e/G"]),
            ("use crate::c::{\n    D,\n    E,\n};\nuse crate::f::*;", &["2 c/D", "3 c/E", "5 f/*"]),
            ("use crate::c::D as E;", &["1 c/D as E"]),
            ("use {crate::c, super::d, std::fmt};", &["1 c", "1 a/d"]),
            ("fn f() { crate::c::d::<E>(super::g()) }", &["1 c/d", "1 a/g"]),
            ("fn f(self) -> super::G { self.g(Self::H) }", &["1 a/G"]),
            ("mod c;\nuse c::D;\nfn f() { c::g(); x::c::g(); c.g(); d::g(); }", &["2 a/b/c/D", "3 a/b/c/g"]),
            ("macro_rules! m { () => { $crate::c::D } }", &["1 c/D"]),
        ] {
            assert_eq!(imports(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_import_is_left_out() {
        for text in [
            "use std::fmt;",
            "// use crate::c;",
            "f(\"crate::c::D\");",
            "pub(crate) fn f<'a>() -> impl Iterator + use<'a> {}",
            "#[cfg(test)]\nuse crate::c::D;",
            "fn f() {}\n\n#[cfg(test)]\nmod tests {\n    use crate::c::D;\n}\n",
            "use crate",
            "use crate::{",
            "use crate::{,}",
        ] {
            assert_eq!(imports(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn modules_of_tests_are_known() {
        let text = RustText::of("mod a;\n#[cfg(test)]\nmod tests;\n#[cfg(test)] mod cases;\n");
        let found = Imports::of(&text, &[]);
        assert_eq!(found.test_modules, ["tests", "cases"]);
    }
}
