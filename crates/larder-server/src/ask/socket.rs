//! The socket itself. Each question has a thread of its own, and a connection.
//!
//! What is told names pages and cookies, so that it is for root and for who has made the socket alone.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::net::sockopt::socket_peercred;

use super::{Desk, Missing, Told};

/// How many may ask at once.
const ASKING_MAX: usize = 8;
/// The longest question.
const QUESTION_BYTES_MAX: u64 = 256 << 10;
/// How long one who asks may take to do so, and to read.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one who has been sent away may take to leave its place.
const LEAVING: Duration = Duration::from_secs(1);
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What is said where no place is free.
const FULL: &str =
    "busy\nthe server is answering as many other questions as it does at once: ask again in some seconds\n";
/// What is said to one whose place another gets.
const REPLACED: &str = "busy\nthe question was not whole when others asked: send it at once, and close for writing\n";

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
    let places = Arc::new(Places::default());
    for number in 0_u64.. {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) => {
                thread::sleep(ACCEPT_PAUSE);
                continue;
            }
        };
        if !may_ask(&stream, owner) {
            continue;
        }
        let Some(seat) = places.take(number, &stream) else {
            tell(stream, FULL);
            continue;
        };
        let desk = Arc::clone(desk);
        let told = thread::Builder::new().name("ask answer".to_owned()).spawn(move || {
            // Whoever has left hears nothing.
            let _ = answer(stream, &seat, &desk);
        });
        // Without a thread the connection is closed.
        drop(told);
    }
}

/// Whether root has connected, the account of this process, or that which has made the socket. Its file says so, too, but
/// not yet in the moment in which it is made.
fn may_ask(stream: &UnixStream, owner: u32) -> bool {
    let own = rustix::process::geteuid().as_raw();
    socket_peercred(stream).is_ok_and(|peer| [0, owner, own].contains(&peer.uid.as_raw()))
}

/// Says something to one who is not answered, without waiting.
fn tell(mut stream: UnixStream, text: &str) {
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(text.as_bytes()));
}

/// Those who ask.
#[derive(Default)]
struct Places {
    taken: Mutex<Taken>,
    left: Condvar,
}

#[derive(Default)]
struct Taken {
    count: usize,
    /// Those whose question is not whole yet, with their numbers. The first has come first.
    asking: VecDeque<(u64, UnixStream)>,
}

impl Places {
    /// A place for one who has come. If none is free, the first whose question is not whole loses its own. `None` if all are
    /// being answered.
    fn take(self: &Arc<Self>, number: u64, stream: &UnixStream) -> Option<Seat> {
        let copy = stream.try_clone().ok()?;
        let mut taken = self.taken.lock();
        if taken.count >= ASKING_MAX {
            let (_, idle) = taken.asking.pop_front()?;
            if let Ok(copy) = idle.try_clone() {
                tell(copy, REPLACED);
            }
            // Its thread reads an end.
            let _ = idle.shutdown(std::net::Shutdown::Both);
            self.left.wait_while_for(&mut taken, |taken| taken.count >= ASKING_MAX, LEAVING);
        }
        if taken.count >= ASKING_MAX {
            return None;
        }
        taken.count += 1;
        taken.asking.push_back((number, copy));
        drop(taken);
        Some(Seat { places: Arc::clone(self), number })
    }
}

/// A place among those who ask.
struct Seat {
    places: Arc<Places>,
    number: u64,
}

impl Seat {
    /// The question is whole, so that nobody takes the place. False if somebody has.
    fn keep(&self) -> bool {
        let mut taken = self.places.taken.lock();
        let before = taken.asking.len();
        taken.asking.retain(|(number, _)| *number != self.number);
        taken.asking.len() < before
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.keep();
        self.places.taken.lock().count -= 1;
        self.places.left.notify_one();
    }
}

/// Reads a question to its end, and writes `ok`, `but` or `away` with what is missing, or `no` and why not.
/// Who finds no place is told `busy`, and may ask again.
fn answer(mut stream: UnixStream, seat: &Seat, desk: &Desk) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let question = question(&stream)?;
    if !seat.keep() {
        return Ok(());
    }
    let told = match desk.answer(&String::from_utf8_lossy(&question)) {
        Ok(Told { text, missing: None }) => format!("ok\n{text}"),
        Ok(Told { text, missing: Some(Missing::Some(line)) }) => format!("but {line}\n{text}"),
        Ok(Told { text, missing: Some(Missing::Away(line)) }) => format!("away {line}\n{text}"),
        Err(refused) => format!("no\n{refused}\n"),
    };
    stream.write_all(told.as_bytes())
}

/// The question, as far as it may be long. All of it has to come in time.
fn question(stream: &UnixStream) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut question, mut part) = (Vec::new(), [0; 4096]);
    let mut rest = stream.take(QUESTION_BYTES_MAX);
    loop {
        let left = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        stream.set_read_timeout(Some(left.ok_or(io::ErrorKind::TimedOut)?))?;
        match rest.read(&mut part) {
            Ok(0) => return Ok(question),
            Ok(length) => question.extend_from_slice(&part[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Shutdown;

    use super::*;

    /// A socket at which this desk answers.
    fn serving(desk: Arc<Desk>) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ask");
        serve(UnixListener::bind(&path).unwrap(), desk).unwrap();
        (folder, path)
    }

    fn ask(path: &std::path::Path, question: &[u8]) -> UnixStream {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(question).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        stream
    }

    fn heard(mut stream: UnixStream) -> String {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn told(question: &[u8]) -> String {
        let (_folder, path) = serving(Arc::default());
        heard(ask(&path, question))
    }

    #[test]
    fn who_says_nothing_holds_up_nobody() {
        let (_folder, path) = serving(Arc::default());
        let idle: Vec<_> = (0..3 * ASKING_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert_eq!(heard(ask(&path, b"larder 1 why text\n")), "no\nthe server is ending\n");
        for stream in idle.into_iter().take(2 * ASKING_MAX) {
            assert_eq!(heard(stream), REPLACED);
        }
    }

    #[test]
    fn who_cannot_be_answered_now_is_told_so() {
        let desk = Arc::<Desk>::default();
        // It never answers.
        let (worker, mut questions) = tokio::sync::mpsc::unbounded_channel();
        desk.follow(vec![worker], Default::default(), Default::default());
        let (_folder, path) = serving(desk);
        let mut waiting = Vec::new();
        for _ in 0..ASKING_MAX {
            let asked = ask(&path, b"larder 1 why text\n");
            waiting.push((asked, questions.blocking_recv().expect("it is asked")));
        }
        let mut full = UnixStream::connect(&path).unwrap();
        let mut answer = String::new();
        full.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, FULL);
    }

    #[test]
    fn whatever_is_asked_is_answered() {
        assert_eq!(told(b"larder 1 why text\n"), "no\nthe server is ending\n");
        let unknown = "no\nthis server does not know the question";
        assert!(told(b"").starts_with(unknown));
        assert!(told(&[0xff; 1000]).starts_with(unknown));
    }
}
