//! The socket at which the log is told. Each listener has a thread of its own, which waits for it; nobody who serves does.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use larder_vsl::{Asked, Frame, GREETING};
use parking_lot::Mutex;

use super::hub::Hub;

/// How many may be connected at once, listening or not.
const CONNECTED_MAX: usize = 32;
/// How long a listener may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long one may take nothing of what is kept: it may be shown page by page.
const KEPT_PATIENCE: Duration = Duration::from_secs(3600);
/// After a failure to accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Tells the log to all who connect, on threads of its own, until the process ends.
pub fn serve(listener: UnixListener, hub: Arc<Hub>) -> io::Result<()> {
    // It may come from a runtime.
    listener.set_nonblocking(false)?;
    thread::Builder::new().name("log".to_owned()).spawn(move || accept(&listener, &hub))?;
    Ok(())
}

fn accept(listener: &UnixListener, hub: &Arc<Hub>) {
    let seats = Arc::new(Seats::default());
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                let Some(seat) = Seat::take(&seats, &stream) else { continue };
                let hub = Arc::clone(hub);
                let told = thread::Builder::new().name("log listener".to_owned()).spawn(move || {
                    // Whoever has left hears nothing more.
                    let _ = tell(stream, &seat, &hub);
                });
                // Without a thread the connection is closed; the listener tries again.
                drop(told);
            }
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// Who is connected.
#[derive(Default)]
struct Seats(Mutex<Connected>);

#[derive(Default)]
struct Connected {
    /// The first one first.
    seated: Vec<Seated>,
    /// How many there were.
    count: u64,
}

struct Seated {
    number: u64,
    /// Its connection, until it has said what it wants.
    silent: Option<UnixStream>,
}

/// A place among those who are connected.
struct Seat {
    seats: Arc<Seats>,
    number: u64,
}

