//! A server started as a process of its own: nginx, larder, or anything with the command line of nginx or varnishd.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, kill_process};

use crate::PATIENCE;

/// How often a state is looked at that nobody announces: a file, the end of a process.
const POLL: Duration = Duration::from_millis(2);

/// A running server. Dropping it stops it.
///
/// With nginx's command line, its folder holds `nginx.conf`, which says `daemon off;` and `pid nginx.pid;`. Standard
/// output and error go to the files `stdout` and `stderr` there.
#[derive(Debug)]
pub struct ServerUnderTest {
    child: Child,
    folder: PathBuf,
    ready: Ready,
}

/// By what a server shows that it is ready.
#[derive(Clone, Copy, Debug)]
enum Ready {
    /// Its pid file, as nginx, which ends by QUIT.
    PidFile,
    /// It takes connections here, as varnishd, which ends by TERM.
    Listening(SocketAddr),
}

/// A signal that a server understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Reload.
    Hup,
    /// Reopen logs.
    Usr1,
    /// Upgrade.
    Usr2,
    /// Graceful end of the workers.
    Winch,
    /// Graceful stop.
    Quit,
    /// Fast stop.
    Term,
    /// Fast stop.
    Int,
    /// The end.
    Kill,
    /// Stands still until [`Signal::Continue`].
    Stop,
    /// Goes on.
    Continue,
}

/// Why a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The binary cannot be run.
    #[error("cannot run {binary}")]
    Run {
        /// Which.
        binary: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It ended before it was ready: most often a refused configuration.
    #[error("it ended with {status} before it was ready:\n{output}")]
    Ended {
        /// How.
        status: ExitStatus,
        /// Its standard error and its error log.
        output: String,
    },
    /// Its pid file did not come, or nobody listens.
    #[error("not ready after {PATIENCE:?}:\n{output}")]
    NotReady {
        /// Its standard error and its error log.
        output: String,
    },
}

impl ServerUnderTest {
    /// Runs `binary -p FOLDER/ -c nginx.conf -e error.log` and waits for `nginx.pid`.
    pub fn start(binary: &Path, folder: &Path) -> Result<ServerUnderTest, StartError> {
        ServerUnderTest::start_with(binary, folder, &[])
    }

    /// The same, with more arguments.
    pub fn start_with(binary: &Path, folder: &Path, arguments: &[&str]) -> Result<ServerUnderTest, StartError> {
        drop(fs::remove_file(folder.join("nginx.pid")));
        let mut command = Command::new(binary);
        command.arg("-p").arg(format!("{}/", folder.display())).args(["-c", "nginx.conf", "-e", "error.log"]);
        ServerUnderTest::spawn(command.args(arguments), folder, Ready::PidFile)
    }

    /// Runs a varnishd, or what takes its place, and waits until it takes connections at this address.
    pub fn start_varnishd(
        command: &mut Command,
        folder: &Path,
        address: SocketAddr,
    ) -> Result<ServerUnderTest, StartError> {
        ServerUnderTest::spawn(command, folder, Ready::Listening(address))
    }

    fn spawn(command: &mut Command, folder: &Path, ready: Ready) -> Result<ServerUnderTest, StartError> {
        let binary = PathBuf::from(command.get_program());
        let run = |source| StartError::Run { binary: binary.clone(), source };
        let child = command
            .stdin(Stdio::null())
            .stdout(fs::File::create(folder.join("stdout")).map_err(run)?)
            .stderr(fs::File::create(folder.join("stderr")).map_err(run)?)
            .spawn()
            .map_err(run)?;
        let mut server = ServerUnderTest { child, folder: folder.to_owned(), ready };
        server.wait_until_ready()?;
        Ok(server)
    }

