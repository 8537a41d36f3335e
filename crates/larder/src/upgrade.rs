//! Replaces the running binary (USR2): starts the new one with our listening sockets. Both serve until one of them is
//! told to end.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use crate::inherit::{self, Predecessor};
use crate::invocation::Invocation;
use crate::oserror::CallFailed;
use crate::process::How;
use crate::sockets::{self, Keeper, Listener};

/// The new binary, which we have started to replace us.
#[derive(Debug)]
pub struct Successor {
    child: Child,
}

impl Successor {
    /// Starts the file that is now at our program's path, with our arguments and sockets, as nginx does.
    pub fn start(invocation: &Invocation, listeners: &[Listener]) -> Result<Successor, CallFailed> {
        let sockets: Vec<(OwnedFd, Keeper)> = listeners
            .iter()
            .flat_map(|listener| listener.sockets().iter().map(|socket| (socket, listener.keeper())))
            // Unlike our sockets, these copies survive exec. We close them when the new process has them.
            .map(|(socket, keeper)| Ok((rustix::io::dup(socket)?, keeper)))
            .collect::<io::Result<_>>()
            .map_err(|error| CallFailed::new("dup", error))?;
        let numbers = inherit::written(sockets.iter().map(|(socket, keeper)| (socket, *keeper)));
        let mut command = Command::new(&invocation.program);
        command.args(&invocation.words).env(inherit::VARIABLE, numbers);
        for name in inherit::SYSTEMD_VARIABLES {
            command.env_remove(name);
        }
        let child = command.spawn().map_err(|error| CallFailed::on("execve", invocation.program.display(), error))?;
        Ok(Successor { child })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<How> {
        self.child.try_wait().ok().flatten().map(How::of)
    }
}

/// The processes that listen at our addresses beside us while a binary is changed.
#[derive(Debug, Default)]
pub struct Neighbours {
    /// The process that started us.
    pub predecessor: Option<Predecessor>,
    /// The process that we started.
    pub successor: Option<Successor>,
}

impl Neighbours {
    /// Whether a binary is being changed: by us, or for us.
    pub fn is_any(&self) -> bool {
        self.successor.is_some() || self.predecessor.as_ref().is_some_and(Predecessor::is_alive)
    }

    /// Removes the files of unix sockets that are among `gone`, not among `kept`, and that no neighbour needs.
    pub fn remove_unix<'a>(&self, gone: impl IntoIterator<Item = &'a Listener>, kept: &[Listener]) {
        let is_ours = |listener: &&Listener| {
            let is_shared = |predecessor: &Predecessor| predecessor.shares(listener.address());
            self.successor.is_none() && !self.predecessor.as_ref().is_some_and(is_shared)
        };
        sockets::remove_unix(gone.into_iter().filter(is_ours), kept);
    }
}

/// The path of our pid file while the new binary has the normal one.
pub fn old_pid_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".oldbin");
    name.into()
}
