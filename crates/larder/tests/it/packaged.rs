//! larder in the place of Debian's nginx: the lines of its unit, its init script and its logrotate stanza, as they are
//! but for the places of files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use larder_testkit::{Client, RaiseOnDrop, Signal, children_of, is_running, signal_to, text_of};
use nix::unistd::{User, geteuid};

use crate::site::{Ends, Setup, binary, eventually, get_on, text};

const UNIT: &str = "/lib/systemd/system/nginx.service";
const INIT: &str = "/etc/init.d/nginx";
const STANZA: &str = "/etc/logrotate.d/nginx";
/// Whom Debian's nginx becomes.
const USER: &str = "www-data";

/// A folder with what the package has all over the system, and larder in nginx's place.
struct Package {
    setup: Setup,
    unit: String,
}

impl Package {
    fn new(http: &str) -> Package {
        let unit = fs::read_to_string(UNIT).expect("nginx is installed by `scripts/setup test`");
        let package = Package { setup: Setup::new(), unit };
        let folder = package.folder();
        // The workers of another account come to their files by it.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["sbin", "log", "www"] {
            fs::create_dir(folder.join(name)).unwrap();
        }
        for name in ["nginx", "larder"] {
            symlink(binary(), folder.join("sbin").join(name)).unwrap();
        }
        let user = if geteuid().is_root() { "user www-data;" } else { "" };
        package.setup.write_raw(&format!(
            "{user} worker_processes auto; pid {{DIR}}/nginx.pid; error_log {{DIR}}/log/error.log info; events {{}}
             http {{ access_log {{DIR}}/log/access.log; client_body_temp_path {{DIR}}/body; proxy_temp_path {{DIR}}/proxy;
                     fastcgi_temp_path {{DIR}}/fastcgi; {http} }}"
        ));
        package
    }

    fn folder(&self) -> PathBuf {
        self.setup.path("")
    }

    /// Text of the package with the places it names moved into the folder.
    fn moved(&self, text: &str) -> String {
        let folder = self.folder().display().to_string();
        let folder = folder.trim_end_matches('/');
        text.replace(
            "/usr/sbin/nginx",
            &format!("{folder}/sbin/nginx -c {folder}/nginx.conf -e {folder}/log/error.log"),
        )
        .replace("/usr/sbin/larder", &format!("{folder}/sbin/larder -e {folder}/log/error.log"))
        .replace("/etc/larder/larder.conf", &format!("{folder}/nginx.conf"))
        .replace("/run/nginx.pid", &format!("{folder}/nginx.pid"))
        .replace("/run/larder.pid", &format!("{folder}/nginx.pid"))
        .replace("/var/log/nginx/", &format!("{folder}/log/"))
    }

    /// What stands behind the last `key=` in the unit.
    fn line(&self, key: &str) -> String {
        let line = self.unit.lines().rev().find_map(|line| line.strip_prefix(&format!("{key}=")));
        self.moved(line.unwrap_or_else(|| panic!("{key} in the unit")).trim_start_matches('-'))
    }

    /// Runs a line of the unit to its end. systemd splits a line as a shell does, where neither expands anything.
    fn run(&self, key: &str) -> Output {
        let line = self.line(key);
        let output = shell(&line);
        assert!(output.status.success(), "{line}: {output:?}\n{}", self.log());
        output
    }

    fn pid(&self) -> Option<u32> {
        fs::read_to_string(self.setup.path("nginx.pid")).ok()?.trim().parse().ok()
    }

    fn start(&self) -> (u32, Ends) {
        let started = self.run("ExecStart");
        // A unit of the type `forking`: when this returns, there is a pid file, and larder serves.
        assert_eq!(text_of(&started.stderr), "");
        let pid = self.pid().expect("the pid file is there");
        (pid, Ends(pid))
    }

    fn says(&self) -> String {
        text(&get_on(&mut Client::connect(self.setup.address()).unwrap(), "/"))
    }

    fn log(&self) -> String {
        fs::read(self.setup.path("log/error.log")).map(|bytes| text_of(&bytes)).unwrap_or_default()
    }
}

fn shell(line: &str) -> Output {
    Command::new("/bin/sh").args(["-c", line]).stdin(Stdio::null()).output().unwrap()
}

const SITE: &str = "server { listen 127.0.0.1:{PORT}; return 200 one; }";

#[test]
fn the_lines_of_the_unit_start_reload_and_stop() {
    let package = Package::new(SITE);
    let tested = package.run("ExecStartPre");
    assert_eq!((text_of(&tested.stdout), text_of(&tested.stderr)), (String::new(), String::new()), "-q says nothing");
    assert_eq!(package.pid(), None, "a test leaves no pid file");
    let (pid, _ends) = package.start();
    assert_eq!(package.line("PIDFile"), package.setup.path("nginx.pid").display().to_string());
    assert_eq!(package.says(), "one");

    let conf = package.setup.path("nginx.conf");
    let changed = fs::read_to_string(&conf).unwrap().replace("200 one", "200 two");
    fs::write(&conf, changed).unwrap();
    package.run("ExecReload");
    eventually("the new configuration", || package.says() == "two");
    assert_eq!(package.pid(), Some(pid));

    let serving = children_of(pid);
    package.run("ExecStop");
    // start-stop-daemon returns when it is gone, and by QUIT: five seconds would follow before TERM.
    assert!(!is_running(pid) && package.pid().is_none());
    assert!(!serving.into_iter().any(is_running));
    assert!(package.log().contains("signal 3 (SIGQUIT)") && !package.log().contains("signal 15"), "{}", package.log());
}

