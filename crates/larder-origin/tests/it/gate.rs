//! Fetches through a gate.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use larder_origin::gate::{Asks, Class, Gate, Limit, Queueing, Rules, Why};
use larder_origin::{Balance, Fetch, FetchError, Group, Keepalive, Server, fetch};
use tokio::sync::{Semaphore, mpsc};

use crate::origin::*;

/// An origin that tells the target of each request, and answers when it is let.
struct Held {
    origin: Origin,
    asked: mpsc::UnboundedReceiver<String>,
    go: Arc<Semaphore>,
}

impl Held {
    async fn new() -> Held {
        let (sender, asked) = mpsc::unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let gone = Arc::clone(&go);
        let origin = Origin::tcp(move |_, mut peer| {
            let (sender, go) = (sender.clone(), Arc::clone(&gone));
            async move {
                while let Some(request) = read_http(&mut peer).await {
                    let line = String::from_utf8_lossy(&request).split(' ').nth(1).unwrap().to_owned();
                    sender.send(line).unwrap();
                    go.acquire().await.unwrap().forget();
                    write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
                }
            }
        })
        .await;
        Held { origin, asked, go }
    }

    async fn next(&mut self) -> String {
        self.asked.recv().await.expect("the origin is there")
    }
}

fn gated(origins: &[(&Origin, u32)], limit: Limit, queue_max: usize) -> Arc<Group> {
    let servers =
        origins.iter().map(|(of, max_conns)| Server { max_conns: *max_conns, ..Server::new(of.address.clone()) });
    let gate = Gate::new(Rules { limit, queue_max, timeout: Some(Duration::from_secs(3600)) });
    Group::gated("php", servers.collect(), Balance::RoundRobin, Keepalive::NONE, Some(gate))
}

