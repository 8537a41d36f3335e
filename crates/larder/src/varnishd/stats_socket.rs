//! The socket at which the counters are told, for `larder varnishstat`: who connects gets all of them, and the end.
//!
//! Nothing is read from a client, so none can say anything that does harm, and the time to take what is told is limited.

use std::cell::Cell;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Who waits for what is told.
pub type Asked = oneshot::Sender<String>;

/// Listens at a path. Whose socket is left there has ended, as the folder is ours.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(MODE))?;
    Ok(listener)
}

/// Accepts clients for ever. Each is told what comes back for what is sent to `asks`.
pub async fn accept(listener: UnixListener, asks: mpsc::Sender<Asked>) {
    let open = Rc::new(Cell::new(0));
    loop {
        match listener.accept().await {
            Ok((stream, _)) if open.get() < CLIENTS_MAX => {
                open.set(open.get() + 1);
                let (open, asks) = (Rc::clone(&open), asks.clone());
                spawn_local(async move {
                    // Whoever is gone, or slow, hears nothing more.
                    let _ = timeout(PATIENCE, tell(stream, &asks)).await;
                    open.set(open.get() - 1);
                });
            }
            Ok(_) => {}
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

async fn tell(mut stream: UnixStream, asks: &mpsc::Sender<Asked>) -> io::Result<()> {
    let (asked, told) = oneshot::channel();
    if asks.send(asked).await.is_err() {
        return Ok(());
    }
    match told.await {
        Ok(text) => stream.write_all(text.as_bytes()).await,
        Err(_) => Ok(()),
    }
}

/// The account that serves and its group may connect, as they may read varnishd's counters.
const MODE: u32 = 0o660;
const CLIENTS_MAX: usize = 16;
/// How long a client is served.
const PATIENCE: Duration = Duration::from_secs(20);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
