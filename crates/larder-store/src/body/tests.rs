//! What a body promises.

use std::future::Future;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::*;
use crate::budget::{BUFFER_BYTES, Budget};

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime can be made").block_on(future)
}

/// Whether `future` would wait.
fn waits(future: impl Future<Output = ()>) -> bool {
    let mut cx = Context::from_waker(Waker::noop());
    std::pin::pin!(future).poll(&mut cx) == Poll::Pending
}

/// A folder that is not there.
const NOWHERE: &str = "/nowhere/at/all";

/// Bytes that tell where they are.
fn pattern(from: u64, len: usize) -> Bytes {
    (from..).take(len).map(|at| (at % 251) as u8).collect()
}

fn reserved(budget: &Arc<Budget>) -> Option<Reservation> {
    budget.reserve(0)
}

/// Bytes of a piece; `None` for one that has none.
fn bytes_of(piece: &Piece) -> Option<Bytes> {
    match piece {
        Piece::Data(data) => Some(data.clone()),
        Piece::File { file, offset, len } => {
            let mut data = vec![0; *len];
            file.read_exact_at(&mut data, *offset).expect("the file holds it");
            Some(Bytes::from(data))
        }
        Piece::Pending | Piece::End | Piece::Failed(_) => None,
    }
}

/// Everything that is there now, and the piece that ended it.
fn drain(reader: &mut BodyReader, max: usize) -> (Vec<u8>, Piece) {
    let mut all = Vec::new();
    loop {
        let piece = reader.try_next(max);
        match bytes_of(&piece) {
            Some(data) => all.extend_from_slice(&data),
            None => return (all, piece),
        }
    }
}

fn spill(memory_bytes_max: usize, file_bytes_max: u64) -> Option<Spill> {
    Some(Spill { dir: std::env::temp_dir(), system_dir: Path::new(NOWHERE), memory_bytes_max, file_bytes_max })
}

#[test]
fn a_stored_body_on_the_heap_is_exact_when_it_is_complete() {
    for (appends, pieces) in [
        (vec![], vec![]),
        (vec![10], vec![10]),
        (vec![0, 10, 0], vec![10]),
        (vec![30_000, 35_536], vec![65_536]),
        (vec![30_000, 35_537], vec![65_537]),
        (vec![100_000; 6], vec![262_144, 37_856, 262_144, 37_856]),
        (vec![600_000], vec![262_144, 262_144, 75_712]),
    ] {
        let budget = Budget::new(1 << 20);
        let (mut writer, body) = body_in(None, reserved(&budget), None);
        let mut at = 0;
        for &len in &appends {
            writer.append(pattern(at, len)).expect("it is stored");
            at += len as u64;
            assert_eq!(budget.used(), at, "{appends:?}");
        }
        writer.finish();
        let whole = body.whole().expect("it is complete and in memory");
        let Place::Pieces(kept) = whole.place() else { panic!("{:?}", whole.place()) };
        assert_eq!(kept.iter().map(Bytes::len).collect::<Vec<_>>(), pieces, "{appends:?}");
        assert_eq!(kept.concat(), pattern(0, at as usize));
        assert_eq!((whole.len(), budget.used(), body.reserved() as u64), (at, at, at));
        assert_eq!(body.state(), BodyState::Complete { len: at });
        assert!(body.is_stored());
        drop(body);
        assert_eq!(budget.used(), 0);
    }
}

/// An arena of its own for a test, which looks at the memory that it takes.
fn arena(file_bytes_max: u64) -> &'static Arena {
    Box::leak(Box::new(Arena::new(file_bytes_max).expect("this system has memory files")))
}

