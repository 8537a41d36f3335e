//! Which way the crates point, and that every one of them obeys the workspace's lints.

use super::Finding;
use std::path::Path;

/// Who may use whom. What is absent matters as much as what is there.
///
/// The first list is of `[dependencies]`; `larder-testkit` and what stands in the second list may
/// also be used by a crate's tests. Nothing uses `larder`, and nothing but tests uses the testkit.
const MAY_USE: [(&str, &[&str], &[&str]); 18] = [
    ("larder-http", &[], &[]),
    ("larder-source", &[], &[]),
    ("larder-vsl", &[], &[]),
    ("larder-conf", &["larder-source"], &[]),
    ("larder-store", &[], &[]),
    ("larder-tls", &[], &[]),
    ("larder-acme", &[], &[]),
    ("larder-cluster", &[], &[]),
    ("larder-compress", &["larder-http"], &[]),
    ("larder-vcl", &["larder-http", "larder-source"], &[]),
    ("larder-cache", &["larder-store", "larder-http"], &[]),
    ("larder-origin", &["larder-http", "larder-tls"], &[]),
    (
        "larder-server",
        &[
            "larder-cache",
            "larder-store",
            "larder-origin",
            "larder-vcl",
            "larder-vsl",
            "larder-conf",
            "larder-http",
            "larder-tls",
            "larder-compress",
            "larder-acme",
            "larder-cluster",
        ],
        &[],
    ),
    (
        "larder",
        &[
            "larder-server",
            "larder-cache",
            "larder-store",
            "larder-origin",
            "larder-vcl",
            "larder-vsl",
            "larder-conf",
            "larder-source",
            "larder-http",
            "larder-tls",
            "larder-compress",
            "larder-acme",
        ],
        &[],
    ),
    ("larder-testkit", &[], &[]),
    (
        "larder-fuzz",
        &[
            "larder-http",
            "larder-conf",
            "larder-vcl",
            "larder-vsl",
            "larder-store",
            "larder-cache",
            "larder-origin",
            "larder-server",
        ],
        &[],
    ),
    ("larder-fuzz-targets", &["larder-fuzz"], &[]),
    ("xtask", &["larder-cluster", "larder-store", "larder-testkit"], &[]),
];

/// Checks one crate's `Cargo.toml`.
pub fn check(file: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line: usize, fact: String, mend: String| {
        findings.push(Finding { file: file.to_path_buf(), line, fact, mend });
    };
    let name = package_name(text).unwrap_or_default();
    let Some((_, may_use, tests_may_use)) = MAY_USE.iter().find(|(known, ..)| *known == name) else {
        find(
            1,
            format!("the crate `{name}` has no row in the table of who may use whom"),
            "add it to MAY_USE in xtask/src/tidy/crates.rs, with the least it needs".into(),
        );
        return findings;
    };

    let mut obeys_lints = false;
    for (section, number, line) in lines_with_section(text) {
        if section == "lints" && squeezed(line) == "workspace=true" {
            obeys_lints = true;
        }
        let Some(used) = own_crate(line) else {
            continue;
        };
        match section {
            "dependencies" | "build-dependencies" if !may_use.contains(&used) => find(
                number,
                format!("`{name}` may not use `{used}`"),
                "turn the dependency round, or pass in what is needed as an argument".into(),
            ),
            "dev-dependencies"
                if used != "larder-testkit" && !may_use.contains(&used) && !tests_may_use.contains(&used) =>
            {
                find(
                    number,
                    format!("the tests of `{name}` may not use `{used}`"),
                    "move the test to the crate that may use both".into(),
                );
            }
            _ => {}
        }
    }
    if !obeys_lints {
        find(
            1,
            format!("`{name}` does not take the workspace's lints, so `unsafe` is not forbidden in it"),
            "add `[lints]` with `workspace = true`".into(),
        );
    }
    findings
}

fn package_name(text: &str) -> Option<&str> {
    lines_with_section(text).filter(|(section, ..)| *section == "package").find_map(|(.., line)| {
        line.strip_prefix("name")?.trim().strip_prefix('=')?.trim().strip_prefix('"')?.strip_suffix('"')
    })
}

/// Each line that is neither blank, comment nor heading: its section, its number from 1, its text.
fn lines_with_section(text: &str) -> impl Iterator<Item = (&str, usize, &str)> {
    let mut section = "";
    text.lines().enumerate().filter_map(move |(index, line)| {
        let line = line.trim();
        if let Some(heading) = line.strip_prefix('[') {
            section = heading.trim_end_matches(']');
            return None;
        }
        (!line.is_empty() && !line.starts_with('#')).then_some((section, index + 1, line))
    })
}

/// The crate of ours that a dependency line names.
fn own_crate(line: &str) -> Option<&str> {
    let name = line.split(['.', '=', ' ']).next()?;
    (name == "larder" || name.starts_with("larder-")).then_some(name)
}

fn squeezed(line: &str) -> String {
    line.chars().filter(|char| !char.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(manifest: &str) -> Vec<(usize, String)> {
        let findings = check(Path::new("crates/x/Cargo.toml"), manifest);
        findings.into_iter().map(|finding| (finding.line, finding.fact)).collect()
    }

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n\n[lints]\nworkspace = true\n\n{rest}")
    }

    #[test]
    fn dependencies_point_one_way() {
        for (name, rest, found) in [
            ("larder-cache", "[dependencies]\nlarder-store.workspace = true", None),
            (
                "larder-cache",
                "[dependencies]\nlarder-conf.workspace = true",
                Some((8, "`larder-cache` may not use `larder-conf`")),
            ),
            (
                "larder-store",
                "[dependencies]\nlarder-http = { path = \"../http\" }",
                Some((8, "`larder-store` may not use `larder-http`")),
            ),
            ("larder-server", "[dependencies]\n# larder.workspace = true\nlarder-conf.workspace = true", None),
            (
                "larder-server",
                "[dependencies]\nlarder.workspace = true",
                Some((8, "`larder-server` may not use `larder`")),
            ),
            ("larder", "[dev-dependencies]\nlarder-testkit.workspace = true", None),
            (
                "larder",
                "[dependencies]\nlarder-testkit.workspace = true",
                Some((8, "`larder` may not use `larder-testkit`")),
            ),
            (
                "larder-http",
                "[dev-dependencies]\nlarder-conf.workspace = true",
                Some((8, "the tests of `larder-http` may not use `larder-conf`")),
            ),
            ("larder-http", "[dependencies]\nlarder_other = \"1\"", None),
        ] {
            let expected: Vec<_> = found.into_iter().map(|(line, fact)| (line, fact.to_string())).collect();
            assert_eq!(facts(&manifest(name, rest)), expected, "{name}: {rest}");
        }
    }

    #[test]
    fn a_crate_takes_the_lints_and_stands_in_the_table() {
        for (text, fact) in [
            (
                "[package]\nname = \"larder-http\"\n",
                "`larder-http` does not take the workspace's lints, so `unsafe` is not forbidden in it",
            ),
            (
                "[package]\nname = \"larder-http\"\n[lints.rust]\nworkspace = true",
                "`larder-http` does not take the workspace's lints, so `unsafe` is not forbidden in it",
            ),
            (
                "[package]\nname = \"larder-new\"\n[lints]\nworkspace=true",
                "the crate `larder-new` has no row in the table of who may use whom",
            ),
        ] {
            assert_eq!(facts(text), [(1, fact.to_string())], "{text}");
        }
    }
}
