//! Who waits for a child of php-fpm: how many may, whether anybody listens, and whether larder may connect.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::accounts::Account;
use super::super::finding::{Finding, Found};
use super::super::patient::{BACKLOG_ENOUGH, Patient, sysctl};
use super::origins::Origin;
use super::pools::Pool;
use crate::serve::fpm::Address;

/// `listen.backlog`, and what the kernel leaves of it.
pub fn backlog(patient: &Patient<'_>, found: &mut Found) {
    let kernel = match patient.machine.number(SOMAXCONN) {
        Ok(Some(most)) => most,
        Ok(None) => return found.unknown(format!("{SOMAXCONN} has no number")),
        Err(error) => return found.unknown(error),
    };
    for (origin, pool) in patient.php().asked(patient.machine) {
        // -1 is as many as the kernel allows.
        let own = pool.number("listen.backlog").unwrap_or(DEFAULT).try_into().unwrap_or(kernel);
        if own.min(kernel) >= BACKLOG_ENOUGH {
            found.fine(format!("{}: {} requests may wait", pool.shown(), own.min(kernel)));
            continue;
        }
        let finding = Finding::warning(format!("only {} requests may wait for {}", own.min(kernel), pool.shown()))
            .why(beyond(&origin.address));
        found.add(match own < kernel {
            true => finding.mend(change(pool, "listen.backlog", "511")).mend(restart(pool)),
            false => finding.mend(sysctl("net.core.somaxconn", 4096)).mend(restart(pool)),
        });
    }
}

/// What comes of a queue that is full.
fn beyond(address: &Address) -> &'static str {
    match address {
        Address::Unix(_) => {
            "a Unix socket refuses the next ones: larder tries again until fastcgi_connect_timeout is over, and where \
             there is another server in the upstream it asks that"
        }
        Address::Tcp(_) => {
            "the kernel drops the next connections and tries again after a second, so that their visitors wait, in the \
             end for a 504"
        }
    }
}

fn change(pool: &Pool, key: &str, value: &str) -> String {
    let [change, _] = pool.set(key, value);
    change
}

/// Queue and rights are those with which the socket was made.
fn restart(pool: &Pool) -> String {
    format!("systemctl restart {}", pool.service())
}

/// Whether there is a socket where the configuration says, and who may connect to it.
pub fn sockets(patient: &Patient<'_>, found: &mut Found) {
    for origin in &patient.php().origins {
        let Address::Unix(path) = &origin.address else { continue };
        if !patient.machine.has(path) {
            absent(patient, origin, path, found);
            continue;
        }
        let is_hidden = path.starts_with("/tmp") || path.starts_with("/var/tmp");
        if is_hidden && patient.unit().is_ok_and(|unit| unit.is_some_and(|unit| unit.is_on("PrivateTmp"))) {
            found.add(
                Finding::error(format!(
                    "{} has a /tmp of its own, and does not see {}",
                    patient.unit_name(),
                    path.display()
                ))
                .why("each request for PHP is answered 502")
                .mend(format!("# in the pool and in {}: a socket in /run/php", origin.place)),
            );
            continue;
        }
        connects(patient, origin, path, found);
    }
}

/// A socket that is not there. Without any php-fpm, the site may have no PHP either.
fn absent(patient: &Patient<'_>, origin: &Origin, path: &Path, found: &mut Found) {
    let pools = &patient.php().pools;
    let what = format!("there is no socket {} (asked in {})", path.display(), origin.place);
    let finding = if pools.is_empty() { Finding::warning(what) } else { Finding::error(what) };
    let others: Vec<&str> = pools.iter().filter_map(|pool| pool.get("listen")).collect();
    let mend = match pools.iter().find(|pool| pool.listens_at(&origin.address, patient.machine)) {
        Some(pool) => format!("systemctl start {}", pool.service()),
        None if others.is_empty() => "apt-get install php-fpm".to_owned(),
        None => format!("# in {}: one of {}", origin.place, others.join(", ")),
    };
    found.add(finding.why("each request for PHP is answered 502").mend(mend));
}

