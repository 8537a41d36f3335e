//! Cases as they stand in the files: raw bytes that a reader can read, and what is expected of larder.
//!
//! ```text
//! # a comment
//! === title
//! GET {page} HTTP/1.1
//! Host: site.test
//!
//! --- 200 open | php: 400 close
//! ```
//!
//! Each line between `===` and `---` ends in CR LF, unless a `\` is its last character. `\r`, `\n`, `\t`, `\0`, `\\` and
//! `\xHH` are bytes. What stands in braces is filled in:
//!
//! - `{page}`, `{page2}`: the target of a page of its own, with an id nobody can guess; `{id}`: the id of the first.
//! - `{evil}`: the same with an id that nobody asked for. Nobody may ever see it.
//! - `{rest}`, `{rest+5}`, `{rest-5}`: how many bytes come after the next empty line, more or less so many.
//! - `{a*9000}`: something 9000 times.
//! - any other name that the player of the case gives.
//!
//! Where the first block of a file is `*** ... ***`, it is a template: each line after it is a case, `{line}` of the
//! template, and its expectation behind ` --- `.

use std::fs;
use std::path::{Path, PathBuf};

/// One case of a file.
#[derive(Clone, Debug)]
pub struct Case {
    /// Where it stands: `smuggling: title`.
    pub name: String,
    /// The bytes, not filled in.
    pub text: String,
    /// What is behind `---`.
    pub expected: String,
    file: PathBuf,
    /// The line of the expectation, from 0.
    line: usize,
}

impl Case {
    /// What is expected at this place: behind `PLACE:`, or else at the beginning.
    pub fn expected_at(&self, place: &str) -> String {
        let mut general = "";
        for part in self.expected.split('|').map(str::trim) {
            match part.split_once(": ") {
                Some((name, own)) if name == place => return own.to_owned(),
                Some(_) => {}
                None => general = part,
            }
        }
        general.to_owned()
    }

    /// Writes what was found at each place into the file of the case.
    pub fn rewrite(&self, found: &[(&str, String)]) {
        let (_, general) = &found[0];
        let others = found.iter().filter(|(_, one)| one != general).map(|(place, one)| format!(" | {place}: {one}"));
        let expected = format!("{general}{}", others.collect::<String>());
        let text = fs::read_to_string(&self.file).expect("the case came from it");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let line = &mut lines[self.line];
        let kept = line.find("--- ").map_or(line.as_str(), |at| &line[..at]);
        *line = format!("{kept}--- {expected}");
        fs::write(&self.file, lines.join("\n") + "\n").expect("the case can be rewritten");
    }
}

/// All cases of the files in a folder beside this one, in order.
pub fn all(folder: &str) -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/hostile").join(folder);
    let mut files: Vec<PathBuf> =
        fs::read_dir(&folder).expect("the cases are there").map(|entry| entry.expect("it reads").path()).collect();
    files.sort();
    files.iter().flat_map(|file| of_file(file)).collect()
}

fn of_file(file: &Path) -> Vec<Case> {
    let text = fs::read_to_string(file).expect("it is text");
    let class = file.file_stem().expect("it has a name").to_string_lossy();
    let (mut cases, mut template, mut block): (Vec<Case>, Option<String>, Option<(String, String)>) =
        Default::default();
    let mut in_template = false;
    for (number, line) in text.lines().enumerate() {
        let case = |title: &str, text: String, expected: &str| Case {
            name: format!("{class}: {title}"),
            text,
            expected: expected.trim().to_owned(),
            file: file.to_owned(),
            line: number,
        };
        if line == "***" {
            in_template = !in_template;
            template.get_or_insert_default();
        } else if let (true, Some(template)) = (in_template, &mut template) {
            *template += &format!("{line}\n");
        } else if let Some((title, text)) = &mut block {
            match line.strip_prefix("---") {
                Some(expected) => {
                    cases.push(case(title, std::mem::take(text), expected));
                    block = None;
                }
                None => *text += &format!("{line}\n"),
            }
        } else if let Some(title) = line.strip_prefix("=== ") {
            block = Some((title.to_owned(), String::new()));
        } else if let (false, Some(template)) = (line.is_empty() || line.starts_with("# "), &template) {
            let (own, expected) =
                line.split_once("--- ").unwrap_or_else(|| panic!("{file:?}:{number}: no expectation"));
            let own = own.strip_suffix(' ').unwrap_or(own);
            cases.push(case(own, template.replace("{line}", own), expected));
        } else {
            assert!(line.is_empty() || line.starts_with("# "), "{file:?}:{number}: {line:?}");
        }
    }
    assert!(block.is_none(), "{file:?}: a case without an end");
    cases
}

