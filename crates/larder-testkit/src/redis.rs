//! A Redis of the test's own, and commands to it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::server::{Signal, signal_to};
use crate::{Folder, PATIENCE, free_port};

/// A redis-server on a port of the loopback address, with its data in a folder of its own. Dropping it stops it.
#[derive(Debug)]
pub struct Redis {
    child: Child,
    folder: Folder,
    port: u16,
    lines: Vec<String>,
    is_sentinel: bool,
}

impl Redis {
    /// Starts one, without a password and without TLS, that writes its data nowhere unless `lines` of a configuration say so.
    pub fn start(lines: &[&str]) -> Redis {
        Redis::start_as(lines, false)
    }

    /// Starts a Sentinel.
    pub fn start_sentinel(lines: &[&str]) -> Redis {
        Redis::start_as(lines, true)
    }

    fn start_as(lines: &[&str], is_sentinel: bool) -> Redis {
        let (folder, port) = (Folder::new().expect("a folder can be made"), free_port());
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        let child = spawn(folder.path(), port, &lines, is_sentinel);
        Redis { child, folder, port, lines, is_sentinel }
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it, as a machine does that goes down.
    pub fn kill(&mut self) {
        // It is waited for below, whether there was anything to kill or not.
        drop(self.child.kill());
        drop(self.child.wait());
    }

    /// Starts it again at its port, with the data that it has written.
    pub fn start_again(&mut self) {
        self.child = spawn(self.folder.path(), self.port, &self.lines, self.is_sentinel);
    }

    /// Stops it for a while, or has it go on.
    pub fn signal(&self, signal: Signal) {
        signal_to(self.child.id(), signal).expect("it is there");
    }

    /// Sends a command, and returns the texts and numbers of the answer, one after the other.
    pub fn ask(&self, words: &[&str]) -> Vec<String> {
        ask(self.port, words).expect("it answers")
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Starts it, and waits until it takes connections.
fn spawn(folder: &Path, port: u16, lines: &[String], is_sentinel: bool) -> Child {
    // TLS takes the port, where it is on.
    let listens = if lines.iter().any(|line| line.starts_with("tls-port")) { 0 } else { port };
    let text = format!(
        "port {listens}\nbind 127.0.0.1\ndir {}\nsave \"\"\nappendonly no\nprotected-mode no\n{}\n",
        folder.display(),
        lines.join("\n").replace("{port}", &port.to_string())
    );
    let text = if is_sentinel { text.replace("save \"\"\nappendonly no\n", "") } else { text };
    let file = folder.join("redis.conf");
    std::fs::write(&file, text).expect("there is room");
    let mut command = Command::new("redis-server");
    command.arg(&file).args(is_sentinel.then_some("--sentinel"));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(File::create(folder.join("stderr")).expect("there is room"));
    let mut child = command.spawn().expect("redis-server is there: scripts/setup installs it");
    let mut output = BufReader::new(child.stdout.take().expect("it is piped"));
    let (mut line, mut log) = (String::new(), String::new());
    loop {
        line.clear();
        if output.read_line(&mut line).expect("it writes text") == 0 {
            panic!("redis-server ends at its start:\n{log}");
        }
        log.push_str(&line);
        if line.contains("eady to accept connections") || is_sentinel && line.contains("Sentinel ID is") {
            break;
        }
    }
    // It ends with the process.
    std::thread::spawn(move || io::copy(&mut output, &mut io::sink()));
    child
}

fn ask(port: u16, words: &[&str]) -> io::Result<Vec<String>> {
    let stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut command = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| command.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    (&stream).write_all(command.as_bytes())?;
    let mut texts = Vec::new();
    read_answer(&mut BufReader::new(stream), &mut texts)?;
    Ok(texts)
}

fn read_answer(stream: &mut impl BufRead, texts: &mut Vec<String>) -> io::Result<()> {
    let mut line = String::new();
    stream.read_line(&mut line)?;
    let line = line.trim_end();
    let (kind, rest) = line.split_at_checked(1).ok_or(io::ErrorKind::UnexpectedEof)?;
    let len = || rest.parse::<i64>().map_err(io::Error::other);
    match kind {
        "$" => {
            let Ok(len) = usize::try_from(len()?) else { return Ok(()) };
            let mut text = vec![0; len + 2];
            stream.read_exact(&mut text)?;
            text.truncate(len);
            texts.push(String::from_utf8_lossy(&text).into_owned());
        }
        "*" => {
            for _ in 0..len()? {
                read_answer(stream, texts)?;
            }
        }
        _ => texts.push(rest.to_owned()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_answers_and_is_empty_after_a_start() {
        let mut redis = Redis::start(&[]);
        assert_eq!(redis.ask(&["SET", "a", "b"]), ["OK"]);
        assert_eq!(redis.ask(&["MGET", "a", "none", "a"]), ["b", "b"]);
        redis.kill();
        redis.start_again();
        assert_eq!(redis.ask(&["EXISTS", "a"]), ["0"]);
    }
}
