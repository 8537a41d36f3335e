//! What is read off disks.

use larder_store::fuzzing;

/// Records, tables, bans, superblocks, words of purges, and the heads of objects: what was read is written and read as the same.
///
/// Checksums are made right first, or nothing would get past them.
pub fn disk_records(data: &[u8]) {
    for (what, rewrite) in fuzzing::FORMATS {
        let Some(once) = rewrite(data) else {
            continue;
        };
        assert_eq!(rewrite(&once).as_ref(), Some(&once), "{what}");
    }
    if let Some(once) = str::from_utf8(data).ok().and_then(larder_cache::fuzzing::purge_words) {
        assert_eq!(larder_cache::fuzzing::purge_words(&once), Some(once));
    }
    let decoded = larder_cache::object_of_head(data);
    let Some(once) = decoded.as_ref().map(larder_cache::fuzzing::head_of_object) else {
        return;
    };
    let again = larder_cache::object_of_head(&once).expect("we wrote it");
    assert_eq!(larder_cache::fuzzing::head_of_object(&again), once);
}
