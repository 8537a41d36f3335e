//! Makes the folders for temporary files, cached pages and issued certificates, and gives them to the serving process's
//! user, while we are still root.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use larder_conf::model::Config;
use rustix::fs::{Mode, OFlags};

use crate::account::Account;
use crate::levels;
use crate::links;
use crate::oserror::CallFailed;

/// Makes every folder of `config` for temporary files, caches and certificates, if it does not exist, and gives it to
/// `owner`, as nginx does.
pub fn make_all(config: &Config, owner: Option<&Account>) -> Result<(), CallFailed> {
    of(config).iter().try_for_each(|folder| make(folder, owner))?;
    let Some(state) = issued(config) else { return Ok(()) };
    // This folder is larder's own, so its parent may not exist either.
    if let Some(parent) = state.parent() {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(parent);
        made.map_err(|error| CallFailed::on("mkdir", parent.display(), error))?;
    }
    make(state, owner)
}

/// The folder for certificates of `larder_acme`.
fn issued(config: &Config) -> Option<&Path> {
    let orders = config.http.servers.iter().any(|server| server.acme.is_some());
    config.acme.as_ref().filter(|_| orders).map(|account| account.state.value.as_path())
}

/// The folders of nginx's directives, each once.
fn of(config: &Config) -> BTreeSet<PathBuf> {
    let caches = config.http.cache_paths.iter().map(|cache| cache.path.clone());
    let temporary = levels::settings(config).into_iter().flat_map(|settings| {
        let origins = [&settings.fastcgi.origin, &settings.proxy.origin];
        let origins = origins.map(|origin| origin.buffers.temp_path.clone());
        origins.into_iter().chain([settings.body.temp_path.clone()]).flatten()
    });
    caches.chain(temporary).collect()
}

/// What another user's link leads to is never given away: that user may have made the link for root's own folders. It may
/// be used where it belongs to `owner` already.
fn make(folder: &Path, owner: Option<&Account>) -> Result<(), CallFailed> {
    let failed = |call| move |error| CallFailed::on(call, folder.display(), error);
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(failed("mkdir")(error));
        }
        _ => {}
    }
    let Some(owner) = owner else { return Ok(()) };
    let metadata = fs::metadata(folder).map_err(failed("stat"))?;
    if metadata.uid() == owner.uid {
        return Ok(());
    }
    let opened = links::open(folder, OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).map_err(failed("open"))?;
    links::give(opened, owner.uid, None).map_err(failed("chown"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_link_of_another_user_leads_to_is_not_given_away() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let owner = Account { name: "somebody".to_owned(), uid: 65534, gid: 65534, binds_anywhere: false };
        let (ours, link) = (place.path().join("ours"), place.path().join("link"));
        let owner_of = |path: &Path| fs::metadata(path).unwrap().uid();
        fs::create_dir(&ours).unwrap();
        std::os::unix::fs::symlink(&ours, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(owner.uid), None).unwrap();
        for folder in [link.clone(), link.join("made")] {
            let said = make(&folder, Some(&owner)).unwrap_err().to_string();
            assert!(said.contains("is a symbolic link that another user than root has made"), "{said}");
            assert_eq!(owner_of(&folder), 0);
        }
        // As an administrator moves a cache to another disk.
        std::os::unix::fs::lchown(&link, Some(0), None).unwrap();
        make(&link, Some(&owner)).unwrap();
        assert_eq!(owner_of(&ours), owner.uid);
        // It has it already.
        std::os::unix::fs::lchown(&link, Some(owner.uid), None).unwrap();
        make(&link, Some(&owner)).unwrap();
    }

    #[test]
    fn a_folder_is_made_once_and_its_parent_is_not() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cache");
        for _ in 0..2 {
            make(&folder, None).unwrap();
            assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        let deep = place.path().join("a/b");
        let said = make(&deep, None).unwrap_err().to_string();
        assert_eq!(said, format!("mkdir() \"{}\" failed (2: No such file or directory)", deep.display()));
    }
}
