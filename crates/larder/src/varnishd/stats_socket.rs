//! The socket at which the counters are told, for `larder varnishstat`: who connects gets all of them, and the end.
//!
//! Nothing is read from a client, so none can say anything that does harm, and the time to take what is told is limited.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_local;
use tokio::time::timeout;

/// Who waits for what is told.
pub type Asked = oneshot::Sender<String>;

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

const CLIENTS_MAX: usize = 16;
/// How long a client is served.
const PATIENCE: Duration = Duration::from_secs(20);
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
