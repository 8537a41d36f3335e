//! Names, asked of a name server that answers from a table.

use larder_testkit::{NameServer, Says};

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

/// A resolver that asks these servers, and the lines it has written.
fn resolver(servers: &[SocketAddr], valid: Option<Duration>) -> (Arc<Resolver>, Arc<Mutex<Vec<String>>>) {
    let lines = Arc::<Mutex<Vec<String>>>::default();
    let report: Report = Arc::new({
        let lines = Arc::clone(&lines);
        move |line: &str| lines.lock().push(line.to_owned())
    });
    let options = ResolverOptions { servers: servers.to_vec(), valid, ipv4: true, ipv6: true };
    (Resolver::new(options, report, Arc::default()), lines)
}

fn one_server() -> (NameServer, Arc<Resolver>, Arc<Mutex<Vec<String>>>) {
    let server = NameServer::start().expect("a name server");
    let (resolver, lines) = resolver(&[server.address()], None);
    (server, resolver, lines)
}

#[tokio::test]
async fn questions_are_counted_by_their_answer() {
    let (server, resolver, _) = one_server();
    server.knows("a.test", &[[127, 0, 0, 1]]);
    server.says("fails.test", Says::Failure(2));
    server.says("refused.test", Says::Failure(5));
    for name in ["a.test", "a.test", "fails.test", "nowhere.test", "refused.test"] {
        let _ = addresses(&resolver, name).await;
    }
    let _ = resolver.resolve_service("http", "nowhere.test", PATIENCE).await;
    assert_eq!(
        resolver.counts.read(),
        // What is known is not asked for again.
        ResolverSums { hosts: 4, services: 1, answers: [1, 0, 1, 2, 0, 1], timed_out: 0 }
    );
}

async fn addresses(resolver: &Arc<Resolver>, name: &str) -> Result<Vec<String>, String> {
    let found = resolver.resolve(name, PATIENCE).await;
    let shown = |found: Resolution| found.addresses.iter().map(IpAddr::to_string).collect();
    found.map(shown).map_err(|error| error.to_string())
}

#[tokio::test]
async fn names_lead_to_addresses_or_to_why_not() {
    let (server, resolver, _) = one_server();
    server.knows("a.test", &[[127, 0, 0, 1]]);
    server.says("six.test", Says::Addresses(vec!["::1".parse().unwrap()], 60));
    server.says("alias.test", Says::Alias("a.test".into()));
    server.says("loop.test", Says::Alias("loop.test".into()));
    server.says("lost.test", Says::Alias("nowhere.test".into()));
    server.says("fails.test", Says::Failure(2));
    server.says("empty.test", Says::Addresses(Vec::new(), 60));
    server.says("long.test", Says::Long(vec![[127, 0, 0, 9].into()], 60));
    let label = "x".repeat(64);
    for (name, expected) in [
        ("a.test", Ok("127.0.0.1")),
        ("A.Test.", Ok("127.0.0.1")),
        ("six.test", Ok("::1")),
        ("alias.test", Ok("127.0.0.1")),
        ("long.test", Ok("127.0.0.9")),
        ("nowhere.test", Err("nowhere.test could not be resolved (3: Host not found)")),
        ("empty.test", Err("empty.test could not be resolved (3: Host not found)")),
        ("loop.test", Err("loop.test could not be resolved (3: Host not found)")),
        ("lost.test", Err("lost.test could not be resolved (3: Host not found)")),
        ("fails.test", Err("fails.test could not be resolved (2: Server failure)")),
        ("a..test", Err("a..test could not be resolved (3: Host not found)")),
        (&label, Err(&*format!("{label} could not be resolved (3: Host not found)"))),
    ] {
        let expected = expected.map(|address| vec![address.to_owned()]).map_err(str::to_owned);
        assert_eq!(addresses(&resolver, name).await, expected, "{name}");
    }
    assert_eq!(server.asked("a.test"), (2, 0), "one look-up, of both families, for three names");
    assert_eq!(server.asked("long.test"), (2, 2));
}

#[tokio::test]
async fn answers_are_kept_as_long_as_they_say_and_failures_not_at_all() {
    let (server, resolver, _) = one_server();
    server.says("zero.test", Says::Addresses(vec![[127, 0, 0, 1].into()], 0));
    for times in 1..=3 {
        addresses(&resolver, "zero.test").await.expect("it is there");
        assert_eq!(server.asked("zero.test").0, 2 * times);
    }
    assert!(addresses(&resolver, "new.test").await.is_err());
    server.knows("new.test", &[[127, 0, 0, 1]]);
    for _ in 0..3 {
        addresses(&resolver, "new.test").await.expect("it is there now");
    }
    assert_eq!(server.asked("new.test").0, 4);
    let (longer, _) = super::tests::resolver(&[server.address()], Some(PATIENCE));
    for _ in 0..3 {
        addresses(&longer, "zero.test").await.expect("it is there");
    }
    assert_eq!(server.asked("zero.test").0, 8, "valid= counts more than the answer");
}

