//! The shelf that all nodes share, on a real server.

use std::sync::Arc;
use std::time::Duration;

use larder_cluster::{ALONE, EntryId, Lock, Look, Outcome, PageName, Settings, Share, Shelf, Take, Value};
use larder_testkit::{PATIENCE, Redis, Signal};
use parking_lot::Mutex;

use crate::fake::{Fake, Talk};
use crate::node::{Node, Seen, settings};

const SHELF: Shelf = Shelf { bytes_max: 1000, deadline: Duration::from_millis(5) };

/// A node's end of the shelf, and what it has said.
struct End {
    share: Arc<Share>,
    said: Arc<Mutex<Vec<String>>>,
    runtime: tokio::runtime::Runtime,
}

impl End {
    fn of(redis: &Redis) -> Self {
        Self::with(&settings(redis, "a"), SHELF)
    }

    fn with(settings: &Settings, shelf: Shelf) -> Self {
        let said = Arc::<Mutex<Vec<String>>>::default();
        let hears = Arc::clone(&said);
        let hear = Arc::new(move |fault: Option<&larder_cluster::Fault>| {
            hears.lock().push(fault.map_or_else(|| "back".to_owned(), ToString::to_string));
        });
        let share = Share::start(settings, shelf, hear).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        Self { share, said, runtime }
    }

    fn look_once(&self, name: &str) -> Look {
        self.runtime.block_on(self.share.look(&page(name)))
    }

    /// On a busy machine an answer may come late.
    fn look(&self, name: &str) -> Look {
        for _ in 0..300 {
            match self.look_once(name) {
                Look::Skipped => std::thread::sleep(Duration::from_millis(10)),
                look => return look,
            }
        }
        Look::Skipped
    }

