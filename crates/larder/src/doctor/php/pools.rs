//! The files of php-fpm's pools.
//!
//! Source: php-fpm.conf(5), <https://www.php.net/manual/en/install.fpm.configuration.php>.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::origins;
use crate::machine::Machine;
use crate::processes::{Process, is_trusted};
use crate::serve::fpm::Address;
use crate::shell::quoted;

/// A pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name.
    pub name: String,
    /// Where it is written.
    pub file: PathBuf,
    settings: Vec<(String, String)>,
}

/// The pools in the files that packages have and running php-fpm name, and what could not be read.
pub fn all(machine: &Machine, processes: &[Process]) -> (Vec<Pool>, Vec<String>) {
    let mut files: Vec<PathBuf> = PLACES.iter().flat_map(|pattern| machine.files(pattern)).collect();
    let mains: Vec<PathBuf> = processes.iter().filter_map(|process| main_file(machine, process)).collect();
    let (mut pools, mut unread) = (Vec::<Pool>::new(), Vec::new());
    files.extend(mains);
    let mut at = 0;
    // Files grow by those that are included.
    while let Some(file) = files.get(at).cloned().filter(|_| at < FILES_MAX) {
        at += 1;
        if files[..at - 1].contains(&file) {
            continue;
        }
        match machine.text(&file) {
            Ok(text) => {
                let read = parse(&file, &text);
                pools.extend(read.pools);
                files.extend(read.includes.iter().flat_map(|pattern| machine.files(pattern)));
            }
            Err(error) => unread.push(error.to_string()),
        }
    }
    (pools, unread)
}

/// `php-fpm: master process (/etc/php/8.2/fpm/php-fpm.conf)`. A relative name begins from the folder in which it runs. Anybody can
/// call a process so: root's are believed, and one's own.
fn main_file(machine: &Machine, process: &Process) -> Option<PathBuf> {
    if !is_trusted(machine, process.pid) {
        return None;
    }
    let file = process.title.strip_prefix("php-fpm: master process (")?.strip_suffix(')')?;
    let folder = PathBuf::from(format!("/proc/{}/cwd", process.pid));
    Some(if file.starts_with('/') { file.into() } else { machine.followed(&folder).join(file) })
}

/// What a file has.
#[derive(Debug, Default)]
pub struct Read {
    /// Its pools.
    pub pools: Vec<Pool>,
    includes: Vec<String>,
}

/// Reads a file that has this text.
pub fn parse(file: &Path, text: &str) -> Read {
    let mut read = Read::default();
    let mut is_global = true;
    for line in text.lines().map(str::trim) {
        if line.starts_with([';', '#']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_global = name == "global";
            if !is_global {
                read.pools.push(Pool { name: name.to_owned(), file: file.to_owned(), settings: Vec::new() });
            }
            continue;
        }
        let Some((key, value)) = line.split_once('=') else { continue };
        let value = value.split(" ;").next().unwrap_or_default().trim().trim_matches('"');
        match (key.trim(), read.pools.last_mut()) {
            ("include", _) => read.includes.push(value.to_owned()),
            (key, Some(pool)) if !is_global => {
                let value = value.replace("$pool", &pool.name);
                pool.settings.push((key.to_owned(), value));
            }
            _ => {}
        }
    }
    read
}