#[test]
fn a_big_stored_body_is_in_the_arena_when_it_is_complete() {
    for (appends, reading) in [
        (vec![49_151], 4096),
        (vec![49_152], 4096),
        (vec![40_000, 60_000], 10_000),
        (vec![262_144], 1000),
        (vec![262_144, 1], 262_144),
        (vec![100_000; 6], 70_000),
        (vec![600_000], 600_000),
        (vec![1, 524_288, 300_000], 65_536),
    ] {
        let arena = arena(1 << 40);
        let budget = Budget::new(1 << 20);
        let (mut writer, body) = body_in(Some(arena), reserved(&budget), None);
        let (mut along, mut after, mut idle) = (body.reader(), body.reader(), body.reader());
        let (mut at, mut read) = (0, Vec::new());
        for &len in &appends {
            writer.append(pattern(at, len)).expect("it is stored");
            at += len as u64;
            read.extend(bytes_of(&along.try_next(reading)).expect("there is more than it has read"));
        }
        writer.finish();
        let whole = body.whole().expect("it is complete and in memory");
        let is_big = at >= ARENA_BYTES_MIN;
        assert_eq!(matches!(whole.place(), Place::File { .. }), is_big, "{appends:?}");
        assert_eq!(whole.to_vec().expect("it is in memory"), pattern(0, at as usize));
        let footprint = if is_big { arena.footprint(at) } else { at };
        assert_eq!((whole.len(), budget.used(), body.reserved() as u64), (at, footprint, footprint), "{appends:?}");
        assert_eq!(arena.memory_bytes(), if is_big { footprint } else { 0 });

        read.extend(drain(&mut along, reading).0);
        assert!(read == pattern(0, at as usize), "{appends:?}: a reader in the middle goes on");
        assert!(drain(&mut after, reading).0 == pattern(0, at as usize), "{appends:?}");
        for skipped in [1, at / 2, at - 1] {
            after.skip_to(skipped);
            assert!(drain(&mut after, reading).0 == pattern(skipped, (at - skipped) as usize));
        }

        let piece = idle.try_next(5000);
        drop((body, along, after, idle));
        assert_eq!(budget.used(), 0);
        let len = 5000.min(at as usize);
        assert_eq!(bytes_of(&piece), Some(pattern(0, len)), "what a reader was given stays while it is held");
        drop(piece);
        assert_eq!(arena.memory_bytes(), 0);
    }
}

#[test]
fn a_body_of_known_length_fills_buffers_and_moves_to_the_arena_when_it_is_hit() {
    for (appends, reading) in [
        (vec![49_152], 4096),
        (vec![65_536], 65_536),
        (vec![40_000, 60_000], 10_000),
        (vec![1, 262_144, 1], 262_144),
        (vec![100_000; 6], 70_000),
        (vec![9_000; 117], 524_288),
    ] {
        let len: usize = appends.iter().sum();
        let arena = arena(1 << 40);
        let budget = Budget::new(4 << 20);
        for round in ["with new buffers", "with those of the first"] {
            let pooled = budget.used();
            let (room, buffers) = budget.reserve_with_buffers(len).expect("there is room");
            assert_eq!(budget.used(), len as u64, "{round}: {pooled} were there");
            let (mut writer, body) = body_in(Some(arena), Some(room), None);
            writer.keep_in(buffers);
            let (mut along, mut after) = (body.reader(), body.reader());
            let (mut at, mut read) = (0, Vec::new());
            for &len in &appends {
                writer.append(pattern(at, len)).expect("it is stored");
                at += len as u64;
                let piece = along.try_next(reading);
                assert!(matches!(piece, Piece::Data(_)), "what is copied leaves its memory free");
                read.extend(bytes_of(&piece).expect("there is more than it has read"));
            }
            writer.finish();
            let whole = body.whole().expect("it is complete and in memory");
            let Place::Buffers(pieces) = whole.place() else { panic!("nobody has hit it") };
            assert_eq!((budget.used(), body.reserved(), arena.memory_bytes()), (at, len, 0), "{round}");
            assert_eq!(whole.to_vec().expect("it is in memory"), pattern(0, len));
            let first = after.try_next(3);

            let footprint = arena.footprint(at);
            for _ in 0..2 {
                assert!(matches!(whole.place_to_send(), Place::File { .. }), "{round}");
            }
            assert_eq!((budget.used(), arena.memory_bytes()), (at + footprint, footprint), "both are held");
            assert!(pieces.concat() == pattern(0, len));
            drop(pieces);
            assert_eq!(body.reserved(), footprint as usize + len % BUFFER_BYTES);
            assert_eq!(whole.to_vec().expect("it is in memory"), pattern(0, len));
            read.extend(drain(&mut along, reading).0);
            assert!(read == pattern(0, len), "a reader in the middle goes on");
            assert!(drain(&mut after, reading).0 == pattern(3, len - 3));
            assert_eq!(bytes_of(&first), Some(pattern(0, 3)), "what a reader was given stays while it is held");
            drop((body, along, after, first));
            // More than 1 MB is given back by a thread.
            while arena.memory_bytes() > 0 || budget.used() > ((len / BUFFER_BYTES).min(4) * BUFFER_BYTES) as u64 {
                thread::yield_now();
            }
            let buffers = (len / BUFFER_BYTES).min(4) * BUFFER_BYTES;
            assert_eq!(budget.used(), buffers as u64, "buffers that wait for the next body count");
        }
        for _ in 0..2 {
            budget.free_idle();
        }
        assert_eq!(budget.used(), 0);
    }
}

