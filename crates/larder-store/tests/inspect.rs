//! What is seen of a shelf from outside.

mod real;
mod simulated;

use std::io::Read;

use larder_store::Inspect;
use real::{MB, Site, bytes, page, read};

#[test]
fn a_folder_can_be_inspected_while_it_is_in_use() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    for (key, len) in [("a", 10), ("b", 900_000), ("a", 20), ("c", 30)] {
        shelf.store(page(key, 0, bytes(len, 5)), 1000).expect("there is room");
    }
    shelf.remove(b"c", None, 1000);
    assert!(shelf.flush_blocking());
    for is_in_use in [true, false] {
        let inspect = Inspect::open(site.dir.path()).expect("it is a shelf");
        assert_eq!(inspect.is_in_use().expect("it can be asked"), is_in_use);
        let mut live = Vec::new();
        inspect
            .records(|view| {
                if view.live {
                    live.push((String::from_utf8_lossy(view.key).into_owned(), view.body_len));
                }
            })
            .expect("it can be read");
        assert_eq!(live, [("a".into(), 20), ("b".into(), 900_000)]);
        let report = inspect.verify(|finding| panic!("{finding:?}")).expect("it can be read");
        assert_eq!((report.live, report.findings), (2, 0));
        assert_eq!(inspect.clear().is_err(), is_in_use);
        shelf.stop();
    }
    assert!(!site.dir.path().join("0000000000000001.segment").exists());
    let mut magic = [0; 8];
    let mut superblock = std::fs::File::open(site.dir.path().join("larder.shelf")).expect("it is there");
    superblock.read_exact(&mut magic).expect("it is long enough");
    assert_eq!(&magic, b"LRDSHELF");
}

#[test]
fn a_segment_that_was_cut_is_said_and_read_as_far_as_it_goes() {
    let site = Site::new(64 * MB);
    let shelf = site.open();
    shelf.store(page("a", 0, "in front"), 1000).expect("there is room");
    assert!(shelf.flush_blocking());
    shelf.stop();
    let path = site.dir.path().join("0000000000000001.segment");
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("it is there");
    let len = file.metadata().expect("it is open").len();
    file.set_len(len - 100_000).expect("it can be cut");
    let inspect = Inspect::open(site.dir.path()).expect("it is a shelf");
    let mut findings = Vec::new();
    let report = inspect.verify(|finding| findings.push((finding.segment, finding.offset))).expect("it can be read");
    assert_eq!((report.segments, report.live, report.findings), (1, 1, 1));
    assert_eq!(findings, [(1, (len - 100_000) as u32)]);
    let shelf = site.open();
    assert!(shelf.flush_blocking());
    assert_eq!(read(&shelf, "a", 1000).len(), 1, "the shelf goes by the same");
}

#[test]
fn a_page_of_which_a_part_was_evicted_is_a_miss_and_no_damage() {
    let site = Site::new(2 * MB);
    let shelf = site.open();
    let mut partial = 0;
    for number in 0..20 {
        shelf.store(page(&format!("{number}"), 0, bytes(300_000, 1)), 1000).expect("there is room");
        assert!(shelf.flush_blocking());
        let is_there = |number: &u32| !read(&shelf, &number.to_string(), 1000).is_empty();
        let there = (0..=number).filter(is_there).count() as u64;
        let inspect = Inspect::open(site.dir.path()).expect("it is a shelf");
        let report = inspect.verify(|finding| panic!("{finding:?}")).expect("it can be read");
        assert_eq!((report.live, report.findings), (there, 0));
        let mut heads = 0;
        inspect.records(|view| heads += u64::from(!view.key.is_empty())).expect("it can be read");
        partial += heads - there;
    }
    assert!(partial > 0, "pages left as a whole");
}
