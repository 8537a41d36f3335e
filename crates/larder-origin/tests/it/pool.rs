//! Which connections are kept, and what happens when a kept one is dead.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_origin::{Balance, BodyPiece, Fetch, FetchError, Group, Keepalive, RequestBody, Retry, Server, fetch};

use crate::origin::*;

/// An origin that answers every request on a connection.
async fn patient(answer: impl AsRef<[u8]>) -> Origin {
    let answer = answer.as_ref().to_vec();
    Origin::tcp(move |_, mut peer| {
        let answer = answer.clone();
        async move {
            while read_http(&mut peer).await.is_some() {
                write(&mut peer, &answer).await;
            }
        }
    })
    .await
}

/// Fetches `count` times, one after the other.
async fn fetch_all(group: &Arc<Group>, count: usize) {
    for _ in 0..count {
        let mut answer = fetch(get(group)).await.result.unwrap();
        read_all(&mut answer.body).await.unwrap();
    }
}

#[tokio::test]
async fn a_connection_is_kept_when_its_response_allows() {
    for (text, connections) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 1),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", 1),
        ("HTTP/1.1 304 Not Modified\r\n\r\n", 1),
        ("HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 3\r\n\r\nabc", 1),
        ("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", 3),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 3\r\n\r\nabc", 3),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", 3),
    ] {
        let origin = patient(text).await;
        fetch_all(&keeping(&origin, 4), 3).await;
        assert_eq!(origin.connections(), connections, "{text}");
    }
}

#[tokio::test]
async fn a_connection_is_closed_when_it_is_worn_or_not_wanted() {
    let ok = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc";
    for (keepalive, connections) in [
        (Keepalive::of(4), 1),
        (Keepalive::NONE, 4),
        (Keepalive { requests: 2, ..Keepalive::of(4) }, 2),
        (Keepalive { requests: 1, ..Keepalive::of(4) }, 4),
        (Keepalive { timeout: Duration::ZERO, ..Keepalive::of(4) }, 4),
        (Keepalive { time: Duration::ZERO, ..Keepalive::of(4) }, 4),
    ] {
        let origin = patient(ok).await;
        let servers = vec![Server::new(origin.address.clone())];
        let group = Group::new("a", servers, Balance::RoundRobin, keepalive);
        fetch_all(&group, 4).await;
        assert_eq!(origin.connections(), connections, "{keepalive:?}");
    }
    let origin = patient(ok).await;
    let group = keeping(&origin, 4);
    for _ in 0..2 {
        let mut answer = fetch(Fetch { keep: false, ..get(&group) }).await.result.unwrap();
        read_all(&mut answer.body).await.unwrap();
    }
    assert_eq!((origin.connections(), group.idle()), (2, 0));
}

#[tokio::test]
async fn no_more_connections_are_kept_than_told() {
    let origin = patient("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").await;
    let group = keeping(&origin, 2);
    let fetches: Vec<_> = (0..5).map(|_| tokio::spawn(fetch(get(&group)))).collect();
    for fetching in fetches {
        let mut answer = fetching.await.unwrap().result.unwrap();
        read_all(&mut answer.body).await.unwrap();
    }
    assert_eq!(group.idle(), 2);
}

#[tokio::test]
async fn a_fastcgi_connection_is_free_before_its_body_is_read() {
    let origin = Origin::tcp(|_, mut peer| async move {
        while let Some(request) = read_fastcgi(&mut peer).await {
            assert!(request.keep);
            write(&mut peer, [stdout("A: b\r\n\r\nabc"), end()].concat()).await;
        }
    })
    .await;
    let group = keeping(&origin, 4);
    let mut first = fetch(cgi(&group)).await.result.unwrap();
    assert!(first.body.is_complete());
    assert_eq!((group.idle(), group.running()), (1, vec![0]));
    let mut second = fetch(cgi(&group)).await.result.unwrap();
    assert_eq!(read_all(&mut first.body).await.unwrap(), b"abc");
    assert_eq!(read_all(&mut second.body).await.unwrap(), b"abc");
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn a_connection_that_was_closed_or_spoke_unasked_is_not_taken() {
    for unasked in ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"] {
        let origin = Origin::tcp(move |_, mut peer| async move {
            read_http(&mut peer).await.unwrap();
            write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
            write(&mut peer, unasked).await;
            if !unasked.is_empty() {
                std::future::pending::<()>().await;
            }
        })
        .await;
        let group = keeping(&origin, 4);
        for _ in 0..2 {
            fetch_all(&group, 1).await;
            assert_eq!(group.idle(), 1);
            tokio::time::sleep(Duration::from_millis(60)).await;
        }
        assert_eq!(origin.connections(), 2, "{unasked}");
    }
}

/// An origin whose connections die at the second request, unanswered.
async fn dies_at_the_second() -> Origin {
    Origin::tcp(|_, mut peer| async move {
        read_http(&mut peer).await.unwrap();
        write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        read_http(&mut peer).await;
    })
    .await
}

