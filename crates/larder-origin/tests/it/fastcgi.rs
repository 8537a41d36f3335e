//! FastCGI, from the records of a scripted origin.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use larder_origin::{BodyPiece, FailKind, FetchError, Group, Limits, Protocol, RequestBody, fetch};
use tokio::io::AsyncWriteExt;

use crate::origin::*;

/// An origin that reads the request and writes `answer` in pieces of `piece` bytes, then closes.
async fn answers(answer: Vec<u8>, piece: usize) -> (Origin, Arc<Group>) {
    let origin = Origin::tcp(move |_, mut peer| {
        let answer = answer.clone();
        async move {
            read_fastcgi(&mut peer).await.unwrap();
            for piece in answer.chunks(piece.max(1)) {
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
async fn an_answer_is_the_same_however_its_bytes_arrive() {
    let mut bytes = stdout("Status: 404 Not Found\r\nContent-Ty");
    bytes.extend(stderr("PHP Notice: one"));
    bytes.extend(stdout("pe: text/html\r\n\r\n<p>"));
    bytes.extend(stderr("PHP Notice: two\n"));
    bytes.extend(stdout("gone"));
    bytes.extend(stdout(""));
    bytes.extend(end());
    for piece in [1, 2, 3, 7, 8, 9, 30, 64, bytes.len()] {
        let (_origin, group) = answers(bytes.clone(), piece).await;
        let outcome = fetch(cgi(&group)).await;
        let mut answer = outcome.result.unwrap();
        assert_eq!(answer.head.status, 404);
        assert_eq!(answer.head.fields.get("content-type"), Some(&b"text/html"[..]));
        assert_eq!(read_all(&mut answer.body).await.unwrap(), b"<p>gone", "{piece}");
        assert_eq!(answer.body.stderr(), ["PHP Notice: one", "PHP Notice: two"]);
        assert_eq!(answer.body.usage().received, bytes.len() as u64);
        assert_eq!(outcome.attempts[0].status, Some(404));
        assert!(outcome.attempts[0].connect.is_some() && outcome.attempts[0].header.is_some());
    }
}

#[tokio::test]
async fn an_answer_without_its_end_is_incomplete() {
    let head = "Content-Type: a/b\r\n\r\n";
    let sized = "Content-Length: 5\r\n\r\n";
    let with_end = |text: &str| [stdout(text), end()].concat();
    for (bytes, expected) in [
        (stdout(format!("{head}half")), Err("no FastCGI END_REQUEST")),
        (stdout(format!("{sized}12345")), Err("no FastCGI END_REQUEST")),
        (with_end(&format!("{sized}1234")), Err("less than its Content-Length")),
        (with_end(&format!("{sized}12345")), Ok("12345")),
        (with_end(&format!("{sized}123456")), Ok("12345")),
        (with_end(&format!("Status: 304\r\n{sized}")), Ok("")),
        (with_end(head), Ok("")),
    ] {
        let (_origin, group) = answers(bytes, usize::MAX).await;
        let mut body = fetch(cgi(&group)).await.result.unwrap().body;
        match (read_all(&mut body).await, expected) {
            (Ok(body), Ok(expected)) => assert_eq!(body, expected.as_bytes()),
            (Err(FetchError::Incomplete { what }), Err(expected)) => assert_eq!(what, expected),
            (result, expected) => panic!("{result:?} is not {expected:?}"),
        }
    }
}

#[tokio::test]
async fn more_than_announced_is_cut_and_noted() {
    let (_origin, group) = answers([stdout("Content-Length: 2\r\n\r\nabc"), end()].concat(), usize::MAX).await;
    let mut answer = fetch(cgi(&group)).await.result.unwrap();
    assert_eq!(answer.body.content_length(), Some(2));
    assert_eq!(read_all(&mut answer.body).await.unwrap(), b"ab");
    assert!(answer.body.notes()[0].starts_with("upstream sent more data than specified"));
}

#[tokio::test]
async fn a_head_that_cannot_be_used_is_told_apart() {
    let failing_end = record(3, &[0, 0, 0, 0, 2, 0, 0, 0]);
    let long = format!("X-Tags: {}\r\nA: b\r\n\r\n", "x".repeat(5000));
    for (bytes, kind, told) in [
        (vec![], FailKind::Error, "upstream prematurely closed connection while reading response header"),
        (stdout("Content-Type: a"), FailKind::Error, "upstream prematurely closed connection while reading response"),
        (end(), FailKind::InvalidHeader, "upstream prematurely closed FastCGI stdout"),
        (stdout(""), FailKind::InvalidHeader, "upstream prematurely closed FastCGI stdout"),
        (failing_end, FailKind::InvalidHeader, "upstream refused the FastCGI request (2: it is overloaded)"),
        (stdout("A\0: b\r\n\r\n"), FailKind::InvalidHeader, "upstream sent invalid header"),
        (stdout(&long), FailKind::InvalidHeader, "of which \"X-Tags\" takes 5009; the limit is 4096 bytes"),
        (stdout(&long[..4500]), FailKind::InvalidHeader, "upstream sent too big header"),
        (record(10, b""), FailKind::InvalidHeader, "upstream sent unexpected FastCGI record: 10"),
        (
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
            FailKind::InvalidHeader,
            "unsupported FastCGI protocol version: 72",
        ),
    ] {
        let (_origin, group) = answers(bytes, usize::MAX).await;
        let outcome = fetch(cgi(&group)).await;
        let error = outcome.result.unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(told), "{error}");
        assert_eq!(outcome.attempts[0].status, Some(502));
        assert_eq!(outcome.attempts[0].error, Some(error.to_string()));
    }
}

#[tokio::test]
async fn caught_error_output_makes_the_answer_invalid() {
    let bytes = [stderr("PHP Fatal error: gone"), stdout("A: b\r\n\r\n"), end()].concat();
    for (pattern, caught) in [("PHP Fatal error", true), ("PHP Parse error", false)] {
        let (_origin, group) = answers(bytes.clone(), usize::MAX).await;
        let mut fetch_it = cgi(&group);
        fetch_it.protocol = Protocol::FastCgi { params: Bytes::new(), catch_stderr: vec![pattern.into()] };
        let outcome = fetch(fetch_it).await;
        match outcome.result {
            Err(error @ FetchError::CaughtStderr { .. }) if caught => {
                assert_eq!(error.kind(), FailKind::InvalidHeader);
                assert_eq!(outcome.attempts[0].stderr, ["PHP Fatal error: gone"]);
            }
            Ok(_) if !caught => {}
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn the_request_arrives_whole() {
    let folder = tempfile::tempdir().unwrap();
    let big: Vec<u8> = (0..300_000u32).map(|n| (n * 7) as u8).collect();
    let file = {
        use std::io::Write;
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&big).unwrap();
        Arc::new(file)
    };
    let names: Vec<(String, String)> = (0..9).map(|n| (format!("HTTP_{n}"), "v".repeat(20_000))).collect();
    let params = larder_origin::fastcgi::encode_params(names);
    let origin = Origin::unix(&folder.path().join("php.sock"), |_, mut peer| async move {
        let request = read_fastcgi(&mut peer).await.unwrap();
        let sum = request.body.iter().fold(0u64, |sum, byte| sum * 31 % 1_000_007 + u64::from(*byte));
        let told = format!("{} {} {sum}", request.params.len(), request.body.len());
        assert!(request.params_records == 3);
        write(&mut peer, [stdout(format!("A: b\r\n\r\n{told}")), end()].concat()).await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let sum = |body: &[u8]| body.iter().fold(0u64, |sum, byte| sum * 31 % 1_000_007 + u64::from(*byte));
    let stream = |pieces: Vec<Vec<u8>>| {
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        let (sender, rx) = tokio::sync::mpsc::channel(1);
        tokio::spawn(async move {
            for piece in pieces {
                sender.send(Ok(BodyPiece::Bytes(piece.into()))).await.unwrap();
            }
        });
        RequestBody::Stream { first: Bytes::new(), rx, len: Some(len) }
    };
    let endless = |pieces: &[&'static str]| {
        let (sender, rx) = tokio::sync::mpsc::channel(4);
        for piece in pieces {
            sender.try_send(Ok(BodyPiece::Bytes((*piece).into()))).unwrap();
        }
        sender.try_send(Ok(BodyPiece::End)).unwrap();
        RequestBody::Stream { first: Bytes::new(), rx, len: None }
    };
    for (body, expected) in [
        (RequestBody::None, &b""[..]),
        (RequestBody::Memory(Bytes::from_static(b"a=b")), b"a=b"),
        (RequestBody::Memory(Bytes::from(big.clone())), &big),
        (RequestBody::File { file: file.clone(), len: big.len() as u64 }, &big),
        (RequestBody::File { file: file.clone(), len: 10 }, &big[..10]),
        (stream(vec![b"one".to_vec(), b"two".to_vec()]), b"onetwo"),
        (stream(big.chunks(70_000).map(<[u8]>::to_vec).collect()), &big),
        (endless(&["one", "two"]), b"onetwo"),
        (endless(&[]), b""),
    ] {
        let protocol = Protocol::FastCgi { params: params.clone(), catch_stderr: Vec::new() };
        let mut answer = fetch(larder_origin::Fetch { protocol, body, ..cgi(&group) }).await.result.unwrap();
        let told = read_all(&mut answer.body).await.unwrap();
        let expected = format!("{} {} {}", params.len(), expected.len(), sum(expected));
        assert_eq!(String::from_utf8(told).unwrap(), expected);
        assert!(answer.body.usage().sent > params.len() as u64);
    }
}

#[tokio::test]
async fn an_origin_may_answer_before_it_has_read_the_request() {
    let origin = Origin::tcp(|number, mut peer| async move {
        assert_eq!(read_record(&mut peer).await.unwrap().0, 1);
        let text = "x".repeat(60_000);
        write(&mut peer, stdout(format!("A: b\r\n\r\n{text}"))).await;
        // The rest of an answer larger than all buffers on the way.
        for _ in 0..100 {
            write(&mut peer, stdout(&text)).await;
        }
        if number == 0 {
            while read_record(&mut peer).await.unwrap() != (5, vec![]) {}
        }
        write(&mut peer, end()).await;
        // Closing now, with the request unread, would reset the connection under the end of the answer.
        std::future::pending::<()>().await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    for _ in 0..2 {
        let body = RequestBody::Memory(vec![b'y'; 8 << 20].into());
        let mut answer = fetch(larder_origin::Fetch { body, ..cgi(&group) }).await.result.unwrap();
        assert_eq!(read_all(&mut answer.body).await.unwrap().len(), 101 * 60_000);
    }
}

#[tokio::test]
async fn a_body_that_fails_is_the_clients_failure() {
    let origin = Origin::tcp(|_, mut peer| async move {
        read_fastcgi(&mut peer).await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let some = |text: &'static str| Ok(BodyPiece::Bytes(text.into()));
    for (pieces, len) in [
        (vec![some("half"), Err(std::io::Error::other("gone"))], Some(10)),
        (vec![some("half")], Some(10)),
        (vec![some("half"), Ok(BodyPiece::End)], Some(10)),
        (vec![some("half")], None),
        (vec![some("too much")], Some(3)),
    ] {
        let (sender, rx) = tokio::sync::mpsc::channel(4);
        for piece in pieces {
            sender.send(piece).await.unwrap();
        }
        drop(sender);
        let body = RequestBody::Stream { first: Bytes::new(), rx, len };
        let outcome = fetch(larder_origin::Fetch { body, ..cgi(&group) }).await;
        assert!(matches!(outcome.result, Err(FetchError::Body(_))));
        assert_eq!(outcome.attempts[0].status, None);
    }
}

#[tokio::test]
async fn time_is_counted_between_two_operations() {
    let origin = Origin::tcp(|_, mut peer| async move {
        read_fastcgi(&mut peer).await.unwrap();
        write(&mut peer, stdout("A: b\r\n\r\n")).await;
        for _ in 0..6 {
            tokio::time::sleep(Duration::from_millis(60)).await;
            write(&mut peer, stdout("more")).await;
        }
        std::future::pending::<()>().await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let limits = Limits { read: Duration::from_millis(200), ..cgi(&group).limits };
    let mut answer = fetch(larder_origin::Fetch { limits, ..cgi(&group) }).await.result.unwrap();
    let mut got = 0;
    let error = loop {
        match answer.body.next().await {
            Ok(piece) => got += piece.unwrap().len(),
            Err(error) => break error,
        }
    };
    assert_eq!(got, 24, "each piece came in time, though all of them together did not");
    assert!(matches!(error, FetchError::BodyTimeout));
    assert_eq!(error.kind(), FailKind::Timeout);
}

#[tokio::test]
async fn an_origin_that_reads_or_says_nothing_is_given_up() {
    let origin = Origin::tcp(|_, mut peer| async move {
        let _ = read_record(&mut peer).await;
        std::future::pending::<()>().await;
    })
    .await;
    let group = Group::single(origin.address.clone());
    let short = Duration::from_millis(100);
    for (body_bytes, expected) in [(0, "reading response header"), (64 << 20, "sending request")] {
        let limits = Limits { read: short, send: short, ..cgi(&group).limits };
        let body = RequestBody::Memory(vec![0; body_bytes].into());
        let outcome = fetch(larder_origin::Fetch { limits, body, ..cgi(&group) }).await;
        let error = outcome.result.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(outcome.attempts[0].status, Some(504));
    }
}

#[tokio::test]
async fn a_head_request_has_no_body() {
    let bytes = [stdout("Content-Length: 9\r\n\r\n"), stdout("anything"), end()].concat();
    let (_origin, group) = answers(bytes, usize::MAX).await;
    let mut answer = fetch(larder_origin::Fetch { method_is_head: true, ..cgi(&group) }).await.result.unwrap();
    assert_eq!(answer.head.fields.get("Content-Length"), Some(&b"9"[..]));
    assert_eq!(read_all(&mut answer.body).await.unwrap(), b"");
}

#[tokio::test]
async fn dropping_an_answer_closes_the_connection() {
    let (sender, mut closed) = tokio::sync::mpsc::channel(1);
    let origin = Origin::tcp(move |_, mut peer| {
        let sender = sender.clone();
        async move {
            read_fastcgi(&mut peer).await.unwrap();
            write(&mut peer, stdout("A: b\r\n\r\nfirst")).await;
            assert!(read_record(&mut peer).await.is_none());
            let _ = peer.shutdown().await;
            sender.send(()).await.unwrap();
        }
    })
    .await;
    let group = Group::single(origin.address.clone());
    let mut answer = fetch(cgi(&group)).await.result.unwrap();
    assert_eq!(answer.body.next().await.unwrap().unwrap(), "first");
    assert_eq!(group.running(), [1]);
    drop(answer);
    assert_eq!(group.running(), [0]);
    closed.recv().await.unwrap();
}