#[test]
fn what_is_read_into_the_buffers_of_a_body_is_kept_where_it_is() {
    // How long reads are; whether what came before them is copied; and whether the parts of a buffer are too many.
    for (reads, first, is_copied) in
        [(BUFFER_BYTES, 0, false), (BUFFER_BYTES, 16_000, false), (20_000, 1, false), (4000, 0, true)]
    {
        let (len, arena, budget) = (3 * BUFFER_BYTES + 1000, arena(1 << 40), Budget::new(64 << 20));
        for round in ["new buffers", "used ones"] {
            let (room, buffers) = budget.reserve_with_buffers(len).expect("there is room");
            let (mut writer, body) = body_in(Some(arena), Some(room), None);
            writer.keep_in(buffers);
            let (mut along, mut after) = (body.reader(), body.reader());
            let mut read = Vec::new();
            let mut lasting = 0;
            let mut follow = |upto: usize| {
                while read.len() < upto {
                    let piece = along.try_next(usize::MAX);
                    read.extend(bytes_of(&piece).expect("it was appended"));
                }
            };
            writer.append(pattern(0, first)).expect("it is stored");
            let (mut at, mut addresses) = (first, Vec::new());
            while let Some(mut buffer) = writer.buffer() {
                assert_eq!(buffer.capacity(), BUFFER_BYTES - at % BUFFER_BYTES, "{reads}, {round}");
                while buffer.capacity() > 0 {
                    let count = reads.min(buffer.capacity());
                    buffer.extend_from_slice(&pattern(at as u64, count));
                    addresses.push(buffer.as_ptr());
                    writer.append(buffer.split().freeze()).expect("it is stored");
                    at += count;
                    follow(at);
                }
                lasting += 1;
            }
            assert_eq!((at, lasting), (3 * BUFFER_BYTES, 3), "the rest fills none");
            writer.append(pattern(at as u64, len - at)).expect("it is stored");
            writer.finish();
            let whole = body.whole().expect("it is complete and in memory");
            let Place::Buffers(pieces) = whole.place() else { panic!("nobody has hit it") };
            let is_kept = addresses.iter().all(|&address| pieces.iter().any(|piece| piece.as_ptr() == address));
            assert_eq!(!is_kept, is_copied, "{reads}, {round}");
            assert!(pieces.concat() == pattern(0, len) && drain(&mut after, 70_000).0 == pattern(0, len));
            follow(len);
            assert!(read == pattern(0, len));
            assert_eq!((budget.used(), body.reserved()), (len as u64, len), "{reads}, {round}");
            // One part that is still read keeps the room of its buffer.
            let held = pieces[0].clone();
            drop((pieces, body, along, after));
            assert_eq!(budget.used(), 3 * BUFFER_BYTES as u64);
            drop(held);
            assert_eq!(budget.used(), 3 * BUFFER_BYTES as u64, "they wait for the next body");
        }
    }
}

#[test]
fn a_buffer_that_is_not_filled_in_order_is_copied() {
    let len = 2 * BUFFER_BYTES;
    let budget = Budget::new(64 << 20);
    let (room, buffers) = budget.reserve_with_buffers(len).expect("there is room");
    let (mut writer, body) = body_in(Some(arena(1 << 40)), Some(room), None);
    writer.keep_in(buffers);
    let mut left = writer.buffer().expect("it is stored");
    left.extend_from_slice(&pattern(0, 1000));
    writer.append(left.split().freeze()).expect("it is stored");
    writer.append(pattern(1000, len - 1000)).expect("it is stored");
    assert!(writer.buffer().is_none(), "all of it has come");
    writer.finish();
    let whole = body.whole().expect("it is complete and in memory");
    assert!(whole.to_vec().expect("it is in memory") == pattern(0, len));
    assert_eq!((budget.used(), body.reserved()), (len as u64, len));
    drop((left, body));
    (0..2).for_each(|_| budget.free_idle());
    assert_eq!(budget.used(), 0);
}

