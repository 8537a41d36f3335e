//! Certificates: how long they are valid, and for which names.

use std::collections::BTreeSet;

use larder_conf::model::{Config, PemSource, Server, ServerName};
use larder_tls::{CertificateFacts, pem_certificates};

use super::finding::{Finding, Found};
use super::patient::Patient;
use crate::shell::quoted;

/// Looks at the certificates of all servers with TLS.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    let Some(config) = &patient.config else { return };
    let mut told = BTreeSet::new();
    for server in config.http.servers.iter().filter(|server| server.listens.iter().any(|listen| listen.ssl)) {
        let mut all = Vec::new();
        let mut is_known = true;
        for pair in &server.tls.certificates {
            let PemSource::File(file) = &pair.certificate else {
                is_known = false;
                found.unknown("an ssl_certificate whose file is named by a variable, or that is in the configuration");
                continue;
            };
            let path = &file.value;
            let facts = match patient.machine.bytes(path) {
                Ok(pem) => first(&pem).ok_or_else(|| format!("{} is no certificate", path.display())),
                Err(error) => Err(error.to_string()),
            };
            match facts {
                Ok(facts) => {
                    if told.insert(path.clone()) {
                        judge(patient, &path.display().to_string(), &facts, None, found);
                    }
                    all.push(facts);
                }
                Err(why) => {
                    is_known = false;
                    found.unknown(why);
                }
            }
        }
        if is_known && !all.is_empty() {
            names(patient, server, &all, found);
        }
    }
    if config.http.servers.iter().any(|server| server.acme.is_some()) {
        ordered(patient, config, found);
    }
}

/// Those that larder orders and renews itself.
fn ordered(patient: &Patient<'_>, config: &Config, found: &mut Found) {
    let Some(account) = &config.acme else { return };
    let state = account.state.value.display();
    let files = patient.machine.files(&format!("{state}/*/*.pem"));
    if files.is_empty() {
        found.unknown(format!("{state} has no certificate yet that this account may see"));
    }
    for file in files {
        match patient.machine.bytes(&file).map(|pem| first(&pem)) {
            Ok(Some(facts)) => {
                let renew = "grep acme /var/log/larder/error.log # why it is not renewed";
                judge(patient, &file.display().to_string(), &facts, Some(renew), found);
            }
            Ok(None) => found.unknown(format!("{} is no certificate", file.display())),
            Err(error) => found.unknown(error),
        }
    }
}

fn first(pem: &[u8]) -> Option<CertificateFacts> {
    let chain = pem_certificates(pem).ok()?;
    CertificateFacts::read(chain.first()?).ok()
}

/// `renew` is what mends one that larder renews itself.
fn judge(patient: &Patient<'_>, path: &str, facts: &CertificateFacts, renew: Option<&str>, found: &mut Found) {
    let now = i64::try_from(patient.senses.now()).unwrap_or(i64::MAX);
    let left = facts.not_after.saturating_sub(now);
    let by_others = match path.strip_prefix("/etc/letsencrypt/live/").and_then(|rest| rest.split('/').next()) {
        Some(name) => format!("certbot renew --cert-name {}", quoted(name)),
        None => format!("# a new certificate in {path}"),
    };
    let mend = |finding: Finding| match renew {
        Some(own) => finding.mend(own),
        None => finding.mend(by_others.clone()).mend(patient.reload()),
    };
    if left < 0 {
        let what = format!("the certificate {path} has expired ({})", facts.end);
        found.add(mend(Finding::error(what).why("browsers refuse the site")));
    } else if facts.not_before > now {
        let what = format!("the certificate {path} is not valid before {}", facts.start);
        found.add(mend(Finding::error(what).why("browsers refuse the site, unless this machine's clock is wrong")));
    } else if facts.ends_soon(now) {
        let what = format!("the certificate {path} expires in {} days ({})", left / DAY_SECONDS, facts.end);
        found.add(mend(Finding::warning(what).why("whatever renews it should have done so by now")));
    } else {
        found.fine(format!("{path}: {} days", left / DAY_SECONDS));
    }
}

