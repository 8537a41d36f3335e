//! HTTP/1, from the bytes of a scripted origin.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_origin::{BodyPiece, FailKind, Fetch, FetchError, Group, Limits, Protocol, RequestBody, fetch};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::origin::*;

/// An origin that reads the request and writes `answer` in pieces of `piece` bytes, then closes.
async fn answers(answer: &str, piece: usize) -> (Origin, Arc<Group>) {
    let answer = answer.to_owned();
    let origin = Origin::tcp(move |_, mut peer| {
        let answer = answer.clone();
        async move {
            read_http(&mut peer).await.unwrap();
            for piece in answer.as_bytes().chunks(piece) {
                write(&mut peer, piece).await;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    let group = Group::single(origin.address.clone());
    (origin, group)
}

#[tokio::test]
async fn a_body_ends_where_its_framing_says() {
    for (text, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Ok("abc")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcd", Ok("abc")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", Err("less than its Content-Length")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", Ok("")),
        ("HTTP/1.1 200 OK\r\n\r\nabc", Ok("abc")),
        ("HTTP/1.0 200 OK\r\n\r\n", Ok("")),
        ("HTTP/1.1 204 No Content\r\n\r\n", Ok("")),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 3\r\n\r\n", Ok("")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", Ok("abcd")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nA: b\r\n\r\n", Ok("abc")),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Err("no last chunk")),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\n\r\nabc",
            Ok("abc"),
        ),
    ] {
        for piece in [1, 5, usize::MAX] {
            let (_origin, group) = answers(text, piece).await;
            let mut body = fetch(get(&group)).await.result.expect(text).body;
            match (read_all(&mut body).await, expected) {
                (Ok(body), Ok(expected)) => assert_eq!(body, expected.as_bytes(), "{text}"),
                (Err(FetchError::Incomplete { what }), Err(expected)) => {
                    assert_eq!(what, expected, "{text}")
                }
                (result, expected) => panic!("{text}: {result:?} is not {expected:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_big_body_is_read_up_to_multiples_of_64_kib() {
    let text = "page ".repeat(100_000);
    for framing in [format!("Content-Length: {}", text.len()), "Connection: close".to_owned()] {
        let (_origin, group) = answers(&format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{text}"), usize::MAX).await;
        let mut body = fetch(get(&group)).await.result.expect("it answers").body;
        let mut read = Vec::new();
        while let Some(piece) = body.next().await.expect("it is whole") {
            let end = read.len() + piece.len();
            // But for less than a page before one, which is not worth a read.
            let beyond = end % (64 << 10);
            assert!(beyond == 0 || beyond >= piece.len().saturating_sub(4095), "{} to {end}", read.len());
            read.extend_from_slice(&piece);
        }
        assert_eq!(read, text.as_bytes());
    }
}

#[tokio::test]
async fn trailers_and_notes_are_told_at_the_end() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX-Sum: 7\r\n\r\nmore";
    let (_origin, group) = answers(text, usize::MAX).await;
    let mut answer = fetch(get(&group)).await.result.unwrap();
    assert_eq!(answer.body.content_length(), None);
    read_all(&mut answer.body).await.unwrap();
    assert_eq!(answer.body.trailers().unwrap().get("x-sum"), Some(&b"7"[..]));
    assert_eq!(answer.body.notes().len(), 1);
}

#[tokio::test]
async fn a_response_that_cannot_be_used_is_told_apart() {
    let long = format!("HTTP/1.1 200 OK\r\nX-Tags: {}\r\n\r\n", "x".repeat(5000));
    let endless = "HTTP/1.1 100 Continue\r\n\r\n".repeat(50);
    for (text, kind, told) in [
        ("", FailKind::Error, "prematurely closed connection while reading response header from upstream"),
        ("HTTP/1.1 200 OK\r\nA: b\r\n", FailKind::Error, "prematurely closed connection while reading response header"),
        ("hello\r\n\r\n", FailKind::InvalidHeader, "upstream sent no valid HTTP/1.0 header: \"hello\" while reading"),
        (&long, FailKind::InvalidHeader, "\"X-Tags\" takes 5009"),
        (&endless, FailKind::InvalidHeader, "too many interim responses"),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            FailKind::InvalidHeader,
            "at the same time",
        ),
    ] {
        let (_origin, group) = answers(text, usize::MAX).await;
        let error = fetch(get(&group)).await.result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(told) && text.matches("upstream sent").count() <= 1, "{text}");
    }
}

#[tokio::test]
async fn a_chunk_that_cannot_be_read_fails_the_body() {
    let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n";
    let (_origin, group) = answers(text, usize::MAX).await;
    let mut body = fetch(get(&group)).await.result.unwrap().body;
    assert_eq!(body.next().await.unwrap().unwrap(), "abc");
    let error = body.next().await.unwrap_err();
    assert!(error.to_string().contains("invalid chunked response"), "{error}");
    assert_eq!(error.kind(), FailKind::Error);
    assert!(body.next().await.is_err(), "a body that failed does not end");
}

#[tokio::test]
async fn the_request_arrives_whole() {
    let origin = Origin::tcp(|_, mut peer| async move {
        let request = read_http(&mut peer).await.unwrap();
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", request.len());
        write(&mut peer, [head.as_bytes(), &request].concat()).await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let big = Bytes::from(vec![b'x'; 200_000]);
    let stream = |len| {
        let (sender, rx) = tokio::sync::mpsc::channel(4);
        for piece in ["one", "", "three"] {
            sender.try_send(Ok(BodyPiece::Bytes(piece.into()))).unwrap();
        }
        sender.try_send(Ok(BodyPiece::End)).unwrap();
        RequestBody::Stream { first: Bytes::new(), rx, len }
    };
    let sized = |len: usize| format!("POST / HTTP/1.1\r\nContent-Length: {len}\r\n\r\n");
    let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n".to_owned();
    for (head, body, sent) in [
        (sized(3), RequestBody::Memory("abc".into()), "abc"),
        (sized(big.len()), RequestBody::Memory(big.clone()), std::str::from_utf8(&big).unwrap()),
        (sized(8), stream(Some(8)), "onethree"),
        (chunked, stream(None), "3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"),
    ] {
        let mut answer = fetch(Fetch { protocol: http(&head), body, ..get(&group) }).await.result.unwrap();
        let got = read_all(&mut answer.body).await.unwrap();
        assert!(got == format!("{head}{sent}").as_bytes(), "{head}");
        assert_eq!(answer.body.usage().sent, got.len() as u64);
    }
}

#[tokio::test]
async fn an_early_no_ends_the_upload_and_the_connection() {
    let origin = Origin::tcp(|_, mut peer| async move {
        let mut start = [0; 10];
        peer.read_exact(&mut start).await.unwrap();
        write(&mut peer, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig").await;
        std::future::pending::<()>().await;
    })
    .await;
    let group = keeping(&origin, 4);
    let body = RequestBody::Memory(vec![0; 32 << 20].into());
    let protocol = http("POST / HTTP/1.1\r\nContent-Length: 33554432\r\n\r\n");
    let mut answer = fetch(Fetch { protocol, body, ..get(&group) }).await.result.unwrap();
    assert_eq!(answer.head.status, 413);
    assert_eq!(read_all(&mut answer.body).await.unwrap(), b"big");
    assert!(answer.body.usage().sent < 32 << 20);
    assert_eq!(group.idle(), 0);
}

#[tokio::test]
async fn an_origin_may_answer_as_it_reads() {
    let origin = Origin::tcp(|_, mut peer| async move {
        let mut text = [0; 4096];
        let mut head_seen = false;
        loop {
            let count = peer.read(&mut text).await.unwrap();
            if !head_seen {
                head_seen = true;
                write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n").await;
            }
            if let Some(at) = find(&text[..count], b"end") {
                write(&mut peer, &text[at..at + 3]).await;
                write(&mut peer, "ed.").await;
            }
        }
    })
    .await;
    let group = Group::single(origin.address.clone());
    let (sender, rx) = tokio::sync::mpsc::channel(1);
    let body = RequestBody::Stream { first: Bytes::new(), rx, len: Some(3) };
    let protocol = http("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let mut answer = fetch(Fetch { protocol, body, ..get(&group) }).await.result.unwrap();
    assert_eq!(answer.head.status, 200);
    sender.send(Ok(BodyPiece::Bytes("end".into()))).await.unwrap();
    assert_eq!(read_all(&mut answer.body).await.unwrap(), b"ended.");
}

#[tokio::test]
async fn a_slow_client_is_not_the_origins_fault() {
    let (_origin, group) = answers("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", usize::MAX).await;
    let (sender, rx) = tokio::sync::mpsc::channel(1);
    let short = Duration::from_millis(50);
    let limits = Limits { read: short, send: short, ..get(&group).limits };
    let body = RequestBody::Stream { first: Bytes::new(), rx, len: Some(3) };
    let protocol = http("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let fetching = tokio::spawn(fetch(Fetch { protocol, body, limits, ..get(&group) }));
    tokio::time::sleep(short * 4).await;
    sender.send(Ok(BodyPiece::Bytes("end".into()))).await.unwrap();
    assert_eq!(fetching.await.unwrap().result.unwrap().head.status, 200);
}

#[tokio::test]
async fn a_101_becomes_a_tunnel() {
    let origin = Origin::tcp(|_, mut peer| async move {
        read_http(&mut peer).await.unwrap();
        write(&mut peer, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\n\r\nfirst;").await;
        let mut text = [0; 4];
        peer.read_exact(&mut text).await.unwrap();
        write(&mut peer, text).await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let head = Bytes::from_static(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n");
    let protocol = Protocol::Http { head, upgrade: true };
    let mut answer = fetch(Fetch { protocol, ..get(&group) }).await.result.unwrap();
    let mut tunnel = answer.upgraded.take().unwrap();
    assert_eq!(answer.body.next().await.unwrap(), None);
    tunnel.write_all(b"ping").await.unwrap();
    let mut text = String::new();
    tunnel.read_to_string(&mut text).await.unwrap();
    assert_eq!(text, "first;ping");
    assert_eq!(group.running(), [1]);
    drop(tunnel);
    assert_eq!(group.running(), [0]);
}
