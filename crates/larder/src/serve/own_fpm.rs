//! A php-fpm that larder starts, watches and ends, for a machine where none runs.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Gid, Group, Pid, Uid, User};

use crate::oserror::CallFailed;
use crate::serve::memory;
use crate::spawn;

/// How to start php-fpm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The php-fpm.
    pub program: PathBuf,
    /// Where it will listen.
    pub socket: PathBuf,
    /// How many requests it works at, at once.
    pub children: u64,
    /// The path of its configuration. Then: the content.
    conf_file: PathBuf,
    conf: String,
    /// Whether children run as root, for which php-fpm needs an option.
    as_root: bool,
}

/// Why there is no PHP.
#[derive(Debug, thiserror::Error)]
pub enum FpmError {
    /// No php-fpm is installed.
    #[error(
        "this site needs PHP, and no php-fpm was found running (in /run/php, /run/php-fpm or at 127.0.0.1:9000) \
         or installed; on Debian and Ubuntu, \"apt install php-fpm\" brings it"
    )]
    NotInstalled,
    /// The owner of the site is not a user of this machine.
    #[error("{} belongs to the user {uid}, who is not in /etc/passwd; PHP is not run as root for such a site", root.display())]
    UnknownOwner {
        /// The site.
        root: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The system refused something.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// It ended before it listened, or repeatedly.
    #[error("{} does not stay up; its own words are above", .0.display())]
    DoesNotRun(PathBuf),
    /// It runs but does not listen.
    #[error("{} does not listen after {START_PATIENCE:?}", .0.display())]
    DoesNotListen(PathBuf),
}

/// Plans a php-fpm for the site in `root`, with its files in `scratch`.
pub fn plan(root: &Path, scratch: &Path) -> Result<Plan, FpmError> {
    let program = installed().ok_or(FpmError::NotInstalled)?;
    let account = Account::of(root)?;
    let socket = scratch.join("php.sock");
    let children = memory::php_children(memory::available_bytes());
    Ok(Plan {
        program,
        conf_file: scratch.join("php-fpm.conf"),
        conf: conf(&account, scratch, &socket, children),
        socket,
        children,
        as_root: account == Account::Root,
    })
}

/// The newest php-fpm in `PATH` and in the usual folders.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places: Vec<_> = std::env::split_paths(&path).chain(SYSTEM_FOLDERS.map(PathBuf::from)).collect();
    let names = places.iter().flat_map(|place| fpm_in(place));
    names.max_by_key(|path| version(path))
}

fn fpm_in(place: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(place).into_iter().flatten().filter_map(Result::ok);
    entries.map(|entry| entry.path()).filter(|path| version(path).is_some()).collect()
}

/// The version in a name such as `php-fpm8.2` or `php-fpm82`; plain `php-fpm` goes first, because it is the system's
/// default. `None` if it is not a php-fpm.
fn version(program: &Path) -> Option<(u32, u32)> {
    let version = program.file_name()?.to_str()?.strip_prefix("php-fpm")?;
    let digits = |text: &str| text.parse::<u32>().ok();
    match version.split_once('.') {
        _ if version.is_empty() => Some((u32::MAX, 0)),
        Some((major, minor)) => Some((digits(major)?, digits(minor)?)),
        None => digits(version).map(|number| (number / 10, number % 10)),
    }
}

/// The account of PHP.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Account {
    /// The user who called larder, who is not root.
    Caller,
    /// The owner of the site, because larder runs as root.
    Owner { user: String, group: String },
    /// Root, because larder runs as root and the site belongs to root.
    Root,
}

impl Account {
    fn of(root: &Path) -> Result<Account, FpmError> {
        if !Uid::effective().is_root() {
            return Ok(Account::Caller);
        }
        let metadata = fs::metadata(root).map_err(|error| CallFailed::on("stat", root.display(), error))?;
        if metadata.uid() == 0 {
            return Ok(Account::Root);
        }
        let unknown = || FpmError::UnknownOwner { root: root.to_owned(), uid: metadata.uid() };
        let user = User::from_uid(Uid::from_raw(metadata.uid())).ok().flatten().ok_or_else(unknown)?;
        let group = Group::from_gid(Gid::from_raw(user.gid.as_raw())).ok().flatten().ok_or_else(unknown)?;
        Ok(Account::Owner { user: user.name, group: group.name })
    }
}

/// The configuration of the pool. An option on the command line sends its errors to our standard error.
fn conf(account: &Account, scratch: &Path, socket: &Path, children: u64) -> String {
    let account = match account {
        Account::Caller => String::new(),
        Account::Owner { user, group } => format!("user = {user}\ngroup = {group}\n"),
        Account::Root => "user = root\ngroup = root\n".to_owned(),
    };
    format!(
        "[global]\n\
         error_log = {scratch}/php-fpm.log\n\
         log_level = warning\n\
         daemonize = no\n\
         [larder]\n\
         {account}\
         listen = {socket}\n\
         listen.mode = 0600\n\
         pm = ondemand\n\
         pm.max_children = {children}\n\
         pm.process_idle_timeout = 60s\n\
         catch_workers_output = yes\n\
         decorate_workers_output = no\n\
         clear_env = no\n",
        scratch = scratch.display(),
        socket = socket.display(),
    )
}

