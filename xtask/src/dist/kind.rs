//! The kinds of packages.

use std::path::{Path, PathBuf};

use super::error::DistError;
use super::program::Program;
use super::{deb, oci, rpm, tarball};

/// A kind of package.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Debian's and Ubuntu's.
    Deb,
    /// Fedora's, RHEL's and their kin's.
    Rpm,
    /// A static program and its files.
    Tarball,
    /// An image of a container.
    Oci,
}

/// A package that is tried, as two versions.
pub struct Tried {
    /// Its kind.
    pub kind: Kind,
    /// What is installed first.
    pub old: PathBuf,
    /// What it is upgraded to.
    pub new: PathBuf,
}

impl Kind {
    /// All, by name.
    pub const ALL: [(&str, Kind); 4] =
        [("deb", Kind::Deb), ("rpm", Kind::Rpm), ("tarball", Kind::Tarball), ("oci", Kind::Oci)];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        Kind::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Makes the package in `out`; a `revision` follows the version where there are revisions.
    pub fn make(self, root: &Path, out: &Path, program: &Program, revision: &str) -> Result<PathBuf, DistError> {
        match self {
            Kind::Deb => deb::make(root, out, program, revision),
            Kind::Rpm => rpm::make(root, out, program, revision),
            Kind::Tarball => tarball::make(root, out, program),
            Kind::Oci => oci::make(root, out, program),
        }
    }

    /// Whether two packages of one version may differ.
    pub fn has_revisions(self) -> bool {
        match self {
            Kind::Deb | Kind::Rpm => true,
            Kind::Tarball | Kind::Oci => false,
        }
    }
}
