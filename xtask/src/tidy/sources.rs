//! Rules on one Rust file: what its crate may touch, its length, its name, and its open ends.

use super::Finding;
use super::rust_text::RustText;
use std::path::Path;

/// Past this, line one of a file says why it is long.
const LINES_MAX: usize = 800;

/// File and module names that say nothing about their subject.
const SAYS_NOTHING: [&str; 10] =
    ["util", "utils", "helper", "helpers", "manager", "managers", "common", "misc", "info", "data"];

/// Words with which an open end names what it waits for.
const WAITS: [&str; 5] = ["when ", "until ", "once ", "after ", "waits for "];

/// Words of code that some crates may not contain, and what to do instead.
struct Ban {
    words: &'static [&'static str],
    mend: &'static str,
    /// The crates that may not; all others may.
    crates: &'static [&'static str],
    /// Files that may all the same.
    except: &'static [&'static str],
}

const ALL: &[&str] = &[
    "larder-http",
    "larder-source",
    "larder-conf",
    "larder-vcl",
    "larder-vsl",
    "larder-store",
    "larder-tls",
    "larder-compress",
    "larder-acme",
    "larder-cluster",
    "larder-cache",
    "larder-origin",
    "larder-server",
    "larder",
];
const LIBRARIES: &[&str] = &[
    "larder-http",
    "larder-source",
    "larder-conf",
    "larder-vcl",
    "larder-vsl",
    "larder-store",
    "larder-tls",
    "larder-compress",
    "larder-acme",
    "larder-cluster",
    "larder-cache",
    "larder-origin",
    "larder-server",
];
/// Those that take bytes and the time, and give values.
const PURE: &[&str] = &[
    "larder-http",
    "larder-source",
    "larder-conf",
    "larder-vcl",
    "larder-vsl",
    "larder-tls",
    "larder-compress",
    "larder-cache",
];

const BANS: &[Ban] = &[
    Ban {
        words: &[
            "TcpStream",
            "TcpListener",
            "UdpSocket",
            "UnixStream",
            "UnixListener",
            "UnixDatagram",
            "ToSocketAddrs",
            "socket2",
        ],
        mend: "take bytes in and give values out; sockets belong to larder-server and larder-origin",
        crates: &[
            "larder-http",
            "larder-source",
            "larder-conf",
            "larder-vcl",
            "larder-store",
            "larder-tls",
            "larder-compress",
            "larder-cache",
        ],
        except: &[],
    },
    Ban {
        words: &["std::fs", "fs::", "File::", "OpenOptions", "tokio::fs", "rustix::fs"],
        mend: "take the bytes, or a `Loader`, as an argument",
        crates: PURE,
        except: &[],
    },
    Ban {
        words: &["tokio"],
        mend: "no runtime here: bytes and `now` in, values out",
        crates: &["larder-http", "larder-source", "larder-conf", "larder-vcl", "larder-tls", "larder-compress"],
        except: &[],
    },
    Ban {
        words: &["Instant::now", ".elapsed("],
        mend: "take `now` as an argument, so that a test can say what time it is",
        crates: PURE,
        except: &[],
    },
    Ban {
        words: &["SystemTime::now", "Timestamp::now", "Zoned::now", "clock_gettime"],
        mend: "take `now` as an argument; only crates/larder-server/src/clock.rs reads the time of day",
        crates: ALL,
        except: &["crates/larder-server/src/clock.rs"],
    },
    Ban {
        words: &["process::exit", "process::abort", "Command::new", "std::env", "env::var", "env::args"],
        mend: "return the fact; only the binary exits, starts processes or reads the environment",
        crates: LIBRARIES,
        except: &[],
    },
    Ban {
        words: &["unsafe"],
        mend: "find a safe crate; if there is none, the call goes to a crate of its own behind a safe function",
        crates: ALL,
        except: &[],
    },
    Ban { words: &["todo!", "unimplemented!", "dbg!"], mend: "finish it, or leave it out", crates: ALL, except: &[] },
];