/// A running php-fpm. It ends when this is dropped, and when larder is killed.
#[derive(Debug)]
pub struct OwnFpm {
    plan: Plan,
    child: Child,
    started: Instant,
}

impl OwnFpm {
    /// Starts it, and returns when it listens.
    pub async fn start(plan: &Plan) -> Result<OwnFpm, FpmError> {
        fs::write(&plan.conf_file, &plan.conf)
            .map_err(|error| CallFailed::on("open", plan.conf_file.display(), error))?;
        let mut fpm = OwnFpm { child: spawn(plan)?, plan: plan.clone(), started: Instant::now() };
        fpm.wait_until_it_listens().await?;
        Ok(fpm)
    }

    /// Starts it again if it has ended. An error if it ended soon after its start.
    pub async fn keep_running(&mut self) -> Result<(), FpmError> {
        if let Ok(None) = self.child.try_wait() {
            return Ok(());
        }
        if self.started.elapsed() < YOUNG {
            return Err(FpmError::DoesNotRun(self.plan.program.clone()));
        }
        eprintln!("larder: php-fpm ended and is started again");
        self.end_children();
        self.child = spawn(&self.plan)?;
        self.started = Instant::now();
        self.wait_until_it_listens().await
    }

    /// Ends the processes that it has left behind: its process group.
    fn end_children(&self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // Usually there are none.
            let _ = killpg(Pid::from_raw(group), Signal::SIGTERM);
        }
    }

    async fn wait_until_it_listens(&mut self) -> Result<(), FpmError> {
        while self.started.elapsed() < START_PATIENCE {
            if UnixStream::connect(&self.plan.socket).is_ok() {
                return Ok(());
            }
            if !matches!(self.child.try_wait(), Ok(None)) {
                return Err(FpmError::DoesNotRun(self.plan.program.clone()));
            }
            tokio::time::sleep(POLL).await;
        }
        Err(FpmError::DoesNotListen(self.plan.program.clone()))
    }
}

impl Drop for OwnFpm {
    fn drop(&mut self) {
        // It is our child and not reaped yet, so the pid is still its own.
        if let (Ok(None), Ok(pid)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        let asked = Instant::now();
        while let Ok(None) = self.child.try_wait() {
            if asked.elapsed() > END_PATIENCE {
                let _ = self.child.kill();
                let _ = self.child.wait();
                break;
            }
            std::thread::sleep(POLL);
        }
        self.end_children();
    }
}

fn spawn(plan: &Plan) -> Result<Child, FpmError> {
    // The socket of a php-fpm that was killed would look as if the new one listened.
    match fs::remove_file(&plan.socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(CallFailed::on("unlink", plan.socket.display(), error).into());
        }
        _ => {}
    }
    let mut command = spawn::tied(plan.program.as_os_str());
    command.args(["--nodaemonize", "--force-stderr", "--fpm-config"]).arg(&plan.conf_file);
    if plan.as_root {
        command.arg("--allow-to-run-as-root");
    }
    // In its own process group it does not get ^C: it has to end after the last request that needs it.
    command.stdin(Stdio::null()).process_group(0);
    command.spawn().map_err(|error| CallFailed::on("exec", plan.program.display(), error).into())
}

const SYSTEM_FOLDERS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/usr/bin"];
const START_PATIENCE: Duration = Duration::from_secs(10);
const END_PATIENCE: Duration = Duration::from_secs(3);
const YOUNG: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_php_is_told_by_its_name() {
        for (name, expected) in [
            ("php-fpm", Some((u32::MAX, 0))),
            ("php-fpm8.2", Some((8, 2))),
            ("php-fpm83", Some((8, 3))),
            ("php-fpm8.2.1", None),
            ("php-fpm.conf", None),
            ("php8.2", None),
            ("php-fpm-healthcheck", None),
        ] {
            assert_eq!(version(&Path::new("/usr/sbin").join(name)), expected, "{name}");
        }
    }

    #[test]
    fn the_pool_runs_as_who_owns_the_site() {
        for (account, expected) in [
            (Account::Caller, None),
            (Account::Root, Some("user = root\ngroup = root\n")),
            (Account::Owner { user: "www".to_owned(), group: "web".to_owned() }, Some("user = www\ngroup = web\n")),
        ] {
            let text = conf(&account, Path::new("/s"), Path::new("/s/php.sock"), 7);
            assert!(text.contains("listen = /s/php.sock\n") && text.contains("pm.max_children = 7\n"), "{text}");
            match expected {
                Some(lines) => assert!(text.contains(lines), "{text}"),
                None => assert!(!text.contains("user ="), "{text}"),
            }
        }
    }
}
