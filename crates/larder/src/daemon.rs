//! `daemon on`: the process that was called waits until a supervisor of its own is ready, or has failed.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};

use crate::invocation::Invocation;
use crate::oserror::CallFailed;
use crate::spawn;

/// Starts a supervisor for whoever called us, and returns when it is ready or has failed.
///
/// The supervisor has our standard error until then, so that errors are seen.
pub fn start(invocation: &Invocation) -> Result<ExitCode, CallFailed> {
    let (mut ours, theirs) = UnixStream::pair().map_err(|error| CallFailed::new("socketpair", error))?;
    let mut command = spawn::supervisor(invocation);
    command.stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut child = command.spawn().map_err(|error| CallFailed::new("fork", error))?;
    // Our copy of its end goes with the command, so that the end of the process is the end of the stream.
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

/// The supervisor's side: someone waits to hear that we are ready.
#[derive(Debug)]
pub struct Waiting(UnixStream);

impl Waiting {
    /// Leaves the session of whoever called, who still waits.
    pub fn detach() -> Result<Waiting, CallFailed> {
        let socket = spawn::take_stdin_socket()?;
        rustix::process::setsid().map_err(|error| CallFailed::new("setsid", error))?;
        Ok(Waiting(socket))
    }

    /// Lets the one who waits go, and leaves the terminal.
    pub fn tell(mut self) -> Result<(), CallFailed> {
        let null = spawn::null()?;
        nix::unistd::dup2_stdout(&null).map_err(|error| CallFailed::new("dup2", error))?;
        // Whoever waited may have been killed; then nobody needs to know.
        let _ = self.0.write_all(b"R");
        Ok(())
    }
}
