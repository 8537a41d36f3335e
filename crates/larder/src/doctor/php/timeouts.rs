//! How long a script may run, against how long larder waits for it.

use std::time::Duration;

use super::super::finding::{Finding, Found};
use super::super::patient::Patient;

/// `request_terminate_timeout` against `fastcgi_read_timeout`.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    for (origin, pool) in patient.php().asked(patient.machine) {
        let (ends, waits) = (pool.time("request_terminate_timeout"), origin.read_timeout);
        let asked = format!("fastcgi_read_timeout is {} s in {}", waits.as_secs(), origin.place);
        let mend = pool.set("request_terminate_timeout", format!("{}s", waits.as_secs() + 5));
        let finding = if ends == Duration::ZERO {
            Finding::note(format!("{} never ends a script that hangs; {asked}", pool.shown()))
                .why("larder answers 504, and the child stays occupied until somebody restarts php-fpm")
        } else if ends > waits.saturating_mul(2) {
            Finding::warning(format!("{} ends a script after {} s; {asked}", pool.shown(), ends.as_secs()))
                .why("larder has answered 504 long before, and the child works on for nobody")
        } else if ends < waits / 2 {
            Finding::note(format!("{} ends a script after {} s already; {asked}", pool.shown(), ends.as_secs()))
                .why("the longer patience of larder never counts: such a request is answered 502")
        } else {
            found.fine(format!("{}: {} s, {asked}", pool.shown(), ends.as_secs()));
            continue;
        };
        found.add(mend.into_iter().fold(finding, Finding::mend));
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::Sick;

    #[test]
    fn a_script_ends_about_when_larder_gives_up() {
        for (said, waits, severity) in [
            ("", "60s", Some("note")),
            ("request_terminate_timeout = 0", "60s", Some("note")),
            ("request_terminate_timeout = 65s", "60s", None),
            ("request_terminate_timeout = 10m", "60s", Some("warning")),
            ("request_terminate_timeout = 20", "60s", Some("note")),
            ("request_terminate_timeout = 10m", "600s", None),
        ] {
            let pool = format!("[www]\nlisten = 127.0.0.1:9000\n{said}\n");
            let http = format!(
                "http {{ server {{ location / {{ fastcgi_pass 127.0.0.1:9000; fastcgi_read_timeout {waits}; }} }} }}"
            );
            let found = Sick::new().file("/etc/php-fpm.d/www.conf", &pool).config(&http).look("php-timeouts");
            assert_eq!(found.severity(), severity, "{said} {waits}: {found:?}");
        }
    }
}