/// Names of a server that none of its certificates has.
fn names(patient: &Patient<'_>, server: &Server, all: &[CertificateFacts], found: &mut Found) {
    for name in &server.names {
        let ServerName::Exact(exact) = &name.value else { continue };
        // `_` and names without a dot are for the default server.
        if !exact.contains('.') || all.iter().any(|facts| facts.names.iter().any(|own| covers(own, exact))) {
            continue;
        }
        let lines = patient.config.as_ref().map(|config| &config.lines);
        let place = lines.and_then(|lines| lines.of(name.span));
        let place = place.map_or_else(String::new, |(path, line)| format!(" in {}:{line}", path.display()));
        let has: Vec<&str> = all.iter().flat_map(|facts| &facts.names).map(String::as_str).collect();
        let has = match has.is_empty() {
            true => "none has a subjectAltName, and browsers read no other name".to_owned(),
            false => format!("they have {}", has.join(", ")),
        };
        found.add(
            Finding::warning(format!("no certificate of the server has its name {exact}{place}: {has}"))
                .why("browsers refuse the site under that name")
                .mend(format!("certbot certonly -d {}", quoted(exact))),
        );
    }
}

/// Whether a name of a certificate is `name`, or is `*.` and all but its first label (RFC 6125 6.4.3).
fn covers(own: &str, name: &str) -> bool {
    match own.strip_prefix("*.") {
        Some(rest) => name.split_once('.').is_some_and(|(_, parent)| parent.eq_ignore_ascii_case(rest)),
        None => own.eq_ignore_ascii_case(name),
    }
}

const DAY_SECONDS: i64 = 86_400;

#[cfg(test)]
mod tests {
    use larder_server::clock;
    use larder_testkit::{Certificates, KeyKind, Lifetime};

    use super::super::tests::Sick;

    fn machine(name: &str) -> Sick {
        let authority = Certificates::new("larder's tests");
        let certificate = authority.server_with(&["site.test", "*.site.test"], KeyKind::Ecdsa, Lifetime::Days(365));
        let http = format!(
            "http {{ server {{ listen 443 ssl; server_name {name};
             ssl_certificate /etc/tls/site.pem; ssl_certificate_key /etc/tls/site.key; }} }}"
        );
        Sick::new()
            .file("/etc/tls/site.pem", &certificate.pem)
            .file("/etc/tls/site.key", &certificate.key_pem)
            .config(&http)
    }

    #[test]
    fn a_certificate_near_its_end_is_told() {
        let now = clock::now().secs();
        for (name, at, severity) in [
            ("site.test", now, None),
            ("www.site.test", now, None),
            ("a.www.site.test", now, Some("warning")),
            ("other.test", now, Some("warning")),
            ("_", now, None),
            ("~^(.*)$", now, None),
            ("site.test", now + 360 * 86_400, Some("warning")),
            ("site.test", now + 400 * 86_400, Some("error")),
            ("site.test", now - 90 * 86_400, Some("error")),
        ] {
            let found = machine(name).at(at).look("certificates");
            assert_eq!(found.severity(), severity, "{name} {at}: {found:?}");
        }
    }

    #[test]
    fn a_certificate_with_nothing_but_a_common_name_is_told() {
        let plain = Certificates::new("larder's tests").client("site.test");
        let machine = machine("site.test").file("/etc/tls/site.pem", &plain.pem);
        let said = machine.file("/etc/tls/site.key", &plain.key_pem).look("certificates").text();
        assert!(said.contains("its name site.test in /etc/larder/larder.conf:2: none has a subjectAltName"), "{said}");
    }

    #[test]
    fn those_that_larder_orders_are_looked_at_too() {
        let authority = Certificates::new("larder's tests");
        let certificate = authority.server_with(&["site.test"], KeyKind::Ecdsa, Lifetime::Days(90));
        let http = "http { larder_acme_account state=/var/lib/acme; server { listen 443 ssl; server_name site.test; larder_acme on; } }";
        let machine = || Sick::new().config(http);
        let with = || machine().file("/var/lib/acme/ca/site.pem", &certificate.pem);
        let now = clock::now().secs();
        assert_eq!(with().look("certificates").severity(), None);
        assert_eq!(with().at(now + 89 * 86_400).look("certificates").severity(), Some("warning"));
        assert_eq!(with().at(now + 99 * 86_400).look("certificates").severity(), Some("error"));
        let none = machine().look("certificates");
        assert!(none.severity().is_none() && none.text().contains("no certificate yet"), "{none:?}");
    }

    #[test]
    fn one_that_cannot_be_read_is_not_known() {
        let http = "http { server { listen 443 ssl; ssl_certificate /none; ssl_certificate_key /none; } }";
        let found = Sick::new().config(http).look("certificates");
        assert!(found.severity().is_none() && found.text().contains("/none cannot be read"), "{found:?}");
    }
}
