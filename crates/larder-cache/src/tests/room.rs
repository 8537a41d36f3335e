//! What stays, what leaves, and what it counts for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::*;

#[test]
fn the_oldest_of_too_many_variants_leaves() {
    let zone = zone(1 << 22);
    let mut worker = Worker::new(&zone);
    let names: Vec<String> = (0..70).map(|n| n.to_string()).collect();
    for name in &names {
        worker.store_with(KEY, &[("X", name)], "X", name, 0);
    }
    let kept = |name: &String, worker: &mut Worker| {
        matches!(worker.ask_with(KEY, &[("X", name)], &Rules::default(), 1), Verdict::Hit(_))
    };
    let kept: Vec<bool> = names.iter().map(|name| kept(name, &mut worker)).collect();
    assert_eq!(kept.iter().filter(|kept| **kept).count(), 64);
    assert!(kept[6..].iter().all(|kept| *kept));
    assert_eq!(zone.shelf().used(), zone.shelf().weight());
}

#[test]
fn what_nobody_uses_leaves_after_its_time() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    worker.store(b"/a", "one", 0);
    worker.store(b"/b", "one", 0);
    for now in [300, 600] {
        worker.ask(b"/a", &Rules::default(), now);
        zone.memory().sweep(at(now));
        assert_eq!(zone.stats().entries, 2, "{now}");
    }
    zone.memory().sweep(at(700));
    assert_eq!((zone.stats().entries, zone.stats().inactive), (1, 1));
    zone.memory().sweep(at(2000));
    assert_eq!(zone.stats().entries, 0);
    assert!(zone.stats().bytes < 2000, "a worker still knows the names");
    worker.front.tidy();
    assert_eq!(zone.stats().bytes, 0);
    assert_eq!(told(&worker.ask(b"/a", &Rules::default(), 2001)), "miss");
}

#[test]
fn a_page_without_room_is_delivered_and_not_kept() {
    let zone = zone(20_000);
    let mut worker = Worker::new(&zone);
    let mut permit = worker.permit(KEY, &lock(), 0);
    let waiter = waiter_of(worker.ask(KEY, &lock(), 0));
    let (mut writer, body) = zone.body(KEY, None, None);
    permit.begin(page(body, 0));
    let Woken::Filling { reader, .. } = run(waiter.wait()) else {
        panic!("the head is there");
    };
    for _ in 0..30 {
        writer.append(Bytes::from(vec![b'x'; 1000])).expect("it has a reader");
    }
    assert!(!writer.is_stored());
    writer.finish();
    permit.complete();
    assert_eq!(run(read_all(reader)).map(|text| text.len()), Ok(30_000));
    assert_eq!(told(&worker.ask(KEY, &lock(), 0)), "miss");
    assert!(zone.stats().bytes <= 20_000);
    assert_eq!(zone.stats().withdrawn, 1);

    let tiny = Zone::new("tiny", ZoneLimits { bytes_max: 10, inactive: secs(1) });
    assert_eq!(told(&Worker::new(&tiny).ask(KEY, &lock(), 0)), "miss unstored");
}

#[test]
fn a_smaller_zone_keeps_what_fits() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    for n in 0..100 {
        worker.store(format!("/{n}").as_bytes(), &"x".repeat(2000), 0);
    }
    assert_eq!(zone.stats().entries, 100);
    zone.memory().adjust(100_000);
    let stats = zone.stats();
    assert!(stats.bytes <= 100_000 && stats.entries > 10, "{stats:?}");
}

#[test]
fn a_page_on_its_way_to_a_client_counts_until_it_is_there() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let object = worker.store(KEY, &"x".repeat(5000), 0);
    let hit = worker.ask(KEY, &Rules::default(), 1);
    drop(worker);
    zone.purge(&KeyRef::new(KEY), at(0));
    assert!(zone.stats().bytes >= 5000);
    drop(object);
    assert!(zone.stats().bytes >= 5000, "a hit holds it too");
    let Verdict::Hit(hit) = hit else { panic!("it was fresh") };
    assert_eq!(text(&hit).len(), 5000);
    drop(hit);
    assert_eq!(zone.stats().bytes, 0);
}

