//! The configuration: whether it can be used, and what `larder -t` warns of.

use larder_conf::Severity;

use super::finding::{Finding, Found};
use super::patient::Patient;
use crate::remark::Remark;
use crate::shell::quoted;

/// Errors, warnings, and likely mistakes.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    let file = patient.conf_file.display().to_string();
    let test = format!("larder -t -c {}", quoted(&file));
    for remark in &patient.errors {
        // Keys are root's: for others it is no error that they cannot be read.
        if !patient.is_root && remark.is_forbidden() {
            found.unknown(format!("{} (be root)", remark.in_a_line()));
            continue;
        }
        let finding = Finding::error(remark.in_a_line()).why(format!("larder does not start with {file}"));
        found.add(mended(finding, remark, &test));
    }
    for remark in patient.warnings.iter().filter(|remark| remark.severity == Severity::Warning) {
        // Which another check looks at.
        if remark.message.starts_with("the certificate ") {
            continue;
        }
        let finding = Finding::warning(remark.in_a_line()).why(remark.label.clone().unwrap_or_default());
        found.add(mended(finding, remark, &test));
    }
    if patient.errors.is_empty() && patient.config.is_some() {
        found.fine(format!("{file} can be used"));
    }
}

fn mended(finding: Finding, remark: &Remark, test: &str) -> Finding {
    match &remark.help {
        Some(help) => finding.mend(format!("# {help}")).mend(test),
        None => finding.mend(test),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Sick;

    #[test]
    fn what_lint_says_is_a_finding() {
        let cached =
            "proxy_cache_path /p keys_zone=p:1m; server { location / { proxy_pass http://127.0.0.1; proxy_cache p;";
        for (http, severity) in [
            (format!("http {{ {cached} }} }} }}"), None),
            (format!("http {{ {cached} proxy_ignore_headers Set-Cookie; }} }} }}"), Some("warning")),
            ("http { server { lisen 80; } }".to_owned(), Some("error")),
            (
                "http { server { listen 443 ssl; ssl_certificate /none; ssl_certificate_key /none; } }".to_owned(),
                Some("error"),
            ),
        ] {
            let found = Sick::new().config(&http).look("configuration");
            assert_eq!(found.severity(), severity, "{http}: {found:?}");
            assert_eq!(severity.is_some(), found.text().contains("mend: "), "{found:?}");
        }
        let none = Sick::new().look("configuration");
        assert!(none.severity() == Some("error") && none.text().contains("/etc/larder/larder.conf"), "{none:?}");
    }
}
