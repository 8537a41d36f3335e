//! Whether PHP keeps what it has compiled.

use std::path::{Path, PathBuf};

use super::super::finding::{Finding, Found};
use super::super::patient::Patient;
use super::pools::Pool;
use crate::machine::{Machine, Unread};
use crate::shell::quoted;

/// Looks at `php.ini` and the files beside it, and at the pool.
pub fn look(patient: &Patient<'_>, found: &mut Found) {
    for (_, pool) in patient.php().asked(patient.machine) {
        match state(patient.machine, pool) {
            Ok(State::On) => found.fine(format!("{}: on", pool.shown())),
            Ok(State::NotLoaded) => {
                let mend = match pool.version() {
                    Some(version) => format!(
                        "apt-get install php{version}-opcache && phpenmod -v {version} -s fpm opcache && systemctl restart {}",
                        pool.service()
                    ),
                    None => "# install the package of PHP's opcache, and restart php-fpm".to_owned(),
                };
                found.add(Finding::warning(format!("{} runs without opcache", pool.shown())).why(WHY).mend(mend));
            }
            Ok(State::Off(by)) => {
                let (file, change) = match by {
                    By::File(file) => {
                        let file = file.display().to_string();
                        let change =
                            format!("sed -i '/^[[:space:]]*opcache\\.enable[[:space:]]*=/d' {}", quoted(&file));
                        (file, change)
                    }
                    By::Pool(key) => (pool.file.display().to_string(), pool.unset(key)),
                };
                found.add(
                    Finding::warning(format!("opcache is off for {}, by {file}", pool.shown()))
                        .why(WHY)
                        .mend(change)
                        .mend(format!("systemctl restart {}", pool.service())),
                );
            }
            Err(error) => found.unknown(error),
        }
    }
}

const WHY: &str = "PHP compiles all files of the application at each request: a page takes two or three times as long";

/// What the files say.
#[derive(Debug, PartialEq, Eq)]
enum State {
    On,
    NotLoaded,
    Off(By),
}

/// Who switches it off.
#[derive(Debug, PartialEq, Eq)]
enum By {
    /// A file of settings.
    File(PathBuf),
    /// This key of the pool.
    Pool(&'static str),
}

fn state(machine: &Machine, pool: &Pool) -> Result<State, Unread> {
    for key in ["php_admin_flag[opcache.enable]", "php_admin_value[opcache.enable]", "php_flag[opcache.enable]"] {
        if let Some(value) = pool.get(key) {
            return Ok(if is_off(value) { State::Off(By::Pool(key)) } else { State::On });
        }
    }
    let (main, beside) = settings(pool);
    let beside = machine.files(&beside);
    // The image of php has none, and is content with what is beside it.
    let has_main = beside.is_empty() || machine.has(&main);
    let (mut is_loaded, mut off) = (false, None);
    for file in has_main.then_some(main).into_iter().chain(beside) {
        for line in machine.text(&file)?.lines().map(str::trim).filter(|line| !line.starts_with(';')) {
            let Some((key, value)) = line.split_once('=') else { continue };
            match key.trim() {
                "zend_extension" if value.contains("opcache") => is_loaded = true,
                "opcache.enable" => off = is_off(value).then(|| file.clone()),
                _ => {}
            }
        }
    }
    // Since PHP 8.5 it is a part of PHP.
    let is_built_in = pool.version().and_then(number).is_some_and(|version| version >= (8, 5));
    Ok(match (off, is_loaded || is_built_in) {
        (Some(file), _) => State::Off(By::File(file)),
        (None, true) => State::On,
        (None, false) => State::NotLoaded,
    })
}

/// `php.ini`, and the pattern of the files that are read after it.
fn settings(pool: &Pool) -> (PathBuf, String) {
    let folder = pool.file.parent().and_then(|folder| folder.parent()).unwrap_or(Path::new("/etc"));
    let (main, beside) = match folder {
        // Fedora, and php's own image.
        folder if folder == Path::new("/etc") => (folder.join("php.ini"), folder.join("php.d")),
        folder if folder.ends_with("etc") => (folder.join("php/php.ini"), folder.join("php/conf.d")),
        // Debian, Alpine.
        folder => (folder.join("php.ini"), folder.join("conf.d")),
    };
    (main, format!("{}/*.ini", beside.display()))
}

fn is_off(value: &str) -> bool {
    let value = value.split(';').next().unwrap_or_default().trim().trim_matches('"').to_ascii_lowercase();
    ["0", "off", "no", "false", ""].contains(&value.as_str())
}

fn number(version: &str) -> Option<(u32, u32)> {
    let (major, minor) = version.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::Sick;

    const HTTP: &str = "http { server { location / { fastcgi_pass unix:/run/php.sock; } } }";

    fn machine(version: &str, pool: &str, files: &[(&str, &str)]) -> Sick {
        let pool = format!("[www]\nlisten = /run/php.sock\n{pool}\n");
        let sick = Sick::new().file(&format!("/etc/php/{version}/fpm/pool.d/www.conf"), &pool).config(HTTP);
        files.iter().fold(sick, |sick, (path, text)| sick.file(&format!("/etc/php/{version}/fpm/{path}"), text))
    }

    #[test]
    fn opcache_is_loaded_and_on() {
        let ini = ("php.ini", ";opcache.enable=0\n");
        let loaded = ("conf.d/10-opcache.ini", "zend_extension=opcache.so\n");
        for (version, pool, files, severity) in [
            ("8.2", "", &[ini, loaded][..], None),
            ("8.2", "", &[ini], Some("warning")),
            ("8.5", "", &[ini], None),
            ("8.2", "", &[("php.ini", "opcache.enable = Off\n"), loaded], Some("warning")),
            (
                "8.2",
                "",
                &[
                    ("php.ini", "opcache.enable=0"),
                    ("conf.d/10-opcache.ini", "zend_extension=opcache\nopcache.enable=1"),
                ],
                None,
            ),
            ("8.2", "php_admin_flag[opcache.enable] = off", &[ini, loaded], Some("warning")),
            ("8.2", "php_admin_value[opcache.enable] = 1", &[ini], None),
        ] {
            let found = machine(version, pool, files).look("php-opcache");
            assert_eq!(found.severity(), severity, "{version} {pool} {files:?}: {found:?}");
        }
        for (pool, main, beside) in [
            ("/etc/php-fpm.d/a.conf", "/etc/php.ini", "/etc/php.d/10-opcache.ini"),
            ("/etc/php83/php-fpm.d/a.conf", "/etc/php83/php.ini", "/etc/php83/conf.d/00_opcache.ini"),
            ("/usr/local/etc/php-fpm.d/a.conf", "/none", "/usr/local/etc/php/conf.d/opcache.ini"),
        ] {
            let sick = Sick::new().file(pool, "[www]\nlisten = /run/php.sock\n").file(main, "").config(HTTP);
            let sick = sick.file(beside, "zend_extension=opcache");
            assert!(sick.look("php-opcache").text().contains(": on"), "{pool}");
            let found = sick.file(beside, "opcache.enable=0").look("php-opcache");
            assert!(found.text().contains(beside), "{pool}: {found:?}");
        }
        let found = machine("8.2", "", &[]).look("php-opcache");
        assert!(found.severity().is_none() && found.text().contains("php.ini cannot be read"), "{found:?}");
    }
}
