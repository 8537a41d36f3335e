//! Makes the folders for temporary files, cached pages and issued certificates, and gives them to the serving process's
//! user, while we are still root.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown};
use std::path::{Path, PathBuf};

use larder_conf::model::Config;

use crate::account::Account;
use crate::levels;
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
    if metadata.uid() != owner.uid {
        chown(folder, Some(owner.uid), None).map_err(failed("chown"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

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
