//! Starting this same program again, in another role. Safe Rust has no fork, so the program is called with `larder:` as
//! its name and the role as arguments, which `ps` shows as `larder: serving process`.

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::invocation::Invocation;
use crate::oserror::CallFailed;

/// The role of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It was called from outside, by a person or a script.
    Called(Invocation),
    /// It supervises as a daemon. With the invocation of the process that started it.
    Supervisor(Invocation),
    /// It serves, for a supervisor.
    Serving,
    /// It becomes another program, which ends when its parent ends.
    Tied(Vec<OsString>),
}

impl Role {
    /// The role for the words that a process was called with, the name of the program first.
    pub fn of(words: impl IntoIterator<Item = OsString>) -> Role {
        let mut words = words.into_iter();
        let name = words.next().unwrap_or_default();
        let rest: Vec<OsString> = words.collect();
        if name != ROLE_NAME {
            return Role::Called(Invocation::new(&name, rest));
        }
        match rest.split_first() {
            Some((role, _)) if role == SERVING[0] => Role::Serving,
            Some((role, [program, words @ ..])) if role == SUPERVISOR => {
                Role::Supervisor(Invocation { program: program.into(), words: words.to_vec() })
            }
            Some((role, words)) if role == TIED => Role::Tied(words.to_vec()),
            _ => Role::Called(Invocation::new(&name, rest)),
        }
    }
}

/// A command that starts a serving process.
pub fn serving() -> Command {
    let mut command = again();
    command.args(SERVING);
    command
}

/// A command that starts a supervisor as a daemon.
pub fn supervisor(invocation: &Invocation) -> Command {
    let mut command = again();
    command.arg(SUPERVISOR).arg(&invocation.program).args(&invocation.words);
    command
}

/// A command that starts another program, which ends when this process ends, for whatever reason.
pub fn tied(program: &OsStr) -> Command {
    let mut command = again();
    command.arg(TIED).arg(program);
    command
}

/// Becomes the program in `words`. Returns only if that fails.
pub fn become_tied(words: &[OsString]) -> io::Error {
    let Some((program, words)) = words.split_first() else {
        return io::Error::from(io::ErrorKind::InvalidInput);
    };
    // The setting is kept by exec, but not inherited by fork, so only the process itself can set it.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)) {
        return error.into();
    }
    Command::new(program).args(words).exec()
}

/// Why this program could not be started again. Without `/proc`, as in a bare chroot, its file is not found.
pub fn not_again(error: io::Error) -> CallFailed {
    match error.kind() {
        io::ErrorKind::NotFound => CallFailed::on("execve", RUNNING_FILE, error),
        _ => CallFailed::new("fork", error),
    }
}

fn again() -> Command {
    // The running file, even if an upgrade has put another one at its path.
    let mut command = Command::new(RUNNING_FILE);
    command.arg0(ROLE_NAME);
    command
}

/// Takes the socket that this process was started with as standard input, and leaves `/dev/null` there.
pub fn take_stdin_socket() -> Result<UnixStream, CallFailed> {
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned().map_err(|error| CallFailed::new("dup", error))?;
    let null = null()?;
    nix::unistd::dup2_stdin(&null).map_err(|error| CallFailed::new("dup2", error))?;
    Ok(UnixStream::from(socket))
}

/// `/dev/null`, for reading and writing.
pub fn null() -> Result<OwnedFd, CallFailed> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null");
    null.map(OwnedFd::from).map_err(|error| CallFailed::on("open", "/dev/null", error))
}

/// Gives this process the name that it was called by; after exec of `/proc/self/exe` it is `exe`.
pub fn set_process_name(name: &OsStr) {
    // The kernel keeps 15 bytes. Init scripts look for the name; if this fails, everything else still works.
    if let Ok(name) = CString::new(name.as_bytes()) {
        let _ = rustix::thread::set_name(&name);
    }
}

const RUNNING_FILE: &str = "/proc/self/exe";
const ROLE_NAME: &str = "larder:";
const SERVING: [&str; 2] = ["serving", "process"];
const SUPERVISOR: &str = "supervisor";
const TIED: &str = "tied";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_role_follows_from_the_words() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        let called = |program: &str, rest: &str| Invocation {
            program: program.into(),
            words: rest.split_whitespace().map(OsString::from).collect(),
        };
        for (line, expected) in [
            ("/usr/sbin/larder", Role::Called(called("/usr/sbin/larder", ""))),
            ("/bin/larder serving process", Role::Called(called("/bin/larder", "serving process"))),
            ("larder: serving process", Role::Serving),
            ("larder: supervisor /usr/sbin/nginx -c a", Role::Supervisor(called("/usr/sbin/nginx", "-c a"))),
            ("larder: tied php-fpm -F", Role::Tied(words("php-fpm -F"))),
        ] {
            assert_eq!(Role::of(words(line)), expected, "{line}");
        }
    }
}
