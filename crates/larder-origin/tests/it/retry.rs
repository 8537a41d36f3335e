//! When another origin is asked, and what the attempts tell.

use std::{future::poll_fn, sync::Arc, time::Duration};

use bytes::Bytes;
use larder_origin::{
    Address, Balance, BodyPiece, Fetch, FetchError, Fetching, Group, Keepalive, Limits, RequestBody, RetryRules,
    Server, fetch,
};

use tokio::io::AsyncReadExt as _;

use crate::origin::*;

/// What the first origin does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum First {
    Refuses,
    Closes,
    Hangs,
    Babbles,
    Answers(u16),
}

async fn first(does: First) -> (Option<Origin>, Address) {
    if does == First::Refuses {
        return (None, nobody());
    }
    let origin = Origin::tcp(move |_, mut peer| async move {
        read_http(&mut peer).await;
        match does {
            First::Refuses | First::Closes => {}
            First::Hangs => std::future::pending().await,
            First::Babbles => write(&mut peer, "hello\r\n\r\n").await,
            First::Answers(status) => {
                write(&mut peer, format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
            }
        }
    })
    .await;
    let address = origin.address.clone();
    (Some(origin), address)
}

async fn good() -> Origin {
    Origin::tcp(|_, mut peer| async move {
        while read_http(&mut peer).await.is_some() {
            write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await
}

fn of(addresses: &[&Address]) -> Arc<Group> {
    let servers = addresses.iter().map(|address| Server::new((*address).clone())).collect();
    Group::new("site", servers, Balance::RoundRobin, Keepalive::NONE)
}

/// `error,timeout,503,...` as rules.
fn rules(words: &str) -> RetryRules {
    let has = |word: &str| words.split(' ').any(|other| other == word);
    RetryRules {
        error: has("error"),
        timeout: has("timeout"),
        invalid_header: has("invalid_header"),
        non_idempotent: has("non_idempotent"),
        statuses: words.split(' ').filter_map(|word| word.strip_prefix("http_")?.parse().ok()).collect(),
    }
}

#[tokio::test]
async fn the_rules_say_when_the_next_origin_is_asked() {
    use First::*;
    for (does, words, is_idempotent, statuses) in [
        (Refuses, "error", true, "502, 200"),
        (Refuses, "timeout", true, "502"),
        // Nothing was sent, so nothing is repeated.
        (Refuses, "error", false, "502, 200"),
        (Closes, "error timeout", true, "502, 200"),
        (Closes, "", true, "502"),
        (Closes, "error", false, "502"),
        (Closes, "error non_idempotent", false, "502, 200"),
        (Hangs, "error timeout", true, "504, 200"),
        (Hangs, "error", true, "504"),
        (Hangs, "timeout", false, "504"),
        (Babbles, "error timeout", true, "502"),
        (Babbles, "invalid_header", true, "502, 200"),
        (Answers(503), "error timeout", true, "503"),
        (Answers(503), "http_503", true, "503, 200"),
        (Answers(503), "http_503", false, "503"),
        (Answers(503), "http_503 non_idempotent", false, "503, 200"),
        (Answers(500), "http_503", true, "500"),
        (Answers(404), "http_404", true, "404, 200"),
        (Answers(404), "http_500", true, "404"),
        (Answers(429), "http_429", true, "429, 200"),
    ] {
        let (_first, address) = first(does).await;
        let good = good().await;
        let group = of(&[&address, &good.address]);
        let mut fetch_it = get(&group);
        fetch_it.limits.read = Duration::from_millis(80);
        fetch_it.retry.rules = rules(words);
        fetch_it.retry.is_idempotent = is_idempotent;
        let outcome = fetch(fetch_it).await;
        let told: Vec<String> = outcome.attempts.iter().map(|attempt| attempt.status.unwrap().to_string()).collect();
        assert_eq!(told.join(", "), statuses, "{does:?} {words} {is_idempotent}");
        let addresses: Vec<&str> = outcome.attempts.iter().map(|attempt| &*attempt.address).collect();
        assert_eq!(addresses, [address.to_string(), good.address.to_string()][..addresses.len()]);
        match outcome.result {
            Ok(answer) => assert!(told.last() == Some(&answer.head.status.to_string())),
            Err(error) => assert_eq!(outcome.attempts.last().unwrap().error, Some(error.to_string())),
        }
        assert_eq!(group.running(), [0, 0]);
    }
}

#[tokio::test]
async fn tries_and_time_are_limited() {
    for (tries, asked) in [(0, 3), (1, 1), (2, 2), (9, 3)] {
        let group = of(&[&nobody(), &nobody(), &nobody()]);
        let mut fetch_it = get(&group);
        fetch_it.retry.tries = tries;
        let outcome = fetch(fetch_it).await;
        assert!(matches!(outcome.result, Err(FetchError::Connect { .. })));
        assert_eq!(outcome.attempts.len(), asked, "{tries} tries");
    }
    let (_hangs, address) = first(First::Hangs).await;
    let good = good().await;
    for (timeout, asked) in [(None, 2), (Some(Duration::from_millis(20)), 1), (Some(Duration::from_secs(5)), 2)] {
        let group = of(&[&address, &good.address]);
        let mut fetch_it = get(&group);
        fetch_it.limits = Limits { read: Duration::from_millis(60), ..fetch_it.limits };
        fetch_it.retry.timeout = timeout;
        assert_eq!(fetch(fetch_it).await.attempts.len(), asked, "{timeout:?}");
    }
}

#[tokio::test]
async fn the_last_refused_status_is_the_answer() {
    let (_one, one) = first(First::Answers(503)).await;
    let (_two, two) = first(First::Answers(503)).await;
    let group = of(&[&one, &two]);
    let mut fetch_it = get(&group);
    fetch_it.retry.rules = rules("http_503");
    let outcome = fetch(fetch_it).await;
    assert_eq!(outcome.attempts.len(), 2);
    assert_eq!(outcome.result.unwrap().head.status, 503);
}

#[tokio::test]
async fn a_failed_origin_is_left_alone_and_all_failed_are_no_live_upstreams() {
    let good = good().await;
    let group = of(&[&nobody(), &good.address]);
    let mut attempts = Vec::new();
    for _ in 0..4 {
        attempts.push(fetch(get(&group)).await.attempts.len());
    }
    assert_eq!(attempts, [2, 1, 1, 1]);

    let group = of(&[&nobody(), &nobody()]);
    assert!(matches!(fetch(get(&group)).await.result, Err(FetchError::Connect { .. })));
    let outcome = fetch(get(&group)).await;
    assert!(matches!(outcome.result, Err(FetchError::NoLiveOrigin)));
    assert_eq!((&*outcome.attempts[0].address, outcome.attempts[0].status), ("site", Some(502)));
}

#[tokio::test]
async fn the_only_origin_is_never_left_alone() {
    let group = of(&[&nobody()]);
    for _ in 0..3 {
        let outcome = fetch(get(&group)).await;
        assert!(matches!(outcome.result, Err(FetchError::Connect { .. })));
        assert_eq!(outcome.attempts.len(), 1);
    }
}

#[tokio::test]
async fn a_404_does_not_count_against_an_origin() {
    for (status, attempts_then) in [(404, 2), (403, 2), (503, 1), (429, 1)] {
        let (_first, address) = first(First::Answers(status)).await;
        let good = good().await;
        let group = of(&[&address, &good.address]);
        let fetch_it = || {
            let mut fetch_it = get(&group);
            fetch_it.retry.rules = rules(&format!("http_{status}"));
            fetch(fetch_it)
        };
        assert_eq!(fetch_it().await.attempts.len(), 2);
        assert_eq!(fetch_it().await.attempts.len() + fetch_it().await.attempts.len() - 1, attempts_then, "{status}");
    }
}

#[tokio::test]
async fn a_body_goes_to_the_next_origin_when_it_can() {
    let (_closes, closes) = first(First::Closes).await;
    let refuses = nobody();
    let good = good().await;
    let head = "PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n";
    for (address, streamed, asked) in [(&refuses, true, 2), (&closes, true, 1), (&closes, false, 2)] {
        let (sender, rx) = tokio::sync::mpsc::channel(1);
        sender.try_send(Ok(BodyPiece::Bytes("abc".into()))).unwrap();
        let body = match streamed {
            true => RequestBody::Stream { first: Bytes::new(), rx, len: Some(3) },
            false => RequestBody::Memory("abc".into()),
        };
        let group = of(&[address, &good.address]);
        let outcome = fetch(Fetch { protocol: http(head), body, ..get(&group) }).await;
        assert_eq!(outcome.attempts.len(), asked, "{address} {streamed}");
        assert_eq!(outcome.result.is_ok(), asked == 2);
    }
}

#[tokio::test]
async fn what_had_come_of_a_body_goes_to_the_next_origin_too() {
    let (sender, rx) = tokio::sync::mpsc::channel(1);
    let (ask, asked) = tokio::sync::mpsc::channel(1);
    let closes = Origin::tcp(|_, mut peer| async move {
        let mut text = Vec::new();
        while find(&text, b"\r\n\r\nab").is_none() {
            peer.read_buf(&mut text).await.unwrap();
        }
    })
    .await;
    let whole = Origin::tcp(move |_, mut peer| {
        let ask = ask.clone();
        async move {
            let mut text = Vec::new();
            while find(&text, b"\r\n\r\nab").is_none() {
                peer.read_buf(&mut text).await.unwrap();
            }
            ask.send(()).await.unwrap();
            while find(&text, b"\r\n\r\nabc").is_none() {
                peer.read_buf(&mut text).await.unwrap();
            }
            write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    })
    .await;
    tokio::spawn(async move {
        let mut asked = asked;
        asked.recv().await.unwrap();
        sender.send(Ok(BodyPiece::Bytes("c".into()))).await.unwrap();
    });
    let body = RequestBody::Stream { first: "ab".into(), rx, len: Some(3) };
    let group = of(&[&closes.address, &whole.address]);
    let protocol = http("PUT / HTTP/1.1\r\nContent-Length: 3\r\n\r\n");
    let outcome = fetch(Fetch { protocol, body, ..get(&group) }).await;
    assert_eq!(outcome.attempts.len(), 2);
    assert_eq!(outcome.result.unwrap().head.status, 200);
}

#[tokio::test]
async fn a_socket_that_is_not_there_is_told_as_nginx_tells_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("php.sock");
    let outcome = fetch(cgi(&Group::single(Address::Unix(path.clone())))).await;
    let expected = format!(
        "connect() to unix:{} failed (2: No such file or directory) while connecting to upstream",
        path.display()
    );
    assert_eq!(outcome.result.unwrap_err().to_string(), expected);
    assert_eq!(outcome.attempts[0].connect, None);
}

#[tokio::test]
async fn a_full_queue_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("php.sock");
    let socket = socket2::Socket::new(socket2::Domain::UNIX, socket2::Type::STREAM, None).unwrap();
    socket.bind(&socket2::SockAddr::unix(&path).unwrap()).unwrap();
    socket.listen(0).unwrap();
    let group = Group::single(Address::Unix(path));
    let fill: Vec<_> = (0..4).map(|_| tokio::spawn(fetch(cgi(&group)))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut late = cgi(&group);
    late.limits.connect = Duration::from_millis(50);
    assert!(matches!(fetch(late).await.result, Err(FetchError::ConnectTimeout)));
    socket.set_nonblocking(true).unwrap();
    let listener = tokio::net::UnixListener::from_std(std::os::fd::OwnedFd::from(socket).into()).unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut peer: Peer = Box::new(stream);
            tokio::spawn(async move {
                read_fastcgi(&mut peer).await.unwrap();
                write(&mut peer, [stdout("A: b\r\n\r\n"), end()].concat()).await;
            });
        }
    });
    for fetching in fill {
        assert!(fetching.await.unwrap().result.is_ok());
    }
}

#[tokio::test]
async fn a_refused_status_gives_way_to_no_live_upstreams_as_in_nginx() {
    let (_one, one) = first(First::Answers(503)).await;
    let two = nobody();
    let group = of(&[&one, &two]);
    let ask = || {
        let mut fetch_it = get(&group);
        fetch_it.retry.rules = rules("error http_503");
        fetch(fetch_it)
    };
    let told = |attempts: &[larder_origin::Attempt]| {
        let told = attempts.iter();
        told.map(|attempt| (attempt.address.to_string(), attempt.status.unwrap())).collect::<Vec<_>>()
    };
    let outcome = ask().await;
    assert_eq!(told(&outcome.attempts), [(one.to_string(), 503), (two.to_string(), 502)]);
    let outcome = ask().await;
    assert_eq!(told(&outcome.attempts), [("site".to_owned(), 502)]);
}

#[tokio::test]
async fn a_fetch_that_is_dropped_leaves_nothing_behind() {
    let (_hangs, address) = first(First::Hangs).await;
    let group = of(&[&address, &nobody()]);
    let fetching = tokio::spawn(fetch(get(&group)));
    while group.running() != [1, 0] {
        tokio::task::yield_now().await;
    }
    fetching.abort();
    assert!(fetching.await.unwrap_err().is_cancelled());
    assert_eq!(group.running(), [0, 0]);
    let mut later = get(&group);
    later.limits.read = Duration::from_millis(20);
    later.retry.tries = 1;
    let attempts = fetch(later).await.attempts;
    assert_eq!(attempts[0].status, Some(502), "the turn goes on; a drop is no failure");
}

#[tokio::test]
async fn who_leaves_a_fetch_knows_how_far_it_came() {
    let (_closes, closing) = first(First::Closes).await;
    let (hanging, hangs) = first(First::Hangs).await;
    let group = of(&[&closing, &hangs]);
    let mut fetching = Fetching::new(get(&group), None, Vec::new());
    let asked = async {
        while hanging.as_ref().is_none_or(|origin| origin.connections() == 0) {
            tokio::task::yield_now().await;
        }
    };
    let is_left = tokio::select! {
        _ = poll_fn(|cx| fetching.poll(cx)) => false,
        () = asked => true,
    };
    assert!(is_left, "nobody answers");
    let attempts = fetching.give_up();
    let told: Vec<_> = attempts.iter().map(|attempt| (attempt.status, attempt.header)).collect();
    assert_eq!(told, [(Some(502), None), (None, None)]);
    assert!(attempts[1].sent_bytes > 0, "it has the request");
    let mut fetching = Fetching::new(get(&of(&[&nobody()])), None, Vec::new());
    assert!(poll_fn(|cx| fetching.poll(cx)).await.result.is_err());
    assert!(fetching.give_up().is_empty(), "what came to its end is told by the outcome");
}
