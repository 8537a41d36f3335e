//! `random_index`: a random file of a folder (ngx_http_random_index_module).

use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// Chooses by `random` one of the files in `folder` whose names do not begin with a dot; `None` if there is none.
pub fn choose(folder: &[u8], random: u64) -> io::Result<Option<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(std::ffi::OsStr::from_bytes(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type()?;
        // A link counts as its target; one that leads nowhere is skipped.
        let is_file =
            kind.is_file() || kind.is_symlink() && std::fs::metadata(entry.path()).is_ok_and(|to| to.is_file());
        if is_file {
            names.push(name.as_bytes().to_vec());
        }
    }
    let Some(last) = names.len().checked_sub(1) else { return Ok(None) };
    let chosen = usize::try_from(random % (last as u64 + 1)).unwrap_or(0);
    Ok(Some(names.swap_remove(chosen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_may_be_chosen_and_nothing_else() {
        let dir = ::tempfile::tempdir().expect("a temp dir can be made");
        let path = |name: &str| dir.path().join(name);
        let folder = dir.path().as_os_str().as_bytes();
        std::fs::create_dir(path("folder")).expect("made");
        std::fs::write(path(".hidden"), "").expect("written");
        std::os::unix::fs::symlink(path("folder"), path("link-to-folder")).expect("made");
        std::os::unix::fs::symlink(path("nowhere"), path("broken")).expect("made");
        assert_eq!(choose(folder, 7).expect("read"), None);
        std::fs::write(path("a"), "").expect("written");
        std::os::unix::fs::symlink(path("a"), path("b")).expect("made");
        let mut chosen: Vec<_> = (0..2).map(|random| choose(folder, random).expect("read").expect("a file")).collect();
        chosen.sort();
        assert_eq!(chosen, [b"a", b"b"]);
        assert!(choose(b"/no/such/folder", 0).is_err());
    }
}
