//! The socket at which the log is told. Each listener has a thread of its own, which waits for it; nobody who serves does.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use larder_vsl::{Asked, Frame, GREETING};

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
    let connected = Arc::new(AtomicUsize::new(0));
    loop {
        match listener.accept() {
            Ok((stream, _)) if connected.load(Ordering::Relaxed) < CONNECTED_MAX => {
                let seat = Seat::take(&connected);
                let hub = Arc::clone(hub);
                let told = thread::Builder::new().name("log listener".to_owned()).spawn(move || {
                    let _seat = seat;
                    // Whoever has left hears nothing more.
                    let _ = tell(stream, &hub);
                });
                // Without a thread the connection is closed; the listener tries again.
                drop(told);
            }
            Ok(_) => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

/// A place among those who are connected.
struct Seat(Arc<AtomicUsize>);

impl Seat {
    fn take(connected: &Arc<AtomicUsize>) -> Self {
        connected.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(connected))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn tell(mut stream: UnixStream, hub: &Arc<Hub>) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut asked = [0];
    stream.read_exact(&mut asked)?;
    match Asked::of_byte(asked[0]) {
        None => Ok(()),
        Some(Asked::Kept) => {
            stream.set_write_timeout(Some(KEPT_PATIENCE))?;
            stream.write_all(GREETING)?;
            hub.kept().iter().try_for_each(|frame| stream.write_all(frame))?;
            let mut end = Vec::new();
            Frame::append_end(&mut end);
            stream.write_all(&end)
        }
        Some(Asked::Coming) => tell_what_comes(stream, hub),
    }
}

fn tell_what_comes(mut stream: UnixStream, hub: &Arc<Hub>) -> io::Result<()> {
    let Some(queue) = hub.listen() else { return Ok(()) };
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
        while let Some((frames, lost)) = queue.next() {
            for frame in frames {
                stream.write_all(&frame)?;
            }
            if lost > 0 {
                let mut frame = Vec::new();
                Frame::append_lost(lost, &mut frame);
                stream.write_all(&frame)?;
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

    use super::super::hub::Settings;
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
