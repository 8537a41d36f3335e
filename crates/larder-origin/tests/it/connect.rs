//! New connections: what is written before it is known whether they are made.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    time::Duration,
};

use larder_origin::{Address, Balance, Fetch, FetchError, Group, Keepalive, Limits, Server, fetch};
use socket2::{Domain, Socket, Type};

use crate::origin::*;

/// A listener whose queue is full: it answers no further SYN until it accepts.
fn full() -> (TcpListener, Vec<Socket>) {
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    listener.listen(0).unwrap();
    let listener = TcpListener::from(listener);
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    // The first one fills the queue; the others are left without an answer.
    for _ in 0..3 {
        let socket = Socket::new(Domain::IPV4, Type::STREAM.nonblocking(), None).unwrap();
        let _ = socket.connect(&address.into());
        waiting.push(socket);
    }
    (listener, waiting)
}

fn of(listener: &TcpListener) -> std::sync::Arc<Group> {
    Group::single(Address::Tcp(listener.local_addr().unwrap()))
}

#[tokio::test]
async fn who_is_not_connected_in_time_is_told_so() {
    let (listener, _waiting) = full();
    let group = of(&listener);
    let limits = Limits { connect: Duration::from_millis(50), ..get(&group).limits };
    let outcome = fetch(Fetch { limits, ..get(&group) }).await;
    assert!(matches!(outcome.result, Err(FetchError::ConnectTimeout)), "{:?}", outcome.result);
    let [attempt] = &outcome.attempts[..] else { panic!("{:?}", outcome.attempts) };
    assert_eq!((attempt.status, attempt.connect, attempt.sent_bytes), (Some(504), None, 0));
}

#[tokio::test]
async fn a_request_is_sent_once_the_connection_is_made() {
    let (listener, waiting) = full();
    let group = of(&listener);
    let fetching = tokio::spawn(fetch(get(&group)));
    while group.running() != [1] {
        tokio::task::yield_now().await;
    }
    drop(waiting);
    let origin = std::thread::spawn(move || {
        // Those that filled the queue are closed; this one speaks.
        loop {
            let (mut peer, _) = listener.accept().unwrap();
            let mut request = [0; 100];
            if let Ok(1..) = std::io::Read::read(&mut peer, &mut request) {
                std::io::Write::write_all(&mut peer, b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap();
                return;
            }
        }
    });
    let outcome = fetching.await.unwrap();
    assert_eq!(read_all(&mut outcome.result.expect("it answers").body).await.unwrap(), b"abc");
    let connect = outcome.attempts[0].connect.expect("it was made");
    assert!(connect > Duration::ZERO && connect <= outcome.attempts[0].elapsed);
    origin.join().unwrap();
}

#[tokio::test]
async fn a_refused_connection_is_told_as_nginx_tells_it_and_the_next_origin_is_asked() {
    let good = Origin::tcp(|_, mut peer| async move {
        read_http(&mut peer).await;
        write(&mut peer, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    })
    .await;
    let refusing = nobody();
    let told = "connect() failed (111: Connection refused) while connecting to upstream";
    let servers = vec![Server::new(refusing), Server::new(good.address.clone())];
    let group = Group::new("a", servers, Balance::RoundRobin, Keepalive::NONE);
    let outcome = fetch(get(&group)).await;
    assert!(outcome.result.is_ok());
    let first = &outcome.attempts[0];
    assert_eq!((first.error.as_deref(), first.status, first.connect), (Some(told), Some(502), None));
    assert_eq!(outcome.attempts.len(), 2);
}

#[tokio::test]
async fn an_origin_that_takes_a_connection_and_closes_it_was_connected_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let group = of(&listener);
    let origin = std::thread::spawn(move || drop::<(TcpStream, SocketAddr)>(listener.accept().unwrap()));
    let outcome = fetch(get(&group)).await;
    assert!(outcome.result.is_err());
    assert!(outcome.attempts[0].connect.is_some(), "{:?}", outcome.attempts);
    origin.join().unwrap();
}
