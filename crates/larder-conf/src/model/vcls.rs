//! The VCLs that a configuration uses.

use std::collections::HashSet;
use std::path::PathBuf;

use super::{At, Config, Handler, Location, Rewrite};

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
}

/// The VCLs that a configuration uses, each once.
pub fn vcls(config: &Config) -> Vec<VclUse> {
    let mut uses = Uses::default();
    for server in &config.http.servers {
        uses.location(&server.root);
        uses.script(&server.script);
    }
    uses.found
}

#[derive(Default)]
struct Uses {
    found: Vec<VclUse>,
    known: HashSet<PathBuf>,
}

impl Uses {
    fn location(&mut self, location: &Location) {
        let has_handler = matches!(location.handler, Handler::Proxy(_) | Handler::FastCgi(_));
        let settings = &location.settings.modules.vcl;
        if let Some(file) = &settings.file {
            if self.known.insert(file.value.clone()) {
                let (parameters, identity) = (settings.parameters.clone(), settings.identity.clone());
                self.found.push(VclUse { file: file.clone(), parameters, identity, has_handler });
            } else if let Some(used) = self.found.iter_mut().find(|used| used.file.value == file.value) {
                used.has_handler |= has_handler;
            }
        }
        self.script(&location.script);
        if let Some(limit) = &location.limit_except {
            self.location(&limit.location);
        }
        location.locations.iter().for_each(|inside| self.location(inside));
    }

    fn script(&mut self, script: &[Rewrite]) {
        for step in script {
            if let Rewrite::If { location, script, .. } = step {
                self.script(script);
                if let Some(location) = location {
                    self.location(location);
                }
            }
        }
    }
}
