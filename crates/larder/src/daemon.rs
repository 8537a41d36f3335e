//! `daemon on`: the process that was called starts a supervisor, and waits until it is ready or has failed.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};

use crate::invocation::Invocation;
use crate::oserror::CallFailed;
use crate::spawn;

/// Starts a supervisor, and returns when it is ready or has failed.
///
/// Until then the supervisor has our standard error, so that the caller sees errors.
pub fn start(invocation: &Invocation) -> Result<ExitCode, CallFailed> {
    let (mut ours, theirs) = UnixStream::pair().map_err(|error| CallFailed::new("socketpair", error))?;
    let mut command = spawn::supervisor(invocation);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn().map_err(spawn::not_again)?;
    // This closes our copy of its end, so that the stream ends when the process ends.
    drop(command);
    let mut answer = [0];
    match ours.read(&mut answer) {
        Ok(1) => Ok(ExitCode::SUCCESS),
        Ok(_) | Err(_) => {
            let _ = child.wait();
            Ok(ExitCode::FAILURE)
        }
    }
}

/// The supervisor's side: a process waits until we are ready.
#[derive(Debug)]
pub struct Waiting(UnixStream);

impl Waiting {
    /// Leaves the caller's session; the calling process still waits.
    pub fn detach() -> Result<Waiting, CallFailed> {
        let socket = spawn::take_stdin_socket()?;
        rustix::process::setsid().map_err(|error| CallFailed::new("setsid", error))?;
        Ok(Waiting(socket))
    }

    /// Tells the waiting process that we are ready, and leaves the terminal.
    pub fn tell(mut self) -> Result<(), CallFailed> {
        let null = spawn::null()?;
        nix::unistd::dup2_stdout(&null).map_err(|error| CallFailed::new("dup2", error))?;
        // The waiting process may have been killed; then there is nobody to tell.
        let _ = self.0.write_all(b"R");
        Ok(())
    }

    /// The same, and standard error is left, too: nobody will read it.
    pub fn leave_terminal(self) -> Result<(), CallFailed> {
        self.tell()?;
        let null = spawn::null()?;
        nix::unistd::dup2_stderr(&null).map_err(|error| CallFailed::new("dup2", error))
    }
}
