//! A MariaDB of the test's own, on a unix socket and nowhere else.

use larder_testkit::PATIENCE;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A running MariaDB. Dropping it stops it.
pub struct Database {
    child: Child,
    socket: PathBuf,
}

impl Database {
    /// Makes an empty one below `folder` and waits until its socket takes connections.
    pub fn start(folder: &Path) -> Database {
        let log = folder.join("mariadb.log");
        let output = File::create(&log).expect("the folder is ours");
        let share = || output.try_clone().expect("a descriptor is left");
        // Started by root it runs as `mysql`, which has to write its socket.
        let meeting = folder.join("db");
        fs::create_dir(&meeting).expect("the folder is ours");
        fs::set_permissions(&meeting, Permissions::from_mode(0o1777)).expect("the folder is ours");
        let data = format!("--datadir={}", folder.join("db/data").display());
        let user = if geteuid().is_root() { vec!["--user=mysql"] } else { vec![] };

        let made = Command::new("mariadb-install-db")
            .args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"])
            .arg(&data)
            .args(&user)
            .stdout(share())
            .stderr(share())
            .status()
            .expect("it was there a moment ago");
        assert!(made.success(), "mariadb-install-db: {}", read(&log));

        let socket = meeting.join("sql");
        let child = Command::new("/usr/sbin/mariadbd")
            .args(["--no-defaults", "--skip-networking", "--skip-log-bin", "--performance-schema=off"])
            .args(["--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"])
            .arg("--innodb-flush-log-at-trx-commit=0")
            .arg(data)
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}", meeting.join("pid").display()))
            .args(user)
            .stdin(Stdio::null())
            .stdout(share())
            .stderr(share())
            .spawn()
            .expect("it was there a moment ago");
        let mut database = Database { child, socket };
        let started = Instant::now();
        while UnixStream::connect(&database.socket).is_err() {
            let ended = database.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "mariadbd ended: {}", read(&log));
            assert!(started.elapsed() < PATIENCE, "mariadbd is not ready: {}", read(&log));
            sleep(Duration::from_millis(20));
        }
        database
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(10) && matches!(self.child.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read(log: &Path) -> String {
    fs::read_to_string(log).unwrap_or_default()
}
