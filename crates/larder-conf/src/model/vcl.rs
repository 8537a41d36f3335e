//! `vcl` and `vcl_parameter`: the VCL in front of what a location serves.

use std::path::{Path, PathBuf};

use super::At;

/// The VCL of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VclSettings {
    /// `vcl`; `None` for `off`.
    pub file: Option<At<PathBuf>>,
    /// `vcl_parameter`: names and values, in order.
    pub parameters: Vec<(At<String>, String)>,
    /// `vcl_identity`: `server.identity`; the name of the machine if it is not given.
    pub identity: Option<String>,
    /// `vcl_endpoint`: names of addresses to listen at, for `local.socket`, each with its address.
    pub endpoints: Vec<(String, String)>,
    /// `vcl_label`: names of other VCLs, each with its file, in order.
    pub labels: Vec<(String, At<PathBuf>)>,
    /// `vcl_name`: what the files of VCLs are called in the transaction log.
    pub names: Vec<(String, PathBuf)>,
    /// `vcl_raw_requests`, off: the VCL judges requests without a host, and paths that have no normal form.
    pub raw_requests: bool,
}

impl VclSettings {
    /// What the VCL of a file is called; its path if nothing says it.
    pub fn name_of(&self, file: &Path) -> String {
        let named = self.names.iter().rev().find(|(_, known)| known == file);
        named.map_or_else(|| file.display().to_string(), |(name, _)| name.clone())
    }

    /// The VCL that has a label: of several lines for it, the last one counts.
    pub fn labelled(&self, label: &str) -> Option<&At<PathBuf>> {
        self.labels.iter().rev().find(|(name, _)| name == label).map(|(_, file)| file)
    }
}
