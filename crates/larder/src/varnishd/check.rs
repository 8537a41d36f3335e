//! `-C`: a VCL is checked, and not used.

use std::path::Path;

use super::options::{Check, Source as Asked};
use super::say;
use super::vcls::{Source, Surroundings};

/// Whether all VCLs that are asked for are right. Prints what there is to say about them.
pub fn run(check: &Check) -> bool {
    sources(&check.source, &check.settings.vcl_path()).iter().all(|source| is_right(source, check))
}

/// The VCLs that a command line names.
pub fn sources(asked: &Asked, vcl_path: &[std::path::PathBuf]) -> Vec<Source> {
    match asked {
        Asked::Files(paths) => {
            paths.iter().map(|path: &std::path::PathBuf| Source::file(Path::new(path), vcl_path)).collect()
        }
        Asked::Backend(place) => vec![Source::backend(place)],
    }
}

fn is_right(source: &Source, check: &Check) -> bool {
    let surroundings = Surroundings { settings: &check.settings, storages: &check.storages, labels: &[] };
    let path = source.path.display();
    match source.compile("boot", surroundings) {
        Ok((_, notices)) => {
            say(&format!("{notices}larder: the VCL {path} is right\n"));
            true
        }
        Err(errors) => {
            say(&format!("{errors}larder: the VCL {path} cannot be used\n"));
            false
        }
    }
}