/// Whether the account that serves may connect to a socket.
fn connects(patient: &Patient<'_>, origin: &Origin, path: &Path, found: &mut Found) {
    let user = patient.config.as_ref().and_then(|config| config.main.user.as_ref());
    let (name, group) = user.map_or((DEFAULT_USER, None), |user| (user.value.0.as_str(), user.value.1.as_deref()));
    let Some(account) = Account::named(patient.machine, name, group) else {
        return found.unknown(format!("/etc/passwd and /etc/group have no account {name} that serves"));
    };
    let outside = patient.machine.outside(path);
    let Ok(metadata) = outside.metadata() else {
        return found.unknown(format!("{} cannot be looked at", path.display()));
    };
    if account.may_write(&metadata) {
        return found.fine(format!("{} is there, and open to {name}", path.display()));
    }
    // `listen.acl_users`: the mode says nothing then.
    if rustix::fs::getxattr(&outside, c"system.posix_acl_access", &mut [0u8; 1024][..]).is_ok() {
        return found.unknown(format!("{} has an access list, which may have {name}", path.display()));
    }
    let pool = patient.php().pools.iter().find(|pool| pool.listens_at(&origin.address, patient.machine));
    let finding = Finding::error(format!(
        "{name}, which serves, may not connect to {} (mode {:o})",
        path.display(),
        metadata.mode() & 0o777
    ))
    .why("each request for PHP is answered 502, with \"Permission denied\" in the error log");
    found.add(match pool {
        Some(pool) => {
            let finding = finding.mend(change(pool, "listen.group", name));
            // Without it the group may connect.
            let finding = match pool.get("listen.mode") {
                Some(_) => finding.mend(change(pool, "listen.mode", "0660")),
                None => finding,
            };
            finding.mend(restart(pool))
        }
        None => finding.mend(format!("# open {} to {name}", path.display())),
    });
}

/// larder's, if the configuration names none.
const DEFAULT_USER: &str = "nobody";
const SOMAXCONN: &str = "/proc/sys/net/core/somaxconn";
/// php-fpm's own on Linux.
const DEFAULT: i64 = 511;

#[cfg(test)]
mod tests {
    use super::super::super::tests::Sick;

    const HTTP: &str = "http { server { location / { fastcgi_pass unix:/run/php.sock; } } }";

    fn machine(pool: &str) -> Sick {
        Sick::new()
            .file("/etc/php/8.2/fpm/pool.d/www.conf", &format!("[www]\nlisten = /run/php.sock\n{pool}\n"))
            .config(HTTP)
    }

    #[test]
    fn a_short_queue_is_told() {
        for (pool, kernel, severity) in [
            ("", "4096", None),
            ("listen.backlog = -1", "4096", None),
            ("listen.backlog = 64", "4096", Some("warning")),
            ("", "100", Some("warning")),
            ("listen.backlog = 200", "128", None),
        ] {
            let found = machine(pool).file("/proc/sys/net/core/somaxconn", kernel).look("php-backlog");
            assert_eq!(found.severity(), severity, "{pool} {kernel}: {found:?}");
        }
        assert!(machine("").look("php-backlog").text().contains("somaxconn cannot be read"));
        let pool = "[www]\nlisten = 127.0.0.1:9000\nlisten.backlog = 16\n";
        let http = "http { server { location / { fastcgi_pass 127.0.0.1:9000; } } }";
        let tcp = Sick::new().file("/etc/php-fpm.d/www.conf", pool).file("/proc/sys/net/core/somaxconn", "4096");
        let said = tcp.config(http).look("php-backlog").text();
        assert!(said.contains("the kernel drops") && !said.contains("Unix"), "{said}");
    }

    #[test]
    fn a_socket_that_is_not_there_is_told() {
        let found = machine("").look("php-socket");
        assert_eq!(found.severity(), Some("error"));
        assert!(found.text().contains("systemctl start php8.2-fpm"), "{found:?}");
        assert_eq!(machine("").file("/run/php.sock", "").look("php-socket").severity(), None);
        let other =
            Sick::new().file("/etc/php/8.2/fpm/pool.d/www.conf", "[www]\nlisten = /run/php8.sock\n").config(HTTP);
        assert!(other.look("php-socket").text().contains("one of /run/php8.sock"));
    }

    #[test]
    fn a_socket_is_open_to_the_account_that_serves() {
        let accounts =
            [("/etc/passwd", "www-data:x:4000:4000::/:\nroot:x:0:0::/:\n"), ("/etc/group", "www-data:x:4000:\n")];
        let serving = |user: &str, mode: u32| {
            let sick = Sick::new().files(&accounts).file("/run/php.sock", "").mode("/run/php.sock", mode);
            sick.config(&format!("user {user}; {HTTP}")).look("php-socket")
        };
        for (user, mode, severity) in [
            ("root", 0o600, None),
            ("www-data", 0o666, None),
            ("www-data", 0o660, Some("error")),
            ("nobody", 0o600, None),
        ] {
            let found = serving(user, mode);
            assert_eq!(found.severity(), severity, "{user} {mode:o}: {found:?}");
        }
        assert!(serving("nobody", 0o600).text().contains("no account nobody"));
    }

    #[test]
    fn a_socket_in_tmp_is_hidden_by_the_unit() {
        let unit = ("/etc/systemd/system/larder.service", "[Service]\nPrivateTmp=yes\n");
        let http = "http { server { location / { fastcgi_pass unix:/tmp/php.sock; } } }";
        let machine = || Sick::new().file("/tmp/php.sock", "").config(http);
        assert_eq!(machine().look("php-socket").severity(), None);
        assert_eq!(machine().files(&[unit]).look("php-socket").severity(), Some("error"));
    }
}