/// The bytes of a case: its escapes undone, and its braces filled by `name`.
pub fn bytes_of(text: &str, name: &impl Fn(&str) -> Option<Vec<u8>>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(line) = rest.split_inclusive('\n').next() {
        rest = &rest[line.len()..];
        let line = line.strip_suffix('\n').unwrap_or(line);
        let is_open = line.ends_with('\\') && !line.ends_with("\\\\");
        let line = if is_open { &line[..line.len() - 1] } else { line };
        let rest_len = || {
            let after = rest.split_once("\n\n").map_or("", |(_, body)| body);
            bytes_of(rest.strip_prefix('\n').unwrap_or(after), name).len()
        };
        fill(line, &|word| number_of_rest(word, rest_len).or_else(|| name(word)), &mut out);
        if !is_open {
            out.extend(b"\r\n");
        }
    }
    out
}

/// `rest`, `rest+5` or `rest-5` as a number.
fn number_of_rest(word: &str, rest_len: impl Fn() -> usize) -> Option<Vec<u8>> {
    let by = word.strip_prefix("rest")?;
    let by: i64 = if by.is_empty() { 0 } else { by.parse().ok()? };
    Some((rest_len() as i64 + by).to_string().into_bytes())
}

fn fill(line: &str, name: &impl Fn(&str) -> Option<Vec<u8>>, out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = rest.find(['\\', '{']) {
        out.extend(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        if let Some(word) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(word, _)| word) {
            rest = &rest[word.len() + 2..];
            match word.rsplit_once('*').map(|(what, times)| (what, times.parse::<usize>())) {
                Some((what, Ok(times))) => {
                    let mut one = Vec::new();
                    fill(what, name, &mut one);
                    out.extend(one.repeat(times));
                }
                _ => out.extend(name(word).unwrap_or_else(|| panic!("{{{word}}} in {line:?}"))),
            }
            continue;
        }
        let (byte, len) = match rest.as_bytes() {
            [b'\\', b'r', ..] => (b'\r', 2),
            [b'\\', b'n', ..] => (b'\n', 2),
            [b'\\', b't', ..] => (b'\t', 2),
            [b'\\', b'0', ..] => (0, 2),
            [b'\\', b'\\', ..] => (b'\\', 2),
            [b'\\', brace @ (b'{' | b'}'), ..] => (*brace, 2),
            [b'\\', b'x', ..] => (u8::from_str_radix(&rest[2..4], 16).expect("two digits"), 4),
            _ => panic!("an escape in {line:?} at {rest:?}"),
        };
        out.push(byte);
        rest = &rest[len..];
    }
    out.extend(rest.as_bytes());
}

#[test]
fn a_case_says_its_bytes() {
    let name = |word: &str| (word == "page").then(|| b"/p".to_vec());
    for (text, bytes) in [
        ("GET {page}\n\n", &b"GET /p\r\n\r\n"[..]),
        ("a\\\nb\\n\\x41\\0\\\\\n", b"ab\nA\0\\\r\n"),
        ("L: {rest}\n\nabc\\\n", b"L: 3\r\n\r\nabc"),
        ("L: {rest-1}\nM: n\n\n{page}\n", b"L: 3\r\nM: n\r\n\r\n/p\r\n"),
        ("{ab*3}{\\n*2}\\\n", b"ababab\n\n"),
    ] {
        assert_eq!(bytes_of(text, &name), bytes, "{text:?}");
    }
}