impl Seat {
    /// Takes a place. If there is none, whoever is silent for longest has to leave; `None` if all have said what they want.
    fn take(seats: &Arc<Seats>, stream: &UnixStream) -> Option<Self> {
        let silent = Some(stream.try_clone().ok()?);
        let mut connected = seats.0.lock();
        let Connected { seated, count } = &mut *connected;
        if seated.len() >= CONNECTED_MAX {
            let longest = seated.iter().position(|seated| seated.silent.is_some())?;
            if let Some(stream) = seated.remove(longest).silent {
                // It may have left.
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        *count += 1;
        let number = *count;
        seated.push(Seated { number, silent });
        drop(connected);
        Some(Self { seats: Arc::clone(seats), number })
    }

    /// It has said what it wants; false if it has lost its place.
    fn speaks(&self) -> bool {
        let mut connected = self.seats.0.lock();
        let own = connected.seated.iter_mut().find(|seated| seated.number == self.number);
        own.map(|seated| seated.silent = None).is_some()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.seats.0.lock().seated.retain(|seated| seated.number != self.number);
    }
}

fn tell(mut stream: UnixStream, seat: &Seat, hub: &Arc<Hub>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut asked = [0];
    stream.read_exact(&mut asked)?;
    if !seat.speaks() {
        return Ok(());
    }
    match Asked::of_byte(asked[0]) {
        None => Ok(()),
        Some(Asked::Kept) => {
            stream.set_write_timeout(Some(KEPT_PATIENCE))?;
            stream.write_all(GREETING)?;
            tell_kept(&mut stream, hub)
        }
        Some(Asked::Coming) => tell_what_comes(stream, hub),
    }
}

fn tell_kept(stream: &mut UnixStream, hub: &Hub) -> io::Result<()> {
    let mut wanted = hub.kept();
    while !wanted.is_empty() {
        let batch = hub.some_kept(wanted.clone());
        if batch.lost > 0 {
            tell_lost(stream, batch.lost)?;
        }
        batch.frames.iter().try_for_each(|frame| stream.write_all(frame))?;
        wanted.start = batch.next;
    }
    tell_end(stream)
}

fn tell_end(stream: &mut UnixStream) -> io::Result<()> {
    let mut end = Vec::new();
    Frame::append_end(&mut end);
    stream.write_all(&end)
}

fn tell_lost(stream: &mut UnixStream, lost: u64) -> io::Result<()> {
    let mut frame = Vec::new();
    Frame::append_lost(lost, &mut frame);
    stream.write_all(&frame)
}

fn tell_what_comes(mut stream: UnixStream, hub: &Arc<Hub>) -> io::Result<()> {
    let hung_up = stream.try_clone()?;
    let hang_up = move || drop(hung_up.shutdown(Shutdown::Both));
    let Some(queue) = hub.listen(Some(Box::new(hang_up)), Instant::now()) else {
        // What comes has no end: it says that no place is left.
        stream.write_all(GREETING)?;
        return tell_end(&mut stream);
    };
    // A listener says nothing more: what is read is its end, which ends a queue that nothing comes to.
    let watched = stream.try_clone()?;
    watched.set_read_timeout(None)?;
    let (leaving, hub_of_it) = (Arc::clone(&queue), Arc::clone(hub));
    let watching = thread::Builder::new().name("log listener".to_owned()).spawn(move || {
        let _ = io::copy(&mut (&watched).take(SAID_BYTES_MAX), &mut io::sink());
        hub_of_it.leave(&leaving);
        leaving.close();
        let _ = watched.shutdown(Shutdown::Both);
    });
    let told = watching.and_then(|_| {
        stream.write_all(GREETING)?;
        while let Some((frames, lost)) = queue.next(Instant::now) {
            for frame in frames {
                stream.write_all(&frame)?;
            }
            if lost > 0 {
                tell_lost(&mut stream, lost)?;
            }
        }
        Ok(())
    });
    hub.leave(&queue);
    let _ = stream.shutdown(Shutdown::Both);
    told
}

/// Whoever says more than this is no listener.
const SAID_BYTES_MAX: u64 = 1024;

#[cfg(test)]
mod tests {
    use larder_vsl::{Kind, Reader, Tag};

    use super::super::hub::{LISTENERS_MAX, Settings};
    use super::super::open::Open;
    use super::*;

    fn connected(hub: &Arc<Hub>, asked: Asked) -> (UnixStream, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        serve(UnixListener::bind(&path).unwrap(), Arc::clone(hub)).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(&[asked as u8]).unwrap();
        (stream, folder)
    }

    fn request(hub: &Arc<Hub>, vxid: u64) {
        drop(Open::begin(hub, Kind::Request, vxid, format_args!("req 0 rxreq")));
    }

    fn vxid(frame: Option<Frame>) -> Option<u64> {
        match frame? {
            Frame::Transaction(transaction) => Some(transaction.vxid()),
            Frame::Lost(_) | Frame::End => None,
        }
    }

    #[test]
    fn a_listener_is_told_what_comes_until_it_leaves() {
        let hub = Hub::new(Settings::default());
        let (stream, _folder) = connected(&hub, Asked::Coming);
        let mut reader = Reader::new(stream.try_clone().unwrap()).unwrap();
        assert!(hub.is_heard(), "the greeting is written by a listener");
        request(&hub, 5);
        assert_eq!(vxid(reader.next_frame().unwrap()), Some(5));
        hub.tell(Tag::Cli, b"ping");
        assert_eq!(vxid(reader.next_frame().unwrap()), Some(0));
        drop(reader);
        stream.shutdown(Shutdown::Both).unwrap();
        while hub.is_heard() {
            thread::yield_now();
        }
    }

    #[test]
    fn who_is_silent_makes_room_for_others() {
        let hub = Hub::new(Settings { kept_bytes_max: 1 << 20, ..Settings::default() });
        request(&hub, 1);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        serve(UnixListener::bind(&path).unwrap(), Arc::clone(&hub)).unwrap();
        let mut silent: Vec<_> = (0..CONNECTED_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut reader = UnixStream::connect(&path).unwrap();
        reader.write_all(&[Asked::Kept as u8]).unwrap();
        let mut reader = Reader::new(reader).unwrap();
        assert_eq!(vxid(reader.next_frame().unwrap()), Some(1));
        // The first of them is gone, and no other.
        assert_eq!(silent[0].read(&mut [0]).unwrap(), 0);
        silent[1].write_all(&[Asked::Kept as u8]).unwrap();
        let mut reader = Reader::new(&silent[1]).unwrap();
        assert_eq!(vxid(reader.next_frame().unwrap()), Some(1));
    }

    #[test]
    fn who_finds_no_place_is_told_so() {
        let hub = Hub::new(Settings::default());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        serve(UnixListener::bind(&path).unwrap(), Arc::clone(&hub)).unwrap();
        let listen = || {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(&[Asked::Coming as u8]).unwrap();
            // It is greeted when it has its place.
            Reader::new(stream).unwrap()
        };
        let _seated: Vec<_> = (0..LISTENERS_MAX).map(|_| listen()).collect();
        assert!(matches!(listen().next_frame().unwrap(), Some(Frame::End)));
    }

    #[test]
    fn who_asks_for_what_is_kept_gets_that_and_the_end() {
        let hub = Hub::new(Settings { kept_bytes_max: 1 << 20, ..Settings::default() });
        request(&hub, 1);
        request(&hub, 2);
        let (stream, _folder) = connected(&hub, Asked::Kept);
        let mut reader = Reader::new(stream).unwrap();
        let read: Vec<_> = std::iter::from_fn(|| vxid(reader.next_frame().unwrap())).collect();
        assert_eq!(read, [1, 2]);
    }
}