/// Checks the Rust file `file`, whose `text` is given as it is and split.
pub fn check(file: &Path, text: &str, split: &RustText) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line: usize, fact: String, mend: String| {
        findings.push(Finding { file: file.to_path_buf(), line, fact, mend });
    };

    let name = crate_of(file);
    if !is_test(file) {
        for ban in BANS.iter().filter(|ban| ban.applies(name, file)) {
            for (number, line) in split.program_lines() {
                if let Some(word) = ban.words.iter().find(|word| has_word(line, word)) {
                    let word = word.trim_matches(|char: char| !char.is_alphanumeric() && char != '!');
                    find(number, format!("`{word}` in {name}"), ban.mend.into());
                }
            }
        }
    }
    if let Some(fact) = says_nothing(file) {
        find(1, fact, "name the one subject of the file".into());
    }
    let lines = text.lines().count();
    if lines > LINES_MAX && !explains_length(text) {
        find(
            1,
            format!("{lines} lines, more than {LINES_MAX}"),
            "split it by subject, or say on line one why it is long (`//! ... Long because ...`)".into(),
        );
    }
    for (index, line) in split.comments.lines().enumerate() {
        if is_open_end(line) {
            find(
                index + 1,
                "a TODO that does not say what it waits for".into(),
                "name it: `TODO when X is there: ...`, or do it".into(),
            );
        }
    }
    findings
}

impl Ban {
    fn applies(&self, name: &str, file: &Path) -> bool {
        self.crates.contains(&name) && !self.except.iter().any(|except| Path::new(except) == file)
    }
}

/// The crate `file` belongs to, by its path.
fn crate_of(file: &Path) -> &str {
    let mut parts = file.iter().filter_map(|part| part.to_str());
    match parts.next() {
        Some("crates") => parts.next().unwrap_or_default(),
        Some(first) => first,
        None => "",
    }
}

/// Whether the whole file is tests: below `tests/` or `benches/`, or a test module in a file of its own.
fn is_test(file: &Path) -> bool {
    let folders = file.parent().into_iter().flat_map(Path::iter);
    folders.into_iter().any(|part| matches!(part.to_str(), Some("tests" | "benches" | "examples")))
        || file.file_stem().is_some_and(|stem| stem == "tests")
}

/// Whether `line` has `word` with no further word character at the ends that are word characters.
fn has_word(line: &str, word: &str) -> bool {
    let is_word = |char: char| char.is_alphanumeric() || char == '_';
    line.match_indices(word).any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + word.len()..]);
        let free_before = !word.starts_with(is_word) || !before.ends_with(is_word);
        let free_after = !word.ends_with(is_word) || !after.starts_with(is_word);
        free_before && free_after
    })
}

fn says_nothing(file: &Path) -> Option<String> {
    let stem = file.file_stem()?.to_str()?;
    let name = if stem == "mod" { file.parent()?.file_name()?.to_str()? } else { stem };
    SAYS_NOTHING.contains(&name).then(|| format!("the module name `{name}` says nothing"))
}

/// Whether line one is a comment that speaks of the length: "long".
fn explains_length(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.starts_with("//")
        && first.to_lowercase().split(|char: char| !char.is_alphanumeric()).any(|word| word == "long")
}

