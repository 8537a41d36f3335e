//! The VCLs that a configuration uses.

use std::path::PathBuf;

use super::{At, Config, Handler, Location, each_location};

/// A VCL that is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VclUse {
    /// Its file, as the first directive names it.
    pub file: At<PathBuf>,
    /// The parameters of the first location that uses it.
    pub parameters: Vec<(At<String>, String)>,
    /// `server.identity`, if that location names it.
    pub identity: Option<String>,
    /// Whether what a location serves without it answers where the VCL has no backend.
    pub has_handler: bool,
    /// The labels that it may name: those of all locations that use it.
    pub labels: Vec<String>,
}

/// The VCLs that a configuration uses, each once.
pub fn vcls(config: &Config) -> Vec<VclUse> {
    let mut found: Vec<VclUse> = Vec::new();
    for server in &config.http.servers {
        each_location(server, &mut |location| note(location, &mut found));
    }
    found
}

fn note(location: &Location, found: &mut Vec<VclUse>) {
    let has_handler = match location.handler {
        Handler::Proxy(_) | Handler::FastCgi(_) => true,
        Handler::Static => location.says_where_files_are() || location.answers_by_itself(),
        _ => false,
    };
    let settings = &location.settings.modules.vcl;
    let Some(file) = &settings.file else { return };
    let labelled = settings.labels.iter().filter_map(|(name, _)| settings.labelled(name));
    for file in std::iter::once(file).chain(labelled) {
        let at = found.iter().position(|used| used.file.value == file.value).unwrap_or_else(|| {
            found.push(VclUse {
                file: file.clone(),
                parameters: settings.parameters.clone(),
                identity: settings.identity.clone(),
                has_handler: false,
                labels: Vec::new(),
            });
            found.len() - 1
        });
        let used = &mut found[at];
        used.has_handler |= has_handler;
        for (name, _) in &settings.labels {
            if !used.labels.contains(name) {
                used.labels.push(name.clone());
            }
        }
    }
}
