//! Detects what is in a folder: applications that have a profile, another PHP application, or files.

use std::fmt;
use std::path::{Path, PathBuf};

use larder_conf::profiles;

use crate::oserror::Reason;

/// The site to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site {
    /// The document root.
    pub root: PathBuf,
    /// The application in it.
    pub application: Application,
}

/// The application of a site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Application {
    /// One in PHP, by the names of its profiles.
    Php(Vec<&'static str>),
    /// No PHP.
    Files,
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Application::Php(profiles) if profiles[..] == [UNKNOWN] => f.write_str("a PHP application"),
            Application::Php(profiles) => f.write_str(&profiles::joined(profiles.iter().copied())),
            Application::Files => f.write_str("files"),
        }
    }
}

/// The profile of an application that is not known.
pub const UNKNOWN: &str = "php";

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DetectError {
    /// It does not exist, or cannot be entered.
    #[error("{} cannot be served {}", folder.display(), Reason(source))]
    Absent {
        /// As given.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It is a file.
    #[error("{} is not a folder", .0.display())]
    NotFolder(PathBuf),
}

/// Detects the site in `folder`, or in a subfolder such as `public` or `web`.
pub fn site(folder: &Path) -> Result<Site, DetectError> {
    let folder = folder.canonicalize().map_err(|source| DetectError::Absent { folder: folder.to_owned(), source })?;
    if !folder.is_dir() {
        return Err(DetectError::NotFolder(folder));
    }
    let inner = PUBLIC_FOLDERS.iter().map(|name| folder.join(name));
    let with_php = std::iter::once(folder.clone()).chain(inner).find(|root| root.join("index.php").is_file());
    let Some(root) = with_php else {
        return Ok(Site { root: folder, application: Application::Files });
    };
    let found = profiles::detect(&mut |file| root.join(file).is_file());
    let names: Vec<&str> = found.iter().map(|found| found.profile.name).collect();
    let application = Application::Php(if names.is_empty() { vec![UNKNOWN] } else { names });
    Ok(Site { root, application })
}

const PUBLIC_FOLDERS: [&str; 6] = ["public", "web", "htdocs", "public_html", "www", "html"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_root_and_the_application_follow_from_the_files() {
        for (files, root, application) in [
            (&[][..], "", "files"),
            (&["index.html"], "", "files"),
            (&["a/index.php"], "", "files"),
            (&["index.php"], "", "a PHP application"),
            (&["index.php", "public/index.php"], "", "a PHP application"),
            (&["composer.json", "public/index.php"], "public", "a PHP application"),
            (&["htdocs/index.php"], "htdocs", "a PHP application"),
            (&["index.php", "wp-includes/version.php"], "", "wordpress"),
            (&["index.php", "wp-load.php"], "", "wordpress"),
            (&["index.php", "wordpress/wp-load.php"], "", "wordpress"),
            (&["web/index.php", "web/wp/wp-load.php"], "web", "wordpress"),
            (&["index.php", "wp-load.php", "wp-content/plugins/bbpress/bbpress.php"], "", "wordpress and bbpress"),
            (&["artisan", "public/index.php"], "public", "laravel"),
            (&["web/index.php", "web/app.php"], "web", "a PHP application"),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                let path = folder.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            let expected = folder.path().canonicalize().unwrap().join(root);
            let found = site(folder.path()).unwrap();
            // `join("")` adds a slash, which is the same path.
            assert_eq!(found.root.components().collect::<PathBuf>(), expected.components().collect::<PathBuf>());
            assert_eq!(found.application.to_string(), application, "{files:?}");
        }
    }

    #[test]
    fn what_is_no_folder_is_said_to_be_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(site(file.path()), Err(DetectError::NotFolder(_))));
        assert!(matches!(site(Path::new("/no/such")), Err(DetectError::Absent { .. })));
    }
}