#[tokio::test]
async fn a_kept_connection_that_dies_unanswered_is_a_failed_attempt_and_replaced_once() {
    let origin = dies_at_the_second().await;
    let group = keeping(&origin, 4);
    for number in 0..5 {
        let mut fetch_it = get(&group);
        fetch_it.retry.rules.error = true;
        // It does not count.
        fetch_it.retry.tries = 1;
        let outcome = fetch(fetch_it).await;
        let mut answer = outcome.result.expect("a fresh connection answers");
        read_all(&mut answer.body).await.unwrap();
        let statuses: Vec<_> = outcome.attempts.iter().map(|attempt| attempt.status).collect();
        let expected: &[_] = if number == 0 { &[Some(200)] } else { &[Some(502), Some(200)] };
        assert_eq!(statuses, expected);
        assert_eq!(outcome.attempts[0].error.is_some(), number > 0);
        assert_eq!(origin.connections(), number + 1);
    }
}

#[tokio::test]
async fn after_a_kept_connection_that_died_another_server_is_asked_and_the_first_is_healthy() {
    let (origin, other) = (dies_at_the_second().await, dies_at_the_second().await);
    let mut server = Server::new(origin.address.clone());
    server.max_fails = 1;
    let servers = vec![server, Server { backup: true, ..Server::new(other.address.clone()) }];
    let group = Group::new("a", servers, Balance::RoundRobin, Keepalive::of(4));
    for connections in [(1, 0), (1, 1), (2, 1)] {
        let mut fetch_it = get(&group);
        fetch_it.retry.rules.error = true;
        fetch_it.retry.tries = 1;
        let mut answer = fetch(fetch_it).await.result.expect("one of them answers");
        read_all(&mut answer.body).await.unwrap();
        assert_eq!((origin.connections(), other.connections()), connections);
    }
}

#[tokio::test]
async fn a_kept_connection_that_dies_unanswered_is_not_replaced_where_no_error_is_retried() {
    let origin = dies_at_the_second().await;
    let group = keeping(&origin, 4);
    fetch_all(&group, 1).await;
    let mut fetch_it = get(&group);
    fetch_it.retry.rules.error = false;
    let outcome = fetch(fetch_it).await;
    assert!(matches!(outcome.result, Err(FetchError::Closed { before_head: true })), "{outcome:?}");
    assert_eq!((outcome.attempts.len(), origin.connections()), (1, 1));
}

#[tokio::test]
async fn what_may_not_be_repeated_is_not_sent_on_a_fresh_connection() {
    let origin = dies_at_the_second().await;
    let group = keeping(&origin, 4);
    fetch_all(&group, 1).await;
    let post = |group: &Arc<Group>| {
        let retry = Retry { is_idempotent: false, ..get(group).retry };
        Fetch { protocol: http("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n"), retry, ..get(group) }
    };
    let outcome = fetch(post(&group)).await;
    assert!(matches!(outcome.result, Err(FetchError::Closed { before_head: true })), "{outcome:?}");
    assert_eq!(origin.connections(), 1);

    fetch_all(&group, 1).await;
    let mut allowed = post(&group);
    allowed.retry.rules.non_idempotent = true;
    assert!(fetch(allowed).await.result.is_ok());
    assert_eq!(origin.connections(), 3);
}

#[tokio::test]
async fn a_stream_that_was_touched_is_not_sent_on_a_fresh_connection() {
    let origin = dies_at_the_second().await;
    let group = keeping(&origin, 4);
    fetch_all(&group, 1).await;
    let (sender, rx) = tokio::sync::mpsc::channel(1);
    sender.send(Ok(BodyPiece::Bytes("abc".into()))).await.unwrap();
    let body = RequestBody::Stream { first: Bytes::new(), rx, len: Some(3) };
    let protocol = http("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let outcome = fetch(Fetch { protocol, body, ..get(&group) }).await;
    assert!(outcome.result.is_err());
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn idle_connections_are_swept_when_they_are_old_or_closed() {
    let origin = patient("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let servers = vec![Server::new(origin.address.clone())];
    let keepalive = Keepalive { timeout: Duration::from_millis(10), ..Keepalive::of(4) };
    let old = Group::new("old", servers, Balance::RoundRobin, keepalive);
    fetch_all(&old, 1).await;
    let closing = Origin::tcp(|_, mut peer| async move {
        read_http(&mut peer).await.unwrap();
        write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    })
    .await;
    let closed = keeping(&closing, 4);
    fetch_all(&closed, 1).await;
    assert_eq!((old.idle(), closed.idle()), (1, 1));
    let swept = async {
        while (old.idle(), closed.idle()) != (0, 0) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(5), swept).await.expect("a sweep closes both");
}

#[test]
fn a_connection_is_taken_by_another_worker() {
    let worker = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let origins = worker();
    let origin = origins.block_on(patient("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let group = keeping(&origin, 4);
    std::thread::scope(|scope| {
        scope.spawn(|| origins.block_on(stopped));
        for _ in 0..4 {
            scope.spawn(|| worker().block_on(fetch_all(&group, 5))).join().unwrap();
        }
        stop.send(()).unwrap();
    });
    assert_eq!(origin.connections(), 1);
}

#[tokio::test]
async fn the_answer_to_a_head_keeps_its_connection_where_it_announces_no_body() {
    for (fields, connections) in [("X-A: 1", 1), ("Content-Length: 0", 1), ("Content-Length: 9", 3)] {
        let origin = patient(format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n")).await;
        let group = keeping(&origin, 4);
        for _ in 0..3 {
            let head = Fetch { method_is_head: true, ..get(&group) };
            let mut answer = fetch(head).await.result.unwrap();
            assert!(answer.body.is_complete());
            assert_eq!(read_all(&mut answer.body).await.unwrap(), b"");
        }
        assert_eq!(origin.connections(), connections, "{fields}");
    }
}
