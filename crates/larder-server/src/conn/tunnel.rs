//! After `101 Switching Protocols`: bytes both ways until one side ends, as for WebSocket.

use std::time::Duration;

use larder_origin::Upgraded;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::{Io, Stream};

/// How much is held in each direction.
const BUFFER_BYTES: usize = 16 * 1024;

/// Passes bytes both ways until a side closes, fails, or both are silent for `silence` (`proxy_read_timeout`).
///
/// Returns how many bytes went to the client.
pub async fn run(io: &mut Io, mut origin: Upgraded, silence: Duration) -> u64 {
    let early = io.take_pending();
    if !early.is_empty() && origin.write_all(&early).await.is_err() {
        return 0;
    }
    match &mut io.stream {
        Stream::Tcp(client) => pass(client, &mut origin, silence).await,
        Stream::Unix(client) => pass(client, &mut origin, silence).await,
    }
}

async fn pass<C: AsyncRead + AsyncWrite + Unpin>(client: &mut C, origin: &mut Upgraded, silence: Duration) -> u64 {
    let mut from_client = vec![0; BUFFER_BYTES];
    let mut from_origin = vec![0; BUFFER_BYTES];
    let mut sent = 0;
    loop {
        let step = tokio::time::timeout(silence, async {
            tokio::select! {
                read = client.read(&mut from_client) => match read {
                    Ok(n) if n > 0 => origin.write_all(&from_client[..n]).await.ok().map(|()| 0),
                    _ => None,
                },
                read = origin.read(&mut from_origin) => match read {
                    Ok(n) if n > 0 => client.write_all(&from_origin[..n]).await.ok().map(|()| n as u64),
                    _ => None,
                },
            }
        });
        match step.await {
            Ok(Some(n)) => sent += n,
            Ok(None) | Err(_) => return sent,
        }
    }
}
