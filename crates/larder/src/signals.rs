//! The signals that larder's processes handle.

use std::io;

use nix::sys::signal::SigSet;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Catches all of these signals while it exists. Needs a tokio runtime.
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

/// A received signal, by its meaning in nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// HUP: read the configuration again.
    Reload,
    /// QUIT: end when the running requests are done.
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
        // nginx starts a new binary with signals blocked, and the new process inherits that.
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

    /// The next signal. Signals to end go first: ^C reaches supervisor and serving process together, and the supervisor
    /// must not think that the other one died by itself.
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
    /// nginx's log text for the signal, with its consequence.
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