fn ask(group: &Arc<Group>, path: &str, class: Class) -> Fetch {
    let protocol = http(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    Fetch { protocol, gate: Asks { class, ..Asks::default() }, ..get(group) }
}

async fn body(fetched: Fetch) -> Vec<u8> {
    let mut answer = fetch(fetched).await.result.expect("it answers");
    read_all(&mut answer.body).await.expect("all of it")
}

/// Waits until so many wait at the gate.
async fn waiting(group: &Arc<Group>, count: usize) {
    while group.waiting() != count {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn the_origin_is_asked_in_the_order_of_classes_by_one_at_a_time() {
    let mut held = Held::new().await;
    let group = gated(&[(&held.origin, 0)], Limit::Fixed(1), 10);
    let mut tasks = vec![tokio::spawn(body(ask(&group, "/first", Class::LOW)))];
    assert_eq!(held.next().await, "/first");
    for (at, (path, class)) in
        [("/crawler", Class::LOW), ("/page", Class::NORMAL), ("/checkout", Class::HIGH)].into_iter().enumerate()
    {
        tasks.push(tokio::spawn(body(ask(&group, path, class))));
        waiting(&group, at + 1).await;
    }
    for path in ["/checkout", "/page", "/crawler"] {
        assert_eq!(group.running(), [1]);
        held.go.add_permits(1);
        assert_eq!(held.next().await, path);
    }
    held.go.add_permits(1);
    for task in tasks {
        assert_eq!(task.await.unwrap(), b"ok");
    }
    let status = group.gate().unwrap().status();
    assert_eq!((status.running, status.counts.admitted, status.counts.waited), (0, 4, 3));
}

#[tokio::test]
async fn a_fetch_that_is_dropped_while_it_waits_is_never_sent() {
    let mut held = Held::new().await;
    let group = gated(&[(&held.origin, 0)], Limit::Fixed(1), 10);
    let first = tokio::spawn(body(ask(&group, "/first", Class::NORMAL)));
    assert_eq!(held.next().await, "/first");
    let left = tokio::spawn(body(ask(&group, "/left", Class::HIGH)));
    waiting(&group, 1).await;
    let last = tokio::spawn(body(ask(&group, "/last", Class::NORMAL)));
    waiting(&group, 2).await;
    left.abort();
    waiting(&group, 1).await;
    held.go.add_permits(2);
    assert_eq!(held.next().await, "/last");
    assert_eq!((first.await.unwrap(), last.await.unwrap()), (b"ok".to_vec(), b"ok".to_vec()));
    assert_eq!(held.origin.connections(), 2);
}

#[tokio::test]
async fn an_overflow_is_told_as_such_and_asks_nobody() {
    let mut held = Held::new().await;
    let group = gated(&[(&held.origin, 0)], Limit::Fixed(1), 0);
    let first = tokio::spawn(body(ask(&group, "/first", Class::NORMAL)));
    assert_eq!(held.next().await, "/first");
    let outcome = fetch(ask(&group, "/second", Class::HIGH)).await;
    assert!(matches!(&outcome.result, Err(FetchError::Gate(refusal)) if refusal.why == Why::Full));
    assert_eq!((outcome.attempts.len(), outcome.attempts[0].status), (1, Some(503)));
    let passes = Asks { passes: true, ..Asks::default() };
    let by = tokio::spawn(body(Fetch { gate: passes, ..ask(&group, "/status", Class::NORMAL) }));
    assert_eq!(held.next().await, "/status");
    held.go.add_permits(2);
    assert_eq!((first.await.unwrap(), by.await.unwrap()), (b"ok".to_vec(), b"ok".to_vec()));
    assert_eq!(group.gate().unwrap().status().counts.admitted, 1);
}

#[tokio::test]
async fn servers_with_as_many_requests_as_they_may_have_others_wait_for_any_of_them() {
    let (mut one, mut two) = (Held::new().await, Held::new().await);
    let group = gated(&[(&one.origin, 1), (&two.origin, 1)], Limit::Servers, 10);
    let tasks = Mutex::new(Vec::new());
    let spawn = |path: &str| tasks.lock().unwrap().push(tokio::spawn(body(ask(&group, path, Class::NORMAL))));
    spawn("/a");
    assert_eq!(one.next().await, "/a");
    spawn("/b");
    assert_eq!(two.next().await, "/b");
    spawn("/c");
    waiting(&group, 1).await;
    spawn("/d");
    waiting(&group, 2).await;
    two.go.add_permits(1);
    assert_eq!(two.next().await, "/c");
    one.go.add_permits(1);
    assert_eq!(one.next().await, "/d");
    one.go.add_permits(1);
    two.go.add_permits(1);
    for task in tasks.into_inner().unwrap() {
        assert_eq!(task.await.unwrap(), b"ok");
    }
    assert_eq!(group.running(), [0, 0]);
}

#[tokio::test]
async fn a_policy_with_a_queue_of_its_own_hears_of_no_gate() {
    let mut held = Held::new().await;
    let group = gated(&[(&held.origin, 1)], Limit::Servers, 0);
    let own = |most, millis| {
        let own = Some(Queueing { most, time: Duration::from_millis(millis) });
        Fetch { gate: Asks { own, ..Asks::default() }, ..ask(&group, "/own", Class::NORMAL) }
    };
    let first = tokio::spawn(body(ask(&group, "/first", Class::NORMAL)));
    assert_eq!(held.next().await, "/first");
    for (most, millis) in [(0, 1000), (1, 5)] {
        let outcome = fetch(own(most, millis)).await;
        assert!(matches!(outcome.result, Err(FetchError::NoLiveOrigin)), "{most}");
        assert_eq!(outcome.attempts[0].status, Some(502));
    }
    let waits = tokio::spawn(body(own(1, 3_600_000)));
    waiting(&group, 1).await;
    held.go.add_permits(2);
    assert_eq!(held.next().await, "/own");
    assert_eq!((first.await.unwrap(), waits.await.unwrap()), (b"ok".to_vec(), b"ok".to_vec()));
}

/// How a request is given up while its origin works at it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum GivesUp {
    BeforeHead,
    HeadIsLate,
    BehindHead,
    BodyIsLate,
}

/// A php-fpm with one child, that tells what it does. It sends the head at once where that is asked for.
struct Child {
    origin: Origin,
    does: mpsc::UnboundedReceiver<&'static str>,
    go: Arc<Semaphore>,
}

impl Child {
    async fn new(sends_head: bool) -> Child {
        let (sender, does) = mpsc::unbounded_channel();
        let go = Arc::new(Semaphore::new(0));
        let gone = Arc::clone(&go);
        let origin = Origin::tcp(move |_, mut peer| {
            let (sender, go) = (sender.clone(), Arc::clone(&gone));
            async move {
                read_fastcgi(&mut peer).await.unwrap();
                if sends_head {
                    write(&mut peer, stdout("\r\nbegun")).await;
                }
                sender.send("begins").unwrap();
                go.acquire().await.unwrap().forget();
                sender.send("ends").unwrap();
                write(&mut peer, [stdout(if sends_head { "." } else { "\r\n." }), end()].concat()).await;
            }
        })
        .await;
        Child { origin, does, go }
    }

    async fn next(&mut self) -> &'static str {
        self.does.recv().await.expect("the origin is there")
    }
}

#[tokio::test]
async fn the_slot_of_a_request_that_was_given_up_is_held_until_its_origin_is_done() {
    for how in [GivesUp::BeforeHead, GivesUp::HeadIsLate, GivesUp::BehindHead, GivesUp::BodyIsLate] {
        let mut child = Child::new(matches!(how, GivesUp::BehindHead | GivesUp::BodyIsLate)).await;
        let group = gated(&[(&child.origin, 0)], Limit::Fixed(1), 10);
        let mut first = cgi(&group);
        match how {
            GivesUp::HeadIsLate => first.limits.read = Duration::from_secs(1),
            GivesUp::BodyIsLate => first.limits.read_body = Duration::from_millis(10),
            GivesUp::BeforeHead | GivesUp::BehindHead => {}
        }
        let task = tokio::spawn(async move {
            let Ok(mut answer) = fetch(first).await.result else { return };
            if how == GivesUp::BodyIsLate {
                assert!(read_all(&mut answer.body).await.is_err());
            }
        });
        assert_eq!(child.next().await, "begins");
        if how == GivesUp::BeforeHead {
            task.abort();
        }
        let _ = task.await;
        let second = tokio::spawn(body(cgi(&group)));
        while group.waiting() == 0 && !second.is_finished() && child.origin.connections() == 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!((group.running(), group.waiting()), (vec![u32::from(how != GivesUp::HeadIsLate)], 1), "{how:?}");
        child.go.add_permits(2);
        let order = [child.next().await, child.next().await, child.next().await];
        assert_eq!(order, ["ends", "begins", "ends"], "{how:?}");
        assert!(second.await.unwrap().ends_with(b"."), "{how:?}");
        assert_eq!(group.gate().unwrap().status().running, 0, "{how:?}");
    }
}

#[tokio::test]
async fn an_origin_of_http_sees_who_leaves_and_has_its_slot_until_it_closes() {
    let (sender, mut does) = mpsc::unbounded_channel();
    let go = Arc::new(Semaphore::new(0));
    let gone = Arc::clone(&go);
    let origin = Origin::tcp(move |number, mut peer| {
        let (sender, go) = (sender.clone(), Arc::clone(&gone));
        async move {
            read_http(&mut peer).await.unwrap();
            sender.send("begins").unwrap();
            if number == 0 {
                assert!(read_http(&mut peer).await.is_none());
                sender.send("is alone").unwrap();
                go.acquire().await.unwrap().forget();
                sender.send("closes").unwrap();
            }
            write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
        }
    })
    .await;
    let group = gated(&[(&origin, 0)], Limit::Fixed(1), 10);
    let first = tokio::spawn(body(get(&group)));
    assert_eq!(does.recv().await, Some("begins"));
    first.abort();
    assert_eq!(does.recv().await, Some("is alone"));
    let second = tokio::spawn(body(get(&group)));
    waiting(&group, 1).await;
    go.add_permits(1);
    assert_eq!((does.recv().await, does.recv().await), (Some("closes"), Some("begins")));
    assert_eq!(second.await.unwrap(), b"ok");
}

#[tokio::test]
async fn an_origin_that_is_silent_or_writes_without_end_is_left_in_bounded_time() {
    let (sender, mut is_left) = mpsc::unbounded_channel();
    let origin = Origin::tcp(move |number, mut peer| {
        let sender = sender.clone();
        async move {
            read_fastcgi(&mut peer).await.unwrap();
            match number {
                0 => drop(read_record(&mut peer).await),
                1 => while tokio::io::AsyncWriteExt::write_all(&mut peer, &stdout([b'x'; 8000])).await.is_ok() {},
                _ => return write(&mut peer, [stdout("\r\nok"), end()].concat()).await,
            }
            sender.send(peer).unwrap();
        }
    })
    .await;
    let group = gated(&[(&origin, 0)], Limit::Fixed(1), 10);
    for _ in 0..2 {
        let mut given_up = cgi(&group);
        given_up.limits.read = Duration::from_millis(100);
        given_up.limits.head_bytes_max = usize::MAX;
        let task = tokio::spawn(async move { drop(fetch(given_up).await) });
        while group.running() == [0] {
            tokio::task::yield_now().await;
        }
        task.abort();
        let _peer = is_left.recv().await.expect("it is left");
        while group.gate().unwrap().status().running > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(group.gate().unwrap().status().time, Duration::ZERO, "it says nothing of how long requests take");
    assert_eq!(body(cgi(&group)).await, b"ok");
}

#[tokio::test]
async fn a_request_that_goes_to_the_next_origin_counts_at_both() {
    let (mut slow, mut next) = (Child::new(false).await, Child::new(false).await);
    let group = gated(&[(&slow.origin, 0), (&next.origin, 0)], Limit::Fixed(3), 10);
    let mut fetched = cgi(&group);
    fetched.limits.read = Duration::from_secs(1);
    fetched.retry.rules.timeout = true;
    let task = tokio::spawn(body(fetched));
    assert_eq!((slow.next().await, next.next().await), ("begins", "begins"));
    let running = || group.gate().unwrap().status().running;
    assert_eq!(running(), 2);
    slow.go.add_permits(1);
    while running() == 2 {
        tokio::task::yield_now().await;
    }
    next.go.add_permits(1);
    assert_eq!(task.await.unwrap(), b".");
    assert_eq!(running(), 0);
}
