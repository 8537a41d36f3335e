//! Certificates that nodes order once, on a real server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_cluster::{Certificates, CertificatesAway, OrderRight, OrderState, Settings};
use larder_testkit::{PATIENCE, Redis, Signal};
use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};

use crate::node::settings;

/// A node's end, and what it has said.
struct End {
    certificates: Certificates,
    said: Arc<Mutex<Vec<String>>>,
    runtime: Runtime,
}

impl End {
    fn of(redis: &Redis) -> Self {
        Self::with(settings(redis, "a"))
    }

    fn with(settings: Settings) -> Self {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let lines = Arc::clone(&said);
        let say = Box::new(move |level, line: &str| lines.lock().push(format!("{level:?} {line}")));
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        Self { certificates: Certificates::start(settings, say).unwrap(), said, runtime }
    }

    fn look(&self) -> Result<OrderState, CertificatesAway> {
        self.runtime.block_on(self.certificates.look(ORDER))
    }

    fn take(&self) -> Option<OrderRight> {
        self.runtime.block_on(self.certificates.take(ORDER)).expect("the server is there")
    }

    fn keeps(&self, right: &OrderRight) -> bool {
        self.runtime.block_on(right.keep()).expect("the server is there")
    }

    fn put(&self, text: &str) -> Result<(), CertificatesAway> {
        self.runtime.block_on(self.certificates.put(ORDER, text.into(), DAY))
    }

    fn answer(&self, challenge: &str) -> Option<Vec<u8>> {
        self.runtime.block_on(self.certificates.answer(challenge))
    }
}

const ORDER: &str = "ca.example:shop.example-0123";
const LOCK: &str = "larder:{shop}:acme:lock:ca.example:shop.example-0123";
const CERTIFICATE: &str = "larder:{shop}:acme:certificate:ca.example:shop.example-0123";
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Looks again until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn one_node_has_the_right_to_order_until_it_gives_it_up() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let right = one.take().expect("nobody has it");
    assert!(other.take().is_none() && one.take().is_none());
    assert!(one.keeps(&right));
    drop(right);
    until("it is given up", || redis.ask(&["EXISTS", LOCK]) == ["0"]);
    assert!(other.take().is_some());
}

#[test]
fn the_right_ends_by_itself_and_is_kept_as_long_as_no_other_node_has_it() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let right = one.take().expect("nobody has it");
    redis.ask(&["PEXPIRE", LOCK, "1000"]);
    assert!(one.keeps(&right));
    let left: u64 = redis.ask(&["PTTL", LOCK])[0].parse().unwrap();
    assert!((20_000..=30_000).contains(&left), "{left}");
    // The server has lost it: it is as if it had not.
    redis.ask(&["DEL", LOCK]);
    assert!(one.keeps(&right));
    // It was too late, and another has begun: that one's right stays.
    redis.ask(&["DEL", LOCK]);
    let others = other.take().expect("nobody has it");
    assert!(!one.keeps(&right));
    drop(right);
    // Asked in order: what was given up before is done by then.
    one.look().unwrap();
    assert!(other.keeps(&others));
    assert!(one.take().is_none());
}

#[test]
fn what_one_node_has_got_or_failed_to_get_all_know() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    assert_eq!(other.look(), Ok(OrderState::default()));
    one.runtime.block_on(one.certificates.fail(ORDER, 3, DAY)).unwrap();
    let state = other.look().unwrap();
    assert_eq!((state.failures, state.certificate), (3, None));
    assert!(state.wait.is_some_and(|wait| wait <= DAY && wait > DAY / 2), "{:?}", state.wait);
    one.put("key and chain").unwrap();
    one.runtime.block_on(one.certificates.succeed(ORDER)).unwrap();
    let state = other.look().unwrap();
    assert_eq!(state, OrderState { certificate: Some(b"key and chain".to_vec()), failures: 0, wait: None });
    let left: u64 = redis.ask(&["TTL", CERTIFICATE])[0].parse().unwrap();
    assert!(left <= DAY.as_secs() && left > DAY.as_secs() / 2, "{left}");
}

#[test]
fn all_nodes_have_the_answer_to_a_challenge() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    one.runtime.block_on(one.certificates.offer("http-01:token", b"answer".to_vec())).unwrap();
    until("the answer", || other.answer("http-01:token").as_deref() == Some(&b"answer"[..]));
    assert_eq!(other.answer("http-01:another"), None);
    redis.signal(Signal::Stop);
    assert_eq!(other.answer("http-01:token"), None);
    redis.signal(Signal::Continue);
    until("the answer", || other.answer("http-01:token").is_some());
}

#[test]
fn a_server_that_is_away_or_refuses_is_told_apart_from_one_that_has_nothing() {
    let mut redis = Redis::start(&[]);
    let one = End::of(&redis);
    redis.ask(&["RPUSH", CERTIFICATE, "no string"]);
    assert_eq!((one.look(), one.look()), (Err(CertificatesAway), Err(CertificatesAway)));
    let line = "Warn cluster: redis://127.0.0.1:{PORT} shares no certificates: it holds something else than what larder \
                writes under \"larder:{shop}:acme:*\": delete those keys, or take another \"name=\"";
    assert_eq!(*one.said.lock(), [line.replace("{PORT}", &redis.port().to_string())]);
    redis.ask(&["DEL", CERTIFICATE]);
    let right = one.take().expect("nobody has it");
    redis.kill();
    assert_eq!(one.look(), Err(CertificatesAway));
    assert_eq!(one.runtime.block_on(right.keep()), Err(CertificatesAway));
    redis.start_again();
    until("it is back", || one.look().is_ok());
    assert_eq!(one.put("key and chain"), Ok(()));
    assert_eq!(one.said.lock().len(), 1, "{:?}", one.said.lock());
}

#[test]
fn the_rights_that_the_guide_names_are_enough() {
    let redis = Redis::start(&[
        "user default off",
        "user shop on >secret ~larder:{shop}:* resetchannels -@all +@read +@write +@connection +@transaction +time -@dangerous",
    ]);
    let user = |settings: Settings| Settings {
        user: Some("shop".to_owned()),
        password: Some("secret".to_owned()),
        ..settings
    };
    let one = End::with(user(settings(&redis, "a")));
    let right = one.take().expect("nobody has it");
    assert!(one.keeps(&right));
    one.put("key and chain").unwrap();
    one.runtime.block_on(one.certificates.offer("http-01:token", b"answer".to_vec())).unwrap();
    until("the answer", || one.answer("http-01:token").is_some());
    drop(right);
    let other = End::with(user(settings(&redis, "b")));
    until("the right is given up", || other.take().is_some());
    assert_eq!(*one.said.lock(), [""; 0]);
}
