//! A serving process, from the supervisor's side.

use std::fmt;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use larder_conf::model::{LogLevel, Main};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::timeout;

use crate::control::{Channel, Configure, ControlError, Message};
use crate::generation::Generation;
use crate::logs::{self, OpenLog};
use crate::oserror::CallFailed;
use crate::spawn;

/// A serving process, which is our child.
#[derive(Debug)]
pub struct Process {
    child: Child,
    channel: Option<Channel>,
    started: Instant,
    /// Its state, as far as we know.
    pub standing: Standing,
}

/// The state of a serving process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It has not reported yet that it serves.
    Starting,
    /// It serves.
    Serving,
    /// It was told to end.
    Leaving,
}

/// Whether the process keeps our standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminal {
    /// We run in the foreground.
    Kept,
    /// We are a daemon.
    Left,
}

/// The sockets at which a process tells of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct ToldAt<'a> {
    /// The transaction log.
    pub log: Option<&'a UnixListener>,
    /// Answers to questions.
    pub ask: Option<&'a UnixListener>,
}

/// Why a process could not be started, or does not react.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The system refused something.
    #[error(transparent)]
    Call(#[from] CallFailed),
    /// Its control socket failed.
    #[error(transparent)]
    Control(#[from] ControlError),
    /// It reads the control socket too slowly.
    #[error("the serving process takes no orders")]
    Deaf,
}

/// The end of a process.
#[derive(Debug)]
pub struct Ended {
    /// Exit code or signal.
    pub how: How,
    /// The messages that it sent before.
    pub last_words: Vec<Message>,
}

/// How a process ended. The texts are nginx's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// By itself.
    Exited(i32),
    /// By a signal; the flag says that there is a core file.
    Killed(i32, bool),
}

/// After how many ms mimalloc returns free memory. Above zero it waits until more is freed, so a process would seem
/// full for a long time after a rush.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// What has been before a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Past {
    /// How many serving processes have died.
    pub deaths: u32,
    /// How many configurations have replaced the first one.
    pub reloads: u32,
}

impl Process {
    /// Starts a process and sends it `generation`, with the number of its workers, and what was before it. It will answer whether it serves it.
    pub async fn start(
        generation: &Generation,
        (workers, past): (usize, Past),
        terminal: Terminal,
        told_at: ToldAt<'_>,
    ) -> Result<Process, ProcessError> {
        let (ours, theirs) = UnixStream::pair().map_err(|error| CallFailed::new("socketpair", error))?;
        let config = &generation.configuration.config;
        let mut command = spawn::serving();
        command.stdin(Stdio::from(OwnedFd::from(theirs))).env_clear();
        if larder_server::has_little_memory(config.http.memory_total) {
            command.env(PURGE_DELAY, "0");
        }
        command.envs(environment(&config.main));
        if let Some(file) = logs::stderr_file(config, &generation.logs) {
            // So that a panic is in the log.
            command.stderr(file);
        }
        if terminal == Terminal::Left {
            // So that the reader of the caller's output does not wait for our end.
            command.stdout(Stdio::null());
        }
        let child = command.spawn().map_err(spawn::not_again)?;
        // This closes our copy of its end, so that we notice when it dies.
        drop(command);
        let channel = Channel::new(ours).map_err(|error| CallFailed::new("socketpair", error))?;
        let mut process =
            Process { child, channel: Some(channel), started: Instant::now(), standing: Standing::Starting };
        match process.configure(generation, (workers, past), told_at).await {
            // If it has died already, it is reaped and reported like any other.
            Ok(()) | Err(ProcessError::Control(ControlError::Io(_))) => Ok(process),
            Err(error) => {
                let _ = process.child.kill();
                let _ = process.child.wait();
                Err(error)
            }
        }
    }

    /// Sends `generation` to the process, and the sockets at which it tells of itself to one that begins. It will answer whether
    /// it serves it.
    pub async fn configure(
        &mut self,
        generation: &Generation,
        (workers, past): (usize, Past),
        told_at: ToldAt<'_>,
    ) -> Result<(), ProcessError> {
        let configuration = &generation.configuration;
        let count = |sockets: usize| u32::try_from(sockets).unwrap_or(u32::MAX);
        let listeners = generation.listeners.iter();
        let configure = Configure {
            workers: count(workers),
            respawned: past.deaths,
            reloads: past.reloads,
            account: generation.account.clone(),
            surroundings: configuration.surroundings.clone(),
            files: Vec::new(),
            globs: Vec::new(),
            listeners: listeners
                .clone()
                .map(|listener| (listener.address().clone(), count(listener.sockets().len())))
                .collect(),
            logs: generation.logs.iter().map(|(path, _)| path.clone()).collect(),
            has_log_socket: told_at.log.is_some(),
            has_ask_socket: told_at.ask.is_some(),
        };
        let message =
            Message::Configure(Box::new(configure.with_files(&configuration.sources, &configuration.material)));
        let sockets = listeners.flat_map(|listener| listener.sockets());
        let logs = generation.logs.iter().map(|(_, descriptor)| descriptor);
        // Each is the last one while those behind it have been taken.
        let told_at = told_at.ask.into_iter().chain(told_at.log).map(AsFd::as_fd);
        let descriptors: Vec<_> = sockets.chain(logs).map(AsFd::as_fd).chain(told_at).collect();
        self.say(&message, &descriptors).await
    }

