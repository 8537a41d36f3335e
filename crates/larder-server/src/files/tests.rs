//! Tests of opening files, in a real directory.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::*;

/// ```text
/// file           regular, 5 bytes
/// dir/file       regular
/// pipe           FIFO
/// link -> file   dirlink -> dir   loop -> loop
/// ```
fn tree() -> ::tempfile::TempDir {
    let dir = ::tempfile::tempdir().expect("a temp dir can be made");
    let at = |name: &str| dir.path().join(name);
    std::fs::write(at("file"), "hello").expect("written");
    std::fs::create_dir(at("dir")).expect("made");
    std::fs::write(at("dir/file"), "x").expect("written");
    symlink("file", at("link")).expect("linked");
    symlink("dir", at("dirlink")).expect("linked");
    symlink("loop", at("loop")).expect("linked");
    rustix::fs::mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("a FIFO can be made");
    dir
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

fn outcome(result: Result<Opened, OpenError>) -> &'static str {
    match result {
        Ok(opened) if opened.is_dir => "directory",
        Ok(opened) if opened.is_regular => "file",
        Ok(_) => "neither",
        Err(OpenError::NotFound(_)) => "not found",
        Err(OpenError::Forbidden(_)) => "forbidden",
        Err(OpenError::NameTooLong(_)) => "too long",
        Err(OpenError::Loop(_)) => "loop",
        Err(OpenError::Other(_)) => "other",
    }
}

#[test]
fn each_kind_of_name_opens_as_in_nginx() {
    let dir = tree();
    let long = "n".repeat(300);
    for (name, off, on) in [
        ("file", "file", "file"),
        ("dir", "directory", "directory"),
        ("dir/", "directory", "directory"),
        ("file/", "not found", "not found"),
        ("dir//file", "file", "file"),
        ("none", "not found", "not found"),
        ("file/none", "not found", "not found"),
        ("pipe", "neither", "neither"),
        ("link", "file", "loop"),
        ("dirlink/file", "file", "not found"),
        ("dirlink", "directory", "loop"),
        ("loop", "loop", "loop"),
        ("nul\0", "not found", "not found"),
        (&long, "too long", "too long"),
    ] {
        let path = [bytes(dir.path()), b"/", name.as_bytes()].concat();
        assert_eq!(outcome(open(&path, &LinkPolicy::Off)), off, "{name} with links");
        assert_eq!(outcome(open(&path, &LinkPolicy::On { from_len: 0 })), on, "{name} without links");
        // One user owns all files here, so links are followed; the loop is still a loop.
        let owned = outcome(open(&path, &LinkPolicy::IfNotOwner { from_len: 0 }));
        assert_eq!(owned, off, "{name} with links of one owner");
    }
}

#[test]
fn stat_sees_what_open_sees() {
    let dir = tree();
    for name in ["file", "dir", "link", "pipe", "none"] {
        let path = dir.path().join(name);
        for policy in [LinkPolicy::Off, LinkPolicy::On { from_len: 0 }] {
            let opened = open(bytes(&path), &policy).map(|opened| (opened.len, opened.inode, opened.is_regular));
            let seen = stat(bytes(&path), &policy).map(|facts| (facts.len, facts.inode, facts.is_regular));
            assert_eq!(opened.is_ok(), seen.is_ok(), "{name} {policy:?}");
            if let (Ok(opened), Ok(seen)) = (opened, seen) {
                assert_eq!(opened, seen, "{name} {policy:?}");
            }
        }
    }
}

#[test]
fn links_before_from_are_followed() {
    let dir = tree();
    let path = [bytes(dir.path()), b"/dirlink/file"].concat();
    let from_len = path.len() - "/file".len();
    assert_eq!(outcome(open(&path, &LinkPolicy::On { from_len })), "file");
    // A place that is not a slash, or is past the end, is ignored.
    for from_len in [from_len - 1, path.len() + 9] {
        assert_eq!(outcome(open(&path, &LinkPolicy::On { from_len })), "not found", "{from_len}");
    }
}

/// Needs the right to give files away; without it nothing is tested.
#[test]
fn links_of_another_owner_are_refused() {
    let dir = tree();
    for link in ["link", "dirlink"] {
        let nobody = Some(rustix::fs::Uid::from_raw(65_534));
        let path = dir.path().join(link);
        if rustix::fs::chownat(CWD, &path, nobody, None, AtFlags::SYMLINK_NOFOLLOW).is_err() {
            return;
        }
    }
    for (name, expected) in [("file", "file"), ("link", "loop"), ("dirlink/file", "loop"), ("dirlink", "loop")] {
        let path = [bytes(dir.path()), b"/", name.as_bytes()].concat();
        let found = outcome(open(&path, &LinkPolicy::IfNotOwner { from_len: 0 }));
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn from_counts_in_whole_components() {
    let on = DisableSymlinks::On { from: None };
    for (from, path, policy) in [
        ("", "/a/b", LinkPolicy::On { from_len: 0 }),
        ("/a", "/a/b", LinkPolicy::On { from_len: 2 }),
        ("/a/", "/a/b", LinkPolicy::On { from_len: 2 }),
        ("/a", "/ab/c", LinkPolicy::On { from_len: 0 }),
        ("/x", "/a/b", LinkPolicy::On { from_len: 0 }),
        ("/a/b", "/a/b", LinkPolicy::Off),
        ("/a/b/c", "/a/b", LinkPolicy::On { from_len: 0 }),
    ] {
        assert_eq!(LinkPolicy::new(&on, from.as_bytes(), path.as_bytes()), policy, "{from} of {path}");
    }
    let owner = DisableSymlinks::IfNotOwner { from: None };
    assert_eq!(LinkPolicy::new(&owner, b"/a", b"/a/b"), LinkPolicy::IfNotOwner { from_len: 2 });
    assert_eq!(LinkPolicy::new(&DisableSymlinks::Off, b"/a", b"/a/b"), LinkPolicy::Off);
}

#[test]
fn errors_have_nginxs_status_and_words() {
    for (errno, status, text) in [
        (Errno::NOENT, 404, "open() \"/a\" failed (2: No such file or directory)"),
        (Errno::NOTDIR, 404, "open() \"/a\" failed (20: Not a directory)"),
        (Errno::NAMETOOLONG, 404, "open() \"/a\" failed (36: File name too long)"),
        (Errno::ACCESS, 403, "open() \"/a\" failed (13: Permission denied)"),
        (Errno::LOOP, 403, "open() \"/a\" failed (40: Too many levels of symbolic links)"),
        (Errno::MFILE, 500, "open() \"/a\" failed (24: Too many open files)"),
    ] {
        let error = OpenError::new("open()", errno);
        assert_eq!(error.status(), status, "{text}");
        assert_eq!(error.log_text(b"/a"), text);
    }
}