fn is_open_end(comment: &str) -> bool {
    if has_word(comment, "FIXME") {
        return true;
    }
    has_word(comment, "TODO") && !WAITS.iter().any(|word| comment.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(file: &str, text: &str) -> Vec<String> {
        check(Path::new(file), text, &RustText::of(text))
            .into_iter()
            .map(|finding| format!("{}: {}", finding.line, finding.fact))
            .collect()
    }

    #[test]
    fn a_crate_opens_only_what_it_may() {
        for (file, text, fact) in [
            ("crates/larder-http/src/lib.rs", "use std::net::IpAddr;", None),
            ("crates/larder-http/src/lib.rs", "\nuse std::net::TcpStream;", Some("2: `TcpStream` in larder-http")),
            ("crates/larder-http/src/lib.rs", "// like TcpStream", None),
            ("crates/larder-http/src/lib.rs", "let now: SystemTime = date;", None),
            (
                "crates/larder-http/src/lib.rs",
                "let now = SystemTime::now();",
                Some("1: `SystemTime::now` in larder-http"),
            ),
            ("crates/larder-conf/src/load.rs", "fs::read(path)", Some("1: `fs` in larder-conf")),
            ("crates/larder-conf/src/load.rs", "prefs::read(path)", None),
            ("crates/larder-store/src/disk/log.rs", "use std::fs::File;", None),
            ("crates/larder-store/src/disk/log.rs", "UdpSocket::bind(a)", Some("1: `UdpSocket` in larder-store")),
            ("crates/larder-cache/src/lookup.rs", "start.elapsed()", Some("1: `elapsed` in larder-cache")),
            ("crates/larder-origin/src/pool.rs", "Instant::now()", None),
            ("crates/larder-origin/src/body.rs", "use std::fs::File;", None),
            ("crates/larder-origin/src/pool.rs", "SystemTime::now()", Some("1: `SystemTime::now` in larder-origin")),
            ("crates/larder-server/src/clock.rs", "SystemTime::now()", None),
            (
                "crates/larder-server/src/assemble.rs",
                "std::process::exit(1)",
                Some("1: `process::exit` in larder-server"),
            ),
            ("crates/larder/src/main.rs", "std::process::exit(1)", None),
            ("crates/larder/src/main.rs", "unsafe { f() }", Some("1: `unsafe` in larder")),
            ("crates/larder/src/main.rs", "#![forbid(unsafe_code)]", None),
            ("crates/larder-testkit/src/lib.rs", "SystemTime::now()", None),
        ] {
            assert_eq!(facts(file, text), fact.into_iter().collect::<Vec<_>>(), "{file}: {text}");
        }
    }

    #[test]
    fn tests_may_touch_what_they_like() {
        for (file, text) in [
            (
                "crates/larder-http/src/lib.rs",
                "#[cfg(test)]\nmod cases;\nfn f() {}\n#[cfg(test)]\nmod tests {\nuse std::net::TcpStream;\n}",
            ),
            ("crates/larder-http/src/h1/tests.rs", "use std::net::TcpStream;"),
            ("crates/larder-conf/tests/cases.rs", "std::fs::read(path)"),
            ("crates/larder-tls/examples/serve.rs", "use std::net::TcpListener;"),
        ] {
            assert_eq!(facts(file, text), [""; 0], "{file}");
        }
    }

    #[test]
    fn names_say_something() {
        for (file, fact) in [
            ("crates/larder/src/util.rs", Some("1: the module name `util` says nothing")),
            ("crates/larder/src/common/mod.rs", Some("1: the module name `common` says nothing")),
            ("crates/larder/src/mod.rs", None),
            ("crates/larder/src/database.rs", None),
        ] {
            assert_eq!(facts(file, ""), fact.into_iter().collect::<Vec<_>>(), "{file}");
        }
    }

    #[test]
    fn a_long_file_says_why() {
        let body = "fn f() {}\n".repeat(LINES_MAX);
        for (first, fact) in [
            ("//! A table.\n", Some("1: 801 lines, more than 800")),
            ("//! A table. Long because nginx has many directives.\n", None),
            ("let long = 1;\n", Some("1: 801 lines, more than 800")),
        ] {
            assert_eq!(
                facts("crates/larder/src/a.rs", &format!("{first}{body}")),
                fact.into_iter().collect::<Vec<_>>(),
                "{first}"
            );
        }
    }

    #[test]
    fn a_todo_names_what_it_waits_for() {
        for (text, fact) in [
            ("// TODO: make faster", Some("1: a TODO that does not say what it waits for")),
            ("// TODO when tokio has it: use it", None),
            ("let x = \"TODO\";", None),
            ("// FIXME", Some("1: a TODO that does not say what it waits for")),
            ("todo!()", Some("1: `todo!` in larder")),
        ] {
            assert_eq!(facts("crates/larder/src/a.rs", text), fact.into_iter().collect::<Vec<_>>(), "{text}");
        }
    }
}