#[test]
fn who_stores_nothing_has_no_buffer() {
    let (mut writer, _body) = body_in(Some(arena(1 << 40)), None, None);
    assert!(writer.buffer().is_none());
    let budget = Budget::new(1 << 20);
    let (room, buffers) = budget.reserve_with_buffers(200_000).expect("there is room");
    let (mut writer, _body) = body_in(Some(arena(1 << 40)), Some(room), None);
    writer.keep_in(buffers);
    writer.unstore();
    assert!(writer.buffer().is_none());
}

#[test]
fn a_body_in_buffers_whose_shelf_is_full_stays_there() {
    let arena = arena(1 << 40);
    let budget = Budget::new(300_000);
    let (room, buffers) = budget.reserve_with_buffers(200_000).expect("there is room");
    let (mut writer, body) = body_in(Some(arena), Some(room), None);
    writer.keep_in(buffers);
    writer.append(pattern(0, 200_000)).expect("it is stored");
    writer.finish();
    let whole = body.whole().expect("it is complete and in memory");
    assert!(matches!(whole.place_to_send(), Place::Buffers(_)), "two of them do not fit");
    budget.set_max(1 << 20);
    assert!(matches!(whole.place_to_send(), Place::File { .. }));
}

#[test]
fn a_body_in_buffers_that_is_no_longer_stored_passes_from_them() {
    let budget = Budget::new(1 << 20);
    let (room, buffers) = budget.reserve_with_buffers(400_000).expect("there is room");
    let (mut writer, body) = body_in(Some(arena(1 << 40)), Some(room), None);
    writer.keep_in(buffers);
    let mut reader = body.reader();
    writer.append(pattern(0, 200_000)).expect("it is stored");
    let held = reader.try_next(1000);
    writer.unstore();
    writer.append(pattern(200_000, 200_000)).expect("it has a reader");
    let (read, end) = drain(&mut reader, 50_000);
    assert!(read == pattern(1000, 399_000) && matches!(end, Piece::Pending));
    assert!(!waits(writer.wait_for_room()));
    writer.finish();
    assert!(matches!(drain(&mut reader, 1), (read, Piece::End) if read.is_empty()));
    assert_eq!(bytes_of(&held), Some(pattern(0, 1000)));
    drop((held, reader, body));
    (0..2).for_each(|_| budget.free_idle());
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_body_that_the_arena_does_not_take_stays_on_the_heap() {
    // No file is as long as the shelf; and a shelf that grew while the body did.
    for (file_bytes_max, shelf, grown) in [(100_000, 1 << 20, 1 << 20), (1 << 40, 300_000, 1 << 20)] {
        let arena = arena(file_bytes_max);
        let budget = Budget::new(shelf);
        let (mut writer, body) = body_in(Some(arena), reserved(&budget), None);
        let mut reader = body.reader();
        writer.append(pattern(0, 290_000)).expect("it is stored");
        budget.set_max(grown);
        for at in [290_000, 590_000] {
            writer.append(pattern(at, 300_000)).expect("it is stored");
        }
        writer.finish();
        assert!(body.is_stored());
        let whole = body.whole().expect("it is complete and in memory");
        assert!(matches!(whole.place(), Place::Pieces(_)));
        assert!(whole.to_vec().expect("it is in memory") == pattern(0, 890_000));
        assert!(drain(&mut reader, 100_000).0 == pattern(0, 890_000));
        assert_eq!((budget.used(), arena.memory_bytes()), (890_000, 0));
    }
}

#[test]
fn a_body_that_is_no_longer_stored_passes_from_the_arena() {
    for (spill, finished) in [(None, false), (spill(1000, 1 << 20), false), (spill(1000, 1 << 20), true), (None, true)]
    {
        let arena = arena(1 << 40);
        let budget = Budget::new(400_000);
        let (mut writer, body) = body_in(Some(arena), reserved(&budget), spill.clone());
        let mut reader = body.reader();
        writer.append(pattern(0, 300_000)).expect("it is stored");
        assert_eq!(arena.memory_bytes(), 299_008);
        writer.append(pattern(300_000, 200_000)).expect("it has a reader");
        assert!(!body.is_stored());
        let held = reader.try_next(1000);
        if spill.is_some() {
            run(writer.wait_for_room());
            assert!(writer.take_trouble().is_none());
            assert_eq!(arena.memory_bytes(), 262_144, "a chunk of it is held");
        }
        let (mut rest, ended) = if finished {
            writer.finish();
            (None, Piece::End)
        } else {
            (Some(writer), Piece::Pending)
        };
        let (read, end) = drain(&mut reader, 50_000);
        assert!(read == pattern(1000, 499_000));
        assert_eq!(std::mem::discriminant(&end), std::mem::discriminant(&ended));
        if let Some(writer) = &mut rest {
            run(writer.wait_for_room());
        }
        assert_eq!(bytes_of(&held), Some(pattern(0, 1000)));
        drop((held, end, rest, reader, body));
        assert_eq!((budget.used(), arena.memory_bytes()), (0, 0));
    }
}

#[test]
fn room_taken_beforehand_is_used_and_the_rest_given_back() {
    let budget = Budget::new(100);
    let (mut writer, body) = body(budget.reserve(100), None);
    writer.append(pattern(0, 60)).expect("it is stored");
    assert!(body.is_stored());
    writer.finish();
    assert_eq!(budget.used(), 60);
}

#[test]
fn readers_get_the_bytes_from_where_they_are() {
    for stored in [true, false] {
        let budget = Budget::new(1 << 20);
        let (mut writer, body) = body(stored.then(|| reserved(&budget)).flatten(), None);
        let mut reader = body.reader();
        let mut later = body.reader();
        assert!(matches!(reader.try_next(10), Piece::Pending));
        for at in [0, 7, 14] {
            writer.append(pattern(at, 7)).expect("it has readers");
        }
        assert_eq!(bytes_of(&reader.try_next(5)), Some(pattern(0, 5)));
        assert_eq!(bytes_of(&reader.try_next(5)), Some(pattern(5, 2)));
        assert_eq!(reader.at(), 7);
        later.skip_to(12);
        writer.finish();
        assert_eq!(later.at(), 12);
        let (rest, end) = drain(&mut later, 100);
        assert_eq!(rest, pattern(12, 9));
        assert!(matches!(end, Piece::End));
        let (rest, end) = drain(&mut reader, 4);
        assert_eq!(rest, pattern(7, 14));
        assert!(matches!(end, Piece::End));
        later.skip_to(1000);
        assert!(matches!(later.try_next(1), Piece::End));
        assert_eq!(body.is_stored(), stored);
    }
}

#[test]
fn a_body_that_fails_gives_what_it_has_and_then_why() {
    let budget = Budget::new(1000);
    for dropped in [false, true] {
        let (mut writer, body) = body(reserved(&budget), None);
        let mut reader = body.reader();
        writer.append(pattern(0, 5)).expect("it is stored");
        let reason = match dropped {
            true => {
                drop(writer);
                "the writer of the body went away"
            }
            false => {
                writer.fail("cut short".to_owned());
                "cut short"
            }
        };
        assert_eq!(body.state(), BodyState::Failed(Arc::from(reason)));
        let (data, end) = drain(&mut reader, 100);
        assert_eq!(data, pattern(0, 5));
        assert!(matches!(end, Piece::Failed(why) if &*why == reason));
        assert!(body.whole().is_none());
    }
    assert_eq!(budget.used(), 0);
}

#[test]
fn where_the_shelf_is_full_the_body_goes_on_unstored() {
    let budget = Budget::new(100);
    let (mut writer, body) = body(reserved(&budget), spill(40, 1000));
    let mut reader = body.reader();
    run(async {
        for at in (0..300).step_by(30) {
            writer.append(pattern(at, 30)).expect("it has a reader");
            assert_eq!(writer.is_stored(), at < 90, "{at}");
            writer.wait_for_room().await;
        }
    });
    assert!(!body.is_stored());
    assert!(budget.used() <= 40, "what went to the file gave its bytes back");
    writer.finish();
    assert_eq!(body.state(), BodyState::Complete { len: 300 });
    let (data, end) = drain(&mut reader, 7);
    assert_eq!(data, pattern(0, 300));
    assert!(matches!(end, Piece::End));
}

#[test]
fn a_passing_body_uses_memory_then_a_file_then_makes_the_writer_wait() {
    let (mut writer, body) = body(None, spill(100, 250));
    let mut reader = body.reader();
    let append = |writer: &mut BodyWriter, at: u64| {
        writer.append(pattern(at, 50)).expect("it has a reader");
    };
    append(&mut writer, 0);
    assert!(!waits(writer.wait_for_room()));
    append(&mut writer, 50);
    run(writer.wait_for_room());
    assert!(matches!(reader.try_next(10), Piece::File { offset: 0, len: 10, .. }));
    append(&mut writer, 100);
    append(&mut writer, 150);
    run(writer.wait_for_room());
    assert!(writer.take_spilled().is_some() && writer.take_spilled().is_none(), "it is told once");
    append(&mut writer, 200);
    append(&mut writer, 250);
    assert!(waits(writer.wait_for_room()), "the file would grow past its limit");
    let held = reader.try_next(1000);
    assert!(matches!(held, Piece::File { offset: 10, len: 190, .. }));
    assert!(waits(writer.wait_for_room()) || writer.has_readers());
    // The reader is past the file: a new one may be begun, and the old bytes stay as they were.
    run(writer.wait_for_room());
    append(&mut writer, 300);
    append(&mut writer, 350);
    run(writer.wait_for_room());
    assert_eq!(bytes_of(&held), Some(pattern(10, 190)));
    writer.finish();
    let (rest, end) = drain(&mut reader, 64);
    assert_eq!(rest, pattern(200, 200));
    assert!(matches!(end, Piece::End));
    assert!(body.take_trouble().is_none());
}

#[test]
fn without_a_file_the_writer_waits_for_the_slowest_reader() {
    let (mut writer, body) = body(None, None);
    let mut fast = body.reader();
    let mut slow = body.reader();
    writer.append(pattern(0, UNSPILLED_BYTES_MAX)).expect("it has readers");
    assert!(waits(writer.wait_for_room()));
    drain(&mut fast, usize::MAX);
    assert!(waits(writer.wait_for_room()));
    drop(slow.try_next(1));
    assert!(waits(writer.wait_for_room()), "a piece is freed as a whole");
    drain(&mut slow, usize::MAX);
    assert!(!waits(writer.wait_for_room()));
    assert!(!body.has_its_start());
    let mut late = body.reader();
    assert!(matches!(late.try_next(1), Piece::Failed(_)));
}

#[test]
fn a_folder_that_cannot_be_written_is_trouble_for_the_log_only() {
    let spill =
        Spill { dir: NOWHERE.into(), system_dir: Path::new(NOWHERE), memory_bytes_max: 10, file_bytes_max: 1000 };
    let (mut writer, body) = body(None, Some(spill));
    let mut reader = body.reader();
    writer.append(pattern(0, 20)).expect("it has a reader");
    run(async {
        let waited = tokio::time::timeout(Duration::from_millis(50), writer.wait_for_room()).await;
        assert!(waited.is_err(), "it waits for the reader instead");
    });
    let trouble = writer.take_trouble().expect("the log is told");
    assert!(trouble.contains(NOWHERE), "{trouble}");
    assert!(writer.take_trouble().is_none(), "and told once");
    drain(&mut reader, 100);
    assert!(!waits(writer.wait_for_room()));
    writer.append(pattern(20, 5)).expect("it has a reader");
    writer.finish();
    assert_eq!(drain(&mut reader, 100).0, pattern(20, 5));
}

#[test]
fn a_folder_that_is_not_there_is_replaced_by_the_systems() {
    let file = tempfile::NamedTempFile::new().expect("a temp file can be made");
    let beneath = file.path().join("folder");
    for dir in [NOWHERE.into(), beneath] {
        let spill = Spill { dir, system_dir: Path::new("/tmp"), memory_bytes_max: 10, file_bytes_max: 1000 };
        let (mut writer, body) = body(None, Some(spill));
        let mut reader = body.reader();
        writer.append(pattern(0, 20)).expect("it has a reader");
        run(writer.wait_for_room());
        assert!(writer.take_trouble().is_none());
        assert!(matches!(reader.try_next(20), Piece::File { .. }));
    }
}

#[test]
fn what_nobody_reads_or_stores_is_not_taken() {
    let (mut writer, body) = body(None, None);
    writer.append(pattern(0, 5)).expect("a reader may still come");
    let reader = body.reader();
    assert!(writer.has_readers() && waits(writer.readers_gone()));
    drop(reader);
    assert!(!writer.has_readers() && !waits(writer.readers_gone()));
    assert_eq!(writer.append(pattern(5, 5)), Err(BodyError::Unwanted));

    let budget = Budget::new(100);
    let (mut writer, body) = super::body(reserved(&budget), None);
    drop(body.reader());
    writer.append(pattern(0, 5)).expect("a stored body needs no reader");
    let (mut unread, _body) = super::body(reserved(&budget), None);
    unread.append(pattern(0, 5)).expect("a stored body needs no reader");
    assert_eq!(
        unread.append(pattern(5, 500)),
        Err(BodyError::Unwanted),
        "a page that nobody waits for ends where the room does"
    );
}

#[test]
fn a_small_passed_body_is_whole_in_the_end() {
    let (mut writer, body) = body(None, None);
    writer.append(pattern(0, 5)).expect("a reader may still come");
    writer.append(pattern(5, 5)).expect("a reader may still come");
    writer.finish();
    assert_eq!(body.whole().map(Whole::len), Some(10));
    assert!(!body.is_stored());
    let made = Body::of(pattern(0, 3), None);
    assert_eq!(made.whole().and_then(|whole| whole.to_vec().ok()), Some(pattern(0, 3).to_vec()));
}

#[test]
fn readers_on_other_threads_see_bytes_as_they_come() {
    for (stored, total) in [(true, 3_000_000_u64), (false, 3_000_000)] {
        let budget = Budget::new(1 << 23);
        let (mut writer, body) = body(stored.then(|| reserved(&budget)).flatten(), spill(20_000, 400_000));
        let readers: Vec<_> = (0..4_u64)
            .map(|number| {
                let mut reader = body.reader();
                thread::spawn(move || {
                    run(async {
                        let mut at = 0;
                        loop {
                            let piece = reader.next(10_000 + number as usize).await;
                            match bytes_of(&piece) {
                                Some(data) => {
                                    assert_eq!(data, pattern(at, data.len()));
                                    at += data.len() as u64;
                                    assert_eq!(at, reader.at());
                                }
                                None => {
                                    assert!(matches!(piece, Piece::End), "{piece:?}");
                                    return at;
                                }
                            }
                        }
                    })
                })
            })
            .collect();
        run(async {
            let mut at = 0;
            while at < total {
                let len = (at % 9000 + 1).min(total - at);
                writer.append(pattern(at, len as usize)).expect("it has readers");
                at += len;
                writer.wait_for_room().await;
            }
        });
        writer.finish();
        for reader in readers {
            assert_eq!(reader.join().expect("no reader panics"), total);
        }
        drop(body);
        // A big one is given back by and by.
        while budget.used() > 0 {
            thread::yield_now();
        }
    }
}

#[test]
fn a_reader_is_woken_by_the_append_it_waits_for() {
    let (mut writer, body) = body(None, None);
    let mut reader = body.reader();
    let (told, first) = std::sync::mpsc::channel();
    let thread = thread::spawn(move || {
        run(async {
            let piece = reader.next(100).await;
            told.send(bytes_of(&piece)).expect("the test listens");
            matches!(reader.next(100).await, Piece::End)
        })
    });
    writer.append(pattern(0, 3)).expect("it has a reader");
    assert_eq!(first.recv().expect("the reader lives"), Some(pattern(0, 3)));
    writer.finish();
    assert!(thread.join().expect("the reader does not panic"));
}

#[test]
fn a_temporary_file_can_be_read_by_its_descriptor() {
    let (mut writer, body) = body(None, spill(1, 1000));
    let mut reader = body.reader();
    writer.append(pattern(0, 500)).expect("it has a reader");
    run(writer.wait_for_room());
    let Piece::File { file, offset, len } = reader.try_next(200) else {
        panic!("it went to the file");
    };
    let mut data = vec![0; len];
    let mut file = file.try_clone().expect("descriptors can be copied");
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(offset)).expect("it is a file");
    file.read_exact(&mut data).expect("it is all there");
    assert_eq!(data, pattern(0, 200));
}