#[test]
fn our_own_units_do_what_that_of_debian_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let ours = fs::read_to_string(folder.join("larder.service")).unwrap();
    // A file beside a unit goes after it, and an empty value forgets the ones before.
    let debian = fs::read_to_string(UNIT).expect("nginx is installed by `scripts/setup test`");
    let beside = fs::read_to_string(folder.join("nginx.service.d/larder.conf")).unwrap();
    let beside = beside.replace("/usr/sbin/larder ", "/usr/sbin/larder -c /etc/larder/larder.conf ");
    for unit in [ours, format!("{debian}\n{beside}")] {
        let mut package = Package::new(SITE);
        package.unit = unit;
        package.run("ExecStartPre");
        let (pid, _ends) = package.start();
        assert_eq!(package.line("PIDFile"), package.setup.path("nginx.pid").display().to_string());
        assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "larder\n");
        assert_eq!(package.says(), "one");
        package.run("ExecReload");
        eventually("the reload", || package.log().contains("the new configuration holds"));
        signal_to(pid, Signal::Quit).unwrap();
        eventually("the end", || !is_running(pid));
    }
}

#[test]
fn a_unit_does_not_start_what_is_wrong_or_in_use() {
    let package = Package::new("server { listen 127.0.0.1:{PORT}; lisen 80; }");
    for key in ["ExecStartPre", "ExecStart", "ExecReload"] {
        let output = shell(&package.line(key));
        assert_eq!(output.status.code(), Some(1), "{key}: {output:?}");
        assert!(text_of(&output.stderr).contains("unknown directive \"lisen\""), "{key}: {output:?}");
    }
    let package = Package::new(SITE);
    let _taken = std::net::TcpListener::bind(package.setup.address()).unwrap();
    let output = shell(&package.line("ExecStart"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(text_of(&output.stderr).contains("still could not bind()"), "{output:?}");
    let stopped = shell(&package.line("ExecStop"));
    assert_eq!(stopped.status.code(), Some(1), "nothing runs, which the unit's `-` ignores: {stopped:?}");
}

#[test]
fn the_init_script_does_all_that_it_can() {
    let package = Package::new(SITE);
    let folder = package.folder().display().to_string();
    let folder = folder.trim_end_matches('/');
    // It asks the configuration for the pid file, and the file of defaults for the rest.
    let script = fs::read_to_string(INIT)
        .expect("nginx is installed by `scripts/setup test`")
        .replace("/etc/nginx/nginx.conf", &format!("{folder}/nginx.conf"))
        .replace("/usr/sbin/nginx", &format!("{folder}/sbin/nginx"))
        .replace("/etc/default/nginx", &format!("{folder}/defaults"));
    let defaults = format!("DAEMON_OPTS='-c {folder}/nginx.conf -e {folder}/log/error.log'\n");
    fs::write(package.setup.path("defaults"), defaults).unwrap();
    fs::write(package.setup.path("init"), script).unwrap();
    let run = |word: &str| shell(&format!("/bin/sh {folder}/init {word}"));
    let done = |word: &str| {
        let output = run(word);
        assert!(output.status.success(), "{word}: {output:?}\n{}", package.log());
    };

    done("configtest");
    done("start");
    let pid = package.pid().expect("the pid file is there");
    let _ends = Ends(pid);
    // It looks for processes by the name that nginx has.
    assert_eq!(fs::read_to_string(format!("/proc/{pid}/comm")).unwrap(), "nginx\n");
    done("status");
    done("start");
    assert_eq!(package.pid(), Some(pid), "it runs already");
    done("reload");
    eventually("the reload", || package.log().contains("the new configuration holds"));
    fs::rename(package.setup.path("log/access.log"), package.setup.path("log/old.log")).unwrap();
    done("rotate");
    eventually("the log to be there again", || package.setup.path("log/access.log").exists());
    done("upgrade");
    eventually("the old one to be gone", || !is_running(pid));
    let new = package.pid().expect("the pid file is there");
    let _ends = Ends(new);
    assert_ne!(new, pid);
    assert_eq!(package.says(), "one");
    done("restart");
    let last = package.pid().expect("the pid file is there");
    let _ends = Ends(last);
    assert!(last != new && !is_running(new));
    done("stop");
    assert!(!is_running(last) && package.pid().is_none());
    assert_eq!(run("status").status.code(), Some(3));
}

/// What logrotate is told to do: Debian's stanza, with the pid file in place of its init script's name, which no
/// machine without that service would obey.
fn stanza(package: &Package) -> PathBuf {
    let stanza = fs::read_to_string(STANZA).expect("nginx is installed by `scripts/setup test`");
    let order = "invoke-rc.d nginx rotate";
    assert!(stanza.contains(order), "{stanza}");
    let pid = package.setup.path("nginx.pid").display().to_string();
    let rotate = format!("start-stop-daemon --stop --signal USR1 --quiet --pidfile {pid} --name nginx");
    let path = package.setup.path("stanza");
    fs::write(&path, package.moved(&stanza).replace(order, &rotate)).unwrap();
    // logrotate does nothing by a file that others may write.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    path
}

fn lines_of(path: &Path) -> usize {
    fs::read(path).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count())
}

fn files_in(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path())
}

