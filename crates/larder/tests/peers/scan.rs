//! testssl.sh against a server that is told its certificates and nothing else: the defaults have to be good.

use crate::server::{Server, is_nginx, program, run};

/// Findings that are not about what the server does, each with its reason.
const NOT_OURS: [(&str, &str); 6] = [
    ("cert_revocation", "the authority of the test has no revocation service"),
    ("cert_chain_of_trust", "no system trusts the authority of the test"),
    ("cert_trust", "no system trusts the authority of the test"),
    ("cert_caIssuers", "nobody trusts the authority of the test"),
    ("DNS_CAArecord", "localhost has no DNS record"),
    ("cipher_order", "as in nginx the client chooses, among ciphers all of which are good: ssl_prefer_server_ciphers"),
];

/// Severities that may not occur.
const TOO_MUCH: [&str; 3] = ["MEDIUM", "HIGH", "CRITICAL"];

#[test]
fn a_scanner_finds_nothing_wrong_with_the_defaults() {
    let server = Server::start();
    let target = format!("localhost:{}", server.tls_port);
    let report = server.folder.join("scan.json");
    let report_name = report.display().to_string();
    // All but the headers, which are the site's, and the simulation of browsers, which takes long and judges nothing.
    let arguments = [
        "--quiet",
        "--warnings",
        "off",
        "--color",
        "0",
        "--ip",
        "127.0.0.1",
        "--add-ca",
        "authority.pem",
        "--jsonfile",
        &report_name,
        "--protocols",
        "--std",
        "--server-defaults",
        "--server-preference",
        "--fs",
        "--vulnerable",
        &target,
    ];
    let (said, _) = run(&program("testssl"), &arguments, server.folder.path());
    let report = std::fs::read_to_string(&report).unwrap_or_else(|error| panic!("{error}: {said}"));
    let findings = findings(&report);
    for id in ["TLS1_2", "TLS1_3", "heartbleed", "cert_subjectAltName"] {
        assert!(findings.iter().any(|finding| finding.id.starts_with(id)), "{id} was looked at:\n{said}");
    }
    let is_ours = |finding: &&Finding| !NOT_OURS.iter().any(|(id, _)| finding.id.split(' ').next() == Some(id));
    let bad: Vec<&Finding> =
        findings.iter().filter(|finding| TOO_MUCH.contains(&finding.severity.as_str())).filter(is_ours).collect();
    println!("{} findings, {} that are too much", findings.len(), bad.len());
    if is_nginx() {
        println!("nginx: not judged: {bad:?}");
        return;
    }
    assert!(bad.is_empty(), "{bad:#?}\n{said}");
}

/// One line of a report.
#[derive(Debug, Default, PartialEq, Eq)]
struct Finding {
    id: String,
    severity: String,
    finding: String,
}

/// The findings of a report, which has one member of an object on each line.
fn findings(report: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for line in report.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim().trim_end_matches(',').trim_matches('"').to_owned();
        let last: Option<&mut Finding> = findings.last_mut();
        match (name.trim().trim_matches('"'), last) {
            ("id", _) => findings.push(Finding { id: value, ..Finding::default() }),
            ("severity", Some(last)) => last.severity = value,
            ("finding", Some(last)) => last.finding = value,
            _ => {}
        }
    }
    findings
}

#[test]
fn a_report_is_understood() {
    let report = "[\n {\n \"id\"  : \"TLS1_3\",\n \"severity\" : \"OK\",\n \"finding\" : \"offered: final\"\n }\n]";
    let wanted = Finding { id: "TLS1_3".to_owned(), severity: "OK".to_owned(), finding: "offered: final".to_owned() };
    assert_eq!(findings(report), [wanted]);
}
