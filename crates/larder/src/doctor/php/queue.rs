//! Who waits for a child of php-fpm: how many may, whether anybody listens, and whether larder may connect.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::super::accounts::Account;
use super::super::finding::{Finding, Found};
use super::super::patient::{BACKLOG_ENOUGH, Patient, sysctl};
use super::origins::{Origin, here};
use super::pools::Pool;
use crate::oserror::Reason;
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

/// Whether somebody listens where the configuration says, and who may connect.
pub fn sockets(patient: &Patient<'_>, found: &mut Found) {
    for origin in &patient.php().origins {
        if let Address::Unix(path) = &origin.address {
            if !patient.machine.has(path) {
                found.add(absent(patient, origin, format!("there is no socket {}", path.display()), false));
                continue;
            }
            if let Some(setting) = hidden(patient, &origin.address) {
                found.add(
                    Finding::error(format!("{} does not see {}, by {setting}", patient.unit_name(), path.display()))
                        .why(ANSWERED_502)
                        .mend(format!("# in the pool and in {}: a socket in /run/php", origin.place)),
                );
                continue;
            }
        }
        let connected = patient.senses.connect(&here(&origin.address, patient.machine));
        match &connected {
            Ok(()) => found.fine(format!("somebody listens at {}", origin.address)),
            // This account is another than the one that serves.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !patient.is_root => {
                found.unknown(format!("whether somebody listens at {} (be root)", origin.address));
            }
            Err(error) => {
                found.add(unanswered(patient, origin, error));
                continue;
            }
        }
        if let Address::Unix(path) = &origin.address {
            connects(patient, origin, path, found);
        }
    }
}

/// An address that takes no connection.
fn unanswered(patient: &Patient<'_>, origin: &Origin, error: &io::Error) -> Finding {
    let (address, place) = (&origin.address, &origin.place);
    let pool = patient.php().pools.iter().find(|pool| pool.listens_at(address, patient.machine));
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::NotFound => {
            let is_left = matches!(address, Address::Unix(_));
            absent(patient, origin, format!("nobody listens at {address}"), is_left)
        }
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            let what = format!("{address} takes no connection within a second (asked in {place})");
            Finding::error(what).why(beyond(address)).mend(match pool {
                Some(pool) => format!("{} # ends the scripts that hang", restart(pool)),
                None => format!("# start what listens at {address} anew"),
            })
        }
        _ => Finding::error(format!("{address} cannot be connected to {} (asked in {place})", Reason(error)))
            .why(ANSWERED_502)
            .mend(format!("# in {place}: where PHP listens")),
    }
}

/// The setting by which the unit does not see a socket.
fn hidden(patient: &Patient<'_>, address: &Address) -> Option<String> {
    let Address::Unix(path) = address else { return None };
    patient.unit().ok()??.hides(path)
}

/// An address at which nobody listens. Without any php-fpm, and no socket that one has left, the site may have no PHP.
fn absent(patient: &Patient<'_>, origin: &Origin, fact: String, is_left: bool) -> Finding {
    let pools = &patient.php().pools;
    let what = format!("{fact} (asked in {})", origin.place);
    let finding = if pools.is_empty() && !is_left { Finding::warning(what) } else { Finding::error(what) };
    let finding = finding.why(ANSWERED_502);
    if let Some(pool) = pools.iter().find(|pool| pool.listens_at(&origin.address, patient.machine)) {
        return finding.mend(restart(pool));
    }
    let seen: Vec<(&Pool, Address)> = pools
        .iter()
        .filter_map(|pool| Some((pool, pool.listen()?)))
        .filter(|(_, address)| hidden(patient, address).is_none())
        .collect();
    let listens = |(_, address): &&(&Pool, Address)| patient.senses.connect(&here(address, patient.machine)).is_ok();
    let living: Vec<&str> = seen.iter().filter(listens).filter_map(|(pool, _)| pool.get("listen")).collect();
    match seen.first() {
        _ if !living.is_empty() => finding.mend(format!("# in {}: one of {}", origin.place, living.join(", "))),
        Some((pool, address)) => {
            finding.mend(restart(pool)).mend(format!("# in {}: fastcgi_pass {address};", origin.place))
        }
        None if pools.is_empty() => finding.mend("apt-get install php-fpm"),
        None => finding.mend(format!("# in a pool and in {}: a socket in /run/php", origin.place)),
    }
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
        return found.fine(format!("{} is open to {name}", path.display()));
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
    .why(format!("{ANSWERED_502}, with \"Permission denied\" in the error log"));
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

const ANSWERED_502: &str = "each request for PHP is answered 502";
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
        assert!(found.text().contains("systemctl restart php8.2-fpm"), "{found:?}");
        assert_eq!(machine("").file("/run/php.sock", "").look("php-socket").severity(), None);
        let none = Sick::new().config(HTTP).look("php-socket");
        assert_eq!(none.severity(), Some("warning"), "{none:?}");
    }

    #[test]
    fn who_does_not_listen_is_told() {
        let (refused, full, unreachable) = (111, 11, 101);
        let tcp = "http { server { location / { fastcgi_pass 127.0.0.1:9000; } } }";
        let left = || Sick::new().file("/run/php.sock", "").config(HTTP);
        let port = || Sick::new().config(tcp);
        for (sick, severity, said) in [
            (left(), None, "somebody listens at unix:/run/php.sock"),
            (left().refusing("php.sock", refused), Some("error"), "nobody listens at unix:/run/php.sock"),
            (left().refusing("php.sock", full), Some("error"), "takes no connection within a second"),
            (port(), None, "somebody listens at 127.0.0.1:9000"),
            (port().refusing(":9000", refused), Some("warning"), "nobody listens at 127.0.0.1:9000"),
            (port().refusing(":9000", unreachable), Some("error"), "cannot be connected to"),
            (
                port().file("/etc/php-fpm.d/www.conf", "[www]\nlisten = 9000\n").refusing(":9000", refused),
                Some("error"),
                "systemctl restart php-fpm",
            ),
        ] {
            let found = sick.look("php-socket");
            assert_eq!(found.severity(), severity, "{said}: {found:?}");
            assert!(found.text().contains(said), "{said}: {found:?}");
        }
    }

    #[test]
    fn a_mend_names_sockets_that_larder_can_use() {
        let unit = ("/etc/systemd/system/larder.service", "[Service]\nPrivateTmp=yes\n");
        let pool = |name: &str, listen: &str| format!("[{name}]\nlisten = {listen}\n");
        let file = "/etc/php/8.2/fpm/pool.d/www.conf";
        let living = pool("a", "/run/a.sock") + &pool("b", "/tmp/b.sock") + &pool("c", "127.0.0.1:9000");
        let machine = |pools: &str| Sick::new().files(&[unit, (file, pools)]).config(HTTP);
        for (sick, said) in [
            (machine(&living), "one of /run/a.sock, 127.0.0.1:9000\n"),
            (machine(&living).refusing("a.sock", 111), "one of 127.0.0.1:9000\n"),
            (
                machine(&pool("a", "/run/a.sock")).refusing("a.sock", 2),
                "systemctl restart php8.2-fpm\n          # in /etc/larder/larder.conf:2: fastcgi_pass unix:/run/a.sock;\n",
            ),
            (machine(&pool("b", "/tmp/b.sock")), "a socket in /run/php\n"),
        ] {
            let found = sick.look("php-socket");
            assert!(found.text().contains(said), "{said}: {found:?}");
        }
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