#[test]
fn many_workers_never_pass_the_limit_and_leave_nothing_behind() {
    const LIMIT: u64 = 300_000;
    let zone = zone(LIMIT);
    let over = Arc::new(AtomicBool::new(false));
    let stop = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (zone, over, stop) = (Arc::clone(&zone), Arc::clone(&over), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                over.fetch_or(zone.shelf().used() > LIMIT, Ordering::Relaxed);
            }
        })
    };
    let threads: Vec<_> = (0..4_u64)
        .map(|number| {
            let zone = Arc::clone(&zone);
            thread::spawn(move || run(hammer(zone, number)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("no worker panics");
    }
    stop.store(true, Ordering::Relaxed);
    watcher.join().expect("the watcher does not panic");
    assert!(!over.load(Ordering::Relaxed));
    let mut reserved = 0;
    zone.shelf().sweep(usize::MAX, |entry| {
        reserved += entry.weight() as u64;
        true
    });
    assert_eq!(zone.shelf().used(), reserved);
    let stats = zone.stats();
    assert!(stats.hits > 0 && stats.evicted > 0 && stats.stored > 0, "{stats:?}");
    zone.memory().adjust(0);
    assert_eq!((zone.stats().entries, zone.stats().bytes), (0, 0));
}

/// A worker that does everything a worker may do, in a random order.
async fn hammer(zone: Arc<Zone>, number: u64) {
    let mut worker = Worker::new(&zone);
    let mut held = Vec::new();
    let mut state = number + 1;
    let mut random = move |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for step in 0..8_000_u64 {
        let page_number = random(60) * random(4);
        let key = format!("/{page_number}");
        let now = step / 100;
        let rules = Rules {
            lock: random(2) == 0,
            lock_timeout: Duration::from_millis(1),
            min_uses: 1 + random(2) as u32,
            ..Rules::default()
        };
        let wanted = format!("page {page_number} ");
        match worker.ask(key.as_bytes(), &rules, now) {
            Verdict::Hit(object) => {
                assert!(text(&object).starts_with(&wanted));
                if random(8) == 0 {
                    held.push(object.to_arc());
                }
            }
            Verdict::Miss(Some(permit)) | Verdict::Stale { permit: Some(permit), .. } => {
                fill(&zone, permit, &wanted, now, random(8), random(3000) as usize).await;
            }
            Verdict::Stale { object, .. } => assert!(text(&object).starts_with(&wanted)),
            Verdict::Wait(waiter) => match waiter.wait().await {
                Woken::Filling { reader, .. } => {
                    if let Ok(text) = read_all(reader).await {
                        assert!(text.starts_with(&wanted));
                    }
                }
                Woken::Ready | Woken::Uncacheable | Woken::GaveUp => {}
            },
            Verdict::Miss(None) | Verdict::Load(_) | Verdict::Scarce => {}
        }
        match random(200) {
            0 => held.clear(),
            1 => drop(zone.purge(&KeyRef::new(key.as_bytes()), at(0))),
            2 => zone.memory().sweep(at(now + random(3) * 400)),
            _ => {}
        }
    }
}

async fn fill(zone: &Arc<Zone>, mut permit: Permit, text: &str, now: u64, fate: u64, len: usize) {
    match fate {
        0 => return permit.failed(),
        1 => return permit.uncacheable(Duration::from_secs(10), at(now)),
        _ => {}
    }
    let (mut writer, body) = zone.body(KEY, (fate == 2).then_some(len as u64), None);
    let object = permit.begin(page(body, now));
    let reader = object.body.reader();
    let _ = writer.append(Bytes::copy_from_slice(text.as_bytes()));
    tokio::task::yield_now().await;
    let _ = writer.append(Bytes::from(vec![b'x'; len]));
    match fate {
        3 => drop(writer),
        4 => {
            drop(permit);
            return writer.finish();
        }
        _ => writer.finish(),
    }
    permit.complete();
    if fate > 4 {
        assert_eq!(read_all(reader).await.map(|all| all.len()), Ok(text.len() + len));
    }
}

#[test]
fn the_weight_of_an_entry_is_what_it_reserved() {
    let zone = zone(1 << 20);
    let mut worker = Worker::new(&zone);
    let object = worker.store(KEY, "12345", 0);
    assert_eq!(object.body.state(), BodyState::Complete { len: 5 });
    let entry = zone.entry(&KeyRef::new(KEY), at(0)).expect("it is there");
    assert_eq!(entry.weight() as u64, zone.stats().bytes);
    assert!(zone.stats().bytes > 5 + KEY.len() as u64);
}

/// Whether a page is in memory.
fn is_there(zone: &Zone, name: &str) -> bool {
    !zone.peek(&KeyRef::new(name.as_bytes()), at(0)).variants.is_empty()
}

#[test]
fn a_page_that_is_fetched_again_because_it_was_evicted_is_counted_while_it_would_be_fresh() {
    let names: Vec<String> = (0..40).map(|number| format!("/{number}")).collect();
    for (what, now, wanted) in [
        ("nothing", 9, 1),
        ("its time", 10, 0),
        ("a purge", 5, 0),
        ("a purge of all", 5, 0),
        ("a soft purge of all", 5, 0),
        ("a purge of another", 5, 1),
    ] {
        let zone = zone(100_000);
        let mut worker = Worker::new(&zone);
        names.iter().for_each(|name| drop(worker.store(name.as_bytes(), &"x".repeat(3000), 0)));
        let gone: Vec<&String> = names.iter().filter(|name| !is_there(&zone, name)).collect();
        assert!(gone.len() > 5 && zone.stats().evicted_wanted == 0, "{gone:?}");
        let last = gone[gone.len() - 1].as_bytes();
        let purge = |selection, how| zone.purge_selected(selection, how, at(1)).expect("it is short");
        match what {
            "a purge" => drop(purge(Selection::Key(last.into()), How::Hard)),
            "a purge of all" => drop(purge(Selection::All, How::Hard)),
            "a soft purge of all" => drop(purge(Selection::All, How::Soft)),
            "a purge of another" => drop(purge(Selection::Key(gone[0].as_bytes().into()), How::Hard)),
            _ => {}
        }
        for _ in 0..2 {
            assert_eq!(told(&worker.ask(last, &Rules::default(), now)), "miss", "{what}");
            assert_eq!(zone.stats().evicted_wanted, wanted, "{what}");
        }
        assert_eq!(told(&worker.ask(b"/new", &Rules::default(), now)), "miss");
        assert_eq!(zone.stats().evicted_wanted, wanted, "{what}: one that was never there");
    }
}

#[test]
fn what_a_disk_has_evicted_too_counts_for_the_disk() {
    let folder = super::disks::folder();
    let disk = super::disks::open(folder.path());
    let limits = larder_store::DiskLimits { bytes_max: Some(1 << 20), free_min: 0, inactive: secs(600) };
    disk.shelf.adjust(limits);
    let member = Member { shelf: disk.shelf.clone(), name: "/0".to_owned(), weight: 1 };
    let memory = Memory::new(200_000);
    let zone = Zone::over("pages", memory, secs(600), Shelves::new(Placing::Hash, vec![member]));
    let mut worker = Worker::new(&zone);
    let names: Vec<String> = (0..60).map(|number| format!("/{number}")).collect();
    for name in &names {
        super::disks::put_under(name.as_bytes(), &mut worker, &[], "", &"x".repeat(20_000), 0);
        assert!(disk.shelf.flush_blocking());
    }
    let is_gone = |name: &&String| !is_there(&zone, name) && !disk.shelf.may_have(name.as_bytes());
    let gone = names.iter().rfind(is_gone).expect("the disk has room for 50");
    let on_disk = names.iter().find(|name| !is_there(&zone, name) && disk.shelf.may_have(name.as_bytes()));
    let wanted = || (zone.stats().evicted_wanted, disk.shelf.stats().evicted_wanted);
    let on_disk = on_disk.expect("memory has room for 10");
    if let Verdict::Load(loading) = worker.ask(on_disk.as_bytes(), &Rules::default(), 5) {
        run(loading.run());
    }
    assert!(told(&worker.ask(on_disk.as_bytes(), &Rules::default(), 5)).starts_with("hit"));
    assert_eq!(wanted(), (0, 0), "it was only read again");
    for _ in 0..2 {
        assert_eq!(told(&worker.ask(gone.as_bytes(), &Rules::default(), 5)), "miss");
        assert_eq!(wanted(), (0, 1));
    }
}
