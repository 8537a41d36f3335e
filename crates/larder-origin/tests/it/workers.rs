//! Kept connections when several workers fetch, each with a runtime of its own.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use larder_origin::{Fetch, Group, Keepalive, Retry, fetch};
use tokio::{runtime::Runtime, sync::oneshot};

use crate::origin::*;

fn worker() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// An origin on a thread of its own, until it is dropped.
struct Elsewhere {
    origin: Origin,
    _stop: oneshot::Sender<()>,
}

fn elsewhere(make: impl AsyncFnOnce() -> Origin + Send + 'static) -> Elsewhere {
    let (sender, made) = mpsc::channel();
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        worker().block_on(async {
            sender.send(make().await).unwrap();
            let _ = stopped.await;
        });
    });
    Elsewhere { origin: made.recv().unwrap(), _stop: stop }
}

/// An origin that answers with the number of its connection.
fn counting() -> Elsewhere {
    elsewhere(async || {
        Origin::tcp(|number, mut peer| async move {
            while read_http(&mut peer).await.is_some() {
                write(&mut peer, format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}")).await;
            }
        })
        .await
    })
}

async fn text(wanted: Fetch) -> String {
    let mut answer = fetch(wanted).await.result.expect("it answers");
    String::from_utf8(read_all(&mut answer.body).await.expect("all of it")).expect("a number")
}

#[test]
fn a_worker_takes_its_own_connection_first_and_then_another_workers() {
    let there = counting();
    let group = keeping(&there.origin, 4);
    let (one, other) = (worker(), worker());
    let (first, second) = one.block_on(async { tokio::join!(text(get(&group)), text(get(&group))) });
    assert_ne!(first, second);
    let taken = other.block_on(text(get(&group)));
    let left = if taken == first { second } else { first };
    for _ in 0..3 {
        assert_eq!(one.block_on(text(get(&group))), left, "the other worker has the other one");
        assert_eq!(other.block_on(text(get(&group))), taken, "though the other one was used later");
    }
    drop(one);
    let both = other.block_on(async { tokio::join!(text(get(&group)), text(get(&group))) });
    assert!(both == (left.clone(), taken.clone()) || both == (taken, left), "a worker ends, its connection does not");
    assert_eq!((there.origin.connections(), group.idle()), (2, 2));
}

/// An origin that answers once on a connection. When told, it writes `stray`, and closes it if that is empty.
fn spoiling(stray: &'static str) -> (Elsewhere, mpsc::Sender<()>, mpsc::Receiver<()>) {
    let (tell, told) = mpsc::channel::<()>();
    let (done, is_done) = mpsc::channel::<()>();
    let told = Arc::new(Mutex::new(told));
    let there = elsewhere(async move || {
        Origin::tcp(move |_, mut peer| {
            let (told, done) = (told.clone(), done.clone());
            async move {
                read_http(&mut peer).await;
                write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na").await;
                tokio::task::spawn_blocking(move || told.lock().unwrap().recv()).await.unwrap().unwrap();
                write(&mut peer, stray).await;
                let held = (!stray.is_empty()).then_some(peer);
                // The test may have ended.
                let _ = done.send(());
                drop(held);
            }
        })
        .await
    });
    (there, tell, is_done)
}

#[test]
fn what_another_worker_kept_is_not_taken_if_it_was_closed_or_spoke_unasked() {
    for stray in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let (there, tell, is_done) = spoiling(stray);
        let group = keeping(&there.origin, 4);
        let (one, other) = (worker(), worker());
        one.block_on(text(get(&group)));
        tell.send(()).unwrap();
        is_done.recv().unwrap();
        other.block_on(text(get(&group)));
        assert_eq!((there.origin.connections(), group.idle()), (2, 1), "{stray:?}");
        tell.send(()).unwrap();
    }
}

#[test]
fn a_request_that_may_be_sent_only_once_does_not_trust_what_the_runtime_knows() {
    let (there, tell, is_done) = spoiling("");
    let group = keeping(&there.origin, 4);
    let one = worker();
    one.block_on(text(get(&group)));
    tell.send(()).unwrap();
    is_done.recv().unwrap();
    // The runtime has not looked at its sockets since.
    let retry = Retry { is_idempotent: false, ..get(&group).retry };
    one.block_on(text(Fetch { retry, ..get(&group) }));
    assert_eq!(there.origin.connections(), 2);
    tell.send(()).unwrap();
}

#[test]
fn the_connections_of_a_worker_that_ended_are_closed_with_their_group() {
    let (closed, is_closed) = mpsc::channel::<()>();
    let there = elsewhere(async move || {
        Origin::tcp(move |_, mut peer| {
            let closed = closed.clone();
            async move {
                while read_http(&mut peer).await.is_some() {
                    write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                }
                closed.send(()).unwrap();
            }
        })
        .await
    });
    let keepalive = Keepalive { timeout: Duration::from_secs(3600), ..Keepalive::of(4) };
    let servers = vec![larder_origin::Server::new(there.origin.address.clone())];
    let group = Group::new("a", servers, larder_origin::Balance::RoundRobin, keepalive);
    worker().block_on(text(get(&group)));
    assert_eq!(group.idle(), 1);
    drop(group);
    is_closed.recv().unwrap();
}