#[test]
fn logrotate_loses_no_line() {
    if !geteuid().is_root() || User::from_name(USER).unwrap().is_none() {
        // `create` gives files away, which only root may.
        return;
    }
    let package = Package::new(
        "access_log {DIR}/log/$host.log;
         access_log {DIR}/log/slow.log combined buffer=64k flush=1h;
         server { listen 127.0.0.1:{PORT}; return 200 x; }",
    );
    // Open to who rotates and to the workers' account, which makes the file with a variable in its name.
    fs::set_permissions(package.setup.path("log"), fs::Permissions::from_mode(0o755)).unwrap();
    let www_data = User::from_name(USER).unwrap().unwrap();
    std::os::unix::fs::chown(package.setup.path("log"), Some(www_data.uid.as_raw()), None).unwrap();
    let (pid, _ends) = package.start();
    let stanza = stanza(&package);
    let state = package.setup.path("state").display().to_string();
    let is_over = AtomicBool::new(false);
    let (asked, rotations) = thread::scope(|scope| {
        let over = RaiseOnDrop(&is_over);
        let visitors: Vec<_> = (0..2)
            .map(|_| {
                let (package, is_over) = (&package, &is_over);
                scope.spawn(move || {
                    let mut client = Client::connect(package.setup.address()).unwrap();
                    let mut asked = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let response = get_on(&mut client, "/");
                        assert_eq!(text(&response), "x");
                        asked += 1;
                        if !response.keeps_connection() {
                            client = Client::connect(package.setup.address()).unwrap();
                        }
                        // A worker that makes the file with a variable in its name before logrotate does, and again before
                        // logrotate has set that aside, has it fail, as nginx does.
                        thread::sleep(Duration::from_millis(5));
                    }
                    asked
                })
            })
            .collect();
        let access = package.setup.path("log/access.log");
        let mut rotations = 0;
        for _ in 0..4 {
            let enough = lines_of(&access) + 20;
            eventually("some lines", || lines_of(&access) > enough);
            let rotated = Command::new("logrotate").args(["--force", "--state", &state]).arg(&stanza).output();
            let rotated = rotated.expect("logrotate is installed by `scripts/setup test`");
            assert!(rotated.status.success(), "{rotated:?}");
            rotations += 1;
            // It gives what it sets aside one name an hour, and the next would take the place of this.
            for path in files_in(&package.setup.path("log")).filter(|path| path.to_string_lossy().ends_with(".backup"))
            {
                let name = format!("{}.{rotations}", path.display());
                fs::rename(path, name).unwrap();
            }
            eventually("the new file to be written", || lines_of(&access) > 0);
            // One that was empty was left where it is, and given to the workers' account by us.
            for name in ["access.log", "error.log", "slow.log"] {
                let metadata = fs::metadata(package.setup.path("log").join(name)).unwrap();
                assert_eq!(metadata.uid(), www_data.uid.as_raw(), "{name}");
            }
            assert_eq!(fs::metadata(&access).unwrap().permissions().mode() & 0o777, 0o640);
        }
        drop(over);
        (visitors.into_iter().map(|visitor| visitor.join().unwrap()).sum::<usize>(), rotations)
    });
    signal_to(pid, Signal::Quit).unwrap();
    eventually("the end", || !is_running(pid));
    for name in ["access.log", "slow.log", "site.test.log"] {
        let log = |number: usize| match number {
            0 => package.setup.path("log").join(name),
            // The last is compressed one rotation later.
            1 => package.setup.path("log").join(format!("{name}.1")),
            older => package.setup.path("log").join(format!("{name}.{older}.gz")),
        };
        let lines: usize = (0..=rotations)
            .map(|number| match log(number) {
                path if number < 2 => lines_of(&path),
                path => {
                    let unpacked = Command::new("gzip").arg("-dc").arg(path).output().unwrap().stdout;
                    unpacked.iter().filter(|byte| **byte == b'\n').count()
                }
            })
            .sum();
        // A log that is named by a variable is opened for its lines, also between the moves of logrotate, which then sets
        // the file aside.
        let aside: usize = files_in(&package.setup.path("log"))
            .filter(|path| path.to_string_lossy().contains(".backup."))
            .filter(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
            .map(|path| lines_of(&path))
            .sum();
        assert_eq!(lines + aside, asked, "{name}");
    }
}
