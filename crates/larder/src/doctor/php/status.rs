//! The status page of a pool: what has happened since php-fpm was started.

use std::io;

use larder_origin::fastcgi;
use serde_json::Value;

use super::super::finding::{Finding, Found};
use super::super::patient::Patient;
use super::origins::here;
use super::pools::Pool;

/// Asks each pool that has one.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    for (_, pool) in patient.php().asked(patient.machine) {
        let Some(path) = pool.get("pm.status_path").filter(|path| path.starts_with('/')) else {
            let [change, reload] = pool.set("pm.status_path", "/fpm-status");
            found.unknown(format!(
                "{} has no pm.status_path, so that its queue is not known; to have one: {change} && {reload}",
                pool.shown()
            ));
            continue;
        };
        let Some(address) = pool.status_address() else { continue };
        let answer = patient.senses.ask_php(&here(&address, patient.machine), path);
        match answer.and_then(|answer| page(&answer)) {
            Ok(page) => judge(pool, &page, found),
            Err(error) => found.unknown(format!("{path} of {} gave no answer: {error}", pool.shown())),
        }
    }
}

/// The JSON behind the head of an answer.
fn page(answer: &[u8]) -> io::Result<Value> {
    let is_page = |value: &Value| value.get("pool").is_some();
    serde_json::from_slice(fastcgi::body_of(answer))
        .ok()
        .filter(is_page)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "it is no status page as JSON"))
}

fn judge(pool: &Pool, page: &Value, found: &mut Found) {
    let count = |key: &str| page.get(key).and_then(Value::as_u64).unwrap_or(0);
    let (reached, waiting, longest) = (count("max children reached"), count("listen queue"), count("max listen queue"));
    let since = count("start since");
    let [change, reload] = pool.set("pm.max_children", pool.children_max().map_or(10, |most| most.saturating_mul(2)));
    let more =
        |finding: Finding| finding.mend(format!("# if memory allows (see php-memory): {change}")).mend(reload.clone());
    if waiting > 0 {
        let what = format!("{waiting} requests wait for a child of {} now", pool.shown());
        found.add(more(Finding::error(what).why("all children are busy; visitors wait, also those of cheap pages")));
    } else if reached > 0 {
        let what = format!(
            "{} has had all its children busy {reached} times in {since} s; up to {longest} requests waited",
            pool.shown()
        );
        found.add(more(Finding::warning(what).why("visitors waited for a child: cache more, or have more children")));
    } else {
        found.fine(format!(
            "{}: {} of {} children busy, nobody waited in {since} s",
            pool.shown(),
            count("active processes"),
            count("total processes")
        ));
    }
    let slow = count("slow requests");
    if slow > 0 {
        let log = pool.get("slowlog").unwrap_or("its slowlog");
        found.add(
            Finding::note(format!("{slow} requests of {} were slow", pool.shown()))
                .why("each of them is a page that the cache should have, or code to mend")
                .mend(format!("less {log}")),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::Sick;

    fn machine(pool: &str) -> Sick {
        let http = "http { server { location / { fastcgi_pass unix:/run/php.sock; } } }";
        Sick::new()
            .file("/etc/php/8.2/fpm/pool.d/www.conf", &format!("[www]\nlisten = /run/php.sock\n{pool}\n"))
            .config(http)
    }

    #[test]
    fn the_status_page_tells_who_waits() {
        for (page, severity) in [
            (r#"{"pool":"www","listen queue":0,"max children reached":0,"active processes":1}"#, None),
            (r#"{"pool":"www","listen queue":0,"max children reached":3}"#, Some("warning")),
            (r#"{"pool":"www","listen queue":2,"max children reached":3}"#, Some("error")),
            (r#"{"pool":"www","slow requests":2}"#, Some("note")),
            (r#"{"error":1}"#, None),
            ("no JSON", None),
        ] {
            let answer = format!("Content-Type: application/json\r\n\r\n{page}");
            let found = machine("pm.status_path = /status").php(Some(&answer)).look("php-status");
            assert_eq!(found.severity(), severity, "{page}: {found:?}");
            assert_eq!(found.0.unknown.is_empty(), page.contains("pool"), "{page}: {found:?}");
        }
    }

    #[test]
    fn a_pool_that_tells_nothing_is_not_known() {
        let found = machine("").look("php-status");
        assert!(found.severity().is_none() && found.text().contains("has no pm.status_path"), "{found:?}");
        let found = machine("pm.status_path = /status").php(None).look("php-status");
        assert!(found.severity().is_none() && found.text().contains("gave no answer"), "{found:?}");
    }
}