#[tokio::test]
async fn one_question_serves_all_who_wait() {
    let (server, resolver, _) = one_server();
    server.knows("a.test", &[[127, 0, 0, 1]]);
    let asking: Vec<_> = (0..50)
        .map(|_| {
            let resolver = Arc::clone(&resolver);
            tokio::spawn(async move { addresses(&resolver, "a.test").await })
        })
        .collect();
    for asked in asking {
        assert_eq!(asked.await.expect("it does not panic"), Ok(vec!["127.0.0.1".to_owned()]));
    }
    assert_eq!(server.asked("a.test").0, 2);
    let without_limit = resolver.resolve("a.test", Duration::ZERO).await;
    assert!(without_limit.is_ok());
}

#[tokio::test]
async fn who_waits_too_long_gives_up_alone() {
    let (server, resolver, lines) = one_server();
    server.says("silent.test", Says::Nothing);
    let short = resolver.resolve("silent.test", Duration::from_millis(50));
    let (short, long) = tokio::join!(short, resolver.resolve("silent.test", Duration::from_millis(150)));
    for end in [short, long] {
        assert_eq!(end.map_err(|error| error.code), Err(Unresolved::TIMED_OUT));
    }
    assert_eq!(server.asked("silent.test").0, 2);
    server.says("odd.test", Says::WrongNumber);
    assert!(resolver.resolve("odd.test", Duration::from_millis(200)).await.is_err());
    let lines = lines.lock();
    assert!(lines.iter().any(|line| line.starts_with("wrong ident ") && line.contains(" for odd.test, ")), "{lines:?}");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_followed_by_the_next() {
    // Nobody listens at the port of tcpmux.
    let gone = SocketAddr::from(([127, 0, 0, 1], 1));
    let server = NameServer::start().expect("a name server");
    let (resolver, lines) = resolver(&[gone, server.address()], None);
    for name in ["a.test", "b.test", "c.test"] {
        server.knows(name, &[[127, 0, 0, 1]]);
        assert_eq!(addresses(&resolver, name).await, Ok(vec!["127.0.0.1".to_owned()]), "{name}");
    }
    let told = format!("(111: Connection refused) while resolving, resolver: {gone}");
    assert!(lines.lock().iter().any(|line| line.ends_with(&told)));
}

#[tokio::test]
async fn many_addresses_come_as_the_name_server_has_them_and_are_turned_round_later() {
    let (server, resolver, _) = one_server();
    server.knows("many.test", &[[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 3]]);
    let asked = addresses(&resolver, "many.test").await.expect("they are there");
    assert_eq!(asked, ["127.0.0.1", "127.0.0.2", "127.0.0.3"]);
    let mut first = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let found = addresses(&resolver, "many.test").await.expect("they are there");
        assert_eq!(found.len(), 3);
        first.insert(found[0].clone());
    }
    assert_eq!(first.len(), 3);
}

#[tokio::test]
async fn services_lead_to_servers_with_ports() {
    let (server, resolver, _) = one_server();
    let service = |priority, port, name: &str| (priority, 5, port, name.to_owned());
    let services = vec![service(2, 82, "b.test"), service(1, 81, "a.test"), service(1, 83, "gone.test")];
    server.says("_http._tcp.site.test", Says::Services(services, 60));
    server.says("_lost._tcp.site.test", Says::Services(vec![service(1, 81, "gone.test")], 60));
    server.knows("a.test", &[[127, 0, 0, 1]]);
    server.knows("b.test", &[[127, 0, 0, 2]]);
    for service in ["http", "_http._tcp"] {
        let found = resolver.resolve_service(service, "site.test", PATIENCE).await.expect("they are there");
        let servers: Vec<(String, u16)> =
            found.servers.iter().map(|server| (server.address.to_string(), server.priority)).collect();
        assert_eq!(servers, [("127.0.0.1:81".to_owned(), 1), ("127.0.0.2:82".to_owned(), 2)]);
        let missing: Vec<String> = found.missing.iter().map(Unresolved::to_string).collect();
        assert_eq!(missing, ["gone.test could not be resolved (3: Host not found)"]);
    }
    let lost = resolver.resolve_service("lost", "site.test", PATIENCE).await;
    assert_eq!(lost.map_err(|error| error.code), Err(Unresolved::NOT_FOUND));
}