    fn wait_until_ready(&mut self) -> Result<(), StartError> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.is_ready() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(StartError::Ended { status, output: self.complaints() });
            }
            thread::sleep(POLL);
        }
        Err(StartError::NotReady { output: self.complaints() })
    }

    fn is_ready(&self) -> bool {
        match self.ready {
            Ready::PidFile => fs::read_to_string(self.folder.join("nginx.pid")).is_ok_and(|pid| pid.ends_with('\n')),
            Ready::Listening(address) => TcpStream::connect(address).is_ok(),
        }
    }

    /// The process that was started; with nginx, the master.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it said before it ended by itself, if it does within this time.
    pub fn last_words(&mut self, limit: Duration) -> Option<String> {
        self.wait_for(limit).map(|_| self.complaints())
    }

    /// Its children: with nginx, the workers and cache processes.
    pub fn children(&self) -> Vec<u32> {
        children_of(self.pid())
    }

    /// Sends a signal to it.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        signal_to(self.pid(), signal)
    }

    /// The error log so far; empty when there is none.
    pub fn error_log(&self) -> String {
        self.text("error.log")
    }

    /// `access.log` so far; empty when there is none.
    pub fn access_log(&self) -> String {
        self.text("access.log")
    }

    /// A file of its folder as text; empty when there is none.
    pub fn text(&self, name: &str) -> String {
        fs::read(self.folder.join(name)).map(|bytes| crate::text_of(&bytes)).unwrap_or_default()
    }

    /// Standard error, then the error log.
    fn complaints(&self) -> String {
        self.text("stderr") + &self.error_log()
    }

    /// Stops it by QUIT if it is an nginx, by TERM when it has not ended after five seconds, and by KILL after ten.
    pub fn stop(mut self) -> Option<ExitStatus> {
        self.end()
    }

    /// Waits for its end; `None` when patience ran out.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        self.wait_for(PATIENCE)
    }

    fn wait_for(&mut self, limit: Duration) -> Option<ExitStatus> {
        end_within(&mut self.child, limit)
    }

    fn end(&mut self) -> Option<ExitStatus> {
        if let Ok(Some(status)) = self.child.try_wait() {
            return Some(status);
        }
        let children = self.children();
        let signals: &[Signal] = match self.ready {
            Ready::PidFile => &[Signal::Quit, Signal::Term],
            Ready::Listening(_) => &[Signal::Term],
        };
        for signal in signals {
            drop(self.signal(*signal));
            if let Some(status) = self.wait_for(Duration::from_secs(5)) {
                return Some(status);
            }
        }
        drop(self.child.kill());
        // They would keep the listening sockets, and no parent is left to tell them.
        for child in children {
            drop(signal_to(child, Signal::Kill));
        }
        self.wait_for(PATIENCE)
    }
}

impl Drop for ServerUnderTest {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process has ended; `None` when patience ran out.
pub fn end_of(child: &mut Child) -> Option<ExitStatus> {
    end_within(child, PATIENCE)
}

fn end_within(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + limit;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(POLL);
    }
}

/// Sends a signal to one process.
pub fn signal_to(pid: u32, signal: Signal) -> io::Result<()> {
    let signal = match signal {
        Signal::Hup => rustix::process::Signal::HUP,
        Signal::Usr1 => rustix::process::Signal::USR1,
        Signal::Usr2 => rustix::process::Signal::USR2,
        Signal::Winch => rustix::process::Signal::WINCH,
        Signal::Quit => rustix::process::Signal::QUIT,
        Signal::Term => rustix::process::Signal::TERM,
        Signal::Int => rustix::process::Signal::INT,
        Signal::Kill => rustix::process::Signal::KILL,
        Signal::Stop => rustix::process::Signal::STOP,
        Signal::Continue => rustix::process::Signal::CONT,
    };
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(kill_process(pid, signal)?)
}

/// The processes whose parent is `pid`.
pub fn children_of(pid: u32) -> Vec<u32> {
    let Ok(processes) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut children: Vec<u32> = processes
        .filter_map(|process| process.ok()?.file_name().to_str()?.parse().ok())
        .filter(|process| parent_of(*process) == Some(pid))
        .collect();
    children.sort_unstable();
    children
}

/// Whether a process is there and has not ended; one whose end nobody has asked about has ended.
pub fn is_running(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().next());
        !matches!(state, Some("Z" | "X") | None)
    })
}

/// The fourth word of `/proc/PID/stat`, counted behind the name, which may hold spaces.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Client, Folder, free_port};

    #[test]
    fn a_server_is_ready_when_started_and_gone_when_dropped() {
        let nginx = Path::new("/usr/sbin/nginx");
        if !nginx.exists() {
            return;
        }
        let folder = Folder::new().unwrap();
        let port = free_port();
        folder
            .write(
                "nginx.conf",
                format!(
                    "daemon off; pid nginx.pid; events {{}} http {{ access_log access.log;
                     server {{ listen 127.0.0.1:{port}; return 200 hi; }} }}"
                ),
            )
            .unwrap();
        let server = ServerUnderTest::start(nginx, folder.path()).unwrap();
        let mut client = Client::connect(([127, 0, 0, 1], port).into()).unwrap();
        client.send(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        assert_eq!(client.read_response("GET").unwrap().body, b"hi");
        assert!(!server.children().is_empty());
        let pid = server.pid();
        assert!(server.stop().unwrap().success());
        assert_eq!(parent_of(pid), None);
    }

    #[test]
    fn a_refused_configuration_is_an_error_with_its_reason() {
        let nginx = Path::new("/usr/sbin/nginx");
        if !nginx.exists() {
            return;
        }
        let folder = Folder::new().unwrap();
        folder.write("nginx.conf", "daemon off; nonsense;").unwrap();
        let error = ServerUnderTest::start(nginx, folder.path()).unwrap_err();
        assert!(matches!(&error, StartError::Ended { output, .. } if output.contains("nonsense")), "{error}");
    }
}