impl Pool {
    /// The last value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.settings.iter().rev().find(|(own, _)| own == key).map(|(_, value)| value.as_str())
    }

    /// A number.
    pub fn number(&self, key: &str) -> Option<i64> {
        self.get(key)?.parse().ok()
    }

    /// How many children there are at most.
    pub fn children_max(&self) -> Option<u64> {
        self.number("pm.max_children").and_then(|count| u64::try_from(count).ok())
    }

    /// A time, with `s`, `m`, `h` or `d`; zero if nothing is said.
    pub fn time(&self, key: &str) -> Duration {
        let text = self.get(key).unwrap_or_default();
        let (digits, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
        let seconds = match unit.trim() {
            "" | "s" => 1,
            "m" => 60,
            "h" => 3600,
            "d" => 86_400,
            _ => 0,
        };
        Duration::from_secs(digits.parse::<u64>().unwrap_or(0).saturating_mul(seconds))
    }

    /// Where it listens: a path, `ADDRESS:PORT`, or a port of all addresses.
    pub fn listen(&self) -> Option<Address> {
        listen(self.get("listen")?)
    }

    /// Where its status page is asked for.
    pub fn status_address(&self) -> Option<Address> {
        match self.get("pm.status_listen") {
            Some(text) if !text.is_empty() => listen(text),
            _ => self.listen(),
        }
    }

    /// Whether what is asked at `address` is this pool. Links are followed, as Debian's `php-fpm.sock` is one.
    pub fn listens_at(&self, address: &Address, machine: &Machine) -> bool {
        match (self.listen(), address) {
            (Some(Address::Unix(own)), Address::Unix(asked)) => {
                own == *asked || machine.followed(&own) == machine.followed(asked)
            }
            (Some(Address::Tcp(own)), Address::Tcp(asked)) => {
                own.port() == asked.port() && (own.ip() == asked.ip() || own.ip().is_unspecified())
            }
            _ => false,
        }
    }

    /// The version of PHP, if its file is where Debian has them: `/etc/php/8.2/fpm/pool.d/www.conf`.
    pub fn version(&self) -> Option<&str> {
        let mut parts = self.file.strip_prefix("/etc/php").ok()?.iter().filter_map(|part| part.to_str());
        parts.next().filter(|part| part.starts_with(|first: char| first.is_ascii_digit()))
    }

    /// The service that runs it.
    pub fn service(&self) -> String {
        self.version().map_or_else(|| "php-fpm".to_owned(), |version| format!("php{version}-fpm"))
    }

    /// The command that sets a key in its file, and has php-fpm read it. Other pools of the file stay as they are.
    pub fn set(&self, key: &str, value: impl std::fmt::Display) -> [String; 2] {
        let line = format!("{key} = {value}").replace('\\', "\\\\");
        let change = match self.get(key) {
            Some(_) => {
                let line = line.replace('&', "\\&").replace('|', "\\|");
                self.edit(&format!("{} s|^[[:space:]]*{}[[:space:]]*=.*|{line}|", self.lines(), pattern(key)))
            }
            None => self.edit(&format!("/{}/a {line}", self.head())),
        };
        [change, format!("systemctl reload {}", self.service())]
    }

    /// The command that takes a key out of its file.
    pub fn unset(&self, key: &str) -> String {
        self.edit(&format!("{} {{/^[[:space:]]*{}[[:space:]]*=/d}}", self.lines(), pattern(key)))
    }

    /// Its lines up to the head of the next pool, for sed.
    fn lines(&self) -> String {
        format!("/{}/,/^[[:space:]]*\\[/", self.head())
    }

    fn head(&self) -> String {
        format!("^[[:space:]]*\\[{}\\]", pattern(&self.name))
    }

    fn edit(&self, script: &str) -> String {
        format!("sed -i {} {}", quoted(script), quoted(&self.file.display().to_string()))
    }

    /// `pool www (/etc/php/8.2/fpm/pool.d/www.conf)`.
    pub fn shown(&self) -> String {
        format!("pool {} ({})", self.name, self.file.display())
    }
}

/// A text as sed finds it, between slashes.
fn pattern(text: &str) -> String {
    let escaped = |letter: char| ".[]*^$/\\".contains(letter).then_some('\\').into_iter().chain([letter]);
    text.chars().flat_map(escaped).collect()
}

fn listen(text: &str) -> Option<Address> {
    if text.starts_with('/') {
        return Some(Address::Unix(PathBuf::from(text)));
    }
    match text.parse::<u16>() {
        Ok(port) => Some(Address::Tcp(SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)))),
        Err(_) => origins::address(text),
    }
}

/// Where packages of Debian, Fedora, Alpine and php's own image have pools.
pub const PLACES: [&str; 4] = [
    "/etc/php/*/fpm/pool.d/*.conf",
    "/etc/php-fpm.d/*.conf",
    "/etc/php[0-9]*/php-fpm.d/*.conf",
    "/usr/local/etc/php-fpm.d/*.conf",
];

