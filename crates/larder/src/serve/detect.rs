//! Detects what is in a folder: WordPress, another PHP application, or files.

use std::fmt;
use std::path::{Path, PathBuf};

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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Application {
    /// WordPress, whose personal cookies and paths we know.
    WordPress,
    /// An unknown application with an `index.php`.
    Php,
    /// No PHP.
    Files,
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Application::WordPress => "WordPress",
            Application::Php => "a PHP application",
            Application::Files => "files",
        })
    }
}

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
    let application = match is_wordpress(&root) {
        true => Application::WordPress,
        false => Application::Php,
    };
    Ok(Site { root, application })
}

/// WordPress may be beside the front controller, or in its own folder, as with Bedrock.
fn is_wordpress(root: &Path) -> bool {
    let places = ["", "wp", "wordpress", "cms"].map(|name| root.join(name));
    places.iter().any(|place| WORDPRESS_FILES.iter().any(|file| place.join(file).is_file()))
}

const PUBLIC_FOLDERS: [&str; 6] = ["public", "web", "htdocs", "public_html", "www", "html"];
const WORDPRESS_FILES: [&str; 2] = ["wp-includes/version.php", "wp-load.php"];

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_root_and_the_application_follow_from_the_files() {
        for (files, root, application) in [
            (&[][..], "", Application::Files),
            (&["index.html"], "", Application::Files),
            (&["a/index.php"], "", Application::Files),
            (&["index.php"], "", Application::Php),
            (&["index.php", "public/index.php"], "", Application::Php),
            (&["composer.json", "public/index.php"], "public", Application::Php),
            (&["htdocs/index.php"], "htdocs", Application::Php),
            (&["index.php", "wp-includes/version.php"], "", Application::WordPress),
            (&["index.php", "wp-load.php"], "", Application::WordPress),
            (&["index.php", "wordpress/wp-load.php"], "", Application::WordPress),
            (&["web/index.php", "web/wp/wp-load.php"], "web", Application::WordPress),
            (&["web/index.php", "web/app.php"], "web", Application::Php),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for file in files {
                let path = folder.path().join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, "").unwrap();
            }
            let expected = Site { root: folder.path().canonicalize().unwrap().join(root), application };
            let found = site(folder.path()).unwrap();
            // `join("")` adds a slash, which is the same path.
            assert_eq!(found.root.components().collect::<PathBuf>(), expected.root.components().collect::<PathBuf>());
            assert_eq!(found.application, expected.application, "{files:?}");
        }
    }

    #[test]
    fn what_is_no_folder_is_said_to_be_none() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(matches!(site(file.path()), Err(DetectError::NotFolder(_))));
        assert!(matches!(site(Path::new("/no/such")), Err(DetectError::Absent { .. })));
    }
}
