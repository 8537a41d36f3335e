//! `larder_php_status`: asks pools of php-fpm for their status pages, while somebody watches.
//!
//! It is a request beside those of visitors, on the worker that keeps house. One that fails leaves the pool unknown, and is
//! not logged: the next comes in three seconds.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use larder_origin::{Address, fastcgi};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};

use crate::clock;
use crate::context::Cx;
use crate::dash::Pool;

/// Asks the pools that are due, if anybody watches. To be called once a second, on one worker.
pub fn tick(cx: &Cx) {
    let (dash, now) = (&cx.worker.shared.dash, clock::steady());
    if !dash.is_watched() && !dash.php.is_watched(now) {
        return;
    }
    let origins = &cx.site().origins;
    for (group, path) in &origins.php_status {
        for of in origins.groups[*group].servers(Instant::now()) {
            let address = of.server.address;
            if !dash.php.begin(&address, now) {
                continue;
            }
            let (dash, request) = (Arc::clone(dash), fastcgi::status_request(path));
            tokio::task::spawn_local(async move {
                let answer = timeout(PATIENCE, ask(&address, &request)).await;
                let pool = answer.ok().and_then(Result::ok).and_then(|answer| read(&answer, &address));
                dash.php.end(&address, pool, clock::steady());
            });
        }
    }
}

async fn ask(address: &Address, request: &[u8]) -> io::Result<Vec<u8>> {
    match address {
        Address::Tcp(address) => converse(TcpStream::connect(address).await?, request).await,
        Address::Unix(path) => converse(UnixStream::connect(path).await?, request).await,
    }
}

async fn converse(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

/// The page in the answer of FastCGI.
fn read(answer: &[u8], address: &Address) -> Option<Pool> {
    let stdout = fastcgi::whole_stdout(answer)?;
    let page: Value = serde_json::from_slice(fastcgi::body_of(&stdout)).ok()?;
    let count = |name: &str| page.get(name)?.as_u64();
    // php-fpm asks the kernel for the queue of a TCP socket only, and says 0 for another.
    let queue = |name: &str| count(name).filter(|_| matches!(address, Address::Tcp(_)));
    let (active, idle) = (count("active processes")?, count("idle processes")?);
    Some(Pool {
        busy: active.saturating_sub(1),
        children: active.saturating_add(idle),
        waiting: queue("listen queue"),
        waiting_max: queue("max listen queue"),
        exhausted: count("max children reached")?,
    })
}

/// What is known of the pool of a server; null if it has no status page, and nulls if that did not answer.
pub fn to_json(group: usize, address: &Address, cx: &Cx) -> Value {
    if !cx.site().origins.php_status.iter().any(|(asked, _)| *asked == group) {
        return Value::Null;
    }
    let pool = cx.worker.shared.dash.php.pool(address, clock::steady());
    json!({
        "busy": pool.map(|pool| pool.busy),
        "children": pool.map(|pool| pool.children),
        "waiting": pool.and_then(|pool| pool.waiting),
        "waiting_max": pool.and_then(|pool| pool.waiting_max),
        "exhausted": pool.map(|pool| pool.exhausted),
    })
}

/// What is known of pools now, each with the name of its group, and its address.
pub fn known(cx: &Cx) -> Vec<(String, Address, Pool)> {
    let (origins, now) = (&cx.site().origins, clock::steady());
    let mut all = Vec::new();
    for group in origins.php_status.iter().map(|(group, _)| &origins.groups[*group]) {
        for of in group.servers(Instant::now()) {
            let pool = cx.worker.shared.dash.php.pool(&of.server.address, now);
            all.extend(pool.map(|pool| (group.name().to_owned(), of.server.address.clone(), pool)));
        }
    }
    all
}

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// A status page has some hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_read_and_what_is_none_is_not() {
        let page = br#"{"pool":"www","listen queue":3,"max listen queue":9,"idle processes":1,"active processes":2,"max children reached":4}"#;
        let record = |kind: u8, content: &[u8]| {
            [&[1, kind, 0, 1, (content.len() >> 8) as u8, content.len() as u8, 0, 0], content].concat()
        };
        let answer = |body: &[u8]| {
            let stdout = [b"Content-Type: application/json\r\n\r\n", body].concat();
            [record(6, &stdout), record(6, b""), record(3, &[0; 8])].concat()
        };
        let tcp = Address::Tcp("127.0.0.1:9000".parse().unwrap());
        let unix = Address::Unix("/run/php.sock".into());
        let pool = Pool { busy: 1, children: 3, waiting: Some(3), waiting_max: Some(9), exhausted: 4 };
        assert_eq!(read(&answer(page), &tcp), Some(pool));
        assert_eq!(read(&answer(page), &unix), Some(Pool { waiting: None, waiting_max: None, ..pool }));
        let cut = &answer(page)[..60];
        for wrong in
            [&b""[..], b"HTTP/1.1 200 OK\r\n\r\n{}", cut, &answer(b"{}"), &answer(b"[1"), &answer(b"File not found.\n")]
        {
            assert_eq!(read(wrong, &tcp), None, "{}", String::from_utf8_lossy(wrong));
        }
    }
}