    fn take(&self, name: &str) -> Take {
        for _ in 0..300 {
            match self.runtime.block_on(self.share.take(&page(name))) {
                Some(take) => return take,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        panic!("{name}: skipped");
    }

    fn takes(&self, name: &str) -> Lock {
        match self.take(name) {
            Take { lock: Some(lock), look: Look::Nothing } => lock,
            other => panic!("{name}: {other:?}"),
        }
    }

    fn stores(&self, name: &str, value: &[u8]) {
        let values = [(page(name), value.to_vec())];
        self.share.store(&self.takes(name), &values, Duration::from_secs(60));
    }

    /// The value that is there, and for how long.
    fn value(&self, name: &str) -> Value {
        match self.look(name) {
            Look::There(value) => value,
            other => panic!("{name}: {other:?}"),
        }
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..300 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("waited in vain for {what}");
}

fn page(name: &str) -> PageName {
    PageName { zone: "pages".into(), hash: name.bytes().fold(7, |hash, byte| hash * 31 + u128::from(byte)) }
}

#[test]
fn one_node_fetches_and_all_have_it() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let lock = one.takes("a");
    assert_eq!(other.take("a"), Take { lock: None, look: Look::Nothing });
    let values = [(page("a"), b"page".to_vec()), (page("variant"), b"more".to_vec())];
    one.share.store(&lock, &values, Duration::from_secs(60));
    until("the page", || other.look("a") != Look::Nothing);
    for (name, bytes) in [("a", b"page"), ("variant", b"more")] {
        let value = other.value(name);
        assert_eq!(value.bytes, bytes);
        assert!(!value.left.is_zero() && value.left <= Duration::from_secs(60), "{value:?}");
    }
    until("the lock to go", || redis.ask(&["KEYS", "*lock:*"]).is_empty());
    // What is there is of no use to who asks for the right again.
    let again = other.take("a");
    assert!(again.lock.is_some() && matches!(again.look, Look::There(_)), "{again:?}");
    other.share.count(Outcome::Found);
    other.share.count(Outcome::Waited);
    let counts = (one.share.counts(), other.share.counts());
    assert_eq!((counts.0.stored, counts.1.stored, counts.1.found, counts.1.waited), (1, 0, 1, 1));
}

#[test]
fn what_cannot_be_shared_is_fetched_by_each_and_nobody_waits() {
    let redis = Redis::start(&[]);
    let (one, other) = (End::of(&redis), End::of(&redis));
    let is_alone = |look| matches!(look, Look::Alone(left) if !left.is_zero() && left <= ALONE);
    // Too large, not to be stored, and a fetch that failed.
    one.stores("large", &[b'x'; 1001]);
    one.share.give_up(&one.takes("private"), true);
    one.share.give_up(&one.takes("failed"), false);
    until("the mark of the large one", || is_alone(other.look("large")));
    until("the mark of the private one", || is_alone(other.look("private")));
    until("the right to fetch it", || other.take("failed").lock.is_some());
    // One node may see whether that one can be shared now, and the others know that they need not wait for it.
    let Take { lock: Some(_), look } = other.take("private") else { panic!("nobody has it") };
    assert!(is_alone(look));
    let Take { lock: None, look } = one.take("private") else { panic!("the other has it") };
    assert!(is_alone(look));
}

#[test]
fn what_no_node_has_put_there_is_no_page_and_of_a_long_one_the_start_is_read() {
    let redis = Redis::start(&[]);
    let end = End::of(&redis);
    end.stores("a", b"page");
    until("the page", || end.look("a") != Look::Nothing);
    let name = redis.ask(&["KEYS", "*page:*"])[0].clone();
    redis.ask(&["SET", &name, &"x".repeat(5000), "PX", "60000"]);
    assert_eq!(end.value("a").bytes.len(), 1000);
    redis.ask(&["SET", &name, "endless"]);
    assert_eq!(end.look("a"), Look::Nothing);
    redis.ask(&["DEL", &name]);
    redis.ask(&["LPUSH", &name, "of another type"]);
    assert_eq!(end.look_once("a"), Look::Skipped);
}

#[test]
fn a_server_that_is_slow_or_gone_is_skipped_and_its_fault_said() {
    let mut redis = Redis::start(&[]);
    let end = End::of(&redis);
    drop(end.takes("a"));
    redis.signal(Signal::Stop);
    for _ in 0..4 {
        assert_eq!(end.look_once("b"), Look::Skipped);
    }
    assert!(end.share.rests(), "nobody waits for it any more");
    redis.signal(Signal::Continue);
    drop(end.takes("c"));
    redis.kill();
    until("a word about it", || {
        assert_eq!(end.look_once("d"), Look::Skipped);
        !end.said.lock().is_empty()
    });
    assert!(end.said.lock().first().is_some_and(|said| said.starts_with("cannot be reached")), "{:?}", end.said.lock());
    redis.start_again();
    drop(end.takes("e"));
    assert_eq!(end.said.lock().last().map(String::as_str), Some("back"));
}

/// An end that a fake server answers, and its connection.
fn faked() -> (Fake, End, Talk) {
    let server = Fake::start();
    let mut to = settings(&Redis::start(&[]), "a");
    to.servers[0].port = server.port();
    let end = End::with(&to, Shelf { deadline: PATIENCE, ..SHELF });
    // It connects by itself, so that the first look needs not wait for that.
    let mut talk = server.accept();
    assert_eq!(talk.next(), ["PING"]);
    talk.answer("+PONG\r\n");
    (server, end, talk)
}

/// The pages that the next looks ask for, which are not answered.
fn asked(talk: &mut Talk, looks: usize) -> Vec<String> {
    let mut look = || {
        let (left, value) = (talk.next(), talk.next());
        assert_eq!((left[0].as_str(), value[0].as_str(), &left[1]), ("PTTL", "GETRANGE", &value[1]));
        value[1].clone()
    };
    (0..looks).map(|_| look()).collect()
}

#[test]
fn who_asks_is_answered_whatever_comes_of_those_behind_and_nobody_is_asked_for_twice() {
    let (server, end, mut talk) = faked();
    let look = |name: &str| {
        let (share, name) = (Arc::clone(&end.share), page(name));
        let mut look = Box::pin(async move { share.look(&name).await });
        let begin = std::future::poll_fn(|cx| std::task::Poll::Ready(look.as_mut().poll(cx).is_pending()));
        assert!(end.runtime.block_on(begin));
        look
    };
    let there = |look: Look| matches!(look, Look::There(Value { bytes, .. }) if bytes == b"page");
    let key = |name: &str| format!("larder:{{shop}}:page:pages:{:032x}", page(name).hash);
    let page_of_a_minute = ":60000\r\n$4\r\npage\r\n";
    let before = look("before");
    assert_eq!(asked(&mut talk, 1), [key("before")]);
    let (first, second) = (look("first"), look("second"));
    talk.answer(page_of_a_minute);
    assert!(there(end.runtime.block_on(before)));
    assert_eq!(asked(&mut talk, 2), [key("first"), key("second")]);
    talk.answer(page_of_a_minute);
    // The time of the second, and no page.
    talk.answer(":60000\r\n");
    assert!(there(end.runtime.block_on(first)));
    drop(talk);
    let mut talk = server.accept();
    assert_eq!(asked(&mut talk, 1), [key("second")]);
    talk.answer(page_of_a_minute);
    assert!(there(end.runtime.block_on(second)));
    assert_eq!(*end.said.lock(), Vec::<String>::new());
}

#[test]
fn an_answer_to_another_question_ends_the_connection() {
    let (server, end, talk) = faked();
    let look = |talk: Option<Talk>, answer: &str| {
        std::thread::scope(|threads| {
            let look = threads.spawn(|| end.look_once("page"));
            let mut talk = talk.unwrap_or_else(|| server.accept());
            asked(&mut talk, 1);
            talk.answer(answer);
            look.join().unwrap()
        })
    };
    let page_of_a_minute = ":60000\r\n$4\r\npage\r\n";
    // One answer too many came before: these are not the answers to this.
    assert_eq!(look(Some(talk), &format!("+OK\r\n{page_of_a_minute}")), Look::Skipped);
    assert!(matches!(look(None, page_of_a_minute), Look::There(_)));
    assert_eq!(
        *end.said.lock(),
        ["answers what larder does not understand: what is no answer to the question", "back"]
    );
}

#[test]
fn a_right_that_comes_too_late_is_given_back() {
    let redis = Redis::start(&[]);
    let (end, other) = (End::of(&redis), End::of(&redis));
    end.share.give_up(&end.takes("b"), false);
    redis.signal(Signal::Stop);
    assert_eq!(end.runtime.block_on(end.share.take(&page("a"))), None);
    redis.signal(Signal::Continue);
    until("the right to fetch it", || other.take("a").lock.is_some());
}

#[test]
fn a_full_server_keeps_no_page_and_says_so() {
    let redis = Redis::start(&["maxmemory 1", "maxmemory-policy noeviction"]);
    let end = End::of(&redis);
    // It has less than it needs for itself.
    until("a word about it", || {
        assert_eq!(end.runtime.block_on(end.share.take(&page("a"))), None);
        !end.said.lock().is_empty()
    });
    assert!(end.said.lock().first().is_some_and(|said| said.starts_with("is full: ")), "{:?}", end.said.lock());
}

#[test]
fn a_node_notes_up_to_where_all_is_carried_out_with_its_own_purges() {
    let redis = Redis::start(&[]);
    let sharing = |name| {
        let settings = Settings { share: Some(SHELF), ..settings(&redis, name) };
        Node::start_with(settings, None, None).settled()
    };
    let (one, other) = (sharing("one"), sharing("other"));
    let alone = Node::start(&redis, "alone").settled();
    one.until_known("purge hard all");
    let entry: EntryId = redis.ask(&["XREVRANGE", "larder:{shop}:log", "+", "-"])[0].parse().unwrap();
    let has_reached = |seen: &Seen| seen.reached.as_ref().is_some_and(|place| place.at == entry);
    one.until(has_reached);
    other.until(has_reached);
    assert_eq!(alone.seen().reached, None, "it shares no pages");
    // One that cannot be sent is carried out at a place that nobody knows.
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    one.cluster.push("pages", "purge hard all");
    one.until(|seen| seen.reached.is_none());
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    one.until(|seen| seen.reached.as_ref().is_some_and(|place| place.at > entry));
}