    /// Tells the process to write to these files.
    pub async fn reopen(&mut self, logs: &[OpenLog]) -> Result<(), ProcessError> {
        let message = Message::Reopen(logs.iter().map(|(path, _)| path.clone()).collect());
        let descriptors: Vec<_> = logs.iter().map(|(_, descriptor)| descriptor.as_fd()).collect();
        self.say(&message, &descriptors).await
    }

    async fn say(&self, message: &Message, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), ProcessError> {
        let channel = self.channel.as_ref().ok_or(ProcessError::Deaf)?;
        match timeout(SAY_PATIENCE, channel.send(message, descriptors)).await {
            Ok(said) => Ok(said?),
            Err(_) => Err(ProcessError::Deaf),
        }
    }

    /// Its control socket, unless that is closed.
    pub fn channel(&mut self) -> Option<&mut Channel> {
        self.channel.as_mut()
    }

    /// Closes its control socket.
    pub fn close_channel(&mut self) {
        self.channel = None;
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How long it has run.
    pub fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sends it a signal. It is our child and not reaped yet, so the pid is still its own.
    pub fn signal(&mut self, signal: Signal) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            // If it is already a zombie, it will be reaped.
            let _ = kill(Pid::from_raw(pid), signal);
        }
    }

    /// Its end, if it has ended.
    pub async fn ended(&mut self) -> Option<Ended> {
        let status = self.child.try_wait().ok()??;
        let mut last_words = Vec::new();
        if let Some(channel) = &mut self.channel {
            // The other end is closed, so this ends, unless a program that the process started has a copy.
            while let Ok(Ok(Some((message, _)))) = timeout(LAST_WORDS_PATIENCE, channel.receive()).await {
                last_words.push(message);
                if last_words.len() == LAST_WORDS_MAX {
                    break;
                }
            }
        }
        self.channel = None;
        let how = How::of(status);
        Some(Ended { how, last_words })
    }
}

impl How {
    /// How a process with this exit status ended.
    pub fn of(status: ExitStatus) -> How {
        match (status.signal(), status.code()) {
            (Some(signal), _) => How::Killed(signal, status.core_dumped()),
            (None, code) => How::Exited(code.unwrap_or_default()),
        }
    }

    /// The level of nginx's message about it.
    pub fn level(self) -> LogLevel {
        match self {
            How::Exited(_) => LogLevel::Notice,
            How::Killed(..) => LogLevel::Alert,
        }
    }
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            How::Exited(code) => write!(f, "exited with code {code}"),
            How::Killed(signal, false) => write!(f, "exited on signal {signal}"),
            How::Killed(signal, true) => write!(f, "exited on signal {signal} (core dumped)"),
        }
    }
}

/// The environment of a serving process: `TZ` and what `env` names, as with nginx, and larder's own variables.
fn environment(main: &Main) -> Vec<(std::ffi::OsString, std::ffi::OsString)> {
    let is_kept = |name: &str| {
        let named = main.env.iter().any(|(env, value)| env == name && value.is_none());
        named || name == "TZ" || OUR_VARIABLES.iter().any(|prefix| name.starts_with(prefix))
    };
    let kept = std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(is_kept));
    let set = main.env.iter().filter_map(|(name, value)| Some((name.into(), value.as_ref()?.into())));
    kept.chain(set).collect()
}

const OUR_VARIABLES: [&str; 2] = ["LARDER_", "RUST_"];
const SAY_PATIENCE: Duration = Duration::from_secs(10);
const LAST_WORDS_PATIENCE: Duration = Duration::from_secs(1);
const LAST_WORDS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_told_in_the_words_of_nginx() {
        for (raw, level, text) in [
            (0, LogLevel::Notice, "exited with code 0"),
            (2 << 8, LogLevel::Notice, "exited with code 2"),
            (9, LogLevel::Alert, "exited on signal 9"),
            (11 | 0x80, LogLevel::Alert, "exited on signal 11 (core dumped)"),
        ] {
            let how = How::of(ExitStatus::from_raw(raw));
            assert_eq!((how.level(), how.to_string().as_str()), (level, text));
        }
    }
}
