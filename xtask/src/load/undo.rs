//! What has to be undone when a measurement ends, in whatever way it ends.

use super::{LoadError, cannot};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Reads lines until there are no more, then runs them as commands, the last first.
const SCRIPT: &str = r#"
undo=
while IFS= read -r line; do undo="$line
$undo"; done
eval "$undo"
"#;

/// Shell commands that are run when this is dropped, the last first, and also when this process is interrupted or killed.
///
/// They are kept by a shell of its own process group, which no ^C reaches: it runs them when the pipe from this
/// process ends, which happens however this process ends. Each has to be right at any later time, twice too.
pub struct Undo {
    shell: Child,
    /// `None` only while it is dropped.
    lines: Option<ChildStdin>,
}

impl Undo {
    /// Starts the shell.
    pub fn begin() -> Result<Undo, LoadError> {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::null()).process_group(0);
        let mut shell = command.spawn().map_err(cannot("run sh"))?;
        let lines = shell.stdin.take();
        Ok(Undo { shell, lines })
    }

    /// Has `command`, one line of shell, run at the end.
    pub fn push(&mut self, command: &str) -> Result<(), LoadError> {
        match &mut self.lines {
            Some(lines) => writeln!(lines, "{command}").map_err(cannot("leave a command for later")),
            None => Ok(()),
        }
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        self.lines = None;
        // What it could not undo it has said itself.
        let _ = self.shell.wait();
    }
}

/// `path` as one word of a shell command.
pub fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_was_done_last_is_undone_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("it's done");
        let mut undo = Undo::begin().expect("sh is everywhere");
        for word in ["first", "false", "second"] {
            undo.push(&format!("echo {word} >> {}", quoted(&file))).expect("it reads");
        }
        assert!(!file.exists());
        drop(undo);
        assert_eq!(fs::read_to_string(&file).expect("it was written"), "second\nfalse\nfirst\n");
    }
}