/// How many files are read; those that include each other would have no end.
const FILES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_read_as_php_fpm_reads_it() {
        let text = "; a comment\n[global]\ninclude=/etc/php/x/*.conf\npm.max_children = 9\n[shop]\n\
                    listen = /run/$pool.sock\npm.max_children = 5\n;pm.max_children = 7\n\
                    request_terminate_timeout = 2m\nlisten.backlog = \"511\"\n[b]\nlisten = 9000\n";
        let file = Path::new("/etc/php/8.2/fpm/pool.d/a.conf");
        let read = parse(file, text);
        assert_eq!((read.pools.len(), read.includes.as_slice()), (2, &["/etc/php/x/*.conf".to_owned()][..]));
        let shop = &read.pools[0];
        assert_eq!(shop.listen(), Some(Address::Unix("/run/shop.sock".into())));
        assert_eq!((shop.children_max(), shop.number("listen.backlog")), (Some(5), Some(511)));
        assert_eq!(
            (shop.time("request_terminate_timeout"), shop.time("none")),
            (Duration::from_secs(120), Duration::ZERO)
        );
        assert_eq!((shop.version(), shop.service()), (Some("8.2"), "php8.2-fpm".to_owned()));
        assert_eq!(read.pools[1].listen(), Some(Address::Tcp("0.0.0.0:9000".parse().unwrap())));
        assert_eq!(shop.set("pm", "x")[0], "sed -i '/^[[:space:]]*\\[shop\\]/a pm = x' /etc/php/8.2/fpm/pool.d/a.conf");
    }

    #[test]
    fn a_running_php_fpm_names_its_file() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/7")).unwrap();
        std::fs::create_dir_all(root.path().join("srv/php")).unwrap();
        std::os::unix::fs::symlink("/srv", root.path().join("proc/7/cwd")).unwrap();
        std::fs::write(root.path().join("srv/php/fpm.conf"), "[own]\nlisten = 9000\n").unwrap();
        let machine = Machine::at(root.path()).unwrap();
        let of =
            |account: &str| std::fs::write(root.path().join("proc/7/status"), format!("Uid:\t{account}\n")).unwrap();
        of("54321\t54321\t54321\t54321");
        let title = "php-fpm: master process (/tmp/evil.conf)".to_owned();
        let process = Process { pid: 7, name: "php-fpm".to_owned(), title };
        assert_eq!(main_file(&machine, &process), None, "anybody calls a process so");
        of("0\t0\t0\t0");
        for (title, expected) in [
            ("php-fpm: master process (/etc/a.conf)", Some("/etc/a.conf")),
            ("php-fpm: master process (php/fpm.conf)", Some("/srv/php/fpm.conf")),
            ("php-fpm: pool www", None),
        ] {
            let process = Process { pid: 7, name: "php-fpm".to_owned(), title: title.to_owned() };
            assert_eq!(main_file(&machine, &process), expected.map(PathBuf::from), "{title}");
            let (pools, _) = all(&machine, &[process]);
            assert_eq!(pools.len(), usize::from(title.contains("php/fpm")), "{pools:?}");
        }
    }

    #[test]
    fn a_mend_of_a_pool_changes_no_other() {
        let text = "[global]\npm.max_children = 1\n[a.b]\nlisten = 1\n  pm.max_children = 2\n;pm.max_children = 3\n[aXb]\n\
                    listen = 2\npm.max_children = 4\n\t[it's]\npm.max_children=5\nphp_flag[opcache.enable] = off\n[last]\n\
                    php_flag[opcache.enable] = on\n";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a pool.conf");
        let (count, flag) = ("pm.max_children", "php_flag[opcache.enable]");
        for (name, key, value, expected) in [
            ("a.b", count, Some("9"), ["9", "4", "5", "-"]),
            ("aXb", count, Some("9"), ["2", "9", "5", "-"]),
            ("it's", count, Some("9"), ["2", "4", "9", "-"]),
            ("last", count, Some("9"), ["2", "4", "5", "9"]),
            ("last", count, Some("a\\b&c|d"), ["2", "4", "5", "a\\b&c|d"]),
            ("aXb", count, Some("a\\b&c|d"), ["2", "a\\b&c|d", "5", "-"]),
            ("it's", flag, None, ["-", "-", "-", "on"]),
            ("a.b", flag, None, ["-", "-", "off", "on"]),
        ] {
            std::fs::write(&file, text).unwrap();
            let pools = parse(&file, text).pools;
            let pool = pools.iter().find(|pool| pool.name == name).unwrap();
            let command = match value {
                Some(value) => pool.set(key, value)[0].clone(),
                None => pool.unset(key),
            };
            assert!(std::process::Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
            let changed = std::fs::read_to_string(&file).unwrap();
            let values: Vec<_> =
                parse(&file, &changed).pools.iter().map(|pool| pool.get(key).unwrap_or("-").to_owned()).collect();
            assert_eq!(values, expected, "{command}: {changed}");
            assert!(changed.starts_with("[global]\npm.max_children = 1\n"), "{changed}");
        }
    }

    #[test]
    fn times_and_addresses_are_those_of_the_manual() {
        for (text, seconds) in [("30", 30), ("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86_400), ("x", 0), ("9x", 0)]
        {
            let pool = Pool { name: "a".into(), file: "/a".into(), settings: vec![("t".into(), text.into())] };
            assert_eq!(pool.time("t"), Duration::from_secs(seconds), "{text}");
        }
        for (text, expected) in [
            ("127.0.0.1:9000", Some(Address::Tcp("127.0.0.1:9000".parse().unwrap()))),
            ("[::]:9000", Some(Address::Tcp("[::]:9000".parse().unwrap()))),
            ("localhost:1", Some(Address::Tcp("127.0.0.1:1".parse().unwrap()))),
            ("elsewhere:1", None),
        ] {
            assert_eq!(listen(text), expected, "{text}");
        }
    }
}
