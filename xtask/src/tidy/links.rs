//! Relative links in Markdown lead somewhere, down to the heading.

use super::Finding;
use std::path::{Component, Path, PathBuf};

/// Checks the Markdown file `file`; `exists` and `read` answer for paths relative to the root.
pub fn check(
    file: &Path,
    text: &str,
    exists: &dyn Fn(&Path) -> bool,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in links(text) {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let Some(path) = resolve(file, path) else {
            findings.push(finding(file, line, format!("the link `{target}` leaves the repository")));
            continue;
        };
        if !exists(&path) {
            findings.push(finding(file, line, format!("the link `{target}` leads to nothing")));
            continue;
        }
        let is_markdown = path.extension().is_some_and(|extension| extension == "md");
        if heading.is_empty() || !is_markdown {
            continue;
        }
        if !read(&path).is_some_and(|text| has_heading(&text, heading)) {
            findings.push(finding(file, line, format!("`{}` has no heading `#{heading}`", path.display())));
        }
    }
    findings
}

fn finding(file: &Path, line: usize, fact: String) -> Finding {
    Finding { file: file.to_path_buf(), line, fact, mend: "correct the link, or write what it leads to".into() }
}

/// The relative targets of `[text](target)` and `[name]: target`, outside code, with line numbers from 1.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (index, line) in prose(text) {
        if let Some((_, target)) = line.split_once("]: ").filter(|_| line.starts_with('[')) {
            found.extend(relative(target).map(|target| (index, target)));
        }
        for (open, _) in line.match_indices("](") {
            // An even number of backticks before it: not inside a code span.
            if line[..open].matches('`').count() % 2 == 1 {
                continue;
            }
            let rest = &line[open + 2..];
            if let Some(target) = rest.split(')').next() {
                found.extend(relative(target).map(|target| (index, target)));
            }
        }
    }
    found
}

/// The lines outside code fences, numbered from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut in_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then_some((index + 1, line))
    })
}

/// `target` without its title, if it names a file of the repository.
fn relative(target: &str) -> Option<&str> {
    let target = target.split_whitespace().next()?;
    let has_scheme =
        target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|char| char.is_ascii_alphanumeric()));
    (!has_scheme && !target.starts_with("//")).then_some(target)
}

/// `target` as seen from `file`, relative to the root; `None` if it climbs out of it.
fn resolve(file: &Path, target: &str) -> Option<PathBuf> {
    if target.is_empty() {
        return Some(file.to_path_buf());
    }
    let from = if target.starts_with('/') { Path::new("") } else { file.parent().unwrap_or(Path::new("")) };
    let mut path = PathBuf::new();
    for part in from.join(target.trim_start_matches('/')).components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::ParentDir => {
                if !path.pop() {
                    return None;
                }
            }
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    Some(path)
}

/// Whether a heading of `text` has the anchor `wanted`, by the rules that code hosts share.
fn has_heading(text: &str, wanted: &str) -> bool {
    let headings = prose(text).filter_map(|(_, line)| line.strip_prefix('#'));
    headings.map(|heading| anchor(heading.trim_start_matches('#'))).any(|anchor| anchor == wanted)
}

fn anchor(heading: &str) -> String {
    let lower = heading.trim().to_lowercase();
    let kept = lower.chars().filter(|char| char.is_alphanumeric() || matches!(char, ' ' | '-' | '_'));
    kept.map(|char| if char == ' ' { '-' } else { char }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(text: &str) -> Vec<(usize, String)> {
        let pages =
            [("docs/a.md", "# One\n## Two: three `x`\n```\n# not one\n```\n"), ("docs/b.txt", ""), ("README.md", "")];
        let read =
            |path: &Path| pages.iter().find(|(name, _)| Path::new(name) == path).map(|(_, text)| text.to_string());
        let exists = |path: &Path| read(path).is_some() || path == Path::new("docs");
        let findings = check(Path::new("docs/here.md"), text, &exists, &read);
        findings.into_iter().map(|finding| (finding.line, finding.fact)).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        for text in [
            "[a](a.md) and [b](b.txt#part) and [up](../README.md) and [root](/docs/a.md)",
            "[a](a.md#one), [two](a.md#two-three-x), [folder](.)",
            "[web](https://example.org/x) [mail](mailto:a@example.org)",
            "`[code](nowhere.md)`\n```\n[code](nowhere.md)\n```",
            "[name]: a.md \"title\"",
        ] {
            assert_eq!(facts(text), [], "{text}");
        }
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        for (text, fact) in [
            ("[x](nowhere.md)", "the link `nowhere.md` leads to nothing"),
            ("[x](../../out.md)", "the link `../../out.md` leaves the repository"),
            ("[x](a.md#not-one)", "`docs/a.md` has no heading `#not-one`"),
            ("[name]: nowhere.md", "the link `nowhere.md` leads to nothing"),
        ] {
            assert_eq!(facts(text), [(1, fact.to_string())], "{text}");
        }
    }
}
