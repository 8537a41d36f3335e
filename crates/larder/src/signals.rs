//! The signals a process of ours listens to.

use std::io;

use nix::sys::signal::SigSet;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// All signals, caught from the moment this exists. Needs a tokio runtime.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    quit: Signal,
    terminate: Signal,
    interrupt: Signal,
    user1: Signal,
    user2: Signal,
    window: Signal,
    child: Signal,
}

/// A signal that came, with what it means to nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// HUP: read the configuration again.
    Reload,
    /// QUIT: end when the requests that run are done.
    Quit,
    /// TERM: end now.
    Terminate,
    /// INT: the same.
    Interrupt,
    /// USR1: open the logs again.
    Reopen,
    /// USR2: hand over to a new binary.
    Upgrade,
    /// WINCH: let the serving process end, and stay.
    Leave,
    /// CHLD: a child ended.
    Child,
}

impl Signals {
    /// Catches signals from now on.
    pub fn new() -> io::Result<Signals> {
        // nginx starts a new binary with its own signals blocked, and this is inherited.
        SigSet::empty().thread_set_mask()?;
        Ok(Signals {
            hangup: signal(SignalKind::hangup())?,
            quit: signal(SignalKind::quit())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            user1: signal(SignalKind::user_defined1())?,
            user2: signal(SignalKind::user_defined2())?,
            window: signal(SignalKind::window_change())?,
            child: signal(SignalKind::child())?,
        })
    }

    /// The next signal. Orders to end go first: a ^C reaches child and parent together, and the parent
    /// is not to think that the child died by itself.
    pub async fn next(&mut self) -> Received {
        tokio::select! {
            biased;
            _ = self.terminate.recv() => Received::Terminate,
            _ = self.interrupt.recv() => Received::Interrupt,
            _ = self.quit.recv() => Received::Quit,
            _ = self.hangup.recv() => Received::Reload,
            _ = self.user1.recv() => Received::Reopen,
            _ = self.user2.recv() => Received::Upgrade,
            _ = self.window.recv() => Received::Leave,
            _ = self.child.recv() => Received::Child,
        }
    }
}

impl Received {
    /// The signal as nginx names it in its log, with what follows from it.
    pub fn describe(self) -> &'static str {
        match self {
            Received::Reload => "signal 1 (SIGHUP) received, reconfiguring",
            Received::Quit => "signal 3 (SIGQUIT) received, shutting down",
            Received::Terminate => "signal 15 (SIGTERM) received, exiting",
            Received::Interrupt => "signal 2 (SIGINT) received, exiting",
            Received::Reopen => "signal 10 (SIGUSR1) received, reopening logs",
            Received::Upgrade => "signal 12 (SIGUSR2) received, changing binary",
            Received::Leave => "signal 28 (SIGWINCH) received, shutting down gracefully",
            Received::Child => "signal 17 (SIGCHLD) received",
        }
    }
}
