//! The socket itself. Each question has a thread of its own, and a connection.
//!
//! What is told names pages and cookies, so that it is for root and for who has made the socket alone.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;

use super::Desk;

/// How many may ask at once.
const ASKING_MAX: usize = 8;
/// The longest question.
const QUESTION_BYTES_MAX: u64 = 256 << 10;
/// How long one who asks may take to do so, and to read.
const PATIENCE: Duration = Duration::from_secs(10);
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Answers all who connect, on threads of its own, until the process ends.
pub fn serve(listener: UnixListener, desk: Arc<Desk>) -> io::Result<()> {
    // It may come from a runtime.
    listener.set_nonblocking(false)?;
    // The kernel notes who has listened first: the supervisor, which may be another account than this process.
    let owner = socket_peercred(&listener)?.uid.as_raw();
    thread::Builder::new().name("ask".to_owned()).spawn(move || accept(&listener, owner, &desk))?;
    Ok(())
}

fn accept(listener: &UnixListener, owner: u32, desk: &Arc<Desk>) {
    let asking = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept() {
            Ok((stream, _)) if may_ask(&stream, owner) && asking.load(Ordering::Relaxed) < ASKING_MAX => {
                asking.fetch_add(1, Ordering::Relaxed);
                let seat = Seat(Arc::clone(&asking));
                let desk = Arc::clone(desk);
                let told = thread::Builder::new().name("ask answer".to_owned()).spawn(move || {
                    let _seat = seat;
                    // Whoever has left hears nothing.
                    let _ = answer(stream, &desk);
                });
                // Without a thread the connection is closed.
                drop(told);
            }
            Ok(_) => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Whether root has connected, the account of this process, or that which has made the socket. Its file says so, too, but
/// not yet in the moment in which it is made.
fn may_ask(stream: &UnixStream, owner: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket_peercred(stream).is_ok_and(|peer| [0, owner, own].contains(&peer.uid.as_raw()))
}

/// A place among those who ask.
struct Seat(Arc<AtomicUsize>);

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads a question to its end, and writes `ok`, or `no` and why not.
fn answer(mut stream: UnixStream, desk: &Desk) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut question = Vec::new();
    (&stream).take(QUESTION_BYTES_MAX).read_to_end(&mut question)?;
    let told = match desk.answer(&String::from_utf8_lossy(&question)) {
        Ok(text) => format!("ok\n{text}"),
        Err(refused) => format!("no\n{refused}\n"),
    };
    stream.write_all(told.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use super::*;

    fn told(question: &[u8]) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ask");
        serve(UnixListener::bind(&path).unwrap(), Arc::default()).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(question).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn whatever_is_asked_is_answered() {
        assert_eq!(told(b"larder 1 why text\n"), "no\nthe server is ending\n");
        let unknown = "no\nthis server does not know the question";
        assert!(told(b"").starts_with(unknown));
        assert!(told(&[0xff; 1000]).starts_with(unknown));
    }
}
