//! What is chosen, under a clock that the test moves.

use std::{collections::BTreeMap, net::SocketAddr};

use super::*;

fn server(port: u16) -> Server {
    Server::new(Address::Tcp(SocketAddr::from(([127, 0, 0, 1], port))))
}

fn group(servers: Vec<Server>, balance: Balance) -> Arc<Group> {
    Group::new("site", servers, balance, Keepalive::NONE)
}

/// Who is asked by a fetch that succeeds at once, by place in the group.
fn ask(group: &Arc<Group>, key: &str, now: Instant) -> Option<usize> {
    let pick = Turn::new(group.clone(), key.into(), 0).next(now)?;
    pick.answered(now);
    Some(pick.server())
}

/// Who is asked by so many fetches.
fn asked(group: &Arc<Group>, count: usize, now: Instant) -> Vec<usize> {
    (0..count).filter_map(|_| ask(group, "", now)).collect()
}

/// All that one fetch would ask, each failing if `fails`.
fn ask_all(group: &Arc<Group>, key: &str, now: Instant) -> Vec<usize> {
    let mut turn = Turn::new(group.clone(), key.into(), 0);
    std::iter::from_fn(|| turn.next(now)).map(|pick| pick.server()).collect()
}

fn fail(group: &Arc<Group>, server: usize, now: Instant) {
    let pick = Pick::of(group, server);
    pick.failed(now);
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn turns_are_smooth_by_weight() {
    let weighted = |weights: &[u32]| {
        let servers = weights.iter().map(|&weight| Server { weight, ..server(1) });
        group(servers.collect(), Balance::RoundRobin)
    };
    let now = Instant::now();
    for (weights, order) in [
        (&[5, 1, 1][..], &[0, 0, 1, 0, 2, 0, 0][..]),
        (&[1, 1, 1], &[0, 1, 2, 0, 1, 2]),
        (&[2, 1], &[0, 1, 0, 0, 1, 0]),
        (&[0, 1], &[1, 1, 1]),
    ] {
        assert_eq!(asked(&weighted(weights), order.len(), now), order, "{weights:?}");
    }
}

#[test]
fn an_origin_rests_after_its_failures_and_is_tried_by_one() {
    let servers = vec![Server { max_fails: 2, ..server(1) }, server(2)];
    let group = group(servers, Balance::RoundRobin);
    let start = Instant::now();
    fail(&group, 0, start);
    assert!(asked(&group, 6, start).contains(&0), "one failure of two");
    fail(&group, 0, start);
    assert_eq!(asked(&group, 4, start + 10 * SECOND), [1; 4], "it rests all of fail_timeout");
    let later = start + 11 * SECOND;
    let trial = std::iter::from_fn(|| Turn::new(group.clone(), Vec::new(), 0).next(later)).take(4);
    let trial: Vec<Pick> = trial.collect();
    let tried: Vec<usize> = trial.iter().map(Pick::server).collect();
    assert_eq!(tried.iter().filter(|at| **at == 0).count(), 1, "one trial: {tried:?}");
    for pick in &trial {
        pick.answered(later);
    }
    drop(trial);
    assert!(asked(&group, 4, later).iter().filter(|at| **at == 0).count() >= 2, "its success makes it whole");
}

#[test]
fn a_trial_that_fails_makes_the_origin_rest_again() {
    let group = group(vec![server(1), server(2)], Balance::RoundRobin);
    let start = Instant::now();
    fail(&group, 0, start);
    let later = start + 11 * SECOND;
    let mut turn = Turn::new(group.clone(), Vec::new(), 0);
    let picks: Vec<Pick> = std::iter::from_fn(|| turn.next(later)).collect();
    picks.iter().find(|pick| pick.server() == 0).expect("both are asked").failed(later);
    assert_eq!(asked(&group, 3, later + 10 * SECOND), [1; 3]);
}

#[test]
fn an_origin_that_failed_is_asked_less_until_it_has_proved_itself() {
    let servers = vec![Server { weight: 40, max_fails: 2, ..server(1) }, Server { weight: 40, ..server(2) }];
    let group = group(servers, Balance::RoundRobin);
    let now = Instant::now();
    fail(&group, 0, now);
    let count = |asked: Vec<usize>| asked.iter().filter(|at| **at == 0).count();
    assert!(count(asked(&group, 20, now)) < 10);
    assert_eq!(count(asked(&group, 20, now)), 10);
}

#[test]
fn max_fails_0_counts_nothing() {
    let servers = vec![Server { max_fails: 0, ..server(1) }, Server { max_fails: 0, ..server(2) }];
    let group = group(servers, Balance::RoundRobin);
    let now = Instant::now();
    for _ in 0..9 {
        fail(&group, 0, now);
    }
    assert_eq!(asked(&group, 4, now), [0, 1, 0, 1]);
}

#[test]
fn no_origin_is_asked_twice_and_backups_come_last() {
    let backup = || Server { backup: true, ..server(9) };
    let down = || Server { down: true, ..server(9) };
    let now = Instant::now();
    for (servers, order) in [
        (vec![], vec![]),
        (vec![server(1)], vec![0, 0]),
        (vec![down()], vec![]),
        (vec![server(1), server(2)], vec![0, 1]),
        (vec![down(), server(1), server(2)], vec![1, 2]),
        (vec![backup(), server(1), server(2)], vec![1, 2, 0]),
        (vec![backup(), backup(), down()], vec![0, 1]),
    ] {
        let group = group(servers.clone(), Balance::RoundRobin);
        let mut turn = Turn::new(group, Vec::new(), 0);
        let asked: Vec<usize> = (0..order.len() + usize::from(servers.len() != 1))
            .filter_map(|_| turn.next(now))
            .map(|p| p.server())
            .collect();
        assert_eq!(asked, order, "{servers:?}");
        assert_eq!(turn.tries_left(), 0);
    }
}

#[test]
fn backups_are_asked_while_the_others_rest() {
    let servers = vec![server(1), Server { backup: true, ..server(2) }];
    let group = group(servers, Balance::RoundRobin);
    let now = Instant::now();
    assert_eq!(asked(&group, 2, now), [0, 0]);
    fail(&group, 0, now);
    assert_eq!(asked(&group, 2, now), [1, 1]);
    fail(&group, 1, now);
    assert_eq!(ask(&group, "", now), None);
    assert_eq!(ask(&group, "", now + 11 * SECOND), Some(0));
}

#[test]
fn an_origin_that_runs_max_conns_is_left_out() {
    let now = Instant::now();
    let soonest = Balance::LeastTime(LeastTime { until: Until::Header, inflight: true });
    for balance in [Balance::RoundRobin, Balance::LeastConn, soonest, Balance::IpHash, Balance::Random { two: true }] {
        let servers = vec![Server { max_conns: 2, ..server(1) }, Server { max_conns: 1, ..server(2) }];
        let group = group(servers, balance);
        let next = || Turn::new(group.clone(), vec![1, 2, 3, 4], 0).next(now);
        let mut picks: Vec<Pick> = (0..4).filter_map(|_| next()).collect();
        assert_eq!(group.running(), [2, 1], "{balance:?}");
        assert_eq!(picks.len(), 3);
        picks.retain(|pick| pick.server() == 0);
        assert_eq!(next().map(|pick| pick.server()), Some(1), "{balance:?}");
    }
    let only = group(vec![Server { max_conns: 1, ..server(1) }], Balance::RoundRobin);
    let pick = Turn::new(only.clone(), Vec::new(), 0).next(now);
    assert_eq!((pick.is_some(), ask(&only, "", now)), (true, None));
}

#[test]
fn the_fewest_running_for_its_weight_is_asked() {
    let servers = vec![server(1), Server { weight: 3, ..server(2) }, server(3)];
    let group = group(servers, Balance::LeastConn);
    let now = Instant::now();
    let held: Vec<Pick> = (0..10).filter_map(|_| Turn::new(group.clone(), Vec::new(), 0).next(now)).collect();
    assert_eq!(group.running(), [2, 6, 2]);
    drop(held);
    assert_eq!(group.running(), [0, 0, 0]);
    let even = asked(&group, 5, now);
    assert_eq!(even.iter().filter(|at| **at == 1).count(), 3, "even ones take turns by weight");
}

#[test]
fn the_origin_that_is_soonest_done_is_asked() {
    let now = Instant::now();
    for inflight in [false, true] {
        let by = LeastTime { until: Until::Header, inflight };
        let group = group(vec![server(1), server(2), server(3)], Balance::LeastTime(by));
        for (at, millis) in [(0, 500), (1, 40), (2, 41)] {
            let pick = Turn::new(group.clone(), Vec::new(), 0).next(now).expect("one of three");
            assert_eq!(pick.server(), at, "none is known to be slow yet");
            pick.answers(now + Duration::from_millis(millis));
        }
        let asked = asked(&group, 10, now);
        assert!(!asked.contains(&0), "{asked:?}");
        assert!(asked.contains(&1) && asked.contains(&2), "close ones take turns: {asked:?}");
        // Each that is at it makes the next wait as long again.
        let held: Vec<Pick> = (0..6).filter_map(|_| Turn::new(group.clone(), Vec::new(), 0).next(now)).collect();
        assert_eq!(group.running(), [0, 3, 3], "{inflight}");
        drop(held);
    }
}

#[test]
fn what_is_known_of_an_origin_stays_when_others_come_and_go() {
    let group = group(vec![server(1), server(2)], Balance::RoundRobin);
    let now = Instant::now();
    fail(&group, 0, now);
    let pick = Pick::of(&group, 1);
    group.replace(vec![server(2), server(1), server(3)]);
    assert_eq!(group.running(), [1, 0, 0]);
    drop(pick);
    assert_eq!(group.running(), [0, 0, 0], "one that began before counts until its end");
    assert!(!asked(&group, 6, now).contains(&1), "it failed, and rests");
    group.replace(vec![Server { weight: 2, ..server(1) }]);
    assert_eq!(ask(&group, "", now), Some(0), "with another weight it is another one");
    group.replace(Vec::new());
    assert_eq!(ask(&group, "", now), None);
}

#[test]
fn a_key_stays_with_its_origin_while_that_lives() {
    let now = Instant::now();
    for balance in [Balance::Hash { consistent: false }, Balance::Hash { consistent: true }, Balance::IpHash] {
        let group = group((1..=4).map(server).collect(), balance);
        let mut counts = BTreeMap::new();
        for number in 0..=255u8 {
            let key = String::from_utf8(vec![number % 100, number / 4, number % 60 + 1]).unwrap();
            let first = ask(&group, &key, now).unwrap();
            assert_eq!(ask(&group, &key, now), Some(first), "{balance:?}");
            *counts.entry(first).or_insert(0) += 1;
            let all = ask_all(&group, &key, now);
            assert_eq!(all[0], first);
            assert_eq!(all.len(), 4, "then the others, each once");
        }
        assert_eq!(counts.len(), 4, "{balance:?} {counts:?}");
    }
}

/// Asked of nginx 1.22.1 with four servers on these ports, the second of weight 2; `down` has 0 and 2 down.
#[test]
fn a_key_goes_where_nginx_sends_it() {
    let servers = |down: bool| {
        let server = |at: u16| {
            let down = down && at.is_multiple_of(2);
            Server { weight: 1 + u32::from(at == 1), down, ..server(18101 + at) }
        };
        (0..4).map(server).collect::<Vec<Server>>()
    };
    let pages = || (0..40).map(|n| format!("/page/{n}").into_bytes()).collect::<Vec<Vec<u8>>>();
    let v4 = (0..30u32).map(|n| vec![10, (n * 7) as u8, (n * 13) as u8, 7]);
    let v6 = (0..10u128).map(|n| ((0x2001_0db8 << 96) | n).to_be_bytes().to_vec());
    let now = Instant::now();
    for (balance, down, keys, expected) in [
        (Balance::Hash { consistent: false }, false, pages(), "0032103200233111101121223302031131121212"),
        (Balance::Hash { consistent: false }, true, pages(), "3131113331333111131111113331131131111313"),
        (Balance::Hash { consistent: true }, false, pages(), "0123123200111311111312201313120332113133"),
        (Balance::Hash { consistent: true }, true, pages(), "1113113111111311111311131313111331113133"),
        (Balance::IpHash, false, v4.chain(v6).collect(), "0321132110321032110310321103213011230112"),
    ] {
        let group = group(servers(down), balance);
        let asked =
            keys.iter().map(|key| Turn::new(group.clone(), key.clone(), 0).next(now).unwrap().server().to_string());
        assert_eq!(asked.collect::<String>(), expected, "{balance:?} {down}");
    }
}

#[test]
fn the_keys_of_a_resting_origin_move_and_come_back() {
    let now = Instant::now();
    for balance in [Balance::Hash { consistent: false }, Balance::Hash { consistent: true }] {
        let group = group((1..=3).map(server).collect(), balance);
        let keys: Vec<String> = (0..60).map(|n| format!("/page/{n}")).collect();
        let before: Vec<usize> = keys.iter().map(|key| ask(&group, key, now).unwrap()).collect();
        fail(&group, 0, now);
        for (key, before) in keys.iter().zip(&before) {
            let then = ask(&group, key, now).unwrap();
            assert!(if *before == 0 { then != 0 } else { then == *before }, "{balance:?} {key}");
        }
        let later = now + 11 * SECOND;
        let after: Vec<usize> = keys.iter().map(|key| ask(&group, key, later).unwrap()).collect();
        assert_eq!(after, before, "{balance:?}");
    }
}

#[test]
fn chance_follows_weight() {
    let servers = vec![Server { weight: 3, ..server(1) }, server(2)];
    let group = group(servers, Balance::Random { two: false });
    let first = asked(&group, 4000, Instant::now()).iter().filter(|at| **at == 0).count();
    assert!((2800..3200).contains(&first), "{first}");
}

#[test]
fn of_two_by_chance_the_idler_is_asked() {
    let group = group((1..=2).map(server).collect(), Balance::Random { two: true });
    let _busy = [Pick::of(&group, 0), Pick::of(&group, 0)];
    assert_eq!(asked(&group, 20, Instant::now()), [1; 20]);
}

impl Pick {
    /// As if it had been chosen.
    fn of(group: &Arc<Group>, server: usize) -> Pick {
        let members = group.members();
        members.state.lock().peers[server].running.one_more();
        Pick::new(group.clone(), members, server, Instant::now())
    }
}

#[test]
fn a_server_tells_how_it_does() {
    let servers = vec![server(1), Server { max_fails: 2, ..server(2) }, Server { down: true, ..server(3) }];
    let group = group(servers, Balance::RoundRobin);
    let start = Instant::now();
    let states = |now| group.servers(now).iter().map(|server| server.state).collect::<Vec<_>>();
    fail(&group, 1, start);
    assert_eq!(states(start), [ServerState::Up, ServerState::Up, ServerState::Down]);
    fail(&group, 1, start);
    fail(&group, 1, start);
    assert_eq!(states(start), [ServerState::Up, ServerState::Unavailable, ServerState::Down]);
    let failed = &group.servers(start + SECOND)[1].counts;
    assert_eq!((failed.requests, failed.fails, failed.unavailable), (3, 3, 1), "once, not once a failure");
    let later = start + 11 * SECOND;
    while ask(&group, "", later) != Some(1) {}
    let whole = &group.servers(later)[1];
    assert_eq!((whole.state, whole.counts.down_for), (ServerState::Up, None));
    assert!(whole.counts.downtime >= 10 * SECOND, "{:?}", whole.counts.downtime);
}

#[test]
fn the_next_group_counts_on_where_the_servers_are_the_same() {
    let now = Instant::now();
    let before = group(vec![server(1), server(2)], Balance::RoundRobin);
    assert_eq!(asked(&before, 4, now).len(), 4);
    let after = group(vec![server(3), Server { weight: 5, ..server(2) }], Balance::LeastConn);
    after.count_on(&before);
    let requests = || after.servers(now).iter().map(|server| server.counts.requests).collect::<Vec<_>>();
    assert_eq!(requests(), [0, 2]);
    // Both count together while requests of before still run.
    assert_eq!(asked(&before, 2, now).len(), 2);
    assert_eq!(ask(&after, "", now), Some(1));
    assert_eq!(requests(), [0, 4]);
}
